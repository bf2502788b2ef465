"""Beliefs to test with, and the slow truths: every score once more in float64, with loops, from its definition."""

import math

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from askwell.seeds import rng_for

PROPERTY = settings(derandomize=True, deadline=None, max_examples=40)
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}  # nats

# ---- beliefs [n, k, c], of float64 ---------------------------------------------------------------------------------


def softmax(logits):
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def soft(rng, n, k, c, scale=1.0):
    """Predictions that lean, each draw its own way."""
    return softmax(scale * rng.normal(size=(n, k, c)))


def linear(rng, n, m, k, c, scale=1.0, features=5):
    """Pool and targets of a Bayesian softmax regression: the same k weight matrices for all inputs."""
    weights = rng.normal(size=(k, features, c))  # [k, f, c]
    x = rng.normal(size=(n + m, features))
    probs = softmax(scale * np.einsum("nf,kfc->nkc", x, weights))
    return probs[:n], probs[n:]


def uniform(rng, n, k, c):
    return np.full((n, k, c), 1 / c)


def votes(labels, c, top=1.0):
    """Every draw gives `top` to its label [n, k] and shares the rest out evenly."""
    rest = (1 - top) / max(c - 1, 1)
    return np.where(np.eye(c, dtype=bool)[labels], top, rest)


def hard(rng, n, k, c):
    return votes(rng.integers(0, c, (n, k)), c)


def confident(rng, n, k, c):
    return votes(rng.integers(0, c, (n, k)), c, top=0.999999)


def coupled_labels(rng, n, k, c, noise=0.05):
    """Labels [n, k] that one hidden label per draw decides, named differently by each input, a few of them wrong."""
    hidden = rng.integers(0, c, k)
    named = np.stack([rng.permutation(c)[hidden] for _ in range(n)])
    return np.where(rng.random((n, k)) < noise, rng.integers(0, c, (n, k)), named)


def hard_coupled(rng, n, k, c):
    return votes(coupled_labels(rng, n, k, c), c)


def confident_coupled(rng, n, k, c):
    return votes(coupled_labels(rng, n, k, c), c, top=0.999999)


def peaked(rng, n, k, c):
    """Few classes with any probability to speak of: many numbers too small for float32."""
    return rng.dirichlet(np.full(c, 0.02), size=(n, k))


def agreeing(rng, n, k, c):
    """All draws say the same."""
    return np.repeat(soft(rng, n, 1, c), k, axis=1)


def mixed(rng, n, k, c):
    """Inputs of every kind side by side."""
    each = [kind(rng, n, k, c) for kind in (soft, hard_coupled, confident_coupled, hard, peaked, agreeing, uniform)]
    return np.stack(each)[rng.integers(0, len(each), n), np.arange(n)]


KINDS = {
    kind.__name__: kind
    for kind in (soft, uniform, hard, hard_coupled, confident, confident_coupled, peaked, agreeing, mixed)
}


def pool_and_targets(kind, n, m, k, c, *, seed=0, dtype="float64"):
    """Beliefs of one kind, made in one go, so that what couples inputs couples pool and targets, too."""
    both = KINDS[kind](rng_for(seed, 0, kind), n + m, k, c).astype(dtype)
    return both[:n].copy(), both[n:].copy()


@st.composite
def worlds(draw, kinds=tuple(KINDS), dtypes=("float32", "float64"), most_classes=20, least_draws=1):
    """(probs, target_probs, weights or None) of any kind, size and dtype."""
    n, m = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    k, c = draw(st.integers(least_draws, 30)), draw(st.integers(2, most_classes))
    seed, kind, dtype = draw(st.integers(0, 10**6)), draw(st.sampled_from(kinds)), draw(st.sampled_from(dtypes))
    probs, targets = pool_and_targets(kind, n, m, k, c, seed=seed, dtype=dtype)
    weights = draw(st.none() | st.lists(st.integers(0, 4), min_size=m, max_size=m).filter(any))
    return probs, targets, weights


# ---- the slow truths: loops, float64 -------------------------------------------------------------------------------


def shares(weights, m):
    w = np.ones(m) if weights is None else np.asarray(weights, np.float64)
    return w / w.sum()


def slow_entropy(probs):
    scores = []
    for belief in probs.astype(np.float64):
        total = 0.0
        for y in range(belief.shape[1]):
            p = math.fsum(belief[:, y]) / len(belief)
            total -= p * math.log(p) if p > 0 else 0.0
        scores.append(total)
    return np.array(scores)


