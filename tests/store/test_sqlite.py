"""The contract in memory and in a file, and what is true of files only."""

import gc
import os
import resource
import shutil
import sqlite3
import threading
import time
from contextlib import closing, suppress
from functools import partial

import pytest

from askwell.seeds import rng_for
from askwell.store import open_store
from askwell.store.contract import PrivateStoreContract, StoreContract, elsewhere
from askwell.store.records import Record, StoreError
from askwell.store.sqlite import APPLICATION, MIGRATIONS, SqliteStore, _set, make, nobody_has


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


def test_names_of_one_file_share_its_lock(path, tmp_path):
    with SqliteStore(path) as one:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "link.db").symlink_to(path)
        with SqliteStore(tmp_path / "folder" / "link.db") as two:
            with nobody_has(path) as alone:
                assert not alone
            two.append([label("a")])
            assert len(one.read("run")) == 1
        assert [entry.name for entry in (tmp_path / "folder").iterdir()] == ["link.db"]


def test_a_forgotten_store_is_closed(path):
    with SqliteStore(path) as store:
        forgotten = SqliteStore(path)
        store.close()
        with nobody_has(path) as alone:
            assert not alone
        del forgotten
        gc.collect()
        with nobody_has(path) as alone:
            assert alone


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
# `journal` a piece of one.
BLOWS = {
    "nothing": (lambda path, backup, journal: None, True),
    "journal removed": (lambda path, backup, journal: beside(path, "-journal").unlink(), True),
    "journal cut": (lambda path, backup, journal: os.truncate(beside(path, "-journal"), 0), True),
    "journal replaced": (lambda path, backup, journal: replace(beside(path, "-journal"), b""), True),
    "journal replaced by an old one": (lambda path, backup, journal: replace(beside(path, "-journal"), journal), True),
    "lock removed": (lambda path, backup, journal: beside(path, "-lock").unlink(), True),
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
    backup, journal = path.read_bytes(), beside(path, "-journal").read_bytes()
    assert journal
    line.send(42)
    early += line.recv()[0]
    assert early == list(range(1, 83))
    strike(path, backup, journal)
    late = []
    if more:
        line.send(more)
        late, said = line.recv()
    if not harmless and more:
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
        assert blow not in ("database deleted", "database moved")  # or there would be two
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


def test_a_journal_that_is_removed_at_any_moment_costs_nothing(tmp_path):
    """A writer that never stops, and a journal that is removed under it at any moment."""
    for trial in range(12):
        path = tmp_path / f"{trial}.db"
        acknowledged, stop = [], threading.Event()
        store = SqliteStore(path)

        def work(store=store, acknowledged=acknowledged, stop=stop):
            for number in range(2_000):
                if stop.is_set():
                    return
                store.append([label(str(number))])
                acknowledged.append(str(number))

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(3):
            time.sleep(0.01 + 0.007 * trial)
            beside(path, "-journal").unlink(missing_ok=True)
        stop.set()
        thread.join()
        assert acknowledged
        copy = tmp_path / f"copy {trial}.db"  # what a process that is killed now leaves
        shutil.copy(path, copy)
        store.close()
        for each in (copy, path):
            with SqliteStore(each) as found:
                assert {record.key for record in found.read("run")} == {*acknowledged}


def test_two_stores_of_one_file_do_not_take_each_other_for_strangers(path):
    with SqliteStore(path) as one, SqliteStore(path) as two:
        for step in range(20):
            one.append([label(f"one {step}")])
            two.append([label(f"two {step}")])
            if step % 3:
                two.append([label(f"more {step}")])
        assert len(one.read("run")) == len(two.read("run"))


def test_the_database_is_whole_without_anything_beside_it(path):
    with SqliteStore(path) as store:
        for key in "abc":
            store.append([label(key)])
            alone = path.with_name(f"{key}.db")
            shutil.copy(path, alone)
        for number, key in enumerate("abc", 1):
            with SqliteStore(path.with_name(f"{key}.db")) as found:
                assert len(found.read("run")) == number


def test_a_writer_waits_for_a_reader_and_nobody_is_told_that_it_is_locked(path):
    with SqliteStore(path) as store, closing(sqlite3.connect(path, check_same_thread=False)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM record").fetchone()
        timer = threading.Timer(0.3, reader.rollback)
        timer.start()
        begin = time.monotonic()
        store.append([label("a")])
        assert time.monotonic() - begin > 0.1
        timer.join()
        assert len(store.read("run")) == 1


def test_a_file_of_an_older_askwell_is_opened_and_changed_to_the_new_journal(path):
    """Until version 0.1 files were in WAL mode."""
    with SqliteStore(path) as store:
        before = store.append([label("a")])
    with closing(sqlite3.connect(path)) as old:
        assert old.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        old.execute("BEGIN")
        old.execute("SELECT count(*) FROM record").fetchone()
    with SqliteStore(path, writable=False) as store:
        assert store.read("run") == before
    with SqliteStore(path) as store:
        assert store.read("run") == before
        store.append([label("b")])
    assert {each.name for each in path.parent.iterdir()} == {"labels.db", "labels.db-lock"}


def test_a_file_that_an_older_askwell_has_open_is_refused(path):
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        old.execute("SELECT count(*) FROM record").fetchone()
        with pytest.raises(StoreError, match=r"an older askwell has it open|keeps it locked"):
            SqliteStore(path)


# ---- whether anybody has it open -------------------------------------------------------------------------------------


def keep_open(opener, line):
    with opener():
        line.send("open")
        line.recv()


def test_a_file_is_in_use_until_it_is_closed_or_its_process_dies(path):
    with SqliteStore(path), nobody_has(path) as alone:
        assert not alone
    with nobody_has(path) as alone:
        assert alone
    process, line = elsewhere(keep_open, partial(SqliteStore, path))
    assert line.recv() == "open"
    with nobody_has(path) as alone:
        assert not alone
    process.kill()
    process.join()
    with nobody_has(path) as alone:
        assert alone


def test_nobody_opens_what_is_being_replaced(path):
    SqliteStore(path).close()
    with nobody_has(path):
        process, line = elsewhere(keep_open, partial(SqliteStore, path))
        assert not line.poll(0.5)
    assert line.recv() == "open"
    process.kill()
    process.join()


def test_many_make_one_file(tmp_path):
    """Whoever is first: all open the same."""
    for trial in range(3):
        path = tmp_path / f"{trial}.db"
        workers = [elsewhere(append_on_call, partial(SqliteStore, path)) for _ in range(4)]
        for _, line in workers:
            line.send(1)
        for process, line in workers:
            line.recv()
            process.kill()
            process.join()
        with SqliteStore(path) as store:
            assert [record.key for record in store.read("run")] == ["1"]


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
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
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
        for ending in ("-wal", "-shm", "-journal"):
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


def test_a_journal_without_its_database_is_not_buried(tmp_path):
    for ending in ("-journal", "-wal"):
        (tmp_path / f"lost.db{ending}").write_bytes(b"the last transaction")
        with pytest.raises(StoreError, match=rf"lost\.db{ending} is there without its database"):
            SqliteStore(tmp_path / "lost.db")
        assert not (tmp_path / "lost.db").exists()
        (tmp_path / f"lost.db{ending}").unlink()


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


def torn(path, rows):
    """(database, journal) in the middle of a transaction of SQLite's: pages are written, and not committed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 2")  # so that pages are written before the end
        writer.execute("PRAGMA cache_spill = 1")
        writer.execute("BEGIN IMMEDIATE")
        (last,) = writer.execute("SELECT max(seq) FROM record").fetchone()
        for n in range(rows):
            values = (last + 1 + n, f"torn {n}", "x" * 900)
            writer.execute("INSERT INTO record VALUES (?, ?, 'run', 'label', '1', ?, '', 0.0, 0)", values)
        found = path.read_bytes(), path.with_name(path.name + "-journal").read_bytes()
        writer.execute("ROLLBACK")
        return found


def test_what_the_power_going_off_in_the_middle_of_a_write_leaves_is_what_was_before(filled, tmp_path):
    """A journal that reached the disk takes back what was written; one that did not has nothing to take back."""
    path, truth = filled
    whole = path.read_bytes()
    for rows in (1, 30, 300):
        database, journal = torn(path, rows)
        assert (database != whole) == (rows > 1)
        ends = (0, 1, 7, 27, 28, 511, 512, 600, len(journal))
        for number, end in enumerate([len(journal)] if database != whole else ends):
            copy = tmp_path / f"copy {rows} {number}"
            copy.mkdir()
            (copy / "labels.db").write_bytes(database)
            (copy / "labels.db-journal").write_bytes(journal[:end])
            with SqliteStore(copy / "labels.db") as store:
                assert store.read("run") == truth
                store.append([Record("new", "run", "label", "x", {})])


def test_a_journal_beside_another_database_is_refused_and_both_are_left_alone(filled, tmp_path):
    """A server was killed in the middle of a write, and then somebody brought back a backup."""
    path, _ = filled
    _, journal = torn(path, 300)
    with SqliteStore(tmp_path / "other.db") as store:
        store.append(labels(0, 3))
    for content in ((tmp_path / "other.db").read_bytes(), b"id,label\n1,cat\n" * 5000):
        copy = tmp_path / f"copy {len(content)}"
        copy.mkdir()
        (copy / "labels.db").write_bytes(content)
        (copy / "labels.db-journal").write_bytes(journal)
        before = snapshot(copy)
        with pytest.raises(StoreError):
            SqliteStore(copy / "labels.db")
        assert snapshot(copy) == before


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


def test_who_opens_waits_for_another_that_changes_the_mode(monkeypatch, tmp_path):
    """A change of the journal's mode may not wait by itself: of two that opened a file at once one could fail."""
    path = tmp_path / "labels.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(sqlite3.connect(path, timeout=0)) as mine,
    ):
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr("askwell.store.sqlite.MODE_WAIT", 0.1)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            _set(mine, "journal_mode = WAL")
        monkeypatch.setattr("askwell.store.sqlite.MODE_WAIT", 60.0)
        monkeypatch.setattr("askwell.store.sqlite.time.sleep", lambda seconds: other.execute("COMMIT"))
        assert _set(mine, "journal_mode = PERSIST") == ("persist",)
