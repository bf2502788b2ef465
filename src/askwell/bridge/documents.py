"""Label Studio's documents: the labelling configuration, and its tasks with annotations and predictions."""

import math
import xml.etree.ElementTree as ET
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, final

from askwell.data import Kind
from askwell.session import Rules

__all__ = [
    "CHOICES",
    "Annotation",
    "StudioTask",
    "as_tasks",
    "label_config",
    "last_annotations",
    "order_doubt",
    "prediction",
    "unix",
    "with_classes",
]

CHOICES = "label"  # the name of the choices
TAGS = {"text": "Text", "image": "Image", "table": "Table"}
NO_TIME = float("-inf")
RECENT = 40  # annotations that the order is judged by
ENOUGH = 10  # annotations before it is judged
DOUBTFUL = 0.3  # the mean position, from 0 (first) to 1; any order gives 0.5, three people in order about 0.1


# ---- the configuration -----------------------------------------------------------------------------------------------


def label_config(kind: Kind, classes: Sequence[str]) -> str:
    """The configuration for items of a kind, one class to be chosen.

    >>> print(label_config("text", ["ham", "spam"]))
    <View>
      <Text name="text" value="$text" />
      <Choices name="label" toName="text" choice="single" required="true" showInline="true">
        <Choice value="ham" />
        <Choice value="spam" />
      </Choices>
    </View>
    """
    if not classes:
        raise ValueError("classes must be known before people label in Label Studio, but the project has none.")
    view = ET.Element("View")
    ET.SubElement(view, TAGS[kind], name=kind, value=f"${kind}")
    options = {"name": CHOICES, "toName": kind, "choice": "single", "required": "true", "showInline": "true"}
    choices = ET.SubElement(view, "Choices", options)
    for name in classes:
        ET.SubElement(choices, "Choice", value=name)
    return _text(view)


def with_classes(config: str, rules: Rules) -> str:
    """A configuration, perhaps edited by people, with all classes of the rules; the rest stays as it is.

    Labels keep the name that they were first given: Label Studio refuses to lose one that annotations use. What a class
    is called now is what people see.

    >>> old = label_config("text", ["ham", "spam"])
    >>> rules = Rules(("good", "spam", "eggs"), former={"ham": "good"})
    >>> print(with_classes(old, rules))
    <View>
      <Text name="text" value="$text" />
      <Choices name="label" toName="text" choice="single" required="true" showInline="true">
        <Choice value="good" alias="ham" />
        <Choice value="spam" />
        <Choice value="eggs" />
      </Choices>
    </View>
    """
    view = _parsed(config)
    choices = _choices(view)
    names = set()
    for choice in choices.iter("Choice"):
        first = choice.get("alias") or choice.get("value") or ""
        name = str(rules.named(first))
        names.add(name)
        if name in rules.classes and name != choice.get("value"):
            choice.set("value", name)
            choice.set("alias", first)
    for name in rules.classes:
        if name not in names:
            ET.SubElement(choices, "Choice", value=name)
    new = _text(view)
    return config if new == _text(_parsed(config)) else new


def prediction(config: str, label: str) -> list[dict[str, Any]]:
    """A label as the result of a prediction, in the words of a configuration; [] if it has no such class.

    >>> prediction(label_config("table", ["a", "b"]), "b")
    [{'from_name': 'label', 'to_name': 'table', 'type': 'choices', 'value': {'choices': ['b']}}]
    """
    choices = _choices(_parsed(config))
    names = {choice.get("value"): choice.get("alias") or choice.get("value") for choice in choices.iter("Choice")}
    if label not in names:
        return []
    names_of = {"from_name": choices.get("name", CHOICES), "to_name": choices.get("toName", "text")}
    return [{**names_of, "type": "choices", "value": {"choices": [names[label]]}}]


def _parsed(config: str) -> ET.Element:
    try:
        return ET.fromstring(config)
    except ET.ParseError as error:
        raise ValueError(f"the labelling configuration in Label Studio is no XML: {error}. Correct it there.") from None


def _choices(view: ET.Element) -> ET.Element:
    """The choices by our name, or else the only ones."""
    listed = list(view.iter("Choices"))
    ours = [choices for choices in listed if choices.get("name") == CHOICES] or listed
    if len(ours) != 1:
        raise ValueError(
            f'the labelling configuration in Label Studio must have one <Choices name="{CHOICES}">, but it has '
            f"{len(listed)} <Choices>. Add it there, or begin anew."
        )
    return ours[0]


def _text(view: ET.Element) -> str:
    ET.indent(view)
    return ET.tostring(view, encoding="unicode")


