"""Jobs in several processes: each with one thread, none of them left behind, and no job that takes others down.

Workers are plain subprocesses that get the function once (by cloudpickle, so a lambda or a class of a notebook is fine,
and a script needs no `if __name__ == "__main__"`), then the numbers of jobs, one at a time, on their standard input.
When that closes, because the parent is done, was interrupted or was killed, they end.
"""

import contextlib
import json
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import cloudpickle
from threadpoolctl import threadpool_limits

from askwell.arrays import keep_freed_memory

__all__ = ["Fault", "Tell", "code_paths", "serve", "tried", "work"]

Tell = Callable[[Any], None]
"""How a job reports on the way: with anything that JSON can hold."""

ONE_THREAD = dict.fromkeys(
    (
        "ASKWELL_WORKER",  # whatever its value: they wait for the compiler, and only the one called 0 says so
        *("ASKWELL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
        *("VECLIB_MAXIMUM_THREADS", "LOKY_MAX_CPU_COUNT"),  # the last is what scikit-learn's n_jobs=-1 counts
    ),
    "1",
)
UNSENT = (
    "the model, the data and the functions must survive being sent to another process, but: {}. Try processes=1, or "
    "define them in a module that can be imported there."
)
ENDED = "its process ended with exit code {}. Out of memory? Try fewer processes, or 1 to see more."


@final
@dataclass(frozen=True)
class Fault:
    """What went wrong in a job."""

    kind: str  # of the exception
    text: str
    trace: str = ""  # of the calls


def work(
    function: Callable[..., None],
    jobs: Sequence[Any],
    *,
    processes: int,
    told: Callable[[int, Any], None],
    hint: Callable[[], Any] | None = None,
    retries: int = 0,
) -> list[Fault | None]:
    """Call `function(job, tell)` for each job; what went wrong in each, None where nothing did.

    `told(place of the job, message)` is called here, in this thread, for each `tell(message)` there. One process means
    this one; linear algebra has one thread in either case, so that the numbers are the same. With `hint` it is
    `function(job, tell, hint())`, asked when the job is given out: what the others have found by then, as JSON can hold
    it. A job whose process dies is given to a new process, `retries` times at most.

    >>> heard = []
    >>> def divide(job, tell):
    ...     tell(6 // job)
    >>> faults = work(divide, [3, 0], processes=1, told=lambda place, message: heard.append((place, message)))
    >>> heard, faults[0], faults[1].text
    ([(0, 2)], None, 'integer division or modulo by zero')
    """
    if min(processes, len(jobs)) <= 1:
        with threadpool_limits(1):
            return [
                tried(function, job, partial(told, place), *([] if hint is None else [hint()]))
                for place, job in enumerate(jobs)
            ]
    try:
        task = cloudpickle.dumps((function, list(jobs)))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ValueError(UNSENT.format(error)) from error
    handle, name = tempfile.mkstemp(prefix="askwell-")
    with os.fdopen(handle, "wb") as file:
        file.write(task)
    return _Crew(Path(name), len(jobs), min(processes, len(jobs)), hint, retries).run(told)


def code_paths() -> dict[str, str]:
    """The environment in which another process finds the modules that this one finds.

    Python would look first into the folder that a process works in, whatever lies there. Here it does so last, and only
    if this process looks there too, as a notebook does: a file there stands for no module that is installed.
    """
    named = [path for path in sys.path if path]
    return {"PYTHONPATH": os.pathsep.join(named + [os.getcwd()] * ("" in sys.path)), "PYTHONSAFEPATH": "1"}


def serve(task: str) -> None:
    """The worker's side: do the jobs whose numbers come in, report on what was standard output."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed must not come between the answers

    def send(kind: str, body: Any) -> None:
        answers.write(json.dumps([kind, body]) + "\n")
        answers.flush()

    try:
        with open(task, "rb") as file:
            function, jobs = cloudpickle.load(file)
    except Exception as error:
        send("unable", [type(error).__name__, str(error), traceback.format_exc()])
        return
    send("ready", None)
    keep_freed_memory()
    for place, hints in _given():
        fault = tried(function, jobs[place], lambda message: send("told", message), *hints)
        send("done", None if fault is None else [fault.kind, fault.text, fault.trace])


def _given() -> Iterator[tuple[int, list[Any]]]:
    """(place of a job, hints) from standard input; if it closes during a job, the process ends at once."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    given = done = 0

    def listen() -> None:
        nonlocal given
        for line in sys.stdin:
            given += 1
            waiting.put(line)
        if given > done:
            os._exit(1)
        waiting.put("")

    threading.Thread(target=listen, daemon=True).start()
    while line := waiting.get():
        place, *hints = json.loads(line)
        yield place, hints
        done += 1


def tried(function: Callable[..., None], job: Any, tell: Tell, *hints: Any) -> Fault | None:
    """Do a job; what went wrong, if anything did."""
    try:
        function(job, tell, *hints)
    except Exception as error:
        return Fault(type(error).__name__, str(error), traceback.format_exc())
    return None


@final
class _Crew:
    """Workers, and who of them does which job."""

    def __init__(self, task: Path, jobs: int, processes: int, hint: Callable[[], Any] | None, retries: int) -> None:
        self._task, self._hint = task, hint
        self._waiting = deque(range(jobs))
        self._retries = [retries] * jobs  # left
        self._faults: list[Fault | None] = [None] * jobs
        self._messages: queue.Queue[tuple[int, list[Any] | None]] = queue.Queue()
        self._workers: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self._doing: dict[int, int | None] = {}  # worker -> place of its job
        self._loading: set[int] = set()
        for _ in range(processes):
            self._hire()

    def _hire(self) -> None:
        """One more worker."""
        worker = len(self._workers)
        code = f"from askwell.workers import serve; serve({str(self._task)!r})"
        self._workers.append(
            subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | ONE_THREAD | code_paths() | {"ASKWELL_WORKER": str(worker)},
                start_new_session=True,  # Ctrl-C is for the parent, who ends the workers
                text=True,
                encoding="utf-8",
            )
        )
        self._doing[worker] = None
        self._loading.add(worker)
        self._listeners.append(threading.Thread(target=self._listen, args=(worker,), daemon=True))
        self._listeners[-1].start()

    def run(self, told: Callable[[int, Any], None]) -> list[Fault | None]:
        try:
            while self._doing:
                try:
                    worker, message = self._messages.get(timeout=1.0)
                except queue.Empty:
                    continue  # where waiting cannot be interrupted, this is where Ctrl-C gets through
                self._take(worker, message, told)
        finally:
            self._end()
        for place in self._waiting:
            self._faults[place] = Fault("RuntimeError", ENDED.format(self._workers[0].returncode))
        return self._faults

    def _take(self, worker: int, message: list[Any] | None, told: Callable[[int, Any], None]) -> None:
        place = self._doing[worker]
        self._loading.discard(worker)
        if not self._loading and not any(self._retries):
            self._task.unlink(missing_ok=True)  # all have read it: if this process is killed now, nothing stays behind
        if message is None:  # it is gone
            del self._doing[worker]
            if place is not None:
                self._lost(place, self._workers[worker].wait())
            return
        kind, body = message
        if kind == "told" and place is not None:
            told(place, body)
            return
        if kind == "unable":
            raise ValueError(UNSENT.format(f"{body[1]} ({body[0]})"))
        if kind == "done" and place is not None and body is not None:
            self._faults[place] = Fault(*body)
        self._give(worker)

    def _lost(self, place: int, code: int) -> None:
        """The process of a job died: somebody else does it, or nobody."""
        if self._retries[place]:
            self._retries[place] -= 1
            self._waiting.appendleft(place)
            self._hire()
        else:
            self._faults[place] = Fault("RuntimeError", ENDED.format(code))

    def _give(self, worker: int) -> None:
        """The next job, or the end."""
        stdin = self._workers[worker].stdin
        assert stdin is not None
        self._doing[worker] = None
        with contextlib.suppress(OSError):  # a worker that has died is seen by its listener
            if self._waiting:
                hints = [] if self._hint is None else [self._hint()]
                stdin.write(f"{json.dumps([self._waiting[0], *hints])}\n")
                stdin.flush()
                self._doing[worker] = self._waiting.popleft()
            else:
                stdin.close()

    def _listen(self, worker: int) -> None:
        stdout = self._workers[worker].stdout
        assert stdout is not None
        for line in stdout:
            self._messages.put((worker, json.loads(line)))
        self._messages.put((worker, None))

    def _end(self) -> None:
        """Leave nobody and nothing behind."""
        for process, listener in zip(self._workers, self._listeners, strict=True):
            if self._doing:  # not all is done: interrupted, or refused
                process.kill()
            process.wait()
            listener.join(timeout=1.0)  # longer only if a process that the worker forked holds the pipe
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None and not listener.is_alive():
                        pipe.close()
        self._task.unlink(missing_ok=True)
