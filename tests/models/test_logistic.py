"""The logistic function against SciPy's in twice the digits."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from askwell.models.logistic import FAR, set_two


def two(difference):
    out = np.empty((*difference.shape, 2), np.float32)
    set_two(difference, out)
    return out


def test_it_is_right_to_the_last_bits_everywhere():
    logits = np.linspace(-FAR, FAR, 1_000_001, dtype=np.float32).reshape(1, -1)
    found, wanted = two(logits), expit(logits.astype(np.float64))
    assert_allclose(found[..., 1], wanted, rtol=5e-7)
    assert_allclose(found[..., 0], expit(-logits.astype(np.float64)), rtol=5e-7)
    assert_allclose(found.sum(axis=2), 1, rtol=2e-7)


def test_the_ends():
    found = two(np.array([[0.0, 1e30, -1e30, np.inf, -np.inf, 100.0]], np.float32))[0]
    assert_array_equal(found[0], [0.5, 0.5])
    assert_array_equal(found[1::2, 1], 1)
    assert_array_equal(found[2:5:2, 0], 1)
    assert ((found >= 0) & np.isfinite(found)).all()


def test_it_never_falls():
    logits = np.sort(np.random.default_rng(0).normal(scale=5, size=(1, 100_000)).astype(np.float32))
    assert (np.diff(two(logits)[0, :, 1].astype(np.float64)) >= -1.2e-7).all()  # but for a last bit
