"""The bounds hold: in closed form for Gaussians, in expectation over splits for worlds with known information."""

import math

import numpy as np
import pytest
import torch

from askwell.information import variational


def log_normal(y, mean, variance):
    return -0.5 * ((y - mean) ** 2 / variance + np.log(2 * math.pi * variance))


def simulated(rho, s, seed=0):
    """Pairs (θ, y, y*) with y = θ + noise and y* = θ + noise*, all variances such that corr(y, y*) = rho."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=s)
    noise = 1 / rho - 1
    y, star = (theta + math.sqrt(noise) * rng.normal(size=s) for _ in range(2))
    return theta, y, star, noise, -0.5 * math.log1p(-(rho**2))


def world(c, conc, seed, values=6):
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.full(c, conc), size=(1, values)) for _ in range(2))
    prior = rng.dirichlet(np.full(values, 2.0))
    joint = np.einsum("k,ky,kz->yz", prior, p[0], q[0])
    return p, q, prior, float(np.sum(joint * np.log(joint / np.outer(joint.sum(1), joint.sum(0)))))


def slow_sandwich(a, b, c, smoothing):
    """One pair; `a`, `b` are lists of (p, q) of the two halves."""

    def table(half):
        return sum(np.outer(p, q) for p, q in half) / len(half)

    def entropy(p):
        return -sum(x * math.log(x) for x in np.ravel(p) if x > 0)

    whole, lower, upper = table([*a, *b]), 0.0, 0.0
    for one, other in ((a, b), (b, a)):
        t, k = table(other), len(other)
        r = [(k * t[:, z].sum() + smoothing / c) / (k + smoothing) for z in range(c)]
        for y in range(c):
            for z in range(c):
                q = (k * t[y, z] + smoothing * r[z]) / (k * t[y].sum() + smoothing)
                lower += table(one)[y, z] * math.log(q) / 2
                upper -= table(one)[y, z] * math.log(r[z]) / 2
    return entropy(whole.sum(0)) + lower, upper - entropy(whole) + entropy(whole.sum(1))


@pytest.mark.parametrize("rho", [0.2, 0.7])
def test_gaussian_bounds(rho):
    theta, y, star, noise, truth = simulated(rho, 100_000)
    total = 1 + noise
    marginal = log_normal(star, 0, total)[None]
    update = log_normal(star, rho * y, total * (1 - rho**2))[None, None]
    tight = variational.lower_bound(update, log_marginal=marginal)
    assert tight[0] == pytest.approx(truth, abs=0.01)
    poor = log_normal(star, 0.5 * rho * y, total)[None, None]
    assert variational.lower_bound(poor, log_marginal=marginal)[0] < tight[0]
    entropy = [0.5 * math.log(2 * math.pi * math.e * total)]
    assert variational.lower_bound(update, target_entropy=entropy)[0] == pytest.approx(truth, abs=0.015)
    given_theta = log_normal(star, theta, noise)[None, None]
    wide = log_normal(star, 0.3, 2 * total)[None]
    assert variational.upper_bound(update, marginal)[0] == pytest.approx(truth, abs=0.01)
    assert truth < variational.upper_bound(given_theta, marginal)[0] < variational.upper_bound(given_theta, wide)[0]
    assert variational.upper_bound(given_theta, marginal)[0] == pytest.approx(0.5 * math.log1p(1 / noise), abs=0.01)


def test_means_over_targets_and_outcomes():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4, 3, 5)), rng.normal(size=(3, 5))
    slow = [sum(w * np.mean(first[i, j] - second[j]) for j, w in enumerate((0.5, 0.25, 0.25))) for i in range(4)]
    np.testing.assert_allclose(variational.upper_bound(first, second, weights=[2, 1, 1]), slow)
    np.testing.assert_allclose(variational.lower_bound(first, log_marginal=second, weights=[2, 1, 1]), slow)
    twice = [0, 0, 1, 2]
    np.testing.assert_allclose(variational.upper_bound(first[:, twice], second[twice]), slow)
    assert variational.lower_bound([[[0.0, -math.inf]]], target_entropy=[1.0])[0] == -math.inf


def test_sandwich_is_the_loops():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(3), size=(2, 7)), rng.dirichlet(np.ones(3), size=(2, 7))
    order = np.random.default_rng(5).permutation(7)
    lower, upper = variational.sandwich(p, q, rng=np.random.default_rng(5), weights=[1, 3], smoothing=0.4)
    for i in range(2):
        pairs = [[(p[i, k], q[j, k]) for k in order] for j in range(2)]
        slow = np.array([slow_sandwich(pair[:3], pair[3:], 3, 0.4) for pair in pairs])
        np.testing.assert_allclose([lower[i], upper[i]], np.array([0.25, 0.75]) @ slow, rtol=1e-10)


@pytest.mark.parametrize(("c", "conc", "k"), [(2, 1.0, 10), (3, 0.5, 40), (5, 1.0, 160), (3, 0.01, 40)])
def test_the_sandwich_holds_in_expectation(c, conc, k):
    p, q, prior, truth = world(c, conc, seed=c)
    rng = np.random.default_rng(0)
    runs = []
    for _ in range(300):
        draws = rng.choice(6, size=k, p=prior)
        runs.append(np.concatenate(variational.sandwich(p[:, draws], q[:, draws], rng=rng)))
    mean, error = np.mean(runs, axis=0), np.std(runs, axis=0) / math.sqrt(300)
    assert mean[0] - 3 * error[0] <= truth <= mean[1] + 3 * error[1]
    assert mean[0] < mean[1]
    if k == 160:
        assert mean[1] - mean[0] < 0.1


def test_blocks_dtypes_and_torch(monkeypatch):
    rng = np.random.default_rng(0)
    p, q = (rng.dirichlet(np.ones(3), size=(size, 12)).astype("float32") for size in (5, 4))
    whole = variational.sandwich(p, q, rng=np.random.default_rng(1))
    monkeypatch.setattr(variational, "BLOCK", 40)
    parts = variational.sandwich(torch.as_tensor(p), torch.as_tensor(q), rng=np.random.default_rng(1))
    for a, b in zip(whole, parts, strict=True):
        assert a.dtype == "float32"
        assert b.dtype == torch.float32
        np.testing.assert_allclose(a, b.numpy(), atol=1e-6)
    empty = variational.sandwich(p[:0], q, rng=np.random.default_rng(1))
    assert empty[0].shape == empty[1].shape == (0,)
    gap = variational.upper_bound(torch.zeros(2, 1, 3), torch.full((1, 3), -1.0))
    assert gap.tolist() == [1.0, 1.0]


CUBE, FLAT = np.zeros((2, 3, 4)), np.zeros((3, 4))
PROBS, RNG = np.full((1, 2, 2), 0.5), np.random.default_rng(0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: variational.lower_bound(CUBE), "either log_marginal"),
        (lambda: variational.lower_bound(CUBE, log_marginal=FLAT, target_entropy=np.zeros(3)), "either log_marginal"),
        (lambda: variational.lower_bound(CUBE, target_entropy=np.zeros(2)), r"target_entropy must have shape \[m\]"),
        (lambda: variational.lower_bound(CUBE + math.nan, log_marginal=FLAT), r"log_q\[0, 0, 0\] is nan"),
        (lambda: variational.upper_bound(CUBE, FLAT - math.inf), r"log_r must hold finite"),
        (lambda: variational.upper_bound(CUBE, FLAT.T), r"log_r must have shape .* Try log_r.T"),
        (lambda: variational.upper_bound(FLAT, FLAT), r"log_conditional must have shape \[n, m, s\]"),
        (lambda: variational.upper_bound(CUBE[:, :0], FLAT[:0]), "at least one target"),
        (lambda: variational.upper_bound(CUBE[..., :0], FLAT[:, :0]), "at least one outcome"),
        (lambda: variational.sandwich(PROBS[:, :1], PROBS[:, :1], rng=RNG), "two draws"),
        (lambda: variational.sandwich(PROBS, PROBS, rng=RNG, smoothing=0), "smoothing > 0"),
        (lambda: variational.sandwich(PROBS, PROBS[:0], rng=RNG), "at least one target"),
        (lambda: variational.sandwich(PROBS, 2 * PROBS, rng=RNG), "sum to one"),
    ],
)
def test_refusals_teach(call, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        call()
