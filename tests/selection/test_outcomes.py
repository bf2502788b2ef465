"""Outcomes of questions: shares and posteriors by Bayes' rule, entropies by enumeration, thinning without bias."""

import itertools
import math

import numpy as np
import pytest
from posteriors import linear, pool_and_targets, shares, slow_bald, slow_entropy, slow_epig

from askwell.seeds import rng_for
from askwell.selection import outcomes as module
from askwell.selection.candidates import Candidates
from askwell.selection.outcomes import (
    answered,
    batchbald,
    expected_entropy,
    joint_epig,
    joint_exact,
    thinned,
    unanswered,
)


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


# ---- BatchBALD against the mutual information of all labels and the parameters, by loops ----


def slow_joint_bald(batch):
    """I(y_1, ..., y_b; theta) as KL[p(s, k) || p(s) / k], over all outcomes."""
    total = 0.0
    for labels in itertools.product(range(batch.shape[2]), repeat=len(batch)):
        given = np.prod([batch[i, :, y] for i, y in enumerate(labels)], axis=0)  # [k]
        total += sum(p / len(given) * math.log(p / given.mean()) for p in given if p > 0)
    return total


def slow_batchbald(probs, size, asked):
    chosen = []
    for _ in range(size):
        worth = [
            -1 if i in chosen else slow_joint_bald(np.stack([*asked, *probs[[*chosen, i]]])) for i in range(len(probs))
        ]
        chosen.append(int(np.argmax(np.round(worth, 12))))
    return chosen


@pytest.mark.parametrize("kind", ["soft", "hard_coupled", "mixed"])
@pytest.mark.parametrize("pending", [0, 1])
def test_greedy_by_loops(kind, pending):
    probs = pool_and_targets(kind, 6 + pending, 1, 8, 3)[0]
    given = Candidates(np.zeros(6), probs[:6], pending=probs[6:] if pending else None)
    assert batchbald(given, 3, rng=None).tolist() == slow_batchbald(probs[:6], 3, probs[6:])


def test_one_question_is_bald():
    probs = pool_and_targets("mixed", 20, 1, 8, 4)[0]
    assert batchbald(Candidates(np.zeros(20), probs), 1, rng=None).tolist() == [int(slow_bald(probs).argmax())]


def test_copies_of_a_sure_question_tell_nothing():
    sure, other = np.eye(2)[[0, 0, 1, 1]], 0.7 * np.eye(2)[[0, 1, 0, 1]] + 0.15
    given = Candidates(np.zeros(5), np.stack([sure, sure, sure, other, np.full((4, 2), 0.5)]))
    assert batchbald(given, 2, rng=None).tolist() == [0, 3]


def test_drawn_outcomes_are_nearly_as_good_as_all():
    """Five of twenty, three classes: all 81 outcomes of four labels, or 40 draws of them."""
    probs, _ = linear(rng_for(0, 0, "batchbald"), 20, 1, 50, 3)
    given = Candidates(np.zeros(20), probs)
    best = slow_joint_bald(probs[batchbald(given, 5, rng=None)])
    drawn = [
        slow_joint_bald(probs[batchbald(given, 5, rng=rng_for(seed, 0, "draw"), outcomes=40)]) for seed in range(5)
    ]
    assert np.mean(drawn) > 0.98 * best
    tops = slow_joint_bald(probs[np.argsort(-slow_bald(probs))[:5]])
    assert tops <= best


def test_long_batches_have_bounded_outcomes():
    probs, _ = linear(rng_for(0, 0, "long"), 60, 1, 20, 10)
    chosen = batchbald(Candidates(np.zeros(60), probs), 40, rng=rng_for(0, 0, "long"), outcomes=50)
    assert len({*chosen.tolist()}) == 40
    with pytest.raises(ValueError, match="outcomes must be at least 1, but it is 0"):
        batchbald(Candidates(np.zeros(60), probs), 2, rng=rng_for(0, 0, "long"), outcomes=0)


# ---- Exact joint EPIG against a table of all labels at once; the exclusive or; what is refused ----


