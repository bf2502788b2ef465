"""When to stop, and what more labels would bring: pure functions of the rounds so far.

A learning curve is taken for a power law, accuracy(n) = a - b n^-c. A few noisy points do not tell c, so every c of a
grid is fitted and counts by how well it fits; what they disagree about is part of the interval.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from scipy.special import stdtrit

from askwell.acquire import Round, classes_of
from askwell.estimate.accuracy import wilson
from askwell.models.protocol import mean_predict
from askwell.targets import effective_size

__all__ = [
    "MORE",
    "RULE",
    "Advice",
    "CurvePoint",
    "Forecast",
    "Sign",
    "forecast",
    "points_of",
    "rise",
    "signs",
    "stop_advice",
]

MORE = 50  # labels that are forecast
WORTH = 0.01  # of accuracy: what they must be expected to bring
SPENT = 0.1  # of the highest information so far: less is little
AGREED = 0.03  # of the targets: fewer changed predictions are few
LEAST = 5  # rounds with an estimate before anything is said of the curve
WIDE = 2.0  # times as many labels at the last of them as at the first
MANY = 100  # held-out labels that a curve of them rests on; fewer may all be right by chance, round after round
OLD = 8.0  # rounds with less than one label in so many follow no law yet
EXPONENTS = np.geomspace(0.25, 2.0, 22)
ANSWERS = {True: "yes", False: "no", None: "not known yet"}
TINY = 1e-9  # of variance: a curve without noise is as good as it gets

RULE = (
    f"Stop when, two rounds in a row, the last {MORE} labels changed at most {AGREED:.0%} of the predictions on the "
    "targets, and one of two other signs agrees: the expected information of the next questions is below "
    f"{SPENT:.0%} of its highest value so far, or the learning curve would rise by less than {WORTH:.0%} with another "
    f"{MORE} labels, and by less than {2 * WORTH:.0%} at the upper end of the 95% interval."
)


@final
@dataclass(frozen=True)
class Change:
    """What the last labels changed: predictions with them against those of a model without them, on the targets."""

    labels: int  # the last so many
    changed: float  # the share of targets that are predicted differently: accuracy there moved by no more than that
    improved: float  # the accuracy won thereby, as the model believes now
    targets: int  # that this rests on


def change(latest: Round, labels: Mapping[int, Any], *, last: int) -> Change | None:
    """What the `last` of the labels, in the order they were told, changed; None if there was no model before them."""
    before = dict([*labels.items()][:-last])
    if len(classes_of(before.values())) < 2:
        return None
    fitted = latest.strategy.fit(before, latest.strategy.rng("earlier fit", labels))
    probs = mean_predict(fitted, latest.sample.x)
    belief = mean_predict(latest.posterior, latest.sample.x)
    columns = [list(latest.posterior.classes).index(label) for label in fitted.classes]
    earlier, rows = np.array(columns)[probs.argmax(axis=1)], np.arange(len(belief))
    won = belief.max(axis=1) - belief[rows, earlier]
    weights = np.ones(len(belief)) if latest.sample.weights is None else latest.sample.weights
    changed = float(np.average(earlier != belief.argmax(axis=1), weights=weights))
    return Change(last, changed, float(np.average(won, weights=weights)), int(effective_size(weights)))


@final
@dataclass(frozen=True)
class CurvePoint:
    """A round, as far as it matters here."""

    labels: int
    value: float | None = None  # the estimated accuracy
    how: str = ""  # it was estimated
    gain: float | None = None  # nats that a label of the next batch was expected to tell about a target's
    changed: float | None = None  # the share of targets that the last 50 labels made the model predict differently
    targets: int = 0  # that this share is of
    judged: int = 0  # held-out labels that the value rests on, the same in every round; 0 if it is cross-validated
    shown: float | None = None  # the accuracy that people are shown, where that is not `value`


@final
@dataclass(frozen=True)
class Forecast:
    """What more labels are expected to add to the accuracy, and the 95 % interval of that."""

    labels: int
    gain: float
    low: float
    high: float

    def body(self) -> dict[str, Any]:
        """As it stands in a record."""
        return asdict(self)


@final
@dataclass(frozen=True)
class Advice:
    """Whether to stop, by which rule, and why in this case."""

    stop: bool
    rule: str
    why: str

    def body(self) -> dict[str, Any]:
        """As it stands in a record."""
        return asdict(self)


def points_of(rounds: Iterable[Mapping[str, Any]]) -> list[CurvePoint]:
    """The points of `round` records, oldest first; those that failed are left out.

    Their curve is that of the held-out labels once there are a hundred of them, and the cross-validated one before.
    """
    points = []
    for body in rounds:
        if "labels" not in body:
            continue
        shown, change = body.get("estimate") or {}, body.get("change") or {}
        estimate = shown
        if shown.get("how") == "held-out" and shown["judged"] < MANY:
            estimate = body.get("cross_validated") or {}
        points.append(
            CurvePoint(
                int(body["labels"]),
                estimate.get("value"),
                estimate.get("how", ""),
                body.get("gain"),
                change.get("changed"),
                change.get("targets", 0),
                estimate["judged"] if estimate.get("how") == "held-out" else 0,
                None if estimate is shown else shown["value"],
            )
        )
    return points


# ---- the curve -----------------------------------------------------------------------------------------------------


def forecast(points: Sequence[CurvePoint], *, more: int = MORE) -> Forecast | None:
    """What `more` labels are expected to bring on the targets; None while the curve does not tell.

    It is what the curve does (`rise`), as far as the curve can be trusted. Labels bring less and less, and the last 50
    moved the accuracy on the targets by no more than the share of predictions that they changed: the upper end of that
    share's interval is the most that is forecast. A curve of labels that were chosen is not that of the targets, so
    where it was cross-validated the interval reaches from nothing to that share at least. Nothing is forecast that
    would take the accuracy that people are shown below 0 or above 1.

    >>> found = forecast([CurvePoint(n, 0.95 - 2 / n, "held-out") for n in range(20, 120, 10)])
    >>> round(found.gain, 4)                                                  # 2 / 110 - 2 / 160
    0.0057
    >>> forecast([CurvePoint(20, 0.5), CurvePoint(30, 0.6)]) is None
    True
    """
    found = rise(points, more=more)
    if found is None:
        return None
    last = points[-1]
    low, high, most = found.low, found.high, 1.0
    if last.changed is not None and last.targets > 0:
        most = wilson(last.changed * last.targets, last.targets)[1]
    if _curve(points)[-1].how != "held-out":
        low, high = min(low, 0.0), max(high, last.changed or 0.0)
    now = _curve(points)[-1].value if last.shown is None else last.shown
    return _possible(more, now or 0.0, *(min(value, most) for value in (found.gain, low, high)))


def rise(points: Sequence[CurvePoint], *, more: int = MORE) -> Forecast | None:
    """How much the estimated accuracy would rise with `more` labels if its curve went on; None if it is too short.

    For each exponent c, a and b of value(n) = a - b n^-c are fitted by least squares, a point with n labels counting n
    times (its variance falls as 1 / n). The rise is b (n^-c - (n + more)^-c). Exponents count by their likelihood
    RSS^(-t/2) of t points. Estimates of neighbouring rounds share most of their labels, so residuals that go together
    widen the interval, by (1 + r) / (1 - r), r being their correlation from one round to the next.

    Held-out labels judge every round alike, so that no residual shows how far they are from what they were drawn from.
    A rise by g turns at least a share g of the inputs, so the rise on m of them varies by g / m about that on all; this
    is added, with g at least 1 / m, one label.
    """
    used = _curve(points)
    if len(used) < LEAST or used[-1].labels < WIDE * used[0].labels:
        return None
    n = np.array([point.labels for point in used], float)
    y = np.array([point.value for point in used], float)
    gains, variances, losses = np.array([_power_law(n, y, c, more) for c in EXPONENTS]).T
    share = np.exp(losses.min() - losses)
    share /= share.sum()
    gain = float(share @ gains)
    m = used[-1].judged
    sampling = max(abs(gain), 1 / m) / m if m else 0.0
    half = float(stdtrit(len(n) - 3, 0.975)) * math.sqrt(share @ (variances + (gains - gain) ** 2) + sampling)
    return _possible(more, float(y[-1]), max(gain, 0.0), gain - half, gain + half)


def _possible(more: int, now: float, gain: float, low: float, high: float) -> Forecast:
    """A forecast that leaves an accuracy of `now` between 0 and 1."""
    now = min(max(now, 0.0), 1.0)
    return Forecast(more, *(float(np.clip(value, -now, 1 - now)) for value in (gain, low, high)))


def _curve(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """The points of the present curve: estimated as the last one is, one for each number of labels, not too old."""
    how = next((point.how for point in reversed(points) if point.value is not None), None)
    found = {point.labels: point for point in points if point.value is not None and point.how == how}
    return [found[n] for n in sorted(found) if OLD * n >= max(found) and n > 0]


def _power_law(n: np.ndarray, y: np.ndarray, c: float, more: int) -> tuple[float, float, float]:
    """(the gain of `more` labels, its variance, minus the log likelihood) for one exponent."""
    weight, last, t = n / n.mean(), n[-1], len(n)
    design = np.stack([np.ones(t), -((n / last) ** -c)], axis=1)
    inverse = np.linalg.inv(design.T @ (weight[:, None] * design))
    _, b = inverse @ (design.T @ (weight * y))
    residual = np.sqrt(weight) * (y - design @ (inverse @ (design.T @ (weight * y))))
    rss = float(residual @ residual) + t * TINY
    alike = min(0.9, max(0.0, float(residual[1:] @ residual[:-1]) / rss))
    step = 1 - ((last + more) / last) ** -c
    variance = step**2 * inverse[1, 1] * rss / (t - 3) * (1 + alike) / (1 - alike)
    return step * b, variance, t / 2 * math.log(rss)


# ---- the advice ----------------------------------------------------------------------------------------------------


def stop_advice(points: Sequence[CurvePoint]) -> Advice:
    """Whether to stop after these rounds, oldest first.

    >>> flat = [CurvePoint(n, 0.9, "held-out", gain=0.2 / n, changed=0.01, targets=200) for n in range(60, 300, 10)]
    >>> stop_advice(flat).stop, stop_advice(flat[:3]).stop
    (True, False)
    >>> print(stop_advice(flat).why)
    The last 50 labels changed 1.0% of the predictions on the targets (yes); the expected information of the next ...
    """
    if not points:
        return Advice(False, RULE, "There has been no round yet.")
    present = signs(points)
    if present[0].there is None:
        return Advice(False, RULE, f"It is too early to say: this needs a model from before the last {MORE} labels.")
    now, before = _speak(present), len(points) > 1 and _speak(signs(points[:-1]))
    said = "; ".join(f"{sign.text} ({ANSWERS[sign.there]})" for sign in present)
    once = " It takes two rounds in a row." if now and not before else ""
    return Advice(now and before, RULE, f"{said[0].upper()}{said[1:]}.{once}")


def _speak(present: "tuple[Sign, Sign, Sign]") -> bool:
    """Whether the signs of one round say stop."""
    predictions, *others = present
    return predictions.there is True and any(sign.there is True for sign in others)


@final
@dataclass(frozen=True)
class Sign:
    """One of the three signs that little is left to learn; None: it cannot be told yet."""

    there: bool | None
    text: str


def signs(points: Sequence[CurvePoint]) -> tuple[Sign, Sign, Sign]:
    """The three signs after these rounds: predictions, information, curve.

    >>> [sign.there for sign in signs([CurvePoint(10, gain=0.5), CurvePoint(20, gain=0.02)])]
    [None, True, None]
    """
    return _predictions(points[-1]), _information(points), _flat(points)


def _information(points: Sequence[CurvePoint]) -> Sign:
    now = points[-1].gain
    highest = max((point.gain for point in points if point.gain is not None), default=0.0)
    if now is None or highest <= 0:
        return Sign(None, "the next questions have little expected information")
    share = max(0.0, now / highest)
    return Sign(
        share < SPENT, f"the expected information of the next questions is {share:.0%} of its highest value so far"
    )


def _predictions(point: CurvePoint) -> Sign:
    if point.changed is None:
        return Sign(None, f"the last {MORE} labels changed little")
    said = f"the last {MORE} labels changed {point.changed:.1%} of the predictions on the targets"
    return Sign(point.changed <= AGREED, said)


def _flat(points: Sequence[CurvePoint]) -> Sign:
    ahead = rise(points)
    if ahead is None:
        return Sign(None, "the learning curve is flat")
    said = f"the learning curve would rise by {ahead.gain:.1%} with another {ahead.labels} labels"
    return Sign(
        ahead.gain < WORTH and ahead.high < 2 * WORTH, f"{said} (95% interval {ahead.low:.1%} to {ahead.high:.1%})"
    )
