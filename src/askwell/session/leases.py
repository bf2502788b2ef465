"""Leases: which items are with whom, and until when; cursors: who comes to which item next.

A lease that ran out stays its holder's until somebody takes over. A `Turn` is a lease too: on what only one may do.

A lease ends when its record says, but here never later than it could end had it been given when it was first seen: a
clock that was wrong for a moment, here or on another machine, blocks no item for longer than a lease takes.
"""

import os
import socket
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import NamedTuple, final

from askwell.session.events import LockTaken
from askwell.store.records import Conflict, Record, Store

__all__ = ["Cursors", "Lease", "Leases", "Turn"]


class Lease(NamedTuple):
    """An item that is with somebody."""

    item: str
    who: str
    token: str
    until: float  # unix seconds


@final
class Leases:
    """All leases that were given and not ended, by token, by item and by person.

    >>> leases = Leases()
    >>> leases.give(Lease("mail 7", "ada", "t1", 90.0))
    >>> leases.live(), leases.run_out(100.0), leases.live(), leases.held("t1").who
    (1, ['mail 7'], 0, 'ada')
    """

    def __init__(self) -> None:
        self._by_token: dict[str, Lease] = {}
        self._by_item: dict[str, dict[str, Lease]] = {}
        self._by_person: dict[str, dict[str, Lease]] = {}
        self._ends: list[tuple[float, str]] = []  # a heap; entries of leases that were renewed or ended are stale
        self._out: set[str] = set()  # tokens whose time has run out
        self._new: list[str] = []  # tokens given or renewed since `limit` was last asked
        self._limits: dict[str, float] = {}  # token -> when it ends here, where that is before its own end

    def held(self, token: str | None) -> Lease | None:
        """The lease of that token, if it was not ended."""
        return None if token is None else self._by_token.get(token)

    def held_by(self, who: str, tokens: Iterable[str]) -> list[Lease]:
        """The leases of these tokens that are a person's and were not ended."""
        leases = (self.held(token) for token in tokens)
        return [lease for lease in leases if lease is not None and lease.who == who]

    def on(self, item: str) -> Collection[Lease]:
        """The leases of an item, oldest first."""
        return self._by_item.get(item, NONE).values()

    def of(self, who: str) -> list[Lease]:
        """A person's leases, oldest first."""
        return list(self._by_person.get(who, NONE).values())

    def give(self, lease: Lease) -> None:
        """Add a lease, or a new end of one that is there."""
        self._by_token[lease.token] = lease
        self._by_item.setdefault(lease.item, {})[lease.token] = lease
        self._by_person.setdefault(lease.who, {})[lease.token] = lease
        self._out.discard(lease.token)
        self._limits.pop(lease.token, None)
        self._new.append(lease.token)
        heappush(self._ends, (lease.until, lease.token))

    def limit(self, end: float, *, all: bool = False) -> None:
        """Let no lease end later here: of those that are new since this was last asked, or of all."""
        tokens, self._new = list(self._by_token) if all else self._new, []
        for token in tokens:
            if token in self._by_token and self.end_of(self._by_token[token]) > end:
                self._limits[token] = end
                heappush(self._ends, (end, token))

    def runs(self, lease: Lease, now: float) -> bool:
        """Whether a lease still runs here; one that has run out does not begin again when a clock is set back."""
        return lease.token not in self._out and self.end_of(lease) > now

    def end_of(self, lease: Lease) -> float:
        """When a lease ends here."""
        return min(lease.until, self._limits.get(lease.token, lease.until))

    def end(self, lease: Lease) -> None:
        """Take a lease away."""
        del self._by_token[lease.token]
        self._out.discard(lease.token)
        self._limits.pop(lease.token, None)
        for room, name in ((self._by_item, lease.item), (self._by_person, lease.who)):
            del room[name][lease.token]
            if not room[name]:
                del room[name]

    def run_out(self, now: float) -> list[str]:
        """The items of the leases whose time has run out since this was last asked."""
        items = []
        while self._ends and self._ends[0][0] <= now:
            until, token = heappop(self._ends)
            lease = self._by_token.get(token)
            if lease is not None and self.end_of(lease) == until and token not in self._out:
                self._out.add(token)
                items.append(lease.item)
        return items

    def live(self) -> int:
        """How many leases still ran when `run_out` was last asked."""
        return len(self._by_token) - len(self._out)

    def items(self) -> list[str]:
        """The items that have leases."""
        return list(self._by_item)


NONE: dict[str, Lease] = {}


# ---- who comes to which item next ------------------------------------------------------------------------------------


