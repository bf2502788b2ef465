"""Reading tables: CSV, JSON lines, Parquet. A refusal says `file:row` and what to try."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from askwell.data.columns import Column, joined, numbers_column, texts_column
from askwell.data.csv_files import read_csv
from askwell.data.parquet_files import read_parquet
from askwell.data.table import Table

__all__ = ["check_file", "is_separated", "json_rows", "read_table"]

WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,99})")

JSON_LINES, PARQUET = (".jsonl", ".ndjson"), (".parquet", ".pq")
OTHER_KINDS = {
    ".xlsx": "a spreadsheet: save it as CSV",
    ".xls": "a spreadsheet: save it as CSV",
    ".ods": "a spreadsheet: save it as CSV",
    ".json": "one JSON document: write one object per line (.jsonl)",
    ".npy": "an array: give its path, or the array, as pool instead",
    ".npz": "several arrays: load the one you want with numpy.load",
    ".pkl": "a pickle: load it yourself and give the frame or the array",
    ".gz": "compressed: unpack it first",
    ".zip": "compressed: unpack it first",
}


def read_table(
    path: str | Path, *, id: str | None = None, encoding: str | None = None, delimiter: str | None = None
) -> Table:
    """The table in a file: `.jsonl` or `.ndjson` is JSON lines, `.parquet` or `.pq` Parquet, anything else CSV.

    The first row of a CSV names its columns. Its delimiter (comma, semicolon, tab or |) is found by itself, and UTF-8
    with or without a mark and marked UTF-16 are understood; `delimiter` and `encoding` say otherwise. In a file with
    semicolons 1,5 is one and a half. Empty cells, NA, N/A, NaN, null, ? are missing; 007 is a text. `id` is the column
    with the rows' ids, which must all be different; an id is a text as it stands in the file, blanks around it and
    NA included.

    >>> path = getfixture("tmp_path") / "people.csv"
    >>> _ = path.write_text("name;age;weight\\nAda;36;55,5\\nBob;;80\\n")
    >>> table = read_table(path, id="name")
    >>> table.ids, table.columns
    (('Ada', 'Bob'), {'age': array([36., nan]), 'weight': array([55.5, 80. ])})
    """
    file = Path(path)
    check_file(file)
    suffix = file.suffix.lower()
    if suffix in JSON_LINES:
        table = _json_lines(file, encoding or "utf-8-sig")
    elif suffix in PARQUET:
        table = read_parquet(file)
    else:
        if delimiter is not None and len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, but it is {delimiter!r}.")
        table = read_csv(file, encoding=encoding, delimiter=delimiter, as_text=id)
    return table if id is None else _with_ids(table, id)


def is_separated(path: str | Path) -> bool:
    """Whether a table of that name is read as CSV.

    >>> is_separated("a.tsv"), is_separated("a.jsonl")
    (True, False)
    """
    return Path(path).suffix.lower() not in (*JSON_LINES, *PARQUET)


def check_file(file: Path, *, empty: bool = False) -> None:
    """Something to read is there; with `empty`, it may be nothing."""
    try:
        if file.is_dir():
            raise ValueError(f"path must be a file, but {str(file)!r} is a folder. Name the file in it.")
        if not file.exists():
            others = sorted(other.name for other in file.parent.iterdir()) if file.parent.is_dir() else []
            near = [other for other in others if other.lower() == file.name.lower() or Path(other).stem == file.stem]
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"there is no file {str(file)!r}.{hint}")
        if file.suffix.lower() in OTHER_KINDS:
            raise ValueError(f"{file.name} is {OTHER_KINDS[file.suffix.lower()]}.")
        with file.open("rb") as opened:
            first = opened.read(1 << 12)
    except OSError as fault:
        raise ValueError(f"{str(file)!r} cannot be read: {fault.strerror or fault}.") from None
    if not first.strip() and not empty:
        raise ValueError(f"{file.name} is empty. A table has a row of column names and rows of values.")
    if first.startswith(b"PK\x03\x04"):
        raise ValueError(f"{file.name} is a spreadsheet or a zip file by its content. Save the table as CSV.")


def _with_ids(table: Table, name: str) -> Table:
    """The same table with a column as ids: whole numbers if all are written as such, else texts as they stand there."""
    ids: list[Any] = table.texts(name)
    different = {*ids}
    if len(different) < len(ids) or not all(map(str.strip, different)):
        _refuse_ids(table, name, ids)
    if all(map(WHOLE.fullmatch, ids)) and "-0" not in different:
        ids = [*map(int, ids)]
    rest = {other: values for other, values in table.columns.items() if other != name}
    written = {other: cells for other, cells in table.written.items() if other != name}
    return Table(table.source, rest, table.numbers, tuple(ids), written)


def _refuse_ids(table: Table, name: str, ids: Sequence[str]) -> NoReturn:
    """Name the first row without an id of its own."""
    seen: dict[str, int] = {}
    for row, item in enumerate(ids):
        if not item.strip():
            break
        if item in seen:
            raise ValueError(
                f"{table.place(row)}: ids must all be different, but {item!r} in the column {name!r} is that of row "
                f"{table.numbers[seen[item]]} already. Delete one, or choose another id column, or none: "
                "rows are counted then."
            )
        seen[item] = row
    raise ValueError(f"{table.place(row)}: the id column {name!r} has no value here. Every row needs an id.")


# ---- JSON lines ----


def _json_lines(file: Path, encoding: str) -> Table:
    """One object per line; a name that a line lacks is missing there."""
    columns: dict[str, list[Any]] = {}
    numbers: list[int] = []
    for number, record in json_rows(file, encoding=encoding):
        if isinstance(record, str):
            raise ValueError(f"{file.name}:{number}: {record}")
        for name, value in record.items():
            if name not in columns:
                columns[name] = [None] * len(numbers)
            columns[name].append(value)
        numbers.append(number)
        for values in columns.values():
            if len(values) < len(numbers):
                values.append(None)
    if not columns:
        raise ValueError(f"{file.name} has no rows with values. Each line must be an object like" + ' {"age": 31}.')
    return joined(file.name, {name: _values(found) for name, found in columns.items()}, numbers)


def json_rows(file: Path, *, encoding: str = "utf-8-sig") -> Iterator[tuple[int, dict[str, Any] | str]]:
    """(its number, the object or what is wrong with it) of each line that is not empty."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, _object(line, encoding)


