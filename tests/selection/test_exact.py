"""Exact joint EPIG against a table of all labels at once; the exclusive or; what is refused."""

import itertools
import math

import numpy as np
import pytest
from posteriors import pool_and_targets, shares, slow_epig

from askwell.selection.candidates import Candidates
from askwell.selection.exact import joint_epig, joint_exact

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
def test_greedy_by_loops(pending):
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
