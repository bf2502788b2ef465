"""Label Studio as the labelling page of a project: questions out, answers back, again and again.

askwell owns the pool; Label Studio sees only the questions chosen now, best first. Label Studio's own lists are the
truth about what people said there, askwell's records about what was taken. A pass compares the two and makes them
agree, so it does not matter when either side dies: the next pass goes on from what is there.
"""

import hashlib
import mimetypes
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from askwell.bridge.annotations import Taken, Task, as_tasks, news
from askwell.bridge.bookkeeping import Books
from askwell.bridge.client import TASKS_AT_ONCE, LabelStudio, RefusedError, UnreachableError
from askwell.bridge.label_config import label_config, with_classes
from askwell.bridge.passes import SAMPLING, Pass, warnings_about
from askwell.bridge.ranking import Ranking, ranking_of
from askwell.data import Items, ShownImage, ShownText
from askwell.session import Assignment as Question
from askwell.session import Session
from askwell.session.events import LeaseGranted, QueueReplaced, text_of
from askwell.store.records import Record, Store

__all__ = ["Bridge"]

WHO = "label-studio"  # who holds the items at the session while they are there
HOLD = 1800.0  # seconds that items stay with Label Studio when the bridge is gone
SETTLE = 20.0  # seconds after which a request of a bridge that died is over on the server, too
LONGEST_TITLE = 50  # letters, by Label Studio
DONE = "it has all its annotations in Label Studio"
HINTS = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED")


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
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"size must be a whole number from 1, but it is {size!r}.")
        self._server, self._session, self._items, self._store, self._run = server, session, items, store, run
        self._title, self._size, self._hints = _title(title), size, hints
        self._settle, self._clock, self._sleep = settle_seconds, clock, sleep
        self._books = Books(store, run, clock=clock)
        self._books.take_turn()
        self._mark = self._books.mark(new=new)
        self._asked_project = project
        self._taken, self._ranking, self._seq = Taken(self._mark), Ranking(), 0
        self._names: dict[int, str] = {}
        self._follow()

    @property
    def ranking(self) -> Ranking:
        """The order of the trainer's last queue."""
        self._follow()
        return self._ranking

    # ---- passes ------------------------------------------------------------------------------------------------------

    def once(self) -> Pass:
        """Take what is new there, and send what is to be asked now."""
        try:
            return self._pass()
        except RefusedError as refusal:
            if refusal.status not in (400, 404):
                raise
            return self._pass()  # somebody may have deleted something just when we used it

    def close(self) -> None:
        """Let another bridge begin at once."""
        self._books.end_turn()

    def _pass(self) -> Pass:
        self._books.take_turn()
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
        return Pass(
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
        """Pass after pass, `every` so many seconds or when `wake` is set, until `stop` is.

        While Label Studio cannot be reached the bridge waits and tries again; what cannot heal is raised.
        """
        stop, wake = stop or threading.Event(), wake or threading.Event()
        said: set[str] = set()
        while not stop.is_set():
            wake.clear()
            try:
                passed = self.once()
            except UnreachableError as fault:
                new = {f"{fault} Trying again."}
            else:
                if not passed.is_quiet:
                    say(str(passed))
                new = {f"Note: {warning}" for warning in passed.warnings}
            for text in sorted(new - said):
                say(text)
            said = new
            wake.wait(every)

    # ---- the project -------------------------------------------------------------------------------------------------

    def _project(self) -> Mapping[str, Any]:
        """Our project in Label Studio, with the classes of now."""
        found = self._found_project()
        rules = self._session.rules
        if found is None:
            body = {
                "title": self._title,
                "description": f"Questions chosen by askwell. Please leave this mark here: askwell:{self._mark}",
                "label_config": label_config(self._items.kind, rules.classes),
                "sampling": SAMPLING,
                "maximum_annotations": rules.labels_per_item,
                "enable_empty_annotation": False,
                "show_collab_predictions": False,  # nobody is led by what a model thinks
            }
            found = self._server.make_project(body)
        self._books.saw_project(self._mark, int(found["id"]), self._server.url)
        changes: dict[str, Any] = {}
        config = with_classes(str(found["label_config"]), rules)
        if config != found["label_config"]:
            changes["label_config"] = config
        if found.get("maximum_annotations") != rules.labels_per_item:
            changes["maximum_annotations"] = rules.labels_per_item
        if changes:
            found = self._server.change_project(int(found["id"]), changes)
        self._ask_for_hints(int(found["id"]))
        return found

    def _found_project(self) -> Mapping[str, Any] | None:
        if self._asked_project is not None:
            found = self._server.project(self._asked_project)
            if found is None:
                raise RefusedError(f"{self._server.url} has no project {self._asked_project} that this user may see.")
            return found
        seen = self._books.project(self._mark)
        if seen is not None:
            found = self._server.project(seen[0])
            if found is not None and (self._is_ours(found) or seen[1] == self._server.url):
                return found
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
        self._taken.follow(records)
        for record in records:
            self._seq = record.seq
            if record.kind == QueueReplaced.kind:
                self._ranking = ranking_of(record)

    def _settled(self, project: int) -> list[Task]:
        """The tasks there, when no import is under way any more: else its items might be sent twice."""
        begun = self._clock()
        while True:
            tasks = as_tasks(self._server.tasks(project))
            sent = self._books.importing()
            if sent is None:
                return tasks
            if {*sent.items} <= {task.item for task in tasks} or self._clock() > min(begun, sent.at) + self._settle:
                self._books.end(sent)
                return tasks
            self._sleep(1.0)

    def _pull(self, tasks: Sequence[Task]) -> tuple[dict[str, int], list[str]]:
        """Record what is new, all of it or nothing; (kind -> how many, warnings)."""
        self._follow()
        known = [task for task in tasks if task.item in self._items]
        users = {said.user for task in known for said in task.said}
        if not users <= {*self._names}:
            self._names = self._server.users()
        records, warnings = news(known, self._taken, rules=self._session.rules, names=self._names, run=self._run)
        if records:
            self._store.append(records)
            self._follow()
        if strangers := len(tasks) - len(known):
            warnings.append(f"{strangers} tasks there are about items that this project does not have.")
        kinds = [record.kind for record in records]
        return {kind: kinds.count(kind) for kind in ("label", "skip", "withdrawal")}, warnings

    # ---- questions out -----------------------------------------------------------------------------------------------

    def _held(self, tasks: Sequence[Task], ranking: Ranking, *, is_new: bool) -> list[Question]:
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

    def _open(self, tasks: Sequence[Task]) -> list[Question]:
        """As many questions as are to be open. What somebody skipped there waits for others, and takes no place.

        What has all its annotations there and needs another label all the same (people disagree, or one was taken back
        here) is given up, so that others may be asked: Label Studio does not ask again.
        """
        enough = self._session.rules.labels_per_item
        done = {t.item for t in tasks if len({said.user for said in t.said if said.kind == "label"}) >= enough}
        skipped = {task.item for task in tasks if any(said.kind != "label" for said in task.said)}
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

    def _hold(self, question: Question, now: float) -> Record:
        """A renewal for longer than a page's: people there may take their time, and the bridge may be away."""
        lease = LeaseGranted(text_of(question.item), question.token, now + HOLD, now)
        return lease.to_record(self._run, who=WHO)

    def _push(
        self, project: int, tasks: Sequence[Task], held: Sequence[Question], ranking: Ranking
    ) -> tuple[int, list[str]]:
        """Send the questions that are not there yet; (how many, warnings)."""
        there = {task.item for task in tasks}
        bodies, warnings = dict[str, Mapping[str, Any]](), []
        for place, question in enumerate(question for question in held if question.item not in there):
            item, score = question.item, ranking.score(question.item, behind=len(tasks) + place)
            try:
                data = self._data(project, item)
            except ValueError as fault:
                warnings.append(f"{item!r} cannot be shown: {fault}")
                self._session.skip(WHO, item, str(fault), key=f"label-studio-cannot-show/{self._mark}/{item}")
                continue
            told = {} if question.score is None else {"nats": question.score}
            predicted = {"model_version": ranking.version, "score": score, "result": []}
            bodies[item] = {"data": {**data, "pool_id": item, **told}, "predictions": [predicted]}
        names = [*bodies]
        for start in range(0, len(names), TASKS_AT_ONCE):
            some = names[start : start + TASKS_AT_ONCE]
            sent = self._books.begin(some)
            try:
                self._server.add_tasks(project, [bodies[item] for item in some])
            except RefusedError:
                self._books.end(sent)
                raise
            self._books.end(sent)
        return len(names), warnings

    def _data(self, project: int, item: str) -> dict[str, Any]:
        """What Label Studio shows of an item."""
        shown = self._items.show(item, whole=True)
        if isinstance(shown, ShownText):
            return {"text": shown.text}
        if isinstance(shown, ShownImage):
            try:
                content = shown.path.read_bytes()
            except OSError as fault:
                raise ValueError(f"{shown.path.name}: {fault.strerror}.") from None
            ending = mimetypes.guess_extension(shown.media_type) or shown.path.suffix
            name = hashlib.sha256(item.encode()).hexdigest()[:16] + ending
            return {"image": self._server.add_file(project, name, content, shown.media_type)}
        return {"table": dict(shown.cells)}

    def _rescore(self, project: int, tasks: Sequence[Task], held: Sequence[Question], ranking: Ranking) -> int:
        """Send the places of questions that are there without one in the present ranking; how many."""
        first = {task.item: task for task in reversed(tasks)}
        found = [
            {"task": first[question.item].id, "score": ranking.score(question.item, behind=place), "result": []}
            for place, question in enumerate(held)
            if question.item in first and ranking.version not in first[question.item].scores
        ]
        if found:
            self._server.add_predictions(project, [each | {"model_version": ranking.version} for each in found])
        return len(found)

    def _closed(self, held: Sequence[Question]) -> list[str]:
        closed = None if held else self._session.closed(who=WHO)
        return [closed] if closed else []


def _has(tasks: Sequence[Task], ranking: Ranking) -> bool:
    return any(ranking.version in task.scores for task in tasks)


def _title(text: str) -> str:
    """A title that Label Studio takes: 3 to 50 letters."""
    found = " ".join(text.split())[:LONGEST_TITLE]
    return found if len(found) >= 3 else f"askwell {found}".strip()
