"""Draws that are votes are counted: the same scores as from probabilities, exact, and alone of their kind or not."""

import numpy as np
import pytest

import askwell
from askwell import epig, pairwise_epig, top_epig
from askwell.information._kernels import loop as compiled
from askwell.information.bounds import prepare
from askwell.information.votes import Votes, code_type
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


@pytest.mark.parametrize("draws", [1, 63, 64, 65, 500])
@pytest.mark.parametrize("classes", [2, 3, 32, 33, 300])
def test_votes_are_counted_by_words(rng, draws, classes):
    codes = rng.integers(0, classes, (9, draws)).astype(code_type(classes))
    for given in (codes, np.asfortranarray(codes)):
        some = Votes(given, classes)
        np.testing.assert_array_equal(compiled.vote_counts(some), some.counts)


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


# ---- votes as they are held, a byte each ----


def held(rng, n, draws, classes):
    codes = rng.integers(0, classes, (n, draws)) * (rng.random((n, 1)) < 0.9)  # some inputs are sure
    return Votes(codes.astype(code_type(classes)), classes)


def test_votes_stand_for_an_array(rng):
    some = held(rng, 7, 20, 4)
    probs = np.asarray(some)
    assert probs.shape == some.shape == (7, 20, 4)
    assert probs.dtype == some.dtype
    np.testing.assert_array_equal(probs.argmax(-1), some.codes)
    np.testing.assert_array_equal(probs.sum(1), some.counts)
    for rows in (slice(2, 5), [1, 6], np.arange(7) > 3):
        np.testing.assert_array_equal(np.asarray(some[rows]), probs[rows])
    assert len(some[:0]) == 0
    with pytest.raises(TypeError, match=r"numpy\.asarray"):
        some[3]


@pytest.mark.parametrize("compiling", ["wait", "never"])
@pytest.mark.parametrize(("draws", "classes"), [(1, 2), (64, 2), (500, 2), (70, 3), (500, 10), (100, 40), (65, 300)])
@pytest.mark.parametrize("weighted", [False, True])
def test_held_votes_score_as_their_array(rng, monkeypatch, compiling, draws, classes, weighted):
    monkeypatch.setenv("ASKWELL_COMPILE", compiling)
    some, targets = held(rng, 30, draws, classes), held(rng, 9, draws, classes)
    weights = rng.random(9) if weighted else None
    probs, target_probs = np.asarray(some), np.asarray(targets)
    np.testing.assert_array_equal(
        askwell.epig(some, targets, weights=weights), askwell.epig(probs, target_probs, weights=weights)
    )
    np.testing.assert_array_equal(askwell.pairwise_epig(some, targets), askwell.pairwise_epig(probs, target_probs))
    for score in (askwell.entropy, askwell.margin, askwell.least_confidence, askwell.bald):
        found = score(some)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, score(probs), atol=2e-6)
    if compiling == "wait":
        np.testing.assert_array_equal(askwell.bald(some), askwell.bald(probs))


@pytest.mark.parametrize(("draws", "classes"), [(200, 6), (60, 30), (400, 20)])
def test_counting_is_right_whichever_way(rng, draws, classes):
    """Large groups of draws by bits, small ones draw by draw; targets in several chunks."""
    some, targets = held(rng, 20, draws, classes), held(rng, 150, draws, classes)
    truth = np.array([[information(p, q) for q in np.asarray(targets)] for p in np.asarray(some)])
    np.testing.assert_allclose(askwell.pairwise_epig(some, targets), truth, atol=1e-6)
    np.testing.assert_allclose(askwell.epig(some, targets), truth.mean(1), atol=1e-6)


def test_the_best_of_held_votes(rng):
    some, targets = held(rng, 300, 100, 3), held(rng, 20, 100, 3)
    scores = askwell.epig(some, targets)
    order = np.argsort(-scores, kind="stable")[:10]
    for prepared in (None, prepare(targets)):
        index, best = askwell.top_epig(some, targets, 10, prepared=prepared)
        np.testing.assert_array_equal(index, order)
        np.testing.assert_array_equal(best, scores[order])
    index, best = askwell.top_epig(some, targets, 10, floor=float(scores[order[4]]))
    np.testing.assert_array_equal(index[:5], order[:5])
    with pytest.raises(ValueError, match="prepared of others"):
        askwell.top_epig(some, targets, 10, prepared=prepare(held(rng, 20, 100, 3)))
    with pytest.raises(ValueError, match="same weights"):
        askwell.top_epig(some, targets, 10, prepared=prepare(targets, weights=np.arange(1.0, 21)))


def test_held_votes_beside_arrays(rng):
    some, targets = held(rng, 8, 50, 3), soft(rng, 6, 50, 3)
    np.testing.assert_array_equal(askwell.epig(some, targets), askwell.epig(np.asarray(some), targets))
    np.testing.assert_array_equal(
        askwell.epig_quadratic(some, some), askwell.epig_quadratic(np.asarray(some), np.asarray(some))
    )


def test_held_votes_of_other_draws_or_none_are_refused(rng):
    with pytest.raises(ValueError, match="draws"):
        askwell.epig(held(rng, 3, 10, 3), held(rng, 3, 11, 3))
    with pytest.raises(ValueError, match="at least one target"):
        askwell.epig(held(rng, 3, 10, 3), held(rng, 3, 10, 3)[:0])
