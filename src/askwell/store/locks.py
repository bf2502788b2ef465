"""Locks on files: who may write now, and which sessions are alive. The system frees them when a process dies."""

import os
import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from askwell.store.records import StoreError

__all__ = ["begin_session", "end_session", "file_lock", "held", "session_alive", "sweep"]

PATIENCE = 60.0  # seconds; a write takes milliseconds
POLL = 0.002  # seconds between two looks at a lock that somebody holds


def file_lock(path: Path) -> BaseFileLock:
    """A lock on the file at `path`, not yet held. It excludes threads, processes and other locks on the same path."""
    return FileLock(path, thread_local=False)


@contextmanager
def held(lock: BaseFileLock, *, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock, or say who may be holding it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, held(file_lock(Path(folder, "lock"))):
    ...     print("alone")
    alone
    """
    folder = Path(lock.lock_file).parent
    if not folder.is_dir():  # filelock would make it again
        raise StoreError(f"the folder {str(folder)!r} of the store is gone. Bring it back and open the store again.")
    try:
        lock.acquire(timeout=patience, poll_interval=POLL)
    except Timeout:
        raise StoreError(
            f"another process has held {lock.lock_file!r} for {patience:g} seconds. Usual cause: it is stopped or "
            "hangs (a debugger, a suspended laptop). End it and try again; nothing was stored."
        ) from None
    except NotImplementedError:  # older filelocks, where newer ones change their kind
        raise StoreError(_no_locks(lock)) from None
    try:
        # A soft lock, which filelock falls back to, would stay for ever when its process is killed.
        if isinstance(lock, SoftFileLock):
            raise StoreError(_no_locks(lock))
        yield
    finally:
        lock.release()


def _no_locks(lock: BaseFileLock) -> str:
    return (
        f"the file system of {lock.lock_file!r} has no locks, so two programs could not share the store safely. "
        "Keep it on a local disk, or use PostgreSQL."
    )


# ---- sessions: one locked file each. Call these with the store's lock held -------------------------------------------


def begin_session(folder: Path) -> BaseFileLock:
    """A new session: a file of unique name, locked until `end_session` or the death of the process."""
    folder.mkdir(exist_ok=True)
    lock = file_lock(folder / uuid.uuid4().hex)
    lock.acquire(timeout=0)
    return lock


def end_session(lock: BaseFileLock) -> None:
    """Remove the session's file, and the folder with the last one."""
    path = Path(lock.lock_file)
    if sys.platform == "win32":  # an open file cannot be removed there
        lock.release()
    with suppress(OSError):
        path.unlink()
    lock.release()
    with suppress(OSError):
        path.parent.rmdir()


def session_alive(folder: Path, name: str) -> bool:
    """Whether somebody holds that session; the file of a dead one is removed."""
    path = folder / name
    if not re.fullmatch("[0-9a-f]{32}", name) or not path.exists():
        return False
    lock = file_lock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    end_session(lock)
    return False


def sweep(folder: Path) -> bool:
    """Remove what dead sessions left; whether any session is alive."""
    try:
        alive = [session_alive(folder, name) for name in os.listdir(folder)]
    except FileNotFoundError:
        return False
    return any(alive)
