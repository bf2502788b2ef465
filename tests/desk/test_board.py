"""The board finds what a look at every item would find."""

import pytest

from askwell.desk.board import Board
from askwell.desk.turns import Draft
from askwell.store.records import Record
from askwell.store.run import text_of


def record(seq, kind, item, body, who=""):
    return Record(f"r{seq}", "main", kind, None if item is None else text_of(item), body, who, seq, float(seq))


def queue(seq, *items):
    rows = [[text_of(item), 0.5, [[text_of("target 1"), 0.25]]] for item in items]
    return record(seq, "queue", None, {"round": seq, "items": rows})


def choose(board, who, size, *, now=0.0, draft=None):
    return board.choose(who, size, draft or Draft(), now=now)


ITEMS = [f"item {number}" for number in range(30)]


def test_the_queue_comes_first_and_then_all_others_in_a_seeded_order():
    board = Board(ITEMS, seed=3)
    rest = choose(board, "ada", 30)
    assert sorted(rest) == sorted(ITEMS)
    assert rest != ITEMS
    assert rest == choose(Board(ITEMS, seed=3), "bob", 99)
    assert rest != choose(Board(ITEMS, seed=4), "ada", 30)
    board.follow([queue(1, "item 7", "nobody's", "item 2")])
    assert choose(board, "ada", 30) == [
        "item 7",
        "item 2",
        *(item for item in rest if item not in ("item 7", "item 2")),
    ]
    board.follow([queue(2, "item 5")])
    assert choose(board, "ada", 2) == ["item 5", rest[0]]


def test_what_is_in_the_draft_is_left_out():
    board = Board(["a", "b"], seed=0)
    first, second = choose(board, "ada", 2)
    draft = Draft()
    draft.taken[first] += 1
    draft.given["bob"] = {first}
    assert choose(board, "ada", 2, draft=draft) == [second]
    assert choose(board, "ada", 2) == [first, second]  # the draft came to nothing
    board.follow([record(1, "rules", None, {"labels_per_item": 2})])
    assert choose(board, "ada", 2, draft=draft) == [first, second]  # it needs two
    assert choose(board, "bob", 2, draft=draft) == [second]  # but not from one person


def test_leases_that_run_out_come_back_whatever_the_clock_does_then():
    board = Board(["a"], seed=0)
    board.follow([record(1, "lease", "a", {"token": "t", "at": 0.0, "until": 90.0}, "ada")])
    assert choose(board, "bob", 1, now=board.at(50.0)) == []
    assert choose(board, "bob", 1, now=board.at(90.0)) == ["a"]
    assert board.at(20.0) == 20.0
    assert choose(board, "bob", 1, now=board.at(20.0)) == ["a"]


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
        Board(items, seed=0)