FIRST, SECOND = np.eye(2)[[0, 0, 1, 1]], np.eye(2)[[0, 1, 0, 1]]
EITHER = np.eye(2)[[0, 1, 1, 0]]


def slow_joint_epig(batch, targets, weights=None):
    """KL[p(s, y*) || p(s) p(y*)] over every outcome s of the batch, by loops."""
    w, total = shares(weights, len(targets)), 0.0
    for j, target in enumerate(targets):
        for labels in itertools.product(range(batch.shape[2]), repeat=len(batch)):
            given = np.prod([batch[i, :, y] for i, y in enumerate(labels)], axis=0)
            for y in range(target.shape[1]):
                joint = np.mean(given * target[:, y])
                if joint > 0:
                    total += w[j] * joint * math.log(joint / (given.mean() * target[:, y].mean()))
    return total


@pytest.mark.parametrize("kind", ["soft", "hard_coupled", "mixed", "peaked"])
@pytest.mark.parametrize("weights", [None, [1, 0, 2, 5]])
def test_joint_epig_is_its_definition(kind, weights):
    batch, targets = pool_and_targets(kind, 3, 4, 7, 3)
    expected = slow_joint_epig(batch, targets, weights)
    assert joint_epig(batch, targets, weights=weights) == pytest.approx(expected, abs=1e-12)
    single = joint_epig(batch[:1], targets, weights=weights)
    assert single == pytest.approx(slow_epig(batch[:1], targets, weights)[0], abs=1e-12)
    assert single <= expected + 1e-12
    assert joint_epig(batch[:0], targets) == 0


def test_exclusive_or():
    """Each coin alone tells nothing of it, both tell all: joint EPIG has no diminishing returns."""
    assert joint_epig([FIRST], [EITHER]) == joint_epig([SECOND], [EITHER]) == 0
    assert joint_epig([FIRST, SECOND], [EITHER]) == pytest.approx(np.log(2), abs=1e-12)
    assert joint_epig([FIRST, FIRST], [FIRST]) == joint_epig([FIRST], [FIRST]) == pytest.approx(np.log(2))
    pool = np.stack([FIRST, FIRST, SECOND])
    assert joint_exact(Candidates(np.zeros(3), pool, EITHER[None]), 2, rng=None).tolist() == [0, 2]
    pending = Candidates(np.zeros(3), pool, EITHER[None], pending=FIRST[None])
    assert joint_exact(pending, 1, rng=None).tolist() == [2]


@pytest.mark.parametrize("pending", [0, 1])
def test_greedy_by_loops_of_exact(pending):
    probs, targets = pool_and_targets("soft", 7 + pending, 4, 9, 2)
    weights, asked = np.array([1.0, 2, 0, 1]), probs[7:]
    chosen = []
    for _ in range(3):
        worth = [
            -1 if i in chosen else slow_joint_epig(np.concatenate([asked, probs[[*chosen, i]]]), targets, weights)
            for i in range(7)
        ]
        chosen.append(int(np.argmax(worth)))
    given = Candidates(np.zeros(7), probs[:7], targets, weights, asked if pending else None)
    assert joint_exact(given, 3, rng=None).tolist() == chosen


def test_what_would_not_end_is_refused_with_its_cost():
    probs, targets = pool_and_targets("soft", 30, 20, 10, 10)
    words = r"6 labels of 10 classes .* have 1e\+06 outcomes .*30 candidates, 10 draws and 20 targets.*'joint'"
    with pytest.raises(ValueError, match=words):
        joint_exact(Candidates(np.zeros(30), probs, targets), 6, rng=None)
    with pytest.raises(ValueError, match="1e\\+08 outcomes"):
        joint_exact(Candidates(np.zeros(30), probs, targets, pending=probs[:2]), 6, rng=None)
    with pytest.raises(ValueError, match="1e\\+30 outcomes"):
        joint_epig(probs, targets)
    with pytest.raises(ValueError, match="at least one target"):
        joint_epig(probs[:1], targets[:0])
