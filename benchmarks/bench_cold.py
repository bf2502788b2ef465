"""The first question of a fresh installation, where nothing is compiled yet, against the same where everything is.

Each in a fresh process, from the first `ask` (or the first round of a project) to its end, importing included. Both
have an empty folder as numba's cache; for the warm ones it is then filled by `python -m askwell.warmup`.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from benchmarks.measure import ROOT, Row, in_child, row

POOL, FEATURES, LABELS, SPARE = 10_000, 10, 60, 3.0
ASKED = [
    ("forest of 100 trees", "forest", 2),
    ("forest of 100 trees", "forest", 6),
    ("LinearModel, 500 draws", "linear", 2),
    ("LinearModel, 500 draws", "linear", 6),
]


def rows() -> list[Row]:
    """A row for each model, one for the first round of a project, and what filling the cache takes."""
    table = []
    with tempfile.TemporaryDirectory() as warm:
        took = _fill(warm)
        for name, model, classes in ASKED:
            at = f"pool {POOL:,} x {FEATURES}, {name}, {LABELS} labels, {classes} classes, 100 targets"
            table.append(_row("the first `ask` of a fresh installation", at, warm, model=model, classes=classes))
        for model in ("forest", "linear"):
            at = f"pool {POOL:,} x {FEATURES}, the project's {model}, {LABELS} labels, 3 classes"
            table.append(_row("the first round of a fresh project", at, warm, model=model, classes=3, project=True))
    measured = f"{took:.0f} CPU-s, in the background at the lowest priority"
    return [*table, row("compiling everything (`python -m askwell.warmup`)", "one process", "none", measured)]


def _row(what: str, at: str, warm: str, **given: Any) -> Row:
    found = {}
    for name in ("warm", "cold"):
        with tempfile.TemporaryDirectory() as empty:
            folder = empty if name == "cold" else warm
            environment = {"NUMBA_CACHE_DIR": folder, "ASKWELL_COMPILE": "auto"}
            found[name] = in_child(f"{__name__}:first", env=environment, timeout=3600, **given)
            if name == "cold":
                _end_background(folder)
    cold, ready = found["cold"], found["warm"]
    measured = (
        f"{cold['wall']:.1f} s ({cold['cpu']:.1f} CPU-s) cold, {ready['wall']:.1f} s ({ready['cpu']:.1f} CPU-s) warm; "
        + ("the same questions" if cold["asked"] == ready["asked"] else "**other questions**")
    )
    ok = cold["cpu"] - ready["cpu"] <= SPARE and cold["asked"] == ready["asked"]
    return row(f"{what}, nothing compiled yet", at, f"within {SPARE:.0f} CPU-s of the warm one", measured, ok)


def _end_background(folder: str) -> None:
    """The process that the cold one has started has its files in this folder, and would disturb the next."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command, environment = ((process / name).read_bytes() for name in ("cmdline", "environ"))
            if b"askwell.warmup" in command and f"NUMBA_CACHE_DIR={folder}\0".encode() in environment:
                os.kill(int(process.name), signal.SIGTERM)
    with FileLock(Path(folder) / ".askwell-compiling.lock", timeout=3600):
        pass  # it has ended


def _fill(folder: str) -> float:
    """CPU-seconds of filling the cache."""
    settings = os.environ | {"NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(ROOT / "src")}
    before = os.times().children_user
    subprocess.run([sys.executable, "-m", "askwell.warmup"], env=settings, check=True, capture_output=True)
    return os.times().children_user - before


def first(model: str, classes: int, project: bool = False) -> dict[str, Any]:
    """Times of the first question, and which it is."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(POOL, FEATURES)).astype(np.float32)
    total = x[:, 0] + x[:, 1]
    y = np.digitize(total, np.quantile(total, np.arange(1, classes) / classes))
    wall, cpu = time.perf_counter(), time.process_time()
    asked = (_round if project else _ask)(model, x, y)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "asked": asked}


def _ask(model: str, x: np.ndarray, y: np.ndarray) -> list[int]:
    from sklearn.ensemble import RandomForestClassifier

    from askwell import Learner
    from askwell.models.linear import LinearModel

    with Learner(RandomForestClassifier(100) if model == "forest" else LinearModel(), x) as learner:
        learner.tell(list(range(LABELS)), y[:LABELS].tolist())
        return [int(item) for item in learner.ask()]


def _round(model: str, x: np.ndarray, y: np.ndarray) -> list[str]:
    from askwell.project.init import init_project
    from askwell.project.rounds import train_round

    with tempfile.TemporaryDirectory() as folder:
        pool = Path(folder) / "pool.csv"
        lines = [",".join(["label", *(f"x{i}" for i in range(x.shape[1]))])]
        for i, values in enumerate(x.round(4)):
            lines.append(",".join([f"c{y[i]}" if i < LABELS else "", *map(str, values)]))
        pool.write_text("\n".join(lines) + "\n")
        with init_project(Path(folder) / "project", pool=pool, label="label", model=model) as project:
            train_round(project)
            body = [record.body for record in project.store().read("main") if record.kind == "queue"][-1]
            return [str(item) for item, *_ in body["items"][:10]]
