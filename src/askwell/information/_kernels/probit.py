"""Two probit labels, pair by pair: their covariance δ and their mutual information. The formula stands here twice.

Once for one pair, compiled (`spread`, `average`: NumPy arrays and tensors on the CPU), and once in whole arrays
(`array_label_covariance`, `array_information`: any device). The two share the constants and are tested against each
other; importing this file imports numba, so `probit.py` does it on first use.

With `z² = (1 - ρ) / (1 + ρ)` the derivative of Φ2 in ρ loses its square roots, and for ρ >= 0

    δ(ρ) = Φ2(a, b; ρ) - Φ(a) Φ(b) = 1/π ∫_{z(ρ)}^{1} exp(-(a² + b²)/4 - E(z)) / (1 + z²) dz,
    E(z) = ((a + b)² z² + (a - b)² / z²) / 8.

E is convex in log z, so the stretch of z that matters is known in closed form: Gauss-Legendre runs on that stretch
only, and is accurate relative to δ, however small δ is. Near ρ = 1, where exp(-(a - b)²/8z²) turns into a step, the
missing piece δ(1) - δ(ρ), an integral over [0, z(ρ)], is summed as a power series in z² instead, each power of which
integrates exactly. A negative ρ is a positive one with the second label turned over.
"""

# mypy: disable-error-code="untyped-decorator, no-any-return"

import math
from typing import Any

import numpy as np
import scipy.special

from askwell.arrays import Array
from askwell.compiling import kernel

__all__ = ["array_correlation", "array_information", "array_label_covariance", "average", "spread"]

A, ROOT, REACH, P1, P0 = range(5)
"""The columns of `x [n, 5]` and `t [m, 5]`, as `probit.py` lays them: a, √(1+v), √(v/(1+v)), Φ(a), Φ(-a)."""

DEPTH = 36.0  # where the integrand is e^-36 of its peak, it no longer matters to a double
NEAR_ONE = 0.9  # from here on the missing piece is the easier one...
GENTLE = 2.0  # ...unless (a + b)² z² / 8 is large: then its series would cancel, and the stretch is short anyway
TERMS = 24  # 2^j / j! and 0.053^j are below rounding by then
CERTAIN = 1e-150  # a label so sure has nothing to tell; above it no product or ratio below leaves the range of doubles
NEAR_ZERO = 0.25  # |u| below which (1 + u) log(1 + u) - u is summed, not subtracted


def _rule(size: int) -> np.ndarray:
    x, w = np.polynomial.legendre.leggauss(size)
    return np.stack([(1 + x) / 2, w / 2], axis=1)  # [size, 2]: points and weights on [0, 1]


SHORT, MIDDLE, LONG, WHOLE = _rule(6), _rule(10), _rule(18), _rule(40)  # WHOLE: a peak with both of its flanks

compiled = kernel(nogil=True, error_model="numpy")


@compiled
def _stretch(p: float, q: float, rho: float) -> tuple[float, float, float]:
    """The ends of the stretch in τ = (1 - z)/(1 + z), and the largest exponent on it; p = (a + b)², q = (a - b)²."""
    w = (1 - rho) / (1 + rho)  # z² at the far end
    low, high = 0.0, rho / (1 + math.sqrt((1 - rho) * (1 + rho)))
    largest = max(p + q, p * w + q / w) / 8
    if largest > DEPTH:
        peak = 1.0 if q >= p else max(math.sqrt(q / p), w)
        half = (p * peak + q / peak) / 2 + 4 * DEPTH
        both = half + math.sqrt(max(half * half - p * q, 0.0))  # E <= E(peak) + DEPTH: a quadratic in z²
        if both < p:
            low = (1 - math.sqrt(both / p)) / (1 + math.sqrt(both / p))
        if q > both * w:
            high = (1 - math.sqrt(q / both)) / (1 + math.sqrt(q / both))
    return low, high, largest


@compiled
def _integral(a: float, b: float, rho: float) -> float:
    """δ by Gauss-Legendre in τ, which moves the essential singularity z = 0 away from the stretch."""
    p, q = (a + b) * (a + b), (a - b) * (a - b)
    low, high, largest = _stretch(p, q, rho)
    rule = SHORT if high < 0.11 and largest < 7 else MIDDLE if high < 0.34 and largest < 12 else LONG
    rule = rule if largest < 20 else WHOLE
    base, width, total = (a * a + b * b) / 4, high - low, 0.0
    for i in range(rule.shape[0]):
        t = low + width * rule[i, 0]
        near, far, one = (1 - t) * (1 - t), (1 + t) * (1 + t), 1 + t * t
        inverse = 1 / (near * far * one)
        total += (
            rule[i, 1] * math.exp(-base - (p * near * near + q * far * far) * one * inverse / 8) * near * far * inverse
        )
    return total * width / math.pi


