"""Bounds on EPIG: from below by any guess of the updated prediction, from above by any guess of the present one.

Both rest on Gibbs's inequality, E_p[log q] <= E_p[log p] for every density q. Write I = E[log p(y*|y) - log p(y*)] with
the expectation over p(y, y* | x, x*). Putting a q for p(y*|y) can only lower it (Barber and Agakov; the paper's
appendix); putting an r for p(y*) can only raise it. A mean over simulated outcomes keeps the bounds in expectation.
"""

from typing import Any

import numpy as np

from askwell.arrays import Array, check_probs, spans
from askwell.information.shapes import alike, check_rng, check_shape, refuse, target_weights

__all__ = ["lower_bound", "sandwich", "upper_bound"]

#: Numbers in one table of joint probabilities: 4 MiB of float64.
BLOCK = 2**19


def lower_bound(
    log_q: Array,
    *,
    log_marginal: Array | None = None,
    target_entropy: Array | None = None,
    weights: Array | None = None,
) -> Array:
    """Σ_j w_j (mean_s log q(y*_s | x*_j, x, y_s) + H[p(y*|x*_j)]) <= EPIG(x) in expectation, for any q: `[n]`.

    `log_q [n, m, s]` is the guess's log-probability of target outcome s after seeing candidate outcome s, one draw
    behind both. The entropy comes as `target_entropy [m]`, or by `log_marginal [m, s]` = log p(y*_s|x*), whose noise
    cancels much of that in log_q. Proof: EPIG(x) less this is Σ_j w_j E_y KL(p(y*|y) ‖ q(y*|y)) >= 0, and 0 for the
    true update: training q to raise the bound makes it tight. A q that rules out a simulated outcome gets -inf.

    >>> certain, guess = [[[0.0, 0.0]]], np.log([[0.5, 0.5]])  # y tells y* exactly, which was a coin: log 2
    >>> lower_bound(certain, log_marginal=guess)
    array([0.69314718])
    """
    if (log_marginal is None) == (target_entropy is None):
        raise ValueError("give either log_marginal [m, s] or target_entropy [m]; not both.")
    if log_marginal is not None:
        return _mean_gap(log_q, log_marginal, ("log_q", "log_marginal"), weights)
    xp, (log_q, entropy) = alike(log_q=log_q, target_entropy=target_entropy)
    check_shape("target_entropy", entropy, log_q.shape[1:2], "[m]")
    marginal = xp.broadcast_to(-entropy[:, None], log_q.shape[1:])
    return _mean_gap(log_q, marginal, ("log_q", "-target_entropy"), weights)


def upper_bound(log_conditional: Array, log_r: Array, *, weights: Array | None = None) -> Array:
    """Σ_j w_j mean_s (log p(y*_s|x*_j, z_s) - log r(y*_s|x*_j)) >= EPIG(x) in expectation, for any r: `[n]`.

    `log_conditional [n, m, s]` must be exact, and z_s hold all that y_s says of y*_s: (x, y_s) itself where the update
    is known in closed form, or the draw θ_s behind outcome s, which is always at hand. `log_r [m, s]` is any guess of
    the present prediction, made without the outcomes. Proof: y - z - y* is a Markov chain, so I(y; y*) <= I(z; y*),
    with equality for z = (x, y), and the expectation is I(z; y*) + KL(p(y*) ‖ r) >= I(z; y*). With z = θ it bounds the
    targets' own BALD, the same for every candidate: pass `[1, m, s]`.

    >>> upper_bound([[[0.0, 0.0]]], np.log([[0.5, 0.5]]))
    array([0.69314718])
    """
    return _mean_gap(log_conditional, log_r, ("log_conditional", "log_r"), weights)


