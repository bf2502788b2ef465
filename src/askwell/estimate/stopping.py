"""What more labels would bring, and when to stop: both from what the last half of the labels changed.

    a model of the first half of the labels  ┐
    the model of all of them                 ┴─> predictions on the targets that differ: Change -> Forecast, Advice

Labels bring less and less, so what one doubling of the labels changed says how much the next one can. How much it is
worth was measured on projects that were played to the end from known labels (docs/stopping.md): the constants here were
fitted on half of them, and hold on the other. Nothing here needs labels of the targets.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np

from askwell.acquire import Round, classes_of
from askwell.checks import count
from askwell.estimate.accuracy import Estimate
from askwell.models.protocol import mean_predict
from askwell.targets import effective_size

__all__ = [
    "DOUBTED",
    "MORE",
    "RULE",
    "Advice",
    "Change",
    "Forecast",
    "Outlook",
    "advice",
    "change",
    "forecast",
    "labels_needed",
    "outlook",
]

MORE = 50  # labels that are forecast, unless another number is asked for
WORTH = 0.02  # of accuracy that the last half of the labels must have brought
EARLIEST = 40  # labels before which nothing is advised
APART = 10  # labels between two looks
DOUBTED = 20  # drawn items with labels of several people, from which on their agreement counts
# The gain of a share s of a doubling, where c of the predictions changed with the last one: its 95 % interval, and its
# median. Accuracy also moves without any reason that could be seen before: the first number of each.
LOW, HIGH, MIDDLE = (-0.042, -0.1), (0.014, 0.6), 0.14
MOST = 20  # times as many labels as there are: nothing is said of what would come after

RULE = (
    f"Stop when, two looks in a row ({APART} labels apart), the last half of the labels improved the accuracy on the "
    f"targets by at most {WORTH:.0%}, as the model sees it: the sum, over the predictions that they changed, of how "
    "much more probable the new one is than the old one. Or when the model agrees with people as well as they agree "
    "with each other."
)


@final
@dataclass(frozen=True)
class Change:
    """What the last half of the labels changed: predictions with them against those without them, on the targets."""

    labels: int  # all of them
    before: int  # those of the first half
    changed: float  # the share of targets that are predicted differently: accuracy there moved by no more than that
    improved: float  # the accuracy won thereby, as the model believes now
    targets: int  # that this rests on


@final
@dataclass(frozen=True)
class Forecast:
    """What more labels are expected to add to the accuracy on the targets, and the 95 % interval of that."""

    labels: int
    gain: float
    low: float
    high: float

    def body(self) -> dict[str, Any]:
        """As it stands in a record."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.labels} more labels: {self.gain:+.1%} ({self.low:+.1%} to {self.high:+.1%})"


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

    def __str__(self) -> str:
        return f"{'Stop' if self.stop else 'Continue'}. {self.why}"


@final
@dataclass(frozen=True)
class Outlook:
    """What can be said of the labels to come."""

    change: Change | None
    forecast: Forecast | None
    advice: Advice


def outlook(
    latest: Round,
    labels: Mapping[int, Any],
    *,
    estimate: Estimate | None = None,
    more: int = MORE,
    agreement: float | None = None,
) -> Outlook:
    """Forecast and advice for a round and its labels, position -> label in the order they were told.

    With an `estimate`, nothing is forecast that its interval has no room for. `agreement` is Cohen's kappa of
    several annotators on drawn items, where enough of these have labels of several.
    """
    now = change(latest, labels)
    earlier = dict([*labels.items()][:-APART])
    before = None
    if now is not None and now.improved <= WORTH and len(earlier) >= EARLIEST:
        before = change(latest.strategy.round(earlier), earlier)
    said = advice(now, before, agreement=agreement, kappa=None if estimate is None else estimate.kappa)
    return Outlook(now, forecast(now, estimate=estimate, more=more), said)


def change(latest: Round, labels: Mapping[int, Any]) -> Change | None:
    """What the last half of the labels changed; None if there was no model before them."""
    half = len(labels) // 2
    before = dict([*labels.items()][:half])
    if len(classes_of(before.values())) < 2:
        return None
    fitted = latest.strategy.fit(before, latest.strategy.rng("earlier fit", labels))
    belief = mean_predict(latest.posterior, latest.sample.x)  # [m, c]
    columns = np.array([list(latest.posterior.classes).index(label) for label in fitted.classes])
    then = columns[mean_predict(fitted, latest.sample.x).argmax(axis=1)]
    won = belief.max(axis=1) - belief[np.arange(len(belief)), then]
    weights = np.ones(len(belief)) if latest.sample.weights is None else latest.sample.weights
    changed = float(np.average(then != belief.argmax(axis=1), weights=weights))
    improved = float(np.average(won, weights=weights))
    return Change(len(labels), half, changed, improved, int(effective_size(weights)))


