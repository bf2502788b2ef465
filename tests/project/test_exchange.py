"""Labels go out and come in: nothing lost, nothing twice, the same bytes again."""

import json
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askwell.project import init_project
from askwell.project.exchange import Report, export_labels, import_labels

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
    desk = project.desk()
    desk.answer("ada", "-7", "=ham", key="k1", seconds=3)
    desk.answer("=bob", "-7", "sp,am", key="k2")
    desk.skip("ada", "a, b", "no\r\nidea", key="k3")
    desk.answer("ada", "ünï", "'+1", key="k4", seconds=0.25)
    desk.answer("ada", "=cmd()", "=ham", key="k5")
    desk.undo("ada", key="k6")
    return project


# ---- there and back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_export_import_export_gives_the_same_bytes(projects, tmp_path, ending):
    first, second = some_labels(projects()), projects()
    assert export_labels(first, tmp_path / f"1.{ending}") == 4
    assert import_labels(second, tmp_path / f"1.{ending}") == Report(added=4, known=0)
    export_labels(second, tmp_path / f"2.{ending}")
    assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()
    assert import_labels(second, tmp_path / f"1.{ending}") == Report(added=0, known=4)
    assert import_labels(first, tmp_path / f"2.{ending}") == Report(added=0, known=4)
    assert second.desk().labels() == first.desk().labels()


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
            first.desk().skip(who, item, said[0], key=uuid.uuid4().hex)
        else:
            first.desk().answer(who, item, said, key=uuid.uuid4().hex, seconds=seconds)
    count = len({(who, item) for who, item, _ in answers})
    for ending in ("jsonl", "parquet", "csv"):
        assert export_labels(first, tmp_path / f"1.{ending}") == count
    assert import_labels(second, tmp_path / "1.csv") == Report(count, 0)
    assert import_labels(second, tmp_path / "1.parquet") == Report(0, count)
    for ending in ("jsonl", "parquet", "csv"):
        export_labels(second, tmp_path / f"2.{ending}")
        assert (tmp_path / f"1.{ending}").read_bytes() == (tmp_path / f"2.{ending}").read_bytes()


def test_rows_say_who_and_when(projects, tmp_path):
    project = some_labels(projects())
    export_labels(project, tmp_path / "a.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["key"] for row in rows] == ["k1", "k2", "k3", "k4"]  # k5 was taken back
    told = {record.key: record.at for record in project.store().read("main")}
    assert all(row["at"] == told[row["key"]] for row in rows)
    assert rows[0] == {
        **{"id": "-7", "label": "=ham", "who": "ada", "at": told["k1"], "seconds": 3.0},
        **{"kind": "label", "reason": None, "key": "k1"},
    }
    assert (rows[2]["kind"], rows[2]["label"], rows[2]["reason"]) == ("skip", None, "no\r\nidea")


def test_a_renamed_class_goes_out_by_its_new_name_and_comes_in_by_either(projects, tmp_path):
    first, second = some_labels(projects()), projects()
    export_labels(first, tmp_path / "old.jsonl")
    for project in (first, second):
        project.desk().set_rules("ada", renamed={"=ham": "good"})
    export_labels(first, tmp_path / "new.jsonl")
    assert '"good"' in (tmp_path / "new.jsonl").read_text()
    assert import_labels(second, tmp_path / "old.jsonl").added == 4
    assert import_labels(second, tmp_path / "new.jsonl") == Report(0, 4)
    assert import_labels(first, tmp_path / "old.jsonl") == Report(0, 4)
    assert second.desk().labels()["-7"].votes == {"ada": "good", "=bob": "sp,am"}


def test_the_consensus_is_a_file_too(projects, tmp_path):
    project = some_labels(projects())
    project.desk().answer("cy", "-7", "=ham", key="k9")
    assert export_labels(project, tmp_path / "all.jsonl", consensus=True) == 2
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert rows == [
        {"id": "-7", "label": "=ham", "labels": 3, "agreement": 2 / 3},
        {"id": "ünï", "label": "'+1", "labels": 1, "agreement": 1.0},
    ]
    for ending in ("csv", "parquet"):
        export_labels(project, tmp_path / f"all.{ending}", consensus=True)
        other = projects()
        assert import_labels(other, tmp_path / f"all.{ending}") == Report(2, 0)
        assert import_labels(other, tmp_path / f"all.{ending}") == Report(0, 2)
        assert {item: said.label for item, said in other.desk().labels().items()} == {"-7": "=ham", "ünï": "'+1"}
    with pytest.raises(ValueError, match="format must be csv, jsonl or parquet for the consensus"):
        export_labels(project, tmp_path / "all.json", consensus=True)


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
        ({"id": "-7", "label": "=ham", "at": "noon"}, "at must be a number of seconds"),
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
    project.desk().answer("ada", "-7", "=ham", key="k1")
    good = {"id": "ünï", "label": "=ham"}
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(good)}\n")
    found = import_labels(project, tmp_path / "a.jsonl")
    assert (found.added, found.known, found.rows) == (1, 0, 2)
    assert found.refused[0].startswith("a.jsonl:1: ")
    assert said in found.refused[0]
    assert str(found).startswith("1 added, 0 known already, 1 refused\n  a.jsonl:1: ")


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
    assert import_labels(project, tmp_path / "mine.csv") == Report(2, 0)
    assert {a.item: (a.who, a.label) for a in project.desk().answers()} == {
        "-7": ("import", "sp,am"),
        "ünï": ("import", "=ham"),
    }
