"""From a figure to its files: the runs that are still to be done, in parallel, then table, pictures and verdict."""

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.engines import as_engine
from askwell.workers import Tell, work
from experiments.figure import Effort, Figure, Terms
from experiments.results import KEYS, Job, Results, Row, Runs, read_results, write_results

__all__ = ["FIGURES", "Outcome", "figure_named", "redraw", "reproduce"]

FIGURES = {
    "heatmaps": "heatmaps:FIGURE",
    "bald_pool_size": "bald_pool_size:FIGURE",
    "2d_data": "two_d:FIGURE",
    "uci": "uci:FIGURE",
    "uci_nets": "uci:NETS",
    "mnist_standard": "mnist:STANDARD",
    "mnist_ablation": "mnist:ABLATION",
    "mnist_extra_baselines": "mnist:EXTRA_BASELINES",
    "mnist_beyond": "beyond:FIGURE",
    "batches": "batches:FIGURE",
    "example_gp": "example_gp:FIGURE",
    "regression": "regression:FIGURE",
    "tables": "tables:FIGURE",
    "start": "start:FIGURE",
    "features": "features:FIGURE",
    "published": "published:FIGURE",
    "costs": "costs:FIGURE",
    "honest": "honest:FIGURE",
    "label_errors": "label_errors:FIGURE",
}
"""Name -> module and attribute of its `Figure`."""

PACKAGES = ("askwell", "numpy", "scipy", "scikit-learn", "torch")
HERE = Path(__file__).parent
OUT, PAGE = HERE / "results", HERE / "README.md"


@final
@dataclass(frozen=True)
class Outcome:
    """Where the files are, and what became of the claim."""

    table: Path
    pictures: tuple[Path, ...]
    verdict: str


def figure_named(name: str) -> Figure:
    """The figure of that name.

    >>> figure_named("uci").name
    'uci'
    """
    if name not in FIGURES:
        raise ValueError(f"figure must be one of {', '.join(FIGURES)}, but it is {name!r}.")
    module, attribute = FIGURES[name].split(":")
    found: Figure = getattr(import_module(f"experiments.{module}"), attribute)
    return found


def reproduce(
    figure: Figure,
    *,
    effort: Effort = "standard",
    options: Mapping[str, str] | None = None,
    seeds: int | None = None,
    processes: int = 2,
    engine: Any = None,
    data: Path | None = None,
    out: Path = OUT,
    told: Callable[[str], None] | None = None,
) -> Outcome:
    """Do what has not been done yet of a figure's runs, then write its table, pictures and verdict.

    Runs are spread over `processes` of this machine, or over an `engine` (see `askwell.engines`) whose machines share
    `out` and have the checkout and the data. `data` is the folder with the original data files; `out` gets the files,
    and in `runs/` a file per run, from which a run that was stopped goes on. `told` is called with a line of text after
    each step. A run that fails takes no other down; what is wrong with it is said at the end.
    """
    terms = figure.terms(effort, options or {})
    jobs, known = figure.jobs(terms, seeds=seeds), _known(figure, terms, out)
    if not jobs:
        raise ValueError(f"{figure.name} has no runs with the effort {effort!r}. Try another.")
    runs = Runs(out / "runs" / (figure.family or figure.name) / terms.name)
    todo = [job for job in jobs if job not in known]
    count = _Count(figure, terms, todo, processes, told or (lambda line: None))
    with _data_from(data):
        where = partial(work, processes=processes) if engine is None else as_engine(engine).run
        faults = where(partial(_run, figure, terms, runs), todo, told=count.take)
    wrong = [(job, fault) for job, fault in zip(todo, faults, strict=True) if fault is not None]
    if wrong:
        job, fault = wrong[0]
        raise RuntimeError(
            f"{len(wrong)} of {len(jobs)} runs of {figure.name} failed; the first, {', '.join(map(str, job))}: "
            f"{fault.text}\n{fault.trace}"
        )
    others = [job for job in known if job not in {*jobs}]  # of more seeds than were asked for now: they stay
    results = runs.results([*jobs, *others], figure.columns, known=known)
    write_results(results, _table(figure, terms, out))
    return redraw(figure, effort=effort, options=options, out=out)


def _known(figure: Figure, terms: Terms, out: Path) -> dict[Job, Row]:
    """The runs of one step that stand in the figure's table already: they need not be done again."""
    try:
        table = read_results(_table(figure, terms, out))
    except ValueError:
        return {}
    if any(name not in table.columns for name in figure.columns):
        return {}
    rows = zip(*(table[name].tolist() for name in (*KEYS, *figure.columns)), strict=True)
    single = {setting.name for setting in figure.settings if setting.steps.get(terms.effort) == 1}
    return {
        Job(*row[: len(KEYS)]): dict(zip(figure.columns, row[len(KEYS) :], strict=True))
        for row in rows
        if row[0] in single
    }


