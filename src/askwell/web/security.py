"""Who may talk to the page: hosts, origins, sizes and headers on every request, and who is signed in.

The page is for one machine unless a token says otherwise. A session is a signed cookie with a name in it. It is signed
with a random secret and the token together: who has a cookie cannot find the token from it, and who has the secret,
which may come with somebody else's project, cannot make a cookie. Signing out is remembered beside the secret.
"""

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, final
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer

__all__ = ["Guard", "Sessions", "Tries", "check_hosts"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
SHORTEST_TOKEN = 8  # characters
LARGEST_BODY = 64 * 1024  # bytes of a request
LONGEST_BODY = 20.0  # seconds for all of it
SESSION = 30 * 24 * 3600  # seconds
POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with "no-referrer" a browser sends its own forms with "Origin: null"
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


def check_hosts(hosts: Sequence[str], token: str | None) -> frozenset[str]:
    """The names under which the page may be asked for, in lower case; refuses to leave this machine without a token.

    >>> sorted(check_hosts(["localhost", "LAB.example.org"], "correct horse"))
    ['lab.example.org', 'localhost']
    """
    names = frozenset(host.strip("[]").lower() for host in hosts)
    if isinstance(hosts, str) or not names or "" in names:
        raise ValueError(f'hosts must be a list of names like ["127.0.0.1", "localhost"], but it is {hosts!r}.')
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ValueError(
            f"token must have at least {SHORTEST_TOKEN} characters, but it has {len(token)}. "
            "Try the one that python -c 'import secrets; print(secrets.token_urlsafe(16))' prints."
        )
    if token is None and not names <= LOOPBACK:
        far = ", ".join(sorted(names - LOOPBACK))
        raise ValueError(
            f"a page that others can reach ({far}) needs a token, but token is None. "
            'Give one with token="...", or stay on this machine with hosts=["127.0.0.1", "localhost"].'
        )
    return names


# ---- every request -------------------------------------------------------------------------------------------------


@final
class Guard:
    """Stands before the app: refuses foreign hosts, foreign origins and large bodies, and adds the headers.

    The host is compared because a foreign page can make its own name point to this machine (DNS rebinding); the origin,
    because a browser sends cookies along with what another page makes it send.
    """

    def __init__(
        self, app: App, *, hosts: frozenset[str], largest: int = LARGEST_BODY, longest: float = LONGEST_BODY
    ) -> None:
        self._app, self._hosts, self._largest, self._longest = app, hosts, largest, longest

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _dressed(message.get("headers", ()), scope["path"])
            await send(message)

        refusal = refused(scope["method"], scope["headers"], self._hosts)
        if refusal:
            await _say(dressed, 403, refusal)
            return
        try:
            async with asyncio.timeout(self._longest):
                body = await _body(scope["headers"], receive, self._largest)
        except TimeoutError:
            await _say(dressed, 408, f"a request must be sent within {self._longest:g} seconds.", close=True)
            return
        if body is None:
            await _say(dressed, 413, f"a request may have at most {self._largest} bytes.")
            return
        await self._app(scope, _replay(body, receive), dressed)


def refused(method: str, headers: Iterable[tuple[bytes, bytes]], hosts: frozenset[str]) -> str | None:
    """Why a request may not pass, judged by its Host, Origin and Sec-Fetch-Site; None if it may.

    >>> refused("POST", [(b"host", b"evil.example")], frozenset({"localhost"}))
    "this page is not served under the host 'evil.example'."
    """
    by_name: dict[bytes, list[str]] = {}
    for name, value in headers:
        by_name.setdefault(name.lower(), []).append(value.decode("latin-1"))
    host = by_name.get(b"host", [])
    if len(host) != 1 or _hostname(host[0]) is None:
        return "a request needs one Host header."
    if "*" not in hosts and _hostname(host[0]) not in hosts:
        return f"this page is not served under the host {host[0][:80]!r}."
    for origin in by_name.get(b"origin", []):
        if urlsplit(origin).netloc.lower() != host[0].lower():
            return f"requests from the origin {origin[:80]!r} are not answered."
    site = by_name.get(b"sec-fetch-site", ["none"])[0]
    if method not in ("GET", "HEAD") and site not in ("same-origin", "none"):
        return "requests that other sites make a browser send are not answered."
    return None


def _hostname(netloc: str) -> str | None:
    """`localhost` of `localhost:8000`, `::1` of `[::1]:8000`; None of what is no host."""
    try:
        parts = urlsplit(f"//{netloc}")
        parts.port  # noqa: B018 - raises if it is no number
    except ValueError:
        return None
    clean = not (parts.username or parts.path or parts.query or parts.fragment)
    return parts.hostname if clean else None


def _dressed(headers: Iterable[tuple[bytes, bytes]], path: str) -> list[tuple[bytes, bytes]]:
    given = list(headers)
    names = {name.lower() for name, _ in given}
    keep = b"no-cache" if path.startswith("/static/") else b"no-store"
    extra = [*HEADERS, (b"cache-control", keep)]
    return given + [(name, value) for name, value in extra if name not in names]


async def _body(headers: Iterable[tuple[bytes, bytes]], receive: Receive, largest: int) -> bytes | None:
    """The whole body, or None if it is too large: what an app reads is then small, whoever sends it."""
    for name, value in headers:
        if name.lower() == b"content-length" and (not value.isdigit() or int(value) > largest):
            return None
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":  # gone
            break
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > largest:
            return None
        more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    messages = deque([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Message:
        return messages.popleft() if messages else await receive()

    return replayed


async def _say(send: Send, status: int, detail: str, *, close: bool = False) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")] * close
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# ---- who is signed in ----------------------------------------------------------------------------------------------


@final
class Sessions:
    """Names in signed cookies.

    `file` keeps the secret and who has signed out, for its owner only, so that a restart neither signs people out nor
    lets them in again; without one both end with the process.

    >>> sessions = Sessions(token="correct horse")
    >>> sessions.admits("wrong horse"), sessions.admits("correct horse")
    (False, True)
    >>> cookie = sessions.cookie("ada")
    >>> sessions.who(cookie), sessions.who("forged")
    ('ada', None)
    >>> sessions.end(cookie)
    >>> sessions.who(cookie)
    """

    def __init__(self, *, token: str | None, file: Path | None = None) -> None:
        self._token, self._file, self._lock = token, file, threading.Lock()
        self._secret, self._ended, self._read = secrets.token_bytes(32), dict[str, float](), 0
        self._load()
        self._save()  # makes it, or lets nobody else read it any more
        key = hmac.digest(self._secret, (token or "").encode("utf-8", "replace"), "sha256")
        self._signer = URLSafeTimedSerializer(key, salt="askwell.session")

    @property
    def needs_token(self) -> bool:
        """Whether a name alone is not enough."""
        return self._token is not None

    def admits(self, token: str) -> bool:
        """Whether this is the token; takes the same time whatever it is compared with."""
        if self._token is None:
            return True
        return hmac.compare_digest(
            hashlib.sha256(token.encode("utf-8", "replace")).digest(), hashlib.sha256(self._token.encode()).digest()
        )

    def cookie(self, who: str) -> str:
        """What a browser keeps."""
        return str(self._signer.dumps({"who": who, "id": secrets.token_urlsafe(12)}))

    def who(self, cookie: str | None) -> str | None:
        """The name in a cookie that was signed here, is not too old, and was not signed out."""
        content = self._content(cookie)
        if content is None:
            return None
        with self._lock:
            self._load()  # another server of the project may have signed somebody out
            return None if content["id"] in self._ended else content["who"]

    def end(self, cookie: str | None) -> None:
        """Sign out: the cookie is nobody's from now on, wherever a copy of it is."""
        content = self._content(cookie)
        if content is None:
            return
        with self._lock:
            self._load()
            self._ended[content["id"]] = time.time()
            self._save()

    def _content(self, cookie: str | None) -> dict[str, str] | None:
        try:
            content, at = self._signer.loads(cookie or "", return_timestamp=True)
        except (BadSignature, UnicodeError):
            return None
        # A cookie from the future was signed before a clock was set back.
        if abs(time.time() - at.timestamp()) > SESSION or not isinstance(content, dict):
            return None
        return content if isinstance(content.get("who"), str) and isinstance(content.get("id"), str) else None

    def _load(self) -> bool:
        """Read the file if it is new; whether there is one that can be used."""
        if self._file is None:
            return False
        try:
            changed = self._file.stat().st_mtime_ns
            if changed != self._read:
                content = json.loads(self._file.read_text("utf-8"))
                self._secret, ended = bytes.fromhex(content["secret"]), dict[str, float](content["ended"])
                self._ended, self._read = self._ended | ended, changed
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return len(self._secret) >= 32

    def _save(self) -> None:
        if self._file is None:
            return
        self._ended = {name: at for name, at in self._ended.items() if abs(time.time() - at) < 2 * SESSION}
        draft = self._file.with_name(f"{self._file.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):  # on a full disk it is true of this process only
            self._file.parent.mkdir(exist_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump({"secret": self._secret.hex(), "ended": self._ended}, file)
            draft.replace(self._file)
            self._read = self._file.stat().st_mtime_ns


@final
class Tries:
    """How often each address failed lately: after `most` failures in `seconds` it has to wait.

    >>> tries = Tries(most=1, seconds=60, clock=lambda: 0.0)
    >>> tries.wait("10.0.0.7"), tries.failed("10.0.0.7"), tries.wait("10.0.0.7")
    (0, None, 60)
    """

    def __init__(self, *, most: int = 10, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()  # the address that failed last is the last
        self._lock = threading.Lock()

    def failed(self, address: str) -> None:
        """Remember a failure; forgets addresses that behaved since."""
        with self._lock:
            now = self._clock()
            self._failures.setdefault(address, deque(maxlen=self._most)).append(now)
            self._failures.move_to_end(address)
            while next(iter(self._failures.values()))[-1] < now - self._seconds:
                self._failures.popitem(last=False)

    def wait(self, address: str) -> int:
        """Seconds until this address may try again; 0 if it may."""
        with self._lock:
            times = self._failures.get(address, deque())
            if len(times) < self._most:
                return 0
            left = times[0] + self._seconds - self._clock()
            return max(0, round(left + 0.5)) if left > 0 else 0
