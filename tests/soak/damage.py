"""R8: damaged databases under the commands `status` and `serve`: refused in words or right, never silently empty."""

import json
import shutil
import sys
import uuid
from collections import Counter

from store.test_sqlite import harmed

from askwell.project import open_project
from askwell.seeds import rng_for
from soak import Found, folder
from soak.cuts import torn
from soak.lives import Nursery
from soak.people import CLASSES, Visitor, free_port, made

CASES = 500
LABELS = 150
HARMS = ("database", "database", "database", "journal", "both", "other")


def run(share, *, seed=0):
    """Damage copies of one project, and look at each by `status`, at every fifth by `serve` too."""
    cases, found, counts = max(len(HARMS) * 4, round(CASES * share)), Found(), Counter()
    with Nursery() as nursery, folder() as place:
        project, early = labelled(place, nursery)
        for number in range(cases):
            rng = rng_for(seed, number, "damage")
            copy = place / "copy"
            shutil.copytree(project, copy)
            harm = HARMS[number % len(HARMS)]
            harm = _damage(copy, harm, number // len(HARMS), rng)
            before = _files(copy)
            faults = _status(nursery, copy, place, harm, early, counts, before)
            if number % 5 == 0:
                shutil.rmtree(copy)
                shutil.copytree(project, copy)
                _damage(copy, HARMS[number % len(HARMS)], number // len(HARMS), rng_for(seed, number, "damage"))
                faults += _served(nursery, copy, place, harm, early, counts, before)
            found.faults += [f"case {number}, {harm}: {fault}" for fault in faults]
            shutil.rmtree(copy)
    found.figures = {"databases": cases, **counts}
    return found


def labelled(place, nursery):
    """(a project whose database is in the middle of a write, with the journal that takes it back; its labels)."""
    project = made(place, items=LABELS + 50)
    with open_project(project) as opened:
        for number in range(LABELS):
            opened.session().answer("ada", f"mail {number}", CLASSES[number % 3], key=uuid.uuid4().hex)
    left = place / "left by a kill"
    shutil.copytree(project, left)
    database, journal = torn(project / "labels.db", 60)
    (left / "labels.db").write_bytes(database)
    (left / "labels.db-journal").write_bytes(journal)
    return left, LABELS


def _files(copy):
    return {
        path.name: path.read_bytes() for path in copy.glob("labels.db*") if path.suffix != ".db-lock" and path.is_file()
    }


def _damage(copy, harm, number, rng):
    """Do it; what was done, in a word."""
    database, journal = copy / "labels.db", copy / "labels.db-journal"
    if harm in ("database", "both"):
        database.write_bytes(harmed(database.read_bytes(), rng))
    if harm in ("journal", "both"):
        journal.write_bytes(harmed(journal.read_bytes(), rng))
    if harm != "other":
        return harm
    kind = ("no database", "nothing", "empty", "text", "no journal")[number % 5]
    if kind == "no database":  # the journal is still there
        database.unlink()
    elif kind == "nothing":
        database.unlink()
        journal.unlink()
    elif kind == "empty":
        database.write_bytes(b"")
    elif kind == "text":
        database.write_text("id,label\n1,ham\n" * 50)
    else:
        journal.unlink()
    return kind


def _right(labels, harm, early):
    """Whether so many labels are the truth, or all that can be known: a cut journal leaves what came before."""
    if harm in ("journal", "no journal", "both"):
        return early <= labels <= LABELS
    return labels == LABELS


def _status(nursery, copy, place, harm, early, counts, before):
    out = place / "said"
    out.unlink(missing_ok=True)
    code, said = nursery.run("status", copy, "--json", out=out)
    if "Traceback" in said or code not in (0, 2):
        return [f"status ended with {code}: {said[-600:]}"]
    if code == 2:
        counts["status refused"] += 1
        faults = [] if said.startswith("Error: ") and "labels.db" in said else [f"unclear: {said}"]
        now = _files(copy)
        return faults + ["changed"] * any(now.get(name) != data for name, data in before.items() if name == "labels.db")
    labels = json.loads(said.splitlines()[-1])["labels"]
    counts["status right"] += labels == LABELS
    counts["status right up to the cut in the journal"] += labels < LABELS and _right(labels, harm, early)
    return [] if _right(labels, harm, early) else [f"status says {labels} labels, in silence"]


def _served(nursery, copy, place, harm, early, counts, before):
    out, port = place / "said", free_port()
    out.unlink(missing_ok=True)
    life, visitor = nursery.serve(copy, port, out=out), Visitor(port, "ada")
    try:
        if not life.ready(port):
            code, said = life.wait(), life.said()
            counts["serve refused"] += 1
            return (
                []
                if code == 2 and said.startswith("Error: ") and "Traceback" not in said
                else [f"serve: {code} {said}"]
            )
        status, answer = visitor.signed("/api/progress", None, method="GET")
        if status == 503:
            counts["page says 503"] += 1
            return [] if "damaged" in answer["detail"] else [f"unclear: {answer}"]
        counts["page right"] += 1
        labels = answer.get("labels")
        return [] if status == 200 and _right(labels, harm, early) else [f"the page says {status}, {labels} labels"]
    finally:
        visitor.close()
        life.kill()


if __name__ == "__main__":
    print(run(float(sys.argv[1])))
