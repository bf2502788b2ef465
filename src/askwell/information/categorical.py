"""Scores for labels from a list of classes, from beliefs `probs [n, k, c]`: inputs x posterior draws x classes.

p(y|x) is the mean of p(y|x, theta_k) over the draws, p(y, y*|x, x*) the mean of their products. All scores are in nats,
none is negative, higher means ask first, and all take log-probabilities with `log=True` (-inf allowed). Draw k of the
pool must be the same parameters as draw k of the targets. Beliefs of draws that are sure may come as `Votes`.
"""

from typing import Any

import numpy as np

from askwell.arrays import Array, as_numpy, check_alike, check_probs, normalised_weights, shares, spans
from askwell.information._kernels import hot_loop, plain
from askwell.information.votes import Votes

__all__ = ["bald", "entropy", "epig", "least_confidence", "margin", "pairwise_epig"]

ENTRIES = 1 << 21  # of a joint table at a time, where the hot loop does not serve
SECONDS = 1e-7  # that NumPy takes for a number of `bald` ...
MEAN_SECONDS = 3e-9  # ... and of a mean over draws


def entropy(probs: Array, *, log: bool = False) -> Array:
    """H[p(y|x)] = -sum_y p(y|x) log p(y|x) for `probs [n, k, c]`, as [n].

    >>> entropy([[[0.5, 0.5]], [[1.0, 0.0]]])
    array([0.69314718, 0.        ])
    """
    xp, probs, marginal = _marginal(probs, log)
    return like(xp, probs, _entropy(xp, marginal))


def margin(probs: Array, *, class_weights: Array | None = None, log: bool = False) -> Array:
    """1 - (p_first - p_second), the closeness of the two most probable classes, for `probs [n, k, c]`, as [n].

    `class_weights [c] >= 0` of any scale say what a wrong prediction of a class costs. The class to predict then is
    that with the highest w(y) p(y), and w(y) p(y) / Z with Z = sum_y w(y) p(y) takes the place of p(y). Where no class
    that costs anything is possible the margin is 0.

    >>> margin([[[0.7, 0.2, 0.1]]])
    array([0.5])
    >>> margin([[[0.9, 0.1]]], class_weights=[1.0, 9.0])
    array([1.])
    """
    xp, probs, marginal = _marginal(probs, log)
    if class_weights is not None:
        costs = normalised_weights(class_weights, marginal.shape[-1], name="class_weights", each="class")
        marginal = marginal * like(xp, marginal, xp.asarray(costs))
        total = xp.sum(marginal, axis=-1, keepdims=True)
        first = xp.asarray(np.arange(marginal.shape[-1]) == 0, dtype=marginal.dtype, device=marginal.device)
        marginal = xp.where(total > 0, marginal / xp.where(total > 0, total, 1), first)
    if marginal.shape[-1] == 1:
        return like(xp, probs, xp.zeros_like(marginal[:, 0]))
    ranked = xp.sort(marginal, axis=-1)
    return like(xp, probs, 1 - (ranked[:, -1] - ranked[:, -2]))


def least_confidence(probs: Array, *, log: bool = False) -> Array:
    """1 - max_y p(y|x), the variation ratio of the mean prediction, for `probs [n, k, c]`, as [n].

    >>> least_confidence([[[0.75, 0.25], [0.25, 0.75]]])
    array([0.5])
    """
    xp, probs, marginal = _marginal(probs, log)
    return like(xp, probs, xp.clip(1 - xp.max(marginal, axis=-1), 0.0, None))


