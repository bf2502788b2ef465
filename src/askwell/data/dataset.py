"""A pool in files: rows as if they were an array, float32 `[n, d]`; only the chunks that are asked for are read.

Columns become numbers as those of a table in memory do (`askwell.data.encoded`), learnt from about 20,000 rows, so
that a folder or a glob gives what each file in it gives. Columns that are named are taken as the numbers they are.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, final

import numpy as np

from askwell.data import csv, parquet
from askwell.data.encoding import Feature, check_finite, encoded, matrix
from askwell.data.files import Chunk, files_of, saved_array
from askwell.data.table import Table, listed, release_memory, stacked
from askwell.seeds import rng_for

__all__ = ["BadRows", "Rows", "open_rows"]

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
    read = parquet.read_chunk if chunk.kind == "parquet" else csv.read_chunk
    return read(chunk, columns, rows=rows)


def _numbers(chunk: Chunk, columns: Sequence[str]) -> np.ndarray:
    if chunk.kind == "npy":
        return np.array(array_of(chunk.file)[chunk.first : chunk.stop], np.float32)
    read = parquet.read_numbers if chunk.kind == "parquet" else csv.read_numbers
    return read(chunk, columns)


def _ids(chunk: Chunk, column: str) -> list[Any]:
    read = parquet.read_column if chunk.kind == "parquet" else csv.read_column
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


Given = TypeVar("Given")
CHUNK = 50_000  # rows, about: small enough for memory, large enough that opening a file costs nothing
LEARNT, CHUNKS_LEARNT = 20_000, 10  # rows that an encoding is learnt from, about, and of how many chunks at most


class _File(NamedTuple):
    """A file that was looked at: how many numbers each column has in a row (0: a text), and where its chunks are."""

    path: str
    kind: Literal["parquet", "csv", "npy"]
    widths: dict[str, int]
    extents: Sequence[csv.Extent]

    @property
    def name(self) -> str:
        """For messages."""
        return Path(self.path).name


def open_rows(
    source: str | Path | Sequence[str | Path],
    *,
    columns: Sequence[str] | None = None,
    drop: Iterable[str] = (),
    like: Rows | None = None,
    id: str | None = None,
    skip_bad: bool = False,
    rows: int = CHUNK,
) -> Rows:
    """The rows of Parquet files, CSV files or saved arrays (.npy), without reading them all.

    `source` is a path, a folder, a glob, a URL that fsspec knows, or a list of them. All columns but `id` and those of
    `drop` are inputs, encoded by `askwell.data.encoded`; `columns` are inputs that are numbers as they are, as all
    numbers are where one of the columns is an embedding (a Parquet list of a fixed size). With `like`, the inputs are
    those of other rows. All files must have them. A file that cannot be opened is an error, unless `skip_bad`: then
    `refused` names it.

    Without `id`, the rows of one file are called by the numbers that it gives them, as in `askwell.data.read_table` (a
    CSV's first row of values is 2); those of several files are counted over all of them, from 0.
    """
    names, without = files_of(source), {*drop, id}
    refused: list[str] | None = [] if skip_bad else None
    files = _good(names, lambda name: checked(Path(name).name, partial(_file, name, rows)), refused)
    if not any(file.extents for file in files):
        raise BadRows(" ".join([f"source must have rows, but there are none in {source}.", *(refused or [])]))
    numbers = like.columns if like is not None else tuple(columns) if columns is not None else None
    encode = like.features is not None if like is not None else columns is None and not _has_vectors(files[0])
    if numbers is None:
        numbers = tuple(name for name, width in files[0].widths.items() if width and name not in without)
    files = _good(files, partial(_with_columns, names=numbers, id=id, encode=encode), refused)
    if not encode and files:
        width = _width(files[0], numbers)
        files = _good(files, partial(_with_width, names=numbers, width=width), refused)
    chunks = [*_chunks(files)]
    if not chunks:
        raise BadRows(" ".join([f"source must have rows, but there are none in {source}.", *(refused or [])]))
    if like is not None:
        read = Inputs(like.columns, like.width, like.features)
    else:
        read = _learnt(files, chunks, without, skip_bad=skip_bad) if encode else Inputs(numbers, width)
    return Rows(chunks, read, id, refused or [], as_file=len(names) == 1)


def _good(things: Iterable[Given], check: Callable[[Given], Result], refused: list[str] | None) -> list[Result]:
    """What `check` makes of each; one that is bad is an error, or joins those `refused`."""
    good = []
    for thing in things:
        try:
            good.append(check(thing))
        except BadRows as error:
            if refused is None:
                raise BadRows(f"{error} Correct or remove it, or leave bad files out (skip_bad).") from None
            refused.append(str(error))
    return good


def _file(path: str, rows: int) -> _File:
    end = path.lower()
    if end.endswith(".npy"):
        x = array_of(path)
        spans = [(at, min(at + rows, len(x)), min(rows, len(x) - at), at) for at in range(0, len(x), rows)]
        return _File(path, "npy", {"x": x.shape[1]}, spans)
    if end.endswith((".parquet", ".pq")):
        counts, widths = parquet.groups(path)
        starts = np.cumsum([1, *counts])
        return _File(path, "parquet", widths, [(*part, int(starts[part[0]])) for part in _joined(counts, rows)])
    if end.endswith((".jsonl", ".ndjson", ".json")):
        name = Path(path).name
        raise BadRows(f"{name} is a file of JSON, which is not read chunk by chunk: make it CSV or Parquet.")
    columns, _, start = csv.layout(path)
    return _File(path, "csv", columns, csv.extents(path, start, rows))


def _chunks(files: Sequence[_File]) -> Iterator[Chunk]:
    start = 0
    for file in files:
        for first, stop, count, number in file.extents:
            yield Chunk(file.path, file.kind, first, stop, start, count, number)
            start += count


def _joined(counts: Sequence[int], rows: int) -> list[tuple[int, int, int]]:
    """Neighbouring row groups, together as long as they are small.

    >>> _joined([10, 20, 80, 5, 0], 50)
    [(0, 2, 30), (2, 3, 80), (3, 5, 5)]
    """
    parts: list[tuple[int, int, int]] = []
    for number, count in enumerate(counts):
        if parts and parts[-1][2] + count <= rows:
            first, _, total = parts.pop()
            parts.append((first, number + 1, total + count))
        else:
            parts.append((number, number + 1, count))
    return [part for part in parts if part[2]]


# ---- columns -------------------------------------------------------------------------------------------------------


def _has_vectors(file: _File) -> bool:
    return file.kind == "npy" or max(file.widths.values(), default=0) > 1


def _with_columns(file: _File, names: Sequence[str], id: str | None, *, encode: bool) -> _File:
    """The file, if it has these columns: of numbers, unless they are to be encoded."""
    for column in (*names, *([] if id is None else [id])):
        if column not in file.widths:
            raise BadRows(f"{file.name} has no column {column!r}; its columns are {listed([*file.widths])}.")
    if texts := [column for column in names if not encode and not file.widths[column]]:
        raise BadRows(f"{file.name}: the column {texts[0]!r} holds texts. {TEXTS}")
    return file


def _with_width(file: _File, names: Sequence[str], width: int) -> _File:
    if (here := _width(file, names)) != width:
        raise BadRows(f"{file.name}: its rows have {here} numbers, those before have {width}.")
    return file


def _width(file: _File, names: Sequence[str]) -> int:
    return sum(file.widths[name] for name in names)


def _learnt(files: Sequence[_File], chunks: Sequence[Chunk], without: set[str | None], *, skip_bad: bool) -> Inputs:
    """How the columns that all files have become numbers, learnt from some rows."""
    names = [name for name in files[0].widths if name not in without and all(name in file.widths for file in files)]
    some, most = _spread(chunks)
    tables = []
    for chunk in some:
        try:
            tables.append(checked(chunk.name, partial(_sample, chunk, names, most)))
        except BadRows:
            if not skip_bad:
                raise
    if not tables:
        raise BadRows(
            f"source must have rows that can be read, but those of {listed([file.name for file in files])} cannot."
        )
    features = encoded(stacked(tables)).features
    release_memory()
    used = tuple(feature.column for feature in features)
    if all(feature.kind == "number" and len(feature.names) == 1 for feature in features):
        return Inputs(used, len(used))  # the numbers as they are, which is fast
    return Inputs(used, sum(len(feature.names) for feature in features), features)


def _spread(chunks: Sequence[Chunk]) -> tuple[Sequence[Chunk], int]:
    """(chunks to learn from, how many rows of each at most): all of them, or some, evenly spread."""
    total = sum(chunk.rows for chunk in chunks)
    if total <= LEARNT:
        return chunks, total
    count = min(len(chunks), CHUNKS_LEARNT)
    return [chunks[number] for number in np.linspace(0, len(chunks) - 1, count).astype(int)], LEARNT // count


def _sample(chunk: Chunk, columns: Sequence[str], most: int) -> Table:
    rows = rng_for(0, chunk.number, "rows an encoding is learnt from").permutation(chunk.rows)[:most]
    table = table_of(chunk, columns, rows=np.sort(rows))
    for name in columns:
        check_finite(table, name)
    return table
