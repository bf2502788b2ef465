"""Where targets come from: each kind against its definition, on inputs of every sort, and all wrong inputs."""

import re
import warnings
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given as cases
from hypothesis import strategies as st
from posteriors import PROPERTY, linear, pool_and_targets, reference_pairs, slow_bald, softmax
from scipy import sparse

import askwell
from askwell.seeds import rng_for
from askwell.targets import Sample, Targets, as_targets, class_prior, effective_size, from_pool, given
from askwell.targets.sampling import inclusion, representatives, subset, taken

FEATURES, DRAWS = 4, 30


@dataclass
class Toy:
    """A pool with a linear posterior of fixed draws, which writes down how many inputs it predicts at a time."""

    n: int = 300
    c: int = 3
    scale: float = 2.0
    asked: list = field(default_factory=list)

    def __post_init__(self):
        rng = rng_for(0, 0, "toy")
        self.x = rng.normal(size=(self.n, FEATURES))
        self.theta = rng.normal(size=(FEATURES, self.c)) + 0.4 * rng.normal(size=(DRAWS, FEATURES, self.c))

    def __len__(self):
        return self.n

    def take(self, positions):
        return self.x[positions]

    def belief(self, x):
        rows = np.asarray(x.toarray() if sparse.issparse(x) else x, float)
        self.asked.append(len(rows))
        return softmax(self.scale * np.einsum("nf,kfc->nkc", rows, self.theta))

    def sample(self, targets, *, seed=0, classes=None):
        classes = list("abcdefgh"[: self.c]) if classes is None else classes
        return targets.sample(self, self.belief, classes=classes, rng=rng_for(seed, 0, "targets"))


@dataclass
class Frame:
    """As much of a data frame as is asked for: rows by place, a method `sample`, a column called `fixed`."""

    values: np.ndarray
    fixed: str = "a column"

    @property
    def shape(self):
        return self.values.shape

    @property
    def iloc(self):
        return _Places(self.values)

    def sample(self):
        raise AssertionError("a frame is not a Targets")


@dataclass
class _Places:
    values: np.ndarray

    def __getitem__(self, places):
        return Frame(self.values[places])

    def __array__(self, dtype=None, copy=None):
        return self.values


def places(inputs, x):
    """Which of the inputs these are."""
    known = {row.tobytes(): place for place, row in enumerate(inputs)}
    return [known[row.tobytes()] for row in np.asarray(x)]


# ---- given ---------------------------------------------------------------------------------------------------------


def test_given_inputs_come_as_they_are_and_nobody_is_asked():
    pool, x = Toy(), np.ones((5, FEATURES))
    for weights, expected in ((None, None), ([1, 1, 2, 0, 0], [0.25, 0.25, 0.5, 0, 0])):
        sample = pool.sample(given(x, weights=weights))
        assert isinstance(sample, Sample)
        assert sample.x is x
        assert sample.weights is None if expected is None else np.allclose(sample.weights, expected)
    assert "effective size 3" in sample.note
    assert pool.asked == []


@pytest.mark.parametrize("kind", ["array", "list", "tuple", "frame", "sparse", "tensor"])
def test_rows_of_every_kind_of_inputs(kind):
    """Many given, few taken: in the kind they came in, and the same rows whatever the kind."""
    pool, many = Toy(), rng_for(1, 0, "many").normal(size=(200, FEATURES))
    made = {
        "array": lambda: many, "list": lambda: list(many), "tuple": lambda: tuple(many),
        "frame": lambda: Frame(many), "tensor": lambda: torch.as_tensor(many),
        "sparse": lambda: sparse.csr_matrix(many),
    }  # fmt: skip
    x = made[kind]()
    belief = pool.belief if kind != "frame" else lambda frame: pool.belief(frame.values)
    found = given(x, most=12).sample(pool, belief, classes="abc", rng=rng_for(0, 0, "targets"))
    assert type(found.x) is (list if kind == "tuple" else type(x))
    rows = found.x.values if kind == "frame" else found.x.toarray() if kind == "sparse" else np.asarray(found.x)
    np.testing.assert_array_equal(rows, pool.sample(given(many, most=12)).x)
    assert rows.shape == (12, FEATURES)


