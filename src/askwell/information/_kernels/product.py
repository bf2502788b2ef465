"""The matrix product of the hot loop: a tile of sums that stays in the processor's registers, spelt out for LLVM.

Here numba's own loops do not do: they keep their sums in memory, which takes 1.5 times as long (docs/decisions.md: "The
hot loop"). LLVM maps the vectors to whatever the processor has.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features as host_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from askwell.compiling import kernel

__all__ = ["ANY_ORDER", "JIT", "ROWS", "panel_width", "product"]

ROWS = 6  # of the tile: 6 x 2 vectors of sums, 2 loads and 1 broadcast fill the 16 vector registers of AVX2
VECTOR_BYTES = 64 if "+avx512f" in host_features().flatten() else 32  # of a processor that has wider ones, those
DEPTH = 50  # at most so many draws are added up before the sum is put aside: keeps the rounding of long sums small

JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
ANY_ORDER = {**JIT, "fastmath": {"contract", "nsz", "reassoc"}}  # sums as vectors: the same order for every input


def panel_width(dtype: Any) -> int:
    """How many columns a tile has: two vectors."""
    return 2 * VECTOR_BYTES // int(np.dtype(dtype).itemsize)


@kernel(**JIT)
def product(rows, columns, groups, out):
    """out[groups * ROWS, panels * width] = the products of packed rows and columns, summed over draws.

    `rows [groups, k, ROWS]` and `columns [panels, k, width]`, as `_pack` in `epig.py` fills them.
    """
    panels, draws, width = columns.shape
    parts = (draws + DEPTH - 1) // DEPTH
    depth = (draws + parts - 1) // parts
    out[: groups * ROWS] = 0
    for panel in range(panels):
        for group in range(groups):
            for k in range(0, draws, depth):
                _add_tile(
                    _address(rows, (group * draws + k) * ROWS),
                    _address(columns, (panel * draws + k) * width),
                    _address(out, group * ROWS * panels * width + panel * width),
                    min(depth, draws - k),
                    panels * width,
                )


@intrinsic
def _address(typing: Any, array: Any, offset: Any) -> Any:
    """The address of the element at a flat offset of a contiguous array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.gep(view.data, [args[1]])

    return types.CPointer(array.dtype)(array, types.intp), code


@intrinsic
def _add_tile(typing: Any, a: Any, b: Any, out: Any, depth: Any, stride: Any) -> Any:
    """out[ROWS, 2 vectors] += a[depth, ROWS]^T b[depth, 2 vectors], in registers; out's rows lie `stride` apart."""
    lanes, single = panel_width(a.dtype.name) // 2, a.dtype == types.float32
    vector = ir.VectorType(ir.FloatType() if single else ir.DoubleType(), lanes)
    tile = [(row, half) for row in range(ROWS) for half in range(2)]

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b, out, depth, stride = args
        index, lane, nothing = depth.type, ir.IntType(32), ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(lane, lanes), [0] * lanes)
        fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{32 if single else 64}"
        )

        def place(base: Any, *offsets: Any) -> Any:
            for offset in offsets:
                base = builder.gep(base, [ir.Constant(index, offset) if isinstance(offset, int) else offset])
            return base

        def load(address: Any) -> Any:
            value = builder.load(builder.bitcast(address, vector.as_pointer()))
            value.align = 4 if single else 8  # arrays need not start at a multiple of a vector
            return value

        def spread(scalar: Any) -> Any:
            one = builder.insert_element(nothing, scalar, ir.Constant(lane, 0))
            return builder.shuffle_vector(one, nothing, everywhere)

        before, body, after = builder.block, builder.append_basic_block("draw"), builder.append_basic_block("sum")
        builder.branch(body)

        builder.position_at_end(body)
        k, sums = builder.phi(index), [builder.phi(vector) for _ in tile]
        row_a = builder.mul(k, ir.Constant(index, ROWS))
        row_b = builder.mul(k, ir.Constant(index, 2 * lanes))
        b_k = [load(place(b, row_b, half * lanes)) for half in range(2)]
        a_k = [spread(builder.load(place(a, row_a, row))) for row in range(ROWS)]
        grown = [
            builder.call(fused, [a_k[row], b_k[half], total]) for (row, half), total in zip(tile, sums, strict=True)
        ]
        following = builder.add(k, ir.Constant(index, 1))
        starts = [ir.Constant(index, 0), *[ir.Constant(vector, [0.0] * lanes)] * len(tile)]
        for value, start, step in zip([k, *sums], starts, [following, *grown], strict=True):
            value.add_incoming(start, before)
            value.add_incoming(step, body)
        builder.cbranch(builder.icmp_signed("<", following, depth), body, after)

        builder.position_at_end(after)
        for (row, half), total in zip(tile, grown, strict=True):
            address = place(out, builder.mul(stride, ir.Constant(index, row)), half * lanes)
            stored = builder.store(builder.fadd(load(address), total), builder.bitcast(address, vector.as_pointer()))
            stored.align = 4 if single else 8
        return context.get_dummy_value()

    return types.void(a, b, out, types.intp, types.intp), code
