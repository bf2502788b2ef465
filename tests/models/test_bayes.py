"""Bayesian linear regression: exact, against loops over the grid, and against its own draws."""

import numpy as np
import pytest

from askwell.information import gaussian, moments
from askwell.models.bayes import GRID, RATE, SHAPE, BayesianLinearRegression
from askwell.models.protocol import label_moments, predicted
from askwell.seeds import rng_for

RNG = rng_for(0, 0, "tests of linear regression")


def example(n, d, noise=0.5):
    x = RNG.normal(size=(n, d)) * np.linspace(1, 4, d) + 10
    return x, 100 + 7 * (x @ RNG.normal(size=d)) + noise * RNG.normal(size=n), RNG.normal(size=(5, d)) * 3 + 10


def slow(x, y, new):
    """Mean and covariance of the labels' latent values, and the noise, by dense matrices and one loop over λ."""
    centre, scale = x.mean(axis=0), np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    z, there = (x - centre) / scale, (new - centre) / scale
    unit = y.std() or 1.0
    t, n, d = (y - y.mean()) / unit, *x.shape
    parts = []
    for ridge in GRID:
        precision = z.T @ z + ridge * np.eye(d)
        mean = np.linalg.solve(precision, z.T @ t)
        shape, rate = SHAPE + (n - 1) / 2, RATE + (t @ t - mean @ precision @ mean) / 2
        _, logdet = np.linalg.slogdet(precision)
        log = d / 2 * np.log(ridge) - logdet / 2 - shape * np.log(rate) - np.log10(ridge) ** 2 / 2
        noise = rate / (shape - 1)
        parts.append((log, there @ mean, noise * (there @ np.linalg.solve(precision, there.T) + 1 / n), noise))
    weights = np.exp([part[0] - max(part[0] for part in parts) for part in parts])
    weights /= weights.sum()
    mean = sum(w * part[1] for w, part in zip(weights, parts, strict=True))
    covariance = sum(
        w * (part[2] + np.outer(part[1] - mean, part[1] - mean)) for w, part in zip(weights, parts, strict=True)
    )
    noise = sum(w * part[3] for w, part in zip(weights, parts, strict=True))
    return y.mean() + unit * mean, unit**2 * covariance, unit**2 * noise


@pytest.mark.parametrize(("n", "d"), [(30, 3), (6, 12), (2, 4), (1, 2), (50, 1)])
def test_it_is_what_dense_matrices_give(n, d):
    x, y, new = example(n, d)
    posterior = BayesianLinearRegression().fit(x, y, rng=rng_for(0, 0, "fit"))
    mean, covariance, noise = slow(x, y, new)
    np.testing.assert_allclose(posterior.latent(new)[0], mean, rtol=1e-7)
    np.testing.assert_allclose(posterior.covariance(new, new), covariance, rtol=1e-6, atol=1e-8 * covariance.max())
    np.testing.assert_allclose(posterior.latent(new)[1], np.diag(covariance), rtol=1e-6)
    np.testing.assert_allclose(posterior.noise_variance, noise, rtol=1e-7)
    variance = np.diag(covariance) + noise
    wanted = gaussian.epig(variance[:3], variance[3:], covariance[:3, 3:])
    np.testing.assert_allclose(posterior.epig(new[:3], new[3:]), wanted, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("n", "d"), [(30, 3), (8, 12)])
def test_draws_have_the_moments_that_are_known_exactly(n, d):
    x, y, new = example(n, d)
    posterior = BayesianLinearRegression(draws=40_000).fit(x, y, rng=rng_for(1, 0, "fit"))
    found = predicted(posterior, new)
    mean, variance = label_moments(posterior, new)
    np.testing.assert_allclose(found.mean, mean, atol=5 * np.sqrt(variance.max() / 40_000))
    np.testing.assert_allclose(moments.variance(found), variance, rtol=0.08)
    np.testing.assert_allclose(
        moments.epig(found[:3], found[3:]), posterior.epig(new[:3], new[3:]), rtol=0.15, atol=2e-3
    )


def test_a_line_is_learnt_and_doubt_grows_with_distance():
    x = np.linspace(0, 1, 20)[:, None]
    posterior = BayesianLinearRegression().fit(x, 3 * x[:, 0] + 1, rng=rng_for(0, 0, "fit"))
    mean, variance = posterior.latent([[0.5], [2.0], [10.0]])
    np.testing.assert_allclose(mean, [2.5, 7, 31], rtol=0.03)
    assert variance[0] < variance[1] < variance[2]


def test_features_count_by_the_spread_of_the_reference():
    x, y, new = example(12, 2)
    pool = np.concatenate([x, x * [1, 100]])
    near, far = (
        BayesianLinearRegression(reference=reference).fit(x, y, rng=rng_for(0, 0, "fit")) for reference in (x, pool)
    )
    assert not np.allclose(near.latent(new)[0], far.latent(new)[0], rtol=1e-6)
    plain = BayesianLinearRegression(standardise=False).fit(x / x.std(axis=0), y, rng=rng_for(0, 0, "fit"))
    np.testing.assert_allclose(plain.latent(new / x.std(axis=0))[0], near.latent(new)[0], rtol=1e-8)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([[0.0]], [np.nan], "finite"),
        ([[0.0]], ["a"], "numbers"),
        ([[0.0], [1.0]], [0.0], "2"),
        ([[np.nan]], [0.0], "finite"),
    ],
)
def test_what_cannot_be_learnt_is_refused(x, y, words):
    with pytest.raises(ValueError, match=words):
        BayesianLinearRegression().fit(x, y, rng=rng_for(0, 0, "fit"))


def test_labels_that_are_all_the_same_are_no_error():
    posterior = BayesianLinearRegression().fit([[0.0], [1.0]], [3.0, 3.0], rng=rng_for(0, 0, "fit"))
    mean, variance = label_moments(posterior, [[0.5]])
    assert mean[0] == 3
    assert 0 < variance[0] < 2