def test_few_of_many_given_are_the_representatives():
    """120 of 200 are looked at: what was looked at, and then what was kept, by the functions tested elsewhere."""
    pool, many = Toy(), rng_for(1, 0, "many").normal(size=(200, FEATURES))
    weights = np.arange(200.0)
    found = pool.sample(given(many, weights=weights, most=12), seed=5)
    assert sum(pool.asked) == 120
    rng = rng_for(5, 0, "targets")
    looked, w = subset(weights / weights.sum(), None, 120, rng=rng)
    kept, w = subset(w, slow_bald(pool.belief(many[looked])), 12, rng=rng)
    np.testing.assert_array_equal(found.x, many[looked[kept]])
    np.testing.assert_allclose(found.weights, w)
    assert found.note.startswith("12 of 200 given inputs, effective size 15")


def test_few_of_many_given_estimate_all_of_them():
    pool, many = Toy(), rng_for(1, 0, "many").normal(size=(400, FEATURES))
    pairs = reference_pairs(pool.belief(pool.x[:5]), pool.belief(many))
    truth, few, found = pairs.mean(axis=1), given(many, most=20), []
    for seed in range(150):
        sample = pool.sample(few, seed=seed)
        found.append(pairs[:, places(many, sample.x)] @ sample.weights)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - truth) < 4 * error + 0.02 * truth).all()


def test_given_is_redrawn_where_it_draws_at_all():
    pool, many = Toy(), rng_for(1, 0, "many").normal(size=(200, FEATURES))
    few = given(many, most=12)
    assert few.fixed is False
    np.testing.assert_array_equal(pool.sample(few, seed=1).x, pool.sample(few, seed=1).x)
    assert not np.array_equal(pool.sample(few, seed=1).x, pool.sample(few, seed=2).x)
    assert pool.sample(given(many, most=None)).x is many


def test_texts_are_inputs_too():
    texts = ["a text", "another"]
    assert Toy().sample(given(texts)).x is texts
    array = np.array(texts)
    assert Toy().sample(given(array)).x is array


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((0, 3)), "at least one target input"),
        ([], "at least one target input"),
        (np.zeros(3), r"x\.reshape\(-1, 1\)"),
        (torch.zeros(3), r"x\.reshape\(-1, 1\)"),
        ([1.0, 2.0], r"\[\[v\] for v in x\]"),
        (np.float64(3), "a single value|list of inputs"),
        (np.array(3.0), "a single value"),
        ("a text", "but it is str"),
        (3, "but it is int"),
        ((row for row in [[1.0]]), r"list\(x\)"),
        (sparse.dia_matrix(np.eye(3)), r"x\.tocsr\(\)"),
        (sparse.coo_matrix(np.eye(3)), r"x\.tocsr\(\)"),
        (sparse.bsr_matrix(np.eye(3)), r"x\.tocsr\(\)"),
    ],
)
def test_given_nonsense(x, message):
    with pytest.raises(ValueError, match=message):
        given(x)


def test_given_wrong_options():
    with pytest.raises(ValueError, match="weights must have one number per target"):
        given(np.eye(3), weights=[1, 2])
    with pytest.raises(ValueError, match="finite and not negative"):
        given(np.eye(3), weights=[1, 2, -1])
    with pytest.raises(ValueError, match="most must be a whole number from 1, but it is 0"):
        given(np.eye(3), most=0)


# ---- from the pool -------------------------------------------------------------------------------------------------


def test_from_pool_takes_every_input_equally_often_and_none_twice():
    pool, m, steps = Toy(n=20), 5, 800
    often = np.zeros(20)
    for seed in range(steps):
        sample = pool.sample(from_pool(m), seed=seed)
        found = places(pool.x, sample.x)
        assert len({*found}) == m
        assert sample.weights is None
        often[found] += 1
    expected = steps * m / 20
    assert ((often - expected) ** 2 / (expected * (1 - m / 20))).sum() < 45  # 19 degrees of freedom: 1 in 1,000
    assert pool.asked == []


def test_all_of_a_small_pool():
    pool = Toy(n=7)
    np.testing.assert_array_equal(pool.sample(from_pool(100)).x, pool.x)


def test_fixed_is_said():
    assert from_pool(5).fixed is False
    assert from_pool(5, fixed=True).fixed is True
    assert class_prior([0.5, 0.5], fixed=True).fixed is True


@pytest.mark.parametrize("m", [0, -3, 2.0, "5", True])
def test_from_pool_of_nonsense(m):
    with pytest.raises(ValueError, match="m must be a whole number from 1"):
        from_pool(m)


