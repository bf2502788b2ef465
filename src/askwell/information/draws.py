"""What a finite number of draws does to EPIG: a guard, corrected values and standard errors.

The plug-in estimate `epig` finds information even where there is none: about (c - 1)^2 / (2 k) nats for independent
hard votes, which for a forest of 100 trees and 11 classes is more than any real signal. It is still the score to
*select* with (docs/information.md has the trials); the functions here are for forecasts, stopping and honest reporting,
and `signal` tells whether there is anything to select on at all.
"""

import math
import warnings

import numpy as np

from askwell.arrays import Array, check_probs, normalised_weights, shares, spans, to_numpy
from askwell.information import moments
from askwell.information.bounds import forms, target_gram
from askwell.information.categorical import epig, like, pool_and_targets
from askwell.information.moments import Moments

__all__ = ["epig_corrected", "epig_error", "epig_quadratic", "signal"]

SAME = 1e-6  # relative difference of scores that are equal but for rounding
FAINT_SIGNAL = 1.5


def epig_corrected(
    probs: Array, target_probs: Array, *, weights: Array | None = None, rotations: int = 4, log: bool = False
) -> Array:
    """EPIG minus what chance alone would show: the mean EPIG with the targets' draws rotated against the pool's.

    Rotating keeps every prediction and breaks the pairing of draws, so what remains is the bias. Zero on average where
    labels are independent; where they are not it takes away too much, for forests 10 to 60 % of the value
    (docs/information.md). May be negative; costs 1 + `rotations` times `epig`. Draws must be exchangeable (trees,
    masks, independent samples).

    >>> from askwell.seeds import rng_for
    >>> votes = np.eye(3)[rng_for(0, 0, "votes").integers(0, 3, (200, 40))]     # independent: no information at all
    >>> epig(votes[:100], votes[100:]).mean().round(3), abs(epig_corrected(votes[:100], votes[100:]).mean().round(3))
    (np.float64(0.055), np.float64(0.0))
    """
    scores = epig(probs, target_probs, weights=weights, log=log)
    xp, (target_probs,) = check_probs(target_probs=target_probs, log=log, values=False)
    null = [
        epig(probs, xp.roll(target_probs, shift, axis=1), weights=weights, log=log)
        for shift in _shifts(target_probs.shape[1], rotations)
    ]
    return scores - sum(null) / len(null)


def epig_quadratic(probs: Array, target_probs: Array, *, weights: Array | None = None, log: bool = False) -> Array:
    """Half the mean chi-square between a candidate's label and the targets', without a draw meeting itself, as [n].

    EPIG ~ chi2 / 2 for weak dependence, and mean_j chi2 is a quadratic form sum_kl A_kl G_kl in the draws; leaving out
    its diagonal (a U-statistic) makes it zero on average where labels are independent. Elsewhere the marginals that it
    divides by are estimated by the same draws: for a forest it was 0.5 (k = 30) to 1.2 times (k = 1,000) EPIG's value.
    The cost does not depend on the number of targets. Use it to report and to screen huge pools; not where dependence
    is strong (it tends to (c - 1) / 2 instead of log c), and not to select with a forest on a curated pool. May be
    negative.

    >>> agree = [[0.6, 0.4], [0.6, 0.4], [0.4, 0.6], [0.4, 0.6]]
    >>> vague = [[0.5, 0.5]] * 4
    >>> epig_quadratic([agree, vague], [agree]).round(4)
    array([0.0007, 0.    ])
    """
    xp, probs, target_probs = pool_and_targets(probs, target_probs, log)
    k = _several_draws(probs.shape[1])
    gram = target_gram(target_probs, weights=normalised_weights(weights, target_probs.shape[0]), log=log)
    found = forms(probs, gram, log=log)  # [n, 3]
    full, diagonal, trace = found[:, 0], found[:, 1], found[:, 2]
    pairs = k * (k - 1)
    # Rows of A and G sum to zero, so the mean of their off-diagonal entries is minus the trace over the pairs.
    chi2 = (full - diagonal) / pairs - (trace / pairs) * (xp.sum(xp.linalg.diagonal(gram)) / pairs)
    return like(xp, probs, chi2 / 2)


