"""The benchmark of everyday tables: cells that are what they say, and regrets that can be bad."""

import os

import numpy as np
import pytest

from askwell.acquisition import as_score
from askwell.seeds import rng_for
from experiments.figure import Terms
from experiments.results import KEYS, Job, Results
from experiments.tables import (
    CHOOSING,
    CLASSIC,
    CONFIRMING,
    FIGURE,
    asks_of,
    cell_of,
    half_of,
    regrets,
    rule_of,
    run,
    verdict,
)

needs_data = pytest.mark.skipif("ASKWELL_DATA" not in os.environ, reason="ASKWELL_DATA names no folder with the data")
COLUMNS = (*KEYS, "labels", "area", "accuracy", "log_loss")


def table_of(setting, areas):
    """Results of one cell: score -> areas by seed."""
    rows = [
        (setting, score, seed, 60, area, area, 0.5) for score, each in areas.items() for seed, area in enumerate(each)
    ]
    return Results.of(COLUMNS, rows)


def test_the_halves_share_no_data_set():
    assert not set(CHOOSING) & set(CONFIRMING)
    assert len(FIGURE.settings) >= 120
    assert {half_of(setting.name) for setting in FIGURE.settings} == {"choosing", "confirming"}


@needs_data
@pytest.mark.parametrize("kind", ["matched", "shifted"])
def test_a_cell_has_two_labels_of_each_class_first_and_a_test_set_of_its_own(kind):
    cell = cell_of("breast", kind, 3)
    assert sorted(cell.y[: cell.initial].tolist()) == [0, 0, 1, 1]
    assert (cell.targets is None) == (kind == "matched")
    pool = {row.tobytes() for row in cell.x}
    assert sum(row.tobytes() in pool for row in cell.test[0]) < len(cell.test[0]) / 2  # rows of this table occur twice
    np.testing.assert_allclose(cell.x.mean(axis=0), 0, atol=1e-3)
    again = cell_of("breast", kind, 3)
    assert np.array_equal(cell.x, again.x)
    assert np.array_equal(cell.test[0], again.test[0])
    if kind == "shifted":
        share = [np.mean(y == 1) for y in (cell.y[cell.initial :], cell.test[1])]
        assert abs(share[0] - share[1]) > 0.3


@needs_data
def test_a_run_is_one_row_and_the_same_each_time():
    job = Job("heart, matched, forest", "auto", 0)
    (row,) = run(job, Terms("quick"), [])
    assert row["labels"] == 14
    assert 0.4 < row["area"] < 1
    assert list(run(job, Terms("quick"), [])) == [row]
    assert list(run(job, Terms("quick"), [row])) == []


def test_regret_is_to_the_best_by_the_other_seeds():
    areas = {score: [0.5, 0.5, 0.5] for score in CLASSIC} | {"epig": [0.9, 0.6, 0.6], "auto": [0.7, 0.7, 0.7]}
    (found,) = regrets(table_of("heart, matched, forest", areas), "auto")
    np.testing.assert_allclose(found.by_seed, [0.2, -0.1, -0.1])
    np.testing.assert_allclose(found.to_random, [-0.2, -0.2, -0.2])
    assert not found.below_random


def test_a_score_that_is_surely_behind_or_below_random_is_named():
    base = np.array([0.80, 0.81, 0.79, 0.80])
    areas = {score: base + 0.01 * place for place, score in enumerate(CLASSIC)} | {"auto": base - 0.05}
    text = verdict(table_of("heart, matched, forest", areas))
    assert "- auto: surely behind the best of five by more than 0.01 in 1 of 1 cells (heart, matched, forest" in text
    assert "below random in 1 (heart" in text
    assert "| choosing | forest | matched | 1 |" in text


def test_more_classes_have_more_questions():
    assert (asks_of(2), asks_of(10), asks_of(26)) == (60, 80, 100)


def test_the_product_is_auto_and_the_others_are_not():
    probs, targets = (rng_for(0, n, "beliefs").dirichlet(np.ones(3), (n, 40)) for n in (12, 7))
    known = {"weights": rng_for(0, 0, "weights").dirichlet(np.ones(7)), "rng": None}
    auto = as_score("auto")(probs, targets, **known)
    np.testing.assert_allclose(rule_of(1.0, 1.0)(probs, targets, **known), auto, rtol=1e-6)
    assert not np.allclose(rule_of(0.5, 1.0)(probs, targets, **known), auto, rtol=1e-2)
    assert not np.allclose(rule_of(1.0, 0.5)(probs, targets, **known), auto, rtol=1e-4)
