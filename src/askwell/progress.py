"""Progress bars on long work, and none on short: they appear after a second, and only where somebody looks.

That is on a terminal, and in a notebook, where a line that writes over itself takes the place of the bar.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["counted", "lines", "track"]

Item = TypeVar("Item")
PATIENCE = 1.0  # seconds before a bar is shown
FIRST_LINE = 5.0  # seconds before the first line in a log; the next ones come twice as late each
REFRESH = 0.2  # seconds between two looks of a notebook's line
LAST_LINE = 60.0  # seconds between two of them in the end


def track(items: Sequence[Item], *, label: str, shown: bool | None = None) -> Iterator[Item]:
    """The items, one after another, with a bar on standard error if they take long.

    `shown` is for those who know better than to look whether standard error is a terminal.

    >>> list(track([1, 2, 3], label="counting"))
    [1, 2, 3]
    """
    if not _is_shown(label, shown) or len(items) < 2:
        yield from items
        return
    start = time.monotonic()
    done = iter(items)
    for count, item in enumerate(done, 1):
        yield item
        if time.monotonic() - start > PATIENCE and count < len(items):
            yield from _with_bar(done, label, count, len(items))
            return


@contextmanager
def counted(total: int, *, label: str, unit: str, shown: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A function to call with how many more are done; its bar says how many that is a second, and the time left.

    >>> with counted(1000, label="reading", unit="rows") as done:
    ...     done(400)
    """
    if not _is_shown(label, shown):
        yield lambda more: None
        return
    if _in_notebook():
        line, finished = _line(label, total, unit), 0

        def add(more: int) -> None:
            nonlocal finished
            finished += more
            line(finished)

        yield add
        return
    from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many a second since the beginning."""

        def render(self, task: Any) -> Text:
            rate = task.completed / (task.elapsed or 1)
            return Text(f"{task.completed:,.0f} of {task.total:,.0f} {unit}, {rate:,.0f}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), Rate(), TimeRemainingColumn(), TextColumn("left"))
    with _bar(*columns) as progress:
        task, start = progress.add_task(label, total=total, visible=False), time.monotonic()

        def done(more: int) -> None:
            progress.update(task, advance=more, visible=time.monotonic() - start > PATIENCE)

        yield done


def lines(
    *, label: str, unit: str, clock: Callable[[], float] = time.monotonic, shown: bool | None = None
) -> Callable[[int, int], None] | None:
    """A function to call with how many are done of how many, which writes lines with the time left to standard error.

    For where that goes to a file: None on a terminal, which has a bar. What was done before the first call counts as
    done, not as work.
    """
    if not (sys.stderr is not None and not _is_watched() if shown is None else shown):
        return None
    start, wait, last = clock(), FIRST_LINE, clock()
    begun: int | None = None

    def told(done: int, total: int) -> None:
        nonlocal begun, wait, last
        now = clock()
        begun = done if begun is None else begun
        if now - last < wait or done >= total:
            return
        left = "" if done == begun else f", about {_minutes((now - start) * (total - done) / (done - begun))} left"
        print(f"{label}: {done:,} of {total:,} {unit} after {_minutes(now - start)}{left}", file=sys.stderr, flush=True)
        wait, last = min(2 * wait, LAST_LINE), now

    return told


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _is_shown(label: str, shown: bool | None) -> bool:
    return bool(label) and sys.stderr is not None and _is_watched() if shown is None else shown


def _is_watched() -> bool:
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    """Whether this is a notebook, which is no terminal, and where somebody looks on all the same."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def _line(label: str, total: int, unit: str) -> Callable[[int], None]:
    """A function to call with how many are done: it writes over its line, some times a second, after a second."""
    start, last = time.monotonic(), 0.0

    def told(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - start > PATIENCE and (now - last > REFRESH or done >= total):
            left = (now - start) * (total - done) / max(1, done)
            text = f"{label}: {done:,} of {total:,} {unit}".rstrip()
            print(f"\r{text}, about {_minutes(left)} left    ", end="\n" if done >= total else "", file=sys.stderr)
            last = now

    return told


def _bar(*columns: Any) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True, force_terminal=True), transient=True)


def _with_bar(rest: Iterator[Item], label: str, count: int, total: int) -> Iterator[Item]:
    if _in_notebook():
        told = _line(label, total, "")
        for number, item in enumerate(rest, count + 1):
            yield item
            told(number)
        return
    with _bar() as progress:
        task = progress.add_task(label, total=total, completed=count)
        for item in rest:
            yield item
            progress.advance(task)
