"""The kinds of models side by side on a small problem: accuracy, cost, and how much of EPIG is more than chance.

scikit-learn's digits, 40 labels of ten classes, chosen at random; for the Gaussian process, which is for two classes,
"less than five" of the first ten principal components. One process, all cores; medians over the seeds.
"""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.neural_network import MLPClassifier

import askwell
from askwell.models.dropout import DropoutModel
from askwell.models.ensemble import EnsembleModel
from askwell.models.forest import forest
from askwell.models.gp import GPClassifier, Kernel
from askwell.models.linear import LinearModel
from askwell.models.networks import mlp
from askwell.seeds import rng_for
from benchmarks.measure import Row, in_child, row, spent

LABELS, SEEDS = 40, range(3)


def rows() -> list[Row]:
    found: list[Row] = in_child("benchmarks.bench_models:measured", timeout=900)
    return found


def measured() -> list[Row]:
    return [_line(name, *problem) for name, problem in _models().items()]


def _models() -> dict[str, tuple[Any, np.ndarray, np.ndarray]]:
    x, y = load_digits(return_X_y=True)
    x = x.astype(np.float32) / 16
    low = PCA(10).fit_transform(x)
    return {
        "forest, 100 trees": (askwell.as_model(RandomForestClassifier(100, n_jobs=-1)), x, y),
        "`forest()`, 500 trees": (forest(), x, y),
        "`LinearModel(draws=100)`": (LinearModel(draws=100), x, y),
        "`LinearModel(reference=x)`, 500 draws": (LinearModel(reference=x), x, y),
        "`EnsembleModel` of 10 perceptrons": (EnsembleModel(MLPClassifier((64,), max_iter=500), bootstrap=False), x, y),
        "bag of 10 boosted trees": (
            askwell.as_model(BaggingClassifier(GradientBoostingClassifier(n_estimators=20), 10)),
            x,
            y,
        ),
        "`DropoutModel(mlp(64, 10))`, 100 draws": (DropoutModel(mlp(64, 10), device="cpu"), x, y),
        "`GPClassifier(learn=True)`, 500 draws": (GPClassifier(Kernel(10.0, 1.0), learn=True), low, y < 5),
        **{name: (askwell.as_model(made, draws=draws), x, y) for name, made, draws in _boosters()},
    }


def _boosters() -> Iterator[tuple[str, Any, int | None]]:
    """(name, estimator, draws) of the packages that are installed."""
    yield (
        "`HistGradientBoostingClassifier(min_samples_leaf=2)`, 50 fits",
        HistGradientBoostingClassifier(min_samples_leaf=2, max_iter=30),
        50,
    )
    with contextlib.suppress(ImportError):
        from lightgbm import LGBMClassifier

        few: dict[str, Any] = {"min_child_samples": 2, "verbosity": -1}
        yield "`LGBMClassifier()`, 50 fits", LGBMClassifier(verbosity=-1), 50
        yield "`LGBMClassifier(min_child_samples=2)`, 50 fits", LGBMClassifier(**few), 50
        forest = LGBMClassifier(boosting_type="rf", subsample=0.6, subsample_freq=1, n_estimators=500, **few)
        yield '`LGBMClassifier(boosting_type="rf", ...)`, 500 trees', forest, None
    with contextlib.suppress(ImportError):
        from xgboost import XGBClassifier, XGBRFClassifier

        yield "`XGBClassifier()`, 50 fits", XGBClassifier(), 50
        yield "`XGBRFClassifier()`, 500 trees", XGBRFClassifier(n_estimators=500), None
    with contextlib.suppress(ImportError):
        from catboost import CatBoostClassifier

        quiet: dict[str, Any] = {"iterations": 200, "verbose": False, "allow_writing_files": False}
        yield "`CatBoostClassifier(iterations=200)`, 50 fits", CatBoostClassifier(**quiet), 50
        sampled = CatBoostClassifier(posterior_sampling=True, **quiet)
        yield "`CatBoostClassifier(iterations=200, posterior_sampling=True)`, 50 virtual ensembles", sampled, 50


def _line(name: str, model: Any, x: np.ndarray, y: np.ndarray) -> Row:
    _score(model, x, y, 0)  # loads and compiles
    found = np.array([_score(model, x, y, seed) for seed in SEEDS])
    accuracy, loss, signal, fit, predict = np.median(found, axis=0)
    return row(
        f"models side by side: {name}",
        f"{LABELS} labels, {len(np.unique(y))} classes, {len(SEEDS)} seeds",
        "",
        f"accuracy {accuracy:.2f}, log loss {loss:.2f}, `signal` {signal:.1f}, fit {fit:.2f} CPU-s, predict of 1,000 "
        f"inputs {predict:.2f} CPU-s",
    )


def _score(model: Any, x: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float, float, float, float]:
    """(accuracy, log loss, signal, CPU-seconds of a fit and of a prediction) on inputs without a label."""
    order = rng_for(seed, 0, "bench_models").permutation(len(x))
    classes = np.unique(y).tolist()
    known, rest = order[:LABELS], order[LABELS:]
    kept: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = spent(lambda: kept.append(model.fit(x[known], y[known], rng=rng_for(seed, 0, "fit"), classes=classes)))[1]
        posterior = kept[0]
        predict = spent(lambda: posterior.predict(x[rest[:1000]]))[1]
        probs = posterior.predict(x[rest])
        signal = askwell.signal(probs[:1000], probs[1000:], warn=False)
    mean = probs.mean(axis=1)
    truth = mean[np.arange(len(rest)), np.searchsorted(classes, y[rest])]
    accuracy = float(np.mean(mean.argmax(axis=1) == np.searchsorted(classes, y[rest])))
    return accuracy, float(-np.log(np.maximum(truth, 1e-3)).mean()), signal, fit, predict
