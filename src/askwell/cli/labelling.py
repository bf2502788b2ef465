"""Commands for those who label: `init`, `serve`, `ask`, `tell`, `status`, `export`, `import`."""

import json
import secrets
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from askwell.cli.manners import LOOPBACK, by_class, command, listening, names_in, person, plainly, whole_number

if TYPE_CHECKING:
    from askwell.project import Project
    from askwell.session import Assignment

__all__ = ["ask", "bring", "export", "init", "serve", "status", "tell"]

ROOM = 60  # characters of an item in a table


@contextmanager
def _manners() -> Iterator[None]:
    """Errors as one message; everything stored stays stored."""
    with plainly(goes_on=f"Everything labelled so far is saved. To resume: {command()}"):
        yield


def _folder() -> Callable[..., Any]:
    return click.argument("folder", type=click.Path(path_type=Path))


def _who() -> Callable[..., Any]:
    return click.option("--who", metavar="NAME", help="Name of the annotator.  [default: your user name]")


def _several(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _printable(text: str) -> str:
    """A text in one line, without what could steer the terminal."""
    return "".join(" " if letter.isspace() else letter if letter.isprintable() else "�" for letter in text)


# ---- init ----


@click.command()
@_folder()
@click.option(
    "--pool",
    required=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The pool: items that can be labelled.",
)
@click.option(
    "--targets",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Unlabelled inputs the model will have to predict.",
)
@click.option("--class-prior", metavar="A=P,...", help="Or the expected class frequencies: ham=0.9,spam=0.1.")
@click.option("--class-weights", metavar="A=W,...", help="Cost of an error per class, 1 by default: spam=1,fraud=50.")
@click.option("--classes", metavar="A,B,...", help="Class names.  [default: those in the --label column]")
@click.option("--show", metavar="COLUMNS", help="Columns to show to annotators.  [default: free text, else all]")
@click.option(
    "--kind", type=click.Choice(["text", "image", "table"]), help="How to display items.  [default: detected]"
)
@click.option("--id", metavar="COLUMN", help="Column with unique ids.  [default: row numbers]")
@click.option("--label", metavar="COLUMN", help="Column with known labels; they are saved at once.")
@click.option(
    "--cost", metavar="COLUMN", help="Column with the cost of labelling a row; items are ranked by gain per cost."
)
@click.option("--features", metavar="COLUMNS", help="Feature columns; or embeddings:COLUMN, embeddings:FILE.npy.")
@click.option("--model", metavar="NAME", help="forest, linear, gp, or module:function.  [default: depends on the data]")
@click.option("--score", metavar="NAME", help="Acquisition function, such as epig, bald, margin.  [default: auto]")
@whole_number("--batch", help="Batch size: questions chosen together.  [default: 10]")
@whole_number("--retrain-every", help="New labels before the model is retrained.  [default: 10]")
@click.option(
    "--held-out",
    type=click.FloatRange(0, 0.5),
    metavar="SHARE",
    help="Share of items held out as a test set.  [default: 0]",
)
@whole_number("--budget", help="Total number of labels.  [default: unlimited]")
@whole_number("--labels-per-item", help="Labels per item, from different people.  [default: 1]")
@click.option(
    "--store", metavar="URL", help="Label store, e.g. postgresql://user@host/database.  [default: a SQLite file]"
)
@click.option("--run", metavar="NAME", help="The project's name in the store.  [default: main]")
@click.option("--template", metavar="FILE", help="Your own Jinja template for showing an item on the page.")
@whole_number("--seed", least=0, help="Random seed.  [default: 0]")
@click.option("--delimiter", metavar="MARK", help="CSV delimiter.  [default: detected]")
@click.option("--encoding", metavar="NAME", help="CSV encoding, such as cp1252.  [default: UTF-8]")
def init(folder: Path, **options: Any) -> None:
    """Create a labelling project in FOLDER.

    The pool is a table (CSV, JSON lines, Parquet), a NumPy array, or a folder of images or text files. Writes
    askwell.toml, a file of settings that you can edit, and the label store. If init fails, nothing is created.
    """
    from askwell.project import init_project, project_note

    features = options.pop("features")
    with _manners():
        with init_project(
            folder,
            features=features if features is None or features.startswith("embeddings:") else names_in(features),
            classes=names_in(options.pop("classes")),
            show=names_in(options.pop("show")),
            class_prior=by_class("--class-prior", options.pop("class_prior"), like="ham=0.9,spam=0.1"),
            class_weights=by_class("--class-weights", options.pop("class_weights"), like="spam=1,fraud=50"),
            delimiter=(options.pop("delimiter") or "").replace("\\t", "\t") or None,  # a tab is hard to type
            **options,
        ) as project:
            click.echo(project_note(project))
        shown = click.format_filename(folder)
        click.echo(f"\nCreated {shown}/. Settings are in askwell.toml.\nNext: askwell serve {shown}")


# ---- ask and tell ----


@click.command()
@_folder()
@whole_number("--size", default=1, help="Number of questions.")
@_who()
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

    with _manners(), open_project(folder) as project:
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
        _warn(project)
        tasks = session.next(person(who), size=size)
        for line in _as_lines(project, tasks) if as_json else _as_table(project, tasks):
            click.echo(line)
        if not tasks:
            click.echo(
                f"No questions: {session.closed(who=person(who)) or 'others are answering them right now.'}", err=True
            )


def _warn(project: "Project") -> None:
    """Print inconsistencies, and whether the last training failed."""
    from askwell.project.rounds import project_warnings

    said = project_warnings(project)
    rounds = project.session().progress().rounds
    failed = rounds[-1].get("failed") if rounds else None
    if failed and not any(failed in words for words in said):
        said.append(f"The last training failed, so questions are chosen as before it: {failed}")
    for words in said:
        click.echo(f"Note: {words}", err=True)


def _due(project: "Project") -> bool:
    """Whether there are enough labels since the last round for another one."""
    progress = project.session().progress()
    done = max((int(each.get("labels", 0)) for each in progress.rounds), default=None)
    return done is None or progress.labelled - done >= project.settings.retrain_every


def _as_lines(project: "Project", tasks: Sequence["Assignment"]) -> Iterator[str]:
    for task in tasks:
        shown = project.items.show(task.item, whole=True)
        content = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(shown).items()}
        yield json.dumps({**asdict(task), "shown": content}, ensure_ascii=False)


