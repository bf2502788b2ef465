"""Leases: which items are with whom, and until when. One that ran out stays its holder's until somebody takes over.

A lease ends when its record says, but here never later than it could end had it been given when it was first seen: a
clock that was wrong for a moment, here or on another machine, blocks no item for longer than a lease takes.
"""

from collections.abc import Collection, Iterable
from heapq import heappop, heappush
from typing import NamedTuple, final

__all__ = ["Lease", "Leases"]


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