@compiled
def _missing(a: float, b: float, w: float) -> float:
    """δ(1) - δ(ρ) as a series in w = z(ρ)²; `moment` is ∫_0^1 v^2j exp(-k²/2v²) dv, by parts from the one before."""
    k2 = (a - b) * (a - b) / (4 * w)
    edge = math.exp(-k2 / 2)
    moment = edge - math.sqrt(k2 * math.pi / 2) * math.erfc(math.sqrt(k2 / 2))
    growth = -(a + b) * (a + b) * w / 8
    term, coefficient, total = 1.0, 1.0, moment
    for j in range(1, TERMS):
        term *= growth / j
        coefficient = term - w * coefficient
        moment = (edge - k2 * moment) / (2 * j + 1)
        total += coefficient * moment
    return max(total, 0.0) * math.sqrt(w) * math.exp(-(a * a + b * b) / 4) / math.pi


@compiled
def _upward(a: float, b: float, rho: float, limit: float) -> float:
    """δ for ρ >= 0, given its value `limit` at ρ = 1."""
    w = (1 - rho) / (1 + rho)
    if rho > NEAR_ONE and (a + b) * (a + b) * w <= 8 * GENTLE:
        far = (a - b) * (a - b) > 8 * 2 * DEPTH * w  # the missing piece is below rounding, or ρ is one
        return limit if w == 0 or far else max(limit - _missing(a, b, w), 0.0)
    return min(_integral(a, b, rho), limit)


@compiled
def _covariance(x: np.ndarray, t: np.ndarray, rho: float) -> float:
    a, b = x[A], t[A]
    if rho >= 0:
        return _upward(a, b, rho, x[P1] * t[P0] if a < b else t[P1] * x[P0])
    return -_upward(a, -b, -rho, x[P1] * t[P1] if a < -b else t[P0] * x[P0])


@compiled
def _cell(delta: float, q: float) -> float:
    """One of the four cells of the mutual information, q ((1 + u) log(1 + u) - u) with u = δ/q."""
    if abs(delta) < NEAR_ZERO * q:
        s = delta / (2 * q + delta)  # log(1 + u) = 2 artanh(s)
        w = s * s
        tail = 1 / 3 + w * (1 / 5 + w * (1 / 7 + w * (1 / 9 + w * (1 / 11 + w * (1 / 13 + w * (1 / 15 + w / 17))))))
        return delta * s * (1 + (1 + s) * s * tail)
    u = delta / q
    return q * ((1 + u) * math.log1p(u) - u) if u > -1 else q


@compiled
def _information(x: np.ndarray, t: np.ndarray, rho: float) -> float:
    if min(x[P1], x[P0], t[P1], t[P0]) < CERTAIN:
        return 0.0
    delta = _covariance(x, t, rho)
    same = _cell(delta, x[P1] * t[P1]) + _cell(delta, x[P0] * t[P0])
    other = _cell(-delta, x[P1] * t[P0]) + _cell(-delta, x[P0] * t[P1])
    return min(same + other, math.log(2.0))


@compiled
def _correlation(covariance: float, x: np.ndarray, t: np.ndarray, tolerance: float) -> float:
    """ρ of the two noisy latents, clipped to what the variances allow; NaN if it is further beyond than `tolerance`."""
    rho = covariance / (x[ROOT] * t[ROOT])
    bound = x[REACH] * t[REACH]
    return min(max(rho, -bound), bound) if abs(rho) <= bound + tolerance else math.nan


@compiled
def spread(covariance: Any, x: Any, t: Any, tolerance: float, information: bool, out: Any) -> int:
    """Fill `out [n, m]` with the mutual information (or δ) of all pairs; the first faulty pair i*m + j, or -1."""
    n, m = covariance.shape
    for i in range(n):
        for j in range(m):
            rho = _correlation(covariance[i, j], x[i], t[j], tolerance)
            if math.isnan(rho):
                return int(i * m + j)
            out[i, j] = _information(x[i], t[j], rho) if information else _covariance(x[i], t[j], rho)
    return -1


@compiled
def average(covariance: Any, x: Any, t: Any, tolerance: float, weights: Any, out: Any) -> int:
    """Fill `out [n]` with the weighted mean over targets of the mutual information; the first faulty pair, or -1."""
    n, m = covariance.shape
    for i in range(n):
        total = 0.0
        for j in range(m):
            rho = _correlation(covariance[i, j], x[i], t[j], tolerance)
            if math.isnan(rho):
                return int(i * m + j)
            total += weights[j] * _information(x[i], t[j], rho)
        out[i] = min(total, math.log(2.0))
    return -1


def array_correlation(xp: Any, covariance: Array, x: Array, t: Array, tolerance: float) -> Array:
    """`_correlation` in whole arrays: `[n, m], [n, 5], [m, 5] -> [n, m]`, NaN where a pair is at fault."""
    rho = covariance / (x[:, ROOT, None] * t[None, :, ROOT])
    bound = x[:, REACH, None] * t[None, :, REACH]
    return xp.where(xp.abs(rho) <= bound + tolerance, xp.minimum(xp.maximum(rho, -bound), bound), xp.nan)


