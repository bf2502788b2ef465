"""The engine of clusters: Ray's tasks, started here or on a cluster that is there.

The function goes to the object store once and is unpickled once by each worker process, so that a model stays loaded
from job to job. A job whose worker or node dies is done by another one. On a cluster that is there, each node needs the
same versions of Python, Ray and askwell, the modules that the function comes from (or `options={"runtime_env":
{"working_dir": "."}}`, which sends them), and the same files at the same paths (a shared disk, or URLs). Clusters of
`ray start` ask for a token since Ray 2.60: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, there and here.
"""

import contextlib
import hashlib
import os
import pickle
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import cloudpickle
import numpy as np

from askwell.arrays import threads
from askwell.workers import ONE_THREAD, Fault, code_paths, tried

__all__ = ["Ray"]

RETRIES = 3  # of a job whose worker dies
AHEAD = 2  # jobs given out for each processor: one that runs and one that waits, so that hints are fresh
LONG = 10  # times the median of what a job takes: then nothing will come any more
LOOK = 5.0  # seconds between two looks at how large the cluster is
CONNECT = 10.0  # seconds
STARTS = 2  # attempts to start a local cluster
STORE = 256 << 20  # bytes of the object store, beside the function

MISSING = "the engine 'ray' needs Ray: pip install 'askwell[ray]'."
UNSENT = (
    "the model, the data and the functions must survive being sent to a worker of Ray, but: {}. Try engine='local' to "
    "see more; on a cluster each node needs askwell and the modules that they come from."
)
UNANSWERED = (
    "address must be that of a Ray cluster, 'auto' for the one this machine is part of, but at {!r} none answers: {} "
    "(A cluster that asks for a token needs RAY_AUTH_MODE=token and RAY_AUTH_TOKEN in the environment here too.)"
)
UNSTARTED = "Ray does not start on this machine: {} Is there memory and disk? engine='local' needs no Ray."
LOST = "its worker was lost {} times, at last: {} Out of memory? Try fewer workers, or engine='local' to see more."
STUCK = (
    "nothing has ended for {:.0f} seconds (half of the jobs took less than {:.1f}), {} jobs were given out. Does one "
    "hang, or has the cluster no free processor? `patience` is the least time to wait, in seconds."
)


@final
@dataclass(frozen=True)
class Ray:
    """Workers of Ray, one thread each: of this machine, started and stopped by each `run`, or of a cluster.

    `address` is "host:6379" or "auto" (this machine is part of the cluster), or "ray://host:10001" (it is not; needs
    ray[client]). If Ray runs in this process already, that is used and stays. `workers` is how many jobs there are at a
    time, by default what there are processors. `options` are Ray's for each job: {"num_gpus": 0.5}, {"memory": 2e9},
    {"runtime_env": ...}. If no job ends for ten times what jobs take, and for `patience` seconds, the rest is given up.
    `logs` shows what workers print.
    """

    address: str | None = None
    workers: int | None = None
    patience: float = 300.0
    options: Mapping[str, Any] = field(default_factory=dict)
    logs: bool = False

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers must be a whole number from 1, or None for all, but it is {self.workers}.")
        if not self.patience > 0:
            raise ValueError(f"patience must be a number of seconds above 0, but it is {self.patience}.")

    def run(
        self,
        function: Callable[..., None],
        jobs: Sequence[Any],
        *,
        told: Callable[[int, Any], None],
        hint: Callable[[], Any] | None = None,
    ) -> list[Fault | None]:
        """As an engine does; the messages of a job come together, when it ends."""
        try:
            import ray
        except ImportError:
            raise ImportError(MISSING) from None
        if not jobs:
            return []
        try:
            task = cloudpickle.dumps((function, list(jobs)))
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ValueError(UNSENT.format(error)) from error
        with self._connected(ray, len(task)) as (options, own):
            home = os.getcwd() if own else None  # elsewhere there may be no such folder
            flight = _Flight(ray, task, len(jobs), options, self.patience, None if own else self.workers, home)
            return flight.run(told, hint)

    @contextlib.contextmanager
    def _connected(self, ray: Any, size: int) -> Iterator[tuple[dict[str, Any], bool]]:
        """(options of each job, whether Ray was started for this); what was started is ended."""
        given = dict(self.options.get("runtime_env", {}))
        apart = {"runtime_env": given | {"env_vars": ONE_THREAD | _code() | given.get("env_vars", {})}}
        if ray.is_initialized():
            yield {**self.options, **apart}, False
            return
        loud = {"log_to_driver": self.logs, "logging_level": "INFO" if self.logs else "ERROR"}
        if self.address in (None, "local"):
            with _local(ray, self.workers or threads(), STORE + 2 * size, loud):
                yield dict(self.options), True
            return
        try:
            _answers(str(self.address))
            with tempfile.TemporaryDirectory() as nowhere, _working_in(nowhere):
                ray.init(address=self.address, **loud)
        except (OSError, ValueError) as error:
            raise ConnectionError(UNANSWERED.format(self.address, str(error).partition("\n")[0])) from error
        try:
            yield {**self.options, **apart}, False
        finally:
            ray.shutdown()  # leaves the cluster, which goes on


