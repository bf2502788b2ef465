"""Rows of files as if they were an array: float32 `[n, d]`, of which only the pieces that are asked for are read."""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, final

import numpy as np

from askwell.data import csv_chunks, parquet_files
from askwell.data.csv_chunks import Chunk
from askwell.data.files import files_of, is_url, opened

__all__ = ["TEXTS", "BadRows", "Rows", "Shard", "open_rows"]

Found = TypeVar("Found")
SHARD = 100_000  # rows, about: small enough for memory, large enough that opening a file costs nothing
TEXTS = (
    "Rows of files are read as numbers only: turn texts into embeddings first, one column per number or a .npy file; "
    "or, where the pool fits the memory, make a project of it (askwell init), which encodes texts."
)
KEPT = 2  # pieces in memory: this one and, while it is worked on, the next


class BadRows(ValueError):  # noqa: N818 - what is wrong are the rows
    """Rows that cannot be read, or are no numbers; the message says which, and where."""


class Shard(NamedTuple):
    """A piece of a file."""

    place: str
    kind: Literal["parquet", "csv", "npy"]
    first: int  # row group, byte or row
    stop: int
    start: int  # its first row, counted over all files
    rows: int
    number: int  # of its first row, as the file counts them

    @property
    def name(self) -> str:
        """For messages: the file, and which part of it.

        >>> Shard("a/b.parquet", "parquet", 2, 4, 0, 100, 1).name
        'b.parquet, row groups 2 to 3'
        """
        unit = {"parquet": "row group", "csv": "byte", "npy": "row"}[self.kind]
        part = f"{unit} {self.first}" if self.stop == self.first + 1 else f"{unit}s {self.first} to {self.stop - 1}"
        return f"{Path(self.place).name}, {part}"


