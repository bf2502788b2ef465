"""How the hot loop wants its inputs: checked, divided by their means, in the order in which they will be read.

Compiled by numba, like `kernels.py`, whose docstring has the mathematics.
"""

import numpy as np

from askwell.compiling import kernel
from askwell.information.pairs import two_means
from askwell.information.vectors import ANY_ORDER, JIT

__all__ = [
    "FEW",
    "IS_STRONG",
    "IS_VOTES",
    "LEAST",
    "candidate_classes",
    "dot",
    "look_at",
    "pack_block",
    "pack_tile",
    "target_classes",
]

FEW = 16  # terms added up in float32; up to as many classes, one is left out of the product
LEAST = 1e-300  # a class less probable than this has no share: its inverse would overflow
FAINT = 1 / 128  # a draw gives a class up where its probability is below this share of the mean ...
STRONG = 0.05  # ... and an input is strong if draws give up, on average, a class drawn from the mean this often
IS_STRONG, IS_VOTES = 1, 2  # kinds of inputs, which add up
LOOK = 20  # draws between two looks at that sum: votes are soon seen to be strong


@kernel(**JIT)
def _class_means(p, tolerance, partial, means):
    """p(y) for one input's `p [k, c]`, c > 2; False if a row is not a distribution. `partial [4, c]` is scratch.

    Summed as differences from the first draw: where all draws agree, their mean is what they say, to the bit.
    """
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


@kernel(**JIT)
def _largest_last(means, order):
    """order = the classes with the most probable one moved to the end."""
    largest = 0
    for y in range(means.shape[0]):
        order[y] = y
        if means[y] > means[largest]:
            largest = y
    order[largest] = means.shape[0] - 1
    order[means.shape[0] - 1] = largest


@kernel(**ANY_ORDER)
def _two_are_strong(p, means):
    """`_is_strong` for two, as vectors over draws."""
    limits = p.dtype.type(FAINT * means[0]), p.dtype.type(FAINT * means[1])
    first, second = np.int32(0), np.int32(0)
    for k in range(p.shape[0]):
        first += p[k, 0] < limits[0]
        second += p[k, 1] < limits[1]
    return means[0] * first + means[1] * second > STRONG * p.shape[0]


@kernel(**ANY_ORDER)
def _is_strong(p, means, limits, given_up):
    """Whether sum_y p(y) share_k[p_k(y) < FAINT p(y)] > STRONG for one input's `p [k, c]`.

    Cells of a joint table with p(y, y*) < FAINT / 2 p(y) p(y*) hold at most twice this sum, of either input, of all
    p(y) p(y*): where one input is not strong there are few. `limits [c]` and `given_up [c]` are scratch.
    """
    draws, classes = p.shape
    if classes == 2:
        return _two_are_strong(p, means)
    for y in range(classes):
        limits[y], given_up[y] = FAINT * means[y], 0
    for start in range(0, draws, LOOK):
        for k in range(start, min(start + LOOK, draws)):
            for y in range(classes):
                given_up[y] += p[k, y] < limits[y]
        found = 0.0
        for y in range(classes):
            found += means[y] * given_up[y]
        if found > STRONG * draws:
            return True
    return False


@kernel(**ANY_ORDER)
def _two_votes(p):
    """How many draws vote for the first of two classes; -1 if some draw does not vote."""
    first, sure = np.int32(0), True
    for k in range(p.shape[0]):
        first += p[k, 0] == 1
        sure &= ((p[k, 0] == 1) & (p[k, 1] == 0)) | ((p[k, 0] == 0) & (p[k, 1] == 1))
    return first if sure else np.int32(-1)


