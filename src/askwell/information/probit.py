"""Binary labels behind a Gaussian latent: expected information in closed form, no sampling.

The latent `f ~ N(mean, variance)` gives the label 1 with probability Φ(f), as in probit Gaussian processes (after
expectation propagation or a variational fit) and Bayesian probit regression. With `a = mean / √(1 + variance)` and
`ρ = covariance / √((1 + variance)(1 + variance*))`,

    p(y=1) = Φ(a),    p(y=1, y*=1) = Φ2(a, a*; ρ),

so two labels are a table of four probabilities. All four differ from independence by the same ±δ, the covariance of
the labels, and the scores here are built on δ itself: small scores keep their digits. Scores are in nats.

The exactly best of many candidates are found without scoring all of them, by close upper bounds. With p = Φ(a),
q = 1 - p, and He the Hermite polynomials, Mehler's formula is a series in which each term is a product of something of
the candidate and something of the target:

    δ = Σ_(n >= 1) ρ^n h_n(a) h_n(a*),    h_n(a) = φ(a) He_(n-1)(a) / √n!,    Σ_n h_n(a)² = p q.

By Cauchy and Schwarz what follows the first N terms is at most |ρ|^(N+1) r_N(a) r_N(a*), r_N² = p q - Σ_(n <= N) h_n²:
an interval that holds δ, from sixteen multiply-adds. The information of two labels is convex in δ and zero at δ = 0, so
an end of the interval bounds it. Where |ρ| is not near one the bound is a part in a thousand above EPIG, and few
candidates need more than the bound, which takes a twentieth of the time. For BALD there is a bound without a loop:
H[Φ(f)] lies below log 2 · exp(-f² / (π log 2)), and nowhere further than 0.0019 (Houlsby et al. 2011 use it as an
approximation), and the mean of that over a Gaussian f is known.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import array_api_compat
import numpy as np
import scipy.special
from scipy.special import entr, ndtr

from askwell.arrays import Array, accept, as_numpy, shares, spans, threads
from askwell.information.shapes import check_size

__all__ = [
    "bald",
    "bald_bound",
    "epig",
    "label_covariance",
    "mehler_bound",
    "pairwise_epig",
    "top_bald",
    "top_epig",
]

CovarianceRows: TypeAlias = Callable[[Any], Array]
"""From a slice or an array of positions of candidates to their covariances with the targets, [rows, m]."""

#: How far |ρ| may be beyond what the variances allow before it is a mistake and not rounding.
TOLERANCE = {"float32": 1e-4, "float64": 1e-6}
#: Pairs that one call of the compiled loop, or one pass of the array text, goes over.
BLOCK = 1 << 20
ARRAY_BLOCK = 1 << 18
ROOT_2 = math.sqrt(2.0)
FAR = 40.0  # Φ(-40) is zero in a double
DEPTH = 40.0  # e^-40 of the peak no longer matters to a double

SURE = 8.0  # |a| from which on the entropy of a label, 2e-14, is bound enough
STEEPEST = 0.52  # of δ as a function of ρ, while |ρ| <= 0.95: 1 / 2π√(1 - ρ²)
ROUNDING = 3e-6  # of the series in single precision, relative to √(p q p* q*), the most that δ can be
RAISED = 1 + 2e-5  # more than single precision loses in 1000 sums
SUSPECT = 0.5  # of what `probit.epig` lets |ρ| be beyond what the variances allow: single precision may lose the rest
PAIRS = 1 << 18  # in one block of covariances
HEAD = 32  # candidates scored first, to have a bar for the others
HOULSBY = math.pi * math.log(2) / 2
HOULSBY_GAP = 0.00188  # more than that log 2 · exp(-f² / 2 HOULSBY) is above H[Φ(f)], at f = 2.31


def epig(
    mean: Array,
    target_mean: Array,
    variance: Array,
    target_variance: Array,
    covariance: Array,
    *,
    weights: Array | None = None,
) -> Array:
    """Expected predictive information gain, E_{x*} I(y; y*): `[n], [m], [n], [m], [n, m] -> [n]`.

    `covariance[i, j]` is the posterior covariance of the latents of candidate i and target j. Rounding may push it a
    little beyond √(variance · variance*), and it is then clipped. Exact up to rounding, also for ρ = ±1.

    >>> mean, variance = np.array([0.0, 0.0, 2.0]), np.array([1.0, 3.0, 1.0])
    >>> covariance = np.array([[0.9], [0.9], [-0.9]])
    >>> epig(mean, np.array([0.5]), variance, np.array([1.0]), covariance).round(4)
    array([0.0426, 0.0204, 0.0159])
    """
    pairs, kernels = _pairs(mean, target_mean, variance, target_variance, covariance), _kernels()
    m = pairs.covariance.shape[1]
    w = shares(weights, m)

    def loop(covariance: Array, x: Array, t: Array, out: Array) -> int:
        return int(kernels.average(covariance, x, t, pairs.tolerance, w, out))

    def text(rho: Array, x: Array, t: Array) -> Array:
        share = pairs.xp.asarray(w, device=array_api_compat.device(rho))
        return pairs.xp.sum(kernels.array_information(pairs.xp, rho, x, t) * share, axis=1)

    return _walk(pairs, pairs.covariance.shape[:1], loop, text)


def pairwise_epig(mean: Array, target_mean: Array, variance: Array, target_variance: Array, covariance: Array) -> Array:
    """Mutual information of each candidate's label with each target's, `[n], [m], [n], [m], [n, m] -> [n, m]`.

    I(y; y*) = Σ q ((1 + u) log(1 + u) - u) over the four cells, with q = p(y) p(y*) and u = ±δ/q. Every term is >= 0.

    >>> pairwise_epig([0.0], [0.0, 1.0], [1.0], [1.0, 1.0], [[0.0, 0.5]]).round(5)
    array([[0.     , 0.01074]])
    """
    return _spread(_pairs(mean, target_mean, variance, target_variance, covariance), information=True)


def label_covariance(
    mean: Array, target_mean: Array, variance: Array, target_variance: Array, covariance: Array
) -> Array:
    """δ = p(y=1, y*=1) - p(y=1) p(y*=1), `[n], [m], [n], [m], [n, m] -> [n, m]`, accurate relative to δ.

    >>> delta = label_covariance([0.0], [0.0], [1.0], [1.0], [[1.0]])  # ρ = 1/2: arcsin(ρ) / 2π = 1/12
    >>> float(delta[0, 0] * 12)
    1.0
    """
    return _spread(_pairs(mean, target_mean, variance, target_variance, covariance), information=False)


def bald(mean: Array, variance: Array) -> Array:
    """Information of a label about its own latent, `[n], [n] -> [n]`: I(y; f) = H[Φ(a)] - E_f H[Φ(f)].

    The mean of KL(p(y|f) || p(y)) over f, integrated by parts so that the integrand is positive, smooth on either side
    of f = a, and short-ranged whatever the variance:

        ∫ φ(f) |L(f) - L(a)| P(the latent is beyond f, seen from a) df,    L = log Φ/(1 - Φ).

    >>> bald([0.0, 0.0, 3.0], [0.01, 1.0, 1.0]).round(5)
    array([0.00316, 0.19315, 0.02871])
    """
    xp, (mean, variance) = accept(mean=mean, variance=variance)
    _check_latent(xp, "mean", mean, "variance", variance)
    plain = as_numpy(mean), as_numpy(variance)
    if plain[0] is None or plain[1] is None:
        return _bald(xp, xp.astype(mean, xp.float64), xp.astype(variance, xp.float64), xp.result_type(mean, variance))
    scores = _bald(np, plain[0].astype(np.float64), plain[1].astype(np.float64), np.result_type(*plain))
    return xp.asarray(scores)


def _bald(xp: Any, mean: Array, variance: Array, dtype: Any, rows: int = 2048) -> Array:
    out = xp.empty_like(mean)
    for span in spans(mean.shape[0], rows):
        out[span] = _bald_rows(xp, xp.abs(mean[span]), variance[span])
    return out.astype(dtype) if isinstance(out, np.ndarray) else xp.astype(out, dtype)


def _bald_rows(xp: Any, mean: Array, variance: Array) -> Array:
    """BALD of latents with mean >= 0, so that mean/(1 + v) <= a <= mean."""
    special, root = _special(xp), xp.sqrt(1 + variance)
    mean = xp.minimum(mean, FAR * root)
    a, reach = mean / root, math.sqrt(2 * DEPTH)
    gap = a * (variance / (1 + root))  # mean - a, without the subtraction
    sd = xp.sqrt(xp.where(variance > 0, variance, 1.0))
    above = xp.minimum(2 * DEPTH / (a + xp.sqrt(a * a + 2 * DEPTH)), gap + sd * reach)
    below = gap / root + sd / root * reach
    score = _side(xp, a, above, 1, gap, sd) + _side(xp, a, below, -1, -gap, sd)
    slope = xp.exp(-a * a - special.log_ndtr(a) - special.log_ndtr(-a)) / (2 * math.pi)  # φ(a) L'(a)
    small = variance * (1 + mean * mean) < 1e-10  # here the quadrature would subtract two nearly equal L
    return xp.where(small | (variance == 0), variance * slope / 2, xp.minimum(score, xp.full_like(score, math.log(2))))


def _side(xp: Any, a: Array, width: Array, sign: int, gap: Array, sd: Array) -> Array:
    """∫ over f from a to a ± width of φ(f) |L(f) - L(a)| Φ(±(mean - f)/sd); `gap` is ±(mean - a)."""
    special = _special(xp)
    x, w = np.polynomial.legendre.leggauss(48)
    total, here = 0 * a, special.log_ndtr(a) - special.log_ndtr(-a)
    for point, weight in zip(((1 + x) / 2).tolist(), (w / 2).tolist(), strict=True):
        f = a + sign * width * point
        rise = sign * (special.log_ndtr(f) - special.log_ndtr(-f) - here)
        total = total + weight * xp.exp(-f * f / 2) * rise * special.erfc((width * point - gap) / sd / ROOT_2) / 2
    return total * width / math.sqrt(2 * math.pi)


def _special(xp: Any) -> Any:
    return xp.special if hasattr(xp, "special") else scipy.special


# ---- the best without scoring all ------------------------------------------------------------------------------


def mehler_bound(
    mean: Array,
    target_mean: Array,
    variance: Array,
    target_variance: Array,
    covariance: Array | CovarianceRows,
    *,
    weights: Array | None = None,
    error: float = 0.0,
) -> np.ndarray:
    """An upper bound on `epig` of the same arguments, `[n]`, that is close where |ρ| is not near one.

    `covariance` is `[n, m]` or a function of rows; it may be wrong by up to `error`. A candidate with a covariance that
    its variances do not allow gets NaN.

    >>> mean, variance = np.array([0.0, 0.0, 2.0]), np.array([1.0, 3.0, 1.0])
    >>> covariance = np.array([[0.9], [0.9], [-0.9]])
    >>> mehler_bound(mean, np.array([0.5]), variance, np.array([1.0]), covariance).round(4)
    array([0.0426, 0.0204, 0.0159])
    """
    latents, rows, _ = _accepted(mean, target_mean, variance, target_variance, covariance)
    return _bounds(latents, rows, weights, error, 1.0)


def top_epig(
    mean: Array,
    target_mean: Array,
    variance: Array,
    target_variance: Array,
    covariance: Array | CovarianceRows,
    size: int,
    *,
    weights: Array | None = None,
    rough: CovarianceRows | None = None,
    error: float = 0.0,
) -> tuple[Array, Array]:
    """The `size` candidates with the highest EPIG, best first: (indices [size], scores [size]).

    Exactly what sorting `epig` would give, equal scores in order of index, but a candidate is scored only while
    its bound is not below the scores that are known. `covariance` is `[n, m]`, or a function from rows (a slice, or
    positions) to their covariances, so that a large pool needs little memory; `rough` is a faster function for slices,
    for the bounds only, wrong by up to `error`.

    >>> mean, variance = np.array([0.0, 0.0, 2.0]), np.array([1.0, 3.0, 1.0])
    >>> top_epig(mean, np.array([0.5]), variance, np.array([1.0]), np.array([[0.9], [0.9], [-0.9]]), 2)
    (array([0, 1]), array([0.04258..., 0.02039...]))
    """
    latents, rows, xp = _accepted(mean, target_mean, variance, target_variance, covariance)
    check_size(size, len(latents.mean))

    def score(index: np.ndarray) -> np.ndarray:
        own, their = (latents.mean[index], latents.variance[index]), (latents.target_mean, latents.target_variance)
        scores: np.ndarray = epig(own[0], their[0], own[1], their[1], rows(index), weights=weights)
        return scores

    promise = _bounds(latents, rows if rough is None else rough, weights, error, SUSPECT)
    suspects = np.flatnonzero(np.isnan(promise))
    if len(suspects) and not callable(covariance):
        try:
            score(suspects)
        except ValueError:
            epig(mean, target_mean, variance, target_variance, covariance)  # which names it by its place
            raise
    best, scores = _best_of(score, promise, size, max(HEAD, PAIRS // len(latents.target_mean)))
    return xp.asarray(best), xp.asarray(scores)


def bald_bound(mean: Array, variance: Array) -> np.ndarray:
    """An upper bound on `bald`, at most 0.0019 above it: `[n], [n] -> [n]`.

    >>> bald_bound([0.0, 0.0, 3.0], [0.01, 1.0, 1.0]).round(5)
    array([0.00504, 0.19459, 0.02975])
    """
    _, (mean, variance) = accept(mean=mean, variance=variance)
    m, v = (np.asarray(as_numpy(each), np.float64) for each in (mean, variance))
    a = m / np.sqrt(1 + v)
    expected = math.log(2) * np.sqrt(HOULSBY / (HOULSBY + v)) * np.exp(-m * m / (2 * (HOULSBY + v)))
    bound: np.ndarray = entr(ndtr(a)) + entr(ndtr(-a)) - expected + HOULSBY_GAP
    return bound


def top_bald(mean: Array, variance: Array, size: int) -> tuple[Array, Array]:
    """The `size` candidates with the highest BALD, best first, exactly as `bald`: (indices, scores).

    >>> top_bald([0.0, 0.0, 3.0], [0.01, 1.0, 1.0], 1)
    (array([1]), array([0.19314...]))
    """
    xp, (mean, variance) = accept(mean=mean, variance=variance)
    check_size(size, mean.shape[0])
    m, v = (np.asarray(as_numpy(each)) for each in (mean, variance))
    promise = bald_bound(m, v)
    best, scores = _best_of(lambda index: bald(m[index], v[index]), promise, size, 1 << 10)
    return xp.asarray(best), xp.asarray(scores)


def _best_of(
    score: Callable[[np.ndarray], np.ndarray], promise: np.ndarray, size: int, block: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `size` best by `score`, which no `promise` is below: scored in order of promise until none can be better.

    A promise of NaN is none: it is scored first, and refused there.
    """
    promise = np.where(np.isnan(promise), np.inf, promise)
    order = np.argsort(-promise, kind="stable")
    scores = score(order[: 2 * size + HEAD])
    while len(scores) < len(order):
        bar = float(np.partition(scores, -size)[-size]) if size else np.inf
        coming = order[len(scores) : len(scores) + block]
        coming = coming[promise[coming] >= bar]
        if not len(coming):
            break
        scores = np.concatenate([scores, score(coming)])
    index = order[: len(scores)]
    first = np.lexsort((index, -scores))[:size]
    return index[first], scores[first]


