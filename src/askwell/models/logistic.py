"""What a linear model does besides its matrix product: compiled (`logistic_kernels.py`), or NumPy until that is ready.

Either way the same steps in the same order, none of them fused, and the same BLAS: predictions are equal to the bit.
"""

from typing import Any

import numpy as np
from scipy.linalg.blas import sgemm

from askwell.arrays import spans
from askwell.compiling import ready

__all__ = ["FAR", "predict_many", "predict_two", "predict_two_above", "set_many", "set_standardised", "set_two"]

FAR = np.float32(80)  # logits: there a class has all the probability, and exp still fits in float32
ONE, HALF, TO_POWERS = np.float32(1), np.float32(0.5), np.float32(1 / np.log(2))
# log 2 in two parts, of which the first has few digits: whole numbers times it are exact
LOG_2_MOST = np.float32(0.693359375)
LOG_2_REST = np.float32(np.log(2) - 0.693359375)
# (exp(f) - 1 - f) / f^2 = sum_(n >= 2) f^(n-2) / n!, for |f| <= log(2) / 2, highest first
TERMS = tuple(np.float32(1 / np.prod(np.arange(1.0, n + 1))) for n in range(8, 1, -1))
BIAS, DIGITS = np.int32(127), np.int32(23)  # of a float32: its exponent's zero, and how far up the exponent is
SECONDS = 2e-8  # that NumPy takes for a number, beside the matrix product


def set_standardised(x: np.ndarray, centre: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    """out[i] = (x[i] - centre) / scale for `x [n, d]`, behind ones where `out [n, D]` is wider.

    >>> out = np.empty((1, 3), np.float32)
    >>> set_standardised(np.ones((1, 2), np.float32), np.ones(2, np.float32), np.ones(2, np.float32), out)
    >>> out
    array([[1., 0., 0.]], dtype=float32)
    """
    if ready(SECONDS * x.size):
        _kernels().set_standardised(x, centre, scale, out)
    else:
        _standardise(x, centre, scale, out)


def set_two(difference: np.ndarray, out: np.ndarray) -> None:
    """out[i, k, y] = p(y) for two classes whose logits differ by `difference [n, k]`, second less first.

    With odds e = exp(-difference) of the first class these are e / (1 + e) and 1 / (1 + e).

    >>> out = np.empty((1, 2, 2), np.float32)
    >>> set_two(np.array([[0.0, 100.0]], np.float32), out)
    >>> np.round(out, 6)
    array([[[0.5, 0.5],
            [0. , 1. ]]], dtype=float32)
    """
    if ready(SECONDS * difference.size):
        _kernels().set_two(difference, out)
    else:
        _two(difference, out)


def set_many(logits: np.ndarray, out: np.ndarray) -> None:
    """out[i, k, y] = softmax_y of `logits [n, c, k]`; those more than FAR below the largest count as FAR below it.

    >>> out = np.empty((1, 1, 3), np.float32)
    >>> set_many(np.array([[[0.0], [0.0], [-200.0]]], np.float32), out)
    >>> np.round(out, 6)
    array([[[0.5, 0.5, 0. ]]], dtype=float32)
    """
    if ready(SECONDS * logits.size):
        _kernels().set_many(logits, out)
    else:
        _many(logits, out)


def predict_many(
    x: np.ndarray, centre: np.ndarray, scale: np.ndarray, weights: np.ndarray, block: int, out: np.ndarray
) -> None:
    """out[i, k, y] = p(y) of `x [n, d]` for `weights [D, c k]`, so many rows at a time as `block` says."""
    (_, k, c), width = out.shape, len(weights)
    if ready(SECONDS * len(x) * weights.shape[1]):
        _kernels().predict_many(x, centre, scale, weights, block, out)
        return
    rows = np.empty((min(block, len(x)), width), np.float32)
    for span in spans(len(x), block):
        part = rows[: span.stop - span.start]
        _standardise(x[span], centre, scale, part)
        _many(sgemm(1.0, weights.T, part.T).T.reshape(-1, c, k), out[span])  # as in predict_two


def predict_two(
    x: np.ndarray, centre: np.ndarray, scale: np.ndarray, weights: np.ndarray, block: int, out: np.ndarray
) -> None:
    """out[i, k, y] = p(y) of `x [n, d]` for two classes, with `weights [D, k]` the second's less the first's.

    So many rows at a time as `block` says, which stay in cache.
    """
    if ready(SECONDS * len(x) * weights.shape[1]):
        _kernels().predict_two(x, centre, scale, weights, block, out)
        return
    rows = np.empty((min(block, len(x)), len(weights)), np.float32)
    for span in spans(len(x), block):
        part = rows[: span.stop - span.start]
        _standardise(x[span], centre, scale, part)
        # numba's np.dot is a call of SciPy's BLAS, with both matrices turned over: the same call here
        _two(sgemm(1.0, weights.T, part.T).T, out[span])


def predict_two_above(
    x: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    weights: np.ndarray,
    block: int,
    screen: tuple[np.ndarray, float, float],
    index: np.ndarray,
    out: np.ndarray,
) -> int:
    """`predict_two` of the rows that pass a screen, in order: writes `index` and `out`, returns how many they are.

    `screen` is (vectors [rank, k], factor, least), see `askwell.information.bounds.Screen`. In NumPy all pass: to find
    out would cost more than it saves.
    """
    if ready(SECONDS * len(x) * weights.shape[1]):
        return int(_kernels().predict_two_above(x, centre, scale, weights, block, screen, index, out))
    predict_two(x, centre, scale, weights, block, out)
    index[: len(x)] = np.arange(len(x))
    return len(x)


def _kernels() -> Any:
    from askwell.models import logistic_kernels  # here, because it imports numba

    return logistic_kernels


def _standardise(x: np.ndarray, centre: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    first = out.shape[1] - x.shape[1]
    out[:, :first] = ONE
    np.subtract(x, centre, out=out[:, first:])
    out[:, first:] /= scale


def _two(difference: np.ndarray, out: np.ndarray) -> None:
    odds = _exp(-np.clip(difference, -FAR, FAR))
    second = ONE / (ONE + odds)
    out[..., 0], out[..., 1] = odds * second, second


def _many(logits: np.ndarray, out: np.ndarray) -> None:
    odds = _exp(np.maximum(logits - logits.max(axis=1, keepdims=True), -FAR))  # [n, c, k]
    total = odds[:, 0].copy()
    for y in range(1, odds.shape[1]):  # in this order, as compiled
        total += odds[:, y]
    np.multiply(odds.transpose(0, 2, 1), (ONE / total)[:, :, None], out=out)


def _exp(logit: np.ndarray) -> np.ndarray:
    """exp of numbers from -FAR to FAR."""
    power = np.floor(logit * TO_POWERS + HALF)
    f = (logit - power * LOG_2_MOST) - power * LOG_2_REST
    series = TERMS[0]
    for term in TERMS[1:]:
        series = series * f + term
    powers = ((power.astype(np.int32) + BIAS) << DIGITS).view(np.float32)
    return np.asarray(((series * (f * f) + f) + ONE) * powers)
