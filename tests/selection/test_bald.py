"""BatchBALD against the mutual information of all labels and the parameters, by loops; draws of outcomes near it."""

import itertools
import math

import numpy as np
import pytest
from posteriors import linear, pool_and_targets, slow_bald

from askwell.seeds import rng_for
from askwell.selection.bald import batchbald
from askwell.selection.candidates import Candidates


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
