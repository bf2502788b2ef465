"""The scores of `probs [n, k, c]`: against a bare matrix product, the paper's formula, and each other.

Every measurement is a function below, run in a fresh process on the same saved arrays.
"""

import functools
import os
import subprocess
import sys
import tempfile
import time
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.measure import MIB, Row, interleaved, peak_above, row
from benchmarks.posteriors import POSTERIORS, TITLES, K, child, load, save, sizes


def rows() -> list[Row]:
    """What, at which size, the goal, what this run measured, and whether it meets the goal."""
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name in POSTERIORS:
            save(folder, name)
        for part in (_products, _direct_form, _memory, _top, _quadratic, _without_numba, _first_calls):
            try:
                table += part(folder)
            except (OSError, RuntimeError, subprocess.SubprocessError) as fault:
                table.append(row(part.__name__.strip("_"), "", "", f"not measured: {str(fault)[-300:]}", ok=False))
    return table


# ---- a bare matrix product ---------------------------------------------------------------------------------------


def _products(folder: str) -> list[Row]:
    table = []
    for c, n, most in ((10, 10_000, 1.25), (2, 100_000, 1.5)):
        for kind in ("soft", "votes"):
            found = child(f"{__name__}:against_product", folder, f"{kind} {c}", n, 100, repeats=15)
            measured = f"{found['wall']:.2f}x: {_milliseconds(found)}; {found['cpu']:.2f}x the CPU-seconds"
            what = "`epig` against a bare `np.matmul` [n*c, k] x [k, m*c] into a ready array"
            at = sizes(n, c, 100, TITLES[kind], f"{found['threads']} threads each")
            table.append(row(what, at, f"at most {most}x", measured, found["wall"] <= most))
    return table


def _milliseconds(found: dict[str, Any]) -> str:
    return f"{1e3 * found['first']['wall']:.0f} against {1e3 * found['second']['wall']:.0f} ms"


def against_product(folder: str, name: str, n: int, m: int, repeats: int) -> dict[str, Any]:
    from threadpoolctl import threadpool_limits

    from askwell import epig
    from askwell.arrays import threads

    pool, targets = load(folder, name, n, m)
    a = np.ascontiguousarray(pool.transpose(0, 2, 1)).reshape(-1, K)  # [n*c, k]
    b = np.ascontiguousarray(targets.transpose(1, 0, 2)).reshape(K, -1)  # [k, m*c]
    out = np.empty((len(a), b.shape[1]), "float32")
    score, product = functools.partial(epig, pool, targets), functools.partial(np.matmul, a, b, out=out)
    with threadpool_limits(threads(), user_api="blas"):
        score(), product()
        return interleaved(score, product, repeats=repeats) | {"threads": threads()}


# ---- the paper's formula, as it is written -----------------------------------------------------------------------


def _direct_form(folder: str) -> list[Row]:
    n, m, part, chunk = 2_000, 100, 192, 96
    found = child(f"{__name__}:against_direct", folder, "soft 10", n, m, part=part, chunk=chunk)
    times, seconds = found["wall"] * n / part, found["first"]["wall"] * n / part
    measured = (
        f"{times:.0f}x faster: {1e3 * found['second']['wall']:.0f} ms against {seconds:.1f} s "
        f"({part} candidates timed, the rest in proportion); {found['cpu'] * n / part:.0f}x fewer CPU-seconds; "
        f"largest difference {found['difference']:.0e} nats"
    )
    what = "`epig` against the paper's KL over [n, m, k, c, c] in torch"
    at = sizes(n, 10, m, f"chunks of {chunk} candidates (0.4 GiB; the fastest of 4 to 96)", "all cores each")
    return [row(what, at, "at least 50x faster", measured, times >= 50)]


