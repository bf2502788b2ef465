"""Engines of one machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from askwell.arrays import threads
from askwell.workers import Fault, tried, work

__all__ = ["Local", "Serial"]

RETRIES = 3  # of a job whose process dies


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
