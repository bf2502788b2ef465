"""The innermost steps of the hot loop as LLVM vectors: a tile of a matrix product, and sums of phi(u).

Numba compiles the loops around them (`kernels.py`). These are spelt out because no array language keeps twelve
accumulators in registers, or two vectors of a logarithm in flight. LLVM maps them to whatever the processor has. They
can only be called from compiled code, with the `address` of array elements. phi(u) = (1 + u) log(1 + u) - u.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features as host_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from askwell.information.votes import LANES

__all__ = [
    "ANY_ORDER",
    "JIT",
    "LANES",
    "ROWS",
    "Vector",
    "add_centred_terms",
    "add_divergence_terms",
    "add_product",
    "add_terms",
    "address",
    "panel_width",
    "set_two_class_information",
]

ROWS = 6  # of the register tile: 6 x 2 accumulators, 2 loads and 1 broadcast fill the 16 vector registers of AVX2
VECTOR_BYTES = 64 if "+avx512f" in host_features().flatten() else 32  # of a processor that has wider ones, those

JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
ANY_ORDER = {**JIT, "fastmath": {"contract", "nsz", "reassoc"}}  # sums as vectors: the same order for every input


def panel_width(dtype: Any) -> int:
    """How many columns `add_product` makes at a time: two vectors."""
    return 2 * VECTOR_BYTES // int(np.dtype(dtype).itemsize)


def _series(f: Any) -> Any:
    """phi(f) / f^2 = sum_(n >= 2) (-f)^(n-2) / (n (n-1)), for |f| < 1/2."""
    total = np.zeros_like(f)
    for n in range(80, 1, -1):
        total = total * -f + 1 / (n * (n - 1))
    return total


def _coefficients(degree: int) -> tuple[float, ...]:
    """Coefficients, lowest first, of a polynomial that stands for phi(f) / f^2 on [sqrt(1/2) - 1, sqrt(2) - 1]."""
    domain = [np.sqrt(0.5) - 1, np.sqrt(2.0) - 1]
    fit = np.polynomial.Chebyshev.interpolate(_series, degree, domain=domain)
    return tuple(float(value) for value in fit.convert(kind=np.polynomial.Polynomial).coef)


class Vector(NamedTuple):
    """A vector of floats in the code being built: its type, the layout of a float's bits, and the operations needed."""

    builder: Any
    real: ir.VectorType
    whole: ir.VectorType
    digits: int  # of the mantissa
    half_root: int  # the bits of sqrt(1/2)
    one: int  # the bits of 1
    coefficients: tuple[float, ...]

    @classmethod
    def of(cls, builder: Any, dtype: Any, lanes: int) -> "Vector":
        """So many lanes of float32 or float64."""
        real, whole, digits, half_root, one, coefficients = LAYOUTS[dtype]
        vector = (ir.VectorType(real, lanes), ir.VectorType(whole, lanes))
        return cls(builder, *vector, digits, half_root, one, coefficients)

    def all(self, value: float) -> Any:
        """A number in every lane."""
        return ir.Constant(self.real, [float(value)] * self.real.count)

    def all_whole(self, value: int) -> Any:
        """A whole number in every lane."""
        return ir.Constant(self.whole, [value] * self.whole.count)

    def spread(self, scalar: Any) -> Any:
        """The scalar in every lane."""
        lane, nothing = ir.IntType(32), ir.Constant(self.real, ir.Undefined)
        single = self.builder.insert_element(nothing, scalar, ir.Constant(lane, 0))
        everywhere = ir.Constant(ir.VectorType(lane, self.real.count), [0] * self.real.count)
        return self.builder.shuffle_vector(single, nothing, everywhere)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, rounded once."""
        name = f"llvm.fma.v{self.real.count}f{32 if self.digits == 23 else 64}"
        signature = ir.FunctionType(self.real, [self.real] * 3)
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, signature, name), [a, b, c])

    def load(self, pointer: Any) -> Any:
        """What lies there."""
        return self._access(self.builder.load(self.builder.bitcast(pointer, self.real.as_pointer())))

    def store(self, value: Any, pointer: Any) -> None:
        """Put it there."""
        self._access(self.builder.store(value, self.builder.bitcast(pointer, self.real.as_pointer())))

    def _access(self, instruction: Any) -> Any:
        instruction.align = 4 if self.digits == 23 else 8  # arrays need not start at a multiple of a vector
        return instruction


LAYOUTS: dict[Any, tuple[Any, Any, int, int, int, tuple[float, ...]]] = {
    types.float32: (ir.FloatType(), ir.IntType(32), 23, 0x3F3504F3, 0x3F800000, _coefficients(7)),  # to 4e-8
    types.float64: (ir.DoubleType(), ir.IntType(64), 52, 0x3FE6A09E667F3BCD, 0x3FF0000000000000, _coefficients(18)),
}


@intrinsic
def address(typing: Any, array: Any, offset: Any) -> Any:
    """The address of the element at a flat offset of a contiguous array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.gep(view.data, [args[1]])

    return types.CPointer(array.dtype)(array, types.intp), code