def test_an_empty_pool_has_no_targets():
    for targets in (from_pool(3), class_prior([0.5, 0.3, 0.2])):
        with pytest.raises(ValueError, match="pool must have at least one input"):
            Toy(n=0).sample(targets)


# ---- from class frequencies ----------------------------------------------------------------------------------------


def slow_class_weights(probs, prior):
    """The paper's weights of a whole pool, from beliefs [n, k, c], with loops."""
    p = [[sum(draws[y] for draws in belief) / len(belief) for y in range(len(prior))] for belief in probs]
    mean = [sum(row[y] for row in p) / len(p) for y in range(len(prior))]
    w = np.array([sum(prior[y] * row[y] / mean[y] for y in range(len(prior))) for row in p])
    return w / w.sum()


def test_class_prior_weighs_the_whole_of_a_small_pool():
    pool, prior = Toy(n=60), [0.1, 0.2, 0.7]
    expected = slow_class_weights(pool.belief(pool.x), prior)
    for p in (prior, {"c": 0.7, "a": 0.1, "b": 0.2}, np.array(prior)):
        sample = pool.sample(class_prior(p, m=60, among=60))
        np.testing.assert_array_equal(sample.x, pool.x)
        np.testing.assert_allclose(sample.weights, expected)
        assert f"effective size {effective_size(expected):.0f}" in sample.note


def test_class_prior_keeps_few_that_stand_for_all():
    pool, prior = Toy(n=300), [0.1, 0.2, 0.7]
    w = slow_class_weights(pool.belief(pool.x), prior)
    kept, weights = subset(w, slow_bald(pool.belief(pool.x)), 25, rng=rng_for(4, 0, "targets"))
    sample = pool.sample(class_prior(prior, m=25, among=300), seed=4)
    np.testing.assert_array_equal(sample.x, pool.x[kept])
    np.testing.assert_allclose(sample.weights, weights)


def test_resampling_draws_in_proportion_to_the_weights():
    pool, prior = Toy(n=40), [0.1, 0.2, 0.7]
    w = slow_class_weights(pool.belief(pool.x), prior)
    sample = pool.sample(class_prior(prior, m=20_000, among=20_000, resample=True))
    assert sample.weights is None
    often = np.bincount(places(pool.x, sample.x), minlength=40)
    assert ((often - 20_000 * w) ** 2 / (20_000 * w)).sum() < 73  # 39 degrees of freedom: 1 in 1,000


def test_weighting_has_less_variance_than_resampling():
    """The same m, the same pool: squared errors of EPIG against EPIG with the whole pool, weighted."""
    pool, prior = Toy(n=300), [0.1, 0.2, 0.7]
    belief = pool.belief(pool.x)
    pairs, w = reference_pairs(belief[:6], belief), slow_class_weights(belief, prior)
    errors = {}
    for resample in (False, True):
        targets, found = class_prior(prior, m=30, among=300, resample=resample), []
        for seed in range(100):
            sample = pool.sample(targets, seed=seed)
            of = np.full(30, 1 / 30) if sample.weights is None else sample.weights
            found.append(pairs[:, places(pool.x, sample.x)] @ of)
        errors[resample] = np.mean((np.array(found) - pairs @ w) ** 2)
    assert errors[False] < 0.6 * errors[True]


def test_the_pools_own_frequencies_weigh_all_the_same():
    pool = Toy(n=50)
    marginal = pool.belief(pool.x).mean(axis=(0, 1))
    np.testing.assert_allclose(pool.sample(class_prior(marginal, m=50, among=50)).weights, 1 / 50)


def test_beliefs_are_asked_in_chunks_of_the_looked_at_only(monkeypatch):
    pool = Toy(n=300)
    whole = pool.sample(class_prior([0.2, 0.3, 0.5], m=10, among=200))
    assert pool.asked == [64, 136]
    pool.asked.clear()
    monkeypatch.setattr("askwell.targets.sampling.CHUNK_BYTES", 50 * DRAWS * 3 * 8)
    parts = pool.sample(class_prior([0.2, 0.3, 0.5], m=10, among=200))
    assert pool.asked == [64, 50, 50, 36]
    np.testing.assert_array_equal(whole.x, parts.x)
    np.testing.assert_allclose(whole.weights, parts.weights)


