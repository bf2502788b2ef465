"""The vocabulary of the log: events become records and come back, and stores of earlier versions are read as before."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from light_model import LightModel

from askwell.bridge.bookkeeping import Books
from askwell.learner import Learner
from askwell.project import open_project
from askwell.session import Session

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
        books = Books(project.store(), project.settings.run)
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
