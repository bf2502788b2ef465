"""EPIG where draws are votes, compiled: `votes.py` has the formula. Importing this file imports numba.

A candidate's draws fall into groups, one for each class it gets votes for. For a group and a target all that is needed
is how many of the group's draws vote for each of the target's classes, and there are two ways to count them:

- a small group draw by draw, all targets side by side: a table of counts goes up by one for each, and as a count goes
  from n to n + 1 the sum goes up by F(n + 1) - F(n);
- a large group by bits: the group and the votes for a class are sets of draws, and a count is that of the bits they
  share. For two classes always: there one count gives all four.

F is n log n as a whole number of tiny units, so sums are exact: no order of counting changes them, and `plain.py`,
which counts in NumPy, finds the same to the bit. What is not exact, the weighted mean over targets, is rounded here as
it is written, nothing fused or reordered.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from askwell.compiling import kernel
from askwell.information.votes import LANES

__all__ = ["WORD", "codes_of", "count", "lowest", "pack", "score"]

WORD = 64  # draws in a word of bits
DRAW_BY_DRAW = 1.7  # votes per class of a target below which a group is counted draw by draw: measured
BY_BITS = 32  # classes up to which votes for each are counted by bits
SPARSE = 32  # of so many classes a group reaches one: then its counts are wiped one by one
IN_ORDER: dict[str, Any] = {"nogil": True, "error_model": "numpy"}  # no fast mathematics
INSIDE = IN_ORDER | {"allocates": False}


@intrinsic
def _ones(typing: Any, word: Any) -> Any:
    """How many bits are set."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), code


@kernel(**INSIDE)
def lowest(word):
    """The position of the lowest bit that is set."""
    return np.int64(_ones((word & (~word + np.uint64(1))) - np.uint64(1)))


@kernel(**INSIDE)
def codes_of(probs, index, codes):
    """The class that each draw of `probs[index] [n, k, c]` is sure of, to `codes [n, k]`."""
    for i in range(index.shape[0]):
        for k in range(probs.shape[1]):
            vote = 0
            for y in range(1, probs.shape[2]):
                vote = y if probs[index[i], k, y] == 1 else vote
            codes[i, k] = vote


