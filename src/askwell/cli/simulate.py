"""`askwell simulate` and `askwell demo`: would active learning help? Replayed on data with known labels."""

import csv
import difflib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from askwell.acquisition import MEANINGS
from askwell.checks import write_file
from askwell.cli.options import (
    command,
    delimiter,
    encoding,
    engine,
    one_message,
    path_argument,
    path_option,
    processes,
    separator,
    split_names,
    whole_number,
)
from askwell.data import LabelledTable, labelled
from askwell.report import terminal_curves, terminal_style
from askwell.seeds import rng_for

if TYPE_CHECKING:
    from askwell.acquisition import ScoreName

__all__ = ["demo", "simulate"]

METRICS = {False: ("accuracy", "balanced_accuracy", "log_loss"), True: ("rmse", "mae", "nll")}
SCORES = {False: "random,margin,epig,auto", True: "random,variance,epig"}  # whether labels are numbers -> by default
STEPS = "steps"  # in the folder of a simulation: finished steps, to resume from


# ---- demo ----


@click.command()
@whole_number("--seeds", default=5, help="Runs per acquisition function.")
@whole_number("--budget", default=60, least=7, help="Labels per run, including the six initial ones.")
@path_option("--out", default="askwell-demo", show_default=True, metavar="FOLDER", help="Output folder.")
@processes
def demo(seeds: int, budget: int, out: Path, processes: int | None) -> None:
    """Show active learning on handwritten digits, in about ten seconds.

    Compares four acquisition functions: random, BALD, EPIG and auto. Nothing is downloaded.
    """
    from askwell.demo import run_demo

    with one_message(resume=f"Finished steps are saved in {out}. To resume: {command()}"):
        run_demo(seeds=range(seeds), budget=budget, folder=_checked(out), processes=processes, echo=click.echo)


# ---- simulate ----


def _meanings(names: Iterable[str]) -> list[str]:
    """What the acquisition functions are, one per line."""
    known = [name for name in names if name in MEANINGS]
    width = max(map(len, known), default=0)
    return [f"  {name:<{width}}  {MEANINGS[name]}" for name in known]


def _names(text: str) -> list[str]:
    """The scores that were named, all of them known and different; checked before anything is read."""
    names = split_names(text) or []
    for name in names:
        if name not in MEANINGS:
            near = difflib.get_close_matches(name.lower(), MEANINGS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"scores must be among {', '.join(MEANINGS)}, but one is {name!r}.{hint}")
    if not names or len({*names}) < len(names):
        raise ValueError(f"scores must be one or more different names separated by commas, but they are {text!r}.")
    return names


