"""The contract in memory and in a file, and what is true of files only."""

import gc
import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing, suppress
from functools import partial

import pytest

from askwell.store import open_store
from askwell.store.contract import PrivateStoreContract, StoreContract
from askwell.store.processes import elsewhere
from askwell.store.records import Record, StoreError
from askwell.store.sqlite import SqliteStore


class TestMemory(PrivateStoreContract):
    @pytest.fixture
    def opener(self):
        return partial(open_store, None)


class TestFile(StoreContract):
    kills = 20

    @pytest.fixture
    def opener(self, tmp_path):
        return partial(open_store, f"sqlite:///{tmp_path / 'labels.db'}")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.db"


def label(key):
    return Record(key, "run", "label", "17", {"label": "cat"})


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record SET body = '{}'",
        "DELETE FROM record",
        "INSERT OR REPLACE INTO record SELECT seq, 'other', run, kind, item, body, who, at, checksum FROM record",
        "REPLACE INTO record SELECT seq + 9, key, run, kind, item, '{}', who, at, checksum FROM record",
    ],
)
def test_records_cannot_be_changed_even_by_hand(path, statement):
    with SqliteStore(path) as store:
        stored = store.append([label("a")])
        with closing(sqlite3.connect(path)) as hand, pytest.raises(sqlite3.IntegrityError, match="records are never"):
            hand.execute(statement)
        assert store.read("run") == stored


def test_names_of_one_file_share_its_lock_and_sessions(path, tmp_path):
    with SqliteStore(path) as one:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "link.db").symlink_to(path)
        with SqliteStore(tmp_path / "folder" / "link.db") as two:
            assert one.alive(two.session())
            two.append([label("a")])
            assert len(one.read("run")) == 1
        assert [entry.name for entry in (tmp_path / "folder").iterdir()] == ["link.db"]


def test_a_forgotten_store_is_closed(path):
    with SqliteStore(path) as store:
        forgotten = SqliteStore(path)
        name = forgotten.session()
        assert store.alive(name)
        del forgotten
        gc.collect()
        assert not store.alive(name)


def test_a_store_whose_folder_is_gone_can_be_closed(path, tmp_path):
    store = SqliteStore(path)
    shutil.rmtree(tmp_path)
    with pytest.raises(StoreError, match="gone"):
        store.append([label("a")])
    store.close()
    assert not tmp_path.exists()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_opens_its_own(path):
    with SqliteStore(path) as store, SqliteStore(path) as other:
        child = os.fork()
        if not child:
            try:
                store.read("run")
            except StoreError as error:
                store.close()
                os._exit(0 if "forked" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert other.alive(store.session())
        store.append([label("a")])
        assert len(other.read("run")) == 1


def test_an_error_in_the_middle_leaves_nothing_open(path, monkeypatch):
    with SqliteStore(path) as store, SqliteStore(path) as other:

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "_insert", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.append([label("a")])
        assert other.append([label("b")]) == store.read("run")


# ---- files changed from outside while the store is open --------------------------------------------------------------


def overwrite(path, content):
    """As `cp` and `rsync --inplace` do: the same file, other bytes."""
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(content)


def garble(path):
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(3 * 4096))


def move_and_back(path):
    path.rename(path.with_name("away.db"))
    time.sleep(0.02)
    path.with_name("away.db").rename(path)


def beside(path, ending):
    return path.with_name(path.name + ending)


def replace(path, content):
    path.with_name("draft").write_bytes(content)
    path.with_name("draft").rename(path)


# What is done -> (how, whether all that was acknowledged before must still be there). `backup` is an older database,
# `journal` one of its time.
BLOWS = {
    "nothing": (lambda path, backup, journal: None, True),
    "journal removed": (lambda path, backup, journal: beside(path, "-wal").unlink(), True),
    "index removed": (lambda path, backup, journal: beside(path, "-shm").unlink(), True),
    "both removed": (lambda path, backup, journal: [beside(path, end).unlink() for end in ("-wal", "-shm")], True),
    "journal cut": (lambda path, backup, journal: os.truncate(beside(path, "-wal"), 0), True),
    "journal replaced": (lambda path, backup, journal: replace(beside(path, "-wal"), b""), True),
    "journal replaced by an old one": (lambda path, backup, journal: replace(beside(path, "-wal"), journal), False),
    "an old copy over the database": (lambda path, backup, journal: overwrite(path, backup), False),
    "an old copy as the database": (lambda path, backup, journal: replace(path, backup), False),
    "database cut": (lambda path, backup, journal: os.truncate(path, 4096), False),
    "database emptied": (lambda path, backup, journal: os.truncate(path, 0), False),
    "database deleted": (lambda path, backup, journal: path.unlink(), False),
    "database moved": (lambda path, backup, journal: path.rename(path.with_name("moved.db")), False),
    "moved and back": (lambda path, backup, journal: move_and_back(path), True),
    "pages overwritten": (lambda path, backup, journal: garble(path), False),
}


