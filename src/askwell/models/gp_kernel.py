"""The squared exponential kernel of `askwell.models.gp`, its hyperparameters learnt, and its random waves."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtri

from askwell.models.gp_inference import Sites, evidence_gradient

__all__ = ["Kernel", "learnt", "spectrum"]

PRIOR_SD = 2.0  # of log hyperparameters around those given: a factor of 7 is ordinary, one of 400 needs evidence
LOG_REACH = np.log(1e3)
STARTS = (0.0, -1.2, 1.2)  # of log length: the evidence may have a hill for noise and one for signal


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


def learnt(
    kernel: Kernel, noise: float | None, x: np.ndarray, infer: Callable[[np.ndarray, Any], Sites]
) -> tuple[Kernel, Any]:
    """The kernel (and noise, if there is one) with the highest evidence under a weak prior around those given.

    `infer(gram [n, n], noise)` gives the sites. The prior is log-normal with PRIOR_SD: four labels alone would as soon
    have a length of zero or of a million. L-BFGS with the exact gradient, from a few starts.

    >>> from askwell.models.gp_inference import regression
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
    found = [
        minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 50}) for start in starts
    ]
    return _unpacked(min(found, key=lambda each: float(each.fun)).x, kernel, noise)


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
