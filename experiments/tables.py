"""Which score to ask by: everyday tables, three kinds of pools and two models, in two halves.

A *cell* is a data set, a kind of pool and a model. *Matched*: the model will meet inputs like the pool's, and no
targets are given. *Redundant*: it will meet two classes of several. *Shifted*: the pool is dominated by what it will
rarely meet. Labels start with two of each class and come one at a time, for the net, which is slow, five (chosen
jointly for EPIG and auto); the model that asks is the one that is tested. To save time the linear model is not run on
two tables of 15 and 26 classes, and the net only on eight tables.

The data sets were dealt by lot into a half on which the default was chosen and a half that confirms it, before any of
them was looked at. A score's *regret* in a cell is the area of the best of the five classic scores less its own; which
is best is said, for each seed, by the other seeds. Negative: better than the best of five.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import askwell
from askwell.acquisition import SETTLED
from askwell.data.encoding import fit_texts
from askwell.models.protocol import mean_predict
from askwell.seeds import rng_for
from experiments import data
from experiments.figure import Figure, Option, Setting, Terms
from experiments.results import Job, Results, Row
from experiments.splits import principal

__all__ = ["CHOOSING", "CLASSIC", "CONFIRMING", "FIGURE", "TEXTS", "Cell", "cell_of", "model_named", "regrets", "run"]

CHOOSING = {  # data set -> where it comes from
    **dict.fromkeys(("appendicitis", "australian", "banana", "breast", "gcloudub", "heart", "parkinsons"), "published"),
    **dict.fromkeys(("bands", "magic", "mushroom", "saheart", "titanic"), "keel"),
    **dict.fromkeys(("optdigits", "penbased", "segment", "texture", "vehicle", "wine"), "keel"),
    "mnist": "mnist",
}
CONFIRMING = {
    **dict.fromkeys(("ionosphere", "mammographic", "phoneme", "splice", "tictactoe", "twonorm"), "published"),
    **dict.fromkeys(("chess", "crx", "housevotes", "monk-2"), "keel"),
    **dict.fromkeys(
        ("contraceptive", "led7digit", "letter", "marketing", "movement_libras", "satimage", "vowel"), "keel"
    ),
}
TEXTS = {"sources": "texts", "tweets": "texts", "movieReviewSnippets": "texts"}  # for the first questions alone
CLASSIC = ("random", "entropy", "margin", "bald", "epig")
SCORES = (*CLASSIC, "auto")
KINDS = ("matched", "redundant", "shifted")
SEVERAL = 4  # classes, from which on a pool can be redundant
RARE = 0.12  # of the examples of a class that is rare
POOL, TARGETS, TEST = 800, 100, 1000  # at most
COMPONENTS = 50  # of MNIST's images
TEXTS_AT_MOST = 6000
SHARE = 0.55  # of a table for the pool; the rest is for targets and test
STEP = 5  # labels at a time for the net
MARGIN = 0.01  # of area: what counts as clearly behind


class Cell(NamedTuple):
    """What one seed has of a data set and a kind of pool."""

    x: np.ndarray  # [n, d]: the initial examples, then the pool
    y: np.ndarray  # [n]
    classes: int
    initial: int
    targets: np.ndarray | None
    labels: np.ndarray | None  # of the targets
    test: tuple[np.ndarray, np.ndarray]


def cell_of(name: str, kind: str, seed: int) -> Cell:
    """Pool, targets and test set of a seed; features have mean 0 and variance 1 over the pool."""
    x, y = _table(name)
    c = int(y.max()) + 1
    rng = rng_for(seed, 0, f"{name}, {kind}")
    order = rng.permutation(len(y))
    pool, others = np.split(order, [int(SHARE * len(y))])
    lot = rng.permutation(c)
    if kind == "redundant":
        others = others[np.isin(y[others], lot[:2])]
    elif kind == "shifted":
        rare = np.isin(y, lot[: max(1, c // 2)])
        pool = pool[rng.random(len(pool)) < np.where(rare, RARE, 1)[pool]]
        others = others[rng.random(len(others)) < np.where(rare, 1, RARE)[others]]
    spare = order[::-1]  # a class that has no two examples left takes them from the end
    first = [[*pool[y[pool] == each], *spare[y[spare] == each]][:2] for each in range(c)]
    initial = np.unique(np.concatenate(first))
    kept = np.concatenate([initial, _without(pool, initial)[:POOL]])
    others = _without(others, initial)
    few = min(TARGETS, len(others) // 3)
    mean, scale = x[kept].mean(axis=0), x[kept].std(axis=0)
    scale[scale == 0] = 1

    def scaled(rows: np.ndarray) -> np.ndarray:
        values: np.ndarray = ((x[rows] - mean) / scale).astype(np.float32)
        return values

    tested = others[few : few + TEST]
    targets = None if kind == "matched" else scaled(others[:few])
    named = None if kind == "matched" else y[others[:few]]
    return Cell(scaled(kept), y[kept], c, len(initial), targets, named, (scaled(tested), y[tested]))


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run, in one row: the mean accuracy over the curve, the last one, and the mean log loss."""
    if past:
        return
    name, kind, model = job.setting.split(", ")
    cell = cell_of(name, kind, job.seed)
    asks = min(10 if terms.effort == "quick" else asks_of(cell.classes), len(cell.y) - cell.initial - 1)
    rule = terms.options.get("rule")
    score = rule_of(*RULES[rule]) if rule and job.score == "auto" else job.score
    curve = list(_curve(cell, model, score, job.seed, asks))
    accuracy, loss = (np.array(column) for column in zip(*curve, strict=True))
    yield {
        "labels": cell.initial + asks,
        "area": round(float(accuracy.mean()), 6),
        "accuracy": round(float(accuracy[-1]), 6),
        "log_loss": round(float(loss.mean()), 6),
    }


