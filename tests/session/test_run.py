"""Changes that follow from the state they were made of, also in learners that are killed, or share a store."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from killed import OPTIONS, POOL, TRUTH, live
from light_model import LightModel

from askwell.learner import Learner
from askwell.session.events import LabelAdded, QuestionAsked, id_of, text_of
from askwell.session.run import Run
from askwell.store import open_store

HERE = Path(__file__).parents[1]
KILLS, LABELS = 50, 150


def test_a_change_made_of_an_old_state_is_made_again():
    store = open_store(None)
    run, other, calls = Run(store, "main"), Run(store, "main"), []

    def count(state):
        if not calls:  # somebody else is faster, once
            other.change(lambda state: [LabelAdded("1", "cat")])
        calls.append(len(state.labels))
        return [LabelAdded("2", f"after {len(state.labels)}")]

    assert run.change(count).labels == {"1": "cat", "2": "after 1"}
    assert calls == [0, 1]


def test_no_change_records_nothing():
    run = Run(open_store(None), "main")
    assert run.change(lambda state: []).seq == 0
    assert run.store.read("main") == []


def test_questions_of_the_dead_are_mine_and_those_of_the_living_are_not(tmp_path):
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    one, two = Run(open_store(url), "main"), Run(open_store(url), "main")
    ask = lambda run, item: run.change(lambda state: [QuestionAsked(item, run.store.session())])  # noqa: E731
    ask(one, "1")
    ask(two, "2")
    assert one.mine(one.state()) == ["1"]
    assert two.mine(two.state()) == ["2"]
    one.store.close()
    assert two.mine(two.state()) == ["1", "2"]
    two.store.close()


@given(st.recursive(st.integers() | st.text() | st.booleans(), lambda inner: st.tuples(inner, inner), max_leaves=2))
def test_ids_come_back_from_their_text(item):
    assert id_of(text_of(item)) == item
    assert type(id_of(text_of(item))) is type(item)


def test_an_id_that_is_no_text_is_refused():
    with pytest.raises(ValueError, match="ids must be numbers, text or tuples"):
        text_of(object())


# ---- killed, and side by side ----


def questions_in(records):
    return [record.item for record in records if record.kind == "question" and not record.body.get("again")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('undisturbed') / 'labels.db'}"
    live(url, LABELS, lambda event: None)
    with open_store(url) as store:
        return questions_in(store.read("main"))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'labels.db'}"
    return request.getfixturevalue("postgres_url")


def test_a_learner_killed_fifty_times_loses_and_repeats_nothing(url, undisturbed):
    run = subprocess.run(
        [sys.executable, str(HERE / "killed.py"), url, str(KILLS), str(LABELS), "1"],
        capture_output=True, text=True, cwd=HERE, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["killed"] == KILLS
    with open_store(url) as store:
        records = store.read("main")
    told = [record.item for record in records if record.kind == "label"]
    assert {str(event["told"]) for event in found["heard"] if "told" in event} <= set(told)  # none lost
    assert len(told) == len(set(told)) == LABELS  # none twice
    assert all(record.body["label"] == TRUTH[int(record.item)] for record in records if record.kind == "label")
    assert questions_in(records) == undisturbed


def test_two_learners_in_two_processes_never_ask_the_same(url):
    script = (
        "import sys; from killed import *; learner = Learner(LightModel(), POOL, store=sys.argv[1], **OPTIONS)\n"
        "learner.tell([0, 1], ['high', 'low'])\n"
        "for _ in range(20):\n"
        "    ids = learner.ask(3); print(*ids, flush=True); learner.tell(ids, [TRUTH[item] for item in ids])\n"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", script, url], stdout=subprocess.PIPE, text=True, cwd=HERE)
        for _ in range(2)
    ]
    asked = [[int(item) for item in process.communicate()[0].split()] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [len(items) for items in asked] == [60, 60]
    assert not set(asked[0]) & set(asked[1])
    with Learner(LightModel(), POOL, store=url, **OPTIONS) as learner:
        assert len(learner.labels) == 122
