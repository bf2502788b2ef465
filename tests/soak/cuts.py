"""R2: what a loss of power leaves. The journal is cut at any byte, or the files are copied in the middle of a write."""

import os
import shutil
import signal
import sqlite3
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
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


@contextmanager
def reading(path):
    """While somebody reads, what is appended stays in the journal."""
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM record").fetchone()
        yield


# ---- cuts ----


def cut(place, cuts, figures, *, seed):
    """The journal ends anywhere; behind the cut there is nothing, or zeros, or noise, or what stood there before."""
    path, ends, truth = place / "labels.db", {0}, []
    with SqliteStore(path) as store, reading(path):
        for size in SIZES * 6:
            truth += store.append(records(len(truth), len(truth) + size))
            ends.add(len(truth))
        database, journal = path.read_bytes(), (place / "labels.db-wal").read_bytes()
    rng, faults, lengths = rng_for(seed, 0, "cuts"), [], Counter()
    for number in range(cuts):
        at = int(rng.integers(len(journal) + 1))
        length = int(rng.integers(len(journal) - at + 1))
        behind = (b"", bytes(length), rng.bytes(length), rng.bytes(min(length, 512)) + journal[at + 512 :])[number % 4]
        copy = place / "copy"
        copy.mkdir()
        (copy / "labels.db").write_bytes(database)
        (copy / "labels.db-wal").write_bytes(journal[:at] + behind)
        found, fault = _prefix(copy / "labels.db", truth)
        if fault or found not in ends:
            faults.append(f"cut {number} at byte {at}: {fault or f'{found} records, the middle of a call'}")
        lengths[found] += 1
        shutil.rmtree(copy)
    figures |= {"cuts": cuts, "of a journal of bytes": len(journal), "different prefixes": len(lengths)}
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
            for ending in ("", "-wal"):
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
