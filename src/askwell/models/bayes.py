"""Bayesian linear regression: y = b + w·z + noise, exact, with its noise and its shrinkage learnt from the labels.

Inputs are standardised (z) and labels brought to mean 0 and variance 1. Given λ, the normal-inverse-gamma prior

    w | σ², λ ~ N(0, σ²/λ I),    b flat,    σ² ~ InverseGamma(1.5, 0.1)

is conjugate: everything is known in closed form, in the basis of the singular vectors of z. λ stands on a grid of 33
values from 1e-4 to 1e4 (a priori log10 λ ~ N(0, 1)), each weighted by its evidence p(y | λ), and is averaged over. A
draw is one (λ, σ², b, w). The exact mean and covariance of all this give EPIG in closed form, without draws.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from askwell.arrays import spans, take
from askwell.checks import count as checked_count
from askwell.information import gaussian
from askwell.models.inputs import Names, check_lengths, column_names, count, features, numbers, sliceable
from askwell.models.protocol import check_rng
from askwell.seeds import rng_for

__all__ = ["BayesianLinearRegression", "LinearRegressionPosterior"]

SHAPE, RATE = 1.5, 0.1  # of the prior of σ², in units of the labels' variance: worth three labels
GRID = np.logspace(-4, 4, 33)  # of λ
BLOCK = 1 << 21  # numbers in one block of a long prediction: 16 MiB
SEEDS = 2**63


@final
@dataclass(frozen=True, eq=False)
class BayesianLinearRegression:
    """Bayesian linear regression with a normal-inverse-gamma prior, averaged over how strongly it shrinks.

    Inputs are standardised by the means and deviations of `reference` (a part of the pool), or of those it is fitted
    to; without `standardise` only centred. `draws` of the posterior are for `predict`; `epig` needs none.

    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> posterior = BayesianLinearRegression().fit(x, 3 * x[:, 0] + 1, rng=rng_for(0, 0, "fit"))
    >>> posterior.latent([[0.0], [2.0]])[0].round(1)
    array([1., 7.])
    >>> posterior.predict([[0.0], [2.0]])[0].shape                         # [n, k]
    (2, 500)
    >>> posterior.epig([[0.0], [3.0]], [[2.0]]).round(2)                   # far out, a label tells the slope
    array([0.  , 0.12])
    """

    regression: ClassVar[bool] = True  # labels are numbers

    draws: int = 500
    reference: Any = None
    standardise: bool = True

    def __post_init__(self) -> None:
        checked_count("draws", self.draws, least=2)

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator) -> "LinearRegressionPosterior":
        """The posterior given inputs `[n, features]` and numbers `[n]`."""
        values = numbers(y)
        check_lengths(x, values)
        check_rng(rng)
        names, x = column_names(x), features(x, dtype=np.float64)
        scale = self._scale(x)
        centre, offset = x.mean(axis=0), float(values.mean())
        unit = float(values.std()) or 1.0
        left, roots, right = np.linalg.svd((x - centre) / scale, full_matrices=False)
        keep = roots > 1e-10 * max(1.0, float(roots.max(initial=0.0)))
        seen = left[:, keep].T @ ((values - offset) / unit)  # [r]
        return LinearRegressionPosterior(
            centre=centre,
            scale=scale,
            offset=offset,
            unit=unit,
            labels=len(values),
            basis=right[keep].T,
            squares=roots[keep] ** 2,
            products=roots[keep] * seen,
            rest=max(0.0, float((((values - offset) / unit) ** 2).sum() - seen @ seen)),
            draws=self.draws,
            seed=int(rng.integers(SEEDS)),
            names=names,
        )

    def _scale(self, x: np.ndarray) -> np.ndarray:
        if not self.standardise:
            return np.ones(x.shape[1])
        like = x if self.reference is None else features(self.reference, width=x.shape[1], dtype=np.float64)
        scale: np.ndarray = like.std(axis=0)
        return np.where(scale > 0, scale, 1.0)


@final
@dataclass(frozen=True, eq=False)
class LinearRegressionPosterior:
    """The belief of a `BayesianLinearRegression`, from sums over the labels in the basis of their singular vectors."""

    centre: np.ndarray  # [d], of the labelled inputs
    scale: np.ndarray  # [d]
    offset: float  # of the labels
    unit: float
    labels: int
    basis: np.ndarray  # [d, r], directions that the labelled inputs differ in
    squares: np.ndarray  # [r], z'z there
    products: np.ndarray  # [r], z'y there
    rest: float  # of y'y, what lies outside
    draws: int
    seed: int
    names: Names = None  # of the columns of the fit

    @cached_property
    def _grid(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """p(λ | y) `[g]`; E[w | λ] in the basis `[g, r]`; the rates of σ² `[g]`, and its shape."""
        shape = SHAPE + (self.labels - 1) / 2
        ridge = self.squares + GRID[:, None]  # [g, r]
        means = self.products / ridge
        # y'y - y'z (z'z + λ)^-1 z'y, without cancellation
        within = np.divide(self.products**2, self.squares * ridge) * GRID[:, None]
        rates = RATE + (self.rest + within.sum(axis=1)) / 2
        log = 0.5 * np.log(GRID[:, None] / ridge).sum(axis=1) - shape * np.log(rates) - 0.5 * np.log10(GRID) ** 2
        weights = np.exp(log - log.max())
        return weights / weights.sum(), means, rates, shape

    @property
    def noise_variance(self) -> float:
        """E[σ²], in the units of the labels squared."""
        weights, _, rates, shape = self._grid
        return float(self.unit**2 * (weights @ rates) / (shape - 1))

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Of w in the basis: mean `[r]` and covariance `[r, r]`; and its variance in any direction outside."""
        weights, means, rates, shape = self._grid
        noise = weights * rates / (shape - 1)  # p(λ) E[σ² | λ]
        mean = weights @ means
        gap = means - mean
        within = (noise[:, None] / (self.squares + GRID[:, None])).sum(axis=0)
        return mean, np.diag(within) + (gap * weights[:, None]).T @ gap, float((noise / GRID).sum())

    def latent(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of b + w·z, `[n], [n]`; a label's variance is `noise_variance` more."""
        mean, covariance, outside = self._moments
        means, variances = np.empty(count(x)), np.empty(count(x))
        for span, z in self._parts(x):
            inside = z @ self.basis
            means[span] = self.offset + self.unit * (inside @ mean)
            beyond = np.maximum((z**2).sum(axis=1) - (inside**2).sum(axis=1), 0.0)
            variances[span] = self.unit**2 * (((inside @ covariance) * inside).sum(axis=1) + outside * beyond)
        return means, variances + self.noise_variance / self.labels

    def covariance(self, x: Any, x2: Any) -> np.ndarray:
        """Covariance of b + w·z at all pairs, `[n, m]`; that of labels is the same."""
        _, inner, outside = self._moments
        other = np.concatenate([z for _, z in self._parts(x2)])
        there = other @ self.basis
        covariance = np.empty((count(x), len(other)))
        for span, z in self._parts(x):
            inside = z @ self.basis
            within = inside @ (inner - outside * np.eye(len(inner))) @ there.T
            covariance[span] = self.unit**2 * (within + outside * (z @ other.T))
        return covariance + self.noise_variance / self.labels

    def epig(self, x: Any, targets: Any, *, weights: np.ndarray | None = None) -> np.ndarray:
        """EPIG `[n]` by `information.gaussian.epig`, in closed form; in blocks of rows."""
        target_variance, x = self.latent(targets)[1] + self.noise_variance, sliceable(x, names=self.names)
        scores = np.empty(count(x))
        for span in spans(count(x), max(1, BLOCK // max(1, len(target_variance)))):
            part = take(x, span)
            variance = self.latent(part)[1] + self.noise_variance
            scores[span] = gaussian.epig(variance, target_variance, self.covariance(part, targets), weights=weights)
        return scores

    def predict(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances `[n, k]` of the label under each draw."""
        inside, outside, intercept, noise = self._drawn
        means = np.empty((count(x), self.draws))
        for span, z in self._parts(x):
            means[span] = self.offset + self.unit * (z @ outside + (z @ self.basis) @ inside + intercept)
        return means, np.broadcast_to(self.unit**2 * noise, means.shape).copy()

    @cached_property
    def _drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """w as a part in the basis [r, k] and one of the prior [d, k], b [k] and σ² [k] of each draw."""
        rng = rng_for(self.seed, 0, "linear regression")
        weights, means, rates, shape = self._grid
        grid = rng.choice(len(GRID), self.draws, p=weights)
        noise = rates[grid] / rng.gamma(shape, size=self.draws)
        sigma, ridge = np.sqrt(noise), GRID[grid]
        prior = rng.standard_normal((len(self.centre), self.draws)) * sigma / np.sqrt(ridge)
        narrow = np.sqrt(ridge / (self.squares[:, None] + ridge))  # what labels leave of the prior's deviation [r, k]
        inside = means[grid].T + (narrow - 1) * (self.basis.T @ prior)
        return inside, prior, sigma / np.sqrt(self.labels) * rng.standard_normal(self.draws), noise

    def _parts(self, x: Any) -> Any:
        """(rows, standardised inputs there)."""
        x = sliceable(x, names=self.names)
        for span in spans(count(x), max(1, BLOCK // max(1, len(self.centre) + self.draws))):
            part = features(take(x, span), width=len(self.centre), first=span.start, dtype=np.float64)
            yield span, (part - self.centre) / self.scale
