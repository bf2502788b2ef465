"""Would active learning have helped? A learner against labels that are known, for several scores and seeds.

Each step of a run is a line in a file, written by the process that makes it and told to the one that waits. A run that
was killed goes on after its last whole line, with the questions that it would have asked anyway, because a learner's
randomness depends on nothing but the seed and the labels.
"""

import base64
import builtins
import json
import math
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, final
from urllib.parse import quote

import numpy as np

from askwell import notebook
from askwell.acquisition import ScoreName
from askwell.arrays import spans, take, threads
from askwell.checks import count, write_file
from askwell.compiling import steady
from askwell.engines import Local, Serial, as_engine
from askwell.learner import Learner
from askwell.models import as_model
from askwell.models.inputs import count as rows
from askwell.progress import track
from askwell.selection import BatchName
from askwell.simulation import curves
from askwell.simulation.curves import Curve, Difference, Standing, Trace
from askwell.simulation.design import Design, design
from askwell.simulation.metrics import Prediction, measured
from askwell.workers import Fault, work

__all__ = [
    "Job",
    "Simulation",
    "Step",
    "read_steps",
    "run_file",
    "run_one",
    "simulate",
    "trace_of",
]

Job = tuple[str, int]
"""(name of the run, seed); a run is named by its score, and by model and size where there are several."""

Step = dict[str, Any]
"""What one step found: labels (how many are known), asked (positions), metrics, seconds, perhaps warnings and items."""

AnyScore = ScoreName | Callable[..., Any]
Progress = Callable[[int, int, dict[str, Any]], None]
TEST_ROWS = 4096  # predicted at a time
UNTOLD = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # as Python has it by default
FREE = ("scores", "seeds")  # settings that may change from call to call in one folder: a run does not depend on them


