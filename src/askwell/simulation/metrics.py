"""What a simulation measures on the test set after every step: metrics by name, or functions of one's own.

Of classes: accuracy, balanced_accuracy, auc, f1, log_loss, brier. Of numbers: rmse, mae, nll, r2.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from askwell.models.protocol import takes

__all__ = ["CLASSES", "NUMBERS", "Prediction", "chosen_metrics", "lower_is_better", "measured", "metrics"]

LEAST = 1e-12  # probability that a log loss believes in
LOWER = {"log_loss", "brier", "rmse", "mae", "nll"}
ENDINGS = ("error", "loss", "deviance")  # of the names of what is to be small, in scikit-learn too
USUAL = {False: ("accuracy", "balanced_accuracy", "log_loss"), True: ("rmse", "mae", "nll")}


class Prediction(NamedTuple):
    """What is predicted of the test set: of classes their probabilities, of numbers mean and variance of the label."""

    probs: np.ndarray | None = None  # [n, c]
    mean: np.ndarray | None = None  # [n]
    variance: np.ndarray | None = None  # [n]


def lower_is_better(metric: str) -> bool:
    """Whether less of a metric is better: known of those with a name here; else where it ends as scikit-learn's do.

    >>> [lower_is_better(name) for name in ("rmse", "accuracy", "my_error", "f1_score")]
    [True, False, True, False]
    """
    return metric in LOWER or metric.endswith(ENDINGS)


def chosen_metrics(metrics: Any, *, numbers: bool) -> dict[str, str | Callable[..., float]]:
    """Name -> name or function; the usual three if nothing is given.

    >>> list(chosen_metrics(None, numbers=True))
    ['rmse', 'mae', 'nll']
    >>> chosen_metrics(["acuracy"], numbers=False)
    Traceback (most recent call last):
    ValueError: metrics must be among accuracy, balanced_accuracy, auc, f1, log_loss, brier where labels are ...
    """
    given = (
        USUAL[numbers] if metrics is None else [metrics] if isinstance(metrics, str) or callable(metrics) else metrics
    )
    named: dict[str, Any] = {}
    for name in given:
        known = name if isinstance(name, str) else getattr(name, "__name__", repr(name))
        named[known] = given[name] if isinstance(given, Mapping) else name
    table = NUMBERS if numbers else CLASSES
    for name, metric in named.items():
        if not callable(metric) and metric not in table:
            raise ValueError(
                f"metrics must be among {', '.join(table)} where labels are {'numbers' if numbers else 'classes'}, or "
                f"functions of (labels, predictions), but {name!r} is {metric!r}."
            )
    if not named:
        raise ValueError("metrics must name at least one metric, but there is none.")
    return named


def measured(
    metrics: Mapping[str, str | Callable[..., float]],
    truth: np.ndarray,
    found: Prediction,
    *,
    classes: Sequence[Any] = (),
) -> dict[str, float]:
    """Each metric of a prediction; `truth [n]` are numbers, or the columns of the true classes.

    A function gets labels and predicted labels, as scikit-learn's metrics do, and `probs=` if it takes that: `[n, c]`,
    in the order of `classes`.

    >>> found = Prediction(mean=np.array([1.0, 2.0]), variance=np.array([1.0, 1.0]))
    >>> measured({"rmse": "rmse", "bias": lambda y, mean: (mean - y).mean()}, np.array([1.0, 4.0]), found)
    {'rmse': 1.414..., 'bias': -1.0}
    """
    parts = [part for part in found if part is not None]
    if not all(np.isfinite(part).all() for part in parts):
        raise ValueError("the model must predict finite numbers for the test inputs, but some are NaN or infinite.")
    values = {}
    for name, metric in metrics.items():
        if isinstance(metric, str):
            value = (CLASSES if found.probs is not None else NUMBERS)[metric](truth, *parts)
        elif found.probs is None:
            value = metric(truth, found.mean)
        else:
            labels = np.asarray(classes)
            options = {"probs": found.probs} if takes(metric, "probs") else {}
            value = metric(labels[truth], labels[found.probs.argmax(axis=1)], **options)
        values[name] = float(value)
        if not np.isfinite(values[name]):
            raise ValueError(f"metrics must give finite numbers, but {name!r} gave {values[name]}.")
    return values


def metrics(probs: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    """The usual ones of mean predictions `probs [n, c]`, where the true classes stand in the columns `codes [n]`.

    >>> metrics(np.array([[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]]), np.array([0, 0, 1]))
    {'accuracy': 0.666..., 'balanced_accuracy': 0.75, 'log_loss': 0.693...}
    """
    return measured({name: name for name in USUAL[False]}, codes, Prediction(np.asarray(probs, np.float64)))


# ---- classes: codes [n], probs [n, c]; the predicted class is the most probable one, of several the first -----------


def _accuracy(codes: np.ndarray, probs: np.ndarray) -> float:
    return float((probs.argmax(axis=1) == codes).mean())


def _balanced_accuracy(codes: np.ndarray, probs: np.ndarray) -> float:
    """The mean, over the classes that occur, of the share of each that is predicted right."""
    right = probs.argmax(axis=1) == codes
    return float(np.mean([right[codes == code].mean() for code in np.unique(codes)]))


def _log_loss(codes: np.ndarray, probs: np.ndarray) -> float:
    """-mean log p(y), no p being less than 1e-12."""
    return float(-np.log(np.maximum(probs[np.arange(len(codes)), codes], LEAST)).mean())


def _brier(codes: np.ndarray, probs: np.ndarray) -> float:
    """mean sum_c (p(c) - [y = c])^2, from 0 to 2."""
    return float(((probs - np.eye(probs.shape[1])[codes]) ** 2).sum(axis=1).mean())


def _f1(codes: np.ndarray, probs: np.ndarray) -> float:
    """F1 of each class that occurs or is predicted, 2 TP / (2 TP + FP + FN), and the mean of these."""
    best = probs.argmax(axis=1)
    pairs = [(best == c, codes == c) for c in np.union1d(best, codes)]
    return float(np.mean([2 * (here & there).sum() / (here.sum() + there.sum()) for here, there in pairs]))


def _auc(codes: np.ndarray, probs: np.ndarray) -> float:
    """The chance that an example of a class has a higher p(class) than another; the mean over classes that occur."""
    areas = []
    for c in np.unique(codes):
        _, place, counts = np.unique(probs[:, c], return_inverse=True, return_counts=True)
        ranks, here = (np.cumsum(counts) - (counts - 1) / 2)[place], codes == c
        a, b = here.sum(), (~here).sum()
        if b:
            areas.append((ranks[here].sum() - a * (a + 1) / 2) / (a * b))
    return float(np.mean(areas)) if areas else 0.5


CLASSES: Mapping[str, Callable[..., float]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "auc": _auc,
    "f1": _f1,
    "log_loss": _log_loss,
    "brier": _brier,
}
"""Metrics of classes, that have a name."""


# ---- numbers: y, mean, variance [n] --------------------------------------------------------------------------------


def _rmse(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    return float(np.sqrt(((y - mean) ** 2).mean()))


def _mae(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    return float(np.abs(y - mean).mean())


def _nll(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """-mean log N(y; mean, variance)."""
    v = np.maximum(variance, LEAST)
    return float(0.5 * (np.log(2 * np.pi * v) + (y - mean) ** 2 / v).mean())


def _r2(y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """The share of the labels' variance that is explained."""
    whole = float(((y - y.mean()) ** 2).mean())
    return 1 - float(((y - mean) ** 2).mean()) / whole if whole > 0 else 0.0


NUMBERS: Mapping[str, Callable[..., float]] = {"rmse": _rmse, "mae": _mae, "nll": _nll, "r2": _r2}
"""Metrics of numbers, that have a name."""
