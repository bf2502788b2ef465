"""The JSON routes: what the page's scripts talk to, and any program that labels. Nothing changes by GET."""

import os
from collections.abc import Iterator
from typing import Annotated, Any, BinaryIO, Literal, TypeAlias

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from askwell.data import ShownImage
from askwell.session import Answer, Assignment, Receipt, Rules, Session
from askwell.session.rules import Changes
from askwell.session.state import Outcome
from askwell.web.service import Here, Name, Service, Who, conflicts, line, refusals
from askwell.web.view import Card, Viewer

__all__ = ["changed_rules", "router"]

MOST_TASKS = 20  # that one person may hold through this page
MOST_CLASSES = 500
CHUNK = 64 * 1024  # bytes of a picture that are sent at once
MOST = 2**53  # whole numbers that every client of JSON can say

RequestKey: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{8,64}$")]
LeaseToken: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]
LeaseTokens: TypeAlias = Annotated[list[LeaseToken], Field(max_length=2 * MOST_TASKS)]
ItemId: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
ClassName: TypeAlias = Annotated[str, line(100)]


def _whole(value: Any) -> Any:
    """In JSON 4.0 is the number 4."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: Any) -> Any:
    """A label that is a number or a boolean is sent as text."""
    return None if value is None else str(value)


Count: TypeAlias = Annotated[int, Field(ge=1, le=MOST), BeforeValidator(_whole)]
LabelText: TypeAlias = Annotated[str | None, BeforeValidator(_text)]
AnswerKind: TypeAlias = Literal["label", "skip"]


# ---- what is sent to the server ------------------------------------------------------------------------------------


class Sent(BaseModel):
    """A body that has what it should have, and nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SignIn(Sent):
    """A name, and the token if the server has one."""

    name: Name
    token: Annotated[str, Field(max_length=200)] = ""


class NextItems(Sent):
    """How many items to hold, those held already included; and leases to give back first, for better items."""

    size: Annotated[int, Field(ge=1, le=MOST_TASKS), BeforeValidator(_whole)] = 1
    instead: LeaseTokens = []


class HeldLeases(Sent):
    """Leases by their tokens."""

    tokens: LeaseTokens


class NewLabel(Sent):
    """An answer. `key` is made by the client: the same request again is the same answer."""

    key: RequestKey
    item: ItemId
    label: ClassName
    token: LeaseToken | None = None
    seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None = None
    rules: Annotated[int, Field(ge=0, le=MOST), BeforeValidator(_whole)] | None = Field(
        default=None,
        description="`version` of the rules that the person saw: the label means the class that had this name then",
    )


class NewSkip(Sent):
    """An item that this person does not label, and why."""

    key: RequestKey
    item: ItemId
    reason: Annotated[str, line(300)]
    token: LeaseToken | None = None


class Undo(Sent):
    """Take the last answer back."""

    key: RequestKey


class Renaming(Sent):
    """A class's name, and its new one."""

    old: ClassName
    new: ClassName


class RulesChange(Sent):
    """What is to change; what is not named stays. Classes can be removed while no label uses them."""

    classes: Annotated[list[ClassName], Field(max_length=MOST_CLASSES)] | None = Field(
        default=None, description="the whole list, in order; or name only what is added, removed, renamed"
    )
    add: Annotated[list[ClassName], Field(max_length=50)] = []
    rename: Annotated[list[Renaming], Field(max_length=50)] = []
    remove: Annotated[list[ClassName], Field(max_length=50)] = []
    budget: Count | None = Field(default=None, description="labels of all people together; null: no end")
    labels_per_item: Count = Field(default=1, description="by different people")


# ---- what the server answers: the session's records, and cards of items --------------------------------------------


class SignedIn(BaseModel):
    """Who is signed in."""

    who: str


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
    round: int | None = Field(description="of the model that ranked them; null before the first")


class StillHeld(BaseModel):
    """Those that are still held."""

    held: list[str]


class Stored(BaseModel):
    """The answer is on the server's disk. `kept` says what it counts as; "late" answers are kept too."""

    key: str
    item: str
    kept: Outcome
    labels: int
    needed: int
    corrects: LabelText = Field(description="the person's own label before, which this one takes the place of")
    round: int | None = Field(description="of the model that ranks the items now: if it is new, ask for other items")


class TakenBack(BaseModel):
    """What was taken back."""

    item: str
    kind: AnswerKind
    label: LabelText
    reason: str


class OwnAnswer(TakenBack):
    """An answer of the person that is in force, with what was shown in a line. `at` is in unix seconds."""

    at: float
    seq: int = Field(description="for `before`")
    text: str
    picture: str | None
    there: bool = Field(description="whether the item is still in the pool")


class OwnAnswers(BaseModel):
    """Answers, newest first."""

    answers: list[OwnAnswer]
    more: bool = Field(description="whether there are older ones")


