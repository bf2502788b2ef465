"""A forest's fit and posterior against the way people write it, every tree's `predict_proba`, stacked; its memory.

And askwell's own forest against scikit-learn's: how fast it is fitted, and whether it is the same in distribution.
"""

from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier

import askwell
from askwell.models.forest import RandomForest
from askwell.models.scikit_learn import ForestModel
from askwell.seeds import rng_for
from benchmarks.measure import MIB, Row, in_child, interleaved, peak_above, row
from experiments import data

SEEDS = range(12)
INPUTS, FEATURES, TREES, CLASSES = 10_000, 36, 100, 6


def rows() -> list[Row]:
    fits = [_fit(labels) for labels in (50, 300, 4000)]
    own = [_own_fit(labels, goal) for labels, goal in ((60, 15), (300, 10), (4000, 3))]
    return [*own, _in_distribution(), *fits, *(_against_stacking(labels) for labels in (300, 4000)), _memory()]


def _labelled(rng: np.random.Generator, labels: int) -> tuple[np.ndarray, np.ndarray]:
    centres = rng.normal(size=(CLASSES, FEATURES))
    y = rng.integers(0, CLASSES, labels)
    return (centres[y] + 2 * rng.normal(size=(labels, FEATURES))).astype(np.float32), y


def _own_fit(labels: int, goal: int) -> Row:
    x, y = _labelled(rng_for(0, 0, "forest benchmark"), labels)
    own, other = RandomForest(500), RandomForestClassifier(500, n_jobs=2)
    own.fit(x, y, rng=rng_for(0, 0, "fit"))  # compiled before the clock starts
    found = interleaved(lambda: own.fit(x, y, rng=rng_for(0, 0, "fit")), lambda: other.fit(x, y), repeats=7)
    ratio = found["second"]["wall"] / found["first"]["wall"]
    return row(
        "fit of askwell's own forest against scikit-learn's",
        f"500 trees, {labels:,} labels x {FEATURES} features, {CLASSES} classes, two threads each",
        f"at least {goal}x faster",
        f"{ratio:.0f}x: {found['first']['wall'] * 1e3:.0f} against {found['second']['wall'] * 1e3:.0f} ms; "
        f"{1 / found['cpu']:.0f}x fewer CPU-seconds",
        ratio >= goal,
    )


def _in_distribution() -> Row:
    """The largest gap, in standard errors, of any figure on any data set; two forests of scikit-learn's for scale."""
    gaps, ranks = [], []
    for name, (x, y) in _problems().items():
        each = [_figures(x, y, seed) for seed in SEEDS]
        figures, alike = np.array([one[0] for one in each]), np.array([one[1] for one in each])  # [seeds, 3, figures]
        for other in (1, 2):
            gap = figures[:, other] - figures[:, 0]
            gaps.append((other, name, np.abs(gap.mean(0)) / (gap.std(0, ddof=1) / len(gap) ** 0.5 + 1e-12)))
        ranks.append(alike.mean(0))
    own, scale = (np.array([gap for other, _, gap in gaps if other == which]) for which in (2, 1))
    rank = np.mean(ranks, axis=0)
    return row(
        "askwell's own forest: the same in distribution as scikit-learn's",
        f"{len(ranks)} data sets, 60 and 300 labels, {len(SEEDS)} seeds: accuracy, log loss, entropy, EPIG, nodes",
        "gaps like those of two forests of scikit-learn's",
        f"gaps of {own.mean():.1f} standard errors in the mean (two of scikit-learn's: {scale.mean():.1f}), "
        f"{own.max():.1f} at most ({scale.max():.1f}); rank correlation of EPIG {rank[1]:.3f} ({rank[0]:.3f})",
        bool(own.mean() < 1.25 * scale.mean() and rank[1] > rank[0] - 0.01),
    )


