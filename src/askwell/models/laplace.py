"""Laplace's posterior of multinomial logistic regression: a Gaussian at the mode, its draws and its evidence.

N(W_MAP, H⁻¹) with H `[c D, c D]` the Hessian of the negative log posterior at the mode. The draws are exact samples of
it and the evidence is exactly its own, at a fraction of the cost:

- *Few labels, many features.* n labels see only the span of their n rows. There, r = min(n, D) directions per class
  are fitted; outside it the posterior is the prior, drawn once per draw and projected off the span.
- *Many classes.* H is one block per class less a term of rank n (Rasmussen and Williams 2006, section 3.5): c Cholesky
  factors of `[r, r]` and one of `[n, n]` do; where that costs more (c = 2, n >> r) H is factored as it is.
- *Draws by perturbing and solving.* η = s⁻¹ε + Zᵀ Λ^½ ε' has covariance H, so H⁻¹η has covariance H⁻¹.
- A vector added to all w_j changes no probability: draws are centred over classes, and predictions stay what they are.

Inside, all is in units of the prior: t = s z, u = w / s.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, final

import numpy as np
from scipy.linalg import cho_solve, cholesky, qr, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax

__all__ = ["Laplace", "laplace", "one_thread_each"]

#: Prior scales to choose among, and the log-normal belief about them: few labels leave the evidence flat.
SCALES, TYPICAL_SCALE, SCALE_SPREAD = (0.1, 50.0), 3.0, 1.0
EVIDENCE_ROWS = 500  # labels that choose the prior scale: more would sharpen a choice that is already sharp


class Laplace(NamedTuple):
    """A Gaussian belief about weights, as draws."""

    weights: np.ndarray  # [D, c, k]
    mode: np.ndarray  # [D, c]
    scale: float  # s, the prior's standard deviation
    log_evidence: float  # log p(y | s)


def laplace(
    rows: np.ndarray, truth: np.ndarray, *, draws: int, rng: np.random.Generator, scale: float | None = None
) -> Laplace:
    """The posterior of weights w_j ~ N(0, s² I) given inputs φ `[n, D]` and one-hot labels `[n, c]`, both float64.

    Without a `scale` s is that of most evidence, log p(y|s) = log p(y|W_MAP) - |W_MAP|² / 2s² - ½ log det(s² H), plus a
    weak log-normal belief.

    >>> from askwell.seeds import rng_for
    >>> found = laplace(np.array([[-1.0], [1.0]]), np.eye(2), draws=50, rng=rng_for(0, 0, "fit"), scale=1.0)
    >>> found.weights.shape, found.mode.round(2), round(found.log_evidence, 2)
    ((1, 2, 50), array([[-0.52,  0.52]]), -1.16)
    """
    with one_thread_each():
        basis = _span(rows)
        z = rows if basis is None else rows @ basis  # [n, r]
        s = _best_scale(z, truth, rng) if scale is None else float(scale)
        mode, evidence, noise = _gaussian(s * z, truth, rng, draws)
        mean = s * (mode if basis is None else basis @ mode)  # [D, c]
        weights = s * _everywhere(noise, basis, rows.shape[1], rng) + mean[:, :, None]  # [D, c, k]
    return Laplace(weights, mean, s, evidence)


def one_thread_each() -> Any:
    """BLAS with one thread inside: on matrices this small its threads wait for each other, on a busy machine for long.

    >>> with one_thread_each(): (np.ones((2, 2)) @ np.ones(2)).tolist()
    [2.0, 2.0]
    """
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _span(rows: np.ndarray) -> np.ndarray | None:
    """An orthonormal basis `[D, n]` that holds the rows; None if there are at least as many rows as features."""
    return None if rows.shape[0] >= rows.shape[1] else qr(rows.T, mode="economic")[0]


def _everywhere(noise: np.ndarray, basis: np.ndarray | None, size: int, rng: np.random.Generator) -> Any:
    """Draws in the span `[c, r, k]` as draws of all weights `[D, c, k]`: off the span, the prior's."""
    if basis is None:
        return noise.transpose(1, 0, 2)
    prior = _centred(rng.standard_normal((len(noise), size, noise.shape[2])))  # [c, D, k]
    return np.tensordot(basis, noise - basis.T @ prior, (1, 1)) + prior.transpose(1, 0, 2)


