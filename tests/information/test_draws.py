"""What finite draws do: corrected values against their definitions and where the truth is zero; the guard."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from posteriors import (
    PROPERTY,
    hard,
    linear,
    pool_and_targets,
    reference_epig,
    slow_quadratic,
    worlds,
)

import askwell
from askwell.seeds import rng_for

DTYPES = ["float32", "float64"]


def independent_means(score, worlds=100, n=12, k=100, c=3):
    """The mean score in many worlds where no vote tells of any other: the truth is zero in each."""
    means = []
    for world in range(worlds):
        votes = hard(rng_for(world, 0, "independent"), 2 * n, k, c)
        means.append(float(score(votes[:n], votes[n:]).mean()))
    return np.array(means)


def unbiased(means):
    return abs(means.mean()) < 3 * means.std(ddof=1) / np.sqrt(len(means))


# ---- corrected values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "c"), [(100, 3), (200, 5)])
def test_the_plug_in_is_biased_and_the_corrected_values_are_not(k, c):
    plain = independent_means(askwell.epig, k=k, c=c)
    assert plain.mean() == pytest.approx((c - 1) ** 2 / (2 * k), rel=0.15)
    assert not unbiased(plain)
    assert unbiased(independent_means(askwell.epig_corrected, k=k, c=c))
    assert unbiased(independent_means(askwell.epig_quadratic, k=k, c=c))


@pytest.mark.parametrize(("rotations", "shifts"), [(1, [5]), (4, [2, 4, 6, 8]), (50, list(range(1, 10)))])
def test_corrected_is_plain_minus_the_mean_of_rotations(rotations, shifts, either):
    """At most k - 1 rotations differ, none is whole."""
    probs, targets = pool_and_targets("mixed", 9, 6, 10, 3)
    weights = [1, 0, 2, 1, 1, 3]
    null = [reference_epig(probs, np.roll(targets, shift, axis=1), weights) for shift in shifts]
    found = askwell.epig_corrected(probs, targets, weights=weights, rotations=rotations)
    np.testing.assert_allclose(found, reference_epig(probs, targets, weights) - np.mean(null, axis=0), atol=1e-12)


def test_corrected_keeps_what_is_real():
    """Little is taken off a score that many draws have made certain."""
    probs, targets = linear(rng_for(0, 0, "real"), 30, 20, 2000, 3)
    plain = askwell.epig(probs, targets)
    np.testing.assert_allclose(askwell.epig_corrected(probs, targets), plain, atol=0.02 * plain.max())


@PROPERTY
@given(worlds(most_classes=6, least_draws=2))
def test_quadratic_is_the_u_statistic(world):
    probs, targets, weights = world
    found = askwell.epig_quadratic(probs, targets, weights=weights)
    assert found.dtype == probs.dtype
    scale = probs.shape[2] * {"float32": 1e-5, "float64": 1e-11}[str(probs.dtype)]
    np.testing.assert_allclose(found, slow_quadratic(probs, targets, weights), atol=scale, rtol=scale)


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_quadratic_in_every_library_and_without_some_classes(library, dtype, either):
    probs, targets = pool_and_targets("mixed", 7, 5, 9, 4, dtype=dtype)
    padded = [np.concatenate([np.zeros_like(a[..., :2]), a], axis=-1) for a in (probs, targets)]  # two of no mass
    atol, truth = {"float32": 1e-5, "float64": 1e-11}[dtype], slow_quadratic(probs, targets, [1, 0, 2, 1, 1])
    for given_ in ((probs, targets), padded):
        found = askwell.epig_quadratic(*(library(a) for a in given_), weights=[1, 0, 2, 1, 1])
        assert type(found) is type(library(probs))
        assert found.dtype == library(probs).dtype
        np.testing.assert_allclose(found, truth, atol=atol)
    with np.errstate(divide="ignore"):
        logs = [library(np.log(a)) for a in padded]
    np.testing.assert_allclose(askwell.epig_quadratic(*logs, weights=[1, 0, 2, 1, 1], log=True), truth, atol=2 * atol)


def test_quadratic_is_epig_where_dependence_is_weak():
    probs, targets = linear(rng_for(0, 0, "weak"), 30, 20, 1000, 3, scale=0.2)
    plain = askwell.epig(probs, targets)
    np.testing.assert_allclose(askwell.epig_quadratic(probs, targets), plain, atol=0.05 * plain.max())


# ---- standard error ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "within"), [("linear", 0.05), ("sharp", 0.1), ("soft", 0.2), ("hard_coupled", 0.25)])
@pytest.mark.parametrize("weights", [None, [1, 0, 2, 1, 3, 1]])
def test_error_is_near_the_delete_one_jackknife(kind, within, weights):
    """To first order they are the same; deleting a vote empties cells, and soft noise has no first order."""
    k, rng = 60, rng_for(0, 0, "jackknife")
    made = {"linear": lambda: linear(rng, 8, 6, k, 3), "sharp": lambda: linear(rng, 8, 6, k, 2, scale=3)}
    probs, targets = made[kind]() if kind in made else pool_and_targets(kind, 8, 6, k, 3)
    without = np.stack(
        [reference_epig(np.delete(probs, i, axis=1), np.delete(targets, i, axis=1), weights) for i in range(k)]
    )  # [k, n]
    jackknife = np.sqrt((k - 1) / k * ((without - without.mean(0)) ** 2).sum(0))
    assert jackknife.min() > 1e-4
    np.testing.assert_allclose(askwell.epig_error(probs, targets, weights=weights), jackknife, rtol=within)


def test_error_is_the_spread_over_posteriors():
    """What it claims: how much the score of one question moves when all draws are drawn anew."""
    x = rng_for(0, 0, "spread").normal(size=(5, 5))
    scores, errors = [], []
    for again in range(200):
        weights = rng_for(again, 1, "spread").normal(size=(80, 5, 3))
        logits = np.exp(np.einsum("nf,kfc->nkc", x, weights))
        probs = logits / logits.sum(-1, keepdims=True)
        scores.append(askwell.epig(probs[:3], probs[3:]))
        errors.append(askwell.epig_error(probs[:3], probs[3:]))
    np.testing.assert_allclose(np.mean(errors, axis=0), np.std(scores, axis=0), rtol=0.2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_error_in_every_library(library, dtype):
    probs, targets = pool_and_targets("mixed", 9, 5, 30, 4, dtype=dtype)
    found = askwell.epig_error(library(probs), library(targets))
    assert type(found) is type(library(probs))
    assert found.dtype == library(probs).dtype
    truth = askwell.epig_error(probs.astype(np.float64), targets.astype(np.float64))
    np.testing.assert_allclose(found, truth, atol=1e-5 if dtype == "float32" else 1e-12)
    with np.errstate(divide="ignore"):
        logs = library(np.log(probs)), library(np.log(targets))
    np.testing.assert_allclose(askwell.epig_error(*logs, log=True), truth, atol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_draws_that_agree_leave_no_doubt(dtype, either):
    probs, targets = pool_and_targets("agreeing", 9, 5, 30, 4, dtype=dtype)
    np.testing.assert_allclose(askwell.epig_error(probs, targets), 0, atol=1e-7 if dtype == "float32" else 1e-15)
    np.testing.assert_allclose(askwell.epig_quadratic(probs, targets), 0, atol=1e-9 if dtype == "float32" else 1e-15)
    np.testing.assert_allclose(askwell.epig_corrected(probs, targets), 0, atol=1e-9 if dtype == "float32" else 1e-15)


# ---- the guard -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_signal_tells_shared_draws_from_others(library, either):
    probs, targets = (library(a) for a in linear(rng_for(0, 0, "signal"), 60, 20, 100, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sound = askwell.signal(probs, targets)
    assert isinstance(sound, float)
    assert sound > 2
    broken = []
    for shift in (13, 47, 89):
        other = library(np.roll(np.asarray(targets), shift, axis=1))  # predicted with different weights
        with pytest.warns(UserWarning, match=r"(?s)times what unrelated draws would give.*k = 100.*different draws"):
            broken.append(askwell.signal(probs, other))
    assert askwell.signal(probs, other, warn=False) == broken[-1]  # a warning would be an error
    assert 0.9 < np.mean(broken) <= 1.1
    assert max(broken) < 1.3


def test_signal_of_independent_votes_is_one():
    votes = hard(rng_for(0, 0, "one"), 200, 100, 4)
    assert askwell.signal(votes[:100], votes[100:], warn=False) == pytest.approx(1, abs=0.05)


def test_signal_looks_at_some_candidates_of_the_whole_pool():
    probs, targets = linear(rng_for(0, 0, "some"), 400, 30, 60, 3)
    whole = askwell.signal(probs, targets)
    assert askwell.signal(probs, targets, candidates=100) == askwell.signal(probs[::4], targets)
    assert askwell.signal(probs, targets, candidates=100) == pytest.approx(whole, rel=0.2)


def test_signal_options():
    probs, targets = linear(rng_for(0, 0, "options"), 50, 30, 60, 3)
    weights, logs = np.arange(30), (np.log(probs), np.log(targets))
    parts = [
        askwell.epig(probs, np.roll(targets, shift, axis=1), weights=weights).mean() for shift in (0, 12, 24, 36, 48)
    ]
    ratio = parts[0] / np.mean(parts[1:])
    assert askwell.signal(probs, targets, weights=weights, rotations=4) == pytest.approx(ratio, rel=1e-12)
    assert askwell.signal(*logs, weights=weights, rotations=4, log=True) == pytest.approx(ratio, rel=1e-9)


def test_signal_where_there_is_nothing_at_all():
    probs, targets = pool_and_targets("uniform", 5, 4, 8, 4)
    assert askwell.signal(probs, targets, warn=False) == 1
    with pytest.warns(UserWarning, match="draws"):
        askwell.signal(probs, targets)


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [askwell.epig_corrected, askwell.epig_quadratic, askwell.epig_error, askwell.signal])
@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_refusals(score, library, either):
    probs, targets = (library(a) for a in pool_and_targets("soft", 3, 2, 4, 3))
    with pytest.raises(ValueError, match=r"at least two draws.*k = 1.*ensemble"):
        score(probs[:, :1], targets[:, :1])
    with pytest.raises(ValueError, match="target_probs must have at least one target"):
        score(probs, targets[:0])
    with pytest.raises(ValueError, match="probs and target_probs must have the same number of draws"):
        score(probs, targets[:, :3])
    with pytest.raises(ValueError, match=r"^target_probs must hold probabilities that sum to one"):
        score(probs, 2 * targets)
    with pytest.raises(ValueError, match=r"^probs must hold probabilities that sum to one"):
        score(2 * probs, targets)
    with pytest.raises(ValueError, match="weights must have one number per target"):
        score(probs, targets, weights=[1.0])


@pytest.mark.parametrize("score", [askwell.epig_corrected, askwell.epig_quadratic, askwell.epig_error])
@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_an_empty_pool_has_no_scores(score, library, either):
    probs, targets = (library(a) for a in pool_and_targets("soft", 0, 2, 4, 3, dtype="float32"))
    found = score(probs, targets)
    assert tuple(found.shape) == (0,)
    assert type(found) is type(probs)
    assert found.dtype == probs.dtype


def test_an_empty_pool_has_no_signal():
    probs, targets = pool_and_targets("soft", 0, 2, 4, 3)
    with pytest.raises(ValueError, match="probs"):
        askwell.signal(probs, targets)


@pytest.mark.parametrize("score", [askwell.epig_corrected, askwell.signal])
def test_at_least_one_rotation(score):
    probs, targets = pool_and_targets("soft", 3, 2, 4, 3)
    with pytest.raises(ValueError, match="rotations must be at least 1, but it is 0"):
        score(probs, targets, rotations=0)


def test_inputs_are_never_modified(either):
    probs, targets = linear(rng_for(0, 0, "kept"), 20, 10, 20, 3)
    weights = np.arange(10.0)
    kept = probs.copy(), targets.copy(), weights.copy()
    for score in (askwell.epig_corrected, askwell.epig_quadratic, askwell.epig_error, askwell.signal):
        score(probs, targets, weights=weights)
    for now, before in zip((probs, targets, weights), kept, strict=True):
        np.testing.assert_array_equal(now, before)
