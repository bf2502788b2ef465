"""`epig` against its peers: baal's EPIG, and the entropy identity in torch, whole and in chunks.

Each runs alone in a fresh process on the same saved arrays. Nothing is imported from askwell at the top: baal's
environment, which runs some of them, does not have it.
"""

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import MIB, ONE_THREAD, Row, environment, peak_above, row, timed
from benchmarks.posteriors import child, load, save, sizes

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
    with tempfile.TemporaryDirectory() as folder:
        save(folder, "soft 10")
        return _table(folder)


def _table(folder: str) -> list[Row]:
    n, m = 10_000, 100
    at = sizes(n, 10, m, "one thread each, fresh processes, same arrays")
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
    run = functools.partial(child, f"{__name__}:alone", folder, "soft 10", n, m, env=ONE_THREAD)
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
