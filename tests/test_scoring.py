"""Chunk by chunk, and the same answer."""

import numpy as np
import pytest

import askwell
from askwell import scoring
from askwell.acquisition import SCORES
from askwell.scoring import Question, best_items, score_items
from askwell.seeds import rng_for


class Fixed:
    """A posterior that knows its inputs by number."""

    classes = ("a", "b", "c")

    def __init__(self, n, k=20):
        self.probs = rng_for(n, 0, "fixed posterior").dirichlet([0.5] * 3, (n, k))

    def predict(self, x):
        return self.probs[np.asarray(x)[:, 0].astype(int)]


@pytest.fixture
def question():
    numbers = np.arange(130.0)[:, None]
    return Question(Fixed(130), numbers[:100], targets=numbers[100:])


@pytest.mark.parametrize("score", sorted(SCORES))
def test_best_items_are_what_sorting_all_scores_gives(monkeypatch, question, score):
    whole = score_items(question, score)
    order = np.argsort(-whole, kind="stable")[:7]
    positions, scores = best_items(question, score, 7)
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_allclose(scores, whole[order], rtol=1e-9)
    monkeypatch.setattr(scoring, "CHUNK_BYTES", 17 * 20 * 3 * 8)
    np.testing.assert_array_equal(score_items(question, score), whole)
    np.testing.assert_array_equal(best_items(question, score, 7)[0], order)


def test_scores_are_those_of_arrays(question):
    probs = question.posterior.probs
    np.testing.assert_array_equal(score_items(question, "epig"), askwell.epig(probs[:100], probs[100:]))
    np.testing.assert_array_equal(score_items(question, "bald"), askwell.bald(probs[:100]))


def test_votes_are_scored_as_anything_else(question):
    probs = np.eye(3)[question.posterior.probs.argmax(axis=-1)]
    question.posterior.probs = probs
    positions, best = best_items(question, "epig", 5)
    expected, scores = askwell.top_epig(probs[:100], probs[100:], 5)
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_allclose(best, scores, rtol=1e-12)


def test_weights_and_positions_count(question):
    weights = np.arange(30.0)
    some = Question(question.posterior, question.pool, question.targets, weights, np.array([5, 90, 7]))
    probs = question.posterior.probs
    expected = askwell.epig(probs[[5, 90, 7]], probs[100:], weights=weights)
    np.testing.assert_allclose(score_items(some, "epig"), expected, rtol=1e-12)
    positions, _ = best_items(some, "epig", 2)
    np.testing.assert_array_equal(positions, np.array([5, 90, 7])[np.argsort(-expected, kind="stable")[:2]])


def test_a_users_own_score_sees_beliefs_targets_weights_and_a_generator(question):
    seen = []

    def own(probs, target_probs, *, weights, rng):
        seen.append((probs.shape, target_probs.shape, weights, rng.random()))
        return probs[:, 0, 0]

    np.testing.assert_array_equal(score_items(question, own), question.posterior.probs[:100, 0, 0])
    assert seen[0][:3] == ((100, 20, 3), (30, 20, 3), None)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (lambda probs, targets, *, weights, rng: probs[:, 0], "one number per candidate"),
        (lambda probs, targets, *, weights, rng: np.full(len(probs), np.nan), "NaN"),
        ("no such score", "no such score"),
    ],
)
def test_scores_that_are_none_are_refused(question, own, words):
    with pytest.raises(ValueError, match=words):
        score_items(question, own)


def test_epig_without_targets_is_refused():
    with pytest.raises(ValueError, match="targets must be given"):
        score_items(Question(Fixed(10), np.arange(10.0)[:, None]), "epig")
    assert score_items(Question(Fixed(10), np.arange(10.0)[:, None]), "bald").shape == (10,)


def test_a_posterior_that_knows_epig_without_draws_is_asked_for_it():
    from askwell.models.gp import GPClassifier

    x = rng_for(0, 0, "exact").normal(size=(60, 2))
    posterior = GPClassifier().fit(x[:10], (x[:10, 0] > 0).tolist(), rng=rng_for(0, 0, "fit"))
    question = Question(posterior, x[10:50], targets=x[50:])
    scores = score_items(question, "epig")
    np.testing.assert_array_equal(scores, posterior.epig(x[10:50], x[50:]))
    positions, best = best_items(question, "epig", 4)
    np.testing.assert_array_equal(positions, np.argsort(-scores, kind="stable")[:4])
    np.testing.assert_allclose(best, scores[positions], rtol=1e-9)
    assert len(best_items(question, "epig", 100)[0]) == 40
