"""The posterior of multinomial logistic regression: draws that fit the labels they learnt from, and are calibrated.

Weights w_j ~ N(0, s² I) of c classes, inputs φ `[n, D]`. Three choices make the draws worth asking:

- *The width.* A draw is the mode plus τ δ with δ_j ~ N(0, (I / s² + ½ Φᵀ Φ)⁻¹), centred over classes. The ½ bounds the
  curvature of the softmax from above (Böhning 1992). The curvature at the mode, p (1 - p), vanishes where the model is
  sure of its labels, so Laplace's Gaussian is as wide as the prior there: its draws forget the labels.
- *The temperature τ and the prior scale s*, by cross-validation: a grid of both, each cell weighted by a weak belief
  times the likelihood of held-out labels under the mean of its draws. The evidence cannot choose them, as it takes the
  Gaussian for the posterior, and even the exact posterior is under-confident on separable data.
- *A mixture, not a winner.* Few labels cannot decide between the cells, so each gets draws in proportion to its weight.
  A class without a label is not tempered: nothing has said how sure to be of it.

n labels see only the span of their n rows: there, r = min(n, D) directions per class are fitted; outside it a draw is
the prior's, tempered as well. A vector added to all w_j changes no probability, so draws are centred over classes.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, svd

from askwell.arrays import one_thread_each

__all__ = ["Tempered", "tempered_posterior"]

SCALES = (0.375, 0.75, 1.5, 3.0, 6.0, 12.0)  # s: the prior standard deviation of a typical input's logit
TEMPERS = (0.25, 0.5, 1.0)  # τ: deviations from the mode, of those of the bound
BELIEF = ((6.0, 1.5), (0.5, 1.0))  # log-normal, of s and of τ: (median, standard deviation of the log)
FOLDS = 5
HELD_OUT_DRAWS = 32  # that a held-out label is predicted by
MOST_ROWS = 500  # labels that choose: more would sharpen a choice that is already sharp
LEAST_WEIGHT = 1e-3  # of a scale that gets draws
MOST_STEPS = 2000  # of a search for a mode
FRESH = 50  # steps after which it begins anew, with the curvature there
MOST_TURNS = 60  # back from a step too far


class Tempered(NamedTuple):
    """A belief about weights, as draws."""

    weights: np.ndarray  # [D, c, k]
    mean: np.ndarray  # [D, c]  of the modes, each with the weight of its scale
    scale: float  # s, the geometric mean
    temper: float  # τ, the geometric mean


def tempered_posterior(
    rows: np.ndarray, codes: np.ndarray, c: int, *, draws: int, rng: np.random.Generator, scale: float | None = None
) -> Tempered:
    """The posterior of weights given inputs φ `[n, D]`, float64, and labels as class numbers `[n]`.

    With a `scale` the prior's is this one; only the temperature is chosen.

    >>> from askwell.seeds import rng_for
    >>> rows, codes = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> result = tempered_posterior(rows, codes, 2, draws=50, rng=rng_for(0, 0, "fit"), scale=1.0)
    >>> result.weights.shape, result.mean.round(2)
    ((1, 2, 50), array([[-0.52,  0.52]]))
    """
    scales, truth = np.array(SCALES if scale is None else [float(scale)]), np.eye(c)[codes]
    with one_thread_each():
        basis, sizes = _span(rows)  # [D, r], [r]
        z = rows @ basis  # [n, r]
        weights = _weights(z, codes, truth, scales, rng)  # [scales, tempers]
        used = np.flatnonzero(weights.sum(axis=1) >= LEAST_WEIGHT)
        scales, weights = scales[used], weights[used] / weights[used].sum()
        modes = np.stack([mode[0] for mode in _modes(z[None], truth, scales, tolerance=1e-6)], -1)  # [r, c, scales]
        cells = rng.permutation(np.searchsorted(np.cumsum(weights)[:-1], (np.arange(draws) + 0.5) / draws))
        which, tempers = cells // len(TEMPERS), np.array(TEMPERS)[cells % len(TEMPERS)]  # [k]
        # no label has said how sure to be of a class that has none
        tempers = np.where((np.bincount(codes, minlength=c) > 0)[:, None], tempers, 1.0)  # [c, k]
        deviations = _deviations(basis, sizes, scales[which], c, rng)  # [D, c, k]
        drawn = np.tensordot(basis, modes, 1)[:, :, which] + tempers * deviations
    typical = (np.exp(weights.sum(axis=1) @ np.log(scales)), np.exp(weights.sum(axis=0) @ np.log(TEMPERS)))
    return Tempered(drawn, basis @ (modes @ weights.sum(axis=1)), *map(float, typical))


def _span(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis `[D, r]` that holds the rows, and their singular values `[r]`: Φ = U diag(sizes) basisᵀ."""
    n, size = rows.shape
    if n < size:
        _, sizes, directions = svd(rows, full_matrices=False)
        return directions.T, sizes
    squares, basis = eigh(rows.T @ rows)
    return basis, np.sqrt(np.maximum(squares, 0))


