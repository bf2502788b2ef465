"""Pieces of Parquet files: row groups, by the footers, and the columns of one piece as float32."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from askwell.rows.places import is_url, opened

__all__ = ["groups", "packed", "read_groups", "read_ids"]


def groups(place: str) -> tuple[list[int], dict[str, int]]:
    """(rows of each row group, width of each column that can be an input) of a file, from its footer.

    Numbers and truth values have a width of 1, a list of fixed size its size (an embedding), anything else 0.
    """
    with _file(place) as file:
        meta = file.metadata
        rows = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
        return rows, {field.name: _width(field.type) for field in file.schema_arrow}


def read_groups(place: str, first: int, stop: int, columns: Sequence[str]) -> np.ndarray:
    """The columns of some row groups, float32 `[n, d]`; missing values are NaN."""
    with _file(place) as file:
        table = file.read_row_groups(range(first, stop), columns=list(columns), use_threads=False)
        widths = [_width(table.schema.field(name).type) for name in columns]
        found = [_numbers(table.column(name), width) for name, width in zip(columns, widths, strict=True)]
        if max(widths) == 1:  # two copies in long runs: fewer misses, and fewer waits for other threads, than columns
            return np.ascontiguousarray(np.concatenate(found, axis=None).reshape(len(found), -1).T)
        return np.concatenate(found, axis=1)


def read_ids(place: str, first: int, stop: int, column: str) -> list[Any]:
    """A column of some row groups, as Python values."""
    with _file(place) as file:
        found: list[Any] = file.read_row_groups(range(first, stop), columns=[column]).column(0).to_pylist()
        return found


def packed(columns: dict[str, Any]) -> bytes:
    """Columns as the bytes of a Parquet file."""
    _arrow()
    from pyarrow import BufferOutputStream, parquet, table

    sink = BufferOutputStream()
    parquet.write_table(table({name: _column(values) for name, values in columns.items()}), sink)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _column(values: Any) -> Any:
    """Values as Arrow takes them, exactly: whole numbers beyond int64 as uint64, else as texts."""
    from pyarrow import ArrowException, array, uint64

    try:
        return array(values)
    except (OverflowError, ArrowException):
        whole = all(type(value) is int and 0 <= value < 2**64 for value in values)
        return array(values, uint64()) if whole else array([None if value is None else str(value) for value in values])


def _numbers(column: Any, width: int) -> np.ndarray:
    from pyarrow import float32, types

    if types.is_fixed_size_list(column.type):
        if column.null_count:
            return np.full((len(column), width), np.nan, np.float32)
        flat = column.combine_chunks().flatten().cast(float32(), safe=False)
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, width)
    return np.asarray(column.cast(float32(), safe=False).to_numpy())[:, None]


def _width(kind: Any) -> int:
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return int(kind.list_size) if _width(kind.value_type) else 0
    return int(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _file(place: str) -> Any:
    _arrow()
    from pyarrow import parquet

    if is_url(place):
        return parquet.ParquetFile(opened(place))
    return parquet.ParquetFile(place, pre_buffer=False)  # from a disk it only copies once more


def _arrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'askwell[parquet]'.") from None
