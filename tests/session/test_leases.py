"""Leases by token, item and person always tell the same story."""

from hypothesis import given
from hypothesis import strategies as st

from askwell.session.leases import Lease, Leases

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