def bald(probs: Array, *, log: bool = False) -> Array:
    """BALD(x) = H[p(y|x)] - mean_k H[p(y|x, theta_k)], the information a label gives about the parameters, as [n].

    Computed as mean_k KL[p(y|x, theta_k) || p(y|x)], which no rounding makes negative.

    >>> bald([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    array([0.69314718, 0.        ])
    """
    if isinstance(probs, Votes):  # whose draws have no entropy of their own
        return entropy(probs)
    xp, (probs,) = check_probs(probs=probs, log=log, values=False)
    host = as_numpy(probs)
    if host is not None and (fast := hot_loop(seconds=SECONDS * host.size)) is not None:
        scores = [fast.bald(part) for _, part in fast.parts(host, log=log, kinds=True)]
        return like(xp, probs, np.concatenate([np.empty(0), *scores]))
    check_probs(probs=probs, log=log)
    found = [_divergence(xp, *_centred(xp, _plain(xp, probs[span], log))) for span in _candidate_spans(probs, 1)]
    return xp.concat(found) if found else xp.zeros_like(probs[:, 0, 0])


def epig(
    probs: Array,
    target_probs: Array,
    *,
    weights: Array | None = None,
    class_weights: Array | None = None,
    log: bool = False,
) -> Array:
    """EPIG(x) = mean_j I(y; y*_j | x, x*_j): what a candidate's label is expected to tell about the targets' labels.

    The mean over targets of KL[p(y, y*) || p(y) p(y*)] with p the mean over draws (the paper's estimator for
    classification). Candidates `probs [n, k, c]`, targets `target_probs [m, k, c]`, as [n]. `weights [m] >= 0` of any
    scale make it a weighted mean. The memory used does not grow with n or m. Scores of equal inputs are equal to the
    bit, in any company.

    `class_weights [c] >= 0` of any scale say what a wrong prediction of a class costs: the score is then the expected
    decrease of the weighted log loss -w(y*) log q(y*) on the targets. With q_j(y, y*) = p(y, y*) w(y*) / Z_j and
    Z_j = sum_y* p(y*) w(y*), that is mean_j Z_j I_qj(y; y*) / mean_j Z_j; equal weights change nothing.

    >>> alike, unlike = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]
    >>> epig([alike, unlike], [alike])
    array([0.69314718, 0.        ])
    >>> epig([alike, unlike], [alike], class_weights=[1.0, 50.0])
    array([0.09650896, 0.        ])
    """
    if class_weights is not None:
        xp, probs, target_probs = pool_and_targets(_array(probs), _array(target_probs), log)
        candidates, labels, hidden, z = _costly(xp, probs, target_probs, class_weights, log)
        w = normalised_weights(weights, z.shape[0])
        mean_z = xp.mean(z) if w is None else z @ like(xp, z, xp.asarray(w))  # 0 if no target's class costs anything
        told = epig(candidates, labels, weights=weights) - epig(candidates, hidden, weights=weights)
        return like(xp, probs, xp.clip(told / xp.where(mean_z > 0, mean_z, 1), 0.0, None))
    if isinstance(probs, Votes) and isinstance(target_probs, Votes):
        return _epig_of_votes(probs, target_probs, weights)
    xp, probs, target_probs = pool_and_targets(probs, target_probs, log)
    w = shares(weights, target_probs.shape[0])
    host, host_targets = as_numpy(probs), as_numpy(target_probs)
    if 0 in probs.shape or probs.shape[2] == 1:
        check_probs(probs=probs, target_probs=target_probs, log=log)
        return xp.zeros_like(probs[:, 0, 0])
    if host is not None and host_targets is not None:
        if (fast := hot_loop(seconds=plain.seconds(len(host), *host_targets.shape))) is None:
            check_probs(probs=probs, target_probs=target_probs, log=log)
            return like(xp, probs, plain.epig(_plain(np, host, log), _plain(np, host_targets, log), w))
        scores = np.zeros(host.shape[0])
        for pack in fast.packs(host_targets, w, host.dtype, log=log):
            for span, part in fast.parts(host, packed=[pack], log=log):
                fast.add_scores(part, [pack], scores[span])
        return like(xp, probs, scores)
    weights = like(xp, probs, xp.asarray(w))
    tiles = _pair_tiles(xp, probs, target_probs, log)
    return xp.concat([sum(pairs @ weights[span] for span, pairs in row) for row in tiles])


