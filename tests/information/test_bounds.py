"""The bounds bound, and the race ends as sorting would."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from posteriors import PROPERTY, TOLERANCE, linear, pool_and_targets, shares, slow_bald, slow_chi2, worlds

import askwell
from askwell.information import bounds
from askwell.seeds import rng_for

DTYPES = ["float32", "float64"]


def same_as_sorting(probs, targets, size, **options):
    """`top_epig` gives the indices and, to the bit, the scores that sorting all of them gives."""
    __tracebackhide__ = True
    scores = np.asarray(askwell.epig(probs, targets, **options))
    order = np.argsort(-scores, kind="stable")[:size]
    best, found = askwell.top_epig(probs, targets, size, **options)
    np.testing.assert_array_equal(np.asarray(best), order)
    np.testing.assert_array_equal(np.asarray(found), scores[order])
    assert np.asarray(found).dtype == scores.dtype


# ---- bounds --------------------------------------------------------------------------------------------------------


@PROPERTY
@given(worlds())
def test_both_are_at_least_epig(world):
    probs, targets, weights = world
    slack = TOLERANCE[str(probs.dtype)]
    scores = askwell.epig(probs, targets, weights=weights)
    for bound in (bounds.chi2_bound, bounds.data_processing_bound):
        most = bound(probs, targets, weights=weights)
        assert most.dtype == probs.dtype
        assert np.isfinite(most).all()
        assert (most >= scores - slack).all(), bound.__name__


@PROPERTY
@given(worlds(most_classes=6))
def test_both_are_their_definitions(world):
    probs, targets, weights = world
    atol = {"float32": 1e-5, "float64": 1e-11}[str(probs.dtype)]  # of chi2, up to c - 1
    chi2 = np.expm1(bounds.chi2_bound(probs, targets, weights=weights).astype(np.float64))
    np.testing.assert_allclose(chi2, slow_chi2(probs, targets, weights), atol=atol, rtol=atol)
    least = np.minimum(slow_bald(probs)[:, None], slow_bald(targets)) @ shares(weights, len(targets))
    np.testing.assert_allclose(bounds.data_processing_bound(probs, targets, weights=weights), least, atol=atol, rtol=0)


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["soft", "hard", "hard_coupled", "mixed"])
def test_bounds_in_every_library(kind, dtype, library, either):
    probs, targets = pool_and_targets(kind, 9, 5, 12, 4, dtype=dtype)
    atol, weights = {"float32": 1e-5, "float64": 1e-11}[dtype], [1, 0, 2, 5, 1]
    found = bounds.chi2_bound(library(probs), library(targets), weights=weights)
    assert type(found) is type(library(probs))
    assert found.dtype == library(probs).dtype
    np.testing.assert_allclose(np.expm1(np.asarray(found)), slow_chi2(probs, targets, weights), atol=atol, rtol=atol)
    with np.errstate(divide="ignore"):
        logs = library(np.log(probs)), library(np.log(targets))
    np.testing.assert_allclose(bounds.chi2_bound(*logs, weights=weights, log=True), found, atol=atol, rtol=atol)
    least = bounds.data_processing_bound(library(probs), library(targets), weights=weights)
    assert type(least) is type(library(probs))
    np.testing.assert_allclose(bounds.data_processing_bound(*logs, weights=weights, log=True), least, atol=atol, rtol=0)
    assert (least >= askwell.epig(library(probs), library(targets), weights=weights) - TOLERANCE[dtype]).all()


def test_many_targets_are_one_gram_matrix(either):
    """Repeating the targets changes nothing; more of them than one block holds."""
    probs, targets = pool_and_targets("mixed", 9, 5, 12, 4)
    many = np.tile(targets, (400, 1, 1))
    np.testing.assert_allclose(
        bounds.chi2_bound(probs, many), bounds.chi2_bound(probs, targets), rtol=1e-11, atol=1e-14
    )


@pytest.mark.parametrize("call", [bounds.chi2_bound, bounds.data_processing_bound])
def test_bounds_refuse_what_epig_refuses(call, either):
    probs, targets = pool_and_targets("soft", 3, 2, 4, 3)
    with pytest.raises(ValueError, match="target_probs must have at least one target"):
        call(probs, targets[:0])
    with pytest.raises(ValueError, match="target_probs must hold probabilities that sum to one"):
        call(probs, 2 * targets)
    with pytest.raises(ValueError, match=r"[^_]probs must hold probabilities|^probs must hold probabilities"):
        call(-probs, targets)
    assert call(probs[:0], targets).shape == (0,)


# ---- the race ------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def race():
    """Bounds are used in this file however small the problem is, also where they cost more than they save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds.Prepared, "pays", True)
        patch.setattr(bounds.Prepared, "finer", True)
        yield


