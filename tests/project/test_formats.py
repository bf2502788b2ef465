"""Files as bytes: what a spreadsheet may not run, what is read back as it was, what is refused with its place."""

import csv
import io
import json
import re
from pathlib import Path
from unittest.mock import ANY

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from askwell.project.formats import csv_bytes, format_of, iso_time, json_bytes, parquet_bytes, read_rows, studio_bytes

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    [
        "=1+1",
        "'=1+1",
        "''@x",
        "-5",
        "+",
        "@",
        "\tx",
        "\r",
        "\n=a",
        "'",
        '"',
        'a"b,c;d|e',
        "a\r\nb",
        "\u2028",
        "\x85",
        "é",
    ]
)
NAMES = ("id", "label", "who", "at", "seconds", "kind", "reason", "key")


@st.composite
def rows(draw):
    label = draw(st.none() | TEXTS)
    return {
        "id": draw(TEXTS),
        "label": label,
        "who": draw(TEXTS),
        "at": iso_time(draw(st.floats(0, 4e9))),
        "seconds": draw(st.none() | st.floats(0, 1e6)),
        "kind": "skip" if label is None else "label",
        "reason": draw(TEXTS) if label is None else None,
        "key": draw(TEXTS),
    }


def reread(folder, name, data, format, safe=True):
    file = Path(folder) / name
    file.write_bytes(data)
    return [row for _, row in read_rows(file, format, safe=safe)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


# ---- there and back ------------------------------------------------------------------------------------------------


@given(table=st.lists(rows(), max_size=5))
def test_json_lines_and_parquet_hold_everything(folder, table):
    assert reread(folder, "a.jsonl", json_bytes(table), "jsonl") == table
    if table:
        assert reread(folder, "a.parquet", parquet_bytes(NAMES, table), "parquet") == table


@given(table=st.lists(rows(), max_size=5), safe=st.booleans())
def test_csv_holds_all_texts(folder, table, safe):
    """Numbers come back as the text they are written as; what is empty as missing, but for a name."""
    found = reread(folder, "a.csv", csv_bytes(NAMES, table, safe=safe), "csv", safe)
    said = [{name: None if row[name] in (None, "") else str(row[name]) for name in NAMES} for row in table]
    assert found == [row | {"who": row["who"] or ""} for row in said]


FORMULAS = st.text(st.sampled_from("=+-@＝＋;|\t\r\n,'\" \u3000\u200bx1"), max_size=10)


@given(TEXTS | FORMULAS)
@example("x;=1+1")
@example(" =1+1")
@example("＝1+1")
@example('x;"=1+1"')
@example("a\n=1+1;b")
def test_no_cell_of_a_safe_csv_starts_a_formula(text):
    """Whatever the spreadsheet takes for the end of a cell; and quotation marks in the middle of one mean nothing."""
    written = csv_bytes(["id", "label"], [{"id": "a", "label": text}], safe=True).decode()
    ((_, _), (_, cell)) = csv.reader(io.StringIO(written, newline=""))
    assert cell.replace("'", "") == text.replace("'", "")
    for part in re.split(r"[;|\t\r\n]", written.replace('"', "")):
        for each in (part, part.strip(" \u3000\u200b")):
            assert not each.startswith(("=", "+", "-", "@", "＝", "＋")), (text, written)


@given(TEXTS | FORMULAS)
def test_what_was_made_safe_is_read_as_it_was(folder, text):
    rows = [{"id": "a", "label": text}]
    ((_, found),) = read_rows(
        _written(folder / "safe.csv", csv_bytes(["id", "label"], rows, safe=True)), "csv", safe=True
    )
    assert found["label"] == (text or None)


def _written(file, data):
    file.write_bytes(data)
    return file


def test_a_csv_may_be_left_as_it_is():
    assert csv_bytes(["id"], [{"id": "=1"}], safe=False) == b'"id"\r\n"=1"\r\n'


def test_times_are_times_in_parquet(folder):
    import io
    from datetime import UTC, datetime

    from pyarrow import parquet

    data = parquet_bytes(["id", "at"], [{"id": "a", "at": iso_time(1.5e9 + 0.25)}])
    assert parquet.read_table(io.BytesIO(data))["at"][0].as_py() == datetime(2017, 7, 14, 2, 40, 0, 250_000, UTC)
    assert iso_time(1e300) == "9999-12-31T23:59:59.000000Z"


@given(st.floats(0, 4e9))
def test_a_time_that_was_written_is_written_the_same_again(at):
    from datetime import datetime

    assert iso_time(datetime.fromisoformat(iso_time(at)).timestamp()) == iso_time(at)


def test_half_of_a_surrogate_pair():
    row = {"id": "a", "label": "\ud800"}
    assert json.loads(json_bytes([row])) == row
    for refused in (
        lambda: csv_bytes(["id", "label"], [row], safe=True),
        lambda: parquet_bytes(["id", "label"], [row]),
    ):
        with pytest.raises(ValueError, match=r"cannot hold.*Try \.jsonl"):
            refused()


def test_parquet_keeps_the_kind_of_labels_and_refuses_several():
    import io

    from pyarrow import parquet

    numbers = [{"id": "a", "label": 1}, {"id": "b", "label": None}]
    assert parquet.read_table(io.BytesIO(parquet_bytes(["id", "label"], numbers))).to_pylist() == numbers
    with pytest.raises(ValueError, match=r"Parquet cannot hold these labels.*\.jsonl"):
        parquet_bytes(["id", "label"], [{"id": "a", "label": 1}, {"id": "b", "label": "x"}])


# ---- Label Studio --------------------------------------------------------------------------------------------------

LABEL = {
    **{"id": "7", "label": "ham", "who": "ada", "at": iso_time(1.5e9), "seconds": 2.5},
    **{"kind": "label", "reason": None, "key": "k1"},
}
SKIP = LABEL | {"label": None, "kind": "skip", "reason": "blurred", "who": "bob", "key": "k2"}


def test_label_studio_there_and_back(folder):
    data = studio_bytes([LABEL, SKIP], {"7": ("text", "Hello")})
    ((task,),) = [json.loads(data)]
    assert task["data"] == {"askwell_id": "7", "text": "Hello"}
    first, second = task["annotations"]
    assert first["result"] == [
        {"from_name": "label", "to_name": "text", "type": "choices", "value": {"choices": ["ham"]}}
    ]
    assert first["created_at"] == "2017-07-14T02:40:00+00:00"
    assert (first["lead_time"], second["result"], second["was_cancelled"]) == (2.5, [], True)
    assert "completed_by" not in first
    assert [{**SKIP, **row} for row in reread(folder, "a.json", data, "label-studio")] == [LABEL, SKIP]


def test_what_label_studio_exports_is_read(folder):
    task = {
        "id": 11,
        "project": 3,
        "data": {"text": "Hello", "pool_id": "7"},
        "annotations": [
            {
                "id": 5,
                "completed_by": {"email": "ada@example.com"},
                "updated_at": "2026-01-01T00:00:00Z",
                "lead_time": 4.0,
                "was_cancelled": False,
                "result": [{"type": "choices", "value": {"choices": ["ham"]}}],
            },
            {"id": 6, "completed_by": 2, "was_cancelled": True, "result": []},
            {"id": 7, "result": [{"type": "choices", "value": {"choices": ["ham", "spam"]}}]},
        ],
    }
    first, second, third = reread(folder, "b.json", json.dumps([task]).encode(), "label-studio")
    assert first == {
        **{"id": "7", "seconds": 4.0, "kind": "label", "who": "ada@example.com", "label": "ham"},
        "key": "label-studio:3:5:2026-01-01T00:00:00Z",
    }
    assert (second["kind"], second["who"]) == ("skip", "2")
    assert third == "an annotation must have exactly one choice."


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_rows_that_cannot_be_read_have_their_place(folder):
    file = folder / "c.csv"
    file.write_text("id;label\n1;ham\n2\n\n3;spam\n")
    ((_, wrong),) = [(where, row) for where, row in read_rows(file, "csv", safe=True) if isinstance(row, str)]
    assert wrong.startswith("this row has 1 value and the header names 2 columns. Values are separated by ';' here")
    assert [*read_rows(file, "csv", safe=True)] == [
        ("c.csv:2", {"id": "1", "label": "ham"}),
        ("c.csv:3", wrong),
        ("c.csv:5", {"id": "3", "label": "spam"}),
    ]
    file = folder / "c.jsonl"
    file.write_bytes(b'{"id": 1}\n\n[1]\n{"id"\n\xff\n')
    assert [*read_rows(file, "jsonl", safe=True)] == [
        ("c.jsonl:1", {"id": 1}),
        ("c.jsonl:3", 'each line must be an object like {"age": 31}, but this is list.'),
        ("c.jsonl:4", ANY),
        ("c.jsonl:5", "this line is not UTF-8 text. Try encoding='cp1252'."),
    ]
    file = folder / "c.json"
    file.write_text(json.dumps([{"data": {}}, {"data": {"id": "1"}, "annotations": [3]}]))
    assert [fault for _, fault in read_rows(file, "label-studio", safe=True)] == [
        'a task must have "data" and "annotations".',
        "an annotation must be a JSON object.",
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("d.csv", b"", "is empty"),
        ("d.csv", b"name,label\n1,a\n", "no column 'id'. Its columns are name, label"),
        (
            "d.csv",
            b'id,label\n1,"a\n',
            "d.csv:2: this row cannot be read: a quotation mark that is opened",
        ),
        ("d.csv", b'id,label\n1,"a\n\xff,a\n', "not utf-8 text"),
        ("d.parquet", b"PAR1 not really", "not a whole Parquet file"),
        ("d.json", b"{}", "a list of Label Studio's tasks"),
        ("d.json", b"[" * 100_000, "d.json"),
        ("d.json", b"nothing", "not JSON"),
        ("missing.csv", None, "there is no file"),
    ],
)
def test_files_that_are_nothing_are_refused(folder, name, content, said):
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read_rows(folder / name, format_of(Path(name), None), safe=True)


def test_formats_are_known_by_their_endings():
    assert [format_of(Path(f"x{end}"), None) for end in (".CSV", ".pq", ".json")] == ["csv", "parquet", "label-studio"]
    with pytest.raises(ValueError, match=r"format must be one of csv, .*'x.xlsx' has none of the endings \.csv"):
        format_of(Path("x.xlsx"), None)
    with pytest.raises(ValueError, match="but it is 'excel'"):
        format_of(Path("x.csv"), "excel")
