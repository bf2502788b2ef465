"""How the hot loop wants its inputs: checked, divided by their means, in the order in which they will be read.

Compiled by numba, like `kernels.py`, whose docstring has the mathematics.
"""

from typing import Any

import numpy as np
from numba import njit

__all__ = ["FEW", "JIT", "LEAST", "classes_kept", "look_at", "pack_block", "pack_tile"]

FEW = 16  # terms added up in float32; up to as many classes, one is left out of the product
LEAST = 1e-300  # a class less probable than this has no share: its inverse would overflow
FAINT = 1 / 128  # a draw gives a class up where its probability is below this share of the mean ...
STRONG = 0.05  # ... and an input is strong if draws give up, on average, a class drawn from the mean this often

JIT: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}


@njit(**{**JIT, "fastmath": {"contract", "nsz", "reassoc"}})
def _two_means(p, tolerance, means):
    """`_class_means` for two, as vectors over draws."""
    first, second, sound, agree = 0.0, 0.0, True, True
    for k in range(p.shape[0]):
        a, b = np.float64(p[k, 0]), np.float64(p[k, 1])
        sound &= (a >= 0) & (b >= 0) & (abs(a + b - 1) <= tolerance)
        agree &= (p[k, 0] == p[0, 0]) & (p[k, 1] == p[0, 1])
        first += a
        second += b
    means[0], means[1] = first / p.shape[0], second / p.shape[0]
    if agree:
        means[0], means[1] = p[0, 0], p[0, 1]
    return sound


@njit(**JIT)
def _class_means(p, tolerance, partial, means):
    """p(y) for one input's `p [k, c]`; False if a row is not a distribution. `partial [4, c]` is scratch.

    Summed as differences from the first draw: where all draws agree, their mean is what they say, to the bit.
    """
    if p.shape[1] == 2:
        return _two_means(p, tolerance, means)
    partial[:] = 0.0
    sound = True
    for k in range(p.shape[0]):
        row = 0.0
        for y in range(p.shape[1]):
            value = np.float64(p[k, y])
            sound &= value >= 0
            row += value
            partial[k & 3, y] += value - p[0, y]  # four sums: the next addition need not wait for the last
        sound &= abs(row - 1.0) <= tolerance
    for y in range(p.shape[1]):
        means[y] = p[0, y] + ((partial[0, y] + partial[1, y]) + (partial[2, y] + partial[3, y])) / p.shape[0]
    return sound


@njit(**JIT)
def _largest_last(means, order):
    """order = the classes with the most probable one moved to the end."""
    largest = 0
    for y in range(means.shape[0]):
        order[y] = y
        if means[y] > means[largest]:
            largest = y
    order[largest] = means.shape[0] - 1
    order[means.shape[0] - 1] = largest


@njit(**JIT)
def _is_strong(p, means, limits):
    """Whether sum_y p(y) share_k[p_k(y) < FAINT p(y)] > STRONG for one input's `p [k, c]`; `limits [c]` is scratch.

    Cells of a joint table with p(y, y*) < FAINT / 2 p(y) p(y*) hold at most twice this sum, of either input, of all
    p(y) p(y*): where one input is not strong there are few.
    """
    for y in range(p.shape[1]):
        limits[y] = FAINT * means[y]
    found = 0.0
    for k in range(p.shape[0]):
        for y in range(p.shape[1]):
            found += means[y] if p[k, y] < limits[y] else 0.0
        if found > STRONG * p.shape[0]:
            return True
    return False


@njit(**JIT)
def look_at(probs, tolerance, means, strong):
    """p(y) and, unless `strong` is empty, whether it is strong, for each of `probs [n, k, c]`.

    Returns the first that is no distribution, or -1.
    """
    partial, limits = np.empty((4, probs.shape[2])), np.empty(probs.shape[2], probs.dtype)
    for i in range(probs.shape[0]):
        if not _class_means(probs[i], tolerance, partial, means[i]):
            return i
        if strong.size:
            strong[i] = _is_strong(probs[i], means[i], limits)
    return -1


@njit(**JIT)
def classes_kept(classes, centred):
    """How many classes of an input are packed: all, or all but the most probable."""
    return classes - 1 if centred and classes <= FEW else classes


@njit(**JIT)
def _pack(p, means, order, centred, scale, first, apart, packed):
    """Write one input into `packed [groups, k, width]`: class y as vector `first + apart y`.

    The numbers are scale f_k(y) if centred, else scale p_k(y) / p(y); 0 for a class of no probability.
    """
    draws, width = p.shape[0], packed.shape[2]
    for y in range(classes_kept(p.shape[1], centred)):
        group, lane = divmod(first + apart * y, width)
        source = order[y]
        mean = means[source]
        factor, less = scale / mean if mean > LEAST else 0.0, mean if centred else 0.0
        for k in range(draws):
            packed[group, k, lane] = (p[k, source] - less) * factor


@njit(**JIT)
def pack_block(probs, means, centred, size, columns, share, inverse):
    """Pack one block of targets `probs [<= size, k, c]`."""
    classes = share.shape[0]
    order = np.empty(classes, np.intp)
    for j in range(probs.shape[0]):
        _largest_last(means[j], order)
        _pack(probs[j], means[j], order, centred, 1 / probs.shape[1], j, size, columns)
        for y in range(classes):
            share[y, j] = means[j, order[y]]
        inverse[j] = 1 / means[j, order[classes - 1]]


@njit(**JIT)
def pack_tile(probs, means, index, centred, order, rows):
    """Pack some candidates, `probs[index]`, into `rows`."""
    for i in range(index.shape[0]):
        _largest_last(means[index[i]], order[i])
        first = i * classes_kept(probs.shape[2], centred)
        _pack(probs[index[i]], means[index[i]], order[i], centred, 1.0, first, 1, rows)