def array_label_covariance(xp: Any, rho: Array, x: Array, t: Array) -> Array:
    """`_covariance` in whole arrays: `[n, m], [n, 5], [m, 5] -> [n, m]`."""
    up = rho >= 0
    a = x[:, A, None] + xp.zeros_like(rho)  # [n, m]
    b = xp.where(up, t[None, :, A], -t[None, :, A])
    high, low = (xp.where(up, t[None, :, one], t[None, :, other]) for one, other in ((P1, P0), (P0, P1)))
    limit = xp.where(a < b, x[:, P1, None] * low, high * x[:, P0, None])
    rho = xp.abs(rho)
    w = xp.maximum((1 - rho) / (1 + rho), xp.full_like(rho, 1e-300))
    near = (rho > NEAR_ONE) & ((a + b) ** 2 * w <= 8 * GENTLE)
    rest = xp.where((a - b) ** 2 > 8 * 2 * DEPTH * w, 0.0, _array_missing(xp, a, b, w))
    delta = xp.where(near, xp.maximum(limit - rest, 0 * limit), xp.minimum(_array_integral(xp, a, b, rho), limit))
    return xp.where(up, delta, -delta)


def _array_integral(xp: Any, a: Array, b: Array, rho: Array) -> Array:
    p, q = (a + b) ** 2, (a - b) ** 2
    low, high = _array_stretch(xp, p, q, rho)
    total = 0 * rho
    for x, weight in WHOLE.tolist():
        t = low + (high - low) * x
        near, far = (1 - t) ** 2, (1 + t) ** 2
        total = total + weight * xp.exp(-(a * a + b * b) / 4 - (p * near / far + q * far / near) / 8) / (1 + t * t)
    return total * (high - low) / math.pi


def _array_stretch(xp: Any, p: Array, q: Array, rho: Array) -> tuple[Array, Array]:
    w = xp.maximum((1 - rho) / (1 + rho), xp.full_like(rho, 1e-300))
    peak = xp.where(q >= p, 1.0, xp.maximum(xp.sqrt(q / xp.where(p > q, p, 1.0)), w))
    half = (p * peak + q / peak) / 2 + 4 * DEPTH
    both = half + xp.sqrt(xp.maximum(half * half - p * q, 0 * half))
    first = xp.sqrt(xp.where(both < p, both / xp.where(p > 0, p, 1.0), 1.0))
    last = xp.sqrt(xp.where(q > both * w, q / both, 1.0))
    high = xp.where(q > both * w, (1 - last) / (1 + last), rho / (1 + xp.sqrt((1 - rho) * (1 + rho))))
    return (1 - first) / (1 + first), high


def _array_missing(xp: Any, a: Array, b: Array, w: Array) -> Array:
    special = xp.special if hasattr(xp, "special") else scipy.special
    k2 = xp.minimum((a - b) ** 2 / (4 * w), xp.full_like(w, 8 * DEPTH))
    edge = xp.exp(-k2 / 2)
    moment = edge - xp.sqrt(k2 * math.pi / 2) * special.erfc(xp.sqrt(k2 / 2))
    growth = -xp.minimum((a + b) ** 2 * w / 8, xp.full_like(w, GENTLE))
    term = coefficient = xp.ones_like(w)
    total = moment
    for j in range(1, TERMS):
        term = term * growth / j
        coefficient = term - w * coefficient
        moment = (edge - k2 * moment) / (2 * j + 1)
        total = total + coefficient * moment
    return xp.maximum(total, 0 * total) * xp.sqrt(w) * xp.exp(-(a * a + b * b) / 4) / math.pi


def array_information(xp: Any, rho: Array, x: Array, t: Array) -> Array:
    """`_information` in whole arrays: `[n, m], [n, 5], [m, 5] -> [n, m]`."""
    certain = (xp.min(x[:, P1:], axis=1) < CERTAIN)[:, None] | (xp.min(t[:, P1:], axis=1) < CERTAIN)[None, :]
    delta = array_label_covariance(xp, rho, x, t)
    total = 0 * delta
    for i, j, sign in ((P1, P1, 1), (P0, P0, 1), (P1, P0, -1), (P0, P1, -1)):
        q = xp.where(certain, 1.0, x[:, i, None] * t[None, :, j])
        total = total + _array_cell(xp, sign * delta, q)
    return xp.where(certain, 0.0, xp.minimum(total, xp.full_like(total, math.log(2))))


def _array_cell(xp: Any, delta: Array, q: Array) -> Array:
    near = xp.abs(delta) < NEAR_ZERO * q
    s = xp.where(near, delta / (2 * q + xp.where(near, delta, 0.0)), 0.0)
    tail = 0 * s
    for odd in range(17, 2, -2):
        tail = tail * s * s + 1 / odd
    u = xp.where(delta > -q, delta / q, 0.0)
    far = xp.where(delta > -q, q * ((1 + u) * xp.log1p(xp.where(u > -1, u, 0.0)) - u), q)
    return xp.where(near, delta * s * (1 + (1 + s) * s * tail), far)