def append_on_call(opener, line):
    """Append `n` records one by one for each `n` that comes in; the numbers of those that were acknowledged, and what
    was said of the first that was not. 0 closes the store."""
    number, store = 0, opener()
    while wanted := line.recv():
        acknowledged, said = [], ""
        for _ in range(wanted):
            number += 1
            try:
                store.append([Record(str(number), "run", "label", "17", {"text": "x" * 500})])
                acknowledged.append(number)
            except StoreError as error:
                said = said or str(error)
        line.send((acknowledged, said))
    store.close()


@pytest.mark.parametrize("blow", BLOWS)
@pytest.mark.parametrize("more", [0, 40])  # appended after the blow
@pytest.mark.parametrize("end", ["killed", "closed"])
def test_what_is_acknowledged_after_a_blow_to_the_files_is_kept(path, blow, more, end):
    strike, harmless = BLOWS[blow]
    writer, line = elsewhere(append_on_call, partial(SqliteStore, path))
    line.send(40)
    early = line.recv()[0]
    with closing(sqlite3.connect(path)) as reader:  # so that there is a journal with something in it
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchone()
        line.send(2)
        early += line.recv()[0]
        backup, journal = path.read_bytes(), beside(path, "-wal").read_bytes()
        assert journal
    line.send(40)
    early += line.recv()[0]
    assert early == list(range(1, 83))
    strike(path, backup, journal)
    late = []
    if more:
        line.send(more)
        late, said = line.recv()
    if blow not in ("nothing", "journal cut", "moved and back") and more:
        assert not late
        assert "while it was open" in said
        line.send(1)
        assert line.recv()[0] == []  # until it is opened again
    else:
        assert len(late) == more
    with suppress(StoreError):  # a second process: refused, or what it is told is kept as well
        with SqliteStore(path) as second:
            second.append([label("1000")])
            late.append(1000)
        assert "removed" not in blow
    if end == "killed":
        writer.kill()
    else:
        line.send(0)
    writer.join()
    try:
        with SqliteStore(path) as store:
            found = {int(record.key) for record in store.read("run")}
    except StoreError:
        found = set()
    assert {*late} <= found
    if harmless:
        assert {*early} <= found


def test_files_changed_at_any_moment_cost_no_more_than_what_was_in_flight(tmp_path):
    """A writer that never stops, and a journal that is removed under it at any moment."""
    for trial in range(12):
        path = tmp_path / f"{trial}.db"
        acknowledged, refused = [], []
        store = SqliteStore(path)

        def work(store=store, acknowledged=acknowledged, refused=refused):
            for number in range(2_000):
                try:
                    store.append([label(str(number))])
                    acknowledged.append(str(number))
                except StoreError as error:
                    refused.append(str(error))
                    return

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.01 + 0.007 * trial)
        for ending in ("-wal", "-shm") if trial % 2 else ("-wal",):
            beside(path, ending).unlink()
        thread.join()
        assert len(refused) == 1
        copy = tmp_path / f"copy {trial}.db"  # what a process that is killed now leaves
        shutil.copy(path, copy)
        with SqliteStore(copy) as found:
            assert {*acknowledged} <= {record.key for record in found.read("run")}
        store.close()
        with SqliteStore(path) as found:
            assert {*acknowledged} <= {record.key for record in found.read("run")}


def test_two_stores_of_one_file_do_not_take_each_other_for_strangers(path):
    with SqliteStore(path) as one, SqliteStore(path) as two:
        for step in range(20):
            one.append([label(f"one {step}")])
            two.append([label(f"two {step}")])
            if step % 3:
                two.append([label(f"more {step}")])
        assert len(one.read("run")) == len(two.read("run"))


def test_a_reader_holds_nobody_up_and_the_journal_is_emptied_later(path):
    with SqliteStore(path) as store:
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM record").fetchone()
            store.append([label("a")])
            assert beside(path, "-wal").stat().st_size
        store.append([label("b")])
        assert not beside(path, "-wal").stat().st_size
        alone = path.with_name("alone.db")
        shutil.copy(path, alone)  # the database is whole without its journal
    with SqliteStore(alone) as found:
        assert [record.key for record in found.read("run")] == ["a", "b"]


def test_who_opens_or_repeats_beside_another_is_not_taken_for_a_stranger(path):
    """The journal is not empty, and somebody else could move it into the database without storing anything new."""
    with SqliteStore(path) as store, SqliteStore(path) as other:
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM record").fetchone()
            store.append([label("a")])
        assert beside(path, "-wal").stat().st_size
        assert other.append([label("a")]) == store.read("run")
        SqliteStore(path).close()
        store.append([label("b")])
        other.append([label("c")])
        store.append([label("d")])
    with SqliteStore(path) as found:
        assert [record.key for record in found.read("run")] == ["a", "b", "c", "d"]