def against_direct(folder: str, name: str, n: int, m: int, part: int, chunk: int) -> dict[str, Any]:
    import torch

    from askwell import epig

    pool, targets = load(folder, name, n, m)
    p, t = torch.from_numpy(pool[:part]), torch.from_numpy(targets)

    def direct() -> torch.Tensor:
        return torch.cat([_kl(some, t) for some in p.split(chunk)])

    difference = np.abs(direct().numpy() - epig(pool, targets)[:part]).max()
    return interleaved(direct, lambda: epig(pool, targets), repeats=3) | {"difference": float(difference)}


def _kl(p: Any, t: Any) -> Any:
    """mean_j KL[p(y, y*) || p(y) p(y*)], every product of every draw in memory."""
    import torch

    joint = (p[:, None, :, :, None] * t[None, :, :, None, :]).mean(dim=2)  # [n, m, k, c, c] -> [n, m, c, c]
    product = p.mean(dim=1)[:, None, :, None] * t.mean(dim=1)[None, :, None, :]
    return torch.where(joint > 0, joint * (joint / product).log(), 0).sum(dim=(2, 3)).mean(dim=1)


# ---- memory ------------------------------------------------------------------------------------------------------


def _memory(folder: str) -> list[Row]:
    sizes = (10_000, 200_000)
    small, large = (child(f"{__name__}:peak", folder, "soft 10", n, 100) for n in sizes)
    measured = (
        f"{small['extra']:.1f} and {large['extra']:.1f} MiB ({small['how']}); loading numba and the compiled loop, "
        f"which the first call of a process does, took {small['loading']:.0f} MiB before"
    )
    even = abs(large["extra"] - small["extra"]) <= 8
    ok = even and max(small["extra"], large["extra"]) <= 64
    at = f"n={sizes[0]:,} and n={sizes[1]:,}, k={K} c=10 m=100, float32, all cores, fresh processes, after a first call"
    goal = "at most 64 MiB, the same for both (within 8)"
    return [row("peak resident memory of `epig` above inputs and output", at, goal, measured, ok)]


def peak(folder: str, name: str, n: int, m: int) -> dict[str, Any]:
    def score(pool: np.ndarray, targets: np.ndarray) -> Any:
        from askwell import epig  # whose loading is measured too

        return epig(pool, targets)

    pool, targets = load(folder, name, n, m)
    _, loading, how = peak_above(lambda: score(pool[:20], targets[:10]))
    scores, extra, how = peak_above(lambda: score(pool, targets))
    return {"extra": extra - scores.nbytes / MIB, "loading": loading, "how": how}


# ---- only the best, and the approximation ------------------------------------------------------------------------


def _top(folder: str) -> list[Row]:
    table, n, m, size = [], 20_000, 1_000, 10
    what = f"`top_epig({size})` against `epig` and a sort"
    twice, slower = ("at least 2x faster", 1 / 2), ("at most 1.2x slower", 1.2)
    for kind, (goal, most) in {"soft": twice, "vague": twice, "votes": slower}.items():
        found = child(f"{__name__}:against_sort", folder, f"{kind} 10", n, m, size=size, repeats=3)
        ratio = found["wall"]
        speed = f"{1 / ratio:.2f}x faster" if ratio <= 1 else f"{ratio:.2f}x slower"
        same = "the same answer" if found["same"] else "ANOTHER ANSWER"
        measured = f"{speed}: {_milliseconds(found)}; {found['cpu']:.2f}x the CPU-seconds; {same}"
        ok = ratio <= most and found["same"]
        table.append(row(what, sizes(n, 10, m, TITLES[kind]), goal, measured, ok))
    return table


def against_sort(folder: str, name: str, n: int, m: int, size: int, repeats: int) -> dict[str, Any]:
    from askwell import epig, top_epig

    pool, targets = load(folder, name, n, m)

    found = {}

    def top() -> None:
        found["top"] = top_epig(pool, targets, size)

    def whole() -> None:
        scores = epig(pool, targets)
        best = np.argsort(-scores, kind="stable")[:size]
        found["whole"] = best, scores[best]

    top_epig(pool[:2_000], targets[:200], size), epig(pool[:200], targets[:20])  # compiled before the clock starts
    times = interleaved(top, whole, repeats=repeats)
    return times | {"same": all(np.array_equal(a, b) for a, b in zip(found["top"], found["whole"], strict=True))}


