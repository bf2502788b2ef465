"""Many targets summarised by a few with weights: importance sampling, evened out.

Target j moves EPIG by w_j I(y; y*_j), and I(y; y*_j) <= BALD_j, whatever the candidate. So targets are taken with
probability proportional to w_j (BALD_j + a little), in equal steps along the order of their BALD (systematic sampling:
every stretch of the order is taken its fair share of times), and those taken count w_j over that probability.
"""

import numpy as np

from askwell.arrays import Array, check_probs, normalised_weights
from askwell.information.categorical import bald

__all__ = ["checked_size", "inclusion", "representatives", "subset", "taken", "target_bald"]

LITTLE = 0.3  # of the mean BALD, added to each: without it, targets of no doubt at all get the largest weights


def representatives(
    probs: Array, size: int, *, weights: Array | None = None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, weights) of at most `size` targets that stand for all of `probs [m, k, c]`, none of them twice.

    EPIG with the few and their weights estimates EPIG with all and `weights`. Before the weights are made to sum to one
    the estimate is unbiased; after, it is off by a factor that is the same for all candidates, and in the mean by 1 %
    for 20 of 200. Fewer than `size` come back only where fewer have a positive weight.

    >>> from askwell.seeds import rng_for
    >>> sure, split = [[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]
    >>> positions, weights = representatives([sure] * 8 + [split] * 2, 4, rng=rng_for(0, 0, "few"))
    >>> positions[-2:], weights.round(2)  # both that can be informed, and some that stand for the rest
    (array([8, 9]), array([0.4, 0.4, 0.1, 0.1]))
    """
    _, (probs,) = check_probs(probs=probs, values=False)
    m = probs.shape[0]
    if m == 0:
        raise ValueError(f"probs must have at least one target, but its shape is {tuple(probs.shape)}.")
    w = normalised_weights(weights, m)
    share = np.full(m, 1 / m) if w is None else w
    return subset(share, target_bald(probs), size, rng=rng)


def target_bald(probs: Array) -> np.ndarray:
    """BALD of each target as float64, never negative, on the CPU."""
    scores = bald(probs)
    host = scores if isinstance(scores, np.ndarray) else scores.cpu().numpy()
    return np.maximum(host.astype(np.float64), 0.0)


def subset(
    weights: np.ndarray, doubt: np.ndarray | None, size: int, *, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, weights that sum to one) of at most `size` of m inputs with `weights [m]` and BALD `doubt [m]`.

    Positions are in order. Without `doubt` only the weights decide.
    """
    checked_size("size", size)
    mean = 0.0 if doubt is None else float(weights @ doubt)
    worth = np.ones(len(weights)) if doubt is None or mean == 0 else doubt + LITTLE * mean
    chance = inclusion(weights * worth, size)
    # Ties in BALD (hard votes) in random order: a sample in steps must not meet the period of a sorted file.
    shuffled = rng.permutation(len(weights))
    order = shuffled[np.argsort(worth[shuffled], kind="stable")]
    positions = np.sort(taken(chance, order, float(rng.random())))
    w = weights[positions] / chance[positions]
    return positions, w / w.sum()


def inclusion(scores: np.ndarray, size: int) -> np.ndarray:
    """Probabilities min(1, scores / t) of being taken, with t such that they sum to `size`; all of few are taken.

    >>> inclusion(np.array([8.0, 1.0, 1.0, 0.0]), 2)
    array([1. , 0.5, 0.5, 0. ])
    """
    if np.count_nonzero(scores) <= size:
        return (scores > 0).astype(np.float64)
    ranked = np.sort(scores)[::-1]
    rest = np.cumsum(ranked[::-1])[::-1][:size]  # of the scores from each rank on
    thresholds = rest / (size - np.arange(size))  # if all before it are taken for sure
    sure = int(np.argmax(ranked[:size] <= thresholds))
    chance: np.ndarray = np.minimum(1.0, scores / thresholds[sure])
    return chance


def taken(chance: np.ndarray, order: np.ndarray, start: float) -> np.ndarray:
    """The positions met by steps of one, from `start` in [0, 1), along the chances laid end to end in this order."""
    sure = np.flatnonzero(chance >= 1)
    open_ = order[(chance[order] > 0) & (chance[order] < 1)]
    if len(open_) == 0:
        return sure
    ends = np.cumsum(chance[open_])
    steps = max(1, round(float(ends[-1])))
    met = np.searchsorted(ends * (steps / ends[-1]), start + np.arange(steps), side="right")
    return np.concatenate([sure, open_[np.minimum(met, len(open_) - 1)]])


def checked_size(name: str, size: object) -> int:
    """A whole number from 1."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise ValueError(f"{name} must be a whole number of targets from 1, but it is {size!r}.")
    return int(size)
