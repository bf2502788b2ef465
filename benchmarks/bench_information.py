"""The scores of `probs [n, k, c]`: against a bare matrix product, the paper's formula, its peers, and each other.

Every measurement is a function below, run in a fresh process on the same saved arrays. Nothing is imported from askwell
at the top: baal's environment, which runs some of them, does not have it.
"""

import functools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.measure import MIB, ONE_THREAD, Row, environment, in_child, interleaved, peak_above, row, timed

K, FEATURES, TARGETS = 100, 32, 1_000
#: kind: (standard deviation of the mean weights, share of features that a draw leaves out, of the draws' own weights).
KINDS = {"soft": (4.0, 0.2, 0.0), "vague": (2.0, 0.5, 0.0), "votes": (1.0, 0.0, 2.0)}
TITLES = {"soft": "soft posterior (dropout 0.2)", "vague": "vague posterior (dropout 0.5)", "votes": "hard votes"}
#: what is saved, the kind and the number of classes, and of how many candidates.
POSTERIORS = {"soft 10": 200_000, "vague 10": 20_000, "votes 10": 20_000, "soft 2": 100_000, "votes 2": 100_000}
#: torch first and exactly this one; baal without its 125 packages (Jupyter among them), then what its import needs.
BAAL = (
    ["torch==2.13.0"],
    ["--no-deps", "baal==2.1.0"],
    ["torch==2.13.0", "numpy>=2", "scipy", "scikit-learn", "structlog<23", "tqdm", "pillow", "torchmetrics<2"],
)
PEERS = {
    "baal": "baal 2.1.0 `EPIG().get_uncertainties`",
    "baal_chunks": "baal 2.1.0 `get_uncertainties_generator`, chunks of 500",
    "identity": "H(y) + E H(y*) - E H(y, y*), one product in torch",
    "identity_chunks": "the same identity in chunks of 500",
}


def rows() -> list[Row]:
    """What, at which size, the goal, what this run measured, and whether it meets the goal."""
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name in POSTERIORS:
            save(folder, name)
        for part in (_products, _direct_form, _peers, _memory, _top, _quadratic, _without_numba, _first_calls):
            try:
                table += part(folder)
            except (OSError, RuntimeError, subprocess.SubprocessError) as fault:
                table.append(row(part.__name__.strip("_"), "", "", f"not measured: {str(fault)[-300:]}", ok=False))
    return table


# ---- the posteriors ----------------------------------------------------------------------------------------------


def save(folder: str, name: str) -> None:
    """A softmax-linear model of 32 normal features under K weight draws, the same for pool and targets, as raw float32.

    A draw is the mean weights under a dropout mask over the features, plus normal weights of its own.
    """
    kind, c = name.split()[0], int(name.split()[1])
    width, dropped, spread = KINDS[kind]
    rng = np.random.default_rng(0)
    mean, own = rng.standard_normal((FEATURES, 1, c)), rng.standard_normal((FEATURES, K, c))
    mask = (rng.random((FEATURES, K, 1)) >= dropped) / (1 - dropped)
    weights = ((width * mean * mask + spread * own) / np.sqrt(FEATURES)).reshape(FEATURES, K * c).astype("float32")
    for side, size in (("pool", POSTERIORS[name]), ("targets", TARGETS)):
        with _file(folder, name, side).open("wb") as out:
            for start in range(0, size, 1_000):
                x = rng.standard_normal((min(1_000, size - start), FEATURES), "float32")
                _belief((x @ weights).reshape(-1, K, c), kind).tofile(out)


def _belief(logits: np.ndarray, kind: str) -> np.ndarray:
    """Softmax; as votes, each draw is sure of its best class."""
    if kind == "votes":
        return np.eye(logits.shape[2], dtype="float32")[logits.argmax(axis=2)]
    probs = np.exp(logits - logits.max(axis=2, keepdims=True))
    return probs / probs.sum(axis=2, keepdims=True)


def _file(folder: str, name: str, side: str) -> Path:
    return Path(folder, f"{name} {side}".replace(" ", "-"))


