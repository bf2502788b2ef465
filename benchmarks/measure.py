"""How the benchmarks measure: two calls in turn, fresh processes, peak memory, the machine.

`python -m benchmarks.measure module:function '{"argument": 1}'` is the child's side of `in_child`.
"""

import contextlib
import ctypes
import gc
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
ONE_THREAD = dict.fromkeys(
    ("ASKWELL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
REST = 0.1  # seconds between two calls: OpenBLAS and OpenMP threads go on spinning for a while after the last one
MIB = 1 << 20

Row = dict[str, Any]


def row(what: str, at: str, goal: str, measured: str, ok: bool | None = None) -> Row:
    """One line of the table; `ok` is None where there is no goal to meet."""
    return {"what": what, "at": at, "goal": goal, "measured": measured, "ok": ok}


# ---- time --------------------------------------------------------------------------------------------------------


def spent(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of one call, and CPU-seconds of all its threads."""
    time.sleep(REST)
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def timed(call: Callable[[], Any], *, repeats: int) -> dict[str, float]:
    """Medians of seconds and of CPU-seconds."""
    wall, cpu = np.median([spent(call) for _ in range(repeats)], axis=0)
    return {"wall": float(wall), "cpu": float(cpu)}


def interleaved(first: Callable[[], Any], second: Callable[[], Any], *, repeats: int) -> dict[str, Any]:
    """The two calls in turn, so that what disturbs one disturbs the other.

    Gives {"first", "second"}: medians {"wall", "cpu"} of each, and {"wall", "cpu"}: first over second.
    """
    times = np.array([(spent(first), spent(second)) for _ in range(repeats)])
    medians = np.median(times, axis=0)  # [2, wall and cpu]
    each = [{"wall": float(wall), "cpu": float(cpu)} for wall, cpu in medians]
    ratios = {"wall": float(medians[0, 0] / medians[1, 0]), "cpu": float(medians[0, 1] / medians[1, 1])}
    return {"first": each[0], "second": each[1], **ratios}


# ---- fresh processes ---------------------------------------------------------------------------------------------


def in_child(
    function: str,
    /,
    *,
    python: str | Path = sys.executable,
    env: dict[str, str] | None = None,
    timeout: float = 300,
    **arguments: Any,
) -> Any:
    """What `function` ("package.module:name") returns in a fresh process, perhaps of another interpreter; by JSON."""
    command = [str(python), "-W", "ignore", "-m", "benchmarks.measure", function, json.dumps(arguments)]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
    settings = os.environ | {"PYTHONPATH": paths, "ASKWELL_COMPILE": "wait"} | (env or {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=settings, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{function}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def environment(name: str, *installs: list[str]) -> Path:
    """The Python of a virtual environment of the benchmark's own, made on first use by these `pip install` in order."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "askwell-bench" / name
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True, timeout=120)
        for wanted in installs:
            command = [str(python), "-m", "pip", "install", "--quiet", *wanted]
            done = subprocess.run(command, capture_output=True, text=True, timeout=900)
            if done.returncode:
                raise RuntimeError(f"pip install {' '.join(wanted)}: {done.stderr.strip()[-300:]}")
        (home / "ready").touch()
    return python


# ---- memory ------------------------------------------------------------------------------------------------------


def resident(field: str = "VmRSS") -> float:
    """This process's resident memory in MiB, now (VmRSS) or at its highest (VmHWM); Linux only."""
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) / 1024


def peak_above(call: Callable[[], Any]) -> tuple[Any, float, str]:
    """The answer, the highest resident memory during the call above that before it in MiB, and how it was seen.

    The answer's own memory is counted: take it off. Freed memory that the allocator still holds is given back first,
    or the call could use it unseen.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the highest is now what there is
    except OSError:
        with _sampled() as seen:
            answer = call()
        return answer, max(seen) - before, "VmRSS sampled every millisecond"
    answer = call()
    return answer, resident("VmHWM") - before, "VmHWM, reset before the call"


@contextlib.contextmanager
def _sampled() -> Iterator[list[float]]:
    """A list that fills with the resident memory of every millisecond."""
    seen, stop = [resident()], threading.Event()

    def watch() -> None:
        while not stop.wait(0.001):
            seen.append(resident())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        stop.set()
        watcher.join()
        seen.append(resident())


# ---- the machine -------------------------------------------------------------------------------------------------


def machine() -> list[str]:
    """Processor, memory, versions and BLAS, a line each."""
    from threadpoolctl import threadpool_info

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    packages = ("askwell", "numpy", "scipy", "numba", "torch")
    blas = {
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', '?')}, {pool['num_threads']} threads)"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    return [
        f"{_processor()}, {cores} cores, {_memory()}, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, " + ", ".join(f"{name} {_version(name)}" for name in packages),
        f"NumPy's BLAS: {', '.join(sorted(blas)) or 'unknown'}; askwell uses as many threads as there are cores",
    ]


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


if __name__ == "__main__":
    module, _, name = sys.argv[1].partition(":")
    result = getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))
    print(json.dumps(result))