@pytest.mark.parametrize(("pays", "finer"), [(False, False), (True, False), (True, True)])
def test_top_is_sorting_whatever_the_cost(monkeypatch, pays, finer):
    monkeypatch.setattr(bounds.Prepared, "pays", pays)
    monkeypatch.setattr(bounds.Prepared, "finer", finer)
    for classes in (2, 5):
        probs, targets = linear(rng_for(0, 0, "cost"), 400, 200, 60, classes)
        probs[rng_for(1, 0, "cost").integers(0, 400, 100)] = probs[17]
        for size in (1, 10, 399):
            same_as_sorting(probs, targets, size)


@pytest.mark.parametrize(
    ("candidates", "m", "draws", "classes", "pays"),
    [
        (2_000, 100, 500, 2, False),  # as measured: bounds take 16 ms, all scores 4
        (2_000, 100, 500, 10, False),
        (5_000, 100, 500, 26, True),
        (10_000_000, 100, 500, 2, True),
        (20_000, 1_000, 100, 10, True),
        (0, 100, 500, 10, False),
    ],
)
def test_bounds_are_used_where_they_pay(candidates, m, draws, classes, pays):
    rank = bounds.hot_loop().sketch_rank(classes, draws)
    assert bounds.pays(candidates, m, draws, classes, rank=rank) == pays


@PROPERTY
@given(worlds(), st.data())
def test_top_of_parts_in_any_order_is_that_of_the_whole(world, data):
    """With the score of the `size`-th best so far as floor; equal scores stand in the order of the pool."""
    probs, targets, weights = world
    n, size = len(probs), data.draw(st.integers(1, len(probs)))
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1), max_size=3))) if n > 1 else []
    spans = data.draw(st.permutations(list(zip([0, *cuts], [*cuts, n], strict=True))))
    best, floor = [], -np.inf
    for start, stop in spans:
        index, found = askwell.top_epig(
            probs[start:stop], targets, min(size, stop - start), weights=weights, floor=floor
        )
        best = sorted([*best, *((-score, start + place) for place, score in zip(index, found, strict=True))])[:size]
        floor = -best[-1][0] if len(best) == size else -np.inf
    order, scores = askwell.top_epig(probs, targets, size, weights=weights)
    assert [place for _, place in best] == order.tolist()
    assert [-score for score, _ in best] == scores.tolist()


@PROPERTY
@given(worlds(), st.data())
def test_top_is_sorting(world, data):
    probs, targets, weights = world
    copies = data.draw(st.lists(st.integers(0, len(probs) - 1), min_size=1, max_size=30))
    probs = probs[copies]  # exact duplicates: ties go by index
    size = data.draw(st.integers(0, len(probs)))
    same_as_sorting(probs, targets, size, weights=weights)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["soft", "peaked", "hard", "hard_coupled", "confident_coupled", "mixed", "uniform"])
def test_top_with_several_blocks_of_targets(kind, dtype):
    probs, targets = pool_and_targets(kind, 300, 700, 20, 5, dtype=dtype)
    probs[rng_for(0, 0, "ties").integers(0, 300, 60)] = probs[3]
    weights = rng_for(0, 0, "weights").integers(0, 3, 700)
    for size in (1, 10, 300):
        same_as_sorting(probs, targets, size)
    same_as_sorting(probs, targets, 10, weights=weights)
    same_as_sorting(probs, targets, 10, weights=np.where(np.arange(700) == 650, 1.0, 0.0))
    same_as_sorting(probs, targets, 10, weights=np.where(np.arange(700) < 650, 0.0, 1e-9))


@pytest.mark.parametrize("dtype", DTYPES)
def test_top_of_many(dtype):
    """A posterior that prunes well, thousands of candidates, and rows that are all the same but for a few."""
    probs, targets = (a.astype(dtype) for a in linear(rng_for(0, 0, "many"), 4000, 300, 30, 4))
    probs[rng_for(1, 0, "many").integers(0, 4000, 2000)] = probs[17]
    for size in (1, 10, 500):
        same_as_sorting(probs, targets, size)
    leader = int(askwell.top_epig(probs, targets, 1)[0][0])
    probs[rng_for(2, 0, "many").integers(0, 4000, 40)] = probs[leader]  # the tie is at the very top
    same_as_sorting(probs, targets, 10)
    same_as_sorting(probs, targets, 60)


