"""Many fits of a booster, as `as_model(booster, draws=50)` makes them, against as many fits one after another.

200 labels of scikit-learn's digits, less than five or not. The bare fits are of the same estimator and of samples of
the same size, with the package's own threads, as somebody would write them in a loop. Packages that are missing are
left out.
"""

import importlib
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits

import askwell
from askwell.seeds import rng_for
from benchmarks.measure import Row, in_child, interleaved, row

LABELS, DRAWS, REPEATS, GOAL = 200, 50, 3, 1.2
BOOSTERS = {
    "lightgbm": ("LGBMClassifier", {"verbosity": -1}),
    "xgboost": ("XGBClassifier", {}),
    "catboost": ("CatBoostClassifier", {"iterations": 100, "verbose": False, "allow_writing_files": False}),
}


def rows() -> list[Row]:
    found = [in_child("benchmarks.bench_boosters:measured", timeout=900, package=package) for package in BOOSTERS]
    return [line for line in found if line is not None]


def measured(package: str) -> Row | None:
    try:
        module: Any = importlib.import_module(package)
    except ImportError:
        return None
    name, options = BOOSTERS[package]
    booster = getattr(module, name)(**options)
    x, y = load_digits(return_X_y=True)
    x, y = x[:LABELS].astype(np.float32), y[:LABELS] < 5
    rng = rng_for(0, 0, "bench_boosters")
    samples = [rng.integers(LABELS, size=LABELS) for _ in range(DRAWS)]
    model = askwell.as_model(booster, draws=DRAWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(booster).fit(x, y)
        times = interleaved(
            lambda: model.fit(x, y, rng=rng_for(0, 0, "fit")),
            lambda: [clone(booster).fit(x[sample], y[sample]) for sample in samples],
            repeats=REPEATS,
        )
    return row(
        f"`as_model({name}(), draws={DRAWS}).fit`",
        f"{LABELS} labels, two classes",
        f"at most {GOAL} times {DRAWS} bare fits",
        f"{times['wall']:.2f} times ({times['first']['wall']:.1f} s to {times['second']['wall']:.1f} s; CPU "
        f"{times['cpu']:.2f} times)",
        times["wall"] <= GOAL,
    )