class _Latents(NamedTuple):
    mean: np.ndarray  # [n]
    target_mean: np.ndarray  # [m]
    variance: np.ndarray  # [n]
    target_variance: np.ndarray  # [m]


def _bounds(latents: _Latents, rows: CovarianceRows, weights: Array | None, error: float, share: float) -> np.ndarray:
    """The bounds `[n]`; NaN where |ρ| is further beyond what the variances allow than this share of the tolerance."""
    from askwell.information._kernels import probit_bound as kernels  # here, because it imports numba

    mean, target_mean, variance, target_variance = latents
    m, block = len(target_mean), kernels.BLOCK
    padding = (0, -m % block)  # targets of no weight, to make blocks whole
    their_mean, their_variance = np.pad(target_mean, padding), np.pad(target_variance, padding)
    w = np.pad(shares(weights, m), padding)
    terms, columns = _inputs(their_mean, their_variance, error)
    sure = _sure(their_mean, their_variance)
    apart = float(w[sure] @ columns[kernels.ENTROPY, sure])  # I <= H[y*]
    columns = np.concatenate([columns, np.where(sure, 0, w)[None]])
    targets = [_blocks(each, block) for each in (terms, columns)]
    bounds = np.empty(len(mean))

    def run(span: slice) -> None:
        terms, own = (np.ascontiguousarray(each.T, np.float32) for each in _inputs(mean[span], variance[span], error))
        given, found = np.ascontiguousarray(as_numpy(rows(span))), np.zeros(len(own), np.float32)
        if given.shape != (len(own), m):  # the loop would read beyond its end
            raise ValueError(f"covariance must give shape {(len(own), m)} for {span}, but its shape is {given.shape}.")
        kernels.add_bounds(given, terms, own, *targets, share * tolerance(*latents, given) + error, found)
        entropy = own[:, kernels.ENTROPY].astype(np.float64)
        certain = _sure(mean[span], variance[span]) & ~np.isnan(found)
        bounds[span] = RAISED * np.where(certain, entropy, np.minimum(found + apart, entropy))

    with ThreadPoolExecutor(threads()) as pool:
        list(pool.map(run, spans(len(mean), max(1, PAIRS // m))))
    return bounds


def _sure(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    sure: np.ndarray = np.abs(mean) > SURE * np.sqrt(1 + variance)
    return sure


def _inputs(mean: np.ndarray, variance: np.ndarray, error: float) -> tuple[np.ndarray, np.ndarray]:
    """The terms `[TERMS, n]` and columns `[9, n]` of inputs, each label turned so that 1 is the rarer one."""
    from askwell.information._kernels.probit_bound import TERMS

    root = np.sqrt(1 + variance)
    a = np.maximum(-np.abs(mean) / root, -SURE)
    p, q = ndtr(a), ndtr(-a)
    terms = _terms(a, TERMS)
    tail = np.sqrt(np.maximum(p * q - np.einsum("ij,ij->j", terms, terms), 0) + 1e-15 * p * q)
    slip = np.sqrt(STEEPEST * error / root + ROUNDING * p * q)  # √((x + y)(x* + y*)) >= √(x x*) + √(y y*)
    signed = np.where(mean > 0, -1.0, 1.0) / root
    columns = [signed, np.sqrt(variance) / root, tail, slip, p, q, 1 / p, 1 / np.sqrt(p * q), entr(p) + entr(q)]
    return terms, np.array(columns)


def _terms(a: np.ndarray, count: int) -> np.ndarray:
    """h_1 ... h_count `[count, n]`, by the recurrence He_(n+1) = a He_n - n He_(n-1), each over √n!."""
    terms = np.empty((count, len(a)))
    before, now = np.zeros_like(a), np.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    for n in range(1, count + 1):
        terms[n - 1] = now / math.sqrt(n)
        before, now = now, (a * now - math.sqrt(n - 1) * before) / math.sqrt(n)
    return terms


def _blocks(columns: np.ndarray, block: int) -> np.ndarray:
    """`[rows, m] -> [blocks, rows, block]`, each block in one piece of memory."""
    return np.ascontiguousarray(columns.reshape(len(columns), -1, block).swapaxes(0, 1), np.float32)


def _accepted(
    mean: Array, target_mean: Array, variance: Array, target_variance: Array, covariance: Array | CovarianceRows
) -> tuple[_Latents, CovarianceRows, Any]:
    """Means and variances in this machine's memory, covariances as a function of rows, and the array library."""
    named = {"mean": mean, "target_mean": target_mean, "variance": variance, "target_variance": target_variance}
    if not callable(covariance):
        named["covariance"] = covariance
    xp, arrays = accept(**named)
    host = [array for array in map(as_numpy, arrays) if array is not None]
    if len(host) < len(arrays):
        raise ValueError("mean and the other arrays must be in the memory of this machine. Try mean.cpu(), and so on.")
    latents = _Latents(*host[:4])
    _check_latents("variance", latents.variance, latents.mean)
    _check_latents("target_variance", latents.target_variance, latents.target_mean)
    shape = len(latents.mean), len(latents.target_mean)
    if shape[1] == 0:
        raise ValueError("target_mean must hold at least one target, but it is empty.")
    if callable(covariance):
        return latents, covariance, xp
    if host[4].shape != shape:
        raise ValueError(
            f"covariance must have shape [candidates, targets] = {shape}, but its shape is {host[4].shape}."
        )
    return latents, lambda rows: host[4][rows], xp


def _check_latents(name: str, variance: np.ndarray, mean: np.ndarray) -> None:
    if variance.ndim != 1 or variance.shape != mean.shape:
        raise ValueError(
            f"{name} must have one number per input, as its mean has, but their shapes are {variance.shape} and "
            f"{mean.shape}. Predict both for the same inputs."
        )


# ---- pairs ---------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Pairs:
    """Candidates and targets, checked, and what the pair formula asks of each."""

    xp: Any
    x: Array  # [n, 5]
    t: Array  # [m, 5]
    covariance: Array  # [n, m]
    dtype: Any
    tolerance: float


def _pairs(mean: Array, target_mean: Array, variance: Array, target_variance: Array, covariance: Array) -> _Pairs:
    named = {"mean": mean, "target_mean": target_mean, "variance": variance, "target_variance": target_variance}
    xp, arrays = accept(**named, covariance=covariance)
    mean, target_mean, variance, target_variance, covariance = arrays
    _check_latent(xp, "mean", mean, "variance", variance)
    _check_latent(xp, "target_mean", target_mean, "target_variance", target_variance)
    _check_covariance(covariance, (mean.shape[0], target_mean.shape[0]))
    x, t = _labels(mean, variance), _labels(target_mean, target_variance)
    return _Pairs(xp, x, t, covariance, xp.result_type(*arrays), tolerance(*arrays))


def tolerance(*arrays: Array) -> float:
    """How far |ρ| of these arrays may be beyond what the variances allow: as the least precise of them says."""
    return max(TOLERANCE[str(array.dtype).removeprefix("torch.")] for array in arrays)


def _spread(pairs: _Pairs, *, information: bool) -> Array:
    kernels = _kernels()

    def loop(covariance: Array, x: Array, t: Array, out: Array) -> int:
        return int(kernels.spread(covariance, x, t, pairs.tolerance, information, out))

    def text(rho: Array, x: Array, t: Array) -> Array:
        formula = kernels.array_information if information else kernels.array_label_covariance
        return formula(pairs.xp, rho, x, t)

    return _walk(pairs, pairs.covariance.shape, loop, text)


def _walk(pairs: _Pairs, shape: tuple[int, ...], loop: Callable[..., int], text: Callable[..., Array]) -> Array:
    """Run the compiled `loop` over blocks of rows in threads, or the array `text` where there is no NumPy memory."""
    covariance, x, t = as_numpy(pairs.covariance), pairs.x, pairs.t
    if covariance is None:
        return _walk_arrays(pairs, shape, text)
    out = np.empty(shape, str(pairs.dtype).removeprefix("torch."))
    m = covariance.shape[1]

    def run(span: slice) -> int:
        fault = loop(np.ascontiguousarray(covariance[span]), x[span], t, out[span])
        return fault if fault < 0 else fault + span.start * m

    with ThreadPoolExecutor(threads()) as pool:
        for fault in pool.map(run, spans(covariance.shape[0], max(1, BLOCK // m))):
            _refuse(pairs, fault)
    return pairs.xp.asarray(out)


def _walk_arrays(pairs: _Pairs, shape: tuple[int, ...], text: Callable[..., Array]) -> Array:
    xp, (n, m) = pairs.xp, pairs.covariance.shape
    out = xp.empty(shape, dtype=pairs.dtype, device=array_api_compat.device(pairs.covariance))
    for span in spans(n, max(1, ARRAY_BLOCK // m)):
        given = xp.astype(pairs.covariance[span], xp.float64)
        rho = _kernels().array_correlation(xp, given, pairs.x[span], pairs.t, pairs.tolerance)
        if bool(xp.any(xp.isnan(rho))):
            i, j = (int(axis[0]) for axis in xp.nonzero(xp.isnan(rho)))
            _refuse(pairs, (span.start + i) * m + j)
        out[span] = xp.astype(text(rho, pairs.x[span], pairs.t), pairs.dtype)
    return out


def _kernels() -> Any:
    from askwell.information._kernels import probit  # here, because it imports numba

    return probit


def _refuse(pairs: _Pairs, fault: int) -> None:
    """Word the fault of pair i*m + j; -1 is none."""
    if fault < 0:
        return
    i, j = divmod(fault, pairs.covariance.shape[1])
    value = float(pairs.covariance[i, j])
    if not math.isfinite(value):
        raise ValueError(
            f"covariance must be finite, but covariance[{i}, {j}] is {value}. Look at the model's posterior there."
        )
    bound = float(pairs.x[i, 1] * pairs.x[i, 2]) * float(pairs.t[j, 1] * pairs.t[j, 2])
    raise ValueError(
        f"covariance must not exceed sqrt(variance * target_variance), but covariance[{i}, {j}] is {value:.6g} and the "
        f"variances allow {bound:.6g}. All three must come from one joint posterior, without observation noise: check "
        "the order of rows and columns, and that standard deviations are not passed as variances."
    )


def _labels(mean: Array, variance: Array) -> Array:
    """What the pair formula asks of each label, `[n], [n] -> [n, 5]`: a, √(1+v), √(v/(1+v)), Φ(a), Φ(-a)."""
    mean, variance = (each if (near := as_numpy(each)) is None else near for each in (mean, variance))
    xp = array_api_compat.array_namespace(mean)
    m, v = (xp.astype(each, xp.float64) for each in (mean, variance))
    root = xp.sqrt(1 + v)
    a = xp.minimum(xp.maximum(m / root, xp.full_like(m, -FAR)), xp.full_like(m, FAR))
    one, zero = (_special(xp).erfc(side / ROOT_2) / 2 for side in (-a, a))  # torch's ndtr is wrong in the tail
    return xp.stack([a, root, xp.sqrt(v) / root, one, zero], axis=1)


def _check_latent(xp: Any, mean_name: str, mean: Array, variance_name: str, variance: Array) -> None:
    for name, array in ((mean_name, mean), (variance_name, variance)):
        if array.ndim != 1:
            raise ValueError(
                f"{name} must have one number per input, shape [inputs], but its shape is {tuple(array.shape)}. "
                f"Try {name}.ravel(), or numpy.diagonal if this is a covariance matrix."
            )
        fault = ~xp.isfinite(array)
        if bool(xp.any(fault)):
            i = int(xp.nonzero(fault)[0][0])
            raise ValueError(
                f"{name} must be finite, but {name}[{i}] is {float(array[i])}. Look at the model's posterior there."
            )
    if mean.shape != variance.shape:
        raise ValueError(
            f"{mean_name} and {variance_name} must have the same length, "
            f"but they have {mean.shape[0]} and {variance.shape[0]}. Predict both for the same inputs."
        )
    if bool(xp.any(variance < 0)):
        i = int(xp.nonzero(variance < 0)[0][0])
        raise ValueError(
            f"{variance_name} must not be negative, but {variance_name}[{i}] is {float(variance[i]):.6g}. "
            f"If this is rounding, clip it at 0; if these are logarithms, take their exponentials."
        )


def _check_covariance(covariance: Array, shape: tuple[int, int]) -> None:
    if shape[1] == 0:
        raise ValueError(
            "target_mean must hold at least one target, but it is empty. Pass inputs the model will meet in use."
        )
    if tuple(covariance.shape) != shape:
        hint = (
            "Try covariance.T." if tuple(covariance.shape) == shape[::-1] else "Rows are candidates, columns targets."
        )
        raise ValueError(
            f"covariance must have shape [candidates, targets] = {shape}, but its shape is {tuple(covariance.shape)}. "
            + hint
        )
