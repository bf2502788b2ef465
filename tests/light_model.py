"""A model that needs nothing but NumPy: weighted votes of the labelled neighbours, k bootstrap draws."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LightModel:
    draws: int = 16

    def fit(self, x, y, *, rng):
        classes = sorted(set(np.asarray(y).tolist()))
        codes = np.array([classes.index(label) for label in np.asarray(y).tolist()])
        counts = rng.exponential(size=(self.draws, len(codes)))
        return LightPosterior(tuple(classes), np.asarray(x, float), np.eye(len(classes))[codes], counts)


@dataclass(frozen=True)
class LightPosterior:
    classes: tuple
    x: np.ndarray
    votes: np.ndarray  # [l, c]
    counts: np.ndarray  # [k, l]

    def predict(self, x):
        near = np.exp(-((np.asarray(x, float)[:, None] - self.x) ** 2).sum(axis=-1))  # [n, l]
        weight = near[:, None, :] * self.counts + 1e-3  # [n, k, l]
        probs = weight @ self.votes + 1e-3
        return probs / probs.sum(axis=-1, keepdims=True)
