"""How frequent the classes are where the model will be used: p*(y) turned into weights, and p*(y) itself estimated.

Both assume that only the frequencies differ (label shift): inputs of one class look the same in the pool, among the
labelled examples and in use.
"""

import math
import warnings
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.special import log_softmax, softmax

from askwell.arrays import Array, accept

__all__ = ["class_weights", "effective_size", "estimate_prior"]

FLOOR = 1e-6  # of a probability before its logarithm: a forest that rules a class out has not seen everything
ROUNDS = 5000  # of EM at most
RIDGE = 1.0  # the prior precision of the biases of calibration
SUM_ROW = 10.0  # how much "the prior sums to one" weighs against one row of the confusion matrix
SURER = 2 / 3  # of a class's mean doubt: held-out predictions come from models with fewer labels, and are less sure
ERRORS = 3.0  # standard errors beyond that before held-out labels are taken to have been chosen


def class_weights(probs: Array, prior: Array) -> np.ndarray:
    """w(x) ∝ sum_y p*(y) p(y|x) / mean_x p(y|x) for `probs [n, c]` and `prior [c]`, as [n], summing to one.

    With these weights inputs of a pool stand for inputs whose classes are as frequent as `prior` says (the paper's
    section on sampling target inputs). A class that nobody predicts has no inputs to weigh: it is left out, and the
    others share.

    >>> class_weights([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]], [0.5, 0.5]).round(2)
    array([0.28, 0.28, 0.45])
    """
    p, shares = _checked("probs", probs), np.asarray(prior, np.float64)
    if shares.shape != (p.shape[1],):
        raise ValueError(f"prior must have one number per class, [{p.shape[1]}], but its shape is {shares.shape}.")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
        raise ValueError(f"prior must hold probabilities, at least one of them positive, but it is {shares.tolist()}.")
    mean = p.mean(axis=0)
    known = (mean > 0) & (shares > 0)
    if not known.any():
        raise ValueError(
            "prior must give some probability to a class that the model predicts, but the classes it names have no "
            "predicted probability anywhere. Label some examples of them first."
        )
    w = (p[:, known] / mean[known]) @ shares[known]
    normalised: np.ndarray = w / w.sum()
    return normalised


def effective_size(weights: Array) -> float:
    """1 / sum_j w_j^2 for weights that are normalised first: how many equal weights would be as good.

    >>> effective_size([0.5, 0.5, 0.0, 0.0]), effective_size([1, 1, 1, 1])
    (2.0, 4.0)
    """
    w = np.asarray(weights, np.float64)
    w = w / w.max()
    return float(w.sum() ** 2 / (w @ w))


def estimate_prior(
    target_probs: Array,
    held_out_probs: Array,
    held_out_labels: Array,
    *,
    method: Literal["em", "bbse"] = "em",
    calibrate: bool = True,
    source: Array | None = None,
) -> np.ndarray:
    """The frequencies p*(y) `[c]` of the classes among unlabelled target inputs.

    `target_probs [m, c]` are predictions of the target inputs, `held_out_probs [l, c]` predictions of labelled examples
    *by models that did not learn from them* (cross-validation), `held_out_labels [l]` their labels as column numbers.

    - `"em"`: the q of the highest likelihood prod_i sum_y q(y) p(y|x_i) / p(y), by EM (Saerens et al.), where p(y) is
      the prior behind p(y|x). Only as good as the probabilities: `calibrate` first fits a temperature and a bias per
      class to the held-out labels.
    - `"bbse"`: solves sum_y p(predicted = i | y) q(y) = p*(predicted = i) for q >= 0 by least squares (black-box shift
      estimation, Lipton et al.). Needs no good probabilities, but enough labels of every class.

    `source` is the prior behind p(y|x): predictions `[n, c]` of the pool that the labelled examples came from, which
    are calibrated and averaged, or frequencies `[c]`. By default the frequencies of the held-out labels are taken for
    it, and they are it only if these were drawn at random. **Labels that were chosen need it**, and `"em"` can use it:
    `"bbse"` divides by how they are predicted, which is not how the rest of their class is. Where labels of every class
    are much less surely predicted than the targets, they look chosen, and there is a warning.

    A class without a held-out label cannot be estimated: it gets 0, with a warning.

    >>> sure = np.eye(2)
    >>> estimate_prior(sure[[0, 1, 1, 1]], sure, [0, 1], method="bbse").round(2)
    array([0.25, 0.75])
    """
    if method not in ("em", "bbse"):
        raise ValueError(f'method must be "em" or "bbse", but it is {method!r}.')
    targets, held = _checked("target_probs", target_probs), _checked("held_out_probs", held_out_probs)
    if targets.shape[1] != held.shape[1]:
        raise ValueError(
            "target_probs and held_out_probs must have the same classes, but their shapes are "
            f"{targets.shape} and {held.shape}."
        )
    labels = _checked_labels(held_out_labels, held)
    known = np.flatnonzero(np.bincount(labels, minlength=held.shape[1]))
    if len(known) < held.shape[1]:
        missing = sorted({*range(held.shape[1])} - {*known.tolist()})
        warnings.warn(
            f"no held-out label has the classes in the columns {missing}, so their frequency cannot be estimated and "
            "is taken to be 0. Label some examples of them first.",
            stacklevel=2,
        )
    codes = np.searchsorted(known, labels)
    behind = None if source is None else _checked_source(source, held.shape[1])[:, known]
    if (behind is None or method == "bbse") and _look_chosen(targets, held, codes):
        warnings.warn(
            "the held-out labels look chosen, not drawn at random: their classes are predicted much less surely than "
            "the targets. The estimate may be far off. Give the predictions of the whole pool as source= (with "
            'method="em"), or labels that were drawn at random.',
            stacklevel=2,
        )
    q = np.zeros(held.shape[1])
    if method == "bbse":
        q[known] = _black_box(targets, held, codes, len(known))
        return q
    fit: Callable[[np.ndarray], np.ndarray] = _calibration(_share(held[:, known]), codes) if calibrate else _identity
    if behind is None:
        prior = np.bincount(codes) / len(codes)
    elif len(behind) == 1:
        prior = _share(behind)[0]
    else:
        prior = fit(_share(behind)).mean(axis=0)
    q[known] = _most_likely(fit(_share(targets[:, known])), prior)
    return q


