"""Nested Monte Carlo against loops, exact discrete worlds and closed forms; its errors against repeated runs."""

import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from askwell.information import nested


def slow_epig(logs, targets, weights=None):
    (n, s, k), m = logs.shape, len(targets)
    w = np.ones(m) / m if weights is None else np.asarray(weights) / np.sum(weights)
    scores = np.zeros((n, s))
    for i in range(n):
        for j in range(m):
            for o in range(s):
                a, b = logs[i, o], targets[j, o]
                scores[i, o] += w[j] * (logsumexp(a + b) - logsumexp(a) - logsumexp(b) + math.log(k))
    return scores.mean(1), scores.std(1, ddof=1) / math.sqrt(s)


def slow_bald(logs, draws):
    n, s, k = logs.shape
    scores = np.array(
        [[logs[i, o, draws[o]] - logsumexp(logs[i, o]) + math.log(k) for o in range(s)] for i in range(n)]
    )
    return scores.mean(1), scores.std(1, ddof=1) / math.sqrt(s)


def tables(seed, n=4, m=3, s=6, k=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, s, k)) * 3, rng.normal(size=(m, s, k)) * 3, rng.integers(k, size=s)


def categorical(probs, labels):
    """log p(y_s|x,θ_k) `[n, s, k]` of simulated labels `[n, s]` under `probs [n, k, c]`."""
    return np.log(np.stack([p[:, y].T for p, y in zip(probs, labels, strict=True)]))


def ensemble(seed, n=3, m=2, k=8):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(n + m, 2)) @ rng.normal(size=(2, k))
    v = rng.uniform(0.2, 1.0, (n + m, k))
    return f[:n], v[:n], f[n:], v[n:]


