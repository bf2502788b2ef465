"""The fold of records, against a slow reading of the same history."""

from hypothesis import given
from hypothesis import strategies as st

from askwell.store.records import Record
from askwell.store.state import State, fold

ITEMS = st.sampled_from(["1", "2", '"a"'])
HISTORIES = st.lists(
    st.one_of(
        st.tuples(st.just("question"), ITEMS, st.sampled_from(["s", "t"])),
        st.tuples(st.just("label"), ITEMS, st.sampled_from(["cat", "dog"])),
        st.tuples(st.just("withdrawal"), ITEMS, st.just("")),
        st.tuples(st.just("skip"), ITEMS, st.just("dark")),
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


@given(HISTORIES)
def test_what_holds_for_an_item_is_what_its_own_last_records_say(history):
    state = fold(State(), records_of(history))
    for item in ("1", "2", '"a"'):
        own = [(kind, value) for kind, about, value in history if about == item]
        answers = [(kind, value) for kind, value in own if kind in ("label", "withdrawal")]
        label = answers[-1][1] if answers and answers[-1][0] == "label" else None
        assert state.labels.get(item) == label
        open_ = [value for kind, value in own if kind in ("question", "label", "skip")]
        kinds = [kind for kind, _ in own if kind in ("question", "label", "skip")]
        waits = bool(kinds) and kinds[-1] == "question"
        assert (item in state.pending) == waits
        assert not waits or state.pending[item].session == open_[-1]
        last = [kind for kind, _ in own if kind in ("label", "skip")]
        assert (item in state.skipped) == (bool(last) and last[-1] == "skip")
    assert state.changes == sum(kind in ("label", "withdrawal") for kind, *_ in history)


@given(HISTORIES, st.integers(0, 12))
def test_a_fold_in_two_parts_is_the_whole_fold(history, cut):
    records = records_of(history)
    assert fold(fold(State(), records[:cut]), records[cut:]) == fold(State(), records)


def test_a_question_taken_over_changes_hands():
    asked = Record("a", "main", "question", "1", {"session": "s", "score": 0.5}, seq=1)
    again = Record("b", "main", "question", "1", {"session": "t", "score": 0.5}, seq=2)
    state = fold(State(), [asked, again])
    assert state.pending["1"].session == "t"


def test_a_withdrawal_of_one_label_leaves_those_of_others():
    label = lambda key, value: Record(key, "main", "label", "7", {"label": value})  # noqa: E731
    undo = lambda of: Record(f"undo {of}", "main", "withdrawal", "7", {"of": of})  # noqa: E731
    told = [label("ada", "cat"), label("bob", "dog")]
    assert fold(State(), [*told, undo("bob")]).labels == {"7": "cat"}
    assert fold(State(), [*told, undo("ada")]).labels == {"7": "dog"}
    assert fold(State(), [*told, undo("a skip")]).labels == {"7": "dog"}
    assert fold(State(), [*told, undo("ada"), undo("bob")]).labels == {}
    assert fold(fold(State(), told), [undo("bob")]).labels == {"7": "cat"}
