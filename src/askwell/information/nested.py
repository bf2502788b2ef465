"""Nested Monte Carlo: BALD and EPIG of any likelihood, from simulated outcomes and the log-likelihoods of k draws.

Outcome s is simulated by one draw θ_s: a label y_s at every candidate and a label y*_s at every target, so that each
(y_s, y*_s) is an exact sample of p(y, y* | x, x*). The inner mean over draws then stands for the predictive,
p(y) ≈ (1/k) Σ_k p(y|x,θ_k). All candidates share the outcomes' draws and the targets' labels (common random numbers):
differences between candidates are known better than the scores themselves.

A standard error covers the simulated outcomes with the k draws held fixed. It knows nothing of the error from having
only k draws, a bias of order 1/k. When the k draws themselves simulate the outcomes, the estimate is unbiased for a
posterior that consists of just these draws: low for BALD (at most log k), high for EPIG of weakly dependent labels.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from askwell.arrays import Array, spans
from askwell.information.shapes import alike, check_ensemble, check_rng, check_shape, refuse, target_weights

__all__ = ["bald", "epig", "gaussian_bald", "gaussian_epig"]

#: Numbers in one temporary array: 8 MiB of float64, or one outcome of all targets where that is more.
BLOCK = 2**20

Likelihoods: TypeAlias = Callable[[slice, slice], Array]
"""Log-likelihoods `[r, s, k]` of a slice of inputs and a slice of outcomes."""


class Scaled(NamedTuple):
    """Likelihoods with the largest factored out: exp(logs) = exp(peak) scaled; level = log mean_k scaled."""

    logs: Array  # [r, s, k]
    peak: Array  # [r, s]
    scaled: Array  # [r, s, k]
    level: Array  # [r, s]


def bald(
    log_likelihoods: Array, *, draws: Array | None = None, own: Array | None = None, standard_error: bool = False
) -> Array:
    """BALD(x) ≈ (1/S) Σ_s [log p(y_s|x,θ_s) - log (1/k) Σ_k p(y_s|x,θ_k)], `[n]`.

    `log_likelihoods [n, s, k]` is log p(y_s|x,θ_k). What made outcome s is told by `draws [s]`, its index among the k,
    or by `own [n, s]`, the log-likelihood under a fresh draw. The first is low in expectation, the second high (a log
    of a mean exceeds the mean of logs): together they enclose BALD. Zero likelihoods (-inf) are fine as long as some
    draw explains each outcome. With `standard_error` the answer is `(estimate, error)`.

    >>> no = -math.inf  # two draws, each sure of another label, so that the label tells which one: log 2
    >>> bald([[[0.0, no], [no, 0.0]]], draws=[0, 1])
    array([0.69314718])
    """
    if (draws is None) == (own is None):
        raise ValueError("give either draws [s], the index of the draw behind each outcome, or own [n, s]; not both.")
    xp, (logs, *fresh) = alike(log_likelihoods=log_likelihoods, **({} if own is None else {"own": own}))
    check_shape("log_likelihoods", logs, (None, None, None), "[n, s, k]")
    n, s, k = logs.shape
    if draws is not None:
        fresh = [_own(xp, logs, _indices(xp, logs, draws))]
    check_shape("own", fresh[0], (n, s), "[n, s]")
    hint = "No draw simulates an outcome that it holds impossible: are the draws in order?"
    refuse(xp, "own", fresh[0], ~xp.isfinite(fresh[0]), "hold finite log-likelihoods", hint)
    tally = _tally(xp, logs, n, s, standard_error)
    for span in spans(n, max(1, BLOCK // max(1, s * k))):
        block = _scaled(xp, "log_likelihoods", logs[span], (span.start, 0))
        _add(xp, tally, span, fresh[0][span] - block.peak - block.level)
    return _estimate(xp, tally, standard_error)


def epig(
    log_likelihoods: Array,
    target_log_likelihoods: Array,
    *,
    weights: Array | None = None,
    standard_error: bool = False,
) -> Array:
    """EPIG(x) ≈ Σ_j w_j (1/S) Σ_s log [k Σ_k p p* / (Σ_k p · Σ_k p*)], the paper's sample estimator, `[n]`.

    `log_likelihoods [n, s, k]` is log p(y_s|x,θ_k), `target_log_likelihoods [m, s, k]` is log p(y*_s|x*,θ_k), and one
    draw has simulated outcome s on both sides. Σ_k p p* is a matrix product per outcome; sums that fall below the
    floating-point range are done again in logarithms. With `standard_error` the answer is `(estimate, error)`.

    >>> no = -math.inf
    >>> epig([[[0.0, no], [no, 0.0]]], [[[0.0, no], [no, 0.0]]])
    array([0.69314718])
    """
    xp, (logs, targets) = alike(log_likelihoods=log_likelihoods, target_log_likelihoods=target_log_likelihoods)
    check_shape("log_likelihoods", logs, (None, None, None), "[n, s, k]")
    check_shape("target_log_likelihoods", targets, (None, *logs.shape[1:]), "[m, s, k]")
    n, s, k = logs.shape
    w = target_weights(xp, logs, targets.shape[0], weights)
    return _epig(xp, (n, s, k), lambda *at: logs[at], lambda *at: targets[at], w, standard_error)


def gaussian_bald(
    means: Array, variances: Array, *, rng: np.random.Generator, outcomes: int = 500, standard_error: bool = False
) -> Array:
    """BALD of k Gaussian predictions `means, variances [n, k]`, by `outcomes` simulated labels each; `[n]`.

    >>> gaussian_bald([[-9.0, 9.0]], [[1.0, 1.0]], rng=np.random.default_rng(0))  # no label confuses the two draws
    array([0.69314718])
    """
    xp, (means, variances) = alike(means=means, variances=variances)
    k = check_ensemble(xp, "", means, variances, positive=True)
    draws, noise, _ = _simulated(xp, means, 0, outcomes, rng)
    tally = _tally(xp, means, means.shape[0], outcomes, standard_error)
    for part in spans(outcomes, max(1, BLOCK // k)):
        for span in spans(means.shape[0], max(1, BLOCK // (k * (part.stop - part.start)))):
            logs = _log_normal(xp, means[span], variances[span], draws[part], noise[part])
            block = _scaled(xp, "log_likelihoods", logs, (span.start, part.start))
            _add(xp, tally, span, _own(xp, logs, draws[part]) - block.peak - block.level)
    return _estimate(xp, tally, standard_error)


def gaussian_epig(
    means: Array,
    variances: Array,
    target_means: Array,
    target_variances: Array,
    *,
    rng: np.random.Generator,
    outcomes: int = 500,
    weights: Array | None = None,
    standard_error: bool = False,
) -> Array:
    """EPIG of k Gaussian predictions `[n, k]` and `[m, k]`, by `outcomes` simulated pairs of labels; `[n]`.

    It sees every kind of dependence, `gaussian.moment_matched_epig` only the linear, but it needs more draws. A score
    does not depend on which other candidates are scored in the same call.

    >>> rng = np.random.default_rng(0)
    >>> gaussian_epig([[-9.0, 9.0], [0.0, 0.0]], np.ones((2, 2)), [[-9.0, 9.0]], np.ones((1, 2)), rng=rng)
    array([0.69314718, 0.        ])
    """
    named = {"means": means, "variances": variances, "target_means": target_means, "target_variances": target_variances}
    xp, (means, variances, target_means, target_variances) = alike(**named)
    k = check_ensemble(xp, "", means, variances, positive=True)
    check_shape("target_means", target_means, (None, k), "[m, k], the draws of means,")
    check_ensemble(xp, "target_", target_means, target_variances, positive=True)
    w = target_weights(xp, means, target_means.shape[0], weights)
    draws, noise, target_noise = _simulated(xp, means, target_means.shape[0], outcomes, rng)

    def table(span: slice, part: slice) -> Array:
        return _log_normal(xp, means[span], variances[span], draws[part], noise[part])

    def target_table(span: slice, part: slice) -> Array:
        side = target_means[span], target_variances[span]
        return _log_normal(xp, *side, draws[part], target_noise[span, part])

    return _epig(xp, (means.shape[0], outcomes, k), table, target_table, w, standard_error)


def _epig(xp: Any, shape: Any, table: Likelihoods, target_table: Likelihoods, w: Array, standard_error: bool) -> Array:
    (n, s, k), m = shape, w.shape[0]
    tally = _tally(xp, w, n, s, standard_error)
    for part in spans(s, max(1, BLOCK // max(1, 4 * m * k))):
        targets = _scaled(xp, "target_log_likelihoods", target_table(slice(0, m), part), (0, part.start))
        for span in spans(n, max(1, BLOCK // (max(m, k) * (part.stop - part.start)))):
            block = _scaled(xp, "log_likelihoods", table(span, part), (span.start, part.start))
            _add(xp, tally, span, (_log_joint(xp, block, targets) @ w).T - block.level - w @ targets.level)
    return _estimate(xp, tally, standard_error)


def _log_joint(xp: Any, block: Scaled, targets: Scaled) -> Array:
    """log mean_k p p* `[s, r, m]`, less both peaks."""
    p, q = xp.permute_dims(block.scaled, (1, 0, 2)), xp.permute_dims(targets.scaled, (1, 2, 0))
    joint = p @ q / p.shape[-1]  # [s, r, m]
    floor = float(xp.finfo(joint.dtype).smallest_normal / xp.finfo(joint.dtype).eps)
    logs = xp.log(xp.clip(joint, floor, None))
    low = xp.nonzero(joint < floor)
    for span in spans(low[0].shape[0], max(1, BLOCK // p.shape[-1])):
        s, i, j = (axis[span] for axis in low)
        both = block.logs[i, s, :] + targets.logs[j, s, :]  # [pairs, k]
        pairs = _scaled(xp, "log_likelihoods + target_log_likelihoods", both[:, None, :])
        logs[s, i, j] = (pairs.peak + pairs.level)[:, 0] - block.peak[i, s] - targets.peak[j, s]
    return logs


def _scaled(xp: Any, name: str, logs: Array, start: tuple[int, int] | None = None) -> Scaled:
    if logs.shape[-1] == 0:
        raise ValueError(f"{name} must hold at least one draw on its last axis, but its shape is {tuple(logs.shape)}.")
    peak = xp.max(logs, axis=-1)
    bad = ~xp.isfinite(peak)
    if bool(xp.any(bad)):
        i, s = (int(axis[0]) for axis in xp.nonzero(bad))
        place = "for some pair of labels" if start is None else f"at [{i + start[0]}, {s + start[1]}]"
        raise ValueError(
            f"{name} must give every outcome a finite likelihood, positive under one draw at least, but the largest "
            f"{place} is {float(peak[i, s]):g}. Simulate outcomes from these very draws, with one draw for both sides; "
            "a NaN points to the model."
        )
    scaled = xp.exp(logs - peak[..., None])
    return Scaled(logs, peak, scaled, xp.log(xp.mean(scaled, axis=-1)))


def _log_normal(xp: Any, means: Array, variances: Array, draws: Array, noise: Array) -> Array:
    """Simulate y = mean + sd · noise with the draws `[s]`, and give log N(y; mean_k, variance_k), `[r, s, k]`."""
    y = means[:, draws] + xp.sqrt(variances[:, draws]) * noise  # [r, s]
    gap = (y[..., None] - means[:, None, :]) ** 2 / variances[:, None, :]
    return -0.5 * (gap + xp.log(2 * math.pi * variances)[:, None, :])


def _simulated(xp: Any, means: Array, m: int, outcomes: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Draw indices `[s]`, the candidates' common noise `[s]`, and noise of each target `[m, s]`."""
    check_rng(rng)
    draws = xp.asarray(rng.integers(means.shape[1], size=outcomes), device=means.device)
    noise = rng.standard_normal(outcomes), rng.standard_normal((m, outcomes))
    return draws, *(xp.asarray(part, dtype=means.dtype, device=means.device) for part in noise)


