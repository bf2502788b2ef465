"""Labels go out and come in: nothing lost, nothing twice, the same bytes again."""

import csv
import io
import json
import re
import uuid
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from unittest.mock import ANY

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from askwell.project import init_project, open_project
from askwell.project.exchange import (
    ImportReport,
    csv_bytes,
    export_labels,
    format_of,
    import_labels,
    iso_time,
    json_bytes,
    parquet_bytes,
    read_rows,
    studio_bytes,
)

ITEMS = ["=cmd()", "a, b", "@x | y", "-7", "'quoted'", "ünï"]
CLASSES = ["=ham", "sp,am", "'+1", 'a "b"']
PEOPLE = st.sampled_from(["ada", "=bob", "@c", "é\u2028", "-", "'"])
REASONS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=10)


@pytest.fixture
def projects(tmp_path):
    """Makes projects over the same pool."""
    (tmp_path / "pool.jsonl").write_text(
        "".join(json.dumps({"key": item, "a": place, "b": place**2}) + "\n" for place, item in enumerate(ITEMS))
    )
    opened = []

    def make(**others):
        wanted = {"classes": CLASSES, "id": "key", "labels_per_item": 2, "most_labels": 5, **others}
        opened.append(init_project(tmp_path / uuid.uuid4().hex, pool=tmp_path / "pool.jsonl", **wanted))
        return opened[-1]

    yield make
    for project in opened:
        project.close()


def some_labels(project):
    session = project.session()
    session.answer("ada", "-7", "=ham", key="k1", seconds=3)
    session.answer("=bob", "-7", "sp,am", key="k2")
    session.skip("ada", "a, b", "no\r\nidea", key="k3")
    session.answer("ada", "ünï", "'+1", key="k4", seconds=0.25)
    session.answer("ada", "=cmd()", "=ham", key="k5")
    session.undo("ada", key="k6")
    return project


# ---- there and back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_export_import_export_gives_the_same_bytes(projects, tmp_path, ending):
    first, second = some_labels(projects()), projects()
    assert export_labels(first, tmp_path / f"1.{ending}") == 4
    assert import_labels(second, tmp_path / f"1.{ending}") == ImportReport(added=4, known=0)
    export_labels(second, tmp_path / f"2.{ending}")
    assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()
    assert import_labels(second, tmp_path / f"1.{ending}") == ImportReport(added=0, known=4)
    assert import_labels(first, tmp_path / f"2.{ending}") == ImportReport(added=0, known=4)
    assert second.session().labels() == first.session().labels()


@pytest.mark.parametrize(("ending", "options"), [("csv", {}), ("csv", {"safe": False}), ("json", {})])
def test_other_formats_bring_the_same_answers(projects, tmp_path, ending, options):
    first, second = some_labels(projects()), projects()
    export_labels(first, tmp_path / f"1.{ending}", **options)
    assert import_labels(second, tmp_path / f"1.{ending}", **options).added == 4
    export_labels(first, tmp_path / "1.jsonl")
    export_labels(second, tmp_path / "2.jsonl")
    assert sorted((tmp_path / "1.jsonl").read_text().splitlines()) == sorted(
        (tmp_path / "2.jsonl").read_text().splitlines()
    )


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    answers=st.lists(
        st.tuples(PEOPLE, st.sampled_from(ITEMS), st.sampled_from(CLASSES) | REASONS.map(lambda text: (text,))),
        max_size=20,
    ),
    seconds=st.none() | st.integers(0, 99) | st.floats(0, 1e6),
)
def test_whatever_people_write(projects, tmp_path, answers, seconds):
    first, second = projects(), projects()
    for who, item, said in answers:
        if isinstance(said, tuple):
            first.session().skip(who, item, said[0], key=uuid.uuid4().hex)
        else:
            first.session().answer(who, item, said, key=uuid.uuid4().hex, seconds=seconds)
    count = len({(who, item) for who, item, _ in answers})
    for ending in ("jsonl", "parquet", "csv"):
        assert export_labels(first, tmp_path / f"1.{ending}") == count
    assert import_labels(second, tmp_path / "1.csv") == ImportReport(count, 0)
    assert import_labels(second, tmp_path / "1.parquet") == ImportReport(0, count)
    for ending in ("jsonl", "parquet", "csv"):
        export_labels(second, tmp_path / f"2.{ending}")
        assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()


LETTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])
TEXTS = (
    st.text(LETTERS, min_size=1, max_size=8).filter(str.strip)
    | st.sampled_from([" a", "a ", "\xa0b", "b\u3000", "NA", "null", "?", "nan", "007", "1.10", "1e5", "-0", "'=1"])
    | st.integers(-(2**70), 2**70).map(str)
)
SPELT = st.integers(-(2**70), 2**70).map(str) | st.from_regex(r"-?(0|[1-9][0-9]{0,20})\.[0-9]{1,20}", fullmatch=True)


def pool_bytes(form, ids):
    """A file with these ids in it, each also in a column of its own that is shown."""
    if form == "csv":
        text = io.StringIO()
        csv.writer(text).writerows([("a", "key"), *enumerate(ids)])
        return text.getvalue().encode()
    if form == "jsonl":
        return "".join(json.dumps({"a": place, "key": item}) + "\n" for place, item in enumerate(ids)).encode()
    if form == "numbers":  # of JSON, as they are
        return "".join(f'{{"a": {place}, "key": {item}}}\n' for place, item in enumerate(ids)).encode()
    kinds = {"uint64": pa.uint64(), "int64": pa.int64(), "decimal": pa.decimal128(38, 4), "parquet": pa.string()}
    values = [*map(int, ids)] if "int" in form else [*map(Decimal, ids)] if form == "decimal" else ids
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table({"a": [*range(len(ids))], "key": pa.array(values, kinds[form])}), sink)
    return bytes(sink.getvalue())


def unique(texts, **options):
    return st.lists(texts, min_size=2, max_size=6, unique=True, **options)


POOLS = st.one_of(
    st.tuples(st.sampled_from(["csv", "jsonl", "parquet"]), unique(TEXTS)),
    st.tuples(st.just("numbers"), unique(SPELT)),
    st.tuples(st.just("uint64"), unique(st.integers(0, 2**64 - 1).map(str))),
    st.tuples(st.just("int64"), unique(st.integers(-(2**63), 2**63 - 1).map(str))),
    st.tuples(st.just("decimal"), unique(st.decimals(-(10**30), 10**30, places=4).map(lambda d: f"{d:f}"))),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pool=POOLS)
def test_ids_are_the_same_text_from_file_to_file(tmp_path, pool):
    """Out of every kind of file into items, out as every kind of file, and in again."""
    form, ids = pool
    file = tmp_path / f"{uuid.uuid4().hex}.{'csv' if form == 'csv' else 'jsonl' if form[0] in 'jn' else 'parquet'}"
    file.write_bytes(pool_bytes(form, ids))

    def made():
        place = tmp_path / uuid.uuid4().hex
        return init_project(place, pool=file, id="key", classes=["x", "y"], show="a", features=["a"])

    with made() as first:
        assert first.items.ids == (*ids,)
        for place, item in enumerate(ids):
            first.session().answer("ada", item, "xy"[place % 2], key=uuid.uuid4().hex)
        for ending in ("csv", "jsonl", "parquet"):
            out = tmp_path / f"{uuid.uuid4().hex}.{ending}"
            export_labels(first, out)
            with made() as second:
                assert import_labels(second, out) == ImportReport(len(ids), 0)
                assert second.session().labels().keys() == {*ids}


def test_numbers_in_files_of_labels_are_ids_too(tmp_path):
    """However they are kept there."""
    ids = [str(2**53 + 1), str(2**63 + 1), "1.10", "7"]
    (tmp_path / "pool.csv").write_text("key,a\n" + "".join(f"{item},{place}\n" for place, item in enumerate(ids)))
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": {item}, "label": 1}}\n' for item in ids))
    for name, column in [
        ("u", pa.array([2**53 + 1, 2**63 + 1, 7], pa.uint64())),
        ("d", pa.array([Decimal(2**53 + 1), Decimal("7")], pa.decimal128(20, 0))),
        ("e", pa.array([Decimal("1.10")])),
        ("f", pa.array([7.0])),
    ]:
        parquet.write_table(pa.table({"id": column, "label": ["1"] * len(column)}), tmp_path / f"{name}.parquet")
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", id="key", classes=["1", "2"]) as project:
        assert import_labels(project, tmp_path / "a.jsonl") == ImportReport(4, 0)
        for name, rows in [("u", 3), ("d", 2), ("e", 1), ("f", 1)]:
            assert import_labels(project, tmp_path / f"{name}.parquet") == ImportReport(0, rows)
        assert [*project.session().labels()] == ids


