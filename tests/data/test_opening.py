"""Files that become rows: good ones and bad ones, columns that are encoded, and those that are numbers."""

import pickle

import numpy as np
import pytest

from askwell.data import BadRows, open_rows, opening, read_table
from askwell.seeds import rng_for


@pytest.fixture(scope="module")
def x():
    return rng_for(0, 0, "rows").normal(size=(70, 3)).astype(np.float32)


def write(path, x):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"id": [f"r{row}" for row in range(len(x))]} | {f"x{number}": each for number, each in enumerate(x.T)}
    parquet.write_table(pa.table(columns), path, row_group_size=8)


def opened(source, rows=16, **options):
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
        opened(tmp_path)
    rows = opened(tmp_path, skip_bad=True)
    assert rows.shape == (20, 3)
    (why,) = rows.refused
    assert "1.parquet" in why


def test_missing_numbers_are_named_with_row_group_and_column(tmp_path, x):
    spoilt = x[:24].copy()
    spoilt[19, 1] = np.nan
    write(tmp_path / "a.parquet", spoilt)
    rows = opened(tmp_path, rows=8)
    np.testing.assert_array_equal(rows[:16], x[:16])
    with pytest.raises(BadRows, match=r"a\.parquet, row group 2: row 19 of the pool has no finite number in 'x1'"):
        rows[16:24]


def test_a_file_that_disappears_is_named(tmp_path, x):
    write(tmp_path / "a.parquet", x)
    rows = opened(tmp_path)
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
    monkeypatch.setattr(opening, "LEARNT", 60)
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
    monkeypatch.setattr(opening, "LEARNT", 10)
    monkeypatch.setattr(opening, "CHUNKS_LEARNT", 2)
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
        opened(tmp_path)
