"""How good predictions are: accuracy as in the paper, and beside it what accuracy alone does not tell.

Where classes are not as common in the pool as in the test set (Magic, two of the MNIST pools), accuracy measures
which way a model leans as much as what it can tell apart. The area under the ROC curve ignores the lean, and
`prior_accuracy` takes it away by what EPIG is told and the model is not: p*(y*), how common the classes are.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from askwell.simulation.metrics import metrics

__all__ = ["MEASURES", "auc", "measures", "with_prior"]

MEASURES = ("accuracy", "balanced_accuracy", "auc", "log_loss", "prior_accuracy")
ROUNDS = 200  # of matching the mean prediction to the prior
CLOSE = 1e-6


def measures(probs: np.ndarray, codes: np.ndarray, prior: Sequence[float]) -> dict[str, float]:
    """All `MEASURES` of mean predictions `[n, c]`, where the true classes are `codes [n]`.

    >>> probs = np.array([[0.6, 0.4], [0.9, 0.1], [0.8, 0.2]])
    >>> found = measures(probs, np.array([1, 0, 0]), (2 / 3, 1 / 3))
    >>> [round(found[name], 2) for name in MEASURES]
    [0.67, 0.5, 1.0, 0.41, 1.0]
    """
    right = with_prior(probs, prior).argmax(axis=1) == codes
    return metrics(probs, codes) | {"auc": auc(probs, codes), "prior_accuracy": float(right.mean())}


def auc(probs: np.ndarray, codes: np.ndarray) -> float:
    """The area under the ROC curve: the share of pairs, one of a class and one not, that p(class) puts in order.

    With more than two classes, or three of which two are tested, its mean over the classes that occur, each against the
    others; pairs that are level count half. NaN where only one class occurs.

    >>> auc(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1]))
    1.0
    """
    areas = []
    for code in np.unique(codes):
        here = codes == code
        ones, others = int(here.sum()), int((~here).sum())
        if others:
            above = rankdata(probs[:, code])[here].sum() - ones * (ones + 1) / 2
            areas.append(above / (ones * others))
    return float(np.mean(areas)) if areas else float("nan")


def with_prior(probs: np.ndarray, prior: Sequence[float]) -> np.ndarray:
    """Predictions `[n, c]` of inputs whose classes are known to be as common as `prior` says, `[n, c]`.

    p'(y|x) is w(y) p(y|x), normalised, with the one weight per class that makes its mean over these inputs the prior:
    the weights that a change of the classes' frequencies alone would ask for, found by matching in turns. No label is
    looked at.

    >>> with_prior(np.array([[0.9, 0.1], [0.7, 0.3]]), (0.5, 0.5)).mean(axis=0).round(3)
    array([0.5, 0.5])
    """
    wanted = np.asarray(prior, np.float64)
    found = np.maximum(np.asarray(probs, np.float64), 1e-12)
    for _ in range(ROUNDS):
        found = found / found.sum(axis=1, keepdims=True)
        mean = found.mean(axis=0)
        if np.abs(mean - wanted).max() < CLOSE:
            break
        found = found * (wanted / np.maximum(mean, 1e-300))
    shares: np.ndarray = found / found.sum(axis=1, keepdims=True)
    return shares
