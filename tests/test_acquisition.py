"""Names and scores: every score is its measure, whatever the chunks; names that are wrong are met halfway."""

import functools
import math
import pickle

import numpy as np
import pytest
import torch
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
from askwell.acquisition import (
    FOR_CLASSES,
    FOR_NUMBERS,
    MEANINGS,
    SCORES,
    Weighted,
    as_score,
    needs_targets,
    open_weights,
    takes_votes,
    weighted,
)
from askwell.information.votes import Votes
from askwell.seeds import rng_for
from askwell.selection.moments import moment_gains

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
    assert sorted(SCORES) == sorted({*FOR_CLASSES, *FOR_NUMBERS}) == sorted(MEANINGS)
    assert list(FOR_CLASSES) == WITHOUT_TARGETS + WITH_TARGETS
    assert [name for name in FOR_CLASSES if not needs_targets(name)] == WITHOUT_TARGETS
    assert [name for name in FOR_NUMBERS if not needs_targets(name)] == ["random", "bald", "variance"]
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


@pytest.mark.parametrize("name", [name for name in FOR_CLASSES if name != "random"])
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


# ---- costs of errors -----------------------------------------------------------------------------------------------


def slow_joint(belief, target):
    """p(y, y*) in loops."""
    k, c = len(belief), len(belief[0])
    return [[sum(float(belief[d][a]) * float(target[d][b]) for d in range(k)) / k for b in range(c)] for a in range(c)]


def slow_weighted_margin(belief, costs):
    """1 - (q_first - q_second), q(y) ~ w(y) p(y)."""
    paid = [cost * math.fsum(map(float, column)) / len(belief) for cost, column in zip(costs, belief.T, strict=True)]
    if sum(paid) == 0:
        return 0.0
    second, first = sorted(each / sum(paid) for each in paid)[-2:]
    return 1 - (first - second)


def slow_weighted_information(belief, target, costs):
    """(Z I_q(y; y*), Z) with q(y, y*) = p(y, y*) w(y*) / Z."""
    paid = [[cost * p for cost, p in zip(costs, row, strict=True)] for row in slow_joint(belief, target)]
    z = sum(map(sum, paid))
    rows, columns = [sum(row) for row in paid], [sum(column) for column in zip(*paid, strict=True)]
    terms = [
        p * math.log(p * z / (rows[a] * columns[b])) for a, row in enumerate(paid) for b, p in enumerate(row) if p > 0
    ]
    return sum(terms), z


def slow_weighted(name, probs, targets, weights, costs):
    margins = [slow_weighted_margin(belief, [1, 1, 1]) for belief in probs]
    if name == "auto":
        weights = [
            w * max(0.02, slow_weighted_margin(target, costs)) for w, target in zip(weights, targets, strict=True)
        ]
    scores = []
    for belief in probs:
        pairs = [slow_weighted_information(belief, target, costs) for target in targets]
        told = sum(w * nats for w, (nats, _) in zip(weights, pairs, strict=True))
        scores.append(told / sum(w * z for w, (_, z) in zip(weights, pairs, strict=True)))
    return [score * margin for score, margin in zip(scores, margins, strict=True)] if name == "auto" else scores


@pytest.mark.parametrize("name", ["epig", "auto"])
@pytest.mark.parametrize("kind", ["mixed", "hard"])
@pytest.mark.parametrize("costs", [(1.0, 50.0, 2.0), (0.0, 3.0, 1.0), (2.0, 2.0, 2.0)])
def test_a_weighted_score_is_its_slow_twin(name, kind, costs):
    probs, targets = pool_and_targets(kind, 9, 5, 10, 3, dtype="float64")
    weights = [1.0, 0, 2, 1, 3]
    score = weighted(name, dict(enumerate(costs)), [0, 1, 2])
    found = score(probs, targets, weights=weights, rng=None)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, slow_weighted(name, probs, targets, weights, costs), atol=2e-12)
    plain = as_score(name)(probs, targets, weights=weights, rng=None)
    assert np.allclose(found, plain, atol=1e-9) == (len({*costs}) == 1)


@pytest.mark.parametrize("name", ["epig", "auto"])
def test_a_weighted_score_is_a_score_like_others(name):
    """Passed where a name would be, sent to other processes, the same in chunks and for votes."""
    score = weighted(name, {"b": 7}, ["a", "b"])
    assert score == Weighted(name, (1.0, 7.0)) == pickle.loads(pickle.dumps(score))
    assert as_score(score) is score
    assert needs_targets(score)
    assert not takes_votes(score)
    assert str(score) != str(weighted(name, {"b": 8}, ["a", "b"]))  # what is kept in a folder is kept under it
    probs, targets = pool_and_targets("hard", 50, 7, 20, 2)
    whole = score(probs, targets, weights=None, rng=None)
    parts = [score(part, targets, weights=None, rng=None) for part in (probs[:1], probs[1:18], probs[18:])]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    votes, of_targets = (Votes(each.argmax(axis=2).astype(np.uint8), 2) for each in (probs, targets))
    np.testing.assert_allclose(score(votes, of_targets, weights=None, rng=None), whole, atol=1e-6)
    assert weighted(name, None, ["a", "b"]) == name


