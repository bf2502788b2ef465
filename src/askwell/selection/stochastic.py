"""From scores to a batch without looking at anything else: the best, or a draw that favours the best.

The best questions of a pool are often copies of one question. Kirsch et al. (Stochastic Batch Acquisition, 2023) draw
without replacement instead, candidate i next with probability w_i over the sum of the w of those left:

    power     w = s^beta                the score as a share
    softmax   w = exp(beta s / sd(s))   scaled to the scores' spread: unscaled scores of 0.01 to 0.1 nats draw at random
    softrank  w = rank^-beta            only the order counts

In one go by the Gumbel trick: the largest log w + Gumbel noise, in order.
"""

import numpy as np

from askwell.selection.candidates import Candidates, finite_scores

__all__ = ["power", "softmax", "softrank", "top"]


def top(candidates: Candidates, size: int, /, *, rng: np.random.Generator) -> np.ndarray:
    """The `size` highest scores, highest first, equal scores in order of position. Draws nothing.

    >>> top(Candidates(scores=[0.1, 0.7, 0.7]), 2, rng=None)
    array([1, 2])
    """
    order: np.ndarray = np.argsort(-finite_scores(candidates), kind="stable")[:size]
    return order


def power(candidates: Candidates, size: int, /, *, rng: np.random.Generator, beta: float = 1.0) -> np.ndarray:
    """Draws with probabilities in proportion to score^beta; scores of 0 and less come last.

    >>> from askwell.seeds import rng_for
    >>> sorted(power(Candidates(scores=[0.0, 0.7, 0.2]), 2, rng=rng_for(0, 0, "batch")).tolist())
    [1, 2]
    """
    scores = finite_scores(candidates)
    positive = np.maximum(scores, np.finfo(np.float64).smallest_normal)
    return _drawn(_checked(beta) * np.log(positive), size, rng)


def softmax(candidates: Candidates, size: int, /, *, rng: np.random.Generator, beta: float = 1.0) -> np.ndarray:
    """Draws with probabilities in proportion to exp(beta score / sd), sd the standard deviation of the scores.

    >>> from askwell.seeds import rng_for
    >>> softmax(Candidates(scores=[0.01, 0.02]), 1, rng=rng_for(0, 0, "batch"), beta=50).tolist()
    [1]
    """
    scores = finite_scores(candidates)
    apart = scores - scores.max(initial=-np.inf)  # first, or scores of 1e300 would lose their spread
    spread = float(apart.std()) if len(scores) else 0.0
    return _drawn(_checked(beta) * apart / spread if spread > 0 else np.zeros_like(scores), size, rng)


def softrank(candidates: Candidates, size: int, /, *, rng: np.random.Generator, beta: float = 1.0) -> np.ndarray:
    """Draws with probabilities in proportion to rank^-beta; rank 1 is the highest, equal scores share their mean rank.

    >>> from askwell.seeds import rng_for
    >>> softrank(Candidates(scores=[3.0, 9.0, 5.0]), 3, rng=rng_for(0, 0, "batch"), beta=50).tolist()
    [1, 2, 0]
    """
    _, place, count = np.unique(-finite_scores(candidates), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    return _drawn(-_checked(beta) * np.log(ranks), size, rng)


def _drawn(logs: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """The first `size` of a draw without replacement in proportion to exp(logs), by Gumbel noise."""
    order: np.ndarray = np.argsort(-(logs + rng.gumbel(size=len(logs))), kind="stable")[:size]
    return order


def _checked(beta: float) -> float:
    if not (np.isfinite(beta) and beta >= 0):
        raise ValueError(f"beta must be a finite number from 0 (random) up (towards the best), but it is {beta}.")
    return beta