def _quadratic(folder: str) -> list[Row]:
    n, m = 20_000, 1_000
    found = child(f"{__name__}:against_quadratic", folder, "soft 10", n, m, repeats=3)
    ours, theirs = (1e3 * found[side]["wall"] for side in ("second", "first"))
    measured = f"{found['wall']:.0f}x faster: {ours:.0f} against {theirs:.0f} ms; {found['cpu']:.0f}x fewer CPU-seconds"
    at = sizes(n, 10, m, TITLES["soft"])
    return [row("`epig_quadratic` against `epig`", at, "at least 20x faster", measured, found["wall"] >= 20)]


def against_quadratic(folder: str, name: str, n: int, m: int, repeats: int) -> dict[str, Any]:
    from askwell import epig
    from askwell.information.draws import epig_quadratic

    pool, targets = load(folder, name, n, m)
    epig(pool[:200], targets[:20]), epig_quadratic(pool[:200], targets[:20])
    return interleaved(lambda: epig(pool, targets), lambda: epig_quadratic(pool, targets), repeats=repeats)


# ---- what numba gives, and what it takes -------------------------------------------------------------------------


def _without_numba(folder: str) -> list[Row]:
    table, n, m = [], 2_000, 100
    for kind in ("soft", "votes"):
        found = child(f"{__name__}:against_plain", folder, f"{kind} 10", n, m, repeats=5)
        measured = (
            f"{found['wall']:.1f}x slower: {_milliseconds(found)}; {found['cpu']:.1f}x the CPU-seconds; "
            f"largest difference {found['difference']:.0e} nats"
        )
        what = "`epig` in NumPy, as it serves until the loop is compiled, against the compiled loop"
        table.append(row(what, sizes(n, 10, m, TITLES[kind]), "none: why numba is a dependency", measured))
    return table


def against_plain(folder: str, name: str, n: int, m: int, repeats: int) -> dict[str, Any]:
    from askwell.information import categorical

    pool, targets = load(folder, name, n, m)

    def plain() -> np.ndarray:
        with mock.patch.dict(os.environ, ASKWELL_COMPILE="never"):
            return categorical.epig(pool, targets)

    difference = np.abs(plain() - categorical.epig(pool, targets)).max()
    found = interleaved(plain, lambda: categorical.epig(pool, targets), repeats=repeats)
    return found | {"difference": float(difference)}


def _first_calls(folder: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as cache:
        run = functools.partial(
            child, f"{__name__}:first_call", folder, "soft 10", 100, 10, env={"NUMBA_CACHE_DIR": cache}
        )
        cold = run()
        warm = [run() for _ in range(3)]
    first, loading, numpy = (float(np.median([found[key] for found in warm])) for key in ("first", "import", "numpy"))
    at = sizes(100, 10, 10, "fresh processes, import and first call")
    measured = (
        f"`import askwell` {loading:.2f} s after {numpy:.2f} s for NumPy; first `epig` {first:.2f} s, or "
        f"{cold['first']:.1f} s where nothing is compiled yet (once per installation and dtype)"
    )
    return [row("what the first score of a process costs", at, "none", measured)]


def first_call(folder: str, name: str, n: int, m: int) -> dict[str, float]:
    """Seconds of the import and of the first score; NumPy is there already, so another process times it."""
    pool, targets = load(folder, name, n, m)
    source = "import time; t = time.perf_counter(); import numpy; print(time.perf_counter() - t)"
    numpy = float(subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout)
    start = time.perf_counter()
    import askwell

    loaded = time.perf_counter()
    askwell.epig(pool, targets)
    return {"numpy": numpy, "import": loaded - start, "first": time.perf_counter() - loaded}
