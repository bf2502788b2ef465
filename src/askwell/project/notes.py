"""Inconsistencies between a project's settings, its data and its store, as messages."""

from typing import Any

from askwell.data.table import listed
from askwell.project.features import is_file
from askwell.project.project import Project
from askwell.project.settings import FILE
from askwell.session.events import RulesChanged

__all__ = ["project_warnings"]

START = ("classes", "budget", "labels_per_item", "most_labels", "lease_seconds")


def project_warnings(project: Project) -> list[str]:
    """Labels of items that left the pool, rules that were edited where they do not count, vectors that do not fit."""
    return [*_left_the_pool(project), *_edited_rules(project), *_vectors(project)]


def _left_the_pool(project: Project) -> list[str]:
    gone = dict.fromkeys(
        answer.item
        for answer in project.session().answers()
        if answer.kind == "label" and answer.item not in project.items
    )
    if not gone:
        return []
    some = listed([*gone], most=3)
    if len(gone) == 1:
        return [
            f"1 labelled item is no longer in the pool ({some}). Its label is kept and exported, but not used for "
            "training."
        ]
    return [
        f"{len(gone):,} labelled items are no longer in the pool ({some}). Their labels are kept and exported, "
        "but not used for training."
    ]


def _edited_rules(project: Project) -> list[str]:
    """Rules in the settings that are neither those at the start nor those in force: they were edited in vain."""
    records = project.store().read(project.settings.run)
    begun: Any = next((record.body for record in records if record.kind == RulesChanged.kind), None)
    rules = project.session().rules
    said = []
    for name in START if begun is not None else ():
        now = getattr(project.settings, name)
        if name == "most_labels":
            now = now or 2 * project.settings.labels_per_item - 1
        then, here = begun.get(name), getattr(rules, name)
        plain = tuple(then) if isinstance(then, list) else then
        if now not in (plain, here):
            said.append(
                f"the change to [start] {name} in {FILE} has no effect: these rules are read only once, when the "
                f"project is created. The current {name} {'are' if name == 'classes' else 'is'} {_words(here)}. Change "
                "rules with askwell rules, or on the page."
            )
    return said


def _words(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else "unlimited" if value is None else str(value)


def _vectors(project: Project) -> list[str]:
    """Why the embeddings in files do not match the pool, if so."""
    if not (isinstance(project.settings.features, str) and is_file(project.settings.features)):
        return []
    try:
        project.features()
    except ValueError as fault:
        return [f"The model cannot be trained: {fault}"]
    return []
