"""The contract in memory and in a file, and what is true of files only."""

import gc
import os
import shutil
import sqlite3
from contextlib import closing
from functools import partial

import pytest

from askwell.store import open_store
from askwell.store.contract import PrivateStoreContract, StoreContract
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
