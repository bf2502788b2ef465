"""CSV and its relatives: values separated by commas, semicolons, tabs or bars; whole, a chunk, or row by row.

    bytes ── form (delimiter, blanks) ──┬── Arrow ───────────────┬── cells of each column, as texts, and rows' numbers
                                        └── Python's csv module ─┘

Arrow reads nearly every file, and only where it gives what the csv module gives. What users rely on and Arrow has not
is written here: the number of each row as a spreadsheet counts (empty lines, line breaks inside quotes), rows of the
wrong width or a bad byte named as `file:row`, the delimiter by itself, blanks after it, marks of UTF-8 and UTF-16, and
where in a large file a row ends, so that chunks can be read apart.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from askwell.data.files import Chunk, opened
from askwell.data.table import Table, column_values, joined, listed, numbers_in, numbers_of, release_memory

__all__ = [
    "Extent",
    "Form",
    "Layout",
    "csv_cells",
    "csv_header",
    "extents",
    "is_empty",
    "layout",
    "likely_form",
    "read_chunk",
    "read_column",
    "read_csv",
    "read_numbers",
    "read_rows",
    "row_ends",
]

DELIMITERS = ",;\t|"
PART = 5_000  # rows that Python reads at a time
SAMPLE = 1 << 16  # letters by which the form of a file is known
BLOCK = 1 << 22  # bytes that Arrow reads at a time
LONGEST = 2**31 - 1  # letters of a cell; Python's own limit is 131,072
QUOTE, NEWLINE, RETURN = b'"\n\r'
MARK = b"\xef\xbb\xbf"  # of UTF-8
SCAN = 1 << 24  # bytes in which ends of rows are looked for in one go
FEW = 100  # rows by which the columns of a file in chunks are known


@final
class Form(NamedTuple):
    """How values are separated; `spaced` if blanks after the delimiter are no part of them."""

    delimiter: str
    spaced: bool

    @property
    def options(self) -> dict[str, Any]:
        """For the csv module."""
        return {"delimiter": self.delimiter, "skipinitialspace": self.spaced}

    @property
    def comma(self) -> bool:
        """Whether 1,5 is one and a half."""
        return self.delimiter == ";"


def read_csv(path: Path, *, encoding: str | None, delimiter: str | None, as_text: str | None) -> Table:
    """The table in a text file whose first row names the columns; `as_text` is a column to keep letter by letter."""
    data = utf8_content(path, encoding)
    form = likely_form(data, delimiter=delimiter)
    header = csv_header(path.name, data, form)
    columns, numbers = csv_cells(path.name, data, form, header)
    if len(numbers) == 1:
        raise ValueError(f"{path.name} has a header and no rows under it. Is this the right file?")
    del data  # and each column's cells as soon as they are not needed: the largest files are the ones that matter
    columns.reverse()
    named = {name: column_values(columns.pop().slice(1), comma=form.comma, text=name == as_text) for name in header}
    release_memory()
    rows = range(2, len(numbers) + 1)
    return joined(path.name, named, rows if numbers[-1] == len(numbers) else numbers[1:])


def csv_cells(
    name: str, data: bytes, form: Form, header: Sequence[str], *, first: int = 1, nul: bool = False
) -> tuple[list[Any], Sequence[int]]:
    """(the cells of each column, the number of each row) of rows in UTF-8, the `first` of which has this number.

    An empty line is no row, but it counts. A ValueError says `name:row` and what is wrong; a NUL is, without `nul`.
    """
    return _by_arrow(data, form, len(header), first) or _by_python(name, data, form, header, first, nul)


# ---- the form of the file ----


def utf8_content(path: Path, encoding: str | None) -> bytes:
    """A file's content in UTF-8 without a mark; it is in UTF-16 if it has its mark, as spreadsheets write it."""
    data = path.read_bytes()
    if encoding is None and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    try:
        if encoding is not None and encoding.lower().replace("_", "-") not in ("utf-8", "utf8", "utf-8-sig"):
            return io.TextIOWrapper(io.BytesIO(data), encoding, newline="").read().encode()
    except UnicodeDecodeError as error:
        raise ValueError(_undecodable(path.name, data, error)) from None
    except UnicodeError as error:  # UTF-16 without its mark
        raise ValueError(f"{path.name} is not {encoding} text: {error}.") from None
    except LookupError:
        raise ValueError(
            f"encoding must be the name of a text encoding, such as 'utf-8', but it is {encoding!r}."
        ) from None
    return data.removeprefix(MARK)


