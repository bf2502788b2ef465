"""Where a session stands: the fold of its run's records, one at a time, each in constant time.

The fold is the referee. Processes decide by what they have read so far; whether a lease holds and whether an answer was
late follows from the order of the records alone, without a clock, so all processes agree. After every record, whoever
wrote it and why, an item has no more leases than it needs labels.
"""

from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, final

from askwell.session.events import (
    AnswerWithdrawn,
    Event,
    ItemSkipped,
    LabelAdded,
    LeaseGranted,
    LeaseReleased,
    QuestionAsked,
    QueueReplaced,
    RoundFinished,
    RulesChanged,
    RunStarted,
    event_of,
    id_of,
)
from askwell.session.leases import Lease, Leases
from askwell.session.rules import Revision, Rules, carried
from askwell.session.tasks import Answer, Kept
from askwell.store.records import Record

__all__ = ["Pending", "RunState", "State", "Withdrawal", "Work", "fold"]

RECENT = 200  # labels that a pace is judged by
NOBODY: Mapping[str, Answer] = MappingProxyType({})


class Withdrawal(NamedTuple):
    """An undo by its key."""

    who: str
    answer: Answer | None  # what was taken back


@final
class Work:
    """What one person has done."""

    def __init__(self) -> None:
        self.labels = self.skips = 0  # in force
        self.answers: list[Answer] = []  # in order; some may be superseded or withdrawn
        self.seconds: deque[float] = deque(maxlen=RECENT)
        self.last: float | None = None


class _Counts(NamedTuple):
    needed: int
    leases: int
    labels: int
    answers: int


