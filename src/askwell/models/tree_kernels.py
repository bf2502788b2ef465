"""Trees, compiled: how they are grown, and how many inputs go down many of them. Importing this imports numba.

A tree depends on nothing but the labelled inputs and its seed: not on the trees before it, on threads, on the machine.
What is drawn at a node depends on the way there alone, so that nodes may be grown in any order, as `trees.py` does in
NumPy. What each of the loops gains is in docs/decisions.md.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from askwell.compiling import kernel
from askwell.models.trees import LEFT, RIGHT, STEP

__all__ = ["ROWS", "WORD", "grow", "sift", "spread_leaves", "walk"]

WORD = 64  # inputs, or samples, that are bits of one number
WALKERS = 16
ROWS = 256  # inputs that go through all trees before the next ones: their features stay in cache
FEW = 40  # keys that are sorted by insertion
LARGEST = float(np.finfo(np.float32).max)
INDEX = ir.IntType(32)  # of an element of a vector
PAIRS, FOURS, EIGHTS, BYTES = (np.uint64(0x0101010101010101 * byte) for byte in (0x55, 0x33, 0x0F, 0x01))
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
INSIDE = OPTIONS | {"allocates": False}


# ---- growing ---------------------------------------------------------------------------------------------------------


@kernel(**INSIDE)
def _mixed(z):
    """`askwell.seeds.scrambled` of one number."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel(**INSIDE)
