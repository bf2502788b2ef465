"""Training in the background: a thread that watches the records, and a process that learns, one at a time.

The process is started with `python -m askwell.project.training FOLDER`. It has a low priority and a session of its
own, and ends when its parent does, however that ends. People are never kept waiting: whatever happens to a fit, the
queue that is there goes on. Servers that share a store take turns.
"""

import contextlib
import faulthandler
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any, final

from askwell.project.project import open_project
from askwell.project.rounds import train_round
from askwell.session.events import RoundFinished
from askwell.session.leases import Turn
from askwell.session.progress import has_model
from askwell.session.state import State
from askwell.store.records import Store, StoreError

__all__ = ["Retraining", "main", "training_since", "training_turn"]

LIMIT = 900.0  # seconds that a round may take
LOOK = 1.0  # seconds between two looks at the records
BUSY = 75  # the exit status of a process that found another one training
BUSY_PAUSE = 5.0  # seconds before it is tried again
FAILED_PAUSE = 5.0  # seconds after a first failure; doubled each time, up to `every_seconds`
RETRIES = 3  # after failures in a row, without new labels
LOW = 10  # how nice the process is


@final
class Retraining:
    """Trains a project's model after every so many new labels, or so many seconds if there is a new one.

    The first round begins at once, and the first with a model as soon as two classes have labels. `store` is the
    project's, if it is open in this process already: one connection is better than two. `status()` is for a page to
    show. A round that fails, dies, or takes longer than `limit_seconds` is recorded as failed, and tried again after
    new labels.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        every_labels: int,
        every_seconds: float,
        store: Store | None = None,
        limit_seconds: float = LIMIT,
        look_seconds: float = LOOK,
    ) -> None:
        for name, value in (("every_labels", every_labels), ("every_seconds", every_seconds)):
            if not value > 0:
                raise ValueError(f"{name} must be above zero, but it is {value!r}.")
        self._folder, self._every, self._seconds = Path(folder).absolute(), every_labels, every_seconds
        self._limit, self._look, self._store = limit_seconds, look_seconds, store
        self._state = State()  # of its items nothing is asked here
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._since: float | None = None  # when the fit that is going on began
        self._error, self._errors = "", 0
        self._begun, self._pause_until = -float("inf"), 0.0
        self._attempt = -1  # the number of changes when a round was last begun; -1: never
        self._thread = threading.Thread(target=self._watch, name="askwell retraining", daemon=True)

    # ---- the door ----

    def start(self) -> "Retraining":
        """Begin to watch."""
        self._thread.start()
        return self

    def status(self) -> dict[str, Any]:
        """How it stands: {"state": "idle" | "fitting" | "failed" | "closed", "since", "text", "labels", "next_in"}.

        `since` is when a fit began (unix seconds), `text` what went wrong, `labels` how many are new since the last
        round, `next_in` the seconds until the next one if no more come (None: it waits for labels).
        """
        with self._lock:
            state = (
                "closed" if self._stop.is_set() else "fitting" if self._since else "failed" if self._error else "idle"
            )
            new = self._new()
            wait = None if self._since else self._wait(time.monotonic())
            return {"state": state, "since": self._since, "text": self._error, "labels": new, "next_in": wait}

    def close(self) -> None:
        """Stop watching; a fit that is going on is killed, and nothing is lost but its time."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> "Retraining":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- the thread ----

    def _watch(self) -> None:
        """Look at the records until the end. A store that cannot be read now may be readable again."""
        while not self._stop.is_set():
            try:
                with open_project(self._folder) as project:
                    store, run = self._store or project.store(), project.settings.run
                    while not self._stop.is_set():
                        self._look_at(store, run)
                        self._stop.wait(self._look)
            except (StoreError, ValueError, OSError) as error:
                self._failed(str(error))
                self._stop.wait(FAILED_PAUSE)

    def _look_at(self, store: Store, run: str) -> None:
        with self._lock:
            self._follow(store, run)
            due = (
                self._wait(time.monotonic()) == 0 and not training_turn(store, run).is_taken()
            )  # or a process would start in vain
            if due:
                self._begun, self._since, attempt = time.monotonic(), time.time(), self._state.changes
        if due:
            code, output = self._fit()
            self._ended(store, run, code, output, attempt)

    def _fit(self) -> tuple[int | None, str]:
        """(exit status of the process or None if it took too long, the last thing it output)."""
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "askwell.project.training", str(self._folder), str(self._limit)],
                stdin=subprocess.PIPE,  # never written to: its end tells the process that we are gone
                stdout=subprocess.DEVNULL,
                stderr=output,
                env=os.environ | _safely(),
                start_new_session=True,
            )
            try:
                code = self._waited(child)
            finally:
                _kill(child)
            return code, _last_line(output)

    def _waited(self, child: "subprocess.Popen[bytes]") -> int | None:
        while not self._stop.is_set() and time.monotonic() - self._begun < self._limit:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(timeout=min(self._look, 0.2))
        return None

    def _ended(self, store: Store, run: str, code: int | None, output: str, attempt: int) -> None:
        with self._lock:
            self._since = None
            if self._stop.is_set():
                return
            if code == BUSY:
                self._pause_until = time.monotonic() + BUSY_PAUSE
                return
            self._attempt = attempt
            self._follow(store, run)
            rounds = self._state.rounds
        if code == 0:
            error = str(rounds[-1].get("failed", "")) if rounds else ""
        else:
            error = _reason(code, self._limit, output)
            number = 1 + max((int(body["round"]) for body in rounds), default=0)
            store.append([RoundFinished({"round": number, "failed": error}).to_record(run)])
        if error:
            self._failed(error)
        else:
            with self._lock:
                self._error, self._errors = "", 0

    def _follow(self, store: Store, run: str) -> None:
        for record in store.read(run, after=self._state.seq):
            self._state.add(record)

    def _failed(self, error: str) -> None:
        with self._lock:
            self._since, self._error, self._errors = None, error, self._errors + 1
            pause = min(self._seconds, FAILED_PAUSE * 2 ** min(self._errors - 1, 20))
            self._pause_until = time.monotonic() + pause

    # ---- when ----

    def _new(self) -> int:
        """Labels since the last round, of whichever server, or since the last that was tried here."""
        known = next((int(body["changes"]) for body in reversed(self._state.rounds) if "changes" in body), 0)
        return max(0, self._state.changes - max(known, self._attempt))

    def _first_model(self) -> bool:
        """Whether there could be a model, and there is none yet: people are asked at random meanwhile."""
        return not any(map(has_model, self._state.rounds)) and sum(n > 0 for n in self._state.uses.values()) > 1

    def _wait(self, now: float) -> float | None:
        """Seconds until the next round if no more labels come; None: it waits for labels."""
        again = 0 < self._errors <= RETRIES
        if self._attempt < 0 or again or self._new() >= self._every or (self._new() and self._first_model()):
            wait = 0.0
        elif self._new() == 0:
            return None
        else:
            wait = self._begun + self._seconds - now
        return max(0.0, wait, self._pause_until - now)