def _best_scale(z: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> float:
    """The prior scale of most evidence; each mode starts at that of the scale before."""
    if len(z) > EVIDENCE_ROWS:
        some = rng.choice(len(z), EVIDENCE_ROWS, replace=False)
        z, truth = z[some], truth[some]
    kernel, weights = z @ z.T, np.zeros((z.shape[1], truth.shape[1]))

    def loss(log_scale: float) -> float:
        nonlocal weights
        s = math.exp(log_scale)
        mode = _mode(s * z, truth, weights / s, tolerance=1e-3)
        weights = s * mode
        belief = ((log_scale - math.log(TYPICAL_SCALE)) / SCALE_SPREAD) ** 2 / 2
        return belief - _log_evidence(s * z, truth, mode, _kernel_log_det(s**2 * kernel, softmax(z @ weights, axis=1)))

    bounds = tuple(math.log(scale) for scale in SCALES)
    # the evidence is flat at its top: a scale that is 10 % off loses nothing
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.1}).x)


def _gaussian(
    t: np.ndarray, truth: np.ndarray, rng: np.random.Generator, draws: int
) -> tuple[np.ndarray, float, np.ndarray]:
    """(the mode `[r, c]`, the log evidence, samples of N(0, H⁻¹) `[c, r, k]`)."""
    mode = _mode(t, truth, np.zeros((t.shape[1], truth.shape[1])), tolerance=1e-6)
    probs = softmax(t @ mode, axis=1)
    curvature = _curvature(t, probs)
    prior = _centred(rng.standard_normal((truth.shape[1], t.shape[1], draws)))
    root, seen = np.sqrt(probs.T)[:, :, None], rng.standard_normal((truth.shape[1], len(t), draws))
    # Λ = diag(p) - p pᵀ of an input is AAᵀ with A = diag(√p)(I - √p √pᵀ), as √p has length one
    pull = root * (seen - root * (root * seen).sum(axis=0))
    return mode, _log_evidence(t, truth, mode, curvature.log_det), _centred(curvature.solve(prior + t.T @ pull))


def _mode(t: np.ndarray, truth: np.ndarray, start: np.ndarray, tolerance: float) -> Any:
    """The weights `[r, c]` of most posterior probability. H >= I in these units: the error is at most the gradient."""

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        u = flat.reshape(start.shape)
        logs = _log_softmax(t @ u)
        gradient = t.T @ (np.exp(logs) - truth) + u
        return float(0.5 * flat @ flat - (logs * truth).sum()), gradient.ravel()

    options = {"maxiter": 2000, "maxfun": 4000, "gtol": tolerance, "ftol": 1e-15}
    return minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options=options).x.reshape(start.shape)


def _log_evidence(t: np.ndarray, truth: np.ndarray, mode: np.ndarray, log_det: float) -> float:
    fit = (_log_softmax(t @ mode) * truth).sum()
    return float(fit - 0.5 * (mode**2).sum() - 0.5 * log_det)


def _kernel_log_det(kernel: np.ndarray, probs: np.ndarray) -> float:
    """log det H from `t tᵀ [n, n]`: Σ_j log det B_j + log det Σ_j D_j^½ B_j⁻¹ D_j^½ with B_j = I + D_j^½ t tᵀ D_j^½."""
    total, coupling = 0.0, np.zeros_like(kernel)
    for p in probs.T:
        outer = np.sqrt(p)[:, None] * np.sqrt(p)
        factor = cholesky(kernel * outer + np.eye(len(p)), lower=True, check_finite=False)
        total += _log_det(factor)
        coupling += outer * dpotri(factor, lower=1)[0]  # the lower triangle: all that cholesky reads
    return total + _log_det(cholesky(coupling, lower=True, check_finite=False))


