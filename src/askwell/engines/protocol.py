"""What an engine is, and how it is called by name."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from askwell.workers import Fault

__all__ = ["Engine", "as_engine"]

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


def as_engine(engine: Any) -> Engine:
    """An engine by its name, or as it is.

    >>> as_engine("local:2")
    Local(processes=2)
    """
    if isinstance(engine, Engine):
        return engine
    from askwell.engines.local import Local, Serial

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
