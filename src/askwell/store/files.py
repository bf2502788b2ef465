"""SQLite files that can be trusted: made whole or not at all, examined before use, refused without being touched."""

import os
import sqlite3
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from askwell.store.records import StoreError

__all__ = [
    "Look",
    "Migrations",
    "check_place",
    "connection",
    "damaged",
    "examine",
    "explained",
    "look",
    "make",
    "migrate",
    "newer",
    "opened",
    "opening",
    "reader",
    "shut",
    "sync",
    "version",
]

Migrations: TypeAlias = Sequence[Sequence[str]]  # the statements that lead from version i to i + 1

MAGIC = b"SQLite format 3\0"
APPLICATION = 0x61736B77  # "askw", in the header of every file of ours
WAIT = 60.0  # seconds for SQLite's own locks; ours come first
LARGE = 1 << 25  # bytes; above, opening checks the pages but not each entry of each index (10 µs a record)


# ---- files that are open here --------------------------------------------------------------------------------------
#
# A process loses all its POSIX locks on a file when it closes *any* descriptor of it. SQLite knows, and takes care of
# its own; a plain open and close of ours, while another connection of this process has the file, would free that one's
# locks: the next process to close the file would think itself the last, and delete the journal under us. So a file that
# is open here is read through SQLite only.


class _Open:
    """Which files this process has open, and one thread at a time that changes or relies on it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: Counter[tuple[int, int]] = Counter()


_OPEN = _Open()
if hasattr(os, "register_at_fork"):  # a child has no locks, and no threads that could give a lock back
    os.register_at_fork(after_in_child=_OPEN.__init__)  # type: ignore[misc]


@contextmanager
def opening() -> Iterator[None]:
    """Around looking at a file and connecting to it: no other thread does either meanwhile."""
    with _OPEN.lock:
        yield


def opened(path: Path) -> tuple[int, int]:
    """Note that a connection to this file is open; what to give to `shut` when it is closed. Call it in `opening`."""
    with _OPEN.lock:
        found = path.stat()
        _OPEN.files[found.st_dev, found.st_ino] += 1
        return found.st_dev, found.st_ino


def shut(file: tuple[int, int]) -> None:
    """Note that a connection to this file was closed."""
    with _OPEN.lock:
        _OPEN.files[file] -= 1


class Look(NamedTuple):
    """The files of a store at some moment: what a program that is not ours changes when it changes them."""

    database: tuple[int, int, int]  # inode, bytes, time of the last change
    journal: tuple[int, int]  # inode, bytes
    shared: int  # inode of the journal's index, which all processes share

    @property
    def inodes(self) -> tuple[int, int, int]:
        """Which files they are, whatever is in them."""
        return self.database[0], self.journal[0], self.shared


def look(path: Path) -> Look:
    """The files of an open store as they are now; an inode of 0 stands for a file that is gone."""

    def found(ending: str) -> tuple[int, int, int]:
        try:
            seen = os.stat(f"{path}{ending}")
        except FileNotFoundError:
            return 0, 0, 0
        return seen.st_ino, seen.st_size, seen.st_mtime_ns

    return Look(found(""), found("-wal")[:2], found("-shm")[0])


def check_place(path: Path, *, writable: bool = True) -> bool:
    """Whether there is a store at `path`; a StoreError if there is something else, or no place for one.

    Only looks, by plain reading: a file that is not ours is not even opened by SQLite. One that is not to be written
    needs no rights but to read.
    """
    folder = path.parent
    if not folder.is_dir():
        raise StoreError(f"cannot open the store {str(path)!r}: there is no folder {str(folder)!r}. Make it first.")
    if path.is_dir():
        raise StoreError(f"cannot open the store {str(path)!r}: it is a folder. Name a file in it, like labels.db.")
    if writable and not os.access(folder, os.W_OK):
        raise StoreError(
            f"cannot open the store {str(path)!r}: the folder may not be written, and a store keeps its lock and its "
            "journal beside the file. Change the permissions of the folder, or copy the file elsewhere."
        )
    if not path.exists():
        journal = _beside(path, "-wal")
        if journal.exists() and journal.stat().st_size:
            raise StoreError(
                f"cannot make the store {str(path)!r}: {path.name}-wal is there without its database. Usual cause: the "
                "database was moved or deleted while in use. Bring it back, or move the -wal file away too."
            )
        return False
    if not os.access(path, os.W_OK | os.R_OK if writable else os.R_OK):
        rights = "read and written" if writable else "read"
        raise StoreError(f"cannot open the store {str(path)!r}: it may not be {rights}. Change its permissions.")
    with opening():
        found = path.stat()
        if not _OPEN.files[found.st_dev, found.st_ino]:
            _check_header(path)
    return True


def _check_header(path: Path) -> None:
    with explained(path), open(path, "rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(MAGIC):
        what = "is empty" if not header else "is not an SQLite file, or its beginning is damaged"
        raise StoreError(
            f"cannot open the store {str(path)!r}: it {what}. It was left as it is. Bring back a backup, or "
            "name another file for a new store."
        )
    (application,) = struct.unpack(">I", header[68:72])
    if application != APPLICATION:
        raise StoreError(
            f"cannot open the store {str(path)!r}: it is an SQLite file of another program, or its header is damaged. "
            "It was left as it is. Name another file."
        )


def connection(path: Path | None, *, mode: str = "rw") -> sqlite3.Connection:
    """A connection that begins no transactions by itself and never creates a file; None is memory."""
    where = ":memory:" if path is None else f"{path.as_uri()}?mode={mode}"
    return sqlite3.connect(where, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)


def reader(path: Path, migrations: Migrations) -> sqlite3.Connection:
    """A connection for looking only, where nothing may be written: neither the file nor anything beside it."""
    modes = ["ro"]
    journal = _beside(path, "-wal")
    if not journal.exists() or not journal.stat().st_size:
        modes.append("ro&immutable=1")  # SQLite may not even note beside the file that somebody reads it
    for mode in modes:
        try:
            examine(path, migrations, mode=mode)
        except StoreError:
            if mode == modes[-1]:
                raise
        else:
            found = connection(path, mode=mode)
            if version(found) == len(migrations):
                return found
            found.close()
            raise StoreError(
                f"cannot open the store {str(path)!r} for reading only: an older askwell made it, and it has to be "
                "upgraded first. Copy the folder to where it may be written."
            )
    raise AssertionError  # the loop returns or raises


def version(connection: sqlite3.Connection) -> int:
    """The version of the schema: how many migrations were made."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def examine(path: Path, migrations: Migrations, *, mode: str = "ro") -> None:
    """Raise a StoreError if the file is damaged or newer than this program. Changes nothing: it reads only."""
    with explained(path), closing(connection(path, mode=mode)) as reader:
        reader.execute("PRAGMA cell_size_check = ON")
        found = version(reader)
        if found > len(migrations):
            raise StoreError(newer(str(path), found, len(migrations)))
        check = "integrity_check" if path.stat().st_size <= LARGE else "quick_check"
        faults = [row[0] for row in reader.execute(f"PRAGMA {check}(3)")]
        if faults != ["ok"]:
            raise StoreError(damaged(path, "; ".join(str(fault) for fault in faults)))
        if found == 0 or _schema(reader) != _expected(migrations[:found]):
            raise StoreError(damaged(path, "its tables are not those of a store"))


