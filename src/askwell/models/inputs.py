"""Inputs at the models' door: what can be a table of numbers, cut into rows, checked, and refused with a reason."""

from typing import Any

import numpy as np

__all__ = ["check_lengths", "count", "features", "numbers", "sliceable"]


def features(x: Any, *, width: int | None = None, first: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """`x [n, features]` as numbers, finite and of the width the model was fitted with.

    Where x is a part of a longer table, `first` is the number of its first row there, for the words of a refusal.

    >>> features([[1, 2], [3, 4]], width=2)
    array([[1., 2.], [3., 4.]], dtype=float32)
    """
    try:
        with np.errstate(over="ignore"):  # too large for the dtype: infinite, and refused below
            array = np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype)  # sparse, from an encoder
    except (TypeError, ValueError) as fault:
        raise ValueError(_no_numbers(x, fault)) from None
    if array.ndim != 2 or (width is not None and array.shape[1] != width):
        wanted = "any number of" if width is None else str(width)
        raise ValueError(
            f"x must be a table [inputs, {wanted} features], but its shape is {array.shape}. {_reshaped(array, width)}"
        )
    if array.shape[1] == 0:
        raise ValueError(f"x must have at least one feature, but its shape is {array.shape}.")
    if not np.isfinite(array).all():
        row, column = (int(axis[0]) for axis in np.nonzero(~np.isfinite(array)))
        found = f"x[{first + row}, {column}] is {array[row, column]}"
        if array[row, column] == array[row, column]:  # not NaN
            raise ValueError(f"x must be finite, in {array.dtype}, but {found}. Clip or rescale that feature.")
        raise ValueError(
            f"x must be finite, but {found}. Fill missing values first, for instance with scikit-learn's SimpleImputer "
            "in a pipeline in front of the model."
        )
    return array


def _no_numbers(x: Any, fault: Exception) -> str:
    if isinstance(x, list | tuple) and "inhomogeneous" in str(fault):
        return "x must be a table [inputs, features], but its rows have different lengths."
    kinds = getattr(x, "dtypes", {})  # of a data frame
    names = [str(name) for name, kind in kinds.items() if _is_text(kind)] if hasattr(kinds, "items") else []
    which = f"the columns {', '.join(names)} hold" if names else "some of it is"
    return (
        f"x must hold numbers, but {which} text or something else. Encode categories first, for instance in a "
        "scikit-learn pipeline with OneHotEncoder or OrdinalEncoder in front of the model."
    )


def _is_text(kind: Any) -> bool:
    return getattr(kind, "kind", "O") not in "biuf"


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


def sliceable(x: Any) -> Any:
    """The inputs as something to `take` rows from: sparse matrices by rows, the rest as it is."""
    return x.tocsr() if hasattr(x, "tocsr") else x


def count(x: Any) -> int:
    """How many inputs there are in an array, a sparse matrix, a data frame or a list."""
    shape = getattr(x, "shape", None)
    if shape is None and hasattr(x, "__len__") and not isinstance(x, str | dict):
        return len(x)
    if not shape:
        raise ValueError(
            f"x must be a table or a list with one row per input, but it is of type {type(x).__name__}. "
            "Try [x] for a single input."
        )
    return int(shape[0])


def check_lengths(x: Any, y: Any) -> None:
    """Refuse inputs and labels of different numbers."""
    if count(x) != len(y):
        raise ValueError(
            f"x and y must be of the same length, but they have {count(x)} and {len(y)}. Give one label for each row."
        )
