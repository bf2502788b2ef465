"""What people are handed over the session, and what they are told about their answers."""

import pytest

from askwell.session import Candidate, Session
from askwell.store import open_store


@pytest.fixture
def session():
    return Session(open_store(None), ["a", "b", "c"], clock=lambda: 1_000.0)


def test_a_task_says_why_it_is_asked(session):
    why = tuple((f"target {n}", 0.5 - n / 10) for n in range(7))
    session.put_queue(4, [Candidate("b", 0.25, why), Candidate("c")])
    first, second, third = session.next("ada", size=3)
    assert (first.item, first.score, first.why) == ("b", 0.25, why[:5])
    assert (second.item, second.score, second.why) == ("c", None, ())
    assert (third.item, third.score, third.why, third.labels_so_far) == ("a", None, (), 0)
    assert {task.until for task in (first, second, third)} == {1_090.0}
    assert len({task.token for task in (first, second, third)}) == 3


def test_a_task_says_how_many_labels_there_are(session):
    session.set_rules("owner", labels_per_item=2)
    session.answer("ada", "a", "ham", key="k1")
    assert {task.item: task.labels_so_far for task in session.next("bob", size=3)} == {"a": 1, "b": 0, "c": 0}


def test_receipts(session):
    session.set_rules("owner", labels_per_item=2)
    first = session.answer("ada", "a", "ham", key="k1")
    assert (first.key, first.item, first.kept, first.labels, first.needed) == ("k1", "a", "counted", 1, 1)
    second = session.answer("bob", "a", "spam", key="k2")
    assert (second.kept, second.labels, second.needed) == ("counted", 2, 1)  # they disagree: one more
    third = session.answer("cyd", "a", "spam", key="k3")
    assert (third.kept, third.labels, third.needed) == ("counted", 3, 0)
    fourth = session.answer("dan", "a", "ham", key="k4")
    assert (fourth.kept, fourth.labels, fourth.needed) == ("extra", 4, 0)
    again = session.answer("ada", "a", "ham", key="k1")
    assert (again.kept, again.labels) == ("again", 4)
    skipped = session.skip("eve", "a", "blurred", key="k5")
    assert (skipped.kept, skipped.labels, skipped.needed) == ("counted", 4, 0)


def test_answers_in_force_in_the_order_they_were_stored(session):
    session.answer("ada", "c", "ham", key="k1", seconds=2.5)
    session.skip("bob", "a", "blurred", key="k2")
    session.answer("ada", "b", "ham", key="k3")
    session.answer("ada", "c", "spam", key="k4")
    first, second, third = session.answers()
    assert (first.who, first.kind, first.label, first.reason) == ("bob", "skip", None, "blurred")
    assert (second.item, third.item, third.label, third.seconds) == ("b", "c", "spam", None)
    assert [said.key for said in session.answers(who="ada")] == ["k3", "k4"]
    assert session.answers(who="nobody") == []


def test_the_consensus_is_the_majority_and_of_equals_the_earliest(session):
    session.set_rules("owner", labels_per_item=3)
    for who, label in [("ada", "ham"), ("bob", "spam"), ("cyd", "spam")]:
        session.answer(who, "a", label, key=who)
    session.answer("bob", "b", "spam", key="b1")
    session.answer("ada", "b", "ham", key="b2")
    session.skip("ada", "c", "blurred", key="c1")
    found = session.labels()
    assert list(found) == ["a", "b"]
    assert (found["a"].label, found["a"].share) == ("spam", 2 / 3)
    assert found["a"].votes == {"ada": "ham", "bob": "spam", "cyd": "spam"}
    assert (found["b"].label, found["b"].share) == ("spam", 0.5)
    session.answer("bob", "b", "eggs", key="b3")  # a correction is a later word
    assert session.labels()["b"].label == "ham"