def test_rows_say_who_and_when(projects, tmp_path):
    project = some_labels(projects())
    export_labels(project, tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["key"] for row in rows] == ["k1", "k2", "k3", "k4"]  # k5 was taken back
    told = {record.key: record.at for record in project.store().read("main")}
    for row in rows:
        assert row["at"].endswith("Z")
        assert datetime.fromisoformat(row["at"]).timestamp() == pytest.approx(told[row["key"]], abs=1e-6)
    assert rows[0] == {
        **{"id": "-7", "label": "=ham", "who": "ada", "at": rows[0]["at"], "seconds": 3.0},
        **{"kind": "label", "reason": None, "key": "k1"},
    }
    assert (rows[2]["kind"], rows[2]["label"], rows[2]["reason"]) == ("skip", None, "no\r\nidea")


def test_a_renamed_class_goes_out_by_its_new_name_and_comes_in_by_either(projects, tmp_path):
    first, second = some_labels(projects()), projects()
    export_labels(first, tmp_path / "old.jsonl")
    for project in (first, second):
        project.session().set_rules("ada", renamed={"=ham": "good"})
    export_labels(first, tmp_path / "new.jsonl")
    assert '"good"' in (tmp_path / "new.jsonl").read_text()
    assert import_labels(second, tmp_path / "old.jsonl").added == 4
    assert import_labels(second, tmp_path / "new.jsonl") == ImportReport(0, 4)
    assert import_labels(first, tmp_path / "old.jsonl") == ImportReport(0, 4)
    assert second.session().labels()["-7"].votes == {"ada": "good", "=bob": "sp,am"}


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("renamed", [[{"=ham": "sp,am", "sp,am": "=ham"}], [{"=ham": "good"}, {"sp,am": "=ham"}]])
def test_a_key_stands_for_the_same_class_after_names_were_swapped(projects, tmp_path, imported, renamed):
    """They were compared by the names of today: what was exported a moment ago was "another answer" already."""
    first, other = some_labels(projects()), projects()
    export_labels(first, tmp_path / "old.jsonl")
    if imported:
        import_labels(other, tmp_path / "old.jsonl")
    project = other if imported else first
    for names in renamed:
        project.session().set_rules("ada", renamed=names)
    export_labels(project, tmp_path / "new.jsonl")
    votes = project.session().labels()["-7"].votes
    for name in ("new", "old"):
        assert import_labels(project, tmp_path / f"{name}.jsonl") == ImportReport(0, 4)
    assert project.session().labels()["-7"].votes == votes
    wrong = {"id": "-7", "label": 'a "b"', "who": "ada", "key": "k1"}
    (tmp_path / "wrong.jsonl").write_text(json.dumps(wrong) + "\n")
    assert "stands for another answer" in import_labels(project, tmp_path / "wrong.jsonl").refused[0]


def test_the_consensus_is_a_file_too(projects, tmp_path):
    project = some_labels(projects())
    project.session().answer("cy", "-7", "=ham", key="k9")
    assert export_labels(project, tmp_path / "all.jsonl", consensus=True) == 2
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert rows == [
        {"id": "-7", "label": "=ham", "labels": 3, "agreement": 2 / 3},
        {"id": "ünï", "label": "'+1", "labels": 1, "agreement": 1.0},
    ]
    for ending in ("csv", "parquet"):
        export_labels(project, tmp_path / f"all.{ending}", consensus=True)
        other = projects()
        assert import_labels(other, tmp_path / f"all.{ending}") == ImportReport(2, 0)
        assert import_labels(other, tmp_path / f"all.{ending}") == ImportReport(0, 2)
        assert {item: said.label for item, said in other.session().labels().items()} == {"-7": "=ham", "ünï": "'+1"}
    with pytest.raises(ValueError, match="format must be csv, jsonl or parquet for the consensus"):
        export_labels(project, tmp_path / "all.json", consensus=True)


