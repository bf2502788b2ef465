"""Files of all kinds, ids, and files that are none."""

import csv
import datetime
import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from askwell.data import labelled, read_table
from askwell.seeds import rng_for


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


# ---- tables with labels ----


def write_rows(path, names, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def rows(n, classes="ab"):
    """An id, a number that is the row's, a word, and classes in turn."""
    return [[f"r{i}", i / 2, ["red", "blue", "green"][i % 3], classes[i % len(classes)]] for i in range(n)]


def task(path, **options):
    return labelled(path, label="y", rng=rng_for(0, 0, "test rows"), **options)


NAMES = ["key", "number", "word", "y"]


def test_every_row_is_asked_about_or_judged_by_with_its_label(tmp_path):
    found = task(write_rows(tmp_path / "a.csv", NAMES, rows(60)), id="key", test_share=0.25)
    every = np.concatenate([found.x[:, 0], found.test[0][:, 0]])
    assert sorted(every) == [i / 2 for i in range(60)]
    for x, y in ((found.x, found.y), found.test):
        assert [*y] == ["ab"[int(2 * value) % 2] for value in x[:, 0]]
    assert found.ids == [f"r{int(2 * value)}" for value in found.x[:, 0]]
    assert (len(found.y), len(found.test[1])) == (44, 16)  # a quarter of each class: 7.5 rounds to 8
    assert found.targets is None


def test_rows_are_named_by_number_without_ids(tmp_path):
    found = task(write_rows(tmp_path / "a.csv", NAMES, rows(60)), drop=["key"])
    assert found.ids == [int(2 * value) + 2 for value in found.x[:, 0]]


def test_the_same_rng_sets_the_same_rows_aside(tmp_path):
    path = write_rows(tmp_path / "a.csv", NAMES, rows(60))
    assert task(path).ids == task(path).ids
    assert task(path).ids != labelled(path, label="y", rng=rng_for(1, 0, "test rows")).ids


def test_no_class_is_set_aside_whole(tmp_path):
    found = task(write_rows(tmp_path / "a.csv", NAMES, [*rows(20), ["r20", 1, "red", "rare"]]), test_share=0.9)
    assert set(found.y) == {"a", "b", "rare"}


def test_other_files_are_encoded_alike(tmp_path):
    path = write_rows(tmp_path / "a.csv", NAMES, rows(30))
    test = write_rows(tmp_path / "t.csv", ["y", "word", "number"], [["b", "green", 7], ["a", "none", 8]])
    targets = write_rows(tmp_path / "g.csv", ["number", "word"], [[9, "blue"]])
    found = task(path, id="key", drop=["key"], test=test, targets=targets)
    assert len(found.y) == 30
    assert found.test[1] == ["b", "a"]
    assert found.test[0].tolist() == [[7, 0, 1, 0], [8, 0, 0, 0]]  # number, blue, green, red
    assert found.targets.tolist() == [[9, 1, 0, 0]]
    assert found.note.splitlines()[-2:] == ["  test set: the 2 rows of t.csv", "  targets: the 1 rows of g.csv"]


def test_labels_of_two_files_are_of_one_kind(tmp_path):
    path = write_rows(tmp_path / "a.csv", NAMES, rows(30, ["1", "2", "x"]))
    test = write_rows(tmp_path / "t.csv", NAMES, rows(4, ["1", "2"]))
    assert task(path, test=test).test[1] == ["1", "2", "1", "2"]
    assert task(test, test=path).y == ["1", "2", "1", "2"]


def test_one_class_that_is_nearly_all_is_pointed_at(tmp_path):
    path = write_rows(tmp_path / "a.csv", NAMES, rows(30, "aaaaaaaaab"))
    assert "90% of the rows are a: balanced accuracy" in task(path).note
    assert "balanced" not in task(write_rows(path, NAMES, rows(30))).note


@pytest.mark.parametrize(("table", "options", "said"), [
    (rows(1), {}, "a.csv has 1 row. A simulation needs rows"),
    (rows(30, "a"), {}, "holds 'a' in every row"),
    (rows(30, [str(i) for i in range(16)]), {}, "holds 16 different values in 30 rows. Is it an id or a text"),
    (rows(30), {"drop": ["numbr"]}, "no column 'numbr'. Did you mean 'number'"),
    (rows(30), {"drop": ["key", "number", "word"]}, "no column that can be used as an input"),
    (rows(30), {"test_share": 0.01}, "leaves no test set. Try a larger one: test_share=0.5"),
    (rows(30), {"test_share": 1.5}, "test_share must be between 0 and 1, but it is 1.5"),
    (rows(30), {"test_share": 0.5, "test": "t.csv"}, "test and test_share exclude each other"),
])  # fmt: skip
def test_what_is_no_task_is_refused(tmp_path, table, options, said):
    with pytest.raises(ValueError, match=said):
        task(write_rows(tmp_path / "a.csv", NAMES, table), **options)


def test_twenty_nine_whole_numbers_may_be_classes(tmp_path):
    assert len({*task(write_rows(tmp_path / "a.csv", NAMES, rows(90, [str(i) for i in range(29)]))).y}) == 29


# ---- texts ----

TOPICS = {"space": "rocket orbit moon launch", "food": "bread soup salt oven", "law": "court judge trial appeal"}


def news(n, *, seed=0):
    rng, found = rng_for(seed, 0, "news"), []
    for i in range(n):
        topic = [*TOPICS][i % 3]
        words = rng.choice([*TOPICS[topic].split(), "the", "new", "today", "says", "people"], size=8)
        found.append((f"r{i:04d}", topic, f"{' '.join(words)} {i}"))
    return found


def test_texts_are_encoded_by_their_words(tmp_path):
    path = write_rows(tmp_path / "news.csv", ["key", "topic", "text"], news(90))
    found = labelled(path, label="topic", id="key", rng=rng_for(0, 0, "test rows"))
    assert (found.texts, found.alike) == (("text",), True)
    assert found.x.shape[1] == found.test[0].shape[1] == 50
    assert np.isclose(np.square(found.x).mean(), 1, atol=1e-3), "in one unit"
    assert "text: " in found.note
    assert "words by TF-IDF, in 50 numbers by SVD" in found.note


def test_words_are_not_learnt_from_the_rows_to_judge_by(tmp_path):
    """Whatever these say, the inputs that can be asked about are the same; targets count."""
    path, rng = tmp_path / "news.csv", lambda: rng_for(0, 0, "test rows")
    write_rows(path, ["key", "topic", "text"], news(90))
    first = labelled(path, label="topic", id="key", rng=rng())
    asked = {*first.ids}
    rows = [(key, topic, text if key in asked else f"quite other words {key}") for key, topic, text in news(90)]
    write_rows(path, ["key", "topic", "text"], rows)
    again = labelled(path, label="topic", id="key", rng=rng())
    assert again.ids == first.ids
    np.testing.assert_array_equal(again.x, first.x)
    assert not np.array_equal(again.test[0], first.test[0])
    targets = write_rows(tmp_path / "t.csv", ["text"], [[f"orbit of another moon {i}"] for i in range(30)])
    aimed = labelled(path, label="topic", id="key", rng=rng(), targets=targets)
    assert aimed.targets.shape == (30, 50)
    assert not np.array_equal(aimed.x, first.x)


def test_texts_beside_columns(tmp_path):
    rows = [(*row, i % 7, "ab"[i % 2]) for i, row in enumerate(news(90))]
    path = write_rows(tmp_path / "news.csv", ["key", "topic", "text", "n", "kind"], rows)
    found = labelled(path, label="topic", id="key", rng=rng_for(0, 0, "test rows"))
    assert (found.texts, found.alike, found.x.shape[1]) == (("text",), False, 52)
    test = write_rows(tmp_path / "t.csv", ["text", "topic", "kind", "n"], [("moon launch", "space", "a", 3)])
    other = labelled(path, label="topic", id="key", rng=rng_for(0, 0, "test rows"), test=test)
    assert other.test[0].shape == (1, 52)
    assert len(other.x) == 90


def test_short_texts_are_inputs_where_there_are_no_others(tmp_path):
    rows = [(f"r{i}", "ab"[i % 2], f"{'red' if i % 2 else 'blue'} {i}") for i in range(60)]
    path = write_rows(tmp_path / "queries.csv", ["key", "y", "query"], rows)
    assert task(path, id="key").texts == ("query",)
    path = write_rows(tmp_path / "names.csv", ["key", "y"], [row[:2] for row in rows])
    with pytest.raises(ValueError, match=r"no column that can be used as an input. Left out: key \(60 different texts"):
        task(path)