def pairwise_epig(probs: Array, target_probs: Array, *, class_weights: Array | None = None, log: bool = False) -> Array:
    """I(y; y* | x, x*) of every candidate `probs [n, k, c]` and target `target_probs [m, k, c]`, as [n, m].

    Its mean over targets is `epig`, also with `class_weights [c]`: then it is Z_j I_qj(y; y*) / mean_j Z_j. A row says
    which predictions a question would inform.

    >>> sure, split = [[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]
    >>> pairwise_epig([split], [sure, split])
    array([[0.        , 0.69314718]])
    """
    if class_weights is not None:
        xp, probs, target_probs = pool_and_targets(_array(probs), _array(target_probs), log)
        candidates, labels, hidden, z = _costly(xp, probs, target_probs, class_weights, log)
        told = pairwise_epig(candidates, labels) - pairwise_epig(candidates, hidden)
        return like(xp, probs, xp.clip(told / xp.where(xp.mean(z) > 0, xp.mean(z), 1), 0.0, None))
    if isinstance(probs, Votes) and isinstance(target_probs, Votes):
        return _pairs_of_votes(probs, target_probs)
    xp, probs, target_probs = pool_and_targets(probs, target_probs, log)
    host, host_targets = as_numpy(probs), as_numpy(target_probs)
    if 0 in probs.shape or probs.shape[2] == 1:
        check_probs(probs=probs, target_probs=target_probs, log=log)
        return xp.zeros_like(probs[:, 0, :1] + target_probs[None, :, 0, 0])
    if host is not None and host_targets is not None:
        if (fast := hot_loop(seconds=plain.seconds(len(host), *host_targets.shape))) is None:
            check_probs(probs=probs, target_probs=target_probs, log=log)
            return like(xp, probs, plain.pairwise_epig(_plain(np, host, log), _plain(np, host_targets, log)))
        pairs = np.empty((host.shape[0], host_targets.shape[0]), host.dtype)
        for pack in fast.packs(host_targets, None, host.dtype, log=log):
            for span, part in fast.parts(host, packed=[pack], log=log):
                fast.fill_pairs(part, [pack], pairs[span])
        return like(xp, probs, pairs)
    tiles = _pair_tiles(xp, probs, target_probs, log)
    return xp.concat([xp.concat([pairs for _, pairs in row], axis=1) for row in tiles])


def like(xp: Any, probs: Array, scores: Array) -> Array:
    """The scores in the library, on the device and of the dtype of `probs`."""
    return xp.asarray(scores, dtype=probs.dtype, device=probs.device)


def pool_and_targets(probs: Array, target_probs: Array, log: bool) -> tuple[Any, Array, Array]:
    """The namespace and both beliefs, shapes checked, values not yet; no targets are refused."""
    xp, (probs, target_probs) = check_probs(probs=probs, target_probs=target_probs, log=log, values=False)
    _need_targets(target_probs)
    return xp, probs, target_probs


def _need_targets(target_probs: Array) -> None:
    if target_probs.shape[0] == 0:
        raise ValueError(
            "target_probs must have at least one target, but its shape is "
            f"{tuple(target_probs.shape)}. EPIG asks what a label tells about *other* predictions: give it a sample of "
            "the inputs the model will meet, or predictions of part of the pool."
        )


def _marginal(probs: Array, log: bool) -> tuple[Any, Array, Array]:
    """The namespace, the beliefs, and p(y|x) = mean_k p(y|x, theta_k) as float64 [n, c]."""
    if isinstance(probs, Votes):
        return np, probs, vote_shares(probs)
    xp, (probs,) = check_probs(probs=probs, log=log, values=False)
    host = as_numpy(probs)
    if host is not None and host.size and (fast := hot_loop(seconds=MEAN_SECONDS * host.size)) is not None:
        means = [part.means for _, part in fast.parts(host, log=log)]
        return xp, probs, xp.asarray(np.concatenate(means))
    check_probs(probs=probs, log=log)
    return xp, probs, xp.sum(_plain(xp, probs, log), axis=1, dtype=xp.float64) / probs.shape[1]


