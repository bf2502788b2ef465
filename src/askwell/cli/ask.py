"""`askwell ask` and `askwell tell`: questions out, labels in."""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from askwell.cli.options import one_message, path_argument, path_option, person, plural, who, whole_number

if TYPE_CHECKING:
    from askwell.project import Project
    from askwell.session import Assignment

__all__ = ["ask", "excerpt", "printable", "tell", "warn"]

WIDTH = 60  # characters of an item in a table


# ---- ask -----------------------------------------------------------------------------------------------------------


@click.command()
@path_argument("folder")
@whole_number("--size", default=1, help="Number of questions.")
@who
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option(
    "--train/--no-train",
    default=True,
    show_default=True,
    help="Retrain the model first, if there are enough new labels.",
)
@click.option(
    "--engine", metavar="NAME", help="Where to score the pool: local:4, ray, ray:host:port.  [default: this process]"
)
def ask(folder: Path, size: int, who: str | None, as_json: bool, train: bool, engine: str | None) -> None:
    """Print the next questions, and reserve them for you.

    Questions are reserved for 90 seconds by default (see askwell rules --lease-seconds). After that others may get them
    too; a later answer is still saved. Answer with askwell tell.
    """
    from askwell.engines import as_engine
    from askwell.project import open_project

    with one_message(), open_project(folder) as project:
        where = None if engine is None else as_engine(engine)
        session = project.session()
        if train and _due(project):
            from askwell.project.rounds import train_round

            some = session.progress().labelled
            click.echo("Training the model ..." if some else "Choosing the first questions ...", err=True)
            train_round(project, engine=where)
            failed = session.progress().rounds[-1].get("failed")
            if failed:
                raise RuntimeError(f"training failed: {failed} To use the previous model, add --no-train.")
        warn(project)
        tasks = session.next(person(who), size=size)
        for line in _as_lines(project, tasks) if as_json else _as_table(project, tasks):
            click.echo(line)
        if not tasks:
            closed = session.closed(who=person(who)) or "others are answering them right now."
            click.echo(f"No questions: {closed}", err=True)


def warn(project: "Project") -> None:
    """Print inconsistencies, and whether the last training failed."""
    from askwell.project.rounds import project_warnings

    notes = project_warnings(project)
    rounds = project.session().progress().rounds
    failed = rounds[-1].get("failed") if rounds else None
    if failed and not any(failed in note for note in notes):
        notes.append(f"The last training failed, so questions are chosen as before it: {failed}")
    for note in notes:
        click.echo(f"Note: {note}", err=True)


def _due(project: "Project") -> bool:
    """Whether there are enough labels since the last round for another one."""
    progress = project.session().progress()
    done = max((int(each.get("labels", 0)) for each in progress.rounds), default=None)
    return done is None or progress.labelled - done >= project.settings.retrain_every


def _as_lines(project: "Project", tasks: Sequence["Assignment"]) -> Iterator[str]:
    for task in tasks:
        shown = asdict(project.items.show(task.item, whole=True))
        content = {name: str(value) if isinstance(value, Path) else value for name, value in shown.items()}
        yield json.dumps({**asdict(task), "shown": content}, ensure_ascii=False)


