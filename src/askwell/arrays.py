"""Arrays at the door: which library they belong to, whether they are what was asked for, how to cut them.

Every public function of `askwell.information` takes NumPy arrays or torch tensors and answers in the same library, on
the same device. This file finds that library without importing it, checks the input once, and words the refusals.
A refusal names the argument, says what was expected, what came, and what to try.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

__all__ = [
    "Array",
    "accept",
    "alone",
    "as_numpy",
    "check_alike",
    "check_probs",
    "check_table",
    "count",
    "keep_freed_memory",
    "normalised_weights",
    "one_thread_each",
    "plain",
    "shares",
    "spans",
    "take",
    "threads",
    "to_numpy",
    "value_fault",
    "whole_power",
]

Array: TypeAlias = Any
"""A NumPy array or a torch tensor. Neither library can be named here without importing it."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h

_ALONE: ContextVar[bool] = ContextVar("alone", default=False)

#: How far a row of probabilities may be from summing to one. Float64 is often float32 softmax in a wider coat.
SUM_TOLERANCE = {"float32": 1e-4, "float64": 1e-5}


def accept(**named: Array) -> tuple[Any, list[Array]]:
    """The namespace that the named arrays share, and the arrays themselves; lists and frames become NumPy arrays.

    Refuses what is not floating point, and arrays of different libraries or devices.

    >>> xp, (mean,) = accept(mean=[0.5, 1.0])
    >>> xp.__name__, mean.dtype
    ('array_api_compat.numpy', dtype('float64'))
    """
    arrays = [_plain(name, value) for name, value in named.items()]
    kinds = {_library(array) for array in arrays}
    if len(kinds) > 1:
        each = ", ".join(f"{name} is {_library(array)}" for name, array in zip(named, arrays, strict=True))
        raise ValueError(
            f"all arrays of one call must come from the same library and device, but {each}. "
            "Try tensor.numpy(force=True) on the tensors, torch.as_tensor(array, device=...) on the arrays."
        )
    return array_api_compat.array_namespace(*arrays), arrays


def _plain(name: str, value: Array) -> Array:
    if array_api_compat.is_torch_array(value):
        value = value.detach()
    else:
        value = np.asarray(value)
        if not value.dtype.isnative:  # the other byte order, as files from elsewhere have it
            value = value.astype(value.dtype.newbyteorder("="))
    kind = str(value.dtype).removeprefix("torch.")
    if kind not in SUM_TOLERANCE:
        raise ValueError(
            f"{name} must be an array of float32 or float64, but its dtype is {kind}. "
            f"Class labels are not probabilities; if these numbers are, try {name}.astype('float32') "
            f"(for a tensor, {name}.float())."
        )
    return value


def _library(array: Array) -> str:
    return "numpy" if isinstance(array, np.ndarray) else f"torch on {array.device}"


def as_numpy(array: Array) -> np.ndarray | None:
    """The same memory as a NumPy array, for NumPy arrays and torch tensors on the CPU; None for others."""
    if isinstance(array, np.ndarray):
        return array
    if array.device.type == "cpu":
        return array.numpy()  # type: ignore[no-any-return]
    return None


def to_numpy(array: Array) -> np.ndarray:
    """A NumPy array of anything: a tensor is taken off its graph and its device first.

    >>> to_numpy([0.5, 1.0])
    array([0.5, 1. ])
    """
    if array_api_compat.is_torch_array(array):
        array = array.detach().cpu()
    return np.asarray(array)


def plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it stands for; anything else as it is.

    >>> plain(np.int64(3)), plain("a")
    (3, 'a')
    """
    return value.item() if isinstance(value, np.generic) else value


def check_probs(*, log: bool = False, values: bool = True, **named: Array) -> tuple[Any, list[Array]]:
    """Accept beliefs `[inputs, k, c]`: three axes, at least one draw and one class, equal k and c, rows summing to one.

    With `log` the arrays hold log-probabilities. `values=False` leaves the look at every number to the caller, who
    reads them anyway (the hot loop), and who asks `value_fault` for the words when it finds one that is wrong.

    >>> check_probs(probs=np.full((4, 3, 2), 0.25))
    Traceback (most recent call last):
    ValueError: probs must hold probabilities that sum to one over its last axis (classes), but probs[0, 0] sums to ...
    """
    xp, arrays = accept(**named)
    for name, array in zip(named, arrays, strict=True):
        if array.ndim != 3:
            raise ValueError(
                f"{name} must have three axes [inputs, draws, classes], but its shape is {tuple(array.shape)}. "
                + ("Try array[:, None, :] if the model gives one prediction per input." if array.ndim == 2 else "")
            )
        if 0 in array.shape[1:]:
            raise ValueError(
                f"{name} must have at least one draw and one class, but its shape is {tuple(array.shape)}."
            )
    check_alike(dict(zip(named, arrays, strict=True)))
    if values:
        for name, array in zip(named, arrays, strict=True):
            fault = value_fault(name, array, log=log)
            if fault is not None:
                raise ValueError(fault)
    return xp, arrays


def check_alike(named: dict[str, Array]) -> None:
    """Refuse beliefs that differ in their draws or classes."""
    (first, a), *others = named.items()
    for name, b in others:
        for axis, word in ((1, "draws (axis 1)"), (2, "classes (axis 2)")):
            if a.shape[axis] != b.shape[axis]:
                raise ValueError(
                    f"{first} and {name} must have the same number of {word}, "
                    f"but their shapes are {tuple(a.shape)} and {tuple(b.shape)}. "
                    "Draw k of one must be the same parameters as draw k of the other, and the classes must stand in "
                    "the same columns: predict both with the same fitted posterior."
                )


def value_fault(name: str, probs: Array, *, log: bool = False, rows: int = 4096) -> str | None:
    """What is wrong with the numbers in `probs [n, k, c]`, as a sentence; None if they are probabilities.

    >>> value_fault("probs", np.array([[[0.5, 0.5]]])) is None
    True
    """
    xp = array_api_compat.array_namespace(probs)
    tolerance = SUM_TOLERANCE[str(probs.dtype).removeprefix("torch.")]
    for span in spans(probs.shape[0], rows):
        given = probs[span]
        part = xp.exp(given) if log else given
        total = xp.sum(part, axis=-1)
        low = xp.isnan(given) if log else ~(given >= 0)
        if bool(xp.all(xp.abs(total - 1) <= tolerance)) and not bool(xp.any(low)):
            continue
        if bool(xp.any(low)):
            i, k, c = (int(axis[0]) for axis in xp.nonzero(low))
            value, place = float(given[i, k, c]), f"{name}[{span.start + i}, {k}, {c}]"
            kind = "log-probabilities" if log else "probabilities"
            return f"{name} must hold {kind}, but {place} is {value:.6g}. {_likely_cause(value)}"
        i, k = (int(axis[0]) for axis in xp.nonzero(~(xp.abs(total - 1) <= tolerance)))
        kind = "log-probabilities whose exponentials" if log else "probabilities that"
        return (
            f"{name} must hold {kind} sum to one over its last axis (classes), but "
            f"{name}[{span.start + i}, {k}] sums to {float(total[i, k]):.6g} (tolerance {tolerance:g}). "
            + _likely_axis(name, xp, part, tolerance)
        )
    return None


def _likely_cause(value: float) -> str:
    if value != value:
        return "A NaN usually comes from a diverged fit or a missing feature: look at the model's predictions there."
    return "Logits or log-probabilities? Apply a softmax over classes, or pass log-probabilities with log=True."


def _likely_axis(name: str, xp: Any, part: Array, tolerance: float) -> str:
    """A hint: the axes look swapped, the numbers look like logits, or neither."""
    for axis, order, remedy in ((1, "[inputs, classes, draws]", "swapaxes(1, 2)"), (0, "[classes, ...]", "moveaxis")):
        if part.shape[axis] > 1 and bool(xp.all(xp.abs(xp.sum(part, axis=axis) - 1) <= tolerance)):
            call = f"numpy.{remedy}({name}, 0, -1)" if axis == 0 else f"{name}.{remedy}"
            return f"Axis {axis} does sum to one, so the axes look like {order}: try {call}."
    if bool(xp.all(part <= 1)):
        return (
            "If an input may have several labels at once (multi-label, one sigmoid per class), that is not supported: "
            f"score each label by itself, as two classes, numpy.stack([1 - {name}[..., j], {name}[..., j]], -1). Pass "
            "log=True if these are logarithms; divide by the sum over classes if they are shares."
        )
    return "Divide by the sum over classes if these are counts or scores; pass log=True if they are logarithms."


def normalised_weights(
    weights: Array | None, m: int, *, name: str = "weights", each: str = "target"
) -> np.ndarray | None:
    """Weights of targets, or of classes, as float64 that sum to one; None stays None and means that all are equal.

    >>> normalised_weights([1.0, 3.0], 2)
    array([0.25, 0.75])
    """
    if weights is None:
        return None
    w = to_numpy(weights)
    if w.shape != (m,):
        raise ValueError(
            f"{name} must have one number per {each}, shape ({m},), but its shape is {w.shape}."
            + (" Weigh the targets, not the candidates." if each == "target" else "")
        )
    if w.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold numbers, but its dtype is {w.dtype}.")
    w = w.astype(np.float64)
    if not (np.isfinite(w).all() and (w >= 0).all()):
        worst = int(np.flatnonzero(~(np.isfinite(w) & (w >= 0)))[0])
        raise ValueError(
            f"{name} must be finite and not negative, but {name}[{worst}] is {w[worst]}. Try clipping at 0."
        )
    if not w.any():
        raise ValueError(
            f"{name} must have at least one positive entry, but all {m} are zero. Pass None to count all equally."
        )
    w = w / w.max()  # first by the largest: the sum of huge weights must not overflow
    normalised: np.ndarray = w / w.sum()
    return normalised


def shares(weights: Array | None, m: int) -> np.ndarray:
    """`normalised_weights`, and equal ones for None, `[m]`.

    >>> shares(None, 2)
    array([0.5, 0.5])
    """
    normalised = normalised_weights(weights, m)
    return np.full(m, 1 / m) if normalised is None else normalised


def spans(total: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most `size` that cover `range(total)`.

    >>> list(spans(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def whole_power(size: int) -> int:
    """The largest power of two that is not larger, 1 at least.

    >>> whole_power(1000), whole_power(0)
    (512, 1)
    """
    return 1 << max(0, size.bit_length() - 1)


def take(x: Array, positions: Any) -> Any:
    """The inputs of an array, frame, list or dict of them at these positions, or in this slice, as the same thing.

    >>> take(["a", "b", "c"], np.array([2, 0]))
    ['c', 'a']
    >>> take({"input_ids": np.arange(6).reshape(3, 2)}, slice(1, 2))
    {'input_ids': array([[2, 3]])}
    """
    if isinstance(x, dict):
        return {name: take(part, positions) for name, part in x.items()}
    if hasattr(x, "iloc"):
        return x.iloc[positions]
    if hasattr(x, "shape") or isinstance(positions, slice):
        return x[positions]
    return [x[place] for place in np.asarray(positions).tolist()]


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """What this thread does inside has no threads of its own: others are at work beside it.

    >>> with alone(): threads()
    1
    """
    before = _ALONE.set(True)
    try:
        yield
    finally:
        _ALONE.reset(before)


def threads() -> int:
    """How many threads the hot loop may use: `ASKWELL_THREADS`, else the processors this process may run on."""
    if _ALONE.get():
        return 1
    asked = os.environ.get("ASKWELL_THREADS", "")
    if asked:
        if not (asked.isdecimal() and int(asked) > 0):
            raise ValueError(
                f"the environment variable ASKWELL_THREADS must be a whole number from 1, but it is {asked!r}."
            )
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_thread_each() -> Any:
    """BLAS with one thread inside: on matrices this small its threads wait for each other, on a busy machine for long.

    >>> with one_thread_each(): (np.ones((2, 2)) @ np.ones(2)).tolist()
    [2.0, 2.0]
    """
    return _libraries().limit(limits=1, user_api="blas")


@cache
def keep_freed_memory() -> None:
    """Let glibc's malloc keep up to 64 MiB that were freed, for the whole process; elsewhere nothing.

    By its own rule it gives arrays of megabytes back to the system as soon as they are freed, and the next one of the
    same size is cleared page by page again: up to half of the time of work that makes many of them.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        for parameter, size in ((M_MMAP_THRESHOLD, 32 << 20), (M_TRIM_THRESHOLD, 64 << 20)):
            library.mallopt(parameter, size)


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def check_table(x: Any, *, name: str = "x") -> None:
    """Refuse tables that rows cannot be taken of here, with the call that makes one of them that can."""
    kind = f"{type(x).__module__.partition('.')[0]}.{type(x).__name__}"
    remedy = _REMEDIES.get(kind)
    if remedy is not None:
        raise ValueError(f"{name} must be an array or a data frame of pandas or polars, but it is a {kind}. {remedy}")
    if isinstance(x, Mapping) and not isinstance(x, dict):  # what a tokeniser of transformers returns is none
        raise ValueError(f"{name} must be a dict of arrays, but it is a {kind}, which is only like one. Try dict(x).")