def vote_shares(votes: Votes) -> np.ndarray:
    """p(y|x) = mean_k p(y|x, theta_k) of votes, as float64 [n, c]."""
    fast = hot_loop(seconds=MEAN_SECONDS * votes.codes.size * votes.classes)
    shares: np.ndarray = (votes.counts if fast is None else fast.vote_counts(votes)) / votes.shape[1]
    return shares


def _entropy(xp: Any, marginal: Array) -> Array:
    safe = xp.where(marginal > 0, marginal, 1)
    return xp.clip(-xp.sum(marginal * xp.log(safe), axis=-1), 0.0, None)


def _epig_of_votes(votes: Votes, targets: Votes, weights: Array | None) -> np.ndarray:
    """`epig` by counting."""
    check_alike({"probs": votes, "target_probs": targets})
    _need_targets(targets)
    w = shares(weights, len(targets))
    if (fast := hot_loop(seconds=plain.seconds(len(votes), *targets.shape))) is None:
        return plain.epig(np.asarray(votes), np.asarray(targets), w).astype(votes.dtype)
    scores = np.zeros(len(votes))
    for _, pack in fast.vote_packs(targets, w):
        fast.add_vote_scores(votes, pack, scores)
    return scores.astype(votes.dtype)


def _pairs_of_votes(votes: Votes, targets: Votes) -> np.ndarray:
    """`pairwise_epig` by counting."""
    check_alike({"probs": votes, "target_probs": targets})
    _need_targets(targets)
    if (fast := hot_loop(seconds=plain.seconds(len(votes), *targets.shape))) is None:
        return plain.pairwise_epig(np.asarray(votes), np.asarray(targets)).astype(votes.dtype)
    pairs = np.empty((len(votes), len(targets)), votes.dtype)
    for span, pack in fast.vote_packs(targets, np.zeros(len(targets))):
        pairs[:, span] = fast.vote_pairs(votes, pack)[:, : span.stop - span.start]
    return pairs


# ---- the same mathematics for arrays that live elsewhere, on a graphics card ----------------------------


def _plain(xp: Any, part: Array, log: bool) -> Array:
    return xp.exp(part) if log else part


