"""The order of questions: from the trainer's queue to Label Studio's scores, and whether people really get it."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

from askwell.bridge.annotations import Task, unix
from askwell.session.events import QueueReplaced
from askwell.store.records import Record

__all__ = ["Ranking", "order_doubt", "ranking_of"]

RECENT = 40  # annotations that the order is judged by
ENOUGH = 10  # annotations before it is judged
DOUBTFUL = 0.3  # the mean place, from 0 (always the first) to 1; any order gives 0.5, three people in order about 0.1


@final
@dataclass(frozen=True)
class Ranking:
    """The items of the trainer's queue, best first.

    Label Studio asks first for the lowest score among predictions of the project's model version, so the score is the
    item's place: place / number of items. What the queue does not hold comes behind it.

    >>> ranking = Ranking("askwell-3-120", {"b": 0, "a": 1}, {"b": 0.31, "a": 0.2})
    >>> ranking.score("b"), ranking.score("a"), ranking.score("z", behind=4)
    (0.0, 0.5, 5.0)
    """

    version: str = "askwell-0-0"  # as predictions bear it: another one for each queue
    places: Mapping[str, int] = field(default_factory=dict)
    nats: Mapping[str, float | None] = field(default_factory=dict)  # item -> what its label is expected to tell

    def score(self, item: str, *, behind: int = 0) -> float:
        """The item's score; `behind` orders the items that the queue does not hold."""
        place = self.places.get(item)
        return 1.0 + behind if place is None else place / len(self.places)

    def is_first(self, item: str, size: int) -> bool:
        """Whether the item is among the first `size`; without a queue all are alike."""
        return not self.places or self.places.get(item, size) < size


def ranking_of(record: Record) -> Ranking:
    """The ranking of a record of kind `queue`."""
    queue = QueueReplaced.from_record(record)
    nats = {each.item: each.score for each in queue.candidates()}
    return Ranking(f"askwell-{queue.round}-{record.seq}", {item: place for place, item in enumerate(nats)}, nats)


def order_doubt(tasks: Sequence[Task]) -> float | None:
    """Where in the line the people's last tasks stood, on average, if that is too far behind; else None.

    For each first annotation of a task: its place, from 0 to 1, among the tasks that were open at the time and had a
    score of the version then current.
    """
    begun: dict[str, float] = {}
    for task in tasks:
        for version, time in task.scored.items():
            begun[version] = min(unix(time), begun.get(version, float("inf")))
    versions = sorted(begun, key=begun.__getitem__)
    times = [begun[version] for version in versions]
    ends = {task.id: min((unix(said.created) for said in task.said), default=float("inf")) for task in tasks}
    shares = []
    for task in sorted((t for t in tasks if t.said), key=lambda task: ends[task.id])[-RECENT:]:
        now = ends[task.id]
        place = bisect_right(times, now)
        if not place or versions[place - 1] not in task.scores:
            continue
        version = versions[place - 1]
        line = [
            other.scores[version]
            for other in tasks
            if version in other.scores and unix(other.created) <= now <= ends[other.id]
        ]
        if len(line) > 1:
            shares.append(sum(score < task.scores[version] for score in line) / (len(line) - 1))
    mean = sum(shares) / len(shares) if shares else 0.0
    return mean if len(shares) >= ENOUGH and mean > DOUBTFUL else None
