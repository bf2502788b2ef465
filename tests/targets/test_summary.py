"""A few targets that stand for many: every chance against its definition, every estimate against all targets."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from posteriors import PROPERTY, linear, pool_and_targets, reference_pairs, slow_bald

import askwell
from askwell.seeds import rng_for
from askwell.targets.summary import inclusion, representatives, subset, taken

SCORES = st.lists(st.integers(0, 20), min_size=1, max_size=30).filter(any)


@PROPERTY
@given(SCORES, st.integers(1, 35))
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
@given(SCORES, st.integers(1, 35), st.integers(0, 1000))
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
    with pytest.raises(ValueError, match="size must be a whole number of targets from 1"):
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
