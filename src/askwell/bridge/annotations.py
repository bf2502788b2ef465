"""From annotations to answers: what people said in Label Studio, and what of it is new to askwell.

The same annotation is taken once, whatever happens in between: its record's key is made of the task, the user, the
annotation and when it was last changed. Of several annotations of one person for one item the latest counts.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, final

from askwell.bridge.label_config import CHOICES
from askwell.session import Rules
from askwell.session.events import AnswerWithdrawn, ItemSkipped, LabelAdded, id_of, text_of
from askwell.store.records import Record

__all__ = ["Said", "Taken", "Task", "as_tasks", "last_words", "news", "unix"]

SKIP_REASON = "skipped in Label Studio"
NO_TIME = float("-inf")


class Said(NamedTuple):
    """What a person said about an item: an annotation."""

    item: str
    task: int
    user: int
    annotation: int
    kind: Literal["label", "skip", "nothing"]  # nothing: an annotation in which no class is chosen
    label: str | None
    seconds: float | None
    updated: str
    created: str

    @property
    def version(self) -> str:
        """The annotation as it is now; another text when it is changed."""
        return f"{self.task}/{self.user}/{self.annotation}/{self.updated}"


@final
@dataclass(frozen=True)
class Task:
    """A task in Label Studio that is about an item of the pool."""

    id: int
    item: str
    created: str
    said: tuple[Said, ...]
    scores: Mapping[str, float]  # model version -> score of the prediction
    scored: Mapping[str, str]  # model version -> when it was predicted


def as_tasks(found: Iterable[Mapping[str, Any]]) -> list[Task]:
    """Tasks as Label Studio lists them; those that are about no item of ours are left out.

    >>> (task,) = as_tasks([{"id": 7, "data": {"pool_id": "mail 1"}, "created_at": "", "annotations": [{
    ...     "id": 3, "completed_by": 1, "was_cancelled": False, "updated_at": "2026-11-16T04:00:00Z",
    ...     "result": [{"type": "choices", "from_name": "label", "value": {"choices": ["ham"]}}]}]}])
    >>> task.item, task.said[0].label
    ('mail 1', 'ham')
    """
    return [_task(each) for each in found if isinstance(each.get("data"), Mapping) and "pool_id" in each["data"]]


def _task(each: Mapping[str, Any]) -> Task:
    id, item = int(each["id"]), str(each["data"]["pool_id"])
    predictions = [p for p in each.get("predictions") or () if isinstance(p.get("score"), int | float)]
    said = tuple(_said(item, id, annotation) for annotation in each.get("annotations") or ())
    return Task(
        id,
        item,
        str(each.get("created_at") or ""),
        said,
        {str(p.get("model_version")): float(p["score"]) for p in predictions},
        {str(p.get("model_version")): str(p.get("created_at") or "") for p in predictions},
    )


def _said(item: str, task: int, annotation: Mapping[str, Any]) -> Said:
    person = annotation.get("completed_by")
    user = person.get("id") if isinstance(person, Mapping) else person
    label = _choice(annotation.get("result"))
    kind: Literal["label", "skip", "nothing"] = "nothing" if label is None else "label"
    if annotation.get("was_cancelled"):
        kind, label = "skip", None
    taken = annotation.get("lead_time")
    is_time = isinstance(taken, int | float) and not isinstance(taken, bool) and 0 <= taken < math.inf
    return Said(
        item,
        task,
        -1 if user is None else int(user),
        int(annotation["id"]),
        kind,
        label,
        float(taken) if is_time and taken is not None else None,
        str(annotation.get("updated_at") or ""),
        str(annotation.get("created_at") or ""),
    )


def _choice(result: Any) -> str | None:
    """The one class that was chosen; None if there is not exactly one."""
    parts = [part for part in result or () if isinstance(part, Mapping) and part.get("type") == "choices"]
    ours = [part for part in parts if part.get("from_name") == CHOICES] or parts
    chosen = [choice for part in ours for choice in (part.get("value") or {}).get("choices") or ()]
    return str(chosen[0]) if len(chosen) == 1 else None


def last_words(tasks: Iterable[Task]) -> dict[tuple[str, int], Said]:
    """(item, user) -> the last thing that this person said about it."""
    found: dict[tuple[str, int], Said] = {}
    for said in (said for task in tasks for said in task.said):
        before = found.get((said.item, said.user))
        if before is None or _age(before) < _age(said):
            found[said.item, said.user] = said
    return found


def _age(said: Said) -> tuple[float, int]:
    return unix(said.updated), said.annotation


def unix(time: str) -> float:
    """Unix seconds of a time as Label Studio writes it.

    >>> unix("1970-01-01T00:01:00.5Z"), unix("")
    (60.5, -inf)
    """
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return NO_TIME


# ---- what is known already -----------------------------------------------------------------------------------------


@final
@dataclass
class Taken:
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


def news(
    tasks: Sequence[Task], taken: Taken, *, rules: Rules, names: Mapping[int, str], run: str
) -> tuple[list[Record], list[str]]:
    """(records of what is new, warnings): labels, skips, and withdrawals of what is no longer there.

    An annotation that is gone from a task which is still there was deleted, and is withdrawn. A task that is gone says
    nothing about what people had said: their labels stay.
    """
    words, there = last_words(tasks), {task.item for task in tasks}
    records, warnings = [], Counter[str]()
    for place, said in sorted(words.items(), key=lambda found: _age(found[1])):
        known = taken.answers.get(place)
        if said.kind == "nothing" or (known is not None and known[0] == said.version and known[1] is not None):
            continue
        if said.kind == "label" and rules.classes and rules.named(said.label) not in rules.classes:
            warnings[f"{said.label!r} is no class of this project: add it, or correct it in Label Studio"] += 1
            continue
        records.append(_answer(said, taken, names, run))
    for place, (_, key) in taken.answers.items():
        gone = place not in words or words[place].kind == "nothing"
        if key is not None and gone and place[0] in there:
            event = AnswerWithdrawn(text_of(place[0]), key)
            records.append(event.to_record(run, who=taken.who[key], key=f"{key}/gone"))
    return records, [f"{text} ({n} annotations are waiting)." for text, n in warnings.items()]


def _answer(said: Said, taken: Taken, names: Mapping[int, str], run: str) -> Record:
    item, updated = text_of(said.item), unix(said.updated)
    at = updated if updated > NO_TIME else None
    event = (
        LabelAdded(item, said.label, seconds=said.seconds, at=at)
        if said.kind == "label"
        else ItemSkipped(item, SKIP_REASON, at=at)
    )
    key = f"label-studio/{taken.mark}/{said.version}/{taken.times[said.version] + 1}"
    who = names.get(said.user) or f"Label Studio user {said.user}"
    return event.to_record(run, who=who, key=key)
