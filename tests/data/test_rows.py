"""Rows in files: what an array of all of them would give, and words for what is wrong with a file."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.data import open_rows
from askwell.seeds import rng_for

N = 70


@pytest.fixture(scope="module")
def x():
    return rng_for(0, 0, "rows").normal(size=(N, 3)).astype(np.float32)


@pytest.fixture(scope="module", params=["parquet", "csv", "npy"])
def source(request, tmp_path_factory, x):
    """The rows in three files."""
    folder = tmp_path_factory.mktemp(request.param)
    for number, span in enumerate((slice(0, 30), slice(30, 31), slice(31, N))):
        write(folder / f"{number}.{request.param}", x[span], span.start)
    return folder


def write(path, x, start=0):
    if path.suffix == ".npy":
        np.save(path, x)
        return
    names = ["id", *(f"x{number}" for number in range(x.shape[1]))]
    if path.suffix == ".csv":
        rows = [",".join([f"r{start + row}", *map(repr, values.tolist())]) for row, values in enumerate(x)]
        path.write_text("\n".join([",".join(names), *rows]) + "\n")
        return
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = [pa.array([f"r{start + row}" for row in range(len(x))]), *x.T]
    parquet.write_table(pa.table(dict(zip(names, columns, strict=True))), path, row_group_size=8)


def opened(source, rows=16, **options):
    is_array = next(source.iterdir()).suffix == ".npy"
    return open_rows(source, rows=rows, **({} if is_array else {"id": "id", "columns": ["x0", "x1", "x2"]}), **options)


def test_it_is_the_array(source, x):
    rows = opened(source)
    assert rows.shape == x.shape
    assert len(rows.chunks) > 3
    np.testing.assert_array_equal(rows[:], x)
    np.testing.assert_array_equal(rows[10:55], x[10:55])
    np.testing.assert_array_equal(rows[55:10], x[55:10])
    np.testing.assert_array_equal(rows[-9:], x[-9:])
    np.testing.assert_array_equal(rows[50:3:-7], x[50:3:-7])


@given(places=st.lists(st.integers(0, N - 1), max_size=20), size=st.integers(1, 80))
def test_any_positions_any_size_of_pieces(source, x, places, size):
    np.testing.assert_array_equal(opened(source, size)[np.array(places, int)], x[np.array(places, int)])


def test_ids(source):
    rows, places = opened(source), [69, 0, 30]
    assert rows.ids(places) == (places if rows.id is None else ["r69", "r0", "r30"])


def test_it_can_be_sent(source, x):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(opened(source)))[5:40], x[5:40])


def test_numeric_columns_by_default(tmp_path, x):
    write(tmp_path / "a.parquet", x)
    assert open_rows(tmp_path / "a.parquet", id="id").columns == ("x0", "x1", "x2")


def test_positions_beyond_the_end_are_refused(source):
    with pytest.raises(IndexError, match="0 to 69"):
        opened(source)[np.array([70])]
