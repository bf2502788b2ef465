"""From the cells of a column to its values: numbers if every cell is one or is missing, else texts.

Cells are texts as they stand in the file, in Arrow's memory. Arrow makes numbers of them; what it does not take for
numbers and Python does (blanks around them, missing values of an odd kind) is looked at cell by cell.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from askwell.data.table import Cells, Table, Values, cell_text, typed

__all__ = [
    "MISSING",
    "Column",
    "column_values",
    "joined",
    "numbers_column",
    "numbers_in",
    "numbers_of",
    "release_memory",
    "texts_column",
]

Column: TypeAlias = tuple[Values, Cells | None]
"""The values, and the cells as they stand in the file where the values do not print as that."""

MISSING = frozenset(["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "<NA>", "#N/A", "?"])
CODE = re.compile(r"\n[+-]?0\d")  # 007 is a number to Python and not to people, as is 1_000
LOOK = 100  # cells by which most texts are known
PLUS, MINUS, ZERO, NINE = b"+-09"


def joined(source: str, columns: Mapping[str, Column], numbers: Sequence[int]) -> Table:
    """The table of these columns; `numbers` are those of its rows."""
    written = {name: cells for name, (_, cells) in columns.items() if cells is not None}
    return Table(source, {name: values for name, (values, _) in columns.items()}, numbers, written=written)


def column_values(cells: Any, *, comma: bool, text: bool = False) -> Column:
    """(the values of a column, its `cells` if the values do not print as these); a `text` stays as it is.

    >>> import pyarrow
    >>> column_values(pyarrow.chunked_array([["1", "2"]]), comma=False)
    (array([1, 2]), None)
    >>> column_values(pyarrow.chunked_array([["x", "NA", "x"]]), comma=False)[0]
    ['x', None, 'x']
    """
    if text:
        return cells.to_pylist(), None
    numbers = numbers_in(cells, comma=comma)
    if numbers is None:
        return _texts(cells)
    values = typed(numbers)
    return values, None if values.dtype.kind == "i" and _prints_as(values, cells) else cells


def numbers_in(cells: Any, *, comma: bool) -> np.ndarray | None:
    """The cells as float64, NaN where one is missing; None if one is neither. With `comma`, 1,5 is one and a half.

    This is `numbers_of` without a Python object for each cell.
    """
    from pyarrow import compute

    if numbers_of(cells.slice(0, LOOK).to_pylist(), comma=comma) is None or _has_codes(cells):
        return None
    if comma and _any(compute.match_substring(cells, ",")) and not _any(compute.match_substring(cells, ".")):
        cells = compute.replace_substring(cells, ",", ".")
    numbers = _cast(cells)
    if numbers is None:
        bare = compute.ascii_trim_whitespace(cells)
        gaps = compute.is_in(bare, value_set=_missing(cells.type))
        numbers = _cast(compute.if_else(gaps, None, bare))
    return numbers_of(cells.to_pylist(), comma=False) if numbers is None else numbers


def numbers_of(cells: Sequence[str], *, comma: bool) -> np.ndarray | None:
    """The cells as numbers, NaN where one is missing; None if one is neither. With `comma`, 1,5 is one and a half.

    >>> numbers_of(["1,5", "NA"], comma=True), numbers_of(["007"], comma=False)
    (array([1.5, nan]), None)
    """
    whole = "\n".join(("", *cells))
    if not whole.isascii() or "_" in whole or CODE.search(whole):
        return None
    if comma and "," in whole and "." not in whole:
        cells = [cell.replace(",", ".") for cell in cells]
    try:
        return np.array([np.nan if cell.strip() in MISSING else float(cell) for cell in cells])
    except ValueError:
        return None


def numbers_column(numbers: Sequence[Any]) -> Column:
    """Python's numbers: whole ones if all are, else floats and the numbers as they print; NaN where one is missing.

    >>> numbers_column([1, None])
    (array([ 1., nan]), ['1', ''])
    """
    if all(type(number) is int and -(2**63) <= number < 2**63 for number in numbers):
        return np.array(numbers, np.int64), None
    values = np.array([np.nan if number is None else number for number in numbers], float)
    return typed(values), [cell_text(number) for number in numbers]


def texts_column(cells: list[str | None]) -> Column:
    """Texts that are no CSV's: without the blanks around them, and with them where there are any.

    >>> texts_column([" a", "NA", None])
    (['a', 'NA', None], [' a', 'NA', None])
    """
    texts = [None if cell is None else cell.strip() or None for cell in cells]
    return texts, None if all((text or "") == (cell or "") for text, cell in zip(texts, cells, strict=True)) else cells


def _cast(cells: Any) -> np.ndarray | None:
    """As Arrow reads numbers, which is as Python does but for nan(1)."""
    from pyarrow import ArrowInvalid, compute, float64

    try:
        numbers = np.asarray(cells.cast(float64()).to_numpy(), float)
    except ArrowInvalid:
        return None
    return None if np.isnan(numbers).any() and _any(compute.match_substring(cells, "(")) else numbers


def _has_codes(cells: Any) -> bool:
    """Whether a cell begins with a zero and another digit, behind a sign perhaps."""
    width: type[Any] = np.int32 if cells.type == "string" else np.int64
    for chunk in cells.chunks:
        _, offsets, content = chunk.buffers()
        if content is None or not content.size:
            continue
        bounds: np.ndarray = np.frombuffer(offsets, width)[chunk.offset : chunk.offset + len(chunk) + 1]
        letters = np.frombuffer(content, np.uint8)
        at, end = bounds[:-1], bounds[1:]
        first = letters.take(at, mode="clip")
        at = at + ((first == PLUS) | (first == MINUS))
        zero = np.flatnonzero(letters.take(at, mode="clip") == ZERO)
        at, end = at[zero] + 1, end[zero]
        second = letters.take(at, mode="clip")
        if ((at < end) & (second >= ZERO) & (second <= NINE)).any():
            return True
    return False


def _texts(cells: Any) -> Column:
    """Texts without the blanks around them, None where one is missing; one copy of each if they repeat."""
    head = cells.slice(0, LOOK).to_pylist()
    coded = cells.dictionary_encode().combine_chunks() if 2 * len({*head}) <= len(head) else None
    written = (cells if coded is None else coded.dictionary).to_pylist()
    found = [None if (text := cell.strip()) in MISSING else text for cell in written]
    alike = all((text or "") == cell for text, cell in zip(found, written, strict=True))
    if coded is not None:
        found = np.array([*found, None], object)[coded.indices.to_numpy()].tolist()
    return found, None if alike else cells


def _prints_as(values: np.ndarray, cells: Any) -> bool:
    from pyarrow import array, chunked_array

    return bool(chunked_array([array(values).cast(cells.type)]) == cells)


def _any(found: Any) -> bool:
    from pyarrow import compute

    return bool(compute.any(found).as_py())


def _missing(kind: Any) -> Any:
    from pyarrow import array

    return array(sorted(MISSING), kind)


def release_memory() -> None:
    """Give back the memory that Arrow would keep for the next file."""
    from pyarrow import default_memory_pool

    default_memory_pool().release_unused()