def _look_chosen(targets: np.ndarray, held: np.ndarray, codes: np.ndarray) -> bool:
    """Whether held-out labels of every class are predicted with much more doubt than the targets are on average.

    If inputs of one class look the same in both, the mean doubt 1 - max p of the targets is a mixture of the classes'.
    """
    doubt, theirs = 1 - held.max(axis=1), 1 - targets.max(axis=1)
    classes = [doubt[codes == y] for y in range(int(codes.max()) + 1)]
    if min(len(rows) for rows in classes) < 2 or len(theirs) < 2:
        return False
    error = math.sqrt(theirs.var(ddof=1) / len(theirs) + max(rows.var(ddof=1) / len(rows) for rows in classes))
    return bool(theirs.mean() < SURER * min(rows.mean() for rows in classes) - ERRORS * error)


def _black_box(targets: np.ndarray, held: np.ndarray, codes: np.ndarray, known: int) -> np.ndarray:
    """q >= 0 with the confusion matrix times q as near as can be to how often each class is predicted."""
    c = targets.shape[1]
    predicted = np.eye(c)[held.argmax(axis=1)]  # [l, c]
    confusion = np.stack([predicted[codes == y].mean(axis=0) for y in range(known)], axis=1)  # [c, known]
    counts = np.bincount(targets.argmax(axis=1), minlength=c) / len(targets)
    # Clipping a plain solution is worse where classes have few labels: an L1 error of 0.43 against 0.32 with 100.
    from scipy.optimize import nnls  # here: it takes a while to load

    q, _ = nnls(np.vstack([confusion, np.full(known, SUM_ROW)]), np.append(counts, SUM_ROW))
    normalised: np.ndarray = q / q.sum()
    return normalised


def _most_likely(probs: np.ndarray, source: np.ndarray) -> np.ndarray:
    """EM for the class frequencies q of inputs with p(y|x) `probs` under the class frequencies `source`."""
    ratio, q = probs / source, source
    for _ in range(ROUNDS):
        joint = ratio * q
        before, q = q, (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(q - before).max() < 1e-12:
            break
    return q


def _identity(probs: np.ndarray) -> np.ndarray:
    return probs


def _calibration(held: np.ndarray, codes: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Scales logits by a temperature and shifts them by a bias per class, as fits the held-out labels best."""
    logits, rows = np.log(held), np.arange(len(codes))
    onehot = np.eye(held.shape[1])[codes]

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        slope, bias = np.exp(v[0]), v[1:]
        log_p = log_softmax(logits * slope + bias, axis=1)
        error = np.exp(log_p) - onehot  # [l, c]
        value = -log_p[rows, codes].sum() + RIDGE / 2 * (v @ v)
        return value, np.append((error * logits).sum() * slope, error.sum(axis=0)) + RIDGE * v

    from scipy.optimize import minimize  # here: it takes a while to load

    v = minimize(loss, np.zeros(1 + held.shape[1]), jac=True, method="L-BFGS-B").x

    def fitted(probs: np.ndarray) -> np.ndarray:
        calibrated: np.ndarray = softmax(np.log(probs) * np.exp(v[0]) + v[1:], axis=1)
        return calibrated

    return fitted


def _share(probs: np.ndarray) -> np.ndarray:
    """Floored, and summing to one over the classes that are left."""
    p = np.maximum(probs, FLOOR)
    normalised: np.ndarray = p / p.sum(axis=1, keepdims=True)
    return normalised


def _checked(name: str, probs: Array) -> np.ndarray:
    _, (array,) = accept(**{name: probs})
    if array.ndim != 2 or 0 in array.shape:
        hint = " Try array.mean(axis=1) for the mean of the draws." if array.ndim == 3 else ""
        raise ValueError(f"{name} must be class probabilities [inputs, classes], but its shape is {array.shape}.{hint}")
    p = np.asarray(array.cpu() if hasattr(array, "cpu") else array, np.float64)
    total = p.sum(axis=1)
    wrong = ~((p >= 0).all(axis=1) & (np.abs(total - 1) <= 1e-3))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{name} must hold probabilities that sum to one over its last axis (classes), but row {row} is "
            f"{p[row].tolist()}. Apply a softmax if these are logits."
        )
    return p


def _checked_source(source: Array, c: int) -> np.ndarray:
    """As rows of probabilities; frequencies make one row."""
    given = np.asarray(source.cpu() if hasattr(source, "cpu") else source)
    rows = _checked("source", given[None, :] if given.ndim == 1 else source)
    if rows.shape[1] != c:
        raise ValueError(f"source must have the {c} classes of the held-out predictions, but it has {rows.shape[1]}.")
    return rows


def _checked_labels(labels: Array, held: np.ndarray) -> np.ndarray:
    codes, (n, c) = np.asarray(labels), held.shape
    if codes.shape != (n,):
        raise ValueError(f"held_out_labels must be one label per held-out row, [{n}], but its shape is {codes.shape}.")
    if codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= c:
        raise ValueError(
            f"held_out_labels must be column numbers from 0 to {c - 1}, but they are like {codes[0]!r}. "
            "Try [classes.index(label) for label in labels]."
        )
    return codes.astype(np.intp)
