"""Batches by what the answers could be, all outcomes of some questions together: BatchBALD, and joint EPIG itself.

Given an outcome s of the questions so far, draw k counts posterior_sk = p(s|theta_k) / sum_l p(s|theta_l), and the
expected entropy of a label that is left is sum_s share_s H[sum_k posterior_sk p_k(y)]. Exact while all c^b outcomes are
kept; `thinned` keeps a fixed number of them, drawn in proportion to their shares.

BatchBALD (Kirsch et al. 2019) asks for the batch whose labels together tell most about the parameters. Joint EPIG,

    mean_j I(y_1, ..., y_b; y*_j) = mean_j (H[y*_j] - sum_s p(s) H[y*_j | s]),

is the slow truth beside `moments.py`, and a tool for small studies. It grows with the batch, but not with diminishing
returns: two fair coins tell nothing of their exclusive or, each alone, and all of it together. So greedy choice has no
guarantee there, unlike BatchBALD's.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import entr

from askwell.arrays import shares, spans
from askwell.information.categorical import pool_and_targets
from askwell.selection.candidates import Candidates, beliefs

__all__ = [
    "Outcomes",
    "answered",
    "batchbald",
    "expected_entropy",
    "joint_epig",
    "joint_exact",
    "thinned",
    "unanswered",
]

ENTRIES = 1 << 21  # of a table of conditional probabilities at a time
MOST_OUTCOMES = 1 << 16
MOST_PRODUCTS = 1 << 38  # a minute or so


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


# ---- batches ------------------------------------------------------------------------------------------------------


def batchbald(candidates: Candidates, size: int, /, *, rng: np.random.Generator, outcomes: int = 1024) -> np.ndarray:
    """Greedy by I(y_1, ..., y_b; theta): each choice has the highest H[y_i | y_S] - mean_k H[y_i | theta_k].

    The first term is a mean over the outcomes of what was chosen before, pending questions included. All c^b of them
    while they are at most `outcomes`, then as many drawn in proportion to their probabilities. No targets and no scores
    are looked at. Equal values in order of position.

    >>> first, second = np.eye(2)[[0, 0, 1, 1]], 0.9 * np.eye(2)[[0, 1, 0, 1]] + 0.05
    >>> batchbald(Candidates([0.0, 0.0, 0.0], np.stack([first, first, second])), 2, rng=None)
    array([0, 2])
    """
    if outcomes < 1:
        raise ValueError(f"outcomes must be at least 1, but it is {outcomes}.")
    probs = beliefs(candidates, "batchbald", of="probs")
    known = unanswered(probs.shape[1])
    if candidates.pending is not None and len(candidates.pending):
        for belief in beliefs(candidates, "batchbald", of="pending"):
            known = thinned(answered(known, belief), outcomes, rng=rng)
    noise = entr(probs).sum(axis=2).mean(axis=1)  # [n]
    chosen: list[int] = []
    while len(chosen) < size:
        gains = (expected_entropy(known, probs) - noise).round(12)  # or rounding would choose among copies
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        known = thinned(answered(known, probs[chosen[-1]]), outcomes, rng=rng)
    return np.array(chosen, dtype=np.intp)


def joint_epig(probs: np.ndarray, target_probs: np.ndarray, *, weights: np.ndarray | None = None) -> float:
    """mean_j I(y_1, ..., y_b; y*_j) of a batch `probs [b, k, c]` about `target_probs [m, k, c]`, in nats.

    Like `epig` it is a plug-in estimate: with more outcomes than draws it is mostly bias (c^b is to be well below k).

    >>> first, second = np.eye(2)[[0, 0, 1, 1]], np.eye(2)[[0, 1, 0, 1]]
    >>> either = np.eye(2)[[0, 1, 1, 0]]                                  # which of the two, but not both
    >>> [joint_epig(batch, [either]) for batch in ([first], [second], [first, second])]
    [0.0, 0.0, 0.693147...]
    """
    pool_and_targets(probs, target_probs, False)
    given = Candidates(np.zeros(len(probs)), probs, target_probs, weights)
    batch, targets = (beliefs(given, "joint_exact", of=of) for of in ("probs", "target_probs"))
    _check_cost(1, batch.shape, len(batch), len(targets))
    outcomes = unanswered(batch.shape[1])
    for belief in batch:
        outcomes = answered(outcomes, belief)
    return _told(outcomes, targets, shares(weights, len(targets)))


def joint_exact(candidates: Candidates, size: int, /, *, rng: np.random.Generator) -> np.ndarray:
    """Greedy by the exact joint EPIG of everything chosen so far and pending; equal values in order of position.

    The scores are not looked at, and nothing is drawn. Refused where it would take more than a minute or so.

    >>> first, second = np.eye(2)[[0, 0, 1, 1]], np.eye(2)[[0, 1, 0, 1]]
    >>> pool, targets = np.stack([first, first, second]), np.stack([first, second])
    >>> joint_exact(Candidates([0.0, 0.0, 0.0], pool, targets), 2, rng=None)
    array([0, 2])
    """
    probs, targets = (beliefs(candidates, "joint_exact", of=of) for of in ("probs", "target_probs"))
    asked = [] if candidates.pending is None else list(beliefs(candidates, "joint_exact", of="pending"))
    _check_cost(len(probs), probs.shape, size + len(asked), len(targets))
    outcomes, w = unanswered(probs.shape[1]), shares(candidates.weights, len(targets))
    for belief in asked:
        outcomes = answered(outcomes, belief)
    chosen: list[int] = []
    for _ in range(size):
        left = [i for i in range(len(probs)) if i not in chosen]
        # To twelve digits, or rounding would choose among copies.
        told = [round(_told(answered(outcomes, probs[i]), targets, w), 12) for i in left]
        chosen.append(left[int(np.argmax(told))])
        outcomes = answered(outcomes, probs[chosen[-1]])
    return np.array(chosen, dtype=np.intp)


def _told(outcomes: Outcomes, targets: np.ndarray, w: np.ndarray) -> float:
    before = expected_entropy(unanswered(targets.shape[1]), targets)
    return max(0.0, float((before - expected_entropy(outcomes, targets)) @ w))


def _check_cost(n: int, shape: tuple[int, ...], b: int, m: int) -> None:
    """Refuse what would not end; `n` batches of `b` labels."""
    _, k, c = shape
    outcomes = c**b
    products = n * outcomes * k * m * c
    if outcomes > MOST_OUTCOMES or products > MOST_PRODUCTS:
        raise ValueError(
            f"size must be small for exact joint EPIG: {b} labels of {c} classes (pending ones included) have "
            f"{outcomes:.3g} outcomes (at most {MOST_OUTCOMES:,}), and with {n} candidates, {k} draws and {m} targets "
            f"that is {products:.3g} products (at most {MOST_PRODUCTS:.3g}). Take fewer candidates or targets, or the "
            "batch 'joint', which does without outcomes."
        )