def likely_form(data: bytes, *, delimiter: str | None = None) -> Form:
    """The form of a file by its beginning.

    >>> likely_form(b"a; b\\n1; 2\\n")
    Form(delimiter=';', spaced=True)
    """
    if csv.field_size_limit() < LONGEST:  # which holds for the whole process
        csv.field_size_limit(LONGEST)
    sample = data[:SAMPLE].decode("utf-8", "ignore")
    delimiter = delimiter or _likely_delimiter(sample)
    return Form(delimiter, _is_spaced(sample, delimiter))


def _first_rows(sample: str, delimiter: str) -> list[list[str]]:
    return [row for row in islice(csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter), 50) if row]


def _likely_delimiter(sample: str) -> str:
    """The delimiter that cuts the header into several names and most rows into as many values."""

    def fit(mark: str) -> tuple[float, int]:
        try:
            widths = [*map(len, _first_rows(sample, mark))]
        except csv.Error:
            return 0.0, 0
        if not widths or widths[0] < 2:
            return 0.0, 0
        return widths.count(widths[0]) / len(widths), widths[0]

    return max(DELIMITERS, key=fit)


def _is_spaced(sample: str, delimiter: str) -> bool:
    """Whether blanks follow the delimiters of this file (a, b, c), and so are no part of the values.

    They do if most cells after the first of a row begin with one, or if one stands before the quotation mark of a cell.

    >>> [_is_spaced(sample, ",") for sample in ("key, x", " key,x", 'key,x, "a"', 'key,", ""a"')]
    [True, False, True, False]
    """
    mark = re.escape(delimiter)
    # What stands between quotation marks is a value, whatever it looks like.
    bare = re.sub(rf'(^|[{mark}\r\n])"[^"]*(?:""[^"]*)*"', r"\1", sample)
    if delimiter == " " or re.search(rf'{mark} +"', bare):
        return True
    try:
        later = [cell for row in _first_rows(sample, delimiter) for cell in row[1:]]
    except csv.Error:
        return False
    return 2 * sum(cell.startswith(" ") for cell in later) > len(later)


def csv_header(name: str, data: bytes, form: Form) -> list[str]:
    """The names of the columns: all different, and none of them looking like a value."""
    try:
        cells = next(csv.reader(_lines(name, data, 1), **form.options), [])
    except csv.Error as error:
        raise ValueError(f"{name}:1: {error}. Is this a CSV file?") from None
    names = [cell.strip() or f"column {place}" for place, cell in enumerate(cells, 1)]
    if not any(cell.strip() for cell in cells):
        raise ValueError(f"{name}:1: the first row must name the columns, but it is empty.")
    if len({*names}) < len(names):
        twice = sorted({each for each in names if names.count(each) > 1})
        raise ValueError(f"{name}:1: columns must have different names, but {listed(twice)} occurs more than once.")
    numeric = [each for each in names if numbers_of([each], comma=False) is not None]
    if 2 * len(numeric) >= len(names) and not all(each.isdecimal() for each in numeric):
        raise ValueError(
            f"{name}:1: the first row must name the columns, but it holds {listed(names, most=4)}. "
            "Add a first row with names, such as " + ",".join(f"x{place}" for place in range(1, 4)) + ",...,y."
        )
    return names


# ---- by Arrow ----


