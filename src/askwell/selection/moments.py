"""A batch whose labels together tell most about the targets: greedy joint EPIG by moments of the labels.

A batch is worth mean_j I(y_1, ..., y_b; y*_j), and its exact value needs c^b outcomes (`exact.py`). The moments need
none. Write a label as c - 1 numbers z with mean 0 and covariance I (its one-hot form, standardised). Then
Cov(z_i, z_j) = u_i' u_j with u_i [k, c-1] the draws' means of z_i over sqrt(k), which is what a linear regression says:

    f ~ N(0, I_k),   z_i = u_i' f + noise_i,   Var(noise_i) = I - u_i' u_i

After the labels of S the covariance of f is R = I - A A', with c - 1 columns of A for every label, and half of the
targets' variance that one label more is expected to explain is

    gain(i|S) = 1/2 sum_j w_j tr[(u_j' R u_i) W_i^-1 (u_i' R u_j)],   W_i = I - u_i' A A' u_i,

half the mean chi-square where S is empty. Noise is in it: asking a noisy question again counts a little, a copy of a
sure one nothing. The gain serves as a discount of the score: a candidate is worth score_i gain(i|S) / gain(i|nothing),
so the first choice is the score's own. The targets enter through k x k numbers; a step costs O(n k c^2).
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from askwell.arrays import normalised_weights
from askwell.selection.candidates import Candidates, beliefs, finite_scores

__all__ = ["joint", "moment_gains"]

RIDGE = 1e-9  # of a label's variance 1, as if noise: what is known for sure would have no inverse
JITTER = 1e-12  # of the targets' matrix, for the same reason
NOTHING = 1e-6  # the share of its first gain below which a candidate has nothing left to tell
ALIKE = 1e-6  # how far two beliefs may differ and still be copies: more than float32 predictions of one input do
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
    scores, probs = finite_scores(candidates), beliefs(candidates, "joint", of="probs")
    fresh = known = _regression(candidates, probs)
    copies = np.zeros(len(probs), dtype=bool)
    for belief in _pending(candidates):
        known, copies = known.answered(belief), copies | _copies(probs, belief)
    first, chosen = fresh.gains(), list[int]()
    whole = np.where(first > 0, np.maximum(scores, 0), 0)
    while len(chosen) < size:
        whole[chosen] = 0
        left = np.divide(known.gains(), first, out=np.zeros(len(probs)), where=first > 0)
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
        known, copies = known.answered(probs[best]), copies | _copies(probs, probs[best])
    return np.array(chosen, dtype=np.intp)


def moment_gains(
    probs: np.ndarray, target_probs: np.ndarray, asked: np.ndarray, *, weights: np.ndarray | None = None
) -> np.ndarray:
    """gain(i|S) of candidates `probs [n, k, c]` after the labels of `asked [s, k, c]`, as [n].

    >>> split = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> moment_gains(split, split, split[:0]).round(6), moment_gains(split, split, split).round(6)
    (array([0.5]), array([0.]))
    """
    given = Candidates(np.zeros(len(probs)), probs, target_probs, weights, asked)
    known = _regression(given, beliefs(given, "joint", of="probs"))
    for belief in _pending(given):
        known = known.answered(belief)
    return known.gains()


# ---- the greedy ----------------------------------------------------------------------------------------------------


def _pending(candidates: Candidates) -> np.ndarray:
    """The beliefs about pending questions, [q, k, c]; q may be 0."""
    if candidates.pending is None or len(candidates.pending) == 0:
        return np.empty((0, 1, 1))
    return beliefs(candidates, "joint", of="pending")


def _rest(scores: np.ndarray, chosen: list[int], copies: np.ndarray) -> list[int]:
    """All that were not chosen, by score; copies last."""
    order = np.lexsort((np.arange(len(scores)), -scores, copies))
    return [int(i) for i in order[~np.isin(order, chosen)]]


def _copies(probs: np.ndarray, belief: np.ndarray) -> np.ndarray:
    """Which candidates are the same to every draw as the one asked, as [n]."""
    alike: np.ndarray = np.abs(probs[:, 0] - belief[0]).max(axis=1) <= ALIKE  # few are left to look at
    alike[alike] = [np.abs(one - belief).max() <= ALIKE for one in probs[alike]]
    return alike


# ---- the regression ------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _Regression:
    """What is known of f, and what that leaves of the candidates' labels; q = c - 1 numbers for a label."""

    u: np.ndarray  # u_i' [n, q, k]
    targets: np.ndarray  # [k, r]: times its transpose it is sum_j w_j u_j u_j'
    known: np.ndarray  # A [k, a]
    left: np.ndarray  # W_i [n, q, q]
    shared: np.ndarray  # u_i' R targets, [n, q, r]

    def gains(self) -> np.ndarray:
        """gain(i|S) of all candidates, as [n]."""
        gram = self.shared @ self.shared.transpose(0, 2, 1)  # [n, q, q]
        gains: np.ndarray = np.einsum("nab,nab->n", np.linalg.inv(self.left), gram) / 2
        return gains

    def answered(self, belief: np.ndarray) -> "_Regression":
        """After the label of a question about which the draws believe `belief [k, c]`."""
        asked = _coordinates(belief[None])[0].T  # [k, q]
        told = self.known.T @ asked
        root = np.linalg.cholesky((1 + RIDGE) * np.eye(asked.shape[1]) - told.T @ told)
        new = np.linalg.solve(root, (asked - self.known @ told).T).T  # [k, q]
        (n, q, k), r = self.u.shape, self.targets.shape[1]
        explained = self.u.reshape(n * q, k) @ new  # [n*q, q]
        shared = self.shared - (explained @ (new.T @ self.targets)).reshape(n, q, r)
        by_item = explained.reshape(n, q, -1)
        left = self.left - by_item @ by_item.transpose(0, 2, 1)
        return _Regression(self.u, self.targets, np.hstack([self.known, new]), left, shared)


