"""Made-up data with the shapes and class counts of the real files, so that experiments run without them."""

import contextlib

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from askwell.seeds import rng_for
from experiments import data, splits

with contextlib.suppress(ImportError):
    import torch  # noqa: F401  (threads of a library that is not loaded yet cannot be limited)

DIGITS = 40  # targets per digit instead of 1,000; a pool has four times as many


def clouds(counts, d, rng):
    """Gaussian clouds around a centre per class, and the classes."""
    y = np.repeat(np.arange(len(counts)), counts)
    centres = 2 * rng.normal(size=(len(counts), d))
    return centres[y] + rng.normal(size=(len(y), d)), y


def pictures(per_digit, rng):
    """Noise with a bright bar whose place is the digit."""
    y = rng.permutation(np.repeat(np.arange(10, dtype=np.uint8), per_digit))
    x = rng.integers(0, 60, size=(len(y), 28, 28), dtype=np.uint8)
    for digit in range(10):
        x[y == digit, 2 * digit : 2 * digit + 6, 4:24] += np.uint8(150)
    return x, y


@pytest.fixture(scope="session")
def made_up():
    """What the loaders give, made up."""
    rng = rng_for(0, 0, "made up")
    x, y = clouds((12332, 6688), 10, rng)
    found = {"magic": (x, np.array(["g", "h"])[y])}
    for name, counts, test, d, labels in (
        ("satellite", (1072, 479, 961, 415, 470, 1038), (461, 224, 397, 211, 237, 470), 36, [1, 2, 3, 4, 5, 7]),
        ("vowel", (48,) * 11, (42,) * 11, 10, list(range(11))),
    ):
        x, y = clouds(np.add(counts, test), d, rng)
        held = np.concatenate([np.flatnonzero(y == c)[: test[c]] for c in range(len(test))])
        kept = np.setdiff1d(np.arange(len(y)), held)
        y = np.array(labels)[y]
        found[name] = data.Split(x[kept], y[kept], x[held], y[held])
    found["mnist"] = data.Split(*pictures(5 * DIGITS + 20, rng), *pictures(100, rng))
    return found


@pytest.fixture(scope="module")
def without_files(made_up):
    """Experiments that are told the made-up data, and expect fewer images."""
    patch = pytest.MonkeyPatch()
    caches = (splits._uci, splits.images, splits.principal)
    for cached in caches:
        cached.cache_clear()
    patch.setattr(splits, "DIGITS", DIGITS)
    for name, found in made_up.items():
        patch.setattr(data, name, lambda folder=None, found=found: found)
    yield
    patch.undo()
    for cached in caches:
        cached.cache_clear()


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """As in a worker: threads that wait for each other would only make these small things slow."""
    monkeypatch.setenv("ASKWELL_THREADS", "1")
    with threadpool_limits(1):
        yield
