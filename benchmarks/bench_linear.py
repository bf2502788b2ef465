"""The linear head: fit, 100 draws and the prediction of a pool in one go, and what predict holds besides its output."""

from typing import Any

import numpy as np

from askwell.models.linear import LinearModel
from askwell.seeds import rng_for
from benchmarks.measure import MIB, Row, in_child, peak_above, row, timed

LABELS, FEATURES, POOL = 300, 384, 20_000


def data(classes: int, pool: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labelled inputs, labels and a pool, as wide as a small sentence embedding; classes overlap."""
    rng = rng_for(0, classes, "bench_linear")
    y = np.arange(LABELS) % classes
    x = 0.3 * rng.normal(size=(classes, FEATURES))[y] + rng.normal(size=(LABELS, FEATURES))
    return x.astype(np.float32), y, rng.standard_normal((pool, FEATURES), np.float32)


def seconds(*, classes: int, repeats: int) -> dict[str, float]:
    """Medians for the whole, and the wall time of its fit alone."""
    x, y, pool = data(classes, POOL)

    def fit() -> Any:
        return LinearModel(draws=100).fit(x, y, rng=rng_for(0, 0, "fit"))

    fit().predict(pool[:100])  # loads what is loaded on first use
    return timed(lambda: fit().predict(pool), repeats=repeats) | {"fit": timed(fit, repeats=repeats)["wall"]}


def memory(*, inputs: int) -> dict[str, Any]:
    """MiB that predict held at its highest, and those of its output."""
    x, y, pool = data(2, inputs)
    posterior = LinearModel(draws=100).fit(x, y, rng=rng_for(0, 0, "fit"))
    posterior.predict(pool[:5000])
    out, peak, how = peak_above(lambda: posterior.predict(pool))
    return {"peak": peak, "output": out.nbytes / MIB, "input": pool.nbytes / MIB, "how": how}


def rows(repeats: int = 5) -> list[Row]:
    found = []
    for classes in (2, 10, 20):
        took = in_child("benchmarks.bench_linear:seconds", classes=classes, repeats=repeats)
        at = f"{LABELS} labels, {POOL:,} x {FEATURES} pool, c = {classes}, prior scale by evidence"
        measured = f"{took['wall']:.2f} s (fit {took['fit']:.2f} s), {took['cpu']:.2f} CPU-s"
        found.append(row("linear head: fit + 100 draws + predict", at, "under 2 s", measured, took["wall"] < 2))
    used = in_child("benchmarks.bench_linear:memory", inputs=200_000)
    above = used["peak"] - used["output"]
    at = f"200,000 x {FEATURES} float32 ({used['input']:.0f} MiB), c = 2, 100 draws"
    measured = f"{above:.0f} MiB above input and output ({used['output']:.0f} MiB); {used['how']}"
    found.append(row("linear head: memory of predict", at, "grows only with the output", measured, above < 64))
    return found


if __name__ == "__main__":
    for line in rows():
        print("\n".join(f"{key:9} {value}" for key, value in line.items()), end="\n\n")
