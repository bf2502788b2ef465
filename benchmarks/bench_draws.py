"""What a finite number of draws does to EPIG, and what the corrections change. Not a speed benchmark.

`rows()` compares estimates of one forest with its first k trees against all of its trees. `--learn` runs the slow part:
the area under the learning curve when each estimate chooses the labels. Data: scikit-learn's digits, bundled with it.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import askwell
from askwell.seeds import rng_for

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]
SCORES: dict[str, Score] = {
    "plug-in": askwell.epig,
    "corrected": askwell.epig_corrected,
    "quadratic": askwell.epig_quadratic,
    "BALD": lambda probs, _: askwell.bald(probs),
}


def votes(forest: RandomForestClassifier, x: np.ndarray, classes: int) -> np.ndarray:
    """`[n, k, c]` probabilities of the trees, classes the forest has not seen as zero columns."""
    probs = np.zeros((len(x), len(forest.estimators_), classes), np.float32)
    for k, tree in enumerate(forest.estimators_):
        probs[:, k, forest.classes_.astype(int)] = tree.predict_proba(x)
    return probs


def rows(
    trees: tuple[int, ...] = (30, 100, 300, 1000), reference: int = 6000, labels: int = 30
) -> list[dict[str, Any]]:
    x, y = load_digits(return_X_y=True)
    order = rng_for(0, 0, "split").permutation(len(x))
    first = _start(y, order, 10) + list(order[:labels])
    forest = RandomForestClassifier(reference, random_state=0, n_jobs=-1).fit(x[first[:labels]], y[first[:labels]])
    pool, target = votes(forest, x[order[200:600]], 10), votes(forest, x[order[600:700]], 10)
    truth = askwell.epig(pool, target)
    found = []
    for name, score in SCORES.items():
        estimates = [score(pool[:, :k], target[:, :k]) for k in trees]
        found.append(
            {
                "what": name,
                "at": f"first k = {trees} of {reference} trees, digits, {labels} labels",
                "goal": "",
                "measured": "mean / reference "
                + " / ".join(f"{e.mean() / truth.mean():.2f}" for e in estimates)
                + ", Spearman "
                + " / ".join(f"{spearmanr(e, truth)[0]:.2f}" for e in estimates),
                "ok": None,
            }
        )
    return found


def error_rows(
    trees: tuple[int, ...] = (30, 100, 400), reference: int = 4000, labels: int = 40
) -> list[dict[str, Any]]:
    """`epig_error` against the spread of `epig` over blocks of k draws: votes of a forest, soft binary draws."""
    x, y = load_digits(return_X_y=True)
    order = rng_for(0, 0, "error").permutation(len(x))
    first = order[:labels]
    forest = RandomForestClassifier(reference, random_state=0, n_jobs=-1).fit(x[first], y[first])
    weights = rng_for(0, 0, "soft draws").normal(size=(reference, 5))
    inputs = rng_for(0, 0, "soft inputs").normal(size=(260, 5))
    soft = 1 / (1 + np.exp(-(inputs @ weights.T)))  # [n, k]
    soft = np.stack([soft, 1 - soft], axis=2)
    beliefs = {
        "votes of a forest, digits": (votes(forest, x[order[200:400]], 10), votes(forest, x[order[600:660]], 10)),
        "soft binary draws": (soft[:200], soft[200:]),
    }
    found = []
    for name, (pool, target) in beliefs.items():
        ratios = []
        for k in trees:
            blocks = [slice(i, i + k) for i in range(0, reference - k + 1, k)]
            scores = np.array([askwell.epig(pool[:, b], target[:, b]) for b in blocks])
            errors = np.array([askwell.epig_error(pool[:, b], target[:, b]) for b in blocks[:10]])
            ratios.append(np.sqrt((errors**2).mean() / scores.var(axis=0, ddof=1).mean()))
        measured = "said / true standard error " + " / ".join(f"{ratio:.2f}" for ratio in ratios)
        at = f"k = {trees}, blocks of {reference} draws"
        found.append({"what": f"`epig_error`, {name}", "at": at, "goal": "", "measured": measured, "ok": None})
    return found


def learn(
    seeds: int, *, trees: int = 100, start: int = 20, stop: int = 90, redundant: bool = False
) -> dict[str, list[float]]:
    """Mean test accuracy along the curve, per score and seed; the same split and start for all scores of a seed.

    Curated: all ten digits, targets like the pool. Redundant: 1 against 7, all others "neither", targets 1s and 7s.
    """
    x, digit = load_digits(return_X_y=True)
    y = np.select([digit == 1, digit == 7], [1, 2], 0) if redundant else digit
    areas: dict[str, list[float]] = {name: [] for name in ("random", *SCORES)}
    for seed in range(seeds):
        order = rng_for(seed, 0, "split").permutation(len(x))
        test, rest = order[:500], order[500:]
        aimed, pool = rest[:300], rest[300:]
        if redundant:
            test, aimed = (part[y[part] > 0] for part in (test, aimed))
        for name in areas:
            areas[name].append(_curve(name, x, y, pool, aimed, test, (seed, trees, start, stop)))
    return areas


def _start(y: np.ndarray, pool: np.ndarray, size: int) -> list[int]:
    """The first example of each class in the pool, then the first others."""
    chosen = [int(pool[np.flatnonzero(y[pool] == c)[0]]) for c in np.unique(y)]
    return (chosen + [int(i) for i in pool if i not in set(chosen)])[:size]


def _curve(
    name: str,
    x: np.ndarray,
    y: np.ndarray,
    pool: np.ndarray,
    aimed: np.ndarray,
    test: np.ndarray,
    plan: tuple[int, ...],
) -> float:
    seed, trees, start, stop = plan
    labelled, accuracies = _start(y, pool, start), []
    while True:
        forest = RandomForestClassifier(trees, random_state=seed).fit(x[labelled], y[labelled])
        accuracies.append(float((forest.predict(x[test]) == y[test]).mean()))
        if len(labelled) == stop:
            return float(np.mean(accuracies))
        rng = rng_for(seed, len(labelled), name)
        candidates = rng.permutation(np.setdiff1d(pool, labelled))
        if name != "random":
            targets = rng_for(seed, len(labelled), "targets").choice(aimed, min(100, len(aimed)), replace=False)
            classes = int(y.max()) + 1
            scores = SCORES[name](votes(forest, x[candidates], classes), votes(forest, x[targets], classes))
            candidates = candidates[np.argsort(-scores, kind="stable")]
        labelled.append(int(candidates[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learn", type=int, metavar="SEEDS", help="run the learning trial with this many seeds")
    parser.add_argument("--redundant", action="store_true")
    parser.add_argument("--error", action="store_true", help="compare epig_error with the spread over blocks of draws")
    options = parser.parse_args()
    if options.learn is None:
        for row in error_rows() if options.error else rows():
            print(f"{row['what']:>10}: {row['measured']}")
        return
    areas = learn(
        options.learn,
        redundant=options.redundant,
        start=6 if options.redundant else 20,
        stop=66 if options.redundant else 90,
    )
    plain = np.array(areas["plug-in"])
    for name, area in areas.items():
        gap = np.array(area) - plain
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        print(f"{name:>10}: area {np.mean(area):.3f}, paired difference to plug-in {gap.mean():+.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
