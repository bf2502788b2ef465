"""CSV and its relatives: values separated by commas, semicolons, tabs or bars, read in parts so that memory stays low.

A column is numbers if every value in it is one. That is known only at the end, so a column that looks like numbers for
a while and is not makes the file be read a second time, with that column as text; never a third time.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from askwell.tables.table import Cells, Table, Values, cell_text, listed, typed

__all__ = ["allow_long_cells", "is_spaced", "numbers_of", "read_separated"]

DELIMITERS = ",;\t|"
PART = 5_000  # rows
MISSING = frozenset(["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "<NA>", "#N/A", "?"])
CODE = re.compile(r"\n[+-]?0\d")  # 007 is a number to Python and not to people, as is 1_000
LONGEST = 2**31 - 1  # letters of a cell; Python's own limit is 131,072
WIDEST = 64  # letters of a number; a column with longer ones is kept as a list of its cells


def allow_long_cells() -> None:
    """Let the csv module read cells of any length, such as long texts: its limit holds for the whole process."""
    if csv.field_size_limit() < LONGEST:
        csv.field_size_limit(LONGEST)


def read_separated(path: Path, *, encoding: str | None, delimiter: str | None, as_text: str | None) -> Table:
    """The table in a text file whose first row names the columns; `as_text` is a column to keep letter by letter."""
    allow_long_cells()
    try:
        encoding = encoding or _marked_encoding(path)
        with path.open(encoding=encoding, newline="") as file:
            sample = file.read(1 << 16)
        delimiter = delimiter or _likely_delimiter(sample)
        form: dict[str, Any] = {"delimiter": delimiter, "skipinitialspace": is_spaced(sample, delimiter)}
        with path.open(encoding=encoding, newline="") as file:
            header = _header(path, csv.reader(file, **form))
        texts = {place for place, name in enumerate(header) if name == as_text}
        table, late = _read(path, encoding, form, header, texts)
        if late:
            table, _ = _read(path, encoding, form, header, texts | late)
        return table
    except UnicodeDecodeError as fault:
        raise ValueError(_undecodable(path, encoding or "utf-8", fault)) from None
    except UnicodeError as fault:  # UTF-16 without its mark
        raise ValueError(f"{path.name} is not {encoding} text: {fault}.") from None
    except LookupError:
        raise ValueError(
            f"encoding must be the name of a text encoding, such as 'utf-8', but it is {encoding!r}."
        ) from None


def _read(
    path: Path, encoding: str, form: dict[str, Any], header: Sequence[str], texts: set[int]
) -> tuple[Table, set[int]]:
    """(the table, the columns that turned out to be text too late); columns of `texts` are read as text."""
    delimiter = form["delimiter"]
    columns = [_Column(text=place in texts, comma=delimiter == ";") for place in range(len(header))]
    blank: list[int] = []
    count = 1
    with path.open(encoding=encoding, newline="") as file:
        reader = csv.reader(_lines(file, path.name), **form, strict=True)
        for rows in _parts(reader, path.name):
            if count == 1:
                rows = rows[1:]
            if not all(map(len, rows)):  # an empty line is no row, but it counts
                blank += [count + 1 + place for place, row in enumerate(rows) if not row]
            _check_widths(path.name, rows, count + 1, header, delimiter)
            count += len(rows)
            for column, cells in zip(columns, zip(*filter(None, rows), strict=True), strict=False):
                column.add(cells)
    numbers: Sequence[int] = range(2, count + 1)
    if blank:
        skipped = set(blank)
        numbers = [number for number in numbers if number not in skipped]
    if not len(numbers):
        raise ValueError(f"{path.name} has a header and no rows under it. Is this the right file?")
    late = {place for place, column in enumerate(columns) if column.late}
    if late:
        return Table(path.name, {}, numbers), late
    named = dict(zip(header, columns, strict=True))
    values = {name: column.values() for name, column in named.items()}
    written = {name: found for name, column in named.items() if (found := column.written()) is not None}
    return Table(path.name, values, numbers, written=written), late


class _Column:
    """A column while it is read: parts that are numbers, or one list of texts; and its cells as they stand there."""

    def __init__(self, *, text: bool, comma: bool) -> None:
        self.texts: list[str | None] | None = [] if text else None
        self.known: dict[str, str] = {}  # one copy of each text, however often it occurs
        self.parts: list[np.ndarray] = []
        self.cells: list[Any] = []  # of numbers: an array of bytes for each part
        self.comma, self.late = comma, False

    def add(self, cells: tuple[str, ...]) -> None:
        if self.late:
            return
        if self.texts is None:
            part = numbers_of(cells, comma=self.comma)
            if part is not None:
                self.parts.append(part)
                self.cells.append(np.array(cells, "S" if max(map(len, cells)) <= WIDEST else object))
                return
            self.late, self.texts = bool(self.parts), []
        once = self.known.setdefault
        for cell in cells:
            text = cell.strip()
            self.texts.append(None if text in MISSING else once(text, text))
            self.cells.append(once(cell, cell))

    def values(self) -> Values:
        if self.texts is not None:
            return self.texts
        return typed(np.concatenate(self.parts))

    def written(self) -> Cells | None:
        """The cells as they stand in the file; None if the values print as that."""
        if self.texts is not None:
            alike = all(text is cell or (text or "") == cell for text, cell in zip(self.texts, self.cells, strict=True))
            return None if alike else self.cells
        if any(part.dtype == object for part in self.cells):
            return [*map(cell_text, np.concatenate([part.astype(object) for part in self.cells]))]
        cells, values = np.concatenate(self.cells), self.values()
        assert isinstance(values, np.ndarray)
        whole = values.dtype.kind == "i" and bool((values.astype(cells.dtype) == cells).all())
        return None if whole else cells


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
        return np.fromiter(map(float, cells), float, len(cells))
    except ValueError:
        pass
    try:
        return np.array([np.nan if cell.strip() in MISSING else float(cell) for cell in cells])
    except ValueError:
        return None


# ---- the form of the file ----


def _marked_encoding(path: Path) -> str:
    """UTF-8, unless the file begins with the mark of UTF-16, as spreadsheets write it."""
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _likely_delimiter(sample: str) -> str:
    """The delimiter that cuts the header into several names and most rows into as many values."""

    def fit(mark: str) -> tuple[float, int]:
        try:
            widths = [len(row) for row in islice(csv.reader(sample.splitlines(True), delimiter=mark), 50) if row]
        except csv.Error:
            return 0.0, 0
        if not widths or widths[0] < 2:
            return 0.0, 0
        return widths.count(widths[0]) / len(widths), widths[0]

    return max(DELIMITERS, key=fit)


def is_spaced(sample: str, delimiter: str) -> bool:
    """Whether blanks follow the delimiters of this file (a, b, c), and so are no part of the values.

    They do if most cells after the first of a row begin with one, or if one stands before the quotation mark of a cell.

    >>> is_spaced("key, x", ","), is_spaced(" key,x", ","), is_spaced('key,x, "a"', ","), is_spaced('key,", ""a"', ",")
    (True, False, True, False)
    """
    mark = re.escape(delimiter)
    # What stands between quotation marks is a value, whatever it looks like.
    bare = re.sub(rf'(^|[{mark}\r\n])"[^"]*(?:""[^"]*)*"', r"\1", sample)
    if delimiter == " " or re.search(rf'{mark} +"', bare):
        return True
    try:
        rows = islice(csv.reader(sample.splitlines(True), delimiter=delimiter), 50)
        later = [cell for row in rows for cell in row[1:]]
    except csv.Error:
        return False
    return 2 * sum(cell.startswith(" ") for cell in later) > len(later)


def _header(path: Path, reader: Iterator[list[str]]) -> list[str]:
    """The names of the columns: all different, and none of them looking like a value."""
    try:
        cells = next(reader, [])
    except csv.Error as fault:
        raise ValueError(f"{path.name}:1: {fault}. Is this a CSV file?") from None
    names = [cell.strip() or f"column {place}" for place, cell in enumerate(cells, 1)]
    if not any(cell.strip() for cell in cells):
        raise ValueError(f"{path.name}:1: the first row must name the columns, but it is empty.")
    twice = sorted({name for name in names if names.count(name) > 1}) if len({*names}) < len(names) else []
    if twice:
        raise ValueError(
            f"{path.name}:1: columns must have different names, but {listed(twice)} occurs more than once."
        )
    numeric = [name for name in names if numbers_of([name], comma=False) is not None]
    if 2 * len(numeric) >= len(names) and not all(name.isdecimal() for name in numeric):
        raise ValueError(
            f"{path.name}:1: the first row must name the columns, but it holds {listed(names, most=4)}. "
            "Add a first row with names, such as " + ",".join(f"x{place}" for place in range(1, 4)) + ",...,y."
        )
    return names


def _lines(file: Iterator[str], name: str) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise ValueError(
                f"{name}: line {number} holds a NUL byte, so this is no plain text: a spreadsheet, a damaged file, or "
                "UTF-16 (then try encoding='utf-16'). Save it as CSV in UTF-8."
            )
        yield line


def _parts(reader: Iterator[list[str]], name: str) -> Iterator[list[list[str]]]:
    """The rows, many at a time."""
    count = 0
    while True:
        rows: list[list[str]] = []
        try:
            rows.extend(islice(reader, PART))
        except csv.Error as fault:
            cause = "a quotation mark that is opened and never closed" if "end of data" in str(fault) else str(fault)
            if "field larger" in str(fault):
                cause = f"a value of more than {csv.field_size_limit():,} letters, or a quotation mark never closed"
            raise ValueError(
                f"{name}:{count + len(rows) + 1}: this row cannot be read: {cause}. A quotation mark inside a quoted "
                'value is written twice: "a 3"" pipe".'
            ) from None
        if not rows:
            return
        yield rows
        count += len(rows)


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


def _undecodable(path: Path, encoding: str, fault: UnicodeDecodeError) -> str:
    """Which row cannot be read, and what to try."""
    place = path.name
    with path.open("rb") as file:
        if b"\0" in file.read(1 << 12):
            return f"{path.name} is no text file by its content. A table is CSV, JSON lines (.jsonl) or .parquet."
    if encoding.startswith("utf-8"):
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as here:
                    place, fault = f"{path.name}:{number}", here
                    break
    byte = fault.object[fault.start]
    return (
        f"{place}: this is not {encoding.removesuffix('-sig')} text (byte 0x{byte:02x}). "
        "Try encoding='cp1252' (Windows, western Europe) or save the file as UTF-8."
    )
