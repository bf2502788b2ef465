"""The contract itself: a store made of a list keeps it, and stores with one fault are found."""

import os
import threading
from functools import partial

import pytest

from askwell.store import open_store
from askwell.store.contract import PrivateStoreContract, count_up, elsewhere, rest, write
from askwell.store.records import Record, Store, StoreError, contents, fresh, kept


class ListStore:
    """The slow and obvious store. `fault` names what it does wrong."""

    def __init__(self, fault=""):
        self.fault, self.rows, self.mutex = fault, [], threading.Lock()
        self.open, self.times = True, {}

    def check(self):
        if not self.open and self.fault != "usable when closed":
            raise StoreError("the store is closed")

    def append(self, records, *, after=None):
        self.check()
        if self.fault == "stores part":
            for record in records[:-1]:
                self.rows += [(len(self.rows) + 1, row) for row in contents([record])]
        with self.mutex:
            rows = contents(records)
            if not rows:
                return []
            known = {} if self.fault == "forgets keys" else {row[0]: row for _, row in self.rows}
            last = max([seq for seq, row in self.rows if row[1] == rows[0][1]], default=0)
            after = None if self.fault == "ignores after" else after
            given = {} if self.fault == "forgets times" else {record.key: record.at for record in records}
            for row in fresh(rows, known, last=last, after=after):
                self.rows.append((len(self.rows) + 1, row))
                self.times[row[0]] = given.get(row[0]) or 1.8e9
            places = {row[0]: seq for seq, row in self.rows}
            return [kept(row, places[row[0]], self.times[row[0]]) for row in rows]

    def read(self, run, *, after=0):
        self.check()
        found = [kept(row, seq, self.times[row[0]]) for seq, row in self.rows if row[1] == run and seq > after]
        return found[::-1] if self.fault == "disorderly" else found

    def runs(self):
        self.check()
        return list(dict.fromkeys(row[1] for _, row in self.rows))

    def close(self):
        self.open = False

    def __enter__(self):
        self.check()
        return self

    def __exit__(self, *_):
        self.close()


class TestListStore(PrivateStoreContract):
    @pytest.fixture
    def opener(self, monkeypatch):
        monkeypatch.setattr("time.time", lambda: 1.8e9)
        return ListStore


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("forgets keys", "test_the_same_again_is_stored_once"),
        ("ignores after", "test_after"),
        ("stores part", "test_what_cannot_be_kept_is_refused_whole"),
        ("disorderly", "test_records_come_back_in_order"),
        ("usable when closed", "test_a_closed_store_says_so"),
        ("forgets times", "test_a_record_that_has_a_time_keeps_it"),
    ],
)
def test_a_faulty_store_is_found(fault, test):
    faulty = {"store": ListStore(fault), "opener": lambda: ListStore(fault)}
    argument = "opener" if "closed" in test else "store"
    more = {"bad": Record("", "run", "label", "1", {}), "message": "key"} if "refused" in test else {}
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(PrivateStoreContract(), test)(**{argument: faulty[argument]}, **more)
    right = {"store": ListStore(), "opener": ListStore}
    if "order" not in test:  # which looks at the clock
        getattr(PrivateStoreContract(), test)(**{argument: right[argument]}, **more)


@pytest.mark.parametrize("fault", ["forgets keys", "ignores after", "disorderly"])
def test_faults_are_found_by_histories_too(fault):
    """The test that makes random histories, with one of them."""
    check = PrivateStoreContract.test_any_history_is_that_of_a_list.hypothesis.inner_test
    history = [("r", [("a", 0), ("b", 0)], None), ("r", [("a", 0)], None), ("r", [("c", 0)], 1), ("s", [("a", 1)], 0)]
    check(PrivateStoreContract(), store=ListStore(), history=history)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(PrivateStoreContract(), store=ListStore(fault), history=history)


def test_the_hook_has_to_be_given():
    with pytest.raises(NotImplementedError, match="override the fixture"):
        PrivateStoreContract.opener.__wrapped__(PrivateStoreContract())
    assert isinstance(ListStore(), Store)


# ---- other processes ----


def test_work_is_done_in_another_process():
    process, line = elsewhere(lambda opener, line, *values: line.send((os.getpid(), opener(), values)), lambda: 7, 1, 2)
    pid, opened, values = line.recv()
    assert (opened, values) == (7, (1, 2))
    assert pid == process.pid != os.getpid()
    process.join()
    assert list(rest(line)) == []


def test_the_rest_is_what_was_sent_before_the_end(tmp_path):
    opener = partial(open_store, f"sqlite:///{tmp_path / 'labels.db'}")
    process, line = elsewhere(write, opener, "w", 3)
    process.join()
    assert list(rest(line)) == ["begin", "w 0", "w 1", "w 2"]
    process, line = elsewhere(count_up, opener, "c", 2)
    assert line.recv() == "done"
    process.join()
    with opener() as store:
        assert [(record.key, record.body) for record in store.read("run")][3:] == [
            ("c 0", {"seen": 3}),
            ("c 1", {"seen": 4}),
        ]
