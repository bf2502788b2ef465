"""Inputs and labels at the models' door: tables of numbers, cut into rows, checked, and refused with a reason.

Columns of a data frame are known by name, as in scikit-learn: a posterior keeps the names of its fit (`column_names`)
and `sliceable` brings later frames into that order. An array has no names and is taken by position.

Labels are given to scikit-learn's classifiers as it counts them itself for the members of bags, votes and stacks: those
that occur, sorted, from 0. Parameters that name classes (`class_weight={"spam": 20}`) are translated along with them.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from askwell.arrays import check_table, count, plain

__all__ = [
    "Encoding",
    "Names",
    "aligned",
    "as_vectors",
    "check_lengths",
    "check_table",
    "column_names",
    "count",
    "encoded",
    "features",
    "is_frame",
    "numbers",
    "other_columns",
    "sliceable",
]

Names: TypeAlias = tuple[Any, ...] | None
"""The columns of a data frame, in order; None of anything that has no names."""

WEIGHTS = ("class_weight", "class_weights", "sampling_strategy")  # dicts from class to a number
SHARES = ("class_prior", "priors")  # a number for each class, in sorted order
SINGLE = ("pos_label",)  # one class
OWN_LABELS = ("sklearn.multiclass", "sklearn.multioutput")  # give their members labels of their own making, 0 and 1


def features(
    x: Any, *, width: int | None = None, first: int = 0, dtype: Any = np.float32, missing: bool = False
) -> np.ndarray:
    """`x [n, features]` as numbers, finite (or, with `missing`, NaN) and of the width the model was fitted with.

    Where x is a part of a longer table, `first` is the number of its first row there, for the words of a refusal.

    >>> features([[1, 2], [3, 4]], width=2)
    array([[1., 2.], [3., 4.]], dtype=float32)
    """
    check_table(x)
    try:
        with np.errstate(over="ignore"):  # too large for the dtype: infinite, and refused below
            array = np.asarray(_plain(x, dtype), dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(_no_numbers(x, error)) from None
    if array.ndim != 2 or (width is not None and array.shape[1] != width):
        wanted = "any number of" if width is None else str(width)
        raise ValueError(
            f"x must be a table [inputs, {wanted} features], but its shape is {array.shape}. {_reshaped(array, width)}"
        )
    if array.shape[1] == 0:
        raise ValueError(f"x must have at least one feature, but its shape is {array.shape}.")
    wrong = ~np.isfinite(array) if not missing else np.isinf(array)
    if wrong.any():
        row, column = (int(axis[0]) for axis in np.nonzero(wrong))
        entry = f"x[{first + row}, {column}] is {array[row, column]}"
        names = column_names(x)
        if names is not None:
            entry += f" (column {names[column]!r})"
        if array[row, column] == array[row, column]:  # not NaN
            raise ValueError(f"x must be finite, in {array.dtype}, but {entry}. Clip or rescale that feature.")
        raise ValueError(
            f"x must be finite, but {entry}. Fill missing values first, for instance with scikit-learn's SimpleImputer "
            "in a pipeline in front of the model."
        )
    return array


def _no_numbers(x: Any, error: Exception) -> str:
    if isinstance(x, list | tuple) and "inhomogeneous" in str(error):
        return "x must be a table [inputs, features], but its rows have different lengths."
    if isinstance(x, dict):
        return (
            f"x must be a table [inputs, features], but it is a dict of {', '.join(map(repr, x))}. This model takes "
            "one table of numbers; networks (askwell.models.dropout) take a dict of arrays by name."
        )
    names = [str(name) for name in other_columns(x)] if is_frame(x) else []
    which = f"the columns {', '.join(names)} hold" if names else "some of it is"
    return (
        f"x must hold numbers, but {which} text or something else. Encode categories first, for instance in a "
        "scikit-learn pipeline with OneHotEncoder or OrdinalEncoder in front of the model."
    )


def other_columns(x: Any) -> list[Any]:
    """The columns of a data frame that hold no numbers: text, categories, times."""
    return [name for name, kind in zip(x.columns, x.dtypes, strict=True) if not _is_number(kind)]


def _is_number(kind: Any) -> bool:
    """Whether a column of this dtype holds numbers: of pandas, or of polars, whose dtypes have names that say so."""
    if hasattr(kind, "is_numeric"):
        return bool(kind.is_numeric()) or str(kind) == "Boolean"
    return getattr(kind, "kind", "O") in "biuf"


def _plain(x: Any, dtype: Any) -> Any:
    """The inputs as something that NumPy makes numbers of: dense, and pandas' missing values as NaN."""
    if hasattr(x, "toarray"):  # sparse, from an encoder
        return x.toarray()
    if is_frame(x) and hasattr(x, "isna"):
        return x.to_numpy(dtype, na_value=np.nan)
    return x


def _reshaped(array: np.ndarray, width: int | None) -> str:
    if array.ndim < 2:
        return "Try [x] for a single input, or x.reshape(-1, 1) for a single feature."
    if array.ndim > 2:
        return "Try x.reshape(len(x), -1), or a network for images and sequences (docs/models.md)."
    return "Give the features of the fit, in the same order." if width is not None else ""


