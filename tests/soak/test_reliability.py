"""The promises of docs/reliability.md in a small size; `make soak` runs them in full."""

import asyncio
import time

import pytest

from askwell.store.records import Record
from soak import Found, cuts, damage, folder, full, kills, late, load, spread, traces, upgrades
from soak.lives import Nursery
from soak.people import Crowd, audit, free_port, made, records_of

needs_mount = pytest.mark.skipif(not full.mountable(), reason="this user may not mount a disk of memory")
needs_strace = pytest.mark.skipif(not traces.available(), reason="no strace, or it may not look at processes")


@pytest.fixture(scope="module")
def nursery():
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def place():
    with folder() as place:
        yield place


# ---- the audit itself finds what it is there for -----------------------------------------------------------------


def stored(*records):
    return [
        Record(key, "main", kind, item, body, who, seq) for seq, (key, kind, item, body, who) in enumerate(records, 1)
    ]


ONE = ("k1", "label", '"a"', {"label": "ham"}, "person 1")
TWO = ("k2", "label", '"b"', {"label": "spam"}, "person 2")
TOLD = {"k1": ("label", "person 1", "a", "ham"), "k2": ("label", "person 2", "b", "spam")}


def test_an_audit_of_what_is_right_finds_nothing():
    assert audit(stored(ONE, TWO), TOLD, TOLD) == []
    assert audit(stored(ONE, TWO), {}, TOLD) == []  # stored without being acknowledged: the server died in between
    taken_back = [
        ("k3", "withdrawal", '"a"', {"of": "k1"}, "person 1"),
        ("k4", "label", '"a"', {"label": "ham"}, "person 2"),
    ]
    more = TOLD | {"k3": ("withdrawal", "person 1", None, None), "k4": ("label", "person 2", "a", "ham")}
    assert audit(stored(ONE, TWO, *taken_back), more, more) == []


@pytest.mark.parametrize(
    ("records", "told", "word"),
    [
        ([ONE], TOLD, "lost"),
        ([ONE, TWO, TWO], TOLD, "stored 2 times"),
        ([ONE, ("k2", "label", '"b"', {"label": "ham"}, "person 2")], TOLD, "changed"),
        ([ONE, ("k2", "label", '"c"', {"label": "spam"}, "person 2")], TOLD, "changed"),
        ([ONE, TWO, ("k9", "label", '"c"', {"label": "ham"}, "person 3")], TOLD, "never sent"),
        (
            [ONE, ("k2", "label", '"a"', {"label": "spam"}, "person 2")],
            {**TOLD, "k2": ("label", "person 2", "a", "spam")},
            "labels of person 1 and person 2",
        ),
    ],
)
def test_an_audit_finds_what_is_wrong(records, told, word):
    assert word in "\n".join(audit(stored(*records), told, told))


def test_figures_are_by_rank():
    assert spread([n / 1000 for n in range(100, 0, -1)]) == {"p50": 51.0, "p95": 96.0, "p99": 100.0}
    assert str(Found({"kills": 2}, ["lost"])) == "kills 2; 1 faults\n    lost"


def test_a_trace_shows_what_was_sent_too_early():
    asked, synced, told = 'recvfrom(13, "POST /api/answers', "fdatasync(7) = 0", 'sendto(13, "HTTP/1.1 200 OK'
    assert traces._unsynced([asked, synced, told] * 2, 2) == []
    assert traces._unsynced([asked, synced, told, asked, told, synced], 2) == [
        f"acknowledged before it was on the disk: {told}"
    ]
    assert traces._unsynced([asked, "fdatasync(7) = -1 EIO", told], 1)
    assert traces._unsynced([synced], 1) == ["0 of 1 saves were seen"]


# ---- the promises ------------------------------------------------------------------------------------------------


def test_kills_lose_nothing(nursery, place):
    found = kills.killed(nursery, place, 50, seed=0)
    assert not found.faults, found
    assert found.figures["kills"] == 50
    assert found.figures["acknowledged"] > 25  # four lives in five are let live until one more is
    assert found.figures["never answered"] > 0


def test_kills_lose_nothing_in_postgresql(nursery, place, postgres_server):
    found = kills.killed(nursery, place, 20, seed=5, server=postgres_server)  # twice the database dies too
    assert not found.faults, found
    assert found.figures["acknowledged"] > 10
    assert found.figures["deaths of the database"] == 2


def test_power_cuts_in_a_write_leave_what_was_before(place):
    figures = {}
    assert not cuts.cut(place, 60, figures, seed=0)
    assert figures["cuts"] == 60


def test_snapshots_hold_all_that_was_acknowledged(place):
    figures = {}
    assert not cuts.copied(place, 16, figures, seed=0)
    assert figures["snapshots"] == 8


def test_late_answers_are_kept():
    found = late.run(0.02)
    assert not [fault for fault in found.faults if "seconds after" not in fault], found
    assert found.figures["lost leases"] == 20


def test_many_people_at_once(nursery, place):
    project, port = made(place, items=2_000), free_port()
    life = nursery.serve(project, port, out=place / "said")
    assert life.ready(port), life.said()
    office = load.Office(port, pause=0.2, seed=0)
    asyncio.run(office.work(2.0))
    life.kill()
    assert not office.faults
    assert len(office.acknowledged) > load.PEOPLE
    assert not audit(records_of(project), office.acknowledged, office.acknowledged)


@needs_strace
def test_answers_are_on_the_disk_before_they_are_acknowledged(nursery, place):
    assert not traces.unsynced(nursery, place, 10)


@pytest.mark.parametrize(
    ("way", "plain"),
    [
        (full.limited, False),
        pytest.param(full.ballasted, False, marks=needs_mount),
        (full.forbidden, True),
        pytest.param(traces.failing, False, marks=needs_strace),
    ],
)
def test_a_disk_that_fails(nursery, place, way, plain):
    with full.small_disk(place / "disk") if way is full.ballasted else folder():
        found = full.filled(nursery, place, way, 2, seed=0, plain=plain)
    assert not found.faults, found
    assert found.figures["answered 503"] > 50
    assert found.figures["failures"] == 2


def test_damaged_databases_are_refused_or_right():
    found = damage.run(0)
    assert not found.faults, found
    assert found.figures["status refused"] > 4
    assert found.figures["status right"] > 4


def test_upgrades():
    found = upgrades.run(0.03)
    assert not found.faults, found
    assert found.figures["killed before the end"] > 0


def test_a_crowd_stops_when_nobody_answers():
    with Crowd(free_port(), people=2) as crowd:
        time.sleep(0.1)
    assert crowd.statuses[0] > 0
    assert not crowd.acknowledged
    assert not crowd.faults
