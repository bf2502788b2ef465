"""From files to rows: which of them are good, where their chunks are, and how their columns become numbers.

Columns become numbers as those of a table in memory do (`askwell.data.encoded`), learnt from about 20,000 rows, so
that a folder or a glob gives what each file in it gives. Columns that are named are taken as the numbers they are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from askwell.data import csv_chunks, parquet_files
from askwell.data.columns import release_memory
from askwell.data.csv_chunks import Extent
from askwell.data.encoding import check_finite, encoded
from askwell.data.files import Chunk, files_of
from askwell.data.rows import TEXTS, BadRows, Inputs, Rows, array_of, checked, table_of
from askwell.data.table import Table, listed, stacked
from askwell.seeds import rng_for

__all__ = ["open_rows"]

Given = TypeVar("Given")
Result = TypeVar("Result")
CHUNK = 50_000  # rows, about: small enough for memory, large enough that opening a file costs nothing
LEARNT, CHUNKS_LEARNT = 20_000, 10  # rows that an encoding is learnt from, about, and of how many chunks at most


class _File(NamedTuple):
    """A file that was looked at: how many numbers each column has in a row (0: a text), and where its chunks are."""

    path: str
    kind: Literal["parquet", "csv", "npy"]
    widths: dict[str, int]
    extents: Sequence[Extent]

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
        counts, widths = parquet_files.groups(path)
        starts = np.cumsum([1, *counts])
        return _File(path, "parquet", widths, [(*part, int(starts[part[0]])) for part in _joined(counts, rows)])
    if end.endswith((".jsonl", ".ndjson", ".json")):
        name = Path(path).name
        raise BadRows(f"{name} is a file of JSON, which is not read chunk by chunk: make it CSV or Parquet.")
    columns, _, start = csv_chunks.layout(path)
    return _File(path, "csv", columns, csv_chunks.extents(path, start, rows))


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
