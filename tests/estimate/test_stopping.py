"""What the last labels changed is what a slow count says; nothing impossible is forecast; advice comes late."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from light_model import LightModel

from askwell.acquire import Strategy
from askwell.data.pool import as_pool
from askwell.estimate.accuracy import Estimate
from askwell.estimate.stopping import (
    EARLIEST,
    RULE,
    WORTH,
    Change,
    advice,
    change,
    forecast,
    labels_needed,
    outlook,
)
from askwell.seeds import rng_for
from askwell.targets import as_targets
from askwell.targets import given as given_targets

X = rng_for(0, 0, "stopping").normal(size=(300, 2))
Y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")


def labels_of(positions):
    return {int(position): str(Y[position]) for position in positions}


def strategy_of(targets=X[200:], **options):
    return Strategy(LightModel(), as_pool(X), as_targets(targets), classes=["down", "up"], **options)


def estimate_of(value):
    return Estimate(value, 0.0, 1.0, "drawn", 20, "targets")


LATE = Change(120, 60, changed=0.02, improved=0.01, targets=200)


# ---- what changed --------------------------------------------------------------------------------------------------


def test_a_change_is_what_two_models_say_differently_on_the_targets():
    strategy, labels = strategy_of(), labels_of(range(50))
    latest = strategy.round(labels)
    first = strategy.fit(labels_of(range(25)), strategy.rng("earlier fit", labels))
    then, now = (each.predict(X[200:]).mean(axis=1) for each in (first, latest.posterior))
    turned = then.argmax(axis=1) != now.argmax(axis=1)
    found = change(latest, labels)
    assert (found.labels, found.before, found.targets) == (50, 25, 100)
    assert found.changed == pytest.approx(turned.mean())
    assert found.improved == pytest.approx(np.abs(now[:, 1] - now[:, 0])[turned].sum() / 100)
    assert 0 < found.changed < 0.5


def test_the_order_in_which_labels_were_told_is_what_halves_them():
    strategy = strategy_of()
    there, back = labels_of(range(50)), labels_of(reversed(range(50)))
    assert change(strategy.round(there), there) != change(strategy.round(back), back)


def test_weights_of_targets_count():
    weights = np.r_[np.ones(50), np.zeros(50)]
    labels = labels_of(range(50))
    half = change(strategy_of(given_targets(X[200:250])).round(labels), labels)
    weighted = change(strategy_of(given_targets(X[200:], weights=weights)).round(labels), labels)
    assert weighted.changed == pytest.approx(half.changed)
    assert weighted.targets == 50


def test_without_an_earlier_model_nothing_is_known():
    ups = np.flatnonzero(Y == "up")[:10]
    labels = labels_of([*ups, *np.flatnonzero(Y == "down")[:3]])
    assert change(strategy_of().round(labels), labels) is None
    found = outlook(strategy_of().round(labels), labels)
    assert (found.change, found.forecast, found.advice.stop) == (None, None, False)


# ---- the forecast --------------------------------------------------------------------------------------------------


@given(st.integers(2, 5000), st.floats(0, 1), st.integers(1, 10_000), st.none() | st.floats(0, 1).map(estimate_of))
def test_nothing_impossible_is_forecast(n, changed, more, estimate):
    found = forecast(Change(n, n // 2, changed, changed / 2, 100), estimate=estimate, more=more)
    assert found.low <= found.gain <= found.high
    if estimate is not None:
        assert 0 <= estimate.value + found.gain <= 1 + 1e-9
        assert estimate.high + found.low >= -1e-9
        assert estimate.low + found.high <= 1 + 1e-9
    assert (found.labels, {*found.body()}) == (more, {"labels", "gain", "low", "high"})


def test_room_is_what_the_interval_leaves_not_the_value():
    """Ten right of ten do not say that nothing can be won: in trials that made intervals too narrow."""
    found = forecast(Change(50, 25, 0.2, 0.1, 100), estimate=Estimate(1.0, 0.72, 1.0, "drawn", 10, "targets"))
    assert (found.gain, found.high) == (0.0, pytest.approx(0.134))


def test_more_labels_and_larger_changes_promise_more():
    wide = [forecast(replace(LATE, changed=changed)) for changed in (0.0, 0.1, 0.3)]
    assert [each.high for each in wide] == sorted({each.high for each in wide})
    far = [forecast(replace(LATE, changed=0.1), more=more) for more in (10, 50, 200)]
    assert [each.gain for each in far] == sorted({each.gain for each in far})
    found = forecast(Change(100, 50, 0.2, 0.1, 100), more=100)  # a whole doubling
    assert (found.gain, found.low, found.high) == pytest.approx((0.028, -0.062, 0.134))
    with pytest.raises(ValueError, match="more must be a whole number from 1"):
        forecast(LATE, more=0)


@given(st.floats(0.01, 1), st.floats(0, 1), st.floats(0.01, 1), st.integers(2, 500))
def test_labels_needed_are_the_first_whose_forecast_reaches_it(changed, now, accuracy, n):
    last = Change(n, n // 2, changed, 0.0, 100)
    least, about = labels_needed(last, estimate_of(now), accuracy)
    if about is not None:
        assert least is not None
        assert least <= about
        reached = [0.14 * changed * math.log2(1 + more / n) + now for more in (about - 1, about)]
        assert reached[1] >= accuracy - 1e-6
        assert about == 0 or reached[0] < accuracy + 1e-6
    else:
        assert now + 0.14 * changed * math.log2(21) < accuracy + 1e-9


def test_what_cannot_be_foreseen_is_not_said():
    assert labels_needed(None, estimate_of(0.9), 0.95) == (None, None)
    assert labels_needed(LATE, None, 0.95) == (None, None)
    assert labels_needed(LATE, estimate_of(0.5), 0.95) == (None, None)
    assert labels_needed(LATE, estimate_of(0.96), 0.95) == (0, 0)
    with pytest.raises(ValueError, match=r"accuracy must be above 0 and at most 1, but it is 95. Try 0\.95"):
        labels_needed(LATE, estimate_of(0.5), 95)


# ---- the advice ----------------------------------------------------------------------------------------------------


def test_two_looks_in_a_row_are_needed():
    rich = replace(LATE, improved=WORTH + 0.001)
    assert advice(LATE, LATE).stop
    assert not advice(LATE, rich).stop
    assert "two looks in a row" in advice(LATE, rich).why
    assert not advice(rich, LATE).stop
    assert not advice(LATE, None).stop
    assert not advice(replace(LATE, labels=EARLIEST - 1), LATE).stop
    assert not advice(None, None).stop
    assert advice(LATE, LATE).rule == RULE
    assert str(advice(LATE, LATE)).startswith("Stop. The last 60 of 120 labels improved")
    assert str(advice(rich, LATE)).startswith("Continue.")


def test_annotators_who_agree_no_better_than_the_model_end_it():
    rich = replace(LATE, improved=0.1)
    assert advice(rich, None, agreement=0.8, kappa=0.81).stop
    assert "(kappa 0.81, 0.80)" in advice(rich, None, agreement=0.8, kappa=0.81).why
    assert not advice(rich, None, agreement=0.8, kappa=0.79).stop
    assert not advice(rich, None, agreement=0.8).stop


def test_the_look_before_is_taken_ten_labels_earlier():
    strategy = strategy_of()
    labels = labels_of(range(120))
    earlier = labels_of(range(110))
    now, before = (change(strategy.round(each), each) for each in (labels, earlier))
    found = outlook(strategy.round(labels), labels)
    assert found.change == now
    assert found.advice == advice(now, before)
    assert found.advice.stop
    assert asdict(found.forecast) == asdict(forecast(now))
    few = labels_of(range(44))
    assert not outlook(strategy.round(few), few).advice.stop  # the look before is before the earliest
