"""Intervals that cover, folds that are fair, labels that are judged by models that have not seen them."""

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from light_model import LightModel
from scipy.special import ndtri
from scipy.stats import binom

from askwell.acquire import Strategy
from askwell.data.pool import as_pool
from askwell.estimate.accuracy import _kappa, cross_validated, drawn, estimate, stratified_folds, wilson
from askwell.models.linear import LinearModel
from askwell.seeds import rng_for
from askwell.targets import as_targets
from askwell.targets import given as given_targets

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
    assert (found.how, found.labels, found.metric) == ("cross-validated", 40, "accuracy")
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


# ---- questions that were drawn ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nearest:
    """Says what the nearest labelled input is; of an input that it learnt from itself it is always right."""

    def fit(self, x, y, *, rng):
        classes = tuple(sorted({*y}))
        return Recalled(classes, np.asarray(x, float), [classes.index(label) for label in y])


@dataclass(frozen=True)
class Recalled:
    classes: tuple
    x: np.ndarray
    codes: list

    def predict(self, x):
        nearest = np.abs(np.asarray(x, float)[:, None, 0] - self.x[:, 0]).argmin(axis=1)
        return np.eye(len(self.classes))[np.array(self.codes)[nearest]][:, None]


def strategy_of(x, *, targets=None, share=0.2, model=None, classes=None, seed=0):
    pool, aim = as_pool(x), as_targets(targets)
    return Strategy(model or Nearest(), pool, aim, evaluation=share, classes=classes, seed=seed)


X = np.arange(60.0)[:, None]
Y = dict(enumerate("ab" * 30))


def test_an_item_is_predicted_by_models_that_have_not_seen_it():
    """Neighbours always differ: who has not seen an item, but one beside it, is wrong; who has seen it is right."""
    found = drawn(strategy_of(X), Y)
    assert (found.labels, found.how, found.of) == (60, "drawn", "pool")
    assert found.value < 0.1


def test_only_the_head_of_the_order_counts():
    strategy = strategy_of(X, model=LightModel())
    order = strategy.drawn.positions.tolist()
    labels = {each: Y[each] for each in [*order[:8], *order[9:40]]}
    found = drawn(strategy, labels)
    assert found.labels == 8
    assert drawn(strategy, {each: Y[each] for each in order[:4]}) is None
    assert drawn(strategy, labels, skipped={order[8]}).labels == 39
    assert drawn(strategy_of(X, share=0.0), labels) is None


def test_the_estimate_is_the_share_of_right_predictions_with_wilsons_interval():
    x = rng_for(3, 0, "estimates").normal(size=(200, 1))
    strategy = strategy_of(x, model=LinearModel(draws=50))
    labels = {int(each): "up" if x[each, 0] > 0 else "down" for each in strategy.drawn.positions[:40]}
    labels[next(iter(labels))] = "up" if x[next(iter(labels)), 0] < 0 else "down"
    found = estimate(strategy, labels)
    assert (found.low, found.high) == pytest.approx(wilson(found.value * 40, 40))
    assert 0.8 < found.value < 1
    assert {*found.classes} == {"down", "up"}
    assert sum(each.labels for each in found.classes.values()) == 40
    assert found.balanced_accuracy.value == pytest.approx(np.mean([each.value for each in found.classes.values()]))
    assert found.balanced_accuracy.low < found.balanced_accuracy.value < found.balanced_accuracy.high
    assert 0.5 < found.kappa < 1
    assert 0 <= found.log_loss.low < found.log_loss.value < found.log_loss.high
    assert found.body()["about"] == "on inputs like the pool, from 40 questions drawn from it at random"


