"""The HTML: the door, the labelling page, and the two parts of it that the server draws anew."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from askwell.session.rules import Changes
from askwell.web.api import changed_rules
from askwell.web.service import Here, Name, Service, Who, line, refusals

__all__ = ["HERE", "router"]

HERE = Path(__file__).parent


PAGES = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)
PAGES.trim_blocks = PAGES.lstrip_blocks = True

router = APIRouter(default_response_class=HTMLResponse)


@router.get("/", responses=refusals(401, 503, drawn={401}), summary="The labelling page, or the door to it")
def page(request: Request, here: Here) -> HTMLResponse:
    """Without a session this is the form to sign in, with status 401."""
    who = here.visitor(request)
    if who is None:
        return _door(here, 401)
    needs_token = here.sessions.needs_token
    return _drawn("label.html", title=here.title, who=who, project=here.session.project, needs_token=needs_token)


@router.post(
    "/sign-in",
    status_code=303,
    responses=refusals(400, 401, 422, 429, drawn={401, 429}),
    response_class=RedirectResponse,
    summary="Sign in by a form",
)
def sign_in(
    request: Request, here: Here, *, name: Annotated[Name, Form()], token: Annotated[str, Form(max_length=200)] = ""
) -> Response:
    """Leads to the page, or back to the form with what is wrong."""
    response = RedirectResponse("/", status_code=303)
    try:
        here.sign_in(request, response, name, token)
    except HTTPException as refusal:
        refused = _door(here, refusal.status_code, name=name, wrong=refusal.detail)
        refused.headers.update(refusal.headers or {})
        return refused
    return response


@router.post("/sign-out", status_code=303, responses=refusals(401), response_class=RedirectResponse, summary="Sign out")
def sign_out(request: Request, here: Here, who: Who) -> RedirectResponse:
    """Leads to the door."""
    response = RedirectResponse("/", status_code=303)
    here.sign_out(request, response)
    return response


@router.get(
    "/panel",
    responses={204: {"description": "As you have it."}, **refusals(401, 422, 503)},
    summary="Progress, curve, people, advice",
)
def panel(here: Here, who: Who, *, seen: Annotated[str, Query(max_length=64)] = "") -> Response:
    """A part of the page; empty if it is what was `seen` already, so that nothing moves without need."""
    now = here.live.panel()
    curve = json.dumps({"metric": now.metric, "points": now.points})
    body = PAGES.get_template("panel.html").render(panel=now, progress=now.progress, who=who, curve=curve)
    mark = hashlib.blake2b(body.encode(), digest_size=8).hexdigest()
    if mark == seen:
        return Response(status_code=204)
    return HTMLResponse(f'{body}<input type="hidden" id="seen" name="seen" value="{mark}">')


@router.get("/classes", responses=refusals(401, 503), summary="The list of classes, to edit")
def classes(here: Here, who: Who) -> HTMLResponse:
    """A part of the page."""
    return _class_list(here)


@router.post("/classes", responses=refusals(400, 401, 422, 503), summary="Add, rename or remove a class")
def change_classes(
    here: Here,
    who: Who,
    *,
    new: Annotated[str, Form(), line(100, empty=True)] = "",
    old: Annotated[str, Form(), line(100, empty=True)] = "",
    remove: Annotated[str, Form(), line(100, empty=True)] = "",
) -> HTMLResponse:
    """Without `old` the class is added. What cannot be done is said above the list."""
    if remove:
        return _changed(here, who, {"removed": [remove]})
    return _changed(here, who, {"renamed": {old: new}} if old else {"added": [new]})


@router.post("/limits", responses=refusals(400, 401, 422, 503), summary="Change the budget and the labels per item")
def change_limits(
    here: Here,
    who: Who,
    *,
    labels_per_item: Annotated[int, Form(ge=1, le=100)],
    budget: Annotated[str, Form(pattern=r"^[0-9]{0,9}$")] = "",
) -> HTMLResponse:
    """An empty budget has no end. What cannot be done is said above the list."""
    return _changed(here, who, {"budget": int(budget) if budget else None, "labels_per_item": labels_per_item})


# ---- drawing -------------------------------------------------------------------------------------------------------


def _drawn(template: str, status: int = 200, **words: Any) -> HTMLResponse:
    return HTMLResponse(PAGES.get_template(template).render(words), status_code=status)


def _door(here: Service, status: int, *, name: str = "", wrong: str = "") -> HTMLResponse:
    needs_token = here.sessions.needs_token
    return _drawn("sign_in.html", status, title=here.title, needs_token=needs_token, name=name, wrong=wrong)


def _changed(here: Service, who: str, changes: Changes) -> HTMLResponse:
    try:
        changed_rules(here.session, who, changes)
    except ValueError as fault:
        return _class_list(here, wrong=str(fault))
    return _class_list(here)


def _class_list(here: Service, *, wrong: str = "") -> HTMLResponse:
    progress = here.session.progress()
    return _drawn("classes.html", rules=here.session.rules, used=progress.classes, labels=progress.labels, wrong=wrong)
