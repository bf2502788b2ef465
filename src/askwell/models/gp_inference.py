"""Gaussian posteriors of latents f ~ N(0, K) that were seen through labels: exactly, or by EP or variational inference.

And the kernel that gives K, with what labels teach about it. All three inferences end in the same form: each label acts
on its own latent as a Gaussian *site* with a precision τ and a shift ν,

    q(f) ∝ N(f | 0, K) Π_i exp(ν_i f_i - ½ τ_i f_i²),

and everything else is algebra on B = I + S K S with S = diag(√τ), whose eigenvalues are never below one: no jitter, and
a row may stand twice. Regression has τ = 1/noise and ν = y/noise. Expectation propagation (EP) makes each site times
the rest of q agree with the likelihood in mean and variance; variational inference (VI) maximises the evidence lower
bound over all Gaussians. Rasmussen and Williams (2006), chapter 3; Khan and Lin (2017) for the variational steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
from scipy.linalg import blas, lapack
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr, ndtri

__all__ = ["Kernel", "Sites", "ep", "evidence_gradient", "learnt", "regression", "spectrum", "variational"]

TOLERANCE = 1e-6  # how much the last step may still have moved a site, relative to 1 + its size
SWEEPS = 500  # about ten are needed; hundreds mean that the kernel's scale is out of all bounds
MEMORY = 5  # of past sweeps; 3 to 8 take about the same number of sweeps
LOG_ROOT_2PI = 0.5 * np.log(2 * np.pi)
REACH = 8.0  # standard deviations: a Gaussian has 1e-15 beyond
PRIOR_SD = 2.0  # of log hyperparameters around those given: a factor of 7 is ordinary, one of 400 needs evidence
LOG_REACH = np.log(1e3)
STARTS = (0.0, -1.2, 1.2)  # of log length: the evidence may have a hill for noise and one for signal

Wanted: TypeAlias = "Callable[[Sites, np.ndarray], tuple[np.ndarray, np.ndarray]]"
"""From a posterior and the signs of the labels to the sites (τ, ν) it asks for."""


# ---- the kernel ------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Kernel:
    """k(x, x') = `scale` exp(-½ Σ_d (x_d - x'_d)² / `length_d`²); one length for all features, or a tuple of one each.

    >>> Kernel(scale=10.0)(np.array([[0.0], [1.0]]), np.array([[0.0]])).round(3)
    array([[10.   ],
           [ 6.065]])
    """

    scale: float = 1.0
    length: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        numbers = np.array([self.scale, *np.ravel(self.length)], float)
        if not (np.isfinite(numbers).all() and (numbers > 0).all()):
            raise ValueError(f"scale and length must be positive numbers, but they are {self.scale} and {self.length}.")

    def __call__(self, x: np.ndarray, x2: np.ndarray) -> np.ndarray:
        """The covariances `[n, d], [m, d] -> [n, m]` of the prior."""
        gram: np.ndarray = cdist(x / self.length, x2 / self.length, "sqeuclidean")
        gram *= -0.5
        np.exp(gram, out=gram)
        gram *= self.scale
        return gram


def spectrum(count: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """Frequencies `[count, width]` ~ N(0, I), spread evenly (Sobol points, shifted) so that few of them go far.

    The mean of cos(ω (x - x')) over them is the kernel of scale and length one.

    >>> from askwell.seeds import rng_for
    >>> waves = spectrum(1024, 2, rng_for(0, 0, "waves"))
    >>> float(np.cos(waves @ [1.0, 1.0]).mean().round(2)), float(np.exp(-1.0).round(2))
    (0.37, 0.37)
    """
    if width > 20:  # Sobol points of many dimensions come in visible patterns until there are very many
        return rng.standard_normal((count, width))
    from scipy.stats.qmc import Sobol  # here, because scipy.stats takes half a second to import

    points = Sobol(width, scramble=False).random_base2(int(np.ceil(np.log2(count))))[:count]
    shifted = (points + rng.random(width)) % 1.0
    normal: np.ndarray = ndtri(np.clip(shifted, 1e-9, 1 - 1e-9))
    return normal


# ---- sites -----------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Sites:
    """What n labels say: sites, and the solved algebra that predictions need."""

    precision: np.ndarray  # τ [n]
    shift: np.ndarray  # ν [n]
    whitener: np.ndarray  # L⁻¹ [n, n], lower, L Lᵀ = B
    mean: np.ndarray  # m [n] = E f
    variance: np.ndarray  # v [n] = V f
    weights: np.ndarray  # α [n] = K⁻¹ m
    evidence: float = float("nan")  # log p(y), EP's approximation of it, or its lower bound
    converged: bool = True

    def whiten(self, cross: np.ndarray) -> np.ndarray:
        """L⁻¹ S `cross`, `[n, m] -> [n, m]`: Cov(f, f') = k - whiten(k_1)ᵀ whiten(k_2)."""
        white: np.ndarray = self.whitener @ (np.sqrt(self.precision)[:, None] * cross)
        return white

    def precision_of_labels(self, right: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """S B⁻¹ (S `right` + `noise`), `[n, k], [n, k] -> [n, k]`: with no noise, (K + T⁻¹)⁻¹ `right`."""
        root = np.sqrt(self.precision)[:, None]
        solved: np.ndarray = root * (self.whitener.T @ (self.whitener @ (root * right + noise)))
        return solved

    @property
    def log_determinant(self) -> float:
        """½ log det B."""
        return -float(np.log(np.diagonal(self.whitener)).sum())


def regression(gram: np.ndarray, y: np.ndarray, noise: float) -> Sites:
    """The exact posterior for y = f + N(0, `noise`), and its log marginal likelihood.

    >>> sites = regression(np.array([[3.0]]), np.array([2.0]), 1.0)
    >>> sites.mean, sites.variance                                   # 3/(3+1) of the label; 3·1/(3+1)
    (array([1.5]), array([0.75]))
    """
    sites = _solved(gram, np.full(len(y), 1 / noise), y / noise)
    fit = -0.5 * y @ sites.weights - sites.log_determinant
    return replace(sites, evidence=float(fit - len(y) * (LOG_ROOT_2PI + 0.5 * np.log(noise))))


def ep(gram: np.ndarray, signs: np.ndarray) -> Sites:
    """Expectation propagation for p(y_i | f_i) = Φ(`signs_i` f_i), all sites at once.

    >>> sites = ep(np.array([[3.0]]), np.array([1.0]))              # one label: EP is exact
    >>> sites.evidence, np.log(0.5), sites.mean                     # E f = 3 φ(0) / (Φ(0) √(1 + 3))
    (-0.693147..., np.float64(-0.693147...), array([1.196826...]))
    """
    sites = _fixed_point(gram, signs, _matched, np.zeros(2 * len(signs)))
    return replace(sites, evidence=_ep_evidence(sites, signs))


def variational(gram: np.ndarray, signs: np.ndarray) -> Sites:
    """The Gaussian with the highest evidence lower bound for p(y_i | f_i) = Φ(`signs_i` f_i); the paper's objective.

    At the optimum τ = -E_q[(log p)''] and ν = E_q[(log p)'] + τ m: going there is a natural-gradient step of length
    one. It starts from EP's sites, which are near.

    >>> sites = variational(np.array([[3.0]]), np.array([1.0]))
    >>> bool(sites.evidence < np.log(0.5))                          # a lower bound
    True
    """
    start = _fixed_point(gram, signs, _matched, np.zeros(2 * len(signs)))
    sites = _fixed_point(gram, signs, _expected, np.concatenate([start.precision, start.shift]))
    return replace(sites, evidence=_lower_bound(sites, signs))


def evidence_gradient(sites: Sites, slopes: Sequence[np.ndarray]) -> np.ndarray:
    """d evidence / dθ = ½ tr[(α αᵀ - (K + T⁻¹)⁻¹) dK/dθ] for each slope dK/dθ `[n, n]`: `[parameters]`.

    Exact for regression; exact for EP and VI at their fixed points, where the sites' own change does not count.

    >>> def evidence(scale):
    ...     return ep(np.array([[scale, 1.0], [1.0, scale]]), np.array([1.0, 1.0])).evidence
    >>> sites = ep(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, 1.0]))
    >>> bool(abs(evidence_gradient(sites, [np.eye(2)])[0] - (evidence(2.001) - evidence(1.999)) / 0.002) < 1e-6)
    True
    """
    half = sites.whitener * np.sqrt(sites.precision)  # L⁻¹ S
    gap = np.outer(sites.weights, sites.weights) - half.T @ half
    return np.array([0.5 * np.vdot(gap, slope) for slope in slopes])


def _solved(gram: np.ndarray, precision: np.ndarray, shift: np.ndarray) -> Sites:
    """The posterior that these sites make.

    Written for a busy machine. OpenBLAS goes to threads for a triangular solve of twenty rows, and then waits 8 ms for
    5 µs of work; L⁻¹ (harmless for a B this well-behaved) and a product do not. NumPy and SciPy each bring an OpenBLAS
    whose threads spin against the other's: all products here are SciPy's.
    """
    root = np.sqrt(precision)
    scaled = root[:, None] * gram
    b = scaled * root
    b.flat[:: len(b) + 1] += 1.0
    factor, error = lapack.dpotrf(b.T, lower=1, clean=1, overwrite_a=1)  # transposed: as LAPACK likes its memory
    if error:
        raise ValueError(
            "the kernel matrix must be positive semi-definite, but it is not. Are inputs or scale too large?"
        )
    whitener = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
    half = blas.dgemm(1.0, whitener, scaled.T, trans_b=1)  # L⁻¹ S K
    variance = np.maximum(np.diagonal(gram) - np.einsum("ij,ij->j", half, half), 0)
    mean = blas.dgemv(1.0, gram.T, shift) - blas.dgemv(1.0, half, blas.dgemv(1.0, half, shift), trans=1)
    return Sites(precision, shift, whitener, mean, variance, shift - precision * mean)


def _fixed_point(gram: np.ndarray, signs: np.ndarray, wanted: Wanted, point: np.ndarray) -> Sites:
    """The sites (τ, ν) `[2n]` that are those `wanted` of their own posterior, from `point`.

    Plain iteration takes 10 to 300 sweeps and may swing for ever; Anderson's extrapolation from the last few takes
    about ten. Where the gap will not shrink, it starts afresh with shorter steps.
    """
    trail: list[tuple[np.ndarray, np.ndarray]] = []
    step, smallest, stale = 1.0, np.inf, 0
    for _ in range(SWEEPS):
        sites = _solved(gram, *np.split(point, 2))
        image = np.concatenate(wanted(sites, signs))
        gap = float((np.abs(image - point) / (1 + np.abs(image))).max())
        if gap < TOLERANCE:
            break
        stale, step = (0, min(1.0, 1.5 * step)) if gap < smallest else (stale + 1, step)
        if gap > 2 * smallest or stale > MEMORY:
            trail, step, smallest, stale = [], max(0.02, step / 2), gap, 0
        trail, smallest = [*trail[-MEMORY:], (point, image)], min(smallest, gap)
        point = _extrapolated(trail, step)
        least = 1e-3 * np.minimum(image[: len(signs)], 1)  # the extrapolation knows nothing of τ > 0
        np.maximum(point[: len(signs)], least, out=point[: len(signs)])
    return replace(sites, converged=gap < TOLERANCE)


def _extrapolated(trail: Sequence[tuple[np.ndarray, np.ndarray]], step: float) -> np.ndarray:
    """The next point after a trail of (point, image): the mixture of past points whose gaps cancel best, moved."""
    points, images = np.array(trail).swapaxes(0, 1)  # [2, trail, 2n]
    gaps = images - points
    point: np.ndarray = points[-1] + step * gaps[-1]
    if len(trail) > 1:
        turns = np.diff(gaps, axis=0)
        shares = np.linalg.lstsq(turns.T, gaps[-1], rcond=1e-8)[0]
        point -= shares @ (np.diff(points, axis=0) + step * turns)
    return point


def _cavity(sites: Sites) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance [n] of each latent without its own site."""
    rest = np.maximum(1 - sites.precision * sites.variance, 1e-12)
    return (sites.mean - sites.variance * sites.shift) / rest, sites.variance / rest


def _matched(sites: Sites, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sites that make cavity times site agree with cavity times likelihood in mean and variance.

    With h = φ(z)/Φ(z), slope g = sign · h/√(1+v) and curvature w = h (z + h)/(1+v) of log ∫ Φ at the cavity:
    τ = w / (1 - v w), ν = (g + w · mean) / (1 - v w).
    """
    mean, variance = _cavity(sites)
    root = np.sqrt(1 + variance)
    z = signs * mean / root
    hazard = _hazard(z)
    curvature = hazard * (z + hazard) / root**2
    scale = 1 - variance * curvature  # never zero: v/(1+v) < 1 and hazard (z + hazard) < 1
    return curvature / scale, (signs * hazard / root + curvature * mean) / scale


def _hazard(z: np.ndarray) -> np.ndarray:
    """φ(z)/Φ(z), the slope of log Φ; also where Φ underflows."""
    hazard: np.ndarray = np.exp(-0.5 * z * z - LOG_ROOT_2PI - log_ndtr(z))
    return hazard


def _ep_evidence(sites: Sites, signs: np.ndarray) -> float:
    """log Z = log ∫ N(f|0,K) Π site + Σ log(∫ cavity · likelihood / ∫ cavity · site)."""
    mean, variance = _cavity(sites)
    tilted = log_ndtr(signs * mean / np.sqrt(1 + variance))
    site = sites.shift * mean + 0.5 * variance * sites.shift**2 - 0.5 * sites.precision * mean**2
    ratio = 1 + sites.precision * variance
    together = 0.5 * sites.shift @ sites.mean - sites.log_determinant
    return float(together + (tilted + 0.5 * np.log(ratio) - site / ratio).sum())


def _expected(sites: Sites, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """τ = -E_q[(log Φ)''] and ν = E_q[(log Φ)'] + τ m."""
    z, share = _quadrature(sites, signs)
    hazard = _hazard(z)
    precision = (hazard * (z + hazard)) @ share
    return precision, signs * (hazard @ share) + precision * sites.mean


def _quadrature(sites: Sites, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points sign · f `[n, nodes]` and their shares `[nodes]` for means over q.

    The trapezium rule, whose error falls like exp(-2π d/step) for a function without poles within d of the real axis:
    log Φ has its nearest at 2.8. A step of 0.8 in f (and of 0.5 standard deviations) leaves 1e-9, also where the
    latents are so wide that the nodes of Gauss and Hermite would step over the bend.
    """
    sd = np.sqrt(sites.variance)
    count = int(np.ceil(REACH / min(0.5, 0.8 / max(float(sd.max()), 1e-9))))
    nodes = np.linspace(-REACH, REACH, 2 * count + 1)
    share = np.exp(-0.5 * nodes**2)
    return signs[:, None] * (sites.mean[:, None] + sd[:, None] * nodes), share / share.sum()


def _lower_bound(sites: Sites, signs: np.ndarray) -> float:
    """E_q[log p(y|f)] - KL(q || N(0, K))."""
    z, share = _quadrature(sites, signs)
    quadratic = sites.weights @ sites.mean - sites.precision @ sites.variance  # mᵀK⁻¹m + tr(K⁻¹V) - n
    divergence = 0.5 * quadratic + sites.log_determinant
    return float((log_ndtr(z) @ share).sum() - divergence)


# ---- what labels teach about the kernel ------------------------------------------------------------------------------


def learnt(
    kernel: Kernel, noise: float | None, x: np.ndarray, infer: Callable[[np.ndarray, Any], Sites]
) -> tuple[Kernel, Any]:
    """The kernel (and noise, if there is one) with the highest evidence under a weak prior around those given.

    `infer(gram [n, n], noise)` gives the sites. The prior is log-normal with PRIOR_SD: four labels alone would as soon
    have a length of zero or of a million. L-BFGS with the exact gradient, from a few starts.

    >>> x = np.arange(0.0, 20.0, 0.5)[:, None]
    >>> kernel, noise = learnt(Kernel(), 0.1, x, lambda gram, noise: regression(gram, np.sin(x[:, 0]), noise))
    >>> 1 < kernel.length < 4 and noise < 1e-3
    True
    """
    from scipy.optimize import minimize

    given = np.log([kernel.scale, *np.ravel(kernel.length), *([] if noise is None else [noise])])

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        now, now_noise = _unpacked(theta, kernel, noise)
        gram = now(x, x)
        sites = infer(gram, now_noise)
        away = (theta - given) / PRIOR_SD
        gradient = evidence_gradient(sites, _slopes(now, now_noise, x, gram))
        return 0.5 * float(away @ away) - sites.evidence, away / PRIOR_SD - gradient

    lengths = np.arange(1, 1 + np.size(kernel.length))
    starts = [given + step * np.isin(np.arange(len(given)), lengths) for step in STARTS]
    bounds = [(value - LOG_REACH, value + LOG_REACH) for value in given]
    optima = [
        minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 50}) for start in starts
    ]
    return _unpacked(min(optima, key=lambda each: float(each.fun)).x, kernel, noise)


def _unpacked(theta: np.ndarray, kernel: Kernel, noise: float | None) -> tuple[Kernel, float | None]:
    scale, *lengths = np.exp(theta).tolist()
    noise = None if noise is None else lengths.pop()
    return Kernel(scale, lengths[0] if np.ndim(kernel.length) == 0 else tuple(lengths)), noise


def _slopes(kernel: Kernel, noise: float | None, x: np.ndarray, gram: np.ndarray) -> list[np.ndarray]:
    """The derivatives of K + noise·I by log scale, log lengths and log noise."""
    z = x / kernel.length
    if np.ndim(kernel.length) == 0:
        squares = [cdist(z, z, "sqeuclidean")]
    else:
        squares = [np.subtract.outer(column, column) ** 2 for column in z.T]
    return [gram, *(gram * square for square in squares), *([] if noise is None else [noise * np.eye(len(x))])]
