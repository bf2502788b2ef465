"""One simulated run: a learner asks, known labels answer, and each step is a line in a file.

The file is the only thing that is kept. A run that was killed goes on after its last whole line, with the questions
that it would have asked anyway, because a learner's randomness depends on nothing but the seed and what was told.
"""

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from askwell.arrays import spans, take
from askwell.compiling import steady
from askwell.learner import Learner
from askwell.models import as_model
from askwell.models.inputs import count
from askwell.simulation.curves import Trace
from askwell.simulation.setup import Setup

__all__ = ["METRICS", "Job", "Step", "metrics", "read_steps", "run_file", "run_one", "trace_of"]

Job = tuple[str, int]
"""(score, seed)."""

Step = dict[str, Any]
"""What one step found: labels (how many are known), asked (positions), metrics, seconds, perhaps warnings and items."""

METRICS = ("accuracy", "balanced_accuracy", "log_loss")
LEAST = 1e-12  # probability that a log loss believes in
TEST_ROWS = 4096  # predicted at a time
UNTOLD = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # as Python has it by default


def run_file(folder: Path, job: Job) -> Path:
    """Where a run is written.

    >>> run_file(Path("runs"), ("my/score", 3)).name
    'my%2Fscore-3.jsonl'
    """
    score, seed = job
    return folder / f"{quote(score, safe='')}-{seed}.jsonl"


def run_one(setup: Setup, folder: Path, job: Job, tell: Callable[[Step], None]) -> None:
    """Do the steps of a run that have not been done yet; write down and tell each."""
    file = run_file(folder, job)
    past = read_steps(file)
    with steady(math.inf):  # the compiled loops from the first question on: a run must not depend on how long they took
        for step in _steps(setup, job, past):
            line = json.dumps(step) + "\n"
            with file.open("ab", buffering=0) as lines:
                lines.write(line.encode())  # one write: a line is there or, at the very end of the file, torn
            tell(step)


def metrics(probs: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    """How good mean predictions `probs [n, c]` are, where the true classes stand in the columns `codes [n]`.

    The predicted class is the most probable one (of several, the first). Balanced accuracy is the mean over the classes
    that occur of the share of each that is predicted right. Log loss is -mean log p(y), no p being less than 1e-12.

    >>> metrics(np.array([[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]]), np.array([0, 0, 1]))
    {'accuracy': 0.666..., 'balanced_accuracy': 0.75, 'log_loss': 0.693...}
    """
    probs = np.asarray(probs, np.float64)
    if not np.isfinite(probs).all():
        raise ValueError("the model must predict probabilities for the test inputs, but some are NaN or infinite.")
    right = probs.argmax(axis=1) == codes
    shares = [right[codes == code].mean() for code in np.unique(codes)]
    losses = -np.log(np.maximum(probs[np.arange(len(codes)), codes], LEAST))
    found = right.mean(), np.mean(shares), losses.mean()
    return {name: float(value) for name, value in zip(METRICS, found, strict=True)}


def trace_of(job: Job, steps: Iterable[Step]) -> Trace:
    """The steps of a run as a trace."""
    steps = list(steps)
    return Trace(
        *job,
        labels=tuple(step["labels"] for step in steps),
        metrics={name: tuple(step["metrics"][name] for step in steps) for name in METRICS},
        questions=tuple(position for step in steps for position in step["asked"]),
        seconds=sum(step["seconds"] for step in steps),
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
        return step if whole and {*step["metrics"]} == {*METRICS} else None
    except (ValueError, KeyError, TypeError):
        return None


def _steps(setup: Setup, job: Job, past: Sequence[Step]) -> Iterator[Step]:
    """The steps after those that are past."""
    learner, known = _learner(setup, job, past), past[-1]["labels"] if past else 0
    start = list(setup.starts[job[1]])
    if past and start and past[0]["asked"] != start:
        raise ValueError("the run was begun with other initial labels. Give another folder, or the same initial=.")
    while known < setup.limit:
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            first = known == 0 and start
            asked = start if first else learner.ask(min(setup.size, setup.limit - known))
            learner.tell(asked, [setup.labels[position] for position in asked])
            known += len(asked)
            found = metrics(_predicted(learner, setup.test[0]), setup.test[1])
        step = {"labels": known, "asked": asked, "metrics": found, "seconds": time.perf_counter() - began}
        if setup.ids is not None:
            step["items"] = [setup.ids[position] for position in asked]
        if told := _told(heard):
            step["warnings"] = told
        yield step


def _learner(setup: Setup, job: Job, past: Sequence[Step]) -> Learner:
    """A learner that has been told what is past: what it asks follows from its labels alone."""
    score, seed = job
    learner = Learner(
        as_model(setup.model(seed)),
        setup.pool,
        targets=setup.targets,
        score=setup.scores[score],
        classes=setup.classes,
        seed=seed,
        batch=setup.batch,
    )
    asked = [position for step in past for position in step["asked"]]
    learner.tell(asked, [setup.labels[position] for position in asked])
    return learner


def _predicted(learner: Learner, x: Any) -> np.ndarray:
    """p(y|x) `[n, c]`, some inputs at a time: with draws, all of them may be too many."""
    parts = [learner.predict_proba(take(x, range(span.start, span.stop))) for span in spans(count(x), TEST_ROWS)]
    return np.concatenate(parts)


def _told(heard: Iterable[warnings.WarningMessage]) -> list[list[str]]:
    """The different warnings worth passing on, as (kind, words)."""
    told = {
        (entry.category.__name__, str(entry.message)): None for entry in heard if not issubclass(entry.category, UNTOLD)
    }
    return [list(pair) for pair in told]
