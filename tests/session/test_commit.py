"""GroupCommit: many threads, one append for those who wait, and no request lost whatever goes wrong."""

import sys
import threading
from itertools import pairwise

import pytest

from askwell.session.commit import GroupCommit, Retry
from askwell.store import open_store
from askwell.store.records import Record, StoreError


class Follows:
    """All records, in a list."""

    def __init__(self):
        self.records = []

    @property
    def seq(self):
        return self.records[-1].seq if self.records else 0

    def follow(self, records):
        assert all(a.seq < b.seq for a, b in pairwise([*self.records[-1:], *records]))
        self.records += records

    def keys(self):
        return [record.key for record in self.records]


class Watched:
    """A store in memory that counts, waits and fails as told."""

    def __init__(self, store):
        self.store, self.appends, self.gate, self.error = store, [], None, None

    def append(self, records, *, after=None):
        if self.gate is not None:
            self.gate.wait(10)
        if self.error is not None:
            raise self.error
        stored = self.store.append(records, after=after)
        self.appends.append([record.key for record in records])
        return stored

    def read(self, run, *, after=0):
        return self.store.read(run, after=after)


@pytest.fixture
def store():
    return Watched(open_store(None))


@pytest.fixture
def follower():
    return Follows()


@pytest.fixture
def commits(store, follower):
    return GroupCommit(store, "main", follower)


def record(key, **body):
    return Record(key, "main", "label", '"a"', body)


def adding(follower, key, *, guarded=False, **body):
    """A request that stores one record, and finds it there."""

    def decide(transaction):
        if guarded:
            transaction.guarded.append(record(key, **body))
        else:
            transaction.records[key] = record(key, **body)
        return lambda: follower.keys().count(key)

    return decide


def test_what_is_stored_is_followed(commits, follower):
    assert commits.run(adding(follower, "a")) == 1
    assert commits.run(adding(follower, "b", guarded=True)) == 1
    assert commits.read(follower.keys) == ["a", "b"]


def test_records_of_others_are_followed(commits, follower, store):
    store.store.append([record("theirs")])
    assert commits.read(follower.keys) == ["theirs"]
    store.store.append([record("theirs too")])
    assert commits.run(adding(follower, "ours")) == 1
    assert follower.keys() == ["theirs", "theirs too", "ours"]


def test_those_who_wait_are_served_together(commits, follower, store):
    """While one append waits for the disk nine others come: they share the next one."""
    store.gate = threading.Event()
    found, threads = [], []
    for number in range(10):
        decide = adding(follower, f"key {number}", guarded=number % 2 == 0)
        threads.append(threading.Thread(target=lambda decide=decide: found.append(commits.run(decide))))
        threads[-1].start()
        if number == 0:
            wait_until(lambda: commits._busy and not commits._waiting)
    wait_until(lambda: len(commits._waiting) == 9)
    store.gate.set()
    for thread in threads:
        thread.join()
    assert found == [1] * 10
    assert store.appends[0] == ["key 0"]
    assert [len(keys) for keys in store.appends] == [1, 9]


def test_who_wants_to_be_alone_is(commits, follower, store):
    store.gate = threading.Event()
    threads = []
    for number, alone in enumerate([False, False, True, True, False, False]):
        work = lambda key=f"key {number}", alone=alone: commits.run(adding(follower, key), alone=alone)  # noqa: E731
        threads.append(threading.Thread(target=work))
        threads[-1].start()
        wait_until(lambda number=number: commits._busy and len(commits._waiting) == number)
    store.gate.set()
    for thread in threads:
        thread.join()
    assert store.appends == [["key 0"], ["key 1"], ["key 2"], ["key 3"], ["key 4", "key 5"]]


def test_somebody_elses_record_makes_a_guarded_one_decide_again_and_no_other(commits, follower, store):
    calls = []

    def decide(transaction):
        calls.append(len(follower.records))
        if len(calls) == 1:  # another process is faster
            store.store.append([record("theirs")])
        transaction.records["free"] = record("free")
        transaction.guarded.append(record("guarded"))
        return lambda: follower.keys()

    assert commits.run(decide) == ["theirs", "free", "guarded"]
    assert calls == [0, 2]
    assert store.appends == [["free"], ["free", "guarded"]]


def test_what_did_not_come_true_is_decided_again(commits, follower):
    tries = []

    def decide(transaction):
        tries.append(len(tries))

        def finish():
            if len(tries) < 3:
                raise Retry
            return "at last"

        return finish

    assert commits.run(decide) == "at last"


def test_errors_go_to_the_thread_whose_they_are(commits, follower, store):
    """One request in a batch is wrong, another's key is taken: the others are stored."""
    commits.run(adding(follower, "taken", other="content"))
    store.gate = threading.Event()
    found = {}

    def ask(name, decide):
        try:
            found[name] = commits.run(decide)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"

    def wrong(transaction):
        raise ValueError("size must be a whole number from 1, but it is 0.")

    def broken(transaction):
        return lambda: [][0]

    requests = {
        "first": adding(follower, "first"),
        "good": adding(follower, "good"),
        "wrong": wrong,
        "broken": broken,
        "clash": adding(follower, "taken"),
        "good too": adding(follower, "good too", guarded=True),
    }
    threads = [threading.Thread(target=ask, args=request) for request in requests.items()]
    for number, thread in enumerate(threads):
        thread.start()
        wait_until(lambda number=number: commits._busy and len(commits._waiting) == number)
    store.gate.set()
    for thread in threads:
        thread.join()
    assert found.pop("clash").startswith("ValueError: key 'taken' is stored already with another body")
    assert found == {
        "first": 1,
        "good": 1,
        "wrong": "ValueError: size must be a whole number from 1, but it is 0.",
        "broken": "IndexError: list index out of range",
        "good too": 1,
    }


def test_a_store_that_fails_is_told_to_all_and_is_used_again(commits, follower, store):
    store.error = StoreError("the disk is full")
    with pytest.raises(StoreError, match="the disk is full"):
        commits.run(adding(follower, "a"))
    store.error = None
    assert commits.run(adding(follower, "a")) == 1


def test_an_interrupt_stops_nobody_else(commits, follower, store):
    """Ctrl-C while a thread serves others: it leaves, and they serve themselves."""
    store.gate = threading.Event()
    found = []

    def interrupted(transaction):
        raise KeyboardInterrupt

    def ask(decide):
        try:
            found.append(commits.run(decide))
        except KeyboardInterrupt:
            found.append("interrupted")

    threads = []
    for number, decide in enumerate([adding(follower, "a"), interrupted, adding(follower, "b"), adding(follower, "c")]):
        threads.append(threading.Thread(target=ask, args=(decide,)))
        threads[-1].start()
        wait_until(lambda number=number: commits._busy and len(commits._waiting) == number)
    store.gate.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert sorted(map(str, found)) == ["1", "1", "1", "interrupted"]
    assert not commits._busy


def test_many_threads_lose_nothing(commits, follower):
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        found = []

        def work(name):
            for number in range(40):
                found.append(commits.run(adding(follower, f"{name} {number}", guarded=number % 3 == 0)))
                commits.read(lambda: None)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcdef"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert found == [1] * 240
    assert sorted(follower.keys()) == sorted(f"{name} {number}" for name in "abcdef" for number in range(40))


def wait_until(condition):
    for _ in range(2_000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("what was waited for did not happen")