@final
class State:
    """The fold. Items that are not among `items` keep their labels, and are not asked about."""

    def __init__(self, items: Container[str]) -> None:
        self.seq = 0  # of the last record
        self.first = ""  # the key of the first record
        self.rules = Rules()
        self.revisions: list[Revision] = []  # of the rules, oldest first
        self.leases = Leases()
        self.requests: dict[str, Answer | Withdrawal] = {}  # by key
        self.people: dict[str, Work] = {}
        self.rounds: list[Mapping[str, Any]] = []
        self.queue: QueueReplaced | None = None
        self.queues = self.orders = self.changes = 0  # how often the queue, the rules, the labels changed
        self.labels = self.labelled = self.complete = self.skipped = 0
        self.uses: Counter[Any] = Counter()  # label -> how often it is in force
        self.times: deque[float] = deque(maxlen=RECENT)  # of the last labels
        self.several: dict[str, None] = {}  # items with labels of several people
        self.freed: list[str] = []  # items that somebody may have who could not before; whoever uses it empties it
        self._items = items
        self._answers: dict[str, dict[str, Answer]] = {}  # item -> who -> their last word

    # ---- what is known ---------------------------------------------------------------------------------------------

    def answers(self, item: str) -> Mapping[str, Answer]:
        """who -> their last word on an item, in order."""
        return self._answers.get(item, NOBODY)

    @property
    def round(self) -> int | None:
        """The trainer's round that the queue comes from; None before the first."""
        return None if self.queue is None else self.queue.round

    def items(self) -> Sequence[str]:
        """The items with answers, in the order of the first."""
        return list(self._answers)

    def votes(self, item: str) -> dict[str, Any]:
        """who -> label of an item, in order."""
        return {who: said.label for who, said in self.answers(item).items() if said.kind == "label"}

    def needed(self, item: str) -> int:
        """How many labels an item still needs."""
        said = self._answers.get(item)
        return self.rules.needed(list(self.votes(item).values())) if said else self.rules.labels_per_item

    def last(self, who: str) -> Answer | None:
        """A person's last answer that is in force."""
        work = self.people.get(who)
        while work and work.answers:
            said = self.answers(work.answers[-1].item).get(who)
            if said is not None and said.key == work.answers[-1].key:
                return said
            work.answers.pop()
        return None

    def latest(self, who: str, *, before: int | None = None) -> Iterator[Answer]:
        """A person's answers in force, newest first; with `before`, those older than the record of that `seq`."""
        work = self.people.get(who)
        for given in reversed(work.answers if work else ()):
            said = self.answers(given.item).get(who)
            if said is not None and said.key == given.key and (before is None or said.seq < before):
                yield said

    # ---- the fold --------------------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        """Take in the next record."""
        self.seq = record.seq
        self.first = self.first or record.key
        event = event_of(record)
        if isinstance(event, RulesChanged):
            self._add_rules(event, record.seq)
        elif isinstance(event, QueueReplaced):
            self.queue, self.queues = event, self.queues + 1
        elif isinstance(event, RoundFinished):
            self.rounds.append(event.content)
        elif isinstance(event, AnswerWithdrawn) and event.item is None:  # there was nothing to take back
            self.requests[record.key] = Withdrawal(record.who, None)
        elif event is not None and record.item is not None:
            self._add_to_item(event, str(id_of(record.item)), record)

    def _add_to_item(self, event: Event, item: str, record: Record) -> None:
        if isinstance(event, LeaseGranted):
            self._add_lease(event, item, record.who)
        elif isinstance(event, LeaseReleased):
            self._add_release(event, item, record.who)
        elif isinstance(event, LabelAdded | ItemSkipped | AnswerWithdrawn):
            before = self._counts(item)
            if isinstance(event, AnswerWithdrawn):
                self._add_withdrawal(event, item, record)
            else:
                self._add_answer(event, item, record)
            self._count(item, before, self._settled(item))

    def _kept(self, event: LabelAdded | ItemSkipped, item: str, who: str) -> Kept:
        """What becomes of an answer: see `Receipt`."""
        lease = self.leases.held(event.token)
        if event.token is not None and (lease is None or (lease.item, lease.who) != (item, who)):
            return "late"
        others = [label for name, label in self.votes(item).items() if name != who]
        return "counted" if isinstance(event, ItemSkipped) or self.rules.needed(others) else "extra"

    def _add_answer(self, event: LabelAdded | ItemSkipped, item: str, record: Record) -> None:
        who, seconds, is_label = record.who, event.seconds, isinstance(event, LabelAdded)
        label = self._label(event) if isinstance(event, LabelAdded) else None
        reason = event.reason or "" if isinstance(event, ItemSkipped) else ""
        before = self.answers(item).get(who)
        said = Answer(
            item,
            who,
            "label" if is_label else "skip",
            label,
            reason,
            record.key,
            self._kept(event, item, who),
            seconds,
            record.seq,
            record.at,
            None if before is None else before.label,
        )
        self._drop(item, who)
        self._answers.setdefault(item, {})[who] = self.requests[record.key] = said
        work = self.people.setdefault(who, Work())
        work.answers.append(said)
        work.last = record.at
        if is_label:
            work.labels += 1
            self.labels += 1
            self.changes += 1
            self.uses[label] += 1
            self.times.append(record.at)
            if isinstance(seconds, int | float):
                work.seconds.append(seconds)
        else:
            work.skips += 1
        for lease in [lease for lease in self.leases.on(item) if lease.who == who]:
            self.leases.end(lease)

    def _label(self, event: LabelAdded) -> Any:
        """The label by its class's present name; as it was written if its class was removed in that instant."""
        if event.rules is None:
            return self.rules.named(event.label)
        try:
            return carried(event.label, self.revisions, since=event.rules)
        except ValueError:
            return event.label

    def _add_withdrawal(self, event: AnswerWithdrawn, item: str, record: Record) -> None:
        """Take back the answer that it names; one that names none takes back all labels of the item, as a learner."""
        key, answers = event.of, self.answers(item)
        gone = [said for said in answers.values() if (said.kind == "label" if key is None else said.key == key)]
        for said in gone:
            self._drop(item, said.who)
        if not self.answers(item):
            self._answers.pop(item, None)
        self.changes += any(said.kind == "label" for said in gone)
        self.requests[record.key] = Withdrawal(record.who, gone[0] if gone else None)
        self.freed.append(item)

    def _drop(self, item: str, who: str) -> None:
        said = self._answers.get(item, {}).pop(who, None)
        if said is None:
            return
        if said.kind == "label":
            self.people[who].labels -= 1
            self.labels -= 1
            self.uses[said.label] -= 1
        else:
            self.people[who].skips -= 1

    # ---- leases ----------------------------------------------------------------------------------------------------

    def _add_lease(self, event: LeaseGranted, item: str, who: str) -> None:
        """Renew a lease, or give a new one if the item needs it; what ran out before makes room."""
        token, until = event.token, event.until
        at = until - self.rules.lease_seconds if event.at is None else event.at
        held = self.leases.held(token)
        if held is not None:
            if (held.item, held.who) == (item, who):
                self.leases.give(held._replace(until=max(until, held.until)))
            return
        on, gone = self.leases.on(item), {*event.over}  # a wrong clock gave these: see `Leases`
        over = [x for x in on if x.until <= at or x.token in gone]
        if item not in self._items or who in self.answers(item) or any(x.who == who and x not in over for x in on):
            return
        over.sort(key=lambda lease: (lease.who != who, lease.until))
        surplus = len(on) + 1 - self.needed(item)
        if surplus <= len(over):
            for lease in over[: max(surplus, sum(x.who == who for x in over))]:
                self.leases.end(lease)
            self.leases.give(Lease(item, who, token, until))

    def _add_release(self, event: LeaseReleased, item: str, who: str) -> None:
        held = self.leases.held(event.token)
        if held is not None and (held.item, held.who) == (item, who):
            self.leases.end(held)
            self.freed.append(item)

    def _settled(self, item: str) -> _Counts:
        """Others answered first: leases without use end, those that run out first, and of equal ones the newest."""
        now = self._counts(item)
        if now.leases <= now.needed:
            return now
        newest = list(self.leases.on(item))[::-1]
        for lease in sorted(newest, key=lambda lease: lease.until)[: now.leases - now.needed]:
            self.leases.end(lease)
        return now._replace(leases=now.needed)

    # ---- counts ----------------------------------------------------------------------------------------------------

    def _counts(self, item: str) -> _Counts:
        said = self._answers.get(item)
        if not said:
            return _Counts(self.rules.labels_per_item, len(self.leases.on(item)), 0, 0)
        labels = [answer.label for answer in said.values() if answer.kind == "label"]
        return _Counts(self.rules.needed(labels), len(self.leases.on(item)), len(labels), len(said))

    def _count(self, item: str, before: _Counts, after: _Counts) -> None:
        if after.needed - after.leases > before.needed - before.leases:
            self.freed.append(item)
        if after.labels > 1:
            self.several[item] = None
        else:
            self.several.pop(item, None)
        if item in self._items:
            self.labelled += (after.labels > 0) - (before.labels > 0)
            self.complete += (after.needed == 0) - (before.needed == 0)
            self.skipped += (after.answers > after.labels == 0) - (before.answers > before.labels == 0)

    def _add_rules(self, event: RulesChanged, seq: int) -> None:
        """New rules concern all items: the one kind of record that takes longer, and is rare."""
        self.rules = replace(self.rules.after(event.content), version=len(self.revisions) + 1)
        renamed = event.content.get("renamed") or {}
        self.revisions.append(Revision(self.rules.version, renamed, self.rules.classes, seq))
        self.orders += 1
        if renamed:
            self.changes += 1
            self.uses.clear()
            for said in self._answers.values():
                for who, answer in said.items():
                    if answer.kind == "label":
                        said[who] = replace(answer, label=renamed.get(answer.label, answer.label))
                        self.uses[said[who].label] += 1
        for item in self.leases.items():
            self._settled(item)
        self.complete = sum(item in self._items and self.needed(item) == 0 for item in self._answers)


