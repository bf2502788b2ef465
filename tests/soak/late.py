"""R5: people who fall asleep over their items: others get these soon, and what the sleepers say later is kept."""

import sys
import time
import uuid
from collections import Counter

from soak import Found, folder, spread
from soak.lives import Nursery
from soak.people import CLASSES, Visitor, free_port, made, records_of

RUNS = 1_000
HELD = 20  # items that one person may hold
LEASE = 4.0  # seconds
SOON = 1.0  # seconds after the end of a lease in which an item must be somebody else's


def run(share, *, seed=0):
    """Every item is held by somebody who sleeps, then given to somebody else, then answered by both."""
    people, found = max(1, round(RUNS * share / HELD)), Found()
    with Nursery() as nursery, folder() as place:
        project, port = made(place, items=people * HELD, lease_seconds=LEASE), free_port()
        life = nursery.serve(project, port, out=place / "said")
        assert life.ready(port), life.said()
        sleepers, takers = ([Visitor(port, f"{kind} {n}") for n in range(people)] for kind in ("sleeper", "taker"))
        held = {task["item"]: (visitor, task) for visitor in sleepers for task in _tasks(visitor)}
        if len(held) != people * HELD:
            found.faults.append(f"{len(held)} items were given to the sleepers, not {people * HELD}")
        taken, waits = _taken(takers, held)
        kept = Counter()
        for number, item in enumerate(held):
            pair = [held[item], taken[item]] if number % 2 else [taken[item], held[item]]
            for (visitor, task), when in zip(pair, ("first", "second"), strict=True):
                body = {"key": uuid.uuid4().hex, "item": item, "label": CLASSES[number % 3], "token": task["token"]}
                answer = visitor.until("/api/answers", body)  # or an AssertionError
                if visitor in sleepers:
                    kept[f"{answer['kept']} ({when})"] += 1
        for visitor in (*sleepers, *takers):
            visitor.close()
        life.kill()
        labels = [record for record in records_of(project) if record.kind == "label"]
        if len({(record.item, record.who) for record in labels}) != 2 * len(held) or len(labels) != 2 * len(held):
            found.faults.append(f"{len(labels)} labels are stored, and {2 * len(held)} were given")
    if max(waits) > SOON:
        found.faults.append(f"an item was given again only {max(waits):.1f} seconds after its lease had run out")
    found.figures = {
        "lost leases": len(waits), "given again after, ms": {**spread(waits), "most": round(1000 * max(waits))},
        "late answers": dict(kept),
    }  # fmt: skip
    return found


def _tasks(visitor):
    return visitor.until("/api/next", {"size": HELD})["tasks"]


def _taken(takers, held):
    """(item -> (who has it now, its task), seconds from the end of each old lease to the new one)."""
    taken, waits = {}, []
    ends = {item: task["until"] for item, (_, task) in held.items()}
    limit = time.monotonic() + LEASE + 20
    while len(taken) < len(held) and time.monotonic() < limit:
        for visitor in takers:
            mine = [item for item, (other, _) in taken.items() if other is visitor]
            if len(mine) == HELD or not any(ends[item] < time.time() for item in held if item not in taken):
                continue
            for task in _tasks(visitor):
                if task["item"] not in taken:
                    waits.append(max(0.0, time.time() - ends[task["item"]]))
                    taken[task["item"]] = (visitor, task)
        time.sleep(0.02)
    assert len(taken) == len(held), f"{len(held) - len(taken)} items were never given again"
    return taken, waits


if __name__ == "__main__":
    print(run(float(sys.argv[1])))
