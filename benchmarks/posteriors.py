"""Made-up posteriors on disk, the same for each process that measures something on them.

Nothing is imported from askwell: baal's environment, which reads them too, does not have it.
"""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import in_child

K, FEATURES, TARGETS = 100, 32, 1_000
#: kind: (standard deviation of the mean weights, share of features that a draw leaves out, of the draws' own weights).
KINDS = {"soft": (4.0, 0.2, 0.0), "vague": (2.0, 0.5, 0.0), "votes": (1.0, 0.0, 2.0)}
TITLES = {"soft": "soft posterior (dropout 0.2)", "vague": "vague posterior (dropout 0.5)", "votes": "hard votes"}
#: what is saved, the kind and the number of classes, and of how many candidates.
POSTERIORS = {"soft 10": 200_000, "vague 10": 20_000, "votes 10": 20_000, "soft 2": 100_000, "votes 2": 100_000}


def save(folder: str, name: str) -> None:
    """A softmax-linear model of 32 normal features under K weight draws, the same for pool and targets, as raw float32.

    A draw is the mean weights under a dropout mask over the features, plus normal weights of its own.
    """
    kind, c = name.split()[0], int(name.split()[1])
    width, dropped, spread = KINDS[kind]
    rng = np.random.default_rng(0)
    mean, own = rng.standard_normal((FEATURES, 1, c)), rng.standard_normal((FEATURES, K, c))
    mask = (rng.random((FEATURES, K, 1)) >= dropped) / (1 - dropped)
    weights = ((width * mean * mask + spread * own) / np.sqrt(FEATURES)).reshape(FEATURES, K * c).astype("float32")
    for side, size in (("pool", POSTERIORS[name]), ("targets", TARGETS)):
        with _file(folder, name, side).open("wb") as out:
            for start in range(0, size, 1_000):
                x = rng.standard_normal((min(1_000, size - start), FEATURES), "float32")
                _belief((x @ weights).reshape(-1, K, c), kind).tofile(out)


def _belief(logits: np.ndarray, kind: str) -> np.ndarray:
    """Softmax; as votes, each draw is sure of its best class."""
    if kind == "votes":
        return np.eye(logits.shape[2], dtype="float32")[logits.argmax(axis=2)]
    probs = np.exp(logits - logits.max(axis=2, keepdims=True))
    return probs / probs.sum(axis=2, keepdims=True)


def _file(folder: str, name: str, side: str) -> Path:
    return Path(folder, f"{name} {side}".replace(" ", "-"))


def load(folder: str, name: str, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n candidates and m targets, [n, k, c] and [m, k, c]."""
    c = int(name.split()[1])
    pool, targets = (
        np.fromfile(_file(folder, name, side), "float32", size * K * c).reshape(size, K, c)
        for side, size in (("pool", n), ("targets", m))
    )
    assert len(pool) == n
    return pool, targets


def sizes(n: int, c: int, m: int, *rest: str) -> str:
    """The sizes in words."""
    return ", ".join([f"n={n:,} k={K} c={c} m={m:,}, float32", *rest])


def child(function: str, folder: str, name: str, n: int, m: int, **more: Any) -> Any:
    """What `module:function` finds in a fresh process."""
    return in_child(function, folder=folder, name=name, n=n, m=m, **more)
