"""The best candidates of a large pool under a Gaussian process: covariances in single precision first.

EPIG in closed form needs the covariance of every candidate with every target: 10^8 numbers for a pool of 10^5 and 10^3
targets. The bounds of `information.probit` are content with rough ones, made in single precision, in blocks that
stay in the cache; only the few candidates that they leave are looked at exactly.
"""

from typing import Any, Protocol

import numpy as np

from askwell.information.probit import CovarianceRows
from askwell.information.probit import top_epig as top_epig_of_latents
from askwell.models.gp_inference import Sites
from askwell.models.gp_kernel import Kernel
from askwell.models.inputs import Names, features, sliceable

__all__ = ["Latents", "rough_covariance", "top_epig"]

UNIT = 2.0**-24  # rounding of single precision
FEW = 8  # features: with more, their differences one by one would take longer than a matrix product


class Latents(Protocol):
    """The posterior of a latent f that labelled inputs and their sites make; `askwell.models.gp.Process` is one."""

    @property
    def kernel(self) -> Kernel:
        """Of the prior."""

    @property
    def x(self) -> np.ndarray:
        """The labelled inputs, [labels, features]."""

    @property
    def names(self) -> Names:
        """The names of their columns."""

    @property
    def sites(self) -> Sites:
        """What the labels say."""

    def latent(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f, `[n], [n]`."""

    def covariance(self, x: Any, x2: Any) -> np.ndarray:
        """Covariance of f at all pairs, `[n, m]`."""


def top_epig(
    process: Latents, x: Any, targets: Any, size: int, *, weights: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """The `size` candidates with the highest EPIG, best first: (positions [size], scores [size]).

    As sorting what `GPPosterior.epig` gives, up to the rounding of covariances, without scoring all of `x`.

    >>> from askwell.models.gp import GPClassifier
    >>> from askwell.seeds import rng_for
    >>> posterior = GPClassifier().fit([[0.0], [4.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"))
    >>> top_epig(posterior.process, [[0.0], [2.0], [9.0]], [[1.5], [2.5]], 1)[0]
    array([1])
    """
    width = process.x.shape[1]
    x, targets = (
        features(sliceable(each, names=process.names), width=width, dtype=np.float64) for each in (x, targets)
    )
    (mean, variance), (target_mean, target_variance) = process.latent(x), process.latent(targets)
    rough, error = rough_covariance(process, x, targets)
    best, scores = top_epig_of_latents(
        mean,
        target_mean,
        variance,
        target_variance,
        lambda rows: process.covariance(x[rows], targets),
        size,
        weights=weights,
        rough=rough,
        error=error,
    )
    return best, scores


def rough_covariance(process: Latents, x: np.ndarray, targets: np.ndarray) -> tuple[CovarianceRows, float]:
    """Covariances in float32 as a function of rows of `x`, `[rows, m]`, and how wrong they may be.

    Rounding moves a coordinate z by |z| u, so the exponent -½d² by about 2 d |z| u, and scale · exp(-½d²) by no more
    than scale · 1.3 |z| u; where d is large nothing is left to be wrong. The product over labels has terms whose sizes
    sum to at most the scale.
    """
    kernel, sites, labelled = process.kernel, process.sites, process.x
    centre, half = targets.mean(axis=0), np.sqrt(0.5) / np.asarray(kernel.length)
    places, target_places = ((each - centre) * half for each in (x, targets))
    white = sites.whiten(kernel(labelled, targets)).astype(np.float32)
    columns, log_scale = target_places.T.astype(np.float32), np.float32(np.log(kernel.scale))

    def prior(rows: Any) -> np.ndarray:
        if len(columns) > FEW:
            return kernel(x[rows], targets).astype(np.float32)
        own = places[rows].astype(np.float32)
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

    reach = float(np.abs(target_places).sum(axis=1).max())
    return rough, float(kernel.scale * UNIT * (len(labelled) + 4 * reach + 16))


def _squares(own: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """(own_i - theirs_j)² `[n, m]`."""
    gap = np.subtract.outer(own, theirs)
    squares: np.ndarray = np.multiply(gap, gap, out=gap)
    return squares
