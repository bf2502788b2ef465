"""Leases by token, item and person always tell the same story."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from askwell.session.leases import Cursors, Lease, Leases, Turn
from askwell.store import open_store
from askwell.store.records import Record

step = st.tuples(st.sampled_from(["give", "end", "wait"]), st.integers(0, 4), st.integers(0, 9))


@given(st.lists(step, max_size=40))
def test_it_is_a_list_of_leases(steps):
    """Against a plain list, looked through each time."""
    leases, twin, now, told = Leases(), [], 0.0, set()
    for deed, number, seconds in steps:
        token = f"t{number}"
        known = [lease for lease in twin if lease.token == token]
        if deed == "give":
            lease = Lease(f"item {number % 2}", f"person {number % 3}", token, now + seconds)
            twin = [lease if old.token == token else old for old in twin] if known else [*twin, lease]
            told.discard(token)
            leases.give(lease)
        elif deed == "end" and known:
            twin.remove(known[0])
            leases.end(known[0])
            told.discard(token)
        elif deed == "wait":
            now += seconds
        new = [lease for lease in twin if lease.until <= now and lease.token not in told]
        assert sorted(leases.run_out(now)) == sorted(lease.item for lease in new)  # each is told of once
        told.update(lease.token for lease in new)
        assert leases.live() == sum(lease.until > now for lease in twin)
        assert [leases.held(f"t{place}") for place in range(5)] == [
            next((lease for lease in twin if lease.token == f"t{place}"), None) for place in range(5)
        ]
        for place in range(3):
            assert list(leases.on(f"item {place}")) == [lease for lease in twin if lease.item == f"item {place}"]
            assert leases.of(f"person {place}") == [lease for lease in twin if lease.who == f"person {place}"]
        assert sorted(leases.items()) == sorted({lease.item for lease in twin})
    assert leases.held(None) is None


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


# ---- turns ---------------------------------------------------------------------------------------------------------


def test_a_turn_is_for_one_and_runs_out_unless_it_is_renewed():
    store, now = open_store(None), [1_000.0]
    one, two = (Turn(store, "run", seconds=60, name=name, clock=lambda: now[0]) for name in ("one", "two"))
    assert (one.since(), one.take(), two.take()) == (None, True, False)
    assert (one.is_taken(), two.is_taken()) == (False, True)
    now[0] += 50
    assert one.take()
    now[0] += 50
    assert not two.take()
    assert len(store.read("run")) == 2
    now[0] += 11
    assert one.since() is None
    assert two.take()
    assert not one.take()


def test_a_turn_is_given_back_by_its_holder_only():
    store = open_store(None)
    one, two = (Turn(store, "run", seconds=60, name=name) for name in ("one", "two"))
    assert one.take()
    two.release()
    assert not two.take()
    one.release()
    one.release()
    assert two.take()


def test_a_turn_of_a_process_of_this_machine_ends_with_it(tmp_path):
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    script = (
        "import sys; from askwell.session.leases import Turn; from askwell.store import open_store\n"
        "print(Turn(open_store(sys.argv[1]), 'run', seconds=600).take(), flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "True\n"
    with open_store(url) as store:
        assert not Turn(store, "run", seconds=60).take()
        process.kill()
        process.communicate()
        assert Turn(store, "run", seconds=60).take()


def test_turns_of_an_older_askwell_are_over():
    store = open_store(None)
    store.append([Record("a", "run", "turn", None, {"session": "0123"})])
    assert Turn(store, "run", seconds=60).since() is None
    assert Turn(store, "run", seconds=60).take()