def epig_error(probs: Array, target_probs: Array, *, weights: Array | None = None, log: bool = False) -> Array:
    """The standard error of `epig` due to the finite number of draws, as [n].

    By the infinitesimal jackknife: draw k moves the estimate by
    sum_j w_j sum_(y, y*) p_k(y) p_k(y*_j) log[p(y, y*_j) / (p(y) p(y*_j))] - EPIG, and the spread of these over draws,
    divided by k, is the variance. It covers noise, not the bias (see `epig_corrected`), and is too large for hard votes
    (docs/information.md). Costs about two `epig`.

    >>> epig_error([[[0.9, 0.1], [0.1, 0.9]]], [[[0.9, 0.1], [0.1, 0.9]]])
    array([0.])
    """
    xp, probs, target_probs = pool_and_targets(probs, target_probs, log)
    check_probs(probs=probs, target_probs=target_probs, log=log)
    (n, k, c), m = probs.shape, target_probs.shape[0]
    _several_draws(k)
    w = shares(weights, m)
    t = xp.exp(target_probs) if log else target_probs
    columns = xp.reshape(xp.permute_dims(like(xp, probs, t), (1, 0, 2)), (k, m * c))
    share = xp.mean(columns, axis=0)
    weighted = columns * like(xp, probs, np.repeat(w, c))  # [k, m*c]
    errors = [like(xp, probs, xp.zeros(0))]
    for span in spans(n, max(1, (1 << 20) // (c * c * m))):
        part = xp.exp(probs[span]) if log else probs[span]
        rows = xp.reshape(xp.permute_dims(part, (0, 2, 1)), (-1, k))  # [n*c, k]
        joint, product = (rows @ columns) / k, xp.mean(rows, axis=1)[:, None] * share
        ratio = xp.log(xp.where(joint > 0, joint / xp.where(joint > 0, product, 1), 1))  # [n*c, m*c]
        moved = xp.sum(xp.reshape(rows * (ratio @ weighted.T), (-1, c, k)), axis=1)  # [n, k]
        errors.append(xp.std(moved, axis=1) / math.sqrt(k - 1))
    return xp.concat(errors)


def signal(
    probs: Array,
    target_probs: Array,
    *,
    weights: Array | None = None,
    rotations: int = 2,
    candidates: int = 1000,
    warn: bool = True,
    log: bool = False,
) -> float:
    """Mean EPIG over the mean EPIG with rotated draws: how much more than chance the scores hold. 1 is nothing.

    About 4 for a sound pipeline, 1.0 to 1.2 for a forest of 100 trees, below 1 if pool and targets were predicted with
    different draws (ordinary dropout). Scores that are all the same rank nothing, whatever the draws share, and count
    as 1. Under 1.5 a warning says what to do, unless `warn=False`. Looks at no more than `candidates` inputs of the
    pool, evenly spaced.

    >>> votes = np.repeat(np.eye(2), 50, axis=0)[None]           # all draws sure, half of them for each class
    >>> round(signal(votes, votes, rotations=1, warn=False), 1)  # rotated by half: as dependent as before
    1.0
    """
    numbers = isinstance(probs, Moments)
    if not numbers:
        xp, probs, target_probs = pool_and_targets(probs, target_probs, log)
    k = _several_draws(probs.shape[1])
    if probs.shape[0] == 0:
        raise ValueError(f"probs must have at least one candidate to judge by, but its shape is {tuple(probs.shape)}.")
    probs = probs[:: max(1, -(-probs.shape[0] // candidates))]
    scores, *nulls = (
        to_numpy(
            moments.epig(probs, target_probs.rolled(shift), weights=weights)
            if numbers
            else epig(probs, xp.roll(target_probs, shift, axis=1), weights=weights, log=log)
        )
        for shift in (0, *_shifts(k, rotations))
    )
    found, chance = float(scores.mean()), sum(float(null.mean()) for null in nulls) / len(nulls)
    if probs.shape[0] > 1 and found > 0 and float(scores.max() - scores.min()) <= SAME * float(scores.max()):
        if warn:
            warnings.warn(_equal(found), stacklevel=2)
        return 1.0
    ratio = found / chance if chance > 0 else 1.0 if found == 0 else math.inf
    if warn and ratio < FAINT_SIGNAL:
        warnings.warn(_faint(ratio, k), stacklevel=2)
    return ratio


def _equal(score: float) -> str:
    return (
        f"the EPIG scores are all the same, {score:.3g}: they do not tell one candidate from another. Usual cause: "
        "draws that are constants and differ in the shares of the classes only, because there are too few labels for "
        "a first split (HistGradientBoosting and LightGBM want 20 labels in a leaf: try min_samples_leaf=2)."
    )


def _faint(ratio: float, k: int) -> str:
    return (
        f"the EPIG scores are {ratio:.2f} times what unrelated draws would give (1 is chance, a sound pipeline has 2 "
        f"to 5). Usual causes: too few draws for hard votes (k = {k}; try several times as many trees), or pool and "
        "targets predicted with different draws (ordinary dropout draws a new mask for every call: predict both with "
        "the same posterior). "
        "If the model is simply sure of all targets, there is little left to learn."
    )


def _several_draws(k: int) -> int:
    if k < 2:
        raise ValueError(
            f"probs must have at least two draws to judge by, but k = {k}. One draw knows no uncertainty: use an "
            "ensemble, a forest, dropout or a Bayesian model."
        )
    return k


def _shifts(k: int, rotations: int) -> list[int]:
    """Rotations of k draws, evenly spread and none of them whole."""
    if rotations < 1:
        raise ValueError(f"rotations must be at least 1, but it is {rotations}.")
    _several_draws(k)
    return sorted({min(k - 1, max(1, round(k * r / (rotations + 1)))) for r in range(1, rotations + 1)})
