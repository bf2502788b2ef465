"""A forest's fit and posterior against the way people write it, every tree's `predict_proba`, stacked; its memory."""

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from askwell.models.forest import ForestModel
from askwell.seeds import rng_for
from benchmarks.measure import MIB, Row, in_child, interleaved, peak_above, row

INPUTS, FEATURES, TREES, CLASSES = 10_000, 36, 100, 6


def rows() -> list[Row]:
    fits = [_fit(labels) for labels in (50, 300, 4000)]
    return [*fits, *(_against_stacking(labels) for labels in (300, 4000)), _memory()]


def _labelled(rng: np.random.Generator, labels: int) -> tuple[np.ndarray, np.ndarray]:
    centres = rng.normal(size=(CLASSES, FEATURES))
    y = rng.integers(0, CLASSES, labels)
    return (centres[y] + 2 * rng.normal(size=(labels, FEATURES))).astype(np.float32), y


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
