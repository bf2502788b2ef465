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

from askwell.arrays import Array

__all__ = ["Model", "Posterior", "check_rng", "class_codes", "fit_model", "spread", "takes"]


@runtime_checkable
class Posterior(Protocol):
    """What is believed after some labels."""

    @property
    def classes(self) -> Sequence[Any]:
        """The c labels, in the order of the columns of `predict`."""

    def predict(self, x: Any) -> Array:
        """Class probabilities `[n, k, c]` of n inputs under the k draws, the same draws in every call."""


@runtime_checkable
class Model(Protocol):
    """What can learn from labels."""

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator) -> Posterior:
        """The posterior given labelled inputs; the same rng gives the same posterior.

        A model may also take `classes=`, the labels that can occur, to give those without an example a column of its
        own making; where it does not, askwell gives them a column of zeros.
        """


def fit_model(
    model: Model, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None
) -> Posterior:
    """`model.fit`, with a column for each of the classes whether or not the model knows of them."""
    if classes is None:
        return model.fit(x, y, rng=rng)
    if takes(model.fit, "classes"):
        return model.fit(x, y, rng=rng, classes=classes)  # type: ignore[call-arg]
    return _Spread(model.fit(x, y, rng=rng), tuple(classes))


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
    named = labels.tolist()
    missing = [i for i, label in enumerate(named) if label is None or label != label]  # NaN is not itself
    if missing:
        raise ValueError(
            f"y must hold labels, but y[{missing[0]}] is {named[missing[0]]}. Leave unlabelled examples out of x and y."
        )
    known = _in_order(named) if classes is None else tuple(classes)
    place = {label: column for column, label in enumerate(known)}
    if len(place) < len(known):
        raise ValueError(f"classes must name each class once, but they are {known}.")
    strange = [label for label in named if label not in place]
    if strange:
        raise ValueError(f"y must hold labels of the classes {known}, but {strange[0]!r} is none of them.")
    return np.array([place[label] for label in named], np.intp), known


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
        return spread(np.asarray(self.seen.predict(x)), columns, len(self.classes))
