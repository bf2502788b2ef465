"""What the answers to some questions could be, and what the draws would be worth after each of them.

Given an outcome s of the questions so far, draw k counts posterior_sk = p(s|theta_k) / sum_l p(s|theta_l), and the
expected entropy of a label that is left is sum_s share_s H[sum_k posterior_sk p_k(y)]. Exact while all c^b outcomes are
kept; `thinned` keeps a fixed number of them, drawn in proportion to their shares.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import entr

from askwell.arrays import spans

__all__ = ["Outcomes", "answered", "expected_entropy", "thinned", "unanswered"]

ENTRIES = 1 << 21  # of a table of conditional probabilities at a time


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outcomes [s] of the questions asked so far: their probabilities, and the draws' after each of them."""

    share: np.ndarray  # [s], sums to one
    posterior: np.ndarray  # [s, k], rows sum to one


def unanswered(k: int) -> Outcomes:
    """Before any question: one outcome, all draws alike."""
    return Outcomes(np.ones(1), np.full((1, k), 1 / k))


def answered(outcomes: Outcomes, belief: np.ndarray) -> Outcomes:
    """The outcomes after one question more, about which the draws believe `belief [k, c]`. Impossible ones are dropped.

    >>> coin = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> answered(answered(unanswered(2), coin), coin).share             # asking twice tells nothing new
    array([0.5, 0.5])
    """
    joint = outcomes.posterior[:, None, :] * belief.T  # [s, c, k]
    total = joint.sum(axis=2)
    share = (outcomes.share[:, None] * total).ravel()
    kept = share > 0
    posterior = joint.reshape(len(share), -1)[kept] / total.ravel()[kept, None]
    return Outcomes(share[kept], posterior)


def thinned(outcomes: Outcomes, most: int, *, rng: np.random.Generator) -> Outcomes:
    """At most `most` outcomes: if there are more, an evenly spaced draw in proportion to the shares, then all equal.

    Evenly spaced (systematic) draws leave every expectation over the outcomes unbiased, and vary less than single ones.
    """
    if len(outcomes.share) <= most:
        return outcomes
    edges = np.cumsum(outcomes.share)
    points = (rng.random() + np.arange(most)) / most * edges[-1]
    drawn = np.minimum(np.searchsorted(edges, points, side="right"), len(edges) - 1)
    return Outcomes(np.full(most, 1 / most), outcomes.posterior[drawn])


def expected_entropy(outcomes: Outcomes, probs: np.ndarray) -> np.ndarray:
    """sum_s share_s H[y | s] of the labels of `probs [n, k, c]`, as [n].

    >>> coin = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> expected_entropy(unanswered(2), coin[None]), expected_entropy(answered(unanswered(2), coin), coin[None])
    (array([0.69314718]), array([0.]))
    """
    n, k, c = probs.shape
    found = np.empty(n)
    for span in spans(n, max(1, ENTRIES // (c * len(outcomes.share)))):
        columns = probs[span].transpose(1, 0, 2).reshape(k, -1)  # [k, n*c]
        given = (outcomes.posterior @ columns).reshape(len(outcomes.share), -1, c)  # [s, n, c]
        found[span] = outcomes.share @ entr(given).sum(axis=2)
    return found
