"""What people wait for between an answer and the next question: fit, predict and search, at 60 labels and 100 targets.

The goals are CPU-milliseconds on a machine of 2026; another one has others. The forest is compared with the same
question put to scikit-learn's forest: its own `fit`, and beliefs as arrays.
"""

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import askwell
from askwell.models.forest import forest
from askwell.models.linear import LinearModel
from askwell.models.protocol import fit_model
from askwell.scoring import Search, best_items
from askwell.seeds import rng_for
from benchmarks.measure import Row, in_child, interleaved, row, timed

LABELS, TARGETS, FEATURES = 60, 100, 20
CASES: dict[str, tuple[int, int, float]] = {  # classes, candidates, goal in CPU-ms
    "forest, 500 trees, 2 classes": (2, 2_000, 25),
    "forest, 500 trees, 10 classes": (10, 2_000, 60),
    "forest, 500 trees, 26 classes": (26, 5_000, 300),
    "linear, 500 draws, 10 classes": (10, 2_000, 120),
    "dropout MLP, 100 draws, 2 classes": (2, 2_000, 250),
}


def rows() -> list[Row]:
    return [in_child("benchmarks.bench_ask:measured", name=name) for name in CASES]


def measured(name: str) -> Row:
    classes, candidates, goal = CASES[name]
    model, compared = _model(name, classes), ""
    if name.startswith("forest"):
        found = interleaved(lambda: ask(model, classes, candidates), lambda: plain(classes, candidates), repeats=7)
        first = found["first"]
        compared = f"; {1 / found['cpu']:.1f}x fewer CPU-seconds than with scikit-learn's forest and arrays"
    else:
        ask(model, classes, candidates)
        first = timed(lambda: ask(model, classes, candidates), repeats=5)
    return row(
        f"a question: {name}",
        f"{LABELS} labels x {FEATURES} features, {candidates:,} candidates, {TARGETS} targets",
        f"at most {goal:.0f} CPU-ms",
        f"{1e3 * first['cpu']:.0f} CPU-ms, {1e3 * first['wall']:.0f} ms{compared}",
        bool(1e3 * first["cpu"] <= goal),
    )


def ask(model: Any, classes: int, candidates: int) -> Any:
    """The 20 best candidates of a model that has just been fitted."""
    x, y, labelled = _problem(classes, candidates)
    fitted = fit_model(model, x[labelled], y[labelled], rng=rng_for(0, 0, "fit"), classes=list(range(classes)))
    return best_items(Search(fitted, x[:candidates], x[-TARGETS:]), "epig", 20)


def plain(classes: int, candidates: int) -> Any:
    """The same with scikit-learn's own fit, and probabilities of all trees."""
    x, y, labelled = _problem(classes, candidates)
    trees = RandomForestClassifier(500, n_jobs=-1, random_state=0).fit(x[labelled], y[labelled]).estimators_
    probs, targets = (
        np.stack([tree.predict_proba(part) for tree in trees], 1).astype(np.float32)
        for part in (x[:candidates], x[-TARGETS:])
    )
    return np.argsort(-np.asarray(askwell.epig(probs, targets)))[:20]


@cache
def _problem(classes: int, candidates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    options = {"n_informative": 10, "n_redundant": 0, "n_classes": classes, "n_clusters_per_class": 1}
    x, y = make_classification(candidates + 2 * TARGETS, FEATURES, random_state=0, **options)
    some = np.concatenate([np.flatnonzero(y == label)[: LABELS // classes] for label in range(classes)])
    rest = np.setdiff1d(np.arange(len(x)), some)
    return x.astype(np.float32), y, np.concatenate([some, rest])[:LABELS]


def _model(name: str, classes: int) -> Any:
    if name.startswith("forest"):
        return forest()
    if name.startswith("linear"):
        return LinearModel()
    from askwell.models.dropout import DropoutModel
    from askwell.models.networks import mlp

    return DropoutModel(mlp(FEATURES, classes), draws=100)
