"""What a linear model does besides its matrix product, at the pace of memory. Importing this file imports numba.

NumPy's passes over inputs and logits, exp among them, took most of what a prediction costs. Here each is one pass, and
exp is a polynomial on the way, right to the last bit or two of float32.
"""

import numpy as np

from askwell.compiling import kernel
from askwell.models.logistic import (
    BIAS,
    DIGITS,
    FAR,
    HALF,
    LOG_2_MOST,
    LOG_2_REST,
    ONE,
    TERMS,
    TO_POWERS,
)

__all__ = ["predict_many", "predict_two", "predict_two_above", "set_many", "set_standardised", "set_two"]

HIGH, C7, C6, C5, C4, C3, C2 = TERMS


@kernel(nogil=True, error_model="numpy")
def set_standardised(x, centre, scale, out):  # type: ignore[no-untyped-def]
    """out[i] = (x[i] - centre) / scale for `x [n, d]`, behind ones where `out [n, D]` is wider.

    >>> out = np.empty((1, 3), np.float32)
    >>> set_standardised(np.ones((1, 2), np.float32), np.ones(2, np.float32), np.ones(2, np.float32), out)
    >>> out
    array([[1., 0., 0.]], dtype=float32)
    """
    first = out.shape[1] - x.shape[1]
    for i in range(x.shape[0]):
        for j in range(first):
            out[i, j] = ONE
        for j in range(x.shape[1]):
            out[i, first + j] = (x[i, j] - centre[j]) / scale[j]


@kernel(nogil=True, error_model="numpy")  # not even fused: NumPy must come to the same bits
def _two(difference, bits, first, second):  # type: ignore[no-untyped-def]
    """p(y) of both classes for `difference [k]`; `bits [k]`, int32, is scratch."""
    draws, powers = difference.shape[0], bits.view(np.float32)
    for k in range(draws):
        logit = -min(max(difference[k], -FAR), FAR)
        power = np.floor(logit * TO_POWERS + HALF)
        f = (logit - power * LOG_2_MOST) - power * LOG_2_REST
        series = (((((HIGH * f + C7) * f + C6) * f + C5) * f + C4) * f + C3) * f + C2
        first[k] = (series * (f * f) + f) + ONE
        bits[k] = (np.int32(power) + BIAS) << DIGITS
    for k in range(draws):
        odds = first[k] * powers[k]
        second[k] = ONE / (ONE + odds)
        first[k] = odds * second[k]


@kernel(nogil=True, error_model="numpy")
def _put(first, second, pairs):  # type: ignore[no-untyped-def]
    """Both into `pairs [k, 2]`: a loop of its own, or it would not be made of vectors."""
    flat = pairs.reshape(2 * first.shape[0])
    for k in range(first.shape[0]):
        flat[2 * k] = first[k]
        flat[2 * k + 1] = second[k]


@kernel(nogil=True, error_model="numpy")
def set_two(difference, out):  # type: ignore[no-untyped-def]
    """out[i, k, y] = p(y) for two classes whose logits differ by `difference [n, k]`, second less first.

    With odds e = exp(-difference) of the first class these are e / (1 + e) and 1 / (1 + e).

    >>> out = np.empty((1, 2, 2), np.float32)
    >>> set_two(np.array([[0.0, 100.0]], np.float32), out)
    >>> np.round(out, 6)
    array([[[0.5, 0.5],
            [0. , 1. ]]], dtype=float32)
    """
    draws = difference.shape[1]
    bits, first, second = np.empty(draws, np.int32), np.empty(draws, np.float32), np.empty(draws, np.float32)
    for i in range(difference.shape[0]):
        _two(difference[i], bits, first, second)
        _put(first, second, out[i])


@kernel(nogil=True, error_model="numpy")
def predict_two(x, centre, scale, weights, block, out):  # type: ignore[no-untyped-def]
    """out[i, k, y] = p(y) of `x [n, d]` for two classes, with `weights [D, k]` the second's less the first's.

    So many rows at a time as `block` says, which stay in cache; without Python in between, where threads would wait for
    each other.
    """
    n, (width, draws) = x.shape[0], weights.shape
    rows, logits = np.empty((min(block, n), width), np.float32), np.empty((min(block, n), draws), np.float32)
    for start in range(0, n, block):
        count = min(block, n - start)
        set_standardised(x[start : start + count], centre, scale, rows[:count])
        np.dot(rows[:count], weights, logits[:count])
        set_two(logits[:count], out[start : start + count])


