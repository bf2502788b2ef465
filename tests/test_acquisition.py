"""Names and scores: every score is its measure, whatever the chunks; names that are wrong are met halfway."""

import functools

import numpy as np
import pytest
from posteriors import (
    pool_and_targets,
    slow_bald,
    slow_entropy,
    slow_epig,
    slow_least_confidence,
    slow_margin,
    slow_quadratic,
)

import askwell
from askwell.acquisition import SCORES, as_score, needs_targets, open_weights
from askwell.seeds import rng_for

WITHOUT_TARGETS = ["random", "entropy", "margin", "least_confidence", "bald"]
WITH_TARGETS = ["epig", "epig_corrected", "epig_quadratic", "auto"]
SLOW = {
    "entropy": lambda p, t, w: slow_entropy(p),
    "margin": lambda p, t, w: slow_margin(p),
    "least_confidence": lambda p, t, w: slow_least_confidence(p),
    "bald": lambda p, t, w: slow_bald(p),
    "epig": slow_epig,
    "epig_quadratic": slow_quadratic,
    "epig_corrected": lambda p, t, w: (
        slow_epig(p, t, w) - np.mean([slow_epig(p, np.roll(t, shift, axis=1), w) for shift in (2, 4, 6, 8)], axis=0)
    ),
}


def test_the_names():
    assert list(SCORES) == WITHOUT_TARGETS + WITH_TARGETS
    assert [name for name in SCORES if not needs_targets(name)] == WITHOUT_TARGETS
    with pytest.raises(TypeError):
        SCORES["mine"] = as_score("epig")


@pytest.mark.parametrize("name", SLOW)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_score_is_its_measure(name, dtype):
    probs, targets = pool_and_targets("mixed", 9, 5, 10, 3, dtype=dtype)
    weights = [1, 0, 2, 1, 3]
    found = as_score(name)(probs, targets, weights=weights, rng=None)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, SLOW[name](probs, targets, weights), atol=3e-6 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("name", [name for name in SCORES if name != "random"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_chunks_change_nothing(name, dtype):
    probs, targets = pool_and_targets("mixed", 50, 7, 20, 4, dtype=dtype)
    score = functools.partial(as_score(name), weights=None, rng=None)
    whole = score(probs, targets)
    parts = np.concatenate([score(part, targets) for part in (probs[:1], probs[1:18], probs[18:])])
    np.testing.assert_array_equal(parts, whole)


def slow_auto(probs, targets, weights):
    """margin(x) sum_j w_j I(y; y*_j) / sum_j w_j, where w_j is a target's weight times its margin, at least 0.02."""

    def margin(belief):
        second, first = np.sort(np.asarray(belief, np.float64).mean(axis=0))[-2:]
        return 1 - (first - second)

    opened = np.array([weight * max(0.02, margin(target)) for weight, target in zip(weights, targets, strict=True)])
    pairs = np.asarray(askwell.pairwise_epig(probs, targets), np.float64)
    return np.array([margin(belief) for belief in probs]) * (pairs @ opened) / opened.sum()


@pytest.mark.parametrize("kind", ["mixed", "hard"])
def test_auto_is_margin_times_epig_about_open_targets(kind):
    probs, targets = pool_and_targets(kind, 9, 5, 10, 3, dtype="float64")
    weights = np.array([1.0, 0, 2, 1, 3])
    found = as_score("auto")(probs, targets, weights=weights, rng=None)
    np.testing.assert_allclose(found, slow_auto(probs, targets, weights), atol=1e-9)
    np.testing.assert_allclose(open_weights(targets, weights=weights).sum(), 1)
    assert open_weights(targets, weights=weights)[1] == 0


def test_random_is_drawn_from_the_generator_alone():
    probs, _ = pool_and_targets("soft", 1000, 1, 2, 2)
    found = as_score("random")(probs, None, weights=None, rng=rng_for(3, 1, "random"))
    np.testing.assert_array_equal(found, rng_for(3, 1, "random").random(1000))


@pytest.mark.parametrize("name", WITHOUT_TARGETS)
def test_some_scores_need_no_targets(name):
    probs, _ = pool_and_targets("soft", 6, 1, 4, 3)
    assert as_score(name)(probs, None, weights=None, rng=rng_for(0, 0, "score")).shape == (6,)


@pytest.mark.parametrize("name", WITH_TARGETS)
def test_others_say_so(name):
    probs, _ = pool_and_targets("soft", 6, 1, 4, 3)
    with pytest.raises(ValueError, match=rf"target_probs must be .* for {name}, but it is None.*random, entropy"):
        as_score(name)(probs, None, weights=None, rng=None)


def test_functions_pass_through():
    def mine(probs, target_probs, *, weights, rng):
        return probs[:, 0, 0]

    assert as_score(mine) is mine
    assert needs_targets(mine)
    assert as_score(functools.partial(mine, weights=None)).func is mine


@pytest.mark.parametrize("name", SLOW)
def test_the_public_measures_are_scores_as_well(name):
    measure = getattr(askwell, name)
    assert as_score(measure) is SCORES[name]
    assert as_score(SCORES[name]) is SCORES[name]
    assert needs_targets(measure) == needs_targets(SCORES[name]) == (name in WITH_TARGETS)


@pytest.mark.parametrize(("wrong", "meant"), [("epgi", "'epig'"), ("BALD", "'bald'"), ("leastconfidence", "'least_")])
@pytest.mark.parametrize("door", [as_score, needs_targets])
def test_unknown_names_are_refused_with_the_nearest(wrong, meant, door):
    with pytest.raises(ValueError, match=rf"score must be one of random, .*epig_quadratic.*{wrong}.*mean {meant}"):
        door(wrong)


@pytest.mark.parametrize("wrong", ["zzz", 3, None, [7]])
def test_what_is_neither_a_name_nor_a_function(wrong):
    with pytest.raises(ValueError, match=r"score must be one of .* or a function, but it is(?!.*Did you mean)"):
        as_score(wrong)
