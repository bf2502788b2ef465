"""Records in one SQLite file, or in memory.

What is acknowledged is in the database file itself: the journal (-wal) is emptied into it after every append, so that a
journal that is lost, or left behind by a file that was brought back from a backup, takes nothing with it. Before and
after every append the files are looked at: a store whose files somebody else has removed, replaced or changed says so
and stores nothing more until it is opened again.

SQLite from 3.7.0 to 3.51.2 can corrupt a file in WAL mode when two connections write or checkpoint at once, so one lock
beside the file serialises opening, writing and closing, between threads and processes. Reading waits for nobody.
"""

import json
import os
import sqlite3
import threading
import time
import uuid
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from filelock import BaseFileLock

from askwell.store.files import (
    WAIT,
    Look,
    Migrations,
    check_place,
    connection,
    damaged,
    examine,
    explained,
    look,
    make,
    migrate,
    newer,
    opened,
    opening,
    reader,
    shut,
    sync,
)
from askwell.store.files import version as version_of
from askwell.store.locks import begin_session, end_session, file_lock, held, session_alive, sweep
from askwell.store.records import Content, Record, StoreError, contents, fresh, kept

__all__ = ["MIGRATIONS", "SqliteStore"]

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
COLUMNS = "seq, at, key, run, kind, item, body, who, checksum"
EMPTYING = 0.05  # seconds to wait for readers of other processes before the journal is emptied by a later append
SHUTTING = 5.0  # seconds to wait for the lock when closing; who holds it has the file open, so nothing is left undone