@final
class Rows:
    """The rows of some files, in order. `rows[positions]` and `rows[start:stop]` read what they need.

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
        shards: Sequence[Shard],
        columns: Sequence[str],
        width: int,
        id: str | None,
        refused: Sequence[str],
        *,
        as_file: bool = False,
    ) -> None:
        self.shards, self.columns, self.width, self.id = tuple(shards), tuple(columns), width, id
        self.refused = tuple(refused)  # files that were left out, each with the reason
        self._starts = np.array([shard.start for shard in self.shards])
        self._as_file = as_file  # whether rows have the numbers that their one file gives them
        firsts = [shard.number - shard.start if as_file else 0 for shard in self.shards]
        self._shifts = np.array(firsts)  # what to add to a position for the number of the row
        self.keep = KEPT  # pieces in memory
        self._kept: dict[Shard, np.ndarray] = {}
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
        return self.shards[-1].start + self.shards[-1].rows

    def __reduce__(self) -> tuple[Any, ...]:  # to other processes go the names, not what has been read
        made = partial(Rows, as_file=self._as_file)
        return made, (self.shards, self.columns, self.width, self.id, self.refused)

    def __getitem__(self, places: Any) -> np.ndarray:
        if isinstance(places, slice) and places.step in (None, 1):
            return self._between(*places.indices(len(self))[:2])
        whole = isinstance(places, slice)
        positions = np.arange(*places.indices(len(self))) if whole else np.asarray(places, np.intp)
        x = np.empty((positions.size, self.width), np.float32)
        for part, shard in self._by_shard(positions):
            x[_run(part)] = self.read(shard)[_run(positions[part] - shard.start)]
        return x

    def read(self, shard: Shard) -> np.ndarray:
        """All rows of a piece `[n, d]`; BadRows if they cannot be read or some number is missing."""
        with self._lock:
            if shard in self._kept:
                return self._kept[shard]
        x = _read(shard, self.columns)
        if x.shape != (shard.rows, self.width):
            raise BadRows(f"{shard.name}: {shard.rows} rows of {self.width} numbers were expected, not {x.shape}.")
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = not np.isfinite(x.sum())  # in half the time of looking at each; a sum may also be too large
        if suspect and not np.isfinite(x).all():
            row, column = np.argwhere(~np.isfinite(x))[0]
            raise BadRows(
                f"{shard.name}: row {shard.start + row} of the pool has no finite number in {self._column(column)!r} "
                f"({Path(shard.place).name}:{shard.number + row}). Fill in missing values first, or leave bad pieces "
                "out (skip_bad)."
            )
        x.flags.writeable = False
        with self._lock:
            while len(self._kept) >= self.keep:
                self._kept.pop(next(iter(self._kept)))
            self._kept[shard] = x
        return x

    def ids(self, positions: Any) -> list[Any]:
        """The ids of rows: the values of the id column, else their `numbers`."""
        places = np.asarray(positions, np.intp)
        if self.id is None:
            return self._numbers(places)
        found: list[Any] = [None] * len(places)
        for part, shard in self._by_shard(places):
            column = _read_ids(shard, self.id)
            for at in part.tolist():
                found[at] = column[places[at] - shard.start]
        return found

    def _between(self, start: int, stop: int) -> np.ndarray:
        """The rows from `start` to before `stop`; those of one piece as they are kept, not to be written to."""
        parts, number = [np.empty((0, self.width), np.float32)], bisect_right(self._starts, start) - 1
        while start < stop:
            shard = self.shards[number]
            end = min(stop, shard.start + shard.rows)
            parts.append(self.read(shard)[start - shard.start : end - shard.start])
            start, number = end, number + 1
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def _by_shard(self, positions: np.ndarray) -> Iterator[tuple[np.ndarray, Shard]]:
        """(places in `positions`, the piece that they are in), piece by piece."""
        if positions.size and (positions.min() < 0 or positions.max() >= len(self)):
            raise IndexError(f"positions must be from 0 to {len(self) - 1}.")
        number = np.searchsorted(self._starts, positions, "right") - 1
        for each in np.unique(number):
            yield np.flatnonzero(number == each), self.shards[each]

    def _numbers(self, positions: np.ndarray) -> list[int]:
        shard = np.searchsorted(self._starts, positions, "right") - 1
        numbers: list[int] = (positions + self._shifts[shard]).tolist()
        return numbers

    def _column(self, place: int) -> str:
        return self.columns[place] if len(self.columns) == self.width else f"column {place}"


def open_rows(
    source: str | Path | Sequence[str | Path],
    *,
    columns: Sequence[str] | None = None,
    id: str | None = None,
    skip_bad: bool = False,
    rows: int = SHARD,
) -> Rows:
    """The rows of Parquet files, CSV files or saved arrays (.npy), without reading them.

    `source` is a path, a folder, a glob, a URL that fsspec knows, or a list of them. `columns` are the inputs, by
    default all numeric ones of the first file but `id`; a Parquet column may be an embedding (lists of a fixed size).
    All files must have them. A file that cannot be opened is an error, unless `skip_bad`: then `refused` names it.
    Without `id`, the rows of one file are called by the numbers that it gives them, as in `askwell.data.read_table`
    (a CSV's first row of values is 2); those of a folder, a glob or a list are counted over all files, from 0.
    """
    shards: list[Shard] = []
    refused: list[str] = []
    inputs = None if columns is None else tuple(columns)
    width, start = 0, 0
    files = files_of(source)
    for place in files:
        try:
            kind, widths, pieces = _tried(Path(place).name, partial(_contents, place, rows))
            inputs = inputs or tuple(name for name, each in widths.items() if each and name != id)
            found = _width(place, widths, inputs, id)
            if width and found != width:
                raise BadRows(f"{Path(place).name}: its rows have {found} numbers, those before have {width}.")
        except BadRows as fault:
            if not skip_bad:
                raise BadRows(f"{fault} Mend or remove it, or leave bad files out (skip_bad).") from None
            refused.append(str(fault))
            continue
        width = found
        for first, stop, count, number in pieces:
            shards.append(Shard(place, kind, first, stop, start, count, number))
            start += count
    if not shards or inputs is None:
        raise BadRows(" ".join([f"source must have rows, but there are none in {source}.", *refused]))
    return Rows(shards, inputs, width, id, refused, as_file=files == [str(source)])


# ---- kinds of files ----


def _contents(place: str, rows: int) -> tuple[Any, dict[str, int], Sequence[tuple[int, int, int, int]]]:
    """(kind, width of each column, (first, stop, rows, number of the first row) of each piece)."""
    end = place.lower()
    if end.endswith(".npy"):
        x = _array(place)
        spans = [(at, min(at + rows, len(x)), min(rows, len(x) - at), at) for at in range(0, len(x), rows)]
        return "npy", {"x": x.shape[1]}, spans
    if end.endswith((".parquet", ".pq")):
        counts, widths = parquet_files.groups(_source(place))
        starts = np.cumsum([1, *counts])
        return "parquet", widths, [(*piece, int(starts[piece[0]])) for piece in _joined(counts, rows)]
    if end.endswith((".jsonl", ".ndjson", ".json")):
        raise BadRows(
            f"{Path(place).name} is a file of JSON, which is not read piece by piece: make it CSV or Parquet."
        )
    columns, _, start = csv_chunks.layout(place)
    return "csv", columns, csv_chunks.chunks(place, start, rows)


def _source(place: str) -> Any:
    return opened(place) if is_url(place) else place


def _joined(counts: Sequence[int], rows: int) -> list[tuple[int, int, int]]:
    """Neighbouring row groups, together as long as they are small.

    >>> _joined([10, 20, 80, 5, 0], 50)
    [(0, 2, 30), (2, 3, 80), (3, 5, 5)]
    """
    found: list[tuple[int, int, int]] = []
    for number, count in enumerate(counts):
        if found and found[-1][2] + count <= rows:
            first, _, total = found.pop()
            found.append((first, number + 1, total + count))
        else:
            found.append((number, number + 1, count))
    return [piece for piece in found if piece[2]]


def _width(place: str, widths: dict[str, int], inputs: Sequence[str], id: str | None) -> int:
    name, shown = Path(place).name, ", ".join([*widths][:12])
    for column in (*inputs, *([] if id is None else [id])):
        if column not in widths:
            raise BadRows(f"{name} has no column {column!r}; its columns are {shown}.")
    if not inputs:
        raise BadRows(f"{name} has no column of numbers; its columns are {shown}. {TEXTS}")
    if texts := [column for column in inputs if not widths[column]]:
        raise BadRows(f"{name}: the column {texts[0]!r} holds texts. {TEXTS}")
    return sum(widths[column] for column in inputs)


def _run(numbers: np.ndarray) -> Any:
    """Numbers that follow each other as a slice, which is copied faster."""
    run = len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1 and bool((np.diff(numbers) == 1).all())
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if run else numbers


def _read(shard: Shard, columns: Sequence[str]) -> np.ndarray:
    span = shard.first, shard.stop
    if shard.kind == "npy":
        return _tried(shard.name, lambda: np.array(_array(shard.place)[slice(*span)], np.float32))
    if shard.kind == "parquet":
        return _tried(shard.name, lambda: parquet_files.read_groups(_source(shard.place), *span, columns))
    return _tried(shard.name, lambda: csv_chunks.read_numbers(shard.place, _chunk(shard), columns))


def _read_ids(shard: Shard, column: str) -> list[Any]:
    if shard.kind == "parquet":
        span = shard.first, shard.stop
        return _tried(shard.name, lambda: parquet_files.read_ids(_source(shard.place), *span, column))
    return _tried(shard.name, lambda: csv_chunks.read_column(shard.place, _chunk(shard), column))


def _chunk(shard: Shard) -> Chunk:
    return Chunk(shard.first, shard.stop, shard.rows, shard.number)


def _array(place: str) -> np.ndarray:
    x: np.ndarray = np.load(place, mmap_mode="r", allow_pickle=False)
    if x.ndim != 2 or x.dtype.kind not in "fiub":
        raise BadRows(f"it must be an array of numbers [n, d], but it is {x.dtype} of shape {x.shape}.")
    return x


def _tried(name: str, read: Callable[[], Found]) -> Found:
    """What `read` gives; whatever is wrong is said of this piece."""
    try:
        return read()
    except ImportError:
        raise
    except (ValueError, KeyError, OSError) as fault:  # Arrow's errors are ValueErrors or OSErrors
        text = str(fault).splitlines()[0].rstrip(".") if str(fault) else type(fault).__name__
        told = text.startswith(f"{name.partition(',')[0]}:")  # which row it is says more than which piece
        raise BadRows(f"{text}." if told else f"{name}: {text}.") from None
    except Exception as fault:  # of whatever reads from a URL
        raise BadRows(f"{name}: {fault} ({type(fault).__name__}).") from fault
