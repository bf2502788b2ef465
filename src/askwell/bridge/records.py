"""What the bridge records in the project's store: answers, its project in Label Studio, and imports under way.

Answers go into the project's run. The same annotation is recorded once, whatever happens in between: its record's key
is made of the task, the user, the annotation and when it was last changed. Of several annotations of one person for one
item the latest counts. The rest is in a run of its own, written before it is done, so that a bridge which was killed at
any moment knows what may have happened.
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

from askwell.bridge.documents import NO_TIME, Annotation, StudioTask, last_annotations, unix
from askwell.session import Rules, Turn
from askwell.session.events import (
    AnswerWithdrawn,
    Event,
    ImportFinished,
    ImportStarted,
    ItemSkipped,
    LabelAdded,
    QueueReplaced,
    StudioMarked,
    StudioProjectSeen,
    id_of,
    text_of,
)
from askwell.store import Record, Store

__all__ = ["BridgeLog", "Ranking", "RecordedAnswers", "TaskImport", "new_records", "ranking_of"]

SKIP_REASON = "skipped in Label Studio"
TURN = 300.0  # seconds without a synchronization after which another bridge may begin


# ---- answers ---------------------------------------------------------------------------------------------------------


@final
@dataclass
class RecordedAnswers:
    """What the bridge has recorded so far: the fold of its own records in the project's run.

    `mark` stands for one project in Label Studio.
    """

    mark: str
    answers: dict[tuple[str, int], tuple[str, str | None]] = field(default_factory=dict)
    # (item, user) -> (version of the annotation, key of the record; None if it was taken back)
    times: Counter[str] = field(default_factory=Counter)  # version -> how often it was recorded
    who: dict[str, str] = field(default_factory=dict)  # key -> name

    def follow(self, records: Iterable[Record]) -> None:
        """Take in the run's next records."""
        start = f"label-studio/{self.mark}/"
        for record in records:
            if record.item is None or not record.key.startswith(start):
                continue
            version, _, ending = record.key.removeprefix(start).rpartition("/")
            item = str(id_of(record.item))
            if ending == "gone":
                version = version.rpartition("/")[0]
                self.answers[item, int(version.split("/")[1])] = (version, None)
            else:
                self.answers[item, int(version.split("/")[1])] = (version, record.key)
                self.times[version] += 1
                self.who[record.key] = record.who


def new_records(
    tasks: Sequence[StudioTask], recorded: RecordedAnswers, *, rules: Rules, names: Mapping[int, str], run: str
) -> tuple[list[Record], list[str]]:
    """(records of what is new, warnings): labels, skips, and withdrawals of what is no longer there.

    An annotation that is gone from a task which is still there was deleted, and is withdrawn. A task that is gone is no
    evidence against the answers to it: they stay.
    """
    last, there = last_annotations(tasks), {task.item for task in tasks}
    records, warnings = [], Counter[str]()
    for pair, annotation in sorted(last.items(), key=lambda each: each[1].age):
        version, key = recorded.answers.get(pair, ("", None))
        if annotation.kind == "nothing" or (version == annotation.version and key is not None):
            continue
        if annotation.kind == "label" and rules.classes and rules.named(annotation.label) not in rules.classes:
            warnings[f"{annotation.label!r} is no class of this project: add it, or correct it in Label Studio"] += 1
            continue
        records.append(_answer(annotation, recorded, names, run))
    for pair, (_, key) in recorded.answers.items():
        gone = pair not in last or last[pair].kind == "nothing"
        if key is not None and gone and pair[0] in there:
            event = AnswerWithdrawn(text_of(pair[0]), key)
            records.append(event.to_record(run, who=recorded.who[key], key=f"{key}/gone"))
    return records, [f"{text} ({n} annotations are waiting)." for text, n in warnings.items()]


def _answer(annotation: Annotation, recorded: RecordedAnswers, names: Mapping[int, str], run: str) -> Record:
    item, updated = text_of(annotation.item), unix(annotation.updated)
    at = updated if updated > NO_TIME else None
    if annotation.kind == "label":
        event: Event = LabelAdded(item, annotation.label, seconds=annotation.seconds, at=at)
    else:
        event = ItemSkipped(item, SKIP_REASON, at=at)
    key = f"label-studio/{recorded.mark}/{annotation.version}/{recorded.times[annotation.version] + 1}"
    who = names.get(annotation.user) or f"Label Studio user {annotation.user}"
    return event.to_record(run, who=who, key=key)