@pytest.mark.parametrize("classes", [2, 5, 20])  # of few, one is left out and follows from the others
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_rough_bound_is_above_the_fine_one_and_close(dtype, classes):
    probs, targets = (a.astype(dtype) for a in linear(rng_for(0, 0, "rough"), 500, 60, 40, classes))
    prepared = bounds.prepare(targets)
    fast = bounds.hot_loop()
    rank = fast.sketch_rank(classes, 40)
    vectors, rest = prepared.sketch
    assert vectors.shape == (40, rank)
    ((_, part),) = fast.parts(probs, packed=prepared.blocks)
    race, every = bounds._Race(fast, part, prepared), np.arange(500)
    rough, fine = race.promise(every), race.most_to_come(every, 0)
    assert (rough >= fine * (1 - 1e-6)).all()
    gram, _, trace = fast.forms(part, prepared.tails[0][1]).T
    leading, same_trace = fast.sketch(part, vectors, index=every).T
    np.testing.assert_allclose(same_trace, trace, rtol=1e-5)
    tops = np.linalg.eigvalsh(prepared.tails[0][1])[::-1]
    assert rest == pytest.approx(tops[rank])
    assert (leading + rest * trace <= gram * (1 + 1e-5) + rest * trace).all()


@pytest.mark.parametrize("draws", [16, 17, 33, 41, 100])  # those that fill vectors, and those that do not
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_classes_are_looked_at_and_sketched_in_vectors(dtype, draws):
    probs = linear(rng_for(0, draws, "pairs"), 50, 1, draws, 2)[0].astype(dtype)
    probs[7] = probs[7, :1]  # all draws agree
    probs[8] = [1, 0]  # and are sure
    fast, exact = bounds.hot_loop(), probs.astype(np.float64)
    seen = fast.beliefs("probs", probs, slice(None), dtype, kinds=False, log=False)
    np.testing.assert_allclose(seen.means, exact.mean(axis=1), rtol=1e-13)
    np.testing.assert_array_equal(seen.means[7], probs[7, 0])
    vectors = rng_for(0, draws, "vectors").normal(size=(draws, fast.sketch_rank(2, draws)))
    found = fast.sketch(seen, vectors, index=np.arange(50)[::-1].copy())[::-1]
    away, means = exact[:, :, 0] - exact[:, :, 0].mean(axis=1, keepdims=True), exact.mean(axis=1)
    with np.errstate(divide="ignore"):
        scale = np.where((means > 0).all(axis=1), (1 / means).sum(axis=1), 0)
    near = {"rtol": 1e-4 if dtype == "float32" else 1e-10, "atol": 1e-9}
    np.testing.assert_allclose(found[:, 0], ((away @ vectors) ** 2).sum(axis=1) * scale, **near)
    np.testing.assert_allclose(found[:, 1], (away**2).sum(axis=1) * scale, **near)


@pytest.mark.parametrize("draws", [32, 41])
@pytest.mark.parametrize("rare", [0, 1])
def test_what_is_hardly_possible_is_not_left_out(rare, draws):
    """In float32 1 - 1e-9 is 1: only the class that is hardly possible can say by how much draws differ."""
    rng = rng_for(0, draws, "rare")
    small = (1e-9 * rng.random((3000, draws))).astype("float32")
    probs = np.stack([small, 1 - small] if rare == 0 else [1 - small, small], axis=2)
    targets = linear(rng_for(0, 0, "rare targets"), 40, 1, draws, 2)[0].astype("float32")
    scores = np.asarray(askwell.epig(probs, targets))
    best, found = bounds.top_epig(probs, targets, 5, prepared=bounds.prepare(targets))
    np.testing.assert_array_equal(best, np.argsort(-scores, kind="stable")[:5])
    np.testing.assert_array_equal(found, scores[best])
    fast = bounds.hot_loop()
    ((_, part),) = fast.parts(probs)
    race = bounds._Race(fast, part, bounds.prepare(targets))
    assert (race.promise(np.arange(3000)) >= scores * (1 - 1e-5)).all()


