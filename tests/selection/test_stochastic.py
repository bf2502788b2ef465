"""Batches from scores alone: the best in order; draws against the exact probabilities of every ordered batch."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from posteriors import PROPERTY
from scipy.stats import chisquare

from askwell.seeds import rng_for
from askwell.selection.candidates import Candidates
from askwell.selection.stochastic import power, softmax, softrank, top

SCORES = [0.05, 0.3, 0.02, 0.1]
WEIGHTS = {  # by hand, from the definitions
    power: lambda s, beta: s**beta,
    softmax: lambda s, beta: np.exp(beta * s / s.std()),
    softrank: lambda s, beta: np.array([1 / (1 + sum(other > one for other in s)) ** beta for one in s]),
}


@PROPERTY
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.data())
def test_top_is_a_stable_sort(scores, data):
    size = data.draw(st.integers(0, len(scores)))
    found = top(Candidates(np.array(scores) / 7), size, rng=None)
    assert found.tolist() == sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:size]


@pytest.mark.parametrize("batch", WEIGHTS, ids=lambda batch: batch.__name__)
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_draws_follow_the_law(batch, beta):
    """Ordered pairs of four: p(i, j) = w_i / sum w * w_j / (sum w - w_i), every one of them."""
    w, rng, times = WEIGHTS[batch](np.array(SCORES), beta), rng_for(0, 0, batch.__name__), 4000
    pairs = list(itertools.permutations(range(4), 2))
    expected = [w[i] / w.sum() * w[j] / (w.sum() - w[i]) for i, j in pairs]
    counts = dict.fromkeys(pairs, 0)
    for _ in range(times):
        counts[tuple(batch(Candidates(SCORES), 2, rng=rng, beta=beta).tolist())] += 1
    assert sum(expected) == pytest.approx(1)
    assert chisquare([counts[pair] for pair in pairs], times * np.array(expected)).pvalue > 1e-3


@pytest.mark.parametrize("batch", WEIGHTS, ids=lambda batch: batch.__name__)
def test_much_beta_is_the_best_and_none_is_random(batch):
    best = [batch(Candidates(SCORES), 4, rng=rng_for(seed, 0, "best"), beta=400.0).tolist() for seed in range(20)]
    assert best == [[1, 3, 0, 2]] * 20
    firsts = [batch(Candidates(SCORES), 1, rng=rng_for(seed, 0, "random"), beta=0.0)[0] for seed in range(800)]
    assert chisquare(np.bincount(firsts)).pvalue > 1e-3


def test_scores_that_are_not_positive_come_last():
    for seed in range(50):
        found = power(Candidates([0.0, 1e-9, -2.0, 1e-3]), 4, rng=rng_for(seed, 0, "power"))
        assert {*found[:2]} == {1, 3}
    orders = {tuple(power(Candidates([0.0, -1.0]), 2, rng=rng_for(seed, 0, "power")).tolist()) for seed in range(50)}
    assert orders == {(0, 1), (1, 0)}


@pytest.mark.parametrize("batch", [softmax, softrank], ids=lambda batch: batch.__name__)
@pytest.mark.parametrize("change", [lambda s: 1e-6 * s, lambda s: 1e6 * s + 3], ids=["small", "large"])
def test_units_do_not_matter(batch, change):
    """Where unscaled softmax draws at random from scores of a hundredth of a nat."""
    rngs = [rng_for(seed, 0, "units") for seed in range(30)]
    plain = [batch(Candidates(SCORES), 4, rng=rng).tolist() for rng in rngs]
    rngs = [rng_for(seed, 0, "units") for seed in range(30)]
    assert [batch(Candidates(change(np.array(SCORES))), 4, rng=rng).tolist() for rng in rngs] == plain


def test_equal_scores_have_equal_chances():
    for batch in (power, softmax, softrank):
        firsts = [batch(Candidates([0.2] * 4), 1, rng=rng_for(seed, 0, "equal"))[0] for seed in range(800)]
        assert chisquare(np.bincount(firsts)).pvalue > 1e-3


def test_ranks_are_ranks():
    """Of .1 .9 .5 .3 they are 4 1 2 3; the places of a sort, 2 3 4 1, would be something else."""
    drawn = functools.partial(softrank, Candidates([0.1, 0.9, 0.5, 0.3]), 1)
    firsts = np.bincount([drawn(rng=rng_for(seed, 0, "ranks"))[0] for seed in range(2000)], minlength=4)
    share = np.array([1 / 4, 1, 1 / 2, 1 / 3])
    assert chisquare(firsts, 2000 * share / share.sum()).pvalue > 1e-3


@pytest.mark.parametrize("batch", [top, power, softmax, softrank], ids=lambda batch: batch.__name__)
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_scores_that_are_no_numbers_are_refused(batch, bad):
    with pytest.raises(ValueError, match=r"scores must be finite numbers, but scores\[1\]"):
        batch(Candidates([0.1, bad]), 1, rng=rng_for(0, 0, "batch"))


@pytest.mark.parametrize("beta", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("batch", WEIGHTS, ids=lambda batch: batch.__name__)
def test_beta_is_a_number(batch, beta):
    with pytest.raises(ValueError, match="beta must be a finite number from 0"):
        batch(Candidates(SCORES), 1, rng=rng_for(0, 0, "batch"), beta=beta)
