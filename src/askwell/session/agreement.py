"""How far people agree where an item has several labels: Cohen's kappa by scikit-learn, per pair and per class."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeAlias, final

__all__ = ["Agreement", "Pair", "agreement"]

Votes: TypeAlias = Counter[tuple[Any, Any]]  # (label of the first, label of the second) -> items


@final
@dataclass(frozen=True)
class Pair:
    """Two people who labelled some of the same items."""

    people: tuple[str, str]
    items: int
    share: float  # of the items that they agree on
    kappa: float | None  # None where it is not defined: both gave all items one and the same label


@final
@dataclass(frozen=True)
class Agreement:
    """How far people agree. Kappa is 1 where they always do, and 0 where they do as often as by chance."""

    items: int  # with labels of several people
    share: float  # of those items, on which all agree
    kappa: float | None  # the mean over pairs of people, weighted by the items they share
    pairs: tuple[Pair, ...]
    classes: Mapping[Any, float | None]  # kappa of each label against all others, the mean over pairs as above


def agreement(votes: Iterable[Mapping[str, Any]]) -> Agreement | None:
    """The agreement of `votes`, one mapping who -> label for each item; None if no item has labels of two people.

    >>> found = agreement([{"ada": "ham", "bob": "ham"}, {"ada": "spam", "bob": "spam"}, {"ada": "ham", "bob": "spam"},
    ...                    {"ada": "ham", "bob": "ham"}, {"ada": "ham"}])
    >>> found.items, found.share, found.kappa
    (4, 0.75, 0.5)
    """
    counts: dict[tuple[str, str], Votes] = {}
    items = unanimous = 0
    for labels in votes:
        if len(labels) < 2:
            continue
        items += 1
        unanimous += len(set(labels.values())) == 1
        for pair in combinations(sorted(labels), 2):
            one, two = pair
            counts.setdefault(pair, Counter())[labels[one], labels[two]] += 1
    if not items:
        return None
    pairs = tuple(
        Pair(people, both.total(), sum(n for (a, b), n in both.items() if a == b) / both.total(), _kappa(both))
        for people, both in sorted(counts.items())
    )
    classes = sorted({label for both in counts.values() for labels in both for label in labels}, key=str)
    return Agreement(
        items,
        unanimous / items,
        _mean((pair.kappa, pair.items) for pair in pairs),
        pairs,
        {
            label: _mean((_kappa(_against_others(both, label)), both.total()) for both in counts.values())
            for label in classes
        },
    )


def _kappa(votes: Votes) -> float | None:
    """Cohen's kappa of two people; None where chance alone would always agree."""
    # By number: scikit-learn sorts labels, and those of several kinds have no order.
    numbers = {label: n for n, label in enumerate(dict.fromkeys(label for labels in votes for label in labels))}
    if len(numbers) < 2:
        return None
    return _cohen(tuple((numbers[one], numbers[two], n) for (one, two), n in votes.items()))


@lru_cache(1 << 12)  # a call takes a millisecond, and one more label changes one pair of many
def _cohen(votes: tuple[tuple[int, int, int], ...]) -> float:
    from sklearn.metrics import cohen_kappa_score

    first, second, counts = zip(*votes, strict=True)
    return float(cohen_kappa_score(first, second, sample_weight=counts))


def _against_others(votes: Votes, label: Any) -> Votes:
    found: Votes = Counter()
    for (one, two), n in votes.items():
        found[one == label, two == label] += n
    return found


def _mean(values: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in values if value is not None]
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known) if known else None
