"""NumPy and the compiled loop: equal to the bit where draws are votes, and to six digits where they are not."""

import os
import subprocess
import sys

import numpy as np
import pytest

from askwell import epig, pairwise_epig, top_epig
from askwell.information._kernels import plain
from askwell.seeds import rng_for


@pytest.fixture
def rng():
    return rng_for(0, 0, "plain")


def votes(rng, n, draws, classes, dtype=np.float32):
    logits = rng.normal(size=(n, 1, classes)) * 2 + rng.gumbel(size=(n, draws, classes))
    return np.eye(classes, dtype=dtype)[logits.argmax(axis=-1)]


def soft(rng, n, draws, classes, dtype=np.float32):
    logits = rng.normal(size=(n, 1, classes)) + rng.normal(size=(n, draws, classes))
    odds = np.exp(logits)
    return (odds / odds.sum(axis=-1, keepdims=True)).astype(dtype)


def both(monkeypatch, function):
    """What it answers with the compiled loop, and with NumPy."""
    answers = []
    for mode in ("wait", "never"):
        monkeypatch.setenv("ASKWELL_COMPILE", mode)
        answers.append(function())
    return answers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 7, 100, 300])  # one block, and several of which the last is not full
@pytest.mark.parametrize(("classes", "draws"), [(2, 30), (2, 130), (3, 100), (12, 64)])
def test_votes_score_the_same_to_the_bit(rng, monkeypatch, dtype, m, classes, draws):
    probs, targets = votes(rng, 150, draws, classes, dtype), votes(rng, m, draws, classes, dtype)
    weights = rng.random(m)
    for score in (
        lambda: epig(probs, targets),
        lambda: epig(probs, targets, weights=weights),
        lambda: pairwise_epig(probs, targets),
        lambda: np.stack(top_epig(probs, targets, 20, weights=weights)),
    ):
        compiled, numpy = both(monkeypatch, score)
        np.testing.assert_array_equal(compiled, numpy)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("classes", "draws"), [(2, 100), (3, 500), (20, 50)])
def test_soft_draws_score_the_same_to_six_digits(rng, monkeypatch, dtype, classes, draws):
    probs, targets = soft(rng, 150, draws, classes, dtype), soft(rng, 130, draws, classes, dtype)
    for score in (lambda: epig(probs, targets), lambda: pairwise_epig(probs, targets).mean(axis=1)):
        compiled, numpy = both(monkeypatch, score)
        assert compiled.dtype == numpy.dtype == dtype
        np.testing.assert_allclose(compiled, numpy, rtol=1e-6)


def test_faint_information_keeps_its_digits(rng):
    """Draws that hardly differ: scores of 1e-9 nats, against the definition in more digits than float64 has."""
    base = soft(rng, 6, 1, 3, np.float64)
    probs = base * (1 + 1e-2 * rng.normal(size=(6, 40, 3)))
    probs /= probs.sum(axis=-1, keepdims=True)
    wide = probs.astype(np.longdouble)
    joint = np.einsum("nky,mkz->nmyz", wide, wide) / 40
    apart = np.einsum("ny,mz->nmyz", wide.mean(axis=1), wide.mean(axis=1))
    exact = (joint * np.log(joint / apart) - (joint - apart)).sum(axis=(2, 3))
    assert 1e-12 < exact.min() < 1e-8
    np.testing.assert_allclose(plain.pairwise_epig(probs, probs), exact.astype(float), rtol=1e-5)


def test_draws_that_agree_tell_exactly_nothing(rng):
    same = np.repeat(soft(rng, 5, 1, 4), 30, axis=1)
    assert (plain.epig(same, soft(rng, 9, 30, 4), np.full(9, 1 / 9)) == 0).all()
    assert (plain.epig(soft(rng, 9, 30, 4), same, np.full(len(same), 1 / len(same))) == 0).all()


def test_votes_among_others(rng, monkeypatch):
    mixed = np.concatenate([votes(rng, 20, 70, 4), soft(rng, 20, 70, 4)])
    for targets in (votes(rng, 50, 70, 4), soft(rng, 50, 70, 4), mixed):
        compiled, numpy = both(monkeypatch, lambda targets=targets: epig(mixed, targets))
        np.testing.assert_allclose(compiled, numpy, rtol=2e-6)


def test_logarithms_and_refusals(rng, plain):
    probs, targets = soft(rng, 5, 20, 3), soft(rng, 6, 20, 3)
    np.testing.assert_allclose(epig(np.log(probs), np.log(targets), log=True), epig(probs, targets), rtol=1e-5)
    with pytest.raises(ValueError, match="target_probs must hold probabilities that sum to one"):
        epig(probs, targets * 2)


def test_it_needs_no_numba():
    code = "import sys, askwell; p = [[[0.5, 0.5]] * 3] * 2; askwell.epig(p, p); print('numba' in sys.modules)"
    environment = os.environ | {"ASKWELL_COMPILE": "never"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
