"""Gaussian EPIG against BoTorch: the same Gaussian process, candidates and targets, one thread each, in one run.

BoTorch lives in an environment of its own, made on first use under ~/.cache/askwell-bench; without a network the rows
say why they were not measured. Both sides start from training inputs and hyper-parameters: ours includes the Cholesky
algebra that gives the covariances, theirs includes the conditioning that its acquisition functions do instead.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import ROOT, Row, environment, row

TRAIN, TARGETS, AXES, HYPER = 100, 100, 8, 16
#: BoTorch's score, candidates, candidates per call (the fastest of 5, 20, 50 and of 10, 100, 1000), its repeats.
JOBS = (("EPIG, 16 hyper-samples", 1_000, 20, 1), ("qNIPV", 1_000, 100, 3), ("qNIPV", 10_000, 100, 1))


def rows() -> list[Row]:
    """What, at which size, the goal, and what this run measured."""
    table = []
    for name, n, batch, repeats in JOBS:
        at = f"n={n:,}, m={TARGETS}, {TRAIN} training points, d={AXES}, float64, one thread"
        what = f"gaussian.{'variance_reduction' if name == 'qNIPV' else 'epig'} against BoTorch {name}"
        table.append(row(what, at, "at least 100x faster (CPU-seconds)", *_measured(name, n, batch, repeats)))
    return table


def _measured(name: str, n: int, batch: int, repeats: int) -> tuple[str, bool | None]:
    try:
        # torch comes first, or the resolver might pick another build
        python = str(environment("botorch", ["torch==2.13.0"], ["botorch>=0.17"], ["numpyro", "jax"]))
        with tempfile.TemporaryDirectory() as folder:
            job = {"name": name, "n": n, "batch": batch, "folder": folder}
            theirs = _child(python, "theirs", job | {"repeats": repeats})
            ours = _child(sys.executable, "ours", job | {"repeats": 9})
            a, b = (np.load(Path(folder, f"{side}.npy")) for side in ("ours", "theirs"))
    except (OSError, RuntimeError, subprocess.SubprocessError) as fault:
        return f"not measured: {str(fault)[-300:]}", None
    ratio = theirs["cpu"] / ours["cpu"]
    return (
        f"{ratio:.0f}x: ours {ours['cpu']:.3g} CPU-s, {ours['wall']:.3g} s, {ours['peak']:.2g} GB (scores alone "
        f"{ours['alone']:.2g} CPU-s); BoTorch {theirs['cpu']:.3g} CPU-s, {theirs['wall']:.3g} s, "
        f"{theirs['peak']:.2g} GB; largest relative difference {np.max(np.abs(a / b - 1)):.0e}",
        ratio >= 100,
    )


def _child(python: str, side: str, job: dict[str, Any]) -> dict[str, float]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [python, "-W", "ignore", "-m", "benchmarks.bench_gaussian", side, json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, env=os.environ | one, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _problem(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x, pool, targets = (rng.random((size, AXES)) for size in (TRAIN, n, TARGETS))
    y = np.sin(4 * x[:, :1]) + x[:, 1:2] + 0.1 * rng.standard_normal((TRAIN, 1))
    y = (y - y.mean()) / y.std(ddof=1)  # BoTorch would do it itself
    length = rng.uniform(0.8, 2.0, (HYPER, AXES))
    scale, noise = rng.uniform(0.8, 1.5, HYPER), rng.uniform(0.05, 0.2, HYPER)
    return {"x": x, "y": y, "pool": pool, "targets": targets, "length": length, "scale": scale, "noise": noise}


def _timed(call: Callable[[], np.ndarray], repeats: int) -> tuple[np.ndarray, float, float]:
    """The answer, and medians of CPU-seconds and seconds."""
    spent = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        answer = call()
        spent.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpu, wall = np.median(spent, axis=0)
    return answer, float(cpu), float(wall)


def _matern(a: np.ndarray, b: np.ndarray, length: np.ndarray, scale: float) -> np.ndarray:
    a, b = a / length, b / length
    square = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    r = np.sqrt(5 * np.maximum(square, 0))
    return scale * (1 + r + r**2 / 3) * np.exp(-r)


def _covariances(p: dict[str, np.ndarray], h: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Latent posterior variances of pool and targets, and their covariances, under hyper-sample h."""
    from scipy.linalg import cho_factor, solve_triangular

    k = lambda a, b: _matern(a, b, p["length"][h], p["scale"][h])  # noqa: E731
    factor, _ = cho_factor(k(p["x"], p["x"]) + p["noise"][h] * np.eye(TRAIN), lower=True)
    pool, targets = (solve_triangular(factor, k(p["x"], p[side]), lower=True) for side in ("pool", "targets"))
    variance, target_variance = (p["scale"][h] - (side**2).sum(0) for side in (pool, targets))
    return variance, target_variance, k(p["pool"], p["targets"]) - pool.T @ targets