def _by_arrow(data: bytes, form: Form, width: int, first: int = 1) -> tuple[list[Any], Sequence[int]] | None:
    """What `_by_python` gives, several times as fast; None for what Arrow would read in another way, or not at all."""
    quoted = QUOTE in data
    if not data or 0 in data or not form.delimiter.isascii() or form.delimiter in '"\r\n':
        return None
    if quoted and (form.spaced or not _is_regular(data, form.delimiter)):
        return None
    columns = _parsed(data, form, width, quoted)
    numbers = None if columns is None else _row_numbers(data, len(columns[0]), first)
    return None if columns is None or numbers is None else (columns, numbers)


def _parsed(data: bytes, form: Form, width: int, quoted: bool) -> list[Any] | None:
    """The cells of each column, in so many columns in every row; None if Arrow refuses. An empty line is no row."""
    from pyarrow import ArrowException, BufferReader, compute, csv

    names = [*map(str, range(width))]
    try:
        table = csv.read_csv(
            BufferReader(data),
            csv.ReadOptions(column_names=names, block_size=BLOCK, use_threads=len(data) > BLOCK),
            csv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=quoted and '"',
                newlines_in_values=quoted,
            ),
            csv.ConvertOptions(column_types=dict.fromkeys(names, _kind(data)), strings_can_be_null=False),
        )
    except ArrowException:
        return None
    return [compute.utf8_ltrim(each, " ") if form.spaced else each for each in table.columns]


def _kind(data: bytes) -> Any:
    """Of Arrow's texts, that which can hold as many letters."""
    from pyarrow import large_string, string

    return string() if len(data) < LONGEST else large_string()


def _is_regular(data: bytes, delimiter: str) -> bool:
    """Whether quotation marks stand around whole values, and inside only in pairs: where all agree on what is meant."""
    values = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero(values == QUOTE)
    if len(marks) % 2:
        return False
    edge = np.zeros(256, bool)
    edge[[QUOTE, NEWLINE, RETURN, ord(delimiter)]] = True
    opening, closing = marks[0::2], marks[1::2]
    return bool(
        edge[values[opening[opening > 0] - 1]].all() and edge[values[closing[closing < len(values) - 1] + 1]].all()
    )


def _row_numbers(data: bytes, rows: int, first: int) -> Sequence[int] | None:
    """The numbers of these many rows, counted with the empty lines between them; None if they do not add up."""
    ended = data.endswith((b"\n", b"\r"))
    lines = data.count(b"\n") + (not ended)
    if RETURN in data:
        lines += data.count(b"\r") - data.count(b"\r\n")
    if lines == rows:
        return range(first, rows + first)
    values = np.frombuffer(data, np.uint8)
    ends, _ = row_ends(values, inside=False)
    if not ended:
        ends = np.append(ends, len(values))
    numbers = np.flatnonzero(~is_empty(values, ends)) + first
    if len(numbers) != rows:
        return None
    return numbers.tolist()


def row_ends(values: np.ndarray, *, inside: bool) -> tuple[np.ndarray, bool]:
    """(the places of the bytes that end a row, whether a quotation is open after the last byte).

    A line break between quotation marks is part of a value: a row ends where those before are even in number. `inside`
    says that one was open before the first byte.

    >>> row_ends(np.frombuffer(b'a\\n"b\\nc"\\n"', np.uint8), inside=False)
    (array([1, 7]), True)
    """
    marks = np.cumsum(values == QUOTE, dtype=np.uint8)  # wraps at 256, which is even
    odd = (marks + inside) % 2 == 1
    ends = values == NEWLINE
    single = np.flatnonzero(values[:-1] == RETURN)
    ends[single[values[single + 1] != NEWLINE]] = True
    if len(values) and values[-1] == RETURN:
        ends[-1] = True
    return np.flatnonzero(ends & ~odd), bool(odd[-1]) if len(odd) else inside


def is_empty(values: np.ndarray, ends: np.ndarray, *, before: int = 0) -> np.ndarray:
    """Which of the rows that end there are empty lines; the first row has so many bytes `before` these values."""
    starts = np.concatenate([[-before], ends[:-1] + 1])[: len(ends)]
    returns = (starts >= 0) & (values[np.maximum(starts, 0)] == RETURN) if len(starts) else np.empty(0, bool)
    empty: np.ndarray = ends - starts <= returns
    return empty


