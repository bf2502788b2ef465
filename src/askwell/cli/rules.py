"""`askwell rules`: show or change classes, budget, labels per item."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from askwell.cli.options import one_message, path_argument, person, plural, split_names, whole_number

if TYPE_CHECKING:
    from askwell.session import Progress, Rules

__all__ = ["rules"]


@click.command()
@path_argument("folder")
@click.option("--budget", metavar="N|none", help="Total number of labels, including existing ones; none: unlimited.")
@click.option("--classes", metavar="A,B,...", help="Replace the list of classes, in the order of their keys.")
@click.option("--add", "added", multiple=True, metavar="CLASS", help="Add a class. May be repeated.")
@click.option(
    "--remove", "removed", multiple=True, metavar="CLASS", help="Remove a class that has no labels. May be repeated."
)
@click.option(
    "--rename",
    "renamed",
    multiple=True,
    metavar="OLD=NEW",
    help="Rename a class; its labels are kept. May be repeated.",
)
@whole_number("--labels-per-item", help="Labels per item, from different people.")
@whole_number("--most-labels", help="Maximum per item if people disagree.  [default: enough for a majority]")
@click.option("--lease-seconds", type=float, metavar="S", help="How long a question is reserved for one person.")
@click.option("--who", metavar="NAME", help="Who makes the change.  [default: your user name]")
@click.option("--json", "as_json", is_flag=True, help="Print the current rules as one JSON object.")
def rules(folder: Path, who: str | None, as_json: bool, **options: Any) -> None:
    """Show or change the rules of a project: classes, budget, labels per item.

    Without options, the current rules are printed. A change takes effect at once, also for running servers and open
    pages. If one part of a change is invalid, nothing is changed.
    """
    from askwell.project import open_project

    resume = "A change is applied completely or not at all: askwell rules shows the current rules."
    with one_message(resume=resume), open_project(folder) as project:
        session = project.session()
        before, changes = session.rules, _changes(options, session.rules)
        after = session.set_rules(person(who), **changes) if changes else before
        if as_json:
            click.echo(json.dumps({**asdict(after), "former": dict(after.former)}, ensure_ascii=False))
        elif not changes:
            click.echo("\n".join(_table(project.folder.name, after, session.progress())))
        else:
            lines = [*_differences(before, after, session.progress(), changes.get("renamed", {}))]
            click.echo("\n".join(lines) if lines else "Nothing to change: these are the current rules.")
        if project.settings.model == "gp" and len(after.classes) != 2:
            count = len(after.classes)
            click.echo(
                f"Note: the model gp supports only two classes, and there are {count} now. Choose another under "
                "[model] in askwell.toml.",
                err=True,
            )


def _changes(options: dict[str, Any], now: "Rules") -> dict[str, Any]:
    """What `Session.set_rules` is given: only what was asked for."""
    numbers = ("labels_per_item", "most_labels", "lease_seconds")
    changes = {name: options[name] for name in numbers if options[name] is not None}
    if options["budget"] is not None:
        changes["budget"] = _budget(options["budget"])
    if options["classes"] is not None:
        changes["classes"] = split_names(options["classes"])
    for name in ("added", "removed"):
        if options[name]:
            changes[name] = [each.strip() for each in options[name]]
    if options["renamed"]:
        changes["renamed"] = dict(_renamed(each, now) for each in options["renamed"])
        if len(changes["renamed"]) < len(options["renamed"]):
            raise ValueError("--rename must name each class once.")
    return changes


def _budget(text: str) -> int | None:
    if text.strip().lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--budget must be a whole number from 1, or none, but it is {text!r}.") from None


def _renamed(text: str, now: "Rules") -> tuple[str, str]:
    """(old, new) of OLD=NEW; where there are several =, the one after a class that is there."""
    marks = [position for position, mark in enumerate(text) if mark == "="]
    pairs = [(text[:mark].strip(), text[mark + 1 :].strip()) for mark in marks]
    pair = next((pair for pair in pairs if pair[0] in now.classes), pairs[0] if pairs else ("", ""))
    if not all(pair):
        raise ValueError(f"--rename must be like OLD=NEW, but it is {text!r}.")
    return pair


# ---- output ----


def _table(title: str, now: "Rules", progress: "Progress") -> Iterator[str]:
    """The current rules, one per line."""
    given = f"{progress.labels:,} given"
    left = given if now.budget is None else f"{given}, {max(0, now.budget - progress.labels):,} left"
    yield f"{title}: current rules"
    yield f"  classes          {_classes(now)}"
    yield f"  budget           {_number(now.budget)} ({left})"
    yield f"  labels per item  {now.labels_per_item}"
    yield f"  most labels      {now.most_labels} (if people disagree)"
    yield f"  lease seconds    {now.lease_seconds:g}"


def _differences(before: "Rules", after: "Rules", progress: "Progress", renamed: dict[str, str]) -> Iterator[str]:
    """What has changed, a line for each thing, and what follows from it."""
    for old, new in renamed.items():
        if old in before.classes and old != new:
            count = progress.classes.get(new, 0)
            yield f"renamed: {old} -> {new}" + (f" ({plural(count, 'label')})" if count else "")
    if after.classes != before.classes:
        yield f"classes: {_classes(before)} -> {_classes(after)}"
    if after.budget != before.budget:
        yield f"budget: {_number(before.budget)} -> {_number(after.budget)}"
    if after.budget is not None and after.budget != before.budget and after.budget <= progress.labels:
        yield f"  {plural(progress.labels, 'label')} were given already, so no more questions are asked."
    for name in ("labels_per_item", "most_labels", "lease_seconds"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield f"{name.replace('_', ' ')}: {old:g} -> {new:g}"
    waiting = progress.labelled - progress.complete
    if (after.labels_per_item, after.most_labels) != (before.labels_per_item, before.most_labels) and waiting > 0:
        yield f"  {waiting:,} labelled {'item needs' if waiting == 1 else 'items need'} labels from other people now."


def _classes(now: "Rules") -> str:
    return ", ".join(now.classes) or "any"


def _number(budget: int | None) -> str:
    return "none" if budget is None else f"{budget:,}"
