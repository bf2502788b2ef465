"""How true the numbers are that people see while they label, and what it costs to know them.

Projects played from known labels to the end, five questions at a time, then ten, in cells of `tables`: a data set, a
kind of pool and a model. *auto*: all questions are chosen. *drawn*: a fifth of them is drawn from the targets at
random, as the items of the pool nearest to them. *labelled*: the same where the targets may be labelled themselves,
since they are in the pool. After every few labels it is written down what is shown, and how good the model is on a test
set that nobody sees.

The data sets are those that `tables` dealt to the choosing and to the confirming half.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from askwell.acquire import Strategy
from askwell.data.pool import as_pool
from askwell.estimate.accuracy import cross_validated, drawn
from askwell.estimate.stopping import change
from askwell.models import as_model
from askwell.models.protocol import mean_predict
from askwell.targets import as_targets
from experiments.figure import Figure, Setting, Terms
from experiments.results import Job, Results, Row
from experiments.tables import Cell, cell_of, model_named

__all__ = ["CELLS", "FIGURE", "SHARE", "run"]

SHARE = 0.2  # of the questions that are drawn
BUDGET = 300
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


def _row(strategy: Strategy, latest: Any, labels: dict[int, Any], cell: Cell, how: str) -> Row:
    n, (x, y) = len(labels), cell.test
    truth = float((mean_predict(latest.posterior, x).argmax(axis=1) == y).mean())
    belief = mean_predict(latest.posterior, latest.sample.x)
    row: Row = {"labels": n, "accuracy": truth, "sure": float(belief.max(axis=1).mean())}
    for name, last in (("50", 50), ("half", n // 2)):
        found = change(latest, labels, last=last) if n > last else None
        row |= {f"changed_{name}": None if found is None else found.changed}
        row |= {f"improved_{name}": None if found is None else found.improved}
    shown = None
    if how != "auto":
        shown = drawn(strategy, labels)
    elif n % 40 == 0:
        rng = strategy.rng("estimate", labels)
        shown = cross_validated(strategy.model, *strategy.data(labels), classes=[*range(cell.classes)], rng=rng)
    for name in ("value", "low", "high"):
        row[name] = None if shown is None else getattr(shown, name)
    row["judged"] = 0 if shown is None else shown.labels
    row["loss"] = None if shown is None or shown.log_loss is None else shown.log_loss.value
    return {name: round(value, 5) if isinstance(value, float) else value for name, value in row.items()}


def verdict(results: Results) -> str:
    """Written when the runs are there."""
    return "\n".join(results.names("setting"))


def draw(results: Results) -> Any:
    """Shown against true accuracy."""
    from matplotlib.figure import Figure as Drawing

    return Drawing()


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
    columns=(
        *("labels", "accuracy", "value", "low", "high", "judged", "loss"),
        *("sure", "changed_50", "improved_50", "changed_half", "improved_half"),
    ),
)
