"""BatchBALD (Kirsch et al. 2019): the batch whose labels together tell most about the parameters."""

import numpy as np
from scipy.special import entr

from askwell.selection.candidates import Candidates, beliefs
from askwell.selection.outcomes import answered, expected_entropy, thinned, unanswered

__all__ = ["batchbald"]


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
