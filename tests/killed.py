"""A learner that is killed with kill -9 again and again, and what it said before each death.

`python killed.py URL KILLS LABELS SEED` prints one JSON object: what was acknowledged, and how often it was killed.
Everything is imported once, and each life is a fork, so that a death costs milliseconds.
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


def live(url, labels, say):
    """Ask and tell until so many labels are known; say what was acknowledged."""
    learner = Learner(LightModel(), POOL, store=url, **OPTIONS)
    start = [int(np.argmax(POOL[:, 0])), int(np.argmin(POOL[:, 0]))]
    learner.tell(start, [TRUTH[item] for item in start])
    while len(learner.labels) < labels:
        (item,) = learner.ask()
        say({"asked": item})
        learner.tell([item], [TRUTH[item]])
        say({"told": item})
    learner.close()


def main(url, kills, labels, seed):
    askwell.epig(*(LightModel().fit(POOL[:2], [0, 1], rng=rng_for(0, 0, "warm")).predict(POOL[:4]) for _ in range(2)))
    chance, heard, killed = random.Random(seed), [], 0
    while True:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            live(url, labels, lambda event, pipe=write: os.write(pipe, (json.dumps(event) + "\n").encode()))
            os._exit(0)
        os.close(write)
        if killed < kills:
            time.sleep(chance.uniform(0.0, 0.12))
            os.kill(child, signal.SIGKILL)
        with os.fdopen(read) as said:
            heard += [json.loads(line) for line in said if line.endswith("\n")]
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        if os.WIFEXITED(status):
            if os.WEXITSTATUS(status):
                sys.exit("a life ended with an error")
            break
    print(json.dumps({"heard": heard, "killed": killed}))


if __name__ == "__main__":
    os.environ["ASKWELL_THREADS"] = "1"  # no threads before a fork
    main(sys.argv[1], *map(int, sys.argv[2:]))
