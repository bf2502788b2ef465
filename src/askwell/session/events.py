"""The vocabulary of the log: each kind of thing that can happen in a run, and what its record holds, defined once.

An event is what happened; a record is how a store keeps it. No other file makes records, but stores that read their own
and the restoring of a backup. The fields of an event are the keys of its record's body, so that old stores stay
readable: a field is never renamed, and a new one has a default, with which it is left out.

    LabelAdded --to_record--> Record --append--> store --read--> Record --event_of--> LabelAdded --> State
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Self, final

from askwell.store.records import Record

__all__ = [
    "AnswerWithdrawn",
    "Candidate",
    "Event",
    "ImportFinished",
    "ImportStarted",
    "ItemSkipped",
    "LabelAdded",
    "LeaseGranted",
    "LeaseReleased",
    "LockTaken",
    "ProjectNamed",
    "QuestionAsked",
    "QueueReplaced",
    "RoundFinished",
    "RulesChanged",
    "RunStarted",
    "StudioMarked",
    "StudioProjectSeen",
    "VectorsPaired",
    "event_of",
    "id_of",
    "text_of",
]

REASONS = 5  # targets that are stored with a candidate


class Event:
    """Something that happened. An `item` is an id as the text that `text_of` makes of it."""

    kind: str
    always: tuple[str, ...] = ()  # fields that are in the body even if they have their default

    def body(self) -> dict[str, Any]:
        """The fields by name, without those that have their default."""
        made: Any = type(self)
        named = ((name, getattr(self, name), default) for name, default in _fields(made).items())
        return {name: value for name, value, default in named if value != default or name in self.always}

    def to_record(self, run: str, *, who: str = "", key: str | None = None) -> Record:
        """The event as a record of a run, under a new key unless one is given."""
        return Record(key or uuid.uuid4().hex, run, self.kind, getattr(self, "item", None), self.body(), who)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The event that a record of this kind holds."""
        made: Any = cls
        values = {name: record.body[name] for name in _fields(made) if name in record.body}
        event: Self = made(record.item, **values) if _has_item(made) else made(**values)
        return event


@cache
def _fields(event: Any) -> dict[str, Any]:
    """Field of the body -> its default."""
    return {each.name: each.default for each in fields(event) if each.name not in ("item", "kind")}


@cache
def _has_item(event: Any) -> bool:
    return any(each.name == "item" for each in fields(event))


# ---- what annotators and learners do -------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class QuestionAsked(Event):
    """A learner asks about an item, or takes over a question of a learner that is gone (`again`)."""

    kind, always = "question", ("score",)
    item: str
    session: str  # of the store that the learner has open
    score: float | None = None  # nats that the label was expected to tell; None: no model yet, or drawn
    again: bool = False
    probability: float | None = None  # of the item, where it was drawn to evaluate the model


@final
@dataclass(frozen=True)
class LabelAdded(Event):
    """A label, or a correction of the same annotator's earlier one.

    >>> LabelAdded('"mail 7"', "ham", seconds=2.5).to_record("main", who="ada", key="f3a1").body
    {'label': 'ham', 'seconds': 2.5}
    """

    kind = "label"
    item: str
    label: Any
    token: str | None = None  # of the lease
    seconds: float | None = None  # that the annotator took
    rules: int | None = None  # version of the rules that the label's name belongs to
    at: float | None = None  # unix seconds, where it was given before it was recorded


@final
@dataclass(frozen=True)
class ItemSkipped(Event):
    """An annotator does not want to label an item; a learner is not to ask about it again."""

    kind, always, label = "skip", ("reason",), None
    item: str
    reason: str = ""
    token: str | None = None
    seconds: float | None = None
    at: float | None = None


@final
@dataclass(frozen=True)
class AnswerWithdrawn(Event):
    """The answer with the key `of` is taken back; without it all labels of the item; without an item there was none."""

    kind = "withdrawal"
    item: str | None
    of: str | None = None

    def body(self) -> dict[str, Any]:
        """What was undone, also if that was nothing."""
        return {"of": self.of} if self.item is None else super().body()


@final
@dataclass(frozen=True)
class LeaseGranted(Event):
    """An item is an annotator's until a time; the same token again renews the lease."""

    kind = "lease"
    item: str
    token: str
    until: float  # unix seconds
    at: float | None = None  # unix seconds, by the clock of the session that gave it
    over: Sequence[str] = ()  # tokens of leases that ran out before their records say so


@final
@dataclass(frozen=True)
class LeaseReleased(Event):
    """An annotator gives an item back, unanswered."""

    kind = "release"
    item: str
    token: str


# ---- what the owner and the trainer do -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Document(Event):
    """An event whose record's body is one mapping."""

    content: Mapping[str, Any]

    def body(self) -> dict[str, Any]:
        """The mapping."""
        return dict(self.content)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The mapping of a record."""
        return cls(record.body)


@final
@dataclass(frozen=True)
class RunStarted(_Document):
    """The settings that a learner's run was started with: score, batch, seed, classes, targets, items, ids."""

    kind = "run"


