"""Progress: counts, the pace of work, and what is left."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askwell.session import Session
from askwell.session.events import text_of
from askwell.session.progress import agreement, pace
from askwell.store import open_store
from askwell.store.records import Record

ITEMS = [f"item {number}" for number in range(10)]


@pytest.mark.parametrize(
    ("times", "rate"),
    [
        ([], None),
        ([5.0], None),
        ([5.0, 5.0], None),  # no time has passed: no telling
        ([0, 36, 72], 100),
        ([0, 36, 72, 10_000, 10_036], 100),  # a break is not work
        ([0, 36, 30, 66], 100),  # a clock that was set back
    ],
)
def test_the_pace_of_work(times, rate):
    assert pace(times) == rate


@pytest.fixture
def session():
    return Session(open_store(None), ITEMS, clock=lambda: 1_000.0)


def answer(session, who, item, label, **options):
    return session.answer(who, item, label, key=f"{who} {item} {label}", **options)


def test_an_empty_project(session):
    found = session.progress()
    assert (found.items, found.labelled, found.labels, found.people, found.rate, found.hours) == (
        10,
        0,
        0,
        (),
        None,
        None,
    )
    assert (found.budget, found.left, found.rounds, found.round, found.agreement, found.closed) == (
        *(None, None, (), None, None), None,
    )  # fmt: skip


def test_everything_is_counted(session):
    session.set_rules("owner", classes=["ham", "spam", "eggs"], labels_per_item=2, budget=9)
    answer(session, "ada", "item 0", "ham", seconds=2)
    answer(session, "ada", "item 1", "ham", seconds=8)
    answer(session, "ada", "item 2", "spam", seconds=4)
    answer(session, "bob", "item 0", "ham")
    answer(session, "bob", "item 1", "spam")
    session.skip("bob", "item 3", "unclear", key="s1")
    session.skip("bob", "item 2", "unclear", key="s2")
    session.next("cyd", size=2)
    found = session.progress()
    assert (found.items, found.labelled, found.complete, found.skipped) == (10, 3, 1, 1)
    assert (found.labels, found.budget, found.left, found.held) == (5, 9, 4, 2)
    assert found.classes == {"ham": 3, "spam": 2, "eggs": 0}
    ada, bob = found.people
    assert (ada.name, ada.labels, ada.skips, ada.held, ada.seconds) == ("ada", 3, 0, 0, 4)
    assert (bob.name, bob.labels, bob.skips, bob.seconds) == ("bob", 2, 2, None)
    assert found.agreement.items == 2
    assert found.agreement.share == 0.5
    session.undo("bob", key="u1")
    session.undo("bob", key="u2")
    session.undo("bob", key="u3")
    found = session.progress()
    assert (found.skipped, found.labels, found.complete, found.agreement.share) == (0, 4, 1, 1.0)


def test_the_hours_that_are_left():
    """One label every 36 seconds, by the store's clock."""

    class Timed:
        """The store in memory, with a clock of ours."""

        def __init__(self, store):
            self.store = store

        def append(self, records, *, after=None):
            return self.store.append(records, after=after)

        def read(self, run, *, after=0):
            found = self.store.read(run, after=after)
            return [Record(**(vars(record) | {"at": record.seq * 36.0})) for record in found]

    store = open_store(None)
    session = Session(Timed(store), ITEMS)
    for item in ITEMS[:4]:
        store.append([Record(item, "main", "label", text_of(item), {"label": "ham"}, "ada")])
    found = session.progress()
    assert found.rate == pytest.approx(100)
    assert found.hours == pytest.approx(0.06)  # six items
    session.set_rules("owner", budget=6)
    assert session.progress().hours == pytest.approx(0.02)  # two labels


def test_rounds_are_kept_in_order(session):
    session.put_round({"round": 1, "labels": 4, "estimate": None})
    session.put_round({"round": 2, "failed": "no two classes"}, queue=[])
    found = session.progress()
    assert [report["round"] for report in found.rounds] == [1, 2]
    assert found.round == 2


def test_the_end_is_told(session):
    session.set_rules("owner", budget=2)
    answer(session, "ada", "item 0", "ham")
    assert session.progress().closed is None
    answer(session, "ada", "item 1", "ham")
    assert session.progress().closed == "The budget of 2 labels is used up."
    assert session.progress().left == 0
    session.set_rules("owner", budget=None)
    for item in ITEMS[2:]:
        answer(session, "ada", item, "ham")
    assert session.progress().closed == "All items have the labels they need."


# ---- agreement -------------------------------------------------------------------------------------------------------


PEOPLE = ["ada", "bob", "cyd"]
votes = st.lists(st.dictionaries(st.sampled_from(PEOPLE), st.sampled_from(["x", "y", "z"])), max_size=12)


def kappa(pairs):
    """(observed - by chance) / (1 - by chance), or None where chance is sure."""
    n = len(pairs)
    labels = {label for pair in pairs for label in pair}
    observed = sum(a == b for a, b in pairs) / n
    chance = sum(sum(a == c for a, _ in pairs) * sum(b == c for _, b in pairs) for c in labels) / n**2
    return None if len(labels) < 2 else (observed - chance) / (1 - chance)


def mean(values):
    known = [(value, weight) for value, weight in values if value is not None]
    return sum(v * w for v, w in known) / sum(w for _, w in known) if known else None


@given(votes)
@settings(max_examples=30)
def test_it_is_cohens_kappa(items):
    found = agreement(items)
    several = [item for item in items if len(item) > 1]
    assert (found is None) == (not several)
    if found is None:
        return
    shared = {
        (a, b): [(item[a], item[b]) for item in several if a in item and b in item]
        for a, b in [("ada", "bob"), ("ada", "cyd"), ("bob", "cyd")]
    }
    shared = {people: pairs for people, pairs in shared.items() if pairs}
    assert [pair.people for pair in found.pairs] == list(shared)
    for pair in found.pairs:
        pairs = shared[pair.people]
        assert pair.items == len(pairs)
        assert pair.share == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
        assert pair.kappa == (None if kappa(pairs) is None else pytest.approx(kappa(pairs)))
    overall = mean([(kappa(pairs), len(pairs)) for pairs in shared.values()])
    assert found.kappa == (None if overall is None else pytest.approx(overall))
    assert found.items == len(several)
    assert found.share == pytest.approx(sum(len(set(item.values())) == 1 for item in several) / len(several))
    for label, value in found.classes.items():
        against = [([(a == label, b == label) for a, b in pairs], len(pairs)) for pairs in shared.values()]
        expected = mean([(kappa(pairs), n) for pairs, n in against])
        assert value == (None if expected is None else pytest.approx(expected))
    assert set(found.classes) == {label for pairs in shared.values() for pair in pairs for label in pair}


def test_where_chance_is_sure_there_is_no_kappa():
    found = agreement([{"ada": "x", "bob": "x"}] * 3)
    assert (found.share, found.kappa, found.classes) == (1.0, None, {"x": None})


def test_labels_of_several_kinds_are_told_apart():
    found = agreement([{"ada": "1", "bob": "1"}, {"ada": 1, "bob": 1}, {"ada": "1", "bob": 1}])
    assert found.share == pytest.approx(2 / 3)
    assert 0 < found.kappa < 1