@pytest.mark.parametrize("draws", [1, 3, 4, 9, 16])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", [[np.nan, 0.5], [0.5, np.nan], [-0.1, 1.1], [0.6, 0.6], [0.4, 0.4], [np.inf, 0]])
def test_no_fault_of_two_classes_is_overlooked(dtype, draws, fault):
    probs = np.full((3, draws, 2), 0.5, dtype)
    for draw in range(draws):
        spoilt = probs.copy()
        spoilt[1, draw] = fault
        with pytest.raises(ValueError, match="probs"):
            bounds.hot_loop().beliefs("probs", spoilt, slice(None), dtype, kinds=False, log=False)


@pytest.mark.parametrize("kind", ["soft", "hard", "mixed"])
@pytest.mark.parametrize("m", [30, 300])  # one block of targets, and several
def test_top_by_the_rough_bound(kind, m):
    probs, targets = pool_and_targets(kind, 4000, m, 40, 3, dtype="float32")
    weights = rng_for(0, 0, "weights").integers(0, 3, m)
    same_as_sorting(probs, targets, 10, weights=weights)
    prepared, scores = bounds.prepare(targets, weights=weights), askwell.epig(probs, targets, weights=weights)
    order = np.argsort(-scores, kind="stable")[:10]
    best, found = askwell.top_epig(
        probs, targets, 10, weights=weights, prepared=prepared, floor=float(scores[order[-1]])
    )
    np.testing.assert_array_equal(best, order)
    np.testing.assert_array_equal(found, scores[order])


def test_what_was_prepared_for_others_is_refused():
    probs, targets = pool_and_targets("soft", 20, 6, 12, 3, dtype="float64")
    prepared, weights = bounds.prepare(targets), np.arange(6) + 1
    for others in (targets[:4], targets[::-1], targets[:, ::-1]):
        with pytest.raises(ValueError, match="prepared must be of these target_probs"):
            askwell.top_epig(probs, others, 3, prepared=prepared)
    with pytest.raises(ValueError, match="prepared must be of the same weights"):
        askwell.top_epig(probs, targets, 3, weights=weights, prepared=prepared)
    with pytest.raises(ValueError, match="prepared must be of the same weights"):
        askwell.top_epig(probs, targets, 3, prepared=bounds.prepare(targets, weights=weights))
    with pytest.raises(ValueError, match="prepared must be of the same weights"):
        askwell.top_epig(np.log(probs), np.log(targets), 3, log=True, prepared=bounds.prepare(np.log(targets)))
    weighted = bounds.prepare(targets, weights=weights)
    for same in (targets, targets.copy()):  # weights are shares: their scale is nothing
        best, _ = askwell.top_epig(probs, same, 3, weights=2.0 * weights, prepared=weighted)
        np.testing.assert_array_equal(best, askwell.top_epig(probs, targets, 3, weights=weights)[0])


def test_targets_that_were_filled_anew_are_noticed():
    probs, targets = pool_and_targets("soft", 20, 6, 12, 3, dtype="float64")
    prepared = bounds.prepare(targets)
    targets[:] = targets[::-1].copy()
    with pytest.raises(ValueError, match="changed since"):
        askwell.top_epig(probs, targets, 3, prepared=prepared)


def test_what_was_prepared_in_another_precision_is_prepared_again():
    probs, targets = pool_and_targets("soft", 20, 6, 12, 3, dtype="float64")
    best, _ = askwell.top_epig(probs.astype(np.float32), targets, 3, prepared=bounds.prepare(targets))
    np.testing.assert_array_equal(best, askwell.top_epig(probs.astype(np.float32), targets, 3)[0])


def test_top_when_the_pool_comes_in_parts(monkeypatch):
    monkeypatch.setattr("askwell.information._kernels.loop.PART_BYTES", 64 * 20 * 5 * 4)  # 64 candidates
    for kind in ("soft", "hard_coupled", "mixed"):
        probs, targets = pool_and_targets(kind, 1000, 150, 20, 5, dtype="float32")
        probs[rng_for(0, 1, "parts").integers(0, 1000, 300)] = probs[900]
        for size in (1, 10, 64, 65, 200, 1000):
            same_as_sorting(probs, targets, size)


def test_top_of_scores_too_small_to_tell_apart():
    probs, targets = (a.astype(np.float32) for a in linear(rng_for(0, 0, "faint"), 2000, 150, 50, 3, scale=0.005))
    same_as_sorting(probs, targets, 20)
    assert askwell.top_epig(probs, targets, 1)[1][0] < 1e-7


