"""A learner that is killed with kill -9 again and again, and what it said before each death.

`python killed.py URL KILLS LABELS SEED` prints one JSON object: what was acknowledged, and how often it was killed.
Everything is imported once, and each life is a fork, so that a death costs milliseconds. However fast the machine is,
all but the last life end by the signal: one that has all labels waits for it. However slow it is, labels get further:
half of the lives are killed after they said something, and not by the clock alone.
"""

import json
import os
import random
import signal
import sys
import time

import numpy as np
from light_model import LightModel

import askwell
from askwell.learner import Learner
from askwell.seeds import rng_for

POOL = rng_for(9, 0, "killed").normal(size=(200, 2))
TRUTH = ["high" if a + b > 0 else "low" for a, b in POOL]
OPTIONS = {"targets": POOL[:20] + 0.1, "seed": 5}


def live(url, labels, say, *, doomed=False):
    """Ask and tell until so many labels are known, then wait for the end if it must come; say what was acknowledged."""
    learner = Learner(LightModel(), POOL, store=url, **OPTIONS)
    start = [int(np.argmax(POOL[:, 0])), int(np.argmin(POOL[:, 0]))]
    learner.tell(start, [TRUTH[item] for item in start])
    while len(learner.labels) < labels:
        (item,) = learner.ask()
        say({"asked": item})
        learner.tell([item], [TRUTH[item]])
        say({"told": item})
    while doomed:
        say({"known": len(learner.labels)})
        signal.pause()
    learner.close()


def main(url, kills, labels, seed):
    askwell.epig(*(LightModel().fit(POOL[:2], [0, 1], rng=rng_for(0, 0, "warm")).predict(POOL[:4]) for _ in range(2)))
    chance, heard, killed = random.Random(seed), [], 0
    for number in range(kills + 1):
        doomed = number < kills
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            say = lambda event, pipe=write: os.write(pipe, (json.dumps(event) + "\n").encode())  # noqa: E731
            live(url, labels, say, doomed=doomed)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as said:
            if doomed and chance.random() < 0.5:  # while it works: after some words, and a moment
                heard += _words(said, chance.randrange(1, 6))
                time.sleep(chance.uniform(0.0, 0.01))
            elif doomed:  # at any moment, often while it starts
                time.sleep(chance.uniform(0.0, 0.12))
            if doomed:
                os.kill(child, signal.SIGKILL)
            heard += _words(said)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        if os.WIFEXITED(status) and (doomed or os.WEXITSTATUS(status)):
            sys.exit("a life ended by itself")
    print(json.dumps({"heard": heard, "killed": killed}))


def _words(said, most=None):
    """What is said until the pipe is closed, or so many words, or all labels are known; half a line was not said."""
    words = []
    while most is None or len(words) < most:
        line = said.readline()
        if not line.endswith("\n"):
            break
        words.append(json.loads(line))
        if "known" in words[-1]:
            break
    return words


if __name__ == "__main__":
    os.environ["ASKWELL_THREADS"] = "1"  # no threads before a fork
    main(sys.argv[1], *map(int, sys.argv[2:]))
