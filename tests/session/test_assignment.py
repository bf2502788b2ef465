"""Assignment gives what a look at every item would find."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.session.assignment import Assignment, Cursors
from askwell.session.commit import Transaction
from askwell.session.events import text_of
from askwell.store.records import Record


def record(seq, kind, item, body, who=""):
    return Record(f"r{seq}", "main", kind, None if item is None else text_of(item), body, who, seq, float(seq))


def queue(seq, *items):
    rows = [[text_of(item), 0.5, [[text_of("target 1"), 0.25]]] for item in items]
    return record(seq, "queue", None, {"round": seq, "items": rows})


def choose(assignment, who, size, *, now=0.0, transaction=None):
    return assignment.choose(who, size, transaction or Transaction(), now=now)


ITEMS = [f"item {number}" for number in range(30)]


def test_the_queue_comes_first_and_then_all_others_in_a_seeded_order():
    assignment = Assignment(ITEMS, seed=3)
    rest = choose(assignment, "ada", 30)
    assert sorted(rest) == sorted(ITEMS)
    assert rest != ITEMS
    assert rest == choose(Assignment(ITEMS, seed=3), "bob", 99)
    assert rest != choose(Assignment(ITEMS, seed=4), "ada", 30)
    assignment.follow([queue(1, "item 7", "nobody's", "item 2")])
    assert choose(assignment, "ada", 30) == [
        "item 7",
        "item 2",
        *(item for item in rest if item not in ("item 7", "item 2")),
    ]
    assignment.follow([queue(2, "item 5")])
    assert choose(assignment, "ada", 2) == ["item 5", rest[0]]


def test_what_is_in_the_transaction_is_left_out():
    assignment = Assignment(["a", "b"], seed=0)
    first, second = choose(assignment, "ada", 2)
    transaction = Transaction()
    transaction.taken[first] += 1
    transaction.given["bob"] = {first}
    assert choose(assignment, "ada", 2, transaction=transaction) == [second]
    assert choose(assignment, "ada", 2) == [first, second]  # the transaction came to nothing
    assignment.follow([record(1, "rules", None, {"labels_per_item": 2})])
    assert choose(assignment, "ada", 2, transaction=transaction) == [first, second]  # it needs two
    assert choose(assignment, "bob", 2, transaction=transaction) == [second]  # but not from one person


def test_leases_that_run_out_come_back_whatever_the_clock_does_then():
    assignment = Assignment(["a"], seed=0)
    assignment.follow([record(1, "lease", "a", {"token": "t", "at": 0.0, "until": 90.0}, "ada")])
    assert choose(assignment, "bob", 1, now=assignment.at(50.0)) == []
    assert choose(assignment, "bob", 1, now=assignment.at(90.0)) == ["a"]
    assert assignment.at(20.0) == 20.0
    assert choose(assignment, "bob", 1, now=assignment.at(20.0)) == ["a"]


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
        Assignment(items, seed=0)


# ---- cursors -------------------------------------------------------------------------------------------------------


TWELVE = [f"item {place}" for place in range(12)]
step = st.tuples(st.sampled_from(["ask", "close", "open", "peek"]), st.sampled_from(["ada", "bob"]), st.integers(0, 11))


@given(st.lists(step, max_size=60), st.integers(1, 4))
def test_it_is_the_first_of_all_items(steps, size):
    """Items close for one person or for all, and open again: then they are put back."""
    cursors, closed, over = Cursors(TWELVE), {"ada": set(), "bob": set()}, set()
    for deed, who, place in steps:
        item, free = TWELVE[place], lambda item, who=who: item not in closed[who] and item not in over
        if deed == "ask":
            cursors.close(over.__contains__)
            found = cursors.first(who, size, free=free, taken=lambda item: False)
            assert found == [item for item in TWELVE if free(item)][:size]
            closed[who].update(found)
        elif deed == "peek":  # what is taken this time is there the next time
            found = cursors.first(who, size, free=free, taken=lambda other, item=item: other == item)
            assert found == [other for other in TWELVE if free(other) and other != item][:size]
        elif deed == "close":
            over.add(item)
        else:
            over.discard(item)
            for person in closed.values():
                person.discard(item)
            cursors.back(item)


def test_nothing_is_looked_at_twice_in_vain():
    looks = []

    def free(item):
        looks.append(item)
        return item not in gone

    items, gone = [str(place) for place in range(10_000)], set()
    cursors = Cursors(items)
    for _ in range(3_000):
        gone.update(cursors.first("ada", 1, free=free, taken=lambda item: False))
    assert len(looks) < 3 * 3_000
    looks.clear()
    cursors.close(gone.__contains__)  # a newcomer does not cursor past what is over for everybody
    assert cursors.first("bob", 1, free=free, taken=lambda item: False) == ["3000"]
    assert len(looks) == 1


def test_what_is_not_in_the_order_is_not_put_back():
    cursors = Cursors(["a"])
    cursors.back("b")
    assert cursors.first("ada", 2, free=lambda item: True, taken=lambda item: False) == ["a"]
