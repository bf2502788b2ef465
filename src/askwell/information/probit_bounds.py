"""A close upper bound on probit EPIG, and with it the exactly best candidates without scoring all of them.

With a, ρ and δ as in `probit.py`, p = Φ(a), q = 1 - p, and He the Hermite polynomials, Mehler's formula is a series in
which each term is a product of something of the candidate and something of the target:

    δ = Σ_(n >= 1) ρ^n h_n(a) h_n(a*),    h_n(a) = φ(a) He_(n-1)(a) / √n!,    Σ_n h_n(a)² = p q.

By Cauchy and Schwarz what follows the first N terms is at most |ρ|^(N+1) r_N(a) r_N(a*), r_N² = p q - Σ_(n <= N) h_n²:
an interval that holds δ, from sixteen multiply-adds. The information of two labels is convex in δ and zero at δ = 0, so
an end of the interval bounds it. Where |ρ| is not near one the bound is a part in a thousand above EPIG, and few
candidates need more than the bound, which takes a twentieth of the time.

For BALD there is a bound without a loop. H[Φ(f)] lies below log 2 · exp(-f² / (π log 2)), and nowhere further than
0.0019 (Houlsby et al. 2011 use it as an approximation), and the mean of that over a Gaussian f is known.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import entr, ndtr

from askwell.arrays import Array, accept, as_numpy, normalised_weights, spans, threads
from askwell.information import probit

__all__ = ["Rows", "bald_bound", "mehler_bound", "top_bald", "top_epig"]

Rows: TypeAlias = Callable[[Any], Array]
"""From a slice or an array of positions of candidates to their covariances with the targets, [rows, m]."""

SURE = 8.0  # |a| from which on the entropy of a label, 2e-14, is bound enough
STEEPEST = 0.52  # of δ as a function of ρ, while |ρ| <= 0.95: 1 / 2π√(1 - ρ²)
ROUNDING = 3e-6  # of the series in single precision, relative to √(p q p* q*), the most that δ can be
RAISED = 1 + 2e-5  # more than single precision loses in 1000 sums
SUSPECT = 0.5  # of what `probit.epig` lets |ρ| be beyond what the variances allow: single precision may lose the rest
PAIRS = 1 << 18  # in one block of covariances
HEAD = 32  # candidates scored first, to have a bar for the others
HOULSBY = math.pi * math.log(2) / 2
HOULSBY_GAP = 0.00188  # more than that log 2 · exp(-f² / 2 HOULSBY) is above H[Φ(f)], at f = 2.31


def mehler_bound(
    mean: Array,
    target_mean: Array,
    variance: Array,
    target_variance: Array,
    covariance: Array | Rows,
    *,
    weights: Array | None = None,
    error: float = 0.0,
) -> np.ndarray:
    """An upper bound on `probit.epig` of the same arguments, `[n]`, that is close where |ρ| is not near one.

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
    covariance: Array | Rows,
    size: int,
    *,
    weights: Array | None = None,
    rough: Rows | None = None,
    error: float = 0.0,
) -> tuple[Array, Array]:
    """The `size` candidates with the highest EPIG, best first: (indices [size], scores [size]).

    Exactly what sorting `probit.epig` would give, equal scores in order of index, but a candidate is scored only while
    its bound is not below the scores that are known. `covariance` is `[n, m]`, or a function from rows (a slice, or
    positions) to their covariances, so that a large pool needs little memory; `rough` is a faster function for slices,
    for the bounds only, wrong by up to `error`.

    >>> mean, variance = np.array([0.0, 0.0, 2.0]), np.array([1.0, 3.0, 1.0])
    >>> top_epig(mean, np.array([0.5]), variance, np.array([1.0]), np.array([[0.9], [0.9], [-0.9]]), 2)
    (array([0, 1]), array([0.04258..., 0.02039...]))
    """
    latents, rows, xp = _accepted(mean, target_mean, variance, target_variance, covariance)
    _check_size(size, len(latents.mean))

    def score(index: np.ndarray) -> np.ndarray:
        own, their = (latents.mean[index], latents.variance[index]), (latents.target_mean, latents.target_variance)
        scores: np.ndarray = probit.epig(own[0], their[0], own[1], their[1], rows(index), weights=weights)
        return scores

    promise = _bounds(latents, rows if rough is None else rough, weights, error, SUSPECT)
    suspects = np.flatnonzero(np.isnan(promise))
    if len(suspects) and not callable(covariance):
        try:
            score(suspects)
        except ValueError:
            probit.epig(mean, target_mean, variance, target_variance, covariance)  # which names it by its place
            raise
    best, scores = _best_of(score, promise, size, max(HEAD, PAIRS // len(latents.target_mean)))
    return xp.asarray(best), xp.asarray(scores)


def bald_bound(mean: Array, variance: Array) -> np.ndarray:
    """An upper bound on `probit.bald`, at most 0.0019 above it: `[n], [n] -> [n]`.

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
    """The `size` candidates with the highest BALD, best first, exactly as `probit.bald`: (indices, scores).

    >>> top_bald([0.0, 0.0, 3.0], [0.01, 1.0, 1.0], 1)
    (array([1]), array([0.19314...]))
    """
    xp, (mean, variance) = accept(mean=mean, variance=variance)
    _check_size(size, mean.shape[0])
    m, v = (np.asarray(as_numpy(each)) for each in (mean, variance))
    promise = bald_bound(m, v)
    best, scores = _best_of(lambda index: probit.bald(m[index], v[index]), promise, size, 1 << 10)
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


def _bounds(latents: _Latents, rows: Rows, weights: Array | None, error: float, share: float) -> np.ndarray:
    """The bounds `[n]`; NaN where |ρ| is further beyond what the variances allow than this share of the tolerance."""
    from askwell.information._kernels import probit_bound as kernels  # here, because it imports numba

    mean, target_mean, variance, target_variance = latents
    m, block, given_weights = len(target_mean), kernels.BLOCK, normalised_weights(weights, len(target_mean))
    padding = (0, -m % block)  # targets of no weight, to make blocks whole
    their_mean, their_variance = np.pad(target_mean, padding), np.pad(target_variance, padding)
    w = np.pad(np.full(m, 1 / m) if given_weights is None else given_weights, padding)
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
        kernels.add_bounds(given, terms, own, *targets, share * probit.tolerance(*latents, given) + error, found)
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
    mean: Array, target_mean: Array, variance: Array, target_variance: Array, covariance: Array | Rows
) -> tuple[_Latents, Rows, Any]:
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


def _check_size(size: int, n: int) -> None:
    if not 0 <= size <= n:
        raise ValueError(
            f"size must be between 0 and the number of candidates, {n}, but it is {size}. Ask for fewer, or give a "
            "larger pool."
        )
