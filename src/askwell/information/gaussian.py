"""Closed forms for Gaussian beliefs: what a real-valued label would tell, from variances and covariances, in nats.

Two kinds of variance occur. That of the *latent* value f(x) = E[y|x,θ] is the model's doubt; that of the *label*,
V[y] = V[f] + noise, is what an observer meets. BALD takes the latent one and the noise apart; whatever concerns pairs
of labels (EPIG and its family) takes label variances. The noises of two labels are independent: Cov(y, y*) =
Cov(f, f*), so noise is never added to a covariance, not even between a point and its twin among the targets.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from askwell.arrays import Array, spans
from askwell.information.shapes import (
    alike,
    check_ensemble,
    check_shape,
    check_square,
    check_targets,
    check_variance,
    cholesky,
    refuse,
    rounding,
    target_weights,
    with_noise,
)

__all__ = [
    "bald",
    "epig",
    "information_between",
    "itl",
    "joint_bald",
    "moment_matched_epig",
    "pairwise_epig",
    "variance_reduction",
]

#: Numbers in one block of rows: 1 MiB of float64, so that the passes over a block stay in the processor's cache.
BLOCK = 2**17


def bald(variance: Array, noise_variance: Array | float) -> Array:
    """BALD(x) = I(y; θ | x) = ½ log(1 + V[f] / noise), for latent `variance [n]` and a noise that is a number or `[n]`.

    A noise `[n, k]` is one variance per draw, for models that learn it: ½ (log V[y] - E_θ log V[y|x,θ]) with
    V[y] = V[f] + E_θ noise, as in the paper's appendix. It takes p(y|x) for Gaussian, so it can only overstate.

    >>> bald([1.0, 3.0], 1.0)
    array([0.34657359, 0.69314718])
    """
    xp, (variance, noise) = with_noise("variance", variance, noise_variance)
    check_variance(xp, "variance", variance, "[n]")
    check_shape("noise_variance", noise, (*variance.shape, None)[: max(1, noise.ndim)], "(a number) or [n] or [n, k]")
    if 0 in noise.shape[1:]:
        raise ValueError("noise_variance must hold at least one draw on its last axis, but it has none.")
    level = noise if noise.ndim == 1 else xp.mean(noise, axis=1)
    information = 0.5 * xp.log1p(variance / level)
    if noise.ndim == 2:
        excess = noise / level[:, None] - 1
        information = information + 0.5 * xp.mean(excess - xp.log1p(excess), axis=1)
    return information


def epig(variance: Array, target_variance: Array, covariance: Array, *, weights: Array | None = None) -> Array:
    """EPIG(x) = Σ_j w_j I(y; y_j*) with I = -½ log(1 - ρ²), ρ² = Cov² / (V[y] V[y*]): `[n], [m], [n, m] -> [n]`.

    Variances are of the labels, noise included. Not by way of the determinant, which cancels: a correlation of 1e-6
    keeps its digits in float32 too. Labels that determine each other tell without bound; their ρ² is held at 1 - ε of
    the dtype, so such a pair counts 18.02 nats in float64 and 7.97 in float32, and still comes first. A ρ² above one
    by more than rounding is refused. Works in blocks of rows: beyond its input it holds a few MiB.

    >>> epig([2.0, 2.0], [2.0], [[1.0], [0.0]])
    array([0.14384104, 0.        ])
    """
    xp, (variance, target_variance, covariance) = _pairs(variance, target_variance, covariance)
    return _scores(xp, variance, target_variance, lambda span: covariance[span], weights)


def pairwise_epig(variance: Array, target_variance: Array, covariance: Array) -> Array:
    """The information I(y; y*) of every candidate with every target, before the mean: `[n], [m], [n, m] -> [n, m]`.

    >>> pairwise_epig([2.0], [2.0, 1.0], [[1.0, 0.0]])
    array([[0.14384104, 0.        ]])
    """
    xp, (variance, target_variance, covariance) = _pairs(variance, target_variance, covariance)
    check_targets(target_variance.shape[0])
    information = xp.empty_like(covariance)
    for span, rows in _blocks(xp, variance, target_variance, lambda span: covariance[span]):
        information[span] = rows
    return information


def moment_matched_epig(
    means: Array, variances: Array, target_means: Array, target_variances: Array, *, weights: Array | None = None
) -> Array:
    """EPIG of a regression ensemble: Gaussian predictions `[n, k]` and `[m, k]` of k draws, read as one joint Gaussian.

    Covariances are those of the means over draws (divided by k - 1); label variances add the mean of `variances`, the
    noise (zeros if the model has none); `epig` does the rest. Draw k must be the same parameters on both sides. Against
    nested Monte Carlo on the same draws it had the smaller error in 10 of 12 trials. It sees linear dependence only;
    `nested.gaussian_epig` sees all. BALD of the ensemble: `bald(numpy.var(means, axis=1, ddof=1), variances)`.

    >>> moment_matched_epig([[0.0, 1.0, 2.0]], [[1.0, 1.0, 1.0]], [[0.0, 1.0, 2.0]], [[1.0, 1.0, 1.0]])
    array([0.14384104])
    """
    named = {"means": means, "variances": variances, "target_means": target_means, "target_variances": target_variances}
    xp, (means, variances, target_means, target_variances) = alike(**named)
    spread, variance = _moments(xp, "", means, variances)
    check_shape("target_means", target_means, (None, means.shape[1]), "[m, k], the draws of means,")
    target_spread, target_variance = _moments(xp, "target_", target_means, target_variances)
    return _scores(xp, variance, target_variance, lambda span: spread[span] @ target_spread.T, weights)


def variance_reduction(variance: Array, covariance: Array, *, weights: Array | None = None) -> Array:
    """How much a label is expected to take off the targets' variances: Σ_j w_j Cov² / V[y], `[n], [n, m] -> [n]`.

    Known as ALC, IMSE and VTL, and as qNIPV up to a constant. Unlike EPIG it has units: wide targets outvote the rest.

    >>> variance_reduction([2.0], [[1.0, 0.0]])
    array([0.25])
    """
    xp, (variance, covariance) = alike(variance=variance, covariance=covariance)
    check_variance(xp, "variance", variance, "[n]")
    check_shape("covariance", covariance, (*variance.shape, None), "[n, m]")
    w, root = target_weights(xp, variance, covariance.shape[1], weights), _root(xp, variance)
    reduction = xp.empty_like(variance)
    for span in _rows(*covariance.shape):
        reduction[span] = (covariance[span] / root[span, None]) ** 2 @ w
    refuse(xp, "the reduction", reduction, ~xp.isfinite(reduction), "be finite", "Look at that row of covariance.")
    return reduction


def itl(variance: Array, target_covariance: Array, covariance: Array) -> Array:
    """I(y; y_1*, ..., y_m*): what a label tells of all targets at once, `[n], [m, m], [n, m] -> [n]`.

    -½ log(1 - Cov Σ⁻¹ Covᵀ / V[y]) with the targets' label covariance Σ, noise on its diagonal. It lies between EPIG
    and BALD and nears BALD as targets grow in number (information-based transductive learning).

    >>> itl([2.0], [[2.0, 0.0], [0.0, 2.0]], [[1.0, 1.0]])
    array([0.34657359])
    """
    named = {"variance": variance, "target_covariance": target_covariance, "covariance": covariance}
    xp, (variance, target_covariance, covariance) = alike(**named)
    check_variance(xp, "variance", variance, "[n]")
    check_shape("target_covariance", target_covariance, (None, None), "[m, m]")
    factor = cholesky(xp, "target_covariance", target_covariance)
    check_shape("covariance", covariance, (*variance.shape, *target_covariance.shape[1:]), "[n, m]")
    whitener = xp.linalg.solve(factor, xp.eye(factor.shape[0], dtype=factor.dtype, device=factor.device)).T
    root, information = _root(xp, variance), xp.empty_like(variance)
    for span in _rows(*covariance.shape):
        shared = xp.sum((covariance[span] / root[span, None] @ whitener) ** 2, axis=1)
        information[span] = _information(xp, shared, "candidate", span.start)
    return information


def joint_bald(covariance: Array, noise_variance: Array | float) -> Array:
    """What b labels together tell of the function: ½ log det(I + K / noise), latent `K [..., b, b]` -> `[...]`.

    The noise is a number or `[..., b]`. By eigenvalues: K may be singular, and weak dependence keeps its digits.

    >>> joint_bald([[1.0, 1.0], [1.0, 1.0]], 1.0).round(6)  # one question asked twice: ½ log 3, not log 2
    np.float64(0.549306)
    """
    xp, (covariance, noise) = with_noise("covariance", covariance, noise_variance)
    check_square(xp, "covariance", covariance)
    check_shape("noise_variance", noise, covariance.shape[:-1], "a number or [..., b]")
    root = xp.sqrt(noise)
    values = xp.linalg.eigvalsh(covariance / root[..., None] / root[..., None, :])
    low = values < -rounding(values) * xp.max(xp.abs(values), axis=-1, keepdims=True)
    hint = "No covariance has a negative one: look for a mixed-up row, or compute it in float64."
    refuse(xp, "eigenvalues of covariance", values, low, "hold numbers from 0", hint)
    return 0.5 * xp.sum(xp.log1p(xp.clip(values, 0.0, None)), axis=-1)


def information_between(covariance_a: Array, covariance_b: Array, cross: Array) -> Array:
    """I(y_A; y_B) of two Gaussian sets: `[..., a, a], [..., b, b], [..., a, b] -> [...]`.

    -½ Σ_i log(1 - ρ_i²) over the canonical correlations ρ_i, the singular values of L_A⁻¹ cross L_B⁻ᵀ: equal to
    ½ (log det A + log det B - log det joint) without its cancellation. A member of B may be a latent value, free of
    noise. Each ρ² is held at 1 - ε as in `epig`. No jitter: a matrix that is not positive definite is refused.

    >>> information_between([[2.0]], [[2.0, 0.0], [0.0, 2.0]], [[1.0, 1.0]]).round(6)
    np.float64(0.346574)
    """
    xp, (a, b, cross) = alike(covariance_a=covariance_a, covariance_b=covariance_b, cross=cross)
    factor_a, factor_b = cholesky(xp, "covariance_a", a), cholesky(xp, "covariance_b", b)
    check_shape("covariance_b", b, (*a.shape[:-2], *b.shape[-2:]), "[..., b, b] with the leading axes of covariance_a")
    check_shape("cross", cross, (*a.shape[:-1], b.shape[-1]), "[..., a, b]")
    refuse(xp, "cross", cross, ~xp.isfinite(cross), "hold finite numbers", "Look at the model there.")
    half = xp.matrix_transpose(xp.linalg.solve(factor_a, cross))
    correlations = xp.linalg.svdvals(xp.linalg.solve(factor_b, half))
    return xp.sum(_information(xp, correlations**2, "canonical direction"), axis=-1)


def _scores(xp: Any, variance: Array, target_variance: Array, rows: Callable[[slice], Array], weights: Any) -> Array:
    w = target_weights(xp, variance, target_variance.shape[0], weights)
    scores = xp.empty_like(variance)
    for span, information in _blocks(xp, variance, target_variance, rows):
        scores[span] = information @ w
    return scores


def _blocks(xp: Any, variance: Array, target_variance: Array, rows: Callable[[slice], Array]) -> Iterator[Any]:
    """Spans of candidates with their information `[r, m]`; `rows(span)` gives the covariances."""
    inverse, target_inverse = 1 / _root(xp, variance), 1 / _root(xp, target_variance)
    for span in _rows(variance.shape[0], target_variance.shape[0]):
        with np.errstate(over="ignore"):  # a covariance where both variances are zero: refused just below
            shared = (rows(span) * inverse[span, None] * target_inverse) ** 2
        yield span, _information(xp, shared, "candidate, target", span.start)


def _information(xp: Any, shared: Array, what: str, start: int = 0) -> Array:
    if not float(xp.max(shared)) <= 1 + rounding(shared):
        first, *others = (int(axis[0]) for axis in xp.nonzero(~(shared <= 1 + rounding(shared))))
        raise ValueError(
            f"covariances must obey Cov**2 <= V[y] V[y*], but the squared correlation of ({what}) "
            f"{(start + first, *others)} is {float(shared[(first, *others)]):.6g}. Usual causes: a variance without "
            "its noise, arrays from two posteriors, a NaN. Try variance + noise_variance, and one posterior for all."
        )
    return -0.5 * xp.log1p(-xp.clip(shared, None, 1 - float(xp.finfo(shared.dtype).eps)))


def _rows(n: int, m: int) -> Iterator[slice]:
    return spans(n, max(1, BLOCK // m))


def _root(xp: Any, variance: Array) -> Array:
    """Standard deviations, never zero: a label known for certain then has correlation 0/tiny = 0 with everything."""
    return xp.sqrt(xp.clip(variance, float(xp.finfo(variance.dtype).smallest_normal), None))


def _moments(xp: Any, side: str, means: Array, variances: Array) -> tuple[Array, Array]:
    """Deviations over draws `[n, k]`, scaled so that their products sum to covariances, and label variances `[n]`."""
    k = check_ensemble(xp, side, means, variances, least=2)
    deviation = means - xp.mean(means, axis=1, keepdims=True)
    trace = 4 * float(xp.finfo(means.dtype).eps) * xp.max(xp.abs(means), axis=1, keepdims=True)
    # draws that agree leave a trace of rounding, and without noise two such traces would seem fully correlated
    spread = xp.where(xp.abs(deviation) <= trace, 0 * deviation, deviation) / (k - 1) ** 0.5
    return spread, xp.sum(spread**2, axis=1) + xp.mean(variances, axis=1)


def _pairs(variance: Array, target_variance: Array, covariance: Array) -> tuple[Any, list[Array]]:
    xp, arrays = alike(variance=variance, target_variance=target_variance, covariance=covariance)
    check_variance(xp, "variance", arrays[0], "[n]")
    check_variance(xp, "target_variance", arrays[1], "[m]")
    check_shape("covariance", arrays[2], (*arrays[0].shape, *arrays[1].shape), "[n, m]")
    return xp, arrays