def _object(line: bytes, encoding: str) -> dict[str, Any] | str:
    try:
        record = _parsed(line.decode(encoding))
    except UnicodeDecodeError:
        return "this line is not UTF-8 text. Try encoding='cp1252'."
    except (json.JSONDecodeError, RecursionError) as error:
        return f"this line is not JSON ({error}). Each line must be one whole object."
    if isinstance(record, dict):
        return record
    return f'each line must be an object like {{"age": 31}}, but this is {type(record).__name__}.'


class _Spelt(float):
    """A number, and how it is written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "_Spelt":
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


def _parsed(text: str) -> Any:
    """A line of JSON in which the numbers of an object print as they are written.

    >>> print(_parsed('{"a": 1.10}')["a"], _parsed('{"a": 9007199254740993}')["a"])
    1.10 9007199254740993
    """
    record = json.loads(text)
    if isinstance(record, dict) and any(type(value) is float for value in record.values()):
        return json.loads(text, parse_float=_Spelt)  # a call for each number: not for lines of embeddings
    return record


def _values(found: list[Any]) -> Column:
    """A column of JSON values: numbers, truth values, or all of them as text."""
    kinds = {float if isinstance(value, float) else type(value) for value in found}
    if kinds == {bool}:
        return np.array(found), None
    if kinds <= {int, float, type(None)}:
        try:
            return numbers_column(found)
        except OverflowError:  # a whole number beyond any float: an id
            pass
    return texts_column([_cell(value) for value in found])


def _cell(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)
