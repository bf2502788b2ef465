"""What the routes share: the session, the items as cards, who is signed in, how it goes, and how errors look."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, final

from fastapi import Depends, HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, StringConstraints

from askwell.session import Progress, Session
from askwell.session.progress import has_model
from askwell.web.security import SESSION, Sessions, Tries
from askwell.web.view import Viewer

__all__ = [
    "Here",
    "Live",
    "Name",
    "Panel",
    "Refusal",
    "Service",
    "Who",
    "conflicts",
    "curve_points",
    "in_hours",
    "line",
    "panel",
    "refusals",
]

WORDS = {
    400: "The body is no text that can be read.",
    401: "Not signed in, or the wrong token.",
    403: "The host or the origin of the request is not this page's.",
    404: "There is no such item.",
    408: "The request was not sent in time.",
    409: "It contradicts what is stored; the message says how.",
    413: "The request is too large.",
    422: "A value is missing, of the wrong kind, or too long.",
    429: "Too many wrong tokens; Retry-After says how many seconds to wait.",
    503: "The store cannot be read or written. Nothing was kept: send it again later.",
}


class Refusal(BaseModel):
    """Why a request was not served."""

    detail: str


CONTROL = r"\x00-\x1f\x7f-\x9f"
SPACES = r"\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # by name: engines differ in what \s is


def line(longest: int, *, empty: bool = False) -> Any:
    """One line of text: no control characters, no space in front."""
    start = "" if empty else f"[^{CONTROL}{SPACES}]"
    return StringConstraints(max_length=longest, pattern=f"^{start}[^{CONTROL}]*$")


Name: TypeAlias = Annotated[str, line(80)]


def refusals(*statuses: int, drawn: Collection[int] = ()) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for its documentation; every route has those that the guard gives.

    They are JSON, whatever else the route answers with, but for those that are `drawn` as a page.
    """

    def content(status: int) -> dict[str, Any]:
        return {"text/html": {}} if status in drawn else {"application/json": {"schema": Refusal.model_json_schema()}}

    known = sorted({403, 408, 413, *statuses})
    return {status: {"content": content(status), "description": WORDS[status]} for status in known}


@contextmanager
def conflicts() -> Iterator[None]:
    """What the session refuses is a conflict with what is stored; its message says what to do."""
    try:
        yield
    except ValueError as error:
        raise HTTPException(409, str(error)) from None


# ---- progress --------------------------------------------------------------------------------------------------------


FRESH = 0.5  # seconds for which progress may be shown again

Status: TypeAlias = Callable[[], Mapping[str, Any]]
ChartPoint: TypeAlias = tuple[int, float, float, float]  # labels, estimate, low, high


@final
@dataclass(frozen=True)
class Panel:
    """What the page shows beside the item."""

    progress: Progress
    share: float  # 0 to 1: of the budget that is used, or of the pool that is labelled
    left: str  # how long the rest takes; "" if unknown
    metric: str  # of the curve; "" before there is one
    how: str  # the estimate's name
    heading: str  # above the curve
    about: str  # what the estimate is about, and what it rests on
    measures: list[tuple[str, str]]  # other figures of the same questions, by name: value (low to high)
    points: list[ChartPoint]
    model: str
    busy: bool
    words: str  # what the trainer is doing
    failed: str  # why the last fit failed; "" if it did not
    advice: Mapping[str, Any] | None
    ahead: str  # what more labels are expected to bring; "" if unknown
    needed: list[tuple[str, str]]  # accuracies, and how many more labels they take
    most: int  # labels of the most diligent


@final
class Live:
    """The progress of a session and the state of its trainer."""

    def __init__(self, session: Session, *, status: Status | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._status, self._clock = session, status, clock
        self._lock = threading.Lock()
        self._panel: tuple[float, Panel] | None = None

    def status(self) -> Mapping[str, Any]:
        """What the trainer says of itself; nothing where there is none."""
        return self._status() if self._status else {}

    def panel(self) -> Panel:
        """What the page shows now."""
        with self._lock:
            now = self._clock()
            if self._panel is None or now - self._panel[0] > FRESH:
                self._panel = (now, panel(self._session.progress(), self.status()))
            return self._panel[1]


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
        heading=_heading(last),
        about=str(last.get("about", "")),
        measures=_measures(last),
        points=curve_points(estimates),
        model=_model(good),
        busy=bool(status.get("training")),
        words="" if failed else _doing(status),
        failed=failed,
        advice=good[-1].get("advice") if good else None,
        ahead=_ahead(good[-1].get("next50")) if good else "",
        needed=[in_labels(*each) for each in good[-1].get("needed") or ()] if good else [],
        most=max((person.labels for person in progress.people), default=0),
    )


def _heading(estimate: Mapping[str, Any]) -> str:
    """What the curve shows: of the targets only where the questions behind it were drawn for them."""
    metric, of = str(estimate.get("metric", "")).replace("_", " ").capitalize(), estimate.get("of")
    if not metric:
        return "Learning curve"
    bound, metric = (", an upper bound", "RMSE") if metric == "Rmse" else (", a lower bound", metric)
    where = {"targets": " on the targets", "nearest": " near the targets", "chosen": bound}
    return metric + where.get(str(of), "" if of else f", {estimate.get('how', '')}")