def make(path: Path, migrations: Migrations) -> None:
    """Make a new store at `path`. It appears there complete, or not at all if the process is killed."""
    draft = _beside(path, "-new")
    leftovers = [_beside(path, f"-new{end}") for end in ("", "-journal", "-wal", "-shm")]
    with explained(path):
        for leftover in leftovers:
            leftover.unlink(missing_ok=True)
        try:
            with closing(connection(draft, mode="rwc")) as writer:
                writer.execute("PRAGMA synchronous = FULL")
                writer.execute(f"PRAGMA application_id = {APPLICATION}")
                migrate(writer, migrations)
                writer.execute("PRAGMA journal_mode = WAL")
            sync(draft)
            draft.rename(path)
            sync(path.parent)
        finally:
            for leftover in leftovers:
                with suppress(OSError):
                    leftover.unlink(missing_ok=True)


def migrate(connection: sqlite3.Connection, migrations: Migrations) -> None:
    """Bring the schema up to date, one transaction for each version. The caller holds the store's lock."""
    for number in range(version(connection) + 1, len(migrations) + 1):
        connection.execute("BEGIN EXCLUSIVE")
        try:
            for statement in migrations[number - 1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _expected(migrations: Migrations) -> list[tuple[str, ...]]:
    with closing(connection(None)) as blank:
        migrate(blank, migrations)
        return _schema(blank)


def _schema(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    return sorted(connection.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema"))


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def sync(path: Path) -> None:
    """Make sure that a file, or a folder's list of files, is on the disk."""
    if os.name == "nt" and path.is_dir():  # not possible there, and not needed
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- errors that teach ---------------------------------------------------------------------------------------------


def newer(place: str, found: int, known: int) -> str:
    """What to say of a schema from the future."""
    return (
        f"cannot use the store {place}: it has schema {found}, and this askwell knows up to {known}. A newer "
        "askwell has made or upgraded it: upgrade this one (pip install -U askwell). The store was left as it is."
    )


def damaged(path: Path | None, fault: str) -> str:
    """What to say of a file that was changed by something else than us."""
    return (
        f"the store {str(path or 'in memory')!r} is damaged ({fault}). It was left as it is. Usual causes: a failing "
        "disk, a copy made while it was in use, a synchronised folder. Bring back a backup; to rescue what can be "
        "read, work on a copy with: sqlite3 copy.db .recover"
    )


DAMAGE = ("malformed", "not a database", "decode", "corrupt", "no such table", "no such column", "unsupported file")
CAUSES = (
    ("full", "the disk is full. Nothing was stored, and what was stored before is safe: free some space and try again"),
    ("no space", "the disk is full. Nothing was stored: free some space and try again"),
    ("readonly", "it may not be written. Change the permissions of the file and its folder"),
    ("permission", "it may not be read or written. Change the permissions of the file and its folder"),
    ("unable to open", "it cannot be opened. Look whether it is still there, and at the permissions of its folder"),
    ("locked", "another program, not askwell, keeps it locked. Close the database browser or backup that has it open"),
    ("i/o error", "the disk reports an error. Nothing was stored: look at free space, quotas and the disk's health"),
)


@contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """Turn what SQLite and the system say into a StoreError that says what it means."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError) as error:
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, UnicodeError) or any(sign in said.lower() for sign in DAMAGE):
            raise StoreError(damaged(path, said)) from error
        causes = [cause for word, cause in CAUSES if word in said.lower()] or ["nothing was stored"]
        raise StoreError(f"cannot use the store {str(path or 'in memory')!r}: {causes[0]}. ({said})") from error
