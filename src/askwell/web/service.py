"""What the routes share: the session, the items as cards, who is signed in, and how refusals look."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, final

from fastapi import Depends, HTTPException, Request
from fastapi.responses import Response
from pydantic import BaseModel, StringConstraints

from askwell.session import Session
from askwell.web.live import Live
from askwell.web.security import SESSION, Sessions, Tries
from askwell.web.view import Viewer

__all__ = ["Here", "Name", "Refusal", "Service", "Who", "conflicts", "line", "refusals"]

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
    """What the session refuses is a conflict with what it knows; its words say what to do."""
    try:
        yield
    except ValueError as fault:
        raise HTTPException(409, str(fault)) from None


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
