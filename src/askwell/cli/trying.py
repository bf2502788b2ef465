"""Commands for those who want to see first: `demo` and `simulate`."""

import csv
import difflib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from askwell.acquisition import MEANINGS
from askwell.cli.manners import command, names_in, plainly, whole_file, whole_number
from askwell.data import Labelled, labelled
from askwell.seeds import rng_for

__all__ = ["demo", "simulate"]

METRICS = ("accuracy", "balanced_accuracy", "log_loss")
STEPS = "steps"  # in the folder of a simulation: what makes it go on


# ---- demo ----


@click.command()
@whole_number("--seeds", default=5, help="Runs of each score.")
@whole_number("--budget", default=60, least=7, help="Labels of each run, the first six included.")
@click.option(
    "--out",
    default="askwell-demo",
    show_default=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where to write.",
)
@whole_number("--processes", help="How many runs at a time.  [default: one per processor]")
def demo(seeds: int, budget: int, out: Path, processes: int | None) -> None:
    """See the whole loop on handwritten digits, in about ten seconds.

    Random, BALD and EPIG ask for labels side by side. Nothing is downloaded.
    """
    from askwell.demo import run_demo

    with plainly(goes_on=f"Finished steps are kept in {out}. To go on: {command()}"):
        run_demo(seeds=range(seeds), budget=budget, folder=_checked(out), processes=processes, echo=click.echo)


# ---- simulate ----


def _meanings(names: Iterable[str]) -> list[str]:
    """What scores are, in a line each."""
    known = [name for name in names if name in MEANINGS]
    width = max(map(len, known), default=0)
    return [f"  {name:<{width}}  {MEANINGS[name]}" for name in known]


def _names(text: str) -> list[str]:
    """The scores that were named, all of them known and different: refused before anything is read."""
    names = names_in(text) or []
    for name in names:
        if name not in MEANINGS:
            near = difflib.get_close_matches(name.lower(), MEANINGS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"scores must be among {', '.join(MEANINGS)}, but one is {name!r}.{hint}")
    if not names or len({*names}) < len(names):
        raise ValueError(f"scores must be different names with commas between, at least one, but they are {text!r}.")
    return names


@click.command(epilog="\b\n" + "\n".join(["Scores:", *_meanings(MEANINGS)]))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--label", required=True, metavar="COLUMN", help="The column with the labels, one in every row.")
@click.option("--id", metavar="COLUMN", help="The column with the rows' ids, all different; not an input.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="A column that is not an input. May be given often.")
@click.option(
    "--targets",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A table of inputs like those the model will meet, labels not needed. Without it: the pool's own.",
)
@click.option(
    "--test",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A test set, with labels. Without it: a share of DATA, set aside at random.",
)
@click.option("--test-share", type=click.FloatRange(0.01, 0.95), metavar="SHARE", help="That share.  [default: 0.3]")
@click.option(
    "--model",
    type=click.Choice(["forest", "linear"]),
    help="A random forest, or Bayesian logistic regression (for texts, embeddings and other wide tables).  [default: "
    "linear if there are texts, else forest]",
)
@click.option(
    "--scores",
    default="random,margin,epig,auto",
    show_default=True,
    metavar="NAMES",
    help="How questions are chosen, see below; names with commas between.",
)
@whole_number("--initial", default=2, help="Labels per class to begin with.")
@whole_number("--budget", default=100, help="Labels in all, the first ones included.")
@whole_number("--size", default=1, help="Labels per step: larger is faster and coarser.")
@whole_number("--seeds", default=5, help="Runs of each score, from different first labels.")
@whole_number("--seed", default=0, least=0, help="The first seed; also that of the rows set aside.")
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    default="accuracy",
    show_default=True,
    help="What table, curve and verdict are about. Changing it takes no new simulation.",
)
@whole_number("--processes", help="How many runs at a time.  [default: one per processor]")
@click.option("--engine", metavar="NAME", help="Instead of processes: ray, ray:host:port. Machines must share --out.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where to write.  [default: DATA's name with -simulation]",
)
@click.option("--delimiter", metavar="MARK", help="Between the values of a CSV, where it is not found by itself.")
@click.option("--encoding", metavar="NAME", help="Of a CSV that is not UTF-8, such as cp1252.")
def simulate(data: Path, out: Path | None, seed: int, seeds: int, metric: str, scores: str, **options: Any) -> None:
    """Would active learning have helped me?

    DATA is a table whose labels are known: CSV, JSON lines or Parquet. A learner that does not know them asks for them
    one by one, choosing by each of the scores, and is judged after every answer. Writes report.html, curves.png,
    curves.svg, questions.csv (what was asked, in order) and result.json to a folder. The same command again goes on
    where it was stopped.
    """
    from askwell.progress import lines
    from askwell.simulate import simulate as run

    folder = out if out is not None else Path(f"{data.stem}-simulation")
    again = command()
    with plainly(goes_on=f"Finished steps are kept in {folder}. To go on: {again}"):
        _checked(folder)
        names = _names(scores)
        reading = ("label", "id", "drop", "targets", "test", "test_share", "encoding")
        task = labelled(
            data,
            **{name: options[name] for name in reading},
            delimiter=(options["delimiter"] or "").replace("\\t", "\t") or None,  # a tab is hard to type
            rng=rng_for(seed, 0, "test rows"),
        )
        click.echo(task.note)
        budget, often = options["budget"], "once" if seeds == 1 else f"{seeds} times"
        click.echo("\n".join(["scores:", *_meanings(names)]))
        click.echo(
            f"Now asking for {min(budget, len(task.y)):,} labels with each of {', '.join(names)}, {often}. "
            f"Finished steps are kept in {folder}; if stopped, the same command goes on.\n"
        )
        told = lines(label="simulating", unit="steps")
        with _kept_if_begun(folder):
            found = run(
                _model(options["model"], task),
                task.x,
                task.y,
                test=task.test,
                targets=task.targets,
                scores=names,
                initial=options["initial"],
                budget=budget,
                seeds=range(seed, seed + seeds),
                size=options["size"],
                processes=options["processes"],
                engine=options["engine"],
                folder=folder / STEPS,
                ids=task.ids,
                progress=None if told is None else lambda done, total, _: told(done, total),
            )
        title = f"Would active learning have helped on {data.name}?"
        _write(found, folder, title=title, intro=task.note, metric=metric, repeat=again, ids=task.ids)
        whole_file(folder / "questions.csv", lambda path: _write_questions(path, found, task))
        _show(found, metric)
        click.echo(
            f"Written to {folder}: report.html (open it in a browser), curves.png, curves.svg, questions.csv, "
            "result.json."
        )