@kernel(**JIT)
def _are_votes(p, means):
    """Whether each draw of one input's `p [k, c]` is sure of a class, to the bit; then also its means."""
    draws, classes = p.shape
    means[:] = 0
    if (p[0, 0] != 0) & (p[0, 0] != 1):
        return False
    if classes == 2:
        first = _two_votes(p)
        means[0], means[1] = first / draws, (draws - first) / draws
        return first >= 0
    for k in range(draws):
        ones = 0
        for y in range(classes):
            one = p[k, y] == 1
            if not one and p[k, y] != 0:
                return False
            ones += one
            means[y] += one
        if ones != 1:
            return False
    for y in range(classes):
        means[y] /= draws
    return True


@kernel(**JIT)
def look_at(probs, tolerance, means, kinds):
    """p(y) and, unless `kinds` is empty, whether it is strong (1) and votes (2), for each of `probs [n, k, c]`.

    Returns the first that is no distribution, or -1.
    """
    classes = probs.shape[2]
    partial, limits, given_up = np.empty((4, classes)), np.empty(classes, probs.dtype), np.empty(classes, np.int32)
    sums, flags = np.empty(4), np.empty((2, 4), np.int64)
    for i in range(probs.shape[0]):
        if kinds.size and _are_votes(probs[i], means[i]):
            kinds[i] = IS_VOTES + IS_STRONG * (1 - dot(means[i], means[i]) > STRONG)  # what is below, at less cost
            continue
        if classes == 2:
            sound = two_means(probs[i], tolerance, sums, flags, means[i])
        else:
            sound = _class_means(probs[i], tolerance, partial, means[i])
        if not sound:
            return i
        if kinds.size:
            kinds[i] = IS_STRONG * _is_strong(probs[i], means[i], limits, given_up)
    return -1


@kernel(**ANY_ORDER)
def dot(a, b):
    """sum_j a b, as vectors: the same order for every candidate."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel(**JIT)
def target_classes(classes, centred):
    """How many classes of a target are packed: all, or all but the most probable."""
    return classes - 1 if centred and classes <= FEW else classes


@kernel(**JIT)
def candidate_classes(classes, centred):
    """How many classes of a candidate are packed: all, or all but the most probable. Of two always one."""
    return 1 if classes == 2 else target_classes(classes, centred)


@kernel(**JIT)
def _pack(p, means, order, kept, centred, scale, first, apart, packed):
    """Write `kept` classes of one input into `packed [groups, k, width]`: class y as vector `first + apart y`.

    The numbers are scale f_k(y) if centred, else scale p_k(y) / p(y); 0 for a class of no probability. Where two
    classes are not centred they are p_k(y), as they came.
    """
    draws, width = p.shape[0], packed.shape[2]
    for y in range(kept):
        group, lane = divmod(first + apart * y, width)
        source = order[y]
        mean = means[source]
        factor, less = scale / mean if mean > LEAST else 0.0, mean if centred else 0.0
        if p.shape[1] == 2 and not centred:
            factor = 1.0
        for k in range(draws):
            packed[group, k, lane] = (p[k, source] - less) * factor


@kernel(**JIT)
def pack_block(probs, means, centred, size, columns, share, inverse):
    """Pack one block of targets `probs [<= size, k, c]`. Where two classes are not centred `share` is k p(y*)."""
    classes = share.shape[0]
    order, kept = np.empty(classes, np.intp), target_classes(classes, centred)
    for j in range(probs.shape[0]):
        _largest_last(means[j], order)
        _pack(probs[j], means[j], order, kept, centred, 1 / probs.shape[1], j, size, columns)
        for y in range(classes):
            share[y, j] = means[j, order[y]] * (probs.shape[1] if classes == 2 and not centred else 1)
        inverse[j] = 1 / means[j, order[classes - 1]]


@kernel(**JIT)
def pack_tile(probs, means, index, centred, order, rows):
    """Pack some candidates, `probs[index]`, into `rows`."""
    kept = candidate_classes(probs.shape[2], centred)
    for i in range(index.shape[0]):
        _largest_last(means[index[i]], order[i])
        _pack(probs[index[i]], means[index[i]], order[i], kept, centred, 1.0, i * kept, 1, rows)