@final
@dataclass(frozen=True)
class Simulation:
    """What a simulation found: one trace per score and seed, and what it was made with."""

    traces: tuple[Trace, ...]
    settings: Mapping[str, Any]
    folder: Path | None = None

    def curve(self, score: str, *, metric: str | None = None) -> Curve:
        """Mean and standard error at each number of labels: `askwell.simulation.curves.curve`."""
        return curves.curve(self.traces, score, metric=metric)

    def paired(self, a: str, b: str, *, metric: str | None = None, of: Literal["area", "final"] = "area") -> Difference:
        """Score `a` minus score `b`, paired by seed: `askwell.simulation.curves.paired`."""
        return curves.paired(self.traces, a, b, metric=metric, of=of)

    def summary(self, *, metric: str | None = None) -> list[Standing]:
        """One row per score: `askwell.simulation.curves.summary`."""
        return curves.summary(self.traces, metric=metric)

    def verdict(self, *, metric: str | None = None) -> str:
        """What can be said, in plain sentences: `askwell.simulation.curves.verdict`."""
        return curves.verdict(self.traces, metric=metric)

    def table(self, *, metric: str | None = None) -> str:
        """The summary as plain text."""
        metric = curves.main_metric(self.traces, metric=metric)
        rows, shown = self.summary(metric=metric), partial(curves.shown_value, metric=metric)
        head = ["score", "runs", f"mean {metric}", f"final {metric}", f"labels to {shown(rows[0].level)}"]
        cells = [
            [
                *(row.score, str(row.runs)),
                *(f"{shown(a)} ± {shown(b)}" for a, b in ((row.area, row.area_error), (row.final, row.final_error))),
                "not reached" if row.labels_to_level is None else f"{row.labels_to_level:g}",
            ]
            for row in rows
        ]
        widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [head, *cells]
        ]
        return "\n".join(line.rstrip() for line in lines)

    def to_frame(self) -> Any:
        """A data frame with a row for each run and evaluation: score, seed, labels, a column per metric."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas, which is not installed. Try: pip install pandas") from None
        return pandas.DataFrame(
            {
                "score": trace.score,
                "seed": trace.seed,
                "labels": labels,
                **{name: values[i] for name, values in trace.metrics.items()},
                **({"cost": trace.cost[i]} if trace.cost else {}),
            }
            for trace in self.traces
            for i, labels in enumerate(trace.labels)
        )

    def plot(self, path: str | Path | None = None, *, metric: str | None = None, title: str = "") -> Any:
        """The learning curves as a Matplotlib figure, also saved where a `path` is given (PNG, SVG or PDF)."""
        from askwell.report.figures import plot_curves

        return plot_curves(self.traces, path, metric=metric, title=title)

    def __repr__(self) -> str:
        scores = ", ".join(dict.fromkeys(trace.score for trace in self.traces))
        return f"Simulation({len(self.traces)} runs: {scores}; .verdict(), .table(), .plot(), .to_frame())"

    def _repr_html_(self) -> str:
        if not self.traces:
            return notebook.paragraph(repr(self))
        lines = {row.score: self.curve(row.score) for row in self.summary()}
        drawn = {score: (line.labels, line.mean) for score, line in lines.items()}
        head, *rows = (re.split(r" {2,}", line) for line in self.table().splitlines())
        return (
            notebook.curves(drawn, x="labels", y=head[2].removeprefix("mean "))
            + notebook.table(head, rows)
            + notebook.paragraph(self.verdict())
        )

    def save(self, path: str | Path) -> Path:
        """Write everything but kept predictions to one JSON file."""
        file = Path(path)
        content = {
            "askwell": "simulation",
            "settings": self.settings,
            "traces": [_as_dict(trace) for trace in self.traces],
        }
        write_file(file, json.dumps(content, indent=1))
        return file

    @staticmethod
    def load(path: str | Path) -> "Simulation":
        """Read what `save` wrote."""
        try:
            saved = json.loads(Path(path).read_text("utf-8"))
            traces = tuple(
                Trace(
                    trace["score"],
                    trace["seed"],
                    tuple(trace["labels"]),
                    {name: tuple(values) for name, values in trace["metrics"].items()},
                    tuple(trace["questions"]),
                    trace["seconds"],
                    tuple(trace.get("cost", ())),
                )
                for trace in saved["traces"]
            )
            return Simulation(traces, saved["settings"])
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
    scores: Iterable[AnyScore] | Mapping[str, AnyScore] | None = None,
    initial: int | Mapping[Any, int] | Callable[[np.random.Generator], Iterable[int]] | None = None,
    budget: int = 100,
    seeds: Iterable[int] = range(5),
    size: int | Iterable[int] = 1,
    classes: Sequence[Any] | None = None,
    batch: BatchName | Callable[..., Any] | None = None,
    processes: int | None = None,
    engine: Any = None,
    folder: str | Path | None = None,
    ids: Iterable[Any] | None = None,
    progress: Progress | Literal[False] | None = None,
    metrics: Iterable[str] | Mapping[str, str | Callable[..., float]] | None = None,
    cost: Any = None,
    keep_predictions: bool = False,
) -> Simulation:
    """Let a learner ask for labels that are known, once for each score and seed, and see how fast it gets good.

    `x`, `y` are the pool and its labels, `test` the test set, predicted after every step. `model` is what
    `askwell.as_model` takes, a function seed -> model, or a mapping name -> either, to compare several; if it predicts
    numbers, `y` are numbers. `targets`, `batch` and `classes` are as in `Learner` (`classes`: those of `y`, if not
    given). `scores` are names, functions, or a mapping name -> either; by default random, margin, epig and auto, of
    numbers random, variance and epig. All scores of a seed begin with the same labels: `initial` of each class (or as
    many as there are; 2 by default), of numbers so many in all (10), a mapping class -> number, or the positions that a
    function gives for an rng. `budget` counts them; it ends where the pool does. `size` labels are asked per step; of
    several sizes each is run.

    `metrics` are names (accuracy, balanced_accuracy, auc, f1, log_loss, brier; of numbers rmse, mae, nll, r2), or a
    mapping name -> function of labels and predicted labels, as scikit-learn's are (with `probs=` if it takes that).
    Less is better where the name ends in error, loss or deviance. The first is the one of the verdict. By default they
    are accuracy, balanced_accuracy and log_loss, of numbers rmse, mae and nll. `cost [n]` is what the label of an item
    costs: questions are ranked by score per cost, and the traces say what has been spent. With `keep_predictions` the
    traces have what was predicted of the test set after each step.

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
    plan = design(
        model, x, y,
        test=test, targets=targets, scores=scores, initial=initial, budget=budget, seeds=seeds, size=size,
        classes=classes, batch=batch, ids=ids, metrics=metrics, cost=cost, keep_predictions=keep_predictions,
    )  # fmt: skip
    jobs = [(score, seed) for seed in plan.starts for score in plan.scores]  # in turn: all scores advance
    work_on, runs = _where(processes, engine, folder), _opened(folder, plan.settings)
    steps = {job: read_steps(run_file(runs, job)) for job in jobs}  # the watch adds what comes in
    open_jobs = [job for job in jobs if len(steps[job]) < plan.steps(job)]
    try:
        with closing(_Watch(plan, steps, progress)) as watch:
            faults = work_on(
                partial(run_one, plan, runs),
                open_jobs,
                told=lambda job, step: watch.told(open_jobs[job], step),
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped. {_resume(runs)}") from None
    _raise(dict(zip(open_jobs, faults, strict=True)), steps, runs)
    if folder is None:
        shutil.rmtree(runs)
    in_order = {(score, seed): steps[score, seed] for score in plan.scores for seed in plan.starts}
    _warn(in_order)
    traces = tuple(trace_of(job, done) for job, done in in_order.items())
    return Simulation(traces, plan.settings, None if folder is None else runs)


@final
class _Watch:
    """Who looks on while the runs go: a bar on a terminal, a function, or nobody."""

    def __init__(
        self, plan: Design, past: Mapping[Job, list[Step]], progress: Progress | Literal[False] | None
    ) -> None:
        self._steps, self._progress = past, progress if callable(progress) else None
        self._done, self._total = 0, sum(plan.steps(job) for job in past)
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
            self._progress(self._done, self._total, _as_dict(trace_of(job, self._steps[job])))


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
    if processes is not None:
        count("processes", processes, also=", or None for all processors")
    return partial(work, processes=threads() if processes is None else processes)


# ---- one run: a learner asks, known labels answer --------------------------------------------------------------------


def run_file(folder: Path, job: Job) -> Path:
    """Where a run is written.

    >>> run_file(Path("runs"), ("my/score", 3)).name
    'my%2Fscore-3.jsonl'
    """
    score, seed = job
    return folder / f"{quote(score, safe='')}-{seed}.jsonl"


def run_one(plan: Design, folder: Path, job: Job, tell: Callable[[Step], None]) -> None:
    """Do the steps of a run that have not been done yet; write down and tell each."""
    file = run_file(folder, job)
    past = read_steps(file)
    with steady(math.inf):  # the compiled loops from the first question on: a run must not depend on how long they took
        for step in _steps(plan, job, past):
            line = json.dumps(step) + "\n"
            with file.open("ab", buffering=0) as lines:
                lines.write(line.encode())  # one write: a line is there or, at the very end of the file, torn
            tell(step)


def _as_dict(trace: Trace) -> dict[str, Any]:
    """What is passed on of a trace: all but the predictions, and the cost where there is one."""
    known = asdict(replace(trace, predictions=None))
    return {name: value for name, value in known.items() if name != "predictions" and (name != "cost" or value)}


def trace_of(job: Job, steps: Iterable[Step]) -> Trace:
    """The steps of a run as a trace."""
    steps = list(steps)
    return Trace(
        *job,
        labels=tuple(step["labels"] for step in steps),
        metrics={name: tuple(step["metrics"][name] for step in steps) for name in steps[0]["metrics"]},
        questions=tuple(position for step in steps for position in step["asked"]),
        seconds=sum(step["seconds"] for step in steps),
        cost=tuple(step["cost"] for step in steps if "cost" in step),
        predictions=np.stack([_array(step["predicted"]) for step in steps]) if "predicted" in steps[0] else None,
    )


def read_steps(file: Path) -> list[Step]:
    """The steps that a file holds; a last line that was not finished is taken off the file."""
    if not file.exists():
        return []
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        with file.open("r+b") as lines:
            lines.truncate(len(whole))
    steps: list[Step] = []
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        step, known = _step(line), steps[-1]["labels"] if steps else 0
        if step is None or step["labels"] > known + len(step["asked"]):
            raise ValueError(
                f"{file.name} must hold the steps of a run, but its line {number} is none. Remove the file to do this "
                "run again."
            )
        if step["labels"] > known:  # or it was written twice, by a worker that outlived its parent for a moment
            steps.append(step)
    return steps


def _step(line: bytes) -> Step | None:
    """The step that a line holds, if it does."""
    try:
        step = json.loads(line)
        whole = isinstance(step["asked"], list) and step["labels"] >= 0 and step["seconds"] >= 0
        return step if whole and isinstance(step["metrics"], dict) and step["metrics"] else None
    except (ValueError, KeyError, TypeError):
        return None


def _steps(plan: Design, job: Job, past: Sequence[Step]) -> Iterator[Step]:
    """The steps after those that are past."""
    learner, known = _learner(plan, job, past), past[-1]["labels"] if past else 0
    spent = past[-1].get("cost", 0.0) if past else 0.0
    start = list(plan.starts[job[1]])
    if past and start and past[0]["asked"] != start:
        raise ValueError("the run was begun with other initial labels. Give another folder, or the same initial=.")
    while known < plan.limit:
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            first = known == 0 and start
            asked = start if first else learner.ask(min(plan.sizes[job[0]], plan.limit - known))
            learner.tell(asked, [plan.labels[position] for position in asked])
            known += len(asked)
            found = _predicted(learner, plan)
            values = measured(plan.metrics, plan.test[1], found, classes=plan.classes or ())
        step = {"labels": known, "asked": asked, "metrics": values, "seconds": time.perf_counter() - began}
        if plan.cost is not None:
            spent += float(plan.cost[asked].sum())
            step["cost"] = spent
        if plan.keep_predictions:
            step["predicted"] = _text(found)
        if plan.ids is not None:
            step["items"] = [plan.ids[position] for position in asked]
        if told := _told(heard):
            step["warnings"] = told
        yield step


def _learner(plan: Design, job: Job, past: Sequence[Step]) -> Learner:
    """A learner that has been told what is past: what it asks follows from its labels alone."""
    name, seed = job
    learner = Learner(
        as_model(plan.models[name](seed)),
        plan.pool,
        targets=plan.targets,
        score=plan.scores[name],
        classes=plan.classes,
        seed=seed,
        batch=plan.batch,
        cost=plan.cost,
        evaluation=0,  # the test set says how good the model is
    )
    asked = [position for step in past for position in step["asked"]]
    learner.tell(asked, [plan.labels[position] for position in asked])
    return learner


def _predicted(learner: Learner, plan: Design) -> Prediction:
    """Of the test set, some inputs at a time: with draws, all of them may be too many."""
    x = plan.test[0]
    parts = [take(x, range(span.start, span.stop)) for span in spans(rows(x), TEST_ROWS)]
    if plan.classes is not None:
        return Prediction(np.concatenate([learner.predict_proba(part) for part in parts]).astype(np.float64))
    means, stds = zip(*(learner.predict(part, return_std=True) for part in parts), strict=True)
    return Prediction(mean=np.concatenate(means), variance=np.concatenate(stds) ** 2)


def _text(found: Prediction) -> dict[str, Any]:
    """Predictions as they are written down: p(y|x) `[n, c]`, or mean and variance `[n, 2]`, in float32."""
    array = np.stack([found.mean, found.variance], axis=1) if found.probs is None else found.probs  # type: ignore[list-item]
    return {"shape": array.shape, "float32": base64.b64encode(array.astype("<f4").tobytes()).decode("ascii")}


def _array(text: Mapping[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text["float32"]), "<f4").reshape(text["shape"])


def _told(heard: Iterable[warnings.WarningMessage]) -> list[list[str]]:
    """The different warnings worth passing on, as (kind, words)."""
    told = {
        (entry.category.__name__, str(entry.message)): None for entry in heard if not issubclass(entry.category, UNTOLD)
    }
    return [list(pair) for pair in told]


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
            write_file(file, json.dumps(now, indent=1))
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


# ---- what went wrong -----------------------------------------------------------------------------------------------


def _resume(folder: Path) -> str:
    return f"Finished steps are saved: call simulate again with the same settings and folder={str(folder)!r} to resume."


def _raise(faults: Mapping[Job, Fault | None], steps: Mapping[Job, Sequence[Step]], folder: Path) -> None:
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
    error = kind(f"{len(failed)} of {len(steps)} runs failed. {_resume(folder)}\n" + "\n".join(lines))
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
