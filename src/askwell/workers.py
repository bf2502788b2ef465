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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import cloudpickle
from threadpoolctl import threadpool_limits

__all__ = ["Fault", "Tell", "serve", "work"]

Tell = Callable[[Any], None]
"""How a job reports on the way: with anything that JSON can hold."""

ONE_THREAD = dict.fromkeys(
    (
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
    function: Callable[[Any, Tell], None], jobs: Sequence[Any], *, processes: int, told: Callable[[int, Any], None]
) -> list[Fault | None]:
    """Call `function(job, tell)` for each job; what went wrong in each, None where nothing did.

    `told(place of the job, message)` is called here, in this thread, for each `tell(message)` there. One process means
    this one; linear algebra has one thread in either case, so that the numbers are the same.

    >>> heard = []
    >>> def divide(job, tell):
    ...     tell(6 // job)
    >>> faults = work(divide, [3, 0], processes=1, told=lambda place, message: heard.append((place, message)))
    >>> heard, faults[0], faults[1].text
    ([(0, 2)], None, 'integer division or modulo by zero')
    """
    if min(processes, len(jobs)) <= 1:
        with threadpool_limits(1):
            return [_tried(function, job, partial(told, place)) for place, job in enumerate(jobs)]
    try:
        task = cloudpickle.dumps((function, list(jobs)))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ValueError(UNSENT.format(error)) from error
    handle, name = tempfile.mkstemp(prefix="askwell-")
    with os.fdopen(handle, "wb") as file:
        file.write(task)
    return _Crew(Path(name), len(jobs), min(processes, len(jobs))).run(told)


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
    for place in _numbers():
        fault = _tried(function, jobs[place], lambda message: send("told", message))
        send("done", None if fault is None else [fault.kind, fault.text, fault.trace])


def _numbers() -> Iterator[int]:
    """The job numbers from standard input; if it closes during a job, the process ends at once."""
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
        yield int(line)
        done += 1


def _tried(function: Callable[[Any, Tell], None], job: Any, tell: Tell) -> Fault | None:
    try:
        function(job, tell)
    except Exception as error:
        return Fault(type(error).__name__, str(error), traceback.format_exc())
    return None


@final
class _Crew:
    """Workers, and who of them does which job."""

    def __init__(self, task: Path, jobs: int, processes: int) -> None:
        self._next, self._jobs, self._task = 0, jobs, task
        self._faults: list[Fault | None] = [None] * jobs
        self._messages: queue.Queue[tuple[int, list[Any] | None]] = queue.Queue()
        code = f"from askwell.workers import serve; serve({str(task)!r})"
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._workers = [
            subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | ONE_THREAD | {"PYTHONPATH": paths},
                start_new_session=True,  # Ctrl-C is for the parent, who ends the workers
                text=True,
                encoding="utf-8",
            )
            for _ in range(processes)
        ]
        self._doing: dict[int, int | None] = dict.fromkeys(range(processes))  # worker -> place of its job
        self._loading = set(self._doing)
        self._listeners = [threading.Thread(target=self._listen, args=(w,), daemon=True) for w in self._doing]
        for listener in self._listeners:
            listener.start()

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
        for place in range(self._next, self._jobs):
            self._faults[place] = Fault("RuntimeError", ENDED.format(self._workers[0].returncode))
        return self._faults

    def _take(self, worker: int, message: list[Any] | None, told: Callable[[int, Any], None]) -> None:
        place = self._doing[worker]
        self._loading.discard(worker)
        if not self._loading:  # all have read it: if this process is killed now, nothing stays behind
            self._task.unlink(missing_ok=True)
        if message is None:  # it is gone
            del self._doing[worker]
            if place is not None:
                code = self._workers[worker].wait()
                self._faults[place] = Fault("RuntimeError", ENDED.format(code))
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

    def _give(self, worker: int) -> None:
        """The next job, or the end."""
        stdin = self._workers[worker].stdin
        assert stdin is not None
        self._doing[worker] = None
        with contextlib.suppress(OSError):  # a worker that has died is seen by its listener
            if self._next < self._jobs:
                stdin.write(f"{self._next}\n")
                stdin.flush()
                self._doing[worker], self._next = self._next, self._next + 1
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
