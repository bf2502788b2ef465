"""A table in files: Parquet, CSV and saved arrays, of which only the chunks that are asked for are read.

    files ── Dataset: ids, columns, rows as people see them ── Rows: the numbers of a model, `rows[start:stop]`

Columns become numbers as those of a table in memory do (`askwell.data.encoded`), learnt from about 20,000 rows, so
that a folder or a glob gives what each file in it gives. Columns that are named are taken as the numbers they are.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, final

import numpy as np

from askwell.data import csv, parquet
from askwell.data.encoding import Feature, check_finite, encoded, matrix
from askwell.data.files import Chunk, files_of, saved_array
from askwell.data.reading import checked_ids
from askwell.data.table import Table, Values, check_column, listed, release_memory, stacked
from askwell.seeds import rng_for

__all__ = ["BadRows", "Dataset", "Rows", "open_dataset", "open_rows"]

Given = TypeVar("Given")
Result = TypeVar("Result")
CHUNK = 50_000  # rows, about: small enough for memory, large enough that opening a file costs nothing
LEARNT, CHUNKS_LEARNT = 20_000, 10  # rows that an encoding is learnt from, about, and of how many chunks at most
CACHED_CHUNKS = 2  # of numbers: this one and, while it is worked on, the next
CACHED_ROWS = 10_000  # of texts that were shown
TEXTS = (
    "Columns that are named are read as numbers only: turn texts into embeddings first, one column per number or a "
    ".npy file; or, where the pool fits the memory, make a project of it as one file (askwell init), which encodes "
    "texts."
)


class BadRows(ValueError):  # noqa: N818 - what is wrong are the rows
    """Rows that cannot be read, or are no numbers; the message says which, and where."""


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

    @property
    def has_vectors(self) -> bool:
        """Whether all numbers are inputs as they are: an array, or a column of embeddings."""
        return self.kind == "npy" or max(self.widths.values(), default=0) > 1

    def width(self, names: Sequence[str]) -> int:
        """How many numbers these columns have in a row."""
        return sum(self.widths[name] for name in names)


def open_dataset(
    source: str | Path | Sequence[str | Path], *, id: str | None = None, skip_bad: bool = False, rows: int = CHUNK
) -> "Dataset":
    """The table in Parquet files, CSV files or saved arrays (.npy), without reading them all.

    `source` is a path, a folder, a glob, a URL that fsspec knows, or a list of them. A file that cannot be opened is an
    error, unless `skip_bad`: then `refused` names it.

    Without `id`, the rows of one file are called by the numbers that it gives them, as in `askwell.data.read_table` (a
    CSV's first row of values is 2); those of several files are counted over all of them, from 0.

    >>> path = getfixture("tmp_path") / "pool.csv"
    >>> _ = path.write_text("name,a,town\\nx,1.50,Oslo\\ny,3,Rome\\n")
    >>> dataset = open_dataset(path, id="name")
    >>> dataset.ids, dataset.columns, dataset.text("a", 0), dataset.place(1)
    (('x', 'y'), ('a', 'town'), '1.50', 'pool.csv:3')
    """
    paths = files_of(source)
    refused: list[str] | None = [] if skip_bad else None
    files = _good(paths, lambda path: checked(Path(path).name, partial(_file, path, rows)), refused)
    return Dataset(str(source), files, id, refused, as_file=len(paths) == 1)


def open_rows(
    source: str | Path | Sequence[str | Path],
    *,
    columns: Sequence[str] | None = None,
    drop: Iterable[str] = (),
    like: "Rows | None" = None,
    id: str | None = None,
    skip_bad: bool = False,
    rows: int = CHUNK,
) -> "Rows":
    """The rows of a table in files (`open_dataset`) as numbers.

    All columns but `id` and those of `drop` are inputs, encoded by `askwell.data.encoded`; `columns` are inputs that
    are numbers as they are, as all numbers are where one of the columns is an embedding (a Parquet list of a fixed
    size). With `like`, the inputs are those of other rows. All files must have them.
    """
    return open_dataset(source, id=id, skip_bad=skip_bad, rows=rows).inputs(columns=columns, drop=drop, like=like)


@final
class Dataset:
    """A table in files, in the order of the files' names. Made by `open_dataset`."""

    def __init__(
        self, source: str, files: Sequence[_File], id: str | None, refused: Sequence[str] | None, *, as_file: bool
    ) -> None:
        self.source, self.files, self.id, self._as_file = source, tuple(files), id, as_file
        self._skips, self.refused = refused is not None, tuple(refused or ())  # files left out, each with the reason
        self.chunks = tuple(_chunks(self.files))
        if not self.chunks:
            raise BadRows(" ".join([f"source must have rows, but there are none in {source}.", *self.refused]))
        self.starts = np.array([chunk.start for chunk in self.chunks])
        # what to add to a position for the number of the row
        self._shifts = np.array([chunk.number - chunk.start if as_file else 0 for chunk in self.chunks])
        self._shown: dict[int, dict[str, str]] = {}

    def __reduce__(self) -> tuple[Any, ...]:  # to other processes go the names, not what has been read
        refused = self.refused if self._skips else None
        return partial(Dataset, as_file=self._as_file), (self.source, self.files, self.id, refused)

    def __len__(self) -> int:
        return self.chunks[-1].start + self.chunks[-1].rows

    @property
    def rows(self) -> int:
        """How many."""
        return len(self)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that all files have, in the order of the first; not that of ids."""
        first, *others = self.files
        return tuple(name for name in first.widths if name != self.id and all(name in each.widths for each in others))

    @property
    def numbers(self) -> Sequence[int]:
        """What the rows are called without ids: as their file counts them, or over several files from 0."""
        first = int(self._shifts[0])
        if (self._shifts == first).all():
            return range(first, len(self) + first)
        return self._numbers(np.arange(len(self)))  # there are empty lines between them

    def _numbers(self, positions: np.ndarray) -> list[int]:
        numbers: list[int] = (positions + self._shifts[self._chunk_of(positions)]).tolist()
        return numbers

    def ids_at(self, positions: Any) -> list[Any]:
        """The ids of rows: the values of the id column, else their `numbers`."""
        positions = np.asarray(positions, np.intp)
        if self.id is None:
            return self._numbers(positions)
        ids: list[Any] = [None] * len(positions)
        for part, chunk in self.by_chunk(positions):
            read = parquet.read_column if chunk.kind == "parquet" else csv.read_column
            column = checked(chunk.name, partial(read, chunk, self.id))
            for at in part.tolist():
                ids[at] = column[positions[at] - chunk.start]
        return ids

    @cached_property
    def ids(self) -> tuple[str, ...] | None:
        """The ids of all rows as texts, which must all be different; None without a column of ids."""
        return None if self.id is None else checked_ids(self, self.id, self.texts(self.id))

    def place(self, row: int) -> str:
        """`file:row` of a row."""
        chunk = self.chunks[int(self._chunk_of(np.array([row]))[0])]
        return f"{chunk.source}:{chunk.number + row - chunk.start}"

    # ---- columns and rows as tables have them ----

    def column(self, name: str) -> Values:
        """The values of a column, of all rows."""
        check_column(self.source, name, self.columns)
        return stacked([*self.tables([name])]).column(name)

    def texts(self, name: str) -> list[str]:
        """All cells of a column as they stand in the files."""
        return [text for table in self.tables([name]) for text in table.texts(name)]

    def text(self, name: str, row: int) -> str:
        """A cell as it stands in its file; "" where there is none. The row is read once."""
        if row not in self._shown:
            self.look_at([row])
        return self._shown[row][name]

    def look_at(self, rows: Sequence[int]) -> None:
        """Read the cells of some rows, chunk by chunk, for `text`."""
        positions = np.array([row for row in rows if row not in self._shown], np.intp)
        for part, chunk in self.by_chunk(positions):
            table = self._table(chunk, self.columns, positions[part] - chunk.start)
            for at, row in enumerate(positions[part].tolist()):
                self._shown[row] = {name: table.text(name, at) for name in self.columns}
        for row in [*self._shown][: max(0, len(self._shown) - max(CACHED_ROWS, len(rows)))]:
            self._shown.pop(row, None)

    def tables(self, columns: Sequence[str]) -> Iterator[Table]:
        """These columns, chunk by chunk."""
        return (self._table(chunk, columns) for chunk in self.chunks)

    def some(self, columns: Sequence[str]) -> Table:
        """About 20,000 rows of at most ten chunks, evenly spread: all of them, if there are no more."""
        chunks: Sequence[Chunk] = self.chunks
        most = len(self)
        if most > LEARNT:
            count = min(len(chunks), CHUNKS_LEARNT)
            chunks = [chunks[number] for number in np.linspace(0, len(chunks) - 1, count).astype(int)]
            most = LEARNT // count
        read = partial(self._sample, columns=columns, most=most)
        tables = []
        for chunk in chunks:
            try:
                tables.append(checked(chunk.name, partial(read, chunk)))
            except BadRows:
                if not self._skips:
                    raise
        if not tables:
            names = listed([file.name for file in self.files])
            raise BadRows(f"source must have rows that can be read, but those of {names} cannot.")
        release_memory()
        return stacked(tables)

    def _sample(self, chunk: Chunk, columns: Sequence[str], most: int) -> Table:
        rows = rng_for(0, chunk.number, "rows an encoding is learnt from").permutation(chunk.rows)[:most]
        table = table_of(chunk, columns, rows=np.sort(rows))
        for name in columns:
            check_finite(table, name)
        return table

    def _table(self, chunk: Chunk, columns: Sequence[str], rows: np.ndarray | None = None) -> Table:
        """A part of the table: 3.0 stays 3.0 where the column has 2.5 in another part."""
        table = checked(chunk.name, lambda: table_of(chunk, columns, rows=rows))
        if not self._fractions.intersection(columns):
            return table
        values = {
            name: np.asarray(column, float) if name in self._fractions and not isinstance(column, list) else column
            for name, column in table.columns.items()
        }
        return Table(table.source, values, table.numbers, written=table.written)

    @cached_property
    def _fractions(self) -> frozenset[str]:
        """The columns of floats that are not all whole; of CSV files cells are shown as they stand there."""
        chunks = [chunk for chunk in self.chunks if chunk.kind == "parquet"]
        names = parquet.float_columns(chunks[0].file) if chunks else []

        def is_whole(chunk: Chunk, name: str) -> bool:
            column = table_of(chunk, [name]).column(name)
            return not isinstance(column, np.ndarray) or column.dtype.kind != "f"

        return frozenset(
            name for name in names if not all(checked(chunk.name, partial(is_whole, chunk, name)) for chunk in chunks)
        )

    def by_chunk(self, positions: np.ndarray) -> Iterator[tuple[np.ndarray, Chunk]]:
        """(indices into `positions`, the chunk that they are in), chunk by chunk."""
        if positions.size and (positions.min() < 0 or positions.max() >= len(self)):
            raise IndexError(f"positions must be from 0 to {len(self) - 1}.")
        number = self._chunk_of(positions)
        for each in np.unique(number):
            yield np.flatnonzero(number == each), self.chunks[each]

    def _chunk_of(self, positions: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.starts, positions, "right") - 1

    # ---- inputs ----

    def inputs(
        self, *, columns: Sequence[str] | None = None, drop: Iterable[str] = (), like: "Rows | None" = None
    ) -> "Rows":
        """The rows as numbers, as `open_rows` says."""
        first, without = self.files[0], {*drop, self.id}
        numbers = like.columns if like is not None else tuple(columns) if columns is not None else None
        encode = like.features is not None if like is not None else columns is None and not first.has_vectors
        if numbers is None:
            numbers = tuple(name for name, width in first.widths.items() if width and name not in without)
        refused = [*self.refused] if self._skips else None
        files = _good(self.files, partial(_with_columns, names=numbers, id=self.id, encode=encode), refused)
        if not encode and files:
            files = _good(files, partial(_with_width, names=numbers, width=files[0].width(numbers)), refused)
        data = Dataset(self.source, files, self.id, refused, as_file=self._as_file)
        if like is not None:
            return Rows(data, like.columns, like.width, like.features, like.note, like.unit)
        if not encode:
            return Rows(data, numbers, files[0].width(numbers), None, f"numbers as they are: {listed(numbers)}")
        learnt = encoded(data.some([name for name in data.columns if name not in without]))
        used, width = tuple(feature.column for feature in learnt.features), len(learnt.names)
        plain = all(feature.kind == "number" and len(feature.names) == 1 for feature in learnt.features)
        return Rows(data, used, width, None if plain else learnt.features, learnt.note)


@final
class Rows:
    """The rows of a dataset as an array, float32 `[n, d]`: `rows[positions]`, `rows[start:stop]` read what they need.

    `features` say how `columns` become numbers (None: they are numbers), and `note` says it in words.

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
        data: Dataset,
        columns: tuple[str, ...],
        width: int,
        features: tuple[Feature, ...] | None,
        note: str,
        unit: tuple[np.ndarray, float] | None = None,
    ) -> None:
        self.data, self.columns, self.width, self.features, self.note = data, columns, width, features, note
        self.unit = unit  # what is subtracted from rows, and what they are then divided by
        self.chunks, self.id, self.refused, self.ids = data.chunks, data.id, data.refused, data.ids_at
        self.keep = CACHED_CHUNKS
        self._recent: dict[Chunk, np.ndarray] = {}
        self._lock = threading.Lock()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and numbers in each."""
        return len(self), self.width

    @property
    def numbers(self) -> Sequence[int]:
        """What the rows are called without ids."""
        return self.data.numbers

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (row for chunk in self.chunks for row in self.read(chunk))

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.data, self.columns, self.width, self.features, self.note, self.unit)

    def __getitem__(self, positions: Any) -> np.ndarray:
        if isinstance(positions, slice) and positions.step in (None, 1):
            return self._between(*positions.indices(len(self))[:2])
        whole = isinstance(positions, slice)
        positions = np.arange(*positions.indices(len(self))) if whole else np.asarray(positions, np.intp)
        x = np.empty((positions.size, self.width), np.float32)
        for part, chunk in self.data.by_chunk(positions):
            x[_run(part)] = self.read(chunk)[_run(positions[part] - chunk.start)]
        return x

    def some(self, most: int) -> np.ndarray:
        """At most so many rows, evenly spread over a few chunks."""
        few = self.chunks[:: -(-len(self.chunks) // 4)]
        share = max(1, -(-sum(chunk.rows for chunk in few) // most))
        return np.concatenate([self.read(chunk)[::share] for chunk in few])[:most]

    def in_one_unit(self) -> "Rows":
        """The same rows around zero, their length √d in the mean of squares, learnt from some of them."""
        x = self.some(LEARNT).astype(np.float64)
        centre = x.mean(axis=0)
        unit = centre, float(np.sqrt(np.square(x - centre).mean())) or 1.0
        return Rows(self.data, self.columns, self.width, self.features, self.note, unit)

    def scaled(self, x: np.ndarray) -> np.ndarray:
        """Other numbers in the unit of these rows."""
        if self.unit is None:
            return x
        centre, size = self.unit
        return np.asarray((x - centre) / size, np.float32)

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
        x = checked(chunk.name, partial(self._read, chunk))
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
        x = self.scaled(x)
        x.flags.writeable = False
        with self._lock:
            while len(self._recent) >= self.keep:
                self._recent.pop(next(iter(self._recent)))
            self._recent[chunk] = x
        return x

    def _read(self, chunk: Chunk) -> np.ndarray:
        if self.features is not None:
            return matrix(table_of(chunk, self.columns), self.features, self.dtype)
        if chunk.kind == "npy":
            return np.array(_array(chunk.file)[chunk.first : chunk.stop], np.float32)
        read = parquet.read_numbers if chunk.kind == "parquet" else csv.read_numbers
        return read(chunk, self.columns)

    def _between(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to before `stop`; those of one chunk as they are in memory, not to be written to."""
        parts, number = [np.empty((0, self.width), np.float32)], bisect_right(self.data.starts, start) - 1
        while start < stop:
            chunk = self.chunks[number]
            end = min(stop, chunk.start + chunk.rows)
            parts.append(self.read(chunk)[start - chunk.start : end - chunk.start])
            start, number = end, number + 1
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def _column(self, position: int) -> str:
        if self.features is not None:
            return [feature.column for feature in self.features for _ in feature.names][position]
        return self.columns[position] if len(self.columns) == self.width else f"column {position}"


# ---- files ---------------------------------------------------------------------------------------------------------


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
        x = _array(path)
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


def _with_columns(file: _File, names: Sequence[str], id: str | None, *, encode: bool) -> _File:
    """The file, if it has these columns: of numbers, unless they are to be encoded."""
    for column in (*names, *([] if id is None else [id])):
        if column not in file.widths:
            raise BadRows(f"{file.name} has no column {column!r}; its columns are {listed([*file.widths])}.")
    if texts := [column for column in names if not encode and not file.widths[column]]:
        raise BadRows(f"{file.name}: the column {texts[0]!r} holds texts. {TEXTS}")
    return file


def _with_width(file: _File, names: Sequence[str], width: int) -> _File:
    if (here := file.width(names)) != width:
        raise BadRows(f"{file.name}: its rows have {here} numbers, those before have {width}.")
    return file


def table_of(chunk: Chunk, columns: Sequence[str], *, rows: np.ndarray | None = None) -> Table:
    """These columns of a chunk, of these rows of it where they are given."""
    read = parquet.read_chunk if chunk.kind == "parquet" else csv.read_chunk
    return read(chunk, columns, rows=rows)


def _array(file: str) -> np.ndarray:
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
