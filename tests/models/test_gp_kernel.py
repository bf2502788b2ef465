"""The kernel, what labels teach about it, and its waves."""

import numpy as np
import pytest

from askwell.models.gp_inference import ep, evidence_gradient, regression
from askwell.models.gp_kernel import Kernel, _slopes, learnt, spectrum
from askwell.seeds import rng_for


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
