"""A line gives what a look through all items would give, and does not look through all items."""

from hypothesis import given
from hypothesis import strategies as st

from askwell.desk.line import Line

ITEMS = [f"item {place}" for place in range(12)]
step = st.tuples(st.sampled_from(["ask", "close", "open", "peek"]), st.sampled_from(["ada", "bob"]), st.integers(0, 11))


@given(st.lists(step, max_size=60), st.integers(1, 4))
def test_it_is_the_first_of_all_items(steps, size):
    """Items close for one person or for all, and open again: then they are put back."""
    line, closed, over = Line(ITEMS), {"ada": set(), "bob": set()}, set()
    for deed, who, place in steps:
        item, free = ITEMS[place], lambda item, who=who: item not in closed[who] and item not in over
        if deed == "ask":
            line.close(over.__contains__)
            found = line.first(who, size, free=free, taken=lambda item: False)
            assert found == [item for item in ITEMS if free(item)][:size]
            closed[who].update(found)
        elif deed == "peek":  # what is taken this time is there the next time
            found = line.first(who, size, free=free, taken=lambda other, item=item: other == item)
            assert found == [other for other in ITEMS if free(other) and other != item][:size]
        elif deed == "close":
            over.add(item)
        else:
            over.discard(item)
            for person in closed.values():
                person.discard(item)
            line.back(item)


def test_nothing_is_looked_at_twice_in_vain():
    looks = []

    def free(item):
        looks.append(item)
        return item not in gone

    items, gone = [str(place) for place in range(10_000)], set()
    line = Line(items)
    for _ in range(3_000):
        gone.update(line.first("ada", 1, free=free, taken=lambda item: False))
    assert len(looks) < 3 * 3_000
    looks.clear()
    line.close(gone.__contains__)  # a newcomer does not walk past what is over for everybody
    assert line.first("bob", 1, free=free, taken=lambda item: False) == ["3000"]
    assert len(looks) == 1


def test_what_is_not_in_the_line_is_not_put_back():
    line = Line(["a"])
    line.back("b")
    assert line.first("ada", 2, free=lambda item: True, taken=lambda item: False) == ["a"]