def _curvature(t: np.ndarray, probs: np.ndarray) -> "_Blocks | _Full":
    """H = I + Σ_i Λ_i ⊗ t_i t_iᵀ, factored in the cheaper of two ways."""
    (n, r), c = t.shape, probs.shape[1]
    blocks = c * (2 * n * r**2 + r**3 / 3 + n**2 * r) + n**3 / 3
    full = c * (c - 1) * n * r**2 + ((c - 1) * r) ** 3 / 3
    return _full(t, probs) if c > 1 and full < blocks else _blocks(t, probs)


@final
@dataclass(frozen=True)
class _Blocks:
    """H as blocks G_j = I + tᵀ D_j t = L_j L_jᵀ of classes, less R Rᵀ with R_j = tᵀ D_j `[r, n]`, D_j = diag(p_j)."""

    factors: list[np.ndarray]  # L_j  [r, r]
    halves: list[np.ndarray]  # L_j⁻¹ R_j  [r, n]
    coupling: np.ndarray  # the Cholesky factor of I - Rᵀ G⁻¹ R  [n, n]
    log_det: float

    def solve(self, b: np.ndarray) -> np.ndarray:
        """H⁻¹ b of `b [c, r, k]`, by Woodbury's formula."""
        first = [solve_triangular(L, part, lower=True) for L, part in zip(self.factors, b, strict=True)]
        both = cho_solve((self.coupling, True), sum(half.T @ h for half, h in zip(self.halves, first, strict=True)))
        parts = zip(self.factors, self.halves, first, strict=True)
        return np.stack([solve_triangular(L, h + half @ both, lower=True, trans=1) for L, half, h in parts])


def _blocks(t: np.ndarray, probs: np.ndarray) -> _Blocks:
    factors, halves, coupling = [], [], np.eye(len(t))
    for p in probs.T:
        pulled = t.T * p  # [r, n]
        factors.append(cholesky(pulled @ t + np.eye(t.shape[1]), lower=True))
        halves.append(solve_triangular(factors[-1], pulled, lower=True))
        coupling -= halves[-1].T @ halves[-1]
    factor = cholesky(coupling, lower=True)
    return _Blocks(factors, halves, factor, sum(_log_det(L) for L in (*factors, factor)))


@final
@dataclass(frozen=True)
class _Full:
    """H as it is, over c - 1 contrasts of classes."""

    contrasts: np.ndarray  # [c, c - 1]
    factor: np.ndarray  # [(c - 1) r, (c - 1) r]
    log_det: float

    def solve(self, b: np.ndarray) -> np.ndarray:
        """H⁻¹ b of `b [c, r, k]` whose classes sum to zero."""
        flat = np.tensordot(self.contrasts.T, b, 1).reshape(len(self.factor), -1)
        return np.tensordot(self.contrasts, cho_solve((self.factor, True), flat).reshape(-1, *b.shape[1:]), 1)


def _full(t: np.ndarray, probs: np.ndarray) -> _Full:
    r, c = t.shape[1], probs.shape[1]
    contrasts = np.linalg.qr(np.eye(c)[:, 1:] - 1 / c)[0]  # an orthonormal basis of what sums to zero
    seen = probs @ contrasts
    parts = np.einsum("na,ai,aj->nij", probs, contrasts, contrasts) - seen[:, :, None] * seen[:, None, :]
    hessian = np.eye((c - 1) * r)
    for i, j in zip(*np.tril_indices(c - 1), strict=True):
        hessian[i * r : (i + 1) * r, j * r : (j + 1) * r] += (t.T * parts[:, i, j]) @ t
    factor = cholesky(hessian, lower=True, overwrite_a=True)  # reads the lower triangle only
    return _Full(contrasts, factor, _log_det(factor))


def _centred(weights: np.ndarray) -> Any:
    """`[c, ...]` less the mean over classes, to which no probability responds."""
    return weights - weights.mean(axis=0)


def _log_det(factor: np.ndarray) -> float:
    return 2 * float(np.log(np.diagonal(factor)).sum())


def _log_softmax(logits: np.ndarray) -> Any:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
