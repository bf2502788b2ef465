"""The logistic function against SciPy's in twice the digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from askwell.arrays import one_thread_each
from askwell.models.logistic import FAR, predict_two, predict_two_above, set_standardised, set_two
from askwell.seeds import rng_for

pytestmark = pytest.mark.usefixtures("either_path")


@pytest.fixture(params=["wait", "never"])
def either_path(request, monkeypatch):
    """Compiled, and in NumPy."""
    monkeypatch.setenv("ASKWELL_COMPILE", request.param)


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


@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (1001, 3, 77), (3000, 40, 200)])
def test_numpy_and_the_compiled_loop_predict_the_same_to_the_bit(monkeypatch, n, d, k):
    rng = rng_for(0, 0, "logistic")
    x, weights = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(d + 1, k), scale=3).astype(np.float32)
    given = x, x.mean(axis=0), x.std(axis=0) + np.float32(0.1)
    rows, probs = [], []
    with one_thread_each():
        for mode in ("wait", "never"):
            monkeypatch.setenv("ASKWELL_COMPILE", mode)
            rows.append(np.empty((n, d + 1), np.float32))
            set_standardised(*given, rows[-1])
            probs.append(np.empty((n, k, 2), np.float32))
            predict_two(*given, weights, 512, probs[-1])
    assert_array_equal(*rows)
    assert_array_equal(*probs)


def test_what_passes_a_screen_is_what_is_predicted():
    rng = rng_for(0, 0, "screen")
    x, weights = rng.normal(size=(300, 2)).astype(np.float32), rng.normal(size=(3, 50)).astype(np.float32)
    given = x, x.mean(axis=0), x.std(axis=0), weights, 128
    probs, some, index = *np.empty((2, 300, 50, 2), np.float32), np.empty(300, np.intp)
    screen = rng.normal(size=(8, 50)).astype(np.float32), 0.1, 20.0
    with one_thread_each():
        predict_two(*given, probs)
        count = predict_two_above(*given, screen, index, some)
    assert 0 < count <= 300
    assert_array_equal(some[:count], probs[index[:count]])
