"""The session as people and processes use it: no double issue, nothing lost, nothing counted twice."""

import threading
from functools import partial

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule
from session_clients import audit, lease_many, lost
from session_histories import check, check_any_order

from askwell.session import Candidate, Session
from askwell.session.commit import Transaction
from askwell.session.events import LabelAdded, text_of
from askwell.store import open_store
from askwell.store.records import Record

ITEMS = [f"item {number}" for number in range(6)]


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    return open_store(None)


@pytest.fixture
def session(store, clock):
    return Session(store, ITEMS, clock=clock)


# ---- next ----------------------------------------------------------------------------------------------------------


def test_what_one_has_comes_first_with_the_same_token(session):
    (first,) = session.next("ada")
    again, second = session.next("ada", size=2)
    assert again == first
    assert second.item != first.item
    assert session.next("ada") == [first]


def test_nobody_gets_what_another_has(session):
    tasks = [session.next(who, size=2) for who in ("ada", "bob", "cyd", "dan")]
    assert [len(found) for found in tasks] == [2, 2, 2, 0]
    assert sorted(task.item for found in tasks for task in found) == ITEMS
    assert session.closed(who="dan").startswith("There is nothing left for you")
    assert session.closed() is None


def test_what_is_released_is_free_at_once(session):
    tasks = session.next("ada", size=6)
    assert session.next("bob") == []
    session.release("bob", [tasks[0].token])  # not theirs
    assert session.next("bob") == []
    session.release("ada", [tasks[0].token, tasks[3].token, "no such token"])
    assert [task.item for task in session.next("bob", size=6)] == [tasks[0].item, tasks[3].item]


def test_what_is_skipped_goes_to_others_only(session):
    (task,) = session.next("ada")
    session.skip("ada", task.item, "blurred", key="s1", token=task.token)
    assert task.item not in [found.item for found in session.next("ada", size=6)]
    assert [found.item for found in session.next("bob", size=6)] == [task.item]


def test_own_leases_are_renewed_when_half_of_their_time_is_gone(session, clock, store):
    (task,) = session.next("ada")
    records = len(store.read("main"))
    clock.now += 44
    assert session.next("ada") == [task]
    assert session.renew("ada", [task.token]) == [task.token]
    assert len(store.read("main")) == records  # not worth a record
    clock.now += 2
    (later,) = session.next("ada")
    assert (later.token, later.until) == (task.token, clock.now + 90)
    clock.now += 60
    assert session.renew("ada", [task.token]) == [task.token]
    assert session.next("ada")[0].until == clock.now + 90


def test_the_budget_is_not_leased_away(session, clock):
    session.set_rules("owner", budget=3)
    session.answer("ada", "item 0", "ham", key="k1")
    tasks = session.next("ada", size=5)
    assert len(tasks) == 2
    assert session.next("bob") == []
    assert session.closed(who="bob") == "The last labels of the budget are with other people now."
    assert session.closed(who="ada") is None
    clock.now += 91
    assert len(session.next("bob", size=5)) == 2  # they never came back
    session.answer("ada", tasks[0].item, "ham", key="k2", token=tasks[0].token)
    session.answer("ada", tasks[1].item, "ham", key="k3", token=tasks[1].token)
    assert session.next("bob") == session.next("ada") == []
    assert session.closed() == "The budget of 3 labels is used up."
    assert session.answer("cyd", "item 5", "ham", key="k4").kept == "counted"  # nothing is refused
    session.set_rules("owner", budget=5)
    assert len(session.next("ada", size=5)) == 1


def test_several_labels_for_each_item_by_different_people(session):
    session.set_rules("owner", labels_per_item=2)
    assert len(session.next("ada", size=9)) == len(session.next("bob", size=9)) == 6
    assert session.next("cyd") == []
    for task in session.next("ada", size=9):
        session.answer("ada", task.item, "ham", key=f"ada {task.item}", token=task.token)
    assert session.next("ada") == []  # all theirs
    assert session.next("cyd") == []  # bob has them
    for number, task in enumerate(session.next("bob", size=9)):
        session.answer("bob", task.item, "ham" if number else "spam", key=f"bob {task.item}", token=task.token)
    (extra,) = session.next("cyd", size=9)  # where they disagree, one more
    assert extra.labels_so_far == 2
    session.answer("cyd", extra.item, "ham", key="cyd", token=extra.token)
    assert session.closed() == "All items have the labels they need."
    assert {found.label for found in session.labels().values()} == {"ham"}


