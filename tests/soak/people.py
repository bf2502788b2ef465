"""Projects to label, and people who label them over HTTP and never give up."""

import http.client
import json
import random
import socket
import threading
import time
import uuid
from collections import Counter

from askwell.project import init_project, open_project
from askwell.session.events import id_of

CLASSES = ("ham", "spam", "eggs")
WORDS = ("win", "prize", "money", "meeting", "noon", "lunch", "invoice", "cheap", "project", "report", "offer", "free")


def made(folder, *, items, store=None, model="linear", **rules):
    """A project of short texts in `folder`/project."""
    chance = random.Random(0)
    rows = [f"mail {n},{' '.join(chance.choices(WORDS, k=12))} {n}\n" for n in range(items)]
    (folder / "mail.csv").write_text("id,text\n" + "".join(rows), "utf-8")
    options = {} if store is None else {"store": store}
    place = folder / "project"
    with init_project(
        place, pool=folder / "mail.csv", id="id", show="text", classes=CLASSES, model=model, **options
    ) as project:
        if rules:
            project.session().set_rules("owner", **rules)
    return place


def records_of(place):
    """All records of a project that nobody serves."""
    with open_project(place) as project:
        return project.store().read(project.settings.run)


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Visitor:
    """A signed-in browser without a screen: one connection, kept open."""

    def __init__(self, port, who):
        self.port, self.who = port, who
        self._connection, self._cookie = None, ""

    def close(self):
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def once(self, path, body, *, method="POST"):
        """(status, answer) of one request; an OSError if nobody answers."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"content-type": "application/json", "cookie": self._cookie}
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as fault:
            self.close()
            raise ConnectionError(str(fault)) from fault
        if path == "/api/sign-in" and response.status == 200:
            self._cookie = response.headers["set-cookie"].split(";")[0]
        return response.status, json.loads(content) if content else None

    def signed(self, path, body, *, method="POST"):
        """The same, signing in when that is asked for."""
        status, answer = self.once(path, body, method=method)
        if status == 401:
            assert self.once("/api/sign-in", {"name": self.who})[0] == 200
            status, answer = self.once(path, body, method=method)
        return status, answer

    def until(self, path, body, *, stop=None, seen=None):
        """Ask again, the very same, until it is acknowledged; None if `stop` is set before."""
        while stop is None or not stop.is_set():
            try:
                status, answer = self.signed(path, body)
            except ConnectionError:
                status, answer = 0, None
            if seen is not None:
                seen[status] += 1
            if status == 200:
                return answer
            if status not in (0, 503):
                raise AssertionError(f"{path} {body}: {status} {answer}")
            time.sleep(0.02)
        return None


class Crowd:
    """People who label at once, each in a thread, and remember what was acknowledged."""

    def __init__(self, port, *, people=8, pause=0.1, seed=0):
        self.acknowledged = {}  # key -> (kind, who, item, label)
        self.sent = {}  # the same of all that was sent, acknowledged or not
        self.statuses, self.faults = Counter(), []
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._port, self._pause = port, pause
        self.threads = [
            threading.Thread(target=self._work, args=(f"person {n}", random.Random(f"{seed} {n}")), daemon=True)
            for n in range(people)
        ]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self.threads:
            thread.join()

    def known(self):
        """What is acknowledged now."""
        with self._lock:
            return dict(self.acknowledged)

    def _work(self, who, chance):
        visitor = Visitor(self._port, who)
        try:
            while not self._stop.is_set():
                self._one(visitor, who, chance)
                time.sleep(chance.uniform(0, self._pause))
        except Exception as fault:
            self.faults.append(f"{who}: {type(fault).__name__}: {fault}")
        finally:
            visitor.close()

    def _one(self, visitor, who, chance):
        given = visitor.until("/api/next", {"size": chance.randint(1, 4)}, stop=self._stop, seen=self.statuses)
        for task in (given or {"tasks": []})["tasks"]:
            key, deed, item = uuid.uuid4().hex, chance.random(), task["item"]
            body, label = {"key": key, "item": item, "token": task["token"]}, None
            if deed < 0.9:
                kind, path, label = "label", "/api/answers", chance.choice(CLASSES)
                body["label"] = label
            elif deed < 0.95:
                kind, path, body["reason"] = "skip", "/api/skips", "unclear"
            else:
                kind, path, item, body = "withdrawal", "/api/undo", None, {"key": key}
            self.sent[key] = (kind, who, item, label)
            answer = visitor.until(path, body, stop=self._stop, seen=self.statuses)
            if answer is None:  # time is up, and nobody has said yes
                return
            with self._lock:
                self.acknowledged[key] = (kind, who, item, label)
            if kind == "withdrawal":
                return


def audit(records, acknowledged, sent):
    """What is wrong with what is stored, as texts: something lost, doubled, changed, or from nowhere."""
    kinds = ("label", "skip", "withdrawal")
    stored = [record for record in records if record.kind in kinds and record.who.startswith("person ")]
    counts = Counter(record.key for record in stored)
    faults = [f"{key} is stored {n} times" for key, n in counts.items() if n > 1]
    by_key = {record.key: record for record in stored}
    for key, (kind, who, item, label) in acknowledged.items():
        record = by_key.get(key)
        if record is None:
            faults.append(f"lost: {kind} {key} by {who} of {item}")
            continue
        found = (record.kind, record.who, record.body.get("label"))
        if found != (kind, who, label) or (item is not None and id_of(record.item) != item):
            faults.append(f"changed: {key} was {(kind, who, item, label)} and is {found} of {record.item}")
    faults += [f"{key} was never sent" for key in by_key if key not in sent]
    seqs = [record.seq for record in records]
    if seqs != sorted(set(seqs)):
        faults.append("the order is broken")
    faults += [
        f"{item} has labels of {' and '.join(sorted(who))}" for item, who in _labelled(stored).items() if len(who) > 1
    ]
    return faults


def _labelled(stored):
    """item -> who has a label in force on it; items are given to one person each."""
    said, undone = {}, {record.body.get("of") for record in stored if record.kind == "withdrawal"}
    for record in stored:
        if record.kind == "label" and record.key not in undone:
            said.setdefault(record.item, set()).add(record.who)
    return said
