"""When would the advice have said stop, and what was still to be won? Projects played to the end on known labels.

Each run labels what `plan_round` asks for, ten at a time, as a project does; after each round the advice is given from
what the project would know, and a test set that it never sees says how good the model really is.
`python -m benchmarks.bench_stopping --run` prints the table of docs/stopping.md (about 20 minutes on two cores).
"""

import argparse
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from askwell.acquire import Strategy
from askwell.data.pool import as_pool
from askwell.estimate.stopping import MORE, CurvePoint, forecast, stop_advice
from askwell.models import as_model
from askwell.models.linear import LinearModel
from askwell.project.rounds import Plan, plan_round
from askwell.seeds import rng_for
from askwell.targets import given
from benchmarks.measure import ONE_THREAD, Row, in_child, row

SIZE, DRAWS = 10, 150
RUNS = [
    *(["digits", "forest", seed, 400] for seed in (0, 1, 2)),
    ["digits", "linear", 0, 400],
    *(["cancer", name, 0, 200] for name in ("forest", "linear")),
]
HEAD = (
    "data, model, seed",
    "stop advised at",
    "accuracy there",
    "at the end",
    "won per 50 labels after",
    "forecasts right",
)


def rows() -> list[Row]:
    """One short run: the advice comes, and not much is lost by following it."""
    found = summary(in_child("benchmarks.bench_stopping:played", env=ONE_THREAD, run=["cancer", "linear", 0, 150]))
    stop = found["stop"]
    return [
        row(
            "stop advice: accuracy still won per 50 labels after it",
            f"breast cancer, linear model, {SIZE} labels a round, up to 150",
            "advised, and at most 1 point",
            "never advised" if stop is None else f"{found['per_more']:+.1%} after {stop} labels",
            stop is not None and found["per_more"] <= 0.01,
        )
    ]


def played(run: list[Any]) -> list[dict[str, Any]]:
    """What each round of a project would have known, and the truth."""
    data, name, seed, budget = run
    pool, y, targets, test, truth = _data(data, seed)
    classes, model = sorted({*y}), _model(name, pool)
    labels: dict[int, str] = {}
    rounds = []
    while True:
        strategy = Strategy(model, as_pool(pool), given(targets), classes=classes, seed=seed)
        plan = plan_round(strategy, labels, size=SIZE)
        learnt = sorted(labels)
        told = [labels[place] for place in learnt]
        if len({*told}) > 1:
            posterior = model.fit(pool[learnt], told, rng=rng_for(seed, len(learnt), "test"), classes=classes)
            guess = np.asarray(posterior.predict(test)).mean(axis=1).argmax(axis=1)
            accuracy = float(np.mean(np.array(classes)[guess] == truth))
            rounds.append(_round(plan, len(labels)) | {"accuracy": accuracy})
        if len(labels) >= budget or not plan.queue:
            return rounds
        labels |= {line.position: y[line.position] for line in plan.queue[:SIZE]}


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """When the advice would have come, what was lost by it, and how often the forecasts' intervals held the truth."""
    points = [CurvePoint(**found["point"]) for found in rounds]
    truth = {found["point"]["labels"]: found["accuracy"] for found in rounds}
    stop, right = None, list[bool]()
    for end in range(1, len(points) + 1):
        now = points[end - 1].labels
        ahead = forecast(points[:end])
        if ahead is not None and now + MORE in truth:
            right.append(ahead.low <= truth[now + MORE] - truth[now] <= ahead.high)
        if stop is None and stop_advice(points[:end]).stop:
            stop = now
    last = max(truth)
    found = {"stop": stop, "end": truth[last], "last": last, "right": sum(right), "forecasts": len(right)}
    if stop is not None and stop < last:
        found |= {"there": truth[stop], "per_more": (truth[last] - truth[stop]) / (last - stop) * MORE}
    return found


def _round(plan: Plan, labels: int) -> dict[str, Any]:
    value = plan.estimates[0] if plan.estimates else None
    change = {} if plan.change is None else {"changed": plan.change.changed, "targets": plan.change.targets}
    point = {"labels": labels, "value": value and value.value, "how": value.how if value else "", "gain": plan.gain}
    return {"point": point | change}


@functools.cache
def _data(name: str, seed: int) -> tuple[np.ndarray, list[str], np.ndarray, np.ndarray, np.ndarray]:
    """(pool, its labels, targets, test inputs, their labels)."""
    from sklearn.datasets import load_breast_cancer, load_digits

    x, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
    order = rng_for(seed, 0, "split").permutation(len(x))
    x, y = x[order], y[order].astype(str)
    n, m = (1000, 200) if name == "digits" else (300, 70)
    return x[:n], y[:n].tolist(), x[n : n + m], x[n + m :], y[n + m :]


def _model(name: str, pool: np.ndarray) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return LinearModel(draws=DRAWS, reference=pool) if name == "linear" else as_model(RandomForestClassifier(DRAWS))


def _cells(run: list[Any], found: dict[str, Any]) -> list[str]:
    data, name, seed, _ = run
    forecasts = f"{found['right']} of {found['forecasts']}"
    start = [f"{data}, {name}, {seed}"]
    if "per_more" not in found:
        return [*start, "never", "", f"{found['end']:.3f} ({found['last']})", "", forecasts]
    stop, there = f"{found['stop']}", f"{found['there']:.3f}"
    return [*start, stop, there, f"{found['end']:.3f} ({found['last']})", f"{found['per_more']:+.2%}", forecasts]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_stopping", description=__doc__)
    parser.add_argument("--run", action="store_true", help="play all projects, and print the table")
    parser.add_argument("--kept", type=Path, help="a folder where finished runs are kept and looked for")
    asked = parser.parse_args()
    if not asked.run:
        parser.error("say --run: it takes a while")
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|", flush=True)
    for run in RUNS:
        kept = None if asked.kept is None else asked.kept / f"{'-'.join(map(str, run))}.json"
        if kept is not None and kept.exists():
            rounds = json.loads(kept.read_text())
        else:
            rounds = in_child("benchmarks.bench_stopping:played", env=ONE_THREAD, timeout=7200, run=run)
            if kept is not None:
                kept.write_text(json.dumps(rounds))
        print("| " + " | ".join(_cells(run, summary(rounds))) + " |", flush=True)


if __name__ == "__main__":
    main()