def _below(state, n):
    """A random whole number below n; the state moves on."""
    state[0] += STEP
    return np.int64(((_mixed(state[0]) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@kernel(**INSIDE)
def _lowest(word):
    """The position of the lowest bit that is set: how many are below it, by the usual sums of halves.

    LLVM knows them as one instruction, which a table of positions is not.
    """
    word = (word & (~word + np.uint64(1))) - np.uint64(1)
    word = word - ((word >> np.uint64(1)) & PAIRS)
    word = (word & FOURS) + ((word >> np.uint64(2)) & FOURS)
    word = (word + (word >> np.uint64(4))) & EIGHTS
    return (word * BYTES) >> np.uint64(56)


@kernel(**INSIDE)
def _sort(keys, n, spare, count):
    """The first n keys in ascending order of their upper halves: by insertion, or by byte after byte where many."""
    if n <= FEW:
        for i in range(1, n):
            key, j = keys[i], i
            while j > 0 and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
    else:
        top = np.uint64(0)
        for i in range(n):
            top |= keys[i]
        top >>= np.uint64(32)
        shift = np.uint64(32)
        while top > np.uint64(0):
            for i in range(257):
                count[i] = 0
            for i in range(n):
                count[np.intp((keys[i] >> shift) & np.uint64(255)) + 1] += 1
            for i in range(256):
                count[i + 1] += count[i]
            for i in range(n):
                digit = np.intp((keys[i] >> shift) & np.uint64(255))
                spare[count[digit]] = keys[i]
                count[digit] += 1
            for i in range(n):
                keys[i] = spare[i]
            shift += np.uint64(8)
            top >>= np.uint64(8)


@kernel(**INSIDE)
def _look(keys, n, more, y, t, w, classes, total, left, weight, begun, leaf, last):
    """(how good, after which of n sorted keys) the best cut is; how good is -inf where there is none.

    How good is sum_y L(y)² / L + sum_y R(y)² / R of the weights on either side, or of numbers S_L² / L + S_R² / R: the
    impurity, Gini's or the variance, is least where that is most. `left` has what is on the left before the first key,
    of weight `weight` and from `begun` samples; `more` samples are on the right after the last, if `last`.
    """
    squares_left, squares_right = 0.0, 0.0
    for c in range(total.shape[0]):
        squares_left += left[c] * left[c]
        squares_right += (total[c] - left[c]) * (total[c] - left[c])
    best, position, samples, whole = -np.inf, -1, n + more + begun, w[-1]
    for i in range(n if last else n - 1):
        sample = np.intp(keys[i] & np.uint64(0xFFFFFFFF))
        step = w[sample]
        if classes == 0:
            left[0] += step * t[sample]
            squares_left, squares_right = left[0] * left[0], (total[0] - left[0]) * (total[0] - left[0])
        else:
            c = y[sample]
            squares_left += step * (2 * left[c] + step)
            squares_right -= step * (2 * (total[c] - left[c]) - step)
            left[c] += step
        weight += step
        there = begun + i + 1
        apart = i == n - 1 or (keys[i] >> np.uint64(32)) != (keys[i + 1] >> np.uint64(32))
        if apart and there >= leaf and samples - there >= leaf:
            good = squares_left / weight + squares_right / (whole - weight)
            if good > best:
                best, position = good, i
    return best, position


@kernel(**INSIDE)
def _look_in_order(f, codes, ordered, samples, start, stop, y, w, total, left, leaf, bits):
    """(how good, rank below, rank above, how many are below) of the best cut of a feature that none misses.

    None are below where there is one rank only, and there is no cut where how good is -inf.

    What `_sort` and `_look` find, for counts of classes: a sample's bit is set at its position among all of the
    feature, and set bits are read in order. No position is looked at twice, and no comparison need be guessed.
    """
    words = bits.shape[0]
    squares_left, squares_right, weight, whole, there, size = 0.0, 0.0, 0.0, w[-1], 0, stop - start
    for c in range(total.shape[0]):
        left[c] = 0
        squares_right += total[c] * total[c]
    for i in range(np.uint64(start), np.uint64(stop)):
        position = np.uint64(ordered[1, f, np.uint64(samples[i])])
        bits[position >> np.uint64(6)] |= np.uint64(1) << (position & np.uint64(63))
    best, low, high, before, below = -np.inf, np.int64(0), np.int64(0), np.int64(-1), 0
    for word in range(words):
        these = bits[word]
        bits[word] = 0
        while these != np.uint64(0):
            sample = ordered[0, f, np.uint64(WORD * word) + _lowest(these)]
            these &= these - np.uint64(1)
            rank = np.int64(codes[f, sample])
            if rank != before and there > 0:
                below = max(below, 1)
                if there >= leaf and size - there >= leaf:
                    good = squares_left / weight + squares_right / (whole - weight)
                    if good > best:
                        best, low, high, below = good, before, rank, there
            before, c, step = rank, np.uint64(y[sample]), w[sample]
            squares_left += step * (2 * left[c] + step)
            squares_right -= step * (2 * (total[c] - left[c]) - step)
            left[c] += step
            weight += step
            there += 1
    return best, low, high, below


@kernel(**INSIDE)
def _totals(samples, start, stop, y, t, w, classes, total):
    """Sum up the labels of a node to `total`, its weight to `w[-1]`; says whether all labels are the same."""
    for c in range(total.shape[0]):
        total[c] = 0
    weight, alike, first = 0.0, True, np.uint64(samples[start])
    for i in range(np.uint64(start), np.uint64(stop)):
        sample = np.uint64(samples[i])
        weight += w[sample]
        total[np.uint64(y[sample])] += w[sample] * t[sample]
        alike &= (y[sample] == y[first]) & (t[sample] == t[first])
    w[-1] = weight
    return alike


@kernel(**INSIDE)
def _end(samples, start, stop, y, t, w, classes, total, pure, values, rows):
    """What a leaf says: (its row of `values`, how many rows there are now). Sure of class c: the row c."""
    row, rows = (y[samples[start]], rows) if pure and classes > 0 else (rows, rows + 1)
    if classes > 0:
        for c in range(0 if pure else classes):
            values[row, c] = total[c] / w[-1]
    else:
        mean, spread = total[0] / w[-1], 0.0
        for i in range(start, stop):
            spread += w[samples[i]] * (t[samples[i]] - mean) ** 2
        values[row, 0], values[row, 1] = mean, spread / w[-1]
    return row, rows


@kernel(**INSIDE)
def _look_sorted(
    f, codes, missing, samples, start, stop, y, t, w, classes, total, one_side, leaf, keys, spare, count
):  # fmt: skip
    """(how good, rank below, rank above, whether missing values go right, whether there are two values) of a feature.

    Of the best cut. The rank above is `missing` where all that is there goes left and what is missing goes right.
    """
    here, least, most, absent = 0, missing, np.int64(0), 0.0
    best, low, high, right = -np.inf, np.int64(0), np.int64(0), False
    for c in range(one_side.shape[0]):
        one_side[c] = 0
    for i in range(start, stop):
        sample = samples[i]
        code = np.int64(codes[f, sample])
        if code == missing:
            absent += w[sample]
            one_side[y[sample]] += w[sample] * t[sample]
        else:
            keys[here] = (np.uint64(code) << np.uint64(32)) | np.uint64(sample)
            least, most, here = min(least, code), max(most, code), here + 1
    gone = stop - start - here
    lively = here > 0 and (least < most or gone > 0)
    if lively:
        _sort(keys, here, spare, count)
        if gone > 0:  # missing values on the left, and below on the right
            best, last = _look(keys, here, 0, y, t, w, classes, total, one_side, absent, gone, leaf, False)
            low, high = np.int64(keys[last] >> np.uint64(32)), np.int64(keys[last + 1] >> np.uint64(32))
            for c in range(one_side.shape[0]):
                one_side[c] = 0
        good, last = _look(keys, here, gone, y, t, w, classes, total, one_side, 0.0, 0, leaf, gone > 0)
        if good > best:
            best, low = good, np.int64(keys[last] >> np.uint64(32))
            high = np.int64(keys[last + 1] >> np.uint64(32)) if last < here - 1 else missing
            right = gone > 0 or 2 * (last + 1) <= here  # where none was missing: with most of the others
    return best, low, high, right, lively


@kernel(**INSIDE)
def _split(
    codes, levels, ordered, samples, start, stop, y, t, w, classes, look, leaf, state, order, picks, total, one_side,
    keys, spare, count, bits, most,
):  # fmt: skip
    """(feature or -1, rank below the cut, rank above it, whether missing values go right) of a node's best split.

    Features are drawn without replacement: `look` of them, and more until one is not constant here. None is drawn after
    one whose cut is as good as any can be, `most`: it leaves a class alone on either side.
    """
    best, chosen, low, high, right = -np.inf, -1, np.int64(0), np.int64(0), False
    at, lively, seen = order.shape[0], False, 0
    while at > 0 and (seen < look or not lively) and best < most:
        pick = _below(state, at)
        picks[seen] = pick
        at, seen = at - 1, seen + 1
        f = order[pick]
        order[pick], order[at] = order[at], f
        if 0 < bits.size <= 4 * (stop - start):  # or there are more words than samples to look at
            good, under, above, below = _look_in_order(
                f, codes, ordered, samples, start, stop, y, w, total, one_side, leaf, bits
            )
            several, goes = below > 0, 2 * below <= stop - start
        else:
            good, under, above, goes, several = _look_sorted(
                f, codes, levels[f], samples, start, stop, y, t, w, classes, total, one_side, leaf, keys, spare, count
            )
        lively |= several
        if good > best:
            best, chosen, low, high, right = good, f, under, above, goes
    while seen > 0:  # the next node finds the features in their order again
        seen -= 1
        f = order[picks[seen]]
        order[picks[seen]], order[at] = order[at], f
        at += 1
    return chosen, low, high, right


@kernel(**INSIDE)
def _parted(codes, f, missing, samples, start, stop, low, right):
    """Bring those that go left to the front, and say where the others begin."""
    last = stop - 1
    while start <= last:
        code = np.int64(codes[f, samples[start]])
        if right if code == missing else code > low:
            samples[start], samples[last] = samples[last], samples[start]
            last -= 1
        else:
            start += 1
    return start


@kernel(**INSIDE)
def _between(numbers, f, low, high, missing):
    """What separates two values: half-way, or the lower one where there is nothing between them.

    What is missing from the rest: what nothing finite is above.
    """
    if high == missing:
        return LARGEST
    middle = np.float64(numbers[f, low]) / 2 + np.float64(numbers[f, high]) / 2
    return middle if middle < numbers[f, high] else np.float64(numbers[f, low])


@kernel(**INSIDE)
def _drawn(state, shares, guide, weights, w, times, samples):
    """Draw the samples of a tree, those that occur to `samples` and what they weigh to `w`; says how many they are.

    With `shares [n]`, the parts of 2^32 up to each sample, as many are drawn as there are, with replacement; without,
    all are taken, with their weights. `guide [n]` is where to look for the first number of each n-th of 2^32.
    """
    n, size, bootstrap = times.shape[0], 0, shares.shape[0] > 0
    for i in range(n):
        times[i] = 0 if bootstrap else 1
    if bootstrap:
        for _ in range(n):
            number = _below(state, 1 << 32)
            sample = guide[(number * n) >> 32]
            while shares[sample] <= number:
                sample += 1
            times[sample] += 1
    for i in range(n):
        if times[i] > 0 and (bootstrap or weights[i] > 0):
            samples[size] = i
            w[i] = times[i] if bootstrap else weights[i]
            size += 1
    return size


@kernel(**OPTIONS)
def grow(
    codes, levels, numbers, ordered, y, t, weights, classes, look, leaf, deepest, shares, seeds,
    feature, threshold, left, value, missing_right, values, rows, roots, depths, bags,
):  # fmt: skip
    """Grow a tree for each seed, as long as there is room; returns (trees, nodes, rows of `values`).

    Inputs are `codes [d, n]`, ranks of a feature's `levels[f]` different values `numbers [d, n]`, or `levels[f]` where
    it is missing; `ordered [2, d, n]` has the samples in the order of a feature, and the position of each in it. Labels
    are classes `y [n]` (and t is 1), or numbers `t [n]` (y is 0 and `classes` too). A leaf has `leaf` samples or more,
    and none is deeper than `deepest`. Nodes go to the arrays of the third line, the children of a node next to each
    other, right after left. `values` is filled from row `rows` on, which is `classes` at first. `bags [trees, n]`,
    unless empty, gets how often a sample was drawn.
    """
    d, n = codes.shape
    state, times, samples = np.empty(1, np.uint64), np.empty(n, np.int64), np.empty(n, np.int64)
    w = np.empty(n + 1)  # the last is a node's
    keys, spare, count = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(257, np.int64)
    order, picks = np.arange(d), np.empty(d, np.int64)
    total, one_side, ways = np.empty(max(1, classes)), np.empty(max(1, classes)), np.empty(n + 1, np.uint64)
    starts, stops = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    nodes, deep = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    guide = np.empty(shares.shape[0], np.int64)
    for i in range(guide.shape[0]):
        guide[i] = np.searchsorted(shares, ((i << 32) + n - 1) // n, side="right")
    counts = classes > 0 and shares.shape[0] > 0  # no order of adding them up changes a cut
    whole = counts
    for f in range(d):
        whole &= np.int64(codes[f, ordered[0, f, n - 1]]) < levels[f]  # what is missing would come last
    bits = np.zeros(-(-n // WORD) if whole else 0, np.uint64)
    free = 0
    for tree in range(seeds.shape[0]):
        if free + 2 * n > feature.shape[0] or rows + n > values.shape[0]:
            return tree, free, rows
        state[0] = seeds[tree]
        size = _drawn(state, shares, guide, weights, w, times, samples)
        if bags.size:
            for i in range(n):
                bags[tree, i] = times[i]
        roots[tree], depths[tree] = free, 0
        starts[0], stops[0], nodes[0], deep[0], ways[0] = 0, size, free, 0, _mixed(seeds[tree])
        free, waiting = free + 1, 1
        while waiting > 0:
            waiting -= 1
            start, stop, way = starts[waiting], stops[waiting], ways[waiting]
            node, depth = nodes[waiting], deep[waiting]
            depths[tree] = max(depths[tree], depth)
            pure, chosen = _totals(samples, start, stop, y, t, w, classes, total), -1
            if not pure and stop - start >= 2 * leaf and depth < deepest:
                state[0], most = way, w[-1] if counts else np.inf
                chosen, low, high, right = _split(
                    codes, levels, ordered, samples, start, stop, y, t, w, classes, look, leaf, state, order, picks,
                    total, one_side, keys, spare, count, bits, most,
                )  # fmt: skip
            if chosen < 0:
                feature[node], threshold[node], left[node], missing_right[node] = 0, np.inf, node, False
                value[node], rows = _end(samples, start, stop, y, t, w, classes, total, pure, values, rows)
                continue
            middle = _parted(codes, chosen, levels[chosen], samples, start, stop, low, right)
            feature[node], left[node], missing_right[node], value[node] = chosen, free, right, 0
            threshold[node] = _between(numbers, chosen, low, high, levels[chosen])
            starts[waiting], stops[waiting], nodes[waiting] = middle, stop, free + 1
            starts[waiting + 1], stops[waiting + 1], nodes[waiting + 1] = start, middle, free
            deep[waiting], deep[waiting + 1] = depth + 1, depth + 1
            ways[waiting], ways[waiting + 1] = _mixed(way ^ RIGHT), _mixed(way ^ LEFT)
            waiting, free = waiting + 2, free + 2
    return seeds.shape[0], free, rows


# ---- walking ---------------------------------------------------------------------------------------------------------


@kernel(**OPTIONS)
def walk(x, roots, depths, feature, threshold, left, value, out):
    """The leaf that each input `x [n, d]` falls into in each tree, as its row of values, to `out [n, k]`.

    WALKERS inputs go down a tree side by side, without a branch: none waits for another's guess to be wrong. Always as
    many, so that the loop over them is unrolled (those past the end walk with the last input, in vain), and unsigned,
    so that no index is looked at for a minus: together that is twice as fast.
    """
    n = out.shape[0]
    at = np.empty(WALKERS, np.uint32)
    for start in range(0, n, ROWS):
        for tree in range(roots.shape[0]):
            for first in range(start, min(start + ROWS, n), WALKERS):
                for i in range(WALKERS):
                    at[i] = roots[tree]
                for _ in range(depths[tree]):
                    for i in range(WALKERS):
                        node = at[i]
                        at[i] = left[node] + np.uint32(x[min(first + i, n - 1), feature[node]] > threshold[node])
                for i in range(min(WALKERS, n - first)):
                    out[first + i, tree] = value[at[i]]


@intrinsic
def _above(typing: Any, x: Any, position: Any, threshold: Any) -> Any:
    """Which of the WORD numbers of an array from a position on are above a threshold, as bits."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, number, lane = context.make_array(signature.args[0])(context, builder, args[0]), ir.FloatType(), INDEX
        vector = ir.VectorType(number, WORD)
        own = builder.load(builder.bitcast(builder.gep(array.data, [args[1]]), vector.as_pointer()))
        own.align = 4
        nothing, everywhere = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(lane, WORD), [0] * WORD)
        first = builder.insert_element(nothing, args[2], ir.Constant(lane, 0))
        above = builder.fcmp_ordered(">", own, builder.shuffle_vector(first, nothing, everywhere))
        return builder.bitcast(above, ir.IntType(WORD))

    return types.uint64(x, types.intp, types.float32), code


@intrinsic
def _set_digit(typing: Any, codes: Any, position: Any, bits: Any, digit: Any, first: Any) -> Any:
    """Set this digit of the WORD bytes of an array from a position on where these bits are set, the `first` anew."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, number, lane = context.make_array(signature.args[0])(context, builder, args[0]), ir.IntType(8), INDEX
        vector = ir.VectorType(number, WORD)
        zeros, everywhere = ir.Constant(vector, [0] * WORD), ir.Constant(ir.VectorType(lane, WORD), [0] * WORD)
        pointer = builder.bitcast(builder.gep(array.data, [args[1]]), vector.as_pointer())
        digits = builder.shuffle_vector(builder.insert_element(zeros, args[3], ir.Constant(lane, 0)), zeros, everywhere)
        there = builder.select(builder.bitcast(args[2], ir.VectorType(ir.IntType(1), WORD)), digits, zeros)
        before = builder.load(pointer)
        before.align = 1
        builder.store(builder.or_(builder.select(args[4], zeros, before), there), pointer).align = 1
        return context.get_dummy_value()

    return types.void(codes, types.intp, types.uint64, types.uint8, types.boolean), code


@kernel(**INSIDE)
def _turn(square):
    """Turn over a square of bits, `square [WORD]`: bit j of word i and bit i of word j are exchanged."""
    size, mask = 32, np.uint64(0x00000000FFFFFFFF)
    while size > 0:
        shift = np.uint64(size)
        for begin in range(0, WORD, 2 * size):
            for i in range(begin, begin + size):
                other = ((square[i] >> shift) ^ square[i + size]) & mask
                square[i] ^= other << shift
                square[i + size] ^= other
        size //= 2
        mask ^= mask << np.uint64(size)


@kernel(**OPTIONS)
def sift(x, begin, inner, leaf, first, most, out):
    """`walk` for trees of not too many nodes and rows of a byte, of inputs turned over, `x [d, inputs]`.

    They are the n inputs from `begin` on, and the answer goes to `out [n, k]`. WORD inputs go down a tree together: the
    inputs that come to a node are bits of a word, and the node, which compares all of them at once, parts them in two.
    `inner` is (node, its left child, feature, threshold) of tree after tree, nodes counted from the tree's root; tree k
    has those from `first[0, k]` on, and no tree has more than `most` nodes. From `first[1 + b, k]` on `leaf` has the
    leaves of tree k whose row has the digit b. Such a digit is a word as well, and WORD trees make a square of bits,
    which is turned over.
    """
    node, child, feature, threshold = inner
    (n, k), stride, digits, numbers = out.shape, x.shape[1], first.shape[0] - 1, x.reshape(x.size)
    reach, squares, line = np.empty(most, np.uint64), np.empty((digits, WORD), np.uint64), np.empty(WORD, np.uint8)
    rows = out.reshape(out.size)
    for start in range(0, n, WORD):
        count = min(WORD, n - start)
        for begun in range(0, k, WORD):
            several = min(WORD, k - begun)
            for t in range(several):
                tree = begun + t
                reach[0] = ~np.uint64(0) >> np.uint64(WORD - count)
                for i in range(first[0, tree], first[0, tree + 1]):
                    these = reach[node[i]]
                    right = these & _above(numbers, np.intp(feature[i]) * stride + begin + start, threshold[i])
                    reach[child[i]], reach[child[i] + np.uint32(1)] = these ^ right, right
                for b in range(digits):
                    these = np.uint64(0)
                    for i in range(first[1 + b, tree], first[1 + b, tree + 1]):
                        these |= reach[leaf[i]]
                    squares[b, t] = these
            for b in range(digits):
                _turn(squares[b])
            for i in range(count):
                position = (start + i) * k + begun
                whole = several == WORD
                for b in range(digits):
                    _set_digit(
                        rows if whole else line, position if whole else 0, squares[b, i], np.uint8(1 << b), b == 0
                    )
                for t in range(0 if whole else several):
                    rows[position + t] = line[t]


@kernel(**INSIDE)
def spread_leaves(rows, values, out):
    """out[i, k] = values[rows[i, k]], for `out [n, k, c]`."""
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            row = rows[i, k]
            for c in range(values.shape[1]):
                out[i, k, c] = values[row, c]