def numbers(y: Any) -> np.ndarray:
    """Real labels `y [n]` in float64, at least one, finite.

    >>> numbers([1, 2.5])
    array([1. , 2.5])
    """
    try:
        values = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers, but some of it is not. For classes use a classifier.") from None
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"y must be a list of at least one number, one per example, but its shape is {values.shape}.")
    if not np.isfinite(values).all():
        i = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"y must be finite, but y[{i}] is {values[i]}. Leave unlabelled examples out of x and y.")
    return values


def sliceable(x: Any, *, names: Names = None, by_name: bool = False) -> Any:
    """The inputs as something to `take` rows from: sparse matrices by rows, frames with the columns `names` in order.

    With `by_name` the model picks columns by name itself, and frames with other columns are left to it.
    """
    check_table(x)
    return x.tocsr() if hasattr(x, "tocsr") else aligned(x, names, by_name=by_name)


# ---- columns by name -----------------------------------------------------------------------------------------------


def is_frame(x: Any) -> bool:
    """Whether x is a data frame of pandas, polars or their like."""
    return hasattr(x, "columns") and hasattr(x, "dtypes") and hasattr(x, "to_numpy")


def column_names(x: Any) -> Names:
    """The names of a data frame's columns, in order; None for arrays.

    >>> column_names(np.zeros((2, 3))) is None
    True
    """
    return tuple(x.columns) if is_frame(x) else None


def aligned(x: Any, names: Names, *, by_name: bool = False) -> Any:
    """The inputs, a data frame's columns in the order of `names`; a frame with other columns is refused.

    Without names on either side columns go by position, as in scikit-learn; so they do where one side's are just
    counted, 0, 1, 2, and the other's are words. With `by_name`, whoever gets x picks its columns by name itself, and a
    frame with other columns is passed on as it is.
    """
    given = column_names(x)
    if names is None or given is None or given == names:
        return x
    if len(given) == len(names) == len({*names}) and {*given} == {*names}:
        return x[list(names)]
    if by_name or _by_position(given, names):
        return x
    raise ValueError(_other_columns(given, names))


def _by_position(given: tuple[Any, ...], names: tuple[Any, ...]) -> bool:
    """Whether only positions can tell: one side is counted, and the other has other words, or "0", "1" for 0, 1."""
    here, there = [str(name) for name in given], [str(name) for name in names]
    return (_counted(given) or _counted(names)) and (here == there or not {*here} & {*there})


def _counted(names: tuple[Any, ...]) -> bool:
    """Whether they are the numbers that pandas gives to columns without names."""
    return names == tuple(range(len(names)))


def _other_columns(given: tuple[Any, ...], names: tuple[Any, ...]) -> str:
    missing = [name for name in names if name not in given]
    extra = [name for name in given if name not in names]
    parts = []
    if missing:
        parts.append(f"{_listed(missing)} {'is' if len(missing) == 1 else 'are'} missing{_near(missing, extra)}")
    if extra:
        parts.append(f"{_listed(extra)} {'was' if len(extra) == 1 else 'were'} not there in the fit")
    if not parts:
        parts.append(f"its columns are {_listed(given)}, and names that occur more than once cannot tell them apart")
    remedy = "Rename or add what is missing." if missing else f"Try x[{list(names)!r}]." if len(names) <= 8 else ""
    return f"x must have the columns of the fit, {_listed(names)}, but {', and '.join(parts)}. {remedy}".rstrip()


def _near(missing: list[Any], extra: list[Any]) -> str:
    """Which of the columns that are there may be meant."""
    spelt = {str(name).lower().strip(): name for name in extra}
    pairs = [
        f"{spelt[near[0]]!r} for {name!r}"
        for name in missing
        if (near := difflib.get_close_matches(str(name).lower().strip(), spelt, n=1))
    ]
    return f" (did you mean {', '.join(pairs)}?)" if pairs else ""


def _listed(names: Any) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown) if len(shown) <= 12 else ", ".join([*shown[:12], f"... ({len(shown)} in all)"])


# ---- rows ----------------------------------------------------------------------------------------------------------


def as_vectors(x: Any) -> np.ndarray | None:
    """Inputs as `[n, d]` numbers to measure distances by, or None where they are none.

    >>> as_vectors([[[1, 2], [3, 4]]]), as_vectors(["a text"])
    (array([[1., 2., 3., 4.]]), None)
    """
    try:
        values = np.asarray(x.toarray() if hasattr(x, "toarray") else x, np.float64)
    except (TypeError, ValueError):
        return None
    if values.ndim < 2 or not np.isfinite(values).all():
        return None
    flat: np.ndarray = values.reshape(len(values), -1)
    return flat


def check_lengths(x: Any, y: Any) -> None:
    """Refuse inputs and labels of different numbers."""
    if count(x) != len(y):
        raise ValueError(
            f"x and y must be of the same length, but they have {count(x)} and {len(y)}. Give one label for each row."
        )


# ---- labels, as scikit-learn counts them -----------------------------------------------------------------------------


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
        own = np.array([given[order.index(label)] for label in self.seen])
        return own / own.sum()

    def _number(self, name: str, label: Any) -> int | None:
        if plain(label) not in self.classes:
            raise ValueError(self._unknown(name, label))
        return self.seen.index(plain(label)) if plain(label) in self.seen else None

    def _unknown(self, name: str, label: Any) -> str:
        spelt = {str(label): label for label in self.classes}
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
