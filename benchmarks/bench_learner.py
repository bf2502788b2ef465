"""What the loop adds: one `tell` and `ask` of a learner against its fit, its predictions and its scores by hand.

Both sides do the same steps in turn, each with one label more than the step before: the same forest from the same rng,
the same targets, the same pool. By hand nothing is stored, checked, cut into chunks or chosen jointly: fit, predict the
pool and the targets, score, take the best.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import askwell
from askwell.learner import Learner
from askwell.models.scikit_learn import ForestModel
from askwell.seeds import rng_for
from askwell.targets import from_pool
from benchmarks.measure import ONE_THREAD, Row, in_child, interleaved, row

TREES, TARGETS, START, REPEATS = 100, 100, 60, 7
GOAL = 1.10


def rows() -> list[Row]:
    sizes = [(528, 10, 11), (10_000, 36, 6)]  # like Vowel's, and a larger one
    return [_row(score, *size) for size in sizes for score in ("epig", "bald", "random")]


def _row(score: str, n: int, d: int, c: int) -> Row:
    found = in_child("benchmarks.bench_learner:measured", env=ONE_THREAD, score=score, n=n, d=d, c=c)
    ratio, loop, alone = found["cpu"], found["first"]["cpu"], found["second"]["cpu"]
    return row(
        f"one `tell` and `ask` of a learner ({score}) against fit + predict + score by hand",
        f"{TREES} trees, {START} labels and more, pool {n:,} x {d}, {c} classes, {TARGETS} targets, one thread",
        f"at most {GOAL:.2f}x (CPU-seconds)",
        f"{ratio:.2f}x: {loop * 1e3:.0f} against {alone * 1e3:.0f} ms"
        + ("" if score == "random" else "; the same questions" if found["same"] else "; **other questions**"),
        ratio <= GOAL and found["same"],
    )


def measured(score: str, n: int, d: int, c: int) -> dict[str, Any]:
    """Times of both sides, and whether they would have asked the same."""
    rng = rng_for(0, 0, "learner benchmark")
    centres = rng.normal(size=(c, d))
    y = rng.integers(0, c, n)
    x = (centres[y] + 1.5 * rng.normal(size=(n, d))).astype(np.float32)
    learner = Learner(
        RandomForestClassifier(TREES), x, targets=from_pool(TARGETS), score=score, classes=range(c), seed=0
    )
    learner.tell(range(START), y[:START])
    asked, best = learner.ask(), list[set[int]]()
    told = list(range(START))
    questions = [asked[0]]

    def loop() -> None:
        item = questions[-1]
        learner.tell([item], [y[item]])
        questions.extend(learner.ask())

    alone = _by_hand(score, x, y, c, told, questions, best)
    loop(), alone()  # compiled before the clock starts
    found = interleaved(loop, alone, repeats=REPEATS)
    same = all(item in items for item, items in zip(questions[1:], best, strict=True))
    return {**found, "same": score == "random" or same}


def _by_hand(
    score: str, x: np.ndarray, y: np.ndarray, c: int, told: list[int], questions: list[int], best: list[set[int]]
) -> Callable[[], None]:
    model = ForestModel(RandomForestClassifier(TREES))

    def alone() -> None:
        told.append(questions[len(best)])
        step, labelled = len(told), sorted(told)  # in the order of the pool
        posterior = model.fit(x[labelled], y[labelled], rng=rng_for(0, step, "fit"), classes=range(c))
        rest = np.setdiff1d(np.arange(len(x)), told)
        if score == "random":  # needs no scores, but a model to predict with
            best.append({int(rest[rng_for(0, step, "score").integers(len(rest))])})
            return
        probs = posterior.predict(x[rest])
        if score == "bald":
            scores = askwell.bald(probs)
        else:
            targets = from_pool(TARGETS).sample(
                _Rows(x), posterior.predict, classes=range(c), rng=rng_for(0, step, "targets")
            )
            scores = askwell.epig(probs, posterior.predict(targets.x))
        best.append({*rest[scores == scores.max()].tolist()})  # of equal scores the seed of a learner chooses

    return alone


class _Rows:
    """What targets are taken from."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def take(self, positions: Any) -> np.ndarray:
        return self.x[positions]