RULES = {"product": (1.0, 1.0), "targets": (0.0, 1.0), "root": (0.5, 1.0), "roots": (0.5, 0.5)}
"""What could stand in the place of "auto": exponents of the candidate's margin and of the targets' margins."""


def rule_of(own: float, of_targets: float) -> Callable[..., np.ndarray]:
    """The score margin(x)^own * EPIG(x), each target counted by max(0.02, its margin)^of_targets."""

    def score(probs: np.ndarray, target_probs: np.ndarray, *, weights: np.ndarray | None, rng: Any) -> np.ndarray:
        counts = np.maximum(askwell.margin(target_probs), SETTLED if of_targets == 1 else 0) ** of_targets
        counts = counts if weights is None else counts * weights
        informed = askwell.epig(probs, target_probs, weights=counts / counts.sum())
        return np.asarray(informed * np.maximum(askwell.margin(probs), 0) ** own)

    return score


def asks_of(classes: int) -> int:
    """How many questions: 60 for two classes, 8 for each class of several, at most 100."""
    return min(100, max(60, 8 * classes))


def _curve(cell: Cell, model: str, score: Any, seed: int, asks: int) -> Iterator[tuple[float, float]]:
    """(accuracy, log loss) on the test set with the initial labels and after each question."""
    step = STEP if model == "net" else 1
    learner = askwell.Learner(
        model_named(model, cell),
        cell.x,
        targets=cell.targets,
        score=score,
        classes=range(cell.classes),
        seed=seed,
        evaluation=0,
    )
    learner.tell(range(cell.initial), cell.y[: cell.initial].tolist())
    x, y = cell.test
    for left in range(asks, -1, -step):
        probs = mean_predict(learner.posterior, x)
        true = np.clip(probs[np.arange(len(y)), y], 1 / 500, 1)
        yield float((probs.argmax(axis=1) == y).mean()), float(-np.log(true).mean())
        if left >= step:
            items = learner.ask(step)
            learner.tell(items, cell.y[items].tolist())


