"""R6: thirty-two people at once, for ten minutes: how long they wait, measured where they sit."""

import asyncio
import json
import os
import random
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

from soak import Found, folder, spread
from soak.lives import Nursery
from soak.people import CLASSES, audit, free_port, made, records_of

PEOPLE = 32
SECONDS = 600.0
ITEMS = 40_000
AHEAD = 4  # items that the page holds
SAVE, NEXT = 0.100, 0.050  # goals: p99 of a save, p95 of the next question


def run(share, *, seed=0, pause=1.0):
    """People who take `pause` seconds for an item, on average; the page's own requests go along."""
    seconds, found = max(5.0, SECONDS * share), Found()
    with Nursery() as nursery, folder() as place:
        project, port = made(place, items=ITEMS), free_port()
        life = nursery.serve(project, port, out=place / "said")
        assert life.ready(port), life.said()
        before = synced(place)
        office, began = Office(port, pause=pause, seed=seed), scheduled(life.pid)
        asyncio.run(office.work(seconds))
        worked, waited = (now - then for now, then in zip(scheduled(life.pid), began, strict=True))
        after = synced(place)
        life.kill()
        found.faults += office.faults + audit(records_of(project), office.acknowledged, office.acknowledged)
        found.faults += [f"the server said: {line}" for line in life.said().splitlines()[1:]]
    saves, nexts = (spread(times, shares=(50, 95, 99)) for times in (office.saves, office.nexts))
    if saves["p99"] > 1000 * SAVE:
        found.faults.append(f"p99 of a save is {saves['p99']} ms, the goal is {1000 * SAVE:g}")
    if nexts["p95"] > 1000 * NEXT:
        found.faults.append(f"p95 of the next question is {nexts['p95']} ms, the goal is {1000 * NEXT:g}")
    requests = len(office.saves) + len(office.nexts) + len(office.panels)
    found.figures = {
        "people": PEOPLE, "seconds": round(seconds), "saves": len(office.saves), "save, ms": saves,
        "next question, ms": nexts, "panel, ms": spread(office.panels or [0]), "bare fsync, ms": spread(before + after),
        "load of the machine": f"{os.getloadavg()[0]:.1f}", "cores": os.cpu_count(),
        "a request takes of a core, ms": round(1000 * worked / requests, 1),
        "and waits for a core, ms": round(1000 * waited / requests, 1),
    }  # fmt: skip
    return found


def scheduled(pid):
    """Seconds that the threads of a process have had a core, and waited for one."""
    found = [0.0, 0.0]
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that has ended
            for place, value in enumerate(path.read_text().split()[:2]):
                found[place] += int(value) / 1e9
    return found


def synced(place, *, times=200):
    """Seconds that the disk takes for 4 kB, by itself."""
    found = []
    with open(place / "probe", "wb", buffering=0) as file:
        for _ in range(times):
            file.write(bytes(4096))
            begin = time.perf_counter()
            os.fsync(file.fileno())
            found.append(time.perf_counter() - begin)
    return found


class Office:
    """People who do what the page does: hold items ahead, save, ask for more, renew, look at the panel."""

    def __init__(self, port, *, pause, seed):
        self._port, self._pause, self._seed = port, pause, seed
        self.saves, self.nexts, self.panels, self.faults, self.acknowledged = [], [], [], [], {}

    async def work(self, seconds):
        """All of them, for so long, and until each has saved twice."""
        end = time.monotonic() + seconds
        await asyncio.gather(*(self._person(number, end) for number in range(PEOPLE)))

    async def _person(self, number, end):
        who, chance = f"person {number}", random.Random(f"{self._seed} {number}")
        await asyncio.sleep(chance.uniform(0, max(self._pause, 0.1)))
        line = Line(self._port)
        looked = renewed = time.monotonic()
        try:
            await line.ask("POST", "/api/sign-in", {"name": who})
            tasks = await self._next(line)
            saved = 0
            while tasks and (saved < 2 or time.monotonic() < end):
                await asyncio.sleep(chance.expovariate(1 / self._pause) if self._pause else 0)
                task, key, label = tasks.pop(0), uuid.uuid4().hex, chance.choice(CLASSES)
                body = {"key": key, "item": task["item"], "label": label, "token": task["token"], "seconds": 1.0}
                await self._timed(line, self.saves, "/api/answers", body)
                self.acknowledged[key] = ("label", who, task["item"], label)
                saved += 1
                tasks = await self._next(line)
                now = time.monotonic()
                if now - renewed > 20:
                    renewed = now
                    await self._timed(line, [], "/api/renew", {"tokens": [task["token"] for task in tasks]})
                if now - looked > 5:
                    looked = now
                    await self._timed(line, self.panels, "/panel", None)
        except Exception as fault:
            self.faults.append(f"{who}: {type(fault).__name__}: {fault}")
        finally:
            line.close()

    async def _next(self, line):
        return (await self._timed(line, self.nexts, "/api/next", {"size": AHEAD}))["tasks"]

    async def _timed(self, line, times, path, body):
        begin = time.perf_counter()
        status, content = await line.ask("GET" if body is None else "POST", path, body)
        times.append(time.perf_counter() - begin)
        if status != 200:
            raise AssertionError(f"{path}: {status} {content[:300]!r}")
        return json.loads(content) if body is not None else content


class Line:
    """One connection of one browser, as thin as can be: the people must not be what is measured."""

    def __init__(self, port):
        self._port, self._streams, self._cookie = port, None, ""

    async def ask(self, method, path, body):
        """(status, content). A connection that was idle may be closed by now: then, like a browser, on a new one."""
        if self._streams is not None:
            try:
                return await self._asked(method, path, body)
            except (asyncio.IncompleteReadError, ConnectionError):
                self.close()
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        return await self._asked(method, path, body)

    async def _asked(self, method, path, body):
        reader, writer = self._streams
        data = b"" if body is None else json.dumps(body).encode()
        writer.write(
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncookie: {self._cookie}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode()
            + data
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        content = await reader.readexactly(int(headers["content-length"]))
        for line in head[1:]:
            if line.lower().startswith("set-cookie: "):
                self._cookie = line[12:].split(";")[0]
        return int(head[0].split()[1]), content

    def close(self):
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()


if __name__ == "__main__":
    print(run(float(sys.argv[1]), pause=float(sys.argv[2]) if len(sys.argv) > 2 else 1.0))
