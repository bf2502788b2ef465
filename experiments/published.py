"""A published benchmark of everyday tables, by its own rules: does asking help at all, and is auto the one to ask by?

Zhan et al. (IJCAI 2021) and Lu et al. (TMLR 2025): 60 % of a table is the pool, the rest the test set; 20 labels to
begin with, one question a step until the pool is empty, and the model that asks is the one that is tested. Their
support vector machine, asked by margin, shows that these are their rules: areas equal the published ones, seed by seed.

Reduced: from 200 labels on, our own models are asked for a fortieth of the labels at a time (the first of the ranking)
and the curve is joined by straight lines. That is in nobody's favour: scores and random take the same steps.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import askwell
from askwell.models.protocol import mean_predict
from experiments import data
from experiments.figure import Figure, Setting, Terms
from experiments.results import Job, Results, Row

__all__ = ["FIGURE", "Split", "area_of", "run", "split_of"]

INITIAL, SHARE = 20, 0.6
SCORES = ("random", "margin", "epig", "auto")
REFERENCE = ("random", "margin")  # of the support vector machine
ONE_BY_ONE, FORTIETH = 200, 40  # labels to which questions come one at a time; then labels // 40 at a time
LARGE = ("banana", "phoneme", "twonorm")  # thousands of rows: fewer seeds
SMALL = ("appendicitis", "parkinsons", "heart", "ionosphere", "breast")  # where a Gaussian process is run
MODELS = ("forest", "linear", "gp")
THEIRS = {  # table -> their mean areas of random and margin, support vector machine
    **{"appendicitis": (0.8395, 0.8454), "parkinsons": (0.8305, 0.8531), "heart": (0.8051, 0.8157)},
    **{"ionosphere": (0.9180, 0.9300), "breast": (0.9616, 0.9632), "australian": (0.8483, 0.8504)},
    **{"mammographic": (0.8130, 0.8177), "tictactoe": (0.8718, 0.8720), "splice": (0.8075, 0.8229)},
    **{"gcloudub": (0.9437, 0.9560), "banana": (0.8926, 0.8787), "phoneme": (0.8254, 0.8355)},
    "twonorm": (0.9753, 0.9764),
}
OTHER = {  # tables whose published runs are of another table of that name
    "breast": "another table: their runs go to 409 labels, so it has 683 rows, not 478",
    "tictactoe": "another table: with 13 of 150 seeds 20 labels are of one class, so one of about 12 %, not 35 %",
}


class Split(NamedTuple):
    """What one seed has of a table: the first `INITIAL` rows are labelled."""

    x: np.ndarray  # [n, d]
    y: np.ndarray  # [n]
    test: tuple[np.ndarray, np.ndarray]


def split_of(x: np.ndarray, y: np.ndarray, seed: int) -> Split:
    """Their split: two shuffles by generators of the same seed; features have mean 0 and variance 1 over the pool."""
    from sklearn.preprocessing import StandardScaler

    order = np.arange(len(y))
    np.random.default_rng(seed).shuffle(order)
    pool, test = np.split(order, [int(SHARE * len(y))])
    scaled = StandardScaler().fit(x[pool]).transform
    np.random.default_rng(seed).shuffle(pool)
    return Split(scaled(x[pool]), y[pool], (scaled(x[test]), y[test]))


def area_of(labels: Sequence[int], accuracy: Sequence[float]) -> float:
    """Their area: the trapezoids of the accuracies after each question, divided by the number of questions.

    >>> area_of([21, 22, 23], [0.5, 0.75, 1.0])
    0.5
    """
    every = np.arange(labels[0], labels[-1] + 1)
    return float(np.trapezoid(np.interp(every, labels, accuracy)) / len(every))


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run, in one row: area, accuracy with all labels, and how many these are."""
    if past:
        return
    name, model = job.setting.split(", ")
    split = split_of(*data.published(name), job.seed)
    if terms.effort == "quick":
        split = split._replace(x=split.x[: INITIAL + 20], y=split.y[: INITIAL + 20])
    curve = _svm_curve(split, job.score, job.seed) if model == "svm" else _curve(split, model, job.score, job.seed)
    labels, accuracy = zip(*curve, strict=True)
    reference = data.published_areas() if (model, job.score) == ("svm", "margin") else {}
    yield {
        "labels": labels[-1],
        "area": round(area_of(labels, accuracy), 6),
        "accuracy": round(accuracy[-1], 6),
        "theirs": reference.get((name, model, job.seed), np.nan),
    }


