"""The four routes by which Label Studio talks to an ML backend: health, setup, predict, webhook.

No model is loaded here: an item's score is its position in the queue of the last round of training. A webhook is a hint
that something happened, and nothing more: what it says is not believed, and many of them at once are one.
"""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, final

from fastapi import APIRouter, Depends, FastAPI, HTTPException
from pydantic import BaseModel, Field

from askwell.bridge.documents import prediction
from askwell.bridge.records import Ranking, ranking_of
from askwell.session import Session
from askwell.session.events import QueueReplaced
from askwell.store import Store

__all__ = ["Debounced", "ml_backend_app"]

PAUSE = 2.0  # seconds in which hints are collected
MOST_TASKS = 10_000  # of one request
NAMES = ("pool_id", "askwell_id")  # under which a task's data may name its item
HINTS = {"ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATION_DELETED", "ANNOTATIONS_DELETED", "START_TRAINING"}

Predict: TypeAlias = Callable[[Sequence[str]], Sequence[str | None]]


class SetupRequest(BaseModel):
    """What Label Studio says when it connects; it also sends its user's token, which is not looked at."""


class PredictRequest(BaseModel):
    """Tasks to predict, as Label Studio has them."""

    tasks: Annotated[list[dict[str, Any]], Field(max_length=MOST_TASKS)]
    label_config: str = "<View/>"


class Webhook(BaseModel):
    """Something happened."""

    action: Annotated[str, Field(max_length=100)] = ""


@final
class Debounced:
    """Calls something once for many hints: `pause` seconds after the first of them, in a thread of its own.

    >>> calls = threading.Event()
    >>> hint = Debounced(calls.set, pause=0.01)
    >>> hint(), hint(), calls.wait(10)
    (None, None, True)
    """

    def __init__(self, call: Callable[[], object], *, pause: float = PAUSE) -> None:
        self._call, self._pause = call, pause
        self._lock, self._waits = threading.Lock(), False

    def __call__(self) -> None:
        """Give a hint."""
        with self._lock:
            if self._waits:
                return
            self._waits = True
        timer = threading.Timer(self._pause, self._due)
        timer.daemon = True
        timer.start()

    def _due(self) -> None:
        with self._lock:
            self._waits = False  # a hint during the call is for another one
        self._call()


@final
class _Queue:
    """The trainer's last queue, looked up when it is asked for."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run
        self._seq, self._ranking, self._lock = 0, Ranking(), threading.Lock()

    def now(self) -> Ranking:
        with self._lock:
            for record in self._store.read(self._run, after=self._seq):
                self._seq = record.seq
                if record.kind == QueueReplaced.kind:
                    self._ranking = ranking_of(record)
            return self._ranking


def ml_backend_app(
    session: Session,
    store: Store,
    *,
    run: str = "main",
    predict: Predict | None = None,
    hint: Callable[[], object] | None = None,
    pause: float = PAUSE,
    token: str | None = None,
) -> FastAPI:
    """An app with Label Studio's four routes over a project's session and store.

    `predict` gives the label that the model expects for each item, or None; without it tasks get a score and no label.
    `hint` is called when people have annotated or ask for training, at most once in `pause` seconds. With a `token` the
    routes are below it (http://host:9090/TOKEN): Label Studio signs none of its calls, but keeps the whole address.
    """
    queue = _Queue(store, run)
    notify = Debounced(hint, pause=pause) if hint is not None else lambda: None
    app = FastAPI(title="askwell for Label Studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_routes(session, queue, predict, notify, token))
    return app


def _routes(
    session: Session, queue: _Queue, predict: Predict | None, notify: Callable[[], None], token: str | None
) -> APIRouter:
    def check_secret(secret: str = "") -> None:
        if not secrets.compare_digest(secret.encode(), (token or "").encode()):
            raise HTTPException(404, "Not Found")

    router = APIRouter(prefix="/{secret}" if token else "", dependencies=[Depends(check_secret)] if token else [])

    @router.get("/health")
    def health() -> dict[str, str]:
        return {"status": "UP", "model_class": "askwell"}

    @router.post("/setup")
    def setup(sent: SetupRequest) -> dict[str, str]:
        return {"model_version": queue.now().version}

    @router.post("/predict")
    def predictions(sent: PredictRequest) -> dict[str, Any]:
        ranking = queue.now()
        items = [_item(task) for task in sent.tasks]
        labels = _labels(session, items, predict)
        try:
            labelled = {item: prediction(sent.label_config, label) for item, label in labels.items()}
        except ValueError as error:
            raise HTTPException(422, str(error)) from None
        results = [
            {
                "model_version": ranking.version,
                "score": ranking.score(item or "", behind=position),
                "result": labelled.get(item, []),
            }
            for position, item in enumerate(items)
        ]
        return {"results": results, "model_version": ranking.version}

    @router.post("/webhook", status_code=201)
    def webhook(sent: Webhook) -> dict[str, str]:
        if sent.action in HINTS:
            notify()
        return {"status": "ok"}

    return router


def _item(task: Mapping[str, Any]) -> str | None:
    data = task.get("data")
    names = [data[name] for name in NAMES if name in data] if isinstance(data, Mapping) else []
    return str(names[0]) if names else None


def _labels(session: Session, items: Sequence[str | None], predict: Predict | None) -> dict[str | None, str]:
    """item -> the label that the model expects, for items of the pool."""
    asked = [item for item in dict.fromkeys(items) if item is not None]
    if predict is None or not asked:
        return {}
    classes = session.rules.classes
    predicted = zip(asked, predict(asked), strict=True)
    return {item: label for item, label in predicted if label is not None and (not classes or label in classes)}
