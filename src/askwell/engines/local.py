"""What an engine is, those of one machine, and how an engine is called by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, final, runtime_checkable

from askwell.arrays import threads
from askwell.workers import Fault, tried, work

__all__ = ["Engine", "Local", "Serial", "as_engine"]

RETRIES = 3  # of a job whose process dies
KNOWN = (
    "'serial', 'local', 'local:4' (processes), 'ray', 'ray:4' (workers of this machine), 'ray:auto', 'ray:host:6379', "
    "'ray://host:10001' (of a cluster)"
)


@runtime_checkable
class Engine(Protocol):
    """Does jobs, in any order and anywhere."""

    def run(
        self,
        function: Callable[..., None],
        jobs: Sequence[Any],
        *,
        told: Callable[[int, Any], None],
        hint: Callable[[], Any] | None = None,
    ) -> list[Fault | None]:
        """Call `function(job, tell)` for each job, or `function(job, tell, hint())` with a hint asked at that time.

        `told(place of the job, message)` is called here for each `tell(message)` there, whatever JSON can hold. A job
        may be done more than once, if who did it died; then its messages come again. What went wrong in each job comes
        back, None where nothing did.
        """


@final
@dataclass(frozen=True)
class Serial:
    """This process: one job after the other, each with all threads.

    >>> found = []
    >>> Serial().run(lambda job, tell: tell(job + 1), [1, 2], told=lambda place, message: found.append(message))
    [None, None]
    >>> found
    [2, 3]
    """

    def run(
        self,
        function: Callable[..., None],
        jobs: Sequence[Any],
        *,
        told: Callable[[int, Any], None],
        hint: Callable[[], Any] | None = None,
    ) -> list[Fault | None]:
        """As an engine does."""
        return [
            tried(function, job, partial(told, place), *([] if hint is None else [hint()]))
            for place, job in enumerate(jobs)
        ]


@final
@dataclass(frozen=True)
class Local:
    """Processes of this machine, one thread each; by default as many as there are processors."""

    processes: int | None = None

    def run(
        self,
        function: Callable[..., None],
        jobs: Sequence[Any],
        *,
        told: Callable[[int, Any], None],
        hint: Callable[[], Any] | None = None,
    ) -> list[Fault | None]:
        """As an engine does."""
        processes = self.processes or threads()
        return work(function, jobs, processes=processes, told=told, hint=hint, retries=RETRIES)


def as_engine(engine: Any) -> Engine:
    """An engine by its name, or as it is.

    >>> as_engine("local:2")
    Local(processes=2)
    """
    if isinstance(engine, Engine):
        return engine
    name, _, rest = str(engine).partition(":")
    if engine is None or engine == "serial":
        return Serial()
    if name == "local" and (not rest or rest.isdecimal()) and rest != "0":
        return Local(int(rest)) if rest else Local()
    if name == "ray" and rest != "0":
        return _ray(rest)
    raise ValueError(f"engine must be {KNOWN} or an object with a method run, but it is {engine!r}.")


def _ray(rest: str) -> Engine:
    from askwell.engines.ray import Ray

    if rest.isdecimal():
        return Ray(workers=int(rest))
    return Ray(f"ray:{rest}" if rest.startswith("//") else rest or None)
