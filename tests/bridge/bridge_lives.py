"""A bridge that is killed with kill -9 again and again: `python bridge_lives.py URL TOKEN STORE KILLS SEED ITEMS`.

Everything is imported once, and each life is a fork, so that a death costs milliseconds. After the last kill one life
is left to make passes until it is told to end, by a line on stdin. Prints how often it was killed.
"""

import os
import random
import select
import signal
import sys
import time

from askwell.bridge import Bridge, LabelStudio, UnreachableError
from askwell.data import Items
from askwell.session import Session
from askwell.store import open_store


def mail(n):
    """n items of text."""
    ids = tuple(f"mail {place}" for place in range(n))
    return Items("mail", "text", ids, [f"the text of {item}" for item in ids])


def live(url, token, store_url, items):
    """Pass after pass."""
    with open_store(store_url) as store:
        session = Session(store, items.ids)
        bridge = Bridge(LabelStudio(url, token), session, items, store, title="killed", size=6, settle_seconds=3)
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            try:
                bridge.once()
            except UnreachableError:
                time.sleep(0.2)
        bridge.once()


def main(url, token, store_url, kills, seed, n):
    chance, killed, items = random.Random(seed), 0, mail(n)
    while True:
        child = os.fork()
        if child == 0:
            live(url, token, store_url, items)
            os._exit(0)
        if killed < kills:
            time.sleep(chance.uniform(0.05, 1.5))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        if os.WIFEXITED(status):
            print(killed)
            sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
