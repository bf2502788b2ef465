"""Where a session stands: the fold of its run's records, one at a time, each in constant time.

The fold is the referee. Processes decide by what they have read so far; whether a lease holds and whether an answer was
late follows from the order of the records alone, without a clock, so all processes agree. After every record, whoever
wrote it and why, an item has no more leases than it needs labels. A learner's run is folded by the same code: its
questions wait for answers of anybody.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, final

from askwell.seeds import rng_for
from askwell.session.commit import Transaction
from askwell.session.events import (
    AnswerWithdrawn,
    Candidate,
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
    text_of,
)
from askwell.session.leases import Cursors, Lease, Leases
from askwell.session.rules import Revision, Rules, carried
from askwell.store.records import Record

__all__ = ["Answer", "Outcome", "Pending", "State", "Tally", "Withdrawal"]

RECENT = 200  # labels that a pace is judged by
NOBODY: Mapping[str, "Answer"] = MappingProxyType({})
NOTHING = Candidate("")

Outcome: TypeAlias = Literal["counted", "extra", "late", "again"]
"""What became of an answer: see `Receipt`."""


@final
@dataclass(frozen=True)
class Answer:
    """A label or a skip that is in force: the person's last word on the item."""

    item: str
    who: str
    kind: Literal["label", "skip"]
    label: Any  # None for a skip
    reason: str  # of a skip
    key: str
    kept: Outcome
    seconds: float | None  # taken by the person
    seq: int  # the record
    at: float  # unix seconds, by the store's clock
    corrects: Any = None  # the label of the same person that this one took the place of


class Withdrawal(NamedTuple):
    """An undo by its key."""

    who: str
    answer: Answer | None  # what was taken back


class Pending(NamedTuple):
    """A question of a learner that waits for its answer."""

    session: str  # of the learner that asked
    score: float | None  # what its answer was expected to tell; None if it was asked before there was a model
    seq: int  # the record


@final
@dataclass
class Tally:
    """What one person has done."""

    labels: int = 0  # in force
    skips: int = 0  # in force
    answers: list[Answer] = field(default_factory=list)  # in order; some may be superseded or withdrawn
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    last: float | None = None


class _Counts(NamedTuple):
    needed: int
    leases: int
    labels: int
    answers: int


