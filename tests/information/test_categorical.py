"""The categorical scores against loop-written twins, against each other, and in float32 where float32 is hard."""

import math
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from posteriors import (
    KINDS,
    PROPERTY,
    TOLERANCE,
    hard,
    linear,
    mixed,
    pool_and_targets,
    reference_epig,
    reference_pairs,
    shares,
    slow_bald,
    slow_entropy,
    slow_epig,
    slow_least_confidence,
    slow_margin,
    slow_pairs,
    soft,
    worlds,
)

import askwell
from askwell.information.votes import Votes
from askwell.seeds import rng_for

OWN = {  # of one set of inputs -> the twin
    askwell.entropy: slow_entropy,
    askwell.margin: slow_margin,
    askwell.least_confidence: slow_least_confidence,
    askwell.bald: slow_bald,
}
ONE_EACH = [pytest.param(own, id=own.__name__) for own in OWN]
DTYPES = ["float32", "float64"]


def close(answer, truth, dtype, times=1):
    __tracebackhide__ = True
    answer = np.asarray(answer)
    assert answer.dtype == dtype
    assert np.isfinite(answer).all()
    assert (answer >= 0).all()
    np.testing.assert_allclose(answer, truth, rtol=0, atol=times * TOLERANCE[dtype])


# ---- twins ---------------------------------------------------------------------------------------------------------