def _svm_curve(split: Split, score: str, seed: int) -> Iterator[tuple[int, float]]:
    """(labels, accuracy) after each question to a support vector machine, point by point as published.

    Rows go to the machine in the pool's order: in another it ends at another solution in the last digits, and after
    hundreds of questions the curve is another. Of equal rows, which mammographic is full of, the one is asked that
    NumPy's sort, which is not stable, puts first when the whole pool is sorted; numbers are sorted as objects, because
    the sort of numbers depends on the processor.
    """
    from sklearn.svm import SVC

    known = np.arange(len(split.y)) < INITIAL
    lot = np.random.default_rng(seed)
    model = SVC(kernel="rbf", gamma="auto", C=1).fit(split.x[known], split.y[known])
    while not known.all():
        distance = lot.random(len(known)) if score == "random" else np.abs(model.decision_function(split.x))
        order = np.argsort(distance.astype(object))
        known[order[~known[order]][0]] = True
        model.fit(split.x[known], split.y[known])
        yield int(known.sum()), float((model.predict(split.test[0]) == split.test[1]).mean())


def _curve(split: Split, model: str, score: str, seed: int) -> Iterator[tuple[int, float]]:
    """(labels, accuracy) after each step of one of our models."""
    learner = askwell.Learner(_model(model), split.x, score=score, batch="top", classes=(0, 1), seed=seed, evaluation=0)
    learner.tell(range(INITIAL), split.y[:INITIAL].tolist())
    labels = INITIAL
    while labels < len(split.y):
        size = min(1 if labels < ONE_BY_ONE else labels // FORTIETH, len(split.y) - labels)
        items = learner.ask(size)
        learner.tell(items, split.y[items].tolist())
        labels += len(items)
        probs = mean_predict(learner.posterior, split.test[0])
        yield labels, float((probs.argmax(axis=1) == split.test[1]).mean())


def _model(name: str) -> Any:
    from askwell.models.forest import forest
    from askwell.models.gp import GPClassifier
    from askwell.models.linear import LinearModel

    return {"forest": forest, "linear": LinearModel, "gp": lambda: GPClassifier(learn=True)}[name]()


# ---- judging -------------------------------------------------------------------------------------------------------


def verdict(results: Results) -> str:
    """Per model: each table's area at random and what scores add, with 95 % intervals; the reference seed by seed."""
    parts = [*(_against_random(results, model) for model in MODELS), _reference(results)]
    return "\n\n".join(part for part in parts if part)


def _against_random(results: Results, model: str) -> str:
    scores = SCORES[1:]
    lines = [f"| {model} | seeds | random | {' | '.join(scores)} |", "|---|---|---|" + "---|" * len(scores)]
    means: dict[str, list[float]] = {score: [] for score in scores}
    for name in THEIRS:
        areas = _areas(results, f"{name}, {model}")
        seeds = sorted(set.intersection(*({*areas.get(score, {})} for score in SCORES)))
        if len(seeds) < 2:
            continue
        cells = []
        for score in scores:
            gain = np.array([areas[score][seed] - areas["random"][seed] for seed in seeds])
            means[score].append(float(gain.mean()))
            cells.append(f"{gain.mean():+.4f} ± {_half_width(gain):.4f}")
        base = np.mean([areas["random"][seed] for seed in seeds])
        lines.append(f"| {name} | {len(seeds)} | {base:.4f} | {' | '.join(cells)} |")
    if not means["auto"]:
        return ""
    total = (f"**{np.mean(m):+.4f}**, worst {min(m):+.4f}, above in {sum(v > 0 for v in m)}" for m in means.values())
    return "\n".join([*lines, f"| all {len(means['auto'])} | | | {' | '.join(total)} |"])


def _reference(results: Results) -> str:
    """How the support vector machine's areas compare with the published ones."""
    lines = [
        "| svm, margin | runs | equal to five digits | largest difference | mean, theirs |",
        "|---|---|---|---|---|",
    ]
    for name, (_, mean) in THEIRS.items():
        runs = results.where(setting=f"{name}, svm", score="margin")
        gaps = np.abs(runs["area"].round(5) - runs["theirs"])
        gaps = gaps[np.isfinite(gaps)]
        equal = f"{(gaps < 1.5e-5).sum()}" if len(gaps) else "-"
        largest = f"{gaps.max():.5f}" if len(gaps) else "-"
        if len(runs):
            note = f" ({OTHER[name]})" if name in OTHER else ""
            lines.append(f"| {name}{note} | {len(runs)} | {equal} | {largest} | {runs['area'].mean():.4f}, {mean} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _areas(results: Results, setting: str) -> dict[str, dict[int, float]]:
    """Score -> seed -> area."""
    here = results.where(setting=setting)
    found: dict[str, dict[int, float]] = {}
    for score, seed, area in zip(here["score"].tolist(), here["seed"].tolist(), here["area"].tolist(), strict=True):
        found.setdefault(score, {})[seed] = area
    return found


def _half_width(values: np.ndarray) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def draw(results: Results) -> Any:
    """What scores add to random, table by table."""
    from matplotlib.figure import Figure as Drawing

    shown = [model for model in MODELS if _against_random(results, model)]
    figure = Drawing(figsize=(4 * max(1, len(shown)), 4.2), layout="constrained", facecolor="white")
    looks = {"margin": "#8a1fd6", "epig": "#0068b3", "auto": "#134e46"}
    for place, model in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), place + 1)
        names = [name for name in THEIRS if len(_areas(results, f"{name}, {model}")) == len(SCORES)]
        for score, colour in looks.items():
            for height, name in enumerate(names):
                areas = _areas(results, f"{name}, {model}")
                seeds = sorted({*areas[score]} & {*areas["random"]})
                gain = np.array([areas[score][seed] - areas["random"][seed] for seed in seeds])
                axes.errorbar(
                    gain.mean(), height + 0.2 * (list(looks).index(score) - 1), xerr=_half_width(gain), fmt="o",
                    color=colour, markersize=4, label=score if height == 0 else None,
                )  # fmt: skip
        axes.axvline(0, color="#444444", linewidth=0.8)
        axes.set_yticks(range(len(names)), names)
        axes.set_title(model)
        axes.set_xlabel("area less that of random")
        if place == 0:
            axes.legend(frameon=False)
    return figure


def _settings() -> tuple[Setting, ...]:
    once = {"quick": 1, "standard": 1, "full": 1}
    many, few = {"quick": 2, "standard": 20, "full": 150}, {"quick": 2, "standard": 5, "full": 15}
    return tuple(
        Setting(
            f"{name}, {model}",
            REFERENCE if model == "svm" else SCORES,
            few if name in LARGE else many,
            once,
        )
        for model in ("forest", "linear", "svm", "gp")
        for name in THEIRS
        if model in ("forest", "linear") or name in SMALL or (model == "svm" and name not in LARGE)
    )


FIGURE = Figure(
    name="published",
    content="beyond the paper: a published benchmark of thirteen tables, by its own rules",
    claim="Is the default above random in every table?",
    settings=_settings(),
    run=run,
    draw=draw,
    verdict=verdict,
    columns=("labels", "area", "accuracy", "theirs"),
)
