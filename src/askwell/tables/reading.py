"""Reading tables: CSV, JSON lines, Parquet. A refusal says `file:row` and what to try."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from askwell.tables.separated import read_separated
from askwell.tables.table import Table, Values, listed, typed

__all__ = ["read_table"]

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
    with the rows' ids, which must all be different.

    >>> path = getfixture("tmp_path") / "people.csv"
    >>> _ = path.write_text("name;age;weight\\nAda;36;55,5\\nBob;;80\\n")
    >>> table = read_table(path, id="name")
    >>> table.ids, table.columns
    (('Ada', 'Bob'), {'age': array([36., nan]), 'weight': array([55.5, 80. ])})
    """
    file = Path(path)
    _check_file(file)
    suffix = file.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        table = _json_lines(file, encoding or "utf-8-sig")
    elif suffix in (".parquet", ".pq"):
        table = _parquet(file)
    else:
        if delimiter is not None and len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, but it is {delimiter!r}.")
        table = read_separated(file, encoding=encoding, delimiter=delimiter, as_text=id)
    return table if id is None else _with_ids(table, id)


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
    """The same table with a column as ids: whole numbers if all are written as such, else texts."""
    values = table.column(name)
    ids: list[Any] = values if isinstance(values, list) else values.tolist()
    seen: dict[Any, int] = {}
    for row, item in enumerate(ids):
        if item is None or item != item:
            raise ValueError(f"{table.place(row)}: the id column {name!r} has no value here. Every row needs an id.")
        if item in seen:
            raise ValueError(
                f"{table.place(row)}: ids must all be different, but {item!r} in the column {name!r} is that of row "
                f"{table.numbers[seen[item]]} already. Delete one, or choose another id column, or none: "
                "rows are counted then."
            )
        seen[item] = row
    if all(isinstance(item, str) and item.isdecimal() and str(int(item)) == item for item in ids):
        ids = [int(item) for item in ids]
    rest = {other: values for other, values in table.columns.items() if other != name}
    return Table(table.source, rest, table.numbers, tuple(ids))


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
    return Table(file.name, {name: _values(found) for name, found in columns.items()}, numbers)


def _records(file: Path, encoding: str) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode(encoding))
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


def _values(found: list[Any]) -> Values:
    """A column of JSON values: numbers, truth values, or all of them as text."""
    kinds = {type(value) for value in found}
    if kinds == {bool}:
        return np.array(found)
    if kinds <= {int, float, type(None)}:
        try:
            if kinds == {int}:
                return np.array(found, np.int64)
            return typed(np.array([np.nan if value is None else value for value in found], float))
        except OverflowError:  # a whole number beyond any float: an id
            pass
    return [_text(value) for value in found]


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, str):
        return value.strip() or None
    return json.dumps(value)


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
    return Table(file.name, columns, range(1, content.num_rows + 1))


def _arrow_values(column: Any) -> Values:
    from pyarrow import float64, timestamp, types

    kind = column.type
    if types.is_integer(kind) and not column.null_count:
        whole: np.ndarray = column.to_numpy()
        return whole.astype(np.int64) if whole.dtype != np.uint64 or whole.max() < 2**63 else whole.astype(float)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return typed(np.asarray(column.cast(float64()).to_numpy(), float))
    if types.is_boolean(kind) and not column.null_count:
        return np.asarray(column.to_numpy(), bool)
    if types.is_timestamp(kind):  # Python's clock has no nanoseconds
        column = column.cast(timestamp("us", tz=kind.tz), safe=False)
    return [_text(value if isinstance(value, str | bool | None) else _written(value)) for value in column.to_pylist()]


def _written(value: Any) -> str:
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
