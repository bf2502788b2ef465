"""EPIG where draws are votes: each is sure of a class, as the trees of a forest grown to the end are.

Then p(y, y*) is the share of draws that vote for y here and for y* there, and

    K I(y; y*) = sum_(y, y*) f(n(y, y*)) - sum_y f(n(y)) - sum_y* f(n(y*)) + f(K),    f(n) = n log n,

with counts n. Votes for a class are a set of draws, kept as bits, so a count is that of the bits two sets share; of the
classes one on either side follows from the others. f comes from a table: no logarithm and no product is left, and every
count is exact. Compiled by numba.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from askwell.information.packing import dot
from askwell.information.vectors import ANY_ORDER, JIT

__all__ = ["WORD", "logs", "pack", "score"]

WORD = 64  # draws in a word of bits


def logs(draws: int) -> np.ndarray:
    """f(n) = n log n for n up to the number of draws."""
    n = np.arange(draws + 1, dtype=np.float64)
    return n * np.log(np.maximum(n, 1))


@intrinsic
def _ones(typing: Any, word: Any) -> Any:
    """How many bits are set."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), code


@njit(**JIT)
def _sets(p, bits, counts):
    """The draws of one input's `p [k, c]` that vote for each class, as `bits [c, words]`, and how many they are."""
    draws, classes = p.shape
    bits[:], counts[:] = 0, 0
    if classes > 2:
        for k in range(draws):
            vote = 0
            for y in range(classes):
                if p[k, y] == 1:
                    vote = y
            bits[vote, k // WORD] |= np.uint64(1) << np.uint64(k % WORD)
            counts[vote] += 1
        return
    for word in range(bits.shape[1]):  # of two the one is what the other is not
        some = min(WORD, draws - word * WORD)
        first = np.uint64(0)
        for k in range(some):
            first |= np.uint64(p[word * WORD + k, 0] == 1) << np.uint64(k)
        bits[0, word], bits[1, word] = first, ~first & (~np.uint64(0) >> np.uint64(WORD - some))
        counts[0] += np.int64(_ones(first))
    counts[1] = draws - counts[0]


@njit(**JIT)
def _own(counts, f):
    """sum_y f(n(y))."""
    total = 0.0
    for y in range(counts.shape[0]):
        total += f[counts[y]]
    return total


@njit(**JIT)
def pack(probs, f, bits, counts, own):
    """Targets `probs [m, k, c]` in blocks: `bits [blocks, c, words, m]`, `counts [blocks, c, m]`, `own [blocks, m]`.

    The last block is filled up with targets that are sure of the last class.
    """
    blocks, classes, words, size = bits.shape
    sets, held = np.empty((classes, words), np.uint64), np.empty(classes, np.int64)
    for j in range(blocks * size):
        if j < probs.shape[0]:
            _sets(probs[j], sets, held)
        else:
            sets[:], held[:] = 0, 0
            held[classes - 1] = probs.shape[1]
        block, place = divmod(j, size)
        bits[block, :, :, place], counts[block, :, place], own[block, place] = sets, held, _own(held, f)


@njit(**ANY_ORDER)
def _joint_of_two(sets, held, bits, counts, f, both, total):
    """`_joint` for two classes: one count gives all four."""
    words, m = bits.shape[1:]
    for j in range(m):
        both[j] = 0
    for word in range(words):
        for j in range(m):
            both[j] += np.uint32(_ones(sets[0, word] & bits[0, word, j]))
    mine, others = np.uint32(held[0]), np.uint32(held[1])
    for j in range(m):
        n, theirs = both[j], counts[0, j]
        total[j] = f[n] + f[mine - n] + f[theirs - n] + f[others + n - theirs]


@njit(**ANY_ORDER)
def _joint(sets, held, bits, counts, f, left, rest, both, total):
    """total[j] = sum_(y, y*) f(n(y, y*)) of a candidate and each target of a block. The three before are scratch."""
    classes, words, m = bits.shape
    last = classes - 1
    while held[last] == 0:  # the candidate's last class that has votes follows from the others
        last -= 1
    for j in range(m):
        total[j] = 0.0
    for z in range(classes):
        for j in range(m):
            left[z, j] = counts[z, j]
    for y in range(last):
        if held[y] == 0:
            continue
        for j in range(m):
            rest[j] = held[y]
        for z in range(classes - 1):
            for j in range(m):
                both[j] = 0
            for word in range(words):
                for j in range(m):
                    both[j] += np.uint32(_ones(sets[y, word] & bits[z, word, j]))
            for j in range(m):
                rest[j] -= both[j]
                left[z, j] -= both[j]
                total[j] += f[both[j]]
        for j in range(m):
            left[classes - 1, j] -= rest[j]
            total[j] += f[rest[j]]
    for z in range(classes):
        for j in range(m):
            total[j] += f[left[z, j]]


@njit(**JIT)
def score(probs, index, f, bits, counts, own, weights, scores, pairs):
    """Add sum_j w_j I(y; y*_j) to `scores[i]` for the candidates `probs[index[i]]`. The targets are as in `Votes`.

    If `pairs [n, blocks, m]` is not empty I(y; y*_j) is written there instead.
    """
    blocks, classes, words, size = bits.shape
    sets, held = np.empty((classes, words), np.uint64), np.empty(classes, np.int64)
    left, rest, both = np.empty((classes, size), np.uint32), np.empty(size, np.uint32), np.empty(size, np.uint32)
    joint, scale = np.empty(size), 1 / probs.shape[1]
    for i in range(index.shape[0]):
        _sets(probs[index[i]], sets, held)
        here = _own(held, f) - f[-1]
        for block in range(blocks):
            if classes == 2:
                _joint_of_two(sets, held, bits[block], counts[block], f, both, joint)
            else:
                _joint(sets, held, bits[block], counts[block], f, left, rest, both, joint)
            for j in range(size):  # in this order: what is known tells nothing, to the bit
                joint[j] = max(0.0, (joint[j] - own[block, j]) - here) * scale
            if pairs.size:
                pairs[i, block] = joint
            else:
                scores[i] += dot(weights[block], joint)