@intrinsic
def add_product(typing: Any, a: Any, b: Any, out: Any, depth: Any, stride: Any) -> Any:
    """out[ROWS, 2 vectors] += a[depth, ROWS]^T b[depth, 2 vectors], in registers; out's rows lie `stride` apart."""
    dtype = a.dtype
    width = panel_width(dtype.name) // 2

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b, out, depth, stride = args
        vector, index = Vector.of(builder, dtype, width), depth.type

        def at(base: Any, *offsets: Any) -> Any:
            for offset in offsets:
                base = builder.gep(base, [offset])
            return base

        def number(value: int) -> Any:
            return ir.Constant(index, value)

        tile = [(r, v) for r in range(ROWS) for v in range(2)]
        places = [at(out, builder.mul(stride, number(r)), number(v * width)) for r, v in tile]
        before, body, after = builder.block, builder.append_basic_block("draw"), builder.append_basic_block("sum")
        builder.branch(body)

        builder.position_at_end(body)
        k, sums = builder.phi(index), [builder.phi(vector.real) for _ in tile]
        row_a, row_b = builder.mul(k, number(ROWS)), builder.mul(k, number(2 * width))
        b_k = [vector.load(at(b, row_b, number(v * width))) for v in range(2)]
        a_k = [vector.spread(builder.load(at(a, row_a, number(r)))) for r in range(ROWS)]
        grown = [vector.fma(a_k[r], b_k[v], total) for (r, v), total in zip(tile, sums, strict=True)]
        following = builder.add(k, number(1))
        for value, start, step in zip(
            [k, *sums], [number(0), *[vector.all(0)] * len(tile)], [following, *grown], strict=True
        ):
            value.add_incoming(start, before)
            value.add_incoming(step, body)
        builder.cbranch(builder.icmp_signed("<", following, depth), body, after)

        builder.position_at_end(after)
        for place, total in zip(places, grown, strict=True):
            vector.store(builder.fadd(vector.load(place), total), place)
        return context.get_dummy_value()

    return types.void(a, b, out, types.intp, types.intp), code


@intrinsic(prefer_literal=True)
def add_centred_terms(typing: Any, lanes: Any, u: Any, p: Any, share: Any, right: Any, below: Any, row: Any) -> Any:
    """In `lanes` neighbouring places: row += share phi(u), right += share u, below += p u.

    The pointers stand at the first place. `right` and `below` add up to what the left-out classes lack.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = Vector.of(builder, u.dtype, lanes.literal_value)
        _, u_at, p, share_at, right_at, below_at, row_at = args
        given, share = vector.load(u_at), vector.load(share_at)
        phi = _phi(vector, builder.fadd(given, vector.all(1)), given)
        for place, factor, value in (
            (right_at, share, given),
            (below_at, vector.spread(p), given),
            (row_at, share, phi),
        ):
            vector.store(vector.fma(factor, value, vector.load(place)), place)
        return context.get_dummy_value()

    return types.void(lanes, u, u.dtype, share, right, below, row), code


@intrinsic(prefer_literal=True)
def add_terms(typing: Any, lanes: Any, t: Any, share: Any, row: Any) -> Any:
    """In `lanes` neighbouring places: row += share phi(t - 1)."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = Vector.of(builder, t.dtype, lanes.literal_value)
        _, t_at, share_at, row_at = args
        phi = _phi(vector, vector.load(t_at))
        vector.store(vector.fma(vector.load(share_at), phi, vector.load(row_at)), row_at)
        return context.get_dummy_value()

    return types.void(lanes, t, share, row), code