@pytest.mark.parametrize(
    "at",
    [1_700_000_000.5, "1700000000.5", "2023-11-14T22:13:20.5Z", "2023-11-14T22:13:20.5", "2023-11-15 00:13:20.5+02:00"],
)
def test_times_come_in_as_iso_or_as_unix_seconds(projects, tmp_path, at):
    project = projects()
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "-7", "label": "=ham", "at": at}))
    assert import_labels(project, tmp_path / "a.jsonl") == ImportReport(1, 0)
    export_labels(project, tmp_path / "b.jsonl")
    assert json.loads((tmp_path / "b.jsonl").read_text())["at"] == "2023-11-14T22:13:20.500000Z"


def test_answers_go_out_when_the_pool_is_gone(projects, tmp_path):
    project = some_labels(projects())
    export_labels(project, tmp_path / "1.jsonl")
    export_labels(project, tmp_path / "1.csv", consensus=True)
    folder = project.folder
    project.close()
    (tmp_path / "pool.jsonl").rename(tmp_path / "elsewhere")
    with open_project(folder) as again:
        assert export_labels(again, tmp_path / "2.jsonl") == 4
        assert export_labels(again, tmp_path / "2.csv", consensus=True) == 2
        for ending, options in (("csv", {"with_item": True}), ("json", {})):
            with pytest.raises(ValueError, match=r"no file .*pool\.jsonl.* the answers alone can be exported"):
                export_labels(again, tmp_path / f"3.{ending}", **options)
    for ending in ("jsonl", "csv"):
        assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()
    assert not [*tmp_path.glob("3.*")]


def test_what_people_saw_goes_out_on_request(projects, tmp_path):
    project = some_labels(projects(show=["a", "b"]))
    for options, first in (({}, "ada"), ({"consensus": True}, None)):
        export_labels(project, tmp_path / "a.jsonl", with_item=True, **options)
        rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
        assert (rows[0]["id"], rows[0]["a"], rows[0]["b"], rows[0].get("who")) == ("-7", "3", "9", first)
    export_labels(project, tmp_path / "a.parquet", with_item=True)
    assert import_labels(projects(), tmp_path / "a.parquet") == ImportReport(4, 0)


def test_columns_of_the_pool_do_not_take_the_place_of_ours(tmp_path):
    lines = ["key,who,label,agreement", "1,the sender,x,high", "2,another,y,low", "3,third,x,low"]
    (tmp_path / "pool.csv").write_text("\n".join(lines))
    with init_project(
        tmp_path / "p", pool=tmp_path / "pool.csv", id="key", classes=["a", "b"], features=["who"]
    ) as project:
        project.session().answer("ada", "1", "a", key="k1")
        for consensus in (False, True):
            for ending in ("csv", "parquet"):
                export_labels(project, tmp_path / f"a.{ending}", with_item=True, consensus=consensus)
        found = (tmp_path / "a.csv").read_text().splitlines()
    names = '"id","label","labels","agreement","item_who","item_label","item_agreement"'
    assert found == [names, '"1","a","1","1.0","the sender","x","high"']


def test_texts_and_pictures_go_out_under_the_name_of_their_column(tmp_path):
    (tmp_path / "notes").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "notes" / f"{name}.txt").write_text(f"note {name}\nand more")
    with init_project(tmp_path / "p", pool=tmp_path / "notes", classes=["x", "y"]) as project:
        project.session().answer("ada", "b.txt", "x", key="k1")
        export_labels(project, tmp_path / "a.jsonl", with_item=True)
    assert json.loads((tmp_path / "a.jsonl").read_text())["text"] == "note b\nand more"


