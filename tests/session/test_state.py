"""The fold: what the records of a run add up to, for whoever reads them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askwell.session.commit import Transaction
from askwell.session.events import text_of
from askwell.session.rules import Rules
from askwell.session.state import State
from askwell.store.records import Record

ITEMS = ["a", "b", "c"]


def state_of(*records):
    """The state after (kind, item, body, who), their keys r1, r2, ..."""
    state = State(ITEMS)
    for seq, (kind, item, body, who) in enumerate(records, 1):
        text = None if item is None else text_of(item)
        state.add(Record(f"r{seq}", "main", kind, text, body, who, seq, float(seq)))
    return state


def rules(**changes):
    body = {"classes": [], "labels_per_item": 1, "most_labels": 1, "lease_seconds": 90.0, "budget": None, "renamed": {}}
    return ("rules", None, body | changes, "owner")


def label(item, value, who, **body):
    return ("label", item, {"label": value, **body}, who)


def lease(item, token, at, who, *, until=None):
    return ("lease", item, {"token": token, "at": at, "until": at + 90 if until is None else until}, who)


def holders(state, item):
    return [held.token for held in state.leases.on(item)]


# ---- answers -------------------------------------------------------------------------------------------------------


def test_the_last_word_of_each_person_counts():
    state = state_of(label("a", "ham", "ada"), label("a", "spam", "bob"), label("a", "eggs", "ada"))
    assert state.votes("a") == {"bob": "spam", "ada": "eggs"}  # in the order of the words that count
    assert (state.labels, state.labelled, state.uses["ham"], state.uses["eggs"]) == (2, 1, 0, 1)
    assert state.people["ada"].labels == 1


def test_a_skip_is_a_word_too():
    state = state_of(label("a", "ham", "ada"), ("skip", "a", {"reason": "unclear"}, "ada"))
    assert state.votes("a") == {}
    assert (state.labels, state.labelled, state.skipped, state.people["ada"].skips) == (0, 0, 1, 1)
    assert state.answers("a")["ada"].reason == "unclear"


def test_a_withdrawal_takes_back_what_it_names():
    answers = [label("a", "ham", "ada"), label("a", "ham", "bob")]
    state = state_of(*answers, ("withdrawal", "a", {"of": "r1"}, "ada"))
    assert state.votes("a") == {"bob": "ham"}
    state = state_of(*answers, label("a", "spam", "ada"), ("withdrawal", "a", {"of": "r1"}, "ada"))
    assert state.votes("a") == {"bob": "ham", "ada": "spam"}  # it was corrected before
    state = state_of(*answers, ("withdrawal", "a", {}, ""))
    assert state.votes("a") == {}  # as a learner withdraws


def test_the_last_answer_that_is_in_force():
    history = [label("a", "ham", "ada"), label("b", "ham", "ada"), label("a", "spam", "ada")]
    assert state_of(*history).last("ada").key == "r3"
    assert state_of(*history, ("withdrawal", "a", {"of": "r3"}, "ada")).last("ada").key == "r2"
    back = [("withdrawal", "a", {"of": "r3"}, "ada"), ("withdrawal", "b", {"of": "r2"}, "ada")]
    assert state_of(*history, *back).last("ada") is None
    assert state_of().last("ada") is None


def test_items_that_the_pool_does_not_have_keep_their_labels_and_are_not_counted():
    state = state_of(label("gone", "ham", "ada"))
    assert state.votes("gone") == {"ada": "ham"}
    assert (state.labels, state.labelled, state.complete) == (1, 0, 0)
    assert holders(state_of(lease("gone", "t1", 0, "ada")), "gone") == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("label"), st.sampled_from(ITEMS), st.sampled_from([{"label": "x"}, {"label": "y"}])),
            st.tuples(st.just("withdrawal"), st.sampled_from(ITEMS), st.just({})),
            st.tuples(st.just("question"), st.sampled_from(ITEMS), st.just({"session": "s"})),
        ),
        max_size=12,
    )
)
def test_a_learner_alone_on_the_run_sees_the_same_labels(entries):
    """What `Learner.tell` and `withdraw` write means the same to both."""
    records = [
        Record(f"r{seq}", "main", kind, text_of(item), body, "", seq)
        for seq, (kind, item, body) in enumerate(entries, 1)
    ]
    state = State(ITEMS)
    for record in records:
        state.add(record)
    found = {text_of(item): state.votes(item)[""] for item in state.answered() if state.votes(item)}
    learner = State(raw=True)
    learner.follow(records)
    assert found == learner.latest_labels


# ---- leases --------------------------------------------------------------------------------------------------------


def test_one_lease_for_one_label():
    assert holders(state_of(lease("a", "t1", 0, "ada"), lease("a", "t2", 50, "bob")), "a") == ["t1"]
    assert holders(state_of(lease("a", "t1", 0, "ada"), lease("a", "t2", 90, "bob")), "a") == ["t2"]  # it ran out
    assert holders(state_of(lease("a", "t1", 0, "ada"), ("release", "a", {"token": "t1"}, "ada")), "a") == []
    assert holders(state_of(lease("a", "t1", 0, "ada"), ("release", "a", {"token": "t1"}, "bob")), "a") == ["t1"]
    assert holders(state_of(label("a", "ham", "ada"), lease("a", "t1", 0, "bob")), "a") == []


def test_a_lease_that_ran_out_lasts_until_somebody_needs_the_room():
    two = rules(labels_per_item=2, most_labels=3)
    first = [two, lease("a", "t1", 0, "ada"), lease("a", "t2", 100, "bob")]
    assert holders(state_of(*first), "a") == ["t1", "t2"]
    assert holders(state_of(*first, lease("a", "t3", 120, "cyd")), "a") == ["t2", "t3"]
    again = lease("a", "t4", 120, "ada")
    assert holders(state_of(*first, again), "a") == ["t2", "t4"]  # one person, one lease


def test_a_renewal_lengthens_and_never_shortens():
    state = state_of(lease("a", "t1", 0, "ada"), lease("a", "t1", 60, "ada"), lease("a", "t1", 10, "ada"))
    assert [held.until for held in state.leases.on("a")] == [150]
    stolen = state_of(lease("a", "t1", 0, "ada"), lease("a", "t1", 60, "bob"))
    assert [(held.who, held.until) for held in stolen.leases.on("a")] == [("ada", 90)]


def test_nobody_is_asked_what_they_answered():
    two = rules(labels_per_item=2, most_labels=3)
    assert holders(state_of(two, label("a", "ham", "ada"), lease("a", "t1", 0, "ada")), "a") == []
    assert holders(state_of(("skip", "a", {}, "ada"), lease("a", "t1", 0, "ada")), "a") == []
    assert holders(state_of(("skip", "a", {}, "ada"), lease("a", "t1", 0, "bob")), "a") == ["t1"]


def test_an_answer_ends_the_persons_lease_and_those_without_use():
    two = rules(labels_per_item=2, most_labels=3)
    both = [two, lease("a", "t1", 0, "ada"), lease("a", "t2", 0, "bob")]
    assert holders(state_of(*both, label("a", "ham", "ada")), "a") == ["t2"]
    assert holders(state_of(*both, label("a", "ham", "cyd")), "a") == ["t1"]  # who had it first keeps it
    assert holders(state_of(*both, label("a", "ham", "cyd"), label("a", "ham", "dan")), "a") == []
    assert holders(state_of(*both, label("a", "x", "cyd"), label("a", "y", "dan")), "a") == ["t1"]  # they disagree
    agreed = [label("a", "x", "cyd"), label("a", "y", "dan"), label("a", "x", "dan")]
    assert holders(state_of(*both, *agreed), "a") == []  # no more


def test_new_rules_end_leases_without_use():
    three = rules(labels_per_item=3, most_labels=5)
    leases = [lease("a", f"t{n}", n, f"person {n}") for n in range(3)]
    assert holders(state_of(three, *leases), "a") == ["t0", "t1", "t2"]
    assert holders(state_of(three, *leases, rules()), "a") == ["t2"]


# ---- late, extra, counted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "kept"),
    [
        ([label("a", "ham", "ada")], "counted"),
        ([lease("a", "t1", 0, "ada"), label("a", "ham", "ada", token="t1")], "counted"),
        ([lease("a", "t1", 0, "ada"), label("a", "ham", "ada", token="t2")], "late"),
        ([lease("b", "t1", 0, "ada"), label("a", "ham", "ada", token="t1")], "late"),
        ([lease("a", "t1", 0, "bob"), label("a", "ham", "ada", token="t1")], "late"),
        ([lease("a", "t1", 0, "ada"), lease("a", "t2", 90, "bob"), label("a", "ham", "ada", token="t1")], "late"),
        ([lease("a", "t1", 0, "ada"), label("a", "ham", "bob"), label("a", "ham", "ada", token="t1")], "late"),
        ([label("a", "ham", "bob"), label("a", "ham", "ada")], "extra"),
        ([label("a", "ham", "ada"), label("a", "spam", "ada")], "counted"),  # a correction
        ([rules(labels_per_item=2, most_labels=3), label("a", "ham", "bob"), label("a", "x", "ada")], "counted"),
    ],
)
def test_what_becomes_of_an_answer(history, kept):
    state = state_of(*history)
    assert state.last("ada").kept == kept
    assert "ada" in state.votes("a")  # it is kept in any case


# ---- renaming ------------------------------------------------------------------------------------------------------


def test_a_rename_renames_labels_before_it_and_old_names_after_it():
    renamed = rules(classes=["good", "spam"], renamed={"ham": "good"})
    state = state_of(
        rules(classes=["ham", "spam"]), label("a", "ham", "ada"), label("b", "spam", "ada"), renamed,
        label("c", "ham", "bob"),
    )  # fmt: skip
    assert [state.votes(item) for item in ITEMS] == [{"ada": "good"}, {"ada": "spam"}, {"bob": "good"}]
    assert +state.uses == {"good": 2, "spam": 1}
    assert state.rules == Rules(("good", "spam"), former={"ham": "good"})


# ---- always --------------------------------------------------------------------------------------------------------

people = st.sampled_from(["ada", "bob", "cyd", ""])
tokens = st.sampled_from([f"t{n}" for n in range(6)])
entries = st.one_of(
    st.tuples(st.just("label"), st.sampled_from(ITEMS), st.sampled_from("xyz"), people, st.none() | tokens),
    st.tuples(st.just("skip"), st.sampled_from(ITEMS), st.just(""), people, st.none() | tokens),
    st.tuples(st.just("lease"), st.sampled_from(ITEMS), st.integers(0, 300), people, tokens),
    st.tuples(st.just("release"), st.sampled_from(ITEMS), st.just(""), people, tokens),
    st.tuples(st.just("withdrawal"), st.sampled_from(ITEMS), st.integers(1, 12), people, st.none()),
    st.tuples(st.just("rules"), st.none(), st.integers(1, 3), people, st.none()),
)


def body_of(kind, value, token):
    made = {
        "label": {"label": value, "token": token},
        "skip": {"reason": "", "token": token},
        "lease": {"token": token, "at": value, "until": (value or 0) + 90 if kind == "lease" else 0},
        "release": {"token": token},
        "withdrawal": {"of": f"r{value}"},
    }
    return rules(labels_per_item=value, most_labels=value + 1)[2] if kind == "rules" else made[kind]


@given(st.lists(entries, max_size=40))
@settings(max_examples=300)
def test_whatever_the_records_are_no_item_has_more_leases_than_it_needs(history):
    """Also records that no session would write: the fold is the referee. And every count is that of a slow count."""
    state = State(ITEMS)
    for seq, (kind, item, value, who, token) in enumerate(history, 1):
        text = None if item is None else text_of(item)
        state.add(Record(f"r{seq}", "main", kind, text, body_of(kind, value, token), who, seq, float(seq)))
        votes = {item: state.votes(item) for item in ITEMS}
        needs = {item: state.rules.needed(list(votes[item].values())) for item in ITEMS}
        for item in ITEMS:
            on = list(state.leases.on(item))
            assert len(on) <= needs[item] == state.needed(item)
            assert len({held.who for held in on}) == len(on)
            assert not {held.who for held in on} & set(state.answers(item))
        assert state.labels == sum(map(len, votes.values())) == sum(state.uses.values())
        assert state.labelled == sum(bool(votes[item]) for item in ITEMS)
        assert state.complete == sum(needs[item] == 0 for item in ITEMS)
        assert state.skipped == sum(bool(state.answers(item)) and not votes[item] for item in ITEMS)
        assert list(state.several) == [item for item in state.several if len(votes[item]) > 1]
        assert set(state.several) == {item for item in ITEMS if len(votes[item]) > 1}
        said = [answer for item in ITEMS for answer in state.answers(item).values()]
        for who, work in state.people.items():
            assert work.labels == sum(answer.who == who and answer.kind == "label" for answer in said)
            assert work.skips == sum(answer.who == who and answer.kind == "skip" for answer in said)


# ---- who may have which item -----------------------------------------------------------------------------------------


def record(seq, kind, item, body, who=""):
    return Record(f"r{seq}", "main", kind, None if item is None else text_of(item), body, who, seq, float(seq))


def queue(seq, *items):
    rows = [[text_of(item), 0.5, [[text_of("target 1"), 0.25]]] for item in items]
    return record(seq, "queue", None, {"round": seq, "items": rows})


def choose(state, who, size, *, now=0.0, transaction=None):
    return state.choose(who, size, transaction or Transaction(), now=now)


MANY = [f"item {number}" for number in range(30)]


def test_the_queue_comes_first_and_then_all_others_in_a_seeded_order():
    state = State(MANY, seed=3)
    rest = choose(state, "ada", 30)
    assert sorted(rest) == sorted(MANY)
    assert rest != MANY
    assert rest == choose(State(MANY, seed=3), "bob", 99)
    assert rest != choose(State(MANY, seed=4), "ada", 30)
    state.follow([queue(1, "item 7", "nobody's", "item 2")])
    assert choose(state, "ada", 30) == [
        "item 7",
        "item 2",
        *(item for item in rest if item not in ("item 7", "item 2")),
    ]
    state.follow([queue(2, "item 5")])
    assert choose(state, "ada", 2) == ["item 5", rest[0]]


def test_what_is_in_the_transaction_is_left_out():
    state = State(["a", "b"], seed=0)
    first, second = choose(state, "ada", 2)
    transaction = Transaction()
    transaction.taken[first] += 1
    transaction.given["bob"] = {first}
    assert choose(state, "ada", 2, transaction=transaction) == [second]
    assert choose(state, "ada", 2) == [first, second]  # the transaction came to nothing
    state.follow([record(1, "rules", None, {"labels_per_item": 2})])
    assert choose(state, "ada", 2, transaction=transaction) == [first, second]  # it needs two
    assert choose(state, "bob", 2, transaction=transaction) == [second]  # but not from one person


def test_leases_that_run_out_come_back_whatever_the_clock_does_then():
    state = State(["a"], seed=0)
    state.follow([record(1, "lease", "a", {"token": "t", "at": 0.0, "until": 90.0}, "ada")])
    assert choose(state, "bob", 1, now=state.at(50.0)) == []
    assert choose(state, "bob", 1, now=state.at(90.0)) == ["a"]
    assert state.at(20.0) == 20.0
    assert choose(state, "bob", 1, now=state.at(20.0)) == ["a"]


# ---- the run of a learner -------------------------------------------------------------------------------------------


TEXTS = st.sampled_from(["1", "2", '"a"'])
HISTORIES = st.lists(
    st.one_of(
        st.tuples(st.just("question"), TEXTS, st.sampled_from(["s", "t"])),
        st.tuples(st.just("label"), TEXTS, st.sampled_from(["cat", "dog"])),
        st.tuples(st.just("withdrawal"), TEXTS, st.just("")),
        st.tuples(st.just("skip"), TEXTS, st.just("dark")),
    ),
    max_size=12,
)
BODY = {
    "question": lambda value: {"session": value, "score": None},
    "label": lambda value: {"label": value},
    "withdrawal": lambda value: {},
    "skip": lambda value: {"reason": value},
}


def records_of(history):
    return [
        Record(str(place), "main", kind, item, BODY[kind](value), seq=place + 1)
        for place, (kind, item, value) in enumerate(history)
    ]


def learner_state(*parts):
    state = State(raw=True)
    for records in parts:
        state.follow(records)
    return state


@given(HISTORIES)
def test_what_holds_for_an_item_is_what_its_own_last_records_say(history):
    state = learner_state(records_of(history))
    for item in ("1", "2", '"a"'):
        own = [(kind, value) for kind, about, value in history if about == item]
        answers = [(kind, value) for kind, value in own if kind in ("label", "withdrawal", "skip")]
        label = answers[-1][1] if answers and answers[-1][0] == "label" else None
        assert state.latest_labels.get(item) == label
        open_ = [value for kind, value in own if kind in ("question", "label", "skip")]
        kinds = [kind for kind, _ in own if kind in ("question", "label", "skip")]
        waits = bool(kinds) and kinds[-1] == "question"
        assert (item in state.pending) == waits
        assert not waits or state.pending[item].session == open_[-1]
        last = [kind for kind, _ in own if kind in ("label", "skip")]
        assert (item in state.skips) == (bool(last) and last[-1] == "skip")


@given(HISTORIES, st.integers(0, 12))
def test_a_fold_in_two_parts_is_the_whole_fold(history, cut):
    records = records_of(history)
    one, other = learner_state(records[:cut], records[cut:]), learner_state(records)
    assert (one.latest_labels, one.skips, one.pending) == (other.latest_labels, other.skips, other.pending)
    assert (one.seq, one.changes) == (other.seq, other.changes)


def test_a_question_taken_over_changes_hands():
    asked = Record("a", "main", "question", "1", {"session": "s", "score": 0.5}, seq=1)
    again = Record("b", "main", "question", "1", {"session": "t", "score": 0.5}, seq=2)
    state = learner_state([asked, again])
    assert state.pending["1"].session == "t"


def test_a_withdrawal_of_one_label_leaves_those_of_others():
    label = lambda key, value: Record(key, "main", "label", "7", {"label": value}, key)  # noqa: E731
    undo = lambda of: Record(f"undo {of}", "main", "withdrawal", "7", {"of": of})  # noqa: E731
    told = [label("ada", "cat"), label("bob", "dog")]
    assert learner_state([*told]).latest_labels == {"7": "dog"}
    assert learner_state([*told, undo("bob")]).latest_labels == {"7": "cat"}
    assert learner_state([*told, undo("ada")]).latest_labels == {"7": "dog"}
    assert learner_state([*told, undo("a skip")]).latest_labels == {"7": "dog"}
    assert learner_state([*told, undo("ada"), undo("bob")]).latest_labels == {}
    assert learner_state(told, [undo("bob")]).latest_labels == {"7": "cat"}


def test_ids_that_look_alike_are_two_items_for_a_learner():
    records = [Record(item, "main", "label", item, {"label": item}) for item in ("7", '"7"')]
    assert learner_state(records).latest_labels == {"7": "7", '"7"': '"7"'}