def sandwich(
    probs: Array,
    target_probs: Array,
    *,
    rng: np.random.Generator,
    weights: Array | None = None,
    smoothing: float = 0.5,
) -> tuple[Array, Array]:
    """Bounds `(lower [n], upper [n])` on the EPIG of the posterior that `[n, k, c]` and `[m, k, c]` are drawn from.

    The draws are split at random into halves A and B, whose tables p̂(y, y*) are independent and unbiased:

        lower = H_all(y*) - CE_A(q_B(y*|y)),        upper = CE_A(r_B(y*)) - H_all(y*|y),

    averaged with A and B exchanged. Proof: the entropies H(y*) and H(y*|y) are concave in the table, so by Jensen those
    of all draws' table are low in expectation; a cross entropy is linear in A's table, so given B its expectation is
    that under p, and by Gibbs no less than H(y*|y) and H(y*). The draws must be independent of each other; the bounds
    hold in expectation, not in each split, and are wide below 100 draws. B's tables are shrunk by `smoothing` pseudo-
    draws, q towards r and r towards uniform, so that nothing is ruled out: any q and r that do not look at A will do.

    >>> votes = np.eye(2)[np.arange(200) % 2][None]  # 200 draws, each sure, half of them of either class
    >>> lower, upper = sandwich(votes, votes, rng=np.random.default_rng(0))
    >>> lower.round(3), upper.round(3)  # around log 2
    (array([0.688]), array([0.696]))
    """
    xp, (probs, target_probs) = check_probs(probs=probs, target_probs=target_probs)
    probs, target_probs = (xp.astype(a, xp.result_type(probs, target_probs), copy=False) for a in (probs, target_probs))
    (n, k, c), m = probs.shape, target_probs.shape[0]
    if k < 2 or not smoothing > 0:
        raise ValueError(f"a split needs two draws or more and smoothing > 0, but k = {k} and smoothing = {smoothing}.")
    check_rng(rng)
    w = target_weights(xp, probs, m, weights)
    order = xp.asarray(rng.permutation(k), device=probs.device)
    halves = order[: k // 2], order[k // 2 :]
    bounds = xp.zeros((2, n), dtype=probs.dtype, device=probs.device)
    for span in spans(n, max(1, BLOCK // (m * c * c))):
        a, b = (_table(xp, probs[span][:, half], target_probs[:, half]) for half in halves)
        size = k // 2, k - k // 2
        one, other = _split(xp, a, b, size[1], smoothing), _split(xp, b, a, size[0], smoothing)
        whole = (a * size[0] + b * size[1]) / k  # [r, m, c, c]
        label, target = xp.sum(whole, axis=3), xp.sum(whole, axis=2)
        known = _entropy(xp, xp.reshape(whole, (*whole.shape[:2], c * c))) - _entropy(xp, label)
        bounds[0, span] = (_entropy(xp, target) - (one[0] + other[0]) / 2) @ w
        bounds[1, span] = ((one[1] + other[1]) / 2 - known) @ w
    return bounds[0], bounds[1]


def _table(xp: Any, probs: Array, target_probs: Array) -> Array:
    """p̂(y, y*) `[r, m, c, c]` of every pair."""
    (r, k, c), m = probs.shape, target_probs.shape[0]
    left = xp.reshape(xp.permute_dims(probs, (0, 2, 1)), (r * c, k))
    right = xp.reshape(xp.permute_dims(target_probs, (1, 0, 2)), (k, m * c))
    return xp.permute_dims(xp.reshape(left @ right / k, (r, c, m, c)), (0, 2, 1, 3))


def _split(xp: Any, a: Array, b: Array, draws: int, smoothing: float) -> tuple[Array, Array]:
    """Cross entropies `[r, m]` under the table a of what the table b, made of `draws` draws, predicts."""
    r = (draws * xp.sum(b, axis=2) + smoothing / b.shape[3]) / (draws + smoothing)  # [r, m, c]
    label = xp.sum(b, axis=3, keepdims=True)
    q = (draws * b + smoothing * r[:, :, None, :]) / (draws * label + smoothing)  # [r, m, c, c]
    return -xp.sum(a * xp.log(q), axis=(2, 3)), -xp.sum(xp.sum(a, axis=2) * xp.log(r), axis=2)


def _entropy(xp: Any, p: Array) -> Array:
    return -xp.sum(p * xp.log(xp.where(p > 0, p, xp.ones_like(p))), axis=-1)


def _mean_gap(first: Array, second: Array, names: tuple[str, str], weights: Array | None) -> Array:
    """Σ_j w_j mean_s (first[n, m, s] - second[m, s])."""
    xp, (first, second) = alike(**dict(zip(names, (first, second), strict=True)))
    check_shape(names[0], first, (None, None, None), "[n, m, s]")
    check_shape(names[1], second, first.shape[1:], "[m, s]")
    if first.shape[2] == 0:
        raise ValueError(f"{names[0]} must hold at least one outcome, but its shape is {tuple(first.shape)}.")
    w = target_weights(xp, first, first.shape[1], weights)
    hint = "Log-probabilities are finite, or -inf where q is zero; a NaN points to the model."
    refuse(xp, names[0], first, ~(first < np.inf), "hold log-probabilities", hint)
    refuse(xp, names[1], second, ~xp.isfinite(second), "hold finite log-probabilities", hint)
    return (xp.mean(first, axis=2) - xp.mean(second, axis=1)) @ w
