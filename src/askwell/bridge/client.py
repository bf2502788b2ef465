"""Label Studio over HTTP: the few calls that the bridge needs, with patience where it helps and clear words where not.

What may be sent twice is sent again when the network or the server fails. What may not (a POST) is sent again only if
it surely never arrived; otherwise the caller has to look what became of it.
"""

import ipaddress
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

__all__ = ["LabelStudio", "RefusedError", "UnreachableError"]

PAGE = 100  # things of one listing request
TASKS_AT_ONCE = 100  # of one import request: it ends before anybody gets impatient
BUSY = frozenset({429, 500, 502, 503, 504})  # SQLite behind Label Studio answers 500 while it is locked
FIRST_PAUSE = 0.5  # seconds before the second try; doubled each time
LONGEST_QUOTE = 300  # characters of an answer that are quoted


class RefusedError(ValueError):
    """Label Studio said no, and will again: a wrong token, a wrong address, a project that is gone."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(OSError):
    """Label Studio did not answer, or answered that it cannot now. Later it may."""


@final
class LabelStudio:
    """A Label Studio server, as one of its users.

    `token` is a legacy token or a personal access token. It is sent, and never shown or written anywhere. `transport`
    and `sleep` are for tests.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        tries: int = 5,
        timeout: float = 30.0,
        transport: "httpx.BaseTransport | None" = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise ImportError("the Label Studio bridge needs httpx: pip install 'askwell[label-studio]'.") from None
        self._httpx, self._tries, self._sleep = httpx, tries, sleep
        self.url = _checked_url(url)
        token = token.strip()
        if not token or not token.isascii() or any(mark.isspace() for mark in token):
            raise RefusedError(
                "token must be the API token of a Label Studio user, but it is empty or no token. Copy it there under "
                "Account & Settings, and give it in the environment variable LABEL_STUDIO_API_KEY."
            )
        self._token, self._is_personal, self._access = token, token.count(".") == 2, ""
        self._client = httpx.Client(
            base_url=self.url, timeout=timeout, transport=transport, trust_env=not _is_loopback(self.url)
        )

    def __repr__(self) -> str:
        return f"LabelStudio({self.url!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> "LabelStudio":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- people and projects -----------------------------------------------------------------------------------------

    def whoami(self) -> Mapping[str, Any]:
        """The user whose token this is."""
        return self._mapping("GET", "/api/current-user/whoami")

    def users(self) -> dict[int, str]:
        """id -> mail address of the users of the organisation."""
        listed = self.ask("GET", "/api/users/")
        if not isinstance(listed, list):
            raise RefusedError(_strange(self.url, "/api/users/"))
        return {int(user["id"]): str(user.get("email") or user.get("username") or "") for user in listed}

    def projects(self) -> Iterator[Mapping[str, Any]]:
        """All projects that the user may see."""
        page, seen = 1, 0
        while True:
            listed = self._mapping("GET", "/api/projects/", params={"page": page, "page_size": PAGE, "ordering": "id"})
            yield from listed["results"]
            seen += len(listed["results"])
            if not listed["results"] or seen >= int(listed["count"]):
                return
            page += 1

    def project(self, id: int) -> Mapping[str, Any] | None:
        """A project, or None if there is none by this id."""
        try:
            return self._mapping("GET", f"/api/projects/{id}/")
        except RefusedError as refusal:
            if refusal.status == 404:
                return None
            raise

    def make_project(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make a project."""
        return self._mapping("POST", "/api/projects/", json=body)

    def change_project(self, id: int, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change some of a project's settings."""
        return self._mapping("PATCH", f"/api/projects/{id}/", json=body)

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def tasks(self, project: int) -> list[Mapping[str, Any]]:
        """All tasks of a project with their annotations and predictions, oldest first.

        Not by the export: that leaves two files on the server's disk each time it is asked.
        """
        tasks: dict[int, Mapping[str, Any]] = {}
        page = 1
        while True:
            params = {"project": project, "fields": "all", "page": page, "page_size": PAGE, "resolve_uri": "false"}
            answer = self._mapping("GET", "/api/tasks/", params=params)
            for task in answer["tasks"]:
                tasks[int(task["id"])] = task
            if not answer["tasks"] or page * PAGE >= int(answer["total"]):
                return [tasks[id] for id in sorted(tasks)]
            page += 1

    def add_tasks(self, project: int, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Import tasks, with their predictions, at most `TASKS_AT_ONCE`."""
        self.ask("POST", f"/api/projects/{project}/import", json=list(tasks))

    def add_file(self, project: int, name: str, content: bytes, media_type: str) -> str:
        """Upload a file that tasks may show; its address, as tasks name it."""
        answer = self._mapping(
            "POST",
            f"/api/projects/{project}/import",
            params={"commit_to_project": "false"},
            files={name: (name, content, media_type)},
        )
        ids = answer["file_upload_ids"]
        listed = self.ask("GET", f"/api/projects/{project}/file-uploads", params={"ids": str(ids)})
        return f"/data/{listed[0]['file']}"

    def add_predictions(self, project: int, predictions: Sequence[Mapping[str, Any]]) -> None:
        """Give tasks predictions: {"task", "score", "model_version", "result"} each."""
        self.ask("POST", f"/api/projects/{project}/import/predictions", json=list(predictions))

    # ---- webhooks ----------------------------------------------------------------------------------------------------

    def webhooks(self, project: int) -> list[Mapping[str, Any]]:
        """The project's webhooks."""
        webhooks: list[Mapping[str, Any]] = self.ask("GET", "/api/webhooks/", params={"project": project})
        return webhooks

    def add_webhook(self, project: int, url: str, actions: Sequence[str]) -> None:
        """Let the server post to `url`, without content, when something happens in the project."""
        body = {"project": project, "url": url, "send_payload": False, "send_for_all_actions": False}
        self.ask("POST", "/api/webhooks/", json=body | {"actions": list(actions), "is_active": True})

    # ---- one call ----------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """The JSON that the server answers with; RefusedError or UnreachableError if it does not."""
        repeatable = method != "POST"
        for attempt in range(1, self._tries + 1):
            last = attempt == self._tries
            try:
                answer = self._sent(method, path, options)
            except (self._httpx.ConnectError, self._httpx.ConnectTimeout) as error:  # it never arrived
                if last:
                    raise UnreachableError(_down(self.url, error)) from None
            except self._httpx.TransportError as error:
                if last or not repeatable:
                    raise UnreachableError(_down(self.url, error)) from None
            else:
                if answer.status_code not in BUSY:
                    return self._content(answer, path)
                if last or not (repeatable or answer.status_code == 429):
                    raise UnreachableError(_failed(self.url, answer))
            self._sleep(FIRST_PAUSE * 2 ** (attempt - 1))
        raise AssertionError("tries must be at least 1")

    def _sent(self, method: str, path: str, options: Mapping[str, Any]) -> "httpx.Response":
        answer = self._client.request(method, path, headers=self._headers(), **options)
        if answer.status_code == 401 and self._is_personal and self._access:  # it lasts for minutes only
            self._access = ""
            answer = self._client.request(method, path, headers=self._headers(), **options)
        return answer

    def _headers(self) -> dict[str, str]:
        if not self._is_personal:
            return {"Authorization": f"Token {self._token}"}
        if not self._access:
            answer = self._client.post("/api/token/refresh/", json={"refresh": self._token})
            self._access = str(self._content(answer, "/api/token/refresh/")["access"])
        return {"Authorization": f"Bearer {self._access}"}

    def _mapping(self, method: str, path: str, **options: Any) -> Mapping[str, Any]:
        content = self.ask(method, path, **options)
        if not isinstance(content, Mapping):
            raise RefusedError(_strange(self.url, path))
        return content

    def _content(self, answer: "httpx.Response", path: str) -> Any:
        status = answer.status_code
        if status == 401:
            raise RefusedError(
                f"{self.url} does not know this token. Copy the token of a user there, under Account & Settings, into "
                "LABEL_STUDIO_API_KEY. A legacy token works only where the organisation allows legacy tokens.",
                status=status,
            )
        if status == 403:
            raise RefusedError(f"{self.url} does not allow this user {path}. {_excerpt(answer)}", status=status)
        if 300 <= status < 400:
            location = answer.headers.get("location", "elsewhere")
            raise RefusedError(
                f"{self.url} points to {location}. Give the address of Label Studio itself, such as "
                "http://127.0.0.1:8080, in --url.",
                status=status,
            )
        try:
            content = answer.json()
        except ValueError:
            raise RefusedError(_strange(self.url, path), status=status) from None
        if status >= 400:
            raise RefusedError(f"{self.url} refused {path} ({status}): {_excerpt(answer)}", status=status)
        return content


# ---- words -------------------------------------------------------------------------------------------------------


def _checked_url(url: str) -> str:
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise RefusedError(
            f"url must be the address of Label Studio, such as http://127.0.0.1:8080, but it is {url!r}."
        )
    return url.strip().rstrip("/")


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _down(url: str, error: Exception) -> str:
    return f"{url} does not answer ({type(error).__name__}: {error}). Is Label Studio running there?"


def _failed(url: str, answer: "httpx.Response") -> str:
    return f"{url} failed ({answer.status_code}): {_excerpt(answer)}"


def _strange(url: str, path: str) -> str:
    return (
        f"{url} does not answer {path} as Label Studio does. Give the address of Label Studio itself, such as "
        "http://127.0.0.1:8080, in --url."
    )


def _excerpt(answer: "httpx.Response") -> str:
    text = " ".join(answer.text.split())
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}…"
