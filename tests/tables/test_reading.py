"""Files of all kinds, ids, and files that are none."""

import datetime
import json
import sys
from decimal import Decimal

import numpy as np
import pytest

from askwell.tables import read_table


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- ids ----


@pytest.mark.parametrize(("cells", "ids"), [
    (["3", "1"], (3, 1)),
    (["007", "1"], ("007", "1")),
    (["123456789012345678", "123456789012345679"], (123456789012345678, 123456789012345679)),
    (["1.50", "2"], ("1.50", "2")),
    (["a", "b"], ("a", "b")),
])  # fmt: skip
def test_ids_are_kept_as_written(tmp_path, cells, ids):
    path = write(tmp_path / "a.csv", "key,x\n" + "".join(f"{cell},5\n" for cell in cells))
    table = read_table(path, id="key")
    assert table.ids == ids
    assert [*table.columns] == ["x"]
    assert read_table(path).ids is None


@pytest.mark.parametrize(("text", "said"), [
    ("key,x\na,1\nb,2\na,3\n", "a.csv:4: ids must all be different, but 'a' in the column 'key' is that of row 2"),
    ("key,x\na,1\n,2\n", "a.csv:3: the id column 'key' has no value here"),
    ("Key,x\na,1\n", "a.csv has no column 'key'. Did you mean 'Key'"),
])  # fmt: skip
def test_ids_must_be_there_and_different(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        read_table(write(tmp_path / "a.csv", text), id="key")


# ---- files that are none ----


def test_files_that_are_not_there(tmp_path):
    write(tmp_path / "data.csv", "a\n1\n")
    with pytest.raises(ValueError, match=r"no file '.*data.txt'. Did you mean 'data.csv'\?"):
        read_table(tmp_path / "data.txt")
    with pytest.raises(ValueError, match=r"no file '.*other.csv'\.$"):
        read_table(str(tmp_path / "other.csv"))
    with pytest.raises(ValueError, match="no file"):
        read_table(tmp_path / "no" / "other.csv")
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path)


@pytest.mark.parametrize(("name", "text", "said"), [
    ("a.csv", "", "a.csv is empty"),
    ("a.csv", " \n\n", "a.csv is empty"),
    ("a.jsonl", "", "a.jsonl is empty"),
    ("a.csv", b"PK\x03\x04rest", "spreadsheet or a zip file by its content"),
    ("a.xlsx", "x", "a spreadsheet: save it as CSV"),
    ("a.json", "[]", "one object per line"),
    ("a.npy", "x", "give its path, or the array, as pool"),
])  # fmt: skip
def test_files_that_are_no_tables(tmp_path, name, text, said):
    with pytest.raises(ValueError, match=said):
        read_table(write(tmp_path / name, text))


def test_nothing_is_written(tmp_path):
    path = write(tmp_path / "a.csv", "a,b\n1,2\n")
    read_table(path)
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_text() == "a,b\n1,2\n"


# ---- JSON lines ----


def test_json_lines(tmp_path):
    records = [
        {"i": 1, "f": 1, "b": True, "t": "x", "m": 1, "n": None, "l": [1]},
        {"i": 2**53 + 1, "f": 0.5, "b": False, "t": " ", "m": "a", "late": "z", "l": {"k": 1}},
    ]
    lines = "\n\n".join(json.dumps(record) for record in records)
    table = read_table(write(tmp_path / "a.jsonl", lines + "\n"))
    found = {name: column if isinstance(column, list) else column.tolist() for name, column in table.columns.items()}
    assert found.pop("n") == [pytest.approx(np.nan, nan_ok=True)] * 2
    assert found == {
        "i": [1, 2**53 + 1],
        "f": [1.0, 0.5],
        "b": [True, False],
        "t": ["x", None],
        "m": ["1", "a"],
        "l": ["[1]", '{"k": 1}'],
        "late": [None, "z"],
    }
    assert table.place(1) == "a.jsonl:3"


def test_ids_of_json_lines(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"k": "a", "x": 1}\n{"k": "b", "x": 2}\n')
    assert read_table(path, id="k").ids == ("a", "b")
    assert read_table(path, id="x").ids == (1, 2)


@pytest.mark.parametrize(("text", "said"), [
    ('{"a": 1}\n{"a": \n', "a.jsonl:2: this line is not JSON"),
    ('{"a": 1}\n[1]\n', "a.jsonl:2: each line must be an object .* but this is list"),
    (b'{"a": 1}\n{"a": "\xfc"}\n', "a.jsonl:2: this line is not UTF-8"),
    ("{}\n", "a.jsonl has no rows with values"),
    ("[" * 100_000, "a.jsonl:1: this line is not JSON"),
])  # fmt: skip
def test_lines_that_are_not_json(tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        read_table(write(tmp_path / "a.jsonl", text))


def test_a_whole_number_beyond_all_floats_is_text(tmp_path):
    table = read_table(write(tmp_path / "a.jsonl", '{"a": 1%s}\n' % ("0" * 400)))
    assert table.columns["a"] == ["1" + "0" * 400]


# ---- Parquet ----


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pip install 'askwell[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    noon = datetime.datetime(2024, 1, 31, 12)
    columns = {
        "i": pa.array([1, 2], pa.int8()),
        "gap": pa.array([1, None], pa.int64()),
        "f": pa.array([0.5, 1], pa.float32()),
        "b": pa.array([True, False]),
        "maybe": pa.array([True, None]),
        "t": pa.array(["x", None]),
        "c": pa.array(["u", "v"]).dictionary_encode(),
        "d": pa.array([noon.date(), None]),
        "s": pa.array([noon, noon], pa.timestamp("ns")),
        "m": pa.array([Decimal("1.5"), None]),
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
    }
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    found = {
        n: c if isinstance(c, list) else [None if v != v else v for v in c.tolist()] for n, c in table.columns.items()
    }
    assert found == {
        "i": [1, 2],
        "gap": [1.0, None],
        "f": [0.5, 1.0],
        "b": [True, False],
        "maybe": ["true", None],
        "t": ["x", None],
        "c": ["u", "v"],
        "d": ["2024-01-31", None],
        "s": ["2024-01-31T12:00:00"] * 2,
        "m": [1.5, None],
        "u": [2.0**64, 0.0],
    }
    assert table.place(0) == "a.parquet:1"
    with pytest.raises(ValueError, match="not a whole Parquet file"):
        read_table(write(tmp_path / "b.parquet", (tmp_path / "a.parquet").read_bytes()[:200]))
    parquet.write_table(pa.table(columns).slice(0, 0), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"c\.parquet has no rows"):
        read_table(tmp_path / "c.parquet")


def test_parquet_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"askwell\[parquet\]"):
        read_table(write(tmp_path / "a.parquet", "PAR1"))