def _measures(estimate: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Balanced accuracy, log loss and the accuracy of each class, where they are known."""
    named = {name.replace("_", " "): estimate.get(name) for name in ("balanced_accuracy", "log_loss")}
    found = {**named, **{f"accuracy of {name}": each for name, each in (estimate.get("classes") or {}).items()}}
    return [
        (name, f"{each['value']:.2f} ({each['low']:.2f} to {each['high']:.2f})") for name, each in found.items() if each
    ]


def curve_points(rounds: list[Mapping[str, Any]]) -> list[ChartPoint]:
    """The learning curve: (labels, value, low, high), by labels; of rounds with as many labels the latest.

    Only estimates that are named like the last one are on it: a curve must not mix two kinds of truth.

    >>> name = {"metric": "accuracy", "how": "drawn"}
    >>> early = {"labels": 20, "estimate": {**name, "value": 0.7, "low": 0.6, "high": 0.8}}
    >>> late = {"labels": 40, "estimate": {**name, "value": 0.8, "low": 0.7, "high": 0.9}}
    >>> curve_points([late, early])
    [(20, 0.7, 0.6, 0.8), (40, 0.8, 0.7, 0.9)]
    """
    if not rounds:
        return []
    kind = (rounds[-1]["estimate"].get("metric"), rounds[-1]["estimate"].get("how"))
    points: dict[int, ChartPoint] = {}
    for entry in rounds:
        estimate = entry["estimate"]
        if (estimate.get("metric"), estimate.get("how")) == kind:
            value = float(estimate["value"])
            low, high = (float(estimate[end]) if estimate.get(end) is not None else value for end in ("low", "high"))
            points[int(entry["labels"])] = (int(entry["labels"]), value, low, high)
    return [points[labels] for labels in sorted(points)]


def in_hours(hours: float | None) -> str:
    """A length of work as text.

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
    """What the trainer does, as text.

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
    """`{"labels": 50, "gain": 0.012, "low": 0.002, "high": 0.024}` as text; a point is a hundredth."""
    if not forecast or forecast.get("gain") is None:
        return ""
    words = f"{forecast.get('labels', 50)} more labels: {100 * forecast['gain']:+.1f} points expected"
    low, high = (forecast.get(end) for end in ("low", "high"))
    return words if low is None or high is None else f"{words} ({100 * low:+.1f} to {100 * high:+.1f})"


def in_labels(accuracy: float, least: int | None, about: int | None) -> tuple[str, str]:
    """An accuracy, and how many more labels it takes, as text.

    >>> in_labels(0.9, 10, 70), in_labels(0.95, 40, None)
    (('To reach 0.9', 'about 70 more (at least 10)'), ('To reach 0.95', 'at least 40 more'))
    """
    few = "unforeseeable" if least is None else f"at least {least:,}"
    return (
        f"To reach {accuracy:g}",
        few if least is None else f"{few} more" if about is None else f"about {about:,} more ({few})",
    )


# ---- the project -----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Service:
    """One open project as the routes see it."""

    session: Session
    pool: Viewer
    targets: Viewer | None
    title: str
    live: Live
    sessions: Sessions
    tries: Tries = field(default_factory=Tries)

    def visitor(self, request: Request) -> str | None:
        """Who is asking, or None."""
        return self.sessions.who(request.cookies.get(_cookie_name(request)))

    def who(self, request: Request) -> str:
        """Who is asking; the request ends here if that is nobody."""
        who = self.visitor(request)
        if who is None:
            raise HTTPException(401, "Sign in first.")
        return who

    def sign_in(self, request: Request, response: Response, name: str, token: str) -> None:
        """Put a session into the response, if the token is right: then nobody waits for others' wrong ones."""
        if not self.sessions.admits(token):
            address = request.client.host if request.client else ""
            if wait := self.tries.wait(address):
                raise HTTPException(
                    429, f"Too many wrong tokens. Try again in {wait} seconds.", headers={"Retry-After": str(wait)}
                )
            self.tries.failed(address)
            raise HTTPException(401, "This is not the token of this server.")
        response.set_cookie(
            _cookie_name(request),
            self.sessions.cookie(name),
            max_age=SESSION,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    def sign_out(self, request: Request, response: Response) -> None:
        """End the session, here and in the browser."""
        self.sessions.end(request.cookies.get(_cookie_name(request)))
        response.delete_cookie(_cookie_name(request), httponly=True, samesite="strict")


def _cookie_name(request: Request) -> str:
    """Cookies do not know ports: two servers on one machine would sign each other's people out."""
    return f"askwell-{request.url.port or 0}"


# ---- what a route asks for -----------------------------------------------------------------------------------------


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _who(request: Request) -> str:
    return _service(request).who(request)


Here: TypeAlias = Annotated[Service, Depends(_service)]
Who: TypeAlias = Annotated[str, Depends(_who)]  # signed in, or the request ends with 401