def forecast(last: Change | None, *, estimate: Estimate | None = None, more: int = MORE) -> Forecast | None:
    """What `more` labels are expected to bring on the targets; None while nothing is known of a change.

    With n labels, of which the last half changed a share c of the predictions, `more` labels are s = log2(1 + more / n)
    of a doubling. The gain is forecast to be 0.14 s c, within -(0.042 + 0.1 s c) and 0.014 + 0.6 s c, and nothing that
    would take the estimate's interval below 0 or above 1.

    >>> print(forecast(Change(100, 50, changed=0.1, improved=0.04, targets=200)))
    50 more labels: +0.8% (-4.8% to +4.9%)
    >>> forecast(None) is None
    True
    """
    more = count("more", more)
    if last is None:
        return None
    spent = last.changed * math.log2(1 + more / last.labels)
    value, least, most = (0.0, 0.0, 1.0) if estimate is None else (estimate.value, estimate.low, estimate.high)
    gain = float(np.clip(MIDDLE * spent, -value, 1 - value))
    low, high = max(LOW[0] + LOW[1] * spent, -most), min(HIGH[0] + HIGH[1] * spent, 1 - least)
    return Forecast(more, gain, low, high)


def labels_needed(last: Change | None, estimate: Estimate | None, accuracy: float) -> tuple[int | None, int | None]:
    """(at least so many more labels, about so many more labels) until this accuracy; None: more than can be foreseen.

    Nothing can be foreseen where the estimate is only a lower bound: the model may be as good already. The first is
    where the upper end of the forecast reaches it, the second where its middle does.

    >>> last = Change(100, 50, changed=0.1, improved=0.04, targets=200)
    >>> labels_needed(last, Estimate(0.9, 0.8, 0.95, "drawn", 20, "targets"), 0.92), labels_needed(last, None, 0.9)
    ((8, 170), (None, None))
    """
    if not 0 < accuracy <= 1:
        raise ValueError(f"accuracy must be above 0 and at most 1, but it is {accuracy!r}. Try 0.95.")
    if last is None or estimate is None or estimate.how != "drawn":
        return None, None
    wanted = accuracy - estimate.value
    return _until(wanted - HIGH[0], HIGH[1] * last.changed, last.labels), _until(
        wanted, MIDDLE * last.changed, last.labels
    )


def _until(wanted: float, each_doubling: float, n: int) -> int | None:
    if wanted <= 0:
        return 0
    if each_doubling <= 0 or wanted > each_doubling * math.log2(1 + MOST):
        return None
    return math.ceil(n * (2 ** (wanted / each_doubling) - 1) - 1e-9)


def advice(
    now: Change | None, before: Change | None, *, agreement: float | None = None, kappa: float | None = None
) -> Advice:
    """Whether to stop after this round, `before` being the look ten labels earlier.

    >>> late = Change(120, 60, changed=0.02, improved=0.01, targets=200)
    >>> print(advice(late, late))
    Stop. The last 60 of 120 labels improved the accuracy on the targets by 1.0%, as the model sees it, and changed ...
    >>> advice(late, None).stop
    False
    """
    if now is None or now.labels < EARLIEST:
        return Advice(False, RULE, f"It is too early to say: the rule needs {EARLIEST} labels.")
    why = (
        f"The last {now.labels - now.before} of {now.labels} labels improved the accuracy on the targets by "
        f"{now.improved:.1%}, as the model sees it, and changed {now.changed:.1%} of the predictions there."
    )
    if agreement is not None and kappa is not None and kappa >= agreement:
        said = (
            f"The model agrees with people as well as they agree with each other (kappa {kappa:.2f}, {agreement:.2f})."
        )
        return Advice(True, RULE, f"{said} {why}")
    if now.improved > WORTH:
        return Advice(False, RULE, why)
    if before is None or before.improved > WORTH:
        return Advice(False, RULE, f"{why} It takes two looks in a row.")
    return Advice(True, RULE, why)
