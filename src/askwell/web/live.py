"""How it goes, for everybody who looks: made once for all, at most every half second, however many pages ask."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from askwell.session import Progress, Session
from askwell.session.progress import has_model

__all__ = ["Live", "Panel", "curve_points", "in_hours", "panel"]

FRESH = 0.5  # seconds for which progress may be shown again

Status: TypeAlias = Callable[[], Mapping[str, Any]]
Point: TypeAlias = tuple[int, float, float, float]  # labels, estimate, low, high


@final
@dataclass(frozen=True)
class Panel:
    """What the page shows beside the item."""

    progress: Progress
    share: float  # 0 to 1: of the budget that is used, or of the pool that is labelled
    left: str  # how long the rest takes, in words; "" if there is no telling
    metric: str  # of the curve; "" before there is one
    how: str  # the estimate's name
    points: list[Point]
    model: str
    busy: bool
    words: str  # what the trainer is doing
    failed: str  # why the last fit failed; "" if it did not
    advice: Mapping[str, Any] | None
    ahead: str  # what more labels are expected to bring; "" if there is no telling
    most: int  # labels of the most diligent


@final
class Live:
    """The progress of a session and the state of its trainer."""

    def __init__(self, session: Session, *, status: Status | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._status, self._clock = session, status, clock
        self._lock = threading.Lock()
        self._kept: tuple[float, Panel] | None = None

    def status(self) -> Mapping[str, Any]:
        """What the trainer says of itself; nothing where there is none."""
        return self._status() if self._status else {}

    def panel(self) -> Panel:
        """What the page shows now."""
        with self._lock:
            now = self._clock()
            if self._kept is None or now - self._kept[0] > FRESH:
                self._kept = (now, panel(self._session.progress(), self.status()))
            return self._kept[1]


def panel(progress: Progress, status: Mapping[str, Any]) -> Panel:
    """The panel of some progress. Of `status` it reads `training` (true while a fit runs), `seconds` and `text`.

    `seconds` is how long that fit has taken so far.
    """
    rounds = list(progress.rounds)
    good = [entry for entry in rounds if not entry.get("failed")]
    estimates = [entry for entry in good if entry.get("estimate")]
    last = estimates[-1]["estimate"] if estimates else {}
    used, whole = (
        (progress.labels, progress.budget) if progress.budget is not None else (progress.complete, progress.items)
    )
    failed = str(rounds[-1]["failed"]) if rounds and rounds[-1].get("failed") else ""
    return Panel(
        progress=progress,
        share=min(1.0, used / whole) if whole else 0.0,
        left="" if progress.closed else in_hours(progress.hours),
        metric=str(last.get("metric", "")).replace("_", " "),
        how=str(last.get("how", "")),
        points=curve_points(estimates),
        model=_model(good),
        busy=bool(status.get("training")),
        words="" if failed else _doing(status),
        failed=failed,
        advice=good[-1].get("advice") if good else None,
        ahead=_ahead(good[-1].get("next50")) if good else "",
        most=max((person.labels for person in progress.people), default=0),
    )


def curve_points(rounds: list[Mapping[str, Any]]) -> list[Point]:
    """The learning curve: (labels, value, low, high), by labels; of rounds with as many labels the latest.

    Only estimates that are named like the last one are on it: a curve must not mix two kinds of truth.

    >>> name = {"metric": "accuracy", "how": "held-out"}
    >>> early = {"labels": 20, "estimate": {**name, "value": 0.7, "low": 0.6, "high": 0.8}}
    >>> late = {"labels": 40, "estimate": {**name, "value": 0.8, "low": 0.7, "high": 0.9}}
    >>> curve_points([late, early])
    [(20, 0.7, 0.6, 0.8), (40, 0.8, 0.7, 0.9)]
    """
    if not rounds:
        return []
    kind = (rounds[-1]["estimate"].get("metric"), rounds[-1]["estimate"].get("how"))
    points: dict[int, Point] = {}
    for entry in rounds:
        estimate = entry["estimate"]
        if (estimate.get("metric"), estimate.get("how")) == kind:
            value = float(estimate["value"])
            low, high = (float(estimate[end]) if estimate.get(end) is not None else value for end in ("low", "high"))
            points[int(entry["labels"])] = (int(entry["labels"]), value, low, high)
    return [points[labels] for labels in sorted(points)]


def in_hours(hours: float | None) -> str:
    """A length of work in words.

    >>> in_hours(0.2), in_hours(1.6), in_hours(26.0), in_hours(0.001), in_hours(None)
    ('12 min', '1 h 36 min', '26 h', '1 min', '')
    """
    if hours is None:
        return ""
    minutes = max(1, round(60 * hours))
    if minutes < 60:
        return f"{minutes} min"
    whole, rest = divmod(minutes, 60)
    return f"{whole} h {rest} min" if whole < 10 and rest else f"{whole} h"


def _doing(status: Mapping[str, Any]) -> str:
    """What the trainer does, in words.

    >>> _doing({"training": True, "seconds": 13.2}), _doing({"training": False, "text": "resting"})
    ('Training for 13 s.', 'resting')
    """
    words = str(status.get("text") or "")
    if not status.get("training"):
        return words
    seconds = status.get("seconds")
    if seconds is None:
        return f"Training now. {words}".strip()
    took = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    return f"Training for {took}. {words}".strip()


def _model(rounds: list[Mapping[str, Any]]) -> str:
    if not rounds or not has_model(rounds[-1]):  # a round before there were labels of two classes
        return ""
    name, labels = str(rounds[-1].get("model") or "model"), rounds[-1].get("labels", 0)
    return f"{name[:1].upper()}{name[1:]}, fitted to {labels:,} labels"


def _ahead(forecast: Mapping[str, Any] | None) -> str:
    """`{"labels": 50, "gain": 0.012, "low": 0.002, "high": 0.024}` in words; a point is a hundredth."""
    if not forecast or forecast.get("gain") is None:
        return ""
    words = f"{forecast.get('labels', 50)} more labels: {100 * forecast['gain']:+.1f} points expected"
    low, high = (forecast.get(end) for end in ("low", "high"))
    return words if low is None or high is None else f"{words} ({100 * low:+.1f} to {100 * high:+.1f})"