@final
class Cursors:
    """Items in an order, with a cursor for each person; items that come free again behind it are handed back.

    What keeps it right: an item behind a person's cursor is not free for them, or it was put `back` since.

    >>> cursors = Cursors(["a", "b", "c"])
    >>> cursors.first("ada", 2, free=lambda item: item != "a", taken=lambda item: False)
    ['b', 'c']
    >>> cursors.back("a")
    >>> cursors.first("ada", 2, free=lambda item: True, taken=lambda item: item == "b")
    ['a', 'c']
    """

    def __init__(self, items: Sequence[str]) -> None:
        self._items = items
        self._positions = {item: position for position, item in enumerate(items)}
        self._cursors: dict[str, _Cursor] = {}
        self._start = 0  # all before it is closed to everybody: a newcomer begins here

    def first(self, who: str, size: int, *, free: Callable[[str], bool], taken: Callable[[str], bool]) -> list[str]:
        """The first `size` items that are `free` for a person and not `taken`.

        What is not free is passed for good, until it is put back; what is taken is only left out this time.
        """
        cursor = self._cursors.setdefault(who, _Cursor(self._start))
        found = cursor.behind(self._items, size, free, taken)
        position = cursor.position
        while position < len(self._items) and len(found) < size:
            item = self._items[position]
            if free(item):
                if not taken(item):
                    found.append(item)
            elif position == cursor.position:
                cursor.position += 1
            position += 1
        return found

    def back(self, item: str) -> None:
        """An item may be free again: those who have passed it look at it again."""
        position = self._positions.get(item)
        if position is None:
            return
        self._start = min(self._start, position)
        for cursor in self._cursors.values():
            if position < cursor.position:
                heappush(cursor.passed, position)

    def close(self, over: Callable[[str], bool]) -> None:
        """Let newcomers begin behind the items at the start that are over for everybody."""
        while self._start < len(self._items) and over(self._items[self._start]):
            self._start += 1


@final
class _Cursor:
    """Where a person is."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.passed: list[int] = []  # a heap of places before it that came free again

    def behind(
        self, items: Sequence[str], size: int, free: Callable[[str], bool], taken: Callable[[str], bool]
    ) -> list[str]:
        found, seen = list[str](), list[int]()
        while self.passed and len(found) < size:
            position = heappop(self.passed)
            if (seen and seen[-1] == position) or not free(items[position]):
                continue
            seen.append(position)
            if not taken(items[position]):
                found.append(items[position])
        for position in seen:
            heappush(self.passed, position)
        return found


# ---- what only one may do --------------------------------------------------------------------------------------------


@final
class Turn:
    """The lease on what a run is about, for whoever has this store open: taken, renewed, given back by records of it.

    A holder that is killed keeps it until its time runs out, or, where it was a process of this machine, no longer.

    >>> from askwell.store import open_store
    >>> one, two = open_store(None), open_store(None)
    >>> turn = Turn(one, "main: training", seconds=60)
    >>> turn.take(), Turn(one, "main: training", seconds=60, name="another").take()
    (True, False)
    """

    def __init__(
        self,
        store: Store,
        run: str,
        *,
        seconds: float,
        name: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._run, self._seconds, self._clock = store, run, seconds, clock
        self._name = f"{socket.gethostname()}:{os.getpid()}:{id(store)}" if name is None else name

    def take(self) -> bool:
        """Whether nobody else has it: then it is ours for so many seconds from now."""
        while True:
            last, seq = self._last()
            if last is not None:
                taken = LockTaken.from_record(last)
                if taken.session != self._name:
                    return False
                if (taken.until or 0) - self._clock() > self._seconds / 2:
                    return True
            with suppress(Conflict):
                self._add(self._clock() + self._seconds, after=seq)
                return True

    def release(self) -> None:
        """Give it back, if it is ours."""
        if self.since() is not None and not self.is_taken():
            with suppress(Conflict):  # somebody else wrote: it runs out by itself
                self._add(self._clock(), after=self._last()[1])

    def since(self) -> float | None:
        """When it was taken or renewed (unix seconds), by whomever; None if nobody has it."""
        last, _ = self._last()
        return None if last is None else last.at

    def is_taken(self) -> bool:
        """Whether somebody else has it."""
        last, _ = self._last()
        return last is not None and LockTaken.from_record(last).session != self._name

    def _last(self) -> tuple[Record | None, int]:
        """(the record of who has it, None if nobody has; the last record of the run)."""
        records = self._store.read(self._run)
        turns = [record for record in records if record.kind == LockTaken.kind]
        held = bool(turns) and self._is_held(LockTaken.from_record(turns[-1]))
        return turns[-1] if held else None, records[-1].seq if records else 0

    def _add(self, until: float, *, after: int) -> None:
        self._store.append([LockTaken(self._name, until).to_record(self._run)], after=after)

    def _is_held(self, last: LockTaken) -> bool:
        return last.until is not None and last.until > self._clock() and not _is_dead(last.session)


def _is_dead(name: str) -> bool:
    """Whether a name is that of a process of this machine which is no longer there."""
    host, _, rest = name.rpartition(":")[0].rpartition(":")
    if host != socket.gethostname() or not rest.isdecimal() or os.name == "nt":
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False
