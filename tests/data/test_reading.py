"""Files of all kinds, ids, and files that are none."""

import datetime
import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from askwell.data import read_table


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


STRANGE = [
    *(
        " a",
        "a ",
        "\xa0b",
        "c\u3000",
        "NA",
        "null",
        "?",
        "nan",
        "None",
        "007",
        "1.10",
        "1.1",
        "1e5",
        "+1",
        "-0",
        "true",
    ),
    *("9007199254740993", "9007199254740992", "=1+1", "a;b", "a,b", 'a"b', "e\u0301", "\xe9"),
]


def in_quotes(rows):
    return "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n" for row in rows)


def test_an_id_is_a_text_whatever_it_looks_like(tmp_path):
    rows = [("x", "key"), *((str(i), item) for i, item in enumerate(STRANGE))]
    plain = [row for row in rows if not {*row[1]} & {*',"'}]
    lines = "".join(json.dumps({"key": item, "x": 1}) + "\n" for item in STRANGE)
    assert read_table(write(tmp_path / "q.csv", in_quotes(rows)), id="key").ids == (*STRANGE,)
    assert read_table(write(tmp_path / "p.csv", "".join(f"{a},{b}\n" for a, b in plain)), id="key").ids == (
        *(item for _, item in plain[1:]),
    )
    assert read_table(write(tmp_path / "a.jsonl", lines), id="key").ids == (*STRANGE,)


def test_blanks_after_commas_are_no_part_of_values(tmp_path):
    """Where they follow the commas of the file; those in quotation marks are."""
    path = write(tmp_path / "a.csv", 'x, key, t\n1, a, "u, v"\n2, " b", w\n3, c , z\n')
    assert read_table(path, id="key").ids == ("a", " b", "c ")


def test_ids_of_json_numbers_are_as_written(tmp_path):
    text = '{"k": 9007199254740993}\n{"k": 1.5}\n{"k": 1.10}\n{"k": 1e5}\n{"k": "x"}\n{"k": 9007199254740992}\n'
    for last in (6, 4):  # with a text among them, and without
        lines = [line for line in text.splitlines() if last == 6 or '"x"' not in line]
        ids = read_table(write(tmp_path / "a.jsonl", "\n".join(lines)), id="k").ids
        assert [each for each in ids if each != "x"] == ["9007199254740993", "1.5", "1.10", "1e5", "9007199254740992"]


def test_ids_of_parquet_are_exact(tmp_path):
    for column, ids in [
        (pa.array([2**63 + 1, 2**63 + 2, 5], pa.uint64()), (2**63 + 1, 2**63 + 2, 5)),
        (pa.array([Decimal(2**53 + 1), Decimal(2**53)], pa.decimal128(20, 0)), (2**53 + 1, 2**53)),
        (pa.array([Decimal("1.10"), Decimal("1.20")]), ("1.10", "1.20")),
        (pa.array([2**53 + 1, -(2**53) - 1]), (2**53 + 1, -(2**53) - 1)),
        (pa.array([" a", "a", "NA"]), (" a", "a", "NA")),
        (pa.array(["007", "7"]).dictionary_encode(), ("007", "7")),
        (pa.array(["ä".encode(), b"7"], pa.binary()), ("ä", "7")),
        (pa.array([b"\xff\x00", b"\xfe"], pa.binary()), ("ff00", "fe")),
    ]:
        parquet.write_table(pa.table({"key": column, "x": pa.array([1] * len(column))}), tmp_path / "a.parquet")
        assert read_table(tmp_path / "a.parquet", id="key").ids == ids


def test_a_null_beside_a_large_number_is_only_a_gap(tmp_path):
    parquet.write_table(pa.table({"a": pa.array([2**60 + 1, None]), "b": ["x", "y"]}), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    np.testing.assert_array_equal(table.columns["a"], [2.0**60, np.nan])
    assert table.texts("a") == [str(2**60 + 1), ""]
    with pytest.raises(ValueError, match=r"a\.parquet:2: the id column 'a' has no value"):
        read_table(tmp_path / "a.parquet", id="a")


def test_long_cells_are_read(tmp_path):
    path = write(tmp_path / "a.csv", "key,text\na," + "word " * 2_000_000 + "\n")
    assert len(read_table(path, id="key").texts("text")[0]) == 10_000_000


@pytest.mark.parametrize(("text", "said"), [
    ("key,x\na,1\nb,2\na,3\n", "a.csv:4: ids must all be different, but 'a' in the column 'key' is that of row 2"),
    ("key,x\na,1\n,2\n", "a.csv:3: the id column 'key' has no value here"),
    ("key,x\na,1\n\u3000 ,2\n", "a.csv:3: the id column 'key' has no value here"),
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


def test_arrow_is_loaded_by_the_first_table_and_not_before(tmp_path):
    path = write(tmp_path / "a.csv", "a,b\n1,2\n")
    lines = [
        "import sys, askwell, askwell.data, askwell.project, askwell.cli",
        "print('pyarrow' in sys.modules)",
        "askwell.data.read_table(sys.argv[1])",
        "print('pyarrow' in sys.modules)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines), path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
