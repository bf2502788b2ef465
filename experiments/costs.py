"""Costs of errors: does asking with `class_weights` lower the cost, where a rare class is dear to miss?

Tables of two classes of which one is rare (3 to 6 %), and a wrong prediction of it costs 20 times as much. Half of a
table is the pool, half the test set; labels start with two of each class, and 60 are asked for one at a time. Each
score is asked with and without the costs. Predictions are made for the costs in either case, by the same rule: what is
believed is q(y) ~ w(y) p(y), what is decided the class with the highest q(y). So all that differs is what was asked.

Which margins of auto heed the costs was chosen on three tables (both, the targets' or none; the targets' it is); three
others confirm. Margin sampling itself by w(y) p(y) is no score of askwell, and is here to show why.

Measured on the test set, with the initial labels and after each question, and averaged over that curve: the weighted
log loss -w(y) log q(y), and the cost w(y) of each wrong decision, both divided by the mean of w(y).
"""

import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

import askwell
from askwell.models.protocol import mean_predict
from askwell.seeds import rng_for
from experiments import data
from experiments.figure import Figure, Setting, Terms
from experiments.results import Job, Results, Row

__all__ = ["FIGURE", "losses", "run"]

CHOOSING = ("abalone9-18", "car-good", "yeast4")
CONFIRMING = ("flare-F", "page-blocks-1-3_vs_4", "winequality-red-4")  # named before any of them was run
MODELS = ("forest", "linear")
COST = 20.0  # of a wrong prediction of the rare class; of the other one it is 1
WITH = " with costs"
SCORES = ("random", *(score + more for score in ("margin", "epig", "auto") for more in ("", WITH)))
ASKS = 60
LEAST = 1 / 500  # probability that a log loss believes in
MEASURES = {"log_loss": "weighted log loss", "cost": "cost of decisions"}


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run, in one row: the means over the curve, the last values, and how many labels were of the rare class."""
    if past:
        return
    began = time.perf_counter()
    name, model = job.setting.split(", ")
    (x, y), test = _split(name, job.seed)
    learner = askwell.Learner(
        _model(model), x, batch="top", classes=(0, 1), seed=job.seed, evaluation=0, **_asked_by(job.score)
    )
    first = np.concatenate([np.flatnonzero(y == label)[:2] for label in (0, 1)]).tolist()
    learner.tell(first, y[first].tolist())
    curve = [losses(mean_predict(learner.posterior, test[0]), test[1])]
    for _ in range(5 if terms.effort == "quick" else ASKS):
        (item,) = learner.ask()
        learner.tell([item], [int(y[item])])
        curve.append(losses(mean_predict(learner.posterior, test[0]), test[1]))
    found: Row = {"labels": len(learner.labels), "rare": sum(learner.labels.values())}
    for measure, values in zip(MEASURES, np.transpose(curve), strict=True):
        found |= {measure: round(float(values.mean()), 6), f"final_{measure}": round(float(values[-1]), 6)}
    yield found | {"seconds": round(time.perf_counter() - began, 3)}


def _asked_by(score: str) -> dict[str, Any]:
    """What a learner is told of a score."""
    name = score.removesuffix(WITH)
    if name == score:
        return {"score": name}
    return {"score": _costly_margin} if name == "margin" else {"score": name, "class_weights": {1: COST}}


def _costly_margin(probs: Any, target_probs: Any, *, weights: Any, rng: Any) -> np.ndarray:
    return np.asarray(askwell.margin(probs, class_weights=[1, COST]), np.float64)


def losses(probs: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """(weighted log loss, cost of decisions) of predictions `probs [n, 2]` made for the costs, over the mean cost.

    >>> losses(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([1, 0]))[1] == 1 / 21  # the second is decided to be rare
    True
    """
    cost = np.array([1.0, COST])
    q = np.clip(probs, LEAST, 1 - LEAST) * cost
    q /= q.sum(axis=1, keepdims=True)
    paid = cost[y]
    wrong = q.argmax(axis=1) != y
    return float(-(paid * np.log(q[np.arange(len(y)), y])).sum() / paid.sum()), float(paid[wrong].sum() / paid.sum())


def _split(name: str, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(pool, test): half of each class each, features with mean 0 and variance 1 over the pool; class 1 is rare."""
    x, y = _table(name)
    order = rng_for(seed, 0, "split").permutation(len(y))
    halves = [np.array_split(order[y[order] == label], 2) for label in (0, 1)]
    pool, test = (np.sort(np.concatenate(part)) for part in zip(*halves, strict=True))
    pool = rng_for(seed, 0, "pool").permutation(pool)
    mean, scale = x[pool].mean(axis=0), x[pool].std(axis=0)
    scale[scale == 0] = 1
    there, tested = (((x[rows] - mean) / scale).astype(np.float32) for rows in (pool, test))
    return (there, y[pool]), (tested, y[test])


@cache
def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = data.keel(name)
    return x, (y == np.bincount(y).argmin()).astype(int)


