"""The closed forms against loops in float64, against each other, and against the paper's Example 1."""

import math
import tracemalloc

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from askwell.information import gaussian, nested

CAP = {"float32": 7.97, "float64": 18.02}


def world(seed, n=7, m=5, noise=0.3, length=1.0):
    """A Gaussian process prior at random inputs: label variances, covariances, and the latent parts."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n + m)
    k = np.exp(-0.5 * (x[:, None] - x[None]) ** 2 / length**2) * rng.uniform(0.5, 2)
    labels = k + noise * np.eye(n + m)
    return k, labels, (np.diag(labels)[:n].copy(), np.diag(labels)[n:].copy(), k[:n, n:].copy())


def slow_epig(variance, target_variance, covariance, weights=None):
    m = len(target_variance)
    w = np.ones(m) if weights is None else np.asarray(weights, float)
    scores = []
    for i in range(len(variance)):
        total = 0.0
        for j in range(m):
            joint = np.array([[variance[i], covariance[i, j]], [covariance[i, j], target_variance[j]]])
            total += w[j] * 0.5 * math.log(variance[i] * target_variance[j] / np.linalg.det(joint))
        scores.append(total / w.sum())
    return np.array(scores)


@pytest.mark.parametrize("weights", [None, [1, 0, 2, 3, 1]])
def test_epig_is_the_determinant_form(weights):
    _, _, given_ = world(0)
    np.testing.assert_allclose(gaussian.epig(*given_, weights=weights), slow_epig(*given_, weights), rtol=1e-10)
    if weights is None:
        np.testing.assert_allclose(gaussian.pairwise_epig(*given_).mean(1), gaussian.epig(*given_), rtol=1e-12)


def test_blocks_change_nothing(monkeypatch):
    _, _, given_ = world(1, n=23)
    whole = gaussian.epig(*given_), gaussian.pairwise_epig(*given_), gaussian.variance_reduction(given_[0], given_[2])
    monkeypatch.setattr(gaussian, "BLOCK", 12)
    parts = gaussian.epig(*given_), gaussian.pairwise_epig(*given_), gaussian.variance_reduction(given_[0], given_[2])
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_memory_beyond_the_input_is_a_few_blocks():
    variance, covariance = np.ones(40_000), np.zeros((40_000, 100))
    tracemalloc.start()
    gaussian.epig(variance, variance[:100], covariance)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 2**20 < covariance.nbytes


@pytest.mark.parametrize("rho", [1e-3, 1e-6, 1e-9, 1e-15])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiny_correlations_keep_their_digits(rho, dtype):
    variance, target, covariance = (np.array(a, dtype) for a in ([2.0, 3.0], [5.0], [[0.0], [0.0]]))
    covariance[:, 0] = rho * np.sqrt(variance * target[0])
    exact = [
        -mpmath.log1p(-(mpmath.mpf(float(c)) ** 2) / (float(v) * 5)) / 2
        for c, v in zip(covariance[:, 0], variance, strict=True)
    ]
    answer = gaussian.epig(variance, target, covariance)
    assert answer.dtype == dtype
    np.testing.assert_allclose(answer, [float(e) for e in exact], rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_noise_free_duplicate_has_the_documented_cap(dtype):
    one = np.ones(1, dtype)
    answer = gaussian.epig(one, one, np.ones((1, 1), dtype))
    assert answer[0] == pytest.approx(CAP[dtype], abs=0.01)
    eps = np.finfo(dtype).eps
    assert gaussian.epig(one, one, np.full((1, 1), 1 + 4 * eps, dtype)) == answer
    with pytest.raises(ValueError, match=r"\(candidate, target\) \(0, 0\) is 1.21"):
        gaussian.epig(one, one, np.full((1, 1), 1.1, dtype))


def test_a_label_known_for_certain_tells_nothing():
    assert gaussian.epig([0.0, 1.0], [0.0, 1.0], np.array([[0.0, 0.0], [0.0, 0.5]])).tolist()[0] == 0
    with pytest.raises(ValueError, match="squared correlation"):
        gaussian.epig([0.0], [1.0], [[0.1]])


def test_bald_forms():
    variance, noise = np.array([0.0, 0.5, 2.0]), np.array([1.0, 0.1, 3.0])
    np.testing.assert_allclose(gaussian.bald(variance, noise), 0.5 * np.log((variance + noise) / noise))
    draws = np.random.default_rng(0).uniform(0.1, 2, (3, 6))
    slow = [
        0.5 * (math.log(v + d.mean()) - np.mean([math.log(e) for e in d])) for v, d in zip(variance, draws, strict=True)
    ]
    np.testing.assert_allclose(gaussian.bald(variance, draws), slow, rtol=1e-12)
    np.testing.assert_allclose(gaussian.bald(variance, np.repeat(noise[:, None], 4, 1)), gaussian.bald(variance, noise))
    assert gaussian.bald(np.float32([1e-9]), 1.0)[0] == pytest.approx(5e-10, rel=1e-6)


@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.3, 3.0]))
@settings(max_examples=30, deadline=None)
def test_epig_itl_bald_are_ordered(seed, noise):
    k, labels, given_ = world(seed, noise=noise)
    epig, itl = gaussian.epig(*given_), gaussian.itl(given_[0], labels[7:, 7:], given_[2])
    bald = gaussian.bald(np.diag(k)[:7], noise)
    assert (epig >= 0).all()
    assert (gaussian.pairwise_epig(*given_).max(1) <= itl * (1 + 1e-9) + 1e-12).all()
    assert (epig <= itl * (1 + 1e-9) + 1e-12).all()
    assert (itl <= bald * (1 + 1e-9) + 1e-12).all()
    assert gaussian.joint_bald(k[:7, :7], noise) <= bald.sum() * (1 + 1e-9)
    slow = [np.linalg.slogdet(labels[np.ix_(s, s)])[1] for s in ([0], range(7, 12), [0, *range(7, 12)])]
    assert itl[0] == pytest.approx(0.5 * (slow[0] + slow[1] - slow[2]), rel=1e-6, abs=1e-9)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_permutations_duplicates_and_zeros(seed):
    _, _, (v, t, c) = world(seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(7), rng.permutation(5)
    scores = gaussian.epig(v, t, c)
    np.testing.assert_allclose(gaussian.epig(v[rows], t[columns], c[rows][:, columns]), scores[rows], rtol=1e-12)
    twice = [0, 0, 1, 2, 3, 4]
    np.testing.assert_allclose(
        gaussian.epig(v, t[twice], c[:, twice]), gaussian.epig(v, t, c, weights=[2, 1, 1, 1, 1]), rtol=1e-12
    )
    assert (gaussian.epig(v, t, 0 * c) == 0).all()
    assert gaussian.information_between(np.diag(v), np.diag(t), 0 * c) == 0


def test_variance_reduction_is_what_conditioning_takes_off():
    _, labels, (v, t, c) = world(3)
    for i in range(7):
        after = [t[j] - labels[i, 7 + j] ** 2 / labels[i, i] for j in range(5)]
        assert gaussian.variance_reduction(v, c)[i] == pytest.approx(np.mean(t - after))
        assert gaussian.variance_reduction(v, c, weights=[0, 0, 1, 0, 0])[i] == pytest.approx(t[2] - after[2])


def test_example_1_of_the_paper():
    """Far observations: parameter information without bound, and almost none about the prediction in [0, 1]."""

    def kernel(a, b):
        return np.exp(-((a[:, None] - b[None]) ** 2))

    balds = []
    for m in (1, 2, 3, 4, 6, 10):
        x = m * np.arange(1.0, m + 1)
        balds.append(float(gaussian.joint_bald(kernel(x, x), 1.0)))
        for star in (0.0, 0.5, 1.0):
            at = np.array([star])
            eig = float(gaussian.information_between(kernel(x, x) + np.eye(m), kernel(at, at), kernel(x, at)))
            if m >= 6:
                assert balds[-1] == pytest.approx(m / 2 * math.log(2), rel=1e-12)
                assert 0 < eig < 1e-7
                exact = mpmath.exp(-2 * (star - mpmath.mpf(m)) ** 2) / 4  # the nearest observation, to first order
                assert eig == pytest.approx(float(exact), rel=1e-6)
            if m == 2:
                joint = np.block([[kernel(x, x) + np.eye(m), kernel(x, at)], [kernel(at, x), kernel(at, at)]])
                both = np.linalg.slogdet(kernel(x, x) + np.eye(m))[1] - np.linalg.slogdet(joint)[1]
                assert eig == pytest.approx(0.5 * both, rel=1e-9)
    assert (np.diff(balds) > 0.3).all()


def test_sets_in_batches_and_many_targets():
    k, labels, (v, _, c) = world(5)
    pairs = gaussian.information_between(v[:, None, None], np.broadcast_to(labels[7:, 7:], (7, 5, 5)), c[:, None, :])
    np.testing.assert_allclose(pairs, gaussian.itl(v, labels[7:, 7:], c), rtol=1e-9)
    assert gaussian.joint_bald(np.stack([k, k]), np.full((2, 12), 0.3)).shape == (2,)
    each = gaussian.joint_bald(np.diag(v).reshape(7, 7)[:1, :1], 0.5)
    assert each == pytest.approx(gaussian.bald(v[:1], 0.5)[0])
    many = gaussian.itl(v, np.kron(np.ones((40, 40)), k[:7, :7]) + 0.3 * np.eye(280), np.tile(k[:7, :7], 40))
    assert (many <= gaussian.bald(v - 0.3, 0.3) * (1 + 1e-9)).all()
    assert (many > 0.9 * gaussian.bald(v - 0.3, 0.3)).all()


def test_moment_matching_is_the_closed_form_on_sample_moments():
    rng = np.random.default_rng(0)
    means, targets = rng.normal(size=(4, 9)), rng.normal(size=(3, 9))
    noise, target_noise = rng.uniform(0.1, 1, (4, 9)), rng.uniform(0.1, 1, (3, 9))
    c = np.cov(np.vstack([means, targets]))
    parts = np.diag(c)[:4] + noise.mean(1), np.diag(c)[4:] + target_noise.mean(1), c[:4, 4:]
    answer = gaussian.moment_matched_epig(means, noise, targets, target_noise, weights=[1, 2, 3])
    np.testing.assert_allclose(answer, slow_epig(*parts, [1, 2, 3]), rtol=1e-10)
    constant = np.full((1, 9), 0.1)
    assert gaussian.moment_matched_epig(constant, 0 * constant, constant, 0 * constant) == 0


def test_closed_form_agrees_with_nested_monte_carlo():
    rng = np.random.default_rng(7)
    k, _, given_ = world(7, n=4, m=3, noise=0.5)
    f = np.linalg.cholesky(k + 1e-10 * np.eye(7)) @ rng.standard_normal((7, 3000))
    noise = np.full_like(f, 0.5)
    draws = (f[:4], noise[:4], f[4:], noise[4:])
    estimate, error = nested.gaussian_epig(*draws, rng=rng, outcomes=1500, standard_error=True)
    assert (np.abs(estimate - gaussian.epig(*given_)) < 5 * error + 0.02).all()
    assert np.abs(gaussian.moment_matched_epig(*draws) - gaussian.epig(*given_)).max() < 0.03
    estimate, error = nested.gaussian_bald(f[:4], noise[:4], rng=rng, outcomes=1500, standard_error=True)
    assert (np.abs(estimate - gaussian.bald(np.diag(k)[:4], 0.5)) < 5 * error + 0.01).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_answers_as_numpy(dtype):
    k, labels, (v, t, c) = (
        np.asarray(a, dtype) if isinstance(a, np.ndarray) else tuple(b.astype(dtype) for b in a) for a in world(2)
    )
    calls = [
        (gaussian.epig, (v, t, c)),
        (gaussian.pairwise_epig, (v, t, c)),
        (gaussian.variance_reduction, (v, c)),
        (gaussian.itl, (v, labels[7:, 7:].copy(), c)),
        (gaussian.bald, (v, t[:1].repeat(7))),
        (gaussian.joint_bald, (k, np.full(12, 0.3, dtype))),
        (gaussian.information_between, (labels[:7, :7].copy(), labels[7:, 7:].copy(), c)),
        (gaussian.moment_matched_epig, (c, c**2, c[:3] + 1, c[:3] ** 2)),
    ]
    for function, arrays in calls:
        ours, theirs = function(*arrays), function(*(torch.as_tensor(a) for a in arrays))
        assert isinstance(theirs, torch.Tensor)
        assert str(theirs.dtype) == f"torch.{dtype}"
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=2e-3 if dtype == "float32" else 1e-9, atol=1e-6)
    assert gaussian.bald(torch.as_tensor(v), 0.5).dtype == getattr(torch, dtype)
    weighted = gaussian.epig(*(torch.as_tensor(a) for a in (v, t, c)), weights=torch.tensor([1.0, 0, 0, 0, 0]))
    np.testing.assert_allclose(weighted, gaussian.pairwise_epig(v, t, c)[:, 0], rtol=1e-5)


def test_empty_pool_gives_an_empty_answer():
    empty = np.ones(0)
    assert gaussian.epig(empty, [1.0], np.ones((0, 1))).shape == (0,)
    assert gaussian.pairwise_epig(empty, [1.0], np.ones((0, 1))).shape == (0, 1)
    assert gaussian.bald(empty, 1.0).shape == gaussian.itl(empty, [[1.0]], np.ones((0, 1))).shape == (0,)
    assert gaussian.moment_matched_epig(np.ones((0, 3)), np.ones((0, 3)), np.ones((1, 3)), np.ones((1, 3))).shape == (
        0,
    )


ONE, SQUARE = np.ones(1), np.eye(2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: gaussian.epig([1.0, 2.0], ONE, np.ones((1, 2))),
            r"covariance must have shape \[n, m\] = \(2, 1\).*Try covariance.T",
        ),
        (lambda: gaussian.epig(SQUARE, ONE, ONE), r"variance must have shape \[n\]"),
        (
            lambda: gaussian.epig([-1.0], ONE, [[0.0]]),
            r"variance must hold finite numbers from 0, but variance\[0\] is -1",
        ),
        (lambda: gaussian.epig(ONE, [math.nan], [[0.0]]), r"target_variance\[0\] is nan"),
        (lambda: gaussian.epig(ONE, ONE, [[math.nan]]), r"\(0, 0\) is nan.*a NaN"),
        (lambda: gaussian.epig(ONE, np.ones(0), np.ones((1, 0))), "at least one target"),
        (lambda: gaussian.pairwise_epig(ONE, np.ones(0), np.ones((1, 0))), "at least one target"),
        (lambda: gaussian.epig(ONE, ONE, [[0.0]], weights=[1, 1]), "weights must have one number per target"),
        (lambda: gaussian.epig(ONE, ONE, torch.zeros(1, 1)), "same library"),
        (lambda: gaussian.bald(ONE, 0.0), r"noise_variance must hold positive.*infinitely much"),
        (lambda: gaussian.bald(ONE, [1.0, 2.0]), r"noise_variance must have shape"),
        (lambda: gaussian.bald(ONE, np.ones((1, 2, 2))), r"noise_variance must have shape"),
        (lambda: gaussian.bald(ONE, np.ones((1, 0))), "at least one draw"),
        (lambda: gaussian.variance_reduction(ONE, [[math.inf]]), "covariance"),
        (lambda: gaussian.itl(ONE, -SQUARE, [[0.0, 0.0]]), "target_covariance must be positive definite"),
        (lambda: gaussian.itl(ONE, [[1.0, 0.5], [0.0, 1.0]], [[0.0, 0.0]]), "minus its transpose"),
        (lambda: gaussian.itl(ONE, SQUARE, [[2.0, 0.0]]), r"\(candidate\) \(0,\) is 4"),
        (lambda: gaussian.joint_bald(-SQUARE, 1.0), "eigenvalues of covariance"),
        (lambda: gaussian.joint_bald(np.ones((2, 3)), 1.0), "square matrices"),
        (
            lambda: gaussian.information_between(torch.ones(2, 2), torch.ones(1, 1), torch.ones(2, 1)),
            "positive definite",
        ),
        (lambda: gaussian.information_between(SQUARE, SQUARE, np.ones((2, 1))), r"cross must have shape"),
        (lambda: gaussian.information_between(SQUARE, SQUARE, 2 * SQUARE), r"\(canonical direction\) \(0,\) is 4"),
        (lambda: gaussian.moment_matched_epig([[1.0]], [[1.0]], [[1.0]], [[1.0]]), "at least 2 draws"),
        (lambda: gaussian.moment_matched_epig(SQUARE, SQUARE, np.ones((1, 3)), np.ones((1, 3))), "the draws of means"),
        (lambda: gaussian.moment_matched_epig(SQUARE, -SQUARE, SQUARE, SQUARE), r"variances\[0, 0\] is -1"),
        (lambda: gaussian.moment_matched_epig(SQUARE * math.inf, SQUARE, SQUARE, SQUARE), r"means must hold finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_refusals_teach(call, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        call()
