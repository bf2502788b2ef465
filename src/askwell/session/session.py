"""A session: hands out items, takes answers, and says where things stand. Any number may be open on one store."""

import hashlib
import math
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar, Unpack, final

from askwell.checks import count
from askwell.session.commit import GroupCommit, OnCommit, Retry, Transaction
from askwell.session.events import (
    AnswerWithdrawn,
    Candidate,
    Event,
    ItemSkipped,
    LabelAdded,
    LeaseGranted,
    LeaseReleased,
    ProjectNamed,
    QueueReplaced,
    RoundFinished,
    RulesChanged,
    text_of,
)
from askwell.session.leases import Lease
from askwell.session.progress import Agreement, Progress, agreement, progress_of
from askwell.session.rules import Changes, Rules, carried, changed
from askwell.session.rules import consensus as agreed
from askwell.session.state import Answer, Outcome, State, Withdrawal
from askwell.store.records import Store

__all__ = ["Assignment", "Consensus", "Receipt", "Session", "Undone"]

Result = TypeVar("Result")


@final
@dataclass(frozen=True)
class Assignment:
    """An item that a person is asked about, theirs until `until`."""

    item: str
    token: str  # the lease: comes back with the answer, and keeps the item with `renew`
    until: float  # unix seconds, by the session's clock
    score: float | None = None  # nats that the label was expected to tell when the queue was made; None: no model yet
    why: tuple[tuple[str, float], ...] = ()  # the targets it informs most: (target id, nats)
    labels_so_far: int = 0  # by others


@final
@dataclass(frozen=True)
class Receipt:
    """What became of an answer. It is stored, durably, whatever `kept` says.

    "counted": one of the labels the item needed. "extra": the item had all it needed; kept as one more. "late": the
    lease was lost, because its time ran out and the item was given to somebody else, or others had answered first; kept
    like any other. "again": the same request as before; nothing new was stored.
    """

    key: str
    item: str
    kept: Outcome
    labels: int  # the item's labels now
    needed: int  # labels that the item still needs
    corrects: Any = None  # the label of the same person that this one took the place of
    round: int | None = None  # of the queue that questions come from now


@final
@dataclass(frozen=True)
class Undone:
    """What was taken back. `task` is the item once more; None if meanwhile it is somebody else's."""

    answer: Answer
    task: Assignment | None


@final
@dataclass(frozen=True)
class Consensus:
    """What several people say about one item."""

    label: Any  # the most frequent; of equally frequent ones the earliest
    share: float  # of the labels that say so
    votes: Mapping[str, Any]  # who -> label, in the order of their answers


