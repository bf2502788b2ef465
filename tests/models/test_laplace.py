"""Laplace's posterior against dense float64 twins: whole Hessians, inverted, and an integral."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from askwell.models import laplace as inside
from askwell.models.laplace import laplace
from askwell.seeds import rng_for

SHAPES = [(30, 4, 3), (6, 10, 3), (6, 10, 2), (40, 3, 2), (12, 6, 5), (5, 31, 4)]  # n, D, c
shapes = pytest.mark.parametrize(("n", "size", "c"), SHAPES)


def labelled(n, size, c):
    """Inputs [n, D] that begin with a one, and one-hot labels [n, c]."""
    rng = rng_for(0, n, f"laplace {size} {c}")
    y = np.arange(n) % c
    x = rng.normal(size=(c, size))[y] + rng.normal(size=(n, size))
    x[:, 0] = 1
    return x / np.sqrt(size), np.eye(c)[y]


def fit(rows, truth, **options):
    return laplace(rows, truth, rng=rng_for(0, 0, "fit"), **options)


def hessian(rows, probs, s):
    """The Hessian of the negative log posterior, class by class: [c D, c D]."""
    out = np.eye(probs.shape[1] * rows.shape[1]) / s**2
    for row, p in zip(rows, probs, strict=True):
        out += np.kron(np.diag(p) - np.outer(p, p), np.outer(row, row))
    return out


@shapes
def test_curvatures_solve_and_measure_like_the_whole_hessian(n, size, c):
    rng = rng_for(0, n, "curvature")
    t, probs = rng.normal(size=(n, size)), softmax(rng.normal(size=(n, c)) * 2, axis=1)
    b = inside._centred(rng.normal(size=(c, size, 4)))
    whole = hessian(t, probs, 1.0)
    wanted = np.linalg.solve(whole, b.reshape(c * size, 4)).reshape(b.shape)
    for curvature in (inside._blocks(t, probs), inside._full(t, probs)):
        np.testing.assert_allclose(curvature.solve(b), wanted, atol=1e-12)
        np.testing.assert_allclose(curvature.log_det, np.linalg.slogdet(whole)[1], rtol=1e-10)
    np.testing.assert_allclose(inside._kernel_log_det(t @ t.T, probs), np.linalg.slogdet(whole)[1], rtol=1e-10)


@shapes
def test_the_mode_is_where_the_gradient_is_zero(n, size, c):
    rows, truth = labelled(n, size, c)
    mode = fit(rows, truth, draws=1, scale=1.5).mode
    gradient = rows.T @ (softmax(rows @ mode, axis=1) - truth) + mode / 1.5**2
    assert np.abs(gradient).max() < 1e-5


@shapes
def test_draws_have_the_mean_and_covariance_of_the_dense_posterior(n, size, c):
    rows, truth = labelled(n, size, c)
    found = fit(rows, truth, draws=20_000, scale=1.5)
    inverse = np.linalg.inv(hessian(rows, softmax(rows @ found.mode, axis=1), 1.5))
    centring = np.kron(np.eye(c) - 1 / c, np.eye(size))
    wanted = centring @ inverse @ centring
    flat = found.weights.transpose(1, 0, 2).reshape(c * size, -1)  # [c D, k]
    sizes = np.sqrt(np.diagonal(wanted))
    np.testing.assert_allclose(np.cov(flat) / sizes / sizes[:, None], wanted / sizes / sizes[:, None], atol=0.05)
    np.testing.assert_allclose(flat.mean(axis=1) / sizes, found.mode.T.ravel() / sizes, atol=0.04)


@shapes
@pytest.mark.parametrize("s", [0.3, 3.0])
def test_evidence_is_the_dense_one(n, size, c, s):
    rows, truth = labelled(n, size, c)
    found = fit(rows, truth, draws=1, scale=s)
    logs = log_softmax(rows @ found.mode, axis=1)
    volume = np.linalg.slogdet(s**2 * hessian(rows, np.exp(logs), s))[1]
    wanted = (logs * truth).sum() - (found.mode**2).sum() / (2 * s**2) - volume / 2
    np.testing.assert_allclose(found.log_evidence, wanted, rtol=1e-8)


def test_evidence_is_near_the_integral():
    """One weight contrast only: p(y) = ∫ p(y|w) N(w; 0, 2 s²) dw, by the trapezoid rule."""
    rows, truth = rng_for(0, 0, "one weight").normal(size=(8, 1)), np.eye(2)[np.arange(8) % 2]
    w = np.linspace(-15, 15, 4001)
    logits = rows * w * np.where(truth[:, 1:] == 1, 1, -1)
    integrand = np.exp(-np.logaddexp(0, -logits).sum(axis=0) - w**2 / 4) / np.sqrt(4 * np.pi)
    assert abs(fit(rows, truth, draws=1, scale=1.0).log_evidence - np.log(np.trapezoid(integrand, w))) < 0.1


def test_without_a_scale_it_is_near_the_top_of_the_evidence():
    rows, truth = labelled(60, 20, 3)
    auto = fit(rows, truth, draws=1)
    grid = [fit(rows, truth, draws=1, scale=s).log_evidence for s in np.geomspace(0.1, 50, 25)]
    assert auto.log_evidence > max(grid) - 1.5  # the belief about s may cost a little
    assert auto.log_evidence > np.median(grid)


def test_many_labels_choose_the_scale_by_some_of_them(monkeypatch):
    rows, truth = labelled(600, 3, 2)
    some = fit(rows, truth, draws=1)
    monkeypatch.setattr(inside, "EVIDENCE_ROWS", 1000)
    assert abs(np.log(some.scale / fit(rows, truth, draws=1).scale)) < 0.5


def test_nothing_given_is_changed():
    rows, truth = labelled(6, 10, 3)
    before = rows.copy(), truth.copy()
    fit(rows, truth, draws=2)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(truth, before[1])
