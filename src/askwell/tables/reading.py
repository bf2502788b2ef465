"""Reading tables: CSV, JSON lines, Parquet. A refusal says `file:row` and what to try."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from askwell.tables.separated import read_separated
from askwell.tables.table import Cells, Table, Values, cell_text, listed, typed

__all__ = ["is_separated", "parsed_json", "read_table"]

Column: TypeAlias = tuple[Values, Cells | None]
"""The values, and the cells as they stand in the file where the values do not print as that."""

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
    _check_file(file)
    suffix = file.suffix.lower()
    if suffix in JSON_LINES:
        table = _json_lines(file, encoding or "utf-8-sig")
    elif suffix in PARQUET:
        table = _parquet(file)
    else:
        if delimiter is not None and len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, but it is {delimiter!r}.")
        table = read_separated(file, encoding=encoding, delimiter=delimiter, as_text=id)
    return table if id is None else _with_ids(table, id)


def is_separated(path: str | Path) -> bool:
    """Whether a table of that name is read as CSV.

    >>> is_separated("a.tsv"), is_separated("a.jsonl")
    (True, False)
    """
    return Path(path).suffix.lower() not in (*JSON_LINES, *PARQUET)


def _check_file(file: Path) -> None:
    """Something to read is there."""
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
    if not first.strip():
        raise ValueError(f"{file.name} is empty. A table has a row of column names and rows of values.")
    if first.startswith(b"PK\x03\x04"):
        raise ValueError(f"{file.name} is a spreadsheet or a zip file by its content. Save the table as CSV.")


def _with_ids(table: Table, name: str) -> Table:
    """The same table with a column as ids: whole numbers if all are written as such, else texts as they stand there."""
    ids: list[Any] = table.texts(name)
    seen: dict[str, int] = {}
    for row, item in enumerate(ids):
        if not item.strip():
            raise ValueError(f"{table.place(row)}: the id column {name!r} has no value here. Every row needs an id.")
        if item in seen:
            raise ValueError(
                f"{table.place(row)}: ids must all be different, but {item!r} in the column {name!r} is that of row "
                f"{table.numbers[seen[item]]} already. Delete one, or choose another id column, or none: "
                "rows are counted then."
            )
        seen[item] = row
    if all(map(WHOLE.fullmatch, ids)) and "-0" not in seen:
        ids = [int(item) for item in ids]
    rest = {other: values for other, values in table.columns.items() if other != name}
    written = {other: cells for other, cells in table.written.items() if other != name}
    return Table(table.source, rest, table.numbers, tuple(ids), written)


# ---- JSON lines ----


def _json_lines(file: Path, encoding: str) -> Table:
    """One object per line; a name that a line lacks is missing there."""
    columns: dict[str, list[Any]] = {}
    numbers: list[int] = []
    for number, record in _records(file, encoding):
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
    return _joined(file.name, {name: _values(found) for name, found in columns.items()}, numbers)


def _joined(source: str, columns: dict[str, Column], numbers: Sequence[int]) -> Table:
    written = {name: cells for name, (_, cells) in columns.items() if cells is not None}
    return Table(source, {name: values for name, (values, _) in columns.items()}, numbers, written=written)


def _records(file: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = parsed_json(line.decode(encoding))
            except UnicodeDecodeError:
                raise ValueError(f"{file.name}:{number}: this line is not UTF-8 text. Try encoding='cp1252'.") from None
            except (json.JSONDecodeError, RecursionError) as fault:
                raise ValueError(
                    f"{file.name}:{number}: this line is not JSON ({fault}). Each line must be one whole object."
                ) from None
            if not isinstance(record, dict):
                raise ValueError(
                    f'{file.name}:{number}: each line must be an object like {{"age": 31}}, '
                    f"but this is {type(record).__name__}."
                )
            yield number, record


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


def parsed_json(text: str | bytes) -> Any:
    """A line of JSON in which the numbers of an object print as they are written.

    >>> print(parsed_json('{"a": 1.10}')["a"], parsed_json('{"a": 9007199254740993}')["a"])
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
            return _numbers(found)
        except OverflowError:  # a whole number beyond any float: an id
            pass
    return _as_texts([_cell(value) for value in found])


def _numbers(found: Sequence[Any]) -> Column:
    """Whole numbers if they can be, else floats and the numbers as they print; NaN where one is missing."""
    if all(type(value) is int and -(2**63) <= value < 2**63 for value in found):
        return np.array(found, np.int64), None
    values = np.array([np.nan if value is None else value for value in found], float)
    return typed(values), [cell_text(value) for value in found]


def _as_texts(cells: list[str | None]) -> Column:
    """Texts without the blanks around them, and with them where there are any."""
    texts = [None if cell is None else cell.strip() or None for cell in cells]
    return texts, None if all((text or "") == (cell or "") for text, cell in zip(texts, cells, strict=True)) else cells


def _cell(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


# ---- Parquet ----


def _parquet(file: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'askwell[parquet]'.") from None
    try:
        content = parquet.read_table(file)
    except (ArrowException, OSError) as fault:
        raise ValueError(f"{file.name} is not a whole Parquet file: {str(fault).splitlines()[0]}") from None
    names = content.column_names
    if len({*names}) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{file.name}: columns must have different names, but {listed(twice)} occurs more than once.")
    if not names or not content.num_rows:
        raise ValueError(f"{file.name} has no rows. Is this the right file?")
    columns = {name: _arrow_values(column) for name, column in zip(names, content.columns, strict=True)}
    return _joined(file.name, columns, range(1, content.num_rows + 1))


def _arrow_values(column: Any) -> Column:
    from pyarrow import float64, timestamp, types

    kind = column.type
    if types.is_integer(kind):
        return _numbers(column.to_pylist()) if column.null_count or kind == "uint64" else (_whole(column), None)
    if types.is_decimal(kind):
        return _numbers_of([None if value is None else f"{value:f}" for value in column.to_pylist()])
    if types.is_floating(kind):
        values = typed(np.asarray(column.cast(float64()).to_numpy(), float))
        if kind == "double" or values.dtype.kind == "i":
            return values, None
        return values, [cell_text(None if number != number else str(number)) for number in column.to_numpy()]
    if types.is_boolean(kind) and not column.null_count:
        return np.asarray(column.to_numpy(), bool), None
    if types.is_timestamp(kind):  # Python's clock has no nanoseconds
        column = column.cast(timestamp("us", tz=kind.tz), safe=False)
    return _as_texts([value if isinstance(value, str | None) else _written(value) for value in column.to_pylist()])


def _whole(column: Any) -> np.ndarray:
    values: np.ndarray = column.to_numpy()
    return values.astype(np.int64)


def _numbers_of(cells: list[str | None]) -> Column:
    return typed(np.array([np.nan if cell is None else float(cell) for cell in cells])), cells


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return cell_text(value)
    if isinstance(value, bytes):  # texts of writers that do not say so
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
