"""Progress bars on long work, and none on short: they appear after a second, and only where somebody looks."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

__all__ = ["track"]

Item = TypeVar("Item")
PATIENCE = 1.0  # seconds before a bar is shown


def track(items: Sequence[Item], *, label: str, shown: bool | None = None) -> Iterator[Item]:
    """The items, one after another, with a bar on standard error if they take long.

    `shown` is for those who know better than to look whether standard error is a terminal.

    >>> list(track([1, 2, 3], label="counting"))
    [1, 2, 3]
    """
    if shown is None:
        shown = bool(label) and sys.stderr is not None and sys.stderr.isatty()
    if not shown or len(items) < 2:
        yield from items
        return
    start = time.monotonic()
    done = iter(items)
    for count, item in enumerate(done, 1):
        yield item
        if time.monotonic() - start > PATIENCE and count < len(items):
            yield from _with_bar(done, label, count, len(items))
            return


def _with_bar(rest: Iterator[Item], label: str, count: int, total: int) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True, force_terminal=True), transient=True) as progress:
        task = progress.add_task(label, total=total, completed=count)
        for item in rest:
            yield item
            progress.advance(task)