def _model(name: str | None, task: Labelled) -> Any:
    """The model asked for, else the one that a project would have."""
    from askwell.models.names import model_named

    return model_named(name or ("linear" if task.texts else "forest"), task.x, alike=task.alike)


# ---- what is printed and written ----


def _show(found: Any, metric: str) -> None:
    from askwell.report import terminal_curves

    plain = not (sys.stdout.encoding or "ascii").lower().startswith("utf")
    click.echo(terminal_curves(found.traces, metric=metric, colour=sys.stdout.isatty(), plain=plain))
    click.echo(f"\n{found.table(metric=metric)}\n\n{found.verdict(metric=metric)}\n")


def _write(found: Any, folder: Path, *, title: str, intro: str, metric: str, repeat: str, ids: Any) -> None:
    from askwell.report import html_report, plot_curves

    first, *others = (line.strip() for line in intro.splitlines())
    said = f"{first}\n\n{'; '.join(others)}."

    whole_file(folder / "result.json", found.save)
    for name in ("curves.png", "curves.svg"):
        whole_file(folder / name, lambda path: plot_curves(found.traces, path, metric=metric, title=title))
    whole_file(
        folder / "report.html", lambda path: html_report(found, path, title=title, intro=said, repeat=repeat, ids=ids)
    )


def _write_questions(path: Path, found: Any, task: Labelled) -> None:
    """What was asked in each run, in order, by the user's ids or else the rows of the file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["score", "seed", "question", "id", "label"])
        for trace in found.traces:
            for number, place in enumerate(trace.questions, 1):
                rows.writerow([trace.score, trace.seed, number, task.ids[place], task.y[place]])


def _checked(path: Path) -> Path:
    """The path of a folder that is new, empty or of an earlier run, and that can be made and written to."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"--out must be a folder, but {str(path)!r} is a file. Name another.")
    if path.is_dir() and any(path.iterdir()) and not (path / STEPS).is_dir():
        raise ValueError(
            f"--out must be a new folder, an empty one, or that of an earlier run, but {str(path)!r} holds other "
            "things. Name another."
        )
    place = path.absolute()
    place = next(folder for folder in (place, *place.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            return path
    except OSError as fault:
        raise ValueError(
            f"--out {str(path)!r} cannot be written: {fault.strerror} ({place}). Name another folder."
        ) from None


@contextmanager
def _kept_if_begun(folder: Path) -> Iterator[None]:
    """Leave no folder behind that was made for a simulation which was refused before its first step.

    A folder with another simulation is refused in this command's words.
    """
    new = not folder.exists()
    try:
        yield
    except ValueError as fault:
        if "holds a simulation with other" in str(fault):
            said = str(fault).replace("Give another folder", "Name another folder with --out")
            raise ValueError(said) from None
        if new and folder.is_dir() and not any(folder.rglob("*.jsonl")):
            shutil.rmtree(folder)
        raise
