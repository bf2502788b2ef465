"""Files: made whole, examined before use, and refused without being touched."""

import os
import resource
import shutil
import sqlite3
import time
from contextlib import closing, contextmanager
from functools import partial

import pytest

from askwell.seeds import rng_for
from askwell.store.files import APPLICATION, make
from askwell.store.processes import elsewhere
from askwell.store.records import Record, StoreError
from askwell.store.sqlite import MIGRATIONS, SqliteStore

SECOND = (*MIGRATIONS, ("ALTER TABLE record ADD COLUMN colour TEXT", "CREATE TABLE extra (x)"))
LONG = (*MIGRATIONS, (
    "CREATE TABLE extra (x)",
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 60000) INSERT INTO extra SELECT x FROM n",
    "ALTER TABLE record ADD COLUMN colour TEXT",
))  # fmt: skip


def labels(start, stop):
    return [
        Record(f"key {n}", "run", "label", str(n), {"label": "cat" if n % 3 else "dog", "n": n})
        for n in range(start, stop)
    ]


def snapshot(folder):
    """Everything in a folder but the locks, byte for byte."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.suffix != ".db-lock"}


def open_as_nobody(opener, line):
    """What a user who may not do everything is told."""
    if not os.geteuid():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        opener().close()
        line.send("it could be opened")
    except StoreError as error:
        line.send(str(error))


@pytest.fixture
def filled(tmp_path):
    """A closed store of 150 records, and these records."""
    path = tmp_path / "labels.db"
    with SqliteStore(path) as store:
        for start in range(0, 150, 10):
            store.append(labels(start, start + 10))
        return path, store.read("run")


# ---- making --------------------------------------------------------------------------------------------------------


def test_a_new_file_is_ours_and_nothing_is_left_beside_it(tmp_path):
    SqliteStore(tmp_path / "labels.db").close()
    assert {path.name for path in tmp_path.iterdir()} == {"labels.db", "labels.db-lock"}
    with closing(sqlite3.connect(tmp_path / "labels.db")) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_what_a_killed_maker_left_is_in_nobodys_way(tmp_path):
    (tmp_path / "labels.db-new").write_bytes(b"half of a database")
    (tmp_path / "labels.db-new-journal").write_bytes(b"and of a journal")
    with SqliteStore(tmp_path / "labels.db") as store:
        store.append(labels(0, 1))
    assert not (tmp_path / "labels.db-new").exists()
    assert not (tmp_path / "labels.db-new-journal").exists()


def test_a_file_that_cannot_be_made_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="syntax error"):
        make(tmp_path / "labels.db", [*MIGRATIONS, ["NO SUCH STATEMENT"]])
    assert list(tmp_path.iterdir()) == []


# ---- refusing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"id,label\n1,cat\n" * 50, "not an SQLite file"),
        (b"SQLite format 3\0", "not an SQLite file"),
    ],
)
def test_what_is_no_database_is_left_alone(tmp_path, content, message):
    (tmp_path / "labels.db").write_bytes(content)
    with pytest.raises(StoreError, match=message):
        SqliteStore(tmp_path / "labels.db")
    assert snapshot(tmp_path) == {"labels.db": content}


def test_another_programs_database_is_left_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "theirs.db")) as connection:
        connection.execute("CREATE TABLE record (seq INTEGER PRIMARY KEY)")
    before = snapshot(tmp_path)
    with pytest.raises(StoreError, match="another program"):
        SqliteStore(tmp_path / "theirs.db")
    assert snapshot(tmp_path) == before


def test_a_folder_and_no_folder(tmp_path):
    with pytest.raises(StoreError, match="it is a folder"):
        SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="there is no folder"):
        SqliteStore(tmp_path / "missing" / "labels.db")
    assert list(tmp_path.iterdir()) == []


def look_as_nobody(opener, line):
    """What a user who may only read finds, and what they are told when they write."""
    if not os.geteuid():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    with opener() as store:
        line.send((store.runs(), len(store.read("run"))))
        for use in (lambda: store.append(labels(0, 1)), lambda: store.append(labels(900, 901))):
            try:
                use()
                line.send("it was stored")
            except StoreError as error:
                line.send(str(error))


@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
@pytest.mark.parametrize("journal", [False, True])
def test_a_copy_that_may_only_be_read_can_be_looked_at(filled, tmp_path, enterable, folder_mode, journal):
    path = filled[0]
    if journal:  # left behind, and empty
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).touch()
    enterable(tmp_path)
    before = snapshot(tmp_path)
    path.chmod(0o444)
    tmp_path.chmod(folder_mode)
    try:
        process, line = elsewhere(look_as_nobody, partial(SqliteStore, path, writable=False))
        assert line.recv() == (["run"], 150)
        assert "open for looking only" in line.recv()
        assert "open for looking only" in line.recv()
        process.join()
        found = snapshot(tmp_path)
        assert {name: found[name] for name in before if name == path.name} == {path.name: before[path.name]}
    finally:
        tmp_path.chmod(0o755)


def test_a_copy_to_look_at_must_be_there(tmp_path):
    with pytest.raises(StoreError, match="there is no store"):
        SqliteStore(tmp_path / "labels.db", writable=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "folder_mode", "message"),
    [
        ("labels.db", 0o555, "the folder may not be written"),
        ("new.db", 0o555, "the folder may not be written"),
        ("labels.db", 0o777, "it may not be read and written"),
    ],
)
def test_what_may_not_be_written_is_said(filled, tmp_path, enterable, name, folder_mode, message):
    filled[0].chmod(0o444)
    enterable(tmp_path)
    before = snapshot(tmp_path)
    tmp_path.chmod(folder_mode)
    try:
        process, line = elsewhere(open_as_nobody, partial(SqliteStore, tmp_path / name))
        assert message in line.recv()
        process.join()
        assert snapshot(tmp_path) == before
    finally:
        tmp_path.chmod(0o755)


@contextmanager
def reading(path):
    """While somebody reads, what is appended stays in the journal."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM record").fetchone()
        yield


