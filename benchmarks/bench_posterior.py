"""The linear model's posterior: does a draw fit its labels, is the mean calibrated, are its questions worth asking?

Against what it could have been, at the prior scale of most evidence: the mode, Laplace's Gaussian, its deviations times
0.35, and a chain (elliptical slice sampling: the exact posterior, as far as 200 steps of it go). Ten problems of two to
eleven classes and 10 to 400 features; the texts are docstrings of installed packages, whose package is the class.

    python -m benchmarks posterior            # quality and learning curves, about 15 and 30 CPU-minutes
"""

import ast
import math
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

import askwell
from askwell.models.linear import _augmented, _deviations
from askwell.models.tempered import _modes, _span, tempered_posterior
from askwell.seeds import rng_for
from benchmarks.measure import ONE_THREAD, Row, in_child, row
from experiments import data

HALVES = {  # the grid and the belief were chosen on the first half of these, with others of their kind
    "chosen on": ("digits", "cancer", "vowel", "texts, 50", "texts, 400"),
    "confirmed on": ("wine", "satellite", "magic", "mnist, 50", "two kinds of texts, 50"),
}
LABELS, SEEDS, DRAWS = (10, 30, 100, 200), range(4), 200
CHAINED, CHAIN_STEPS = (30, 100), 200  # labels of the problems with a chain, whose minutes grow with everything
CURVES = {"digits": 2, "cancer": 1, "vowel": 1, "texts, 50": 1, "mnist, 50": 2}  # and kinds of pools
SCORES = ("random", "margin", "bald", "epig")
PACKAGES = ("numpy", "scipy", "sklearn", "matplotlib", "numba", "click", "rich", "asyncio")


def rows() -> list[Row]:
    found: list[Row] = in_child("benchmarks.bench_posterior:quality", env=ONE_THREAD, timeout=9000)
    found += in_child("benchmarks.bench_posterior:curves", env=ONE_THREAD, timeout=9000)
    return found


# ---- problems ------------------------------------------------------------------------------------------------------


