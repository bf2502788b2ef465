"""Processes at the end of a line."""

import os
from functools import partial

import pytest

from askwell.store import open_store
from askwell.store.processes import count_up, elsewhere, rest, soon, wait, write


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


def test_who_waits_stays_until_told(tmp_path):
    opener = partial(open_store, f"sqlite:///{tmp_path / 'labels.db'}")
    process, line = elsewhere(wait, opener)
    with opener() as store:
        name = line.recv()
        assert store.alive(name)
        line.send("go")
        process.join()
        assert process.exitcode == 0
        assert not store.alive(name)


def test_waiting_ends(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    steps = iter(range(10))
    soon(lambda: next(steps) == 5)
    with pytest.raises(AssertionError, match="did not happen"):
        soon(lambda: False)
