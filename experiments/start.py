"""The first questions: what to ask before there is a model, and for how long.

A model needs labels of two classes. Until then questions can be drawn at random, spread over the pool (a typical input
of each cluster, TypiClust) or placed *near the targets* (a typical input of each cluster of the targets, and the input
of the pool that is nearest to it). They can go on like that until two classes were seen, or until all were. From there
on the default score asks. *Learner* is what a learner that knows the classes does by itself: near the targets, until
all were seen. The cells are those of `tables`, from the first label on, and three collections of short texts with the
linear model, which a project takes for texts.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import askwell
from askwell.acquire import first_questions
from askwell.data.pool import Pool, as_pool
from askwell.seeds import rng_for
from askwell.targets import from_pool, given
from experiments.figure import Figure, Setting, Terms
from experiments.results import Job, Results, Row
from experiments.tables import TEXTS, Cell, cell_of, model_named

__all__ = ["FIGURE", "STARTS", "run"]

STARTS = ("random", "spread", "near", "random, all", "spread, all", "near, all", "learner")
"""Those that end in "all" go on until each class was seen."""
MOST = 3  # questions for each class, after which classes that were not seen are no longer waited for
TABLES = ("heart", "vehicle", "segment", "wine", "satimage", "vowel", "ionosphere", "contraceptive")
EMBEDDED = ("mnist", "optdigits")


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run, in one row: the mean accuracy over the curve, and after how many labels each class was seen."""
    if past:
        return
    name, kind, model = job.setting.split(", ")
    cell = cell_of(name, kind, job.seed)
    budget = 10 if terms.effort == "quick" else max(30, 4 * cell.classes)
    accuracy, seen = _curve(cell, model, job.score, job.seed, budget)
    yield {"labels": budget, "area": round(float(np.mean(accuracy)), 6), "accuracy": accuracy[-1], "seen": seen}


def _curve(cell: Cell, model: str, start: str, seed: int, budget: int) -> tuple[list[float], int]:
    """Accuracy after each label, and the number of labels after which each class had been seen (`budget` if never)."""
    known_to_learner = range(cell.classes) if start == "learner" else None
    learner = askwell.Learner(
        model_named(model, cell),
        cell.x,
        targets=cell.targets,
        batch="top",
        classes=known_to_learner,
        seed=seed,
        evaluation=0,
    )
    pool, rng = as_pool(cell.x), rng_for(seed, 0, start)
    first = _first(start.split(",")[0], pool, cell.targets, rng)
    wanted = 0 if start == "learner" else cell.classes if start.endswith("all") else 2
    accuracy, labels = list[float](), dict[int, int]()
    x, y = cell.test
    seen = budget
    while len(labels) < budget:
        known = len({*labels.values()})
        if known < min(2, wanted) or (known < wanted and len(labels) < MOST * cell.classes):
            item = int(next(first))
        else:
            (item,) = learner.ask()
        labels[item] = int(cell.y[item])
        learner.tell([item], [labels[item]])
        if len({*labels.values()}) == cell.classes:
            seen = min(seen, len(labels))
        if len({*labels.values()}) < 2:
            accuracy.append(float((y == labels[item]).mean()))
        else:
            accuracy.append(float((learner.predict(x) == y).mean()))
    return accuracy, seen


def _first(start: str, pool: Pool, targets: np.ndarray | None, rng: np.random.Generator) -> Iterator[int]:
    """Items in the order in which they are asked."""
    if start == "random":
        return iter(rng.permutation(len(pool)).tolist())
    near = given(targets) if start == "near" and targets is not None else from_pool(100)
    return first_questions(pool, near, [], rng=rng)


def verdict(results: Results) -> str:
    """Area and questions until all classes were seen, of each start less those of random questions."""
    lines = ["| inputs | pool | cells | " + " | ".join(STARTS) + " |", "|---|---|---|" + "---|" * len(STARTS)]
    for kind_of_input, names in (("tables", TABLES), ("embeddings", EMBEDDED), ("texts", (*TEXTS,))):
        for kind in ("matched", "redundant", "shifted"):
            here = [s for s in results.names("setting") if s.split(", ")[0] in names and s.split(", ")[1] == kind]
            if here:
                cells = [_against(results, here, start) for start in STARTS]
                lines.append(f"| {kind_of_input} | {kind} | {len(here)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _against(results: Results, settings: Sequence[str], start: str) -> str:
    gains, seen = [], []
    for setting in settings:
        here, base = (results.where(setting=setting, score=each) for each in (start, "random"))
        gains.append(float(here["area"].mean() - base["area"].mean()))
        seen.append(float(here["seen"].mean()))
    error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.nan
    return f"{np.mean(gains):+.4f} ± {error:.4f}; {np.mean(seen):.0f}"


def draw(results: Results) -> Any:
    """Each cell a dot: the area of a start less that of random questions."""
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(8, 4), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    colours = {"matched": "#4477aa", "redundant": "#cc6677", "shifted": "#ddaa33"}
    for place, start in enumerate(STARTS):
        for kind, colour in colours.items():
            here = [setting for setting in results.names("setting") if f", {kind}, " in setting]
            gains = sorted(
                float(
                    results.where(setting=setting, score=start)["area"].mean()
                    - results.where(setting=setting, score="random")["area"].mean()
                )
                for setting in here
            )
            spread = np.linspace(-0.3, 0.3, len(gains)) if len(gains) > 1 else np.zeros(len(gains))
            axes.scatter(place + spread, gains, s=12, color=colour, label=kind if place == 0 else None)
    axes.axhline(0, color="#444444", linewidth=0.8)
    axes.set_xticks(range(len(STARTS)), STARTS)
    axes.set_ylabel("area less that of a random start")
    axes.legend(frameon=False)
    return figure


def _settings() -> tuple[Setting, ...]:
    once = {"quick": 1, "standard": 1, "full": 1}
    seeds = {"quick": 2, "standard": 10, "full": 20}
    several = ("vehicle", "segment", "satimage", "vowel", "sources", *EMBEDDED)
    return tuple(
        Setting(f"{name}, {kind}, {model}", STARTS, seeds, once)
        for names, models in ((TABLES, ("forest",)), (EMBEDDED, ("forest", "linear")), ((*TEXTS,), ("linear",)))
        for name in names
        for model in models
        for kind in ("matched", "redundant", "shifted")
        if kind != "redundant" or name in several
    )


FIGURE = Figure(
    name="start",
    content="beyond the paper: what to ask before there is a model",
    claim="Are first questions that spread over the pool, or lie near the targets, better than random ones?",
    settings=_settings(),
    run=run,
    draw=draw,
    verdict=verdict,
    columns=("labels", "area", "accuracy", "seen"),
)
