"""Gaussian processes: two classes through a probit, and regression; exact covariances, and draws of functions.

The posterior of a GP is one joint Gaussian over all inputs. `latent` and `covariance` give it, and `epig` the expected
information in closed form from it, with no sampling. `predict` gives the same belief as draws: draw k is one function,
a random Fourier prior plus the exact update by the labels (Matheron's rule; Wilson et al. 2020), so it can be asked for
any inputs in any number of calls. The functions are drawn at the first call, from a seed that `fit` took from its rng:
a fit takes milliseconds and a posterior is a few kilobytes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, final
from warnings import warn

import numpy as np
from scipy.special import ndtr

from askwell.arrays import spans, take
from askwell.information import gaussian, probit
from askwell.models.gp_inference import Kernel, Sites, ep, learnt, regression, spectrum, variational
from askwell.models.inputs import Names, check_lengths, column_names, count, features, numbers, sliceable
from askwell.models.protocol import check_rng, class_codes
from askwell.notebook import brief
from askwell.seeds import rng_for

__all__ = [
    "GPClassifier",
    "GPPosterior",
    "GPRegressionPosterior",
    "GPRegressor",
    "Kernel",
    "Process",
    "rough_covariance",
]

INFERENCE = {"ep": ep, "vi": variational}
BLOCK = 1 << 21  # numbers in one block of a long prediction: 16 MiB
SEEDS = 2**63
PAPER = Kernel(scale=10.0)
UNIT = Kernel()
ROUNDING = 2.0**-24  # of single precision
FEW = 8  # features: with more, their differences one by one would take longer than a matrix product


@final
@dataclass(frozen=True)
class GPClassifier:
    """A Gaussian process f ~ GP(0, kernel) for two classes, p(y = classes[1] | x) = Φ(f(x)); the paper's by default.

    `inference` is "ep" (expectation propagation, the faster) or "vi" (the Gaussian with the highest evidence lower
    bound, the paper's objective). `learn` fits scale and length to the labels, by the evidence under a
    weak prior around those given. `draws` functions are made of `frequencies` random waves each.

    >>> posterior = GPClassifier().fit([[0.0], [1.0], [4.0]], ["no", "no", "yes"], rng=rng_for(0, 0, "fit"))
    >>> posterior.predict_proba([[0.5], [4.0]]).round(2)                   # [n, c]
    array([[0.92, 0.08],
           [0.15, 0.85]])
    >>> posterior.predict([[0.5], [4.0]]).shape                            # [n, k, c]
    (2, 500, 2)
    """

    kernel: Kernel = PAPER
    inference: Literal["ep", "vi"] = "ep"
    learn: bool = False
    draws: int = 500
    frequencies: int = 1024

    def __post_init__(self) -> None:
        if self.inference not in INFERENCE:
            raise ValueError(f'inference must be "ep" or "vi", but it is {self.inference!r}.')
        _check_draws(self.draws, self.frequencies)

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None) -> "GPPosterior":
        """The posterior given labelled inputs; one of the two classes may still be without an example."""
        codes, two_classes = class_codes(y, classes)
        _check_two(two_classes)
        check_rng(rng)
        names, x = column_names(x), _inputs(x, codes, self.kernel)
        signs, infer = 2.0 * codes - 1, INFERENCE[self.inference]
        kernel = learnt(self.kernel, None, x, lambda gram, _: infer(gram, signs))[0] if self.learn else self.kernel
        sites = infer(kernel(x, x), signs)
        if not sites.converged:
            warn(f"{self.inference} did not converge with {kernel}. Try a smaller scale.", RuntimeWarning, stacklevel=2)
        seed = int(rng.integers(SEEDS))
        return GPPosterior(two_classes, Process(kernel, x, sites, seed, self.draws, self.frequencies, names))


@final
@dataclass(frozen=True)
class GPRegressor:
    """A Gaussian process for numbers: y = f(x) + N(0, `noise`), f ~ GP(0, kernel). `noise` is a variance.

    `normalise` works on (y - mean) / standard deviation, and scale and noise are then in units of the labels' variance;
    `learn` fits scale, length and noise to the labels.

    >>> posterior = GPRegressor(noise=0.01).fit([[0.0], [1.0]], [0.0, 2.0], rng=rng_for(0, 0, "fit"))
    >>> mean, variance = posterior.latent([[1.0], [9.0]])
    >>> mean.round(2), variance.round(2)
    (array([1.97, 0.  ]), array([0.01, 1.  ]))
    >>> posterior.epig([[0.0], [3.0]], [[3.0], [3.5]]).round(3)            # ask where the targets are
    array([0.   , 1.343])
    """

    regression: ClassVar[bool] = True  # labels are numbers

    kernel: Kernel = UNIT
    noise: float = 0.1
    learn: bool = False
    normalise: bool = False
    draws: int = 500
    frequencies: int = 1024

    def __post_init__(self) -> None:
        if not (np.isfinite(self.noise) and self.noise > 0):
            raise ValueError(f"noise must be a positive number, a variance, but it is {self.noise}. Try 1e-6 for none.")
        _check_draws(self.draws, self.frequencies)

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator) -> "GPRegressionPosterior":
        """The posterior given inputs `[n, features]` and numbers `[n]`."""
        y = numbers(y)
        check_rng(rng)
        names, x = column_names(x), _inputs(x, y, self.kernel)
        offset, unit = (float(y.mean()), float(y.std()) or 1.0) if self.normalise else (0.0, 1.0)
        kernel, noise, y = self.kernel, self.noise, (y - offset) / unit
        if self.learn:
            kernel, noise = learnt(kernel, noise, x, lambda gram, noise: regression(gram, y, noise))
        sites, seed = regression(kernel(x, x), y, noise), int(rng.integers(SEEDS))
        process = Process(kernel, x, sites, seed, self.draws, self.frequencies, names)
        return GPRegressionPosterior(process, noise * unit**2, offset, unit)


@final
@dataclass(frozen=True, eq=False)
class Process:
    """The posterior of f: a kernel, labelled inputs, what their labels say, and a seed for functions drawn from it."""

    kernel: Kernel
    x: np.ndarray  # [labels, features]
    sites: Sites
    seed: int
    draws: int
    frequencies: int
    names: Names = None  # of the columns of the fit

    def inputs(self, x: Any) -> np.ndarray:
        """`x [n, features]`, checked, in float64."""
        return features(sliceable(x, names=self.names), width=self.x.shape[1], dtype=np.float64)

    def parts(self, x: Any, size: int) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, `x [n, features]` there, checked), `size` rows at a time; float64 copies do not grow with x."""
        x, width = sliceable(x, names=self.names), self.x.shape[1]
        for span in spans(count(x), max(1, size)):
            yield span, features(take(x, span), width=width, first=span.start, dtype=np.float64)

    def latent(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f, `[n, features] -> [n], [n]`."""
        mean, variance = np.empty(count(x)), np.empty(count(x))
        for span, part in self.parts(x, BLOCK // len(self.x)):
            cross = self.kernel(self.x, part)
            white = self.sites.whiten(cross)
            mean[span] = self.sites.weights @ cross
            variance[span] = self.kernel.scale - np.einsum("ij,ij->j", white, white)
        return mean, np.maximum(variance, 0)

    def covariance(self, x: Any, x2: Any) -> np.ndarray:
        """Covariance of f at all pairs, `[n, features], [m, features] -> [n, m]`."""
        x2 = self.inputs(x2)
        white = self.sites.whiten(self.kernel(self.x, x2))
        covariance = np.empty((count(x), len(x2)))
        for span, part in self.parts(x, BLOCK // len(self.x)):
            covariance[span] = self.kernel(part, x2) - self.sites.whiten(self.kernel(self.x, part)).T @ white
        return covariance

    def paths(self, x: Any) -> Iterator[tuple[slice, np.ndarray]]:
        """f at x in each draw, in blocks of rows (rows, f `[rows, k]`); draw k is the same function in every call."""
        waves, weights, update = self._paths
        for span, part in self.parts(x, BLOCK // (2 * len(waves) + len(self.x) + self.draws)):
            yield span, self._prior(part, waves) @ weights + self.kernel(part, self.x) @ update

    @cached_property
    def _paths(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Frequencies [waves, features], weights [2 waves, k] of the prior functions, and of their updates [labels, k].

        A function of the posterior is one of the prior plus K(·, X) (K + T⁻¹)⁻¹ (what the sites saw - what they would
        have seen in this function, site noise included); nothing is divided by τ, so a site may say nothing.
        """
        rng = rng_for(self.seed, 0, "gp paths")
        waves = spectrum(self.frequencies, self.x.shape[1], rng)
        weights = rng.standard_normal((2 * len(waves), self.draws))
        noise = rng.standard_normal((len(self.x), self.draws))
        seen = self._prior(self.x, waves) @ weights
        return waves, weights, self.sites.weights[:, None] - self.sites.precision_of_labels(seen, noise)

    def _prior(self, x: np.ndarray, waves: np.ndarray) -> np.ndarray:
        """√(scale/waves) [cos, sin] `[n, 2 waves]`: rows multiply to about the kernel, to scale with themselves."""
        angle = (x / self.kernel.length) @ waves.T
        prior: np.ndarray = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
        prior *= np.sqrt(self.kernel.scale / len(waves))
        return prior


@final
@dataclass(frozen=True, eq=False)
class GPPosterior:
    """The belief of a `GPClassifier`: the joint Gaussian of the latent f, and p(y = classes[1]) = Φ(f)."""

    __repr__ = brief

    classes: tuple[Any, ...]
    process: Process

    def latent(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f, `[n], [n]`."""
        return self.process.latent(x)

    def covariance(self, x: Any, x2: Any) -> np.ndarray:
        """Covariance of f at all pairs, `[n, m]`."""
        return self.process.covariance(x, x2)

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, 2]` under each draw, float32."""
        probs = np.empty((count(x), self.process.draws, 2), np.float32)
        for span, f in self.process.paths(x):
            probs[span, :, 0], probs[span, :, 1] = ndtr(-f), ndtr(f)
        return probs

    def predict_proba(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, 2]` without sampling, Φ(m / √(1 + v))."""
        mean, variance = self.latent(x)
        a = mean / np.sqrt(1 + variance)
        return np.stack([ndtr(-a), ndtr(a)], axis=-1)

    def epig(self, x: Any, targets: Any, *, weights: np.ndarray | None = None) -> np.ndarray:
        """EPIG `[n]` by `information.probit.epig`: no draws, no bias; in blocks of rows."""
        target_mean, target_variance = self.latent(targets)

        def score(rows: np.ndarray) -> Any:
            mean, variance = self.latent(rows)
            covariance = self.covariance(rows, targets)
            return probit.epig(mean, target_mean, variance, target_variance, covariance, weights=weights)

        return _by_rows(score, x, len(target_mean), self.process)

    def top_epig(
        self, x: Any, targets: Any, size: int, *, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `size` best by `epig`, best first: (positions, scores), without scoring all of a large pool.

        The covariance of every candidate with every target is 10^8 numbers for a pool of 10^5 and 10^3 targets. The
        bounds of `information.probit` are content with rough ones, and only the few candidates that they leave
        are looked at exactly.
        """
        x, targets = self.process.inputs(x), self.process.inputs(targets)
        (mean, variance), (target_mean, target_variance) = self.latent(x), self.latent(targets)
        rough, error = rough_covariance(self.process, x, targets)
        return probit.top_epig(
            mean, target_mean, variance, target_variance, lambda rows: self.covariance(x[rows], targets), size,
            weights=weights, rough=rough, error=error,
        )  # fmt: skip


@final
@dataclass(frozen=True, eq=False)
class GPRegressionPosterior:
    """The belief of a `GPRegressor`: the joint Gaussian of f, and the noise of labels, in the units of the labels."""

    __repr__ = brief

    process: Process
    noise_variance: float
    offset: float
    unit: float

    def latent(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f, `[n], [n]`; a label's variance is `noise_variance` more."""
        mean, variance = self.process.latent(x)
        return self.offset + self.unit * mean, self.unit**2 * variance

    def covariance(self, x: Any, x2: Any) -> np.ndarray:
        """Covariance of f at all pairs, `[n, m]`; that of labels is the same."""
        return self.unit**2 * self.process.covariance(x, x2)

    def predict(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances `[n, k]` of the label under each draw."""
        means = np.empty((count(x), self.process.draws))
        for span, f in self.process.paths(x):
            means[span] = self.offset + self.unit * f
        return means, np.full(means.shape, self.noise_variance)

    def epig(self, x: Any, targets: Any, *, weights: np.ndarray | None = None) -> np.ndarray:
        """EPIG `[n]` by `information.gaussian.epig`, in closed form; in blocks of rows."""
        target_variance = self.latent(targets)[1] + self.noise_variance

        def score(rows: np.ndarray) -> Any:
            variance = self.latent(rows)[1] + self.noise_variance
            return gaussian.epig(variance, target_variance, self.covariance(rows, targets), weights=weights)

        return _by_rows(score, x, len(target_variance), self.process)


def rough_covariance(process: Process, x: np.ndarray, targets: np.ndarray) -> tuple[probit.CovarianceRows, float]:
    """Covariances in float32 as a function of rows of `x`, `[rows, m]`, and how wrong they may be.

    Rounding moves a coordinate z by |z| u, so the exponent -½d² by about 2 d |z| u, and scale · exp(-½d²) by no more
    than scale · 1.3 |z| u; where d is large nothing is left to be wrong. The product over labels has terms whose sizes
    sum to at most the scale.
    """
    kernel, sites, labelled = process.kernel, process.sites, process.x
    centre, half = targets.mean(axis=0), np.sqrt(0.5) / np.asarray(kernel.length)
    points, target_points = ((each - centre) * half for each in (x, targets))
    white = sites.whiten(kernel(labelled, targets)).astype(np.float32)
    columns, log_scale = target_points.T.astype(np.float32), np.float32(np.log(kernel.scale))

    def prior(rows: Any) -> np.ndarray:
        if len(columns) > FEW:
            return kernel(x[rows], targets).astype(np.float32)
        own = points[rows].astype(np.float32)
        total = _squares(own[:, 0], columns[0])
        for feature in range(1, len(columns)):
            total += _squares(own[:, feature], columns[feature])
        np.subtract(log_scale, total, out=total)
        exponentials: np.ndarray = np.exp(total, out=total)
        return exponentials

    def rough(rows: Any) -> np.ndarray:
        covariance = prior(rows)
        covariance -= sites.whiten(kernel(labelled, x[rows])).astype(np.float32).T @ white
        return covariance

    reach = float(np.abs(target_points).sum(axis=1).max())
    return rough, float(kernel.scale * ROUNDING * (len(labelled) + 4 * reach + 16))


def _squares(own: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """(own_i - theirs_j)² `[n, m]`."""
    gap = np.subtract.outer(own, theirs)
    squares: np.ndarray = np.multiply(gap, gap, out=gap)
    return squares


def _by_rows(score: Callable[[np.ndarray], Any], x: Any, m: int, process: Process) -> np.ndarray:
    parts = [score(part) for _, part in process.parts(x, BLOCK // max(1, m))]
    return np.concatenate(parts) if parts else np.zeros(0)


def _inputs(x: Any, y: Any, kernel: Kernel) -> np.ndarray:
    """`x [n, features]` of a fit, checked, in float64: a kernel sees smaller differences than a forest."""
    check_lengths(x, y)
    checked = features(x, dtype=np.float64)
    if np.ndim(kernel.length) and np.size(kernel.length) != checked.shape[1]:
        raise ValueError(
            f"length must be one number, or one for each of the {checked.shape[1]} features of x, but there are "
            f"{np.size(kernel.length)}."
        )
    return checked


def _check_two(classes: tuple[Any, ...]) -> None:
    if len(classes) == 1:
        raise ValueError(
            f"GPClassifier needs two classes, but all labels are {classes[0]!r}. Pass both as classes=[...], or label "
            "an example of the other."
        )
    if len(classes) != 2:
        raise ValueError(
            f"GPClassifier is for two classes, but there are {len(classes)}: {classes}. For more there are forests, "
            "linear models, ensembles and dropout networks (docs/models.md); or fit one GP per class against the rest."
        )


def _check_draws(draws: int, frequencies: int) -> None:
    if draws < 2 or frequencies < 1:
        raise ValueError(
            f"draws must be at least 2 and frequencies at least 1, but they are {draws} and {frequencies}. One draw "
            "knows no uncertainty; try 500 and 1024."
        )