class ItemCard(BaseModel):
    """An item as it is shown, and the person's own label for it."""

    item: str
    card: Card
    labels: int = Field(description="labels it has by others")
    label: LabelText


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
    label_range: list[float | None] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="labels are numbers, sent as text, from the one to the other; null: classes",
    )
    version: int = Field(description="send it with answers")


class ProgressNow(BaseModel):
    """Where the project stands: the fields of `askwell.session.Progress`, and what the trainer is doing."""

    model_config = ConfigDict(extra="allow")

    labels: int
    budget: int | None
    rounds: list[dict[str, Any]]
    status: dict[str, Any]


# ---- routes --------------------------------------------------------------------------------------------------------

router = APIRouter(prefix="/api")


@router.post("/sign-in", responses=refusals(400, 401, 422, 429), summary="Sign in")
def sign_in(request: Request, response: Response, here: Here, sent: SignIn) -> SignedIn:
    """Answers with a cookie that all other routes ask for."""
    here.sign_in(request, response, sent.name, sent.token)
    return SignedIn(who=sent.name)


@router.post("/next", responses=refusals(400, 401, 422, 503), summary="Items to label")
def next_items(here: Here, who: Who, sent: NextItems) -> Questions:
    """Lease items: first those the person holds already, then new ones, the most informative first."""
    if sent.instead:
        here.session.release(who, sent.instead)
    tasks = here.session.next(who, size=sent.size)
    closed = None if tasks else here.session.closed(who=who)
    return Questions(tasks=[_question(here, task) for task in tasks], closed=closed, round=here.session.round)


@router.post("/renew", responses=refusals(400, 401, 422, 503), summary="Still there")
def renew(here: Here, who: Who, sent: HeldLeases) -> StillHeld:
    """Keep leases that are in use. Answers with those that are still held."""
    return StillHeld(held=here.session.renew(who, sent.tokens))


@router.post("/release", status_code=204, responses=refusals(400, 401, 422, 503), summary="Give items back")
def release(here: Here, who: Who, sent: HeldLeases) -> None:
    """Somebody else may have them at once."""
    here.session.release(who, sent.tokens)


@router.post(
    "/answers", response_model=Stored, responses=refusals(400, 401, 404, 409, 422, 503), summary="Label an item"
)
def answer(here: Here, who: Who, sent: NewLabel) -> Receipt:
    """Stored before it is acknowledged. Send it again with the same key until it is."""
    item = _in_pool(here, sent.item)
    with conflicts():
        return here.session.answer(
            who, item, sent.label, key=sent.key, token=sent.token, seconds=sent.seconds, rules=sent.rules
        )


@router.get("/answers", responses=refusals(401, 422, 503), summary="One's own answers")
def answers(
    here: Here,
    who: Who,
    *,
    before: Annotated[int, Query(ge=0, le=MOST)] = MOST,
    size: Annotated[int, Query(ge=1, le=100)] = 50,
) -> OwnAnswers:
    """Those in force, newest first; `before` is the `seq` of one: older ones. A second answer corrects the first."""
    latest = here.session.latest(who, size=size + 1, before=before)
    return OwnAnswers(answers=[_own(here.pool, answer) for answer in latest[:size]], more=len(latest) > size)


@router.get("/second-look", responses=refusals(401, 503), summary="One's own labels that deserve a second look")
def second_look(here: Here, who: Who) -> OwnAnswers:
    """The model, trained without them, finds them unlikely, or people disagree. Given again, it is not here.

    What the model would say instead is not told: people would follow it.
    """
    own = {answer.item: answer for answer in here.session.answers(who=who)}
    issues = here.session.label_issues(who=who)
    return OwnAnswers(
        answers=[_own(here.pool, own[each["item"]]) for each in issues if each["item"] in own], more=False
    )


@router.post("/given", responses=refusals(400, 401, 422, 503), summary="Whose tokens these are")
def given(here: Here, who: Who, sent: HeldLeases) -> StillHeld:
    """Those of the tokens that this project ever gave to the person: so a browser knows which answers are for it."""
    return StillHeld(held=here.session.gave(who, sent.tokens))


@router.get("/item", responses=refusals(401, 404, 422, 503), summary="An item, to look at it again")
def item(here: Here, who: Who, *, item: Annotated[ItemId, Query()]) -> ItemCard:
    """Nothing is leased: answering it corrects one's own answer."""
    consensus = here.session.labels().get(_in_pool(here, item))
    votes = {} if consensus is None else dict(consensus.votes)
    mine = votes.pop(who, None)
    return ItemCard(item=item, card=here.pool.card(item), labels=len(votes), label=mine)


@router.post("/skips", response_model=Stored, responses=refusals(400, 401, 404, 409, 422, 503), summary="Skip an item")
def skip(here: Here, who: Who, sent: NewSkip) -> Receipt:
    """The person is not asked about it again; others may be."""
    item = _in_pool(here, sent.item)
    with conflicts():
        return here.session.skip(who, item, sent.reason, key=sent.key, token=sent.token)


