"""`askwell review`: labels that deserve a second look."""

import json
import uuid
from pathlib import Path

import click

from askwell.cli.ask import excerpt, printable
from askwell.cli.options import one_message, path_argument, person, plural, who

__all__ = ["review"]


@click.command()
@path_argument("folder")
@click.option(
    "--confirm", metavar="ITEM", multiple=True, help="Save that your label of ITEM is right. May be repeated."
)
@who
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def review(folder: Path, confirm: tuple[str, ...], who: str | None, as_json: bool) -> None:
    """List labels that deserve a second look, the least probable first.

    The model, trained without them, finds them very unlikely, or people disagree. Correct one with askwell tell; with
    --confirm it is remembered that your label is right. Either way it is not listed again. Without --who, the labels of
    all people are listed.
    """
    from askwell.project import open_project

    with one_message(), open_project(folder, writable=bool(confirm)) as project:
        session = project.session()
        if confirm:
            name = person(who)
            mine = {each.item: each.label for each in session.answers(who=name) if each.kind == "label"}
            if missing := [item for item in confirm if item not in mine]:
                raise ValueError(f"{name} has no label for {missing[0]!r} to confirm. Give --who, or use askwell tell.")
            for item in dict.fromkeys(confirm):
                session.answer(name, item, mine[item], key=uuid.uuid4().hex)
            click.echo(f"Confirmed {plural(len({*confirm}), 'label')}.", err=as_json)
        issues, labels = session.label_issues(who=who), session.labels()
        for issue in issues:
            now = labels[issue["item"]]  # its class may have another name by now
            each = {**issue, "label": now.label, "who": [*now.votes]}
            if as_json:
                click.echo(json.dumps(each, ensure_ascii=False))
                continue
            why = "people disagree" if each["reason"] == "disagreement" else f"p = {each['probability']:.2f}"
            label = f"{each['label']}, or {each['suggested']}? ({why}; {', '.join(now.votes)})"
            click.echo(f"{printable(each['item'])}  {printable(label)}  {excerpt(project, each['item'])}".rstrip())
        if not issues:
            click.echo("No label deserves a second look, as far as the last training could tell.", err=True)
