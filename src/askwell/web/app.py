"""The labelling page as an application: everything passed in, nothing registered anywhere.

```
browser: main.js -> outbox.js -> server.js     (a label waits in the browser until the server has it)
                                     |
            Guard (security) -> api.answer -> Session.answer -> store
                                     |
            api.next_items -> Session.next -> Viewer.card (view) -> stage.js
```
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Form, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from askwell.session import Session
from askwell.session.rules import Changes
from askwell.store import StoreError
from askwell.web import api
from askwell.web.security import Guard, Sessions, check_hosts
from askwell.web.service import Here, Live, Name, Service, Who, line, refusals
from askwell.web.view import Shows, Viewer

__all__ = ["create_app"]

ABOUT = """Which examples to label next, and what people answered.

All routes but those that sign in ask for the session cookie that signing in gives. Answers carry a key made by the
client: send a request again, with the same key, until it is acknowledged, and it counts once. What is acknowledged is
on the server's disk.
"""

HERE = Path(__file__).parent
PAGES = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)
PAGES.trim_blocks = PAGES.lstrip_blocks = True

router = APIRouter(default_response_class=HTMLResponse)


def create_app(
    session: Session,
    items: Shows,
    *,
    title: str,
    targets: Shows | None = None,
    token: str | None = None,
    hosts: Sequence[str] = ("127.0.0.1", "localhost"),
    status: Callable[[], Mapping[str, Any]] | None = None,
    template: str | None = None,
    sessions: str | Path | None = None,
) -> FastAPI:
    """The labelling page over an open session, for one server process.

    `items` are shown, `targets` explain why an item was asked. `hosts` are the names under which browsers may reach it
    ("*": any); all but this machine's own need a `token`. `status()` says what the trainer is doing: `training` (a
    bool) and `text`. `template` draws an item in your own way: Jinja, with `id`, `text`, `cells` and `image`. The file
    `sessions`, made if there is none, lets people stay signed in when the server is started again.

    >>> from askwell.session import Session
    >>> from askwell.data import Items
    >>> from askwell.store import open_store
    >>> mail = Items("mail", "text", ("a", "b"), ["Win a prize", "See you at noon"])
    >>> app = create_app(Session(open_store(None), mail.ids), mail, title="Mail")
    >>> app.title
    'Mail'
    >>> create_app(Session(open_store(None), mail.ids), mail, title="Mail", hosts=["0.0.0.0"])
    Traceback (most recent call last):
    ValueError: a page that others can reach (0.0.0.0) needs a token, but token is None. ...
    """
    names = check_hosts(hosts, token)
    service = Service(
        session=session,
        pool=Viewer(items, of="pool", template=template),
        targets=None if targets is None else Viewer(targets, of="targets"),
        title=title,
        live=Live(session, status=status),
        sessions=Sessions(token=token, file=None if sessions is None else Path(sessions)),
    )
    app = FastAPI(title=title, description=ABOUT, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    app.add_middleware(Guard, hosts=names)
    app.add_exception_handler(RequestValidationError, _invalid)
    for failure in (StoreError, OSError):
        app.add_exception_handler(failure, _no_store)
    app.include_router(api.router)
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    return app


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """What is wrong, by field; the value itself is not sent back, since it may be no text at all."""
    assert isinstance(error, RequestValidationError)
    words = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()]
    text = "; ".join(words[:5]).encode("utf-8", "replace").decode()
    return JSONResponse({"detail": text or "The request is not valid."}, status_code=422)


async def _no_store(request: Request, error: Exception) -> JSONResponse:
    """Nothing was acknowledged, so the page keeps what it has and tries again."""
    return JSONResponse({"detail": f"Not saved: {error}"}, status_code=503, headers={"Retry-After": "2"})


# ---- the HTML: the sign-in form, the labelling page, and the two parts of it that the server draws anew --------------


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
    except HTTPException as error:
        refused = _door(here, error.status_code, name=name, wrong=error.detail)
        refused.headers.update(error.headers or {})
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
    now, looks = here.live.panel(), len(here.session.label_issues(who=who))
    bound = now.how == "cross-validated" and now.metric != "rmse"
    curve = json.dumps({"metric": now.metric, "points": now.points, "bound": bound})
    body = PAGES.get_template("panel.html").render(panel=now, progress=now.progress, who=who, curve=curve, looks=looks)
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
    """Without `old` the class is added. What cannot be done is shown above the list."""
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
    """An empty budget has no end. What cannot be done is shown above the list."""
    return _changed(here, who, {"budget": int(budget) if budget else None, "labels_per_item": labels_per_item})


# ---- drawing -------------------------------------------------------------------------------------------------------


def _drawn(template: str, status: int = 200, **words: Any) -> HTMLResponse:
    return HTMLResponse(PAGES.get_template(template).render(words), status_code=status)


def _door(here: Service, status: int, *, name: str = "", wrong: str = "") -> HTMLResponse:
    needs_token = here.sessions.needs_token
    return _drawn("sign_in.html", status, title=here.title, needs_token=needs_token, name=name, wrong=wrong)


def _changed(here: Service, who: str, changes: Changes) -> HTMLResponse:
    try:
        api.changed_rules(here.session, who, changes)
    except ValueError as error:
        return _class_list(here, wrong=str(error))
    return _class_list(here)


def _class_list(here: Service, *, wrong: str = "") -> HTMLResponse:
    progress = here.session.progress()
    return _drawn("classes.html", rules=here.session.rules, used=progress.classes, labels=progress.labels, wrong=wrong)
