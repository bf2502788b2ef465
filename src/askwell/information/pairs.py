"""Two classes: the passes over all candidates, several draws' pairs of probabilities in a vector at a time.

Numba makes poor vectors of numbers that lie two apart, and with two classes these passes, not the scores of the few
candidates that are left, are most of what a large pool costs. Like `vectors.py`, spelt out in LLVM.
"""

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from askwell.compiling import kernel
from askwell.information.vectors import JIT, Vector, address

__all__ = ["RANK", "pair_columns", "sketch_pairs", "two_means"]

RANK = 8  # eigenvectors of a sketch: as many sums as registers hold, with what they are made of
VECTOR_BYTES = 32  # these steps wait for memory: wider vectors would not help
WORDS = VECTOR_BYTES // 8  # of 64 bits in a vector


@kernel(**JIT)
def two_means(p, tolerance, sums, flags, means):
    """p(y) of one input's `p [k, 2]`; False if a row is not a distribution.

    Where all draws agree the mean is what they say, to the bit. `sums [4]` and `flags [2, WORDS]` are scratch.
    """
    draws, lanes = p.shape[0], VECTOR_BYTES // p.itemsize
    blocks = 2 * draws // lanes
    sums[:], flags[:] = 0, 0
    if blocks:
        set_pairs(address(p, 0), blocks, tolerance, address(sums, 0), address(flags, 0))
    wrong, differ = 0, 0
    for word in range(WORDS):
        wrong |= flags[0, word]
        differ |= flags[1, word]
    first, second = sums[0] + sums[2], sums[1] + sums[3]
    for k in range(blocks * lanes // 2, draws):
        a, b = np.float64(p[k, 0]), np.float64(p[k, 1])
        wrong |= not ((a >= 0) & (b >= 0) & (abs(a + b - 1) <= tolerance))
        differ |= (p[k, 0] != p[0, 0]) | (p[k, 1] != p[0, 1])
        first += a
        second += b
    means[0], means[1] = first / draws, second / draws
    if not differ:  # sums in any order need not cancel
        means[0], means[1] = p[0, 0], p[0, 1]
    return not wrong


@kernel(**JIT)
def sketch_pairs(probs, means, index, columns, out):
    """`kernels.sketch` for two classes; `columns` as `pair_columns` makes them.

    f(y) is (p_k(y) - p(y)) / p(y), and both classes' differences are the same but for the sign: with d those of the
    rarer class, which has more digits, the sums are |V^T d|^2 and |d|^2, times 1 / p(0) + 1 / p(1). There are at least
    RANK draws.
    """
    draws, (_, most, _, lanes) = probs.shape[1], columns.shape
    blocks = 2 * draws // lanes
    sums, found = np.zeros((RANK + 1, lanes), probs.dtype), np.empty(2, probs.dtype)
    for i in range(index.shape[0]):
        p, a, b = probs[index[i]], means[index[i], 0], means[index[i], 1]
        side = 0 if a < b else 1
        centre, own = probs.dtype.type(means[index[i], side]), columns[side]
        sums[:] = 0
        for k in range(blocks * lanes // 2, draws):  # those that do not fill a vector
            d, lane = p[k, side] - centre, 2 * k - blocks * lanes + side
            for v in range(RANK):
                sums[v, lane] = d * own[most - 1, v, lane]
            sums[RANK, lane] = d * d
        set_sketch(
            address(p, 0),
            blocks,
            probs.dtype.type(a),
            probs.dtype.type(b),
            side,
            address(own, 0),
            address(sums, 0),
            address(found, 0),
        )
        scale = 1 / a + 1 / b if a > 0 and b > 0 else 0.0
        out[i, 0], out[i, 1] = found[0] * scale, found[1] * scale


def pair_columns(vectors: np.ndarray, dtype: Any) -> np.ndarray:
    """V `[k, RANK]` as [2, blocks, RANK, lanes]: draws in the lanes of one class, zeros in those of the other."""
    lanes = _lanes(dtype)
    blocks = -(-2 * len(vectors) // lanes)
    columns = np.zeros((2, blocks * lanes // 2, 2, RANK), dtype)
    for side in range(2):
        columns[side, : len(vectors), side] = vectors
    return np.ascontiguousarray(columns.reshape(2, blocks, lanes, RANK).swapaxes(2, 3))


def _lanes(dtype: Any) -> int:
    return VECTOR_BYTES // int(np.dtype(dtype).itemsize)


@intrinsic
def set_pairs(typing: Any, p: Any, blocks: Any, tolerance: Any, sums: Any, flags: Any) -> Any:
    """Of `blocks` vectors of pairs: sums[4] = (first, second, first, second), in double.

    flags[0] is set in lanes of pairs that are no distributions, flags[1] where a number is not that of the first draw.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        p_at, blocks, tolerance, sums_at, flags_at = args
        lanes = _lanes(p.dtype.name)
        vector, wide = Vector.of(builder, p.dtype, lanes), Vector.of(builder, types.float64, 4)
        near = builder.fptrunc(tolerance, vector.real.element) if p.dtype == types.float32 else tolerance
        one = ir.Constant(vector.real.element, 1.0)
        most, least = vector.spread(builder.fadd(one, near)), vector.spread(builder.fsub(one, near))
        usual = builder.shuffle_vector(first := vector.load(p_at), first, _places([0, 1] * (lanes // 2)))
        nothing = vector.all_whole(0)

        def step(at: Any, state: list[Any]) -> list[Any]:
            *totals, wrong, differ = state
            now = vector.load(at)
            parts = [now]
            if p.dtype == types.float32:
                halves = (builder.shuffle_vector(now, now, _places(range(first, first + 4))) for first in (0, 4))
                parts = [builder.fpext(half, wide.real) for half in halves]
            totals = [builder.fadd(total, part) for total, part in zip(totals, parts, strict=True)]
            pair = builder.fadd(now, builder.shuffle_vector(now, now, _places([lane ^ 1 for lane in range(lanes)])))
            # NaN is neither more nor less: "unordered" comparisons are true of it
            for fault in (
                builder.fcmp_unordered("<", now, vector.all(0)),
                builder.fcmp_unordered(">", pair, most),
                builder.fcmp_unordered("<", pair, least),
            ):
                wrong = builder.or_(wrong, builder.sext(fault, vector.whole))
            other = builder.sext(builder.fcmp_unordered("!=", now, usual), vector.whole)
            return [*totals, wrong, builder.or_(differ, other)]

        begun = [wide.all(0)] * (lanes // 4)
        *totals, wrong, differ = _loop(builder, p_at, blocks, lanes, step, [*begun, nothing, nothing])
        wide.store(reduce(builder.fadd, totals), sums_at)
        for row, value in enumerate((wrong, differ)):
            place = builder.gep(flags_at, [ir.Constant(blocks.type, row * WORDS)])
            stored = builder.store(value, builder.bitcast(place, vector.whole.as_pointer()))
            stored.align = 8
        return context.get_dummy_value()

    return types.void(p, types.intp, types.float64, sums, flags), code


@intrinsic
def set_sketch(typing: Any, p: Any, blocks: Any, a: Any, b: Any, side: Any, columns: Any, sums: Any, out: Any) -> Any:
    """With d = p - (a, b, a, b, ...) in `blocks` vectors of pairs: out[0] = |sum d columns|^2, out[1] = sum d^2.

    The sums are over the lanes of the class `side`, of RANK columns; they begin with `sums [RANK + 1, lanes]`.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        p_at, blocks, a, b, side, columns_at, sums_at, out_at = args
        lanes = _lanes(p.dtype.name)
        vector = Vector.of(builder, p.dtype, lanes)
        mixed = _places([lane % 2 * lanes for lane in range(lanes)])
        centre = builder.shuffle_vector(vector.spread(a), vector.spread(b), mixed)

        def at(base: Any, row: int) -> Any:
            return builder.gep(base, [ir.Constant(blocks.type, row * lanes)])

        def step(now: Any, state: list[Any]) -> list[Any]:
            column_at, *sums = state
            d = builder.fsub(vector.load(now), centre)
            grown = [vector.fma(d, vector.load(at(column_at, v)), sums[v]) for v in range(RANK)]
            return [at(column_at, RANK), *grown, vector.fma(d, d, sums[RANK])]

        begun = [vector.load(at(sums_at, row)) for row in range(RANK + 1)]
        _, *found = _loop(builder, p_at, blocks, lanes, step, [columns_at, *begun])
        for apart in [2**i for i in range(lanes.bit_length() - 2, 0, -1)]:  # until a lane has all of its kind
            near = _places([lane ^ apart for lane in range(lanes)])
            found = [builder.fadd(value, builder.shuffle_vector(value, value, near)) for value in found]
        *leading, trace = (builder.extract_element(value, side) for value in found)
        squares = [builder.fmul(value, value) for value in leading]
        while len(squares) > 1:
            squares = [builder.fadd(*pair) for pair in zip(squares[::2], squares[1::2], strict=True)]
        for place, value in enumerate((squares[0], trace)):
            builder.store(value, builder.gep(out_at, [ir.Constant(blocks.type, place)]))
        return context.get_dummy_value()

    return types.void(p, types.intp, p.dtype, p.dtype, types.intp, columns, sums, out), code


def _loop(builder: Any, start: Any, blocks: Any, lanes: int, step: Any, state: list[Any]) -> list[Any]:
    """state = step(address of a block, state), block after block; there is at least one."""
    index = blocks.type
    before, body, after = builder.block, builder.append_basic_block("block"), builder.append_basic_block("end")
    builder.branch(body)
    builder.position_at_end(body)
    i, phis = builder.phi(index), [builder.phi(value.type) for value in state]
    found: list[Any] = step(builder.gep(start, [builder.mul(i, ir.Constant(index, lanes))]), phis)
    following = builder.add(i, ir.Constant(index, 1))
    for phi, first, later in zip([i, *phis], [ir.Constant(index, 0), *state], [following, *found], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, blocks), body, after)
    builder.position_at_end(after)
    return found


def _places(lanes: Any) -> Any:
    """Which lanes a shuffle takes."""
    lanes = list(lanes)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