def redraw(
    figure: Figure, *, effort: Effort = "standard", options: Mapping[str, str] | None = None, out: Path = OUT
) -> Outcome:
    """Pictures and verdict from the table that was kept: in seconds, without running anything."""
    table = _table(figure, figure.terms(effort, options or {}), out)
    results: Results = read_results(table)
    pictures = _drawn(figure.draw(results), table)
    verdict = figure.verdict(results)
    table.with_suffix(".md").write_text(f"{verdict}\n", "utf-8")
    if table == OUT / f"{figure.name}.csv":
        _publish(figure.name, verdict)
    return Outcome(table if table.exists() else table.with_name(f"{table.name}.gz"), tuple(pictures), verdict)


def _drawn(picture: Any, table: Path) -> list[Path]:
    """The files of a picture; the same bytes each time."""
    from matplotlib import rc_context

    paths = [table.with_suffix(f".{kind}") for kind in ("png", "svg")]
    with rc_context({"svg.hashsalt": table.stem}):
        for path in paths:
            picture.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def _publish(name: str, verdict: str) -> None:
    """Put the verdict of a standard run between its marks in the README."""
    start, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
    before, rest = PAGE.read_text("utf-8").split(start)
    PAGE.write_text(f"{before}{start}\n{verdict}\n{end}{rest.split(end)[1]}", "utf-8")


def _run(figure: Figure, terms: Terms, runs: Runs, job: Job, tell: Tell) -> None:
    """One run, in whichever process."""
    header = {
        "figure": figure.family or figure.name,
        **job._asdict(),
        "effort": terms.effort,
        "options": dict(terms.options),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
    }
    past = runs.past(job, header)
    tell({"done": len(past), "seconds": None})
    for row in figure.run(job, terms, past):
        runs.append(job, row)
        tell({"done": 1, "seconds": row.get("seconds", 0.0)})


@final
class _Count:
    """How far everything is, and for how long it will go on."""

    def __init__(
        self, figure: Figure, terms: Terms, jobs: Sequence[Job], processes: int, told: Callable[[str], None]
    ) -> None:
        self._jobs, self._processes, self._told = jobs, processes, told
        self._left = {job: figure.steps(job, terms) for job in jobs}
        self._all = sum(self._left.values())
        self._seen: dict[tuple[str, str], list[float]] = defaultdict(list)  # seconds per step of a setting's score

    def take(self, place: int, message: Mapping[str, Any]) -> None:
        """Count the steps that a message is about."""
        job = self._jobs[place]
        self._left[job] = max(0, self._left[job] - message["done"])
        if message["seconds"] is None:
            return
        self._seen[job[:2]].append(float(message["seconds"]))
        left = sum(self._left.values())
        self._told(f"{self._all - left:,} of {self._all:,} steps, {_time(self.seconds_left())} left; now {_name(job)}")

    def seconds_left(self) -> float:
        """Steps left times the median of the last of their kind (one may have been held up), or of all kinds before."""
        recent = {kind: float(np.median(seconds[-50:])) for kind, seconds in self._seen.items()}
        usual = float(np.mean(list(recent.values())))
        total = sum(steps * recent.get(job[:2], usual) for job, steps in self._left.items())
        return total / max(1, min(self._processes, sum(steps > 0 for steps in self._left.values())))


def _table(figure: Figure, terms: Terms, out: Path) -> Path:
    """The standard run has the figure's name; others say what was different."""
    return out / f"{figure.name if terms == Terms() else f'{figure.name}-{terms.name}'}.csv"


@contextlib.contextmanager
def _data_from(folder: Path | None) -> Iterator[None]:
    """Let the workers know where the data are."""
    before = os.environ.get("ASKWELL_DATA")
    if folder is not None:
        os.environ["ASKWELL_DATA"] = str(folder)
    try:
        yield
    finally:
        if folder is not None and before is None:
            del os.environ["ASKWELL_DATA"]
        elif before is not None:
            os.environ["ASKWELL_DATA"] = before


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _time(seconds: float) -> str:
    """As people say it.

    >>> _time(45), _time(600), _time(9000)
    ('45 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _name(job: Job) -> str:
    return f"{job.setting}, {job.score}, seed {job.seed}"
