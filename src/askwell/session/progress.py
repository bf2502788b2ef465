"""How far a labelling project has come, who did what, how long the rest will take, and how far people agree."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from statistics import median
from typing import Any, final

from askwell.session.state import State

__all__ = ["Agreement", "Annotator", "Pair", "Progress", "agreement", "has_model", "pace", "progress_of"]

PAUSE = 600.0  # seconds; a longer gap between two labels is a break, not work


@final
@dataclass(frozen=True)
class Annotator:
    """What one person did. Labels that came in from Python or an import may have nobody's name, ""."""

    name: str
    labels: int  # in force
    skips: int  # in force
    held: int  # items that are theirs just now
    last: float | None  # unix seconds of their last answer
    seconds: float | None  # the median time they took for a label; None if the page did not say


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


@final
@dataclass(frozen=True)
class Progress:
    """Where a project stands."""

    items: int  # of the pool
    labelled: int  # items with at least one label
    complete: int  # items that have all the labels they need
    skipped: int  # items without a label that somebody skipped
    labels: int  # in force, of all people
    budget: int | None
    left: int | None  # labels left of the budget
    held: int  # items that people have before them now
    people: tuple[Annotator, ...]  # most labels first
    classes: Mapping[Any, int]  # label -> how often it is in force; all classes are there
    rate: float | None  # labels an hour while people work; None before there are two
    hours: float | None  # of work until the budget is used up or the pool is labelled, at that rate
    rounds: Sequence[Mapping[str, Any]]  # the trainer's reports, oldest first
    round: int | None  # of the queue that questions come from now
    agreement: Agreement | None
    closed: str | None  # why no more questions are given, in words; None while they are


def pace(times: Iterable[float]) -> float | None:
    """Events an hour, in stretches of work: gaps of more than ten minutes do not count. None if there is no telling.

    >>> pace([0, 30, 60, 7200, 7230])
    120.0
    """
    gaps = [b - a for a, b in pairwise(times) if 0 <= b - a <= PAUSE]
    worked = sum(gaps)
    return 3600 * len(gaps) / worked if worked > 0 else None


def has_model(report: Mapping[str, Any]) -> bool:
    """Whether a round trained a model: before there are labels of two classes it only spreads the first questions.

    >>> has_model({"round": 1, "labels": 3, "trained": False}), has_model({"round": 2, "failed": "no memory"})
    (False, False)
    """
    return bool(report.get("trained", report.get("labels"))) and not report.get("failed")


def progress_of(state: State, *, now: float, agreed: Agreement | None) -> Progress:
    """Where a project stands."""
    closed = state.closed(None, now=now)
    rules, rate = state.rules, pace(state.times)
    left = None if rules.budget is None else max(0, rules.budget - state.labels)
    open_ = (len(state.items) - state.complete) * rules.labels_per_item
    rest = 0 if closed else open_ if left is None else min(open_, left)
    people = [
        Annotator(
            name=name,
            labels=work.labels,
            skips=work.skips,
            held=len(state.running(name, now=now)),
            last=work.last,
            seconds=median(work.seconds) if work.seconds else None,
        )
        for name, work in state.people.items()
    ]
    return Progress(
        items=len(state.items),
        labelled=state.labelled,
        complete=state.complete,
        skipped=state.skipped,
        labels=state.labels,
        budget=rules.budget,
        left=left,
        held=state.leases.live(),
        people=tuple(sorted(people, key=lambda person: (-person.labels, person.name))),
        classes={}
        if rules.label_range is not None
        else dict.fromkeys(rules.classes, 0) | {label: n for label, n in state.uses.items() if n},
        rate=rate,
        hours=rest / rate if rate and rest else None,
        rounds=tuple(state.rounds),
        round=state.round,
        agreement=agreed,
        closed=closed,
    )


# ---- agreement: Cohen's kappa by scikit-learn, per pair of people and per class ------------------------------------


def agreement(votes: Iterable[Mapping[str, Any]]) -> Agreement | None:
    """The agreement of `votes`, one mapping who -> label for each item; None if no item has labels of two people.

    >>> found = agreement([{"ada": "ham", "bob": "ham"}, {"ada": "spam", "bob": "spam"}, {"ada": "ham", "bob": "spam"},
    ...                    {"ada": "ham", "bob": "ham"}, {"ada": "ham"}])
    >>> found.items, found.share, found.kappa
    (4, 0.75, 0.5)
    """
    counts: dict[tuple[str, str], Counter[tuple[Any, Any]]] = {}
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


def _kappa(votes: Counter[tuple[Any, Any]]) -> float | None:
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


def _against_others(votes: Counter[tuple[Any, Any]], label: Any) -> Counter[tuple[Any, Any]]:
    found: Counter[tuple[Any, Any]] = Counter()
    for (one, two), n in votes.items():
        found[one == label, two == label] += n
    return found


def _mean(values: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in values if value is not None]
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known) if known else None