def _model(name: str) -> Any:
    from askwell.models.forest import forest
    from askwell.models.linear import LinearModel

    return forest() if name == "forest" else LinearModel(draws=200)


# ---- judging -------------------------------------------------------------------------------------------------------


def verdict(results: Results) -> str:
    """Both losses of each score in each setting, and what the costs change, paired by seed with 95 % intervals."""
    parts = []
    for measure, words in MEASURES.items():
        lines = [f"| {words} | {' | '.join(SCORES)} |", "|---|" + "---|" * len(SCORES)]
        for setting in results.names("setting"):
            means = {score: _values(results, setting, score, measure).mean() for score in SCORES}
            best = min(means.values())
            cells = (f"**{mean:.3f}**" if mean == best else f"{mean:.3f}" for mean in means.values())
            lines.append(f"| {setting} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    parts.append(f"Labels of the rare class among those asked: {_rare(results)}.")
    parts.append("What the costs change, paired by seed, with 95 % intervals; negative is better:")
    for score in ("margin", "epig", "auto"):
        lines = [f"| {score} | {' | '.join(MEASURES.values())} |", "|---|" + "---|" * len(MEASURES)]
        for setting in results.names("setting"):
            cells = (_gap_words(_gap(results, setting, score, measure)) for measure in MEASURES)
            lines.append(f"| {setting} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    for half, tables in {"choosing": CHOOSING, "confirming": CONFIRMING}.items():
        judged = (f"- {score}: {_judged(results, score, tables)}." for score in ("margin", "epig", "auto"))
        parts.append("\n".join([f"With costs less without, on the {half} tables:", "", *judged]))
    return "\n\n".join(parts)


def _values(results: Results, setting: str, score: str, measure: str) -> np.ndarray:
    """A measure of each seed `[seeds]`."""
    here = results.where(setting=setting, score=score)
    values: np.ndarray = here[measure][np.argsort(here["seed"])]
    return values


def _gap(results: Results, setting: str, score: str, measure: str) -> tuple[float, float]:
    """(mean, half of the 95 % interval) of what the costs add to a measure."""
    from scipy.stats import t

    gaps = _values(results, setting, score + WITH, measure) - _values(results, setting, score, measure)
    error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.inf
    return float(gaps.mean()), float(t.ppf(0.975, max(1, len(gaps) - 1)) * error)


def _gap_words(gap: tuple[float, float]) -> str:
    mean, reach = gap
    return f"{mean:+.3f} ({mean - reach:+.3f} to {mean + reach:+.3f})"


def _rare(results: Results) -> str:
    means = {score: float(np.mean(results.where(score=score)["rare"])) for score in SCORES}
    return ", ".join(f"{score} {mean:.1f}" for score, mean in means.items())


def _judged(results: Results, score: str, tables: Sequence[str]) -> str:
    """In how many settings of some tables the interval is on either side, for each measure."""
    said, settings = [], [name for name in results.names("setting") if name.split(", ")[0] in tables]
    for measure, words in MEASURES.items():
        gaps = [_gap(results, setting, score, measure) for setting in settings]
        lower, higher = sum(mean + reach < 0 for mean, reach in gaps), sum(mean - reach > 0 for mean, reach in gaps)
        average = np.mean([mean for mean, _ in gaps])
        said.append(f"{words} {average:+.3f} on average, surely lower in {lower} and surely higher in {higher}")
    return f"{'; '.join(said)} of {len(settings)}"


def draw(results: Results) -> Any:
    """What the costs change, setting by setting."""
    from matplotlib.figure import Figure as Drawing

    looks = {"margin": "#8a1fd6", "epig": "#0068b3", "auto": "#134e46"}
    settings = results.names("setting")
    figure = Drawing(figsize=(9, 4.6), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    for axes, (measure, words) in zip(panels, MEASURES.items(), strict=True):
        for place, (score, colour) in enumerate(looks.items()):
            gaps = np.array([_gap(results, setting, score, measure) for setting in settings])  # [settings, 2]
            heights = np.arange(len(settings)) + 0.2 * (place - 1)
            axes.errorbar(gaps[:, 0], heights, xerr=gaps[:, 1], fmt="o", color=colour, markersize=4, label=score)
        axes.axvline(0, color="#444444", linewidth=0.8)
        axes.set_yticks(range(len(settings)), settings)
        axes.set_xlabel(f"{words}: with costs less without")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    panels[0].legend(frameon=False)
    return figure


FIGURE = Figure(
    name="costs",
    content="beyond the paper: costs of errors, where a rare class is dear to miss",
    claim="Do questions chosen for the costs lower the weighted loss?",
    settings=tuple(
        Setting(
            f"{name}, {model}",
            SCORES,
            {"quick": 2, "standard": 20, "full": 20},
            {"quick": 1, "standard": 1, "full": 1},
        )
        for name in CHOOSING + CONFIRMING
        for model in MODELS
    ),
    run=run,
    draw=draw,
    verdict=verdict,
    columns=("labels", "rare", "log_loss", "final_log_loss", "cost", "final_cost"),
)
