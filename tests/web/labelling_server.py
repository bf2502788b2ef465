"""A labelling server in a process of its own, over real texts: the first paragraphs of Python's own manual.

`python labelling_server.py URL PORT TITLE [TOKEN] [ITEM ...]` serves until it is killed; the items named are left out
of the pool, or added to it where it does not have them.
"""

import inspect
import math
import os
import shutil
import socket
import statistics
import sys
import urllib.request
from pathlib import Path

from askwell.data import Items
from askwell.session import Session
from askwell.store import open_store

FAMILIES = {"maths": (math, statistics), "files": (os, shutil), "network": (socket, urllib.request)}
CLASSES = tuple(FAMILIES)


def texts():
    """(text, what it is about), in a fixed order that mixes the families."""
    found = {}
    for family, modules in FAMILIES.items():
        for module in modules:
            for name, thing in inspect.getmembers(module, callable):
                text = (inspect.getdoc(thing) or "").split("\n\n")[0].strip()
                if len(text) > 20 and not name.startswith("_"):
                    found.setdefault(text, family)
    return sorted(found.items(), key=lambda pair: pair[0][::-1])


PAIRS = texts()
ITEMS = Items("manual", "text", tuple(f"text-{n}" for n in range(len(PAIRS))), [text for text, _ in PAIRS])
TRUTH = {item: family for item, (_, family) in zip(ITEMS.ids, PAIRS, strict=True)}


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def pool(*changed):
    """The items, without those that are named; new ones at the end."""
    texts = dict(zip(ITEMS.ids, (text for text, _ in PAIRS), strict=True))
    texts = {item: text for item, text in texts.items() if item not in changed}
    texts |= {item: f"A new text, {item}" for item in changed if item not in ITEMS.ids}
    return Items("manual", "text", tuple(texts), [*texts.values()])


def main(url, port, title, token=None, *changed):
    """Serve."""
    import uvicorn

    from askwell.web import create_app
    from askwell.web.connections import limits

    with open_store(url) as store:
        items = pool(*changed)
        session = Session(store, items.ids)
        if not session.rules.classes and session.rules.label_range is None:
            session.set_rules("start", classes=CLASSES, budget=500, lease_seconds=30)
        kept = Path(url.removeprefix("sqlite:///")).with_name("sessions.json")
        app = create_app(session, items, title=title, targets=items, token=token or None, sessions=kept)
        uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", proxy_headers=False, **limits())


if __name__ == "__main__":
    main(*sys.argv[1:])