def model_named(name: str, cell: Cell) -> Any:
    """A model for a cell; the linear one with 200 draws, because there are many runs."""
    from askwell.models.forest import forest
    from askwell.models.linear import LinearModel

    if name == "net":
        from askwell.models.dropout import DropoutModel
        from askwell.models.networks import mlp

        return DropoutModel(mlp(cell.x.shape[1], cell.classes), draws=100)
    return forest() if name == "forest" else LinearModel(draws=200)


@cache
def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    origin = (CHOOSING | CONFIRMING | TEXTS)[name]
    if origin == "mnist":
        (x, y), _ = principal(COMPONENTS)
        return x[:12_000].astype(np.float64), y[:12_000]
    if origin == "texts":
        texts, y = data.texts(name)
        rows = rng_for(0, 0, name).permutation(len(y))[:TEXTS_AT_MOST]
        texts = [texts[row] for row in rows.tolist()]
        encode, _ = fit_texts(texts)
        return encode(texts), y[rows]
    return data.published(name) if origin == "published" else data.keel(name)


def _without(rows: np.ndarray, taken: np.ndarray) -> np.ndarray:
    left: np.ndarray = rows[~np.isin(rows, taken)]
    return left


# ---- judging -------------------------------------------------------------------------------------------------------


class Regret(NamedTuple):
    """How far a score is from the best of the classic ones in a cell."""

    setting: str
    by_seed: np.ndarray  # [seeds]: the best by the other seeds, less the score
    to_best: np.ndarray  # [seeds]: the best by all seeds, less the score
    to_random: np.ndarray  # [seeds]: random, less the score

    @property
    def surely_behind(self) -> bool:
        """Whether it is behind the best by more than `MARGIN`, with 95 %."""
        return float(_low(self.to_best)) > MARGIN

    @property
    def below_random(self) -> bool:
        """Whether it is below random, with 95 %."""
        return float(_low(self.to_random)) > 0


def regrets(results: Results, score: str) -> list[Regret]:
    """Of each cell in which the score and all classic ones were run, by the seeds that all of them have."""
    found = []
    for setting in results.names("setting"):
        here = results.where(setting=setting)
        runs = {name: here.where(score=name) for name in {*CLASSIC, score}}
        areas = {
            name: dict(zip(each["seed"].tolist(), each["area"].tolist(), strict=True)) for name, each in runs.items()
        }
        seeds = sorted(set.intersection(*({*each} for each in areas.values())))
        if len(seeds) < 2:
            continue
        table = {name: np.array([each[seed] for seed in seeds]) for name, each in areas.items()}
        classic = np.stack([table[name] for name in CLASSIC])  # [5, seeds]
        elsewhere = classic.sum(axis=1, keepdims=True) - classic  # of the other seeds
        picked = classic[elsewhere.argmax(axis=0), np.arange(len(seeds))]
        best = classic[classic.mean(axis=1).argmax()]
        mine = table[score]
        found.append(Regret(setting, picked - mine, best - mine, table["random"] - mine))
    return found


def _low(values: np.ndarray) -> Any:
    """The lower end of the 95 % interval of a mean."""
    from scipy.stats import t

    error = values.std(ddof=1) / np.sqrt(len(values))
    return values.mean() - t.ppf(0.975, len(values) - 1) * error


def half_of(setting: str) -> str:
    """The half that a cell was dealt to."""
    return "choosing" if setting.split(", ")[0] in CHOOSING else "confirming"