def load(folder: str, name: str, n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """The first n candidates and m targets, [n, k, c] and [m, k, c]."""
    c = int(name.split()[1])
    pool, targets = (
        np.fromfile(_file(folder, name, side), "float32", size * K * c).reshape(size, K, c)
        for side, size in (("pool", n), ("targets", m))
    )
    assert len(pool) == n
    return pool, targets


def _at(n: int, c: int, m: int, *rest: str) -> str:
    return ", ".join([f"n={n:,} k={K} c={c} m={m:,}, float32", *rest])


def _child(function: str, folder: str, name: str, n: int, m: int, **more: Any) -> Any:
    return in_child(f"{__name__}:{function}", folder=folder, name=name, n=n, m=m, **more)


# ---- a bare matrix product ---------------------------------------------------------------------------------------


def _products(folder: str) -> list[Row]:
    table = []
    for c, n, most in ((10, 10_000, 1.25), (2, 100_000, 1.5)):
        for kind in ("soft", "votes"):
            found = _child("against_product", folder, f"{kind} {c}", n, 100, repeats=15)
            measured = f"{found['wall']:.2f}x: {_milliseconds(found)}; {found['cpu']:.2f}x the CPU-seconds"
            what = "`epig` against a bare `np.matmul` [n*c, k] x [k, m*c] into a ready array"
            at = _at(n, c, 100, TITLES[kind], f"{found['threads']} threads each")
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
    found = _child("against_direct", folder, "soft 10", n, m, part=part, chunk=chunk)
    times, seconds = found["wall"] * n / part, found["first"]["wall"] * n / part
    measured = (
        f"{times:.0f}x faster: {1e3 * found['second']['wall']:.0f} ms against {seconds:.1f} s "
        f"({part} candidates timed, the rest in proportion); {found['cpu'] * n / part:.0f}x fewer CPU-seconds; "
        f"largest difference {found['difference']:.0e} nats"
    )
    what = "`epig` against the paper's KL over [n, m, k, c, c] in torch"
    at = _at(n, 10, m, f"chunks of {chunk} candidates (0.4 GiB; the fastest of 4 to 96)", "all cores each")
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


# ---- peers -------------------------------------------------------------------------------------------------------


def _peers(folder: str) -> list[Row]:
    n, m = 10_000, 100
    at = _at(n, 10, m, "one thread each, fresh processes, same arrays")
    goal, table = "at least 3x less CPU time, 10x less memory", []
    for side, title in PEERS.items():
        try:
            measured, ok = _peer(folder, n, m, side)
        except (OSError, RuntimeError, subprocess.SubprocessError) as fault:
            measured, ok = f"not measured: {str(fault)[-300:]}", None
        table.append(row(f"`epig` against {title}", at, goal, measured, ok))
    return table


def _peer(folder: str, n: int, m: int, side: str) -> tuple[str, bool]:
    python = environment("baal", *BAAL) if side.startswith("baal") else Path(sys.executable)
    run = functools.partial(_child, "alone", folder, "soft 10", n, m, env=ONE_THREAD)
    ours, theirs = run(side="ours", repeats=5), run(side=side, repeats=3, python=python)
    scores = [np.load(Path(folder, f"{one}.npy")) for one in ("ours", side)]
    cpu, memory = theirs["cpu"] / ours["cpu"], theirs["extra"] / max(ours["extra"], 0.1)
    measured = (
        f"{cpu:.1f}x less CPU time: {ours['cpu']:.2f} against {theirs['cpu']:.2f} CPU-s; {memory:.0f}x less memory: "
        f"{ours['extra']:.1f} against {theirs['extra']:.0f} MiB above inputs and output ({ours['how']}); "
        f"largest difference {np.abs(scores[0] - scores[1]).max():.0e} nats"
    )
    return measured, cpu >= 3 and memory >= 10


def alone(folder: str, name: str, n: int, m: int, side: str, repeats: int) -> dict[str, Any]:
    """CPU-seconds and peak memory of one implementation, after a warm-up on 20 candidates and 10 targets."""
    score = SIDES[side]()
    score(*_laid_out(side, *load(folder, name, 20, 10)))
    arrays = _laid_out(side, *load(folder, name, n, m))
    answer, extra, how = peak_above(lambda: score(*arrays))
    np.save(Path(folder, f"{side}.npy"), np.asarray(answer))
    return timed(lambda: score(*arrays), repeats=repeats) | {"extra": extra - n * 4 / MIB, "how": how}


def _laid_out(side: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """As the implementation wants them, not on the clock: baal takes [n, c, k]."""
    return tuple(np.ascontiguousarray(x.transpose(0, 2, 1)) for x in arrays) if side.startswith("baal") else arrays


def _ours() -> Callable[..., Any]:
    from askwell import epig

    return epig


def _baal(chunk: int | None = None) -> Callable[..., Any]:
    import torch
    from baal.active.heuristics import EPIG

    torch.set_num_threads(1)
    heuristic = EPIG()
    if chunk is None:
        return heuristic.get_uncertainties
    return lambda p, t: heuristic.get_uncertainties_generator((p[part] for part in _parts(len(p), chunk)), t)


def _identity(chunk: int | None = None) -> Callable[..., Any]:
    import torch

    torch.set_num_threads(1)

    def entropy(p: torch.Tensor, *axes: int) -> torch.Tensor:
        return -torch.sum(torch.xlogy(p, p), dim=axes)

    def whole(p: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        columns = t.permute(1, 0, 2).reshape(t.shape[1], -1)  # [k, m*c]
        joint = p.transpose(1, 2) @ columns / p.shape[1]  # [n, c, m*c]
        return entropy(p.mean(1), 1) + entropy(t.mean(1), 1).mean() - entropy(joint, 1, 2) / len(t)

    def score(p: np.ndarray, t: np.ndarray) -> np.ndarray:
        pool, targets = torch.from_numpy(p), torch.from_numpy(t)
        return torch.cat([whole(pool[part], targets) for part in _parts(len(p), chunk or len(p))]).numpy()

    return score


def _parts(n: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, n, size))


SIDES: dict[str, Callable[[], Callable[..., Any]]] = {
    "ours": _ours,
    "baal": _baal,
    "baal_chunks": functools.partial(_baal, 500),
    "identity": _identity,
    "identity_chunks": functools.partial(_identity, 500),
}


# ---- memory ------------------------------------------------------------------------------------------------------


def _memory(folder: str) -> list[Row]:
    sizes = (10_000, 200_000)
    small, large = (_child("peak", folder, "soft 10", n, 100) for n in sizes)
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
    pool, targets = load(folder, name, n, m)
    _, loading, how = peak_above(lambda: _ours()(pool[:20], targets[:10]))
    scores, extra, how = peak_above(lambda: _ours()(pool, targets))
    return {"extra": extra - scores.nbytes / MIB, "loading": loading, "how": how}


# ---- only the best, and the approximation ------------------------------------------------------------------------


def _top(folder: str) -> list[Row]:
    table, n, m, size = [], 20_000, 1_000, 10
    what = f"`top_epig({size})` against `epig` and a sort"
    twice, slower = ("at least 2x faster", 1 / 2), ("at most 1.2x slower", 1.2)
    for kind, (goal, most) in {"soft": twice, "vague": twice, "votes": slower}.items():
        found = _child("against_sort", folder, f"{kind} 10", n, m, size=size, repeats=3)
        ratio = found["wall"]
        speed = f"{1 / ratio:.2f}x faster" if ratio <= 1 else f"{ratio:.2f}x slower"
        same = "the same answer" if found["same"] else "ANOTHER ANSWER"
        measured = f"{speed}: {_milliseconds(found)}; {found['cpu']:.2f}x the CPU-seconds; {same}"
        ok = ratio <= most and found["same"]
        table.append(row(what, _at(n, 10, m, TITLES[kind]), goal, measured, ok))
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
    found = _child("against_quadratic", folder, "soft 10", n, m, repeats=3)
    ours, theirs = (1e3 * found[side]["wall"] for side in ("second", "first"))
    measured = f"{found['wall']:.0f}x faster: {ours:.0f} against {theirs:.0f} ms; {found['cpu']:.0f}x fewer CPU-seconds"
    at = _at(n, 10, m, TITLES["soft"])
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
        found = _child("against_plain", folder, f"{kind} 10", n, m, repeats=5)
        measured = (
            f"{found['wall']:.1f}x slower: {_milliseconds(found)}; {found['cpu']:.1f}x the CPU-seconds; "
            f"largest difference {found['difference']:.0e} nats"
        )
        what = "`epig` without numba (the text for other devices, on NumPy) against the compiled loop"
        table.append(row(what, _at(n, 10, m, TITLES[kind]), "none: why numba is a dependency", measured))
    return table


def against_plain(folder: str, name: str, n: int, m: int, repeats: int) -> dict[str, Any]:
    from askwell.information import categorical

    pool, targets = load(folder, name, n, m)

    def plain() -> np.ndarray:
        with mock.patch.object(categorical, "hot_loop", return_value=None):
            return categorical.epig(pool, targets)

    difference = np.abs(plain() - categorical.epig(pool, targets)).max()
    found = interleaved(plain, lambda: categorical.epig(pool, targets), repeats=repeats)
    return found | {"difference": float(difference)}


def _first_calls(folder: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as cache:
        run = functools.partial(_child, "first_call", folder, "soft 10", 100, 10, env={"NUMBA_CACHE_DIR": cache})
        cold = run()
        warm = [run() for _ in range(3)]
    first, loading, numpy = (float(np.median([found[key] for found in warm])) for key in ("first", "import", "numpy"))
    at = _at(100, 10, 10, "fresh processes, import and first call")
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