@router.post("/undo", responses=refusals(400, 401, 409, 422, 503), summary="Take the last answer back")
def undo(here: Here, who: Who, sent: Undo) -> Undid:
    """The person's own last label or skip. Nothing is deleted: taking back is stored too."""
    with conflicts():
        undone = here.session.undo(who, key=sent.key)
    if undone is None:
        return Undid(undone=None, task=None)
    taken = TakenBack.model_validate(undone.answer, from_attributes=True)
    return Undid(undone=taken, task=_question(here, undone.task) if undone.task else None)


@router.get("/rules", response_model=RulesNow, responses=refusals(401, 503), summary="The classes and the other rules")
def rules(here: Here, who: Who) -> Rules:
    """As they are now."""
    return here.session.rules


@router.patch(
    "/rules",
    response_model=RulesNow,
    responses=refusals(400, 401, 409, 422, 503),
    summary="Change classes, budget, labels per item",
)
def change_rules(here: Here, who: Who, sent: RulesChange) -> Rules:
    """For everybody. A renamed class keeps its labels; one that labels use cannot be removed."""
    changes: Changes = {"added": sent.add, "removed": sent.remove}
    changes["renamed"] = {name.old: name.new for name in sent.rename}
    if sent.classes is not None:
        changes["classes"] = sent.classes
    if "budget" in sent.model_fields_set:
        changes["budget"] = sent.budget
    if "labels_per_item" in sent.model_fields_set:
        changes["labels_per_item"] = sent.labels_per_item
    with conflicts():
        return changed_rules(here.session, who, changes)


@router.get("/progress", responses=refusals(401, 503), summary="How it goes")
def progress(here: Here, who: Who) -> ProgressNow:
    """Counts, pace, people, the rounds of the model with their estimates, agreement, advice."""
    return ProgressNow(**jsonable_encoder(here.session.progress()), status=jsonable_encoder(here.live.status()))


@router.get(
    "/picture",
    response_class=Response,
    responses={200: {"content": {"image/*": {}}, "description": "The picture."}, **refusals(401, 404, 422)},
    summary="A picture, by its item",
)
def picture(
    here: Here,
    who: Who,
    *,
    item: Annotated[ItemId, Query()],
    of: Annotated[Literal["pool", "targets"], Query()] = "pool",
) -> Response:
    """Only what the project's items name is ever read; a path is not a name."""
    file, kind = _picture(here.pool if of == "pool" else here.targets, item)
    size = os.fstat(file.fileno()).st_size
    headers = {"Cache-Control": "private, max-age=3600", "Content-Length": str(size)}
    return StreamingResponse(_chunks(file, size), media_type=kind, headers=headers)


@router.get("/openapi.json", responses=refusals(401), summary="This documentation")
def documentation(request: Request, who: Who) -> JSONResponse:
    """For those who are signed in, as everything else."""
    return JSONResponse(request.app.openapi())


# ---- between the session's records and what is sent ----------------------------------------------------------------


def _in_pool(here: Service, item: str) -> str:
    if item not in here.pool.items:
        raise HTTPException(404, f"There is no item {item[:80]!r} in the pool.")
    return item


def changed_rules(session: Session, who: str, changes: Changes) -> Rules:
    """The rules after some changes, of no more classes than a page can show."""
    if len({*(changes.get("classes") or session.rules.classes), *changes.get("added", ())}) > MOST_CLASSES:
        raise ValueError(f"a project may have at most {MOST_CLASSES} classes.")
    return session.set_rules(who, **changes)


def _question(here: Service, task: Assignment) -> Question:
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
    text, picture = targets.brief(target)
    return Reason(target=target, nats=nats, text=text, picture=picture)


def _own(pool: Viewer, answer: Answer) -> OwnAnswer:
    there = answer.item in pool.items
    text, picture = pool.brief(answer.item) if there else ("", None)
    return OwnAnswer(
        **TakenBack.model_validate(answer, from_attributes=True).model_dump(),
        at=answer.at, seq=answer.seq, text=text, picture=picture, there=there,
    )  # fmt: skip


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """A file of that size, chunk by chunk: no picture is ever in memory whole."""
    with file:
        while size > 0 and (chunk := file.read(min(size, CHUNK))):
            size -= len(chunk)
            yield chunk


def _picture(viewer: Viewer | None, item: str) -> tuple[BinaryIO, str]:
    try:
        if viewer is None or item not in viewer.items:
            raise ValueError("unknown")
        shown = viewer.items.show(item)
        if not isinstance(shown, ShownImage) or not shown.media_type.startswith("image/") or "svg" in shown.media_type:
            raise ValueError("no picture")
        return shown.path.open("rb"), shown.media_type
    except (ValueError, OSError):
        raise HTTPException(404, f"There is no picture of {item[:80]!r}.") from None