def test_pairs_with_costs_have_the_scores_as_their_mean():
    probs, targets = pool_and_targets("mixed", 6, 4, 10, 3, dtype="float64")
    costs = [1.0, 0.0, 9.0]
    pairs = askwell.pairwise_epig(probs, targets, class_weights=costs)
    np.testing.assert_allclose(pairs.mean(axis=1), askwell.epig(probs, targets, class_weights=costs), rtol=1e-12)
    slow = np.array([[slow_weighted_information(belief, target, costs) for target in targets] for belief in probs])
    np.testing.assert_allclose(pairs, slow[..., 0] / slow[..., 1].mean(axis=1, keepdims=True), atol=1e-12)
    assert askwell.pairwise_epig(probs[:0], targets, class_weights=costs).shape == (0, 4)
    assert askwell.epig(probs[:0], targets, class_weights=costs).shape == (0,)


@pytest.mark.parametrize("costs", [(1.0, 50.0, 2.0), (0.0, 3.0, 1.0), (2.0, 2.0, 2.0)])
@pytest.mark.parametrize("library", [np.asarray, torch.asarray])
def test_a_weighted_margin_is_its_slow_twin(costs, library):
    probs, _ = pool_and_targets("mixed", 9, 5, 10, 3, dtype="float64")
    slow = [slow_weighted_margin(belief, costs) for belief in probs]
    np.testing.assert_allclose(np.asarray(askwell.margin(library(probs), class_weights=costs)), slow, atol=1e-12)
    opened = [w * max(0.02, margin) for w, margin in zip(range(9), slow, strict=True)]
    found = open_weights(library(probs), weights=np.arange(9), class_weights=costs)
    np.testing.assert_allclose(found, np.array(opened) / sum(opened), atol=1e-12)


def test_where_nothing_costs_there_is_no_margin():
    sure = np.tile([1.0, 0.0, 0.0], (1, 4, 1))
    assert askwell.margin(sure, class_weights=[0, 1, 2]).tolist() == [0]
    assert askwell.margin(sure, class_weights=[1, 1, 2]).tolist() == [0]


@pytest.mark.parametrize("kind", ["mixed", "hard"])
@pytest.mark.parametrize("costs", [(1.0, 50.0, 2.0), (0.0, 3.0, 1.0)])
def test_joint_batches_inform_about_costs(kind, costs):
    """Half the chi-square of w(y*) p(y, y*) about targets, to second order of what a candidate tells: in loops."""
    probs, targets = pool_and_targets(kind, 6, 4, 30, 3, dtype="float64")
    weights = np.array([1.0, 2, 0, 1])
    slow = np.zeros(len(probs))
    for i, belief in enumerate(probs):
        for weight, target in zip(weights, targets, strict=True):
            joint = np.array(slow_joint(belief, target))
            p, p_star = joint.sum(axis=1), joint.sum(axis=0)
            z = sum(w * q for w, q in zip(costs, p_star, strict=True))
            for y in range(3):
                delta = [joint[y, s] - p[y] * p_star[s] for s in range(3)]
                shift = sum(w * d for w, d in zip(costs, delta, strict=True))
                for s in range(3):
                    if costs[s] * p_star[s] * p[y] > 0:
                        off = costs[s] * delta[s] - costs[s] * p_star[s] / z * shift
                        slow[i] += weight * off**2 / (costs[s] * p_star[s] * p[y]) / 2
    seen, counts = Weighted("epig", costs).batch_targets(targets, weights)
    np.testing.assert_allclose(seen.sum(axis=2), 1)
    found = moment_gains(probs, seen, probs[:0], weights=counts)
    np.testing.assert_allclose(found / found.sum(), slow / slow.sum(), rtol=1e-5, atol=1e-12)
    plain = moment_gains(probs, targets, probs[:0], weights=weights)
    assert not np.allclose(found / found.sum(), plain / plain.sum(), rtol=0.01)


@pytest.mark.parametrize(("costs", "score", "words"), [
    ({}, "auto", "must map classes to what an error costs"),
    ([1, 2], "auto", "must map classes to what an error costs"),
    ({"a": -1}, "auto", "numbers from 0, but that of 'a' is -1"),
    ({"a": float("nan")}, "epig", "numbers from 0, but that of 'a' is nan"),
    ({"a": float("inf")}, "epig", "numbers from 0, but that of 'a' is inf"),
    ({"a": True}, "auto", "numbers from 0, but that of 'a' is True"),
    ({"a": "much"}, "auto", "numbers from 0, but that of 'a' is 'much'"),
    ({"a": 0, "b": 0}, "auto", "must not all be 0"),
    ({"a": 2}, "bald", "a score that heeds them, epig, auto, but the score is 'bald'"),
    ({"a": 2}, "margin", "heeds them, epig, auto, but the score is 'margin'"),
    ({"a": 2}, askwell.epig, "but the score is 'epig'"),
    ({7: 2}, "auto", "must be for classes such as 'a', but one is for 7"),
])  # fmt: skip
def test_costs_that_are_none(costs, score, words):
    with pytest.raises(ValueError, match=f"class_weights .*{words}"):
        weighted(score, costs, ["a", "b"])
