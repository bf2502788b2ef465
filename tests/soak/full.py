"""R7: the disk is full, or may not be written: nothing is acknowledged that is not stored, and later all goes on."""

import os
import random
import resource
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress

from soak import Found, folder, traces
from soak.kills import stored
from soak.lives import Nursery
from soak.people import CLASSES, Crowd, Visitor, audit, free_port, made, records_of

TIMES = 40  # that a disk fails, in each of the ways there are
ROUNDS = 10  # of one project: later its journal is long enough to be written again in place, and nothing grows
SMALL = 12_000_000  # bytes of the disk that is filled
ITEMS = 5_000


def run(share, *, seed=0):
    """Fill disks, break them, and take rights away while people label."""
    found = Found()
    ways = {"a limit of the file size": limited, "without the right to write": forbidden}
    if mountable():
        ways["a full disk"] = ballasted
    if traces.available():
        ways["a disk that reports errors"] = traces.failing
    with Nursery() as nursery:
        for name, way in ways.items():
            counts = Counter()
            for begin in range(0, max(2, round(TIMES * share)), ROUNDS):
                with folder() as place, small_disk(place / "disk") if way is ballasted else nullcontext():
                    times = min(ROUNDS, max(2, round(TIMES * share) - begin))
                    more = filled(nursery, place, way, times, seed=seed + begin, plain=way is forbidden)
                counts.update(more.figures)
                found.faults += [f"{name}: {fault}" for fault in more.faults]
            found.figures[name] = dict(counts)
        if mountable():
            with folder() as place, small_disk(place / "disk"):
                found.faults += _read_only_disk(nursery, place)
    return found


def filled(nursery, place, way, times, *, seed, plain=False):
    """Eight people label while the disk fails and recovers, again and again; sometimes the server dies meanwhile."""
    chance, counts, found = random.Random(seed), Counter(), Found()
    disk = place / "disk"
    disk.mkdir(exist_ok=True)
    project = made(disk, items=ITEMS)
    port, out = free_port(), place / "said"
    life = nursery.serve(project, port, out=out, plain=plain)
    assert life.ready(port), life.said()
    with Crowd(port, seed=seed) as crowd:
        for number in range(times):
            _wait(lambda: crowd.statuses[200], 40)
            with way(life, disk, chance):
                counts["failures"] += 1
                before = len(crowd.known())
                _wait(lambda: crowd.statuses[503], 40)
                counts["acknowledged meanwhile"] += len(crowd.known()) - before
                found.faults += _refusal(port)
                if number % 2:
                    life.kill()
                    counts["kills"] += 1
                    found.faults += [] if plain else _audited(project, crowd)
                    life = nursery.serve(project, port, out=out, plain=plain)
                    counts["starts refused"] += not life.ready(port)
            if life.over():
                code, words = life.wait(), life.said().splitlines()[-1]
                if code != 2 or not words.startswith("Error: "):
                    found.faults.append(f"a start ended with {code}: {words}")
                life = nursery.serve(project, port, out=out, plain=plain)
                assert life.ready(port), life.said()
            found.faults += _audited(project, crowd, alive=True)
        _wait(lambda: crowd.statuses[200], 40)
    life.kill()
    found.faults += audit(records_of(project), crowd.acknowledged, crowd.sent) + crowd.faults
    if "Traceback" in life.said():
        found.faults.append(life.said()[life.said().index("Traceback") :][:3000])
    found.figures = {**counts, "acknowledged": len(crowd.acknowledged), "answered 503": crowd.statuses[503]}
    return found


def _audited(project, crowd, *, alive=False):
    """What is missing now of what was acknowledged before now."""
    known = crowd.known()
    return audit(stored(project, None, alive=alive), known, crowd.sent)


def _wait(count, more, *, seconds=180.0):
    end, wanted = time.monotonic() + seconds, count() + more
    while count() < wanted:
        if time.monotonic() > end:
            raise AssertionError(f"what was waited for did not happen in {seconds:g} seconds")
        time.sleep(0.01)


def _refusal(port):
    """What a person is told who labels now."""
    visitor, faults = Visitor(port, "somebody"), []
    try:
        for _ in range(20):
            body = {"key": uuid.uuid4().hex, "item": "mail 0", "label": CLASSES[0], "seconds": 1.0}
            status, answer = visitor.signed("/api/answers", body)
            if status not in (200, 503):
                faults.append(f"a person who labelled meanwhile was told {status}: {answer}")
            if status == 503 and "Not saved: cannot use the store" not in answer["detail"]:
                faults.append(f"unclear: {answer['detail']}")
    finally:
        visitor.close()
    return faults


# ---- ways to fail: contexts of (life, disk, chance) ----------------------------------------------------------------


@contextmanager
def limited(life, disk, chance):
    """No file may be written beyond some byte: a limit of the system on the server's process."""
    hard = resource.prlimit(life.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(life.pid, resource.RLIMIT_FSIZE, (chance.randrange(40_000), hard))
    yield
    with suppress(ProcessLookupError, PermissionError):  # it was killed meanwhile, and the next has no limit
        resource.prlimit(life.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))


@contextmanager
def ballasted(life, disk, chance):
    """A file that fills the disk up to a few pages."""
    ballast = disk / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(4096))
        file.truncate(max(0, file.tell() - chance.randrange(40_000)))
    yield
    ballast.unlink()


@contextmanager
def forbidden(life, disk, chance):
    """The folder and all files in it may only be read."""
    paths = [disk / "project", *(path for path in (disk / "project").iterdir() if path.is_file())]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield
    for path, mode in zip(paths, modes, strict=True):
        with suppress(FileNotFoundError):
            path.chmod(mode)


def _read_only_disk(nursery, place):
    """A disk that was mounted to be read only: looked at, not served, and left alone."""
    project = made(place / "disk", items=20)
    before = (project / "labels.db").read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", str(place / "disk")], check=True)
    faults = []
    for number, command in enumerate((["status", project], ["serve", project, "--port", free_port()])):
        code, said = nursery.run(*command, out=place / f"said {number}")
        wanted, words = (0, "labels") if command[0] == "status" else (2, "may not be written")
        if code != wanted or words not in said or "Traceback" in said:
            faults.append(f"read-only disk, {command[0]}: {code} {said}")
    return faults + ["read-only disk: changed"] * ((project / "labels.db").read_bytes() != before)


def mountable():
    """Whether this user may mount a disk made of memory."""
    if os.geteuid() or not shutil.which("mount"):
        return False
    with folder() as place:
        try:
            with small_disk(place / "disk"):
                return True
        except subprocess.CalledProcessError:
            return False


@contextmanager
def small_disk(place):
    """a small disk, made of memory."""
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(place)], check=True, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


if __name__ == "__main__":
    print(run(float(sys.argv[1])))
