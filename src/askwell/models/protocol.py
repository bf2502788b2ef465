"""What askwell asks of a model: fit, and a posterior whose draws stay the same.

A `Model` turns labelled examples into a `Posterior`. Draw k of a posterior is one parameter vector, and the same one in
every `predict` call, whatever the batch, the chunk, the process or the machine: EPIG multiplies a candidate's and a
target's probabilities draw by draw, so this is what makes it true. `askwell.testing.check_model` proves it.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from askwell.arrays import Array, plain, to_numpy
from askwell.information.categorical import vote_shares
from askwell.information.moments import as_moments, variance
from askwell.information.votes import Votes

__all__ = [
    "FastPosterior",
    "Model",
    "NumericPosterior",
    "Posterior",
    "Shortcuts",
    "beliefs",
    "check_labels",
    "check_rng",
    "checked_number",
    "class_codes",
    "fit_model",
    "label_moments",
    "mean_predict",
    "predicted",
    "predicts_numbers",
    "shortcuts",
    "spread",
    "takes",
]


@runtime_checkable
class Posterior(Protocol):
    """What is believed after some labels."""

    @property
    def classes(self) -> Sequence[Any]:
        """The c labels, in the order of the columns of `predict`."""

    def predict(self, x: Any) -> Array:
        """Class probabilities `[n, k, c]` of n inputs under the k draws, the same draws in every call."""


class NumericPosterior(Protocol):
    """What is believed of numbers after some labels: what a `Model` with `regression = True` gives.

    A posterior that is one joint Gaussian may also have `latent(x)` (mean and variance `[n]` of the value without
    noise), `covariance(x, x2)` `[n, m]` of it, `noise_variance`, and `epig` as in `FastPosterior`: then scores and
    predictions are exact, without draws.
    """

    def predict(self, x: Any) -> tuple[Array, Array]:
        """Means and variances `[n, k]` of the label of n inputs under the k draws, the same draws in every call."""


class FastPosterior(Posterior, Protocol):
    """What a posterior may offer besides, each by itself: ways to the same answers that take less time or memory.

    `shortcuts` is the only place that looks for them. A posterior with `epig` has no draws to be too few.
    """

    concurrent: bool  # whether several threads may call `predict` at once, each on one core

    def predict_votes(self, x: Any) -> Votes | None:
        """`predict(x)` as votes, where each draw is sure of its class; None where some draw is not."""

    def predict_above(self, x: Any, screen: Any) -> tuple[np.ndarray, np.ndarray]:
        """(rows of x that the screen lets through, their `predict`): those whose EPIG may be among the best."""

    def epig(self, x: Any, targets: Any, *, weights: np.ndarray | None = None) -> np.ndarray:
        """EPIG in closed form, `[n]`; there must be `predict_proba(x) [n, c]` then too, also in closed form."""

    def top_epig(
        self, x: Any, targets: Any, size: int, *, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows, EPIG) of the `size` best in closed form, without those that cannot be among them."""


@final
@dataclass(frozen=True)
class Shortcuts:
    """The methods of `FastPosterior` that a posterior has; None is one that it has not."""

    predict_votes: Callable[..., Any] | None
    predict_above: Callable[..., Any] | None
    epig: Callable[..., Any] | None
    top_epig: Callable[..., Any] | None
    concurrent: bool


def shortcuts(posterior: Any) -> Shortcuts:
    """What a posterior offers besides `predict`.

    >>> class Plain:
    ...     classes, predict = ("a", "b"), None
    >>> shortcuts(Plain()).epig is None, shortcuts(Plain()).concurrent
    (True, False)
    """
    methods = {name: getattr(posterior, name, None) for name in ("predict_votes", "predict_above", "epig", "top_epig")}
    return Shortcuts(**methods, concurrent=bool(getattr(posterior, "concurrent", False)))


@runtime_checkable
class Model(Protocol):
    """What can learn from labels: classes, or numbers where it has `regression = True`."""

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator) -> Posterior | NumericPosterior:
        """The posterior given labelled inputs; the same rng gives the same posterior.

        A model may also take `classes=`, the labels that can occur, to give those without an example a column of its
        own making; where it does not, askwell gives them a column of zeros.
        """


