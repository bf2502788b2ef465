"""How many wrong labels are found: the judges count what they say they count."""

import os

import numpy as np
import pytest

from experiments.figure import Terms
from experiments.label_errors import COLUMNS, RULES, draw, offered, run, verdict
from experiments.results import KEYS, Job, Results

needs_data = pytest.mark.skipif("ASKWELL_DATA" not in os.environ, reason="ASKWELL_DATA names no folder with the data")
SETTINGS = ("segment, matched, forest", "vowel, matched, linear")


@pytest.fixture
def results():
    """In each run 40 labels, two of them wrong: one is the least probable, the other as probable as the right ones."""
    own = np.r_[0.01, 0.05, np.full(38, 0.8)].tolist()
    wrong = [1, 0, 1, *[0] * 37]
    rows = [
        (setting, "auto", seed, 40, wrong[n], own[n], 1 - own[n], 0.1 - own[n])
        for setting in SETTINGS
        for seed in (0, 5)
        for n in range(40)
    ]
    return Results.of((*KEYS, *COLUMNS), rows)


def test_what_is_offered_is_counted(results):
    runs = [results.where(setting=SETTINGS[0], seed=0), results.where(setting=SETTINGS[1], seed=5)]
    assert {rule: offered(runs, rule) for rule in RULES} == dict.fromkeys(RULES, (2.0, 0.5, 0.5))
    assert offered([runs[0].where(own=0.01)], next(iter(RULES))) == (1.0, 1.0, 1.0)


def test_the_verdict_has_both_halves_of_their_own_seeds(results):
    text = verdict(results)
    assert "| choosing | 40 | the lowest 5 % | 2.0 | 50% | 50% |" in text
    assert "| choosing | segment, matched, forest | 2.0 | 50% | 50% |" in text
    assert "| confirming | vowel, matched, linear | 2.0 | 50% | 50% |" in text
    assert "| confirming |" not in verdict(results.where(seed=0))
    assert len(draw(results).axes) == 2


@needs_data
def test_a_run_resumes():
    job, terms = Job("segment, matched, forest", "auto", 0), Terms("quick")
    rows = list(run(job, terms, []))
    assert [len(rows), {row["labels"] for row in rows}] == [60, {60}]
    assert 0 < sum(row["wrong"] for row in rows) < 12
    assert all(row["own"] <= 1 - row["other"] + 1e-3 for row in rows)
    assert list(run(job, terms, rows[:50])) == rows[50:]