@final
class State:
    """The fold, and who may have which item. Items that are not among `items` keep their labels, and are not given out.

    Items stand here by their ids as text, or, with `raw`, as their records have them: 7 is not "7" then. People get the
    trainer's queue first, then all others in an order that follows from the `seed`.

    >>> state = State(["a", "b", "c"])
    >>> sorted(state.choose("ada", 5, Transaction(), now=0.0))
    ['a', 'b', 'c']
    >>> state.add(LabelAdded('"a"', "cat").to_record("main", who="ada"))
    >>> state.votes("a")
    {'ada': 'cat'}
    """

    def __init__(self, items: Sequence[str] = (), *, seed: int = 0, raw: bool = False) -> None:
        self.seq = 0  # of the last record
        self.first = ""  # the key of the first record
        self.rules = Rules()
        self.revisions: list[Revision] = []  # of the rules, oldest first
        self.leases = Leases()
        self.requests: dict[str, Answer | Withdrawal] = {}  # by key
        self.people: dict[str, Tally] = {}
        self.rounds: list[Mapping[str, Any]] = []
        self.queue: QueueReplaced | None = None
        self.queues = self.orders = self.changes = 0  # how often the queue, the rules, the labels changed
        self.labels = self.labelled = self.complete = self.skipped = 0
        self.uses: Counter[Any] = Counter()  # label -> how often it is in force
        self.times: deque[float] = deque(maxlen=RECENT)  # of the last labels
        self.several: dict[str, None] = {}  # items with labels of several people
        self.freed: list[str] = []  # items that somebody may have who could not before; whoever uses it empties it
        self.latest_labels: dict[str, Any] = {}  # item -> its last label, whoever gave it: what a learner learns from
        self.skips: dict[str, str] = {}  # item -> the reason of its last skip, where somebody skipped it
        self.settings: Mapping[str, Any] = {}  # of a learner's run
        self.pending: dict[str, Pending] = {}  # item -> the question of a learner, in order
        self.items = {item: position for position, item in enumerate(items)}
        self._seed, self._name = seed, _itself if raw else _id_text
        self._pool, self._queue = Cursors(()), Cursors(())
        self._candidates: dict[str, Candidate] = {}
        self._seen = (-1, -1)  # queues and orders that the cursors were made of
        self._now = float("-inf")
        self._answers: dict[str, dict[str, Answer]] = {}  # item -> who -> their last word

    # ---- what is known ---------------------------------------------------------------------------------------------

    def answers(self, item: str) -> Mapping[str, Answer]:
        """who -> their last word on an item, in order."""
        return self._answers.get(item, NOBODY)

    @property
    def round(self) -> int | None:
        """The trainer's round that the queue comes from; None before the first."""
        return None if self.queue is None else self.queue.round

    def answered(self) -> Sequence[str]:
        """The items with answers, in the order of the first."""
        return list(self._answers)

    def votes(self, item: str) -> dict[str, Any]:
        """who -> label of an item, in order."""
        return {who: answer.label for who, answer in self.answers(item).items() if answer.kind == "label"}

    def is_reviewed(self, item: str, who: str | None = None) -> bool:
        """Whether all who labelled an item, or this one, have looked twice: corrected their label or repeated it."""
        answers = self.answers(item).values()
        labels = [answer for answer in answers if answer.kind == "label" and who in (None, answer.who)]
        return all(answer.corrects is not None for answer in labels)

    def needed(self, item: str) -> int:
        """How many labels an item still needs."""
        by_person = self._answers.get(item)
        return self.rules.needed(list(self.votes(item).values())) if by_person else self.rules.labels_per_item

    def last(self, who: str) -> Answer | None:
        """A person's last answer that is in force."""
        tally = self.people.get(who)
        while tally and tally.answers:
            answer = self.answers(tally.answers[-1].item).get(who)
            if answer is not None and answer.key == tally.answers[-1].key:
                return answer
            tally.answers.pop()
        return None

    def latest(self, who: str, *, before: int | None = None) -> Iterator[Answer]:
        """A person's answers in force, newest first; with `before`, those older than the record of that `seq`."""
        tally = self.people.get(who)
        for given in reversed(tally.answers if tally else ()):
            answer = self.answers(given.item).get(who)
            if answer is not None and answer.key == given.key and (before is None or answer.seq < before):
                yield answer

    # ---- the fold --------------------------------------------------------------------------------------------------

    def add(self, record: Record) -> None:
        """Take in the next record."""
        self.seq = record.seq
        self.first = self.first or record.key
        event = event_of(record)
        if isinstance(event, RunStarted):
            self.settings = event.content
        elif isinstance(event, RulesChanged):
            self._add_rules(event, record.seq)
        elif isinstance(event, QueueReplaced):
            self.queue, self.queues = event, self.queues + 1
        elif isinstance(event, RoundFinished):
            self.rounds.append(event.content)
        elif isinstance(event, AnswerWithdrawn) and event.item is None:  # there was nothing to take back
            self.requests[record.key] = Withdrawal(record.who, None)
        elif event is not None and record.item is not None:
            self._add_to_item(event, self._name(record.item), record)

    def _add_to_item(self, event: Event, item: str, record: Record) -> None:
        if isinstance(event, QuestionAsked):
            self.pending[item] = Pending(event.session, event.score, record.seq)
        elif isinstance(event, LeaseGranted):
            self._add_lease(event, item, record.who)
        elif isinstance(event, LeaseReleased):
            self._add_release(event, item, record.who)
        elif isinstance(event, LabelAdded | ItemSkipped | AnswerWithdrawn):
            before = self._counts(item)
            if isinstance(event, AnswerWithdrawn):
                self._add_withdrawal(event, item, record)
            else:
                self._add_answer(event, item, record)
                self.pending.pop(item, None)
            self._note(item)
            self._count(item, before, self._settled(item))

    def _note(self, item: str) -> None:
        """What a learner wants to know of an item after a new answer or a withdrawal."""
        answers = [*self.answers(item).values()]
        for kind, value, noted in (("label", "label", self.latest_labels), ("skip", "reason", self.skips)):
            last = [getattr(answer, value) for answer in answers if answer.kind == kind][-1:]
            if last:
                noted[item] = last[0]
            else:
                noted.pop(item, None)

    def _outcome(self, event: LabelAdded | ItemSkipped, item: str, who: str) -> Outcome:
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
        answer = Answer(
            item,
            who,
            "label" if is_label else "skip",
            label,
            reason,
            record.key,
            self._outcome(event, item, who),
            seconds,
            record.seq,
            record.at,
            None if before is None else before.label,
        )
        self._drop(item, who)
        self._answers.setdefault(item, {})[who] = self.requests[record.key] = answer
        tally = self.people.setdefault(who, Tally())
        tally.answers.append(answer)
        tally.last = record.at
        if is_label:
            tally.labels += 1
            self.labels += 1
            self.changes += 1
            self.uses[label] += 1
            self.times.append(record.at)
            if isinstance(seconds, int | float):
                tally.seconds.append(seconds)
        else:
            tally.skips += 1
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
        gone = [answer for answer in answers.values() if (answer.kind == "label" if key is None else answer.key == key)]
        for answer in gone:
            self._drop(item, answer.who)
        if not self.answers(item):
            self._answers.pop(item, None)
        self.changes += any(answer.kind == "label" for answer in gone)
        self.requests[record.key] = Withdrawal(record.who, gone[0] if gone else None)
        self.freed.append(item)

    def _drop(self, item: str, who: str) -> None:
        answer = self._answers.get(item, {}).pop(who, None)
        if answer is None:
            return
        if answer.kind == "label":
            self.people[who].labels -= 1
            self.labels -= 1
            self.uses[answer.label] -= 1
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
        if item not in self.items or who in self.answers(item) or any(x.who == who and x not in over for x in on):
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

    # ---- who may have which item ------------------------------------------------------------------------------------

    def follow(self, records: Sequence[Record]) -> None:
        """Take in the next records."""
        for record in records:
            self.add(record)

    def _cursors(self) -> tuple[Cursors, Cursors]:
        """Those of the queue and of the pool, after all records so far."""
        if self.queues != self._seen[0]:
            candidates = [] if self.queue is None else self.queue.candidates()
            self._candidates = {each.item: each for each in candidates if each.item in self.items}
        if (self.queues, self.orders) != self._seen:  # everything may be open again
            self._pool, self._queue = Cursors(self._order()), Cursors(list(self._candidates))
            self._seen = (self.queues, self.orders)
        self._back(self.freed)
        self.freed.clear()
        return self._queue, self._pool

    def _order(self) -> list[str]:
        names = list(self.items)
        order = rng_for(self._seed, 0, "desk").permutation(len(names))  # the room's former name: projects keep theirs
        return [names[position] for position in order.tolist()]

    def at(self, now: float) -> float:
        """Let leases run out until `now`, and return it. A clock that was set back counts from there on."""
        leases = self.leases
        leases.limit(now + self.rules.lease_seconds, all=now < self._now)
        self._now = now
        self._back(leases.run_out(now))
        return now

    def _back(self, items: Sequence[str]) -> None:
        for item in items:
            self._queue.back(item)
            self._pool.back(item)

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
        for cursors in self._cursors():
            cursors.close(self._is_complete)
            found += cursors.first(who, size - len(found), free=free, taken=taken)
        return found

    def running(self, who: str, *, now: float) -> list[Lease]:
        """A person's leases that have not run out, oldest first."""
        leases = self.leases
        return [lease for lease in leases.of(who) if leases.runs(lease, now)]

    def over(self, item: str, *, now: float) -> list[str]:
        """The tokens of an item's leases that ran out here before their records say so."""
        leases = self.leases
        return [lease.token for lease in leases.on(item) if now < lease.until and not leases.runs(lease, now)]

    def room(self, transaction: Transaction) -> int:
        """How many more leases the budget allows, if all that are out come back as labels."""
        budget, leases = self.rules.budget, self.leases.live() + transaction.taken.total()
        return len(self.items) if budget is None else budget - self.labels - leases

    def closed(self, who: str | None, *, now: float) -> str | None:
        """Why a person, or anybody, gets no more items; None while there are some."""
        if self.rules.budget is not None and self.labels >= self.rules.budget:
            return f"The budget of {self.rules.budget} labels is used up."
        if self.complete == len(self.items):
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
        if who in self.answers(item):
            return False
        running = [lease for lease in self.leases.on(item) if self.leases.runs(lease, now)]
        return len(running) < self.needed(item) and all(lease.who != who for lease in running)

    def _is_left(self, item: str, now: float, transaction: Transaction) -> bool:
        leases = self.leases
        running = sum(leases.runs(lease, now) for lease in leases.on(item))
        return running + transaction.taken[item] < self.needed(item)

    def _is_complete(self, item: str) -> bool:
        return self.needed(item) == 0

    def check(self, item: str) -> None:
        """Raise a ValueError if the pool does not have the item."""
        if item not in self.items:
            raise ValueError(f"item must be one of the {len(self.items)} items of the pool, but it is {item!r}.")

    def lease(self, item: str, token: str, now: float) -> LeaseGranted:
        """A lease from now on, as the rules say; it says which others ran out here before their records do."""
        over = tuple(other for other in self.over(item, now=now) if other != token)
        return LeaseGranted(text_of(item), token, now + self.rules.lease_seconds, now, over)

    def hint(self, item: str) -> Candidate:
        """What the trainer said about an item, if it is in the queue."""
        self._cursors()
        return self._candidates.get(item, NOTHING)

    # ---- counts ----------------------------------------------------------------------------------------------------

    def _counts(self, item: str) -> _Counts:
        by_person = self._answers.get(item)
        if not by_person:
            return _Counts(self.rules.labels_per_item, len(self.leases.on(item)), 0, 0)
        labels = [answer.label for answer in by_person.values() if answer.kind == "label"]
        return _Counts(self.rules.needed(labels), len(self.leases.on(item)), len(labels), len(by_person))

    def _count(self, item: str, before: _Counts, after: _Counts) -> None:
        if after.needed - after.leases > before.needed - before.leases:
            self.freed.append(item)
        if after.labels > 1:
            self.several[item] = None
        else:
            self.several.pop(item, None)
        if item in self.items:
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
            for by_person in self._answers.values():
                for who, answer in by_person.items():
                    if answer.kind == "label":
                        by_person[who] = replace(answer, label=renamed.get(answer.label, answer.label))
                        self.uses[by_person[who].label] += 1
            for item in self._answers:
                self._note(item)
        for item in self.leases.items():
            self._settled(item)
        self.complete = sum(item in self.items and self.needed(item) == 0 for item in self._answers)


def _itself(text: str) -> str:
    return text


def _id_text(text: str) -> str:
    return str(id_of(text))