@final
class SqliteStore:
    """A store in the SQLite file at `path`, made if there is none; in memory if `path` is None.

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
        self._version = len(migrations)
        self._pid = os.getpid()
        self._mutex = threading.RLock()
        self._lock: BaseFileLock | None = None
        self._session: BaseFileLock | None = None
        self._file: tuple[int, int] | None = None
        self._name = uuid.uuid4().hex
        self._seen: tuple[Look, int] | None = None  # the files after our last append, and SQLite's count of others'
        self._last: tuple[int, int] | None = None  # seq and checksum of the newest record that we know
        self._broken = ""  # why nothing is stored any more
        if self._path is None:
            self._connection = connection(None)
            migrate(self._connection, migrations)
        elif not writable:
            self._broken = READ_ONLY.format(str(self._path))
            self._connection = self._look_only(self._path, migrations)
        else:
            self._open(self._path, migrations)
        self._shut = weakref.finalize(self, _shut, self._connection, self._lock, self._session, self._file, self._pid)

    def _open(self, path: Path, migrations: Migrations) -> None:
        check_place(path)  # before anything is written beside it
        self._lock = file_lock(_beside(path, "-lock"))
        with explained(path), held(self._lock), opening():
            others = sweep(_beside(path, "-sessions"))
            if others and 0 in look(path).inodes:
                raise StoreError(FILE_GONE.format(str(path)))
            if check_place(path):
                examine(path, migrations)
            else:
                make(path, migrations)
            self._connection = connection(path)
            self._file = opened(path)
            try:
                for setting in SETTINGS:
                    self._connection.execute(f"PRAGMA {setting}")
                migrate(self._connection, migrations)
                if not others:  # they would take it for a stranger's work
                    self._empty_journal()
                self._remember(path)
                self._session = begin_session(_beside(path, "-sessions"))
            except BaseException:
                self._connection.close()
                shut(self._file)
                raise
        self._name = Path(self._session.lock_file).name

    def _look_only(self, path: Path, migrations: Migrations) -> sqlite3.Connection:
        with explained(path), opening():
            if not check_place(path, writable=False):
                raise StoreError(f"there is no store {str(path)!r}.")
            return reader(path, migrations)

    # ---- the contract ----------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], *, after: int | None = None) -> list[Record]:
        """See `Store.append`."""
        rows = contents(records)
        with self._mutex, explained(self._path):
            self._check_open()
            if not rows:
                return []
            with self._alone():
                self._check_content()
                with self._transaction():
                    stored = {row[0]: self._rows("key = ?", row[0]) for row in rows}
                    known = {key: found[0] for key, found in stored.items() if found}
                    (last,) = self._connection.execute(
                        "SELECT max(seq) FROM record WHERE run = ?", (rows[0][1],)
                    ).fetchone()
                    new = fresh(
                        rows, {key: content for key, (_, _, content) in known.items()}, last=last or 0, after=after
                    )
                    known |= self._insert(new, {record.key: record.at for record in records})
                self._settle(written=bool(new))
            self._know(known.values())
            return [kept(row, *known[row[0]][:2]) for row in rows]

    def read(self, run: str, *, after: int = 0) -> list[Record]:
        """See `Store.read`."""
        with self._mutex, explained(self._path):
            self._check_open()
            self._check_files()
            rows = self._rows("run = ? AND seq > ?", run, after)
            self._know(rows)
            return [kept(row, seq, at) for seq, at, row in rows]

    def runs(self) -> list[str]:
        """See `Store.runs`."""
        with self._mutex, explained(self._path):
            self._check_open()
            self._check_files()
            return [run for (run,) in self._connection.execute("SELECT run FROM record GROUP BY run ORDER BY min(seq)")]

    def session(self) -> str:
        """See `Store.session`."""
        self._check_open()
        return self._name

    def alive(self, session: str) -> bool:
        """See `Store.alive`."""
        with self._mutex:
            self._check_open()
            if self._path is None or session == self._name:
                return session == self._name
            with explained(self._path), self._alone():
                return session_alive(_beside(self._path, "-sessions"), session)

    def close(self) -> None:
        """See `Store.close`."""
        with self._mutex:
            self._shut()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._shut.alive:
            raise StoreError("the store is closed. Open it again with open_store.")
        if os.getpid() != self._pid:
            raise StoreError("the store was opened before this process was forked. Open it again in the new process.")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock on the file, and know that it is still the file that was opened."""
        if self._path is None:
            yield
            return
        if self._lock is None:
            raise StoreError(self._broken)
        with held(self._lock):
            self._check_files()
            yield

    def _check_files(self) -> None:
        """Raise a StoreError if the files are not those that were opened. Needs no lock: no store replaces them."""
        if self._path is None or self._seen is None:
            return
        if self._broken:
            raise StoreError(self._broken)
        now, opened = look(self._path).inodes, self._seen[0].inodes
        if now[0] != opened[0]:  # it may come back
            raise StoreError(
                f"the store {str(self._path)!r} was moved, deleted or replaced while it was open. Nothing was "
                "stored: bring the file back and open it again."
            )
        if now != opened:
            self._break("its journal (the files -wal and -shm beside it) was removed or replaced")

    def _check_content(self) -> None:
        """Raise a StoreError if something else than a store has written into the files. Needs the lock.

        A store writes into the database only what it has just committed, and a commit is counted by all others.
        """
        if self._path is None or self._seen is None:
            return
        (seen, count), now = self._seen, look(self._path)
        if self._count() != count:  # another store has appended, and so has looked too
            if self._last is not None and not self._is_stored(*self._last):
                self._break("records that were in it are gone: it was replaced by an older copy")
        elif now.database != seen.database:
            self._break("another program has written into it, or a copy was put in its place")
        elif now.journal[1] < seen.journal[1]:
            self._break("its journal (-wal) was cut")

    def _break(self, how: str) -> None:
        self._broken = CHANGED.format(str(self._path), how)
        raise StoreError(self._broken)

    def _count(self) -> int:
        """A number of SQLite's that changes when another connection has committed."""
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _know(self, rows: Iterable[tuple[int, float, Content]]) -> None:
        """Note the newest of these rows, which will be there as long as the file is the same."""
        seq, at, row = max(rows, default=(0, 0.0, None))
        if row is not None and (self._last is None or seq > self._last[0]):
            self._last = seq, _checksum(seq, at, row)

    def _is_stored(self, seq: int, checksum: int) -> bool:
        found = self._connection.execute("SELECT checksum FROM record WHERE seq = ?", (seq,)).fetchone()
        return bool(found == (checksum,))

    def _remember(self, path: Path) -> None:
        now = look(path)
        if self._seen is None or now.inodes == self._seen[0].inodes:
            self._seen = now, self._count()

    def _settle(self, *, written: bool) -> None:
        """After a write: all is on the disk, in the database file itself if it can be, and nobody changed the files."""
        if self._path is None:
            return
        emptied = False
        try:
            emptied = written and self._empty_journal()
        finally:
            if written:
                self._remember(self._path)  # what a failing disk left half done was ours
        if not emptied:
            sync(_beside(self._path, "-wal"))
        self._check_files()
        (pages,), (size,) = (self._connection.execute(f"PRAGMA page_{name}").fetchone() for name in ("count", "size"))
        if emptied and self._seen is not None and self._seen[0].database[1] != pages * size:
            self._break("it was cut, or a copy was put in its place, during a write")

    def _empty_journal(self) -> bool:
        """Move the journal into the database, on the disk; whether that could be done, or has to wait for a reader."""
        try:
            self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * EMPTYING)}")
            (busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError:
            return False
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {round(1000 * WAIT)}")
        return not busy

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; whatever happens, Ctrl-C too, nothing stays open."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            found = version_of(self._connection)
            if found != self._version:
                raise StoreError(newer(repr(str(self._path)), found, self._version))
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise

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
        """Rows as stored, each proved by its checksum: SQLite itself does not notice a changed letter."""
        found = self._connection.execute(f"SELECT {COLUMNS} FROM record WHERE {condition} ORDER BY seq", values)
        rows = []
        for seq, at, key, run, kind, item, body, who, checksum in found.fetchall():  # all: who reads holds up a writer
            row = (key, run, kind, item, body, who)
            if checksum != _checksum(seq, at, row):
                raise StoreError(damaged(self._path, f"record {seq} is not as it was stored"))
            rows.append((seq, at, row))
        return rows


SETTINGS = (
    *("journal_mode = WAL", "cell_size_check = ON", "fullfsync = ON", "checkpoint_fullfsync = ON"),
    # Each append empties the journal itself, and that is when the disk is waited for; if it cannot, see `_settle`.
    *("wal_autocheckpoint = 0", "synchronous = NORMAL"),
)
CHANGED = (
    "the store {!r} was changed from outside while it was open: {}. Nothing more is stored, so that nothing is lost: "
    "end all programs that have it open (askwell serve), look at the file, and start again."
)
FILE_GONE = (
    "cannot open the store {!r}: another process has it open, and one of its files was removed (the database, or its "
    "journal, -wal and -shm). Two journals would destroy each other: end that process first (askwell serve), then "
    "start again."
)
READ_ONLY = "the store {!r} is open for looking only, since it may not be written. Nothing was stored."


def _checksum(seq: int, at: float, row: Content) -> int:
    return zlib.crc32(json.dumps([seq, at, *row], default=repr).encode())


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _shut(
    connection: sqlite3.Connection,
    lock: BaseFileLock | None,
    session: BaseFileLock | None,
    file: tuple[int, int] | None,
    pid: int,
) -> None:
    """Close a store that is closed, forgotten or left open at the end of the program."""
    if os.getpid() != pid:  # a forked child: all this is its parent's
        return
    if lock is None or session is None or file is None:  # in memory, or open for looking only
        connection.close()
        return
    try:
        with held(lock, patience=SHUTTING):
            end_session(session)
            connection.close()
    except (StoreError, OSError):  # the folder is gone, or somebody hangs
        session.release()
        connection.close()
    shut(file)
