"""Label Studio as the labelling page of a project: questions out, answers back, again and again.

askwell owns the pool; Label Studio sees only the questions chosen now, best first. Label Studio's own lists are the
truth about what people answered there, askwell's records about what was taken over. A synchronization compares the two
and makes them agree, so it does not matter when either side is killed: the next one resumes from what is there.
"""

import hashlib
import mimetypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from askwell.bridge.client import TASKS_AT_ONCE, LabelStudio, RefusedError, UnreachableError
from askwell.bridge.documents import StudioTask, as_tasks, label_config, order_doubt, with_classes
from askwell.bridge.records import BridgeLog, Ranking, RecordedAnswers, new_records, ranking_of
from askwell.checks import count
from askwell.data import Items, ShownImage, ShownText
from askwell.session import Assignment, Session
from askwell.session.events import LeaseGranted, QueueReplaced, text_of
from askwell.store import Record, Store

__all__ = ["SAMPLING", "Bridge", "SyncReport", "warnings_about"]

WHO = "label-studio"  # who holds the items at the session while they are there
HOLD = 1800.0  # seconds that items stay with Label Studio when the bridge is gone
SETTLE = 20.0  # seconds after which a request of a bridge that died is over on the server, too
LONGEST_TITLE = 50  # characters, by Label Studio
SAMPLING = "Uncertainty sampling"  # Label Studio's word for "lowest score first"
DONE = "it has all its annotations in Label Studio"
HINTS = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED")


