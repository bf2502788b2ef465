"""The score of every item is that of arrays."""

import numpy as np
import pytest
from fixed_posterior import Fixed

import askwell
from askwell.scoring import Search, score_items


def test_scores_are_those_of_arrays(search):
    probs = search.posterior.probs
    np.testing.assert_array_equal(score_items(search, "epig"), askwell.epig(probs[:100], probs[100:]))
    np.testing.assert_array_equal(score_items(search, "bald"), askwell.bald(probs[:100]))


def test_a_users_own_score_sees_beliefs_targets_weights_and_a_generator(search):
    seen = []

    def own(probs, target_probs, *, weights, rng):
        seen.append((probs.shape, target_probs.shape, weights, rng.random()))
        return probs[:, 0, 0]

    np.testing.assert_array_equal(score_items(search, own), search.posterior.probs[:100, 0, 0])
    assert seen[0][:3] == ((100, 20, 3), (30, 20, 3), None)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (lambda probs, targets, *, weights, rng: probs[:, 0], "one number per candidate"),
        (lambda probs, targets, *, weights, rng: np.full(len(probs), np.nan), "NaN"),
        ("no such score", "no such score"),
    ],
)
def test_scores_that_are_none_are_refused(search, own, words):
    with pytest.raises(ValueError, match=words):
        score_items(search, own)


def test_epig_without_targets_is_refused():
    with pytest.raises(ValueError, match="targets must be given"):
        score_items(Search(Fixed(10), np.arange(10.0)[:, None]), "epig")
    assert score_items(Search(Fixed(10), np.arange(10.0)[:, None]), "bald").shape == (10,)
