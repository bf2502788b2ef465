"""Class frequencies: weights against a loop, estimates where the answer is known."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from posteriors import PROPERTY, softmax

from askwell.seeds import rng_for
from askwell.targets.prior import class_weights, effective_size, estimate_prior


def slow_weights(probs, prior):
    """w(x) = sum_y p*(y) p(y|x) / mean_x p(y|x), the paper's formula, normalised."""
    weights = []
    for row in probs:
        total = 0.0
        for y in range(len(prior)):
            mean = math.fsum(other[y] for other in probs) / len(probs)
            total += prior[y] * row[y] / mean if mean > 0 else 0.0
        weights.append(total)
    return np.array(weights) / math.fsum(weights)


@PROPERTY
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 10**6), st.booleans())
def test_weights_are_the_loop(n, c, seed, missing):
    rng = rng_for(seed, 0, "weights")
    probs, prior = rng.dirichlet(np.full(c, 0.5), n), rng.dirichlet(np.ones(c))
    if missing and c > 1:  # a class that nobody predicts
        probs[:, 0] = 0
        probs = (probs + 1e-9 * (np.arange(c) > 0)) / (probs + 1e-9 * (np.arange(c) > 0)).sum(1, keepdims=True)
    found = class_weights(probs, prior)
    np.testing.assert_allclose(found, slow_weights(probs, prior), rtol=1e-10)
    assert found.sum() == pytest.approx(1)


def test_the_pools_own_prior_gives_equal_weights():
    probs = rng_for(0, 0, "own").dirichlet(np.ones(4), 50)
    np.testing.assert_allclose(class_weights(probs, probs.mean(axis=0)), 1 / 50)


def test_weights_turn_the_pools_classes_into_the_wanted_ones():
    """Exactly, where the model is sure."""
    labels = rng_for(0, 0, "sure").choice(3, 200, p=[0.7, 0.2, 0.1])
    prior = np.array([0.1, 0.3, 0.6])
    w = class_weights(np.eye(3)[labels], prior)
    np.testing.assert_allclose(np.bincount(labels, w), prior)


def test_weights_of_tensors_and_float32():
    probs = rng_for(0, 0, "float32").dirichlet(np.ones(3), 20).astype(np.float32)
    expected = slow_weights(probs.astype(float), [0.2, 0.3, 0.5])
    np.testing.assert_allclose(class_weights(torch.as_tensor(probs), [0.2, 0.3, 0.5]), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("probs", "prior", "message"),
    [
        (np.full((3, 2, 2), 0.5), [1, 0], r"mean\(axis=1\) for the mean of the draws"),
        (np.zeros((0, 2)), [1, 0], r"\[inputs, classes\]"),
        ([[0.7, 0.7]], [1, 0], "softmax if these are logits"),
        ([[1.5, -0.5]], [1, 0], "row 0"),
        ([[np.nan, 0.5]], [1, 0], "row 0"),
        ([[0.5, 0.5]], [1, 0, 0], r"one number per class, \[2\]"),
        ([[0.5, 0.5]], [0, 0], "at least one of them positive"),
        ([[0.5, 0.5]], [1, np.nan], "at least one of them positive"),
        ([[0.5, 0.5]], [2, -1], "at least one of them positive"),
        ([[1.0, 0.0]], [0, 1], "Label some examples of them first"),
    ],
)
def test_weights_of_nonsense(probs, prior, message):
    with pytest.raises(ValueError, match=message):
        class_weights(probs, prior)


@pytest.mark.parametrize(
    ("weights", "size"), [([1, 1, 1], 3), ([0, 5, 0], 1), ([2, 1, 1], 16 / 6), ([1e300, 1e300], 2), ([1e-300] * 4, 4)]
)
def test_effective_size(weights, size):
    assert effective_size(weights) == pytest.approx(size)


