"""Who may have which item: the state of a session, and the cursors that find each annotator's next item."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import final

from askwell.seeds import rng_for
from askwell.session.commit import Transaction
from askwell.session.events import Candidate, LeaseGranted, text_of
from askwell.session.leases import Lease
from askwell.session.state import State
from askwell.session.tasks import Task
from askwell.store.records import Record

__all__ = ["Assignment", "Cursors"]


@final
class Assignment:
    """Follows the records, and finds the next items: the trainer's queue first, then all others in a seeded order.

    >>> assignment = Assignment(["a", "b", "c"], seed=0)
    >>> sorted(assignment.choose("ada", 5, Transaction(), now=0.0))
    ['a', 'b', 'c']
    """

    def __init__(self, items: Sequence[str], *, seed: int) -> None:
        self.items = _checked(items)
        self.state = State(self.items)
        names = list(self.items)
        order = rng_for(seed, 0, "desk").permutation(len(names))  # the room's former name: projects keep their order
        self._order = [names[position] for position in order.tolist()]
        self._pool, self._queue = Cursors(self._order), Cursors([])
        self._candidates: dict[str, Candidate] = {}
        self._seen = (0, 0)  # queues and orders that the lines were made of
        self._now = float("-inf")

    # ---- following -------------------------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The last record that was followed."""
        return self.state.seq

    def follow(self, records: Sequence[Record]) -> None:
        """Take in the next records."""
        for record in records:
            self.state.add(record)
        queues, orders = self.state.queues, self.state.orders
        if queues != self._seen[0]:
            queue = self.state.queue
            candidates = [] if queue is None else queue.candidates()
            self._candidates = {each.item: each for each in candidates if each.item in self.items}
        if (queues, orders) != self._seen:  # everything may be open again
            self._pool, self._queue = Cursors(self._order), Cursors(list(self._candidates))
            self._seen = (queues, orders)
        self._back(self.state.freed)
        self.state.freed.clear()

    def at(self, now: float) -> float:
        """Let leases run out until `now`, and return it. A clock that was set back counts from there on."""
        leases = self.state.leases
        leases.limit(now + self.state.rules.lease_seconds, all=now < self._now)
        self._now = now
        self._back(leases.run_out(now))
        return now

    def _back(self, items: Sequence[str]) -> None:
        for item in items:
            self._queue.back(item)
            self._pool.back(item)

    # ---- finding ---------------------------------------------------------------------------------------------------

    def choose(self, who: str, size: int, transaction: Transaction, *, now: float) -> list[str]:
        """The next `size` items for a person, those of the transaction left out; fewer if there are no more."""
        given = transaction.given.get(who, set())

        def free(item: str) -> bool:
            return self.is_free(item, who, now)

        def taken(item: str) -> bool:
            return (
                item in given
                or item in found
                or (item in transaction.taken and not self._is_left(item, now, transaction))
            )

        found: list[str] = []
        for cursors in (self._queue, self._pool):
            cursors.close(self._is_complete)
            found += cursors.first(who, size - len(found), free=free, taken=taken)
        return found

    def running(self, who: str, *, now: float) -> list[Lease]:
        """A person's leases that have not run out, oldest first."""
        leases = self.state.leases
        return [lease for lease in leases.of(who) if leases.runs(lease, now)]

    def over(self, item: str, *, now: float) -> list[str]:
        """The tokens of an item's leases that ran out here before their records say so."""
        leases = self.state.leases
        return [lease.token for lease in leases.on(item) if now < lease.until and not leases.runs(lease, now)]

    def room(self, transaction: Transaction) -> int:
        """How many more leases the budget allows, if all that are out come back as labels."""
        budget, leases = self.state.rules.budget, self.state.leases.live() + transaction.taken.total()
        return len(self.items) if budget is None else budget - self.state.labels - leases

    def closed(self, who: str | None, *, now: float) -> str | None:
        """Why a person, or anybody, gets no more items; None while there are some."""
        state = self.state
        if state.rules.budget is not None and state.labels >= state.rules.budget:
            return f"The budget of {state.rules.budget} labels is used up."
        if state.complete == len(self.items):
            return "All items have the labels they need."
        if who is None or self.running(who, now=now):
            return None
        if self.room(Transaction()) <= 0:
            return "The last labels of the budget are with other people now."
        if not self.choose(who, 1, Transaction(), now=now):
            return "There is nothing left for you: you have answered the other items, or they are with other people."
        return None

    def is_free(self, item: str, who: str, now: float) -> bool:
        """Whether a person may have an item: it needs one more label, they have not answered, nor have it already."""
        state = self.state
        if who in state.answers(item):
            return False
        running = [lease for lease in state.leases.on(item) if state.leases.runs(lease, now)]
        return len(running) < state.needed(item) and all(lease.who != who for lease in running)

    def _is_left(self, item: str, now: float, transaction: Transaction) -> bool:
        leases = self.state.leases
        running = sum(leases.runs(lease, now) for lease in leases.on(item))
        return running + transaction.taken[item] < self.state.needed(item)

    def _is_complete(self, item: str) -> bool:
        return self.state.needed(item) == 0

    def check(self, item: str) -> None:
        """Raise a ValueError if the pool does not have the item."""
        if item not in self.items:
            raise ValueError(f"item must be one of the {len(self.items)} items of the pool, but it is {item!r}.")

    def lease(self, item: str, token: str, now: float) -> LeaseGranted:
        """A lease from now on, as the rules say; it says which others ran out here before their records do."""
        over = tuple(other for other in self.over(item, now=now) if other != token)
        return LeaseGranted(text_of(item), token, now + self.state.rules.lease_seconds, now, over)

    def task(self, lease: Lease) -> Task:
        """A lease as the task that its holder sees."""
        hint = self._candidates.get(lease.item, NOTHING)
        labels = len(self.state.votes(lease.item))
        return Task(lease.item, lease.token, lease.until, hint.score, hint.why, labels)


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
        self._places = {item: place for place, item in enumerate(items)}
        self._cursors: dict[str, _Cursor] = {}
        self._start = 0  # all before it is closed to everybody: a newcomer begins here

    def first(self, who: str, size: int, *, free: Callable[[str], bool], taken: Callable[[str], bool]) -> list[str]:
        """The first `size` items that are `free` for a person and not `taken`.

        What is not free is passed for good, until it is put back; what is taken is only left out this time.
        """
        cursor = self._cursors.setdefault(who, _Cursor(self._start))
        found = cursor.behind(self._items, size, free, taken)
        place = cursor.place
        while place < len(self._items) and len(found) < size:
            item = self._items[place]
            if free(item):
                if not taken(item):
                    found.append(item)
            elif place == cursor.place:
                cursor.place += 1
            place += 1
        return found

    def back(self, item: str) -> None:
        """An item may be free again: those who have passed it look at it again."""
        place = self._places.get(item)
        if place is None:
            return
        self._start = min(self._start, place)
        for cursor in self._cursors.values():
            if place < cursor.place:
                heappush(cursor.passed, place)

    def close(self, over: Callable[[str], bool]) -> None:
        """Let newcomers begin behind the items at the start that are over for everybody."""
        while self._start < len(self._items) and over(self._items[self._start]):
            self._start += 1


@final
class _Cursor:
    """Where a person is."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.passed: list[int] = []  # a heap of places before it that came free again

    def behind(
        self, items: Sequence[str], size: int, free: Callable[[str], bool], taken: Callable[[str], bool]
    ) -> list[str]:
        found, seen = list[str](), list[int]()
        while self.passed and len(found) < size:
            place = heappop(self.passed)
            if (seen and seen[-1] == place) or not free(items[place]):
                continue
            seen.append(place)
            if not taken(items[place]):
                found.append(items[place])
        for place in seen:
            heappush(self.passed, place)
        return found


NOTHING = Candidate("")


def _checked(items: Sequence[str]) -> dict[str, int]:
    """item -> its place."""
    places = {item: place for place, item in enumerate(items)}
    if not places:
        raise ValueError("items must have at least one item to ask about, but there is none.")
    if strange := [item for item in places if not isinstance(item, str)]:
        raise ValueError(f"items must be texts, but one is {strange[0]!r}. Try [str(item) for item in items].")
    if len(places) < len(items):
        twice = next(item for place, item in enumerate(items) if places[item] != place)
        raise ValueError(f"items must all be different, but {twice!r} occurs more than once.")
    return places
