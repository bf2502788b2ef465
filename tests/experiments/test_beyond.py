import itertools

import pytest

from experiments import beyond
from experiments.figure import Terms
from experiments.results import Job, Results

pytestmark = pytest.mark.usefixtures("without_files")


@pytest.mark.parametrize("score", beyond.SCORES)
def test_every_score_runs_with_the_linear_model(score):
    rows = list(itertools.islice(beyond.run(Job("Redundant, linear", score, 0), Terms("quick"), ()), 3))
    assert [row["labels"] for row in rows] == [6, 20, 40]
    assert rows[-1]["accuracy"] > (0.8 if score == "epig" else 0)  # bars at different places are no trouble


def test_the_forest_runs():
    rows = list(itertools.islice(beyond.run(Job("Curated, forest", "epig", 0), Terms("quick"), ()), 2))
    assert [row["labels"] for row in rows] == [20, 40]


def test_batches_of_five_and_twenty():
    (row,) = itertools.islice(beyond.run(Job("Curated, linear", "epig, 20 jointly", 0), Terms(), ()), 1)
    sizes = [
        len(next(beyond.run(Job("Curated, linear", score, 0), Terms(), [row]))["asked"])
        for score in ("random", "epig, 20 jointly")
    ]
    assert sizes == [5, 20]


def test_the_verdict_says_where_epig_stands():
    rows = [
        ("Curated, linear", score, seed, labels, 0.5 + seed / 10 + 0.01 * place)
        for place, score in enumerate(("bald", "epig", "random"))
        for seed in range(3)
        for labels in (20, 40)
    ]
    text = beyond.verdict(Results.of(("setting", "score", "seed", "labels", "accuracy"), rows))
    assert "- Curated, linear: EPIG is above BALD and below random." in text
