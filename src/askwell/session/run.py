"""One run in a store: its present state, and changes to it that nobody else's change can slip between."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

from askwell.session.state import RunState, fold
from askwell.store.records import Conflict, Record, Store

__all__ = ["Entry", "Run"]


class Entry(NamedTuple):
    """What is to be recorded: a record that has no key yet."""

    kind: str
    item: str | None
    body: dict[str, Any]


@final
class Run:
    """A named run of an open store.

    >>> from askwell.store import open_store
    >>> run = Run(open_store(None), "main")
    >>> run.change(lambda state: [Entry("label", "7", {"label": "cat"})]).labels
    {'7': 'cat'}
    """

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name = store, name
        self._state = RunState()

    def state(self) -> RunState:
        """The state after all records there are now."""
        new = self.store.read(self.name, after=self._state.seq)
        if new:
            self._state = fold(self._state, new)
        return self._state

    def change(self, entries_for: Callable[[RunState], Sequence[Entry]], *, who: str = "") -> RunState:
        """Record what `entries_for(state)` says, and give the state after it.

        If somebody else recorded something since that state, it is called again with the new one: a change always
        follows from what it was made of. Keys name this session and the place in the run, so that a retry of the same
        records is found.
        """
        while True:
            state = self.state()
            entries = entries_for(state)
            if not entries:
                return state
            start = f"{self.name}:{state.seq}:{self.store.session()}"
            records = [Record(f"{start}:{place}", self.name, *entry, who=who) for place, entry in enumerate(entries)]
            try:
                self.store.append(records, after=state.seq)
            except Conflict:
                continue
            return self.state()

    def mine(self, state: RunState) -> list[str]:
        """Pending questions that are this session's, or of a session that is no longer there, in order."""
        own, alive = self.store.session(), dict[str, bool]()
        for question in state.pending.values():
            if question.session not in alive:
                alive[question.session] = question.session != own and self.store.alive(question.session)
        return [item for item, question in state.pending.items() if not alive[question.session]]
