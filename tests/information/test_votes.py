"""Draws that are votes are counted: the same scores as from probabilities, exact, and alone of their kind or not."""

import numpy as np
import pytest

from askwell import epig, pairwise_epig, top_epig
from askwell.information import compiled
from askwell.seeds import rng_for


@pytest.fixture
def rng():
    return rng_for(0, 0, "votes")


def votes(rng, n, draws, classes, dtype=np.float32):
    """Inputs whose draws are sure of a class; some classes get no votes."""
    logits = rng.normal(size=(n, 1, classes)) * 2 + rng.gumbel(size=(n, draws, classes))
    return np.eye(classes, dtype=dtype)[logits.argmax(axis=-1)]


def soft(rng, n, draws, classes, dtype=np.float32):
    return rng.dirichlet(np.ones(classes), size=(n, draws)).astype(dtype)


def information(p, q):
    """I(y; y*) by its definition, in float64, of one input and one target."""
    joint = p.T.astype(float) @ q.astype(float) / len(p)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    return sum(a * np.log(a / b) for a, b in zip(joint.ravel(), apart.ravel(), strict=True) if a > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("draws", [1, 2, 63, 64, 65, 100, 130])
@pytest.mark.parametrize("classes", [2, 3, 12])
def test_counts_are_the_definition(rng, dtype, draws, classes):
    probs, targets = votes(rng, 7, draws, classes, dtype), votes(rng, 5, draws, classes, dtype)
    pairs = np.array([[information(p, q) for q in targets] for p in probs])
    np.testing.assert_allclose(pairwise_epig(probs, targets), pairs, rtol=2e-7, atol=1e-14)
    np.testing.assert_allclose(epig(probs, targets), pairs.mean(axis=1), rtol=2e-7, atol=1e-14)
    weights = np.array([0.0, 1.0, 2.0, 0.5, 0.0])
    weighted = pairs @ weights / weights.sum()
    np.testing.assert_allclose(epig(probs, targets, weights=weights), weighted, rtol=2e-7, atol=1e-14)


@pytest.mark.parametrize("m", [1, 100, 300])  # one block, and several of which the last is not full
def test_votes_among_others_score_as_alone(rng, m):
    """To the bit, and whether a block of targets is all votes or not."""
    some, others = votes(rng, 40, 70, 4), soft(rng, 40, 70, 4)
    mixed = np.concatenate([some, others])
    order = rng.permutation(80)
    for targets in (votes(rng, m, 70, 4), np.concatenate([votes(rng, m, 70, 4), soft(rng, 3, 70, 4)])):
        scores = epig(mixed, targets)
        assert np.array_equal(epig(mixed[order], targets), scores[order])
        assert np.array_equal(np.concatenate([epig(some, targets), epig(others, targets)]), scores)
        exact = [np.mean([information(p, q) for q in targets]) for p in mixed[::8]]
        np.testing.assert_allclose(scores[::8], exact, atol=1e-6)
        best, found = top_epig(mixed, targets, 10)
        assert np.array_equal(best, np.argsort(-scores, kind="stable")[:10])
        assert np.array_equal(found, scores[best])


def test_what_is_known_tells_nothing_to_the_bit(rng):
    certain = np.broadcast_to(np.eye(5, dtype=np.float32)[[2]], (100, 5))
    others = votes(rng, 30, 100, 5)
    assert not pairwise_epig(others, certain[None]).any()
    assert not pairwise_epig(certain[None], others).any()


def test_who_is_counted(rng):
    """Inputs are votes to the bit or not at all, and only against targets that all are."""
    probs = votes(rng, 3, 20, 3)
    probs[1, 4] = [1 - 1e-7, 1e-7, 0]
    seen = [pack.votes is not None for pack in compiled.packs(votes(rng, 9, 20, 3), None, np.float32)]
    assert seen == [True]
    (pack,) = compiled.packs(probs, None, np.float32)
    assert pack.votes is None
    packed = list(compiled.packs(probs[[0, 2]], None, np.float32))
    ((_, looked),) = compiled.parts(probs, packed=packed)
    assert compiled.counted(looked, packed).tolist() == [True, False, True]
    assert compiled.counted(looked, [*packed, pack]).tolist() == [False] * 3


def test_logarithms_of_votes(rng):
    probs, targets = votes(rng, 6, 50, 3), votes(rng, 4, 50, 3)
    with np.errstate(divide="ignore"):
        assert np.array_equal(epig(np.log(probs), np.log(targets), log=True), epig(probs, targets))
