"""Labels as scikit-learn's classifiers are given them: the sorted labels that occur, counted from 0.

That is what its own bags, votes and stacks make of labels for their members, so it is the same at every depth; and
the parameters that name classes (`class_weight={"spam": 20}`) are translated along with the labels.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from askwell.arrays import plain

__all__ = ["Encoding", "encoded"]

WEIGHTS = ("class_weight", "class_weights", "sampling_strategy")  # dicts from class to a number
SHARES = ("class_prior", "priors")  # a number for each class, in sorted order
SINGLE = ("pos_label",)  # one class
OWN_LABELS = ("sklearn.multiclass", "sklearn.multioutput")  # give their members labels of their own making, 0 and 1


@final
@dataclass(frozen=True, eq=False)
class Encoding:
    """Labels 0 to s - 1 for the s classes that occur, sorted, and the columns that these classes have."""

    y: np.ndarray  # [n]
    columns: tuple[int, ...]  # [s], of the classes that occur, among all classes
    classes: tuple[Any, ...]  # all, in column order
    declared: bool  # whether these are all that can occur

    @property
    def seen(self) -> list[Any]:
        """The labels that occur, in the order of their numbers."""
        return [self.classes[column] for column in self.columns]

    def columns_of(self, member: Any) -> np.ndarray:
        """The columns of the classes that a fitted member knows, in the order of its predictions."""
        return np.array([self.columns[int(label)] for label in member.classes_], np.intp)

    def applied(self, estimator: Any) -> Any:
        """The estimator, with the parameters that name classes, at any depth, set to what they mean here."""
        if not hasattr(estimator, "get_params"):
            return estimator
        params = estimator.get_params()
        new = {}
        for name, value in params.items():
            *owners, last = name.split("__")
            above = [estimator, *(params.get("__".join(owners[:depth])) for depth in range(1, len(owners) + 1))]
            meaning = self._meaning(last, name)
            if meaning is None or any(type(owner).__module__ in OWN_LABELS for owner in above):
                continue
            if (translated := meaning(value)) is not None:
                new[name] = translated
        return estimator.set_params(**new) if new else estimator

    def _meaning(self, last: str, name: str) -> Callable[[Any], Any] | None:
        """What turns the value of a parameter into one of the numbers; the result None leaves it as it is."""
        if last in WEIGHTS:
            return lambda value: self.weights(name, value) if isinstance(value, Mapping) else None
        if last in SHARES:
            return lambda value: self._shares(name, value) if value is not None else None
        if last in SINGLE:
            return lambda value: None if value is None else self._number(name, value)
        return None

    def weights(self, name: str, weights: Mapping[Any, float]) -> dict[int, float]:
        """Weights by number, of all classes that occur: one that is not named counts 1, as scikit-learn has it.

        A key that is no class is refused. Where the classes are not declared it may be one that is still to come, and
        is let pass if there is nothing that it could have been meant for.
        """
        given = {plain(label): weight for label, weight in weights.items()}
        strange = [label for label in given if label not in self.classes]
        if strange and (self.declared or any(label not in given for label in self.seen)):
            raise ValueError(self._unknown(name, strange[0]))
        if name.split("__")[-1] == "sampling_strategy":
            return {number: given[label] for number, label in enumerate(self.seen) if label in given}
        return {number: given.get(label, 1.0) for number, label in enumerate(self.seen)}

    def _shares(self, name: str, shares: Any) -> Any:
        """Shares of the classes that occur, given for those or for all."""
        given = np.asarray(shares, np.float64)
        if given.shape == (len(self.seen),):
            return None
        if given.shape != (len(self.classes),):
            raise ValueError(
                f"{name} must have a number for each of the classes {list(self.classes)}, but its shape is "
                f"{given.shape}. Where classes have no labels yet, name all of them: classes=[...]."
            )
        order = _sorted(self.classes)
        kept = np.array([given[order.index(label)] for label in self.seen])
        return kept / kept.sum()

    def _number(self, name: str, label: Any) -> int | None:
        if plain(label) not in self.classes:
            raise ValueError(self._unknown(name, label))
        return self.seen.index(plain(label)) if plain(label) in self.seen else None

    def _unknown(self, name: str, label: Any) -> str:
        spelt = {str(known): known for known in self.classes}
        near = difflib.get_close_matches(str(label), spelt, n=1)
        hint = f"Did you mean {spelt[near[0]]!r}? " if near else ""
        more = "" if self.declared else "If it is a class that has no label yet, name all classes: classes=[...]."
        return f"{name} must name classes, {list(self.classes)}, but {label!r} is none of them. {hint}{more}".rstrip()


def encoded(codes: np.ndarray, classes: Sequence[Any], *, declared: bool) -> Encoding:
    """The labels of columns `codes [n]` of the classes, as scikit-learn would count them.

    >>> encoded(np.array([2, 0, 2]), ("dog", "cow", "cat"), declared=True).y
    array([0, 1, 0])
    """
    seen = _sorted([classes[code] for code in np.unique(codes)])
    columns = [list(classes).index(label) for label in seen]
    number = np.zeros(len(classes), np.intp)
    number[columns] = np.arange(len(columns))
    return Encoding(number[codes], tuple(columns), tuple(classes), declared)


def _sorted(labels: Sequence[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:  # of several kinds: as they are
        return list(labels)