def _figures(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[list[list[float]], list[float]]:
    labels = 60 if seed % 2 else min(300, len(x) // 2)
    order = rng_for(seed, 0, "split").permutation(len(x))
    train, test = order[:labels], order[labels : labels + 800]
    sklearns = ForestModel(RandomForestClassifier(500, n_jobs=2))
    figures, scores = [], []
    for which, model in enumerate((sklearns, sklearns, RandomForest(500))):
        rng, classes = rng_for(seed, which, "fit"), list(range(int(y.max()) + 1))
        posterior: Any = model.fit(x[train], y[train], rng=rng, classes=classes)
        probs = posterior.predict(x[test])
        mean = probs.mean(axis=1)
        scores.append(np.asarray(askwell.epig(probs[:300], probs[-50:])))
        loss = -np.log(np.maximum(mean[np.arange(len(test)), y[test]], 1e-3)).mean()
        accuracy, entropy = (mean.argmax(1) == y[test]).mean(), np.asarray(askwell.entropy(probs)).mean()
        figures.append([accuracy, loss, entropy, scores[-1].mean(), len(posterior.trees.left) / 500])
    return figures, [float(spearmanr(scores[0], other)[0]) for other in scores[1:]]


def _problems() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = {load.__name__: load(return_X_y=True) for load in (load_digits, load_wine, load_breast_cancer, load_iris)}
    for classes in (2, 4, 7):
        options = {"n_informative": 8, "n_classes": classes, "n_clusters_per_class": 1, "flip_y": 0.1}
        found[f"made, {classes}"] = make_classification(1500, 20, random_state=classes, **options)
    satellite, vowel, magic = data.satellite(), data.vowel(), data.magic()
    found |= {"satellite": (satellite.x, satellite.y), "vowel": (vowel.x, vowel.y), "magic": magic}
    codes = {name: (x, np.unique(y, return_inverse=True)[1]) for name, (x, y) in found.items()}
    some = {name: rng_for(0, 0, "some").permutation(len(x))[:2500] for name, (x, _) in codes.items()}
    return {name: (np.asarray(x, np.float32)[some[name]], y[some[name]]) for name, (x, y) in codes.items()}


def _fit(labels: int) -> Row:
    x, y = _labelled(rng_for(0, 0, "forest benchmark"), labels)
    model, seed = ForestModel(RandomForestClassifier(TREES)), int(rng_for(0, 0, "fit").integers(2**31))
    twin = RandomForestClassifier(TREES, random_state=seed)
    found = interleaved(lambda: model.fit(x, y, rng=rng_for(0, 0, "fit")), lambda: twin.fit(x, y), repeats=7)
    posterior = model.fit(x, y, rng=rng_for(0, 0, "fit"))
    same = np.array_equal(posterior.predict(x).argmax(axis=2), np.stack([t.predict(x) for t in twin.estimators_], 1))
    ratio = found["second"]["wall"] / found["first"]["wall"]
    return row(
        "fit of a random forest against scikit-learn's own",
        f"{TREES} trees, {labels:,} labels x {FEATURES} features, {CLASSES} classes, one thread each",
        "not slower, the same trees",
        f"{ratio:.1f}x faster: {found['first']['wall'] * 1e3:.0f} against {found['second']['wall'] * 1e3:.0f} ms; "
        f"{'the same votes' if same else 'OTHER VOTES'}",
        ratio >= 0.95 and same,
    )


def _against_stacking(labels: int) -> Row:
    rng = rng_for(0, 0, "forest benchmark")
    x, y = _labelled(rng, labels)
    pool = (2.2 * rng.normal(size=(INPUTS, FEATURES))).astype(np.float32)
    posterior = ForestModel(RandomForestClassifier(TREES, n_jobs=-1)).fit(x, y, rng=rng_for(0, 0, "fit"))
    seed = int(rng_for(0, 0, "fit").integers(2**31))
    twin = RandomForestClassifier(TREES, random_state=seed).fit(x, y)
    posterior.predict(pool[:10])  # compiled before the clock starts

    def stacked() -> np.ndarray:
        return np.stack([tree.predict_proba(pool) for tree in twin.estimators_], axis=1)

    found = interleaved(lambda: posterior.predict(pool), stacked, repeats=7)
    ratio = found["second"]["wall"] / found["first"]["wall"]
    gap = float(np.max(np.abs(posterior.predict(pool) - stacked())))
    return row(
        "forest posterior `predict` against `np.stack([t.predict_proba(x) for t in trees])`",
        f"{TREES} trees fitted to {labels:,} labels, {INPUTS:,} x {FEATURES} float32, {CLASSES} classes",
        "at least 2x faster, equal to 1e-6",
        f"{ratio:.1f}x faster: {found['first']['wall'] * 1e3:.0f} against {found['second']['wall'] * 1e3:.0f} ms; "
        f"{1 / found['cpu']:.1f}x fewer CPU-seconds; largest difference {gap:.0e}",
        ratio >= 2 and gap <= 1e-6,
    )


def _memory() -> Row:
    used = in_child("benchmarks.bench_forest:predict_peak", n=200_000)
    above = used["peak"] - used["output"]
    return row(
        "forest posterior: memory of `predict`",
        f"{TREES} trees, 200,000 x {FEATURES} float64, {CLASSES} classes",
        "grows only with the output (to 20 MiB)",
        f"{above:.0f} MiB above input ({used['input']:.0f} MiB) and output ({used['output']:.0f} MiB); {used['how']}",
        above <= 20,
    )


def predict_peak(n: int) -> dict[str, Any]:
    rng = rng_for(0, 0, "forest memory")
    x = rng.normal(size=(n, FEATURES))
    posterior = ForestModel(RandomForestClassifier(TREES)).fit(x[:300], np.arange(300) % CLASSES, rng=rng)
    posterior.predict(x[:10])
    out, peak, how = peak_above(lambda: posterior.predict(x))
    return {"peak": peak, "output": out.nbytes / MIB, "input": x.nbytes / MIB, "how": how}