def test_an_item_that_stands_for_many_targets_counts_as_often_and_widens_the_interval():
    x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0]])
    targets = np.array([[0.1]] * 8 + [[each + 0.1] for each in range(1, 8)])
    strategy = strategy_of(x, targets=targets)
    labels = dict.fromkeys(range(8), "a") | {0: "b", 1: "b"}
    found = drawn(strategy, labels)
    # Alone against its nearest neighbour: 0 is called b by 1, 1 by 0; 2 is nearest to 1, called b, wrong.
    assert (found.of, found.labels) == ("nearest", 8)
    assert 0.5 < found.value < 1
    n = 15**2 / (8**2 + 7)
    assert (found.low, found.high) == pytest.approx(wilson(found.value * n, n))


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_it_is_unbiased_whatever_is_chosen_besides(share):
    """Chosen items lie where the model is wrong; the estimate of 60 seeds is the accuracy on all items all the same."""
    gaps, crossed, fresh = [], [], rng_for(0, 0, "fresh").normal(size=(2000, 2))
    for seed in range(60):
        rng = rng_for(seed, 0, "unbiased")
        x = rng.normal(size=(400, 2))
        y = np.where((x[:, 0] > 0) ^ (rng.random(400) < np.where(np.abs(x[:, 0]) < 0.5, 0.3, 0.02)), "up", "down")
        strategy = strategy_of(x, share=share, model=LightModel(), classes=["down", "up"], seed=seed)
        hardest = ((int(each), 1.0) for each in np.argsort(np.abs(x[:, 0])))
        asked = [each.position for each in islice(strategy.questions(hardest, asked=[]), 60)]
        labels = {each: str(y[each]) for each in asked}
        posterior = strategy.fit(labels, strategy.rng("fit", labels))
        up = np.array(posterior.classes)[posterior.predict(fresh).mean(axis=1).argmax(axis=1)] == "up"
        flipped = np.where(np.abs(fresh[:, 0]) < 0.5, 0.3, 0.02)
        right = np.where(up == (fresh[:, 0] > 0), 1 - flipped, flipped)  # its expectation
        found = drawn(strategy, labels)
        assert found.labels >= 60 * share
        gaps.append(found.value - right.mean())
        crossed.append(estimate(replace(strategy, evaluation=0.0), labels).value - right.mean())
    assert abs(np.mean(gaps)) < 0.03
    assert np.mean(crossed) < -0.08  # cross-validation on chosen items says too little


def test_it_is_unbiased_for_targets_that_have_weights():
    """Half of the targets are easy and weigh little; nearly all of them are drawn in the end, and count by weight."""
    weights, gaps = np.r_[np.full(20, 1.0), np.full(20, 9.0)], []
    for seed in range(40):
        rng = rng_for(seed, 0, "weighted")
        x = np.r_[rng.normal(3, 0.3, size=(20, 1)), rng.normal(-3, 0.3, size=(20, 1))]
        y = ["up"] * 20 + rng.choice(["up", "down"], 20).tolist()  # nobody can know: half right at best
        strategy = strategy_of(x, targets=given_targets(x, weights=weights), model=LightModel(), seed=seed, share=0.5)
        order = [*dict.fromkeys(strategy.drawn.positions.tolist())]
        found = drawn(strategy, {each: y[each] for each in order[:36]})
        gaps.append(found.value - (0.1 * 1.0 + 0.9 * 0.5))
    assert abs(np.mean(gaps)) < 0.06  # without the weights it would be 0.2 too high


def test_without_drawn_questions_it_is_cross_validation_and_says_so():
    labels = {each: Y[each] for each in range(40)}
    found = estimate(strategy_of(X, share=0.0, model=LightModel()), labels)
    assert (found.how, found.of, found.labels) == ("cross-validated", "chosen", 40)
    assert "lower bound" in str(found)
    assert estimate(strategy_of(X), {0: "a", 1: "a"}) is None
    assert estimate(strategy_of(X), {}) is None


@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_scikit_learns(seed):
    from sklearn.metrics import cohen_kappa_score

    rng = rng_for(seed, 0, "kappa")
    predicted, codes, weights = rng.integers(3, size=30), rng.integers(4, size=30), rng.random(30)
    assert _kappa(predicted, codes, weights) == pytest.approx(
        cohen_kappa_score(predicted, codes, sample_weight=weights)
    )
    assert _kappa(np.zeros(3, int), np.zeros(3, int), np.ones(3)) is None