def slow_margin(probs):
    scores = []
    for belief in probs.astype(np.float64):
        ranked = sorted(math.fsum(column) / len(belief) for column in belief.T)
        scores.append(1 - (ranked[-1] - ranked[-2]))
    return np.array(scores)


def slow_least_confidence(probs):
    return np.array([1 - max(math.fsum(c) / len(belief) for c in belief.T) for belief in probs.astype(np.float64)])


def slow_bald(probs):
    """Entropy of the mean minus the mean of the entropies."""
    scores = []
    for belief, whole in zip(probs.astype(np.float64), slow_entropy(probs), strict=True):
        inner = [-math.fsum(p * math.log(p) for p in draw if p > 0) for draw in belief]
        scores.append(whole - math.fsum(inner) / len(belief))
    return np.array(scores)


def slow_pairs(probs, target_probs):
    """KL[p(y, y*) || p(y) p(y*)] of every pair: the paper's formula, a loop for every index but the draw's."""
    probs, target_probs = probs.astype(np.float64), target_probs.astype(np.float64)
    pairs = np.zeros((len(probs), len(target_probs)))
    for i, belief in enumerate(probs):
        for j, target in enumerate(target_probs):
            for y in range(belief.shape[1]):
                for y_star in range(target.shape[1]):
                    joint = np.mean(belief[:, y] * target[:, y_star])
                    if joint > 0:
                        product = np.mean(belief[:, y]) * np.mean(target[:, y_star])
                        pairs[i, j] += joint * math.log(joint / product)
    return pairs


def slow_epig(probs, target_probs, weights=None):
    pairs, w = slow_pairs(probs, target_probs), shares(weights, len(target_probs))
    return np.array([sum(w[j] * row[j] for j in range(len(w))) for row in pairs])


def reference_pairs(probs, target_probs):
    """`slow_pairs` with one matrix product per candidate, for more inputs than loops can bear (tested against it)."""
    probs, target_probs = probs.astype(np.float64), target_probs.astype(np.float64)
    m, k, c = target_probs.shape
    columns = target_probs.transpose(1, 0, 2).reshape(k, m * c)
    pairs = np.zeros((len(probs), m))
    for i, belief in enumerate(probs):
        joint = belief.T @ columns / k  # [c, m*c]
        product = belief.mean(0)[:, None] * columns.mean(0)
        ratio = np.where(joint > 0, joint, 1) / np.where(joint > 0, product, 1)
        pairs[i] = (joint * np.log(ratio)).reshape(c, m, c).sum((0, 2))
    return pairs


def reference_epig(probs, target_probs, weights=None):
    return reference_pairs(probs, target_probs) @ shares(weights, len(target_probs))


def slow_chi2(probs, target_probs, weights=None):
    """sum_j w_j sum_(y, y*) (p(y, y*) - p(y) p(y*))^2 / (p(y) p(y*)) as [n]."""
    probs, target_probs = probs.astype(np.float64), target_probs.astype(np.float64)
    w, scores = shares(weights, len(target_probs)), np.zeros(len(probs))
    for i, belief in enumerate(probs):
        for j, target in enumerate(target_probs):
            for y in range(belief.shape[1]):
                for y_star in range(target.shape[1]):
                    product = np.mean(belief[:, y]) * np.mean(target[:, y_star])
                    if product > 0:
                        delta = np.mean(belief[:, y] * target[:, y_star]) - product
                        scores[i] += w[j] * delta**2 / product
    return scores


def slow_quadratic(probs, target_probs, weights=None):
    """The U-statistic over pairs of different draws, uncentred, as methods.md has it, halved."""
    probs, target_probs = probs.astype(np.float64), target_probs.astype(np.float64)
    w, draws = shares(weights, len(target_probs)), probs.shape[1]

    def alike(belief, k, other):
        means = belief.mean(0)
        return sum(belief[k, y] * belief[other, y] / means[y] for y in range(len(means)) if means[y] > 0)

    scores = []
    for belief in probs:
        both = mean_a = mean_g = 0.0
        for k in range(draws):
            for other in range(draws):
                if k != other:
                    a = alike(belief, k, other)
                    g = sum(w[j] * alike(target_probs[j], k, other) for j in range(len(w)))
                    both, mean_a, mean_g = both + a * g, mean_a + a, mean_g + g
        pairs = draws * (draws - 1)
        scores.append((both / pairs - mean_a / pairs * (mean_g / pairs)) / 2)
    return np.array(scores)
