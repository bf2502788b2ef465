"""Outcomes of questions: shares and posteriors by Bayes' rule, entropies by enumeration, thinning without bias."""

import itertools
import math

import numpy as np
import pytest
from posteriors import pool_and_targets, slow_entropy

from askwell.seeds import rng_for
from askwell.selection import outcomes as module
from askwell.selection.outcomes import answered, expected_entropy, thinned, unanswered


def all_answered(probs):
    outcomes = unanswered(probs.shape[1])
    for belief in probs:
        outcomes = answered(outcomes, belief)
    return outcomes


@pytest.mark.parametrize("kind", ["soft", "hard", "mixed", "peaked"])
def test_shares_and_posteriors_are_those_of_bayes(kind):
    asked, left = pool_and_targets(kind, 3, 4, 6, 3)
    expected, entropy = [], np.zeros(len(left))
    for labels in itertools.product(range(3), repeat=3):
        likelihood = np.array([math.prod(asked[i, k, y] for i, y in enumerate(labels)) for k in range(6)])
        if likelihood.any():
            expected.append((likelihood.mean(), likelihood / likelihood.sum()))
            given = np.einsum("k,nkc->nc", expected[-1][1], left)
            entropy += expected[-1][0] * slow_entropy(given[:, None])
    outcomes = all_answered(asked)
    np.testing.assert_allclose(outcomes.share, [share for share, _ in expected], rtol=1e-12)
    np.testing.assert_allclose(outcomes.posterior, [posterior for _, posterior in expected], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(expected_entropy(outcomes, left), entropy, atol=1e-12)


def test_many_questions_do_not_underflow():
    asked, left = pool_and_targets("confident_coupled", 400, 3, 5, 4)
    outcomes = unanswered(5)
    for belief in asked:
        outcomes = thinned(answered(outcomes, belief), 20, rng=rng_for(0, 0, "many"))
    np.testing.assert_allclose(outcomes.share.sum(), 1)
    np.testing.assert_allclose(outcomes.posterior.sum(axis=1), 1)
    assert np.isfinite(expected_entropy(outcomes, left)).all()


def test_nothing_is_thinned_that_is_few():
    outcomes = all_answered(pool_and_targets("soft", 2, 1, 6, 3)[0])
    assert thinned(outcomes, 9, rng=None) is outcomes


def test_thinning_is_unbiased_and_even():
    asked, left = pool_and_targets("soft", 4, 3, 8, 3)
    outcomes = all_answered(asked)  # 81 of them
    truth = expected_entropy(outcomes, left)
    found = np.array(
        [expected_entropy(thinned(outcomes, 20, rng=rng_for(seed, 0, "thin")), left) for seed in range(400)]
    )
    error = found.std(axis=0, ddof=1) / 20
    assert (error > 0).all()
    assert (np.abs(found.mean(axis=0) - truth) < 3.5 * error).all()
    some = thinned(outcomes, 20, rng=rng_for(0, 0, "thin"))
    assert some.posterior.shape == (20, 8)
    for share, row in zip(outcomes.share, outcomes.posterior, strict=True):
        times = sum(np.array_equal(row, kept) for kept in some.posterior)
        assert math.floor(20 * share) <= times <= math.ceil(20 * share)


def test_large_tables_are_made_in_parts(monkeypatch):
    asked, left = pool_and_targets("soft", 3, 7, 6, 3)
    whole = expected_entropy(all_answered(asked), left)
    monkeypatch.setattr(module, "ENTRIES", 200)
    np.testing.assert_allclose(expected_entropy(all_answered(asked), left), whole, rtol=1e-14)
