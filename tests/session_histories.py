"""Histories of requests, each of them sent several times: the end must be as if each was sent once.

`python session_histories.py HISTORIES SEED` runs many, for soak tests.
"""

import random
import sys

from askwell.session import Session
from askwell.store import open_store

ITEMS = ["a", "b", "c", "d"]
PEOPLE = ["ada", "bob", "cyd"]
LABELS = ["ham", "spam"]


def history_of(chance, *, length):
    """Random requests: (deed, who, item, label). Their place in the list is their key."""
    deeds = ("answer", "answer", "answer", "skip", "undo")
    return [
        (chance.choice(deeds), chance.choice(PEOPLE), chance.choice(ITEMS), chance.choice(LABELS))
        for _ in range(length)
    ]


def repeated(chance, history, *, most=5):
    """The places of a history in order, each followed, at any later time, by up to `most` - 1 repeats of it."""
    places = []
    for place in range(len(history)):
        places.append(place)
        waiting = [old for old in range(place + 1) if places.count(old) < most]
        places += chance.sample(waiting, chance.randint(0, min(2, len(waiting))))
    return places


def play(history, places, *, labels_per_item=1, sessions=2, chance=None):
    """Send the requests at these places; where things stand afterwards, and what each first request was told."""
    store, told = open_store(None), {}
    tables = [Session(store, ITEMS, clock=lambda: 1_000.0) for _ in range(sessions)]
    tables[0].set_rules("owner", labels_per_item=labels_per_item)
    tokens = {(who, task.item): task.token for who in PEOPLE for task in tables[0].next(who, size=2)}
    for place in places:
        session = tables[chance.randrange(sessions) if chance else 0]
        deed, who, item, label = history[place]
        key, token = f"key {place}", tokens.get((who, item))
        if deed == "answer":
            found = session.answer(who, item, label, key=key, token=token)
        elif deed == "skip":
            found = session.skip(who, item, label, key=key, token=token)
        else:
            found = session.undo(who, key=key)
        if place not in told:
            told[place] = _plain(found)
        elif deed != "undo":
            assert found.kept == "again", found
        else:
            assert (found is None) == (told[place] is None)
            assert found is None or found.answer.key == told[place], found
    fresh = Session(store, ITEMS, clock=lambda: 1_000.0)
    assert all(session.answers() == fresh.answers() for session in tables)  # whoever reads the records sees the same
    return progress_of(tables[-1]), told


def progress_of(session):
    """Everything that may not depend on how often a request was sent."""
    progress = session.progress()
    answers = [
        (said.item, said.who, said.kind, said.label, said.reason, said.key, said.kept) for said in session.answers()
    ]
    people = {person.name: (person.labels, person.skips, person.held) for person in progress.people}
    counts = (progress.labelled, progress.complete, progress.skipped, progress.labels, progress.held)
    consensus = {item: (found.label, found.share, found.votes) for item, found in session.labels().items()}
    return answers, people, counts, progress.classes, consensus, progress.agreement


def _plain(found):
    """What a first request was told, without what is random: the tokens of leases."""
    if found is None:
        return None
    return found.answer.key if hasattr(found, "answer") else (found.item, found.kept, found.labels, found.needed)


def check(seed, *, length=12):
    """One random history: sent once and sent again and again, through one session and through several."""
    chance = random.Random(seed)
    history, labels = history_of(chance, length=chance.randint(1, length)), chance.choice((1, 1, 2, 3))
    once = play(history, range(len(history)), labels_per_item=labels)
    often = play(history, repeated(chance, history), labels_per_item=labels, chance=chance)
    assert once == often, f"seed {seed}: {history}"


def check_any_order(seed, *, length=12):
    """Labels of different people and items, each sent 1 to 5 times, all in random order: the same labels."""
    chance = random.Random(seed)
    pairs = chance.sample([(who, item) for who in PEOPLE for item in ITEMS], chance.randint(1, length))
    history = [("answer", who, item, chance.choice(LABELS)) for who, item in pairs]
    ends = []
    for _ in range(2):
        places = [place for place in range(len(history)) for _ in range(chance.randint(1, 5))]
        chance.shuffle(places)
        (answers, people, counts, classes, _, _), _ = play(history, places, chance=chance)
        ends.append((sorted(answer[:-1] for answer in answers), people, counts, classes))
    assert ends[0] == ends[1], f"seed {seed}: {history}"


if __name__ == "__main__":
    count, start = map(int, sys.argv[1:])
    for seed in range(start, start + count):
        check(seed)
        check_any_order(seed)
    print(f"{count} histories of repeated requests, and {count} in any order: all ended as if sent once")
