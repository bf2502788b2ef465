"""The compiled loop of `probit.mehler_bound`: candidates against targets, in single precision.

Importing this file imports numba. Every loop over targets is short, straight and over whole rows of one small block,
because that is what LLVM turns into vectors; the last step, from δ to the information of two labels, is the one of the
draws (`epig.py`).
"""

# mypy: disable-error-code="untyped-decorator, no-any-return"

from typing import Any

import numpy as np

from askwell.compiling import kernel
from askwell.information._kernels.epig import two_class_information

__all__ = ["BLOCK", "ENTROPY", "FAR", "TERMS", "add_bounds"]

TERMS = 16  # of the series: four calls of `_four_terms` below
BLOCK = 128  # targets: their rows stay in the nearest cache while all candidates go by
ROOT, REACH, TAIL, SLIP, RARE, OTHER, INVERSE, CHI, ENTROPY, WEIGHT = range(10)
"""What is known of an input: ±1/√(1+v), √(v/(1+v)), r_N, the slip of δ, p of the rarer label, 1 - p, 1/p, 1/√(pq), H.

Only targets have a weight."""
FAR = 0.95  # |ρ| from which on the series says nothing, and the label itself is the bound
FAR_32, ZERO, ONE = np.float32(FAR), np.float32(0), np.float32(1)

# Sums may be taken in any order. NaN stays NaN: the caller must see it.
compiled = kernel(nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})


@compiled
def _correlations(covariance: Any, own: Any, root: Any, reach: Any, tolerance: Any, rho: Any) -> Any:
    """Fill `rho` with the correlations of a row, clipped to what the variances allow; how many were beyond, or NaN."""
    own_root, own_reach, faults = own[ROOT], own[REACH], np.int32(0)
    for j in range(covariance.shape[0]):
        bound = own_reach * reach[j]
        given = np.float32(covariance[j]) * own_root * root[j]
        faults += np.int32(0) if abs(given) <= bound + tolerance else np.int32(1)
        rho[j] = min(max(given, -bound), bound)
    return faults


@compiled
def _four_terms(total: Any, rho: Any, own: Any, h: Any, n: int) -> None:
    """Four steps of Horner's rule, from the higher power to the lower."""
    g0, g1, g2, g3 = own[n], own[n + 1], own[n + 2], own[n + 3]
    for j in range(BLOCK):
        r, top = rho[j], total[j]
        top = ((top * r + g3 * h[n + 3, j]) * r + g2 * h[n + 2, j]) * r + g1 * h[n + 1, j]
        total[j] = top * r + g0 * h[n, j]


@compiled
def _remainders(rho: Any, own: Any, tail: Any, slip: Any, rest: Any) -> None:
    """|ρ|^(TERMS + 1) times both tails, and what rounding and the error of the covariance may do."""
    own_tail, own_slip = own[TAIL], own[SLIP]
    for j in range(BLOCK):
        power = rho[j] * rho[j]
        power *= power
        power *= power
        power *= power
        rest[j] = power * abs(rho[j]) * own_tail * tail[j] + own_slip * slip[j]


@compiled
def _extremes(total: Any, rho: Any, rest: Any, own: Any, other: Any, inverse: Any, u: Any) -> None:
    """Fill `u` with δ/(p p*) at its farthest from zero; where its sign is open with 0, and `total` with that |δ|."""
    most, scale = own[OTHER] * own[INVERSE], own[INVERSE]
    for j in range(BLOCK):
        delta = total[j] * rho[j]
        size = abs(delta)
        away = ONE if abs(rho[j]) > FAR_32 else size + rest[j]
        x = away * scale * inverse[j]
        up = min(x, min(most, other[j] * inverse[j]))
        signed = up if delta > ZERO else max(-x, -ONE)
        is_open = rest[j] > size
        u[j] = ZERO if is_open else signed
        total[j] = away if is_open else ZERO


@compiled
def _add_open(total: Any, own: Any, chi: Any, entropy: Any, weight: Any, told: Any) -> Any:
    """The weighted sum of what is told, and of min(chi², H[y], H[y*]) where the sign of δ is open."""
    own_chi, own_entropy, score = own[CHI], own[ENTROPY], ZERO
    for j in range(BLOCK):
        root = total[j] * own_chi * chi[j]
        score += weight[j] * (told[j] + min(root * root, min(own_entropy, entropy[j])))
    return score


@compiled
def add_bounds(covariance: Any, own_terms: Any, own: Any, terms: Any, target: Any, tolerance: float, out: Any) -> None:
    """Add to `out [n]` the bounds for `covariance [n, m]`; NaN where a covariance is faulty.

    `own_terms [n, TERMS]` and `own [n, 9]` are of the candidates, `terms [blocks, TERMS, BLOCK]` and
    `target [blocks, 10, BLOCK]` of the targets, padded with targets of no weight.
    """
    n, m = covariance.shape
    u, told, rest = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    rho, total, slack = np.zeros(BLOCK, np.float32), np.empty(BLOCK, np.float32), np.float32(tolerance)
    for block in range(terms.shape[0]):
        h, t, start = terms[block], target[block], block * BLOCK
        root, reach, tail, slip, rare, other = t[ROOT], t[REACH], t[TAIL], t[SLIP], t[RARE], t[OTHER]
        inverse, chi, entropy, weight = t[INVERSE], t[CHI], t[ENTROPY], t[WEIGHT]
        rho[:] = 0
        for i in range(n):
            g, x = own_terms[i], own[i]
            if _correlations(covariance[i, start : min(start + BLOCK, m)], x, root, reach, slack, rho) > 0:
                out[i] = np.nan
            total[:] = 0
            for first in range(TERMS - 4, -1, -4):
                _four_terms(total, rho, g, h, first)
            _remainders(rho, x, tail, slip, rest)
            _extremes(total, rho, rest, x, other, inverse, u)
            two_class_information(u, x[RARE], x[OTHER], rare, other, told)
            out[i] += _add_open(total, x, chi, entropy, weight, told)
