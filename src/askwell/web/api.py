"""The JSON routes: what the page's scripts talk to, and any program that labels. Nothing changes by GET."""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from askwell.desk import Desk, Receipt, Rules, Task
from askwell.items import ShownImage
from askwell.web.service import Here, Name, Service, Who, conflicts, line, refusals
from askwell.web.view import Card, Picture, Viewer, excerpt

__all__ = ["changed_classes", "router"]

MOST_TASKS = 20  # that one person may hold through this page
MOST_CLASSES = 500

Key: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{8,64}$")]
Lease: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]
Item: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
Label: TypeAlias = Annotated[str, line(100)]


class Sent(BaseModel):
    """A body that has what it should have, and nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SignIn(Sent):
    """A name, and the token if the server has one."""

    name: Name
    token: Annotated[str, Field(max_length=200)] = ""


class Person(BaseModel):
    """Who is signed in."""

    who: str


def _whole(value: Any) -> Any:
    """In JSON 4.0 is the number 4."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Ask(Sent):
    """How many items to hold, those held already included."""

    size: Annotated[int, Field(ge=1, le=MOST_TASKS), BeforeValidator(_whole)] = 1


class Reason(BaseModel):
    """A target that the item's label would tell about, and how much."""

    target: str
    nats: float
    text: str
    picture: str | None = None


class Question(BaseModel):
    """An item to label, leased to the person until `until` (unix seconds)."""

    item: str
    token: str
    until: float
    score: float | None
    labels: int = Field(description="labels it has by others")
    why: list[Reason]
    card: Card


class Questions(BaseModel):
    """Items to label, or why there are none."""

    tasks: list[Question]
    closed: str | None


class Leases(Sent):
    """Leases by their tokens."""

    tokens: Annotated[list[Lease], Field(max_length=2 * MOST_TASKS)]


class Held(BaseModel):
    """Those that are still held."""

    held: list[str]


class Labelled(Sent):
    """An answer. `key` is made by the client: the same request again is the same answer."""

    key: Key
    item: Item
    label: Label
    token: Lease | None = None
    seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None = None


class Skipped(Sent):
    """An item that this person does not label, and why."""

    key: Key
    item: Item
    reason: Annotated[str, line(300)]
    token: Lease | None = None


class Stored(BaseModel):
    """The answer is on the server's disk. `kept` says what it counts as; "late" answers are kept too."""

    key: str
    item: str
    kept: Literal["counted", "extra", "late", "again"]
    labels: int
    needed: int


class Undo(Sent):
    """Take the last answer back."""

    key: Key


class TakenBack(BaseModel):
    """What was taken back."""

    item: str
    kind: Literal["label", "skip"]
    label: str | None
    reason: str


class Undid(BaseModel):
    """What was taken back, if anything, and the item once more, unless it is somebody else's by now."""

    undone: TakenBack | None
    task: Question | None


class RulesNow(BaseModel):
    """The rules of the project."""

    classes: list[str]
    labels_per_item: int
    most_labels: int
    lease_seconds: float
    budget: int | None


class Renaming(Sent):
    """A class's name, and its new one."""

    old: Label
    new: Label


class RulesChange(Sent):
    """Classes to add at the end, and classes to rename."""

    add: Annotated[list[Label], Field(max_length=50)] = []
    rename: Annotated[list[Renaming], Field(max_length=50)] = []


class Progressing(BaseModel):
    """Where the project stands: the fields of `askwell.desk.Progress`, and what the trainer is doing."""

    model_config = ConfigDict(extra="allow")

    labels: int
    budget: int | None
    rounds: list[dict[str, Any]]
    status: dict[str, Any]


router = APIRouter(prefix="/api")


@router.post("/sign-in", responses=refusals(400, 401, 422, 429), summary="Sign in")
def sign_in(request: Request, response: Response, here: Here, sent: SignIn) -> Person:
    """Answers with a cookie that all other routes ask for."""
    here.sign_in(request, response, sent.name, sent.token)
    return Person(who=sent.name)


@router.post("/next", responses=refusals(400, 401, 422, 503), summary="Items to label")
def next_items(here: Here, who: Who, sent: Ask) -> Questions:
    """Lease items: first those the person holds already, then new ones, the most informative first."""
    tasks = here.desk.next(who, size=sent.size)
    return Questions(tasks=[_question(here, task) for task in tasks], closed=_closed(here, who, tasks))


@router.post("/renew", responses=refusals(400, 401, 422, 503), summary="Still there")
def renew(here: Here, who: Who, sent: Leases) -> Held:
    """Keep leases that are in use. Answers with those that are still held."""
    return Held(held=here.desk.renew(who, sent.tokens))


@router.post("/release", status_code=204, responses=refusals(400, 401, 422, 503), summary="Give items back")
def release(here: Here, who: Who, sent: Leases) -> None:
    """Somebody else may have them at once."""
    here.desk.release(who, sent.tokens)


@router.post("/answers", responses=refusals(400, 401, 404, 409, 422, 503), summary="Label an item")
def answer(here: Here, who: Who, sent: Labelled) -> Stored:
    """Stored before it is acknowledged. Send it again with the same key until it is."""
    item = _known(here, sent.item)
    with conflicts():
        return _stored(here.desk.answer(who, item, sent.label, key=sent.key, token=sent.token, seconds=sent.seconds))