def fit_model(
    model: Model,
    x: Any,
    y: Any,
    *,
    rng: np.random.Generator,
    classes: Sequence[Any] | None = None,
    declared: bool = True,
) -> Any:
    """`model.fit`, with a column for each of the classes whether or not the model knows of them.

    With `declared=False` the classes are merely those of y, in order: others may come.
    """
    if classes is None or predicts_numbers(model):
        return model.fit(x, y, rng=rng)
    if declared and takes(model.fit, "classes"):
        return model.fit(x, y, rng=rng, classes=classes)  # type: ignore[call-arg]
    posterior: Any = model.fit(x, y, rng=rng)
    return posterior if list(posterior.classes) == list(classes) else _Spread(posterior, tuple(classes))


def predicts_numbers(model: Any) -> bool:
    """Whether labels are numbers to this model, not classes: it says so by `regression = True`."""
    return bool(getattr(model, "regression", False))


def predicted(posterior: Any, x: Any) -> Any:
    """`posterior.predict(x)`: an array `[n, k, c]`, or of numbers `Moments`; no tensor, but what it holds."""
    found = posterior.predict(x)
    return as_moments(found) if isinstance(found, tuple) else to_numpy(found)


def beliefs(posterior: Any, x: Any) -> Any:
    """`predicted`, or the same as `Votes` where the posterior has `predict_votes(x)` and its draws are sure."""
    fast = shortcuts(posterior).predict_votes
    votes = None if fast is None else fast(x)
    return predicted(posterior, x) if votes is None else votes


def mean_predict(posterior: Posterior, x: Any) -> np.ndarray:
    """p(y|x) `[n, c]`, the mean over the posterior's draws. Whatever predicts, rather than scores, asks here."""
    belief = beliefs(posterior, x)
    if isinstance(belief, Votes):
        return vote_shares(belief).astype(np.float32)
    mean: np.ndarray = belief.mean(axis=1)
    return mean


