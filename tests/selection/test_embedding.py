"""BADGE: distances against outer products written out, draws against their exact probabilities."""

import numpy as np
import pytest
from posteriors import pool_and_targets
from scipy.stats import chisquare

from askwell.seeds import rng_for
from askwell.selection.candidates import Candidates
from askwell.selection.embedding import badge, spread_out


def gradients(probs, x=None):
    """By loops: (p - one-hot of the likeliest) times every feature, a row each."""
    rows = []
    for i, belief in enumerate(probs):
        p = belief.mean(0)
        error = [p[y] - (y == p.argmax()) for y in range(len(p))]
        rows.append([e * f for e in error for f in ([1.0] if x is None else x[i])])
    return np.array(rows)


def squares(rows, one):
    return ((rows - one) ** 2).sum(1)


@pytest.mark.parametrize("featured", [False, True])
def test_the_first_is_the_largest_gradient_and_the_second_a_draw(featured):
    probs, _ = pool_and_targets("soft", 6, 1, 5, 3)
    x = rng_for(0, 0, "x").normal(size=(6, 2)) if featured else None
    rows, times = gradients(probs, x), 3000
    pairs = np.array([badge(Candidates(np.zeros(6), probs, x=x), 2, rng=rng_for(s, 0, "b")) for s in range(times)])
    first = int((rows**2).sum(1).argmax())
    assert (pairs[:, 0] == first).all()
    share = squares(rows, rows[first])
    found = np.bincount(pairs[:, 1], minlength=6)
    assert found[first] == 0
    others = np.arange(6) != first
    assert chisquare(found[others], times * share[others] / share.sum()).pvalue > 1e-3


def test_the_third_goes_by_the_nearest_of_two():
    x = np.array([0.0, 1.0, 4.0, 10.0])
    drawn = [
        spread_out(lambda i: (x - x[i]) ** 2, np.full(4, np.inf), 3, first=[0, 3], rng=rng_for(s, 0, "d"))[2]
        for s in range(2000)
    ]
    assert chisquare(np.bincount(drawn)[1:3], 2000 * np.array([1, 16]) / 17).pvalue > 1e-3


def test_copies_are_not_drawn_while_anything_else_is_left():
    probs, _ = pool_and_targets("soft", 4, 1, 5, 3)
    x = rng_for(0, 0, "x").normal(size=(4, 3)) * 1e3
    for seed in range(40):
        given = Candidates(np.zeros(12), np.tile(probs, (3, 1, 1)), x=np.tile(x, (3, 1)))
        chosen = badge(given, 6, rng=rng_for(seed, 0, "copies"))
        assert sorted(chosen[:4] % 4) == [0, 1, 2, 3]
        assert len({*chosen.tolist()}) == 6


def test_pending_questions_count_as_chosen():
    probs, _ = pool_and_targets("soft", 5, 1, 5, 3)
    rows, times = gradients(probs), 2000
    drawn = [
        badge(Candidates(np.zeros(4), probs[:4], pending=probs[4:]), 1, rng=rng_for(s, 0, "p"))[0] for s in range(times)
    ]
    share = squares(rows[:4], rows[4])
    assert chisquare(np.bincount(drawn, minlength=4), times * share / share.sum()).pvalue > 1e-3
    same = Candidates(np.zeros(2), probs[:2], pending=probs[:2])  # nothing new to choose from: any
    assert sorted(badge(same, 2, rng=rng_for(0, 0, "p"))) == [0, 1]


def test_sure_candidates_come_last():
    sure, unsure = [[1.0, 0.0]], [[0.7, 0.3]]
    for seed in range(20):
        chosen = badge(Candidates(np.zeros(4), np.array([sure, unsure, sure, sure])), 2, rng=rng_for(seed, 0, "sure"))
        assert chosen[0] == 1