def test_a_byte_order_mark_for_excel(projects, tmp_path):
    project = some_labels(projects())
    export_labels(project, tmp_path / "a.csv", bom=True)
    assert (tmp_path / "a.csv").read_bytes().startswith(b'\xef\xbb\xbf"id",')
    assert import_labels(projects(), tmp_path / "a.csv") == ImportReport(4, 0)
    with pytest.raises(ValueError, match="is for CSV files, but the format is jsonl"):
        export_labels(project, tmp_path / "a.jsonl", bom=True)


# ---- what cannot be kept -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "nobody", "label": "=ham"}, "there is no item 'nobody'"),
        ({"label": "=ham"}, "there is no item None"),
        ({"id": ["-7"], "label": "=ham"}, "there is no item"),
        ({"id": "-7", "label": "eggs"}, "label must be one of =ham, sp,am"),
        ({"id": "-7"}, "label must be one of"),
        ({"id": "-7", "label": ["=ham"]}, "label must be one of"),
        ({"id": "-7", "label": "=ham", "kind": "guess"}, "kind must be label or skip, but it is 'guess'"),
        (
            {"id": "-7", "label": "=ham", "at": "noon"},
            "like 2026-01-31T12:00:00Z, but it is 'noon'",
        ),
        ({"id": "-7", "label": "=ham", "at": "1969-12-31T00:00:00Z"}, "at must be a time from 1970 on"),
        ({"id": "-7", "label": "=ham", "seconds": -1}, "seconds must be a number of seconds from 0"),
        ({"id": "-7", "label": "=ham", "seconds": 10**400}, "seconds must be a number"),
        ({"id": "-7", "label": "=ham", "who": "a\0"}, "who must not hold the character NUL"),
        ({"id": "-7", "label": "=ham", "who": 5}, "who must be text"),
        ({"id": "-7", "label": "=ham", "key": "x" * 3000}, "key must have at most"),
        ({"id": "-7", "kind": "skip", "reason": 5}, "reason must be a text"),
        ({"id": "-7", "label": "sp,am", "key": "k1"}, "the key 'k1' stands for another answer"),
    ],
)
def test_rows_are_refused_one_by_one(projects, tmp_path, row, said):
    project = projects()
    project.session().answer("ada", "-7", "=ham", key="k1")
    good = {"id": "ünï", "label": "=ham"}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(good)}\n")
    found = import_labels(project, tmp_path / "a.jsonl")
    assert (found.added, found.known, found.rows) == (1, 0, 2)
    assert found.refused[0].startswith("a.jsonl:1: ")
    assert said in found.refused[0]
    assert str(found).startswith("1 added, 0 known already, 1 refused\n  a.jsonl:1: ")


@pytest.mark.parametrize("name", ["pool.jsonl", "p/../pool.jsonl", "p/askwell.toml", "p/labels.db"])
def test_files_of_the_project_are_not_written_over(tmp_path, name):
    """The answers took the place of the pool, which was gone."""
    rows = [{"key": item, "a": place} for place, item in enumerate(ITEMS)]
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with init_project(tmp_path / "p", pool=tmp_path / "pool.jsonl", classes=CLASSES, id="key") as project:
        before = (tmp_path / name).read_bytes()
        with pytest.raises(ValueError, match="belongs to the project, and was not written over"):
            export_labels(project, tmp_path / name, format="jsonl")
        assert (tmp_path / name).read_bytes() == before


def test_an_old_file_stays_whole_until_the_new_one_is(projects, tmp_path):
    project = some_labels(projects())
    (tmp_path / "here").mkdir()
    with pytest.raises(ValueError, match=r"path must be a file that can be written, but .*nowhere"):
        export_labels(project, tmp_path / "nowhere" / "a.csv")
    with pytest.raises(ValueError, match="path must be a file that can be written"):
        export_labels(project, tmp_path / "here", format="csv")
    assert not [*tmp_path.glob(".*.new")]


def test_a_csv_of_ones_own(projects, tmp_path):
    project = projects()
    (tmp_path / "mine.csv").write_text("label;id;note\nsp,am;'-7;x\n=ham;ünï;y\n", "utf-8-sig")
    assert import_labels(project, tmp_path / "mine.csv") == ImportReport(2, 0)
    assert {a.item: (a.who, a.label) for a in project.session().answers()} == {
        "-7": ("import", "sp,am"),
        "ünï": ("import", "=ham"),
    }


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
