"""How true the numbers are that people see while they label, and what it costs to know them.

Projects played from known labels to the end, five questions at a time, then ten, in cells of `tables`: a data set, a
kind of pool and a model. *auto*: all questions are chosen. *drawn*: a fifth of them is drawn from the targets at
random, as the items of the pool nearest to them. *labelled*: the same where the targets may be labelled themselves,
since they are in the pool. After every few labels it is written down what is shown, and how good the model is on a test
set that nobody sees.

The data sets are those that `tables` dealt to the choosing and to the confirming half.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from askwell.acquire import Round, Strategy
from askwell.data.pool import as_pool
from askwell.estimate.accuracy import Estimate, cross_validated, drawn, wilson
from askwell.estimate.stopping import WORTH, Change, change, forecast
from askwell.models import as_model
from askwell.models.protocol import mean_predict
from askwell.targets import as_targets
from experiments.figure import Figure, Setting, Terms
from experiments.results import Job, Results, Row
from experiments.tables import KINDS, Cell, cell_of, half_of, model_named

__all__ = ["CELLS", "FIGURE", "SHARE", "Look", "looks", "run", "shown_accuracy", "stops", "verdict"]

SHARE = 0.2  # of the questions that are drawn
BUDGET = 300
FIRST = 40  # labels from which on numbers are judged
HOW = {
    "auto": "all chosen: cross-validated",
    "drawn": "a fifth drawn from the pool, or near the targets",
    "labelled": "a fifth drawn from the targets",
}
EARLY = 100  # labels up to which five are asked at a time, and every ten are looked at; then ten, and every twenty
CELLS = (  # data set, model, kinds of pools; the choosing half, then the confirming one
    ("optdigits", "forest", ("matched", "redundant", "shifted")),
    ("segment", "forest", ("matched", "redundant", "shifted")),
    ("magic", "forest", ("matched", "shifted")),
    ("texture", "linear", ("matched", "redundant", "shifted")),
    ("mushroom", "linear", ("matched", "shifted")),
    ("satimage", "forest", ("matched", "redundant", "shifted")),
    ("marketing", "forest", ("matched", "redundant", "shifted")),
    ("phoneme", "forest", ("matched", "shifted")),
    ("vowel", "linear", ("matched", "redundant", "shifted")),
    ("twonorm", "linear", ("matched", "shifted")),
)


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """The rows of a run, one for each time that somebody looks; a run that was stopped begins anew."""
    name, kind, model = job.setting.split(", ")
    cell = cell_of(name, kind, job.seed)
    budget = min(60 if terms.effort == "quick" else BUDGET, len(cell.y) // 2)
    yield from islice(_rows(cell, model, job.score, job.seed, budget), len(past), None)


def _rows(cell: Cell, model: str, how: str, seed: int, budget: int) -> Iterator[Row]:
    x, y = cell.x, cell.y.tolist()
    if how == "labelled" and cell.targets is not None and cell.labels is not None:
        x, y = np.concatenate([x, cell.targets]), [*y, *cell.labels.tolist()]
    strategy = Strategy(
        as_model(model_named(model, cell)),
        as_pool(x),
        as_targets(cell.targets),
        classes=range(cell.classes),
        seed=seed,
        evaluation=0.0 if how == "auto" else SHARE,
    )
    labels = {position: y[position] for position in range(cell.initial)}
    while True:
        latest = strategy.round(labels)
        if len(labels) % (10 if len(labels) <= EARLY else 20) == 0:
            yield _row(strategy, latest, labels, cell, how)
        if len(labels) >= budget:
            return
        step = 5 - len(labels) % 5 if len(labels) < EARLY else 10 - len(labels) % 10
        for question in islice(strategy.questions(latest.choose(step), asked=[*labels]), step):
            labels[question.position] = y[question.position]


def _row(strategy: Strategy, latest: Round, labels: dict[int, Any], cell: Cell, how: str) -> Row:
    n, (x, y) = len(labels), cell.test
    found = change(latest, labels)
    shown = None
    if how != "auto":
        shown = drawn(strategy, labels)
    elif n % 40 == 0:
        rng = strategy.rng("estimate", labels)
        shown = cross_validated(strategy.model, *strategy.data(labels), classes=[*range(cell.classes)], rng=rng)
    row = {
        "labels": n,
        "accuracy": float((mean_predict(latest.posterior, x).argmax(axis=1) == y).mean()),
        **{name: math.nan if shown is None else getattr(shown, name) for name in ("value", "low", "high")},
        "judged": 0 if shown is None else shown.labels,
        "changed": math.nan if found is None else found.changed,
        "improved": math.nan if found is None else found.improved,
    }
    return {name: round(value, 5) for name, value in row.items()}


# ---- judging -------------------------------------------------------------------------------------------------------


class Look(NamedTuple):
    """A run, each time that somebody looks, as columns."""

    setting: str
    how: str
    labels: np.ndarray
    accuracy: np.ndarray  # the truth
    value: np.ndarray  # what is shown, and its interval
    low: np.ndarray
    high: np.ndarray
    judged: np.ndarray
    changed: np.ndarray
    improved: np.ndarray

    @property
    def half(self) -> str:
        """The half that the data set was dealt to."""
        return half_of(self.setting)

    @property
    def pool(self) -> str:
        """The kind of pool."""
        return self.setting.split(", ")[1]


def looks(results: Results) -> list[Look]:
    """The runs."""
    found = []
    for setting in results.names("setting"):
        for how in results.where(setting=setting).names("score"):
            here = results.where(setting=setting, score=how)
            for seed in here.names("seed"):
                run = here.where(seed=seed)
                found.append(Look(setting, how, *(run[name].astype(float) for name in Look._fields[2:])))
    return found


def shown_accuracy(runs: Sequence[Look]) -> tuple[float, float, float, float]:
    """(bias, coverage of the interval, its width at 100 labels, that of 30 more labels of targets), from 40 on."""
    gaps, covered, widths, bare = list[float](), list[bool](), list[float](), list[float]()
    for run in runs:
        for at in np.flatnonzero((run.labels >= FIRST) & ~np.isnan(run.value)):
            gaps.append(run.value[at] - run.accuracy[at])
            covered.append(bool(run.low[at] <= run.accuracy[at] <= run.high[at]))
            if run.labels[at] == EARLY:
                widths.append(run.high[at] - run.low[at])
                low, high = wilson(30 * run.accuracy[at], 30)
                bare.append(high - low)
    return tuple(float(np.mean(each)) if each else math.nan for each in (gaps, covered, widths, bare))  # type: ignore[return-value]


def forecasts(runs: Sequence[Look], more: int) -> tuple[float, float]:
    """(how often the interval for so many more labels holds what came, its width at 100 labels)."""
    right, widths = list[bool](), list[float]()
    for run in runs:
        for at in np.flatnonzero((run.labels >= FIRST) & (run.labels + more <= run.labels[-1])):
            n, now = int(run.labels[at]), run.value[at]
            if np.isnan(now) or np.isnan(run.changed[at]):
                continue
            shown = Estimate(now, run.low[at], run.high[at], "drawn", int(run.judged[at]), "targets")
            found = forecast(Change(n, n // 2, run.changed[at], run.improved[at], 100), estimate=shown, more=more)
            assert found is not None
            came = float(np.interp(n + more, run.labels, run.accuracy)) - run.accuracy[at]
            right.append(found.low <= came <= found.high)
            if n == EARLY:
                widths.append(found.high - found.low)
    return float(np.mean(right)) if right else math.nan, float(np.mean(widths)) if widths else math.nan


def stops(runs: Sequence[Look]) -> tuple[dict[str, float], float]:
    """(cell -> accuracy given up against going on to twice the labels, the share of labels saved)."""
    given: dict[str, list[float]] = {}
    saved = []
    for run in runs:
        little = (run.labels >= FIRST) & (run.improved <= WORTH)
        twice = np.flatnonzero(little[1:] & little[:-1])
        cell = given.setdefault(f"{run.setting}, {run.how}", [])
        if len(twice) == 0:
            saved.append(0.0)
            cell.append(0.0)
            continue
        n = run.labels[twice[0] + 1]
        at_twice = np.interp(min(2 * n, run.labels[-1]), run.labels, run.accuracy)
        cell.append(float(at_twice) - run.accuracy[twice[0] + 1])
        saved.append(1 - n / run.labels[-1])
    return {cell: float(np.mean(lost)) for cell, lost in given.items()}, float(np.mean(saved))


def lost_area(runs: Sequence[Look]) -> dict[str, list[float]]:
    """Way of asking -> in each cell, the area without drawn questions less that with them."""
    areas: dict[tuple[str, str], list[float]] = {}
    for run in runs:
        areas.setdefault((run.setting, run.how), []).append(float(run.accuracy.mean()))
    found: dict[str, list[float]] = {}
    for (setting, how), values in areas.items():
        if how != "auto" and (setting, "auto") in areas:
            found.setdefault(how, []).append(float(np.mean(areas[setting, "auto"]) - np.mean(values)))
    return found


def verdict(results: Results) -> str:
    """Four tables: the accuracy that is shown, what it costs, forecasts, stop advice; both halves."""
    runs = looks(results)
    lines = [
        "| half | pool | questions | runs | bias | holds the truth | width at 100 labels, of 30 test labels |",
        "|---|---|---|---|---|---|---|",
    ]
    for half in ("choosing", "confirming"):
        for pool in KINDS:
            for how, words in HOW.items():
                here = [run for run in runs if (run.half, run.pool, run.how) == (half, pool, how)]
                if here:
                    bias, covered, width, bare = shown_accuracy(here)
                    widths = "-" if math.isnan(width) else f"{width:.2f}, {bare:.2f}"
                    judged = f"{bias:+.3f} | {covered:.0%} | {widths}"
                    lines.append(f"| {half} | {pool} | {words} | {len(here)} | {judged} |")
    lines += ["", "| half | pool | area lost by drawing a fifth |", "|---|---|---|"]
    for half in ("choosing", "confirming"):
        for pool in KINDS:
            lost = lost_area([run for run in runs if (run.half, run.pool) == (half, pool)])
            cells = "; ".join(f"{HOW[how]}: {np.mean(each):+.4f} ({len(each)} cells)" for how, each in lost.items())
            lines.append(f"| {half} | {pool} | {cells} |")
    lines += ["", "| half | pool | 20 more labels | 50 more | 100 more | width for 50 at 100 labels |"]
    lines.append("|---|---|---|---|---|---|")
    asked = [run for run in runs if run.how != "auto"]
    for half in ("choosing", "confirming"):
        for pool in (*KINDS, "all"):
            here = [run for run in asked if run.half == half and pool in (run.pool, "all")]
            if here:
                held = " | ".join(f"{forecasts(here, more)[0]:.0%}" for more in (20, 50, 100))
                lines.append(f"| {half} | {pool} | {held} | {forecasts(here, 50)[1]:.3f} |")
    lines += ["", "| half | cells | at most 1 % given up | mean | most | labels saved |", "|---|---|---|---|---|---|"]
    for half in ("choosing", "confirming"):
        cells, saved = stops([run for run in asked if run.half == half])
        if cells:
            lost = np.array([*cells.values()])
            lines.append(
                f"| {half} | {len(lost)} | {np.mean(lost <= 0.01):.0%} | {lost.mean():+.4f} | {lost.max():+.3f} "
                f"| {saved:.0%} |"
            )
    return "\n".join(lines)


def draw(results: Results) -> Any:
    """Shown less true accuracy against labels, mean and spread over runs, for each kind of pool."""
    from matplotlib.figure import Figure as Drawing

    runs = looks(results)
    figure = Drawing(figsize=(10, 3.4), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(KINDS), sharey=True)
    colours = {"auto": "#888888", "drawn": "#4477aa", "labelled": "#cc6677"}
    for axes, pool in zip(panels, KINDS, strict=True):
        for how, colour in colours.items():
            here = [run for run in runs if (run.pool, run.how) == (pool, how)]
            counts = sorted({int(n) for run in here for n in run.labels[~np.isnan(run.value)] if n >= FIRST})
            gaps = [
                [float(run.value[at] - run.accuracy[at]) for run in here for at in np.flatnonzero(run.labels == n)]
                for n in counts
            ]
            means = np.array([np.nanmean(each) for each in gaps])
            errors = np.array([np.nanstd(each) / np.sqrt(max(1, len(each))) for each in gaps])
            if counts:
                axes.plot(counts, means, color=colour, label=HOW[how], linestyle="--" if how == "auto" else "-")
                axes.fill_between(counts, means - errors, means + errors, color=colour, alpha=0.2, linewidth=0)
        axes.axhline(0, color="#444444", linewidth=0.8)
        axes.set_title(pool)
        axes.set_xlabel("labels")
    panels[0].set_ylabel("shown less true accuracy")
    panels[-1].legend(frameon=False, fontsize=8)
    return figure


def _settings() -> tuple[Setting, ...]:
    seeds, steps = {"quick": 1, "standard": 5, "full": 10}, {"quick": 5, "standard": 19, "full": 19}
    return tuple(
        Setting(
            f"{name}, {kind}, {model}",
            ("auto", "drawn") if kind == "matched" else ("auto", "drawn", "labelled"),
            seeds,
            steps,
        )
        for name, model, kinds in CELLS
        for kind in kinds
    )


FIGURE = Figure(
    name="honest",
    content="beyond the paper: how true the numbers are that people see while they label",
    claim="Is the accuracy that is shown that of the targets, at next to no cost?",
    settings=_settings(),
    run=run,
    draw=draw,
    verdict=verdict,
    columns=Look._fields[2:],
)