# ---- the run of a learner -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Pending:
    """A question that waits for its answer."""

    session: str  # who has it: an open store
    score: float | None  # what its answer was expected to tell; None if it was asked before there was a model


@final
@dataclass(frozen=True)
class RunState:
    """What a run's records add up to. Items are ids as text, in the order in which they were first told or asked."""

    seq: int = 0  # of the last record
    settings: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)  # item -> label
    pending: Mapping[str, Pending] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)  # item -> reason
    changes: int = 0  # labels and withdrawals: what a model is fitted to changes with each
    told: Mapping[str, tuple[tuple[str, Any], ...]] = field(default_factory=dict)  # item -> (key, label), not withdrawn


def fold(state: RunState, records: Iterable[Record]) -> RunState:
    """The state after some more records.

    A later label corrects an earlier one, and an answer of any kind ends a question. A withdrawal takes labels back:
    that one "of" which it is, after which the one before it counts again, or all.

    >>> asked = Record("a", "main", "question", "7", {"session": "s", "score": 0.5}, seq=1)
    >>> told = Record("b", "main", "label", "7", {"label": "cat"}, seq=2)
    >>> fold(RunState(), [asked]).pending
    {'7': Pending(session='s', score=0.5)}
    >>> state = fold(RunState(), [asked, told])
    >>> state.pending, state.labels
    ({}, {'7': 'cat'})
    """
    seq, settings, changes = state.seq, state.settings, state.changes
    labels, pending, skipped = dict(state.labels), dict(state.pending), dict(state.skipped)
    told = dict(state.told)
    for record in records:
        seq, item, event = record.seq, record.item or "", event_of(record)
        if isinstance(event, RunStarted):
            settings = event.content
        elif isinstance(event, QuestionAsked):
            pending[item] = Pending(event.session, event.score)
        elif isinstance(event, LabelAdded):
            labels[item] = event.label
            told[item] = (*told.get(item, ()), (record.key, event.label))
            changes += 1
        elif isinstance(event, AnswerWithdrawn):
            told[item] = tuple(each for each in told.get(item, ()) if event.of is not None and each[0] != event.of)
            if told[item]:
                labels[item] = told[item][-1][1]
            else:
                labels.pop(item, None)
            changes += 1
        elif isinstance(event, ItemSkipped):
            skipped[item] = event.reason or ""
        if isinstance(event, LabelAdded | ItemSkipped):
            pending.pop(item, None)
        if isinstance(event, LabelAdded):
            skipped.pop(item, None)
    return RunState(seq, settings, labels, pending, skipped, changes, told)
