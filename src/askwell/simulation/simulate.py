"""Would active learning have helped? A learner against labels that are known, for several scores and seeds."""

import builtins
import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from askwell.acquisition import ScoreName
from askwell.arrays import threads
from askwell.engines import Local, Serial, as_engine
from askwell.progress import track
from askwell.selection import BatchName
from askwell.simulation import curves
from askwell.simulation.curves import Curve, Difference, Standing, Trace
from askwell.simulation.runs import Job, Step, read_steps, run_file, run_one, trace_of
from askwell.simulation.setup import Setup, check_setup
from askwell.workers import Fault, work

__all__ = ["Simulation", "simulate"]

AnyScore = ScoreName | Callable[..., Any]
Progress = Callable[[int, int, dict[str, Any]], None]
FREE = ("scores", "seeds")  # settings that may change from call to call in one folder: a run does not depend on them


@final
@dataclass(frozen=True)
class Simulation:
    """What a simulation found: one trace per score and seed, and what it was made with."""

    traces: tuple[Trace, ...]
    settings: Mapping[str, Any]
    folder: Path | None = None

    def curve(self, score: str, *, metric: str = "accuracy") -> Curve:
        """Mean and standard error at each number of labels: `askwell.simulation.curves.curve`."""
        return curves.curve(self.traces, score, metric=metric)

    def paired(self, a: str, b: str, *, metric: str = "accuracy", of: Literal["area", "final"] = "area") -> Difference:
        """Score `a` minus score `b`, paired by seed: `askwell.simulation.curves.paired`."""
        return curves.paired(self.traces, a, b, metric=metric, of=of)

    def summary(self, *, metric: str = "accuracy") -> list[Standing]:
        """One row per score: `askwell.simulation.curves.summary`."""
        return curves.summary(self.traces, metric=metric)

    def verdict(self, *, metric: str = "accuracy") -> str:
        """What can be said, in plain sentences: `askwell.simulation.curves.verdict`."""
        return curves.verdict(self.traces, metric=metric)

    def table(self, *, metric: str = "accuracy") -> str:
        """The summary as plain text."""
        rows = self.summary(metric=metric)
        head = ["score", "runs", f"mean {metric}", f"final {metric}", f"labels to {rows[0].level:.3f}"]
        cells = [
            [
                *(row.score, str(row.runs)),
                *(f"{row.area:.3f} ± {row.area_error:.3f}", f"{row.final:.3f} ± {row.final_error:.3f}"),
                "not reached" if row.labels_to_level is None else f"{row.labels_to_level:g}",
            ]
            for row in rows
        ]
        widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [head, *cells]
        ]
        return "\n".join(line.rstrip() for line in lines)

    def save(self, path: str | Path) -> Path:
        """Write everything to one JSON file."""
        file = Path(path)
        _write(file, {"askwell": "simulation", "settings": self.settings, "traces": [asdict(t) for t in self.traces]})
        return file

    @staticmethod
    def load(path: str | Path) -> "Simulation":
        """Read what `save` wrote."""
        try:
            kept = json.loads(Path(path).read_text("utf-8"))
            traces = tuple(
                Trace(
                    trace["score"],
                    trace["seed"],
                    tuple(trace["labels"]),
                    {name: tuple(values) for name, values in trace["metrics"].items()},
                    tuple(trace["questions"]),
                    trace["seconds"],
                )
                for trace in kept["traces"]
            )
            return Simulation(traces, kept["settings"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"path must be a file that Simulation.save wrote, but {str(path)!r} is not: {error}."
            ) from None


def simulate(
    model: Any,
    x: Any,
    y: Any,
    *,
    test: tuple[Any, Any],
    targets: Any = None,
    scores: Iterable[AnyScore] | Mapping[str, AnyScore] = (
        "random",
        "margin",
        "epig",
        "auto",
    ),
    initial: int | Mapping[Any, int] | Callable[[np.random.Generator], Iterable[int]] = 2,
    budget: int = 100,
    seeds: Iterable[int] = range(5),
    size: int = 1,
    classes: Sequence[Any] | None = None,
    batch: BatchName | Callable[..., Any] | None = None,
    processes: int | None = None,
    engine: Any = None,
    folder: str | Path | None = None,
    ids: Iterable[Any] | None = None,
    progress: Progress | Literal[False] | None = None,
) -> Simulation:
    """Let a learner ask for labels that are known, once for each score and seed, and see how fast it gets good.

    `x`, `y` are the pool and its labels, `test` the test set: accuracy, balanced accuracy and log loss of the
    mean prediction after every step. `model` is what `askwell.as_model` takes, or a function seed -> model;
    `targets`, `batch` and `classes` are as in `Learner` (`classes`: those of `y`, if not given). `scores` are names,
    functions, or a mapping name -> either. All scores of a seed begin with the same labels: `initial` of each class (or
    as many as there are), a mapping class -> number, or the positions that a function gives for an rng. `budget` counts
    them; it ends where the pool does. `size` labels are asked per step.

    Runs are spread over `processes`, as many as there are processors by default, with one thread each; 1 is this one.
    Or over an `engine`, such as "ray:host:6379" (see `askwell.engines`): its machines must share `folder`. Finished
    steps are kept in `folder`: calling again with the same settings goes on there and gives the same traces, bit for
    bit; scores and seeds may be added. `progress` is called as progress(steps done, steps in all, the latest run so far
    as a dict), None shows a bar on a terminal, False nothing.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from askwell.seeds import rng_for
    >>> x = rng_for(0, 0, "example").normal(size=(300, 2))
    >>> y = np.where(x[:, 0] > 0, "right", "left")
    >>> found = simulate(
    ...     RandomForestClassifier(20), x[:200], y[:200], test=(x[200:], y[200:]),
    ...     scores=["random", "bald"], budget=8, seeds=range(2), processes=1,
    ... )
    >>> found.traces[0].labels, len(found.traces)
    ((4, 5, 6, 7, 8), 4)
    """
    setup = check_setup(
        model, x, y,
        test=test, targets=targets, scores=scores, initial=initial, budget=budget, seeds=seeds, size=size,
        classes=classes, batch=batch, ids=ids,
    )  # fmt: skip
    jobs = [(score, seed) for seed in setup.starts for score in setup.scores]  # in turn: all scores advance
    where, place = _where(processes, engine, folder), _opened(folder, setup.settings)
    past = {job: read_steps(run_file(place, job)) for job in jobs}
    open_jobs = [job for job in jobs if len(past[job]) < setup.steps(job[1])]
    try:
        with closing(_Watch(setup, past, progress)) as watch:
            faults = where(
                partial(run_one, setup, place),
                open_jobs,
                told=lambda job, step: watch.told(open_jobs[job], step),
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped. {_kept(place)}") from None
    _raise(dict(zip(open_jobs, faults, strict=True)), past, place)
    found = {
        (score, seed): read_steps(run_file(place, (score, seed))) for score in setup.scores for seed in setup.starts
    }
    if folder is None:
        shutil.rmtree(place)
    _warn(found)
    traces = tuple(trace_of(job, steps) for job, steps in found.items())
    return Simulation(traces, setup.settings, None if folder is None else place)


@final
class _Watch:
    """Who looks on while the runs go: a bar on a terminal, a function, or nobody."""

    def __init__(
        self, setup: Setup, past: Mapping[Job, list[Step]], progress: Progress | Literal[False] | None
    ) -> None:
        self._steps, self._progress = past, progress if callable(progress) else None
        self._done, self._total = 0, sum(setup.steps(seed) for _, seed in past)
        self._bar = track(range(self._total), label="simulating") if progress is None else iter(())
        for job, steps in past.items():
            if steps:
                self._show(job, len(steps))

    def told(self, job: Job, step: Step) -> None:
        """A run has made a step."""
        self._steps[job].append(step)
        self._show(job, 1)

    def close(self) -> None:
        """Take the bar away."""
        if isinstance(self._bar, Generator):
            self._bar.close()

    def _show(self, job: Job, steps: int) -> None:
        self._done += steps
        for _ in range(steps):
            next(self._bar, None)
        if self._progress is not None:
            self._progress(self._done, self._total, asdict(trace_of(job, self._steps[job])))


def _where(processes: int | None, engine: Any, folder: str | Path | None) -> Callable[..., list[Fault | None]]:
    """What runs the trials."""
    if engine is not None:
        if processes is not None:
            raise ValueError(
                f"give processes or engine, not both. {processes} processes are engine='local:{processes}'."
            )
        found = as_engine(engine)
        if folder is None and not isinstance(found, Serial | Local):
            raise ValueError("an engine on other machines needs a folder that they share, for the finished steps.")
        return found.run
    if processes is not None and (isinstance(processes, bool) or not isinstance(processes, int) or processes < 1):
        raise ValueError(
            f"processes must be a whole number from 1, or None for all processors, but it is {processes!r}."
        )
    return partial(work, processes=threads() if processes is None else processes)


# ---- what is kept --------------------------------------------------------------------------------------------------


def _opened(folder: str | Path | None, settings: Mapping[str, Any]) -> Path:
    """The folder, with the settings in it; one that was begun with others is refused."""
    try:
        place = Path(tempfile.mkdtemp(prefix="askwell-simulation-") if folder is None else folder)
        place.mkdir(parents=True, exist_ok=True)
        file = place / "settings.json"
        begun = json.loads(file.read_text("utf-8")) if file.exists() else None
        now = json.loads(json.dumps(settings))
        if begun is not None:
            _check_same(begun, now, place)
        if begun != now:
            _write(file, now)
    except OSError as error:
        raise ValueError(f"folder must be a folder to write to, but {str(folder)!r} is not: {error}.") from None
    return place


def _check_same(begun: Mapping[str, Any], now: Mapping[str, Any], place: Path) -> None:
    other = [name for name in now if name not in FREE and begun.get(name) != now[name]]
    if other:
        each = "; ".join(f"{name} was {begun.get(name)!r}, and now it is {now[name]!r}" for name in other)
        raise ValueError(
            f"folder {str(place)!r} holds a simulation with other {' and '.join(other)}: {each}. Give another folder, "
            "or the same settings to go on."
        )


def _write(file: Path, content: Any) -> None:
    """All of it or nothing."""
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    new.write_text(json.dumps(content, indent=1), "utf-8")
    new.replace(file)


# ---- what went wrong -----------------------------------------------------------------------------------------------


def _kept(place: Path) -> str:
    return f"Finished steps are saved: call simulate again with the same settings and folder={str(place)!r} to resume."


def _raise(faults: Mapping[Job, Fault | None], steps: Mapping[Job, Sequence[Step]], place: Path) -> None:
    """An error that tells of every run that failed, if one did."""
    failed = {job: fault for job, fault in faults.items() if fault is not None}
    if not failed:
        return
    lines = [
        f"{score}, seed {seed}, after {steps[score, seed][-1]['labels'] if steps[score, seed] else 0} labels: "
        f"{fault.kind}: {fault.text}"
        for (score, seed), fault in failed.items()
    ]
    kind = ValueError if all(fault.kind == "ValueError" for fault in failed.values()) else RuntimeError
    error = kind(f"{len(failed)} of {len(steps)} runs failed. {_kept(place)}\n" + "\n".join(lines))
    error.add_note(next(iter(failed.values())).trace)
    raise error


def _warn(found: Mapping[Job, Sequence[Step]]) -> None:
    """Pass on what runs were warned of: each once, however often, numbers apart."""
    heard: dict[tuple[str, str], list[str]] = {}
    for (score, seed), steps in found.items():
        for step in steps:
            for kind, text in step.get("warnings", ()):
                where = f"{score}, seed {seed}, {step['labels']} labels"
                heard.setdefault((kind, re.sub(r"\d+(\.\d+)?", "0", text)), []).append(f"{text} [{where}")
    for (kind, _), texts in heard.items():
        category = getattr(builtins, kind, UserWarning)
        more = "" if len(texts) == 1 else f", and {len(texts) - 1} more like it"
        warnings.warn(f"{texts[0]}{more}]", category, stacklevel=3)