def _safely() -> dict[str, str]:
    """An environment in which no module is taken from where the server was started, maybe the project's folder."""
    named = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # "" is that place, too
    return {"PYTHONPATH": os.pathsep.join(named), "PYTHONSAFEPATH": "1"}


def _kill(child: "subprocess.Popen[bytes]") -> None:
    """End the process and all it started, if it is still there."""
    if child.poll() is None:
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
    child.wait()
    if child.stdin is not None:
        child.stdin.close()


def _last_line(output: IO[bytes]) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - 4000))
    lines = output.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _reason(code: int | None, limit: float, output: str) -> str:
    if code is None:
        return f"training took longer than {limit:g} seconds and was ended. Try a faster model, or fewer features."
    if code < 0:
        name = signal.Signals(-code).name if -code in {*signal.Signals} else f"signal {-code}"
        hint = " Usual cause: the memory is full." if name == "SIGKILL" else ""
        return f"training was ended by {name}.{hint}"
    return f"training ended with status {code}{f': {output}' if output else '.'}"


# ---- the process ---------------------------------------------------------------------------------------------------


def training_turn(store: Store, run: str) -> Turn:
    """The turn to train: it is given back at the end, and held no longer than a round may take."""
    return Turn(store, f"{run}: training", seconds=LIMIT)


def training_since(store: Store, run: str) -> float | None:
    """When the training that is going on, in whichever process, began (unix seconds); None if there is none.

    >>> from askwell.store import open_store
    >>> training_since(open_store(None), "main") is None
    True
    """
    return training_turn(store, run).since()


def main(folder: str, *, limit: float, parent: bool) -> int:
    """One round of the project in a folder; the exit status. With a `parent` at the other end of stdin, end with it."""
    if hasattr(os, "nice"):
        os.nice(LOW)
    faulthandler.dump_traceback_later(limit, exit=True)  # needs nobody's cooperation, not even the interpreter's
    if parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    with open_project(folder) as project:
        turn = Turn(project.store(), f"{project.settings.run}: training", seconds=limit)
        if not turn.take():
            return BUSY
        try:
            train_round(project)
        finally:
            turn.release()
    faulthandler.cancel_dump_traceback_later()
    return 0


def _end_with_parent() -> None:
    """Wait for the end of the pipe that the parent holds: it is there until it closes it or dies."""
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    given = len(sys.argv) > 2
    sys.exit(main(sys.argv[1], limit=float(sys.argv[2]) if given else LIMIT, parent=given))
