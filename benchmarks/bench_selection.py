"""What a batch is worth, and what choosing it costs. Pools of near copies; values by exact joint EPIG.

`--learn` runs the slow part: accuracy of a forest along a curve of batches, on digits with copies in the pool.
"""

import argparse
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import askwell
from askwell.seeds import rng_for
from askwell.selection import BATCHES, Candidates, joint, joint_epig, joint_exact, power
from benchmarks.measure import Row, interleaved, row, timed

BEST = {"joint": 0.97}  # of what exact greedy finds: goals


def softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def near_copies(
    seed: int, c: int, *, groups: int = 25, copies: int = 4, k: int = 400, m: int = 60, votes: bool = False
) -> Candidates:
    """Softmax regression on four features; every group's members lie within a hundredth of each other.

    With `votes` a draw is sure of its likeliest class.
    """
    rng = rng_for(seed, 0, "near copies")
    weights = 1.5 * rng.normal(size=(k, 4, c))
    x = np.repeat(rng.normal(size=(groups, 4)), copies, axis=0) + 0.02 * rng.normal(size=(groups * copies, 4))
    probs, targets = (softmax(np.einsum("nf,kfc->nkc", a, weights)) for a in (x, rng.normal(size=(m, 4))))
    if votes:
        probs, targets = (np.eye(c)[each.argmax(axis=2)] for each in (probs, targets))
    return Candidates(askwell.epig(probs, targets), probs, targets, x=x)


def rows() -> Iterator[Row]:
    for c, size in ((2, 5), (3, 4)):
        yield from _values(c, size, seeds=8)
    yield _of_votes()
    yield _against_exact()
    for k in (100, 500):
        yield _cost(k)


