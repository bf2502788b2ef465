"""A table: named columns of equal length, and where each of its rows stands in the file it came from.

The second half makes the values of a column of its cells: numbers if every cell is one or is missing, else texts. Cells
are texts as they stand in the file, in Arrow's memory. Arrow makes numbers of them; what it does not take for numbers
and Python does (blanks around them, missing values of an odd kind) is looked at cell by cell.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np

from askwell.arrays import take

__all__ = [
    "Column",
    "Table",
    "Values",
    "WrittenCells",
    "as_texts",
    "cell_text",
    "check_column",
    "column_values",
    "is_missing",
    "joined",
    "label_column",
    "listed",
    "numbers_column",
    "numbers_in",
    "numbers_of",
    "release_memory",
    "some_rows",
    "stacked",
    "texts_column",
    "typed",
]

Values: TypeAlias = np.ndarray | list[str | None]
"""A column: int64, float64 (NaN where a value is missing) or bool numbers, or texts (None where one is missing)."""

WrittenCells: TypeAlias = Any
"""A column as it stands in the file: texts, "" or None where there is none. A list, Arrow texts, an array of bytes."""

MOST_NAMES = 12  # in a message


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Columns in the file's order; `ids` are the values of the id column, which is none of the columns.

    `columns` are for models: numbers, or texts without the blanks around them. `written` has the cells as they stand in
    the file, for the columns in which these differ from what the values print as (1.10, 9007199254740993, " a", NA).

    >>> table = Table("people.csv", {"age": np.array([31, 5]), "town": ["Oslo", None]}, numbers=range(2, 4))
    >>> table.rows, table.place(1), table.column("age").tolist()
    (2, 'people.csv:3', [31, 5])
    >>> table.column("Town")
    Traceback (most recent call last):
    ValueError: people.csv has no column 'Town'. Did you mean 'town'? Its columns are age, town.
    """

    source: str
    columns: Mapping[str, Values]
    numbers: Sequence[int]  # the file's number of each row, as a spreadsheet counts: the header of a CSV is row 1
    ids: tuple[Any, ...] | None = None
    written: Mapping[str, WrittenCells] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.numbers)

    def place(self, row: int) -> str:
        """`file:row` of a row of the table."""
        return f"{self.source}:{self.numbers[row]}"

    def text(self, name: str, row: int) -> str:
        """A cell as it stands in the file; "" where there is none.

        >>> Table("a.csv", {"x": np.array([1.1])}, range(2, 3), written={"x": ["1.10"]}).text("x", 0)
        '1.10'
        """
        cell = self.cells(name)[row]
        return cell_text(cell.as_py() if hasattr(cell, "as_py") else cell)

    def cells(self, name: str) -> WrittenCells:
        """A column as it stands in the file, or values that print as that."""
        return self.written[name] if name in self.written else self.column(name)

    def texts(self, name: str) -> list[str]:
        """All cells of a column as they stand in the file."""
        cells = self.cells(name)
        if hasattr(cells, "to_pylist"):
            return list(cells.to_pylist())
        return ["" if cell is None else cell for cell in cells] if isinstance(cells, list) else [*map(cell_text, cells)]

    def column(self, name: str) -> Values:
        """The values of a column, or a refusal that names the ones there are."""
        check_column(self.source, name, [*self.columns])
        return self.columns[name]


def check_column(source: str, name: str, names: Sequence[str]) -> None:
    """Refuse the name of a column that is none of these."""
    if name not in names:
        raise ValueError(f"{source} has no column {name!r}. {_unknown(name, names)}")


def _unknown(name: str, names: Sequence[str]) -> str:
    """What to say to somebody who asked for a column that is not there."""
    if not names:
        return "It has no columns at all."
    lower = {known.lower(): known for known in reversed(names)}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    hint = f"Did you mean {lower[close[0]]!r}? " if close else ""
    if len(names) == 1 and re.search(r"[^\w-]", names[0]):
        shown = repr(names[0] if len(names[0]) <= 40 else f"{names[0][:40]}...")
        return (
            f"{hint}Its only column is {shown}. If that is several in one, the values are separated by something else "
            "than comma, semicolon, tab or |: name it, such as delimiter=' '."
        )
    return f"{hint}Its columns are {listed(names)}." if len(names) > 1 else f"{hint}Its only column is {names[0]!r}."


def listed(things: Sequence[Any], *, most: int = MOST_NAMES) -> str:
    """The things with commas between them, not too many.

    >>> listed([1, 2, 3, 4], most=2)
    '1, 2 and 2 more'
    """
    shown = ", ".join(str(thing) for thing in things[:most])
    return shown if len(things) <= most else f"{shown} and {len(things) - most} more"


def cell_text(value: Any) -> str:
    """A value of a table as people read it.

    >>> cell_text(None), cell_text(np.float64(1.5)), cell_text(np.int64(3)), cell_text(np.True_), cell_text(b"1.10")
    ('', '1.5', '3', 'true', '1.10')
    """
    if value is None or value != value:
        return ""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):  # cells of numbers are kept as such, which takes a tenth of the memory
        return value.decode("ascii")
    return str(value).lower() if isinstance(value, bool) else str(value)