def verdict(results: Results) -> str:
    """Regret of each score by half, kind of pool and model; cells surely behind the best or below random."""
    lines = [
        "| half | model | pool | cells | " + " | ".join(SCORES) + " |",
        "|---|---|---|---|" + "---|" * len(SCORES),
    ]
    by_score = {score: regrets(results, score) for score in SCORES}
    for half in ("choosing", "confirming"):
        for model in (*MODELS, "all"):
            for kind in (*KINDS, "all"):
                chosen = {
                    score: [each for each in found if _is(each, half, model, kind)] for score, found in by_score.items()
                }
                counts = {len(found) for found in chosen.values()} - {0}
                if counts:
                    cells = " | ".join(_mean_and_worst(chosen[score]) for score in SCORES)
                    lines.append(f"| {half} | {model} | {kind} | {max(counts)} | {cells} |")
    notes = []
    for score in SCORES:
        behind = [each for each in by_score[score] if each.surely_behind]
        below = [each for each in by_score[score] if each.below_random]
        notes.append(
            f"- {score}: surely behind the best of five by more than {MARGIN} in {len(behind)} of "
            f"{len(by_score[score])} cells{_named(behind)}; below random in {len(below)}{_named(below)}."
        )
    return "\n".join([*lines, "", *notes])


def _is(regret: Regret, half: str, model: str, kind: str) -> bool:
    _, of_kind, of_model = regret.setting.split(", ")
    return half_of(regret.setting) == half and model in (of_model, "all") and kind in (of_kind, "all")


def _mean_and_worst(found: Sequence[Regret]) -> str:
    if not found:
        return "-"
    means = [float(each.by_seed.mean()) for each in found]
    return f"{np.mean(means):+.4f} / {max(means):+.3f}"


def _named(found: Sequence[Regret]) -> str:
    names = [f"{each.setting} ({each.to_best.mean():+.3f})" for each in found]
    return f" ({'; '.join(names[:6])}{'; ...' if len(names) > 6 else ''})" if names else ""


def draw(results: Results) -> Any:
    """Each cell a dot: a score's area less that of the best of the other classic scores."""
    from matplotlib.figure import Figure as Drawing

    figure = Drawing(figsize=(9, 4.2), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    colours = dict(zip(KINDS, ("#4477aa", "#cc6677", "#ddaa33"), strict=True))
    for place, score in enumerate(SCORES):
        for kind in KINDS:
            found = [-float(each.by_seed.mean()) for each in regrets(results, score) if f", {kind}, " in each.setting]
            spread = np.linspace(-0.3, 0.3, len(found)) if len(found) > 1 else np.zeros(len(found))
            axes.scatter(place + spread, np.sort(found), s=12, color=colours[kind], label=kind if place == 0 else None)
    axes.axhline(0, color="#444444", linewidth=0.8)
    axes.set_xticks(range(len(SCORES)), SCORES)
    axes.set_ylabel("area less the best of five")
    axes.legend(frameon=False)
    return figure


MODELS = ("forest", "linear", "net")


def _settings() -> tuple[Setting, ...]:
    once: Mapping[str, int] = {"quick": 1, "standard": 1, "full": 1}
    seeds = {"quick": 2, "standard": 10, "full": 20}
    return tuple(
        Setting(f"{name}, {kind}, {model}", SCORES, seeds, once)
        for model in MODELS
        for name in CHOOSING | CONFIRMING
        for kind in KINDS
        if (kind != "redundant" or name in REDUNDANT) and (model != "linear" or name not in TOO_MANY)
        if model != "net" or name in FOR_NETS
    )


REDUNDANT = (
    *("optdigits", "penbased", "segment", "texture", "vehicle", "mnist"),
    *("led7digit", "letter", "marketing", "movement_libras", "satimage", "vowel"),
)
"""Data sets of `SEVERAL` classes and more."""

TOO_MANY = ("letter", "movement_libras")  # classes for the linear model: it would take as long as all the others
FOR_NETS = ("banana", "optdigits", "segment", "wine", "ionosphere", "satimage", "twonorm", "vowel")

FIGURE = Figure(
    name="tables",
    content="beyond the paper: which score to ask by, on everyday tables of three kinds",
    claim="Is the default never clearly worse than random, entropy, margin, BALD or EPIG, and better on average?",
    settings=_settings(),
    run=run,
    draw=draw,
    verdict=verdict,
    options={"rule": Option(tuple(RULES), "what stands in the place of auto: see `RULES`")},
    columns=("labels", "area", "accuracy", "log_loss"),
)
