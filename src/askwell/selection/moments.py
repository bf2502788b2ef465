"""A batch whose labels together tell most about the targets: greedy joint EPIG by moments of the labels.

A batch is worth mean_j I(y_1, ..., y_b; y*_j), and its exact value needs c^b outcomes (`outcomes.py`). The moments need
none. Write a label as c - 1 numbers z with mean 0 and covariance I (its one-hot form, standardised). Then
Cov(z_i, z_j) = u_i' u_j with u_i [k, c-1] the draws' means of z_i over sqrt(k), which is what a linear regression says:

    f ~ N(0, I_k),   z_i = u_i' f + noise_i,   Var(noise_i) = I - u_i' u_i

After the labels of S the covariance of f is R = I - A A', with c - 1 columns of A for every label, and half of the
targets' variance that one label more is expected to explain is

    gain(i|S) = 1/2 sum_j w_j tr[(u_j' R u_i) W_i^-1 (u_i' R u_j)],   W_i = I - u_i' A A' u_i,

half the mean chi-square where S is empty. Only G = sum_j w_j u_j u_j' is needed of the targets, and only two matrices
[c-1, c-1] of a candidate: W_i, and H_i = u_i' R G R u_i. A label that takes N N' from R changes them by

    e = u_i' N,   W_i -= e e',   H_i -= e y' + y e'   with y = u_i' R G N - e (N' G N) / 2,

so a step is one product of all u_i with 2 (c - 1) columns, O(n k c^2). A label that is a number is one z, standardised,
and u_i are the draws' means of it: the same regression, with c - 1 = 1. Noise is in the gain: asking a noisy question
again counts a little, a copy of a sure one nothing. The gain serves as a discount of the score: a candidate is worth
score_i gain(i|S) / gain(i|nothing), so the first choice is the score's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg.blas import dtrmm

from askwell.arrays import keep_freed_memory, one_thread_each, shares, spans
from askwell.information.moments import Moments, variance
from askwell.selection.candidates import Candidates, beliefs, finite_scores

__all__ = ["joint", "moment_gains"]

ROUNDING = 1e-12  # of G's trace, on its diagonal: more than rounding takes from it, so that it has a Cholesky factor
RIDGE = 1e-9  # of a label's variance 1, as if noise: what is known for sure would have no inverse
NOTHING = 1e-6  # the share of its first gain below which a candidate has nothing left to tell
ALIKE = 1e-6  # how far two beliefs may differ and still be copies: more than float32 predictions of one input do
FEW = 32  # draws that tell most candidates apart
TOGETHER = 32  # candidates whose numbers stay in cache
DIRECTIONS = 64  # of a label's c - 1, kept; the strongest, where there are more


def joint(candidates: Candidates, size: int, /, *, rng: np.random.Generator) -> np.ndarray:
    """Greedy: each choice has the highest score times the share of its information that the labels before leave.

    Starts from the pending questions as if they were answered. A copy of a chosen or pending candidate is not chosen
    while any other has something to tell: copies get the same answer. Draws nothing.

    >>> split, other = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]), np.array([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    >>> pool = np.stack([split, split, 0.9 * other + 0.05])                # the third knows less, but other things
    >>> joint(Candidates([0.35, 0.35, 0.2], pool, np.stack([split, other])), 2, rng=None)
    array([0, 2])
    """
    keep_freed_memory()
    with one_thread_each():
        return _greedy(candidates, size)


def moment_gains(
    probs: np.ndarray, target_probs: np.ndarray, asked: np.ndarray, *, weights: np.ndarray | None = None
) -> np.ndarray:
    """gain(i|S) of candidates `probs [n, k, c]` after the labels of `asked [s, k, c]`, as [n].

    >>> split = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> moment_gains(split, split, split[:0]).round(6), moment_gains(split, split, split).round(6)
    (array([0.5]), array([0.]))
    """
    given = Candidates(np.zeros(len(probs)), probs, target_probs, weights, asked)
    known = _regression(given, _beliefs(given, "probs"))
    for belief in _pending(given):
        known = known.answered(belief)
    return known.gains()


# ---- the greedy ----------------------------------------------------------------------------------------------------


def _greedy(candidates: Candidates, size: int) -> np.ndarray:
    scores, probs = finite_scores(candidates), _beliefs(candidates, "probs")
    fresh = known = _regression(candidates, probs)
    copies = np.zeros(len(probs), dtype=bool)
    for belief in _pending(candidates):
        known, copies = known.answered(belief), copies | _copies(probs, belief)
    first, chosen = fresh.gains(), list[int]()
    whole = np.where(first > 0, np.maximum(scores, 0), 0)
    while len(chosen) < size:
        whole[chosen] = 0
        gains = first if known is fresh else known.gains()
        left = np.divide(gains, first, out=np.zeros(len(probs)), where=first > 0)
        worth = whole * np.where(left > NOTHING, left, 0)
        if (worth[~copies] > 0).any():
            best = int(np.where(copies, 0, worth).argmax())
        elif (whole[~copies] > 0).any() and known is not fresh:  # k draws know no more than k things: begin again
            known = fresh
            continue
        elif (worth > 0).any():
            best = int(worth.argmax())
        else:
            return np.array(chosen + _rest(scores, chosen, copies)[: size - len(chosen)], dtype=np.intp)
        chosen.append(best)
        if len(chosen) < size:
            known, copies = known.answered(probs[best]), copies | _copies(probs, probs[best])
    return np.array(chosen, dtype=np.intp)


def _pending(candidates: Candidates) -> np.ndarray:
    """The beliefs about pending questions, [q, k, c]; q may be 0."""
    if candidates.pending is None or len(candidates.pending) == 0:
        return np.empty((0, 1, 1))
    return _beliefs(candidates, "pending")


def _beliefs(candidates: Candidates, of: str) -> np.ndarray:
    """`[n, k, c]`; of numbers [n, k, 2]: means and variances, in units of the candidates' labels."""
    found = getattr(candidates, of)
    if not isinstance(found, Moments) or not isinstance(candidates.probs, Moments):
        return beliefs(candidates, "joint", of=of)
    unit = float(variance(candidates.probs).mean()) or 1.0
    middle = float(candidates.probs.means.mean())
    return np.stack([(found.means - middle) / np.sqrt(unit), found.variances / unit], axis=2)


def _rest(scores: np.ndarray, chosen: list[int], copies: np.ndarray) -> list[int]:
    """All that were not chosen, by score; copies last."""
    order = np.lexsort((np.arange(len(scores)), -scores, copies))
    return [int(i) for i in order[~np.isin(order, chosen)]]


def _copies(probs: np.ndarray, belief: np.ndarray) -> np.ndarray:
    """Which candidates are the same to every draw as the one asked, as [n]."""
    alike = np.ones(len(probs), bool)
    for draws in (slice(0, 1), slice(0, FEW), slice(None)):  # few are left to look at
        alike[alike] = np.abs(probs[alike, draws] - belief[draws]).max(axis=(1, 2)) <= ALIKE
    return alike


# ---- the regression ------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _Regression:
    """What is known of f, and what that leaves of the candidates' labels; q = c - 1 numbers for a label."""

    coordinates: Callable[[np.ndarray], np.ndarray]  # beliefs -> u'
    u: np.ndarray  # u_i' [n, q, k]
    targets: np.ndarray  # G [k, k]
    known: np.ndarray  # A [k, a]
    left: np.ndarray  # W_i [n, q, q]
    told: np.ndarray  # H_i [n, q, q]

    def gains(self) -> np.ndarray:
        """gain(i|S) of all candidates, as [n]."""
        gains: np.ndarray = np.einsum("nab,nab->n", np.linalg.inv(self.left), self.told) / 2
        return gains

    def answered(self, belief: np.ndarray) -> "_Regression":
        """After the label of a question about which the draws believe `belief [k, c]`."""
        asked = self.coordinates(belief[None])[0].T  # [k, q]
        said = self.known.T @ asked
        root = np.linalg.cholesky((1 + RIDGE) * np.eye(asked.shape[1]) - said.T @ said)
        new = np.linalg.solve(root, (asked - self.known @ said).T).T  # N [k, q]
        ahead = self.targets @ new
        among, ahead = new.T @ ahead, ahead - self.known @ (self.known.T @ ahead)  # N' G N, R G N
        (n, q, k), b = self.u.shape, new.shape[1]
        both = (self.u.reshape(n * q, k) @ np.hstack([new, ahead])).reshape(n, q, 2 * b)
        explained = np.ascontiguousarray(both[:, :, :b])  # e
        change = explained @ (both[:, :, b:] - explained @ (among / 2)).transpose(0, 2, 1)  # e y'
        left = self.left - explained @ explained.transpose(0, 2, 1)
        told = self.told - change - change.transpose(0, 2, 1)
        return _Regression(self.coordinates, self.u, self.targets, np.hstack([self.known, new]), left, told)


def _regression(candidates: Candidates, probs: np.ndarray) -> _Regression:
    """The regression before any answer."""
    coordinates = _of_numbers if isinstance(candidates.probs, Moments) else _coordinates
    targets = coordinates(_beliefs(candidates, "target_probs"))
    (m, q, k), n = targets.shape, len(probs)
    root = (targets * np.sqrt(shares(candidates.weights, m))[:, None, None]).reshape(m * q, k)
    gram = root.T @ root  # [k, k]
    gram.flat[:: k + 1] += ROUNDING * (gram.trace() or 1.0)
    half = np.asfortranarray(np.linalg.cholesky(gram))  # G = L L'
    u, told = np.empty((n, q, k)), np.empty((n, q, q))
    for span in spans(n, TOGETHER):
        u[span] = coordinates(probs[span])
        # H_i = (u_i' L)(u_i' L)': the product with half a matrix, which is most of the work, takes half the time
        turned = dtrmm(1.0, half, u[span].reshape(-1, k).T, lower=1, trans_a=1).T.reshape(-1, q, k)
        told[span] = turned @ turned.transpose(0, 2, 1)
    left = np.broadcast_to((1 + RIDGE) * np.eye(q), (n, q, q))
    return _Regression(coordinates, u, gram, np.empty((k, 0)), left, told)


def _of_numbers(moments: np.ndarray) -> np.ndarray:
    """u' [n, 1, k]: the draws' means of labels that are numbers, standardised, over sqrt(k)."""
    means, variances = moments[..., 0], moments[..., 1]
    deviation = means - means.mean(axis=1, keepdims=True)
    whole = (deviation**2).sum(axis=1) + variances.sum(axis=1)  # k V[y]
    u: np.ndarray = (deviation / np.sqrt(np.maximum(whole, np.finfo(np.float64).tiny))[:, None])[:, None]
    return u


def _coordinates(probs: np.ndarray) -> np.ndarray:
    """u' [n, c-1, k]: the draws' means of the standardised labels, over sqrt(k).

    The one-hot label over sqrt(p) lies, centred, at right angles to r = sqrt(p). A reflection that takes r to the axis
    of the likeliest class a leaves c - 1 numbers: z_y - z_a r_y / (1 + r_a), y not a.
    """
    mean = probs.mean(axis=1)  # [n, c]
    order = np.argsort(mean, axis=1, kind="stable")  # the likeliest class last
    mean, each = np.take_along_axis(mean, order, axis=1)[:, :, None], np.arange(len(probs))[:, None]
    r = np.sqrt(mean)  # [n, c, 1]
    z = np.ascontiguousarray(probs.transpose(0, 2, 1))[each, order] - mean  # [n, c, k]
    np.divide(z, r, out=z, where=r > 0)
    u: np.ndarray = (z[:, :-1] - z[:, -1:] * (r[:, :-1] / (1 + r[:, -1:]))) / np.sqrt(probs.shape[1])
    return u if u.shape[1] <= DIRECTIONS else _strongest(u)


def _strongest(u: np.ndarray) -> np.ndarray:
    """Of each label the directions the draws differ most in, [n, ., k]: z may be turned: its covariance is I."""
    turned = []
    for one in u:
        values, vectors = np.linalg.eigh(one.T @ one)
        turned.append((vectors * np.sqrt(np.maximum(values, 0)))[:, -DIRECTIONS:].T)
    return np.ascontiguousarray(np.stack(turned))
