"""The RMSE on the targets: its interval holds the truth, its sample is what was drawn; advice where little moves."""

import numpy as np
import pytest

from askwell.acquire import Strategy
from askwell.data.pool import as_pool
from askwell.estimate.rmse import advice, interval, rmse
from askwell.models.bayes import BayesianLinearRegression
from askwell.models.protocol import label_moments
from askwell.seeds import rng_for
from askwell.targets import as_targets

X = rng_for(0, 0, "tests of rmse").normal(size=(300, 3))
Y = X @ [3.0, -2.0, 0.5] + rng_for(1, 0, "tests of rmse").normal(size=300)
LABELS = {i: float(Y[i]) for i in range(300)}


def strategy(**options):
    return Strategy(BayesianLinearRegression(draws=20), as_pool(X), as_targets(None), **options)


@pytest.mark.parametrize("kind", ["normal", "laplace", "t5"])
@pytest.mark.parametrize("n", [5, 20, 100])
def test_intervals_hold_the_truth(kind, n):
    rng = rng_for(n, 0, kind)
    draw, truth = {
        "normal": (rng.normal, 1.0),
        "laplace": (rng.laplace, 2**0.5),
        "t5": (lambda size: rng.standard_t(5, size=size), (5 / 3) ** 0.5),
    }[kind]
    found = [interval(draw(size=n) ** 2, np.ones(n)) for _ in range(1500)]
    assert np.mean([low <= truth <= high for _, low, high in found]) > 0.925


def test_weights_count_as_copies_do():
    squares = np.array([1.0, 4.0, 9.0])
    value, low, high = interval(squares, np.array([2.0, 1.0, 1.0]))
    assert value == pytest.approx(np.sqrt(15 / 4))
    assert low < value < high
    assert interval(squares, np.ones(3)) == pytest.approx(interval(squares, np.full(3, 7.0)))
    assert interval(np.zeros(4), np.ones(4)) == (0.0, 0.0, 0.0)


def test_cross_validation_is_about_the_error_on_others():
    few = {i: LABELS[i] for i in range(60)}
    found = rmse(strategy(), few)
    assert (found.how, found.of, found.labels) == ("cross-validated", "chosen", 60)
    posterior = strategy().fit(few, rng_for(0, 0, "fit"))
    truth = np.sqrt(np.mean((label_moments(posterior, X[60:])[0] - Y[60:]) ** 2))
    assert found.low < truth < found.high
    assert "upper bound" in found.about
    assert rmse(strategy(), {i: LABELS[i] for i in range(9)}) is None


def test_drawn_questions_are_judged_without_themselves():
    how = strategy(evaluation=0.2)
    drawn = dict.fromkeys(how.drawn.positions[:30].tolist())
    found = rmse(how, {i: LABELS[i] for i in drawn})
    assert (found.how, found.of, found.labels) == ("drawn", "pool", len(drawn))
    # A label that nothing could foresee is an error, although the model has learnt it.
    odd = {i: LABELS[i] for i in drawn} | {next(iter(drawn)): 1000.0}
    assert rmse(how, odd).value > 100


def test_advice_is_to_stop_once_labels_change_little():
    how, many = strategy(), {i: LABELS[i] for i in range(200)}
    assert "too early" in advice(how.round({i: LABELS[i] for i in range(20)}), {i: LABELS[i] for i in range(20)}).why
    found = advice(how.round(many), many)
    assert found.stop
    assert "lowered the RMSE" in found.why
    moving = {i: float(X[i, 0] * (1 if i < 100 else -30)) for i in range(200)}
    assert not advice(how.round(moving), moving).stop