# ---- the ranking -----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Ranking:
    """The items of the trainer's queue, best first.

    Label Studio asks first for the lowest score among predictions of the project's model version, so the score is the
    item's position / number of items. What the queue does not hold comes behind it.

    >>> ranking = Ranking("askwell-3-120", {"b": 0, "a": 1}, {"b": 0.31, "a": 0.2})
    >>> ranking.score("b"), ranking.score("a"), ranking.score("z", behind=4)
    (0.0, 0.5, 5.0)
    """

    version: str = "askwell-0-0"  # as predictions bear it: another one for each queue
    positions: Mapping[str, int] = field(default_factory=dict)
    nats: Mapping[str, float | None] = field(default_factory=dict)  # item -> expected information of its label

    def score(self, item: str, *, behind: int = 0) -> float:
        """The item's score; `behind` orders the items that the queue does not hold."""
        position = self.positions.get(item)
        return 1.0 + behind if position is None else position / len(self.positions)

    def is_first(self, item: str, size: int) -> bool:
        """Whether the item is among the first `size`; without a queue all are alike."""
        return not self.positions or self.positions.get(item, size) < size


def ranking_of(record: Record) -> Ranking:
    """The ranking of a record of kind `queue`."""
    queue = QueueReplaced.from_record(record)
    nats = {each.item: each.score for each in queue.candidates()}
    return Ranking(f"askwell-{queue.round}-{record.seq}", {item: position for position, item in enumerate(nats)}, nats)


# ---- the project in Label Studio, and imports ------------------------------------------------------------------------


class TaskImport(NamedTuple):
    """Items that were sent to Label Studio, or were about to be."""

    batch: str
    items: tuple[str, ...]
    at: float  # unix seconds


@final
class BridgeLog:
    """The bridge's memory. The mark stands for one project in Label Studio, which bears it in its description.

    >>> from askwell.store import open_store
    >>> books = BridgeLog(open_store(None), "main")
    >>> begun = books.begin(["a", "b"])
    >>> books.importing().items
    ('a', 'b')
    >>> books.end(begun)
    >>> books.importing() is None
    True
    """

    def __init__(self, store: Store, run: str, *, clock: Callable[[], float] = time.time) -> None:
        self._store, self._run, self._clock = store, f"{run}: label studio", clock
        self._records: list[Record] = []
        self._turn = Turn(store, self._run, seconds=TURN, clock=clock)

    def take_turn(self) -> None:
        """Be the one bridge of the project for the next minutes; a ValueError if there is another one."""
        if not self._turn.take():
            raise ValueError(
                "another bridge to Label Studio is running on this project. Two would ask for the same items: stop "
                "the other one first."
            )

    def end_turn(self) -> None:
        """Let another bridge begin at once."""
        self._turn.release()

    def mark(self, *, new: bool = False) -> str:
        """The mark of the project in Label Studio; a `new` one gives up the project before."""
        marks = [StudioMarked.from_record(r).mark for r in self._past() if r.kind == StudioMarked.kind]
        if marks and not new:
            return marks[-1]
        mark = uuid.uuid4().hex[:16]
        self._append(StudioMarked(mark))
        return mark

    def project(self, mark: str) -> tuple[int, str] | None:
        """(number of the project in Label Studio, address of the server) as last seen."""
        projects = [StudioProjectSeen.from_record(r) for r in self._past() if r.kind == StudioProjectSeen.kind]
        return next(((each.id, each.url) for each in reversed(projects) if each.mark == mark), None)

    def saw_project(self, mark: str, id: int, url: str) -> None:
        """Remember where the project is."""
        if self.project(mark) != (id, url):
            self._append(StudioProjectSeen(mark, id, url))

    def begin(self, items: Sequence[str]) -> TaskImport:
        """Items are about to be sent."""
        sent = TaskImport(uuid.uuid4().hex, tuple(items), self._clock())
        self._append(ImportStarted(sent.batch, sent.items, sent.at))
        return sent

    def end(self, sent: TaskImport) -> None:
        """It is known what became of them."""
        self._append(ImportFinished(sent.batch))

    def importing(self) -> TaskImport | None:
        """The last import, if it is not known what became of it."""
        last = None
        for record in self._past():
            if record.kind == ImportStarted.kind:
                event = ImportStarted.from_record(record)
                last = TaskImport(event.batch, tuple(event.items), event.at)
            elif record.kind == ImportFinished.kind and last is not None:
                last = None if ImportFinished.from_record(record).batch == last.batch else last
        return last

    def _past(self) -> list[Record]:
        self._records += self._store.read(self._run, after=self._records[-1].seq if self._records else 0)
        return self._records

    def _append(self, event: Event) -> None:
        self._store.append([event.to_record(self._run)])
