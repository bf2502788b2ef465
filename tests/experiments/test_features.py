"""What a model sees: a run resumes, and the verdict is the gain by the net."""

import numpy as np
import pytest

from experiments import features as experiment
from experiments.features import IMAGES, LABELS, TEXTS, WAYS, run, verdict
from experiments.figure import Terms
from experiments.results import KEYS, Job, Results


@pytest.mark.parametrize("model", ["linear", "forest"])
def test_a_run_has_a_row_for_each_number_of_labels(model):
    rows = list(run(Job(f"digits, {model}", "pixels", 0), Terms(), []))
    assert [row["labels"] for row in rows] == [*LABELS]
    assert rows[-1]["accuracy"] > max(rows[0]["accuracy"], 0.7)
    assert list(run(Job(f"digits, {model}", "pixels", 0), Terms(), rows[:2])) == rows[2:]


def test_examples_are_the_same_ones_each_time():
    contents, y = experiment._examples("digits")
    assert len(contents) == len(y) == 1200
    assert contents[0].dtype == np.uint8
    experiment._examples.cache_clear()
    np.testing.assert_array_equal(experiment._examples("digits")[1], y)


def test_the_verdict_is_the_gain_in_points():
    rows = [
        (f"{name}, linear", way, seed, labels, 0.5 + 0.1 * (way in ("minilm", "mobilenet")) + 0.01 * seed)
        for name, kind in (("tweets", "text"), ("mnist", "image"))
        for way in WAYS[kind]
        for seed in range(3)
        for labels in LABELS
    ]
    text = verdict(Results.of((*KEYS, "labels", "accuracy"), rows))
    assert "| tweets | linear | 0.510 | 0.610 | +10.0 ± 0.0 |" in text
    assert "- images, linear: +10.0 points in the mean of 1 sets at 100 labels" in text
    assert not {*TEXTS} & {*IMAGES}