def test_a_journal_without_its_database_is_not_buried(tmp_path):
    with SqliteStore(tmp_path / "labels.db") as store, reading(tmp_path / "labels.db"):
        store.append(labels(0, 5))
        shutil.copy(tmp_path / "labels.db-wal", tmp_path / "lost.db-wal")
    with pytest.raises(StoreError, match=r"lost\.db-wal is there without its database"):
        SqliteStore(tmp_path / "lost.db")
    assert not (tmp_path / "lost.db").exists()


@pytest.mark.parametrize("change", ["remove", "replace"])
def test_a_file_that_is_taken_away_is_noticed(tmp_path, change):
    path = tmp_path / "labels.db"
    with SqliteStore(path) as store:
        store.append(labels(0, 5))
        path.rename(tmp_path / "elsewhere.db")
        if change == "replace":
            shutil.copy(tmp_path / "elsewhere.db", path)
        with pytest.raises(StoreError, match="moved, deleted or replaced"):
            store.append(labels(5, 6))
        if change == "remove":
            with pytest.raises(StoreError, match="another process has it open, and one of its files was removed"):
                SqliteStore(path)  # an empty one would be two
            assert not path.exists()
            (tmp_path / "elsewhere.db").rename(path)
            store.append(labels(5, 6))
    if change == "remove":
        with SqliteStore(path) as store:
            assert len(store.read("run")) == 6


# ---- damage --------------------------------------------------------------------------------------------------------