def test_top_with_any_threads(monkeypatch):
    probs, targets = pool_and_targets("mixed", 1500, 300, 20, 5, dtype="float32")
    for count in "1", "3":
        monkeypatch.setenv("ASKWELL_THREADS", count)
        same_as_sorting(probs, targets, 30)


def test_blocks_with_and_without_strong_targets(monkeypatch):
    """Sure targets that disagree are scored in another form, block by block: never by how blocks are put together."""
    rng = rng_for(0, 0, "strong blocks")
    vague, sure = rng.dirichlet(np.full(10, 5.0), (400, 20)), np.eye(10)[rng.integers(0, 10, (400, 20))]
    targets = np.concatenate([vague[:150], sure[:3], vague[150:300]]).astype("float32")
    pool = np.concatenate([vague[300:], sure[300:]]).astype("float32")
    scores = askwell.epig(pool, targets)
    best, found = askwell.top_epig(pool, targets, 30)
    np.testing.assert_array_equal(best, np.argsort(-scores, kind="stable")[:30])
    np.testing.assert_array_equal(found, scores[best])
    np.testing.assert_allclose(askwell.pairwise_epig(pool, targets).mean(axis=1), scores, rtol=1e-5)
    monkeypatch.setattr("askwell.information._kernels.loop.PACK_BYTES", 1)
    np.testing.assert_array_equal(askwell.epig(pool, targets), scores)


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_top_in_every_library_and_from_logarithms(dtype, library, either):
    probs, targets = pool_and_targets("mixed", 200, 30, 12, 4, dtype=dtype)
    probs[50:90] = probs[7]
    given_ = library(probs), library(targets)
    same_as_sorting(*given_, 15)
    same_as_sorting(*given_, 200, weights=np.arange(30))
    best, scores = askwell.top_epig(*given_, 15)
    assert type(best) is type(scores) is type(given_[0])
    assert scores.dtype == given_[0].dtype
    np.testing.assert_array_equal(np.asarray(given_[0][best]), probs[np.asarray(best)])  # good to index with
    with np.errstate(divide="ignore"):
        same_as_sorting(library(np.log(probs)), library(np.log(targets)), 15, log=True)


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_top_of_little(library, either):
    probs, targets = (library(a) for a in pool_and_targets("soft", 5, 2, 4, 3, dtype="float32"))
    for pool, size in ((probs, 0), (probs[:0], 0), (probs[:1], 1)):
        best, scores = askwell.top_epig(pool, targets, size)
        assert best.shape == scores.shape == (size,)
        assert scores.dtype == probs.dtype
        assert np.asarray(best).dtype.kind != "f"
    same_as_sorting(library(np.ones((6, 4, 1))), library(np.ones((2, 4, 1))), 4)  # one class: all zero, by index
    same_as_sorting(probs[:, :1], targets[:, :1], 5)  # one draw: the same


def test_top_leaves_its_inputs_alone():
    probs, targets = pool_and_targets("mixed", 300, 200, 12, 4)
    weights = np.arange(200.0)
    kept = probs.copy(), targets.copy(), weights.copy()
    askwell.top_epig(probs, targets, 10, weights=weights)
    for now, before in zip((probs, targets, weights), kept, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("size", [-1, 6])
def test_top_refuses_sizes_it_cannot_serve(size, either):
    probs, targets = pool_and_targets("soft", 5, 2, 4, 3)
    with pytest.raises(ValueError, match=rf"size must be between 0 and the number of candidates, 5, but it is {size}"):
        askwell.top_epig(probs, targets, size)


@pytest.mark.parametrize("size", [0, 2, 5])
def test_top_refuses_what_epig_refuses(size, either):
    probs, targets = pool_and_targets("soft", 5, 2, 4, 3)
    wrong = probs.copy()
    wrong[4, 1] *= 2
    with pytest.raises(ValueError, match=r"probs\[4, 1\] sums to 2"):
        askwell.top_epig(wrong, targets, size)
    with pytest.raises(ValueError, match="target_probs must hold probabilities that sum to one"):
        askwell.top_epig(probs, 2 * targets, size)
    with pytest.raises(ValueError, match="target_probs must have at least one target"):
        askwell.top_epig(probs, targets[:0], size)
    with pytest.raises(ValueError, match="weights must have one number per target"):
        askwell.top_epig(probs, targets, size, weights=[1.0])
    with pytest.raises(ValueError, match="weights must have at least one positive entry"):
        askwell.top_epig(probs, targets, size, weights=[0.0, 0.0])
