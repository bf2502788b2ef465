"""R9: databases of every schema that there was, brought up to date: by two at once, and killed half-way."""

import json
import shutil
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path

from askwell.seeds import rng_for
from askwell.store.contract import elsewhere, rest
from askwell.store.records import Record
from askwell.store.sqlite import MIGRATIONS, SqliteStore
from soak import Found, folder

GOLDEN = Path(__file__).with_name("golden")  # schema_N.db, and what is in it in schema_N.jsonl
KILLS = 100
ROWS = 60_000
NEXT = (  # a schema that may come: a table filled by a slow statement, and a column
    "CREATE TABLE extra (x)",
    f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {ROWS}) "
    "INSERT INTO extra SELECT x FROM n",
    "ALTER TABLE record ADD COLUMN colour TEXT",
)


def run(share, *, seed=0):
    """Upgrade the golden databases to today's schema and to a made-up next one."""
    kills, found, counts = max(3, round(KILLS * share)), Found(), Counter()
    rng, goldens = rng_for(seed, 0, "upgrades"), sorted(GOLDEN.glob("schema_*.db"))
    if [path.stem for path in goldens] != [f"schema_{n}" for n in range(1, len(MIGRATIONS) + 1)]:
        found.faults.append(f"there is no golden database for each of the {len(MIGRATIONS)} schemas")
    with folder() as place:
        for golden in goldens:
            for to in (MIGRATIONS, (*MIGRATIONS, NEXT)):
                found.faults += _checked(_copy(golden, place, "plain"), golden, to)
                counts["upgrades"] += 1
        for number in range(kills):
            golden = goldens[number % len(goldens)]
            copy = _copy(golden, place, "killed")
            pause = float(rng.uniform(0, 0.12)) if number % 2 else 0.0  # a fast machine is done in no time
            found.faults += _raced(copy, golden, pause, counts)
            counts["kills"] += 1
    found.figures = {"schemas": len(goldens), **counts}
    return found


def truth_of(golden):
    """The records of a golden database."""
    lines = golden.with_suffix(".jsonl").read_text("utf-8").splitlines()
    return [Record(**json.loads(line)) for line in lines]


def _copy(golden, place, name):
    for old in place.glob(f"{name}.db*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    return Path(shutil.copy(golden, place / f"{name}.db"))


def _checked(path, golden, migrations):
    """What is wrong after an upgrade."""
    with SqliteStore(path, migrations=migrations) as store:
        found = [record for run in store.runs() for record in store.read(run)]
        store.append([Record("a new one", "new", "label", "1", {})])
    faults = [] if sorted(found, key=lambda record: record.seq) == truth_of(golden) else [f"{golden.name}: changed"]
    with closing(sqlite3.connect(path)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            faults.append(f"{golden.name}: the integrity check fails")
        if connection.execute("PRAGMA user_version").fetchone() != (len(migrations),):
            faults.append(f"{golden.name}: not upgraded")
        if len(migrations) > len(MIGRATIONS) and connection.execute("SELECT count(*) FROM extra").fetchone() != (ROWS,):
            faults.append(f"{golden.name}: half upgraded, or twice")
    return faults


def upgrade(opener, line):
    """Open, and say what is there."""
    line.send("begin")
    with opener() as store:
        line.send(sum(len(store.read(run)) for run in store.runs()))


def _raced(path, golden, pause, counts):
    """Two upgrade at once, and one of them is killed, so many seconds after it began; then a third one looks."""
    opener = partial(SqliteStore, path, migrations=(*MIGRATIONS, NEXT))
    (doomed, line), (other, their) = elsewhere(upgrade, opener), elsewhere(upgrade, opener)
    line.recv()
    time.sleep(pause)
    doomed.kill()
    doomed.join()
    other.join()
    counts["killed before the end"] += not [*rest(line)]
    said = [*rest(their)]
    faults = [] if said == ["begin", len(truth_of(golden))] else [f"the other one said {said}"]
    return faults + _checked(path, golden, (*MIGRATIONS, NEXT))


def make_golden(place=GOLDEN):
    """Keep a database of today's schema, once for each schema: `python -m soak.upgrades golden`."""
    path = place / f"schema_{len(MIGRATIONS)}.db"
    assert not path.exists(), "a golden database is never made anew"
    place.mkdir(exist_ok=True)
    with SqliteStore(path) as store:
        for number in range(40):
            item = None if number % 7 == 6 else f"mail {number}"
            body = {"label": "ham" if number % 3 else "spam", "n": number, "text": "漢字 🦉\0"}
            store.append([Record(f"key {number}", ("main", "Übung")[number % 5 == 4], "label", item, body, "ada")])
        found = sorted((record for name in store.runs() for record in store.read(name)), key=lambda record: record.seq)
    lines = [json.dumps(asdict(record), ensure_ascii=False) for record in found]
    path.with_suffix(".jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    path.with_name(f"{path.name}-lock").unlink()


if __name__ == "__main__":
    if sys.argv[1:] == ["golden"]:
        make_golden()
    else:
        print(run(float(sys.argv[1])))
