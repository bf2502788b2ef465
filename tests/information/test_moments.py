"""Beliefs about numbers: moments over draws, each score against loops."""

import numpy as np
import pytest

import askwell
from askwell.acquisition import FOR_NUMBERS, as_score, check_kind, needs_targets
from askwell.information import moments
from askwell.information.moments import Moments, as_moments
from askwell.seeds import rng_for

RNG = rng_for(0, 0, "tests of moments")


def beliefs(n, k=40):
    return Moments(100 + 5 * RNG.normal(size=(n, k)) + RNG.normal(size=k), RNG.gamma(2.0, size=(n, k)))


def slow_pair(a, b):
    """(V[y], V[y*], Cov) of two inputs, by loops over draws."""
    k = a.means.shape[1]
    means = [sum(each.means[0]) / k for each in (a, b)]
    spread = [sum((m - mean) ** 2 for m in each.means[0]) / (k - 1) for each, mean in zip((a, b), means, strict=True)]
    noise = [sum(each.variances[0]) / k for each in (a, b)]
    shared = sum((a.means[0, i] - means[0]) * (b.means[0, i] - means[1]) for i in range(k)) / (k - 1)
    return spread[0] + noise[0], spread[1] + noise[1], shared


def test_scores_are_what_loops_give():
    pool, targets, weights = beliefs(6), beliefs(4), np.array([1.0, 0, 2, 1])
    shares = weights / weights.sum()
    pairs = [[slow_pair(pool[i : i + 1], targets[j : j + 1]) for j in range(4)] for i in range(6)]
    epig = [[-0.5 * np.log(1 - c**2 / (v * w)) for v, w, c in row] for row in pairs]
    np.testing.assert_allclose(moments.pairwise_epig(pool, targets), epig, rtol=1e-9)
    reduction = [sum(s * c**2 / v for s, (v, _, c) in zip(shares, row, strict=True)) for row in pairs]
    wanted = {"epig": np.array(epig) @ shares, "auto": np.array(epig) @ shares, "variance_reduction": reduction}
    wanted["variance"] = [row[0][0] for row in pairs]
    noise = pool.variances
    wanted["bald"] = 0.5 * (np.log(wanted["variance"]) - np.log(noise).mean(axis=1))
    for name, values in wanted.items():
        found = as_score(name)(pool, targets if needs_targets(name) else None, weights=weights, rng=None)
        np.testing.assert_allclose(found, values, rtol=1e-9, err_msg=name)


def test_epig_is_no_more_than_bald_of_either_and_nothing_where_draws_agree():
    pool, targets = beliefs(20), beliefs(10)
    assert (moments.epig(pool, targets) <= moments.bald(pool) + 1e-12).all()
    same = Moments(np.full((3, 40), 7.0), np.ones((3, 40)))
    np.testing.assert_array_equal(moments.epig(same, targets), 0)
    np.testing.assert_array_equal(moments.bald(same), 0)
    known = Moments(np.full((3, 40), 7.0), np.zeros((3, 40)))
    assert (moments.bald(known) == 0).all()


def test_units_do_not_matter_to_information():
    pool, targets = beliefs(5), beliefs(4)
    scaled, there = (Moments(3 + 1000 * each.means, 1e6 * each.variances) for each in (pool, targets))
    np.testing.assert_allclose(moments.epig(scaled, there), moments.epig(pool, targets), rtol=1e-6)
    np.testing.assert_allclose(moments.bald(scaled), moments.bald(pool), rtol=1e-9)


def test_signal_tells_dependence_from_chance():
    shared = RNG.normal(size=(1, 200))
    pool, targets = (
        Moments(RNG.normal(size=(30, 1)) * shared + 0.3 * RNG.normal(size=(30, 200)), np.ones((30, 200)))
        for _ in range(2)
    )
    assert askwell.signal(pool, targets) > 5
    noise = [Moments(RNG.normal(size=(30, 200)), np.ones((30, 200))) for _ in range(2)]
    with pytest.warns(UserWarning, match="unrelated draws"):
        assert askwell.signal(*noise) < 1.3


@pytest.mark.parametrize("name", FOR_NUMBERS)
def test_scores_of_numbers_refuse_nothing_of_theirs(name):
    check_kind(name, numbers=True)


@pytest.mark.parametrize("name", ["margin", "entropy", "least_confidence", "epig_corrected", "epig_quadratic"])
def test_scores_of_classes_are_refused_for_numbers(name):
    with pytest.raises(ValueError, match="is for classes"):
        as_score(name)(beliefs(2), beliefs(2), weights=None, rng=None)


def test_scores_of_numbers_are_refused_for_classes():
    with pytest.raises(ValueError, match="is for numbers"):
        as_score("variance")(np.full((2, 3, 2), 0.5), None, weights=None, rng=None)


@pytest.mark.parametrize(
    ("means", "variances", "words"),
    [
        ([[0.0]], [[-1.0]], "from 0"),
        ([[np.inf]], [[1.0]], "finite"),
        ([0.0], [1.0], r"\[n, k\]"),
        ([[0.0, 1.0]], [[1.0]], "equal shapes"),
    ],
)
def test_predictions_that_are_none_are_refused(means, variances, words):
    with pytest.raises(ValueError, match=words):
        as_moments((means, variances))


def test_rows_are_taken_together():
    both = beliefs(6)
    for rows in (slice(1, 3), [4, 0], np.array([True, False] * 3)):
        assert np.array_equal(both[rows].means, both.means[rows])
        assert np.array_equal(both[rows].variances, both.variances[rows])
    assert np.asarray(both).shape == both.shape == (6, 40, 2)
