"""What the bridge remembers beside the answers: its project in Label Studio, and imports whose end it has not seen.

Kept in a run of its own in the project's store. Everything is written down before it is done, so that a bridge which
was killed at any moment knows what may have happened.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from askwell.store.records import Conflict, Record, Store

__all__ = ["Books", "Import"]


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

    def take_turn(self) -> None:
        """Be the one bridge of the project until the store is closed; a ValueError if there is another one."""
        own = self._store.session()
        while True:
            past = self._past()
            turns = [str(record.body["session"]) for record in past if record.kind == "turn"]
            if turns and turns[-1] == own:
                return
            if turns and self._store.alive(turns[-1]):
                raise ValueError(
                    "another bridge to Label Studio is running on this project. Two would ask for the same items: stop "
                    "the other one first."
                )
            try:
                self._append("turn", {"session": own}, after=past[-1].seq if past else 0)
            except Conflict:
                continue
            return

    def mark(self, *, new: bool = False) -> str:
        """The mark of the project in Label Studio; a `new` one gives up the project before."""
        marks = [str(record.body["mark"]) for record in self._past() if record.kind == "mark"]
        if marks and not new:
            return marks[-1]
        mark = uuid.uuid4().hex[:16]
        self._append("mark", {"mark": mark})
        return mark

    def project(self, mark: str) -> tuple[int, str] | None:
        """(number of the project in Label Studio, address of the server) as last seen."""
        seen = [r.body for r in self._past() if r.kind == "project" and r.body["mark"] == mark]
        return (int(seen[-1]["id"]), str(seen[-1]["url"])) if seen else None

    def saw_project(self, mark: str, id: int, url: str) -> None:
        """Remember where the project is."""
        if self.project(mark) != (id, url):
            self._append("project", {"mark": mark, "id": id, "url": url})

    def begin(self, items: Sequence[str]) -> Import:
        """Items are about to be sent."""
        sent = Import(uuid.uuid4().hex, tuple(items), self._clock())
        self._append("import", {"batch": sent.batch, "items": list(items), "at": sent.at})
        return sent

    def end(self, sent: Import) -> None:
        """It is known what became of them."""
        self._append("imported", {"batch": sent.batch})

    def importing(self) -> Import | None:
        """The last import, if it is not known what became of it."""
        last = None
        for record in self._past():
            if record.kind == "import":
                body = record.body
                last = Import(str(body["batch"]), tuple(body["items"]), float(body["at"]))
            elif record.kind == "imported" and last is not None and record.body["batch"] == last.batch:
                last = None
        return last

    def _past(self) -> list[Record]:
        self._known += self._store.read(self._run, after=self._known[-1].seq if self._known else 0)
        return self._known

    def _append(self, kind: str, body: dict[str, Any], *, after: int | None = None) -> None:
        self._store.append([Record(uuid.uuid4().hex, self._run, kind, None, body)], after=after)
