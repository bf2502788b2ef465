"""The vocabulary of the log: events become records and come back, and stores of earlier versions are read as before."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from light_model import LightModel

from askwell.bridge.records import BridgeLog
from askwell.learner import Learner
from askwell.project import open_project
from askwell.session import Session
from askwell.session.events import (
    EVENTS,
    AnswerWithdrawn,
    Candidate,
    ImportFinished,
    ImportStarted,
    ItemSkipped,
    LabelAdded,
    LeaseGranted,
    LockTaken,
    ProjectNamed,
    QuestionAsked,
    QueueReplaced,
    RulesChanged,
    StudioMarked,
    StudioProjectSeen,
    VectorsPaired,
    event_of,
    id_of,
    text_of,
)
from askwell.store import open_store
from askwell.store.records import Record, contents

GOLDEN = Path(__file__).parent / "golden"  # made by commit eeb2700; labels.db holds a project and a learner's run
NOW = 1_790_000_010.0  # ten seconds after its last leases were given
EXPECTED = json.loads((GOLDEN / "expected.json").read_text("utf-8"))


@pytest.fixture
def golden(tmp_path):
    return Path(shutil.copytree(GOLDEN, tmp_path / "golden"))


def test_a_project_of_an_earlier_version_opens_with_the_same_labels_and_leases(golden):
    expected = EXPECTED["project"]
    with open_project(golden) as project:
        session = Session(project.store(), list(project.items.ids), clock=lambda: NOW)
        assert {item: consensus.label for item, consensus in session.labels().items()} == expected["labels"]
        assert [
            [a.item, a.who, a.kind, a.label, a.reason, a.key, a.kept, a.seconds, a.corrects] for a in session.answers()
        ] == expected["answers"]
        rules = session.rules
        assert [[*rules.classes], rules.labels_per_item, rules.version] == [
            expected[name] for name in ("classes", "labels_per_item", "version")
        ]
        assert (session.round, session.project) == (expected["round"], expected["name"])
        assert len(session.progress().rounds) == expected["rounds"]
        for who, leases in expected["leases"].items():
            assert session.gave(who, [token for _, token, _ in leases]) == [token for _, token, _ in leases]
        for who, tasks in expected["tasks"].items():
            assert [[t.item, t.score, [[*why] for why in t.why]] for t in session.next(who, size=2)] == tasks
        books = BridgeLog(project.store(), project.settings.run)
        assert (books.mark(), [*books.importing().items]) == (expected["mark"], expected["importing"])


def test_a_learner_of_an_earlier_version_goes_on_with_the_same_labels_and_questions(golden):
    with (golden / "pool.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    x, ids = [[float(row["a"]), float(row["b"])] for row in rows], [row["key"] for row in rows]
    store, expected = f"sqlite:///{golden / 'labels.db'}", EXPECTED["learner"]
    with Learner(LightModel(), x, seed=3, ids=ids, store=store, run="learner", classes=["down", "up"]) as learner:
        assert learner.labels == expected["labels"]
        assert learner.pending == expected["pending"]
        assert learner.ask(2) == expected["pending"]
        assert not {"k2", *learner.labels} & {*learner.ask(12)}  # k2 was skipped


# ---- records -------------------------------------------------------------------------------------------------------

BESIDE = {each.kind: each for each in (LockTaken, StudioMarked, StudioProjectSeen, ImportStarted, ImportFinished)}


def test_each_record_of_an_earlier_version_is_written_again_as_it_is(golden):
    with open_store(f"sqlite:///{golden / 'labels.db'}") as store:
        records = [(run, record) for run in store.runs() for record in store.read(run)]
    assert {record.kind for _, record in records} >= {*EVENTS} - {"project"}
    for run, record in records:
        event = (event_of if run in ("main", "learner") else BESIDE[record.kind].from_record)(record)
        again = event.to_record(run, who=record.who, key=record.key)
        assert contents([again]) == contents([record])


@pytest.mark.parametrize(
    ("event", "item", "body"),
    [
        (LabelAdded("7", False), "7", {"label": False}),
        (LabelAdded("7", 0, rules=2, at=0.0), "7", {"label": 0, "rules": 2, "at": 0.0}),
        (ItemSkipped("7"), "7", {"reason": ""}),
        (ItemSkipped("7", "dark", "t1"), "7", {"reason": "dark", "token": "t1"}),
        (AnswerWithdrawn("7"), "7", {}),
        (AnswerWithdrawn("7", "key 1"), "7", {"of": "key 1"}),
        (AnswerWithdrawn(None), None, {"of": None}),
        (QuestionAsked("7", "s"), "7", {"session": "s", "score": None}),
        (QuestionAsked("7", "s", 0.5, again=True), "7", {"session": "s", "score": 0.5, "again": True}),
        (LeaseGranted("7", "t1", 90.0, 0.0), "7", {"token": "t1", "until": 90.0, "at": 0.0}),
        (RulesChanged({"budget": None}), None, {"budget": None}),
        (ProjectNamed(), None, {}),
    ],
)
def test_an_event_is_its_record(event, item, body):
    record = event.to_record("main", who="ada", key="k1")
    assert record == Record("k1", "main", event.kind, item, body, "ada")
    assert event_of(record) == event


def test_keys_are_new_unless_given():
    event = LabelAdded("7", "ham")
    assert event.to_record("main").key != event.to_record("main").key


def test_what_a_later_version_adds_is_left_alone():
    assert event_of(Record("k1", "main", "a new kind", "7", {"x": 1})) is None
    assert event_of(Record("k1", "main", "label", "7", {"label": "ham", "sure": True})) == LabelAdded("7", "ham")
    assert event_of(Record("k1", "main", "skip", "7", {})) == ItemSkipped("7")


def test_a_queue_keeps_its_candidates_and_the_first_reasons():
    why = tuple((f"target {number}", number / 8) for number in range(7))
    queue = QueueReplaced.of(2, [Candidate("a", 0.5, why), Candidate("b")])
    assert queue.candidates() == [Candidate("a", 0.5, why[:5]), Candidate("b")]


def test_pairings_have_the_kind_of_what_they_are_of():
    event = VectorsPaired("targets", "vectors.npy", "5a", 0, ["a", "b"])
    assert event.to_record("main: vectors").kind == "targets"
    assert VectorsPaired.from_record(event.to_record("main: vectors")) == event


@given(st.recursive(st.integers() | st.text() | st.booleans(), lambda inner: st.tuples(inner, inner), max_leaves=2))
def test_ids_come_back_from_their_text(item):
    assert id_of(text_of(item)) == item
    assert type(id_of(text_of(item))) is type(item)


def test_an_id_that_is_no_text_is_refused():
    with pytest.raises(ValueError, match="ids must be numbers, text or tuples"):
        text_of(object())