def label_moments(posterior: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance `[n]` of the labels, numbers: in closed form where the posterior is a joint Gaussian."""
    if hasattr(posterior, "latent"):
        mean, latent = posterior.latent(x)
        return mean, latent + posterior.noise_variance
    moments = predicted(posterior, x)
    return moments.mean, variance(moments)


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function can be given an argument of this name.

    >>> takes(lambda x, *, rng: x, "rng"), takes(lambda x, **others: x, "rng"), takes(lambda x: x, "rng")
    (True, True, False)
    """
    parameters = inspect.signature(function).parameters
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def class_codes(y: Any, classes: Sequence[Any] | None) -> tuple[np.ndarray, tuple[Any, ...]]:
    """(the labels as column numbers [n], the classes in column order); the sorted labels that occur if none are given.

    >>> class_codes(["dog", "cat", "dog"], ["cat", "cow", "dog"])
    (array([2, 0, 2]), ('cat', 'cow', 'dog'))
    """
    labels = np.asarray(y)
    if labels.ndim != 1:
        hint = "Try y.ravel()." if labels.ndim and labels.shape[-1] == 1 else "Try y.argmax(1) if it is one-hot."
        raise ValueError(f"y must be a list of labels, one per example, but its shape is {labels.shape}. {hint}")
    if len(labels) == 0:
        raise ValueError("y must have at least one label, but it is empty. Label a few examples of each class first.")
    named = [plain(label) for label in y] if isinstance(y, list | tuple) else labels.tolist()
    missing = [i for i, label in enumerate(named) if _is_missing(label)]
    if missing:
        raise ValueError(
            f"y must hold labels, but y[{missing[0]}] is {named[missing[0]]}. Leave unlabelled examples out of x and y."
        )
    check_labels(named, like=[plain(label) for label in (() if classes is None else classes)])
    all_classes = _in_order(named) if classes is None else tuple(classes)
    column_of = {label: column for column, label in enumerate(all_classes)}
    if len(column_of) < len(all_classes):
        raise ValueError(f"classes must name each class once, but they are {all_classes}.")
    strange = [label for label in named if label not in column_of]
    if strange:
        raise ValueError(f"y must hold labels of the classes {all_classes}, but {strange[0]!r} is none of them.")
    return np.array([column_of[label] for label in named], np.intp), all_classes


def check_labels(labels: Sequence[Any], *, like: Sequence[Any] = (), name: str = "y") -> None:
    """Refuse what cannot be classes: fractions, and truth values among numbers, where True would be 1.

    `like` are the classes, or labels that there are already; missing values are for the caller to find.

    >>> check_labels([0.5, 1.0])
    Traceback (most recent call last):
    ValueError: y must hold classes, but one is 0.5, a fraction. To predict numbers, take a regressor ...
    >>> check_labels([1], like=[True, False])
    Traceback (most recent call last):
    ValueError: y must hold labels of one kind, but 1 is a number and True is a truth value, ...
    """
    first: dict[bool, Any] = {}  # whether it is a truth value -> the first that is, or is a number
    for label in (*like, *labels):
        if isinstance(label, float) and not label.is_integer():
            raise ValueError(
                f"{name} must hold classes, but one is {label!r}, a fraction. To predict numbers, take a regressor for "
                "a model, such as RandomForestRegressor(500); if these are names of classes, make them text."
            )
        if isinstance(label, int | float):
            first.setdefault(isinstance(label, bool), label)
    if len(first) > 1:
        number, truth = (first[False], first[True])
        raise ValueError(
            f"{name} must hold labels of one kind, but {number!r} is a number and {truth!r} is a truth value, and "
            "to Python True is 1. Make all of them one or the other."
        )


def checked_number(label: Any, *, name: str = "y") -> float:
    """A label that is a number, finite; anything else is refused.

    >>> checked_number(float("nan"))
    Traceback (most recent call last):
    ValueError: y must hold finite numbers, because the model predicts numbers, but one is nan. ...
    """
    if isinstance(label, bool) or not isinstance(label, int | float) or not abs(label) < float("inf"):
        raise ValueError(
            f"{name} must hold finite numbers, because the model predicts numbers, but one is {label!r}. Leave "
            "unlabelled examples out; for classes take a classifier."
        )
    return float(label)


def _is_missing(label: Any) -> bool:
    """None, NaN, which is not itself, and pandas' NA, which will not say."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def _in_order(labels: list[Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted({*labels}))
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(
            f"y must hold labels of one kind, but it holds {kinds}. Make them all text, or pass classes=[...]."
        ) from None


def check_rng(rng: Any) -> None:
    """Refuse what is no generator; most often it is a seed.

    >>> check_rng(0)
    Traceback (most recent call last):
    ValueError: rng must be a NumPy Generator, but it is 0. Try numpy.random.default_rng(0), ...
    """
    if not isinstance(rng, np.random.Generator):
        seed = rng if isinstance(rng, int) else 0
        raise ValueError(
            f"rng must be a NumPy Generator, but it is {rng!r}. Try numpy.random.default_rng({seed}), or "
            f'askwell.seeds.rng_for({seed}, 0, "fit").'
        )


def spread(probs: np.ndarray, columns: Sequence[int], c: int) -> np.ndarray:
    """`probs [..., seen]` as `[..., c]`: seen class i in column `columns[i]`, zeros elsewhere.

    >>> spread(np.array([[0.25, 0.75]]), [0, 2], 3)
    array([[0.25, 0.  , 0.75]])
    """
    if list(columns) == list(range(c)):
        return probs
    out = np.zeros((*probs.shape[:-1], c), probs.dtype)
    out[..., list(columns)] = probs
    return out


@final
@dataclass(frozen=True)
class _Spread:
    """A posterior whose model knew only the classes it had seen."""

    seen: Posterior
    classes: tuple[Any, ...]

    def predict(self, x: Any) -> Array:
        columns = [self.classes.index(label) for label in self.seen.classes]
        return spread(predicted(self.seen, x), columns, len(self.classes))
