"""Other processes for the tests of a store: started in a moment, at the end of a line, ready to be killed."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import cloudpickle

from askwell.store.records import Conflict, Record, Store

__all__ = ["Line", "Opener", "count_up", "elsewhere", "rest", "soon", "wait", "write"]

Opener: TypeAlias = Callable[[], Store]
Line: TypeAlias = "Connection[Any, Any]"

PRELOAD = ["askwell.store.contract", "askwell.store.sqlite", "askwell.store.postgres"]  # what is missing is left out


def elsewhere(work: Callable[..., None], opener: Opener, *values: Any) -> tuple[Any, Line]:
    """(a process that does `work(opener, line, *values)`, our end of the line)."""
    if "forkserver" in multiprocessing.get_all_start_methods():  # imports once, not in each process
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOAD)
    else:
        context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(cloudpickle.dumps((work, opener, values)), theirs), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _run(job: bytes, line: Line) -> None:
    work, opener, values = cloudpickle.loads(job)
    work(opener, line, *values)


def rest(line: Line) -> Iterator[Any]:
    """What is still on the line of a process that has ended."""
    try:
        while True:
            yield line.recv()
    except (EOFError, OSError):
        return


def soon(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, and fail if it does not for long."""
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("what was waited for did not happen in 20 seconds")


# ---- work ----------------------------------------------------------------------------------------------------------


def wait(opener: Opener, line: Line) -> None:
    """Open the store, tell the session, and stay."""
    with opener() as store:
        line.send(store.session())
        line.recv()


def count_up(opener: Opener, line: Line, name: str, appends: int) -> None:
    """Append what follows from all that was there before, again and again."""
    with opener() as store:
        for step in range(appends):
            while True:
                found = store.read("run")
                following = Record(f"{name} {step}", "run", "count", None, {"seen": len(found)}, name)
                try:
                    store.append([following], after=found[-1].seq if found else 0)
                    break
                except Conflict:
                    continue
    line.send("done")


def write(opener: Opener, line: Line, name: str, appends: int) -> None:
    """Append, and acknowledge each record after it is stored."""
    line.send("begin")
    with opener() as store:
        for step in range(appends):
            store.append([Record(f"{name} {step}", "run", "label", "17", {})])
            line.send(f"{name} {step}")
