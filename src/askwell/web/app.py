"""The labelling page as an application: everything passed in, nothing registered anywhere."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles

from askwell.session import Session
from askwell.store import StoreError
from askwell.web import api, pages
from askwell.web.live import Live
from askwell.web.security import Guard, Sessions, check_hosts
from askwell.web.service import Service
from askwell.web.view import Shows, Viewer

__all__ = ["create_app"]

ABOUT = """Which examples to label next, and what people said about them.

All routes but those that sign in ask for the session cookie that signing in gives. Answers carry a key made by the
client: send a request again, with the same key, until it is acknowledged, and it counts once. What is acknowledged is
on the server's disk.
"""


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
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=pages.HERE / "static"), name="static")
    return app


async def _invalid(request: Request, fault: Exception) -> JSONResponse:
    """What is wrong, by its place; the value itself is not sent back, since it may be no text at all."""
    assert isinstance(fault, RequestValidationError)
    words = [f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}" for error in fault.errors()]
    text = "; ".join(words[:5]).encode("utf-8", "replace").decode()
    return JSONResponse({"detail": text or "The request is not valid."}, status_code=422)


async def _no_store(request: Request, fault: Exception) -> JSONResponse:
    """Nothing was acknowledged, so the page keeps what it has and tries again."""
    return JSONResponse({"detail": f"Not saved: {fault}"}, status_code=503, headers={"Retry-After": "2"})