def _as_table(project: "Project", tasks: Sequence["Assignment"]) -> Iterator[str]:
    rows = [("item", "score", "shown")]
    for task in tasks:
        score = "" if task.score is None else f"{task.score:.4f}"
        rows.append((_printable(task.item), score, _excerpt(project, task.item)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:2]
    for item, score, shown in rows if tasks else ():
        yield f"{item:<{widths[0]}}  {score:>{widths[1]}}  {shown}".rstrip()


def _excerpt(project: "Project", item: str) -> str:
    from askwell.data import ShownImage, ShownText

    shown = project.items.show(item)
    if isinstance(shown, ShownImage):
        return _printable(str(shown.path))
    text = (
        shown.text
        if isinstance(shown, ShownText)
        else ", ".join(f"{name} {cell}" for name, cell in shown.cells if cell)
    )
    line = _printable(" ".join(text[: 4 * ROOM].split()))
    return line if len(line) <= ROOM else f"{line[: ROOM - 1]}…"


@click.command()
@_folder()
@click.argument("item", required=False)
@click.argument("label", required=False)
@click.option(
    "--from",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read many labels from a table with the columns id and label (CSV, JSON lines, Parquet).",
)
@click.option("--exact", is_flag=True, help="The CSV was written by askwell export --exact.")
@_who()
def tell(folder: Path, item: str | None, label: str | None, file: Path | None, exact: bool, who: str | None) -> None:
    """Save the LABEL of an ITEM, or many labels from a file.

    A second label from the same person replaces the first. A file is saved as a whole: if one row is wrong, none is
    saved. All its labels are saved under one name (--who); askwell import keeps the names in the file.
    """
    from askwell.project import open_project

    with _manners():
        if item is not None and label is not None and file is None:
            pairs = [(item, label, "")]
        elif item is None and file is not None:
            pairs = _read_pairs(file, exact=exact)
        else:
            raise ValueError("tell needs ITEM and LABEL, or --from FILE with the columns id and label.")
        with open_project(folder) as project:
            session, name = project.session(), person(who)
            for each, said, place in pairs:
                _check_pair(project, each, said, place)
            mine = {answer.item: answer.label for answer in session.answers(who=name) if answer.kind == "label"}
            new = [(each, said) for each, said, _ in pairs if mine.get(each) != session.rules.named(said)]
            for each, said in new:
                session.answer(name, each, said, key=uuid.uuid4().hex)
            known = len(pairs) - len(new)
            click.echo(_saved(len(new), known))


def _saved(new: int, known: int) -> str:
    """What was saved, as a sentence."""
    return f"Saved {_several(new, 'label')}" + (f"; {known:,} already known" if known else "") + "."


def _read_pairs(file: Path, *, exact: bool) -> list[tuple[str, str, str]]:
    """(item, label, `file:row`) of each row that has a label: what `export` writes has skips too."""
    from askwell.data import read_table
    from askwell.data.reading import is_separated
    from askwell.project.formats import as_it_was

    table = read_table(file)
    ids, labels = table.texts("id"), table.texts("label")
    if is_separated(file) and not exact:
        ids, labels = [*map(as_it_was, ids)], [*map(as_it_was, labels)]
    kinds = table.texts("kind") if "kind" in table.columns else [""] * table.rows
    seen: dict[str, int] = {}
    pairs = []
    for row, (item, label, kind) in enumerate(zip(ids, labels, kinds, strict=True)):
        place = table.place(row)
        if kind == "skip" and not label:
            continue
        if not label.strip():
            raise ValueError(f"{place}: the column 'label' has no value here. Fill it in, or delete the row.")
        if item in seen:
            raise ValueError(
                f"{place}: ids must all be different, but row {seen[item]} has {item!r} too. Delete one. "
                "For answers of several people use askwell import, which keeps their names."
            )
        seen[item] = table.numbers[row]
        pairs.append((item, label.strip(), place))
    return pairs


def _check_pair(project: "Project", item: str, label: str, place: str) -> None:
    """Reject a pair before any of them is stored."""
    rules, where = project.session().rules, f"{place}: " if place else ""
    if item not in project.items:
        raise ValueError(f"{where}there is no item {item!r} in the pool.")
    if rules.classes and rules.named(label) not in rules.classes:
        raise ValueError(f"{where}label must be one of {', '.join(rules.classes)}, but it is {label!r}.")


# ---- status, export, import ----


@click.command()
@_folder()
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def status(folder: Path, as_json: bool) -> None:
    """Show progress: learning curve, budget, pace, people, and whether to stop."""
    from askwell.cli.standing import standing_text
    from askwell.project import open_project
    from askwell.project.rounds import project_warnings
    from askwell.project.training import training_since

    with _manners(), open_project(folder, writable=False) as project:
        progress, said = project.session().progress(), project_warnings(project)
        if as_json:
            click.echo(json.dumps({**asdict(progress), "warnings": said}, default=dict, ensure_ascii=False))
            return
        began = training_since(project.store(), project.settings.run)
        took = None if began is None else max(0.0, time.time() - began)
        plain = not (sys.stdout.encoding or "ascii").lower().startswith("utf")
        title, colour = project.folder.name, sys.stdout.isatty()
        click.echo(standing_text(progress, title=title, training=took, colour=colour, plain=plain))
        for words in said:
            click.echo(textwrap.fill(f"Note: {words}", 72, subsequent_indent="  "))


@click.command()
@_folder()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    type=click.Choice(["csv", "jsonl", "parquet", "label-studio"]),
    help="File format.  [default: from the file name]",
)
@click.option("--consensus", is_flag=True, help="One row per item, with the majority label.")
@click.option("--exact", is_flag=True, help="In a CSV, do not escape cells that a spreadsheet would run as formulas.")
@click.option("--with-item", is_flag=True, help="Include what people saw: the text, the image path or the columns.")
@click.option("--bom", is_flag=True, help="Start the CSV with a byte order mark, so that Excel reads it as UTF-8.")
def export(folder: Path, file: Path, exact: bool, consensus: bool, **options: Any) -> None:
    """Export all answers to FILE: .csv, .jsonl, .parquet, or .json for Label Studio.

    One row per person and item, with the latest answer: id, label, who, at (ISO 8601, UTC), seconds, kind (label or
    skip), reason, key. The pool's files are needed only for --with-item and Label Studio.
    """
    from askwell.project import open_project
    from askwell.project.exchange import export_labels

    with _manners(), open_project(folder, writable=False) as project:
        count = export_labels(project, file, safe=not exact, consensus=consensus, **options)
        click.echo(f"Wrote {_several(count, 'item' if consensus else 'answer')} to {click.format_filename(file)}.")