def some_rows(table: Table, rows: np.ndarray) -> Table:
    """The same table with these rows only.

    >>> part = some_rows(Table("a.csv", {"x": ["a", "b", "c"]}, range(2, 5)), np.array([2]))
    >>> part.columns, part.place(0)
    ({'x': ['c']}, 'a.csv:4')
    """

    def some(columns: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _taken(values, rows) for name, values in columns.items()}

    numbers = np.asarray(table.numbers)[rows].tolist()
    ids = None if table.ids is None else tuple(take(list(table.ids), rows))
    return Table(table.source, some(table.columns), numbers, ids, some(table.written))


def stacked(tables: Sequence[Table]) -> Table:
    """The rows of several tables with the same columns, one after the other: numbers where all have numbers.

    >>> a, b = Table("a.csv", {"x": np.array([1, 2])}, [2, 3]), Table("a.csv", {"x": ["b"]}, [9])
    >>> stacked([a, b]).columns, stacked([a, b]).numbers
    ({'x': ['1', '2', 'b']}, [2, 3, 9])
    """
    if len(tables) == 1:
        return tables[0]
    columns = {name: _joined_values(tables, name) for name in tables[0].columns}
    sources = [*dict.fromkeys(table.source for table in tables)]
    return Table(listed(sources, most=1), columns, [number for table in tables for number in table.numbers])


def _joined_values(tables: Sequence[Table], name: str) -> Values:
    numbers = [values for table in tables if isinstance(values := table.column(name), np.ndarray)]
    if len(numbers) == len(tables):
        return np.concatenate(numbers)
    return [text for table in tables for text in as_texts(table, name)]


def as_texts(table: Table, name: str) -> list[str | None]:
    """A column as texts without the blanks around them, None where one is missing; numbers as they are written."""
    values = table.column(name)
    if isinstance(values, list):
        return values
    cells = zip(table.texts(name), is_missing(values), strict=True)
    return [None if missing else text.strip() for text, missing in cells]


def _taken(values: Any, rows: np.ndarray) -> Any:
    return values.take(rows) if hasattr(values, "to_pylist") else take(values, rows)


def is_missing(values: Values) -> np.ndarray:
    """Where a column has no value `[n]`.

    >>> is_missing(["a", None]).tolist(), is_missing(np.array([1.0, np.nan])).tolist()
    ([False, True], [False, True])
    """
    if isinstance(values, list):
        return np.fromiter((value is None for value in values), bool, len(values))
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def typed(numbers: np.ndarray) -> np.ndarray:
    """Floats as int64 if every one is a whole number that floats can tell from its neighbours.

    >>> typed(np.array([1.0, 2.0])), typed(np.array([1.0, np.nan]))
    (array([1, 2]), array([ 1., nan]))
    """

    def whole(some: np.ndarray) -> bool:
        return bool((abs(some) < 2**53).all() and (some == np.rint(some)).all())

    return numbers.astype(np.int64) if len(numbers) and whole(numbers[:100]) and whole(numbers) else numbers


def label_column(table: Table, name: str) -> list[Any]:
    """The labels in a column: whole numbers, numbers, truth values or texts, none of them missing.

    >>> label_column(Table("a.csv", {"y": ["cat", None, "dog"]}, numbers=range(2, 5)), "y")
    Traceback (most recent call last):
    ValueError: the label column 'y' of a.csv has no value in 1 of 3 rows (row 3). ...
    """
    values = table.column(name)
    missing = np.flatnonzero(is_missing(values))
    if len(missing):
        where = listed([table.numbers[row] for row in missing.tolist()], most=5)
        raise ValueError(
            f"the label column {name!r} of {table.source} has no value in {len(missing)} of {table.rows} rows "
            f"({'row' if len(missing) == 1 else 'rows'} {where}). Every row must have its label here: fill them in, "
            "or delete these rows."
        )
    return values if isinstance(values, list) else values.tolist()


Column: TypeAlias = tuple[Values, WrittenCells | None]
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
    texts = [None if (text := cell.strip()) in MISSING else text for cell in written]
    alike = all((text or "") == cell for text, cell in zip(texts, written, strict=True))
    if coded is not None:
        texts = np.array([*texts, None], object)[coded.indices.to_numpy()].tolist()
    return texts, None if alike else cells


def _prints_as(values: np.ndarray, cells: Any) -> bool:
    from pyarrow import array, chunked_array

    return bool(chunked_array([array(values).cast(cells.type)]) == cells)


def _any(values: Any) -> bool:
    from pyarrow import compute

    return bool(compute.any(values).as_py())


def _missing(kind: Any) -> Any:
    from pyarrow import array

    return array(sorted(MISSING), kind)


def release_memory() -> None:
    """Give back the memory that Arrow would keep for the next file."""
    from pyarrow import default_memory_pool

    default_memory_pool().release_unused()
