from decimal import Decimal

import numpy as np
import pytest

from askwell.data import parquet
from askwell.data.files import Chunk

pa = pytest.importorskip("pyarrow")


def chunk(file, first, stop):
    return Chunk(str(file), "parquet", first, stop, 0, min(2 * stop, 5) - 2 * first, 2 * first + 1)


@pytest.fixture
def place(tmp_path):
    from pyarrow import parquet as files

    table = pa.table(
        {
            "id": ["a", "b", "c", "d", "e"],
            "whole": [1, 2, 3, 4, None],
            "half": pa.array([0.5, 1.5, 2.5, 3.5, 4.5], pa.float64()),
            "yes": [True, False, True, False, True],
            "embedding": pa.array([[i, i + 0.5] for i in range(5)], pa.list_(pa.float32(), 2)),
        }
    )
    files.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    return str(tmp_path / "a.parquet")


def test_groups_and_widths(place):
    assert parquet.groups(place) == ([2, 2, 1], {"id": 0, "whole": 1, "half": 1, "yes": 1, "embedding": 2})


def test_columns_of_some_groups_in_the_order_asked_for(place):
    x = parquet.read_numbers(chunk(place, 1, 3), ["embedding", "yes", "whole"])
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x, [[2, 2.5, 1, 3], [3, 3.5, 0, 4], [4, 4.5, 1, np.nan]])


def test_a_table_of_some_groups(place):
    table = parquet.read_chunk(chunk(place, 1, 3), ["half", "id"])
    assert ([*table.columns], table.texts("id"), table.place(0)) == (["half", "id"], ["c", "d", "e"], "a.parquet:3")


def test_ids(place):
    assert parquet.read_column(chunk(place, 0, 2), "id") == ["a", "b", "c", "d"]


def test_ids_are_exact_and_can_be_written_again(tmp_path):
    from pyarrow import parquet as pq

    for column in (pa.array([2**63 + 1, 5], pa.uint64()), pa.array([Decimal(2**53 + 1), Decimal(2**53)])):
        pq.write_table(pa.table({"key": column}), tmp_path / "a.parquet")
        ids = parquet.read_column(chunk(tmp_path / "a.parquet", 0, 1), "key")
        assert ids == column.to_pylist()
        again = pq.read_table(pa.BufferReader(parquet.packed({"id": ids})))
        assert again["id"].to_pylist() == ids
    mixed = pq.read_table(pa.BufferReader(parquet.packed({"id": [2**70, "a"]})))
    assert mixed["id"].to_pylist() == [str(2**70), "a"]
