"""A fresh installation, as it is: the first question comes from NumPy, the next process finds everything compiled."""

import os
import subprocess
import sys
import time
from pathlib import Path

from filelock import FileLock

import askwell
from askwell import compiling

ASK = """
import sys, warnings
import numpy as np
import askwell
from askwell.models.forest import forest
from askwell.models.linear import LinearModel

warnings.simplefilter("ignore")
x = np.random.default_rng(0).normal(size=(3000, 4)).astype("float32")
for model in (forest(trees=50), LinearModel(draws=100)):
    for y in (x[:, 0] > 0, (x[:, 0] > 0) * 1 + (x[:, 1] > 0)):
        learner = askwell.Learner(model, x, seed=0)
        learner.tell(list(range(20)), y[:20].tolist())
        print(learner.ask(5), learner.explain(100).informs[0][0])
print("numba" in sys.modules)
"""


def ask(folder, **environment):
    settings = os.environ | {"NUMBA_CACHE_DIR": str(folder), "ASKWELL_COMPILE": "auto", **environment}
    settings["PYTHONPATH"] = str(Path(askwell.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", ASK], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_the_first_question_waits_for_nothing_and_the_next_process_finds_all_compiled(tmp_path, monkeypatch):
    cold, said = ask(tmp_path)
    assert (cold[-1], said) == ("False", "")  # not even numba was loaded
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    until = time.monotonic() + 1200
    while not compiling.is_compiled() and time.monotonic() < until:
        time.sleep(0.5)
    assert compiling.is_compiled()  # by the process that the first one started, and that outlived it
    warm, said = ask(tmp_path)
    assert (warm[-1], said) == ("True", "")
    assert warm[:-1] == cold[:-1]  # the same questions
    with FileLock(tmp_path / ".askwell-compiling.lock", timeout=1200):  # leave nobody behind
        pass


def test_without_a_folder_it_says_what_to_do(tmp_path):
    code = "from askwell import compiling, warmup; warmup.cache_folder = lambda: None; warmup.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Set NUMBA_CACHE_DIR" in done.stderr