@pytest.mark.parametrize("weights", [None, [1.0, 0.0, 3.0]])
@pytest.mark.parametrize("block", [1, 40, 2**20])
def test_estimators_are_the_loops(weights, block, monkeypatch):
    monkeypatch.setattr(nested, "BLOCK", block)
    logs, targets, draws = tables(0)
    for fast, slow in [
        (nested.epig(logs, targets, weights=weights, standard_error=True), slow_epig(logs, targets, weights)),
        (nested.bald(logs, draws=draws, standard_error=True), slow_bald(logs, draws)),
    ]:
        np.testing.assert_allclose(fast[0], slow[0], rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(fast[1], slow[1], rtol=1e-8)
    np.testing.assert_allclose(nested.epig(logs, targets), slow_epig(logs, targets)[0], rtol=1e-10, atol=1e-13)


def test_own_log_likelihoods_replace_draws():
    logs, _, draws = tables(1)
    own = logs[:, np.arange(6), draws]
    np.testing.assert_array_equal(nested.bald(logs, own=own), nested.bald(logs, draws=draws))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_below_the_floating_point_range(dtype):
    """The two sides peak at different draws, so far apart that no product of scaled likelihoods survives."""
    logs, targets = np.full((1, 2, 3), -4000.0), np.full((2, 2, 3), -4000.0)
    logs[..., 0], targets[..., 1], logs[..., 2] = 0.0, 5.0, -math.inf
    expected = slow_epig(logs, targets)[0]
    np.testing.assert_allclose(nested.epig(logs.astype(dtype), targets.astype(dtype)), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"log_likelihoods \+ target_log_likelihoods must give.*some pair"):
        nested.epig([[[0.0, -math.inf]]], [[[-math.inf, 0.0]]])


def test_huge_and_shifted_log_likelihoods():
    logs, targets, draws = tables(2)
    np.testing.assert_allclose(nested.epig(logs + 3000, targets - 5000), nested.epig(logs, targets), atol=1e-9)
    np.testing.assert_allclose(nested.bald(logs - 3000, draws=draws), nested.bald(logs, draws=draws), atol=1e-9)


def test_draws_that_agree_and_joint_permutations():
    logs, targets, draws = tables(3)
    flat = np.repeat(logs[..., :1], 5, axis=-1)
    assert np.abs(nested.epig(flat, targets)).max() < 1e-15
    assert (nested.bald(flat, draws=draws) == 0).all()
    order, outcomes = np.random.default_rng(0).permutation(5), np.random.default_rng(1).permutation(6)
    shuffled = nested.epig(logs[:, outcomes][..., order], targets[:, outcomes][..., order])
    np.testing.assert_allclose(shuffled, nested.epig(logs, targets), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        nested.epig(logs, targets[[0, 0, 1, 2]]), nested.epig(logs, targets, weights=[2, 1, 1]), rtol=1e-12, atol=1e-14
    )


def test_a_finite_world_is_met_within_its_standard_error():
    """With labels of three classes the information of k draws is a finite sum."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(3), size=(2, 4)), rng.dirichlet(np.ones(3), size=(1, 4))
    exact = []
    for row in p:
        joint = row.T @ q[0] / 4
        exact.append(np.sum(joint * np.log(joint / np.outer(joint.sum(1), joint.sum(0)))))
    bald = [-np.sum(r.mean(0) * np.log(r.mean(0))) + np.sum(r * np.log(r)) / 4 for r in p]
    draws = rng.integers(4, size=4000)
    sides = [np.array([[rng.choice(3, p=x[k]) for k in draws] for x in side]) for side in (p, q)]
    logs, targets = categorical(p, sides[0]), categorical(q, sides[1])
    for (estimate, error), truth in [
        (nested.epig(logs, targets, standard_error=True), exact),
        (nested.bald(logs, draws=draws, standard_error=True), bald),
    ]:
        assert (error > 0).all()
        assert (np.abs(estimate - truth) < 4 * error).all()


def test_standard_errors_are_calibrated():
    parts = ensemble(0)
    runs = [
        (
            nested.gaussian_epig(*parts, rng=np.random.default_rng(seed), outcomes=60, standard_error=True),
            nested.gaussian_bald(*parts[:2], rng=np.random.default_rng(seed), outcomes=60, standard_error=True),
        )
        for seed in range(200)
    ]
    for kind in (0, 1):
        estimates, errors = (np.array([run[kind][part] for run in runs]) for part in (0, 1))
        ratio = np.sqrt((errors**2).mean(0)) / estimates.std(0, ddof=1)
        assert ((ratio > 0.8) & (ratio < 1.25)).all()


def test_the_error_survives_a_large_mean_in_float32(monkeypatch):
    monkeypatch.setattr(nested, "BLOCK", 64)
    own = np.linspace(4.6, 4.6001, 300, dtype="float32")[None] + 100
    estimate, error = nested.bald(np.zeros((1, 300, 2), "float32"), own=own, standard_error=True)
    assert estimate[0] == pytest.approx(float(own.astype(float).mean()), rel=1e-6)
    assert error[0] == pytest.approx(own.astype(float).std(ddof=1) / math.sqrt(300), rel=0.05)


def test_draws_of_their_own_bound_bald_from_above_and_shared_ones_from_below():
    rng = np.random.default_rng(0)
    truth, means = 0.5 * math.log1p(1.0), rng.normal(size=(400, 10))
    low = nested.gaussian_bald(means, np.ones_like(means), rng=rng, outcomes=200)
    fresh = rng.normal(size=(400, 50))
    y = fresh + rng.normal(size=fresh.shape)
    logs = -0.5 * (y[..., None] - means[:, None, :]) ** 2
    high = nested.bald(logs, own=-0.5 * (y - fresh) ** 2)
    assert low.mean() + 3 * low.std() / 20 < truth < high.mean() - 3 * high.std() / 20


def test_scores_do_not_depend_on_company():
    parts = ensemble(1, n=5)
    both = nested.gaussian_epig(*parts, rng=np.random.default_rng(3), outcomes=40)
    alone = nested.gaussian_epig(parts[0][2:3], parts[1][2:3], *parts[2:], rng=np.random.default_rng(3), outcomes=40)
    np.testing.assert_allclose(both[2:3], alone, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_answers_as_numpy(dtype):
    parts = [a.astype(dtype) for a in ensemble(2)]
    tensors = [torch.as_tensor(a) for a in parts]
    logs, targets, draws = (a.astype(dtype) if a.dtype == float else a for a in tables(4))
    pairs = [
        (
            f(*a, rng=np.random.default_rng(0), standard_error=True),
            f(*b, rng=np.random.default_rng(0), standard_error=True),
        )
        for f, a, b in [
            (nested.gaussian_epig, parts, tensors),
            (nested.gaussian_bald, parts[:2], tensors[:2]),
        ]
    ]
    t = torch.as_tensor
    pairs.append(([nested.epig(logs, targets)], [nested.epig(t(logs), t(targets))]))
    pairs.append(([nested.bald(logs, draws=draws)], [nested.bald(t(logs), draws=t(draws))]))
    for ours, theirs in pairs:
        for a, b in zip(ours, theirs, strict=True):
            assert str(b.dtype) == f"torch.{dtype}"
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-6)


def test_empty_pool_gives_an_empty_answer():
    _, targets, draws = tables(0)
    assert nested.epig(np.ones((0, 6, 5)), targets).shape == (0,)
    assert nested.bald(np.ones((0, 6, 5)), draws=draws).shape == (0,)
    none = np.ones((0, 8))
    assert nested.gaussian_epig(none, none, *ensemble(0)[2:], rng=np.random.default_rng(0)).shape == (0,)


LOGS, TARGETS, DRAWS = tables(0)
RNG = np.random.default_rng(0)
M, V, MT, VT = ensemble(0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nested.epig(LOGS[0], TARGETS), r"log_likelihoods must have shape \[n, s, k\]"),
        (lambda: nested.epig(LOGS, TARGETS[:, :2]), r"target_log_likelihoods must have shape \[m, s, k\]"),
        (lambda: nested.epig(LOGS, TARGETS[:0]), "at least one target"),
        (lambda: nested.epig(LOGS[..., :0], TARGETS[..., :0]), "at least one draw"),
        (lambda: nested.epig(LOGS[:, :0], TARGETS[:, :0]), "outcomes must number at least 1"),
        (lambda: nested.epig(LOGS[:, :1], TARGETS[:, :1], standard_error=True), "outcomes must number at least 2"),
        (lambda: nested.epig(np.where(LOGS > 0, math.nan, LOGS), TARGETS), r"log_likelihoods must give.*is nan"),
        (lambda: nested.epig(LOGS, np.full_like(TARGETS, -math.inf)), r"\[0, 0\] is -inf"),
        (lambda: nested.bald(LOGS), "either draws"),
        (lambda: nested.bald(LOGS, draws=DRAWS, own=LOGS[..., 0]), "either draws"),
        (lambda: nested.bald(LOGS, draws=DRAWS[:2]), r"draws must have shape \[s\]"),
        (lambda: nested.bald(LOGS, draws=DRAWS + 5), "whole numbers from 0 to k - 1 = 4"),
        (lambda: nested.bald(LOGS, draws=DRAWS * 0.5), "whole numbers"),
        (lambda: nested.bald(LOGS, own=LOGS[..., 0] - math.inf), "own must hold finite"),
        (lambda: nested.gaussian_epig(M, 0 * V, MT, VT, rng=RNG), "variances must hold positive"),
        (lambda: nested.gaussian_epig(M, V, MT[:, :3], VT[:, :3], rng=RNG), "the draws of means"),
        (lambda: nested.gaussian_bald(M[:, :0], V[:, :0], rng=RNG), "at least 1 draws"),
        (lambda: nested.gaussian_bald(M, V, rng=RNG, outcomes=0), "outcomes must number"),
    ],
)
def test_refusals_teach(call, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        call()


def test_randomness_is_passed_in():
    with pytest.raises(TypeError, match=r"numpy\.random\.Generator, but it is 3"):
        nested.gaussian_bald(M, V, rng=3)
