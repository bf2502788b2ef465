"""Where a run stands: the fold of its records. Whoever reads the same records sees the same state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from askwell.store.records import Record

__all__ = ["Pending", "State", "fold"]


@final
@dataclass(frozen=True)
class Pending:
    """A question that waits for its answer."""

    session: str  # who has it: an open store
    score: float | None  # what its answer was expected to tell; None if it was asked before there was a model


@final
@dataclass(frozen=True)
class State:
    """What a run's records add up to. Items are ids as text, in the order in which they were first told or asked."""

    seq: int = 0  # of the last record
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)  # item -> label
    pending: Mapping[str, Pending] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)  # item -> reason
    changes: int = 0  # labels and withdrawals: what a model is fitted to changes with each
    told: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)  # item -> (key, label), not withdrawn


def fold(state: State, records: Iterable[Record]) -> State:
    """The state after some more records.

    A later label corrects an earlier one, and an answer of any kind ends a question. A withdrawal takes labels back:
    that one "of" which it is, after which the one before it counts again, or all.

    >>> asked = Record("a", "main", "question", "7", {"session": "s", "score": 0.5}, seq=1)
    >>> told = Record("b", "main", "label", "7", {"label": "cat"}, seq=2)
    >>> fold(State(), [asked]).pending
    {'7': Pending(session='s', score=0.5)}
    >>> state = fold(State(), [asked, told])
    >>> state.pending, state.labels
    ({}, {'7': 'cat'})
    """
    seq, settings, changes = state.seq, state.settings, state.changes
    labels, pending, skipped = dict(state.labels), dict(state.pending), dict(state.skipped)
    told = dict(state.told)
    for record in records:
        seq, item = record.seq, record.item or ""
        if record.kind == "run":
            settings = record.body
        elif record.kind == "question":
            pending[item] = Pending(str(record.body["session"]), record.body.get("score"))
        elif record.kind == "label":
            labels[item] = record.body["label"]
            told[item] = (*told.get(item, ()), (record.key, labels[item]))
            changes += 1
        elif record.kind == "withdrawal":
            of = record.body.get("of")
            told[item] = tuple(each for each in told.get(item, ()) if of is not None and each[0] != of)
            if told[item]:
                labels[item] = told[item][-1][1]
            else:
                labels.pop(item, None)
            changes += 1
        elif record.kind == "skip":
            skipped[item] = str(record.body.get("reason", ""))
        if record.kind in ("label", "skip"):
            pending.pop(item, None)
        if record.kind == "label":
            skipped.pop(item, None)
    return State(seq, settings, labels, pending, skipped, changes, told)
