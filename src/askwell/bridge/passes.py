"""What a pass of the bridge did, and what people should know about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from askwell.bridge.annotations import Task
from askwell.bridge.ranking import order_doubt

__all__ = ["SAMPLING", "Pass", "warnings_about"]

SAMPLING = "Uncertainty sampling"  # Label Studio's word for "lowest score first"


@final
@dataclass(frozen=True)
class Pass:
    """What a pass did.

    >>> print(Pass(labels=12, skips=1, added=13, open=20))
    12 labels and 1 skip came in; 13 questions were added, 20 are open.
    """

    labels: int = 0  # came in
    skips: int = 0
    withdrawn: int = 0  # taken back, because they were deleted there
    added: int = 0  # questions sent
    rescored: int = 0  # questions whose place in the line was sent
    open: int = 0  # questions that wait for an answer there
    project: int = 0  # its number in Label Studio
    warnings: tuple[str, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened."""
        return not (self.labels or self.skips or self.withdrawn or self.added or self.rescored)

    def __str__(self) -> str:
        came = f"{_counted(self.labels, 'label')} and {_counted(self.skips, 'skip')} came in"
        back = f", {self.withdrawn} taken back" if self.withdrawn else ""
        again = f", {self.rescored} put in a new order" if self.rescored else ""
        verb = "was" if self.added == 1 else "were"
        return f"{came}{back}; {_counted(self.added, 'question')} {verb} added{again}, {self.open} are open."


def warnings_about(project: Mapping[str, Any], tasks: Sequence[Task]) -> list[str]:
    """What keeps people from getting the best question first, and once."""
    return [*_order(project, tasks), *_twice(tasks)]


def _order(project: Mapping[str, Any], tasks: Sequence[Task]) -> list[str]:
    if project.get("sampling") != SAMPLING:
        return [
            f"the project's task sampling in Label Studio is {project.get('sampling')!r}, so people do not get the "
            "best question first. Choose Uncertainty sampling there."
        ]
    doubt = order_doubt(tasks)
    if doubt is None:
        return []
    return [
        f"people do not get the best question first: on average it was {doubt:.0%} down the line. Usual causes: "
        "several project members in Label Studio, which make its order random, or labelling from the list of tasks "
        "instead of Label All Tasks."
    ]


def _twice(tasks: Sequence[Task]) -> list[str]:
    seen: dict[str, list[int]] = {}
    for task in tasks:
        seen.setdefault(task.item, []).append(task.id)
    twice = {item: ids for item, ids in seen.items() if len(ids) > 1}
    if not twice:
        return []
    item, ids = next(iter(twice.items()))
    return [
        f"{len(twice)} items are there more than once ({item!r}: tasks {', '.join(map(str, ids))}). Delete all but one."
    ]


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