@click.command(epilog="\b\n" + "\n".join(["Acquisition functions:", *_meanings(MEANINGS)]))
@path_argument("data")
@click.option("--label", required=True, metavar="COLUMN", help="Label column, without missing values.")
@click.option("--id", metavar="COLUMN", help="Column with unique ids; not a feature.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="A column that is not a feature. May be repeated.")
@path_option(
    "--targets",
    metavar="FILE",
    help="A table of inputs the model will have to predict; no labels needed.  [default: the pool]",
)
@path_option("--test", metavar="FILE", help="A test set with labels.  [default: a random share of DATA]")
@click.option(
    "--test-share",
    type=click.FloatRange(0.01, 0.95),
    metavar="SHARE",
    help="Share of DATA for the test set.  [default: 0.3]",
)
@click.option(
    "--model",
    type=click.Choice(["forest", "linear", "gp"]),
    help="Random forest, Bayesian linear or logistic regression (for text, embeddings and other wide tables), or a "
    "Gaussian process (two classes, or numbers).  [default: linear if there are text columns, else forest]",
)
@click.option(
    "--scores",
    metavar="NAMES",
    help="Acquisition functions to compare, separated by commas; see below.  "
    f"[default: {SCORES[False]}; of numbers {SCORES[True]}]",
)
@click.option(
    "--numbers/--classes",
    default=None,
    help="Labels are numbers to predict, or classes.  [default: numbers if many different ones]",
)
@whole_number("--initial", help="Initial labels per class; of numbers in all.  [default: 2; 10]")
@whole_number("--budget", default=100, help="Total number of labels, including the initial ones.")
@whole_number("--size", default=1, help="Batch size: labels per step. Larger is faster and coarser.")
@whole_number("--seeds", default=5, help="Runs per acquisition function, with different initial labels.")
@whole_number("--seed", default=0, least=0, help="The first random seed; also used to draw the test set.")
@click.option(
    "--metric",
    type=click.Choice([*METRICS[False], *METRICS[True]]),
    help="Metric of the table, curve and verdict. Changing it needs no new runs.  [default: accuracy; of numbers rmse]",
)
@processes
@engine
@path_option("--out", metavar="FOLDER", help="Output folder.  [default: DATA's name with -simulation]")
@delimiter
@encoding
def simulate(
    data: Path, out: Path | None, seed: int, seeds: int, metric: str | None, scores: str | None, **options: Any
) -> None:
    """Replay active learning on labelled DATA: would it have helped?

    DATA is a table with known labels: CSV, JSON lines or Parquet. The labels are hidden, then queried one by one with
    each acquisition function, and the model is tested after every label. Writes report.html, curves.png, curves.svg,
    questions.csv (the items queried, in order) and result.json to a folder. If interrupted, run the same command to
    resume.
    """
    from askwell.progress import lines
    from askwell.simulation import simulate as run

    folder = out if out is not None else Path(f"{data.stem}-simulation")
    again = command()
    with one_message(resume=f"Finished steps are saved in {folder}. To resume: {again}"):
        _checked(folder)
        if scores is not None:
            _names(scores)  # before anything is read
        reading = ("label", "id", "drop", "targets", "test", "test_share", "encoding", "numbers")
        task = labelled(
            data,
            **{name: options[name] for name in reading},
            delimiter=separator(options["delimiter"]),
            rng=rng_for(seed, 0, "test rows"),
        )
        click.echo(task.note)
        names = _names(scores or SCORES[task.numbers])
        if metric is not None and metric not in METRICS[task.numbers]:
            raise ValueError(
                f"--metric must be one of {', '.join(METRICS[task.numbers])}, because the labels are "
                f"{'numbers' if task.numbers else 'classes'}, but it is {metric}."
            )
        budget, often = options["budget"], "once" if seeds == 1 else f"{seeds} times"
        click.echo("\n".join(["acquisition functions:", *_meanings(names)]))
        click.echo(
            f"Simulating {min(budget, len(task.y)):,} labels with each of {', '.join(names)}, {often}. "
            f"Finished steps are saved in {folder}: run the same command to resume.\n"
        )
        report = lines(label="simulating", unit="steps")
        with _removed_if_refused(folder):
            result = run(
                _model(options["model"], task),
                task.x,
                task.y,
                test=task.test,
                targets=task.targets,
                scores=cast("list[ScoreName]", names),
                initial=options["initial"],
                budget=budget,
                seeds=range(seed, seed + seeds),
                size=options["size"],
                processes=options["processes"],
                engine=options["engine"],
                folder=folder / STEPS,
                ids=task.ids,
                progress=None if report is None else lambda done, total, _: report(done, total),
            )
        title = f"Would active learning have helped on {data.name}?"
        _write(result, folder, title=title, metric=metric, repeat=again, task=task)
        click.echo(terminal_curves(result.traces, metric=metric, **terminal_style()))
        click.echo(f"\n{result.table(metric=metric)}\n\n{result.verdict(metric=metric)}\n")
        click.echo(
            f"Wrote to {folder}: report.html (open it in a browser), curves.png, curves.svg, questions.csv, "
            "result.json."
        )


def _model(name: str | None, task: LabelledTable) -> Any:
    """The model asked for, else the one that a project would have."""
    from askwell.models import model_named

    chosen = name or ("linear" if task.texts else "forest")
    return model_named(chosen, task.x, alike=task.alike, numbers=task.numbers)


# ---- what is written -----------------------------------------------------------------------------------------------


def _write(result: Any, folder: Path, *, title: str, metric: str | None, repeat: str, task: LabelledTable) -> None:
    from askwell.report import html_report, plot_curves

    first, *others = (line.strip() for line in task.note.splitlines())
    intro = f"{first}\n\n{'; '.join(others)}."
    write_file(folder / "result.json", result.save)
    for name in ("curves.png", "curves.svg"):
        write_file(folder / name, lambda path: plot_curves(result.traces, path, metric=metric, title=title))
    html_report(result, folder / "report.html", title=title, intro=intro, repeat=repeat, ids=task.ids)
    write_file(folder / "questions.csv", lambda path: _write_questions(path, result, task))


def _write_questions(path: Path, result: Any, task: LabelledTable) -> None:
    """What was asked in each run, in order, by the user's ids or else the rows of the file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["score", "seed", "question", "id", "label"])
        for trace in result.traces:
            for number, position in enumerate(trace.questions, 1):
                rows.writerow([trace.score, trace.seed, number, task.ids[position], task.y[position]])


def _checked(path: Path) -> Path:
    """The path of a folder that is new, empty or of an earlier run, and that can be made and written to."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"--out must be a folder, but {str(path)!r} is a file. Choose another.")
    if path.is_dir() and any(path.iterdir()) and not (path / STEPS).is_dir():
        raise ValueError(
            f"--out must be a new folder, an empty one, or that of an earlier run, but {str(path)!r} holds other "
            "files. Choose another."
        )
    absolute = path.absolute()
    above = next(folder for folder in (absolute, *absolute.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=above):
            return path
    except OSError as error:
        raise ValueError(
            f"--out {str(path)!r} cannot be written: {error.strerror} ({above}). Choose another folder."
        ) from None


@contextmanager
def _removed_if_refused(folder: Path) -> Iterator[None]:
    """Leave no folder behind that was made for a simulation which was refused before its first step.

    A folder with another simulation is refused in this command's words.
    """
    new = not folder.exists()
    try:
        yield
    except ValueError as error:
        if "holds a simulation with other" in str(error):
            raise ValueError(str(error).replace("Give another folder", "Name another folder with --out")) from None
        if new and folder.is_dir() and not any(folder.rglob("*.jsonl")):
            shutil.rmtree(folder)
        raise