# ---- tasks and annotations -------------------------------------------------------------------------------------------


class Annotation(NamedTuple):
    """What a person answered about an item."""

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

    @property
    def age(self) -> tuple[float, int]:
        """Later annotations are greater."""
        return unix(self.updated), self.annotation


@final
@dataclass(frozen=True)
class StudioTask:
    """A task in Label Studio that is about an item of the pool."""

    id: int
    item: str
    created: str
    annotations: tuple[Annotation, ...]
    scores: Mapping[str, float]  # model version -> score of the prediction
    scored: Mapping[str, str]  # model version -> when it was predicted


def as_tasks(listed: Iterable[Mapping[str, Any]]) -> list[StudioTask]:
    """Tasks as Label Studio lists them; those that are about no item of ours are left out.

    >>> (task,) = as_tasks([{"id": 7, "data": {"pool_id": "mail 1"}, "created_at": "", "annotations": [{
    ...     "id": 3, "completed_by": 1, "was_cancelled": False, "updated_at": "2026-11-16T04:00:00Z",
    ...     "result": [{"type": "choices", "from_name": "label", "value": {"choices": ["ham"]}}]}]}])
    >>> task.item, task.annotations[0].label
    ('mail 1', 'ham')
    """
    return [_task(each) for each in listed if isinstance(each.get("data"), Mapping) and "pool_id" in each["data"]]


def _task(each: Mapping[str, Any]) -> StudioTask:
    id, item = int(each["id"]), str(each["data"]["pool_id"])
    predictions = [p for p in each.get("predictions") or () if isinstance(p.get("score"), int | float)]
    annotations = tuple(_annotation(item, id, body) for body in each.get("annotations") or ())
    return StudioTask(
        id,
        item,
        str(each.get("created_at") or ""),
        annotations,
        {str(p.get("model_version")): float(p["score"]) for p in predictions},
        {str(p.get("model_version")): str(p.get("created_at") or "") for p in predictions},
    )


def _annotation(item: str, task: int, annotation: Mapping[str, Any]) -> Annotation:
    person = annotation.get("completed_by")
    user = person.get("id") if isinstance(person, Mapping) else person
    label = _choice(annotation.get("result"))
    kind: Literal["label", "skip", "nothing"] = "nothing" if label is None else "label"
    if annotation.get("was_cancelled"):
        kind, label = "skip", None
    taken = annotation.get("lead_time")
    is_time = isinstance(taken, int | float) and not isinstance(taken, bool) and 0 <= taken < math.inf
    return Annotation(
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


def last_annotations(tasks: Iterable[StudioTask]) -> dict[tuple[str, int], Annotation]:
    """(item, user) -> the last annotation of this person for it."""
    last: dict[tuple[str, int], Annotation] = {}
    for each in sorted((each for task in tasks for each in task.annotations), key=lambda each: each.age):
        last[each.item, each.user] = each
    return last


def unix(time: str) -> float:
    """Unix seconds of a time as Label Studio writes it.

    >>> unix("1970-01-01T00:01:00.5Z"), unix("")
    (60.5, -inf)
    """
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return NO_TIME


# ---- whether people get the best question first ----------------------------------------------------------------------


def order_doubt(tasks: Sequence[StudioTask]) -> float | None:
    """The mean position in the order of the people's last tasks, if it is too far behind; else None.

    For each first annotation of a task: its position, from 0 to 1, among the tasks that were open at the time and had a
    score of the version then current.
    """
    begun: dict[str, float] = {}
    for task in tasks:
        for version, time in task.scored.items():
            begun[version] = min(unix(time), begun.get(version, float("inf")))
    versions = sorted(begun, key=begun.__getitem__)
    times = [begun[version] for version in versions]
    ends = {task.id: min((unix(each.created) for each in task.annotations), default=float("inf")) for task in tasks}
    shares = []
    for task in sorted((t for t in tasks if t.annotations), key=lambda task: ends[task.id])[-RECENT:]:
        now = ends[task.id]
        index = bisect_right(times, now)
        if not index or versions[index - 1] not in task.scores:
            continue
        version = versions[index - 1]
        line = [
            other.scores[version]
            for other in tasks
            if version in other.scores and unix(other.created) <= now <= ends[other.id]
        ]
        if len(line) > 1:
            shares.append(sum(score < task.scores[version] for score in line) / (len(line) - 1))
    mean = sum(shares) / len(shares) if shares else 0.0
    return mean if len(shares) >= ENOUGH and mean > DOUBTFUL else None
