"""Pools that do not fit in memory: the ten best of 10^5 to 10^8 rows in Parquet, here, in processes, and with Ray.

`python -m benchmarks.bench_scale [--rows 1000000] [--folder DIR]` writes the pools (about 2 GB for 10^7 rows) into a
folder, where the next run finds them, and measures each case in a fresh process; all of it takes long. The 10^8 rows
are the files of the 10^7 ten times over, by links: `--linked` measures them alone.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from askwell.data import open_rows
from askwell.scoring import Report, Search, best_items
from askwell.seeds import rng_for
from benchmarks.measure import MIB, ROOT, Row, row

SIZES = (10**5, 10**6, 10**7)
LINKED = 10**8  # rows, in links
FEW = 10**4  # rows for a net, which takes far longer
TIMES = 3  # each case in this process, one model after the other: the run with the median time counts
AGAINST_RAY = 10**7  # rows at most: with fewer, little but the start of Ray is compared
FEATURES, LABELS, TARGETS, DRAWS, BEST = 50, 300, 100, 100, 10
FILE, GROUP = 10**6, 50_000  # rows of a file, and of a row group
MODELS = ("forest", "linear")
TICK = os.sysconf("SC_CLK_TCK")
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "askwell-bench" / "scale"


# ---- the pool, the model ---------------------------------------------------------------------------------------------


def write_pool(folder: Path, size: int) -> Path:
    """A folder of Parquet files with so many rows; files that are there already stay."""
    from pyarrow import Table, parquet

    place = folder / f"rows-{size}"
    place.mkdir(parents=True, exist_ok=True)
    for number in range(-(-size // FILE)):
        file = place / f"part-{number:04d}.parquet"
        if file.exists():
            continue
        x = rng_for(number, 0, "bench_scale pool").standard_normal((min(FILE, size - number * FILE), FEATURES), "f4")
        columns = {f"x{column:02d}": np.ascontiguousarray(x[:, column]) for column in range(FEATURES)}
        unfinished = file.with_suffix(".part")
        parquet.write_table(
            Table.from_pydict(columns), unfinished, row_group_size=GROUP, compression="none", use_dictionary=False
        )
        unfinished.rename(file)
    return place


def linked_pool(folder: Path) -> Path:
    """A folder whose files are those of the largest pool, each so many times: as many bytes to read, and ties."""
    place = folder / f"rows-{LINKED}"
    place.mkdir(parents=True, exist_ok=True)
    for file in sorted(write_pool(folder, SIZES[-1]).iterdir()):
        for copy in range(LINKED // SIZES[-1]):
            link = place / f"copy-{copy}-{file.name}"
            if not link.exists():
                link.symlink_to(file.resolve())
    return place


def question(pool: Path, model: str) -> Search:
    """Two classes that overlap, and targets that differ from the pool."""
    rng = rng_for(0, 0, "bench_scale labels")
    x = rng.standard_normal((LABELS, FEATURES), "f4")
    y = x[:, :10].sum(axis=1) + 2 * rng.normal(size=LABELS) > 0
    targets = rng.standard_normal((TARGETS, FEATURES), "f4") * 0.7 + 0.3
    fitted = _model(model).fit(x, y, rng=rng)
    return Search(fitted, open_rows(pool), targets=targets)


def _model(name: str) -> Any:
    from askwell.models.forest import forest
    from askwell.models.linear import LinearModel

    if name != "dropout":
        return forest(trees=DRAWS) if name == "forest" else LinearModel(draws=DRAWS)
    from askwell.models.dropout import DropoutModel
    from askwell.models.networks import mlp
    from askwell.models.training import ModernTraining

    return DropoutModel(mlp(FEATURES, 2), draws=DRAWS, training=ModernTraining(steps=200))


def found(*, pool: str, model: str, engine: str | None) -> dict[str, Any]:
    """The best of a pool, and what it took; in a process of its own."""
    asked = question(Path(pool), model)
    best_items(Search(asked.posterior, np.zeros((9, FEATURES), "f4"), asked.targets), "epig", 3)  # all is loaded
    report, start = Report(), time.perf_counter()
    positions, scores = best_items(asked, "epig", BEST, engine=engine, report=report)
    took = time.perf_counter() - start
    return {
        "wall": took,
        "seconds": report.seconds,
        "positions": positions.tolist(),
        "scores": [score.hex() for score in scores.tolist()],
    }


# ---- processes and their children --------------------------------------------------------------------------------


def watched(**case: Any) -> dict[str, Any]:
    """`found` in a fresh process, with the CPU-seconds and the highest resident memory of it and all its children."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.measure", "benchmarks.bench_scale:found"]
    with subprocess.Popen(
        [*command, json.dumps(case)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src"))), "ASKWELL_COMPILE": "wait"},
    ) as child:
        seen, stop = _Seen(), threading.Event()
        watcher = threading.Thread(target=seen.watch, args=(child.pid, stop))
        watcher.start()
        out, err = child.communicate()
        stop.set()
        watcher.join()
    if child.returncode:
        raise RuntimeError(f"{case}: {err.strip()[-500:]}")
    return json.loads(out.splitlines()[-1]) | {"cpu": seen.cpu, "peak": seen.peak}


class _Seen:
    """What /proc shows of a process and its children, ten times a second. Pages that they share count for each."""

    def __init__(self) -> None:
        self._cpu: dict[tuple[int, str], float] = {}  # by number and time of start
        self.peak = 0.0  # MiB

    @property
    def cpu(self) -> float:
        return sum(self._cpu.values())

    def watch(self, root: int, stop: threading.Event) -> None:
        while not stop.wait(0.1):
            memory = 0
            for pid in _family(root):
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                self._cpu[pid, fields[19]] = (int(fields[11]) + int(fields[12])) / TICK
                memory += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
            self.peak = max(self.peak, memory / MIB)


def _family(root: int) -> Iterator[int]:
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        try:
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue


# ---- the table -----------------------------------------------------------------------------------------------------


def rows(most: int = SIZES[-1], folder: Path = CACHE) -> Iterator[Row]:
    sizes = [size for size in SIZES if size <= most] or [most]
    pools = {}
    for size in sizes:
        start = time.perf_counter()
        pools[size] = write_pool(folder, size)
        print(f"pool of {size:,} rows: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    small = write_pool(folder, FEW)
    yield _speed("dropout", FEW, "here", watched(pool=str(small), model="dropout", engine=None))
    here = {}
    for size in sizes:
        runs = [[watched(pool=str(pools[size]), model=model, engine=None) for model in MODELS] for _ in range(TIMES)]
        for model, several in zip(MODELS, zip(*runs, strict=True), strict=True):
            case = {"pool": str(pools[size]), "model": model}
            here[model, size] = first = sorted(several, key=lambda run: run["wall"])[TIMES // 2]
            yield _speed(model, size, "here", first)
            local = watched(**case, engine="local:2")
            yield _speed(model, size, "local:2", local, first)
            if size == max(size for size in sizes if size <= AGAINST_RAY):
                ray = watched(**case, engine="ray:2")
                yield _speed(model, size, "ray:2", ray, first)
                yield _overhead(model, size, ray, local)
    yield from _goals(here, sizes)
    if most >= SIZES[-1]:
        yield from linked(folder)


def linked(folder: Path = CACHE) -> Iterator[Row]:
    got = watched(pool=str(linked_pool(folder)), model="linear", engine=None)
    yield _speed("linear", LINKED, "here", got)


def _speed(model: str, size: int, engine: str, got: dict[str, Any], first: dict[str, Any] | None = None) -> Row:
    parts, whole = got["seconds"], sum(got["seconds"].values())
    each = ", ".join(f"{what} {size / max(seconds, 1e-9):,.0f}" for what, seconds in parts.items())
    share = parts["score"] / whole
    goals, met = ["at most 1.5 GiB"], [got["peak"] <= 1536]
    if engine == "ray:2":  # whose own processes need about 0.7 GiB
        goals, met = [], []
    if model == "forest":
        goals.append("scoring at most 25 %")
        met.append(share <= 0.25)
    if first is not None:
        goals.append("the same ids and scores")
        met.append(all(got[what] == first[what] for what in ("positions", "scores")))
    same = "" if first is None else "; the same" if met[-1] else "; NOT the same"
    return row(
        f"the best {BEST} of a pool in files, {model}, {engine}",
        f"{size:,} x {FEATURES} float32 in Parquet, {DRAWS} draws, {TARGETS} targets, 2 classes",
        ", ".join(goals),
        f"{got['wall']:.1f} s, {size / got['wall']:,.0f} rows/s (per second spent: {each}; scoring {share:.0%}); "
        f"{got['cpu']:.1f} CPU-s and {got['peak']:.0f} MiB of all processes{same}",
        all(met) if met else None,
    )


def _overhead(model: str, size: int, ray: dict[str, Any], local: dict[str, Any]) -> Row:
    ratio = ray["cpu"] / local["cpu"]
    return row(
        f"Ray against processes, CPU-seconds, {model}",
        f"{size:,} rows, 2 workers, start and end of Ray included",
        "at most 1.6x",
        f"{ratio:.2f}x: {ray['cpu']:.1f} against {local['cpu']:.1f}",
        ratio <= 1.6,
    )


def _goals(here: dict[tuple[str, int], dict[str, Any]], sizes: list[int]) -> Iterator[Row]:
    large = sizes[-1]  # in smaller pools all else takes its share: opening files, the first targets
    ratio = here["forest", large]["wall"] / here["linear", large]["wall"]
    yield row("linear head against forest, rows/s", f"{large:,} rows", "at least 3x", f"{ratio:.1f}x", ratio >= 3)
    if len(sizes) == 1:
        return
    small = sizes[0]
    for model in MODELS:
        one, other = here[model, small], here[model, large]
        exponent = math.log(other["wall"] / one["wall"]) / math.log(large / small)
        yield row(
            f"growth with the pool, {model}",
            f"{small:,} to {large:,} rows",
            "exponent of time at most 1.05, memory flat",
            f"exponent {exponent:.2f}; {one['peak']:.0f} to {other['peak']:.0f} MiB",
            exponent <= 1.05,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=SIZES[-1], help="of the largest pool")
    parser.add_argument("--folder", type=Path, default=CACHE, help="for the pools")
    parser.add_argument("--linked", action="store_true", help="the 10^8 rows alone")
    asked = parser.parse_args()
    for line in linked(asked.folder) if asked.linked else rows(asked.rows, asked.folder):
        print("\n".join(f"{key:9} {value}" for key, value in line.items()), end="\n\n", flush=True)
