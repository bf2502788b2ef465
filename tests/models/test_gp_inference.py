"""Sites against dense algebra, a grid, and a long run of elliptical slice sampling; the kernel and what it learns."""

from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal, norm

from askwell.models.gp_inference import (
    Kernel,
    _slopes,
    ep,
    evidence_gradient,
    learnt,
    regression,
    spectrum,
    variational,
)
from askwell.seeds import rng_for

KINDS = {"ep": ep, "vi": variational}


def problem(n, *, seed=0, scale=10.0, length=1.0):
    """Inputs in the plane, the labels of the paper as signs, and the kernel matrix."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(5, size=(n, 2)) * np.sqrt(0.8)
    signs = np.where(rng.random(n) < ndtr(20 * (np.tanh(2 * x[:, 0]) - x[:, 1])), 1.0, -1.0)
    square = ((x[:, None] - x) ** 2).sum(-1)
    return x, signs, scale * np.exp(-0.5 * square / length**2)


@cache
def slice_samples(n, *, seed, draws=4000, thin=4, burn=500):
    """Draws of f | y by elliptical slice sampling (Murray et al. 2010), `[draws, n]`."""
    _, signs, gram = problem(n, seed=seed)
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(gram + 1e-9 * np.eye(len(gram)))
    f, kept = np.zeros(len(gram)), []
    for step in range(burn + draws * thin):
        other, floor = root @ rng.standard_normal(len(gram)), log_ndtr(signs * f).sum() - rng.exponential()
        angle = rng.uniform(0, 2 * np.pi)
        low, high = angle - 2 * np.pi, angle
        while log_ndtr(signs * (new := f * np.cos(angle) + other * np.sin(angle))).sum() <= floor:
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        f = new
        if step >= burn and (step - burn) % thin == 0:
            kept.append(f)
    return np.array(kept)


def dense(sites, gram):
    """Mean and covariance of q(f) by plain inverses."""
    covariance = np.linalg.inv(np.linalg.inv(gram) + np.diag(sites.precision))
    return covariance @ sites.shift, covariance


def bound(mean, covariance, gram, signs):
    """The evidence lower bound of any Gaussian, with nothing of the code under test."""
    sd = np.sqrt(np.diag(covariance))
    expected = quad_vec(lambda z: norm.pdf(z) * log_ndtr(signs * (mean + sd * z)), -10, 10, epsabs=1e-10)[0].sum()
    inverse = np.linalg.inv(gram)
    logs = np.linalg.slogdet(gram)[1] - np.linalg.slogdet(covariance)[1]
    return expected - 0.5 * (np.trace(inverse @ covariance) + mean @ inverse @ mean - len(mean) + logs)


# ---- algebra -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_solved_algebra_is_the_dense_one(kind):
    _, signs, gram = problem(12)
    sites = KINDS[kind](gram, signs)
    mean, covariance = dense(sites, gram)
    np.testing.assert_allclose(sites.mean, mean, atol=1e-7)
    np.testing.assert_allclose(sites.variance, np.diag(covariance), atol=1e-7)
    np.testing.assert_allclose(gram @ sites.weights, mean, atol=1e-7)
    white = sites.whiten(gram)
    np.testing.assert_allclose(gram - white.T @ white, covariance, atol=1e-7)
    precision = np.linalg.inv(gram + np.diag(1 / sites.precision))
    np.testing.assert_allclose(sites.precision_of_labels(gram, 0 * gram), precision @ gram, atol=1e-7)
    assert sites.converged


def test_regression_is_the_textbook():
    _, _, gram = problem(12)
    y = np.random.default_rng(1).normal(size=12)
    sites, covered = regression(gram, y, 0.3), gram + 0.3 * np.eye(12)
    np.testing.assert_allclose(sites.mean, gram @ np.linalg.solve(covered, y), atol=1e-9)
    np.testing.assert_allclose(sites.variance, np.diag(gram - gram @ np.linalg.solve(covered, gram)), atol=1e-9)
    assert sites.evidence == pytest.approx(multivariate_normal(np.zeros(12), covered).logpdf(y))


# ---- EP ------------------------------------------------------------------------------------------------------------


def test_ep_of_one_label_is_exact():
    sites = ep(np.array([[7.0]]), np.array([-1.0]))
    f = np.linspace(-30, 30, 200_001)
    weight = norm.pdf(f, scale=np.sqrt(7)) * ndtr(-f)
    mean = (weight * f).sum() / weight.sum()
    assert sites.mean[0] == pytest.approx(mean, abs=1e-6)
    assert sites.variance[0] == pytest.approx((weight * (f - mean) ** 2).sum() / weight.sum(), abs=1e-6)
    assert sites.evidence == pytest.approx(np.log(0.5))


@pytest.mark.parametrize("signs", [(1.0, 1.0), (1.0, -1.0)])
def test_ep_of_two_labels_against_a_grid(signs):
    gram, signs = np.array([[4.0, 3.0], [3.0, 4.0]]), np.array(signs)
    axis = np.linspace(-14, 14, 801)
    f = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    weight = multivariate_normal(np.zeros(2), gram).pdf(f) * ndtr(f * signs).prod(-1)
    sites = ep(gram, signs)
    assert sites.evidence == pytest.approx(np.log(weight.sum() * (axis[1] - axis[0]) ** 2), abs=0.005)
    np.testing.assert_allclose(sites.mean, np.einsum("ab,abi->i", weight, f) / weight.sum(), atol=0.02)


def test_ep_is_at_its_fixed_point():
    """Cavity times likelihood has the mean and variance of q, by quadrature."""
    _, signs, gram = problem(15)
    sites = ep(gram, signs)
    rest = 1 / (1 / sites.variance - sites.precision)
    centre = rest * (sites.mean / sites.variance - sites.shift)
    moments = [
        quad_vec(lambda z, p=p: norm.pdf(z) * (c := centre + np.sqrt(rest) * z) ** p * ndtr(signs * c), -10, 10)[0]
        for p in range(3)
    ]
    np.testing.assert_allclose(moments[1] / moments[0], sites.mean, atol=1e-4)
    np.testing.assert_allclose(moments[2] / moments[0] - sites.mean**2, sites.variance, atol=1e-4)


@pytest.mark.parametrize(("kind", "tolerance"), [("ep", 0.015), ("vi", 0.02)])
def test_predictions_agree_with_slice_sampling(kind, tolerance):
    _, signs, gram = problem(15, seed=3)
    samples = slice_samples(15, seed=3)
    sites = KINDS[kind](gram, signs)
    probs = ndtr(sites.mean / np.sqrt(1 + sites.variance))
    assert np.abs(probs - ndtr(samples).mean(0)).mean() < tolerance
    if kind == "ep":
        assert np.abs(sites.mean - samples.mean(0)).max() < 0.25
        np.testing.assert_allclose(np.sqrt(sites.variance), samples.std(0), rtol=0.15)


# ---- VI ------------------------------------------------------------------------------------------------------------


def test_no_other_gaussian_has_a_higher_bound():
    _, signs, gram = problem(8, seed=2, length=0.7)
    gram += 1e-3 * np.eye(8)
    sites = variational(gram, signs)
    mean, covariance = dense(sites, gram)
    best = bound(mean, covariance, gram, signs)
    assert sites.evidence == pytest.approx(best, abs=1e-6)
    assert best >= bound(*dense(ep(gram, signs), gram), gram, signs)
    rng, root = np.random.default_rng(0), np.linalg.cholesky(covariance)
    for size in (1e-2, 1e-1) * 5:
        turned = root @ (np.eye(8) + size * np.tril(rng.normal(size=(8, 8))))
        assert best >= bound(mean + size * rng.normal(size=8), turned @ turned.T, gram, signs)


def test_the_bound_is_below_the_evidence():
    _, signs, gram = problem(10)
    assert variational(gram, signs).evidence < ep(gram, signs).evidence + 1e-3


# ---- both ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_the_evidence(kind):
    _, signs, gram = problem(12)
    slope = gram * 0.5 + np.eye(12)
    ahead, behind = (KINDS[kind](gram + step * slope, signs).evidence for step in (1e-3, -1e-3))
    found = evidence_gradient(KINDS[kind](gram, signs), [slope])[0]
    assert found == pytest.approx((ahead - behind) / 2e-3, rel=2e-3, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 40, 120])
@pytest.mark.parametrize(("scale", "length"), [(0.01, 1.0), (10.0, 0.1), (10.0, 5.0), (100.0, 1.0), (100.0, 30.0)])
def test_converges_for_all_sorts_of_kernels(kind, n, scale, length):
    _, signs, gram = problem(n, seed=1, scale=scale, length=length)
    sites = KINDS[kind](gram, signs)
    assert sites.converged
    assert np.isfinite(sites.evidence)
    assert (sites.variance > 0).all()


@pytest.mark.parametrize("n", [1, 2, 40])
def test_ep_converges_for_scales_beyond_reason(n):
    _, signs, gram = problem(n, scale=1e4)
    assert ep(gram, signs).converged


@pytest.mark.parametrize("kind", KINDS)
def test_one_class_only_and_rows_that_stand_twice(kind):
    _, _, gram = problem(5)
    twice = np.tile(gram, (2, 2))
    sites = KINDS[kind](twice, np.ones(10))
    assert sites.converged
    assert (sites.mean > 0).all()
    np.testing.assert_allclose(sites.mean[:5], sites.mean[5:], atol=1e-5)
    torn = KINDS[kind](twice, np.repeat([1.0, -1.0], 5))  # each input was called both
    np.testing.assert_allclose(torn.mean, 0, atol=1e-5)


# ---- the kernel ----------------------------------------------------------------------------------------------------


def test_kernel_is_the_squared_exponential():
    rng = np.random.default_rng(0)
    x, x2 = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    gram = Kernel(scale=2.0, length=(0.5, 1.0, 3.0))(x, x2)
    for i in range(4):
        for j in range(5):
            assert gram[i, j] == pytest.approx(2 * np.exp(-0.5 * (((x[i] - x2[j]) / [0.5, 1.0, 3.0]) ** 2).sum()))
    np.testing.assert_allclose(Kernel(2.0, 0.7)(x, x2), Kernel(2.0, (0.7, 0.7, 0.7))(x, x2))


@pytest.mark.parametrize("wrong", [{"scale": 0.0}, {"length": -1.0}, {"length": (1.0, 0.0)}, {"scale": np.nan}])
def test_kernels_have_positive_numbers(wrong):
    with pytest.raises(ValueError, match="scale and length must be positive numbers"):
        Kernel(**wrong)


@pytest.mark.parametrize("length", [0.8, (0.8, 1.5)])
def test_slopes_are_derivatives_by_logarithms(length):
    x, kernel = np.random.default_rng(0).normal(size=(6, 2)), Kernel(3.0, length)
    slopes = _slopes(kernel, 0.2, x, kernel(x, x))
    theta = np.log([3.0, *np.ravel(length), 0.2])

    def covered(theta):
        scale, *lengths, noise = np.exp(theta)
        return Kernel(scale, lengths[0] if len(lengths) == 1 else tuple(lengths))(x, x) + noise * np.eye(6)

    assert len(slopes) == len(theta)
    for slope, step in zip(slopes, 1e-5 * np.eye(len(theta)), strict=True):
        np.testing.assert_allclose(slope, (covered(theta + step) - covered(theta - step)) / 2e-5, atol=1e-7)


def test_gradient_of_regression_evidence_is_exact():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 1)), rng.normal(size=20)

    def evidence(noise):
        return regression(Kernel()(x, x), y, noise).evidence

    found = evidence_gradient(regression(Kernel()(x, x), y, 0.3), [0.3 * np.eye(20)])[0]
    assert found == pytest.approx((evidence(0.3 * np.exp(1e-5)) - evidence(0.3 * np.exp(-1e-5))) / 2e-5, rel=1e-6)


def test_regression_finds_the_length_and_the_noise():
    rng = rng_for(0, 0, "truth")
    x = rng.uniform(0, 30, size=(80, 1))
    truth = Kernel(2.0, 1.5)
    y = rng.multivariate_normal(np.zeros(80), truth(x, x) + 0.05 * np.eye(80))
    kernel, noise = learnt(Kernel(1.0, 5.0), 1.0, x, lambda gram, noise: regression(gram, y, noise))
    assert 1.2 < kernel.length < 1.9
    assert 0.02 < noise < 0.12
    assert 0.7 < kernel.scale < 6


def test_labels_find_the_features_that_matter():
    rng = rng_for(0, 0, "truth")
    x = rng.normal(size=(60, 2))
    signs = np.where(np.sin(2 * x[:, 0]) > 0, 1.0, -1.0)
    kernel, noise = learnt(Kernel(10.0, (1.0, 1.0)), None, x, lambda gram, _: ep(gram, signs))
    assert noise is None
    assert kernel.length[1] > 3 * kernel.length[0]


def test_few_labels_leave_the_kernel_near_the_given_one():
    x = np.array([[0.0], [1.0]])
    kernel, _ = learnt(Kernel(10.0, 1.0), None, x, lambda gram, _: ep(gram, np.array([1.0, -1.0])))
    assert 0.05 < kernel.length < 20
    assert 0.5 < kernel.scale < 200


@pytest.mark.parametrize("width", [1, 2, 5, 30])
def test_waves_average_to_the_kernel(width):
    rng = rng_for(1, 0, "waves")
    x = rng.normal(size=(20, width)) / np.sqrt(width)
    waves = spectrum(1000, width, rng)
    assert waves.shape == (1000, width)
    found = np.cos((x[:, None] - x) @ waves.T).mean(-1)
    assert np.abs(found - Kernel()(x, x)).max() < (0.01 if width < 3 else 0.06)
