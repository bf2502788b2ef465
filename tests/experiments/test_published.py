"""The published benchmark: its split and area, the reference point by point, and a verdict that can fail."""

import os

import numpy as np
import pytest

from experiments import data
from experiments.figure import Terms
from experiments.published import FIGURE, INITIAL, area_of, draw, run, split_of, verdict
from experiments.results import Job, Results

needs_data = pytest.mark.skipif("ASKWELL_DATA" not in os.environ, reason="ASKWELL_DATA names no folder with the data")


def test_the_split_is_theirs():
    x, y = np.arange(20.0)[:, None], np.arange(20) % 2
    split = split_of(np.hstack([x, np.ones_like(x)]), y, 3)
    order = np.arange(20)
    np.random.default_rng(3).shuffle(order)
    pool = order[:12].copy()
    np.random.default_rng(3).shuffle(pool)
    assert split.y.tolist() == y[pool].tolist()
    assert split.test[1].tolist() == y[order[12:]].tolist()
    np.testing.assert_allclose(split.x[:, 0], (x[pool, 0] - x[pool, 0].mean()) / x[pool, 0].std())
    assert not split.x[:, 1].any()  # a constant column


def test_an_area_joins_steps_by_straight_lines():
    assert area_of([21, 22, 23, 24, 25], [0.5, 0.6, 0.7, 0.8, 0.9]) == pytest.approx(2.8 / 5)
    assert area_of([21, 25], [0.5, 0.9]) == pytest.approx(2.8 / 5)


@needs_data
@pytest.mark.parametrize("name", ["appendicitis", "parkinsons", "mammographic"])
def test_the_reference_equals_the_published_areas(name):
    areas = data.published_areas()
    for seed in range(2):
        (row,) = run(Job(f"{name}, svm", "margin", seed), Terms(), [])
        assert row["area"] == pytest.approx(areas[name, "svm", seed], abs=1e-5)


@needs_data
@pytest.mark.parametrize("model", ["forest", "linear", "gp"])
def test_our_models_are_asked_to_the_end(model):
    (row,) = run(Job(f"appendicitis, {model}", "auto", 0), Terms("quick"), [])
    assert row["labels"] == INITIAL + 20
    assert 0.5 < row["area"] <= 1
    assert not list(run(Job(f"appendicitis, {model}", "auto", 0), Terms("quick"), [row]))


def made(gain):
    rows = [
        (f"{name}, {model}", score, seed, 60, 0.8 + gain.get(score, 0) + 0.001 * seed, 0.9, 0.791)
        for model in ("forest", "svm")
        for name in ("heart", "breast")
        for score in ("random", "margin", "epig", "auto")
        for seed in range(3)
    ]
    return Results.of(("setting", "score", "seed", *FIGURE.columns), rows)


def test_the_verdict_says_what_scores_add_to_random():
    text = verdict(made({"auto": 0.02, "margin": -0.01}))
    assert "| heart | 3 | 0.8010 | -0.0100 ± 0.0000 | +0.0000 ± 0.0000 | +0.0200 ± 0.0000 |" in text
    assert "**-0.0100**, worst -0.0100, above in 0" in text
    assert "**+0.0200**, worst +0.0200, above in 2" in text
    assert "| heart | 3 | 1 | 0.00100 | 0.7910, 0.8157 |" in text  # one of the three is 0.791, as theirs
    assert "| linear" not in text
    assert draw(made({})).axes