def test_a_class_that_nobody_predicts_is_said_and_the_others_share():
    pool = Toy(n=60)
    without = lambda x: np.concatenate([pool.belief(x), np.zeros((len(x), DRAWS, 1))], axis=2)  # noqa: E731
    targets = class_prior({"a": 0.2, "b": 0.2, "c": 0.2, "d": 0.4}, m=60, among=60)
    with pytest.warns(UserWarning, match="predicts 'd' nowhere, so no target stands for it") as caught:
        found = targets.sample(pool, without, classes="abcd", rng=rng_for(0, 0, "targets"))
    assert len(caught) == 1
    np.testing.assert_allclose(found.weights, slow_class_weights(pool.belief(pool.x), [1 / 3] * 3))
    with pytest.raises(ValueError, match="Label some examples of them first"):
        class_prior({"d": 1.0}).sample(pool, without, classes="abcd", rng=rng_for(0, 0, "targets"))


def rare(x):
    """Class b for one input in a hundred, and no doubt about it."""
    p = np.where(x[:, 0] > np.quantile(x[:, 0], 0.99), 1.0, 0.0)
    return np.repeat(np.stack([1 - p, p], axis=1)[:, None], 3, axis=1)


def test_weights_that_collapse_are_a_warning_with_advice():
    pool = Toy(n=1000)
    with pytest.warns(
        UserWarning, match=r"effective size of 10.*mostly for 'b'.*0\.99 .*0\.01.*larger `among`"
    ) as caught:
        class_prior([0.01, 0.99], m=500, among=1000).sample(
            pool, lambda x: _whole(pool, x), classes="ab", rng=rng_for(0, 0, "targets")
        )
    assert len(caught) == 1


def _whole(pool, x):
    """`rare` of the pool's own quantile, whatever the chunk."""
    return rare(pool.x)[places(pool.x, x)]


def test_weights_that_do_not_collapse_are_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Toy(n=300).sample(class_prior([0.2, 0.3, 0.5]))
        Toy(n=20).sample(class_prior([0.2, 0.3, 0.5]))  # a small pool is no collapse


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 0.4], "sums to 0.9. Divide by the sum"),
        ({"a": 50, "b": 50}, "sums to 100"),
        ([1.5, -0.5], "finite and not negative"),
        ([np.nan, 1.0], "finite and not negative"),
        (["a", "b"], "must hold numbers"),
        ({"a": "much"}, "must hold numbers"),
        ([], "one probability per class"),
        ({}, "one probability per class"),
        ([[0.5, 0.5]], "one probability per class"),
        (0.5, "or list them in class order"),
        ({0.4, 0.6}, "or list them in class order"),
    ],
)
def test_priors_that_are_none(p, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        class_prior(p)


def test_rounded_priors_are_normalised():
    found = Toy(n=50).sample(class_prior([0.33, 0.33, 0.33], m=50))
    np.testing.assert_allclose(found.weights, Toy(n=50).sample(class_prior([1 / 3] * 3, m=50)).weights, rtol=1e-12)


def test_priors_of_other_classes():
    with pytest.raises(ValueError, match=r"classes of the model, \['a', 'b', 'c'\], but 'z' is none of them"):
        Toy().sample(class_prior({"a": 0.5, "z": 0.5}))
    with pytest.raises(ValueError, match="one probability per class, 3, but it has 2"):
        Toy().sample(class_prior([0.5, 0.5]))
    with pytest.raises(ValueError, match="belief must give one column per class, 4"):
        Toy().sample(class_prior([0.25] * 4), classes="abcd")
    with pytest.raises(ValueError, match="among must be at least m"):
        class_prior([0.5, 0.5], m=200, among=100)


def test_classes_may_be_numbers_or_an_array():
    found = [
        Toy(n=50).sample(class_prior({1: 0.5, 3: 0.5}, m=50), classes=classes).weights
        for classes in ([1, 2, 3], np.array([1, 2, 3]), (np.int64(1), np.int64(2), np.int64(3)))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


# ---- as users say it -----------------------------------------------------------------------------------------------


def test_as_targets():
    assert repr(as_targets(None)) == "from_pool(100)"
    mine = class_prior([0.5, 0.5])
    assert as_targets(mine) is mine
    for x in (np.eye(3), [[1.0], [2.0]], ["text"], sparse.csr_matrix(np.eye(3)), Frame(np.eye(3)), torch.eye(3)):
        assert Toy().sample(as_targets(x)).x is x


def test_targets_of_ones_own():
    class Mine:
        fixed = True

        def sample(self, pool, belief, *, classes, rng):
            return Sample(pool.take([0, 1]))

    mine = Mine()
    assert isinstance(mine, Targets)
    assert as_targets(mine) is mine
    assert len(Toy().sample(mine).x) == 2


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ({"a": 0.5}, "class_prior"),
        (100, r"from_pool\(100\)"),
        ("file.csv", "Load the inputs first"),
        (from_pool, "Call it"),
        ((row for row in [[1.0]]), r"list\(targets\)"),
        ({1, 2}, r"list\(targets\)"),
    ],
)
def test_as_targets_of_nonsense(value, remedy):
    with pytest.raises(ValueError, match=f"targets must be None .*{remedy}"):
        as_targets(value)