@final
@dataclass(frozen=True)
class RulesChanged(_Document):
    """The rules from now on, as `Rules.body` has them, with what was "renamed"; what is missing stays as it is."""

    kind = "rules"


@final
@dataclass(frozen=True)
class RoundFinished(_Document):
    """The trainer's report: "round", and either "failed" (a text) or what it measured; see `Session.put_round`."""

    kind = "round"


@final
@dataclass(frozen=True)
class ProjectNamed(Event):
    """The first record of a run that has no other yet: the project's name is made of its key."""

    kind = "project"


@final
@dataclass(frozen=True)
class Candidate:
    """An item of the trainer's queue: one that is worth asking about.

    >>> Candidate("mail 7", 0.31, (("traffic 2", 0.4),)).item
    'mail 7'
    """

    item: str
    score: float | None = None  # nats
    why: tuple[tuple[str, float], ...] = ()  # (target id, nats), at most five are stored
    probability: float | None = None  # of the item, where it was drawn to evaluate the model


@final
@dataclass(frozen=True)
class QueueReplaced(Event):
    """The items to ask about from now on, best first.

    >>> QueueReplaced.of(3, [Candidate("mail 7", 0.31, (("traffic 2", 0.4),))]).items
    [['"mail 7"', 0.31, [['"traffic 2"', 0.4]]]]
    """

    kind = "queue"
    round: int
    items: Sequence[Any]  # [item, score, [[target, nats], ...]], both as text, and the probability of a drawn one

    @classmethod
    def of(cls, round: int, candidates: Iterable[Candidate]) -> "QueueReplaced":
        """The queue of a round of training."""
        return cls(
            round,
            [
                [text_of(x.item), x.score, [[text_of(t), nats] for t, nats in x.why[:REASONS]]]
                + ([] if x.probability is None else [x.probability])
                for x in candidates
            ],
        )

    def candidates(self) -> list[Candidate]:
        """The queue as it was given."""
        return [
            Candidate(str(id_of(item)), score, tuple((str(id_of(target)), float(nats)) for target, nats in why), *drawn)
            for item, score, why, *drawn in self.items
        ]


# ---- beside the answers, in runs of their own ----------------------------------------------------------------------


@final
@dataclass(frozen=True)
class LockTaken(Event):
    """Who has this name is the only one to do what the run is about, until then; without a time it is over."""

    kind = "turn"
    session: str
    until: float | None = None  # unix seconds; the same as the record's time, or before, gives it back


@final
@dataclass(frozen=True)
class VectorsPaired(Event):
    """Which rows the vectors of a file belong to, in order; long lists in several records from `first` on."""

    kind: str  # what the vectors are of: "pool" or "targets"
    file: str
    sha256: str
    first: int
    keys: Sequence[str]

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Whose vectors they are is the kind of the record."""
        return cls(record.kind, *(record.body[name] for name in ("file", "sha256", "first", "keys")))


@final
@dataclass(frozen=True)
class StudioMarked(Event):
    """The mark that the project bears in Label Studio from now on."""

    kind = "mark"
    mark: str


@final
@dataclass(frozen=True)
class StudioProjectSeen(Event):
    """Where the project with a mark is in Label Studio."""

    kind = "project"
    mark: str
    id: int
    url: str


@final
@dataclass(frozen=True)
class ImportStarted(Event):
    """Items are about to be sent to Label Studio."""

    kind = "import"
    batch: str
    items: Sequence[str]
    at: float  # unix seconds


@final
@dataclass(frozen=True)
class ImportFinished(Event):
    """It is known what became of the items."""

    kind = "imported"
    batch: str


# ---- from records, and ids as text ---------------------------------------------------------------------------------

EVENTS: Mapping[str, type[Event]] = {
    each.kind: each
    for each in (
        *(RunStarted, QuestionAsked, LabelAdded, ItemSkipped, AnswerWithdrawn, LeaseGranted, LeaseReleased),
        *(RulesChanged, RoundFinished, ProjectNamed, QueueReplaced),
    )
}  # of a run that people or a learner label in


def event_of(record: Record) -> Event | None:
    """What a record of a labelling run says; None if its kind is not known here, as one of a later version."""
    kind = EVENTS.get(record.kind)
    return None if kind is None else kind.from_record(record)


def text_of(item: Any) -> str:
    """An item's id as the text in its records.

    >>> text_of(7), text_of("7"), id_of('["a", 1]')
    ('7', '"7"', ('a', 1))
    """
    try:
        return json.dumps(item, ensure_ascii=False)
    except TypeError:
        raise ValueError(
            f"ids must be numbers, text or tuples of them, but one is {item!r} ({type(item).__name__}). "
            "Try ids=[str(item) for item in ids]."
        ) from None


def id_of(text: str) -> Any:
    """The id that a text stands for."""
    value = json.loads(text)
    return tuple(value) if isinstance(value, list) else value
