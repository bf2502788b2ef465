"""Beliefs about numbers: what each draw says of a label is a Gaussian, its mean and its variance.

`Moments` stands where a classifier has `probs [n, k, c]`. Over draws the means vary: that is what the model does not
know. Read as one joint Gaussian (moment matching), with covariances of the means over draws,

    V[y] = V_k[mean] + E_k[variance],     Cov(y, y*) = Cov_k(mean, mean*),

every score of `askwell.information.gaussian` is there, without sampling inside. Of k unrelated draws an EPIG of about
1 / 2k nats is chance.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from askwell.arrays import to_numpy
from askwell.information import gaussian

__all__ = ["Moments", "as_moments", "bald", "epig", "pairwise_epig", "variance", "variance_reduction"]

TINY = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """Means and variances `[n, k]` of the labels of n inputs under k draws, float64.

    >>> moments = Moments(np.array([[0.0, 2.0]]), np.array([[0.5, 0.5]]))
    >>> moments.shape, moments.mean, variance(moments)
    ((1, 2, 2), array([1.]), array([2.5]))
    """

    means: np.ndarray  # [n, k]
    variances: np.ndarray  # [n, k]

    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n, k, 2): as many numbers as are held."""
        return (*self.means.shape, 2)

    @property
    def nbytes(self) -> int:
        """That are held."""
        return self.means.nbytes + self.variances.nbytes

    @property
    def mean(self) -> np.ndarray:
        """E[y] `[n]`, over draws."""
        mean: np.ndarray = self.means.mean(axis=1)
        return mean

    def __len__(self) -> int:
        return len(self.means)

    def __getitem__(self, rows: Any) -> "Moments":
        """The beliefs about some of the inputs: a slice, a mask or a list of positions."""
        return Moments(self.means[rows], self.variances[rows])

    def rolled(self, shift: int) -> "Moments":
        """With draws rotated by so many: what is left of any dependence is chance."""
        return Moments(np.roll(self.means, shift, axis=1), np.roll(self.variances, shift, axis=1))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """As one array `[n, k, 2]`."""
        return np.stack([self.means, self.variances], axis=2).astype(dtype or np.float64, copy=False)


def as_moments(predicted: Any) -> Moments:
    """What a regression posterior predicts, a pair `means, variances [n, k]`, checked.

    >>> as_moments(([[0.0, 1.0]], [[0.1, -0.1]]))
    Traceback (most recent call last):
    ValueError: predict must give means and variances [n, k], variances from 0, but a variance is -0.1.
    """
    means, variances = (to_numpy(each).astype(np.float64, copy=False) for each in predicted)
    words = "predict must give means and variances [n, k]"
    if means.ndim != 2 or means.shape != variances.shape or means.shape[1] < 1:
        raise ValueError(f"{words}, of equal shapes, but they are {means.shape} and {variances.shape}.")
    if not (np.isfinite(means).all() and np.isfinite(variances).all()):
        raise ValueError(f"{words}, finite, but some are NaN or infinite. Look at the model's predictions there.")
    if variances.size and variances.min() < 0:
        raise ValueError(f"{words}, variances from 0, but a variance is {variances.min():.3g}.")
    return Moments(means, variances)


def variance(moments: Moments) -> np.ndarray:
    """V[y] `[n]`: of the means over draws (by k - 1), and the mean of the variances."""
    total: np.ndarray = _spread(moments) + moments.variances.mean(axis=1)
    return total


def bald(moments: Moments) -> np.ndarray:
    """I(y; θ) `[n]` as in `gaussian.bald`: the draws' own variances are the noise.

    >>> bald(Moments(np.array([[0.0, 2.0], [1.0, 1.0]]), np.ones((2, 2)))).round(6)
    array([0.549306, 0.      ])
    """
    return np.asarray(gaussian.bald(_spread(moments), np.maximum(moments.variances, TINY)))


def epig(moments: Moments, target_moments: Moments, *, weights: np.ndarray | None = None) -> np.ndarray:
    """EPIG `[n]`: `gaussian.moment_matched_epig`."""
    return np.asarray(gaussian.moment_matched_epig(*_arrays(moments, target_moments), weights=weights))


def pairwise_epig(moments: Moments, target_moments: Moments) -> np.ndarray:
    """I(y; y*) `[n, m]` of every candidate with every target.

    >>> one = Moments(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))
    >>> pairwise_epig(one, one).round(6), epig(one, one).round(6)
    (array([[0.143841]]), array([0.143841]))
    """
    return np.asarray(
        gaussian.pairwise_epig(variance(moments), variance(target_moments), _covariance(moments, target_moments))
    )


def variance_reduction(moments: Moments, target_moments: Moments, *, weights: np.ndarray | None = None) -> np.ndarray:
    """What a label is expected to take off the targets' variances, `[n]`: `gaussian.variance_reduction`.

    >>> one = Moments(np.array([[0.0, 1.0, 2.0]]), np.ones((1, 3)))
    >>> variance_reduction(one, one)
    array([0.5])
    """
    covariance = _covariance(moments, target_moments)
    return np.asarray(gaussian.variance_reduction(variance(moments), covariance, weights=weights))


def _arrays(*beliefs: Moments) -> list[np.ndarray]:
    return [array for each in beliefs for array in (each.means, each.variances)]


def _spread(moments: Moments) -> np.ndarray:
    spread: np.ndarray = moments.means.var(axis=1, ddof=1)
    return spread


def _covariance(moments: Moments, target_moments: Moments) -> np.ndarray:
    """Of the means over draws, `[n, m]`."""
    here, there = (each.means - each.mean[:, None] for each in (moments, target_moments))
    covariance: np.ndarray = here @ there.T / (here.shape[1] - 1)
    return covariance
