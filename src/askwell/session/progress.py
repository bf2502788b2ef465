"""How far a labelling project has come, who did what, and how long the rest will take."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, final

from askwell.session.agreement import Agreement
from askwell.session.assignment import Assignment

__all__ = ["Person", "Progress", "has_model", "pace", "progress_of"]

PAUSE = 600.0  # seconds; a longer gap between two labels is a break, not work


@final
@dataclass(frozen=True)
class Person:
    """What one person did. Labels that came in from Python or an import may have nobody's name, ""."""

    name: str
    labels: int  # in force
    skips: int  # in force
    held: int  # items that are theirs just now
    last: float | None  # unix seconds of their last answer
    seconds: float | None  # the median time they took for a label; None if the page did not say


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
    people: tuple[Person, ...]  # most labels first
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


def progress_of(assignment: Assignment, *, now: float, agreed: Agreement | None) -> Progress:
    """Where the project of a assignment stands."""
    state, closed = assignment.state, assignment.closed(None, now=now)
    rules, rate = state.rules, pace(state.times)
    left = None if rules.budget is None else max(0, rules.budget - state.labels)
    open_ = (len(assignment.items) - state.complete) * rules.labels_per_item
    rest = 0 if closed else open_ if left is None else min(open_, left)
    people = [
        Person(
            name=name,
            labels=work.labels,
            skips=work.skips,
            held=len(assignment.running(name, now=now)),
            last=work.last,
            seconds=median(work.seconds) if work.seconds else None,
        )
        for name, work in state.people.items()
    ]
    return Progress(
        items=len(assignment.items),
        labelled=state.labelled,
        complete=state.complete,
        skipped=state.skipped,
        labels=state.labels,
        budget=rules.budget,
        left=left,
        held=state.leases.live(),
        people=tuple(sorted(people, key=lambda person: (-person.labels, person.name))),
        classes=dict.fromkeys(rules.classes, 0) | {label: n for label, n in state.uses.items() if n},
        rate=rate,
        hours=rest / rate if rate and rest else None,
        rounds=tuple(state.rounds),
        round=state.round,
        agreement=agreed,
        closed=closed,
    )