def _values(c: int, size: int, seeds: int) -> Iterator[Row]:
    """The exact joint EPIG of each kind of batch, as a share of exact greedy's; drawn ones are means of ten."""
    ways: dict[str, Callable[..., np.ndarray]] = {
        "joint": joint,
        **{name: BATCHES[name] for name in ("top", "power", "softmax", "softrank", "batchbald", "badge", "kcentre")},
        "power, beta=4": functools.partial(power, beta=4.0),
        "random": lambda pool, size, *, rng: rng.permutation(len(pool))[:size],
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for seed in range(seeds):
        pool = near_copies(seed, c)
        assert pool.probs is not None
        assert pool.target_probs is not None
        whole = joint_epig(pool.probs[joint_exact(pool, size, rng=rng_for(0, 0, "none"))], pool.target_probs)
        for name, way in ways.items():
            drawn = 1 if name in ("joint", "top", "kcentre") else 10
            for again in range(drawn):
                batch = way(pool, size, rng=rng_for(seed, again, "batch"))
                share = joint_epig(pool.probs[batch], pool.target_probs) / whole
                found[name].append((share, len(np.unique(batch // 4))))
    at = f"{size} of 25 groups of 4 near copies, c={c} k=400 m=60, {seeds} pools"
    for name, values in found.items():
        share, groups = np.mean(values, axis=0)
        goal = f"at least {100 * BEST[name]:.0f} %" if name in BEST else "none"
        ok = bool(share >= BEST[name] and groups == size) if name in BEST else None
        measured = f"{100 * share:.1f} %, {groups:.1f} groups"
        yield row(f"joint EPIG of a batch by `{name}`, of exact greedy's", at, goal, measured, ok)


def _of_votes(seeds: int = 8) -> Row:
    """`joint` sees pairs of labels only, and hard votes of few draws hold more than pairs."""
    shares = []
    for seed in range(seeds):
        pool = near_copies(seed, 3, k=100, votes=True)
        exact, ours = (way(pool, 4, rng=rng_for(0, 0, "none")) for way in (joint_exact, joint))
        shares.append(
            joint_epig(pool.probs[ours], pool.target_probs) / joint_epig(pool.probs[exact], pool.target_probs)
        )
    measured = f"{100 * np.mean(shares):.1f} % (least {100 * min(shares):.1f} %)"
    at = f"4 of 25 groups of 4 near copies, hard votes, c=3 k=100 m=60, {seeds} pools"
    return row("joint EPIG of a batch by `joint`, of exact greedy's, hard votes", at, "none", measured)


def _against_exact() -> Row:
    pool = near_copies(0, 3)
    times = interleaved(lambda: joint_exact(pool, 4, rng=None), lambda: joint(pool, 4, rng=None), repeats=3)  # type: ignore[arg-type]
    exact, ours = (1e3 * times[side]["wall"] for side in ("first", "second"))
    measured = f"{times['wall']:.0f}x faster: {ours:.0f} against {exact:.0f} ms; {times['cpu']:.0f}x fewer CPU-seconds"
    at = "4 of 100, c=3 k=400 m=60"
    return row("`joint` against `joint_exact`", at, "at least 10x faster", measured, times["wall"] >= 10)


def _cost(k: int) -> Row:
    """A batch of ten from a shortlist, beside the scores of the pool that it comes from."""
    n, m, c = 20_000, 100, 10
    rng = rng_for(0, 0, "cost")
    weights = rng.normal(size=(k, 8, c)).astype(np.float32)
    pool, targets = (
        softmax(np.einsum("nf,kfc->nkc", rng.normal(size=(rows_, 8)).astype(np.float32), weights)) for rows_ in (n, m)
    )
    best, scores = askwell.top_epig(pool, targets, 512)
    given = Candidates(scores, pool[best], targets)
    times = interleaved(lambda: joint(given, 10, rng=rng), lambda: askwell.epig(pool, targets), repeats=3)
    other = timed(lambda: BATCHES["batchbald"](given, 10, rng=rng_for(0, 0, "batchbald")), repeats=1)
    measured = (
        f"{100 * times['wall']:.0f} % of its time: {1e3 * times['first']['wall']:.0f} against "
        f"{1e3 * times['second']['wall']:.0f} ms ({100 * times['cpu']:.0f} % of the CPU-seconds); "
        f"`batchbald` takes {1e3 * other['wall']:.0f} ms"
    )
    at = f"10 of a shortlist of 512, pool n={n:,}, k={k} c={c} m={m}, float32"
    return row(
        "`joint` against `epig` of the whole pool", at, "at most 10 % (CPU-seconds)", measured, times["cpu"] <= 0.1
    )


# ---- the slow part -------------------------------------------------------------------------------------------------


def learn(seeds: int = 10, rounds: int = 6, size: int = 10) -> None:
    """Digits, every pool item there four times with a little noise; batches of ten, a forest of 300 trees."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    x, y = load_digits(return_X_y=True)
    names = ("random", "top", "power", "joint", "batchbald", "badge", "typiclust")
    areas: dict[str, list[float]] = {name: [] for name in names}
    began = time.perf_counter()
    for seed in range(seeds):
        order = rng_for(seed, 0, "split").permutation(len(x))
        part, test, around = order[:400], order[400:1300], order[1300:1400]
        noise = rng_for(seed, 0, "noise").normal(size=(1600, 64))
        pool, truth = np.repeat(x[part], 4, axis=0) + 0.1 * noise, np.repeat(y[part], 4)
        start = [int(np.flatnonzero(truth == label)[0]) for label in range(10)]
        for name in names:
            labelled, curve = list(start), list[float]()
            for step in range(rounds + 1):
                forest = askwell.as_model(RandomForestClassifier(300, min_samples_leaf=1))
                posterior: Any = forest.fit(pool[labelled], truth[labelled], rng=rng_for(seed, step, "fit"))
                curve.append(float((posterior.predict(x[test]).mean(1).argmax(1) == y[test]).mean()))
                left = np.setdiff1d(np.arange(len(pool)), labelled)
                probs, targets = posterior.predict(pool[left]), posterior.predict(x[around])
                scores = askwell.epig(probs, targets)
                rng = rng_for(seed, step, name)
                if name == "random":
                    chosen = rng.permutation(len(left))[:size]
                elif name in ("joint", "batchbald"):
                    best = np.argsort(-scores, kind="stable")[:512]
                    chosen = best[BATCHES[name](Candidates(scores[best], probs[best], targets), size, rng=rng)]
                else:
                    given = Candidates(scores, probs, targets, x=pool[left], labelled=pool[labelled])
                    chosen = BATCHES[name](given, size, rng=rng)
                labelled += left[chosen].tolist()
            areas[name].append(float(np.mean(curve[1:])))
        spent = f"{seed + 1} seeds, {time.perf_counter() - began:.0f} s"
        print(f"\n{spent}: mean accuracy over {rounds} batches of {size}, paired difference to `top` (standard error)")
        for name, values in areas.items():
            apart = np.array(values) - np.array(areas["top"])
            error = apart.std(ddof=1) / np.sqrt(len(apart)) if seed else np.nan
            print(f"| {name} | {np.mean(values):.3f} | {apart.mean():+.3f} ({error:.3f}) |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learn", type=int, metavar="SEEDS", help="the slow part, with this many seeds")
    asked = parser.parse_args()
    if asked.learn:
        learn(seeds=asked.learn)
    else:
        for line in rows():
            print(line["what"], "|", line["at"], "|", line["goal"], "|", line["measured"], "|", line["ok"], flush=True)
