"""Parts of CSV files: where rows end, without reading values; the values of a chunk; and of each row by itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from askwell.data.columns import column_values, joined, numbers_in, numbers_of
from askwell.data.csv_files import MARK, Form, csv_cells, csv_header, is_empty, likely_form, row_ends, utf8_content
from askwell.data.files import Chunk, opened
from askwell.data.table import Table

__all__ = ["Extent", "Layout", "extents", "layout", "read_chunk", "read_column", "read_numbers", "read_rows"]

Extent: TypeAlias = tuple[int, int, int, int]
"""(first byte, the byte after the last, rows, number of the first row) of a chunk; the header of a CSV is row 1."""

BLOCK = 1 << 24  # bytes looked at in one go
LOOK, FEW = 1 << 16, 100  # bytes and rows at the beginning of a file by which its columns are known


@final
class Layout(NamedTuple):
    """The columns of a file, how its values are separated, and the byte after its first row."""

    columns: dict[str, int]  # 1 if the first values are numbers, else 0
    form: Form
    start: int


def layout(file: str) -> Layout:
    """What the beginning of a file in UTF-8 says about the rest."""
    name, data, ends = Path(file).name, b"", np.empty(0, np.intp)
    with opened(file) as lines:
        while len(ends) < 2 and (more := lines.read(max(LOOK, len(data)))):  # a long header is read in a few goes
            data += more
            ends, _ = row_ends(np.frombuffer(data, np.uint8), inside=False)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError("it is UTF-16, which is not read chunk by chunk: save it as UTF-8.")
    if not len(ends):
        raise ValueError("it has no second row: a table has a row of column names and rows of values.")
    mark = len(MARK) * data.startswith(MARK)
    form = likely_form(data[mark:])
    names = csv_header(name, data[mark : ends[0] + 1], form)
    few = data[ends[0] + 1 : ends[1 : FEW + 1][-1] + 1] if len(ends) > 1 else data[ends[0] + 1 :]
    cells, _ = csv_cells(name, few, form, names, first=2)
    numeric = [numbers_in(each, comma=form.comma) is not None for each in cells]
    return Layout(dict(zip(names, map(int, numeric), strict=True)), form, int(ends[0]) + 1)


def extents(file: str, start: int, rows: int) -> list[Extent]:
    """The chunks of at most so many rows, from the byte `start` on.

    A line break inside quotes is part of a value: a row ends where the quotes before it are even in number. An empty
    line is no row, but it counts: the chunk before it ends there.
    """
    result: list[Extent] = []
    first = at = last = start
    count, number, inside = 0, 2, False
    with opened(file) as content:
        content.seek(start)
        while block := content.read(BLOCK):
            if block.endswith(b"\r"):
                block += content.read(1)
            values = np.frombuffer(block, np.uint8)
            ends, inside = row_ends(values, inside=inside)
            empty = is_empty(values, ends, before=at - last)
            begin = 0
            for cut in [*np.flatnonzero(empty).tolist(), len(ends)]:
                stops = ends[begin:cut] + at + 1
                while len(stops):
                    some, stops = stops[: rows - count], stops[rows - count :]
                    count, last = count + len(some), int(some[-1])
                    if count == rows:
                        result.append((first, last, count, number))
                        first, count, number = last, 0, number + count
                if cut < len(ends):
                    if count:
                        result.append((first, last, count, number))
                    first = last = int(ends[cut]) + at + 1
                    count, number = 0, number + count + 1
                begin = cut + 1
            at += len(block)
    if at > last:  # the last row need not end
        count, last = count + 1, at
    return [*result, (first, last, count, number)] if count else result


def read_chunk(chunk: Chunk, columns: Sequence[str], *, rows: np.ndarray | None = None) -> Table:
    """These columns of a chunk as a table, of these rows of it where they are given."""
    names, form, cells = _cells(chunk)
    some = {name: cells[names.index(name)] for name in columns}
    some = some if rows is None else {name: column.take(rows) for name, column in some.items()}
    values = {name: column_values(column, comma=form.comma) for name, column in some.items()}
    return joined(chunk.source, values, chunk.numbers(rows))


def read_numbers(chunk: Chunk, columns: Sequence[str]) -> np.ndarray:
    """The columns of a chunk, float32 `[n, d]`; missing values are NaN. A ValueError says what is no number."""
    names, form, cells = _cells(chunk)
    x = np.empty((len(cells[0]), len(columns)), np.float32)
    for position, name in enumerate(columns):
        numbers = numbers_in(cells[names.index(name)], comma=form.comma)
        if numbers is None:
            _refuse(chunk, name, cells[names.index(name)].to_pylist(), form)
        x[:, position] = numbers
    return x


def read_column(chunk: Chunk, column: str) -> list[str]:
    """A column of a chunk, as it stands there."""
    names, _, cells = _cells(chunk)
    texts: list[str] = cells[names.index(column)].to_pylist()
    return texts


def _cells(chunk: Chunk) -> tuple[list[str], Form, list[Any]]:
    columns, form, _ = layout(chunk.file)
    with opened(chunk.file) as content:
        content.seek(chunk.first)
        data = content.read(chunk.stop - chunk.first)
    names = [*columns]
    return names, form, csv_cells(chunk.source, data, form, names, first=chunk.number)[0]


def _refuse(chunk: Chunk, column: str, cells: Sequence[str], form: Form) -> None:
    for number, cell in enumerate(cells, chunk.number):
        if numbers_of([cell], comma=form.comma) is None:
            raise ValueError(f"{chunk.source}:{number}: {column!r} must be a number, but it is {cell.strip()[:40]!r}.")
    raise ValueError(
        f"{chunk.source}: {column!r} must be numbers, but it mixes 1,5 and 1.5 from row {chunk.number} on."
    )


def read_rows(path: Path) -> tuple[list[str], list[tuple[int, Sequence[str] | str]]]:
    """(the names of the columns, (its number, its cells or what is wrong with it) of each row): one by one if need be.

    >>> path = getfixture("tmp_path") / "a.csv"
    >>> _ = path.write_text("a,b\\n1,2\\n3\\n")
    >>> read_rows(path)
    (['a', 'b'], [(2, ['1', '2']), (3, "this row has 1 value and the header names 2 columns. ...")])
    """
    data = utf8_content(path, None)
    form = likely_form(data)
    names = csv_header(path.name, data, form)
    try:
        columns, numbers = csv_cells(path.name, data, form, names, nul=True)
        cells: Any = zip(*(column.to_pylist() for column in columns), strict=True)
        return names, [*zip(numbers, cells, strict=True)][1:]
    except ValueError:
        values = np.frombuffer(data, np.uint8)
        ends, inside = row_ends(values, inside=False)
        if inside:  # a quotation that never ends: nobody can tell the rows after it
            raise
    ends = np.append(ends, len(data) - 1) if not len(ends) or ends[-1] < len(data) - 1 else ends
    parts = zip(ends[:-1].tolist(), ends[1:].tolist(), is_empty(values, ends)[1:], strict=True)
    rows = [(number, data[start + 1 : stop + 1]) for number, (start, stop, empty) in enumerate(parts, 2) if not empty]
    return names, [(number, _cells_or_error(path.name, row, form, names, number)) for number, row in rows]


def _cells_or_error(name: str, data: bytes, form: Form, names: Sequence[str], number: int) -> Sequence[str] | str:
    try:
        columns, _ = csv_cells(name, data, form, names, first=number, nul=True)
        return [column[0].as_py() for column in columns]
    except ValueError as error:
        return str(error).removeprefix(f"{name}:{number}: ")
