"""Records in one SQLite file, or in memory.

SQLite's own locks and its rollback journal do the work: a file is written by one at a time, what is acknowledged is in
the database file itself, and nothing beside it is needed. (Its other journal, WAL, has a bug up to 3.51.2 by which two
writers can corrupt a file, and keeps the newest records in a second file that people forget to copy.) Before every
append the file is looked at: a store whose file somebody else has removed, replaced or changed says so and stores
nothing more until it is opened again.

Beside the file lies `labels.db-lock`, an empty database that every open store holds a read lock on: so that a restored
backup does not replace a file in use, and nobody makes a new file where one in use was moved away.
"""

import json
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, final

from askwell.store.records import Content, Migrations, Record, StoreError, contents, fresh, kept, newer

__all__ = ["APPLICATION", "MIGRATIONS", "SqliteStore", "nobody_has"]

MIGRATIONS: Migrations = (
    (
        """CREATE TABLE record (
            seq INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,
            run TEXT NOT NULL,
            kind TEXT NOT NULL,
            item TEXT,
            body TEXT NOT NULL,
            who TEXT NOT NULL,
            at REAL NOT NULL,
            checksum INTEGER NOT NULL
        )""",
        "CREATE INDEX record_run ON record (run, seq)",
        """CREATE TRIGGER record_is_not_changed BEFORE UPDATE ON record
            BEGIN SELECT raise(ABORT, 'records are never changed: append another one'); END""",
        """CREATE TRIGGER record_is_not_deleted BEFORE DELETE ON record
            BEGIN SELECT raise(ABORT, 'records are never deleted: append another one'); END""",
        # INSERT OR REPLACE would delete without asking the trigger above.
        """CREATE TRIGGER record_is_not_replaced BEFORE INSERT ON record
            WHEN EXISTS (SELECT 1 FROM record WHERE key = NEW.key OR seq = NEW.seq)
            BEGIN SELECT raise(ABORT, 'records are never replaced: append another one'); END""",
    ),
)
APPLICATION = 0x61736B77  # "askw", in the header of every file of ours
COLUMNS = "seq, at, key, run, kind, item, body, who, checksum"
SETTINGS = (
    # PERSIST: the journal's header is cleared, and the disk waited for; making and removing a file each time is slower.
    *("cell_size_check = ON", "fullfsync = ON", "journal_mode = PERSIST", "synchronous = FULL"),
)
WAIT = 60.0  # seconds for SQLite's locks
MODE_WAIT = 5.0  # seconds for another that opens the same file: a change of mode does not wait by itself
LARGE = 1 << 25  # bytes; above, opening checks the pages but not each entry of each index (10 µs a record)
AT_ONCE = 500  # rows that are read while writers wait
MAKERS = 50  # looks for a new file that others are making just now, 20 ms apart

Look: TypeAlias = tuple[int, int, int]
"""A file at some moment, as a program that is not ours changes it: inode, bytes, time of the last change."""


@final
class SqliteStore:
    """A store in the SQLite file at `path`, made if there is none yet; in memory if `path` is None.

    One that is not `writable` is there already and can only be looked at: nothing is written, beside it neither.

    >>> store = SqliteStore(None)
    >>> stored = store.append([Record("f3a1", "spam", "label", "17", {"label": "ham"})])
    >>> [(record.seq, record.body) for record in store.read("spam")]
    [(1, {'label': 'ham'})]
    >>> store.close()
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, *, writable: bool = True, migrations: Migrations = MIGRATIONS
    ) -> None:
        self._path = None if path is None else Path(os.path.realpath(path))
        self._version, self._pid = len(migrations), os.getpid()
        self._mutex = threading.RLock()
        self._guard: sqlite3.Connection | None = None  # shows others that the file is in use
        self._seen: tuple[Look, int] | None = None  # the file after our last append, SQLite's count of others' commits
        self._last: tuple[int, int] | None = None  # seq and checksum of the newest record that we know
        self._broken = ""  # why nothing is stored any more
        self._closed = False
        if self._path is None:
            self._connection = _connection(None)
            _migrate(self._connection, migrations)
        else:
            with explained(self._path):
                (self._open if writable else self._open_to_read)(self._path, migrations)

    def _open(self, path: Path, migrations: Migrations) -> None:
        check_place(path)
        self._guard, alone = _in_use(path, migrations)
        try:
            self._connection = _connection(path)
            examine(self._connection, path, migrations, thorough=alone)  # else those who have it open have done so
            for setting in SETTINGS:
                mode = _set(self._connection, setting)
                if mode == ("wal",):  # as files were until version 0.1
                    raise StoreError(OLDER.format(str(path)))
            _migrate(self._connection, migrations)
            self._remember(path)
        except BaseException:
            self._shut()
            raise

    def _open_to_read(self, path: Path, migrations: Migrations) -> None:
        self._broken = READ_ONLY.format(str(path))
        if not check_place(path, writable=False):
            raise StoreError(f"there is no store {str(path)!r}.")
        modes = ["ro"]
        if not [*_unfinished(path)]:
            modes.append("ro&immutable=1")  # of one in WAL mode SQLite notes beside the file that somebody reads it
        for mode in modes:
            self._connection = _connection(path, mode=mode)
            try:
                examine(self._connection, path, migrations, thorough=True)
                break
            except (StoreError, sqlite3.Error):
                self._connection.close()
                if mode == modes[-1]:
                    raise
        if version(self._connection) < len(migrations):
            self._connection.close()
            raise StoreError(
                f"cannot open the store {str(path)!r} for reading only: an older askwell made it, and it has to be "
                "upgraded first. Copy the folder to where it may be written."
            )

    # ---- the contract ----------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], *, after: int | None = None) -> list[Record]:
        """See `Store.append`."""
        rows = contents(records)
        with self._mutex, explained(self._path):
            self._check_open()
            if not rows:
                return []
            if self._broken:
                raise StoreError(self._broken)
            with self._transaction():
                stored = {row[0]: self._rows("key = ?", row[0]) for row in rows}
                known = {key: found[0] for key, found in stored.items() if found}
                (last,) = self._connection.execute(
                    "SELECT max(seq) FROM record WHERE run = ?", (rows[0][1],)
                ).fetchone()
                contents_by_key = {key: content for key, (_, _, content) in known.items()}
                new = fresh(rows, contents_by_key, last=last or 0, after=after)
                known |= self._insert(new, {record.key: record.at for record in records})
            if new and self._path is not None:
                self._remember(self._path)
            self._know(known.values())
            return [kept(row, *known[row[0]][:2]) for row in rows]

    def read(self, run: str, *, after: int = 0) -> list[Record]:
        """See `Store.read`."""
        rows: list[tuple[int, float, Content]] = []
        with self._reading():
            while some := self._rows("run = ? AND seq > ?", run, rows[-1][0] if rows else after):
                rows += some
            self._know(rows[-1:])
        return [kept(row, seq, at) for seq, at, row in rows]

    def runs(self) -> list[str]:
        """See `Store.runs`."""
        with self._reading():
            return [run for (run,) in self._connection.execute("SELECT run FROM record GROUP BY run ORDER BY min(seq)")]

    def close(self) -> None:
        """See `Store.close`."""
        with self._mutex:
            if not self._closed and os.getpid() == self._pid:  # else all this is the parent's
                self._shut()
            self._closed = True

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _shut(self) -> None:
        with suppress(sqlite3.Error):
            if self._guard is not None and self._path is not None and self._path.exists():
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA journal_mode = DELETE")  # removes it, unless somebody writes
        self._connection.close()
        if self._guard is not None:
            self._guard.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed. Open it again with open_store.")
        if os.getpid() != self._pid:
            raise StoreError("the store was opened before this process was forked. Open it again in the new process.")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._mutex, explained(self._path):
            self._check_open()
            if self._guard is not None:
                if self._broken:
                    raise StoreError(self._broken)
                self._look()
            yield

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; whatever happens, Ctrl-C too, nothing stays open."""
        now = self._look()
        try:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._check_content(now)
                found = version(self._connection)
            except sqlite3.DatabaseError as error:
                if self._is_as_it_was(now) or not is_damage(error):
                    raise
                self._break(f"it can no longer be read ({error})")
            if found != self._version:
                raise StoreError(newer(repr(str(self._path)), found, self._version))
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            if self._seen is not None:
                self._seen = self._seen[0], -1  # what a failing disk leaves half done, and SQLite clears up, was ours
            raise

    # ---- whether the file is still ours ----------------------------------------------------------------------------

    def _look(self) -> Look | None:
        """The file as it is now; a StoreError if it is not the one that was opened."""
        if self._path is None or self._seen is None:
            return None
        found = _look(self._path)
        if found[0] != self._seen[0][0]:  # it may come back
            if not self._path.parent.is_dir():
                raise StoreError(
                    f"the folder {str(self._path.parent)!r} of the store is gone. Bring it back and open it again."
                )
            raise StoreError(
                f"the store {str(self._path)!r} was moved, deleted or replaced while it was open. Nothing was "
                "stored: bring the file back and open it again."
            )
        return found

    def _is_as_it_was(self, now: Look | None) -> bool:
        return now is None or self._seen is None or now == self._seen[0]

    def _check_content(self, now: Look | None) -> None:
        """Raise a StoreError if something else than a store has written into the file. Needs SQLite's lock.

        SQLite counts what other connections commit: a file that is another one now, without that, was changed by hand.
        """
        if self._seen is None or self._is_as_it_was(now):
            return
        if self._count() == self._seen[1]:
            self._break("another program has written into it, or a copy was put in its place")
        if self._last is not None and not self._is_stored(*self._last):
            self._break("records that were in it are gone: it was replaced by an older copy")

    def _break(self, how: str) -> None:
        self._broken = CHANGED.format(str(self._path), how)
        raise StoreError(self._broken)

    def _count(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _remember(self, path: Path) -> None:
        count = self._count()  # first: what another store commits in between is then counted as well as seen
        self._seen = _look(path), count

    def _know(self, rows: Iterable[tuple[int, float, Content]]) -> None:
        """Note the newest of these rows, which will be there as long as the file is the same."""
        seq, at, row = max(rows, default=(0, 0.0, None))
        if row is not None and (self._last is None or seq > self._last[0]):
            self._last = seq, _checksum(seq, at, row)

    def _is_stored(self, seq: int, checksum: int) -> bool:
        found = self._connection.execute("SELECT checksum FROM record WHERE seq = ?", (seq,)).fetchone()
        return bool(found == (checksum,))

    # ---- rows ------------------------------------------------------------------------------------------------------

    def _insert(self, rows: Sequence[Content], times: Mapping[str, float]) -> dict[str, tuple[int, float, Content]]:
        (last,) = self._connection.execute("SELECT coalesce(max(seq), 0) FROM record").fetchone()
        now = time.time()
        placed = [(last + step, times[row[0]] or now, row) for step, row in enumerate(rows, 1)]
        self._connection.executemany(
            f"INSERT INTO record ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(seq, at, *row, _checksum(seq, at, row)) for seq, at, row in placed],
        )
        return {row[0]: (seq, at, row) for seq, at, row in placed}

    def _rows(self, condition: str, *values: Any) -> list[tuple[int, float, Content]]:
        """The first rows as stored, each proved by its checksum: SQLite itself does not notice a changed character.

        Some at a time, and all of these at once: who reads holds up a writer, and may be of low priority.
        """
        query = f"SELECT {COLUMNS} FROM record WHERE {condition} ORDER BY seq LIMIT {AT_ONCE}"
        found = self._connection.execute(query, values)
        return [_proved(row, self._path) for row in found.fetchall()]


def _proved(stored: tuple[Any, ...], path: Path | None) -> tuple[int, float, Content]:
    seq, at, key, run, kind, item, body, who, checksum = stored
    row = (key, run, kind, item, body, who)
    if checksum != _checksum(seq, at, row):
        raise StoreError(damaged(path, f"record {seq} is not as it was stored"))
    return seq, at, row


def _checksum(seq: int, at: float, row: Content) -> int:
    return zlib.crc32(json.dumps([seq, at, *row], default=repr).encode())


# ---- files: made whole or not at all, examined before use, refused without being touched -----------------------------


def _set(connection: sqlite3.Connection, setting: str) -> Any:
    """What the database answers to a PRAGMA, once nobody else keeps it locked."""
    until = time.monotonic() + MODE_WAIT
    while True:
        try:
            return connection.execute(f"PRAGMA {setting}").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _connection(path: Path | None, *, mode: str = "rw") -> sqlite3.Connection:
    """A connection that begins no transactions by itself and never creates a file; None is memory."""
    where = ":memory:" if path is None else f"{path.as_uri()}?mode={mode}"
    return sqlite3.connect(where, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _look(path: Path) -> Look:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


def _claimed(guard: sqlite3.Connection) -> bool:
    """Whether nobody has the file of this lock open: then nobody can open it until the transaction ends."""
    guard.execute("PRAGMA busy_timeout = 0")
    try:
        guard.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return False
        raise
    return True


@contextmanager
def nobody_has(path: Path) -> Iterator[bool]:
    """Whether no process has the store at `path` open; if so, none can open it meanwhile."""
    with explained(path), closing(_connection(_beside(path, "-lock"), mode="rwc")) as guard:
        yield _claimed(guard)


def _in_use(path: Path, migrations: Migrations) -> tuple[sqlite3.Connection, bool]:
    """(a connection that holds a read lock as long as it is open, whether nobody else did), and the file is there."""
    guard = _connection(_beside(path, "-lock"), mode="rwc")
    try:
        for _ in range(MAKERS):
            if alone := _claimed(guard):
                if not path.exists():
                    make(path, migrations)
                elif any(_unfinished(path)):
                    rehearse(path, migrations)
                guard.execute("COMMIT")
            guard.execute(f"PRAGMA busy_timeout = {round(1000 * WAIT)}")
            guard.execute("BEGIN")
            guard.execute("SELECT 1 FROM sqlite_schema").fetchall()
            if path.exists():
                return guard, alone
            guard.execute("COMMIT")
            time.sleep(0.02)
        raise StoreError(FILE_GONE.format(str(path)))
    except BaseException:
        guard.close()
        raise


def _unfinished(path: Path) -> Iterator[Path]:
    """The journals beside a file with something in them: of a journal that is done with, the header is cleared."""
    for journal in (_beside(path, "-journal"), _beside(path, "-wal")):
        with suppress(FileNotFoundError), journal.open("rb") as file:
            if file.read(8).strip(b"\0"):
                yield journal


def check_place(path: Path, *, writable: bool = True) -> bool:
    """Whether there is a file at `path`; a StoreError if there is no place for one, or no right to it."""
    folder, name = path.parent, repr(str(path))
    if not folder.is_dir():
        raise StoreError(f"cannot open the store {name}: there is no folder {str(folder)!r}. Make it first.")
    if path.is_dir():
        raise StoreError(f"cannot open the store {name}: it is a folder. Name a file in it, like labels.db.")
    if writable and not os.access(folder, os.W_OK):
        raise StoreError(
            f"cannot open the store {name}: the folder may not be written, and a store keeps its lock and its "
            "journal beside the file. Change the permissions of the folder, or copy the file elsewhere."
        )
    if not path.exists():
        for journal in _unfinished(path):
            raise StoreError(
                f"cannot make the store {name}: {journal.name} is there without its database. Usual cause: the "
                "database was moved or deleted while in use. Bring it back, or move that file away too."
            )
        return False
    if not os.access(path, os.W_OK | os.R_OK if writable else os.R_OK):
        rights = "read and written" if writable else "read"
        raise StoreError(f"cannot open the store {name}: it may not be {rights}. Change its permissions.")
    if not path.stat().st_size:
        raise StoreError(f"cannot open the store {name}: it is empty. {LEFT}")
    return True


def version(connection: sqlite3.Connection) -> int:
    """The version of the schema: how many migrations were made."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def examine(connection: sqlite3.Connection, path: Path, migrations: Migrations, *, thorough: bool) -> None:
    """Raise a StoreError if the file is not ours, damaged, or newer than this program. Changes nothing."""
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.DatabaseError as error:
        if "not a database" not in str(error):
            raise
        what = "is not an SQLite file, or its beginning is damaged"
        raise StoreError(f"cannot open the store {str(path)!r}: it {what}. {LEFT}") from error
    if application != APPLICATION:
        raise StoreError(
            f"cannot open the store {str(path)!r}: it is an SQLite file of another program, or its header is damaged. "
            "It was left as it is. Name another file."
        )
    connection.execute("PRAGMA cell_size_check = ON")
    found = version(connection)
    if found > len(migrations):
        raise StoreError(newer(str(path), found, len(migrations)))
    if thorough:
        check = "integrity_check" if path.stat().st_size <= LARGE else "quick_check"
        wrong = [str(row[0]) for row in connection.execute(f"PRAGMA {check}(3)")]
        if wrong != ["ok"]:
            raise StoreError(damaged(path, "; ".join(wrong)))
        if found == 0 or _schema(connection) != _expected(migrations[:found]):
            raise StoreError(damaged(path, "its tables are not those of a store"))


def rehearse(path: Path, migrations: Migrations) -> None:
    """Let SQLite clear up after a killed writer in a copy first, and look at each record: what is refused stays as is.

    An unfinished journal belongs to its database. Beside another one, such as a backup, it would destroy it.
    """
    with tempfile.TemporaryDirectory() as folder:
        for each in (path, *_unfinished(path)):
            shutil.copy(each, folder)
        with closing(_connection(Path(folder, path.name))) as connection:
            examine(connection, path, migrations, thorough=True)
            for row in connection.execute(f"SELECT {COLUMNS} FROM record"):
                _proved(row, path)


def make(path: Path, migrations: Migrations) -> None:
    """Make a new store at `path`. It appears there complete, or not at all if the process is killed."""
    draft = _beside(path, "-new")
    leftovers = [draft, _beside(path, "-new-journal")]
    with explained(path):
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)
        try:
            with closing(_connection(draft, mode="rwc")) as writer:
                writer.execute("PRAGMA synchronous = EXTRA")
                writer.execute(f"PRAGMA application_id = {APPLICATION}")
                _migrate(writer, migrations)
            draft.rename(path)
            _sync_folder(path.parent)
        finally:
            for leftover in leftovers:
                with suppress(OSError):
                    leftover.unlink(missing_ok=True)


def _migrate(connection: sqlite3.Connection, migrations: Migrations) -> None:
    """Bring the schema up to date, one transaction for each version, one process at a time."""
    while version(connection) < len(migrations):
        connection.execute("BEGIN EXCLUSIVE")
        try:
            number = version(connection)
            if number < len(migrations):  # or somebody else did it while we waited
                for statement in migrations[number]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _expected(migrations: Migrations) -> list[tuple[str, ...]]:
    with closing(_connection(None)) as blank:
        _migrate(blank, migrations)
        return _schema(blank)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return sorted(connection.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"))


def _sync_folder(folder: Path) -> None:
    """Make sure that a folder's list of files is on the disk."""
    if os.name == "nt":  # not possible there, and not needed
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- errors that teach ---------------------------------------------------------------------------------------------

CHANGED = (
    "the store {!r} was changed from outside while it was open: {}. Nothing more is stored, so that nothing is lost: "
    "end all programs that have it open (askwell serve), look at the file, and start again."
)
FILE_GONE = (
    "cannot open the store {!r}: another process has it open, and one of its files was removed (the database). A new "
    "one in its place would be a second store: end that process first (askwell serve), then start again."
)
LEFT = "It was left as it is. Bring back a backup, or name another file for a new store."
OLDER = "cannot open the store {!r}: an older askwell has it open. End it first (askwell serve), then start again."
READ_ONLY = "the store {!r} is open for looking only, since it may not be written. Nothing was stored."
DAMAGE = ("malformed", "not a database", "decode", "corrupt", "no such table", "no such column", "unsupported file")
CAUSES = (
    ("full", "the disk is full. Nothing was stored, and what was stored before is safe: free some space and try again"),
    ("no space", "the disk is full. Nothing was stored: free some space and try again"),
    ("readonly", "it may not be written. Change the permissions of the file and its folder"),
    ("permission", "it may not be read or written. Change the permissions of the file and its folder"),
    ("unable to open", "it cannot be opened. Look whether it is still there, and at the permissions of its folder"),
    ("locked", "another program keeps it locked. Close the database browser or backup that has it open"),
    ("locking protocol", "its file system has no locks. Keep it on a local disk, or use PostgreSQL"),
    ("i/o error", "the disk reports an error. Nothing was stored: look at free space, quotas and the disk's health"),
)


def damaged(path: Path | None, error: str) -> str:
    """What to say of a file that was changed by something else than us."""
    return (
        f"the store {str(path or 'in memory')!r} is damaged ({error}). It was left as it is. Usual causes: a failing "
        "disk, a copy made while it was in use, a synchronised folder. Bring back a backup; to rescue what can be "
        "read, work on a copy with: sqlite3 copy.db .recover"
    )


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is not as it was written."""
    return isinstance(error, UnicodeError) or any(sign in str(error).lower() for sign in DAMAGE)


@contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Turn what SQLite and the system say into a StoreError that says what it means."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        message = f"{type(error).__name__}: {error}"
        if is_damage(error):
            raise StoreError(damaged(path, message)) from error
        causes = [cause for word, cause in CAUSES if word in message.lower()] or ["nothing was stored"]
        raise StoreError(f"cannot use the store {str(path or 'in memory')!r}: {causes[0]}. ({message})") from error