@final
class Session:
    """Who is asked what, and what they answered, for the items of one project.

    `items` are the ids of the pool; without them nothing is handed out, which is how a learner, who chooses itself,
    reads and changes a run. Everything is in the records of `run`; sessions of several processes on one store
    see the same, and never give an item to more people than it needs labels. `clock` gives unix seconds, for leases
    only; `seed` orders the items that no model has ranked yet. Every method may be called from any thread.

    >>> from askwell.store import open_store
    >>> session = Session(open_store(None), ["a", "b", "c"])
    >>> session.set_rules("ada", classes=["ham", "spam"]).classes
    ('ham', 'spam')
    >>> (task,) = session.next("ada")
    >>> session.next("bob")[0].item != task.item
    True
    >>> session.answer("ada", task.item, "ham", key="f3a1", token=task.token).kept
    'counted'
    >>> session.answer("ada", task.item, "ham", key="f3a1", token=task.token).kept     # the network failed: sent again
    'again'
    >>> [found.label for found in session.labels().values()]
    ['ham']
    """

    def __init__(
        self,
        store: Store,
        items: Sequence[str] | None = None,
        *,
        run: str = "main",
        clock: Callable[[], float] = time.time,
        seed: int = 0,
    ) -> None:
        self._store, self._run, self._clock = store, run, clock
        self._state = State(raw=True) if items is None else State(_checked(items), seed=seed)
        self._commits = GroupCommit(store, run, self._state)
        self._agreed: tuple[int, Agreement | None] = (-1, None)

    # ---- for whoever knows the vocabulary ----------------------------------------------------------------------------

    def read(self, read: Callable[[State], Result]) -> Result:
        """What `read` finds in the state after all records there are now."""
        return self._commits.read(lambda: read(self._state))

    def change(self, events_for: Callable[[State], Sequence[Event]], *, who: str = "") -> None:
        """Record what `events_for(state)` says.

        If somebody else recorded something since that state, it is called again with the new one: a change always
        follows from what it was made of.
        """

        def decide(transaction: Transaction) -> OnCommit[None]:
            for event in events_for(self._state):
                self._guard(transaction, event, who)
            return lambda: None

        self._commits.run(decide, alone=True)

    # ---- for the people ----------------------------------------------------------------------------------------------

    def next(self, who: str, *, size: int = 1) -> list[Assignment]:
        """Up to `size` items for a person to label: those they have already, oldest first, then new ones.

        New ones come in the order of the trainer's queue, then in a seeded order over the rest of the pool. None are
        given that the person has labelled or skipped, nor beyond the budget; `closed(who=...)` says why there are none.
        """
        _check_name(who)
        count("size", size)

        def decide(transaction: Transaction) -> OnCommit[list[Assignment]]:
            now = self._state.at(self._clock())
            own = self._state.running(who, now=now)[:size]
            for held in own:
                self._renew(transaction, held, now)
            given = transaction.given.setdefault(who, set())
            wanted = min(size - len(own) - len(given), self._state.room(transaction))
            for item in self._state.choose(who, wanted, transaction, now=now) if wanted > 0 else []:
                self._guard(transaction, self._state.lease(item, uuid.uuid4().hex, now), who)
                transaction.taken[item] += 1
                given.add(item)
            promised = min(size, len(own) + len(given))

            def tasks() -> list[Assignment]:
                found = self._state.running(who, now=now)[:size]
                if len(found) < promised:
                    raise Retry
                return [self._task(lease) for lease in found]

            return tasks

        return self._commits.run(decide)

    def renew(self, who: str, tokens: Sequence[str]) -> list[str]:
        """Keep these items for longer; the tokens that are still the person's, also if their time had run out."""
        _check_name(who)

        def decide(transaction: Transaction) -> OnCommit[list[str]]:
            now = self._state.at(self._clock())
            for lease in self._state.leases.held_by(who, tokens):
                self._renew(transaction, lease, now)
            return lambda: [lease.token for lease in self._state.leases.held_by(who, tokens)]

        return self._commits.run(decide)

    def release(self, who: str, tokens: Sequence[str]) -> None:
        """Give items back, unanswered: somebody else may have them at once."""
        _check_name(who)

        def decide(transaction: Transaction) -> OnCommit[None]:
            for lease in self._state.leases.held_by(who, tokens):
                self._add(transaction, LeaseReleased(text_of(lease.item), lease.token), who)
            return lambda: None

        self._commits.run(decide)

    def answer(
        self,
        who: str,
        item: str,
        label: Any,
        *,
        key: str,
        token: str | None = None,
        seconds: float | None = None,
        rules: int | None = None,
    ) -> Receipt:
        """Store a person's label for an item, durably, under a key that the caller makes up: the same again is safe.

        It is never refused for coming late, or after somebody else's. A second label of the same person for the same
        item corrects the first. `token` is that of the task, `seconds` how long it took. `rules` is the `version` of
        the rules that the person saw: the label means the class that had this name then, whatever it is called now.
        """
        _check_name(who)
        self._state.check(item)
        if seconds is not None and not (isinstance(seconds, int | float) and 0 <= seconds < math.inf):
            raise ValueError(f"seconds must be a number from 0, but it is {seconds!r}.")

        def decide(transaction: Transaction) -> OnCommit[Receipt]:
            return self._request(transaction, LabelAdded(text_of(item), label, token, seconds), who, key, version=rules)

        return self._commits.run(decide)

    def skip(self, who: str, item: str, reason: str, *, key: str, token: str | None = None) -> Receipt:
        """Store that a person does not want to label an item. They do not get it again; others may."""
        _check_name(who)
        self._state.check(item)

        def decide(transaction: Transaction) -> OnCommit[Receipt]:
            return self._request(transaction, ItemSkipped(text_of(item), reason, token), who, key)

        return self._commits.run(decide)

    def undo(self, who: str, *, key: str) -> Undone | None:
        """Take back the person's last label or skip, and give them the item again; None if there is nothing left.

        Nothing is deleted: a withdrawal is one more record. Again with another key takes back the one before.
        """
        _check_name(who)

        def decide(transaction: Transaction) -> OnCommit[Undone | None]:
            known = self._state.requests.get(key)
            if known is not None and not (isinstance(known, Withdrawal) and known.who == who):
                raise ValueError(_clash(key))
            if known is None:
                last = self._state.last(who)
                gone = AnswerWithdrawn(None) if last is None else AnswerWithdrawn(text_of(last.item), last.key)
                self._guard(transaction, gone, who, key)
                if last is not None:
                    now = self._state.at(self._clock())
                    self._guard(transaction, self._state.lease(last.item, uuid.uuid4().hex, now), who)
            return lambda: self._undone(who, key)

        return self._commits.run(decide, alone=True)

    def closed(self, *, who: str | None = None) -> str | None:
        """Why no more items are given, to this person or to anybody; None while there are some."""
        return self.read(lambda state: state.closed(who, now=self._state.at(self._clock())))

    # ---- for those who run the project -------------------------------------------------------------------------------

    @property
    def rules(self) -> Rules:
        """The rules in force."""
        return self.read(lambda state: state.rules)

    def set_rules(self, who: str, **changes: Unpack[Changes]) -> Rules:
        """Change the rules: classes, added, removed, renamed, labels_per_item, most_labels, lease_seconds, budget.

        `classes` is the whole list; `added` and `removed` change the one that is there by then, whoever else does so at
        the same time. A class can be removed while no label uses it. A rename keeps all labels: they bear the new name
        from now on, and a page that still sends the old one is understood.
        """

        def decide(transaction: Transaction) -> OnCommit[Rules]:
            used = {label: n for label, n in self._state.uses.items() if n}
            rules, renamed = changed(self._state.rules, changes, used=used)
            if rules != self._state.rules:
                self._guard(transaction, RulesChanged(rules.body(renamed)), who)
            return lambda: self._state.rules

        return self._commits.run(decide, alone=True)

    def put_queue(self, round: int, candidates: Iterable[Candidate]) -> None:
        """Replace the queue: the items to ask about next, best first, as the trainer ranks them now."""
        self._put(self._queue(round, candidates))

    def put_round(self, report: Mapping[str, Any], *, queue: Iterable[Candidate] | None = None) -> None:
        """Store the report of a round of training, and with it, all or nothing, the queue that came of it.

        `report` has "round", and either "failed" (a text) or what the trainer found: "labels", "seconds", "model",
        "estimate", "gain", "signal", "next50", "needed", "advice", "label_issues".
        """
        queues = [] if queue is None else [self._queue(report["round"], queue)]
        self._put(*queues, RoundFinished(report))

    def labels(self) -> dict[str, Consensus]:
        """item -> what people say about it, for the items of the pool that have labels: what the model learns from."""

        def consensus(state: State) -> dict[str, Consensus]:
            votes = ((item, state.votes(item)) for item in state.answered() if item in state.items)
            return {item: Consensus(*agreed(labels.values(), state.rules), labels) for item, labels in votes if labels}

        return self.read(consensus)

    def latest(self, who: str, *, size: int, before: int | None = None) -> list[Answer]:
        """A person's last `size` labels and skips in force, newest first; `before` is the `seq` of one: older ones."""
        return self.read(lambda state: list(islice(state.latest(who, before=before), size)))

    def label_issues(self, *, who: str | None = None) -> list[Mapping[str, Any]]:
        """Labels that the last round found worth a second look, and that have not had it: of all, or of one person.

        A label that is given again, the same or another, has had it.
        """

        def waiting(state: State) -> list[Mapping[str, Any]]:
            last: Mapping[str, Any] = next((each for each in reversed(state.rounds) if not each.get("failed")), {})
            issues = [each for each in last.get("label_issues", ()) if each["item"] in state.items]
            return [each for each in issues if not state.is_reviewed(each["item"], who)]

        return self.read(waiting)

    def answers(self, *, who: str | None = None) -> list[Answer]:
        """All labels and skips in force, or those of one person, in the order in which they were stored."""

        def wanted(state: State) -> list[Answer]:
            each = (answer for item in state.answered() for answer in state.answers(item).values())
            return sorted((answer for answer in each if who in (None, answer.who)), key=lambda answer: answer.seq)

        return self.read(wanted)

    @property
    def changes(self) -> int:
        """A number that grows with every label and every label taken back: what is learned from may have changed."""
        return self.read(lambda state: state.changes)

    def progress(self) -> Progress:
        """Where the project stands."""

        def progress(state: State) -> Progress:
            if self._agreed[0] != state.changes:
                self._agreed = (
                    state.changes,
                    agreement([] if state.rules.label_range else (state.votes(item) for item in state.several)),
                )
            return progress_of(state, now=state.at(self._clock()), agreed=self._agreed[1])

        return self.read(progress)

    # ---- for pages that were open before -----------------------------------------------------------------------------

    @property
    def project(self) -> str:
        """The project's own name for itself: random, made once, the same for all who open its store, and for ever.

        It is that of the first record of the run. A run without any gets one that says nothing else.
        """

        def decide(transaction: Transaction) -> OnCommit[str]:
            if not self._state.first:
                self._guard(transaction, ProjectNamed())
            return lambda: hashlib.blake2b(self._state.first.encode(), digest_size=16).hexdigest()

        return self._commits.run(decide, alone=True)

    @property
    def round(self) -> int | None:
        """The trainer's round that questions come from now; None before the first."""
        return self.read(lambda state: state.round)

    def gave(self, who: str, tokens: Sequence[str]) -> list[str]:
        """Those of the tokens that this project ever gave to this person. Reads all records: for rare questions."""
        records = self._store.read(self._run)
        leases = [record for record in records if record.kind == LeaseGranted.kind and record.who == who]
        given = {LeaseGranted.from_record(record).token for record in leases}
        return [token for token in tokens if token in given]

    # ---- inside: called with the state locked ------------------------------------------------------------------------

    def _add(self, transaction: Transaction, event: Event, who: str = "", key: str | None = None) -> None:
        """An event into the transaction that is stored whatever else happened."""
        record = event.to_record(self._run, who=who, key=key)
        transaction.records[record.key] = record

    def _guard(self, transaction: Transaction, event: Event, who: str = "", key: str | None = None) -> None:
        """An event into the transaction that is stored only if nothing else happened."""
        transaction.guarded.append(event.to_record(self._run, who=who, key=key))

    def _renew(self, transaction: Transaction, lease: Lease, now: float) -> None:
        """Renew a lease when less than half of its time is left: a page asks far more often than is worth a record."""
        if self._state.leases.end_of(lease) - now < self._state.rules.lease_seconds / 2:
            self._add(transaction, self._state.lease(lease.item, lease.token, now), lease.who)

    def _named(self, label: Any, version: int | None, *, at: int | None = None) -> Any:
        """A label by its class's name now, or at a record; given under the rules of that version, or under today's."""
        if version is None or self._state.rules.label_range is not None:
            return self._state.rules.named(label)
        revisions = [each for each in self._state.revisions if at is None or each.seq < at]
        return carried(label, revisions, since=version)

    def _request(
        self,
        transaction: Transaction,
        event: LabelAdded | ItemSkipped,
        who: str,
        key: str,
        *,
        version: int | None = None,
    ) -> OnCommit[Receipt]:
        """A label or a skip into the transaction, unless it is there already."""
        known, waiting = self._state.requests.get(key), transaction.records.get(key)
        again = known is not None or waiting is not None
        if isinstance(known, Answer):
            same = self._is_repeat(known, event, who, version)
        elif known is None and waiting is not None:
            named = self._named(event.label, version)
            content = waiting.kind, waiting.who, waiting.item, waiting.body.get("label")
            same = content == (event.kind, who, event.item, named)
        else:
            same = known is None
        if not same:
            raise ValueError(_clash(key))
        if not again:
            if isinstance(event, LabelAdded):
                rules = self._state.rules
                label = rules.checked(self._named(event.label, version))
                event = replace(event, label=label, rules=rules.version or None)
            self._add(transaction, event, who, key)
        return lambda: self._receipt(key, again=again)

    def _is_repeat(self, known: Answer, event: LabelAdded | ItemSkipped, who: str, version: int | None) -> bool:
        """Whether an answer that is stored already is what this event says."""
        if (known.kind, known.who, text_of(known.item)) != (event.kind, who, event.item):
            return False
        if version is not None and self._state.rules.label_range is None:  # its class may have been removed since
            return bool(self._named(event.label, version, at=known.seq) == known.label)
        rules = self._state.rules
        return bool(rules.named(known.label) == rules.named(event.label))

    def _receipt(self, key: str, *, again: bool) -> Receipt:
        answer = self._state.requests[key]
        assert isinstance(answer, Answer)
        labels, needed = len(self._state.votes(answer.item)), self._state.needed(answer.item)
        kept: Outcome = "again" if again else answer.kept
        return Receipt(key, answer.item, kept, labels, needed, answer.corrects, self._state.round)

    def _task(self, lease: Lease) -> Assignment:
        """A lease as its holder sees it."""
        hint, labels = self._state.hint(lease.item), len(self._state.votes(lease.item))
        return Assignment(lease.item, lease.token, lease.until, hint.score, hint.why, labels)

    def _undone(self, who: str, key: str) -> Undone | None:
        undo = self._state.requests[key]
        if not isinstance(undo, Withdrawal) or undo.answer is None:
            return None
        leases = [lease for lease in self._state.leases.on(undo.answer.item) if lease.who == who]
        return Undone(undo.answer, self._task(leases[-1]) if leases else None)

    def _queue(self, round: int, candidates: Iterable[Candidate]) -> QueueReplaced:
        ranked = list(candidates)
        for each in ranked:
            self._state.check(each.item)
        return QueueReplaced.of(round, ranked)

    def _put(self, *events: Event) -> None:
        def decide(transaction: Transaction) -> OnCommit[None]:
            for event in events:
                self._add(transaction, event)
            return lambda: None

        self._commits.run(decide)


def _check_name(who: str) -> None:
    if not isinstance(who, str) or not who.strip():
        raise ValueError(f"who must be a person's name, but it is {who!r}.")


def _clash(key: str) -> str:
    return f"key {key!r} stands for another request. Make a new key for a new request, and keep it for its repeats."


def _checked(items: Sequence[str]) -> Sequence[str]:
    places = {item: place for place, item in enumerate(items)}
    if not places:
        raise ValueError("items must have at least one item to ask about, but there is none.")
    if strange := [item for item in places if not isinstance(item, str)]:
        raise ValueError(f"items must be texts, but one is {strange[0]!r}. Try [str(item) for item in items].")
    if len(places) < len(items):
        twice = next(item for place, item in enumerate(items) if places[item] != place)
        raise ValueError(f"items must all be different, but {twice!r} occurs more than once.")
    return items
