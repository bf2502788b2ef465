"""Group commit: the requests of many threads that wait are served together, with one append for all of them.

An append waits for the disk, so one for each request would be the limit of a session. One thread leads: it serves all
that wait, and the first of those that came meanwhile leads next, so nobody waits for more than two appends. Between
processes the store's `after` decides: a request that was too late is decided again, and what needs no such guard (an
answer, a release) is stored at once, never refused and never delayed.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, final

from askwell.store.records import Conflict, Record, Store, StoreError

__all__ = ["Follower", "GroupCommit", "OnCommit", "Retry", "Transaction"]

Result = TypeVar("Result")
OnCommit: TypeAlias = Callable[[], Result]


class Retry(Exception):  # noqa: N818 - nothing is wrong: decide again
    """What was decided did not come true, since somebody else was faster."""


@final
@dataclass
class Transaction:
    """What is about to be stored, decided by requests that do not see each other's records yet."""

    records: dict[str, Record] = field(default_factory=dict)  # by key; stored whatever else happened
    guarded: list[Record] = field(default_factory=list)  # stored only if nothing else happened
    taken: Counter[str] = field(default_factory=Counter)  # item -> leases in this transaction
    given: dict[str, set[str]] = field(default_factory=dict)  # person -> items leased to them in this transaction


class Follower(Protocol):
    """Who keeps the state of the run."""

    seq: int  # the last record that was followed

    def follow(self, records: Sequence[Record]) -> None:
        """Take in records, in order, each of them new."""


@final
class GroupCommit:
    """The one way to the records of a run for the threads of a process."""

    def __init__(self, store: Store, run: str, follower: Follower) -> None:
        self._store, self._run, self._follower = store, run, follower
        self._changed = threading.Condition()
        self._waiting: list[_Request[Any]] = []
        self._busy = False  # some thread leads

    def read(self, read: Callable[[], Result]) -> Result:
        """What `read` finds in the state after all records there are now."""
        return self.run(lambda transaction: read)

    def run(self, decide: Callable[[Transaction], OnCommit[Result]], *, alone: bool = False) -> Result:
        """Let `decide` add to a transaction and, when that is stored, give what its `OnCommit` finds in the state.

        Both run with the state up to date and to themselves, and may run again if somebody else was faster, or if the
        `OnCommit` raises `Retry`. A request that is `alone` shares its transaction with no other.
        """
        request = _Request(decide, alone)
        with self._changed:
            self._waiting.append(request)
            try:
                while not request.done and (self._busy or self._waiting[0] is not request):
                    self._changed.wait()
            except BaseException:  # interrupted
                self._waiting = [other for other in self._waiting if other is not request]
                self._changed.notify_all()
                raise
            if request.done:
                return request.outcome()
            self._busy = True
            batch, self._waiting = self._waiting, []
        try:
            for group in _groups(batch):
                self._serve(group)
        finally:
            with self._changed:
                self._busy = False
                left = [other for other in batch if not other.done and other is not request]
                self._waiting = left + self._waiting
                self._changed.notify_all()
        return request.outcome()

    def _catch_up(self) -> int:
        new = self._store.read(self._run, after=self._follower.seq)
        if new:
            self._follower.follow(new)
        return self._follower.seq

    def _serve(self, waiting: "Sequence[_Request[Any]]") -> None:
        tries = 0
        while waiting:
            try:
                seq, transaction = self._catch_up(), Transaction()
                waiting = [request for request in waiting if request.decided(transaction)]
                whole = self._append(transaction, seq)
            except ValueError as error:  # a key that is known with other content: whose?
                tries += 1
                if len(waiting) == 1 and tries > 1:
                    waiting[0].fail(error)
                if len(waiting) > 1:
                    for request in waiting:
                        self._serve([request])
                    return
                waiting = [request for request in waiting if not request.done]
            except StoreError as error:
                for request in waiting:  # an error for each: a shared one would collect the traces of all
                    request.fail(StoreError(*error.args))
                return
            else:
                waiting = [request for request in waiting if not request.finished(whole)]

    def _append(self, transaction: Transaction, seq: int) -> bool:
        """Store the transaction, without what is guarded if somebody else has stored something; whether it is whole."""
        records = list(transaction.records.values())
        if transaction.guarded:
            try:
                stored = self._store.append([*records, *transaction.guarded], after=seq)
                self._follower.follow([record for record in stored if record.seq > seq])
                return True
            except Conflict:
                pass
        if records:
            self._store.append(records)
        self._catch_up()
        return not transaction.guarded


@final
class _Request(Generic[Result]):
    """One request of one thread."""

    def __init__(self, decide: Callable[[Transaction], OnCommit[Result]], alone: bool) -> None:
        self._decide, self.alone = decide, alone
        self.done = self._guarded = False
        self._on_commit: OnCommit[Result] | None = None
        self._result: list[Result] = []
        self._error: Exception | None = None

    def decided(self, transaction: Transaction) -> bool:
        """Decide; False if there is nothing to store because it failed."""
        before = len(transaction.guarded)
        try:
            self._on_commit = self._decide(transaction)
        except Exception as error:  # for the thread whose request it is, not for the one that serves it
            self.fail(error)
        self._guarded = len(transaction.guarded) > before
        return not self.done

    def finished(self, whole: bool) -> bool:
        """Take the result if all of it was stored; False if it has to be decided again."""
        if self._on_commit is None or (self._guarded and not whole):
            return False
        try:
            self._result = [self._on_commit()]
        except Retry:
            return False
        except Exception as error:
            self.fail(error)
        self.done = True
        return True

    def fail(self, error: Exception) -> None:
        """End with an error."""
        self._error, self.done = error, True

    def outcome(self) -> Result:
        """The result, or the error raised."""
        if self._error is not None:
            raise self._error
        return self._result[0]


def _groups(batch: "Sequence[_Request[Any]]") -> "list[list[_Request[Any]]]":
    """Neighbours that may share a transaction, in order."""
    groups: list[list[_Request[Any]]] = []
    for request in batch:
        if request.alone or not groups or groups[-1][0].alone:
            groups.append([])
        groups[-1].append(request)
    return groups