def _indices(xp: Any, logs: Array, draws: Array) -> Array:
    index = xp.asarray(draws, device=logs.device)
    check_shape("draws", index, (logs.shape[1],), "[s]")
    if not xp.isdtype(index.dtype, "integral") or bool(xp.any((index < 0) | (index >= logs.shape[2]))):
        raise ValueError(f"draws must hold whole numbers from 0 to k - 1 = {logs.shape[2] - 1}, one per outcome.")
    return index


def _own(xp: Any, logs: Array, draws: Array) -> Array:
    return logs[:, xp.arange(logs.shape[1], device=logs.device), draws]  # [r, s]


def _tally(xp: Any, like: Array, n: int, s: int, standard_error: bool) -> Array:
    """Outcomes seen, their mean, and their squares about it, of each candidate: `[3, n]`."""
    if s < 1 + standard_error:
        raise ValueError(f"outcomes must number at least {1 + standard_error}, but there are {s}.")
    return xp.zeros((3, n), dtype=like.dtype, device=like.device)


def _add(xp: Any, tally: Array, span: slice, values: Array) -> None:
    """Merge the values `[r, s]` of more outcomes; about the mean, because plain squares would cancel in float32."""
    seen, more, mean = tally[0, span], values.shape[1], xp.mean(values, axis=1)
    gap, share = mean - tally[1, span], more / (seen + more)
    tally[2, span] += xp.sum((values - mean[:, None]) ** 2, axis=1) + gap**2 * seen * share
    tally[1, span] += gap * share
    tally[0, span] += more


def _estimate(xp: Any, tally: Array, standard_error: bool) -> Array:
    seen, mean, squares = tally[0], tally[1], tally[2]
    return (mean, xp.sqrt(squares / (seen * (seen - 1)))) if standard_error else mean
