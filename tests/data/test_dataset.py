"""Rows in files: what an array of all of them would give, and words for what is wrong with a file."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.data import BadRows, dataset, open_rows, read_table
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


# ---- opening files ----


def in_parquet(source, rows=16, **options):
    return open_rows(source, rows=rows, id="id", columns=["x0", "x1", "x2"], **options)


def broken(path):
    path.write_bytes(path.read_bytes()[:40])


def other_columns(path):
    write(path, np.ones((4, 2), np.float32))


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(broken, r"1\.parquet: "), (other_columns, r"1\.parquet has no column 'x2'"), (empty, r"1\.parquet: ")],
)
def test_a_bad_file_among_many_is_named_or_left_out(tmp_path, x, spoil, said):
    for number in range(3):
        write(tmp_path / f"{number}.parquet", x[:10])
    spoil(tmp_path / "1.parquet")
    with pytest.raises(BadRows, match=said + r".*skip_bad"):
        in_parquet(tmp_path)
    rows = in_parquet(tmp_path, skip_bad=True)
    assert rows.shape == (20, 3)
    (why,) = rows.refused
    assert "1.parquet" in why


def test_missing_numbers_are_named_with_row_group_and_column(tmp_path, x):
    spoilt = x[:24].copy()
    spoilt[19, 1] = np.nan
    write(tmp_path / "a.parquet", spoilt)
    rows = in_parquet(tmp_path, rows=8)
    np.testing.assert_array_equal(rows[:16], x[:16])
    with pytest.raises(BadRows, match=r"a\.parquet, row group 2: row 19 of the pool has no finite number in 'x1'"):
        rows[16:24]


def test_a_file_that_disappears_is_named(tmp_path, x):
    write(tmp_path / "a.parquet", x)
    rows = in_parquet(tmp_path)
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(BadRows, match=r"a\.parquet, row groups 0 to 1"):
        rows[0:1]


def test_texts_are_no_numbers(tmp_path, x):
    write(tmp_path / "a.parquet", x)
    with pytest.raises(BadRows, match=r"the column 'id' holds texts\. .* embeddings"):
        open_rows(tmp_path / "a.parquet", columns=["id"])


def test_texts_of_a_csv_are_encoded_or_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("key;x;t\n a;1,5;one\nNA;2;two\n")
    rows = open_rows(tmp_path / "a.csv", id="key")
    assert (rows.columns, rows[:].tolist(), rows.ids([0, 1])) == (("x", "t"), [[1.5, 0], [2.0, 1]], [" a", "NA"])
    assert open_rows(tmp_path / "a.csv", drop=["t", "key"])[:].tolist() == [[1.5], [2.0]]
    with pytest.raises(BadRows, match="the column 't' holds texts"):
        open_rows(tmp_path / "a.csv", columns=["x", "t"])
    (tmp_path / "a.csv").write_text("key,t\n" + "".join(f"k{row},text {row}\n" for row in range(30)))
    with pytest.raises(ValueError, match=r"a\.csv has no column that can be used.* key \(30 different texts .*embedd"):
        open_rows(tmp_path / "a.csv")


def test_an_encoding_is_learnt_from_some_rows_of_all_files(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "LEARNT", 60)
    for number in range(4):
        rows = [f"{row},{'' if row % 2 else row},{'ab'[number % 2]}" for row in range(30)]
        (tmp_path / f"{number}.csv").write_text("\n".join(["x,gap,kind", *rows]))
    rows = open_rows(tmp_path, rows=10)
    assert [feature.names for feature in rows.features] == [("x",), ("gap", "gap (missing)"), ("kind=b",)]
    x = rows[:]
    assert x.shape == (120, 4)
    assert x[:, 3].tolist() == [*([0.0] * 30), *([1.0] * 30)] * 2
    assert x[1, 1:3].tolist() == [x[1, 1], 1.0]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[:], x)
    np.testing.assert_array_equal(open_rows(tmp_path / "1.csv", like=rows)[:], x[30:60])
    np.testing.assert_array_equal(rows.encode(read_table(tmp_path / "1.csv")), x[30:60])


def test_what_does_not_suit_the_encoding_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "LEARNT", 10)
    monkeypatch.setattr(dataset, "CHUNKS_LEARNT", 2)
    lines = [f"{row},{'ab'[row % 2]}" for row in range(60)]
    lines[25] = "inf,b"
    (tmp_path / "a.csv").write_text("\n".join(["x,kind", *lines]))
    rows = open_rows(tmp_path, rows=12)
    assert rows[:12].shape == (12, 2)
    with pytest.raises(BadRows, match=r"a\.csv, bytes .*row 25 of the pool has no finite number in 'x' \(a\.csv:27\)"):
        rows[:]
    monkeypatch.undo()
    with pytest.raises(BadRows, match=r"a\.csv:27: the column 'x' holds an infinite number here"):
        open_rows(tmp_path, rows=12)
    assert open_rows(tmp_path, rows=12, skip_bad=True).shape == (60, 2)


def test_no_rows_at_all(tmp_path, x):
    write(tmp_path / "a.parquet", x[:0])
    with pytest.raises(BadRows, match="there are none"):
        in_parquet(tmp_path)
