"""What goes over the session: the tasks people get, what they answered, and what they are told about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

__all__ = ["Answer", "Consensus", "Kept", "Receipt", "Task", "Undone"]

Kept: TypeAlias = Literal["counted", "extra", "late", "again"]


@final
@dataclass(frozen=True)
class Task:
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
    kept: Kept
    labels: int  # the item's labels now
    needed: int  # labels that the item still needs
    corrects: Any = None  # the label of the same person that this one took the place of
    round: int | None = None  # of the queue that questions come from now


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
    kept: Kept
    seconds: float | None  # taken by the person
    seq: int  # the record
    at: float  # unix seconds, by the store's clock
    corrects: Any = None  # the label of the same person that this one took the place of


@final
@dataclass(frozen=True)
class Undone:
    """What was taken back. `task` is the item once more; None if meanwhile it is somebody else's."""

    answer: Answer
    task: Task | None


@final
@dataclass(frozen=True)
class Consensus:
    """What several people say about one item."""

    label: Any  # the most frequent; of equally frequent ones the earliest
    share: float  # of the labels that say so
    votes: Mapping[str, Any]  # who -> label, in the order of their answers
