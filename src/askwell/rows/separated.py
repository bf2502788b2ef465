"""Pieces of CSV files: where rows end, found once without reading values, and the numbers of one piece."""

import csv
import io
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from askwell.rows.places import opened
from askwell.tables.separated import allow_long_cells, is_spaced, numbers_of

__all__ = ["header", "pieces", "read_column", "read_piece", "widths"]

BLOCK = 1 << 24  # bytes looked at in one go
QUOTE, NEWLINE = 0x22, 0x0A
LOOK, FEW = 1 << 16, 100  # bytes and rows at the beginning of a file by which its form is known


def header(place: str) -> tuple[list[str], dict[str, Any], int]:
    """(names of the columns, how the csv module reads it, bytes of the first row) of a file in UTF-8."""
    with opened(place) as file:
        first = file.read(LOOK)
    mark = 3 if first.startswith(b"\xef\xbb\xbf") else 0
    ends = np.flatnonzero(_row_ends(np.frombuffer(first, np.uint8), False)[0])
    if not len(ends):
        raise ValueError("it has no second row: a table has a row of column names and rows of values.")
    line = first[mark : ends[0]].decode("utf-8")
    delimiter = max(",;\t|", key=line.count)
    form: dict[str, Any] = {
        "delimiter": delimiter,
        "skipinitialspace": is_spaced(first.decode("utf-8", "ignore"), delimiter),
    }
    allow_long_cells()
    return [name.strip() for name in next(csv.reader([line], **form))], form, int(ends[0]) + 1


def widths(place: str) -> dict[str, int]:
    """1 for each column whose first values are numbers, 0 for the others."""
    names, form, start = header(place)
    with opened(place) as file:
        file.seek(start)
        text = file.read(LOOK).decode("utf-8", "ignore")
    whole = text[: text.rfind("\n") + 1] or text  # the last row may be cut
    rows = [row for row in islice(csv.reader(io.StringIO(whole), **form), FEW) if len(row) == len(names)]
    cells = dict(zip(names, zip(*rows, strict=True), strict=False)) if rows else {}
    numeric = {name for name, each in cells.items() if numbers_of(each, comma=form["delimiter"] == ";") is not None}
    return {name: int(name in numeric or not rows) for name in names}


def pieces(place: str, start: int, rows: int) -> list[tuple[int, int, int]]:
    """(first byte, byte after the last, rows) of pieces of `rows` rows, from the byte `start` on.

    A line break inside quotes is part of a value: a row ends where the quotes before it are even in number.
    """
    found, first, count, at, inside = [], start, 0, start, False
    with opened(place) as file:
        file.seek(start)
        while block := file.read(BLOCK):
            values = np.frombuffer(block, np.uint8)
            is_end, inside = _row_ends(values, inside)
            ends = np.flatnonzero(is_end) + at + 1
            while count + len(ends) >= rows:
                cut = int(ends[rows - count - 1])
                found.append((first, cut, rows))
                first, ends, count = cut, ends[rows - count :], 0
            count, at = count + len(ends), at + len(block)
            last = block[-1:]
    if at > start and last != b"\n":  # the last row need not end
        count += 1
    return [*found, (first, at, count)] if count else found


def read_piece(place: str, span: tuple[int, int], columns: Sequence[str]) -> np.ndarray:
    """The columns of a piece, float32 `[n, d]`; missing values are NaN. ValueError names what is no number."""
    names, form, _ = header(place)
    delimiter, wanted = form["delimiter"], [names.index(name) for name in columns]
    text = _text(place, span)
    plain = '"' not in text
    try:
        if plain:
            lines = io.StringIO(text)
            found = np.loadtxt(lines, np.float32, delimiter=delimiter, usecols=wanted, ndmin=2, comments=None)
            return np.asarray(found, np.float32)
    except ValueError:
        pass  # a missing value, or something that is no number: look closer
    rows = [row for row in csv.reader(io.StringIO(text), **form) if row]
    comma = delimiter == ";"
    return np.array(
        [[_number(row, names, at, number, comma) for at in wanted] for number, row in enumerate(rows)], np.float32
    )


def read_column(place: str, span: tuple[int, int], column: str) -> list[str]:
    """A column of a piece, as it stands there."""
    names, form, _ = header(place)
    at = names.index(column)
    return [row[at] for row in csv.reader(io.StringIO(_text(place, span)), **form) if row]


def _row_ends(values: np.ndarray, inside: bool) -> tuple[np.ndarray, bool]:
    """(which bytes end a row, whether a quotation is open at the end)."""
    quotes = np.cumsum(values == QUOTE, dtype=np.uint8)  # wraps at 256, which is even
    odd = (quotes + inside) % 2 == 1
    return (values == NEWLINE) & ~odd, bool(odd[-1]) if len(odd) else inside


def _text(place: str, span: tuple[int, int]) -> str:
    with opened(place) as file:
        file.seek(span[0])
        return file.read(span[1] - span[0]).decode("utf-8")


def _number(row: Sequence[str], names: Sequence[str], at: int, number: int, comma: bool) -> float:
    if len(row) != len(names):
        raise ValueError(f"row {number + 1} has {len(row)} values for {len(names)} columns")
    found = numbers_of([row[at]], comma=comma)
    if found is None:
        raise ValueError(f"row {number + 1}: {names[at]!r} must be a number, but it is {row[at].strip()[:40]!r}")
    return float(found[0])