@intrinsic
def _equal(typing: Any, codes: Any, position: Any, vote: Any) -> Any:
    """Which of the WORD numbers of an array from a position on are this one, as bits."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        number, lane = context.get_value_type(codes.dtype), ir.IntType(32)
        vector = ir.VectorType(number, WORD)
        votes = builder.load(builder.bitcast(builder.gep(array.data, [args[1]]), vector.as_pointer()))
        votes.align = codes.dtype.bitwidth // 8
        nothing, everywhere = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(lane, WORD), [0] * WORD)
        wanted = builder.insert_element(nothing, builder.trunc(args[2], number), ir.Constant(lane, 0))
        same = builder.icmp_unsigned("==", votes, builder.shuffle_vector(wanted, nothing, everywhere))
        return builder.bitcast(same, ir.IntType(64))

    return types.uint64(codes, types.intp, types.int64), code


@kernel(**INSIDE)
def count(codes, counts):
    """How many draws of `codes [n, k]` vote for each class, to `counts [n, c]`.

    Of few classes by bits: the draws that vote for a class, a word at a time, and the others for the first one.
    """
    draws, classes = codes.shape[1], counts.shape[1]
    words = draws // WORD if classes <= BY_BITS else 0
    for i in range(codes.shape[0]):
        row, rest = codes[i], WORD * words
        for y in range(classes):
            counts[i, y] = 0
        for y in range(1, classes if words else 0):
            several = np.uint64(0)
            for word in range(words):
                several += _ones(_equal(row, WORD * word, y))
            counts[i, y] = np.int64(several)
            rest -= counts[i, y]
        counts[i, 0] = rest
        for k in range(WORD * words, draws):
            counts[i, row[k]] += 1


@kernel(**INSIDE)
def _sets(codes, line, bits, held):
    """The draws of one input's `codes [k]` that vote for each class, as `bits [c, words]`, and how many they are.

    `line` is scratch for whole words of codes.
    """
    draws, words = codes.shape[0], bits.shape[1]
    for k in range(draws):
        line[k] = codes[k]
    rest = ~np.uint64(0) >> np.uint64(WORD * words - draws)
    for y in range(held.shape[0]):
        held[y] = 0
        for word in range(words):
            these = _equal(line, WORD * word, y)
            if word == words - 1:
                these &= rest
            bits[y, word] = these
            held[y] += np.int64(_ones(these))


@kernel(**INSIDE)
def _members(bits, members):
    """The draws of a set, in order."""
    place = 0
    for word in range(bits.shape[0]):
        left = bits[word]
        while left != np.uint64(0):
            members[place] = WORD * word + lowest(left)
            left &= left - np.uint64(1)
            place += 1


@kernel(**INSIDE)
def _own(held, f):
    """sum_y F(n(y))."""
    total = np.int64(0)
    for y in range(held.shape[0]):
        total += f[held[y]]
    return total


@kernel(**IN_ORDER)
def pack(codes, f, bits, cells, counts, own):
    """Targets `codes [m, k]` in chunks of M: `bits [chunks, c, words, M]`, `cells [chunks, k, M]`, `own [chunks, M]`.

    A draw's cell is where its vote is counted: M y* + j for target j. The last chunk is filled up with targets that
    are sure of the first class. `counts [chunks, M]` are the votes for the first class.
    """
    chunks, classes, words, size = bits.shape
    draws, sets, held = cells.shape[1], np.empty((classes, words), np.uint64), np.empty(classes, np.int64)
    nobody, line = np.zeros(draws, codes.dtype), np.zeros(words * WORD, codes.dtype)
    for j in range(chunks * size):
        chunk, place = divmod(j, size)
        votes = codes[j] if j < codes.shape[0] else nobody
        _sets(votes, line, sets, held)
        for y in range(classes):
            for word in range(words):
                bits[chunk, y, word, place] = sets[y, word]
        for k in range(draws):
            cells[chunk, k, place] = size * votes[k] + place
        counts[chunk, place] = held[0]
        own[chunk, place] = _own(held, f)


@kernel(**INSIDE)
def _add_by_draws(members, cells, rises, classes, table, total):
    """total[j] += sum_z F(n(y, z)) of a group `members` of at most 255 draws; `table [c M]` is 0 before and after."""
    draws, size = members.shape[0], cells.shape[1]
    for i in range(draws):
        line = cells[members[i]]
        for j in range(size):
            before = table[line[j]]
            table[line[j]] = before + 1
            total[j] += rises[before]
    if SPARSE * draws < classes:
        for i in range(draws):
            line = cells[members[i]]
            for j in range(size):
                table[line[j]] = 0
    else:
        for cell in range(classes * size):
            table[cell] = 0


@kernel(**INSIDE)
def _shared(group, bits, both):
    """both[j] = how many bits the set `group [words]` shares with each of `bits [words, M]`."""
    words = group.shape[0]
    even = words // 4 * 4
    for j in range(both.shape[0]):
        both[j] = 0
    for word in range(0, even, 4):  # four at a time: the sums go through memory less often
        a, b, c, d = group[word], group[word + 1], group[word + 2], group[word + 3]
        for j in range(both.shape[0]):
            both[j] += np.uint32(
                (_ones(a & bits[word, j]) + _ones(b & bits[word + 1, j]))
                + (_ones(c & bits[word + 2, j]) + _ones(d & bits[word + 3, j]))
            )
    for word in range(even, words):
        for j in range(both.shape[0]):
            both[j] += np.uint32(_ones(group[word] & bits[word, j]))


@kernel(**INSIDE)
def _add_by_bits(group, bits, f, both, total):
    """total[j] += sum_z F(n(y, z)) of one group, a set of draws."""
    for z in range(bits.shape[0]):
        _shared(group, bits[z], both)
        for j in range(total.shape[0]):
            total[j] += f[both[j]]


@kernel(**INSIDE)
def _two_classes(sets, held, bits, counts, f, both, total):
    """total[j] = sum_(y, y*) F(n(y, y*)) for two classes: one count gives all four."""
    _shared(sets[0], bits[0], both)
    mine, others = np.uint32(held[0]), np.uint32(held[1])
    for j in range(total.shape[0]):
        n, theirs = both[j], counts[j]
        total[j] = f[n] + f[mine - n] + f[theirs - n] + f[others + n - theirs]


@kernel(**INSIDE)
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


@kernel(**INSIDE)
def _add_scores(
    codes, f, rises, unit, bits, cells, counts, own, weights, scores, pairs, sets, held, line, members, table, both,
    joint, information,
):  # fmt: skip
    """`score`, with room for all that is worked out on the way."""
    chunks, classes, _, size = bits.shape
    blocks, block = weights.shape[1:]
    few = min(255.0, DRAW_BY_DRAW * classes)
    for chunk in range(chunks):  # and not candidate by candidate: a chunk stays in the cache
        for i in range(codes.shape[0]):
            _sets(codes[i], line, sets, held)
            here = _own(held, f) - f[-1]
            if classes == 2:
                _two_classes(sets, held, bits[chunk], counts[chunk], f, both, joint)
            else:
                for j in range(size):
                    joint[j] = 0
                for y in range(classes):
                    if held[y] <= few:
                        _members(sets[y], members)
                        _add_by_draws(members[: held[y]], cells[chunk], rises, classes, table, joint)
                    else:
                        _add_by_bits(sets[y], bits[chunk], f, both, joint)
            for j in range(size):
                information[j] = max(np.int64(0), joint[j] - own[chunk, j] - here) * unit
            if pairs.size:
                for j in range(size):
                    pairs[i, chunk, j] = information[j]
            else:
                for b in range(blocks):
                    scores[i] += _weighted(weights[chunk, b], information[b * block : (b + 1) * block])


@kernel(**IN_ORDER)
def score(codes, f, rises, unit, bits, cells, counts, own, weights, scores, pairs):
    """Add sum_j w_j I(y; y*_j) to `scores[i]` for the candidates `codes [n, k]`. The targets are as `pack` has them.

    `weights [chunks, blocks, size]`: what a block of targets adds is summed up before it is added to that of others.
    `unit` is 1 / (k units of F). If `pairs [n, chunks, M]` is not empty I(y; y*_j) is written there instead.
    """
    _, classes, words, size = bits.shape
    _add_scores(
        codes, f, rises, unit, bits, cells, counts, own, weights, scores, pairs,
        np.empty((classes, words), np.uint64), np.empty(classes, np.int64), np.zeros(words * WORD, codes.dtype),
        np.empty(codes.shape[1], np.int64), np.zeros(classes * size, np.uint8), np.empty(size, np.uint32),
        np.empty(size, np.int64), np.empty(size),
    )  # fmt: skip
