"""The logistic function against SciPy's in twice the digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax

from askwell.arrays import one_thread_each
from askwell.models.logistic import (
    FAR,
    predict_many,
    predict_two,
    predict_two_above,
    set_many,
    set_standardised,
    set_two,
)
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


@pytest.mark.parametrize("c", [3, 10, 26])
def test_softmax_is_right_to_the_last_bits(c):
    logits = rng_for(0, c, "softmax").normal(scale=8, size=(200, c, 50)).astype(np.float32)
    found, wanted = np.empty((200, 50, c), np.float32), softmax(logits.astype(np.float64), axis=1)
    set_many(logits, found)
    far = logits < logits.max(axis=1, keepdims=True) - FAR
    assert_allclose(
        np.where(far, 0, found.transpose(0, 2, 1)), np.where(far, 0, wanted), rtol=4e-6
    )  # of the subtraction
    assert (found.transpose(0, 2, 1)[far] < 1e-34).all()
    assert_allclose(found.sum(axis=2), 1, rtol=5e-7)


def test_logits_may_be_very_large():
    found = np.empty((1, 1, 3), np.float32)
    set_many(np.array([[[1e38], [-1e38], [0.0]]], np.float32), found)
    assert_allclose(found[0, 0], [1, 0, 0], atol=1e-30)


@pytest.mark.parametrize(("n", "d", "k", "c"), [(1, 1, 1, 3), (700, 3, 77, 5), (300, 40, 200, 26)])
def test_of_many_classes_both_predict_the_same_to_the_bit(monkeypatch, n, d, k, c):
    rng = rng_for(0, 0, "softmax")
    x, weights = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(d + 1, c * k), scale=3).astype(np.float32)
    given, probs = (x, x.mean(axis=0), x.std(axis=0) + np.float32(0.1)), np.empty((2, n, k, c), np.float32)
    with one_thread_each():
        for mode, out in zip(("wait", "never"), probs, strict=True):
            monkeypatch.setenv("ASKWELL_COMPILE", mode)
            predict_many(*given, weights, 128, out)
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