@PROPERTY
@given(worlds())
def test_scores_are_their_definitions(world):
    probs, targets, weights = world
    dtype = str(probs.dtype)
    for own, twin in OWN.items():
        close(own(probs), twin(probs), dtype)
    pairs = slow_pairs(probs, targets)
    close(askwell.pairwise_epig(probs, targets), pairs, dtype)
    close(askwell.epig(probs, targets, weights=weights), pairs @ shares(weights, len(targets)), dtype)
    np.testing.assert_allclose(reference_pairs(probs, targets), pairs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("generic")
def test_generic_text_has_the_same_twins(kind, dtype, library):
    for k, c in ((1, 3), (7, 2), (30, 5), (100, 12)):
        probs, targets = pool_and_targets(kind, 3, 3, k, c, dtype=dtype)
        given_ = library(probs), library(targets)
        close(askwell.bald(given_[0]), slow_bald(probs), dtype)
        pairs = reference_pairs(probs, targets)
        close(askwell.pairwise_epig(*given_), pairs, dtype)
        close(askwell.epig(*given_), pairs.mean(1), dtype)
        close(askwell.epig(*given_, weights=[1, 0, 2]), pairs @ [1 / 3, 0, 2 / 3], dtype)
        assert type(askwell.epig(*given_)) is type(given_[0])


@pytest.mark.usefixtures("generic")
def test_generic_text_in_many_tiles(monkeypatch):
    probs, targets = pool_and_targets("mixed", 23, 300, 9, 4)
    monkeypatch.setattr("askwell.information.categorical.ENTRIES", 1 << 12)
    close(askwell.pairwise_epig(probs, targets), reference_pairs(probs, targets), "float64")
    close(askwell.epig(probs, targets), reference_epig(probs, targets), "float64")
    close(askwell.bald(probs), slow_bald(probs), "float64")


# ---- accuracy ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 3, 10, 50, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_accuracy_of_epig(kind, c):
    """At most 1e-6 nats from float64 on the same float32 numbers, 1e-12 for float64; sizes that fill whole tiles."""
    n, m = {2: (35, 131), 3: (33, 40), 10: (19, 13), 50: (5, 4), 200: (2, 2)}[c]
    for k in (1, 2, 20, 100, 400):
        for dtype in DTYPES if k == 20 else ["float32"]:
            probs, targets = pool_and_targets(kind, n, m, k, c, dtype=dtype)
            truth = reference_pairs(probs, targets)
            close(askwell.epig(probs, targets), truth.mean(1), dtype)
            close(askwell.pairwise_epig(probs, targets), truth, dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own", ONE_EACH)
def test_accuracy_of_scores_without_targets(own, kind):
    for c in (2, 3, 10, 50, 200):
        for k in (1, 2, 20, 100, 400):
            for dtype in DTYPES if k == 20 else ["float32"]:
                probs, _ = pool_and_targets(kind, 2, 0, k, c, dtype=dtype)
                close(own(probs), OWN[own](probs), dtype)


@pytest.mark.parametrize("kind", ["hard_coupled", "confident_coupled"])
def test_accuracy_has_large_scores_to_be_wrong_about(kind):
    probs, targets = pool_and_targets(kind, 5, 5, 100, 10)
    assert reference_epig(probs, targets).min() > 1.5


@pytest.mark.parametrize("c", [2, 10])
@pytest.mark.parametrize("m", [1, 12])
def test_tiny_scores_rank_right(either, c, m):
    exact = linear(rng_for(0, c, "tiny"), 2000, m, 100, c, scale={2: 0.012, 10: 0.005}[c])
    rounded = [a.astype(np.float32) for a in exact]
    truth, scores = reference_epig(*rounded), askwell.epig(*rounded)
    assert 1e-10 < np.median(truth) < 1e-8
    best = np.argsort(-scores)[:10]
    for ranking in (truth, askwell.epig(*exact), askwell.epig(*(a.astype(np.float64) for a in rounded))):
        assert len({*best} & {*np.argsort(-ranking)[:10]}) >= 9
    large = truth > 1e-10
    assert large.mean() > 0.5
    assert np.abs(scores[large] / truth[large] - 1).max() < 1e-2


def test_many_classes_and_targets_in_bounded_memory():
    probs, few = pool_and_targets("soft", 5, 40, 20, 200, dtype="float32")
    targets = np.tile(few, (50, 1, 1))
    askwell.epig(probs, few)  # compiled before the memory is watched
    tracemalloc.start()
    scores = askwell.epig(probs, targets)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 2**20
    close(scores, reference_epig(probs, few), "float32")


# ---- properties ----------------------------------------------------------------------------------------------------


@PROPERTY
@given(worlds())
def test_zero_epig_bald_log_c_in_this_order(world):
    probs, targets, weights = world
    slack = TOLERANCE[str(probs.dtype)]
    own, theirs = askwell.bald(probs), askwell.bald(targets)
    scores = askwell.epig(probs, targets, weights=weights)
    assert (scores >= 0).all()
    assert (scores <= own + slack).all()
    assert (scores <= theirs @ shares(weights, len(targets)) + slack).all()
    assert max(own.max(), theirs.max(), askwell.entropy(probs).max()) <= math.log(probs.shape[2]) + slack
    assert (own <= askwell.entropy(probs) + slack).all()
    pairs = askwell.pairwise_epig(probs, targets)
    assert (pairs <= np.minimum(own[:, None], theirs[None]) + slack).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("c", [2, 3])
def test_any_number_of_draws_that_agree_tells_exactly_nothing(c, dtype):
    rng = np.random.default_rng(c)
    for k in range(1, 40):  # sums in another order need not cancel: each length has its own order
        same = np.repeat(rng.dirichlet([1] * c, (6, 1)).astype(dtype), k, axis=1)
        assert not askwell.bald(same).any()
        assert not askwell.epig(same, same).any()


@PROPERTY
@given(worlds(), st.integers(0, 10**6))
def test_draws_that_agree_tell_nothing(world, seed):
    probs, targets, weights = world
    _, k, c = probs.shape
    same, _ = pool_and_targets("agreeing", 5, 1, k, c, seed=seed, dtype=str(probs.dtype))
    assert not askwell.bald(same).any()
    assert not askwell.epig(same, targets, weights=weights).any()
    assert not askwell.epig(probs, same).any()
    assert not askwell.pairwise_epig(same, same).any()


@PROPERTY
@given(worlds(), st.integers(0, 10**6))
def test_order_does_not_matter(world, seed):
    probs, targets, weights = world
    (n, k, c), m, rng = probs.shape, len(targets), rng_for(seed, 0, "order")
    w = np.ones(m) if weights is None else np.asarray(weights)
    scores, dtype = askwell.epig(probs, targets, weights=w), str(probs.dtype)
    draws, classes, others, to, rows = (rng.permutation(size) for size in (k, c, c, m, n))
    for shuffled in (
        askwell.epig(probs[:, draws], targets[:, draws], weights=w),
        askwell.epig(probs[:, :, classes], targets[:, :, classes], weights=w),
        askwell.epig(probs[:, :, classes], targets[:, :, others], weights=w),
        askwell.epig(probs, targets[to], weights=w[to]),
    ):
        close(shuffled, scores, dtype)
    np.testing.assert_array_equal(askwell.epig(probs[rows], targets, weights=w), scores[rows])
    pairs = askwell.pairwise_epig(probs, targets)
    np.testing.assert_array_equal(askwell.pairwise_epig(probs[rows], targets), pairs[rows])
    close(askwell.pairwise_epig(probs, targets[to]), pairs[:, to], dtype)
    for own in OWN:
        np.testing.assert_array_equal(own(probs[rows]), own(probs)[rows])
        close(own(probs[:, draws]), own(probs), dtype)
        close(own(probs[:, :, classes]), own(probs), dtype)


@PROPERTY
@given(worlds(), st.sampled_from([1e-320, 1e-300, 1e-9, 7.0, 1e12, 1e307]))
def test_weights(world, scale):
    probs, targets, weights = world
    m, dtype = len(targets), str(probs.dtype)
    w = np.ones(m) if weights is None else np.asarray(weights, float)
    scores = askwell.epig(probs, targets, weights=w)
    close(askwell.epig(probs, targets, weights=scale * w), scores, dtype, times=1 if scale > 1e-310 else 1e4)
    twice = askwell.epig(probs, targets, weights=np.where(np.arange(m) == 0, 2 * w, w) + (w.sum() == w[0] == 0))
    doubled = [0, *range(m)]
    close(askwell.epig(probs, targets[doubled], weights=w[doubled]), twice, dtype)
    close(askwell.epig(probs, targets[w > 0], weights=w[w > 0]), scores, dtype)
    if weights is None:
        close(askwell.epig(probs, targets), scores, dtype)
        close(askwell.pairwise_epig(probs, targets).mean(1), scores, dtype)


def test_weights_of_any_sort():
    probs, targets = pool_and_targets("soft", 4, 3, 9, 3)
    truth = slow_epig(probs, targets, [2, 0, 1])
    for weights in ([2, 0, 1], (2.0, 0.0, 1.0), np.float32([2, 0, 1]), np.uint8([2, 0, 1]), torch.tensor([2.0, 0, 1])):
        close(askwell.epig(probs, targets, weights=weights), truth, "float64")
    tensors = torch.as_tensor(probs), torch.as_tensor(targets)
    close(askwell.epig(*tensors, weights=torch.tensor([2, 0, 1])), truth, "float64")
    close(askwell.epig(*tensors, weights=[2, 0, 1]), truth, "float64")


def weighted_information(probs, target_probs, weights, costs):
    """The decrease of the weighted log loss -w(y*) log q(y*) on the targets, of one candidate, from its definition."""
    decrease = total = 0.0
    for target, weight in zip(target_probs, weights, strict=True):
        joint = np.einsum("ky,kz->yz", probs, target) / len(probs)  # p(y, y*)

        def risk(belief):  # of the prediction that has the least: q(y*) ~ w(y*) p(y*)
            q = costs * belief / (costs * belief).sum()
            return -sum(w * p * math.log(at) for w, p, at in zip(costs, belief, q, strict=True) if w * p > 0)

        after = sum(row.sum() * risk(row / row.sum()) for row in joint if row.sum() > 0)
        decrease += weight * (risk(joint.sum(axis=0)) - after)
        total += weight * (costs * joint.sum(axis=0)).sum()
    return decrease / total


@pytest.mark.parametrize("library", [np, torch])
def test_class_weights_are_costs_of_the_log_loss(library):
    """Also a class that costs nothing; equal costs of any scale change nothing."""
    rng = rng_for(0, 0, "costs")
    probs, target_probs = rng.dirichlet([0.3] * 4, (6, 20)), rng.dirichlet([0.3] * 4, (5, 20))
    weights, costs = rng.random(5), np.array([1.0, 50.0, 0.0, 2.0])
    given = library.asarray(probs), library.asarray(target_probs)
    found = np.asarray(askwell.epig(*given, weights=weights, class_weights=costs))
    expected = [weighted_information(each, target_probs, weights / weights.sum(), costs) for each in probs]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert not np.allclose(found, askwell.epig(*given, weights=weights))
    equal = np.asarray(askwell.epig(*given, weights=weights, class_weights=[3] * 4))
    np.testing.assert_allclose(equal, np.asarray(askwell.epig(*given, weights=weights)), rtol=1e-9)


def test_class_weights_of_votes_and_of_nothing():
    """Votes count as their array; where no target can be of a class that costs, nothing is worth asking."""
    codes = rng_for(0, 0, "votes").integers(0, 3, (7, 50)).astype(np.uint8)
    votes, targets = Votes(codes[:4], 3), Votes(codes[4:], 3)
    costs = [1.0, 2.0, 5.0]
    by_votes = askwell.epig(votes, targets, class_weights=costs)
    np.testing.assert_array_equal(by_votes, askwell.epig(np.asarray(votes), np.asarray(targets), class_weights=costs))
    never = np.tile([0.5, 0.5, 0.0], (2, 5, 1))
    assert askwell.epig(never, never, class_weights=[0, 0, 1]).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0, 2.0], r"class_weights must have one number per class, shape \(3,\), but its shape is \(2,\)\.$"),
        ([1.0, -2.0, 1.0], "class_weights must be finite and not negative"),
        ([0.0, 0.0, 0.0], "class_weights must have at least one positive entry"),
        (["a", "b", "c"], "class_weights must hold numbers"),
    ],
)
def test_class_weights_that_are_none(costs, message):
    probs = np.full((2, 4, 3), 1 / 3)
    with pytest.raises(ValueError, match=message):
        askwell.epig(probs, probs, class_weights=costs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("c", "k", "m"), [(2, 20, 130), (3, 65, 40), (10, 20, 110), (17, 9, 70), (70, 5, 33)])
