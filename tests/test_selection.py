"""The table of batches: all of them keep the contract, and each looks only at what it says it wants."""

import functools

import numpy as np
import pytest
from posteriors import pool_and_targets

from askwell import epig
from askwell.seeds import rng_for
from askwell.selection import BATCHES, Candidates, Wants, as_batch, joint_exact, select, wants

ALL = {**BATCHES, "joint_exact": joint_exact}


def candidates(n=12, k=10, c=3, *, seed=0, dtype="float32", kind="mixed", pending=0):
    probs, targets = pool_and_targets(kind, n + pending, 5, k, c, seed=seed, dtype=dtype)
    rng = rng_for(seed, 0, "features")
    return Candidates(
        scores=epig(probs[:n], targets),
        probs=probs[:n],
        target_probs=targets,
        weights=np.array([1.0, 0, 2, 1, 1]),
        pending=probs[n:] if pending else None,
        x=rng.normal(size=(n, 4)),
        labelled=rng.normal(size=(3, 4)),
    )


def test_the_names():
    named = "top power softmax softrank joint batchbald badge kcentre typiclust probcover"
    assert list(BATCHES) == named.split()
    for name in BATCHES:
        assert as_batch(name) is as_batch(BATCHES[name]) is BATCHES[name]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("pending", [0, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_batch_is_of_different_positions_and_repeatable(name, size, pending, dtype):
    given = candidates(pending=pending, dtype=dtype)
    kept = {key: np.copy(value) for key, value in vars(given).items() if value is not None}
    chosen = ALL[name](given, size, rng=rng_for(0, 0, "batch"))
    assert chosen.shape == (size,)
    assert chosen.dtype.kind == "i"
    assert len({*chosen}) == size
    assert ((chosen >= 0) & (chosen < 12)).all()
    np.testing.assert_array_equal(chosen, ALL[name](given, size, rng=rng_for(0, 0, "batch")))
    for key, value in kept.items():
        np.testing.assert_array_equal(vars(given)[key], value)


@pytest.mark.parametrize("name", BATCHES)
def test_the_whole_pool_is_a_batch(name):
    chosen = select(name, candidates(), 12, rng=rng_for(0, 0, "batch"))
    assert sorted(chosen) == list(range(12))


@pytest.mark.parametrize("name", BATCHES)
def test_candidates_that_are_all_the_same(name):
    one = np.full((6, 3, 2), 0.5)
    given = Candidates(np.zeros(6), one, one, pending=one[:1], x=np.ones((6, 2)), labelled=np.ones((1, 2)))
    assert sorted(select(name, given, 6, rng=rng_for(0, 0, "batch"))) == list(range(6))


@pytest.mark.parametrize("name", ALL)
def test_a_batch_looks_at_no_more_than_it_wants(name):
    """The same choice from what `wants` promises and from everything there is."""
    wanted, whole = wants(ALL[name]), candidates(pending=2)
    beliefs = {"none": None, "mean": whole.probs.mean(axis=1, keepdims=True), "draws": whole.probs}[wanted.beliefs]
    waiting = {"none": None, "mean": whole.pending.mean(axis=1, keepdims=True), "draws": whole.pending}[wanted.beliefs]
    part = Candidates(
        scores=whole.scores if wanted.scores else np.zeros(12),
        probs=beliefs,
        target_probs=whole.target_probs if wanted.targets else None,
        weights=whole.weights if wanted.targets else None,
        pending=waiting,
        x=whole.x if wanted.features else None,
        labelled=whole.labelled if wanted.features else None,
    )
    options = {"clusters": 3} if name == "probcover" else {}
    first, second = (ALL[name](given, 5, rng=rng_for(0, 0, "batch"), **options) for given in (part, whole))
    np.testing.assert_array_equal(first, second)


def test_how_many_candidates_to_give():
    assert wants("top").count(10, 1000) == 10
    assert wants("joint").count(10, 1000) == 512
    assert wants("joint").count(200, 10_000) == 800
    assert wants("joint").count(10, 100) == 100
    assert wants("power").count(10, 1000) == wants("kcentre").count(10, 1000) == 1000


def test_functions_of_ones_own():
    def last(candidates, size, *, rng):
        return np.arange(len(candidates))[-size:]

    assert as_batch(last) is last
    assert wants(last) == Wants(None, True, "draws", True, True)
    assert select(last, candidates(), 2, rng=None).tolist() == [10, 11]
    sharper = functools.partial(functools.partial(BATCHES["power"], beta=2.0), beta=4.0)
    assert wants(sharper) == wants("power")


@pytest.mark.parametrize("wrong", [[0, 0], [0], [0, 12], [-1, 0], [[0, 1]]])
def test_a_batch_that_breaks_the_contract_is_found(wrong):
    with pytest.raises(ValueError, match=r"batch must give 2 different positions from 0 to 11, but it gave"):
        select(lambda candidates, size, rng: wrong, candidates(), 2, rng=None)


@pytest.mark.parametrize("size", [-1, 13])
def test_a_batch_larger_than_the_pool_is_refused(size):
    with pytest.raises(ValueError, match=rf"size must be between 0 and the number of candidates, 12, but it is {size}"):
        select("top", candidates(), size, rng=None)
    assert select("top", candidates(), 0, rng=None).tolist() == []


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"batch must be one of top, .*probcover.*'BatchBald'. Did you mean 'batchbald'"
    ):
        as_batch("BatchBald")
    with pytest.raises(ValueError, match=r"or a function, but it is 3. A function of your own"):
        wants(3)