@click.command(name="import")
@_folder()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    type=click.Choice(["csv", "jsonl", "parquet", "label-studio"]),
    help="File format.  [default: from the file name]",
)
@click.option("--exact", is_flag=True, help="The CSV was written by askwell export --exact.")
def bring(folder: Path, file: Path, format: str | None, exact: bool) -> None:
    """Import answers from FILE: a table with the columns id and label, or an export.

    The columns who, at, seconds, kind, reason and key are optional; other columns are ignored. Answers that are stored
    already are not stored twice. Rows that cannot be stored are listed; all others are stored.
    """
    from askwell.project import open_project
    from askwell.project.exchange import import_labels

    with _manners(), open_project(folder) as project:
        report = import_labels(project, file, format=format, safe=not exact)  # type: ignore[arg-type]
        click.echo(str(report))
        if report.refused:
            raise SystemExit(2)


# ---- serve ----


@click.command()
@_folder()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 lets other machines in."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8000, show_default=True, metavar="N", help="Port to listen on."
)
@click.option(
    "--token", envvar="ASKWELL_TOKEN", metavar="TEXT", help="Password for other machines.  [default: $ASKWELL_TOKEN]"
)
@click.option(
    "--name", "names", multiple=True, metavar="HOST", help="Host name that browsers may use. May be repeated."
)
@click.option(
    "--behind-proxy",
    metavar="ADDRESS",
    help="Trust X-Forwarded-For from the proxy at this address.  [default: none]",
)
def serve(
    folder: Path, host: str, port: int, token: str | None, names: tuple[str, ...], behind_proxy: str | None
) -> None:
    """Serve the labelling page of a project, and train its model in the background.

    By default only this machine can open the page. Any other --host needs a --token. Stop with Ctrl-C; all answers are
    saved.
    """
    with _manners():
        from askwell.project import open_project
        from askwell.project.folder import CACHE
        from askwell.project.training import Retraining
        from askwell.web import create_app  # says what to install if something is missing
        from askwell.web.connections import limits

        import uvicorn  # isort: skip

        names = _names(host, names, token)
        with open_project(folder) as project, listening(host, port) as listener:
            wanted = project.settings
            _warn(project)
            training = Retraining(
                project.folder,
                every_labels=wanted.retrain_every,
                every_seconds=wanted.retrain_seconds,
                store=project.store(),
            )
            app = create_app(
                project.session(),
                project.items,
                title=project.folder.name,
                targets=project.target_items or project.items,
                token=token,
                hosts=names,
                status=lambda: _training_words(training.status()),
                template=project.template(),
                sessions=project.folder / CACHE / "sessions.json",
            )
            with training:
                click.echo(f"Label at http://{'localhost' if host in LOOPBACK else host}:{port}  (Ctrl-C to stop)")
                config = uvicorn.Config(
                    app,
                    log_level="warning",
                    timeout_graceful_shutdown=5,
                    proxy_headers=behind_proxy is not None,
                    forwarded_allow_ips=behind_proxy,
                    **limits(),
                )
                with suppress(KeyboardInterrupt):
                    uvicorn.Server(config).run(sockets=[listener])


def _names(host: str, names: Sequence[str], token: str | None) -> tuple[str, ...]:
    """The names that browsers may use: this machine's own, and, where others may come in, those given or any."""
    if token is None and (names or host not in LOOPBACK):
        raise ValueError(
            f"--host {host} lets other machines in, so it needs a --token that only your annotators know. Try --token "
            f"{secrets.token_urlsafe(16)}"
        )
    return (*LOOPBACK, *(names or (() if host in LOOPBACK else ("*",))))


def _training_words(found: dict[str, Any]) -> dict[str, Any]:
    seconds = None if found["since"] is None else max(0.0, time.time() - found["since"])
    return {"training": found["state"] == "fitting", "seconds": seconds, "text": found["text"]}