def test_the_queue_is_followed_when_it_changes(session):
    session.put_queue(1, [Candidate("item 3"), Candidate("item 1")])
    (first,) = session.next("ada")
    assert first.item == "item 3"
    session.put_queue(2, [Candidate("item 5"), Candidate("item 3")])
    assert [task.item for task in session.next("ada", size=2)] == ["item 3", "item 5"]
    with pytest.raises(ValueError, match="item must be one of the 6 items of the pool, but it is 'item 9'"):
        session.put_queue(3, [Candidate("item 9")])


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
def test_a_size_that_is_none_is_refused(session, size):
    with pytest.raises(ValueError, match="size must be a whole number from 1"):
        session.next("ada", size=size)


@pytest.mark.parametrize("who", ["", "  ", None, 7])
def test_nobody_is_nameless(session, who):
    for request in (
        partial(session.next, who), partial(session.renew, who, []), partial(session.release, who, []),
        partial(session.answer, who, "item 0", "ham", key="k"), partial(session.skip, who, "item 0", "", key="k"),
        partial(session.undo, who, key="k"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="who must be a person's name"):
            request()


# ---- answers -------------------------------------------------------------------------------------------------------


def test_a_key_stands_for_one_request(session):
    session.answer("ada", "item 0", "ham", key="k1")
    for request in (
        partial(session.answer, "ada", "item 0", "spam", key="k1"),
        partial(session.answer, "bob", "item 0", "ham", key="k1"),
        partial(session.answer, "ada", "item 1", "ham", key="k1"), partial(session.skip, "ada", "item 0", "", key="k1"),
        partial(session.undo, "ada", key="k1"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="key 'k1' stands for another request"):
            request()
    session.undo("ada", key="u1")
    with pytest.raises(ValueError, match="key 'u1' stands for another request"):
        session.answer("ada", "item 0", "ham", key="u1")
    with pytest.raises(ValueError, match="key 'u1' stands for another request"):
        session.undo("bob", key="u1")


def test_a_key_that_another_run_has_is_refused(session, store):
    store.append([Record("k1", "other", "label", "7", {})])
    with pytest.raises(ValueError, match="'k1' is stored already with another run"):
        session.answer("ada", "item 0", "ham", key="k1")
    assert session.answer("ada", "item 0", "ham", key="k2").kept == "counted"


def test_the_same_request_from_two_threads_at_once_is_stored_once(session, store):
    barrier, found = threading.Barrier(4), []

    def send():
        barrier.wait()
        found.append(session.answer("ada", "item 0", "ham", key="k1").kept)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["again", "again", "again", "counted"]
    assert len(store.read("main")) == 1


class Racing:
    """A store where another process appends first, once."""

    def __init__(self, store, first):
        self.store, self.first = store, first

    def append(self, records, *, after=None):
        if self.first:
            self.store.append([self.first.pop()])
        return self.store.append(records, after=after)

    def read(self, run, *, after=0):
        return self.store.read(run, after=after)


def test_a_retry_that_another_process_stores_at_the_same_moment_is_the_same_request(store):
    theirs = Record("k1", "main", "label", text_of("item 0"), {"label": "ham", "seconds": 2}, "ada")
    session = Session(Racing(store, [theirs]), ITEMS)
    assert session.answer("ada", "item 0", "ham", key="k1", seconds=3).kept == "again"
    assert [record.body["seconds"] for record in store.read("main")] == [2]
    other = Record("k2", "main", "label", text_of("item 1"), {"label": "spam"}, "ada")
    session = Session(Racing(store, [other]), ITEMS)
    with pytest.raises(ValueError, match="key 'k2' stands for another request"):
        session.answer("ada", "item 1", "ham", key="k2")


def test_a_retry_that_says_another_time_is_the_same_request(session):
    session.answer("ada", "item 0", "ham", key="k1", token="t", seconds=2)
    assert session.answer("ada", "item 0", "ham", key="k1", seconds=9).kept == "again"
    assert session.answers()[0].seconds == 2


def test_labels_must_be_among_the_classes(session):
    session.set_rules("owner", classes=["ham", "spam"])
    with pytest.raises(ValueError, match=r"label must be one of the classes \['ham', 'spam'\], but it is 'eggs'"):
        session.answer("ada", "item 0", "eggs", key="k1")
    assert session.answer("ada", "item 0", "ham", key="k1").kept == "counted"  # the key is still free


@pytest.mark.parametrize("label", [None, ["ham"], {"a": 1}, float("nan")])
def test_a_label_is_a_plain_value(session, label):
    with pytest.raises(ValueError, match="label must be text, a number or a truth value"):
        session.answer("ada", "item 0", label, key="k1")


@pytest.mark.parametrize("seconds", [-1, float("inf"), float("nan"), "3"])
def test_seconds_are_a_number(session, seconds):
    with pytest.raises(ValueError, match="seconds must be a number from 0"):
        session.answer("ada", "item 0", "ham", key="k1", seconds=seconds)


def test_items_are_those_of_the_pool(session):
    with pytest.raises(ValueError, match="one of the 6 items of the pool, but it is 'item 9'"):
        session.answer("ada", "item 9", "ham", key="k1")
    with pytest.raises(ValueError, match="one of the 6 items of the pool"):
        session.skip("ada", "item 9", "", key="k1")


def test_labels_of_a_learner_on_the_same_run_count(session, store):
    Session(store).change(lambda state: [LabelAdded(text_of("item 2"), "ham")])
    assert session.labels()["item 2"].votes == {"": "ham"}
    assert "item 2" not in [task.item for task in session.next("ada", size=6)]
    session.answer("ada", "item 3", "spam", key="k1")
    assert Session(store).read(lambda state: dict(state.latest_labels)) == {
        text_of("item 2"): "ham",
        text_of("item 3"): "spam",
    }


# ---- undo ----------------------------------------------------------------------------------------------------------


def test_undo_takes_back_the_last_and_gives_it_again(session, store):
    first, second = session.next("ada", size=2)
    session.answer("ada", first.item, "ham", key="k1", token=first.token)
    session.answer("ada", second.item, "spam", key="k2", token=second.token)
    undone = session.undo("ada", key="u1")
    assert (undone.answer.item, undone.answer.label, undone.task.item) == (second.item, "spam", second.item)
    assert list(session.labels()) == [first.item]
    assert session.next("ada") == [undone.task]
    assert session.undo("ada", key="u1") == undone  # the same request
    assert session.undo("ada", key="u2").answer.key == "k1"
    assert session.undo("ada", key="u3") is None
    assert session.labels() == {}
    assert {record.key for record in store.read("main")} >= {"k1", "k2", "u1", "u2"}  # nothing is deleted
    session.answer("ada", second.item, "ham", key="k3", token=undone.task.token)
    assert session.undo("ada", key="u3") is None  # it was sent before there was anything to take back


def test_undo_of_a_skip_that_somebody_else_has_by_now(session):
    (task,) = session.next("ada")
    session.skip("ada", task.item, "blurred", key="s1", token=task.token)
    assert session.next("bob")[0].item == task.item
    undone = session.undo("ada", key="u1")
    assert undone.answer.reason == "blurred"
    assert undone.task is None
    session.release("bob", [session.next("bob")[0].token])
    assert session.next("ada")[0].item == task.item  # it is open for them again


def test_undo_is_each_persons_own(session):
    session.answer("ada", "item 0", "ham", key="k1")
    session.answer("bob", "item 1", "ham", key="k2")
    assert session.undo("ada", key="u1").answer.key == "k1"
    assert session.undo("ada", key="u2") is None
    assert list(session.labels()) == ["item 1"]


# ---- rules ---------------------------------------------------------------------------------------------------------


def test_rules_are_shared_and_written_only_when_they_change(session, store, clock):
    rules = session.set_rules("owner", classes=["ham", "spam"], budget=40)
    assert Session(store, ITEMS, clock=clock).rules == rules == session.rules
    session.set_rules("owner", classes=["ham", "spam"])
    assert len(store.read("main")) == 1


def test_a_rename_keeps_history_and_understands_pages_of_yesterday(session):
    session.set_rules("owner", classes=["ham", "spam"])
    session.answer("ada", "item 0", "ham", key="k1")
    session.set_rules("owner", renamed={"ham": "good"})
    assert session.labels()["item 0"].label == "good"
    assert session.answer("ada", "item 0", "ham", key="k1").kept == "again"
    assert session.answer("ada", "item 1", "ham", key="k2").kept == "counted"
    assert session.labels()["item 1"].label == "good"
    with pytest.raises(ValueError, match="'good' has 2 labels "):
        session.set_rules("owner", classes=["ham", "spam"])


def test_an_answer_means_the_class_that_the_person_saw(session, store):
    """Swapped names, and a name that was given to another class: what waited in a browser is not mislabelled."""
    seen = session.set_rules("owner", classes=["cat", "dog"]).version
    session.set_rules("owner", renamed={"cat": "dog", "dog": "cat"})
    assert session.answer("ada", "item 0", "cat", key="k1", rules=seen).kept == "counted"
    assert session.labels()["item 0"].label == "dog"
    later = session.rules.version
    session.set_rules("owner", renamed={"cat": "kitten"})
    session.set_rules("owner", added=["cat"])
    session.answer("ada", "item 1", "cat", key="k2", rules=later)
    session.answer("ada", "item 2", "cat", key="k3", rules=session.rules.version)
    assert [session.labels()[f"item {n}"].label for n in (1, 2)] == ["kitten", "cat"]
    assert session.answer("ada", "item 0", "cat", key="k1", rules=seen).kept == "again"  # sent again, under later rules
    with pytest.raises(ValueError, match="stands for another request"):
        session.answer("ada", "item 0", "dog", key="k1", rules=seen)
    other = Session(store, ITEMS)  # who reads the records finds the same
    assert {item: said.label for item, said in other.labels().items()} == {
        item: said.label for item, said in session.labels().items()
    }


def test_an_answer_for_a_class_that_is_gone_is_refused_and_a_repeat_of_a_stored_one_is_not(session):
    seen = session.set_rules("owner", classes=["cat", "dog", "cow"]).version
    session.answer("ada", "item 0", "cow", key="k1", rules=seen)
    session.undo("ada", key="u1")
    session.set_rules("owner", removed=["cow"])
    session.set_rules("owner", added=["cow"])  # not the same class
    with pytest.raises(ValueError, match=r"'cow' was given when .* removed since"):
        session.answer("ada", "item 1", "cow", key="k2", rules=seen)
    assert session.answer("ada", "item 0", "cow", key="k1", rules=seen).kept == "again"
    assert session.answer("ada", "item 1", "cow", key="k2", rules=session.rules.version).kept == "counted"


def test_rules_that_changed_between_the_decision_and_the_record_do_not_mislabel(store):
    """Another server swaps two classes in that instant: the record says under which rules it was written."""
    one, other = Session(store, ITEMS), Session(store, ITEMS)
    version = one.set_rules("owner", classes=["cat", "dog"]).version
    other.set_rules("owner", renamed={"cat": "dog", "dog": "cat"})
    body = {"label": "cat", "rules": version}
    store.append([Record("k1", "main", "label", text_of("item 0"), body, "ada")])
    assert one.labels()["item 0"].label == "dog"


def test_labels_mean_the_same_in_another_store_where_records_have_other_numbers(session, store):
    """A backup put back beside other projects: `seq` is another there, and no version may rest on it."""
    seen = session.set_rules("owner", classes=["cat", "dog"]).version
    session.set_rules("owner", renamed={"cat": "dog", "dog": "cat"})
    session.answer("ada", "item 0", "cat", key="k1", rules=seen)
    session.answer("ada", "item 1", "cat", key="k2", rules=session.rules.version)
    there = open_store(None)
    there.append([Record(f"other {n}", "another project", "note", None, {}) for n in range(50)])
    there.append(store.read("main"))
    again = Session(there, ITEMS)
    assert {item: said.label for item, said in again.labels().items()} == {"item 0": "dog", "item 1": "cat"}
    assert again.answer("ada", "item 2", "cat", key="k3", rules=seen).kept == "counted"
    assert again.labels()["item 2"].label == "dog"
    assert again.answer("ada", "item 0", "cat", key="k1", rules=seen).kept == "again"
    there.close()


def test_two_who_add_classes_at_once_both_have_them(store):
    one, other = Session(store, ITEMS), Session(store, ITEMS)
    one.set_rules("ada", classes=["ham", "spam"])
    assert other.rules.classes == ("ham", "spam")
    one.set_rules("ada", added=["eggs"])
    assert other.set_rules("bob", added=["bacon"]).classes == ("ham", "spam", "eggs", "bacon")
    assert one.set_rules("ada", removed=["eggs"]).classes == ("ham", "spam", "bacon")


# ---- pages that were open before -----------------------------------------------------------------------------------


def test_a_project_is_known_again_whatever_happens_to_its_pool(store):
    name = Session(store, ITEMS).project
    assert Session(store, [*ITEMS, "one more"]).project == name
    Session(store, ITEMS).set_rules("owner", classes=["ham", "spam"])
    assert Session(store, ITEMS[:2], seed=5).project == name
    assert Session(store, ITEMS, run="other").project != name
    assert Session(open_store(None), ITEMS).project != name


def test_two_servers_that_open_a_new_project_at_once_give_it_one_name(tmp_path):
    url = f"sqlite:///{tmp_path}/labels.db"
    with open_store(url) as one, open_store(url) as other:
        sessions, found = [Session(store, ITEMS) for store in (one, other) for _ in range(4)], []
        threads = [
            threading.Thread(target=lambda session=session: found.append(session.project)) for session in sessions
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(found)) == 1
        assert [record.kind for record in one.read("main")] == ["project"]


def test_a_store_of_before_has_a_name_too(store):
    """Nothing is written: the first record names the project."""
    Session(store).change(lambda state: [LabelAdded(text_of("item 2"), "ham")])
    before = store.read("main")
    assert len(Session(store, ITEMS).project) == 32
    assert store.read("main") == before


def test_a_project_knows_the_tokens_that_it_gave(session):
    task, other = session.next("ada", size=2)
    session.answer("ada", task.item, "ham", key="k1", token=task.token)
    (his,) = session.next("bob")
    assert session.gave("ada", [task.token, "foreign", his.token, other.token]) == [task.token, other.token]


def test_ones_last_answers_come_newest_first(session):
    for n in range(5):
        session.answer("ada", f"item {n}", "ham", key=f"k{n}")
    session.answer("bob", "item 5", "ham", key="b1")
    session.answer("ada", "item 1", "spam", key="k9")  # a correction is the newest
    session.skip("ada", "item 5", "unclear", key="s1")
    session.answer("ada", "item 0", "eggs", key="k10")
    session.undo("ada", key="u1")
    first = session.latest("ada", size=2)
    assert [(said.item, said.label) for said in first] == [("item 5", None), ("item 1", "spam")]
    rest = session.latest("ada", size=9, before=first[-1].seq)
    assert [said.item for said in rest] == ["item 4", "item 3", "item 2"]
    assert session.latest("nobody", size=3) == []


def test_a_second_answer_says_what_it_corrects(session):
    assert session.answer("ada", "item 0", "ham", key="k1").corrects is None
    assert session.answer("bob", "item 0", "ham", key="k2").corrects is None
    assert session.answer("ada", "item 0", "spam", key="k3").corrects == "ham"
    assert session.answer("ada", "item 0", "spam", key="k3").corrects == "ham"  # sent again


def test_a_new_ranking_is_said_with_the_next_answer(session):
    assert session.answer("ada", "item 0", "ham", key="k1").round is session.round is None
    session.put_queue(1, [Candidate("item 4")])
    assert session.answer("ada", "item 1", "ham", key="k2").round == session.round == 1


def test_what_a_model_learns_from_changes_with_labels_only(session):
    before = session.changes
    session.next("ada")
    session.skip("ada", "item 1", "", key="s1")
    session.undo("ada", key="u1")
    assert session.changes == before
    session.answer("ada", "item 0", "ham", key="k1")
    assert session.changes == before + 1
    session.undo("ada", key="u2")
    assert session.changes == before + 2


# ---- R3: no double issue -------------------------------------------------------------------------------------------

PEOPLE = st.sampled_from(["ada", "bob", "cyd"])


class Sessions(RuleBasedStateMachine):
    """Several sessions on one store, people who do what people do, and a clock: audited after each step."""

    tasks = Bundle("tasks")

    @initialize(labels=st.integers(1, 3), budget=st.none() | st.integers(1, 12))
    def begin(self, labels, budget):
        self.store, self.clock, self.told, self.keys = open_store(None), Clock(), set(), 0
        self.sessions = [Session(self.store, ITEMS, clock=self.clock, seed=1) for _ in range(3)]
        self.sessions[0].set_rules("owner", labels_per_item=labels, budget=budget, lease_seconds=10)

    def key(self):
        self.keys += 1
        return f"key {self.keys}"

    @rule(target=tasks, session=st.integers(0, 2), who=PEOPLE, size=st.integers(1, 3))
    def next(self, session, who, size):
        fresh = Session(self.store, ITEMS, clock=self.clock)
        state, now = fresh._state, fresh.read(lambda state: state.at(self.clock()))
        own = [lease.token for lease in state.running(who, now=now)]
        free = [item for item in ITEMS if state.is_free(item, who, now)]
        room = max(0, min(state.room(Transaction()), len(free)))
        found = self.sessions[session].next(who, size=size)
        assert [task.token for task in found][: len(own)] == own[:size]
        assert {task.item for task in found[len(own) :]} <= set(free)
        assert len(found) == min(size, len(own) + room)  # never dry before the pool is
        self.told.update((task.token, task.item, who) for task in found)
        return multiple(*((who, task) for task in found))

    @rule(session=st.integers(0, 2), held=tasks, label=st.sampled_from("xyz"))
    def answer(self, session, held, label):
        who, task = held
        receipt = self.sessions[session].answer(who, task.item, label, key=self.key(), token=task.token)
        assert receipt.kept in ("counted", "extra", "late")

    @rule(session=st.integers(0, 2), who=PEOPLE, item=st.sampled_from(ITEMS), label=st.sampled_from("xyz"))
    def answer_unasked(self, session, who, item, label):
        self.sessions[session].answer(who, item, label, key=self.key())

    @rule(session=st.integers(0, 2), held=tasks)
    def skip(self, session, held):
        who, task = held
        self.sessions[session].skip(who, task.item, "unclear", key=self.key(), token=task.token)

    @rule(session=st.integers(0, 2), held=tasks)
    def release(self, session, held):
        who, task = held
        self.sessions[session].release(who, [task.token])

    @rule(session=st.integers(0, 2), held=tasks)
    def renew(self, session, held):
        who, task = held
        still = self.sessions[session].renew(who, [task.token])
        assert not still or task.token in [found.token for found in self.sessions[session].next(who, size=9)]
        self.told.update((found.token, found.item, who) for found in self.sessions[session].next(who, size=9))

    @rule(target=tasks, session=st.integers(0, 2), who=PEOPLE)
    def undo(self, session, who):
        undone = self.sessions[session].undo(who, key=self.key())
        if undone is None or undone.task is None:
            return multiple()
        self.told.add((undone.task.token, undone.task.item, who))
        return (who, undone.task)

    @rule(session=st.integers(0, 2), items=st.permutations(ITEMS), size=st.integers(0, 6))
    def rank(self, session, items, size):
        self.sessions[session].put_queue(1, [Candidate(item) for item in items[:size]])

    @rule(session=st.integers(0, 2), labels=st.integers(1, 3))
    def rule_anew(self, session, labels):
        assume(self.keys > 3)
        self.sessions[session].set_rules("owner", labels_per_item=labels)

    @rule(seconds=st.sampled_from([1, 4, 6, 11]))
    def wait(self, seconds):
        self.clock.now += seconds

    def teardown(self):
        if not hasattr(self, "store"):
            return
        assert audit(self.store.read("main"), self.told) == []
        standings = [(session.answers(), session.labels(), session.progress()) for session in self.sessions]
        assert standings[0] == standings[1] == standings[2]
        fresh = Session(self.store, ITEMS, clock=self.clock)
        assert standings[0] == (fresh.answers(), fresh.labels(), fresh.progress())


Sessions.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
TestSessions = Sessions.TestCase


@pytest.mark.parametrize("jump", [3_600.0, 86_400.0, 10 * 365 * 86_400.0])
@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_jumped_blocks_nothing_for_longer_than_a_lease(store, clock, jump, restart):
    session = Session(store, ITEMS, clock=clock)
    session.set_rules("ada", classes=["ham", "spam"], budget=len(ITEMS))
    clock.now += jump
    held = session.next("ada", size=len(ITEMS))
    assert len(held) == len(ITEMS)
    clock.now -= jump  # it was wrong for a moment
    other = Session(store, ITEMS, clock=clock) if restart else session
    assert other.next("bob") == []
    clock.now += 91
    (task,) = other.next("bob")
    assert task.until == clock.now + 90
    assert other.answer("bob", task.item, "ham", key="bob 1", token=task.token).kept == "counted"
    late = next(one for one in held if one.item != task.item)
    assert other.answer("ada", late.item, "spam", key="ada 1", token=late.token).kept == "counted"  # nobody took it


def test_a_machine_whose_clock_is_a_day_ahead_keeps_items_no_longer_than_others(store, clock):
    ahead = lambda: clock() + 86_400  # noqa: E731
    one, two = Session(store, ["a"], clock=ahead), Session(store, ["a"], clock=clock)
    (task,) = one.next("ada")
    assert two.next("bob") == []
    clock.now += 60
    assert one.renew("ada", [task.token]) == [task.token]  # she is still there
    clock.now += 60
    assert two.next("bob") == []
    clock.now += 91
    assert [other.item for other in two.next("bob")] == ["a"]
    assert one.renew("ada", [task.token]) == []


def test_clocks_that_disagree_cannot_make_a_double_issue(store):
    """Each machine of a team has its own clock: what one gave away is gone for all."""
    ahead, behind = Clock(), Clock()
    ahead.now += 60
    one, two = Session(store, ["a"], clock=behind), Session(store, ["a"], clock=ahead)
    (task,) = one.next("ada")
    behind.now += 40
    ahead.now += 40
    (taken,) = two.next("bob")  # by that clock it has run out
    assert one.renew("ada", [task.token]) == []
    assert one.next("ada") == []
    assert one.answer("ada", "a", "ham", key="k1", token=task.token).kept == "late"
    assert two.answer("bob", "a", "ham", key="k2", token=taken.token).kept == "late"  # ada's came first


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'labels.db'}"
    return request.getfixturevalue("postgres_url")


def test_no_double_issue_by_several_processes(url):
    """Twelve clients in three processes, who also skip, release, renew and vanish."""
    heard, _, records = lease_many(url, processes=3, threads=4, leases=1_000, lease_seconds=0.5)
    assert heard.faults == []
    assert len(heard.tasks) >= 999
    assert audit(records, heard.tasks) == []
    assert lost(records, heard.acknowledged) == []
    labels = [record for record in records if record.kind == "label"]
    assert len({record.item for record in labels}) > 500


def test_no_double_issue_with_two_labels_for_each_item(tmp_path):
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    heard, _, records = lease_many(url, processes=2, threads=4, leases=300, items=100, labels_per_item=2)
    assert heard.faults == audit(records, heard.tasks) == lost(records, heard.acknowledged) == []


def test_the_audit_finds_a_double_issue(session, store):
    """Or the tests above hold of nothing."""
    (task,) = session.next("ada")
    (other,) = Session(open_store(None), [task.item], clock=lambda: 1_000.0).next("bob")
    body = {"token": other.token, "at": 1_000.0, "until": 1_090.0}
    store.append([Record("forged", "main", "lease", text_of(task.item), body, "bob")])
    told = [(task.token, task.item, "ada"), (other.token, other.item, "bob")]
    (fault,) = audit(store.read("main"), told)
    assert "was given to bob with 1 leases, 1 needed" in fault
    assert session.next("bob")[0].item != task.item  # and the session does not believe it
    assert lost(store.read("main"), ["forged", "never"]) == ["never"]


# ---- R4: repeats ---------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_requests_sent_again_and_again_end_as_if_sent_once(seed):
    check(seed)


@given(st.integers(0, 2**32))
@settings(max_examples=50)
def test_labels_in_any_order_are_the_same_labels(seed):
    check_any_order(seed)


# ---- R5: a lost lease ----------------------------------------------------------------------------------------------


@given(st.floats(90, 10_000), st.booleans(), st.booleans(), st.integers(1, 3))
@settings(max_examples=40)
def test_who_sleeps_past_the_lease_loses_the_item_and_not_the_answer(slept, answered, skips, size):
    store, clock = open_store(None), Clock()
    one, two = (Session(store, ITEMS, clock=clock) for _ in range(2))
    mine = one.next("ada", size=size)
    clock.now += slept
    theirs = two.next("bob", size=6)
    assert {task.item for task in mine} <= {task.item for task in theirs}  # free again as soon as the time is over
    (second,) = [task for task in theirs if task.item == mine[0].item]
    if answered:
        assert two.answer("bob", second.item, "spam", key="bob", token=second.token).kept == "counted"
    assert one.renew("ada", [task.token for task in mine]) == []
    if skips:
        receipt = one.skip("ada", mine[0].item, "unclear", key="ada", token=mine[0].token)
    else:
        receipt = one.answer("ada", mine[0].item, "ham", key="ada", token=mine[0].token)
    assert receipt.kept == "late"
    assert "ada" in [record.key for record in store.read("main")]
    if not skips:
        found = one.labels()[mine[0].item]
        assert found.votes == ({"bob": "spam", "ada": "ham"} if answered else {"ada": "ham"})
        assert found.label == ("spam" if answered else "ham")
    if not answered:
        kept = two.answer("bob", second.item, "spam", key="bob", token=second.token).kept
        assert kept == ("counted" if skips else "late")


def test_who_sleeps_past_the_lease_and_nobody_needed_the_item_loses_nothing(session, clock):
    (task,) = session.next("ada")
    clock.now += 5_000
    assert session.renew("ada", [task.token]) == [task.token]
    clock.now += 5_000
    assert session.answer("ada", task.item, "ham", key="k1", token=task.token).kept == "counted"


# ---- what people are handed, and what they are told about their answers ----------------------------------------------


@pytest.fixture
def three():
    return Session(open_store(None), ["a", "b", "c"], clock=lambda: 1_000.0)


def test_a_task_says_why_it_is_asked(three):
    why = tuple((f"target {n}", 0.5 - n / 10) for n in range(7))
    three.put_queue(4, [Candidate("b", 0.25, why), Candidate("c")])
    first, second, third = three.next("ada", size=3)
    assert (first.item, first.score, first.why) == ("b", 0.25, why[:5])
    assert (second.item, second.score, second.why) == ("c", None, ())
    assert (third.item, third.score, third.why, third.labels_so_far) == ("a", None, (), 0)
    assert {task.until for task in (first, second, third)} == {1_090.0}
    assert len({task.token for task in (first, second, third)}) == 3


def test_a_task_says_how_many_labels_there_are(three):
    three.set_rules("owner", labels_per_item=2)
    three.answer("ada", "a", "ham", key="k1")
    assert {task.item: task.labels_so_far for task in three.next("bob", size=3)} == {"a": 1, "b": 0, "c": 0}


def test_receipts(three):
    three.set_rules("owner", labels_per_item=2)
    first = three.answer("ada", "a", "ham", key="k1")
    assert (first.key, first.item, first.kept, first.labels, first.needed) == ("k1", "a", "counted", 1, 1)
    second = three.answer("bob", "a", "spam", key="k2")
    assert (second.kept, second.labels, second.needed) == ("counted", 2, 1)  # they disagree: one more
    third = three.answer("cyd", "a", "spam", key="k3")
    assert (third.kept, third.labels, third.needed) == ("counted", 3, 0)
    fourth = three.answer("dan", "a", "ham", key="k4")
    assert (fourth.kept, fourth.labels, fourth.needed) == ("extra", 4, 0)
    again = three.answer("ada", "a", "ham", key="k1")
    assert (again.kept, again.labels) == ("again", 4)
    skipped = three.skip("eve", "a", "blurred", key="k5")
    assert (skipped.kept, skipped.labels, skipped.needed) == ("counted", 4, 0)


def test_answers_in_force_in_the_order_they_were_stored(three):
    three.answer("ada", "c", "ham", key="k1", seconds=2.5)
    three.skip("bob", "a", "blurred", key="k2")
    three.answer("ada", "b", "ham", key="k3")
    three.answer("ada", "c", "spam", key="k4")
    first, second, third = three.answers()
    assert (first.who, first.kind, first.label, first.reason) == ("bob", "skip", None, "blurred")
    assert (second.item, third.item, third.label, third.seconds) == ("b", "c", "spam", None)
    assert [said.key for said in three.answers(who="ada")] == ["k3", "k4"]
    assert three.answers(who="nobody") == []


def test_the_consensus_is_the_majority_and_of_equals_the_earliest(three):
    three.set_rules("owner", labels_per_item=3)
    for who, label in [("ada", "ham"), ("bob", "spam"), ("cyd", "spam")]:
        three.answer(who, "a", label, key=who)
    three.answer("bob", "b", "spam", key="b1")
    three.answer("ada", "b", "ham", key="b2")
    three.skip("ada", "c", "blurred", key="c1")
    found = three.labels()
    assert list(found) == ["a", "b"]
    assert (found["a"].label, found["a"].share) == ("spam", 2 / 3)
    assert found["a"].votes == {"ada": "ham", "bob": "spam", "cyd": "spam"}
    assert (found["b"].label, found["b"].share) == ("spam", 0.5)
    three.answer("bob", "b", "eggs", key="b3")  # a correction is a later word
    assert three.labels()["b"].label == "ham"


# ---- without items, as a learner -------------------------------------------------------------------------------------


def test_a_change_made_of_an_old_state_is_made_again():
    store = open_store(None)
    one, other, calls = Session(store), Session(store), []

    def count(state):
        if not calls:  # somebody else is faster, once
            other.change(lambda state: [LabelAdded("1", "cat")])
        calls.append(len(state.latest_labels))
        return [LabelAdded("2", f"after {len(state.latest_labels)}")]

    one.change(count)
    assert one.read(lambda state: dict(state.latest_labels)) == {"1": "cat", "2": "after 1"}
    assert calls == [0, 1]


def test_no_change_records_nothing():
    store = open_store(None)
    Session(store).change(lambda state: [])
    assert store.read("main") == []


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "at least one item"),
        (["a", 3], r"texts, but one is 3. Try \[str"),
        (["a", "b", "a"], "'a' occurs more than"),
    ],
)
def test_items_that_cannot_be_told_apart_are_refused(items, message):
    with pytest.raises(ValueError, match=message):
        Session(open_store(None), items)