@router.post("/skips", responses=refusals(400, 401, 404, 409, 422, 503), summary="Skip an item")
def skip(here: Here, who: Who, sent: Skipped) -> Stored:
    """The person is not asked about it again; others may be."""
    item = _known(here, sent.item)
    with conflicts():
        return _stored(here.desk.skip(who, item, sent.reason, key=sent.key, token=sent.token))


@router.post("/undo", responses=refusals(400, 401, 409, 422, 503), summary="Take the last answer back")
def undo(here: Here, who: Who, sent: Undo) -> Undid:
    """The person's own last label or skip. Nothing is deleted: taking back is stored too."""
    with conflicts():
        undone = here.desk.undo(who, key=sent.key)
    if undone is None:
        return Undid(undone=None, task=None)
    was, label = undone.answer, undone.answer.label
    taken = TakenBack(item=was.item, kind=was.kind, label=None if label is None else str(label), reason=was.reason)
    return Undid(undone=taken, task=_question(here, undone.task) if undone.task else None)


@router.get("/rules", responses=refusals(401, 503), summary="The classes and the other rules")
def rules(here: Here, who: Who) -> RulesNow:
    """As they are now."""
    return _rules(here.desk.rules)


@router.patch("/rules", responses=refusals(400, 401, 409, 422, 503), summary="Add and rename classes")
def change_rules(here: Here, who: Who, sent: RulesChange) -> RulesNow:
    """For everybody. A renamed class keeps its labels."""
    with conflicts():
        return _rules(
            changed_classes(here.desk, who, add=sent.add, rename={name.old: name.new for name in sent.rename})
        )


@router.get("/progress", responses=refusals(401, 503), summary="How it goes")
def progress(here: Here, who: Who) -> Progressing:
    """Counts, pace, people, the rounds of the model with their estimates, agreement, advice."""
    return Progressing(**_jsonable(here.desk.progress()), status=_jsonable(here.live.status()))


@router.get(
    "/picture",
    response_class=Response,
    responses={200: {"content": {"image/*": {}}, "description": "The picture."}, **refusals(401, 404, 422)},
    summary="A picture, by its item",
)
def picture(
    here: Here, who: Who, *, item: Annotated[Item, Query()], of: Annotated[Literal["pool", "targets"], Query()] = "pool"
) -> Response:
    """Only what the project's items name is ever read; a path is not a name."""
    content, kind = _picture(here.pool if of == "pool" else here.targets, item)
    return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


@router.get("/openapi.json", responses=refusals(401), summary="This documentation")
def documentation(request: Request, who: Who) -> JSONResponse:
    """For those who are signed in, as everything else."""
    return JSONResponse(request.app.openapi())


# ---- between the desk's records and what is sent -------------------------------------------------------------------


def _closed(here: Service, who: str, tasks: list[Task]) -> str | None:
    return None if tasks else here.desk.closed(who=who)


def _known(here: Service, item: str) -> str:
    if item not in here.pool.items:
        raise HTTPException(404, f"There is no item {item[:80]!r}.")
    return item


def changed_classes(desk: Desk, who: str, *, add: list[str], rename: Mapping[str, str]) -> Rules:
    """The rules after some classes were added at the end and others renamed."""
    names = [rename.get(name, name) for name in desk.rules.classes]
    names += [name for name in add if name not in names]
    if len(names) > MOST_CLASSES:
        raise ValueError(f"a project may have at most {MOST_CLASSES} classes.")
    if missing := [name for name in rename if name not in desk.rules.classes]:
        raise ValueError(f"there is no class {missing[0]!r} to rename.")
    return desk.set_rules(who, classes=names, renamed=dict(rename))


def _question(here: Service, task: Task) -> Question:
    return Question(
        item=task.item,
        token=task.token,
        until=task.until,
        score=task.score,
        labels=task.labels_so_far,
        why=[_reason(here.targets, target, nats) for target, nats in task.why],
        card=here.pool.card(task.item),
    )


def _reason(targets: Viewer | None, target: str, nats: float) -> Reason:
    if targets is None or target not in targets.items:
        return Reason(target=target, nats=nats, text="")
    card = targets.card(target)
    source = card.source if isinstance(card, Picture) else None
    return Reason(target=target, nats=nats, text=excerpt(card), picture=source)


def _stored(receipt: Receipt) -> Stored:
    return Stored(**asdict(receipt))


def _rules(rules: Rules) -> RulesNow:
    return RulesNow(
        classes=list(rules.classes),
        labels_per_item=rules.labels_per_item,
        most_labels=rules.most_labels,
        lease_seconds=rules.lease_seconds,
        budget=rules.budget,
    )


def _picture(viewer: Viewer | None, item: str) -> tuple[bytes, str]:
    try:
        if viewer is None or item not in viewer.items:
            raise ValueError("unknown")
        shown = viewer.items.show(item)
        if not isinstance(shown, ShownImage) or not shown.media_type.startswith("image/") or "svg" in shown.media_type:
            raise ValueError("no picture")
        return shown.path.read_bytes(), shown.media_type
    except (ValueError, OSError):
        raise HTTPException(404, f"There is no picture of {item[:80]!r}.") from None


def _jsonable(value: Any) -> Any:
    """What JSON can say: labels that are no text become texts where they are names."""
    if is_dataclass(value):
        return {part.name: _jsonable(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _jsonable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(inner) for inner in value]
    return value