@kernel(nogil=True, error_model="numpy")
def _exp_below(logits, largest, bits, out, total):  # type: ignore[no-untyped-def]
    """out = exp(logits - largest), also added to `total`; all `[k]`, and `bits [k]`, int32, is scratch."""
    powers = bits.view(np.float32)
    for k in range(logits.shape[0]):
        logit = max(logits[k] - largest[k], -FAR)
        power = np.floor(logit * TO_POWERS + HALF)
        f = (logit - power * LOG_2_MOST) - power * LOG_2_REST
        series = (((((HIGH * f + C7) * f + C6) * f + C5) * f + C4) * f + C3) * f + C2
        out[k] = (series * (f * f) + f) + ONE
        bits[k] = (np.int32(power) + BIAS) << DIGITS
    for k in range(logits.shape[0]):
        out[k] *= powers[k]
        total[k] += out[k]


@kernel(nogil=True, error_model="numpy")
def set_many(logits, out):  # type: ignore[no-untyped-def]
    """out[i, k, y] = softmax_y of `logits [n, c, k]`; those more than FAR below the largest count as FAR below it.

    >>> out = np.empty((1, 1, 3), np.float32)
    >>> set_many(np.array([[[0.0], [0.0], [-200.0]]], np.float32), out)
    >>> np.round(out, 6)
    array([[[0.5, 0.5, 0. ]]], dtype=float32)
    """
    n, classes, draws = logits.shape
    bits, odds = np.empty(draws, np.int32), np.empty((classes, draws), np.float32)
    largest, total = np.empty(draws, np.float32), np.empty(draws, np.float32)
    for i in range(n):
        for k in range(draws):
            largest[k], total[k] = logits[i, 0, k], np.float32(0)
        for y in range(1, classes):
            for k in range(draws):
                largest[k] = max(largest[k], logits[i, y, k])
        for y in range(classes):
            _exp_below(logits[i, y], largest, bits, odds[y], total)
        for k in range(draws):
            total[k] = ONE / total[k]
        for k in range(draws):
            for y in range(classes):
                out[i, k, y] = odds[y, k] * total[k]


@kernel(nogil=True, error_model="numpy")
def predict_many(x, centre, scale, weights, block, out):  # type: ignore[no-untyped-def]
    """out[i, k, y] = p(y) of `x [n, d]` for `weights [D, c k]`, so many rows at a time as `block` says."""
    n, (width, columns), draws = x.shape[0], weights.shape, out.shape[1]
    rows, logits = np.empty((min(block, n), width), np.float32), np.empty((min(block, n), columns), np.float32)
    for start in range(0, n, block):
        count = min(block, n - start)
        set_standardised(x[start : start + count], centre, scale, rows[:count])
        np.dot(rows[:count], weights, logits[:count])
        set_many(logits[:count].reshape(count, columns // draws, draws), out[start : start + count])


@kernel(nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def _promise(p, mean, vectors, factor, away):  # type: ignore[no-untyped-def]
    """|V^T d|^2 + factor |d|^2 with d = p - mean, `vectors [rank, k]`; `away [k]` is scratch."""
    trace, leading = np.float32(0), 0.0
    for k in range(p.shape[0]):
        away[k] = p[k] - mean
        trace += away[k] * away[k]
    for v in range(vectors.shape[0]):
        total = np.float32(0)
        for k in range(p.shape[0]):
            total += away[k] * vectors[v, k]
        leading += np.float64(total) * total
    return leading + factor * trace


@kernel(nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def _total(numbers):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(numbers.shape[0]):
        total += np.float64(numbers[k])
    return total


@kernel(nogil=True, error_model="numpy")
def predict_two_above(x, centre, scale, weights, block, screen, index, out):  # type: ignore[no-untyped-def]
    """`predict_two` of the rows that pass a screen, in order: writes `index` and `out`, returns how many they are.

    `screen` is (vectors [rank, k], factor, least), see `askwell.information.bounds.Screen`. The others' probabilities
    are never written to memory, which takes longer than to find them.
    """
    vectors, factor, least = screen
    n, (width, draws), found = x.shape[0], weights.shape, 0
    rows, logits = np.empty((min(block, n), width), np.float32), np.empty((min(block, n), draws), np.float32)
    bits, first = np.empty(draws, np.int32), np.empty(draws, np.float32)
    second, away = np.empty(draws, np.float32), np.empty(draws, np.float32)
    for start in range(0, n, block):
        count = min(block, n - start)
        set_standardised(x[start : start + count], centre, scale, rows[:count])
        np.dot(rows[:count], weights, logits[:count])
        for i in range(count):
            _two(logits[i], bits, first, second)
            rarer, mean = second, _total(second) / draws
            if mean > HALF:  # what is close to one has no digits left for its differences
                rarer, mean = first, _total(first) / draws
            if mean > 0 and _promise(rarer, np.float32(mean), vectors, factor, away) >= least * mean * (1 - mean):
                index[found] = start + i
                _put(first, second, out[found])
                found += 1
    return found
