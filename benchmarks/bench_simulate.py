"""`askwell simulate` from the shell: five scores, five seeds, 100 labels of a table of 5,000 x 20, in CPU-seconds.

All of it counts: start, reading, two worker processes, the report. The goal is a fifth of what 200 trees took with
scikit-learn's builder and arrays of beliefs (135 CPU-s); now there are 500.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

from benchmarks.measure import ROOT, Row, row

ROWS, FEATURES, CLASSES, GOAL = 5_000, 20, 3, 27
SCORES = "random,entropy,margin,bald,epig"


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = simulated(Path(folder))
    return [
        row(
            f"`askwell simulate table.csv --scores {SCORES} --seeds 5 --budget 100`",
            f"{ROWS:,} x {FEATURES}, {CLASSES} classes, 30 % set aside for the test, forest of 500 trees",
            f"at most {GOAL} CPU-s, a fifth of 200 trees before",
            f"{cpu:.1f} CPU-s, {wall:.1f} s",
            cpu <= GOAL,
        )
    ]


def simulated(folder: Path) -> tuple[float, float]:
    """Seconds, and CPU-seconds of all processes; after a short run that compiles what is not compiled yet."""
    table = folder / "table.csv"
    _write(table)
    _run(table, "--seeds", "1", "--budget", "8", "--out", str(folder / "first"))
    start, before = time.perf_counter(), _spent()
    _run(table, "--seeds", "5", "--budget", "100", "--out", str(folder / "out"))
    return time.perf_counter() - start, _spent() - before


def _run(table: Path, *options: str) -> None:
    program = [sys.executable, "-W", "ignore", "-c", "from askwell.cli import main; main()", "simulate", str(table)]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
    settings = os.environ | {"PYTHONPATH": paths, "ASKWELL_COMPILE": "wait"}
    command = [*program, "--label", "label", "--scores", SCORES, *options]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=table.parent)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])


def _spent() -> float:
    """CPU-seconds of children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(table: Path) -> None:
    options = {"n_informative": 10, "n_redundant": 0, "n_classes": CLASSES, "n_clusters_per_class": 1}
    x, y = make_classification(ROWS, FEATURES, random_state=0, **options)
    head = ",".join([*(f"f{column}" for column in range(FEATURES)), "label"])
    lines = (",".join([*np.char.mod("%.5f", values), "abc"[label]]) for values, label in zip(x, y, strict=True))
    table.write_text("\n".join([head, *lines, ""]))