def _as_table(project: "Project", tasks: Sequence["Assignment"]) -> Iterator[str]:
    rows = [("item", "score", "shown")]
    for task in tasks:
        score = "-" if task.score is None else f"{task.score:.4f}"  # drawn, or there is no model yet
        rows.append((printable(task.item), score, excerpt(project, task.item)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:2]
    for item, score, shown in rows if tasks else ():
        yield f"{item:<{widths[0]}}  {score:>{widths[1]}}  {shown}".rstrip()


def excerpt(project: "Project", item: str) -> str:
    """An item in a line of a table."""
    from askwell.data import ShownImage, ShownText

    shown = project.items.show(item)
    if isinstance(shown, ShownImage):
        return printable(str(shown.path))
    cells = () if isinstance(shown, ShownText) else shown.cells
    text = shown.text if isinstance(shown, ShownText) else ", ".join(f"{name} {cell}" for name, cell in cells if cell)
    line = printable(" ".join(text[: 4 * WIDTH].split()))
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def printable(text: str) -> str:
    """A text in one line, without what could steer the terminal."""
    return "".join(" " if mark.isspace() else mark if mark.isprintable() else "�" for mark in text)


# ---- tell ----------------------------------------------------------------------------------------------------------


@click.command()
@path_argument("folder")
@click.argument("item", required=False)
@click.argument("label", required=False)
@path_option(
    "--from",
    "file",
    metavar="FILE",
    help="Read many labels from a table with the columns id and label (CSV, JSON lines, Parquet).",
)
@click.option("--exact", is_flag=True, help="The CSV was written by askwell export --exact.")
@who
def tell(folder: Path, item: str | None, label: str | None, file: Path | None, exact: bool, who: str | None) -> None:
    """Save the LABEL of an ITEM, or many labels from a file.

    A second label from the same person replaces the first. A file is saved as a whole: if one row is wrong, none is
    saved. All its labels are saved under one name (--who); askwell import keeps the names in the file.
    """
    from askwell.project import open_project

    with one_message():
        if item is not None and label is not None and file is None:
            pairs = [(item, label, "")]
        elif item is None and file is not None:
            pairs = _pairs_of(file, exact=exact)
        else:
            raise ValueError("tell needs ITEM and LABEL, or --from FILE with the columns id and label.")
        with open_project(folder) as project:
            session, name = project.session(), person(who)
            for pair in pairs:
                _check_pair(project, *pair)
            mine = {answer.item: answer.label for answer in session.answers(who=name) if answer.kind == "label"}
            new = [(id, label) for id, label, _ in pairs if mine.get(id) != session.rules.named(label)]
            for id, label in new:
                session.answer(name, id, label, key=uuid.uuid4().hex)
            same = len(pairs) - len(new)
            click.echo(f"Saved {plural(len(new), 'label')}{f'; {same:,} already known' if same else ''}.")


def _pairs_of(file: Path, *, exact: bool) -> list[tuple[str, str, str]]:
    """(item, label, `file:row`) of each row that has a label: what `export` writes has skips too."""
    from askwell.data import read_table
    from askwell.data.reading import is_separated
    from askwell.project.exchange import as_it_was

    table = read_table(file)
    ids, labels = table.texts("id"), table.texts("label")
    if is_separated(file) and not exact:
        ids, labels = [*map(as_it_was, ids)], [*map(as_it_was, labels)]
    kinds = table.texts("kind") if "kind" in table.columns else [""] * table.rows
    seen: dict[str, int] = {}
    pairs = []
    for row, (item, label, kind) in enumerate(zip(ids, labels, kinds, strict=True)):
        position = table.place(row)
        if kind == "skip" and not label:
            continue
        if not label.strip():
            raise ValueError(f"{position}: the column 'label' has no value here. Fill it in, or delete the row.")
        if item in seen:
            raise ValueError(
                f"{position}: ids must all be different, but row {seen[item]} has {item!r} too. Delete one. "
                "For answers of several people use askwell import, which keeps their names."
            )
        seen[item] = table.numbers[row]
        pairs.append((item, label.strip(), position))
    return pairs


def _check_pair(project: "Project", item: str, label: str, position: str) -> None:
    """Reject a pair before any of them is stored."""
    rules, where = project.session().rules, f"{position}: " if position else ""
    if item not in project.items:
        raise ValueError(f"{where}there is no item {item!r} in the pool. askwell ask prints ids, as do exports.")
    if rules.label_range is not None:
        try:
            rules.checked(label)
        except ValueError as error:
            raise ValueError(f"{where}{error}") from None
    if rules.classes and rules.named(label) not in rules.classes:
        raise ValueError(f"{where}label must be one of {', '.join(rules.classes)}, but it is {label!r}.")
