"""The rules of a labelling project: classes, how many labels an item gets, how long a lease lasts, the budget."""

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypedDict, final

from askwell.checks import count

__all__ = ["Changes", "Revision", "Rules", "carried", "changed", "consensus", "most_frequent"]

LONGEST = 100  # letters of a class: it stands on a button


class Changes(TypedDict, total=False):
    """What `Session.set_rules` may change; what is not named stays as it is."""

    classes: Sequence[str]
    labels_per_item: int
    most_labels: int
    lease_seconds: float
    budget: int | None
    renamed: Mapping[str, str]
    added: Sequence[str]  # classes, at the end; those that are there already stay where they are
    removed: Sequence[str]  # classes that no label uses


@final
@dataclass(frozen=True)
class Rules:
    """The rules in force.

    >>> Rules(labels_per_item=2, most_labels=3).needed(["ham", "spam"])     # they disagree: one more
    1
    """

    classes: tuple[str, ...] = ()  # in the order of their keys on the page; empty: any label
    labels_per_item: int = 1
    most_labels: int = 1  # where people disagree; 2 labels_per_item - 1 unless set
    lease_seconds: float = 90.0
    budget: int | None = None  # labels, of all people together; None: no end
    former: Mapping[str, str] = field(default_factory=dict)  # old name of a class -> its name now
    label_range: tuple[float | None, float | None] | None = None  # labels are numbers, from and to; None: classes
    version: int = field(default=0, compare=False)  # how many there were: an answer says under which it was given

    def needed(self, labels: Sequence[Any]) -> int:
        """How many labels an item with these labels still needs.

        Up to `labels_per_item`, then one at a time up to `most_labels` while no label has more than half of the votes.
        """
        n = len(labels)
        if n < self.labels_per_item:
            return self.labels_per_item - n
        if self.label_range is not None:  # several numbers have a mean, whether people agree or not
            return 0
        if n < self.most_labels and 2 * max(Counter(labels).values()) <= n:
            return 1
        return 0

    def named(self, label: Any) -> Any:
        """The label by its class's present name; where labels are numbers, a text that is one as a number."""
        if self.label_range is not None:
            return _number(label)
        return self.former.get(label, label) if isinstance(label, str) and label not in self.classes else label

    def checked(self, label: Any) -> Any:
        """The label, or a ValueError if it cannot be stored."""
        if self.label_range is not None:
            return _in_range(_number(label), self.label_range)
        if not isinstance(label, str | int | float) or label != label:
            raise ValueError(f"label must be text, a number or a truth value, but it is {label!r}.")
        if self.classes and label not in self.classes:
            raise ValueError(f"label must be one of the classes {list(self.classes)}, but it is {label!r}.")
        return label

    def body(self, renamed: Mapping[str, str]) -> dict[str, Any]:
        """The rules as the body of a record."""
        return {
            "classes": list(self.classes),
            "labels_per_item": self.labels_per_item,
            "most_labels": self.most_labels,
            "lease_seconds": self.lease_seconds,
            "budget": self.budget,
            "renamed": dict(renamed),
        } | ({} if self.label_range is None else {"label_range": list(self.label_range)})

    def after(self, body: Mapping[str, Any]) -> "Rules":
        """The rules after a record of kind `rules`."""
        renamed = dict(body.get("renamed") or {})
        classes = tuple(body.get("classes", self.classes))
        former = {old: renamed.get(new, new) for old, new in self.former.items()} | renamed
        per_item = int(body.get("labels_per_item", self.labels_per_item))
        return Rules(
            classes,
            per_item,
            int(body.get("most_labels", 2 * per_item - 1)),
            float(body.get("lease_seconds", self.lease_seconds)),
            body.get("budget", self.budget),
            {old: new for old, new in former.items() if old not in classes},
            tuple(body["label_range"]) if body.get("label_range") else self.label_range,
        )


class Revision(NamedTuple):
    """A change of the rules, as far as labels given before it are concerned."""

    version: int  # 1, 2, 3, ...: the same in any store that the records are put into
    renamed: Mapping[str, str]
    classes: tuple[str, ...]
    seq: int = 0  # of the record


def carried(label: Any, revisions: Sequence[Revision], *, since: int) -> Any:
    """A label that was given under the rules of version `since`, by the name that its class has now.

    A class that was removed meanwhile is a ValueError, also if there is another one of that name by now.

    >>> swap = Revision(7, {"cat": "dog", "dog": "cat"}, ("dog", "cat"))
    >>> carried("cat", [swap], since=3), carried("cat", [swap], since=7)
    ('dog', 'cat')
    """
    then = next((revision.classes for revision in reversed(revisions) if revision.version <= since), ())
    if not isinstance(label, str) or (then and label not in then):
        return label  # it never was a class
    name = label
    for revision in revisions:
        if revision.version > since:
            name = revision.renamed.get(name, name)
            if revision.classes and name not in revision.classes:
                raise ValueError(
                    f"label {label!r} was given when there was a class of that name, which has been removed since. "
                    "Look at the item again."
                )
    return name


def _number(label: Any) -> Any:
    """A text that is a number as that; anything else as it is."""
    try:
        return float(label) if isinstance(label, str | int) and not isinstance(label, bool) else label
    except ValueError:
        return label


def _in_range(label: Any, ends: tuple[float | None, float | None]) -> float:
    """The label, or a ValueError where it is no finite number from one end to the other.

    >>> _in_range(12.0, (0, 10))
    Traceback (most recent call last):
    ValueError: label must be a number from 0 to 10, but it is 12.0.
    """
    low, high = ends
    number = isinstance(label, float) and math.isfinite(label)
    if not number or (low is not None and label < low) or (high is not None and label > high):
        words = (f" from {low:g}" if low is not None else "") + (f" to {high:g}" if high is not None else "")
        raise ValueError(f"label must be a number{words}, but it is {label!r}.")
    return float(label)


