"""Connections to the page: so many at a time, and none that is held open without being used.

uvicorn waits for ever for the rest of a request. Here who has not sent a whole request head in time is let go, who does
not read what they asked for too, and when there is no room left the one that has waited longest makes room for the
next: a few hundred half-open connections stop nobody.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from askwell.web import security

__all__ = ["BACKLOG", "limits"]

HEAD = 10.0  # seconds for the head of a request
STALLED = 30.0  # seconds in which somebody reads nothing of what is sent to them
MOST = 1_000  # connections at a time
BACKLOG: Final = 64  # connections accepted at once, before any of them is looked at
OTHERS = 64  # files that the rest of the program has open
QUIET = 60.0  # seconds between two notes that the system has no room for a connection


def limits(*, most: int | None = None, head: float = HEAD) -> dict[str, Any]:
    """What to give to `uvicorn.run`: at most so many connections, by default as many as there may be open files."""
    logging.getLogger("asyncio").addFilter(_Seldom())
    crowd = _Crowd(min(MOST, max(8, _files() - BACKLOG - OTHERS)) if most is None else most, head)
    return {"http": partial(_Connection, crowd), "backlog": BACKLOG}


def _files() -> int:
    """How many files may be open."""
    try:
        import resource
    except ImportError:  # Windows
        return 512
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST * 2 if limit == resource.RLIM_INFINITY else limit


@final
class _Seldom(logging.Filter):
    """Lets asyncio say once a minute, not a hundred times a second, that there is no room for a connection."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -QUIET

    def filter(self, record: logging.LogRecord) -> bool:
        if "out of system resource" not in record.getMessage():
            return True
        due = time.monotonic() - self._last > QUIET
        if due:
            self._last = time.monotonic()
        return due


@final
class _Crowd:
    """All connections, and since when those wait that have no request running, the longest first."""

    def __init__(self, most: int, head: float) -> None:
        self._most, self._head = most, head
        self._all: set[_Connection] = set()
        self._waiting: dict[_Connection, float] = {}
        self._sweeping = False

    def enter(self, one: "_Connection") -> None:
        if len(self._all) >= self._most:
            (next(iter(self._waiting)) if self._waiting else one).drop()
        self._all.add(one)
        self.wait(one)

    def wait(self, one: "_Connection", *, longer: float = 0.0) -> None:
        """It has no request running, and has so many seconds more than others to send one."""
        if one in self._all:
            self._waiting.pop(one, None)
            self._waiting[one] = time.monotonic() + longer
            if not self._sweeping:
                self._sweeping = True
                asyncio.get_running_loop().call_later(self._head, self._sweep)

    def run(self, one: "_Connection") -> None:
        """It has a request running."""
        self._waiting.pop(one, None)

    def leave(self, one: "_Connection") -> None:
        self._all.discard(one)
        self._waiting.pop(one, None)

    def _sweep(self) -> None:
        now = time.monotonic()
        for one, since in list(self._waiting.items()):
            if now - since >= self._head:
                one.drop()
        self._sweeping = bool(self._waiting)
        if self._waiting:
            asyncio.get_running_loop().call_later(min(1.0, self._head), self._sweep)


@final
class _Connection(asyncio.Protocol):
    """uvicorn's protocol, watched from outside."""

    def __init__(self, crowd: _Crowd, **given: Any) -> None:
        self._crowd = crowd
        inner: Any = AutoHTTPProtocol  # one of several classes, of which each has an `app`
        self._inner = inner(**given)
        self._app: Callable[..., Awaitable[None]] = self._inner.app
        self._inner.app = self._serve
        self._transport: asyncio.Transport | None = None
        self._stalled: asyncio.TimerHandle | None = None

    async def _serve(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        async def received() -> Any:
            message = await receive()
            if not message.get("more_body"):
                self._crowd.run(self)
            return message

        # A request whose body is not there yet is half open like one without its head: it makes room for others.
        self._crowd.wait(self, longer=security.LONGEST_BODY)
        try:
            await self._app(scope, received, send)
        finally:
            self._crowd.wait(self)

    def drop(self) -> None:
        """End it, whatever it is doing."""
        self._crowd.leave(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a protocol of streams gets a transport of streams
        self._inner.connection_made(transport)
        self._crowd.enter(self)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        keep: bool | None = self._inner.eof_received()
        return keep

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.leave(self)
        self.resume_writing()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._stalled = asyncio.get_running_loop().call_later(STALLED, self.drop)
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._inner.resume_writing()