@pytest.mark.parametrize(
    ("targets", "shown"),
    [
        (given(np.zeros((5000, 2))), "given(5,000 inputs, most=1000)"),
        (given(np.zeros((5, 2)), weights=[1, 1, 1, 1, 2]), "given(5 inputs, weighted)"),
        (from_pool(30, fixed=True), "from_pool(30, fixed=True)"),
        (class_prior([1 / 3] * 3, resample=True), "class_prior([0.3333, 0.3333, 0.3333], m=200, resample=True)"),
    ],
)
def test_targets_are_shown_shortly(targets, shown):
    assert repr(targets) == shown


def test_nothing_given_is_modified():
    pool, many = Toy(), rng_for(1, 0, "many").normal(size=(200, FEATURES))
    weights, prior = np.arange(200.0), np.array([0.2, 0.3, 0.5])
    kept = [a.copy() for a in (pool.x, many, weights, prior)]
    pool.sample(given(many, weights=weights, most=10))
    pool.sample(class_prior(prior, m=10))
    for now, before in zip((pool.x, many, weights, prior), kept, strict=True):
        np.testing.assert_array_equal(now, before)


SCORES = st.lists(st.integers(0, 20), min_size=1, max_size=30).filter(any)


@PROPERTY
@cases(SCORES, st.integers(1, 35))
def test_chances_are_proportional_up_to_one_and_sum_to_the_size(scores, size):
    s = np.array(scores, float)
    chance = inclusion(s, size)
    assert chance.sum() == pytest.approx(min(size, np.count_nonzero(s)))
    assert (chance[s == 0] == 0).all()
    assert (chance <= 1).all()
    open_ = (chance > 0) & (chance < 1)
    if open_.any():
        slope = chance[open_] / s[open_]
        np.testing.assert_allclose(slope, slope[0])
        assert (s[chance == 1] * slope[0] >= 1 - 1e-9).all()  # nobody is taken for sure who need not be


@PROPERTY
@cases(SCORES, st.integers(1, 35), st.integers(0, 1000))
def test_each_is_taken_as_often_as_its_chance_says(scores, size, seed):
    """Exactly: what is taken changes only at certain starts, so all cases are tried, each as long as it lasts."""
    chance = inclusion(np.array(scores, float), size)
    order = rng_for(seed, 0, "order").permutation(len(chance))
    open_ = order[(chance[order] > 0) & (chance[order] < 1)]
    edges = np.unique(np.concatenate([[0.0, 1.0], np.cumsum(chance[open_]) % 1.0]))
    often = np.zeros(len(chance))
    for low, high in pairwise(edges):
        if high - low > 1e-9:
            found = taken(chance, order, (low + high) / 2)
            assert len({*found.tolist()}) == len(found) == round(chance.sum())
            often[found] += high - low
    np.testing.assert_allclose(often, chance, atol=1e-7)


def few_estimates(pairs, weights, doubt, size, repeats=300):
    """EPIG by few targets, again and again: before the weights are made to sum to one, and after. [repeats, n] each."""
    mean = weights @ doubt
    chance = inclusion(weights * (doubt + 0.3 * mean), size)
    raw, whole = [], []
    for again in range(repeats):
        positions, w = subset(weights, doubt, size, rng=rng_for(again, 0, "few"))
        raw.append(pairs[:, positions] @ (weights[positions] / chance[positions]))
        whole.append(pairs[:, positions] @ w)
    return np.array(raw), np.array(whole)