def ours(name: str, p: dict[str, np.ndarray]) -> tuple[Callable[[], np.ndarray], Callable[[], np.ndarray]]:
    """The whole work, and the scores alone with the covariances given."""
    from askwell.information import gaussian

    def score(h: int, variance: np.ndarray, target: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        s = p["noise"][h]
        if name == "qNIPV":
            return gaussian.variance_reduction(variance + s, covariance) - target.mean()
        return gaussian.epig(variance + s, target + s, covariance)

    every = range(1 if name == "qNIPV" else HYPER)
    given = [_covariances(p, h) for h in every]
    return (
        lambda: np.mean([score(h, *_covariances(p, h)) for h in every], axis=0),
        lambda: np.mean([score(h, *given[h]) for h in every], axis=0),
    )


def theirs(name: str, p: dict[str, np.ndarray], batch: int) -> Callable[[], np.ndarray]:
    import torch

    torch.set_num_threads(1)
    t = {key: torch.as_tensor(value) for key, value in p.items()}
    if name == "qNIPV":
        from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance as Score
        from botorch.models import SingleTaskGP
        from gpytorch.kernels import MaternKernel, ScaleKernel

        model = SingleTaskGP(
            t["x"], t["y"], covar_module=ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=AXES)), outcome_transform=None
        )
        model.covar_module.base_kernel.lengthscale = t["length"][0]
        model.covar_module.outputscale, model.likelihood.noise = t["scale"][0], t["noise"][0]
    else:
        from botorch.models.fully_bayesian import SaasFullyBayesianSingleTaskGP
        from botorch_community.acquisition.bayesian_active_learning import qExpectedPredictiveInformationGain as Score

        model = SaasFullyBayesianSingleTaskGP(t["x"], t["y"])
        samples = {"lengthscale": t["length"][:, None], "outputscale": t["scale"], "noise": t["noise"][:, None]}
        model.load_mcmc_samples(samples | {"mean": torch.zeros(HYPER, dtype=torch.float64)})
    model.eval()
    with torch.no_grad():
        model.posterior(t["targets"])  # fills the caches, outside the clock
        score = Score(model, mc_points=t["targets"])

    def call() -> np.ndarray:
        with torch.no_grad():
            return torch.cat([score(part[:, None]).reshape(-1) for part in t["pool"].split(batch)]).numpy()

    return call


def _main(side: str, job: dict[str, Any]) -> None:
    p = _problem(job["n"])
    call, alone = ours(job["name"], p) if side == "ours" else (theirs(job["name"], p, job["batch"]), None)
    answer, cpu, wall = _timed(call, job["repeats"])
    np.save(Path(job["folder"], f"{side}.npy"), answer)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    spent = {"cpu": cpu, "wall": wall, "peak": peak, "alone": _timed(alone, job["repeats"])[1] if alone else 0.0}
    print(json.dumps(spent))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        _main(sys.argv[1], json.loads(sys.argv[2]))
    else:
        for row in rows():
            print("\n".join(f"{key:9} {value}" for key, value in row.items()), end="\n\n")