@cache
def problem(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs φ `[n, D]` as `LinearModel` makes them, at most 4,000, in random order, and class numbers."""
    x, y, standardise = _raw(name)
    order = rng_for(0, 0, "bench_posterior").permutation(len(x))[:4000]
    x, y = np.asarray(x, np.float64)[order], np.unique(y, return_inverse=True)[1][order]
    if standardise:
        x = (x - x.mean(axis=0)) / _deviations(x)
    return _augmented(x / math.sqrt(x.shape[1]), True), y


def _raw(name: str) -> tuple[Any, Any, bool]:
    if "texts" in name:
        texts, labels = _docstrings(PACKAGES[1:3] if name.startswith("two") else PACKAGES)
        x = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
        x = TruncatedSVD(int(name.split()[-1]), random_state=0).fit_transform(x)
        return x * math.sqrt(x.shape[1]) / np.linalg.norm(x, axis=1, keepdims=True).clip(1e-9), labels, False
    if name.startswith("mnist"):
        split = data.mnist()
        return PCA(50, random_state=0).fit_transform(split.x[:6000].reshape(6000, -1) / 255), split.y[:6000], False
    if name == "magic":
        return *data.magic(), True
    if name in ("satellite", "vowel"):
        split = getattr(data, name)()
        return np.concatenate([split.x, split.test_x]), np.concatenate([split.y, split.test_y]), True
    load = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}[name]
    return *load(return_X_y=True), True


def _docstrings(packages: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """At most 600 texts of a package, with its name taken out."""
    texts, labels = [], []
    for package in packages:
        spec = find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        found = set()
        for file in sorted(Path(spec.submodule_search_locations[0]).rglob("*.py")):
            if "test" in file.as_posix():
                continue
            nodes = ast.walk(ast.parse(file.read_text("utf-8")))
            kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
            found |= {ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)}
        long = sorted(text.replace(package, " ")[:400] for text in found if len(text) > 80)
        some = rng_for(0, 0, package).permutation(len(long))[:600]
        texts += [long[i] for i in some]
        labels += [package] * len(some)
    return texts, labels


# ---- what it could have been ---------------------------------------------------------------------------------------


def laplace(x: np.ndarray, y: np.ndarray, c: int, *, draws: int, rng: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """(mode `[D, c]`, draws `[D, c, k]`, scale) of N(W_MAP, H⁻¹), H dense, at the scale of most evidence."""
    basis, _ = _span(x)
    z, truth = x @ basis, np.eye(c)[y]

    def gaussian(s: float) -> tuple[np.ndarray, np.ndarray, float]:
        t = s * z
        mode = _modes(t[None], truth, np.ones(1), tolerance=1e-4)[0][0]
        probs = softmax(t @ mode, axis=1)
        curved = np.einsum("na,ab->nab", probs, np.eye(c)) - probs[:, :, None] * probs[:, None]
        h = np.einsum("nab,ni,nj->aibj", curved, t, t, optimize=True).reshape(c * t.shape[1], -1)
        factor = cholesky(h + np.eye(len(h)), lower=True)
        fit = (log_softmax(t @ mode, axis=1) * truth).sum()
        return mode, factor, float(fit - (mode**2).sum() / 2 - np.log(np.diagonal(factor)).sum())

    def loss(log_scale: float) -> float:
        return (log_scale - math.log(3)) ** 2 / 2 - gaussian(math.exp(log_scale))[2]

    s = math.exp(minimize_scalar(loss, bounds=(math.log(0.1), math.log(50)), options={"xatol": 0.2}).x)
    mode, factor, _ = gaussian(s)
    noise = cho_solve((factor, True), factor @ rng.standard_normal((len(factor), draws)))
    inside = mode[:, :, None] + noise.reshape(c, -1, draws).transpose(1, 0, 2)
    prior = rng.standard_normal((len(basis), c, draws))
    outside = prior - np.tensordot(basis, np.tensordot(basis.T, prior, 1), 1)
    return s * basis @ mode, s * (np.tensordot(basis, inside, 1) + outside), s


def chain(x: np.ndarray, y: np.ndarray, start: np.ndarray, s: float, *, draws: int, rng: Any) -> np.ndarray:
    """Draws `[D, c, k]`: the ends of k chains of elliptical slice sampling (Murray et al. 2010) from the mode."""
    basis, _ = _span(x)
    z, c = x @ basis, start.shape[1]
    w = np.repeat((basis.T @ start)[:, :, None], draws, axis=2)  # [r, c, k]

    def log_likelihood(w: np.ndarray) -> np.ndarray:
        logs = log_softmax(np.tensordot(z, w, 1), axis=1)  # [n, c, k]
        return np.asarray(logs[np.arange(len(y)), y].sum(axis=0))

    now = log_likelihood(w)
    for _ in range(CHAIN_STEPS):
        other = s * rng.standard_normal(w.shape)
        least = now + np.log(rng.random(draws))
        angle = rng.uniform(0, 2 * math.pi, draws)
        low, high, left = angle - 2 * math.pi, angle.copy(), np.arange(draws)
        while len(left):
            tried = w[:, :, left] * np.cos(angle[left]) + other[:, :, left] * np.sin(angle[left])
            value = log_likelihood(tried)
            good = value > least[left]
            w[:, :, left[good]], now[left[good]] = tried[:, :, good], value[good]
            left = left[~good]
            below = angle[left] < 0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = rng.uniform(low[left], high[left])
    prior = s * rng.standard_normal((len(basis), c, draws))
    return np.asarray(prior + np.tensordot(basis, w - np.tensordot(basis.T, prior, 1), 1))


def posteriors(x: np.ndarray, y: np.ndarray, c: int, *, seed: int, draws: int, chained: bool) -> dict[str, Any]:
    """kind -> weights `[D, c, k]`."""
    clock = time.process_time()
    new = tempered_posterior(x, y, c, draws=draws, rng=rng_for(seed, 0, "fit")).weights
    spent = time.process_time() - clock
    mode, wide, s = laplace(x, y, c, draws=draws, rng=rng_for(seed, 0, "laplace"))
    found = {"new": new, "Laplace": wide, "x 0.35": mode[:, :, None] + 0.35 * (wide - mode[:, :, None])}
    found["mode"] = mode[:, :, None]
    if chained:
        found["chain"] = chain(x, y, mode, s, draws=100, rng=rng_for(seed, 0, "chain"))
    return found | {"spent": spent}


def predicted(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`[n, k, c]`, float32."""
    return softmax(np.einsum("nd,dck->nkc", x, weights, optimize=True), axis=2).astype(np.float32)


# ---- quality -------------------------------------------------------------------------------------------------------


def answers(name: str, labels: int, seed: int) -> dict[str, tuple[float, ...]]:
    """kind -> (a training label's log-likelihood under a draw, log loss, confidence - accuracy, accuracy)."""
    x, y = problem(name)
    order = rng_for(seed, labels, "split").permutation(len(x))
    known, rest = order[:labels], order[-min(1000, len(x) // 2) :]
    found = posteriors(x[known], y[known], y.max() + 1, seed=seed, draws=DRAWS, chained=labels in CHAINED)
    out: dict[str, tuple[float, ...]] = {"spent": (found.pop("spent"),)}
    for kind, weights in found.items():
        own = np.log(np.maximum(predicted(x[known], weights)[np.arange(labels), :, y[known]], 1e-30)).mean()
        mean = predicted(x[rest], weights).mean(axis=1)
        loss = -np.log(np.maximum(mean[np.arange(len(rest)), y[rest]], 1e-12)).mean()
        accuracy = (mean.argmax(axis=1) == y[rest]).mean()
        out[kind] = tuple(map(float, (own, loss, mean.max(axis=1).mean() - accuracy, accuracy)))
    return out


def quality() -> list[Row]:
    """A line a problem, then the goals, over all of them."""
    cells: dict[tuple[str, int], dict[str, np.ndarray]] = {}
    found = []
    for half, names in HALVES.items():
        for name in names:
            for labels in LABELS:
                if labels < 0.45 * len(problem(name)[0]):
                    each = [answers(name, labels, seed) for seed in SEEDS]
                    cells[name, labels] = {kind: np.mean([one[kind] for one in each], axis=0) for kind in each[0]}
            mine = {labels: cell for (of, labels), cell in cells.items() if of == name}
            measured = "; ".join(
                f"{labels}: "
                + ", ".join(f"{kind} {v[1]:.2f} ({v[2]:+.2f})" for kind, v in cell.items() if kind != "spent")
                for labels, cell in mine.items()
            )
            what = f"linear model, {half} {name}: log loss (confidence - accuracy) by labels"
            found.append(row(what, f"{len(SEEDS)} seeds", "", measured))
    own = cells["digits", 100]["new"][0], cells["digits", 100]["Laplace"][0]
    found.append(
        row(
            "a training label's log-likelihood under a draw", "digits, 100 labels", "above -0.8 nats",
            f"{own[0]:.2f}; Laplace {own[1]:.2f}", bool(own[0] > -0.8),
        )
    )  # fmt: skip
    for half, names in HALVES.items():
        some = [cell for (name, _), cell in cells.items() if name in names]
        ratios = [
            cell["new"][1] / min(cell[kind][1] for kind in ("mode", "x 0.35", "chain") if kind in cell) for cell in some
        ]
        gaps = {kind: float(np.mean([abs(cell[kind][2]) for cell in some])) for kind in ("new", "Laplace", "mode")}
        goal = "at most 1.1x the best of mode, scaled and chain in the mean"
        measured = f"{np.mean(ratios):.3f}x, at most {max(ratios):.2f}x"
        found.append(
            row(f"log loss of the mean prediction, {half}", "cells", goal, measured, bool(np.mean(ratios) <= 1.1))
        )
        measured = ", ".join(f"{kind} {gap:.3f}" for kind, gap in gaps.items())
        goal = "at most 0.1 in the mean"
        found.append(row(f"abs(confidence - accuracy), {half}", "cells", goal, measured, gaps["new"] <= 0.1))
    took = ", ".join(f"{name} {cell['spent'][0]:.2f}" for (name, labels), cell in cells.items() if labels == 30)
    found.append(row(f"a fit with {DRAWS} draws", "30 labels", "", f"CPU-s: {took}"))
    return found


# ---- learning curves -----------------------------------------------------------------------------------------------


def curve(name: str, redundant: bool, kind: str, score: str, seed: int) -> float:
    """Mean accuracy over 6, 9, ... 60 labels; targets and test are two of the classes where the pool is redundant."""
    x, y = problem(name)
    order = rng_for(seed, 0, "curve").permutation(len(x))
    pool, rest = order[: min(500, len(x) // 2)], order[len(x) // 2 :]
    if redundant:
        rest = rest[np.isin(y[rest], rng_for(seed, 0, "classes").permutation(y.max() + 1)[:2])]
    targets, test = rest[:100], rest[100:900]
    known, right = list(range(6)), []
    while True:
        labelled = pool[known]
        fits = {"new": _new, "Laplace": _laplace(1.0), "x 0.35": _laplace(0.35)}
        weights = fits[kind](x[labelled], y[labelled], y.max() + 1, rng_for(seed, len(known), "fit"))
        right.append((predicted(x[test], weights).mean(axis=1).argmax(axis=1) == y[test]).mean())
        if len(known) >= 60:
            return float(np.mean(right))
        free = np.setdiff1d(np.arange(len(pool)), known)
        if score == "random":
            known += free[:3].tolist()
            continue
        probs = predicted(x[pool[free]], weights)
        given = (probs, predicted(x[targets], weights)) if score == "epig" else (probs,)
        known += free[np.argsort(-np.asarray(getattr(askwell, score)(*given)), kind="stable")[:3]].tolist()


def _new(x: np.ndarray, y: np.ndarray, c: int, rng: Any) -> np.ndarray:
    return tempered_posterior(x, y, c, draws=DRAWS, rng=rng).weights


def _laplace(factor: float) -> Any:
    def drawn(x: np.ndarray, y: np.ndarray, c: int, rng: Any) -> np.ndarray:
        mode, wide, _ = laplace(x, y, c, draws=DRAWS, rng=rng)
        return np.asarray(mode[:, :, None] + factor * (wide - mode[:, :, None]))

    return drawn


def curves() -> list[Row]:
    """Mean accuracies by score, each kind of posterior asking and tested."""
    found, means = [], dict[tuple[str, str], list[float]]()
    kinds = ("new", "Laplace", "x 0.35")
    for name, pools in CURVES.items():
        for redundant in range(pools):
            parts = []
            for score in SCORES:
                each = [np.mean([curve(name, bool(redundant), kind, score, seed) for seed in SEEDS]) for kind in kinds]
                for kind, mean in zip(kinds, each, strict=True):
                    means.setdefault((kind, score), []).append(float(mean))
                parts.append(f"{score} " + " / ".join(f"{mean:.3f}" for mean in each))
            pool = "redundant pool" if redundant else "matched pool"
            found.append(row(f"learning curves: {name}, {pool}", " / ".join(kinds), "", "; ".join(parts)))
    for score in SCORES:
        mean = {kind: float(np.mean(means[kind, score])) for kind in kinds}
        goal = "at least level with the best alternative in the mean"
        measured = ", ".join(f"{kind} {value:.3f}" for kind, value in mean.items())
        best = max(value for kind, value in mean.items() if kind != "new")
        found.append(row(f"learning curves asked by {score}", "all of these", goal, measured, mean["new"] >= best))
    return found