@intrinsic(prefer_literal=True)
def add_divergence_terms(typing: Any, lanes: Any, t: Any, u: Any, p: Any, row: Any) -> Any:
    """In `lanes` neighbouring places: row += p phi(u), given both t = 1 + u and u."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = Vector.of(builder, t.dtype, lanes.literal_value)
        _, t_at, u_at, p, row_at = args
        phi = _phi(vector, vector.load(t_at), vector.load(u_at))
        vector.store(vector.fma(vector.spread(p), phi, vector.load(row_at)), row_at)
        return context.get_dummy_value()

    return types.void(lanes, t, u, t.dtype, row), code


@intrinsic(prefer_literal=True)
def set_two_class_information(
    typing: Any, lanes: Any, centred: Any, first: Any, second: Any, p: Any, q: Any, share: Any, rest: Any, out: Any
) -> Any:
    """In `lanes` neighbouring places: out = sum_(y, y*) p(y) p(y*) phi(u), two classes of each side.

    `p` and `q` are p(y), and `share` and `rest` stand at p(y*), of the rarer class and of the other. If centred,
    `first` stands at u of the rarer classes, and p(y) u and p(y*) u sum to zero (`second` is not read). Else shares are
    k p(y*), and `first` and `second` stand at sum_k p_k(y) p*_k(y*) of the candidate's rarer class: whole numbers where
    draws are votes, so that what is left for the other class is exact. Then the result is k times the information.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = Vector.of(builder, first.dtype, lanes.literal_value)
        _, _, first_at, second_at, p, q, share_at, rest_at, out_at = args
        nothing, one, p, q = vector.all(0), vector.all(1), vector.spread(p), vector.spread(q)
        share, rest, given = vector.load(share_at), vector.load(rest_at), vector.load(first_at)

        def phi(u: Any) -> Any:
            return _phi(vector, builder.fadd(u, one), u)

        def inverse(value: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", value, nothing), builder.fdiv(one, value), nothing)

        if centred.literal_value:
            down, across = (builder.fneg(builder.fdiv(a, b)) for a, b in ((p, q), (share, rest)))
            below, beside = builder.fmul(given, down), builder.fmul(given, across)
            cells = [phi(given), phi(beside), phi(below), phi(builder.fmul(below, across))]
        else:
            sums = ((given, share, inverse(share)), (vector.load(second_at), rest, inverse(rest)))
            upper, lower = inverse(p), inverse(q)
            cells = [_phi(vector, builder.fmul(builder.fmul(part, over), upper)) for part, _, over in sums]
            cells += [
                _phi(vector, builder.fmul(builder.fmul(builder.fsub(all_, part), over), lower))
                for part, all_, over in sums
            ]
        upper, lower = (
            vector.fma(share, near, builder.fmul(rest, far)) for near, far in zip(cells[::2], cells[1::2], strict=True)
        )
        vector.store(vector.fma(p, upper, builder.fmul(q, lower)), out_at)
        return context.get_dummy_value()

    return types.void(lanes, centred, first, second, p, q, share, rest, out), code


def _phi(vector: Vector, t: Any, u: Any = None) -> Any:
    """phi(u) in every lane, given t = 1 + u, and u itself where it is known to more digits than t - 1.

    With t = 2^e (1 + f) and f in [sqrt(1/2) - 1, sqrt(2) - 1): phi(u) = 2^e phi(f) + t e log 2 + 1 - 2^e. At e = 0 that
    is phi(f), and there f = u.
    """
    builder, whole = vector.builder, vector.all_whole
    t = builder.select(builder.fcmp_ordered(">", t, vector.all(1e-30)), t, vector.all(1e-30))
    bits = builder.bitcast(t, vector.whole)
    e = builder.ashr(builder.sub(bits, whole(vector.half_root)), whole(vector.digits))
    shift = builder.shl(e, whole(vector.digits))
    power = builder.bitcast(builder.add(shift, whole(vector.one)), vector.real)
    f = builder.fsub(builder.bitcast(builder.sub(bits, shift), vector.real), vector.all(1))
    if u is not None:
        f = builder.select(builder.icmp_signed("==", e, whole(0)), u, f)
    e_log2 = builder.fmul(builder.sitofp(e, vector.real), vector.all(np.log(2.0)))
    far = vector.fma(t, e_log2, builder.fsub(vector.all(1), power))
    square = builder.fmul(f, f)
    return vector.fma(builder.fmul(power, square), _polynomial(vector, f, square), far)


def _polynomial(vector: Vector, f: Any, square: Any) -> Any:
    """phi(f) / f^2; in pairs, pairs of pairs, ...: a third of the waiting of one chain of multiply-adds."""
    terms, power = [vector.all(value) for value in vector.coefficients], f
    while len(terms) > 1:
        odd = terms[len(terms) & ~1 :]
        terms = [vector.fma(high, power, low) for low, high in zip(terms[::2], terms[1::2], strict=False)] + odd
        power = square if power is f else vector.builder.fmul(power, power)
    return terms[0]
