"""What a linear model does besides its matrix product, at the pace of memory. Importing this file imports numba.

NumPy's passes over inputs and logits, exp among them, took most of what a prediction costs. Here each is one pass, and
exp is a polynomial on the way, right to the last bit or two of float32. `linear.py` says what each loop is to do.
"""

from typing import Any

import numpy as np

from askwell.compiling import kernel
from askwell.models.linear import BIAS, DIGITS, FAR, HALF, LOG_2_MOST, LOG_2_REST, ONE, TERMS, TO_POWERS

__all__ = ["set_probs", "set_probs_above", "set_softmax", "set_standardised"]

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}  # nothing is fused: NumPy must come to the same bits
REORDERED = {**OPTIONS, "fastmath": {"contract", "nsz", "reassoc"}}  # of what is compared with a rough bound only
HIGH, C7, C6, C5, C4, C3, C2 = TERMS


@kernel(**OPTIONS)
def set_standardised(x, centre, scale, out):
    """out[i] = (x[i] - centre) / scale for `x [n, d]`, behind ones where `out [n, D]` is wider."""
    first = out.shape[1] - x.shape[1]
    for i in range(x.shape[0]):
        for j in range(first):
            out[i, j] = ONE
        for j in range(x.shape[1]):
            out[i, first + j] = (x[i, j] - centre[j]) / scale[j]


@kernel(**OPTIONS)
def _exp(logit):
    """(a, b): exp(logit) is a times the float32 whose bits are b, for a number from -FAR to FAR."""
    power = np.floor(logit * TO_POWERS + HALF)
    f = (logit - power * LOG_2_MOST) - power * LOG_2_REST
    series = (((((HIGH * f + C7) * f + C6) * f + C5) * f + C4) * f + C3) * f + C2
    return (series * (f * f) + f) + ONE, (np.int32(power) + BIAS) << DIGITS


@kernel(**OPTIONS)
def _two(difference, bits, first, second):
    """p(y) of both classes for `difference [k]`; `bits [k]`, int32, is scratch."""
    draws, powers = difference.shape[0], bits.view(np.float32)
    for k in range(draws):
        first[k], bits[k] = _exp(-min(max(difference[k], -FAR), FAR))
    for k in range(draws):
        odds = first[k] * powers[k]
        second[k] = ONE / (ONE + odds)
        first[k] = odds * second[k]


@kernel(**OPTIONS)
def _put(first, second, pairs):
    """Both into `pairs [k, 2]`: a loop of its own, or it would not be made of vectors."""
    flat = pairs.reshape(2 * first.shape[0])
    for k in range(first.shape[0]):
        flat[2 * k] = first[k]
        flat[2 * k + 1] = second[k]


@kernel(**OPTIONS)
def _many(logits, bits, largest, total, odds, out):
    """out[k, y] = softmax_y of `logits [c, k]`; the rest is scratch: `bits`, `largest`, `total [k]`, `odds [c, k]`."""
    (classes, draws), powers = logits.shape, bits.view(np.float32)
    for k in range(draws):
        largest[k], total[k] = logits[0, k], np.float32(0)
    for y in range(1, classes):
        for k in range(draws):
            largest[k] = max(largest[k], logits[y, k])
    for y in range(classes):
        for k in range(draws):
            odds[y, k], bits[k] = _exp(max(logits[y, k] - largest[k], -FAR))
        for k in range(draws):
            odds[y, k] *= powers[k]
            total[k] += odds[y, k]
    for k in range(draws):
        total[k] = ONE / total[k]
    for k in range(draws):
        for y in range(classes):
            out[k, y] = odds[y, k] * total[k]


@kernel(**OPTIONS)
def set_softmax(logits, out):
    """out[i, k, y] = softmax_y of `logits [n, c k]`; of two classes they are differences `[n, k]`."""
    n, draws, classes = out.shape
    bits, first, second = np.empty(draws, np.int32), np.empty(draws, np.float32), np.empty(draws, np.float32)
    if classes == 2:
        for i in range(n):
            _two(logits[i], bits, first, second)
            _put(first, second, out[i])
        return
    odds = np.empty((classes, draws), np.float32)
    for i in range(n):
        _many(logits[i].reshape(classes, draws), bits, first, second, odds, out[i])


@kernel(**OPTIONS)
def set_probs(x, centre, scale, weights, block, out):
    """out[i, k, y] = p(y) of `x [n, d]`, without Python in between, where threads would wait for each other."""
    n, (width, columns) = x.shape[0], weights.shape
    rows, logits = np.empty((min(block, n), width), np.float32), np.empty((min(block, n), columns), np.float32)
    for start in range(0, n, block):
        count = min(block, n - start)
        set_standardised(x[start : start + count], centre, scale, rows[:count])
        np.dot(rows[:count], weights, logits[:count])
        set_softmax(logits[:count], out[start : start + count])


@kernel(**REORDERED)
def _promise(p, mean, vectors, factor, away):
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


@kernel(**REORDERED)
def _total(numbers):
    total = 0.0
    for k in range(numbers.shape[0]):
        total += np.float64(numbers[k])
    return total


@kernel(**OPTIONS)
def set_probs_above(x, centre, scale, weights, block, screen, index, out):
    """`set_probs` of two classes for the rows that pass a screen, in order; returns how many they are.

    The others' probabilities are never written to memory, which takes longer than to find them.
    """
    vectors, factor, least = screen
    n, (width, draws), passing = x.shape[0], weights.shape, 0
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
                index[passing] = start + i
                _put(first, second, out[passing])
                passing += 1
    return passing