def _weights(
    z: np.ndarray, codes: np.ndarray, truth: np.ndarray, scales: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Weights `[scales, tempers]` of the cells, sum one: the belief times the likelihood of labels held out in turn."""
    if len(z) > MOST_ROWS:
        some = rng.choice(len(z), MOST_ROWS, replace=False)
        z, codes, truth = z[some], codes[some], truth[some]
    half = rng.standard_normal((HELD_OUT_DRAWS // 2, truth.shape[1]))
    noise = (np.concatenate([half, -half]) * np.array(TEMPERS)[:, None, None]).transpose(2, 0, 1)  # [c, tempers, draws]
    folds, logs = _folds(codes, rng), np.zeros((len(scales), len(TEMPERS)))
    held_out = folds == np.arange(folds.max() + 1)[:, None]  # [folds, n]
    modes = _modes(np.where(held_out[:, :, None], 0, z), truth, scales, tolerance=1e-3)
    for fold, out in enumerate(held_out):
        seen, new = z[~out], z[out]
        squares, axes = eigh(seen.T @ seen)
        shares = (new @ axes) ** 2  # [n, r]
        for i, (s, mode) in enumerate(zip(scales, modes, strict=True)):
            width = np.sqrt((shares / (1 / s**2 + np.maximum(squares, 0) / 2)).sum(axis=1))  # of a logit  [n]
            logits = width[:, None, None] * noise[:, None]  # [c, n, tempers, draws]
            logits += (new @ mode[fold]).T[:, :, None, None]
            probs = _softmax(logits, 0)[codes[out], np.arange(len(new))].mean(axis=2)  # [n, tempers]
            logs[i] += np.log(np.maximum(probs, 1e-12)).sum(axis=0)
    (typical_s, spread_s), (typical_t, spread_t) = BELIEF
    logs -= ((np.log(scales) - math.log(typical_s)) / spread_s)[:, None] ** 2 / 2
    logs -= ((np.log(TEMPERS) - math.log(typical_t)) / spread_t) ** 2 / 2
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _folds(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A fold number for each label, dealt class by class, so that each fold has its share of each class."""
    order = rng.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    folds = np.empty(len(codes), np.intp)
    folds[order] = np.arange(len(codes)) % min(len(codes), FOLDS)
    return folds


def _modes(z: np.ndarray, truth: np.ndarray, scales: np.ndarray, *, tolerance: float) -> list[np.ndarray]:
    """The weights `[g, r, c]` of most posterior probability for each scale, of g sets of inputs `z [g, n, r]` at once.

    Rows of zeros do not count: sets that leave out some inputs have them. Each search starts at the modes of the scale
    before, and goes along conjugate directions (Polak and Ribière), scaled by the diagonal of I / s² + Zᵀ diag(v) Z,
    where v = (1 - Σ_y p(y)²) / (c - 1) is the mean curvature of an input's softmax: in the basis of `_span` that is
    most of the matrix. In units of the prior the Hessian is >= I, so the error of a mode is at most its gradient:
    `tolerance`, in the Euclidean norm.
    """
    (g, _, r), c, modes = z.shape, truth.shape[1], []
    truth = truth.T  # [c, n]: classes before inputs, so that sums over them run along whole cache lines
    weights, turned = np.zeros((g, c, r)), np.ascontiguousarray(z.transpose(0, 2, 1))
    logits, squares = np.zeros((g, c, z.shape[1])), z**2
    for s in scales:
        probs = _softmax(logits, 1)
        gradient = (probs - truth) @ z + weights / s**2
        direction, old = np.zeros_like(weights), gradient
        for turn in range(MOST_STEPS):
            open_ = s**2 * _dots(gradient, gradient) > tolerance**2  # [g]
            if not open_.any():
                break
            if turn % FRESH == 0:
                curvature = (1 - (probs * probs).sum(axis=1)) / max(1, c - 1)  # [g, n]
                inverse = 1 / (curvature[:, None] @ squares + 1 / s**2)  # [g, 1, r]
                size = np.full(g, np.inf)
            steepest = inverse * gradient
            now = _dots(gradient, steepest)
            again = np.maximum(now - _dots(old, steepest), 0) / size
            direction = again[:, None, None] * direction - steepest
            slope = _dots(gradient, direction)
            up = slope >= 0
            if up.any():
                direction[up], slope = -steepest[up], np.where(up, -now, slope)
            ahead, old, size = direction @ turned, gradient, np.where(now > 0, now, np.inf)
            spread = probs * ahead
            mean = spread.sum(axis=1, keepdims=True)
            bend = _dots(spread, ahead) - _dots(mean, mean) + _dots(direction, direction) / s**2
            step = np.divide(-slope, bend, out=np.zeros(g), where=open_)  # Newton's, along it
            for _ in range(MOST_TURNS):
                tried = logits + step[:, None, None] * ahead
                probs = _softmax(tried, 1)
                there = weights + step[:, None, None] * direction
                gradient = (probs - truth) @ z + there / s**2
                after = _dots(gradient, direction)
                far = open_ & (after > -slope / 2)  # beyond the lowest point, which convexity has before it
                if not far.any():
                    break
                step = np.where(far, step * -slope / np.where(far, after - slope, 1), step)
            logits, weights = tried, there
        modes.append(weights.transpose(0, 2, 1))
    return modes


def _dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Inner products `[g]` of `[g, c, r]`."""
    g = len(a)
    return np.asarray((a.reshape(g, 1, -1) @ b.reshape(g, -1, 1))[:, 0, 0])


def _deviations(
    basis: np.ndarray, sizes: np.ndarray, scales: np.ndarray, c: int, rng: np.random.Generator
) -> np.ndarray:
    """A draw of N(0, (I / s² + ½ Φᵀ Φ)⁻¹) per class for each of k scales: `[D, c, k]`, centred over classes."""
    widths = 1 / np.sqrt(1 / scales**2 + sizes[:, None] ** 2 / 2)  # [r, k]
    inside = _centred(rng.standard_normal((len(sizes), c, len(scales)))) * widths[:, None]
    if basis.shape[0] == basis.shape[1]:
        return np.asarray(np.tensordot(basis, inside, 1))
    prior = _centred(rng.standard_normal((len(basis), c, len(scales)))) * scales
    return np.asarray(np.tensordot(basis, inside - np.tensordot(basis.T, prior, 1), 1) + prior)


def _softmax(logits: np.ndarray, axis: int) -> np.ndarray:
    """Over this axis."""
    probs = logits - logits.max(axis=axis, keepdims=True)
    np.exp(probs, out=probs)
    probs /= probs.sum(axis=axis, keepdims=True)
    return np.asarray(probs)


def _centred(weights: np.ndarray) -> Any:
    """`[r, c, k]` less the mean over classes, to which no probability responds."""
    return weights - weights.mean(axis=1, keepdims=True)
