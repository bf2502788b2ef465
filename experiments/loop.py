"""The loop of the paper's experiments: a learner that asks one or several labels per step, judged after each.

Every step makes a new learner from the labels known by then, so a run's state is nothing but the list of items asked:
a run that was killed goes on as it would have.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np

import askwell
from askwell.data.pool import as_pool
from askwell.seeds import rng_for
from askwell.selection.coverage import spread_out
from askwell.targets import Inputs, Sample, Targets
from experiments.measures import MEASURES, measures
from experiments.results import Row
from experiments.splits import Problem

__all__ = ["Choice", "Elsewhere", "Uniform", "acquire", "gradient_badge"]

TEST_ROWS = 2048  # predicted at a time


@final
@dataclass(frozen=True)
class Choice:
    """How questions are chosen: a score and a batch of askwell, targets, or `own(learner, x, size, rng)`."""

    score: Any = "epig"
    batch: Any = None
    targets: Any = None
    own: Callable[[askwell.Learner, np.ndarray, int, np.random.Generator], np.ndarray] | None = None


@final
@dataclass(frozen=True, eq=False)
class Uniform:
    """Targets as in the paper: `m` of the inputs, each as likely as any other, redrawn every step.

    >>> few = Uniform(np.arange(10.0)[:, None], 4).sample(None, None, classes=[], rng=rng_for(0, 0, "targets"))
    >>> few.x.shape, few.weights
    ((4, 1), None)
    """

    x: np.ndarray
    m: int
    fixed: bool = False

    def sample(self, pool: Any, belief: Any, *, classes: Sequence[Any], rng: np.random.Generator) -> Sample:
        """`m` inputs, or all if there are no more."""
        n = len(self.x)
        places = np.arange(n) if n <= self.m else np.sort(rng.choice(n, self.m, replace=False))
        return Sample(self.x[places], None, f"{len(places)} of {n:,} inputs")

    def __repr__(self) -> str:
        return f"Uniform({len(self.x):,} inputs, {self.m})"


@final
@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Targets that look at these inputs instead of the learner's pool."""

    x: np.ndarray
    targets: Targets

    @property
    def fixed(self) -> bool:
        """As the targets are."""
        return self.targets.fixed

    def sample(self, pool: Inputs, belief: Any, *, classes: Sequence[Any], rng: np.random.Generator) -> Sample:
        """What the targets take from these inputs."""
        return self.targets.sample(as_pool(self.x), belief, classes=classes, rng=rng)


def acquire(
    problem: Problem,
    model: Any,
    choice: Choice,
    *,
    seed: int,
    budget: int,
    past: Sequence[Row] = (),
    size: Callable[[int], int] = lambda known: 1,
    candidates: int | None = None,
    test_draws: int | None = None,
) -> Iterator[Row]:
    """The steps after those that are past: labels known, items asked, measures on the test set, seconds, CPU-seconds.

    The first step has the initial labels; `size(labels known)` more are asked for in each of the others, until
    `budget` labels are known or the pool is exhausted. With `candidates` a step looks at that many items of the pool
    only, drawn anew each time. With `test_draws` a dropout net is tested with that many of its draws only.
    """
    model = askwell.as_model(model)
    known = [int(item) for row in past for item in row["asked"]]
    now = _now(problem, model, choice, known, seed, candidates) if past else None
    budget = min(budget, len(problem.y))
    while len(known) < budget:
        began, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            if now is None:
                asked = list(range(problem.initial))
            else:
                more, rng = min(size(len(known)), budget - len(known)), rng_for(seed, len(known), "own")
                asked = _asked(now, problem, choice, more, rng)
            known = known + asked
            now = _now(problem, model, choice, known, seed, candidates)
            found = measures(_predicted(now.learner, problem.test[0], test_draws), problem.test[1], problem.prior)
        row: Row = {
            "labels": len(known),
            "asked": asked,
            **{name: round(found[name], 6) for name in MEASURES},
            "seconds": round(time.perf_counter() - began, 3),
            "cpu": round(time.process_time() - cpu, 3),
        }
        if said := sorted({str(entry.message) for entry in heard if issubclass(entry.category, UserWarning)}):
            row["warnings"] = said
        yield row


def gradient_badge(learner: askwell.Learner, x: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """BADGE with the gradients by a net's last layer: the largest, then k-means++ among the others."""
    from askwell.models.dropout import DropoutPosterior, gradient_embeddings

    assert isinstance(learner.posterior, DropoutPosterior)
    gradients = gradient_embeddings(learner.posterior, x).astype(np.float64)  # [n, c*h]
    lengths = (gradients**2).sum(axis=1)

    def away(i: int) -> np.ndarray:
        squares: np.ndarray = np.maximum(lengths + lengths[i] - 2 * gradients @ gradients[i], 0)
        return squares

    return spread_out(away, np.full(len(x), np.inf), size, first=[int(lengths.argmax())], rng=rng)


class _Now(NamedTuple):
    """What follows from the labels known so far."""

    learner: askwell.Learner
    free: np.ndarray  # items that may be asked


def _now(problem: Problem, model: Any, choice: Choice, known: Sequence[int], seed: int, candidates: int | None) -> _Now:
    """A learner that has been told the labels of what is known; its items are called by their places in the problem."""
    free = np.ones(len(problem.y), bool)
    free[list(known)] = False
    rest = np.flatnonzero(free)
    if candidates is not None and candidates < len(rest):
        rest = np.sort(rng_for(seed, len(known), "candidates").choice(rest, candidates, replace=False))
    items = np.concatenate([np.array(known, np.intp), rest])
    learner = askwell.Learner(
        model,
        problem.x[items],
        ids=items.tolist(),
        targets=choice.targets,
        score=choice.score,
        batch=choice.batch,
        classes=problem.classes,
        seed=seed,
        evaluation=0,
    )
    learner.tell(list(known), [int(problem.y[item]) for item in known])
    return _Now(learner, rest)


def _asked(now: _Now, problem: Problem, choice: Choice, size: int, rng: np.random.Generator) -> list[int]:
    if choice.own is None:
        return [int(item) for item in now.learner.ask(size)]
    return [int(item) for item in now.free[choice.own(now.learner, problem.x[now.free], size, rng)]]


def _predicted(learner: askwell.Learner, x: np.ndarray, draws: int | None) -> np.ndarray:
    """p(y|x) `[n, c]`, some inputs at a time; of a dropout net's first `draws` draws, if that is given."""
    parts = [x[start : start + TEST_ROWS] for start in range(0, len(x), TEST_ROWS)]
    if draws is None:
        return np.concatenate([learner.predict_proba(part) for part in parts])
    few: Any = replace(learner.posterior, draws=draws)  # type: ignore[type-var]
    return np.concatenate([few.predict(part).mean(axis=1) for part in parts])
