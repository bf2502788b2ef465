"""EPIG where draws are votes: each is sure of a class, as the trees of a forest grown to the end are.

Then p(y, y*) is the share of draws that vote for y here and for y* there, and

    K I(y; y*) = sum_(y, y*) f(n(y, y*)) - sum_y f(n(y)) - sum_y* f(n(y*)) + f(K),    f(n) = n log n,

with counts n. Votes for a class are a set of draws, kept as bits, so a count is that of the bits two sets share; of the
classes one on either side follows from the others. f comes from a table: no logarithm and no product is left, and every
count is exact. Compiled by numba.

What is not exact, the sums of f and the weighted mean over targets, is rounded here as it is written, nothing fused or
reordered, and `plain.py` does the same steps in NumPy: their scores are equal to the bit.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from askwell.compiling import kernel
from askwell.information.plain import LANES

__all__ = ["WORD", "pack", "score"]

WORD = 64  # draws in a word of bits
IN_ORDER: dict[str, Any] = {"nogil": True, "error_model": "numpy"}  # no fast mathematics


@intrinsic
def _ones(typing: Any, word: Any) -> Any:
    """How many bits are set."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), code


@kernel(**IN_ORDER)
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


@kernel(**IN_ORDER)
def _own(counts, f):
    """sum_y f(n(y))."""
    total = 0.0
    for y in range(counts.shape[0]):
        total += f[counts[y]]
    return total


@kernel(**IN_ORDER)
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
        for y in range(classes):
            for word in range(words):
                bits[block, y, word, place] = sets[y, word]
            counts[block, y, place] = held[y]
        own[block, place] = _own(held, f)


@kernel(**IN_ORDER)
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
        total[j] = (f[n] + f[mine - n]) + (f[theirs - n] + f[others + n - theirs])


@kernel(**IN_ORDER)
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


@kernel(**IN_ORDER)
def _weighted(w, v):
    """sum_j w_j v_j: every eighth term in a sum of its own, these added up in pairs. LANES of them, spelt out.

    As an array the sums would go through memory.
    """
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    even = v.shape[0] // LANES * LANES
    for j in range(0, even, LANES):
        a += w[j] * v[j]
        b += w[j + 1] * v[j + 1]
        c += w[j + 2] * v[j + 2]
        d += w[j + 3] * v[j + 3]
        e += w[j + 4] * v[j + 4]
        f += w[j + 5] * v[j + 5]
        g += w[j + 6] * v[j + 6]
        h += w[j + 7] * v[j + 7]
    for j in range(even, v.shape[0]):
        term, lane = w[j] * v[j], j - even
        a += term if lane == 0 else 0.0
        b += term if lane == 1 else 0.0
        c += term if lane == 2 else 0.0
        d += term if lane == 3 else 0.0
        e += term if lane == 4 else 0.0
        f += term if lane == 5 else 0.0
        g += term if lane == 6 else 0.0
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@kernel(**IN_ORDER)
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
                for j in range(size):
                    pairs[i, block, j] = joint[j]
            else:
                scores[i] += _weighted(weights[block], joint)
