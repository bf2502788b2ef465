"""A pool in files: rows as if they were an array, float32 `[n, d]`; only the chunks that are asked for are read."""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, final

import numpy as np

from askwell.data import csv_chunks, parquet_files
from askwell.data.encoding import Feature, matrix
from askwell.data.files import Chunk, saved_array
from askwell.data.table import Table

__all__ = ["TEXTS", "BadRows", "Inputs", "Rows", "array_of", "checked", "table_of"]

Result = TypeVar("Result")
TEXTS = (
    "Columns that are named are read as numbers only: turn texts into embeddings first, one column per number or a "
    ".npy file; or, where the pool fits the memory, make a project of it (askwell init), which encodes texts."
)
IN_MEMORY = 2  # chunks: this one and, while it is worked on, the next


class BadRows(ValueError):  # noqa: N818 - what is wrong are the rows
    """Rows that cannot be read, or are no numbers; the message says which, and where."""


@final
class Inputs(NamedTuple):
    """What rows are made of: columns, how many numbers they become, and how (None: they are numbers)."""

    names: tuple[str, ...]
    width: int
    features: tuple[Feature, ...] | None = None


@final
class Rows:
    """The rows of some files, in order. `rows[positions]` and `rows[start:stop]` read what they need.

    >>> from askwell.data import open_rows
    >>> path = getfixture("tmp_path") / "pool.csv"
    >>> _ = path.write_text("name,a,b\\nx,1,2\\ny,3,4\\nz,5,6\\n")
    >>> rows = open_rows(path, columns=["a", "b"], id="name")
    >>> rows.shape, rows[1:].tolist(), rows.ids([2, 0])
    ((3, 2), [[3.0, 4.0], [5.0, 6.0]], ['z', 'x'])
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(
        self,
        chunks: Sequence[Chunk],
        read: Inputs,
        id: str | None,
        refused: Sequence[str],
        *,
        as_file: bool = False,
    ) -> None:
        self.chunks, self.id = tuple(chunks), id
        self.columns, self.width, self.features = read
        self.refused = tuple(refused)  # files that were left out, each with the reason
        self._starts = np.array([chunk.start for chunk in self.chunks])
        self._as_file = as_file  # whether rows have the numbers that their one file gives them
        firsts = [chunk.number - chunk.start if as_file else 0 for chunk in self.chunks]
        self._shifts = np.array(firsts)  # what to add to a position for the number of the row
        self.keep = IN_MEMORY
        self._recent: dict[Chunk, np.ndarray] = {}
        self._lock = threading.Lock()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and numbers in each."""
        return len(self), self.width

    @property
    def numbers(self) -> Sequence[int]:
        """What the rows are called without ids: as their file counts them, or over several files from 0."""
        first = int(self._shifts[0])
        if (self._shifts == first).all():
            return range(first, len(self) + first)
        return self._numbers(np.arange(len(self)))  # there are empty lines between them

    def __len__(self) -> int:
        return self.chunks[-1].start + self.chunks[-1].rows

    def __reduce__(self) -> tuple[Any, ...]:  # to other processes go the names, not what has been read
        read = Inputs(self.columns, self.width, self.features)
        return partial(Rows, as_file=self._as_file), (self.chunks, read, self.id, self.refused)

    def __getitem__(self, places: Any) -> np.ndarray:
        if isinstance(places, slice) and places.step in (None, 1):
            return self._between(*places.indices(len(self))[:2])
        whole = isinstance(places, slice)
        positions = np.arange(*places.indices(len(self))) if whole else np.asarray(places, np.intp)
        x = np.empty((positions.size, self.width), np.float32)
        for part, chunk in self._by_chunk(positions):
            x[_run(part)] = self.read(chunk)[_run(positions[part] - chunk.start)]
        return x

    def encode(self, table: Table) -> np.ndarray:
        """The rows of another table as these are, `[n, d]`: the same columns, medians and levels."""
        if self.features is not None:
            return matrix(table, self.features, self.dtype)
        if self.width != len(self.columns):
            raise ValueError("columns must be numbers here: an embedding column has no counterpart in a table.")
        x = np.stack([_numbers_of(table, name) for name in self.columns], axis=1)
        if not np.isfinite(x).all():
            row = int(np.argwhere(~np.isfinite(x))[0, 0])
            raise ValueError(f"{table.place(row)}: a number is missing. Fill in missing values first.")
        return x

    def read(self, chunk: Chunk) -> np.ndarray:
        """All rows of a chunk `[n, d]`; BadRows if they cannot be read or some number is missing."""
        with self._lock:
            if chunk in self._recent:
                return self._recent[chunk]
        x = self._read(chunk)
        if x.shape != (chunk.rows, self.width):
            raise BadRows(f"{chunk.name}: {chunk.rows} rows of {self.width} numbers were expected, not {x.shape}.")
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = not np.isfinite(x.sum())  # in half the time of looking at each; a sum may also be too large
        if suspect and not np.isfinite(x).all():
            row, column = np.argwhere(~np.isfinite(x))[0]
            raise BadRows(
                f"{chunk.name}: row {chunk.start + row} of the pool has no finite number in {self._column(column)!r} "
                f"({chunk.source}:{chunk.number + row}). Fill in missing values first, or leave bad chunks out "
                "(skip_bad)."
            )
        x.flags.writeable = False
        with self._lock:
            while len(self._recent) >= self.keep:
                self._recent.pop(next(iter(self._recent)))
            self._recent[chunk] = x
        return x

    def _read(self, chunk: Chunk) -> np.ndarray:
        if self.features is None:
            return checked(chunk.name, partial(_numbers, chunk, self.columns))
        features = self.features
        return checked(chunk.name, lambda: matrix(table_of(chunk, self.columns), features, self.dtype))

    def ids(self, positions: Any) -> list[Any]:
        """The ids of rows: the values of the id column, else their `numbers`."""
        places = np.asarray(positions, np.intp)
        if self.id is None:
            return self._numbers(places)
        ids: list[Any] = [None] * len(places)
        for part, chunk in self._by_chunk(places):
            column = checked(chunk.name, partial(_ids, chunk, self.id))
            for at in part.tolist():
                ids[at] = column[places[at] - chunk.start]
        return ids

    def _between(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to before `stop`; those of one chunk as they are in memory, not to be written to."""
        parts, number = [np.empty((0, self.width), np.float32)], bisect_right(self._starts, start) - 1
        while start < stop:
            chunk = self.chunks[number]
            end = min(stop, chunk.start + chunk.rows)
            parts.append(self.read(chunk)[start - chunk.start : end - chunk.start])
            start, number = end, number + 1
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def _by_chunk(self, positions: np.ndarray) -> Iterator[tuple[np.ndarray, Chunk]]:
        """(places in `positions`, the chunk that they are in), chunk by chunk."""
        if positions.size and (positions.min() < 0 or positions.max() >= len(self)):
            raise IndexError(f"positions must be from 0 to {len(self) - 1}.")
        number = np.searchsorted(self._starts, positions, "right") - 1
        for each in np.unique(number):
            yield np.flatnonzero(number == each), self.chunks[each]

    def _numbers(self, positions: np.ndarray) -> list[int]:
        chunk = np.searchsorted(self._starts, positions, "right") - 1
        numbers: list[int] = (positions + self._shifts[chunk]).tolist()
        return numbers

    def _column(self, position: int) -> str:
        if self.features is not None:
            return [feature.column for feature in self.features for _ in feature.names][position]
        return self.columns[position] if len(self.columns) == self.width else f"column {position}"


# ---- reading -------------------------------------------------------------------------------------------------------


def table_of(chunk: Chunk, columns: Sequence[str], *, rows: np.ndarray | None = None) -> Table:
    """These columns of a chunk, of these rows of it where they are given."""
    read = parquet_files.read_chunk if chunk.kind == "parquet" else csv_chunks.read_chunk
    return read(chunk, columns, rows=rows)


def _numbers(chunk: Chunk, columns: Sequence[str]) -> np.ndarray:
    if chunk.kind == "npy":
        return np.array(array_of(chunk.file)[chunk.first : chunk.stop], np.float32)
    read = parquet_files.read_numbers if chunk.kind == "parquet" else csv_chunks.read_numbers
    return read(chunk, columns)


def _ids(chunk: Chunk, column: str) -> list[Any]:
    read = parquet_files.read_column if chunk.kind == "parquet" else csv_chunks.read_column
    return [*read(chunk, column)]


def array_of(file: str) -> np.ndarray:
    """The rows of a saved array."""
    x = saved_array(file)
    if x.ndim != 2 or x.dtype.kind not in "fiub":
        raise BadRows(f"it must be an array of numbers [n, d], but it is {x.dtype} of shape {x.shape}.")
    return x


def _numbers_of(table: Table, name: str) -> np.ndarray:
    """A column of another table, which must be of numbers as that of the rows is."""
    values = table.column(name)
    if isinstance(values, list):
        row = next(row for row, text in enumerate(values) if text is not None)
        raise ValueError(
            f"{table.place(row)}: the column {name!r} is numbers in the pool, and must be here, but it holds "
            f"{str(values[row])[:40]!r}. Name the columns that the model sees: --columns A,B. {TEXTS}"
        )
    return np.asarray(values, np.float32)


def _run(numbers: np.ndarray) -> Any:
    """Numbers that follow each other as a slice, which is copied faster."""
    run = len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1 and bool((np.diff(numbers) == 1).all())
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if run else numbers


def checked(name: str, read: Callable[[], Result]) -> Result:
    """What `read` gives; an error names this file or chunk."""
    try:
        return read()
    except (ImportError, BadRows):
        raise
    except (ValueError, KeyError, OSError) as error:  # Arrow's errors are ValueErrors or OSErrors
        text = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        named = text.startswith(f"{name.partition(',')[0]}:")  # which row it is says more than which chunk
        raise BadRows(f"{text}." if named else f"{name}: {text}.") from None
    except Exception as error:  # of whatever reads from a URL
        raise BadRows(f"{name}: {error} ({type(error).__name__}).") from error
