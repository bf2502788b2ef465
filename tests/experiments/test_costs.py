"""Costs of errors: losses by hand, runs that heed the costs, and a verdict that can fail."""

import numpy as np
import pytest

from experiments import costs
from experiments.costs import CHOOSING, CONFIRMING, COST, FIGURE, SCORES, draw, losses, run, verdict
from experiments.figure import Terms
from experiments.results import Job, Results


def test_losses_by_hand():
    probs, y = np.array([[0.99, 0.01], [0.9, 0.1], [0.5, 0.5]]), np.array([1, 0, 1])
    q = [0.01 * COST / (0.01 * COST + 0.99), 0.9 / (0.9 + 0.1 * COST), 0.5 * COST / (0.5 * COST + 0.5)]
    log_loss = -(COST * np.log(q[0]) + np.log(q[1]) + COST * np.log(q[2])) / (2 * COST + 1)
    assert losses(probs, y) == pytest.approx((log_loss, (COST + 1) / (2 * COST + 1)))  # the first and second are wrong


@pytest.fixture
def table(monkeypatch):
    """A table of which one in ten rows is rare."""
    rng = np.random.default_rng(0)
    y = (np.arange(200) % 10 == 0).astype(int)
    x = rng.normal(size=(200, 3)) + 2 * y[:, None]
    monkeypatch.setattr(costs, "_table", lambda name: (x, y))


@pytest.mark.parametrize("score", SCORES)
def test_a_run_is_one_row(table, score):
    (row,) = run(Job("any, linear", score, 0), Terms("quick"), [])
    assert row["labels"] == 9
    assert 2 <= row["rare"] <= 7
    assert row["log_loss"] > 0
    assert 0 <= row["final_cost"] <= 1
    assert not list(run(Job("any, linear", score, 0), Terms("quick"), [row]))


def test_halves_have_the_same_share_of_the_rare_class(table):
    (x, y), (test_x, test_y) = costs._split("any", 3)
    assert (len(y), y.sum(), len(test_y), test_y.sum()) == (100, 10, 100, 10)
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-6)
    assert test_x.dtype == np.float32


def made(gain):
    rows = [
        (f"{name}, {model}", score, seed, 64, 8, *[0.5 + gain.get(score, 0) * (1 + 0.01 * seed)] * 4)
        for name in CHOOSING + CONFIRMING
        for model in ("forest", "linear")
        for score in SCORES
        for seed in range(3)
    ]
    return Results.of(("setting", "score", "seed", *FIGURE.columns), rows)


def test_the_verdict_says_what_the_costs_change():
    text = verdict(made({"auto with costs": -0.1, "margin with costs": 0.2}))
    confirmed = text.split("on the confirming tables:")[1]
    assert "- auto: weighted log loss -0.101 on average, surely lower in 6 and surely higher in 0; cost" in confirmed
    assert "- epig: weighted log loss +0.000 on average, surely lower in 0 and surely higher in 0; cost" in confirmed
    assert "- margin: weighted log loss +0.202 on average, surely lower in 0 and surely higher in 6; cost" in confirmed
    assert len(draw(made({})).axes) == 2
