"""What the server asks of the disk, seen and disturbed with strace: each answer is on the disk before it is sent."""

import re
import shutil
import signal
import subprocess
import time
import uuid
from contextlib import contextmanager

from soak.people import CLASSES, Visitor, free_port, made

SYNCS = "fsync,fdatasync"


def available():
    """Whether strace is there and may look at a process of ours."""
    if not shutil.which("strace"):
        return False
    sleeping = subprocess.Popen(["sleep", "60"])
    try:
        with _strace(sleeping.pid, "-e", f"trace={SYNCS}"):
            return True
    except AssertionError:
        return False
    finally:
        sleeping.kill()
        sleeping.wait()


@contextmanager
def _strace(pid, *options):
    tracer = subprocess.Popen(
        ["strace", "-f", "-p", str(pid), *options], text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        line = tracer.stderr.readline()
        assert "attached" in line, line
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.stderr.read()  # all it says, or it would wait for us
        tracer.wait()
        tracer.stderr.close()


@contextmanager
def failing(life, disk, chance):
    """A way to fail, as in `full`: the disk reports an error whenever something is to be made sure of (EIO)."""
    out = disk / "trace"
    with _strace(life.pid, "-e", f"trace={SYNCS}", "-e", f"inject={SYNCS}:error=EIO", "-o", str(out)):
        yield


def unsynced(nursery, place, saves):
    """What is wrong, as texts: saves that were acknowledged before the disk had them. One person, one after another."""
    project, port, out = made(place, items=saves + 20), free_port(), place / "trace"
    life = nursery.serve(project, port, out=place / "said")
    assert life.ready(port), life.said()
    visitor = Visitor(port, "person 0")
    tasks = visitor.until("/api/next", {"size": 1})["tasks"]
    calls = f"trace={SYNCS},sendto,recvfrom,sendmsg,recvmsg,read,write"
    with _strace(life.pid, "-e", calls, "-s", "60", "-o", str(out)):
        time.sleep(1.0)  # all threads are attached
        for _ in range(saves):
            (task,) = tasks
            body = {"key": uuid.uuid4().hex, "item": task["item"], "label": CLASSES[0], "token": task["token"]}
            visitor.until("/api/answers", body)
            tasks = visitor.until("/api/next", {"size": 1})["tasks"]
    visitor.close()
    life.kill()
    return _unsynced(out.read_text("utf-8", "replace").splitlines(), saves)


def _unsynced(lines, saves):
    """Read a trace: between a request to save and its answer a sync must have ended well."""
    asked = synced = False
    seen, faults = 0, []
    for line in lines:
        if "POST /api/answers" in line:
            asked, synced = True, False
        elif re.search(r"\b(fsync|fdatasync)\b.*= 0$", line):
            synced = True
        elif asked and "HTTP/1.1 200" in line:
            seen, asked = seen + 1, False
            faults += [] if synced else [f"acknowledged before it was on the disk: {line}"]
    return faults if seen == saves else [*faults, f"{seen} of {saves} saves were seen"]