def _answers(address: str) -> None:
    """OSError if nobody listens there: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()


@contextlib.contextmanager
def _local(ray: Any, workers: int, store: int, loud: dict[str, Any]) -> Iterator[None]:
    """Ray on this machine, in a folder of its own: a cluster that is here, or was, does not come between."""
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    folder = _short_folder()
    try:
        # what Ray starts here inherits this, which is faster than an environment of each job
        with _environment(ONE_THREAD | settings | code_paths()), _working_in(folder):
            _start(ray, num_cpus=workers, object_store_memory=store, _temp_dir=folder, **loud)
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _working_in(folder: str) -> Iterator[None]:
    """Around the start of Ray, which makes its workers look for modules first where this process works then.

    So that is an empty folder, unless this process looks there too: a file that happens to lie where somebody starts a
    command is no module. Jobs go back to where they belong (`_done`).
    """
    here = os.getcwd()
    if os.path.realpath(here) in map(os.path.realpath, code_paths()["PYTHONPATH"].split(os.pathsep)):
        yield
        return
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


def _start(ray: Any, **settings: Any) -> None:
    """A local cluster; once more if it does not come up: its parts race for ports, and have only seconds to meet."""
    for attempt in range(STARTS):
        try:
            ray.init(address="local", include_dashboard=False, **settings)
            return
        except Exception as error:  # Ray raises no narrower one
            ray.shutdown()
            if attempt == STARTS - 1:
                raise RuntimeError(UNSTARTED.format(f"{error} ({type(error).__name__})")) from error


def _code() -> dict[str, str]:
    """Where this process finds modules that are not installed: other nodes may have them there too."""
    homes = tuple(os.path.realpath(home) for home in {sys.prefix, sys.base_prefix})
    paths = (os.path.realpath(path) for path in code_paths()["PYTHONPATH"].split(os.pathsep))
    return {"PYTHONPATH": os.pathsep.join([path for path in paths if not path.startswith(homes)] + ["${PYTHONPATH}"])}


def _short_folder() -> str:
    """A new folder whose name leaves room for those of sockets, which are at most about a hundred characters."""
    place = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="askwell-", dir=place if len(place) < 16 or os.name == "nt" else "/tmp")


@contextlib.contextmanager
def _environment(changed: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changed)
    try:
        yield
    finally:
        for name in changed:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


# ---- the worker's side ---------------------------------------------------------------------------------------------

_loaded: dict[str, tuple[Callable[..., None], list[Any]]] = {}  # the last function and its jobs, by their content


def _done(
    home: str | None, key: str, sent: list[Any], place: int, hints: list[Any]
) -> tuple[list[Any] | None, Any, float]:
    """(messages, fault, seconds) of a job; (None, why, 0) if it cannot be unpickled."""
    if home is not None:
        os.chdir(home)
    if key not in _loaded:
        import ray

        task = ray.get(sent[0])
        _loaded.clear()
        try:
            _loaded[key] = pickle.loads(task)
        except Exception as error:
            return None, f"{error} ({type(error).__name__})", 0.0
    function, jobs = _loaded[key]
    start, messages = time.perf_counter(), list[Any]()
    fault = tried(function, jobs[place], messages.append, *hints)
    return messages, fault, time.perf_counter() - start


# ---- the driver's side ---------------------------------------------------------------------------------------------


@final
class _Flight:
    """Jobs, and which of them are given out."""

    def __init__(
        self,
        ray: Any,
        task: bytes,
        jobs: int,
        options: dict[str, Any],
        patience: float,
        workers: int | None,
        home: str | None,
    ) -> None:
        self._ray, self._patience, self._workers, self._home = ray, patience, workers, home
        self._cost = float(options.get("num_cpus", 1)) or 1.0
        self._do = ray.remote(_done).options(max_retries=0, **options)
        self._key = hashlib.sha256(task).hexdigest()
        self._sent = [ray.put(np.frombuffer(task, np.uint8))]  # in a list: fetched by those who do not have it yet
        self._waiting = deque(range(jobs))
        self._flying: dict[Any, int] = {}  # reference -> place
        self._lost = [0] * jobs  # times
        self._faults: list[Fault | None] = [None] * jobs
        self._took: list[float] = []  # seconds
        self._room, self._looked = 0, -LOOK

    def run(self, told: Callable[[int, Any], None], hint: Callable[[], Any] | None) -> list[Fault | None]:
        last = time.monotonic()
        try:
            while self._waiting or self._flying:
                self._give(hint)
                if ended := self._ended():
                    for reference in ended:
                        self._take(reference, told)
                    last = time.monotonic()
                elif time.monotonic() - last > self._longest():
                    self._give_up(time.monotonic() - last)
        finally:
            self._cancel()
        return self._faults

    def _give(self, hint: Callable[[], Any] | None) -> None:
        """As many jobs as there is room for."""
        if time.monotonic() - self._looked >= LOOK:
            processors = self._ray.cluster_resources().get("CPU", 1.0)
            self._room = self._workers or max(1, int(AHEAD * processors / self._cost))
            self._looked = time.monotonic()
        while self._waiting and len(self._flying) < self._room:
            place = self._waiting.popleft()
            hints = [] if hint is None else [hint()]
            self._flying[self._do.remote(self._home, self._key, self._sent, place, hints)] = place

    def _ended(self) -> list[Any]:
        flying = list(self._flying)
        if not self._ray.wait(flying, timeout=1.0)[0]:
            return []
        ended: list[Any] = self._ray.wait(flying, num_returns=len(flying), timeout=0)[0]
        return ended

    def _take(self, reference: Any, told: Callable[[int, Any], None]) -> None:
        place, wrong = self._flying.pop(reference), self._ray.exceptions
        try:
            messages, fault, seconds = self._ray.get(reference)
        except wrong.RayTaskError as error:  # not of the job, whose own are told as faults
            raise ValueError(UNSENT.format(str(error).strip().rpartition("\n")[2])) from error
        except wrong.RuntimeEnvSetupError as error:
            raise RuntimeError(f"Ray cannot make the runtime_env of options: {error}") from error
        except wrong.RayError as error:  # the worker or its node is gone
            self._lost[place] += 1
            if self._lost[place] <= RETRIES:
                self._waiting.appendleft(place)
            else:
                text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                self._faults[place] = Fault("RuntimeError", LOST.format(self._lost[place], text))
            return
        if messages is None:
            raise ValueError(UNSENT.format(fault))
        for message in messages:
            told(place, message)
        self._faults[place] = fault
        self._took.append(seconds)

    def _longest(self) -> float:
        """Seconds without a job that ends before the rest is given up."""
        return max(self._patience, LONG * statistics.median(self._took) if self._took else 0.0)

    def _give_up(self, waited: float) -> None:
        middle = statistics.median(self._took) if self._took else 0.0
        fault = Fault("RuntimeError", STUCK.format(waited, middle, len(self._flying)))
        for place in (*self._flying.values(), *self._waiting):
            self._faults[place] = fault
        self._waiting.clear()
        self._cancel()

    def _cancel(self) -> None:
        """End what still runs."""
        for reference in self._flying:
            with contextlib.suppress(Exception):  # it may be over, or its node gone: what led here matters more
                self._ray.cancel(reference, force=True)
        self._flying.clear()