# ---- what a synchronization did --------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class SyncReport:
    """What a synchronization did.

    >>> print(SyncReport(labels=12, skips=1, added=13, open=20))
    12 labels and 1 skip came in; 13 questions were added, 20 are open.
    """

    labels: int = 0  # came in
    skips: int = 0
    withdrawn: int = 0  # taken back, because they were deleted there
    added: int = 0  # questions sent
    rescored: int = 0  # questions whose new position was sent
    open: int = 0  # questions that wait for an answer there
    project: int = 0  # its number in Label Studio
    warnings: tuple[str, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened."""
        return not (self.labels or self.skips or self.withdrawn or self.added or self.rescored)

    def __str__(self) -> str:
        came = f"{_counted(self.labels, 'label')} and {_counted(self.skips, 'skip')} came in"
        back = f", {self.withdrawn} taken back" if self.withdrawn else ""
        again = f", {self.rescored} put in a new order" if self.rescored else ""
        verb = "was" if self.added == 1 else "were"
        return f"{came}{back}; {_counted(self.added, 'question')} {verb} added{again}, {self.open} are open."


def warnings_about(project: Mapping[str, Any], tasks: Sequence[StudioTask]) -> list[str]:
    """What keeps people from getting the best question first, and once."""
    return [*_order(project, tasks), *_twice(tasks)]


def _order(project: Mapping[str, Any], tasks: Sequence[StudioTask]) -> list[str]:
    if project.get("sampling") != SAMPLING:
        return [
            f"the project's task sampling in Label Studio is {project.get('sampling')!r}, so people do not get the "
            "best question first. Choose Uncertainty sampling there."
        ]
    doubt = order_doubt(tasks)
    if doubt is None:
        return []
    return [
        f"people do not get the best question first: on average it was {doubt:.0%} down the line. Usual causes: "
        "several project members in Label Studio, which make its order random, or labelling from the list of tasks "
        "instead of Label All Tasks."
    ]


def _twice(tasks: Sequence[StudioTask]) -> list[str]:
    seen: dict[str, list[int]] = {}
    for task in tasks:
        seen.setdefault(task.item, []).append(task.id)
    twice = {item: ids for item, ids in seen.items() if len(ids) > 1}
    if not twice:
        return []
    item, ids = next(iter(twice.items()))
    return [
        f"{len(twice)} items are there more than once ({item!r}: tasks {', '.join(map(str, ids))}). Delete all but one."
    ]


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


# ---- the bridge ------------------------------------------------------------------------------------------------------


@final
class Bridge:
    """The bridge between a project and a Label Studio server; one at a time for a project.

    `size` questions are kept open in Label Studio. Without `project` its project there is found again by a mark in the
    description, or made; with it, an existing one is used, and with `new` another one is made. `clock` and `sleep` are
    for tests.
    """

    def __init__(
        self,
        server: LabelStudio,
        session: Session,
        items: Items,
        store: Store,
        *,
        title: str,
        run: str = "main",
        size: int = 20,
        project: int | None = None,
        new: bool = False,
        hints: str | None = None,
        settle_seconds: float = SETTLE,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._server, self._session, self._items, self._store, self._run = server, session, items, store, run
        self._title, self._size, self._hints = _title(title), count("size", size), hints
        self._settle, self._clock, self._sleep = settle_seconds, clock, sleep
        self._log = BridgeLog(store, run, clock=clock)
        self._log.take_turn()
        self._mark = self._log.mark(new=new)
        self._asked_project = project
        self._recorded, self._ranking, self._seq = RecordedAnswers(self._mark), Ranking(), 0
        self._names: dict[int, str] = {}
        self._follow()

    @property
    def ranking(self) -> Ranking:
        """The order of the trainer's last queue."""
        self._follow()
        return self._ranking

    # ---- synchronizing -----------------------------------------------------------------------------------------------

    def once(self) -> SyncReport:
        """Take what is new there, and send what is to be asked now."""
        try:
            return self._synchronize()
        except RefusedError as refusal:
            if refusal.status not in (400, 404):
                raise
            return self._synchronize()  # somebody may have deleted something just when we used it

    def close(self) -> None:
        """Let another bridge begin at once."""
        self._log.end_turn()

    def _synchronize(self) -> SyncReport:
        self._log.take_turn()
        project = self._project()
        id = int(project["id"])
        tasks = self._settled(id)
        counts, warnings = self._pull(tasks)
        ranking = self.ranking
        held = self._held(tasks, ranking, is_new=project.get("model_version") != ranking.version)
        added, unshown = self._push(id, tasks, held, ranking)
        rescored = self._rescore(id, tasks, held, ranking)
        if (added or rescored or _has(tasks, ranking)) and project.get("model_version") != ranking.version:
            self._server.change_project(id, {"model_version": ranking.version})  # last: now the new order holds
        return SyncReport(
            labels=counts["label"],
            skips=counts["skip"],
            withdrawn=counts["withdrawal"],
            added=added,
            rescored=rescored,
            open=len(held),
            project=id,
            warnings=(*warnings, *unshown, *warnings_about(project, tasks), *self._closed(held)),
        )

    def run(
        self,
        every: float,
        *,
        say: Callable[[str], None],
        stop: threading.Event | None = None,
        wake: threading.Event | None = None,
    ) -> None:
        """Synchronize every `every` seconds or when `wake` is set, until `stop` is.

        While Label Studio cannot be reached the bridge waits and tries again; what cannot heal is raised.
        """
        stop, wake = stop or threading.Event(), wake or threading.Event()
        shown: set[str] = set()
        while not stop.is_set():
            wake.clear()
            try:
                report = self.once()
            except UnreachableError as error:
                new = {f"{error} Trying again."}
            else:
                if not report.is_quiet:
                    say(str(report))
                new = {f"Note: {warning}" for warning in report.warnings}
            for text in sorted(new - shown):
                say(text)
            shown = new
            wake.wait(every)

    # ---- the project -------------------------------------------------------------------------------------------------

    def _project(self) -> Mapping[str, Any]:
        """Our project in Label Studio, with the classes of now."""
        project = self._own_project()
        rules = self._session.rules
        if project is None:
            body = {
                "title": self._title,
                "description": f"Questions chosen by askwell. Please leave this mark here: askwell:{self._mark}",
                "label_config": label_config(self._items.kind, rules.classes),
                "sampling": SAMPLING,
                "maximum_annotations": rules.labels_per_item,
                "enable_empty_annotation": False,
                "show_collab_predictions": False,  # nobody is led by what a model thinks
            }
            project = self._server.make_project(body)
        self._log.saw_project(self._mark, int(project["id"]), self._server.url)
        changes: dict[str, Any] = {}
        config = with_classes(str(project["label_config"]), rules)
        if config != project["label_config"]:
            changes["label_config"] = config
        if project.get("maximum_annotations") != rules.labels_per_item:
            changes["maximum_annotations"] = rules.labels_per_item
        if changes:
            project = self._server.change_project(int(project["id"]), changes)
        self._ask_for_hints(int(project["id"]))
        return project

    def _own_project(self) -> Mapping[str, Any] | None:
        if self._asked_project is not None:
            project = self._server.project(self._asked_project)
            if project is None:
                raise RefusedError(f"{self._server.url} has no project {self._asked_project} that this user may see.")
            return project
        seen = self._log.project(self._mark)
        if seen is not None:
            project = self._server.project(seen[0])
            if project is not None and (self._is_ours(project) or seen[1] == self._server.url):
                return project
        ours = [project for project in self._server.projects() if self._is_ours(project)]
        if ours:
            return self._server.project(min(int(project["id"]) for project in ours))
        if seen is not None:
            raise RefusedError(
                f"{self._server.url} no longer has the project of this bridge (it was number {seen[0]} at {seen[1]}). "
                "If it was deleted, or this is another server, --new begins another; all labels taken so far stay."
            )
        return None

    def _is_ours(self, project: Mapping[str, Any]) -> bool:
        return f"askwell:{self._mark}" in str(project.get("description") or "")

    def _ask_for_hints(self, project: int) -> None:
        if self._hints and all(hook.get("url") != self._hints for hook in self._server.webhooks(project)):
            self._server.add_webhook(project, self._hints, HINTS)

    # ---- answers in --------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        records = self._store.read(self._run, after=self._seq)
        self._recorded.follow(records)
        for record in records:
            self._seq = record.seq
            if record.kind == QueueReplaced.kind:
                self._ranking = ranking_of(record)

    def _settled(self, project: int) -> list[StudioTask]:
        """The tasks there, when no import is under way any more: else its items might be sent twice."""
        begun = self._clock()
        while True:
            tasks = as_tasks(self._server.tasks(project))
            sent = self._log.importing()
            if sent is None:
                return tasks
            if {*sent.items} <= {task.item for task in tasks} or self._clock() > min(begun, sent.at) + self._settle:
                self._log.end(sent)
                return tasks
            self._sleep(1.0)

    def _pull(self, tasks: Sequence[StudioTask]) -> tuple[dict[str, int], list[str]]:
        """Record what is new, all of it or nothing; (kind -> how many, warnings)."""
        self._follow()
        ours = [task for task in tasks if task.item in self._items]
        users = {each.user for task in ours for each in task.annotations}
        if not users <= {*self._names}:
            self._names = self._server.users()
        records, warnings = new_records(
            ours, self._recorded, rules=self._session.rules, names=self._names, run=self._run
        )
        if records:
            self._store.append(records)
            self._follow()
        if strangers := len(tasks) - len(ours):
            warnings.append(f"{strangers} tasks there are about items that this project does not have.")
        kinds = [record.kind for record in records]
        return {kind: kinds.count(kind) for kind in ("label", "skip", "withdrawal")}, warnings

    # ---- questions out -----------------------------------------------------------------------------------------------

    def _held(self, tasks: Sequence[StudioTask], ranking: Ranking, *, is_new: bool) -> list[Assignment]:
        """The questions that are to be open there now, held at the session by us.

        After a new round of the model only what is still among the first stays; the rest goes back to the session.
        """
        held = self._open(tasks)
        if is_new:
            behind = [question.token for question in held if not ranking.is_first(question.item, len(held))]
            if behind:
                self._session.release(WHO, behind)
                held = self._open(tasks)
        now = self._clock()
        short = [self._hold(question, now) for question in held if question.until - now < HOLD / 2]
        if short:
            self._store.append(short)
        return held

    def _open(self, tasks: Sequence[StudioTask]) -> list[Assignment]:
        """As many questions as are to be open. What somebody skipped there waits for others, and does not count.

        What has all its annotations there and needs another label all the same (people disagree, or one was taken back
        here) is given up, so that others may be asked: Label Studio does not ask again.
        """
        enough = self._session.rules.labels_per_item
        done = {t.item for t in tasks if len({each.user for each in t.annotations if each.kind == "label"}) >= enough}
        skipped = {task.item for task in tasks if any(each.kind != "label" for each in task.annotations)}
        size = self._size
        while True:
            held = self._session.next(WHO, size=size)
            over = [question for question in held if question.item in done]
            for question in over:
                self._session.skip(WHO, question.item, DONE, key=f"label-studio-done/{question.token}")
            wanted = self._size + sum(question.item in skipped - done for question in held)
            if not over and (wanted <= size or len(held) < size):
                return held
            size = max(size, wanted)

    def _hold(self, question: Assignment, now: float) -> Record:
        """A renewal for longer than a page's: people there may take their time, and the bridge may be away."""
        lease = LeaseGranted(text_of(question.item), question.token, now + HOLD, now)
        return lease.to_record(self._run, who=WHO)

    def _push(
        self, project: int, tasks: Sequence[StudioTask], held: Sequence[Assignment], ranking: Ranking
    ) -> tuple[int, list[str]]:
        """Send the questions that are not there yet; (how many, warnings)."""
        there = {task.item for task in tasks}
        bodies, warnings = dict[str, Mapping[str, Any]](), []
        for position, question in enumerate(question for question in held if question.item not in there):
            item, score = question.item, ranking.score(question.item, behind=len(tasks) + position)
            try:
                data = self._data(project, item)
            except ValueError as error:
                warnings.append(f"{item!r} cannot be shown: {error}")
                self._session.skip(WHO, item, str(error), key=f"label-studio-cannot-show/{self._mark}/{item}")
                continue
            gain = {} if question.score is None else {"nats": question.score}
            predicted = {"model_version": ranking.version, "score": score, "result": []}
            bodies[item] = {"data": {**data, "pool_id": item, **gain}, "predictions": [predicted]}
        names = [*bodies]
        for start in range(0, len(names), TASKS_AT_ONCE):
            some = names[start : start + TASKS_AT_ONCE]
            sent = self._log.begin(some)
            try:
                self._server.add_tasks(project, [bodies[item] for item in some])
            except RefusedError:
                self._log.end(sent)
                raise
            self._log.end(sent)
        return len(names), warnings

    def _data(self, project: int, item: str) -> dict[str, Any]:
        """What Label Studio shows of an item."""
        shown = self._items.show(item, whole=True)
        if isinstance(shown, ShownText):
            return {"text": shown.text}
        if isinstance(shown, ShownImage):
            try:
                content = shown.path.read_bytes()
            except OSError as error:
                raise ValueError(f"{shown.path.name}: {error.strerror}.") from None
            ending = mimetypes.guess_extension(shown.media_type) or shown.path.suffix
            name = hashlib.sha256(item.encode()).hexdigest()[:16] + ending
            return {"image": self._server.add_file(project, name, content, shown.media_type)}
        return {"table": dict(shown.cells)}

    def _rescore(self, project: int, tasks: Sequence[StudioTask], held: Sequence[Assignment], ranking: Ranking) -> int:
        """Send the positions of questions that are there without one in the present ranking; how many."""
        first = {task.item: task for task in reversed(tasks)}
        positions = [
            {"task": first[question.item].id, "score": ranking.score(question.item, behind=position), "result": []}
            for position, question in enumerate(held)
            if question.item in first and ranking.version not in first[question.item].scores
        ]
        if positions:
            self._server.add_predictions(project, [each | {"model_version": ranking.version} for each in positions])
        return len(positions)

    def _closed(self, held: Sequence[Assignment]) -> list[str]:
        closed = None if held else self._session.closed(who=WHO)
        return [closed] if closed else []


def _has(tasks: Sequence[StudioTask], ranking: Ranking) -> bool:
    return any(ranking.version in task.scores for task in tasks)


def _title(text: str) -> str:
    """A title that Label Studio takes: 3 to 50 characters."""
    title = " ".join(text.split())[:LONGEST_TITLE]
    return title if len(title) >= 3 else f"askwell {title}".strip()
