"""Parquet files: whole as tables, or some row groups as numbers; and columns as the bytes of such a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from askwell.data.files import Chunk, is_url, opened
from askwell.data.table import Column, Table, cell_text, joined, listed, numbers_column, texts_column, typed

__all__ = [
    "float_columns",
    "groups",
    "packed",
    "read_chunk",
    "read_column",
    "read_content",
    "read_numbers",
    "read_parquet",
]


def read_parquet(path: Path) -> Table:
    """The table in a file. Rows are counted from 1."""
    content = read_content(path)
    if not content.num_columns or not content.num_rows:
        raise ValueError(f"{path.name} has no rows. Is this the right file?")
    return _table(path.name, content, range(1, content.num_rows + 1))


def read_content(path: Path) -> Any:
    """What is in a file, as Arrow has it."""
    from pyarrow import ArrowException

    try:
        with _opened(str(path)) as file:
            content = file.read()
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path.name} is not a whole Parquet file: {str(error).splitlines()[0]}") from None
    names = content.column_names
    if len({*names}) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{path.name}: columns must have different names, but {listed(twice)} occurs more than once.")
    return content


def _table(source: str, content: Any, numbers: Sequence[int]) -> Table:
    columns = {name: _values(column) for name, column in zip(content.column_names, content.columns, strict=True)}
    return joined(source, columns, numbers)


def read_chunk(chunk: Chunk, columns: Sequence[str], *, rows: np.ndarray | None = None) -> Table:
    """These columns of some row groups as a table, of these rows of them where they are given."""
    with _opened(chunk.file) as file:
        content = file.read_row_groups(range(chunk.first, chunk.stop), columns=list(columns)).select(list(columns))
        return _table(chunk.source, content if rows is None else content.take(rows), chunk.numbers(rows))


def groups(file_name: str) -> tuple[list[int], dict[str, int]]:
    """(rows of each row group, width of each column that can be an input) of a file, from its footer.

    Numbers and booleans have a width of 1, a list of fixed size its size (an embedding), anything else 0.
    """
    with _opened(file_name) as file:
        meta = file.metadata
        rows = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
        return rows, {field.name: _width(field.type) for field in file.schema_arrow}


def float_columns(file_name: str) -> list[str]:
    """The columns of floats, whole or not."""
    from pyarrow import types

    with _opened(file_name) as file:
        return [field.name for field in file.schema_arrow if types.is_floating(field.type)]


def read_numbers(chunk: Chunk, columns: Sequence[str]) -> np.ndarray:
    """The columns of some row groups, float32 `[n, d]`; missing values are NaN."""
    with _opened(chunk.file) as file:
        table = file.read_row_groups(range(chunk.first, chunk.stop), columns=list(columns), use_threads=False)
        widths = [_width(table.schema.field(name).type) for name in columns]
        arrays = [_numbers(table.column(name), width) for name, width in zip(columns, widths, strict=True)]
        if max(widths) == 1:  # two copies in long runs: fewer misses, and fewer waits for other threads, than columns
            return np.ascontiguousarray(np.concatenate(arrays, axis=None).reshape(len(arrays), -1).T)
        return np.concatenate(arrays, axis=1)


def read_column(chunk: Chunk, column: str) -> list[Any]:
    """A column of some row groups, as Python values."""
    with _opened(chunk.file) as file:
        content = file.read_row_groups(range(chunk.first, chunk.stop), columns=[column])
        values: list[Any] = content.column(0).to_pylist()
        return values


def packed(columns: dict[str, Any]) -> bytes:
    """Columns as the bytes of a Parquet file."""
    from pyarrow import BufferOutputStream, parquet, table

    sink = BufferOutputStream()
    parquet.write_table(table({name: _column(values) for name, values in columns.items()}), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _opened(file: str) -> Any:
    from pyarrow import parquet

    if is_url(file):
        return parquet.ParquetFile(opened(file), pre_buffer=True)
    return parquet.ParquetFile(file, pre_buffer=False)  # from a disk it only copies once more


# ---- columns ----


def _values(column: Any) -> Column:
    """A column as a table has it."""
    from pyarrow import float64, timestamp, types

    kind = column.type
    if types.is_integer(kind):
        exact = not column.null_count and kind != "uint64"
        return (np.asarray(column.to_numpy()).astype(np.int64), None) if exact else numbers_column(column.to_pylist())
    if types.is_decimal(kind):
        cells = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return typed(np.array([np.nan if cell is None else float(cell) for cell in cells])), cells
    if types.is_floating(kind):
        values = typed(np.asarray(column.cast(float64()).to_numpy(), float))
        if kind == "double" or values.dtype.kind == "i":
            return values, None
        return values, [cell_text(None if number != number else str(number)) for number in column.to_numpy()]
    if types.is_boolean(kind) and not column.null_count:
        return np.asarray(column.to_numpy(), bool), None
    if types.is_timestamp(kind):  # Python's clock has no nanoseconds
        column = column.cast(timestamp("us", tz=kind.tz), safe=False)
    return texts_column([value if isinstance(value, str | None) else _written(value) for value in column.to_pylist()])


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return cell_text(value)
    if isinstance(value, bytes):  # texts of writers that do not say so
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _numbers(column: Any, width: int) -> np.ndarray:
    """A column as an input has it, float32 `[n, width]`."""
    from pyarrow import float32, float64, types

    if types.is_fixed_size_list(column.type):
        if column.null_count:
            return np.full((len(column), width), np.nan, np.float32)
        flat = column.combine_chunks().flatten().cast(float32(), safe=False)
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, width)
    if types.is_decimal(column.type):
        column = column.cast(float64(), safe=False)
    return np.asarray(column.cast(float32(), safe=False).to_numpy())[:, None]


def _width(kind: Any) -> int:
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return int(kind.list_size) if _width(kind.value_type) else 0
    return int(any(of(kind) for of in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)))


def _column(values: Any) -> Any:
    """Values as Arrow takes them, exactly: whole numbers beyond int64 as uint64, else as texts."""
    from pyarrow import ArrowException, array, uint64

    try:
        return array(values)
    except (OverflowError, ArrowException):
        whole = all(type(value) is int and 0 <= value < 2**64 for value in values)
        return array(values, uint64()) if whole else array([None if value is None else str(value) for value in values])