def test_equal_inputs_score_equal_to_the_bit_in_any_company(c, k, m, dtype, monkeypatch):
    n = 2000 if c <= 10 else 300
    probs, targets = pool_and_targets("mixed", n, m, k, c, dtype=dtype)
    copies = rng_for(c, k, "copies").permutation(n)[:60]
    probs[copies] = probs[7]
    for scores_of in (
        lambda part: askwell.epig(part, targets),
        lambda part: askwell.epig(part, targets, weights=np.arange(m)),
        lambda part: askwell.pairwise_epig(part, targets)[:, :: max(1, m // 7)],
        askwell.bald,
    ):
        monkeypatch.setenv("ASKWELL_THREADS", "1")
        scores = scores_of(probs)
        assert (scores[copies] == scores[7]).all()
        monkeypatch.setenv("ASKWELL_THREADS", "3")
        np.testing.assert_array_equal(scores_of(probs), scores)
        monkeypatch.delenv("ASKWELL_THREADS")
        np.testing.assert_array_equal(scores_of(probs[::-1]), scores[::-1])
        for alone in (0, 7, n // 2, n - 1):
            np.testing.assert_array_equal(scores_of(probs[alone : alone + 1]), scores[alone : alone + 1])
        for size in (3, 37, 211):
            np.testing.assert_array_equal(scores_of(probs[5 : 5 + size]), scores[5 : 5 + size])


# ---- what may come in ----------------------------------------------------------------------------------------------


def calls(probs, targets, log=False):
    return {
        **{own.__name__: own(probs, log=log) for own in OWN},
        "epig": askwell.epig(probs, targets, log=log),
        "pairwise_epig": askwell.pairwise_epig(probs, targets, log=log),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["soft", "hard", "hard_coupled", "mixed"])
def test_logarithms(kind, dtype, either):
    probs, targets = pool_and_targets(kind, 20, 10, 30, 4, dtype=dtype)
    with np.errstate(divide="ignore"):
        logs = np.log(probs), np.log(targets)
    assert kind == "soft" or np.isneginf(logs[0]).any()
    for name, scores in calls(*logs, log=True).items():
        close(scores, calls(probs, targets)[name], dtype, times=3)
    tensors = calls(*(torch.as_tensor(a) for a in logs), log=True)
    for name, scores in calls(*logs, log=True).items():
        close(tensors[name], scores, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_answers_as_numpy(dtype, either):
    probs, targets = pool_and_targets("mixed", 20, 10, 30, 4, dtype=dtype)
    arrays, tensors = calls(probs, targets), calls(torch.as_tensor(probs), torch.as_tensor(targets))
    learnt = calls(torch.tensor(probs, requires_grad=True), torch.tensor(targets, requires_grad=True))
    for name, scores in arrays.items():
        assert type(scores) is np.ndarray
        assert type(tensors[name]) is torch.Tensor
        assert tensors[name].dtype == getattr(torch, dtype)
        assert not learnt[name].requires_grad
        close(tensors[name].numpy(), scores, dtype)
        close(learnt[name].numpy(), scores, dtype)
    if either == "compiled":
        np.testing.assert_array_equal(tensors["epig"].numpy(), arrays["epig"])


def strange_layouts(array):
    """The same numbers, laid out in memory in every way."""
    yield np.asfortranarray(array)
    yield np.ascontiguousarray(array.transpose(2, 0, 1)).transpose(1, 2, 0)
    yield np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)
    yield np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3]
    yield array[::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1]
    frozen = array.copy()
    frozen.setflags(write=False)
    yield frozen
    yield np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)  # not aligned


@pytest.mark.parametrize("dtype", DTYPES)
def test_layout_does_not_matter(dtype, either):
    probs, targets = pool_and_targets("mixed", 20, 10, 12, 4, dtype=dtype)
    expected = calls(probs, targets)
    for given_ in zip(strange_layouts(probs), strange_layouts(targets), strict=True):
        for name, scores in calls(*given_).items():
            close(scores, expected[name], dtype)
            if either == "compiled" and name == "epig":
                np.testing.assert_array_equal(scores, expected[name])
    turned = torch.as_tensor(probs).permute(2, 1, 0).contiguous().permute(2, 1, 0)
    assert not turned.is_contiguous()
    for name, scores in calls(turned, torch.as_tensor(targets)).items():
        close(scores, expected[name], dtype)


@pytest.mark.parametrize("log", [False, True])
def test_inputs_are_never_modified(log, either):
    probs, targets = (np.log(a) if log else a for a in pool_and_targets("soft", 20, 10, 12, 4))
    weights = np.arange(10.0)
    kept = probs.copy(), targets.copy(), weights.copy()
    calls(probs, targets, log=log)
    askwell.epig(probs, targets, weights=weights, log=log)
    calls(torch.as_tensor(probs), torch.as_tensor(targets), log=log)
    for now, before in zip((probs, targets, weights), kept, strict=True):
        np.testing.assert_array_equal(now, before)


def test_lists(either):
    probs, targets = pool_and_targets("soft", 3, 2, 4, 3)
    for name, scores in calls(probs.tolist(), targets.tolist()).items():
        close(scores, calls(probs, targets)[name], "float64")


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_the_pool_decides_the_dtype(library, either):
    probs, targets = pool_and_targets("mixed", 9, 8, 12, 4)
    narrow = probs.astype(np.float32)
    truth = reference_pairs(narrow, targets)
    close(askwell.pairwise_epig(library(narrow), library(targets)), truth, "float32")
    close(askwell.epig(library(narrow), library(targets)), truth.mean(1), "float32")
    truth = reference_pairs(probs, targets.astype(np.float32))
    # Rows of float32 sum to one within 1e-7 only: the numbers are kept, but float64 has no more digits to agree on.
    close(askwell.epig(library(probs), library(targets.astype(np.float32))), truth.mean(1), "float64", times=1e5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_no_information_in_one_class_or_one_draw(library, dtype, either):
    for k, c in ((5, 1), (1, 4), (1, 1)):
        probs, targets = (library(a) for a in pool_and_targets("soft", 3, 2, k, c, dtype=dtype))
        for scores in (
            askwell.epig(probs, targets),
            askwell.pairwise_epig(probs, targets),
            askwell.bald(probs),
            *([askwell.entropy(probs), askwell.margin(probs), askwell.least_confidence(probs)] if c == 1 else []),
        ):
            close(scores, np.zeros(scores.shape), dtype)
            assert not np.asarray(scores).any()
        assert askwell.pairwise_epig(probs, targets).shape == (3, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_an_empty_pool_has_no_scores(library, dtype, either):
    probs, targets = (library(a) for a in pool_and_targets("soft", 0, 2, 5, 3, dtype=dtype))
    answers = calls(probs, targets)
    for name, scores in answers.items():
        assert tuple(scores.shape) == ((0, 2) if name == "pairwise_epig" else (0,)), name
        assert type(scores) is type(probs)
        assert scores.dtype == probs.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("k", [2, 20])
def test_vanishing_probabilities_never_make_nan(dtype, k, either):
    """Classes of no, of subnormal and of barely normal probability, in all draws or in some."""
    smallest = np.finfo(dtype).smallest_subnormal
    rng = rng_for(0, k, "vanishing")
    sizes = np.array([0, smallest, 5 * smallest, np.finfo(dtype).tiny, 1e-30, 1e-12], dtype)
    probs = np.zeros((60, k, 6), dtype)
    probs[..., 1:] = rng.choice(sizes, (60, k, 5))
    probs[:20, 1:] = probs[:20, :1]  # the draws agree
    big = rng.integers(0, 6, (60, k))
    np.put_along_axis(probs, big[..., None], np.asarray(1, dtype), axis=2)
    pool, targets = probs[:40], probs[40:]
    for name, scores in calls(pool, targets).items():
        assert np.isfinite(scores).all(), name
        assert (scores >= 0).all(), name
    times = 1 if dtype == "float32" else 100  # rows sum to 1 + 5e-12
    close(askwell.epig(pool, targets), reference_epig(pool, targets), dtype, times)
    close(askwell.bald(pool), slow_bald(pool), dtype, times)


def test_votes_of_a_forest_have_bald_equal_to_entropy():
    probs = hard(rng_for(0, 0, "forest"), 30, 50, 5)
    close(askwell.bald(probs), askwell.entropy(probs), "float64")


def test_builders_differ():
    """The kinds are what they are called, or the tests above test less than they say."""
    rng = rng_for(0, 0, "builders")
    assert set(np.unique(hard(rng, 9, 9, 3))) == {0.0, 1.0}
    assert soft(rng, 9, 9, 3).min() > 0
    assert np.allclose(mixed(rng, 50, 9, 3).sum(-1), 1)
    probs, targets = pool_and_targets("confident", 9, 9, 9, 3)
    assert np.allclose(probs.max(-1), 0.999999)
    assert not np.array_equal(probs, targets)


def test_importing_is_light():
    heavy = ["numba", "torch", "sklearn", "pandas", "click"]
    code = f"import sys, askwell; print([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
