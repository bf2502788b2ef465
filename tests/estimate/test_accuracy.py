"""Intervals that cover, folds that are fair, labels that are judged by models that have not seen them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import binom

from askwell.estimate.accuracy import cross_validated, held_out, judging_order, stratified_folds, wilson
from askwell.seeds import rng_for

# ---- Wilson's interval ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("right", "n"), [(0, 1), (3, 7), (9, 10), (55.5, 80), (200, 200)])
def test_the_ends_are_where_the_score_test_just_holds(right, n):
    """Each end p solves (right / n - p)² = z² p (1 - p) / n, unless there is nothing beyond."""
    for end in wilson(right, n):
        if 0 < end < 1:
            assert (right / n - end) ** 2 == pytest.approx(ndtri(0.975) ** 2 * end * (1 - end) / n)
    assert (wilson(0, n)[0], wilson(n, n)[1]) == (0, 1)


@pytest.mark.parametrize("n", [10, 40, 200])
def test_the_interval_covers_the_truth(n):
    """Exactly, by summing the binomial: near 95 % on average over many truths, never far below."""
    ends = np.array([wilson(right, n) for right in range(n + 1)])
    covered = [
        binom.pmf(np.arange(n + 1), n, p)[(ends[:, 0] <= p) & (p <= ends[:, 1])].sum()
        for p in np.linspace(0.1, 0.9, 161)
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.01)
    assert min(covered) > 0.88


@pytest.mark.parametrize(("right", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(right, n):
    with pytest.raises(ValueError, match="right must be from 0 to n"):
        wilson(right, n)


# ---- folds ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("aabbbc"), min_size=5, max_size=60), st.integers(2, 5), st.integers(0, 99))
def test_folds_deal_out_every_class_evenly(y, folds, seed):
    fold = stratified_folds(y, folds, rng=rng_for(seed, 0, "folds"))
    sizes = np.bincount(fold, minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    for label in set(y):
        share = np.bincount(fold[[i for i, known in enumerate(y) if known == label]], minlength=folds)
        assert share.max() - share.min() <= 1


def test_folds_differ_from_draw_to_draw():
    rng = rng_for(0, 0, "folds")
    assert (stratified_folds("ab" * 20, 5, rng=rng) != stratified_folds("ab" * 20, 5, rng=rng)).any()
    with pytest.raises(ValueError, match="folds must be from 2 to the number of labels, 3"):
        stratified_folds("abc", 4, rng=rng)


# ---- cross-validation ----------------------------------------------------------------------------------------------


class Memory:
    """Knows what it has learnt by heart, says "b" of everything else, and keeps an account."""

    def __init__(self):
        self.fits = []

    def fit(self, x, y, *, rng, classes=None):
        known = dict(zip(np.asarray(x)[:, 0].tolist(), y, strict=True))
        self.fits.append(len(known))
        return Recall(known)


class Recall:
    classes = ("b", "a")  # not in the order of the caller's

    def __init__(self, known):
        self.known = known

    def predict(self, x):
        said = [self.known.get(value, "b") for value in np.asarray(x)[:, 0].tolist()]
        return np.array([[[label == "b", label == "a"]] for label in said], float)  # [n, 1, 2]


def judged(y, model=None):
    x = np.arange(len(y), dtype=float)[:, None]
    return cross_validated(model or Memory(), x, y, classes=["a", "b"], rng=rng_for(0, 0, "cv"))


def test_no_label_is_judged_by_who_has_learnt_it():
    found = judged(["a"] * 30 + ["b"] * 10)
    assert found.value == 0.25  # by heart it would be 1
    assert (found.how, found.judged, found.metric) == ("cross-validated", 40, "accuracy")
    assert (found.low, found.high) == wilson(10, 40)


@pytest.mark.parametrize(("n", "repeats"), [(10, 3), (40, 2), (100, 1), (500, 1)])
def test_few_labels_are_cut_more_often(n, repeats):
    model = Memory()
    judged(["a", "b"] * (n // 2), model)
    assert len(model.fits) == 5 * repeats
    assert sum(model.fits) == 4 * n * repeats


@pytest.mark.parametrize("y", ["ab" * 4, "a" * 30, "a" * 30 + "b"])
def test_what_would_say_nothing_is_not_said(y):
    assert judged(list(y)) is None


def test_the_same_rng_gives_the_same_estimate():
    assert judged(["a", "b"] * 20) == judged(["a", "b"] * 20)


def test_labels_that_are_pure_noise_are_found_out():
    from askwell.models.linear import LinearModel

    rng = rng_for(3, 0, "noise")
    x, y = rng.normal(size=(120, 3)), rng.choice(["a", "b"], 120).tolist()
    found = cross_validated(LinearModel(draws=50), x, y, classes=["a", "b"], rng=rng)
    assert found.low < 0.5 < found.high
    sure = cross_validated(
        LinearModel(draws=50), x, np.where(x[:, 0] > 0, "a", "b").tolist(), classes=["a", "b"], rng=rng
    )
    assert sure.low > 0.8


# ---- judging -------------------------------------------------------------------------------------------------------


def test_held_out_counts_what_is_right():
    x = np.arange(20.0)[:, None]
    posterior = Recall(dict.fromkeys(range(5), "a"))
    found = held_out(posterior, x, ["a"] * 10 + ["b"] * 10)
    assert (found.value, found.how, found.judged) == (0.75, "held-out", 20)
    assert (found.low, found.high) == wilson(15, 20)
    assert held_out(posterior, x[:9], ["a"] * 9) is None
    assert found.body() == {
        "metric": "accuracy", "value": 0.75, "low": found.low, "high": found.high, "how": "held-out", "judged": 20
    }  # fmt: skip


def test_judges_are_a_random_share_that_stays():
    judges = judging_order(5000, 0.1, seed=1)
    assert abs(len(judges) - 500) < 5 * np.sqrt(450)
    assert abs(np.mean(judges) - 2500) < 5 * 5000 / np.sqrt(12 * 500)
    assert abs(np.corrcoef(np.arange(len(judges)), judges)[0, 1]) < 0.2  # in no order
    grown = judging_order(6000, 0.1, seed=1)
    assert [item for item in grown if item < 5000] == judges.tolist()
    assert set(judges) != set(judging_order(5000, 0.1, seed=2))
    assert set(judges) < set(judging_order(5000, 0.2, seed=1))
    assert len(judging_order(50, 0.0, seed=0)) == 0
    with pytest.raises(ValueError, match=r"share must be from 0 to 0.5.*0\.1"):
        judging_order(50, 10, seed=0)
