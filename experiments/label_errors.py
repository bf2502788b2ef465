"""How many wrong labels are found, and how many right ones are looked at in vain.

Projects played from known labels of which one in twenty was flipped to another class before anything began. A fifth of
the questions is drawn, ten are asked at a time. After 60, 100 and 200 labels, every label is judged by a model that did
not learn from it (ten folds), and some rules say which they would offer for a second look.

The threshold was chosen on seeds 0 to 4 of the data sets that `tables` dealt to the choosing half. On the others, where
models are often wrong, it offered up to two fifths of all labels; the limit of 5 % came after that, and is judged on
seeds 5 to 9, which nobody had seen.

A row is a label: what the model says of it, and whether it is wrong.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from askwell.acquire import Strategy
from askwell.data.pool import as_pool
from askwell.estimate.accuracy import cross_fitted
from askwell.estimate.label_issues import UNLIKELY, unlikely
from askwell.models import as_model
from askwell.seeds import rng_for
from askwell.targets import as_targets
from experiments.figure import Figure, Setting, Terms
from experiments.honest import SHARE
from experiments.results import Job, Results, Row
from experiments.tables import cell_of, half_of, model_named

__all__ = ["CELLS", "FIGURE", "RULES", "WRONG", "offered", "run", "verdict"]

WRONG = 0.05  # of the labels
LOOKS = (60, 100, 200)  # labels
STEP = 10  # questions at a time
CELLS = (  # data set, kind of pool, model; the choosing half, then the confirming one
    *(f"{name}, matched, forest" for name in ("optdigits", "segment", "magic")),
    *(f"{name}, matched, linear" for name in ("texture", "mushroom")),
    *(f"{name}, matched, forest" for name in ("satimage", "marketing", "phoneme")),
    *(f"{name}, matched, linear" for name in ("vowel", "twonorm")),
)


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """The rows of a run; one that was stopped begins anew."""
    yield from islice(_rows(job, LOOKS[:1] if terms.effort == "quick" else LOOKS), len(past), None)


def _rows(job: Job, looks: Sequence[int]) -> Iterator[Row]:
    name, kind, model = job.setting.split(", ")
    cell, rng = cell_of(name, kind, job.seed), rng_for(job.seed, 0, "label errors")
    wrong = rng.random(len(cell.y)) < WRONG
    y = np.where(wrong, (cell.y + rng.integers(1, cell.classes, len(cell.y))) % cell.classes, cell.y).tolist()
    strategy = Strategy(
        as_model(model_named(model, cell)),
        as_pool(cell.x),
        as_targets(cell.targets),
        classes=range(cell.classes),
        seed=job.seed,
        evaluation=SHARE,
    )
    labels = {position: y[position] for position in range(cell.initial)}
    while True:
        if len(labels) in looks:
            yield from _judged(strategy, labels, wrong)
        if len(labels) >= looks[-1]:
            return
        step = STEP - len(labels) % STEP
        for question in islice(strategy.questions(strategy.round(labels).choose(step), asked=[*labels]), step):
            labels[question.position] = y[question.position]


def _judged(strategy: Strategy, labels: dict[int, Any], wrong: np.ndarray) -> Iterator[Row]:
    probs = cross_fitted(strategy, labels, [*labels], purpose="label issues")
    assert probs is not None
    codes = np.array([*labels.values()])
    own = probs[np.arange(len(codes)), codes]
    usual = np.array([own[codes == each].mean() if (codes == each).any() else 1.0 for each in range(probs.shape[1])])
    rest = np.where(np.arange(probs.shape[1]) == codes[:, None], -1.0, probs)  # [n, c]
    excess = (rest - usual).max(axis=1)
    for position, *said in zip(labels, own, rest.max(axis=1), excess, strict=True):
        values = {name: round(float(value), 4) for name, value in zip(COLUMNS[2:], said, strict=True)}
        yield {"labels": len(labels), "wrong": int(wrong[position])} | values


COLUMNS = ("labels", "wrong", "own", "other", "excess")
"""own: p(label); other: p of the most probable other class; excess: how far one is above the mean p of its labels."""


# ---- judging -------------------------------------------------------------------------------------------------------


def _lowest(own: np.ndarray) -> np.ndarray:
    found = np.zeros(len(own), bool)
    found[np.argsort(own, kind="stable")[: round(WRONG * len(own))]] = True
    return found


RULES: Mapping[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]] = {
    f"p(label) below {UNLIKELY}, at most the lowest 5 %": lambda of: unlikely(of["own"]),
    f"p(label) below {UNLIKELY}": lambda of: of["own"] < UNLIKELY,
    "the lowest 5 %": lambda of: _lowest(of["own"]),
    "a threshold for each class": lambda of: of["excess"] >= 0,
    "the same, at most the lowest 5 %": lambda of: (of["excess"] >= 0) & _lowest(of["own"]),
    "another class is more probable": lambda of: of["other"] > of["own"],
}
"""Rule -> which labels `[n]` it offers."""


def offered(runs: Sequence[Results], rule: str) -> tuple[float, float, float]:
    """(labels that are offered in a project, share of the wrong ones among them, share of them that is wrong)."""
    counts = np.zeros(3)
    for run in runs:
        chosen, wrong = RULES[rule]({name: run[name].astype(float) for name in COLUMNS}), run["wrong"].astype(bool)
        counts += chosen.sum(), (chosen & wrong).sum(), wrong.sum()
    return counts[0] / len(runs), counts[1] / max(counts[2], 1), counts[1] / max(counts[0], 1)


def _runs(results: Results, half: str, labels: int) -> dict[str, list[Results]]:
    """Setting -> its runs in a half, at so many labels. Seeds that no half has are left out."""
    return {
        setting: [
            run
            for seed in results.where(setting=setting).names("seed")
            if (int(seed) < FIRST_SEEDS) == (half == "choosing")
            and len((run := results.where(setting=setting, seed=seed, labels=labels))["own"])
        ]
        for setting in results.names("setting")
        if half_of(setting) == half
    }


def verdict(results: Results) -> str:
    """Each rule by half and number of labels; the first one by data set."""
    lines = ["| half | labels | rule | labels offered | wrong ones found | of those offered are wrong |"]
    lines.append("|---|---|---|---|---|---|")
    looks = sorted({int(n) for n in results["labels"]})
    for half in HALVES:
        for n in looks:
            runs = [run for each in _runs(results, half, n).values() for run in each]
            for rule in RULES if runs else ():
                many, found, right = offered(runs, rule)
                lines.append(f"| {half} | {n} | {rule} | {many:.1f} | {found:.0%} | {right:.0%} |")
    lines += ["", f"| half | data set, pool, model; after {looks[-1]} labels | offered | found | wrong |"]
    lines.append("|---|---|---|---|---|")
    for half in HALVES:
        for setting, runs in _runs(results, half, looks[-1]).items():
            if runs:
                many, found, right = offered(runs, next(iter(RULES)))
                lines.append(f"| {half} | {setting} | {many:.1f} | {found:.0%} | {right:.0%} |")
    return "\n".join(lines)


def draw(results: Results) -> Any:
    """Wrong labels found against labels looked at, the least probable first; a dot: what the rule finds."""
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(7, 3.2), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(HALVES), sharey=True)
    last = int(results["labels"].astype(int).max())
    for axes, half in zip(panels, HALVES, strict=True):
        for setting, runs in _runs(results, half, last).items():
            if not runs:
                continue
            columns = [(run["own"].astype(float), run["wrong"].astype(float)) for run in runs]
            ordered = [wrong[np.argsort(own, kind="stable")].cumsum() / max(wrong.sum(), 1) for own, wrong in columns]
            looked = np.arange(1, last + 1) / last
            (curve,) = axes.plot(looked, np.mean(ordered, axis=0), label=setting.split(",")[0])
            many, found, _ = offered(runs, next(iter(RULES)))
            axes.plot(many / last, found, "o", color=curve.get_color())
        axes.plot([0, 1], [0, 1], color="#888888", linestyle="--", linewidth=0.8)
        axes.set_xlim(0, 0.4)
        axes.set_title(half)
        axes.set_xlabel("share of the labels looked at")
        axes.legend(frameon=False, fontsize=8, loc="lower right")
    panels[0].set_ylabel("share of the wrong ones found")
    return figure


HALVES, FIRST_SEEDS = ("choosing", "confirming"), 5

FIGURE = Figure(
    name="label_errors",
    content="beyond the paper: how many wrong labels are found by a second look at few",
    claim="Does a second look at one label in twenty find a good part of the wrong ones?",
    settings=tuple(
        Setting(name, ("auto",), {"quick": 1, "standard": 10, "full": 10}, {"quick": 60, "standard": 360, "full": 360})
        for name in CELLS
    ),
    run=run,
    draw=draw,
    verdict=verdict,
    columns=COLUMNS,
)
