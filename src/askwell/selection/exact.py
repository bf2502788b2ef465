"""Joint EPIG itself, by all c^b outcomes of a batch: the slow truth beside `moments.py`, and a tool for small studies.

mean_j I(y_1, ..., y_b; y*_j) = mean_j (H[y*_j] - sum_s p(s) H[y*_j | s]), s an outcome of the whole batch. It grows
with the batch, but not with diminishing returns: two fair coins tell nothing of their exclusive or, each alone, and all
of it together. So greedy choice has no guarantee here, unlike BatchBALD's.
"""

import numpy as np

from askwell.arrays import normalised_weights
from askwell.information.categorical import pool_and_targets
from askwell.selection.candidates import Candidates, beliefs
from askwell.selection.outcomes import Outcomes, answered, expected_entropy, unanswered

__all__ = ["joint_epig", "joint_exact"]

MOST_OUTCOMES = 1 << 16
MOST_PRODUCTS = 1 << 38  # a minute or so


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
    return _told(outcomes, targets, _shares(weights, len(targets)))


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
    outcomes, w = unanswered(probs.shape[1]), _shares(candidates.weights, len(targets))
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


def _shares(weights: np.ndarray | None, m: int) -> np.ndarray:
    w = normalised_weights(weights, m)
    return np.full(m, 1 / m) if w is None else w


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
