"""R1: the server is killed with kill -9 at random moments while eight people label: nothing acknowledged is lost."""

import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from askwell.store import open_store
from askwell.store.sqlite import SqliteStore, nobody_has
from soak import Found, folder
from soak.lives import Nursery
from soak.people import Crowd, audit, free_port, made, records_of

KILLS = 1_000
LIVES = 50  # of one project: a new one is begun then, since its items are used up
ITEMS = 5_000


def run(share, *, seed=0):
    """Kill servers on SQLite, and as many on PostgreSQL where that is installed."""
    kills, found = max(1, round(KILLS * share)), Found()
    from store.conftest import serving  # of PostgreSQL, whose tests stand there

    with Nursery() as nursery:
        for begin in range(0, kills, LIVES):
            with folder() as place:
                _join(found, "SQLite", killed(nursery, place, min(LIVES, kills - begin), seed=seed + begin))
        with serving() as server:
            for begin in range(0, kills if server else 0, LIVES):
                with folder() as place:
                    number = min(LIVES, kills - begin)
                    _join(found, "PostgreSQL", killed(nursery, place, number, seed=seed + begin, server=server))
    if not server:
        found.figures["PostgreSQL"] = "not installed"
    return found


def _join(found, name, more):
    for figure, value in more.figures.items():
        found.figures[f"{name} {figure}"] = found.figures.get(f"{name} {figure}", 0) + value
    found.faults += [f"{name}: {fault}" for fault in more.faults]


def killed(nursery, place, kills, *, seed, server=None):
    """So many deaths of the servers of one project, with an audit after each. `server`: PostgreSQL, which dies too."""
    chance, found, counts = random.Random(seed), Found(), Counter()
    project = made(place, items=ITEMS, store=None if server is None else server.url(schema=_schema(server, seed)))
    port, out = free_port(), place / "said"
    with Crowd(port, seed=seed) as crowd:
        for kill in range(kills):
            life, before = nursery.serve(project, port, out=out), len(crowd.known())
            if chance.random() < 0.2:  # while it starts
                time.sleep(chance.uniform(0, 0.5))
            else:
                end = time.monotonic() + 60
                while len(crowd.known()) == before and time.monotonic() < end:
                    time.sleep(0.005)
                time.sleep(chance.uniform(0, 0.6))
            if server is not None and kill % 10 == (kills - 1) % 10:  # the database dies first
                server.stop("immediate")
                time.sleep(chance.uniform(0, 0.3))
                server.start()
                counts["deaths of the database"] += 1
                time.sleep(chance.uniform(0, 0.3))
            life.kill()
            counts["kills"] += 1
            known = crowd.known()
            found.faults += [
                f"after kill {kill}: {fault}" for fault in audit(stored(project, server), known, crowd.sent)
            ]
        life = nursery.serve(project, port, out=out)
        assert life.ready(port), life.said()
        time.sleep(1)  # all who wait are served
    life.kill()
    found.faults += audit(records_of(project), crowd.acknowledged, crowd.sent) + crowd.faults
    said = life.said().splitlines()
    if server is not None:  # one that starts, or trains, while the database is down may end, in words
        said = [line for line in said if "cannot use the store" not in line]
    found.faults += [line for line in said if "Traceback" in line or "Error" in line]
    found.figures = {**counts, "acknowledged": len(crowd.acknowledged), "never answered": crowd.statuses[0]}
    found.figures["answered 503"] = crowd.statuses[503]
    return found


def stored(project, server, *, alive=False):
    """All records of a project as they are now; of a file by its copy: the next server is to find what was left.

    While a server is `alive` the copy is SQLite's own, since what it is writing is not to be seen half.
    """
    if server is not None:
        return records_of(project)
    path = project / "labels.db"
    with tempfile.TemporaryDirectory() as name:
        if alive:
            with (
                closing(sqlite3.connect(path, timeout=60)) as source,
                closing(sqlite3.connect(f"{name}/labels.db")) as to,
            ):
                source.backup(to)
        for _ in range(0 if alive else 400):
            with nobody_has(path) as alone:
                for ending in ("", "-journal") if alone else ():
                    if path.with_name(path.name + ending).exists():
                        shutil.copy(path.with_name(path.name + ending), name)
            if alone:
                break
            time.sleep(0.02)  # a trainer may outlive its server for a moment
        with closing(sqlite3.connect(Path(name, "labels.db"))) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        with SqliteStore(Path(name, "labels.db")) as store:
            return store.read("main")


def _schema(server, seed):
    name = f"soak_{seed}"
    server.sql(f"CREATE SCHEMA {name}")
    open_store(server.url(schema=name)).close()
    return name


if __name__ == "__main__":
    print(run(float(sys.argv[1])))