# ---- labels that deserve a second look -------------------------------------------------------------------------------


def test_a_label_that_is_given_again_has_had_its_second_look(session):
    session.set_rules("owner", labels_per_item=2)
    for who, label in (("ada", "ham"), ("bob", "spam")):
        session.answer(who, "item 0", label, key=f"{who}0")
    for item in ("item 1", "item 2"):
        session.answer("ada", item, "ham", key=f"ada {item}")
    issues = [{"item": f"item {n}", "label": "ham"} for n in range(3)]
    session.put_round({"round": 1, "labels": 3, "label_issues": [*issues, {"item": "gone", "label": "ham"}]})
    session.put_round({"round": 2, "failed": "no memory"})

    def waiting(who=None):
        return [each["item"] for each in session.label_issues(who=who)]

    assert (waiting(), waiting("ada"), waiting("bob")) == ([*map("item {}".format, range(3))],) * 2 + (["item 0"],)
    assert waiting("cyd") == []
    session.answer("ada", "item 1", "ham", key="again")  # right
    session.answer("ada", "item 2", "spam", key="another")  # wrong
    session.answer("ada", "item 0", "ham", key="and again")
    assert (waiting("ada"), waiting("bob"), waiting()) == ([], ["item 0"], ["item 0"])
    session.skip("bob", "item 0", "cannot tell", key="after all")
    assert waiting() == []
    session.put_round({"round": 3, "labels": 3})  # as an earlier version records it
    assert waiting() == []