@pytest.mark.parametrize("weighted", [False, True])
def test_few_estimate_all_without_bias_and_better_than_any_few(weighted):
    rng = rng_for(0, 0, "all")
    probs, targets = linear(rng, 10, 200, 60, 3, scale=2.0)
    targets[::2] = targets[::2].mean(axis=1, keepdims=True)  # half of them have nothing to learn
    weights = rng.dirichlet(np.ones(200)) if weighted else np.full(200, 1 / 200)
    pairs = reference_pairs(probs, targets)
    truth = pairs @ weights
    raw, whole = few_estimates(pairs, weights, slow_bald(targets), 20)
    error, error_whole = (found.std(axis=0, ddof=1) / np.sqrt(len(found)) for found in (raw, whole))
    assert (np.abs(raw.mean(axis=0) - truth) < 4 * error).all()
    # A ratio of two estimates: 6,000 repeats of 20 targets show a bias of 1 %.
    assert (np.abs(whole.mean(axis=0) - truth) < 4 * error_whole + 0.02 * truth).all()
    plain = np.array([
        (pairs[:, p] @ weights[p]) / weights[p].sum()
        for p in (rng.choice(200, 20, replace=False) for _ in range(300))
    ])  # fmt: skip
    assert np.mean((whole - truth) ** 2) < 0.5 * np.mean((plain - truth) ** 2)


def test_all_is_all():
    probs, targets = pool_and_targets("mixed", 5, 8, 10, 3)
    for size in (8, 20):
        positions, weights = representatives(targets, size, weights=np.arange(8), rng=rng_for(0, 0, "all"))
        np.testing.assert_array_equal(positions, np.arange(1, 8))  # the first has no weight
        np.testing.assert_allclose(weights, np.arange(1, 8) / 28)
        np.testing.assert_allclose(
            askwell.epig(probs, targets[positions], weights=weights), askwell.epig(probs, targets, weights=np.arange(8))
        )


@pytest.mark.parametrize("weights", [None, [0, 0, 0, 1, 1, 2, 3, 4]])
def test_where_there_is_no_doubt_weights_decide(weights):
    """Nothing to be informed: no division by zero, still targets. Doubt where no weight is does not count."""
    targets = np.full((8, 4, 2), 0.5)
    targets[:3, ::2] = [1.0, 0.0] if weights else [0.5, 0.5]
    positions, w = representatives(targets, 3, weights=weights, rng=rng_for(0, 0, "sure"))
    assert len(positions) == 3
    assert w.sum() == pytest.approx(1)
    assert weights is None or (positions >= 3).all()


def test_every_library_and_the_same_rng():
    _, targets = pool_and_targets("mixed", 5, 50, 10, 3)
    found = [representatives(kind(targets), 9, rng=rng_for(3, 0, "same")) for kind in (np.asarray, torch.as_tensor)]
    for a, b in zip(*found, strict=True):
        assert isinstance(b, np.ndarray)
        np.testing.assert_array_equal(a, b)
    other = representatives(targets, 9, rng=rng_for(4, 0, "same"))[0]
    assert not np.array_equal(found[0][0], other)


def test_a_period_in_the_data_does_no_harm():
    """Equal targets are taken in random order: not always those of one place in the pattern."""
    targets = np.tile(np.array([[[1.0, 0.0], [0.0, 1.0]]]), (100, 1, 1))
    places = [representatives(targets, 10, rng=rng_for(i, 0, "period"))[0] % 10 for i in range(20)]
    assert all(len({*place.tolist()}) > 2 for place in places)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, None])
def test_sizes_that_are_none(size):
    with pytest.raises(ValueError, match="size must be a whole number from 1"):
        representatives(np.full((3, 2, 2), 0.5), size, rng=rng_for(0, 0, "wrong"))


def test_wrong_beliefs():
    rng = rng_for(0, 0, "wrong")
    with pytest.raises(ValueError, match="probs must have at least one target"):
        representatives(np.zeros((0, 2, 2)), 1, rng=rng)
    with pytest.raises(ValueError, match="three axes"):
        representatives(np.full((3, 2), 0.5), 1, rng=rng)
    with pytest.raises(ValueError, match="sum to one"):
        representatives(np.full((3, 2, 2), 0.7), 1, rng=rng)
    with pytest.raises(ValueError, match="weights must have one number per target"):
        representatives(np.full((3, 2, 2), 0.5), 1, weights=[1.0], rng=rng)
