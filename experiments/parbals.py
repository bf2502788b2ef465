"""Partial-label sampling: a batch picked one by one, each as if labels of those before it were known.

The labels are fantasies: each of a few is one of the posterior's draws, which says the labels of the picks so far. A
fantasy's posterior is the draws weighted by how likely they find its labels (nets are not trained anew, as the method
would have it: ten picks of five fantasies would be fifty fits), and the score is EPIG under that posterior, averaged
over fantasies. With all fantasies there are, it is the greedy choice by joint information; with few, a noisy one.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

import askwell
from experiments.loop import Uniform

__all__ = ["PartialLabels", "weighted_epig"]


@final
@dataclass(frozen=True, eq=False)
class PartialLabels:
    """How `acquire` is to choose (`Choice.own`): among the `shortlist` best by EPIG about these targets."""

    targets: Uniform
    fantasies: int = 8
    shortlist: int = 128

    def __call__(self, learner: askwell.Learner, x: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        """The positions of `size` of the inputs x."""
        posterior = learner.posterior
        targets = self.targets.sample(None, None, classes=[], rng=rng)
        target_probs, probs = np.asarray(posterior.predict(targets.x)), np.asarray(posterior.predict(x))
        scores = np.asarray(askwell.epig(probs, target_probs))
        short = np.argsort(-scores, kind="stable")[: max(self.shortlist, 2 * size)]
        return np.asarray(short[self._picked(probs[short], target_probs, min(size, len(short)), rng)])

    def _picked(self, probs: np.ndarray, target_probs: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        """In the order of the choice; the first has the highest score and comes first."""
        k = probs.shape[1]
        speakers = rng.choice(k, self.fantasies, replace=self.fantasies > k)  # the draw that says a fantasy's labels
        logs, picked = np.zeros((self.fantasies, k)), [0]
        while len(picked) < size:
            last = probs[picked[-1]]  # [k, c]
            labels = [rng.choice(last.shape[1], p=last[draw] / last[draw].sum(dtype=float)) for draw in speakers]
            logs += np.log(np.maximum(last[:, labels].T, 1e-30))
            weights = np.exp(logs - logs.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)  # [fantasies, k]
            score = np.sum([weighted_epig(probs, target_probs, each) for each in weights], axis=0)
            score[picked] = -np.inf
            picked.append(int(score.argmax()))
        return np.array(picked, np.intp)


def weighted_epig(probs: np.ndarray, target_probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """EPIG `[n]` of candidates `[n, k, c]` about targets `[m, k, c]`, where draw k has the weight `weights [k]`.

    With equal weights it is `askwell.epig`:

    >>> rng = np.random.default_rng(0)
    >>> probs, target_probs = rng.dirichlet(np.ones(3), size=(5, 20)), rng.dirichlet(np.ones(3), size=(4, 20))
    >>> equal = weighted_epig(probs, target_probs, np.full(20, 1 / 20))
    >>> bool(np.allclose(equal, askwell.epig(probs, target_probs)))
    True
    """
    n, c = probs.shape[0], probs.shape[2]
    likely = weights > 1e-6 * weights.max()  # the others change nothing
    ours = (probs[:, likely] * weights[likely, None].astype(probs.dtype)).transpose(0, 2, 1).reshape(n * c, -1)
    theirs = target_probs[:, likely].transpose(1, 0, 2).reshape(ours.shape[1], -1)
    joint = np.maximum(ours @ theirs, 1e-30)  # [n*c, m*c]
    apart = ours.sum(axis=1)[:, None], (weights[likely].astype(probs.dtype) @ theirs)[None]
    ratio = joint / np.maximum(apart[0] * apart[1], 1e-30)
    return np.asarray((joint * np.log(ratio)).reshape(n, -1).sum(axis=1) / len(target_probs), np.float64)
