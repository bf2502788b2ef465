"""The curve's law is found where there is one; the signs are what they say; advice comes late rather than early."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.estimate.accuracy import wilson
from askwell.estimate.stopping import MORE, RULE, CurvePoint, forecast, points_of, rise, signs, stop_advice
from askwell.seeds import rng_for


def curve(a, b, c, counts=range(20, 220, 10), noise=0.0, seed=0, **others):
    rng = rng_for(seed, 0, "curve")
    return [CurvePoint(n, a - b * n**-c + noise * rng.normal(), "held-out", **others) for n in counts]


# ---- the forecast --------------------------------------------------------------------------------------------------


@given(st.floats(0.5, 1), st.floats(0.5, 3), st.floats(0.3, 1.8), st.integers(1, 200))
def test_a_power_law_is_carried_on(a, b, c, more):
    truth = b * (210**-c - (210 + more) ** -c)
    found = forecast(curve(a, b, c), more=more)
    assert found.gain == pytest.approx(min(truth, 1 - max(0, a - b * 210**-c)), abs=0.002, rel=0.02)
    assert found.low <= found.gain <= found.high
    assert found.labels == more


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    truth = 1.5 * (210**-0.7 - 260**-0.7)
    found = [forecast(curve(0.95, 1.5, 0.7, noise=0.02, seed=seed)) for seed in range(200)]
    assert np.mean([each.low <= truth <= each.high for each in found]) > 0.9
    assert np.mean([each.high - each.low for each in found]) < 0.06  # and says something


def judged_curve(rng, m, redrawn):
    """(rounds judged by the same m held-out labels, the true rise with 50 more): a label is predicted right as soon as
    the accuracy passes a level of its own, and a share of these levels is drawn anew in every round."""
    a, b, c = rng.uniform(0.75, 0.98), rng.uniform(0.5, 3), rng.uniform(0.4, 1.2)
    counts = np.arange(20, 20 + 10 * rng.integers(8, 25), 10)
    accuracy = np.clip(a - b * counts**-c, 0, 1)
    level, points = rng.random(m), []
    for n, p in zip(counts.tolist(), accuracy.tolist(), strict=True):
        level = np.where(rng.random(m) < redrawn, rng.random(m), level)
        points.append(CurvePoint(n, float((level < p).mean()), "held-out", judged=m))
    return points, float(np.clip(a - b * (counts[-1] + 50) ** -c, 0, 1) - accuracy[-1])


@pytest.mark.parametrize(("m", "redrawn"), [(100, 0.0), (100, 0.05), (400, 0.05), (400, 0.15)])
def test_the_interval_knows_that_held_out_labels_are_a_sample(m, redrawn):
    """Without their sampling error it holds the truth in 53 to 74 % of 1,500 cases."""
    rng, right = rng_for(m, round(100 * redrawn), "judged"), []
    for _ in range(150):
        points, truth = judged_curve(rng, m, redrawn)
        found = rise(points)
        right.append(found.low <= truth <= found.high)
    assert np.mean(right) > 0.9


def test_for_one_exponent_it_is_weighted_regression(monkeypatch):
    """The loop-written twin: weights n, t - 3 degrees of freedom, residuals that go together."""
    monkeypatch.setattr("askwell.estimate.stopping.EXPONENTS", np.array([0.5]))
    points = curve(0.9, 1.0, 0.5, counts=range(20, 120, 10), noise=0.02)
    n = np.array([point.labels for point in points], float)
    y = np.array([point.value for point in points])
    z = (n / 110) ** -0.5
    w = n / n.mean()
    mean_z, mean_y = (w @ z) / w.sum(), (w @ y) / w.sum()
    spread = w @ (z - mean_z) ** 2
    b = -(w @ ((z - mean_z) * (y - mean_y))) / spread
    residual = np.sqrt(w) * (y - mean_y + b * (z - mean_z))
    rss = sum(r * r for r in residual)
    r = max(0, sum(residual[i] * residual[i + 1] for i in range(9)) / rss)
    step = 1 - (160 / 110) ** -0.5
    half = 2.3646 * step * np.sqrt(rss / 7 / spread * (1 + r) / (1 - r))
    found = forecast(points)
    assert found.gain == pytest.approx(step * b, rel=1e-5)
    assert found.low == pytest.approx(step * b - half, rel=1e-3)
    assert found.high == pytest.approx(min(step * b + half, 1 - y[-1]), rel=1e-3)


def test_a_curve_that_falls_promises_nothing():
    found = forecast(curve(0.5, -1.0, 0.5))
    assert found.gain == 0
    assert found.high < 0


def test_no_more_than_all_can_be_right():
    found = forecast(curve(1.3, 3.0, 0.3))
    last = 1.3 - 3.0 * 210**-0.3
    assert found.high <= 1 - last


@given(
    st.lists(st.floats(0, 1), min_size=5, max_size=12),
    st.one_of(st.none(), st.floats(0, 1)),
    st.one_of(st.none(), st.floats(0, 1)),
    st.sampled_from(["held-out", "cross-validated"]),
    st.sampled_from([0, 10, 100]),
)
def test_nothing_impossible_is_forecast(values, changed, shown, how, judged):
    """A rise takes the accuracy neither above 1 nor below 0: not the one that is shown, however the curve lies."""
    points = [
        CurvePoint(20 * (i + 1), value, how, changed=changed, targets=100, judged=judged, shown=shown)
        for i, value in enumerate(values)
    ]
    for found, now in ((rise(points), values[-1]), (forecast(points), values[-1] if shown is None else shown)):
        assert -now <= found.low <= found.gain <= found.high <= 1 - now


def test_the_most_that_is_forecast_fits_the_accuracy_that_is_shown():
    """Few held-out labels are shown, while the curve is cross-validated and the labels changed much."""
    crossed = {"metric": "accuracy", "value": 0.3, "low": 0.2, "high": 0.4, "how": "cross-validated", "judged": 60}
    held = {"metric": "accuracy", "value": 0.89, "low": 0.7, "high": 0.97, "how": "held-out", "judged": 18}
    change = {"labels": 50, "changed": 0.6, "improved": 0.1, "targets": 80}
    rounds = [
        {"round": i, "labels": 12 * i, "estimate": held, "cross_validated": crossed, "change": change}
        for i in range(1, 9)
    ]
    found = forecast(points_of(rounds))
    assert 0.89 + found.high <= 1 + 1e-12
    assert 0.89 + found.gain <= 1 + 1e-12


def test_labels_that_changed_little_promise_little():
    free = forecast(curve(0.95, 2.0, 0.5))
    bound = forecast(curve(0.95, 2.0, 0.5, changed=0.0, targets=400))
    assert free.gain > 0.013
    assert bound.gain == bound.high == wilson(0, 400)[1] < 0.01


def test_a_curve_of_chosen_labels_is_trusted_less():
    held = curve(0.95, 2.0, 0.5, changed=0.1, targets=100)
    crossed = [CurvePoint(point.labels, point.value, "cross-validated", None, 0.1, 100) for point in held]
    assert rise(crossed) == rise(held) == forecast(held)
    assert forecast(crossed).gain == forecast(held).gain
    assert (forecast(crossed).low, forecast(crossed).high) == (0.0, 0.1)
    untold = [CurvePoint(point.labels, point.value, "cross-validated") for point in held]
    assert (forecast(untold).low, forecast(untold).high) == (0.0, rise(held).high)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [CurvePoint(n, None) for n in range(20, 200, 10)],
        curve(0.9, 1, 1, counts=range(20, 60, 10)),
        curve(0.9, 1, 1, counts=range(100, 190, 10)),
    ],
)
def test_what_cannot_be_told_is_not_told(points):
    assert forecast(points) is None


def test_only_what_was_estimated_in_the_same_way_makes_a_curve():
    crossed = [CurvePoint(n, 0.3, "cross-validated") for n in range(20, 220, 10)]
    held = curve(0.95, 2.0, 0.5)
    mixed = [point for pair in zip(crossed, held, strict=True) for point in pair]
    assert forecast(mixed) == forecast(held)
    assert forecast([*held, *held[-1:]]) == forecast(held)  # a round without new labels
    early = [CurvePoint(n, 0.99, "held-out") for n in (10, 15, 20, 25)]
    assert forecast([*early, *curve(0.95, 2.0, 0.5, counts=range(30, 250, 10))]) == forecast(
        curve(0.95, 2.0, 0.5, counts=range(30, 250, 10))
    )


# ---- signs and advice ----------------------------------------------------------------------------------------------


def rounds(*, gain=1.0, changed=0.5, rising=True, many=20):
    """Rounds whose signs are all absent, unless said otherwise for the last two."""
    c = 0.3 if rising else 2.0
    points = [CurvePoint(n, 0.95 - 2 * n**-c, "held-out", 1.0, 0.5, 100) for n in range(20, 20 + 10 * many, 10)]
    for place in (-2, -1):
        old = points[place]
        points[place] = CurvePoint(old.labels, old.value, old.how, gain, changed, 100)
    return points


@pytest.mark.parametrize("gain", [1.0, 0.05])
@pytest.mark.parametrize("changed", [0.5, 0.02])
@pytest.mark.parametrize("rising", [True, False])
def test_the_predictions_and_one_other_sign_are_needed(gain, changed, rising):
    points = rounds(gain=gain, changed=changed, rising=rising)
    there = [sign.there for sign in signs(points)]
    assert there == [changed < 0.03, gain < 0.1, not rising]
    found = stop_advice(points)
    assert found.stop == (there[0] and (there[1] or there[2]))
    assert found.rule == RULE
    yes = {True: "yes", False: "no"}
    assert f"changed {changed:.1%} of the predictions on the targets ({yes[changed < 0.03]})" in found.why
    assert (
        f"the expected information of the next questions is {gain:.0%} of its highest value so far ({yes[gain < 0.1]})"
        in found.why
    )
    assert "with another 50 labels (95% interval" in found.why


def test_once_is_not_enough():
    points = [*rounds(many=19), rounds(gain=0.05, changed=0.01)[-1]]
    found = stop_advice(points)
    assert not found.stop
    assert found.why.endswith("It takes two rounds in a row.")
    assert stop_advice(rounds(gain=0.05, changed=0.01)).stop
    assert not stop_advice(rounds(gain=0.05, changed=0.01)[-1:]).stop


def test_the_first_rounds_advise_nothing():
    assert stop_advice([]).why == "There has been no round yet."
    found = stop_advice([CurvePoint(0)])
    assert not found.stop
    assert found.why == "It is too early to say: this needs a model from before the last 50 labels."
    assert [sign.there for sign in signs([CurvePoint(0)])] == [None, None, None]


def test_information_is_measured_by_its_highest():
    """It grows at first, when a model learns what it does not know."""
    gains = [0.01, 0.3, 1.0, 0.5, 0.2, 0.099]
    points = [CurvePoint(10 * (place + 1), gain=gain) for place, gain in enumerate(gains)]
    assert [signs(points[: end + 1])[1].there for end in range(6)] == [False] * 5 + [True]
    assert signs([*points, CurvePoint(70, gain=-0.01)])[1].there
    assert signs([*points, CurvePoint(70)])[1].there is None
    assert signs([CurvePoint(10, gain=-0.1)])[1].there is None


def test_the_rule_says_what_is_done():
    for part in (
        "one of two other signs",
        "two rounds in a row",
        "10%",
        "3%",
        f"{MORE} labels",
        "less than 1%",
        "less than 2%",
        "95%",
    ):
        assert part in RULE


# ---- records -------------------------------------------------------------------------------------------------------


def test_points_are_read_from_records():
    body = {
        "round": 3,
        "labels": 40,
        "estimate": {"metric": "accuracy", "value": 0.7, "low": 0.5, "high": 0.8, "how": "cross-validated"},
        "gain": 0.02,
        "change": {"labels": 50, "changed": 0.1, "improved": 0.02, "targets": 77},
    }
    empty = {"round": 1, "labels": 0, "estimate": None, "gain": None, "change": None}
    assert points_of([empty, {"round": 2, "failed": "no"}, body, {"round": 4, "labels": 50}]) == [
        CurvePoint(0),
        CurvePoint(40, 0.7, "cross-validated", 0.02, 0.1, 77),
        CurvePoint(50),
    ]


def test_few_held_out_labels_make_no_curve():
    """Twenty of twenty right, round after round, is a flat line, and says little."""
    held = {"metric": "accuracy", "value": 1.0, "low": 0.84, "high": 1.0, "how": "held-out"}
    crossed = {"metric": "accuracy", "value": 0.8, "low": 0.7, "high": 0.9, "how": "cross-validated", "judged": 180}
    few = {"round": 1, "labels": 200, "estimate": held | {"judged": 20}, "cross_validated": crossed}
    many = {"round": 2, "labels": 900, "estimate": held | {"judged": 100}, "cross_validated": crossed}
    assert points_of([few, many]) == [
        CurvePoint(200, 0.8, "cross-validated", shown=1.0),
        CurvePoint(900, 1.0, "held-out", judged=100),
    ]
    assert points_of([few | {"cross_validated": None}]) == [CurvePoint(200, shown=1.0)]


def test_bodies_are_plain():
    found = forecast(curve(0.95, 2.0, 0.5))
    assert found.body() == {"labels": 50, "gain": found.gain, "low": found.low, "high": found.high}
    assert stop_advice([CurvePoint(0)]).body().keys() == {"stop", "rule", "why"}