# ---- p*(y) from unlabelled targets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bbse", "em"])
@PROPERTY
@given(st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(any))
def test_perfect_predictions_recover_the_prior(method, counts):
    sure = np.eye(len(counts))
    targets = np.repeat(sure, counts, axis=0)
    found = estimate_prior(targets, np.repeat(sure, 50, axis=0), np.repeat(np.arange(len(counts)), 50), method=method)
    # EM sees probabilities floored at 1e-6, so it cannot be surer than that
    np.testing.assert_allclose(found, np.array(counts) / sum(counts), atol=1e-9 if method == "bbse" else 1e-4)
    assert found.sum() == pytest.approx(1)


def test_bbse_inverts_a_known_confusion_matrix():
    """Of class 0, 8 in 10 are called 0; of class 1, 7 in 10 are called 1. If 45 of 100 are called 0, 30 are."""
    called = np.eye(2)
    held, labels = called[[0] * 8 + [1] * 2 + [0] * 3 + [1] * 7], [0] * 10 + [1] * 10
    found = estimate_prior(called[[0] * 45 + [1] * 55], held, labels, method="bbse")
    np.testing.assert_allclose(found, [0.3, 0.7], atol=1e-12)


def test_bbse_stays_among_probabilities():
    """A plain solution would be [1.4, -0.4]: more are called 0 than even class 0 alone explains."""
    called = np.eye(2)
    held, labels = called[[0] * 7 + [1] * 3 + [0] * 2 + [1] * 8], [0] * 10 + [1] * 10
    found = estimate_prior(called[[0] * 9 + [1]], held, labels, method="bbse")
    np.testing.assert_allclose(found, [1, 0], atol=1e-12)


def test_em_is_the_highest_likelihood():
    """Concave, so the conditions of its maximum prove it: the gradient is 1 where q > 0, and no larger elsewhere."""
    rng = rng_for(0, 0, "em")
    targets, held = rng.dirichlet([2, 1, 0.5, 0.3], 300), rng.dirichlet([1, 1, 1, 1], 80)
    labels = np.arange(80) % 4
    q = estimate_prior(targets, held, labels, method="em", calibrate=False)
    ratio = targets / 0.25
    gradient = (ratio / (ratio @ q)[:, None]).mean(axis=0)
    assert (gradient <= 1 + 1e-4).all()
    np.testing.assert_allclose(gradient[q > 1e-3], 1, atol=1e-6)


def shifted_world(seed, scale, n=1500):
    """Two Gaussian clouds per class, the true p(y|x) made too sure or too vague by `scale`, and another class mix."""
    rng = rng_for(seed, 0, "shift")
    centres, prior = rng.normal(size=(3, 4)), np.array([0.7, 0.25, 0.05])
    held, labels = np.arange(600) % 3, rng.choice(3, n, p=prior)

    def predicted(codes):
        x = centres[codes] + rng.normal(size=(len(codes), 4)) * 0.8
        return softmax(scale * -((x[:, None] - centres) ** 2).sum(-1) / (2 * 0.64))

    return predicted(labels), predicted(held), held, np.bincount(labels, minlength=3) / n


@pytest.mark.parametrize("scale", [0.2, 1.0, 4.0])
def test_estimates_are_near_the_truth_and_calibration_is_what_em_needs(scale):
    errors = {"em": [], "em as it is": [], "bbse": []}
    for seed in range(5):
        targets, held, labels, truth = shifted_world(seed, scale)
        errors["em"].append(estimate_prior(targets, held, labels) - truth)
        errors["em as it is"].append(estimate_prior(targets, held, labels, calibrate=False) - truth)
        errors["bbse"].append(estimate_prior(targets, held, labels, method="bbse") - truth)
    l1 = {name: np.abs(found).sum(axis=1).mean() for name, found in errors.items()}
    assert l1["em"] < 0.08
    assert l1["bbse"] < 0.12
    if scale == 0.2:
        assert l1["em as it is"] > 3 * l1["em"]


