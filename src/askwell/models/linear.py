"""Bayesian multinomial logistic regression: the fast default for text and embeddings.

p(y=j|x,W) = softmax_j(Wᵀφ(x)) with φ(x) = [1, standardised x / √d] `[D]` and the prior w_j ~ N(0, s² I) for each of c
classes, so s is the prior standard deviation of a typical input's logit whatever d is. The posterior is Laplace's:
N(W_MAP, H⁻¹) with H `[c D, c D]` the Hessian of the negative log posterior at the mode. What is approximate is
Laplace's Gaussian; the draws are exact samples of it and the evidence is exactly its own, at a fraction of the cost:

- *Few labels, many features.* n labels see only the span of their n rows. There, r = min(n, D) directions per class
  are fitted; outside it the posterior is the prior, drawn once per draw and projected off the span.
- *Many classes.* H is one block per class less a term of rank n (Rasmussen and Williams 2006, section 3.5): c Cholesky
  factors of `[r, r]` and one of `[n, n]` do; where that costs more (c = 2, n >> r) H is factored as it is.
- *Draws by perturbing and solving.* η = s⁻¹ε + Zᵀ Λ^½ ε' has covariance H, so H⁻¹η has covariance H⁻¹.
- A vector added to all w_j changes no probability: draws are centred over classes, and predictions stay what they are.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, final

import numpy as np
from scipy.linalg import cho_solve, cholesky, qr, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize, minimize_scalar
from scipy.special import digamma, polygamma, softmax

from askwell.arrays import spans, threads
from askwell.models.forest import features
from askwell.models.protocol import class_codes

__all__ = ["GradientEmbeddings", "LinearModel", "LinearPosterior", "gradient_embeddings"]

#: Prior scales "auto" chooses among, and the log-normal belief about them: few labels leave the evidence flat.
SCALES, TYPICAL_SCALE, SCALE_SPREAD = (0.1, 50.0), 3.0, 1.0
EVIDENCE_ROWS = 500  # labels that choose the prior scale: more would sharpen a choice that is already sharp
REFERENCE_ROWS = 10_000  # inputs, evenly spaced, that give the units
BLOCK = 2**20  # logits in one chunk of predict: 4 MiB of float32, so that the passes of the softmax stay in cache


@final
@dataclass(frozen=True)
class LinearModel:
    """Logistic regression with `draws` samples of its Laplace posterior.

    `prior_scale` s is a number, or "auto": the maximum of Laplace's log evidence, log p(y|s) = log p(y|W_MAP)
    - |W_MAP|² / 2s² - ½ log det(s² H), plus a weak log-normal belief about s that settles it while labels are few.
    `standardise` takes the mean off each feature and divides it by its standard deviation, both of the labelled inputs,
    or better of `reference`, any inputs, such as the pool. Standard deviations of few inputs are noise, so they are
    shrunk towards each other (empirical Bayes) as far as that noise explains their differences.

    >>> from askwell.seeds import rng_for
    >>> model = LinearModel(draws=50)
    >>> posterior = model.fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"), classes=["maybe", "no", "yes"])
    >>> posterior.predict([[0.0], [0.5], [1.0]]).shape                      # [n, k, c]
    (3, 50, 3)
    """

    draws: int = 100
    prior_scale: float | Literal["auto"] = "auto"
    intercept: bool = True
    standardise: bool = True
    reference: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be a whole number from 1, but it is {self.draws}.")
        s = self.prior_scale
        if s != "auto" and not (isinstance(s, int | float) and 0 < s < math.inf):
            raise ValueError(f'prior_scale must be "auto" or a number above zero, but it is {s!r}.')

    def fit(
        self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None
    ) -> "LinearPosterior":
        """The posterior of `x [n, d]` and labels `y [n]`; a class without an example gets what the prior leaves it."""
        codes, known = class_codes(y, classes)
        x = features(_dense(x))
        if len(x) != len(codes):
            raise ValueError(f"x and y must be of the same length, but they have {len(x)} and {len(codes)}.")
        centre, scale = self._units(x)
        rows = _augmented((x.astype(np.float64) - centre) / scale, self.intercept)  # [n, D]
        with _one_thread_each():
            fitted = self._draw(rows, np.eye(len(known))[codes], rng)
        return LinearPosterior(known, centre.astype(np.float32), scale.astype(np.float32), *fitted)

    def _draw(self, rows: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any, float, float]:
        """The weights, their mode, the prior scale and the log evidence, of `φ [n, D]` and one-hot labels `[n, c]`."""
        basis = _span(rows)
        z = rows if basis is None else rows @ basis  # [n, r]
        s = _best_scale(z, truth, rng) if self.prior_scale == "auto" else float(self.prior_scale)
        mode, evidence, noise = _laplace(s * z, truth, rng, self.draws)
        mean = s * (mode if basis is None else basis @ mode)  # [D, c]
        weights = s * _everywhere(noise, basis, rows.shape[1], rng) + mean[:, :, None]  # [D, c, k]
        return np.ascontiguousarray(weights, np.float32), mean.astype(np.float32), s, evidence

    def _units(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is taken off the features, and what they are divided by, √d included; `[d]` both."""
        d = x.shape[1]
        if not self.standardise:
            return np.zeros(d), np.full(d, math.sqrt(max(1, d)))
        given = _table(x if self.reference is None else self.reference)
        given = features(_dense(given[:: 1 + given.shape[0] // REFERENCE_ROWS]), width=d)
        return given.mean(axis=0, dtype=np.float64), _deviations(given) * math.sqrt(d)


@final
@dataclass(frozen=True)
class LinearPosterior:
    """Weights drawn from the Laplace posterior."""

    classes: tuple[Any, ...]
    centre: np.ndarray  # [d]
    scale: np.ndarray  # [d]
    weights: np.ndarray  # [D, c, k]  of the standardised features; with an intercept D = d + 1 and it comes first
    mean: np.ndarray  # [D, c]  the posterior mode
    prior_scale: float
    log_evidence: float  # Laplace's log p(y | x, prior_scale)

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32, in chunks: beyond the output it holds a few MiB."""
        x = _table(x)
        _, c, k = self.weights.shape
        flat = self.weights.reshape(len(self.weights), c * k)
        out = np.empty((x.shape[0], k, c), np.float32)

        def job(span: slice) -> None:
            # classes before draws: the softmax then runs along whole cache lines of draws
            logits = (self._inputs(x, span) @ flat).reshape(-1, c, k)
            out[span] = _softmax(logits).transpose(0, 2, 1)

        with ThreadPoolExecutor(threads()) as pool, _one_thread_each():
            list(pool.map(job, spans(x.shape[0], max(1, BLOCK // max(flat.shape)))))
        return out

    def mean_predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, c]` at the mode: sharper than the mean of the draws, which is under-confident."""
        x = _table(x)
        out = np.empty((x.shape[0], len(self.classes)), np.float32)
        for span in spans(x.shape[0], max(1, BLOCK // max(self.mean.shape))):
            out[span] = _softmax(self._inputs(x, span) @ self.mean)
        return out

    def _inputs(self, x: Any, span: slice) -> np.ndarray:
        """φ(x) `[rows, D]` of a chunk."""
        try:
            part = features(_dense(x[span]), width=len(self.centre))
        except ValueError:
            features(_dense(x), width=len(self.centre))  # says the same of the whole table, with its row numbers
            raise
        return _augmented((part - self.centre) / self.scale, len(self.weights) > len(self.centre))


class GradientEmbeddings(NamedTuple):
    """BADGE's embeddings g_i = r_i ⊗ φ_i in two factors: `[n, c]` and `[n, D]` instead of `[n, c D]`."""

    residuals: np.ndarray  # [n, c]
    features: np.ndarray  # [n, D]

    def dense(self) -> Any:
        """The embeddings themselves, `[n, c D]`."""
        return (self.residuals[:, :, None] * self.features[:, None, :]).reshape(len(self.residuals), -1)

    def inner(self, index: Any) -> Any:
        """Inner products `[n, b]` with the embeddings at `index`: (r_i · r_j)(φ_i · φ_j)."""
        return (self.residuals @ self.residuals[index].T) * (self.features @ self.features[index].T)


def gradient_embeddings(posterior: LinearPosterior, x: Any) -> GradientEmbeddings:
    """Gradients of the loss at the mode's own guess ŷ: g(x) = (p(·|x) - onehot(ŷ)) ⊗ φ(x), as BADGE selects by.

    Squared distances, all that k-means++ asks for, need no `[n, c D]`: |g_i - g_j|² = |g_i|² + |g_j|² - 2 `inner`.

    >>> from askwell.seeds import rng_for
    >>> posterior = LinearModel().fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"))
    >>> residuals, phi = gradient_embeddings(posterior, [[0.0], [0.5], [1.0]])
    >>> residuals.shape, phi.shape
    ((3, 2), (3, 2))
    """
    x = _table(x)
    residuals = posterior.mean_predict(x)
    residuals[np.arange(len(residuals)), residuals.argmax(axis=1)] -= 1
    return GradientEmbeddings(residuals, posterior._inputs(x, slice(None)))


# ---- inputs --------------------------------------------------------------------------------------------------------


def _table(x: Any) -> Any:
    """Something that can be cut into rows: a sparse matrix as it is, anything else as an array."""
    return x.tocsr() if hasattr(x, "tocsr") else np.asarray(x)


def _dense(x: Any) -> Any:
    return x.toarray() if hasattr(x, "toarray") else x


def _augmented(x: np.ndarray, intercept: bool) -> np.ndarray:
    return np.concatenate([np.ones((len(x), 1), x.dtype), x], axis=1) if intercept else x


def _deviations(x: np.ndarray) -> np.ndarray:
    """Standard deviations `[d]`, shrunk towards their geometric mean; that mean where a feature does not vary.

    The log of a variance of n inputs is off by a noise of known variance ψ'((n-1)/2) (Smyth 2004); what the logs of
    the d variances differ by beyond that is real and is kept.
    """
    variance = x.var(axis=0, dtype=np.float64) * len(x) / max(1, len(x) - 1)
    size = np.square(x, dtype=np.float64).mean(axis=0)
    varies = variance > 1e-10 * size
    if not varies.any():
        return np.full(x.shape[1], math.sqrt(size.mean()) if size.any() else 1.0)
    freedom = (len(x) - 1) / 2
    logs = np.log(variance[varies]) - digamma(freedom) + math.log(freedom)
    spread, chance = logs.var(), float(polygamma(1, freedom))
    kept = max(0.0, 1 - chance / spread) if spread > 0 else 0.0
    shrunk = np.full(x.shape[1], logs.mean())
    shrunk[varies] += kept * (logs - logs.mean())
    return np.exp(shrunk / 2)


def _span(rows: np.ndarray) -> np.ndarray | None:
    """An orthonormal basis `[D, n]` that holds the rows; None if there are at least as many rows as features."""
    return None if rows.shape[0] >= rows.shape[1] else qr(rows.T, mode="economic")[0]


def _everywhere(noise: np.ndarray, basis: np.ndarray | None, size: int, rng: np.random.Generator) -> Any:
    """Draws in the span `[c, r, k]` as draws of all weights `[D, c, k]`: off the span, the prior's."""
    if basis is None:
        return noise.transpose(1, 0, 2)
    prior = _centred(rng.standard_normal((len(noise), size, noise.shape[2])))  # [c, D, k]
    return np.tensordot(basis, noise - basis.T @ prior, (1, 1)) + prior.transpose(1, 0, 2)


# ---- Laplace, in units of the prior: t = s z, u = w / s ------------------------------------------------------------


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


def _laplace(
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


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_thread_each() -> Any:
    """BLAS with one thread: on matrices this small its threads wait for each other, on a busy machine for long."""
    return _libraries().limit(limits=1, user_api="blas")


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Over axis 1, in place."""
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits
