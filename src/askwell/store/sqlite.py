"""Records in one SQLite file, or in memory.

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from filelock import BaseFileLock

from askwell.store.files import (
    Migrations,
    check_place,
    connection,
    damaged,
    examine,
    explained,
    make,
    migrate,
    newer,
    opened,
    opening,
    shut,
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
SHUTTING = 5.0  # seconds to wait for the lock when closing; who holds it has the file open, so nothing is left undone


@final
class SqliteStore:
    """A store in the SQLite file at `path`, made if there is none; in memory if `path` is None.

    >>> store = SqliteStore(None)
    >>> stored = store.append([Record("f3a1", "spam", "label", "17", {"label": "ham"})])
    >>> [(record.seq, record.body) for record in store.read("spam")]
    [(1, {'label': 'ham'})]
    >>> store.close()
    """

    def __init__(self, path: str | os.PathLike[str] | None, *, migrations: Migrations = MIGRATIONS) -> None:
        self._path = None if path is None else Path(os.path.realpath(path))
        self._version = len(migrations)
        self._pid = os.getpid()
        self._mutex = threading.RLock()
        self._lock: BaseFileLock | None = None
        self._session: BaseFileLock | None = None
        self._file: tuple[int, int] | None = None
        self._name = uuid.uuid4().hex
        if self._path is None:
            self._connection = connection(None)
            migrate(self._connection, migrations)
        else:
            self._open(self._path, migrations)
        self._shut = weakref.finalize(self, _shut, self._connection, self._lock, self._session, self._file, self._pid)

    def _open(self, path: Path, migrations: Migrations) -> None:
        check_place(path)  # before anything is written beside it
        self._lock = file_lock(_beside(path, "-lock"))
        with explained(path), held(self._lock), opening():
            if check_place(path):
                examine(path, migrations)
            else:
                make(path, migrations)
            self._connection = connection(path)
            self._file = opened(path)
            try:
                for setting in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "cell_size_check = ON"):
                    self._connection.execute(f"PRAGMA {setting}")
                migrate(self._connection, migrations)
                sweep(_beside(path, "-sessions"))
                self._session = begin_session(_beside(path, "-sessions"))
            except BaseException:
                self._connection.close()
                shut(self._file)
                raise
        self._name = Path(self._session.lock_file).name

    # ---- the contract ----------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], *, after: int | None = None) -> list[Record]:
        """See `Store.append`."""
        rows = contents(records)
        with self._mutex, explained(self._path):
            self._check_open()
            if not rows:
                return []
            with self._alone(), self._transaction():
                stored = {row[0]: self._rows("key = ?", row[0]) for row in rows}
                known = {key: found[0] for key, found in stored.items() if found}
                (last,) = self._connection.execute(
                    "SELECT max(seq) FROM record WHERE run = ?", (rows[0][1],)
                ).fetchone()
                new = fresh(rows, {key: content for key, (_, _, content) in known.items()}, last=last or 0, after=after)
                known |= self._insert(new)
            return [kept(row, *known[row[0]][:2]) for row in rows]

    def read(self, run: str, *, after: int = 0) -> list[Record]:
        """See `Store.read`."""
        with self._mutex, explained(self._path):
            self._check_open()
            return [kept(row, seq, at) for seq, at, row in self._rows("run = ? AND seq > ?", run, after)]

    def runs(self) -> list[str]:
        """See `Store.runs`."""
        with self._mutex, explained(self._path):
            self._check_open()
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
        if self._lock is None or self._path is None:
            yield
            return
        with held(self._lock):
            if not self._path.exists() or self._file is None or self._path.stat().st_ino != self._file[1]:
                raise StoreError(
                    f"the store {str(self._path)!r} was moved, deleted or replaced while it was open. Nothing was "
                    "stored: bring the file back and open it again."
                )
            yield

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

    def _insert(self, rows: Sequence[Content]) -> dict[str, tuple[int, float, Content]]:
        (last,) = self._connection.execute("SELECT coalesce(max(seq), 0) FROM record").fetchone()
        at = time.time()
        placed = [(last + step, at, row) for step, row in enumerate(rows, 1)]
        self._connection.executemany(
            f"INSERT INTO record ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(seq, at, *row, _checksum(seq, at, row)) for seq, at, row in placed],
        )
        return {row[0]: (seq, at, row) for seq, at, row in placed}

    def _rows(self, condition: str, *values: Any) -> list[tuple[int, float, Content]]:
        """Rows as stored, each proved by its checksum: SQLite itself does not notice a changed letter."""
        found = self._connection.execute(f"SELECT {COLUMNS} FROM record WHERE {condition} ORDER BY seq", values)
        rows = []
        for seq, at, key, run, kind, item, body, who, checksum in found:
            row = (key, run, kind, item, body, who)
            if checksum != _checksum(seq, at, row):
                raise StoreError(damaged(self._path, f"record {seq} is not as it was stored"))
            rows.append((seq, at, row))
        return rows


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
    if lock is None or session is None or file is None:
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
