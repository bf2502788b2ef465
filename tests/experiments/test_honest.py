"""How true the numbers are: the judges of the experiment count what they say they count."""

import os

import numpy as np
import pytest

from experiments.figure import Terms
from experiments.honest import HOW, Look, draw, forecasts, looks, lost_area, run, shown_accuracy, stops, verdict
from experiments.results import KEYS, Job, Results

needs_data = pytest.mark.skipif("ASKWELL_DATA" not in os.environ, reason="ASKWELL_DATA names no folder with the data")
COUNTS = np.arange(20.0, 310, 10)


def look(value=0.8, *, accuracy=None, how="drawn", improved=0.1, setting="segment, matched, forest"):
    n = len(COUNTS)
    truth = np.full(n, 0.8) if accuracy is None else accuracy
    shown, changed = np.full(n, value), np.full(n, 0.1)
    return Look(
        setting, how, COUNTS, truth, shown, shown - 0.1, shown + 0.1, COUNTS // 5, changed, improved + np.zeros(n)
    )


def test_bias_coverage_and_width_are_counted_from_forty_labels_on():
    bias, covered, width, bare = shown_accuracy([look(0.85), look(0.65)])
    assert (bias, covered, width) == pytest.approx((-0.05, 0.5, 0.2))
    assert 0.2 < bare < 0.3


def test_a_forecast_holds_what_came():
    flat, leap = look(), look(accuracy=np.where(COUNTS < 200, 0.4, 0.9), value=0.5)
    assert forecasts([flat], 50)[0] == 1
    assert forecasts([flat, leap], 50)[0] < 1
    assert 0 < forecasts([flat], 50)[1] < 0.2


def test_a_stop_needs_two_looks_and_gives_up_what_twice_the_labels_bring():
    improved = np.where(COUNTS < 100, 0.1, 0.0)
    improved[3] = 0.0  # once is not enough
    cells, saved = stops([look(accuracy=COUNTS / 1000, improved=improved)])
    assert cells == {"segment, matched, forest, drawn": pytest.approx(0.22 - 0.11)}
    assert saved == pytest.approx(1 - 110 / 300)
    assert stops([look(improved=np.full(len(COUNTS), 0.1))]) == ({"segment, matched, forest, drawn": 0.0}, 0.0)


def test_the_area_is_lost_against_the_same_cell():
    assert lost_area([look(), look(how="auto", accuracy=np.full(len(COUNTS), 0.9))])["drawn"] == [pytest.approx(0.1)]


@pytest.fixture
def results():
    rows = [
        (setting, how, seed, n, 0.8, 0.75, 0.6, 0.9, n // 5, 0.1, 0.01)
        for setting in ("segment, matched, forest", "vowel, shifted, linear")
        for how in HOW
        for seed in range(2)
        for n in COUNTS
    ]
    return Results.of((*KEYS, *Look._fields[2:]), rows)


def test_the_verdict_has_both_halves(results):
    text = verdict(results)
    assert len(looks(results)) == 12
    assert "| choosing | matched | a fifth drawn from the pool, or near the targets | 2 | -0.050 | 100% |" in text
    assert "| confirming | 2 | 100% | +0.0000 | +0.000 | 83% |" in text
    assert len(draw(results).axes) == 3


@needs_data
@pytest.mark.parametrize("how", HOW)
def test_a_run_looks_every_ten_labels_and_resumes(how):
    job, terms = Job("segment, redundant, forest", how, 0), Terms("quick")
    rows = list(run(job, terms, []))
    assert [row["labels"] for row in rows] == [20, 30, 40, 50, 60]
    assert str(list(run(job, terms, rows[:4]))) == str(rows[4:])  # there are NaNs
    assert all(0 <= row["accuracy"] <= 1 for row in rows)
