"""R2: what a loss of power leaves: a write that is half done, or files that are copied in the middle of one."""

import os
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from functools import partial

from askwell.seeds import rng_for
from askwell.store.contract import elsewhere
from askwell.store.records import Record, StoreError
from askwell.store.sqlite import SqliteStore
from soak import Found, folder, traces
from soak.lives import Nursery

CUTS = 2_000
COPIES = 500
SAVES = 300
SIZES = (1, 2, 30, 1, 5, 60)  # records in a call of append


def run(share, *, seed=0):
    """Cut journals, and copy databases under the hands of a writer."""
    found = Found()
    with folder() as place:
        found.faults += cut(place, max(20, round(CUTS * share)), found.figures, seed=seed)
    with folder() as place:
        found.faults += copied(place, max(10, round(COPIES * share)), found.figures, seed=seed)
    if traces.available():
        with Nursery() as nursery, folder() as place:
            found.figures["saves seen by strace"] = saves = max(5, round(SAVES * share))
            found.faults += traces.unsynced(nursery, place, saves)
    return found


def records(start, stop):
    """Records, each of which knows its place."""
    return [
        Record(f"key {n}", "run", "label", str(n), {"n": n, "text": "x" * (n * 37 % 900)}) for n in range(start, stop)
    ]


def torn(path, rows):
    """(database, journal) in the middle of a transaction of SQLite's: pages are written, and not committed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 2")  # so that pages are written before the end
        writer.execute("PRAGMA cache_spill = 1")
        writer.execute("BEGIN IMMEDIATE")
        (last,) = writer.execute("SELECT max(seq) FROM record").fetchone()
        for n in range(rows):
            values = (last + 1 + n, f"torn {n}", "x" * 900)
            writer.execute("INSERT INTO record VALUES (?, ?, 'main', 'label', '1', ?, '', 0.0, 0)", values)
        found = path.read_bytes(), path.with_name(path.name + "-journal").read_bytes()
        writer.execute("ROLLBACK")
        return found


# ---- cuts ----


def cut(place, cuts, figures, *, seed):
    """The power goes off in the middle of a write: the journal is not whole on the disk and the database untouched, or
    the journal is whole and any pages of the database are the new ones; behind it nothing, or zeros, or noise."""
    path, truth = place / "labels.db", []
    with SqliteStore(path) as store:
        for size in SIZES * 6:
            truth += store.append(records(len(truth), len(truth) + size))
    whole = path.read_bytes()
    states = [torn(path, rows) for rows in (1, 5, 60, 300)]
    rng, faults = rng_for(seed, 0, "cuts"), []
    for number in range(cuts):
        database, journal = states[number % 4]
        copy = place / "copy"
        copy.mkdir()
        if number % 8 < 4:
            at = int(rng.integers(len(journal) + 1))
            behind = (b"", bytes(1000), rng.bytes(1000))[number % 3]
            database, journal = whole, journal[:at] + behind
        else:
            database = b"".join(
                (database if rng.random() < 0.5 else whole.ljust(len(database), b"\0"))[page : page + 4096]
                for page in range(0, len(database), 4096)
            )
        (copy / "labels.db").write_bytes(database)
        (copy / "labels.db-journal").write_bytes(journal)
        found, fault = _prefix(copy / "labels.db", truth)
        if fault or found != len(truth):
            faults.append(f"cut {number}: {fault or f'{found} records of {len(truth)}'}")
        shutil.rmtree(copy)
    figures |= {"cuts": cuts, "of journals of bytes": [len(journal) for _, journal in states]}
    return faults


def _prefix(path, truth):
    """(how many records, what is wrong): it opens, is sound, has the first records as they were, and goes on."""
    try:
        with SqliteStore(path) as store:
            found = store.read("run")
            store.append([Record("new", "run", "label", "x", {})])
    except StoreError as fault:
        return 0, f"refused: {fault}"
    with closing(sqlite3.connect(path)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            return len(found), "the integrity check fails"
    return len(found), "" if found == truth[: len(found)] else "not the first records"


# ---- copies ----


def writing(opener, line):
    """Append, acknowledge, and now and then close and open again, which moves the journal into the database."""
    number = 0
    while True:
        with opener() as store:
            for size in SIZES * 20:
                store.append(records(number, number + size))
                number += size
                line.send(number)


def copied(place, copies, figures, *, seed):
    """Copy both files while a writer stands still at any point (a snapshot: what a loss of power leaves), and while it
    runs (what nobody should do, but somebody will)."""
    rng, faults, counts = rng_for(seed, 1, "cuts"), [], Counter()
    path, told = place / "labels.db", 0
    process, line = elsewhere(writing, partial(SqliteStore, path))
    told = line.recv()
    try:
        for number in range(copies):
            time.sleep(float(rng.uniform(0, 0.02)))
            if process.exitcode is not None:
                faults.append("the writer ended")
                break
            still = bool(number % 2)
            if still:
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(0.002)
            while line.poll():  # all that was acknowledged before the copy
                told = line.recv()
            copy = place / "copy"
            copy.mkdir()
            for ending in ("", "-journal"):
                with suppress(FileNotFoundError):
                    shutil.copy(path.with_name(path.name + ending), copy)
            if still:
                os.kill(process.pid, signal.SIGCONT)
            fault = _copy(copy / "labels.db", told, still, counts)
            faults += [f"copy {number}: {fault}"] if fault else []
            shutil.rmtree(copy)
            if told > 4_000:  # begin again, or each look takes longer
                process.kill()
                process.join()
                for left in place.glob("labels.db*"):
                    shutil.rmtree(left) if left.is_dir() else left.unlink()
                process, line = elsewhere(writing, partial(SqliteStore, path))
                told = line.recv()
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.kill()
        process.join()
    figures |= counts
    return faults


def _copy(path, told, still, counts):
    """What is wrong with a copy that was made after so many records were acknowledged."""
    name = "snapshots" if still else "plain copies while writing"
    counts[name] += 1
    try:
        with SqliteStore(path) as store:
            found = store.read("run")
    except StoreError as fault:
        if still:
            return f"refused: {fault}"
        counts["of these refused as damaged"] += 1
        return ""
    if [record.body["n"] for record in found] != list(range(len(found))):
        if still:
            return f"not a prefix: {len(found)} records"
        counts["of these accepted with a gap"] += 1
    elif len(found) < told:
        if still:
            return f"{len(found)} records, and {told} were acknowledged"
        counts["of these older than the journal"] += 1
    return ""


if __name__ == "__main__":
    print(run(float(sys.argv[1])))
