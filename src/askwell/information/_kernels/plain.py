"""EPIG in NumPy: what the compiled loop finds, for the time until it is compiled.

With t = p(y, y*) / (p(y) p(y*)) = 1 + u, as in `epig.py`, I(y; y*) = sum p(y) p(y*) (t log t - u), in float64. It
agrees with the loop to 1e-6. Where all draws are votes they are counted as in `votes.py`, and rounded by
the same steps: there the two are equal to the bit.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from askwell.arrays import one_thread_each, spans, threads
from askwell.information.votes import LANES, vote_logs

__all__ = ["block_size", "epig", "pairwise_epig", "seconds"]

COLUMNS = 1024  # of products for one block of targets ...
MOST_TARGETS = 128  # ... and the most targets in one
CELLS = 1 << 18  # of joint tables at a time
NEAR = 1e-3  # there the series is right to thirteen digits, and the plain form to ten
LEAST = 1e-300  # a class less probable than this has no share: its inverse would overflow

Information: TypeAlias = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
"""(candidates, weights of targets) -> sum_j w_j I(y; y*_j) as [n], or without weights I(y; y*) as [n, m]."""


def seconds(n: int, m: int, draws: int, classes: int) -> float:
    """About how long `epig` takes."""
    return n * m * classes**2 * (1.5e-8 + 1e-10 * draws)


def epig(probs: np.ndarray, target_probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sum_j w_j I(y; y*_j) of candidates `probs [n, k, c]` and targets `[m, k, c]`, float64 [n]."""
    scores = np.empty(len(probs))
    _fill(scores, probs, target_probs, weights)
    return scores


def pairwise_epig(probs: np.ndarray, target_probs: np.ndarray) -> np.ndarray:
    """I(y; y*) of every candidate and target, float64 [n, m]."""
    pairs = np.empty((len(probs), len(target_probs)))
    _fill(pairs, probs, target_probs, None)
    return pairs


def block_size(m: int, classes: int) -> int:
    """How many targets make a block, whose information is added up before it is added to that of others.

    About equally many in each.
    """
    most = min(MOST_TARGETS, max(LANES, COLUMNS // classes))
    return -(-m // -(-m // most))


def _fill(out: np.ndarray, probs: np.ndarray, target_probs: np.ndarray, weights: np.ndarray | None) -> None:
    """out[i] = what candidate i tells, in threads: NumPy lets others work while it computes."""
    votes = _are_votes(probs) & _are_votes(target_probs).all()
    most = max(1, CELLS // (probs.shape[2] ** 2 * len(target_probs)))
    for index, prepare in ((np.flatnonzero(votes), _by_votes), (np.flatnonzero(~votes), _by_draws)):
        if len(index):
            information = prepare(target_probs)
            parts = [index[span] for span in spans(len(index), most)]

            def job(part: np.ndarray, information: Information = information) -> None:
                out[part] = information(probs[part], weights)

            with one_thread_each(), ThreadPoolExecutor(threads()) as pool:
                list(pool.map(job, parts))


def _weighted(values: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """sum_j w_j v_j of `values [n, m]`, block after block, in the order of `votes.py`: no other will do.

    In a block every LANES-th term is added to a sum of its own, and these are added up in pairs.
    """
    total, terms = np.zeros(len(values)), values * weights
    for block in spans(len(weights), size):
        sums = np.zeros((len(values), LANES))
        for span in spans(block.stop - block.start, LANES):
            sums[:, : span.stop - span.start] += terms[:, block.start + span.start : block.start + span.stop]
        while sums.shape[1] > 1:
            sums = sums[:, ::2] + sums[:, 1::2]
        total += sums[:, 0]
    return total


def _are_votes(probs: np.ndarray) -> np.ndarray:
    """Whether each draw is sure of a class, as [n]."""
    sure: np.ndarray = ((probs == 0) | (probs == 1)).all(axis=(1, 2))
    return sure


def _by_votes(target_probs: np.ndarray) -> Information:
    """K I(y; y*) = sum F(n(y, y*)) - sum_y* F(n(y*)) - (sum_y F(n(y)) - F(K)), with counts n."""
    m, draws, classes = target_probs.shape
    columns = target_probs.transpose(1, 2, 0).reshape(draws, -1).astype(np.float32)  # [k, c*m]
    f, one = vote_logs(draws)

    def own(probs: np.ndarray) -> np.ndarray:
        logs: np.ndarray = f[probs.sum(axis=1, dtype=np.float64).astype(np.intp)].sum(axis=1)
        return logs

    theirs = own(target_probs)

    def information(probs: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        rows = np.ascontiguousarray(probs.transpose(0, 2, 1), np.float32).reshape(-1, draws)  # [n*c, k]
        counts = (rows @ columns).astype(np.intp).reshape(len(probs), -1, m)  # exact  [n, c*c, m]
        joint, here = f[counts].sum(axis=1), own(probs) - f[-1]
        pairs: np.ndarray = np.maximum(joint - theirs - here[:, None], 0) * (1 / (draws * one))
        return pairs if weights is None else _weighted(pairs, weights, block_size(m, classes))

    return information


def _by_draws(target_probs: np.ndarray) -> Information:
    """Sum p(y) p(y*) (t log t - u)."""
    m, draws, classes = target_probs.shape
    centred, share = _centred(target_probs)
    columns = centred.transpose(1, 2, 0).reshape(draws, -1) / draws  # [k, c*m]
    share = np.ascontiguousarray(share.T)  # [c, m]

    def information(probs: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        centred, means = _centred(probs)
        u = np.ascontiguousarray(centred.transpose(0, 2, 1)).reshape(-1, draws) @ columns  # [n*c, c*m]
        terms = _phi(u)
        if weights is not None:
            rows = (terms @ (share * weights).reshape(-1)).reshape(means.shape)  # [n, c]
            scores: np.ndarray = np.maximum((rows * means).sum(axis=1), 0)
            return scores
        table = terms.reshape(len(probs), classes, classes, m)
        pairs: np.ndarray = np.maximum(np.einsum("nyzj,ny,zj->nj", table, means, share, optimize=True), 0)
        return pairs

    return information


def _phi(u: np.ndarray) -> np.ndarray:
    """(1 + u) log(1 + u) - u; near 0, where that would cancel, by its series."""
    t = u + 1
    np.maximum(t, LEAST, out=t)
    phi: np.ndarray = np.log(t)
    phi *= t
    phi -= u
    near = np.abs(u, out=t) < NEAR
    if near.any():
        small = u[near]
        phi[near] = small * small * (((-small / 20 + 1 / 12) * small - 1 / 6) * small + 1 / 2)
    return phi


def _centred(probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p_k(y) / p(y) - 1 `[n, k, c]` and p(y) `[n, c]`, float64; exactly zero where the draws agree."""
    wide = probs.astype(np.float64)
    means = wide[:, 0] + (wide - wide[:, :1]).mean(axis=1)
    inverse = np.where(means > LEAST, 1 / np.where(means > LEAST, means, 1), 0)
    wide -= means[:, None]
    wide *= inverse[:, None]
    return wide, means
