"""What the bridge remembers beside the answers: its project in Label Studio, and imports whose end it has not seen.

Kept in a run of its own in the project's store. Everything is written down before it is done, so that a bridge which
was killed at any moment knows what may have happened.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

from askwell.session.events import Event, ImportFinished, ImportStarted, StudioMarked, StudioProjectSeen
from askwell.session.leases import Turn
from askwell.store.records import Record, Store

__all__ = ["Books", "Import"]

TURN = 300.0  # seconds without a pass after which another bridge may begin


class Import(NamedTuple):
    """Items that were sent to Label Studio, or were about to be."""

    batch: str
    items: tuple[str, ...]
    at: float  # unix seconds


@final
class Books:
    """The bridge's memory. The mark stands for one project in Label Studio, which bears it in its description.

    >>> from askwell.store import open_store
    >>> books = Books(open_store(None), "main")
    >>> begun = books.begin(["a", "b"])
    >>> books.importing().items
    ('a', 'b')
    >>> books.end(begun)
    >>> books.importing() is None
    True
    """

    def __init__(self, store: Store, run: str, *, clock: Callable[[], float] = time.time) -> None:
        self._store, self._run, self._clock = store, f"{run}: label studio", clock
        self._known: list[Record] = []
        self._turn = Turn(store, self._run, seconds=TURN, clock=clock)

    def take_turn(self) -> None:
        """Be the one bridge of the project for the next minutes; a ValueError if there is another one."""
        if not self._turn.take():
            raise ValueError(
                "another bridge to Label Studio is running on this project. Two would ask for the same items: stop "
                "the other one first."
            )

    def end_turn(self) -> None:
        """Let another bridge begin at once."""
        self._turn.release()

    def mark(self, *, new: bool = False) -> str:
        """The mark of the project in Label Studio; a `new` one gives up the project before."""
        marks = [StudioMarked.from_record(r).mark for r in self._past() if r.kind == StudioMarked.kind]
        if marks and not new:
            return marks[-1]
        mark = uuid.uuid4().hex[:16]
        self._append(StudioMarked(mark))
        return mark

    def project(self, mark: str) -> tuple[int, str] | None:
        """(number of the project in Label Studio, address of the server) as last seen."""
        projects = [StudioProjectSeen.from_record(r) for r in self._past() if r.kind == StudioProjectSeen.kind]
        return next(((each.id, each.url) for each in reversed(projects) if each.mark == mark), None)

    def saw_project(self, mark: str, id: int, url: str) -> None:
        """Remember where the project is."""
        if self.project(mark) != (id, url):
            self._append(StudioProjectSeen(mark, id, url))

    def begin(self, items: Sequence[str]) -> Import:
        """Items are about to be sent."""
        sent = Import(uuid.uuid4().hex, tuple(items), self._clock())
        self._append(ImportStarted(sent.batch, sent.items, sent.at))
        return sent

    def end(self, sent: Import) -> None:
        """It is known what became of them."""
        self._append(ImportFinished(sent.batch))

    def importing(self) -> Import | None:
        """The last import, if it is not known what became of it."""
        last = None
        for record in self._past():
            if record.kind == ImportStarted.kind:
                event = ImportStarted.from_record(record)
                last = Import(event.batch, tuple(event.items), event.at)
            elif record.kind == ImportFinished.kind and last is not None:
                last = None if ImportFinished.from_record(record).batch == last.batch else last
        return last

    def _past(self) -> list[Record]:
        self._known += self._store.read(self._run, after=self._known[-1].seq if self._known else 0)
        return self._known

    def _append(self, event: Event) -> None:
        self._store.append([event.to_record(self._run)])
