"""A line of items that many people walk, each at their own pace, without looking at an item twice in vain."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import final

__all__ = ["Line"]


@final
class Line:
    """Items in an order. Each person has a place in it; items that come free again behind it are handed back.

    What keeps it right: an item behind a person's place is not free for them, or it was put `back` since.

    >>> line = Line(["a", "b", "c"])
    >>> line.first("ada", 2, free=lambda item: item != "a", taken=lambda item: False)
    ['b', 'c']
    >>> line.back("a")
    >>> line.first("ada", 2, free=lambda item: True, taken=lambda item: item == "b")
    ['a', 'c']
    """

    def __init__(self, items: Sequence[str]) -> None:
        self._items = items
        self._places = {item: place for place, item in enumerate(items)}
        self._walks: dict[str, _Walk] = {}
        self._start = 0  # all before it is closed to everybody: a newcomer begins here

    def first(self, who: str, size: int, *, free: Callable[[str], bool], taken: Callable[[str], bool]) -> list[str]:
        """The first `size` items that are `free` for a person and not `taken`.

        What is not free is passed for good, until it is put back; what is taken is only left out this time.
        """
        walk = self._walks.setdefault(who, _Walk(self._start))
        found = walk.behind(self._items, size, free, taken)
        place = walk.place
        while place < len(self._items) and len(found) < size:
            item = self._items[place]
            if free(item):
                if not taken(item):
                    found.append(item)
            elif place == walk.place:
                walk.place += 1
            place += 1
        return found

    def back(self, item: str) -> None:
        """An item may be free again: those who have passed it look at it again."""
        place = self._places.get(item)
        if place is None:
            return
        self._start = min(self._start, place)
        for walk in self._walks.values():
            if place < walk.place:
                heappush(walk.passed, place)

    def close(self, over: Callable[[str], bool]) -> None:
        """Let newcomers begin behind the items at the start that are over for everybody."""
        while self._start < len(self._items) and over(self._items[self._start]):
            self._start += 1


@final
class _Walk:
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
