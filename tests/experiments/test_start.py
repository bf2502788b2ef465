"""First questions: each way asks what it says, and a run counts when all classes were seen."""

import os

import numpy as np
import pytest

from askwell.data.pool import as_pool
from askwell.seeds import rng_for
from experiments.figure import Terms
from experiments.results import KEYS, Job, Results
from experiments.start import STARTS, _first, run, verdict

needs_data = pytest.mark.skipif("ASKWELL_DATA" not in os.environ, reason="ASKWELL_DATA names no folder with the data")


def first_of(start, x, targets, size):
    items = _first(start, as_pool(x), targets, rng_for(0, 0, "start"))
    return [int(next(items)) for _ in range(size)]


@pytest.mark.parametrize("start", ["random", "spread", "near"])
def test_no_item_comes_twice(start):
    x = rng_for(0, 0, "x").normal(size=(60, 2))
    found = first_of(start, x, x[:15] + 0.01, 25)
    assert len({*found}) == 25


def test_near_asks_what_lies_near_the_targets():
    x = np.concatenate([rng_for(0, 0, "x").normal(size=(80, 2)), rng_for(0, 1, "x").normal(size=(20, 2)) + 9])
    found = first_of("near", x, x[80:] + 0.01, 8)
    assert min(found) >= 80
    assert min(first_of("spread", x, x[80:] + 0.01, 8)) < 80


@needs_data
@pytest.mark.parametrize("start", STARTS)
def test_a_run_is_one_row(start):
    (row,) = run(Job("vehicle, redundant, forest", start, 0), Terms("quick"), [])
    assert row["labels"] == 10
    assert 2 <= row["seen"] <= 10
    assert 0 <= row["area"] <= 1


def test_the_verdict_is_less_random():
    rows = [
        ("wine, matched, forest", start, seed, 30, 0.5 + (0.1 if start == "spread" else 0), 0.9, 7)
        for start in STARTS
        for seed in range(2)
    ]
    text = verdict(Results.of((*KEYS, "labels", "area", "accuracy", "seen"), rows))
    assert "| tables | matched | 1 | +0.0000" in text
    assert "+0.1000" in text
