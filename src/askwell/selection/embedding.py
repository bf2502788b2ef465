"""BADGE (Ash et al. 2020): gradients that are large and point different ways, by the seeding of k-means++.

If the label of x were the class the model believes in, the gradient of the log loss by the last layer of a net would be
(p(y|x) - [y = argmax p]) x' for features x: large where the model is unsure, and pointing along the features.
"""

from collections.abc import Callable, Sequence

import numpy as np

from askwell.selection.candidates import Candidates, beliefs, features

__all__ = ["badge", "spread_out"]

SAME = 1e-12  # of the squared lengths: a squared distance below it is rounding


def badge(candidates: Candidates, size: int, /, *, rng: np.random.Generator) -> np.ndarray:
    """The largest gradient, then draws in proportion to the squared distance from the nearest gradient chosen.

    Gradients of the mean prediction over draws, times the features `x` (best those of a model's last layer). Without
    features the first factor stands alone, and pending questions count as chosen. No scores or targets are looked at.

    >>> from askwell.seeds import rng_for
    >>> sure, left, right = [[1.0, 0.0]], [[0.6, 0.4]], [[0.4, 0.6]]
    >>> badge(Candidates([0.0] * 4, np.array([sure, left, left, right])), 2, rng=rng_for(0, 0, "batch")).tolist()
    [1, 3]
    """
    error = _error(beliefs(candidates, "badge", of="probs"))  # [n, c]
    x = np.ones((len(error), 1)) if candidates.x is None else features(candidates, "badge")[0]
    length = (error**2).sum(axis=1) * (x**2).sum(axis=1)

    def away(from_error: np.ndarray, from_x: np.ndarray) -> np.ndarray:
        """|e x' - e0 x0'|^2 without the outer products, which would be [n, c*d]."""
        both = length + (from_error**2).sum() * (from_x**2).sum()
        square = both - 2 * (error @ from_error) * (x @ from_x)
        return np.where(square > SAME * both, square, 0)

    nearest = np.full(len(error), np.inf)
    if candidates.x is None and candidates.pending is not None and len(candidates.pending):
        asked = _error(beliefs(candidates, "badge", of="pending"))
        nearest = np.min([away(one, np.ones(1)) for one in asked], axis=0)
    first = [int(length.argmax())] if len(length) and np.isinf(nearest).all() else []
    return spread_out(lambda i: away(error[i], x[i]), nearest, size, first=first[:size], rng=rng)


def spread_out(
    away: Callable[[int], np.ndarray],
    nearest: np.ndarray,
    size: int,
    *,
    first: Sequence[int],
    rng: np.random.Generator,
) -> np.ndarray:
    """Seeding of k-means++: after the `first`, each in proportion to its squared distance from the nearest chosen.

    `away(i)` are the squared distances [n] of all from the i-th, `nearest` those from what is given already. Where all
    that are left lie on chosen ones, any of them.

    >>> from askwell.seeds import rng_for
    >>> x = np.array([0.0, 0.0, 5.0])
    >>> spread_out(lambda i: (x - x[i]) ** 2, np.full(3, np.inf), 2, first=[0], rng=rng_for(0, 0, "batch")).tolist()
    [0, 2]
    """
    chosen: list[int] = []
    free = np.ones(len(nearest), dtype=bool)
    while len(chosen) < size:
        if len(chosen) < len(first):
            best = first[len(chosen)]
        else:
            share = np.where(free, nearest, 0)
            share = share if share.sum() > 0 else free.astype(np.float64)
            best = int(rng.choice(len(share), p=share / share.sum()))
        chosen.append(best)
        free[best] = False
        nearest = np.minimum(nearest, away(best))
    return np.array(chosen, dtype=np.intp)


def _error(probs: np.ndarray) -> np.ndarray:
    """p(y|x) - [y = argmax p] of the mean prediction, as [n, c]."""
    mean = probs.mean(axis=1)
    error: np.ndarray = mean - np.eye(mean.shape[1])[mean.argmax(axis=1)]
    return error