# ---- by Python ----


def _by_python(
    name: str, data: bytes, form: Form, header: Sequence[str], first: int = 1, nul: bool = False
) -> tuple[list[Any], Sequence[int]]:
    from pyarrow import array, chunked_array

    kind = _kind(data)
    columns: list[list[Any]] = [[] for _ in header]
    numbers: list[int] = []
    for rows in _parts(csv.reader(_lines(name, data, first, nul), **form.options, strict=True), name, first):
        _check_widths(name, rows, first, header, form.delimiter)
        numbers += [number for number, row in enumerate(rows, first) if row]
        first += len(rows)
        for chunks, cells in zip(columns, zip(*filter(None, rows), strict=True), strict=False):
            chunks.append(array(cells, kind))
    return [chunked_array(chunks, kind) for chunks in columns], numbers


def _lines(name: str, data: bytes, first: int, nul: bool = False) -> Iterator[str]:
    lines = io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
    try:
        for number, line in enumerate(lines, 1):
            if "\0" in line and not nul:
                raise ValueError(
                    f"{name}: line {number} holds a NUL byte, so this is no plain text: a spreadsheet, a damaged file, "
                    "or UTF-16 (then try encoding='utf-16'). Save it as CSV in UTF-8."
                )
            yield line
    except UnicodeDecodeError:
        try:
            data.decode()
        except UnicodeDecodeError as error:  # with its place in the whole
            raise ValueError(_undecodable(name, data, error, first=first)) from None


def _parts(reader: Iterator[list[str]], name: str, number: int) -> Iterator[list[list[str]]]:
    """The rows, many at a time; the first has this number."""
    while True:
        rows: list[list[str]] = []
        try:
            rows.extend(islice(reader, PART))
        except csv.Error as error:
            cause = "a quotation mark that is opened and never closed" if "end of data" in str(error) else str(error)
            if "field larger" in str(error):
                cause = f"a value of more than {csv.field_size_limit():,} letters, or a quotation mark never closed"
            raise ValueError(
                f"{name}:{number + len(rows)}: this row cannot be read: {cause}. A quotation mark inside a quoted "
                'value is written twice: "a 3"" pipe".'
            ) from None
        if not rows:
            return
        yield rows
        number += len(rows)


def _check_widths(name: str, rows: list[list[str]], first: int, header: Sequence[str], delimiter: str) -> None:
    width = len(header)
    if {*map(len, rows)} <= {0, width}:
        return
    place = next(place for place, row in enumerate(rows) if len(row) not in (0, width))
    row = rows[place]
    shown = "a tab" if delimiter == "\t" else repr(delimiter)
    raise ValueError(
        f"{name}:{first + place}: this row has {len(row)} {'value' if len(row) == 1 else 'values'} and the header "
        f"names {width} columns. Values are separated by {shown} here; one that has it inside must stand in quotation "
        f"marks. The row begins with {listed([repr(cell[:30]) for cell in row], most=3)}."
    )


def _undecodable(name: str, data: bytes, error: UnicodeDecodeError, *, first: int | None = None) -> str:
    """What cannot be read, in which row (with the number of the `first`), and what to try."""
    if b"\0" in data[: 1 << 12]:
        return f"{name} is no text file by its content. A table is CSV, JSON lines (.jsonl) or .parquet."
    if first is not None:
        ends, _ = row_ends(np.frombuffer(data[: error.start], np.uint8), inside=False)
        name = f"{name}:{first + len(ends)}"
    return (
        f"{name}: this is not {error.encoding} text (byte 0x{error.object[error.start]:02x}). "
        "Try encoding='cp1252' (Windows, western Europe) or save the file as UTF-8."
    )


Extent: TypeAlias = tuple[int, int, int, int]
"""(first byte, the byte after the last, rows, number of the first row) of a chunk; the header of a CSV is row 1."""


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
        while len(ends) < 2 and (more := lines.read(max(SAMPLE, len(data)))):  # a long header is read in a few goes
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
        while block := content.read(SCAN):
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