_REMEDIES = {
    "polars.LazyFrame": "Try .collect() first.",
    "pyarrow.Table": "Try .to_pandas(), or polars.from_arrow(table).",
    "pyarrow.RecordBatch": "Try .to_pandas(), or polars.from_arrow(batch).",
    "duckdb.DuckDBPyRelation": "Try .df(), or .pl().",
    "dask.DataFrame": "Try .compute() first.",
    "datasets.Dataset": 'Try dataset.select_columns([...]).with_format("numpy")[:], a dict of arrays.',
}


def count(x: Any) -> int:
    """How many inputs there are in an array, a sparse matrix, a data frame, a list or a dict of arrays.

    >>> count({"input_ids": np.zeros((3, 5)), "attention_mask": np.ones((3, 5))})
    3
    """
    check_table(x)
    if isinstance(x, dict) and x:
        sizes = {name: count(part) for name, part in x.items()}
        if len({*sizes.values()}) > 1:
            raise ValueError(f"x must be a dict of arrays with equally many rows, but they have {sizes}.")
        return next(iter(sizes.values()))
    shape = getattr(x, "shape", None)
    if shape is None and hasattr(x, "__len__") and not isinstance(x, str | dict):
        return len(x)
    if not shape:
        raise ValueError(
            f"x must be a table or a list with one row per input, but it is of type {type(x).__name__}. "
            "Try [x] for a single input."
        )
    return int(shape[0])