def consensus(labels: Iterable[Any], rules: "Rules") -> tuple[Any, float]:
    """(what people say of an item, the share of them): the `most_frequent` label, or the mean of numbers.

    >>> consensus([1.0, 2.0], Rules(label_range=(None, None)))
    (1.5, 1.0)
    """
    given = list(labels)
    return most_frequent(given) if rules.label_range is None else (math.fsum(given) / len(given), 1.0)


def most_frequent(labels: Iterable[Any]) -> tuple[Any, float]:
    """(the label most often given, its share); of equally frequent ones the earliest.

    >>> most_frequent(["spam", "ham", "ham", "spam", "eggs"])
    ('spam', 0.4)
    """
    given = list(labels)
    if len(given) == 1:  # as nearly always
        return given[0], 1.0
    counts = Counter(given)  # in the order of first occurrence, and max takes the first
    label = max(counts, key=counts.__getitem__)
    return label, counts[label] / counts.total()


def changed(rules: Rules, changes: Changes, *, used: Mapping[Any, int]) -> tuple[Rules, dict[str, str]]:
    """(the rules after the changes, what was renamed), or a ValueError. `used` counts the labels in force.

    >>> rules, renamed = changed(Rules(("ham", "spam")), {"renamed": {"ham": "good"}}, used={"ham": 3})
    >>> rules.classes, renamed
    (('good', 'spam'), {'ham': 'good'})
    """
    if unknown := sorted(set(changes) - set(Changes.__annotations__)):
        raise ValueError(f"rules have {sorted(Changes.__annotations__)}, but no {unknown[0]!r}.")
    renamed = _renamed(rules, changes.get("renamed", {}))
    old = tuple(renamed.get(name, name) for name in rules.classes)
    classes = _edited(_classes(changes.get("classes", old)), changes)
    if rules.label_range is not None and classes:
        raise ValueError("classes cannot be set here: the labels of this project are numbers.")
    if rules.classes and not classes:
        raise ValueError("classes must be at least two, but none would be left, and a page has no buttons then.")
    named = {renamed.get(label, label): n for label, n in used.items() if isinstance(label, str)}
    gone = named.keys() - set(classes)
    if classes and gone:
        uses = named[min(gone)]
        raise ValueError(
            f"classes must keep those in use, but {min(gone)!r} has {uses:,} {'label' if uses == 1 else 'labels'} "
            f"and is missing from {list(classes)}. Rename it (renamed={{old: new}}), or take its labels back first."
        )
    if missing := sorted(set(renamed.values()) - set(classes)):
        raise ValueError(f"classes must hold the new names, but {missing[0]!r} is missing from {list(classes)}.")
    per_item = count("labels_per_item", changes.get("labels_per_item", rules.labels_per_item))
    usual = rules.most_labels if per_item == rules.labels_per_item else 2 * per_item - 1
    most = count("most_labels", changes.get("most_labels", usual))
    if most < per_item:
        raise ValueError(f"most_labels must be at least labels_per_item, {per_item}, but it is {most}.")
    budget = changes.get("budget", rules.budget)
    if budget is not None:
        budget = count("budget", budget)
    seconds = _seconds(changes.get("lease_seconds", rules.lease_seconds))
    asked = replace(
        rules, classes=classes, labels_per_item=per_item, most_labels=most, lease_seconds=seconds, budget=budget
    )
    return asked.after(asked.body(renamed)), renamed


def _edited(classes: tuple[str, ...], changes: Changes) -> tuple[str, ...]:
    """The classes after some were added at the end and others removed."""
    gone = set(changes.get("removed", ()))
    if unknown := sorted(gone - set(classes)):
        raise ValueError(_unknown("removed", unknown[0], classes))
    added = [name for name in dict.fromkeys(changes.get("added", ())) if name not in classes]
    return _classes([*(name for name in classes if name not in gone), *added])


def _unknown(what: str, name: str, classes: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, classes, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{what} must name classes among {list(classes)}, but {name!r} is none of them.{hint}"


def _renamed(rules: Rules, names: Mapping[str, str]) -> dict[str, str]:
    """What there is to rename; a change that was made already is none."""
    renamed = {}
    for old, new in dict(names).items():
        if old in rules.classes and old != new:
            renamed[old] = new
        elif old not in rules.classes and rules.former.get(old) != new:
            raise ValueError(_unknown("renamed", old, rules.classes))
    return renamed


def _classes(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ValueError(f"classes must be a list of names, but it is the text {names!r}. Try {names.split(',')!r}.")
    classes = tuple(names)
    for name in classes:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"classes must be texts that are not empty, but one is {name!r}.")
        if name != name.strip() or not name.isprintable() or len(name) > LONGEST:
            raise ValueError(
                f"classes must be printable texts of at most {LONGEST} letters, without blanks around them, but one is "
                f"{name if len(name) <= LONGEST else f'{name[:20]}...'!r}."
            )
    if len(set(classes)) < len(classes):
        twice = Counter(classes).most_common(1)[0][0]
        raise ValueError(
            f"classes must all be different, but {twice!r} occurs twice. A class cannot be renamed to another one: "
            "label its items anew, or join the two when you export."
        )
    if len(classes) == 1:
        raise ValueError(f"classes must be at least two, but there is only {classes[0]!r}.")
    return classes


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (math.isfinite(value) and value > 0):
        raise ValueError(f"lease_seconds must be a positive number of seconds, but it is {value!r}.")
    return float(value)