def chosen_world(seed, *, chosen):
    """Three Gaussian classes with the true p(y|x) of a pool, 300 labels of it at random or those of highest entropy,
    and targets with another class mix: (predictions of targets, of labelled, labels, of the pool, the target mix)."""
    rng = rng_for(seed, 0, "chosen")
    centres, mix, later = np.array([[0, 0], [1.5, 0], [0, 1.5]]), np.array([0.9, 0.07, 0.03]), np.array([0.5, 0.3, 0.2])

    def world(n, prior):
        codes = rng.choice(3, n, p=prior)
        x = centres[codes] + rng.normal(size=(n, 2))
        return softmax(np.log(mix) - ((x[:, None] - centres) ** 2).sum(-1) / 2), codes

    (pool, codes), (targets, _) = world(3000, mix), world(2000, later)
    unsure = np.argsort((pool * np.log(pool)).sum(axis=1))[:300]
    asked = unsure if chosen else rng.permutation(3000)[:300]
    return targets, pool[asked], codes[asked], pool, later


def test_labels_chosen_by_entropy_need_the_prior_behind_the_predictions():
    errors = {"random": [], "chosen": [], "source": [], "frequencies": []}
    for seed in range(5):
        targets, held, labels, pool, truth = chosen_world(seed, chosen=False)
        errors["random"].append(estimate_prior(targets, held, labels) - truth)
        targets, held, labels, pool, truth = chosen_world(seed, chosen=True)
        with pytest.warns(UserWarning, match="look chosen"):
            errors["chosen"].append(estimate_prior(targets, held, labels) - truth)
        errors["source"].append(estimate_prior(targets, held, labels, source=pool) - truth)
        errors["frequencies"].append(
            estimate_prior(targets, held, labels, source=pool.mean(axis=0), calibrate=False) - truth
        )
    l1 = {name: np.abs(found).sum(axis=1).mean() for name, found in errors.items()}
    assert l1["random"] < 0.2
    assert l1["chosen"] > 0.4
    assert l1["source"] < 0.2
    assert l1["frequencies"] < 0.1


def test_black_box_estimates_of_chosen_labels_are_warned_of_with_a_source_too():
    targets, held, labels, pool, _ = chosen_world(0, chosen=True)
    with pytest.warns(UserWarning, match="look chosen"):
        estimate_prior(targets, held, labels, method="bbse", source=pool)


@pytest.mark.parametrize("method", ["bbse", "em"])
def test_a_class_without_a_label_gets_nothing_and_a_warning(method):
    sure = np.eye(3)
    with pytest.warns(UserWarning, match=r"columns \[1\]"):
        found = estimate_prior(sure[[0, 0, 0, 2]], sure[[0, 0, 2, 2] * 20], [0, 0, 2, 2] * 20, method=method)
    assert found[1] == 0
    np.testing.assert_allclose(found, [0.75, 0, 0.25], atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "magic"}, 'method must be "em" or "bbse"'),
        ({"target_probs": np.full((4, 3), 1 / 3)}, "must have the same classes"),
        ({"target_probs": np.full((4, 2), 0.9)}, "target_probs must hold probabilities"),
        ({"held_out_probs": np.full((2, 2, 2), 0.5)}, "held_out_probs must be class probabilities"),
        ({"held_out_labels": [0]}, r"one label per held-out row, \[2\]"),
        ({"held_out_labels": [0, 2]}, "column numbers from 0 to 1"),
        ({"held_out_labels": ["a", "b"]}, "classes.index"),
        ({"source": [0.2, 0.3, 0.5]}, "source must have the 2 classes"),
        ({"source": [0.2, 0.3]}, "source must hold probabilities"),
    ],
)
def test_estimates_of_nonsense(change, message):
    right = {"target_probs": np.eye(2), "held_out_probs": np.eye(2), "held_out_labels": [0, 1]}
    with pytest.raises(ValueError, match=message):
        estimate_prior(**(right | change))


def test_inputs_are_never_modified():
    targets, held, labels, _ = shifted_world(0, 1.0, n=50)
    kept = targets.copy(), held.copy(), labels.copy()
    for method in ("em", "bbse"):
        estimate_prior(targets, held, labels, method=method)
    class_weights(targets, [0.2, 0.3, 0.5])
    for now, before in zip((targets, held, labels), kept, strict=True):
        np.testing.assert_array_equal(now, before)
