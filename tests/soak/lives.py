"""Lives of the command `askwell`: forks of one process that has imported everything, so that a death costs little.

A life is the command itself, in a process of its own, with nothing shared but what was imported: `askwell serve` takes
seconds to import what it needs, and a thousand deaths would take hours.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

TESTS = Path(__file__).parents[1]


class Nursery:
    """Starts lives. Use as a context; all lives end with it."""

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "soak.lives"], cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._ask({}) == {}
        self._lives = []
        return self

    def __exit__(self, *_):
        for life in self._lives:
            life.kill()
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, question):
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def begin(self, *arguments, out, plain=False):
        """A life of `askwell ARGUMENTS`, what it says in the file `out`; `plain`: a user to whom permissions apply."""
        found = self._ask({"arguments": [str(each) for each in arguments], "out": str(out), "plain": plain})
        life = Life(found["pid"], Path(out), lambda: self._ask({"wait": found["pid"]})["status"])
        self._lives.append(life)
        return life

    def serve(self, folder, port, *, out, plain=False):
        """A life of `askwell serve`."""
        return self.begin("serve", folder, "--port", port, out=out, plain=plain)

    def run(self, *arguments, out, plain=False):
        """(exit status, what it said) of a command that ends by itself."""
        life = self.begin(*arguments, out=out, plain=plain)
        return life.wait(), life.said()


class Life:
    """One process."""

    def __init__(self, pid, out, wait):
        self.pid, self._out, self._wait, self._status = pid, out, wait, None

    def kill(self):
        """kill -9."""
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)  # not reaped before it is waited for, so it is still ours
            self.wait()

    def wait(self):
        """The exit status, negative if it was killed."""
        if self._status is None:
            self._status = self._wait()
        return self._status

    def over(self):
        """Whether it has ended by itself."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return False

    def said(self):
        """What it has printed."""
        return self._out.read_text("utf-8", "replace")

    def ready(self, port, *, seconds=60):
        """Whether it answers; False if it ended instead."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/static/mark.svg", timeout=5).close()
                return True
            except urllib.error.HTTPError:
                return True
            except OSError:
                if self.over():
                    return False
                time.sleep(0.01)
        raise AssertionError("the server does not answer")


def obey_permissions():
    """Let the permissions of files count for root too, here and in all that is started from here."""
    system = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert not system.capget(header, sets)
    for number in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        assert not system.prctl(24, number, 0, 0, 0)  # PR_CAPBSET_DROP
        for place in range(3):
            sets[place] &= ~(1 << number)
    assert not system.capset(header, sets)


def live(order):
    """Be `askwell`, in a fork."""
    code = 1
    try:
        out = os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if order["plain"] and not os.geteuid():
            obey_permissions()
        from askwell.cli import main

        main(order["arguments"])
        code = 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def nurse():
    """Fork when asked to."""
    import uvicorn.lifespan.on
    import uvicorn.loops.auto
    import uvicorn.protocols.http.auto

    import askwell.cli.status
    import askwell.project.training
    import askwell.store.postgres
    import askwell.store.sqlite
    import askwell.web

    assert uvicorn
    assert askwell
    alive = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "arguments" in order:
            pid = os.fork()
            if not pid:
                live(order)
            alive.add(pid)
            answer = {"pid": pid}
        elif "wait" in order:
            answer = {"status": os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])}
            alive.discard(order["wait"])
        else:
            answer = {}
        print(json.dumps(answer), flush=True)
    for pid in alive:  # whoever asked is gone, perhaps killed
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    nurse()
