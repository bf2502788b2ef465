"""One run in a store: its present state, and changes to it that nobody else's change can slip between."""

from collections.abc import Callable, Sequence
from typing import final

from askwell.session.events import Event
from askwell.session.state import RunState, fold
from askwell.store.records import Conflict, Store

__all__ = ["Run"]


@final
class Run:
    """A named run of an open store.

    >>> from askwell.session.events import LabelAdded
    >>> from askwell.store import open_store
    >>> run = Run(open_store(None), "main")
    >>> run.change(lambda state: [LabelAdded("7", "cat")]).labels
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

    def change(self, events_for: Callable[[RunState], Sequence[Event]], *, who: str = "") -> RunState:
        """Record what `events_for(state)` says, and give the state after it.

        If somebody else recorded something since that state, it is called again with the new one: a change always
        follows from what it was made of. Keys name this session and the place in the run, so that a retry of the same
        records is found.
        """
        while True:
            state = self.state()
            events = events_for(state)
            if not events:
                return state
            start = f"{self.name}:{state.seq}:{self.store.session()}"
            records = [each.to_record(self.name, who=who, key=f"{start}:{n}") for n, each in enumerate(events)]
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
