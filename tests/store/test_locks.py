"""Locks that end with their holder, and sessions made of them."""

import errno
import fcntl
import os

import pytest

from askwell.store.locks import begin_session, end_session, file_lock, held, session_alive, sweep
from askwell.store.processes import elsewhere
from askwell.store.records import StoreError


def hold(opener, line, path):
    with held(file_lock(path)):
        line.send("held")
        line.recv()


def keep_session(opener, line, folder):
    lock = begin_session(folder)
    line.send(lock.lock_file)
    line.recv()


def test_a_lock_is_for_one_and_ends_with_the_process(tmp_path):
    process, line = elsewhere(hold, None, tmp_path / "lock")
    line.recv()
    with pytest.raises(StoreError, match="another process has held"), held(file_lock(tmp_path / "lock"), patience=0.05):
        pytest.fail("two hold one lock")
    process.kill()
    process.join()
    with held(file_lock(tmp_path / "lock"), patience=5):
        pass


def test_two_locks_of_one_process_exclude_each_other(tmp_path):
    one, two = file_lock(tmp_path / "lock"), file_lock(tmp_path / "lock")
    with held(one), pytest.raises(StoreError, match="has held"), held(two, patience=0):
        pytest.fail("two hold one lock")
    with held(two, patience=0):
        pass


def test_a_folder_that_is_gone_is_not_made_again(tmp_path):
    with pytest.raises(StoreError, match="is gone"), held(file_lock(tmp_path / "gone" / "lock")):
        pytest.fail("a lock in no folder")
    assert not (tmp_path / "gone").exists()


@pytest.mark.filterwarnings("ignore:flock not supported")
def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, "no locks here")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StoreError, match="has no locks"), held(file_lock(tmp_path / "lock")):
        pytest.fail("a lock that is none")


def test_sessions_live_until_they_end(tmp_path):
    folder = tmp_path / "sessions"
    lock = begin_session(folder)
    name = os.path.basename(lock.lock_file)
    assert session_alive(folder, name)
    end_session(lock)
    assert not session_alive(folder, name)
    assert not folder.exists()


def test_what_a_killed_session_leaves_is_swept(tmp_path):
    folder = tmp_path / "sessions"
    own = begin_session(folder)
    process, line = elsewhere(keep_session, None, folder)
    name = os.path.basename(line.recv())
    sweep(folder)
    assert session_alive(folder, name)
    process.kill()
    process.join()
    sweep(folder)
    assert os.listdir(folder) == [os.path.basename(own.lock_file)]
    assert not session_alive(folder, name)
    end_session(own)


def test_names_that_are_no_sessions_are_dead(tmp_path):
    (tmp_path / "sessions").mkdir()
    (tmp_path / "labels.db").touch()
    assert not session_alive(tmp_path / "sessions", "../labels.db")
    assert (tmp_path / "labels.db").exists()