def _candidate_spans(probs: Array, targets: int) -> list[slice]:
    classes = probs.shape[2]
    return list(spans(probs.shape[0], max(1, ENTRIES // (classes * max(classes * targets, probs.shape[1])))))


def _centred(xp: Any, probs: Array) -> tuple[Array, Array, Array]:
    """p_k(y), p_k(y) - p(y) and p(y), as [n, k, c], [n, k, c] and [n, c]; exactly centred where the draws agree."""
    marginal = probs[:, 0, :] + xp.mean(probs - probs[:, :1, :], axis=1)
    centred = probs - marginal[:, None, :]
    return probs, centred - xp.mean(centred, axis=1, keepdims=True), marginal


def _phi(xp: Any, t: Array, u: Array) -> Array:
    """t log t - u for t = 1 + u >= 0, by a series of u near 0, where the plain form would cancel."""
    series = xp.zeros_like(u)
    for n in range(16, 1, -1):
        series = series * -u + 1 / (n * (n - 1))
    return xp.where(xp.abs(u) < 0.1, u * u * series, t * xp.log(xp.where(t > 0, t, 1)) - (t - 1))


def _ratio(xp: Any, numerator: Array, share: Array) -> Array:
    """numerator / share, 0 where the share is too small to divide by."""
    least = xp.finfo(share.dtype).smallest_normal
    return xp.where(share > least, numerator / xp.where(share > least, share, 1), 0)


def _divergence(xp: Any, probs: Array, centred: Array, marginal: Array) -> Array:
    """mean_k sum_y p(y) phi((p_k(y) - p(y)) / p(y)) as [n]."""
    share = marginal[:, None, :]
    terms = share * _phi(xp, _ratio(xp, probs, share), _ratio(xp, centred, share))  # [n, k, c]
    return xp.mean(xp.sum(terms, axis=-1), axis=-1)


def _array(beliefs: Array) -> Array:
    return np.asarray(beliefs) if isinstance(beliefs, Votes) else beliefs


def _costly(xp: Any, probs: Array, target_probs: Array, class_weights: Array, log: bool) -> tuple[Array, ...]:
    """(beliefs of one class more, three times, and Z [m] over the highest cost): what labels tell if errors have costs.

    A target's label y* is seen with probability w(y*) / max w, else it is the class more, "hidden". Whether it is
    hidden is a label h too. By the chain rule I(y; y* or hidden) = I(y; h) + Z / max w I_q(y; y*), where q is believed
    of labels that are seen, p(y, y*) w(y*) / Z. The beliefs are float64, of candidates, of y* or hidden, and of h.
    """
    check_probs(probs=probs, target_probs=target_probs, log=log)
    costs = normalised_weights(class_weights, probs.shape[2], name="class_weights", each="class")
    assert costs is not None
    probs, target_probs = (xp.astype(_plain(xp, each, log), xp.float64) for each in (probs, target_probs))
    seen = target_probs * like(xp, target_probs, xp.asarray(costs / costs.max()))
    either = xp.sum(seen, axis=2, keepdims=True)  # [m, k, 1]
    hidden, none = xp.clip(1 - either, 0.0, 1.0), xp.zeros_like(target_probs[:, :, 1:])
    return (
        xp.concat([probs, xp.zeros_like(probs[:, :, :1])], axis=2),
        xp.concat([seen, hidden], axis=2),
        xp.concat([1 - hidden, none, hidden], axis=2),
        xp.mean(either[:, :, 0], axis=1),
    )


def _pair_tiles(xp: Any, probs: Array, target_probs: Array, log: bool) -> Any:
    """For each span of candidates an iterator of (span of targets, information [candidates, targets])."""
    check_probs(probs=probs, target_probs=target_probs, log=log)
    target_probs = like(xp, probs, target_probs)
    target_spans = list(spans(target_probs.shape[0], 128))
    packed = [_centred(xp, _plain(xp, target_probs[to], log)) for to in target_spans]
    for span in _candidate_spans(probs, min(128, target_probs.shape[0])):
        part = _centred(xp, _plain(xp, probs[span], log))
        yield ((to, _pair_information(xp, part, targets)) for to, targets in zip(target_spans, packed, strict=True))


def _pair_information(xp: Any, part: tuple[Array, ...], target: tuple[Array, ...]) -> Array:
    """sum_(y, y*) q phi(delta / q) with q = p(y) p(y*) and delta = p(y, y*) - q, as [n, m].

    Two products: p(y, y*), precise where it is nearly 0, and delta, precise where *it* is nearly 0.
    """
    (n, k, c), m = part[0].shape, target[0].shape[0]
    joint, delta = (
        xp.reshape(
            xp.reshape(xp.permute_dims(rows, (0, 2, 1)), (n * c, k))
            @ xp.reshape(xp.permute_dims(columns, (1, 0, 2)), (k, m * c))
            / k,
            (n, c, m, c),
        )
        for rows, columns in zip(part[:2], target[:2], strict=True)
    )
    q = part[2][:, :, None, None] * target[2][None, None, :, :]  # [n, c, m, c]
    return xp.sum(q * _phi(xp, _ratio(xp, joint, q), _ratio(xp, delta, q)), axis=(1, 3))
