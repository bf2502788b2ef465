"""Many clients at a session, in threads of several processes, and an audit of what they were given.

`python session_clients.py URL PROCESSES THREADS LEASES` prints what was found: for long runs.
"""

import json
import random
import sys
import threading
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

from askwell.session import Session
from askwell.session.events import id_of
from askwell.store import open_store
from askwell.store.contract import elsewhere

LABELS = ("ham", "spam", "eggs")


@dataclass
class Heard:
    """What the clients of one process were told."""

    tasks: set = field(default_factory=set)  # (token, item, who)
    acknowledged: list = field(default_factory=list)  # keys
    nexts: list = field(default_factory=list)  # seconds
    answers: list = field(default_factory=list)
    faults: list = field(default_factory=list)


def lease_many(url, *, processes=3, threads=4, leases=1_000, items=None, labels_per_item=1, lease_seconds=2.0, seed=0):
    """Let clients lease and answer until so many leases were given; (what they heard, seconds, the run's records)."""
    pool = [f"item {number}" for number in range(items or leases)]
    opener = partial(open_store, url)
    with opener() as store:
        Session(store, pool, seed=seed).set_rules(
            "owner", classes=LABELS, labels_per_item=labels_per_item, lease_seconds=lease_seconds
        )
    workers = [elsewhere(work, opener, pool, threads, leases // processes, seed, number) for number in range(processes)]
    for _, line in workers:
        assert line.recv() == "ready"
    begin = time.perf_counter()
    for _, line in workers:
        line.send("go")
    heard = Heard()
    for process, line in workers:
        found = line.recv()
        heard.tasks |= found.pop("tasks")
        for name, more in found.items():
            getattr(heard, name).extend(more)
        process.join()
    seconds = time.perf_counter() - begin
    with opener() as store:
        return heard, seconds, store.read("main")


def work(opener, line, pool, threads, leases, seed, number):
    """The clients of one process."""
    heard = Heard()
    with opener() as store:
        session = Session(store, pool, seed=seed)
        session.progress()
        line.send("ready")
        line.recv()
        clients = [
            threading.Thread(target=client, args=(session, heard, leases, f"client {number}.{place}", seed))
            for place in range(threads)
        ]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
    line.send(vars(heard))


def client(session, heard, leases, name, seed):
    """One after the other: next, and then an answer, a skip, a release, a renewal, or silence for ever."""
    chance, who, lives = random.Random(f"{seed} {name}"), name, 0
    try:
        while len(heard.tasks) < leases:
            begin = time.perf_counter()
            tasks = session.next(who, size=chance.choice((1, 1, 2)))
            heard.nexts.append(time.perf_counter() - begin)
            heard.tasks.update((task.token, task.item, who) for task in tasks)
            if not tasks:
                return
            task = tasks[0]
            key, deed = uuid.uuid4().hex, chance.random()
            if deed < 0.75:
                begin = time.perf_counter()
                session.answer(who, task.item, chance.choice(LABELS), key=key, token=task.token)
                heard.answers.append(time.perf_counter() - begin)
                heard.acknowledged.append(key)
            elif deed < 0.85:
                session.skip(who, task.item, "unclear", key=key, token=task.token)
                heard.acknowledged.append(key)
            elif deed < 0.90:
                session.release(who, [task.token])
            elif deed < 0.95:
                session.renew(who, [task.token])
            else:  # a tab is closed, and somebody else comes
                lives += 1
                who = f"{name}, life {lives}"
    except Exception as error:
        heard.faults.append(f"{who}: {type(error).__name__}: {error}")


# ---- the audit: a slow and obvious reading of the records ------------------------------------------------------------


def audit(records, tasks):
    """What was wrong with the leases that people were told of, as texts. `tasks` are (token, item, who)."""
    told, faults = {}, []
    for token, item, who in tasks:
        if told.setdefault(token, (item, who)) != (item, who):
            faults.append(f"{token} stood for {told[token]} and for {(item, who)}")
    labels, most = 1, 1
    said = defaultdict(dict)  # item -> who -> (key, label or None)
    live = defaultdict(dict)  # item -> token -> (who, until)
    seen = set()

    def needed(item):
        votes = [label for _, label in said[item].values() if label is not None]
        majority = any(2 * votes.count(label) > len(votes) for label in votes)
        return labels - len(votes) if len(votes) < labels else int(len(votes) < most and not majority)

    def trim(item):
        """Others answered first: leases without use end, first those that run out first."""
        latest = sorted(live[item], key=lambda token: live[item][token][1], reverse=True)
        live[item] = {token: live[item][token] for token in latest[: needed(item)]}

    for record in records:
        item, who, body = None if record.item is None else id_of(record.item), record.who, record.body
        if record.kind == "rules":
            labels, most = body["labels_per_item"], body["most_labels"]
            for leased in list(live):
                trim(leased)
        elif record.kind in ("label", "skip"):
            said[item][who] = (record.key, body.get("label"))
            live[item] = {token: lease for token, lease in live[item].items() if lease[0] != who}
            trim(item)
        elif record.kind == "withdrawal":
            said[item] = {person: word for person, word in said[item].items() if word[0] != body["of"]}
        elif record.kind == "release":
            live[item].pop(body["token"], None)
        elif record.kind == "lease" and body["token"] in live[item]:
            live[item][body["token"]] = (who, max(body["until"], live[item][body["token"]][1]))
        elif record.kind == "lease" and body["token"] in told:
            others = sum(until > body["at"] for _, until in live[item].values())
            if others < needed(item) and who not in said[item]:
                over = [token for token, (_, until) in live[item].items() if until <= body["at"]]
                over.sort(key=lambda token: (live[item][token][0] != who, live[item][token][1]))
                own = sum(live[item][token][0] == who for token in over)
                for token in over[: max(own, len(live[item]) + 1 - needed(item))]:  # they make room
                    del live[item][token]
                live[item][body["token"]] = (who, body["until"])
            elif body["token"] not in seen:  # else a renewal that came too late
                faults.append(f"{item} was given to {who} with {others} leases, {needed(item)} needed: {said[item]}")
            seen.add(body["token"])
    return faults + [f"the lease {token} was told and not recorded" for token in told if token not in seen]


def lost(records, acknowledged):
    """Keys that were acknowledged and are not there exactly once."""
    counts = defaultdict(int)
    for record in records:
        counts[record.key] += 1
    return [key for key in acknowledged if counts[key] != 1]


def main(url, processes, threads, leases):
    heard, seconds, records = lease_many(url, processes=processes, threads=threads, leases=leases, lease_seconds=5.0)
    given = len(heard.tasks)

    def spread(times):
        times = sorted(times)
        return {f"p{share}": round(times[int(len(times) * share / 100)] * 1000, 1) for share in (50, 95, 99)}

    print(
        json.dumps(
            {
                "leases": given, "seconds": round(seconds, 1), "leases a second": round(given / seconds),
                "requests a second": round((len(heard.nexts) + len(heard.acknowledged)) / seconds),
                "next, ms": spread(heard.nexts), "answer, ms": spread(heard.answers), "faults": heard.faults[:5],
                "double issues": audit(records, heard.tasks)[:5], "lost": len(lost(records, heard.acknowledged)),
            },
            indent=1,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