def _regression(candidates: Candidates, probs: np.ndarray) -> _Regression:
    """The regression before any answer."""
    u = _coordinates(probs)
    targets = _coordinates(beliefs(candidates, "joint", of="target_probs"))
    (n, q, k), m = u.shape, targets.shape[0]
    w = normalised_weights(candidates.weights, m)
    root = targets * np.sqrt(np.full(m, 1 / m) if w is None else w)[:, None, None]
    root = root.reshape(m * q, k).T  # [k, m*q]
    if root.shape[1] > k and root.any():
        gram = root @ root.T  # singular, as the draws' deviations from their mean are
        root = np.linalg.cholesky(gram + JITTER * np.trace(gram) / k * np.eye(k))  # [k, k]
    left = np.broadcast_to((1 + RIDGE) * np.eye(q), (n, q, q))
    return _Regression(u, root, np.empty((k, 0)), left, (u.reshape(n * q, k) @ root).reshape(n, q, -1))


def _coordinates(probs: np.ndarray) -> np.ndarray:
    """u' [n, c-1, k]: the draws' means of the standardised labels, over sqrt(k).

    The one-hot label over sqrt(p) lies, centred, at right angles to r = sqrt(p). A reflection that takes r to the axis
    of the likeliest class a leaves c - 1 numbers: z_y - z_a r_y / (1 + r_a), y not a.
    """
    mean = probs.mean(axis=1)  # [n, c]
    order = np.argsort(mean, axis=1, kind="stable")  # the likeliest class last
    probs, mean = np.take_along_axis(probs, order[:, None, :], axis=2), np.take_along_axis(mean, order, axis=1)
    r = np.sqrt(mean)[:, None, :]
    z = np.divide(probs - mean[:, None, :], r, out=np.zeros_like(probs), where=r > 0)
    u = (z[:, :, :-1] - z[:, :, -1:] * (r[:, :, :-1] / (1 + r[:, :, -1:]))) / np.sqrt(probs.shape[1])
    u = u if u.shape[2] <= DIRECTIONS else _strongest(u)
    return np.ascontiguousarray(u.transpose(0, 2, 1))


def _strongest(u: np.ndarray) -> np.ndarray:
    """Of each label the directions the draws differ most in, [n, k, .]: z may be turned: its covariance is I."""
    turned = []
    for one in u:
        values, vectors = np.linalg.eigh(one @ one.T)
        turned.append((vectors * np.sqrt(np.maximum(values, 0)))[:, -DIRECTIONS:])
    return np.stack(turned)
