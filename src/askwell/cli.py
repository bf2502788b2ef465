"""The command line: parse, call, print."""

import csv
import os
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

import askwell
from askwell.seeds import rng_for
from askwell.tables import Labelled, labelled

__all__ = ["main"]

METRICS = ("accuracy", "balanced_accuracy", "log_loss")
STEPS = "steps"  # in the folder of a simulation: what makes it go on
TREES = 200  # in the forest: half the time of askwell's own default, and enough to tell scores apart


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(askwell.__version__, prog_name="askwell")
def main() -> None:
    """Which examples to label next, so that a model predicts well on the inputs you care about."""


def _whole_number(name: str, *, least: int = 1, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that takes a whole number."""
    shown = "default" in options
    return click.option(name, type=click.IntRange(min=least), metavar="N", show_default=shown, **options)


# ---- demo ----


@main.command()
@_whole_number("--seeds", default=5, help="Runs of each score.")
@_whole_number("--budget", default=60, least=7, help="Labels of each run, the first six included.")
@click.option(
    "--out",
    default="askwell-demo",
    show_default=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where to write.",
)
@_whole_number("--processes", help="How many runs at a time.  [default: one per processor]")
def demo(seeds: int, budget: int, out: Path, processes: int | None) -> None:
    """See the whole loop on handwritten digits, in about a minute.

    Random, BALD and EPIG ask for labels side by side. Nothing is downloaded.
    """
    from askwell.demo import run_demo

    with _plainly(goes_on=f"Finished steps are kept in {out}. To go on: {_command()}"):
        run_demo(seeds=range(seeds), budget=budget, folder=_checked(out), processes=processes, echo=click.echo)


# ---- simulate ----


@main.command()
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
    help="A table to judge by, with labels. Without it: a share of DATA, set aside at random.",
)
@click.option("--test-share", type=click.FloatRange(0.01, 0.95), metavar="SHARE", help="That share.  [default: 0.3]")
@click.option(
    "--model",
    type=click.Choice(["forest", "linear"]),
    default="forest",
    show_default=True,
    help="A random forest, or Bayesian logistic regression (faster; for embeddings and other wide tables).",
)
@click.option(
    "--scores",
    default="random,bald,epig",
    show_default=True,
    metavar="NAMES",
    help="How questions are chosen; names with commas between.",
)
@_whole_number("--initial", default=2, help="Labels per class to begin with.")
@_whole_number("--budget", default=100, help="Labels in all, the first ones included.")
@_whole_number("--size", default=1, help="Labels per step: larger is faster and coarser.")
@_whole_number("--seeds", default=5, help="Runs of each score, from different first labels.")
@_whole_number("--seed", default=0, least=0, help="The first seed; also that of the rows set aside.")
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    default="accuracy",
    show_default=True,
    help="What table, curve and verdict are about. Changing it takes no new simulation.",
)
@_whole_number("--processes", help="How many runs at a time.  [default: one per processor]")
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
    from askwell.simulate import simulate as run

    folder = out if out is not None else Path(f"{data.stem}-simulation")
    command = _command()
    with _plainly(goes_on=f"Finished steps are kept in {folder}. To go on: {command}"):
        _checked(folder)
        names = [name.strip() for name in scores.split(",") if name.strip()]
        told = ("label", "id", "drop", "targets", "test", "test_share", "encoding")
        task = labelled(
            data,
            **{name: options[name] for name in told},
            delimiter=(options["delimiter"] or "").replace("\\t", "\t") or None,  # a tab is hard to type
            rng=rng_for(seed, 0, "test rows"),
        )
        click.echo(task.note)
        budget, often = options["budget"], "once" if seeds == 1 else f"{seeds} times"
        click.echo(
            f"Now asking for {min(budget, len(task.y)):,} labels with each of {', '.join(names)}, {often}. "
            f"Finished steps are kept in {folder}; if stopped, the same command goes on.\n"
        )
        with _kept_if_begun(folder):
            found = run(
                _model(options["model"], task.x),
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
                folder=folder / STEPS,
                ids=task.ids,
            )
        title = f"Would active learning have helped on {data.name}?"
        _write(found, folder, title=title, intro=task.note, metric=metric, repeat=command)
        _whole(folder / "questions.csv", lambda path: _write_questions(path, found, task))
        _show(found, metric)
        click.echo(
            f"Written to {folder}: report.html (open it in a browser), curves.png, curves.svg, questions.csv, "
            "result.json."
        )


def _model(name: str, pool: np.ndarray) -> Any:
    if name == "linear":
        from askwell.models.linear import LinearModel

        return LinearModel(reference=pool)
    from askwell.models.forest import ForestModel, forest

    return ForestModel(forest(trees=TREES).estimator.set_params(n_jobs=1))  # the runs share the processors


# ---- what is printed and written ----


def _command() -> str:
    """What was typed, for a shell: the options that were given."""
    context = click.get_current_context()
    words = ["askwell", context.command.name or ""]
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            given = context.params[parameter.name or ""]
            for value in given if isinstance(given, tuple) else [given]:
                words += [str(value)] if isinstance(parameter, click.Argument) else [parameter.opts[0], str(value)]
    return shlex.join(words)


def _show(found: Any, metric: str) -> None:
    from askwell.report import terminal_curves

    plain = not (sys.stdout.encoding or "ascii").lower().startswith("utf")
    click.echo(terminal_curves(found.traces, metric=metric, colour=sys.stdout.isatty(), plain=plain))
    click.echo(f"\n{found.table(metric=metric)}\n\n{found.verdict(metric=metric)}\n")


def _write(found: Any, folder: Path, *, title: str, intro: str, metric: str, repeat: str) -> None:
    from askwell.report import html_report, plot_curves

    first, *others = (line.strip() for line in intro.splitlines())
    said = f"{first}\n\n{'; '.join(others)}."

    _whole(folder / "result.json", found.save)
    for name in ("curves.png", "curves.svg"):
        _whole(folder / name, lambda path: plot_curves(found.traces, path, metric=metric, title=title))
    _whole(folder / "report.html", lambda path: html_report(found, path, title=title, intro=said, repeat=repeat))


def _write_questions(path: Path, found: Any, task: Labelled) -> None:
    """What was asked in each run, in order, by the user's ids or else the rows of the file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["score", "seed", "question", "id", "label"])
        for trace in found.traces:
            for number, place in enumerate(trace.questions, 1):
                rows.writerow([trace.score, trace.seed, number, task.ids[place], task.y[place]])


def _whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let something write a file, and put it in its place when it is whole."""
    part = path.with_name(f"part-{path.name}")
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


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
    """Leave no folder behind that was made for a simulation which was refused before its first step."""
    new = not folder.exists()
    try:
        yield
    except ValueError:
        if new and folder.is_dir() and not any(folder.rglob("*.jsonl")):
            shutil.rmtree(folder)
        raise


@contextmanager
def _plainly(*, goes_on: str) -> Iterator[None]:
    """Refusals as one message and exit code 2, Ctrl-C as one line and exit code 130, warnings as notes."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: click.echo(f"Note: {message}", err=True)
            yield
    except BrokenPipeError:  # nobody reads on; click knows what to do
        raise
    except (ValueError, ImportError, OSError) as fault:
        click.echo(f"Error: {_as_options(str(fault))}", err=True)
        raise SystemExit(2) from None
    except RuntimeError as fault:  # a run broke: what it was doing belongs to the message
        click.echo("\n".join([f"Error: {fault}", *getattr(fault, "__notes__", [])]), err=True)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        click.echo(f"\nStopped. {goes_on}", err=True)
        raise SystemExit(130) from None


def _as_options(text: str) -> str:
    """A message that speaks of arguments (encoding='cp1252') as one that speaks of options (--encoding cp1252)."""
    options = {parameter.name or "": parameter.opts[0] for parameter in click.get_current_context().command.params}
    called = re.compile(rf"\b({'|'.join(options)})=([\w.]+|'[^']*')")
    return called.sub(lambda found: f"{options[found[1]]} {found[2]}", text)