def harmed(data, rng):
    """The bytes with one harm: some flipped, zeroed or moved, or the end cut off."""
    data, place = bytearray(data), int(rng.integers(len(data)))
    kind = rng.integers(5)
    if kind == 0:
        data[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[place : place + 64] = rng.bytes(len(data[place : place + 64]))
    elif kind == 2:
        data[place : place + 512] = bytes(len(data[place : place + 512]))
    elif kind == 3:
        del data[place:]
    else:
        pages = len(data) // 4096
        one, two = (int(page) * 4096 for page in rng.integers(pages, size=2))
        data[one : one + 4096] = data[two : two + 4096]
    return bytes(data)


def test_damaged_files_are_refused_or_right_and_never_touched(filled, tmp_path):
    path, truth = filled
    whole, refused = path.read_bytes(), 0
    for case in range(80):
        copy = tmp_path / f"case {case}"
        copy.mkdir()
        data = harmed(whole, rng_for(case, 0, "harm"))
        (copy / "labels.db").write_bytes(data)
        try:
            with SqliteStore(copy / "labels.db") as store:
                assert store.read("run") == truth, case
                assert store.runs() == ["run"]
        except StoreError:
            refused += 1
        assert (copy / "labels.db").read_bytes() == data, case
    assert refused > 40


def test_a_changed_letter_is_noticed(filled):
    """SQLite does not see it: the page is well formed."""
    path, _ = filled
    data = path.read_bytes()
    assert data.count(b'"n":77}') == 1
    path.write_bytes(data.replace(b'"n":77}', b'"n":78}'))
    with SqliteStore(path) as store, pytest.raises(StoreError, match="record 78 is not as it was stored"):
        store.read("run")


def test_a_journal_cut_anywhere_leaves_a_prefix(tmp_path):
    """What the power going off leaves: whole calls of append, from the first on."""
    path, ends, truth = tmp_path / "labels.db", {0}, []
    with SqliteStore(path) as store, reading(path):
        for size in (1, 2, 30, 1, 5) * 3:
            truth += store.append(labels(len(truth), len(truth) + size))
            ends.add(len(truth))
        database, journal = path.read_bytes(), (tmp_path / "labels.db-wal").read_bytes()
    rng, lengths = rng_for(0, 0, "cuts"), set()
    for cut in [0, 1, 31, 32, len(journal), *(int(place) for place in rng.integers(len(journal), size=100))]:
        copy = tmp_path / "copy"
        copy.mkdir()
        (copy / "labels.db").write_bytes(database)
        (copy / "labels.db-wal").write_bytes(journal[:cut])
        with SqliteStore(copy / "labels.db") as store:
            found = store.read("run")
            assert found == truth[: len(found)]
            assert len(found) in ends
            lengths.add(len(found))
            store.append([Record("new", "run", "label", "x", {})])
        shutil.rmtree(copy)
    assert {0, len(truth)} < lengths


def fill(opener, line):
    """Append until it fails because the file may not grow, then with room again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opener() as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
        count = 0
        try:
            for count in range(1000):
                store.append([Record(f"{count}", "run", "label", "x", {"text": "x" * 3000})])
        except StoreError as error:
            line.send((count, str(error)))
        line.send(len(store.read("run")))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        store.append([Record(f"{count}", "run", "label", "x", {"text": "room again"})])
        line.send("done")


def test_a_full_disk_loses_nothing_and_is_said(tmp_path):
    process, line = elsewhere(fill, partial(SqliteStore, tmp_path / "labels.db"))
    count, message = line.recv()
    assert 0 < count < 1000
    assert "Nothing was stored" in message
    assert line.recv() == count
    assert line.recv() == "done"
    process.join()
    with SqliteStore(tmp_path / "labels.db") as store:
        assert len(store.read("run")) == count + 1


# ---- migrations ----------------------------------------------------------------------------------------------------


def test_an_old_file_is_brought_up_to_date(filled):
    path, truth = filled
    with SqliteStore(path, migrations=SECOND) as store:
        assert store.read("run") == truth
        store.append(labels(150, 151))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT count(*), count(colour) FROM record").fetchone() == (151, 0)


def test_a_newer_file_is_refused_and_left_alone(filled, tmp_path):
    path, _ = filled
    SqliteStore(path, migrations=SECOND).close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="schema 2, and this askwell knows up to 1"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_file_upgraded_while_open_is_not_written_by_the_old(filled):
    path, truth = filled
    with SqliteStore(path) as old:
        with SqliteStore(path, migrations=SECOND) as new:
            new.append(labels(150, 151))
        with pytest.raises(StoreError, match="upgrade this one"):
            old.append(labels(151, 152))
        assert len(old.read("run")) == len(truth) + 1


def test_a_migration_that_fails_changes_nothing(filled):
    path, truth = filled
    before = path.read_bytes()
    with pytest.raises(StoreError, match="syntax error"):
        SqliteStore(path, migrations=[*MIGRATIONS, ["CREATE TABLE extra (x)", "NO SUCH STATEMENT"]])
    assert path.read_bytes() == before
    with SqliteStore(path) as store:
        assert store.read("run") == truth


def upgrade(opener, line):
    line.send("begin")
    with opener() as store:
        line.send(len(store.read("run")))


def test_two_processes_upgrade_at_once(filled):
    path, truth = filled
    workers = [elsewhere(upgrade, partial(SqliteStore, path, migrations=LONG)) for _ in range(3)]
    for process, line in workers:
        assert [line.recv(), line.recv()] == ["begin", len(truth)]
        process.join()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM extra").fetchone() == (60_000,)


def test_an_upgrade_killed_half_way_is_not_begun_or_done(filled, tmp_path):
    path, truth = filled
    rng = rng_for(0, 0, "upgrades")
    for case in range(6):
        copy = shutil.copy(path, tmp_path / f"copy {case}.db")
        process, line = elsewhere(upgrade, partial(SqliteStore, copy, migrations=LONG))
        line.recv()
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        process.join()
        with SqliteStore(copy, migrations=LONG) as store:
            assert store.read("run") == truth
