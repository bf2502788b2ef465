"""Numbers instead of classes: is EPIG a good score to ask by where the label is a number?

A *cell* is a data set, a kind of pool and a model. *Matched*: the model will meet inputs like the pool's, and no
targets are given. *Shifted*: it will meet one half of the inputs, by a direction that is drawn for each seed, and the
pool has few of these. Labels start with ten drawn at random and come one at a time. Labels and features are
standardised over the pool, so that errors of all data sets are on one scale.

Three sets are scikit-learn's (two of them generated), four come from the package pydataset, which holds those of R.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

import askwell
from askwell.models import model_named
from askwell.seeds import rng_for
from askwell.simulation.metrics import Prediction, measured
from experiments import data
from experiments.figure import Figure, Setting, Terms
from experiments.results import Job, Results, Row

__all__ = ["FIGURE", "SETS", "Cell", "cell_of", "gains", "run", "verdict"]

SETS: Mapping[str, tuple[str, str, tuple[str, ...]] | None] = {  # file, label and columns that would give it away
    "diabetes": None,
    "friedman1": None,
    "friedman2": None,
    "computers": ("Ecdat/Computers", "price", ()),
    "diamonds": ("ggplot2/diamonds", "price", ()),
    "housing": ("Ecdat/Housing", "price", ()),
    "schools": ("Ecdat/Caschool", "testscr", ("readscr", "mathscr", "distcod", "county", "district")),
}
KINDS, MODELS, SCORES = ("matched", "shifted"), ("forest", "gp", "linear"), ("random", "variance", "epig")
ROWS = 2000  # of a data set, at most
POOL, TARGETS, TEST = 400, 100, 400  # at most
SHARE = 0.55  # of the rows for the pool; the rest is for targets and test
RARE = 0.12  # of what the model will meet, in a shifted pool
INITIAL, BUDGET = 10, 60


class Cell(NamedTuple):
    """What one seed has of a data set and a kind of pool."""

    x: np.ndarray  # [n, d]
    y: np.ndarray  # [n]
    targets: np.ndarray | None
    test: tuple[np.ndarray, np.ndarray]


def cell_of(name: str, kind: str, seed: int) -> Cell:
    """Pool, targets and test set of a seed; features and labels have mean 0 and variance 1 over the pool."""
    x, y = table(name)
    rng = rng_for(seed, 0, f"{name}, {kind}")
    order = rng.permutation(len(y))
    pool, others = np.split(order, [int(SHARE * len(y))])
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    side = (x / scale) @ rng.normal(size=x.shape[1])
    if kind == "shifted":
        met = side > np.median(side)
        pool = pool[rng.random(len(pool)) < np.where(met, RARE, 1)[pool]]
        others = others[met[others]]
    pool = pool[:POOL]
    few = min(TARGETS, len(others) // 3)
    mean, scale = x[pool].mean(axis=0), np.where(x[pool].std(axis=0) > 0, x[pool].std(axis=0), 1)
    middle, unit = y[pool].mean(), y[pool].std()
    tested = others[few : few + TEST]
    targets = None if kind == "matched" else (x[others[:few]] - mean) / scale
    return Cell(
        (x[pool] - mean) / scale,
        (y[pool] - middle) / unit,
        targets,
        ((x[tested] - mean) / scale, (y[tested] - middle) / unit),
    )


@cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features `[n, d]` and labels `[n]` of a data set, at most 2,000 rows of it."""
    from sklearn import datasets

    if name == "diabetes":
        return datasets.load_diabetes(return_X_y=True)  # type: ignore[no-any-return]
    if name.startswith("friedman"):
        make = {"friedman1": datasets.make_friedman1, "friedman2": datasets.make_friedman2}[name]
        return make(ROWS, noise={"friedman1": 1.0, "friedman2": 100.0}[name], random_state=0)
    file, label, drop = SETS[name] or ("", "", ())
    x, y = data.of_r(file, label, drop=drop)
    rows = rng_for(0, 0, name).permutation(len(y))[:ROWS]
    return x[rows], y[rows]


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run, in one row: the mean RMSE over the curve, the last one, and the mean negative log likelihood."""
    if past:
        return
    name, kind, model = job.setting.split(", ")
    cell = cell_of(name, kind, job.seed)
    learner = askwell.Learner(
        model_named(model, cell.x, numbers=True),
        cell.x,
        targets=cell.targets,
        score=job.score,
        seed=job.seed,
        evaluation=0,
    )
    first = rng_for(job.seed, 0, "initial").permutation(len(cell.y))[:INITIAL].tolist()
    learner.tell(first, cell.y[first])
    found = [_measures(learner, cell)]
    for _ in range(10 if terms.effort == "quick" else BUDGET - INITIAL):
        items = learner.ask()
        learner.tell(items, cell.y[items])
        found.append(_measures(learner, cell))
    rmse, nll = (np.array([each[metric] for each in found]) for metric in ("rmse", "nll"))
    yield {
        "labels": INITIAL + len(found) - 1,
        "area": round(float(rmse.mean()), 6),
        "rmse": round(float(rmse[-1]), 6),
        "nll": round(float(nll.mean()), 6),
    }


def _measures(learner: askwell.Learner, cell: Cell) -> dict[str, float]:
    mean, std = learner.predict(cell.test[0], return_std=True)
    found = Prediction(mean=mean, variance=std**2)
    return measured({"rmse": "rmse", "nll": "nll"}, cell.test[1], found)


# ---- judging -------------------------------------------------------------------------------------------------------


class Gain(NamedTuple):
    """How much lower the error of EPIG is than that of another score, as a share of the latter: mean, 95 % interval."""

    cells: int
    mean: float
    low: float
    high: float
    ahead: int  # cells where the interval is above zero
    behind: int


def gains(results: Results, other: str, kind: str, model: str, *, column: str = "area") -> Gain | None:
    """EPIG against the other score in the cells of a kind of pool and a model; pairs share data set, pool and seed.

    The interval is that of the mean over data sets: their differences are what varies from case to case.
    """
    means, ahead, behind = list[float](), 0, 0
    for setting in results.names("setting"):
        if not setting.endswith(f"{kind}, {model}"):
            continue
        a, b = (_by_seed(results.where(setting=setting, score=score), column) for score in ("epig", other))
        seeds = sorted({*a} & {*b})
        if len(seeds) < 2:
            continue
        shares = np.array([1 - a[seed] / b[seed] for seed in seeds])
        reach = _reach(shares)
        means.append(float(shares.mean()))
        ahead, behind = ahead + (means[-1] > reach), behind + (means[-1] < -reach)
    if len(means) < 2:
        return None
    mean, reach = float(np.mean(means)), _reach(np.array(means))
    return Gain(len(means), mean, mean - reach, mean + reach, ahead, behind)


def _by_seed(runs: Results, column: str) -> dict[int, float]:
    return dict(zip(runs["seed"].tolist(), runs[column].tolist(), strict=True))


def _reach(values: np.ndarray) -> float:
    """Half of the 95 % interval of a mean."""
    return float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def verdict(results: Results) -> str:
    """How much EPIG takes off the error of random and variance, for each kind of pool and model."""
    lines = [
        "| pool | model | data sets | EPIG against | RMSE, mean | RMSE, at the end | surely ahead | surely behind |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        for model in MODELS:
            for other in ("random", "variance"):
                area = gains(results, other, kind, model)
                end = gains(results, other, kind, model, column="rmse")
                if area is None or end is None:
                    continue
                lines.append(
                    f"| {kind} | {model} | {area.cells} | {other} | {_in_words(area)} | {_in_words(end)} "
                    f"| {area.ahead} | {area.behind} |"
                )
    return "\n".join(
        [*lines, "", "Shares of the other score's error that EPIG takes off, with 95 % intervals over data sets."]
    )


def _in_words(gain: Gain) -> str:
    return f"{gain.mean:+.1%} ({gain.low:+.1%} to {gain.high:+.1%})"


def draw(results: Results) -> Any:
    """Each cell a dot: the share of random's error, and of variance's, that EPIG takes off."""
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(9, 4.2), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 2, sharey=True)
    colours = dict(zip(MODELS, ("#4477aa", "#cc6677", "#ddaa33"), strict=True))
    for axes, other in zip(panels, ("random", "variance"), strict=True):
        for place, kind in enumerate(KINDS):
            for shift, model in zip((-0.2, 0.0, 0.2), MODELS, strict=True):
                shares = _cells(results, other, kind, model)
                axes.scatter(
                    [place + shift] * len(shares), shares, s=14, color=colours[model], label=None if place else model
                )
        axes.axhline(0, color="#444444", linewidth=0.8)
        axes.set_xticks(range(len(KINDS)), KINDS)
        axes.set_title(f"EPIG against {other}", loc="left")
    panels[0].set_ylabel("share of the RMSE taken off")
    panels[0].legend(frameon=False)
    return figure


def _cells(results: Results, other: str, kind: str, model: str) -> list[float]:
    found = []
    for setting in results.names("setting"):
        if setting.endswith(f"{kind}, {model}"):
            a, b = (_by_seed(results.where(setting=setting, score=score), "area") for score in ("epig", other))
            found += [float(np.mean([1 - a[seed] / b[seed] for seed in {*a} & {*b}]))] if {*a} & {*b} else []
    return found


FIGURE = Figure(
    name="regression",
    content="beyond the paper: which score to ask by where labels are numbers",
    claim="Is EPIG at least level with random and with the largest variance, and ahead where targets differ?",
    settings=tuple(
        Setting(
            f"{name}, {kind}, {model}",
            SCORES,
            {"quick": 2, "standard": 10, "full": 20},
            {"quick": 1, "standard": 1, "full": 1},
        )
        for model in MODELS
        for name in SETS
        for kind in KINDS
    ),
    run=run,
    draw=draw,
    verdict=verdict,
    columns=("labels", "area", "rmse", "nll"),
)
