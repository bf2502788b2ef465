"""`askwell reproduce`: the paper's experiments."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from askwell.cli.options import command, engine, one_message, path_option, whole_number

__all__ = ["reproduce"]

FOLDER = "experiments"  # of a checkout: no part of the package, which imports nothing from it
EVERY = 60  # seconds between two lines of progress in a file


@click.command()
@click.argument("figure", required=False)
@click.option("--quick", is_flag=True, help="A few seeds and labels: takes minutes, to see that it works.")
@click.option("--full", is_flag=True, help="The paper's full protocol; may take very long.")
@whole_number("--seeds", help="Runs per acquisition function.  [default: depends on the figure]")
@whole_number("--processes", default=2, help="Number of parallel runs.")
@engine
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Folder of the original data files.  [default: $ASKWELL_DATA, else downloaded]",
)
@path_option("--out", metavar="FOLDER", folder=True, help="Output folder.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an option of the figure. May be repeated; see --choices.",
)
@click.option("--choices", is_flag=True, help="List the figure's options, the default first, and exit.")
@click.option(
    "--redraw", is_flag=True, help="Redraw the figure and verdict from existing results, without running anything."
)
def reproduce(figure: str | None, **asked: Any) -> None:
    """Run an experiment of the paper, draw its FIGURE and check its claim.

    Without FIGURE, all figures are listed. Without --quick or --full, it runs the protocol of the results in
    experiments/README.md. Finished steps are saved: run the same command to resume. Needs a checkout of the source.
    """
    with one_message(resume=f"Finished steps are saved. To resume: {command()}"):
        experiments = _experiments()
        if figure is None:
            lines = (f"{name:<22} {experiments.figure_named(name).content}" for name in experiments.FIGURES)
            click.echo("\n".join(lines))
            return
        chosen = experiments.figure_named(figure)
        if asked.pop("choices"):
            for name, option in chosen.options.items():
                click.echo(f"{name}={'|'.join(option.values)}  {option.meaning}")
            return
        _run(experiments, chosen, **asked)


def _run(experiments: Any, figure: Any, *, options: tuple[str, ...], redraw: bool, **rest: Any) -> None:
    effort = _effort(quick=rest.pop("quick"), full=rest.pop("full"))
    terms = {"effort": effort, "options": _pairs(options), "out": rest.pop("out") or experiments.OUT}
    if redraw:
        outcome = experiments.redraw(figure, **terms)
    else:
        with _progress(figure.name) as report:
            outcome = experiments.reproduce(figure, told=report, **terms, **rest)
    click.echo(outcome.verdict)
    click.echo(f"\nWrote {', '.join(str(path) for path in (outcome.table, *outcome.pictures))}.")


def _effort(*, quick: bool, full: bool) -> str:
    if quick and full:
        raise ValueError("--quick and --full exclude each other. Give one, or neither.")
    return "quick" if quick else "full" if full else "standard"


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str], None]]:
    """What to call with each line of progress: shown in one line that changes or, in a file, once a minute."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{name}: starting") as status:
            yield lambda line: status.update(f"{name}: {line}")
        return
    last = time.monotonic()

    def report(line: str) -> None:
        nonlocal last
        if time.monotonic() >= last + EVERY:
            last = time.monotonic()
            click.echo(f"{name}: {line}", err=True)

    yield report


def _pairs(options: tuple[str, ...]) -> dict[str, str]:
    for option in options:
        if "=" not in option:
            raise ValueError(f"--option must be NAME=VALUE, but it is {option!r}.")
    return dict(option.split("=", 1) for option in options)


def _experiments() -> Any:
    """What runs the experiments: of the checkout that askwell is installed from, or of the folder we are in."""
    for folder in (Path(__file__).parents[3], Path.cwd()):
        if (folder / FOLDER / "running.py").is_file():
            sys.path.insert(0, str(folder))
            return import_module(f"{FOLDER}.running")
    raise ValueError(
        "the experiments are part of askwell's source, and there is no checkout here. Clone the repository and run "
        "this command in its folder."
    )
