"""Closed-form probit scores against quadrature in many digits, SciPy's bivariate normal, Owen's T and sampling."""

import itertools
import math
import subprocess
import sys

import array_api_compat
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr, eval_hermitenorm, ndtr, owens_t
from scipy.stats import multivariate_normal

from askwell.information import probit
from askwell.information._kernels import probit as probit_kernels
from askwell.information.probit import bald_bound, mehler_bound, top_bald, top_epig
from askwell.seeds import rng_for

WIDE = 2.0**60  # 1 + WIDE == WIDE and √WIDE is a power of two: a and ρ reach the formula without rounding
NEAR_ONE = [1 - 10.0**-k for k in (2, 4, 8, 12, 15)]
RHO = [1e-9, 0.1, 0.3, 0.6, 0.89, 0.91, 0.95, *NEAR_ONE]


def delta_of(a, b, rho):
    """Label covariance of two standardised labels."""
    big = np.array([WIDE])
    root = math.sqrt(WIDE)
    return float(probit.label_covariance([a * root], [b * root], big, big, [[rho * WIDE]])[0, 0])


def information_of(a, b, rho):
    big, root = np.array([WIDE]), math.sqrt(WIDE)
    return float(probit.pairwise_epig([a * root], [b * root], big, big, [[rho * WIDE]])[0, 0])


def true_delta(a, b, rho):
    """δ as the integral of the bivariate normal density over its correlation, in 40 digits, near and far panels."""
    with mpmath.workdps(40):
        a, b, rho = (mpmath.mpf(x) for x in (a, b, rho))
        if abs(rho) == 1:
            b, sign = b * mpmath.sign(rho), mpmath.sign(rho)
            return sign * mpmath.ncdf(min(a, b)) * mpmath.ncdf(-max(a, b))

        def density(t):
            return mpmath.exp(-(a * a + b * b - 2 * a * b * mpmath.sin(t)) / (2 * mpmath.cos(t) ** 2)) / (2 * mpmath.pi)

        end, top = mpmath.asin(rho), mpmath.sign(rho) * mpmath.pi / 2
        panels = [top * (1 - mpmath.mpf(2) ** -k) for k in range(40)]
        return mpmath.quad(
            density, [*(t for t in panels if abs(t) < abs(end)), end], method="gauss-legendre", maxdegree=5
        )


def posterior(rng, n, m, *, rank=4, scale=1.0):
    """Means, variances and covariances of a Gaussian that exists."""
    x, t = (scale * rng.normal(size=(size, rank)) for size in (n, m))
    return rng.normal(size=n), rng.normal(size=m), (x * x).sum(1), (t * t).sum(1), x @ t.T


@pytest.mark.parametrize("rho", [*RHO, -0.4, -0.93, -1 + 1e-9])
def test_label_covariance_keeps_its_digits_for_every_correlation(rho):
    for a, b in [(0.3, 0.3), (1.0, -0.7), (2.5, 2.4), (-4.0, 3.0), (8.0, 8.0), (8.0, -7.9), (2.0, 7.5)]:
        expected = true_delta(a, b, rho)
        assert abs(delta_of(a, b, rho) - expected) <= 1e-12 * abs(expected)


def test_joint_probability_agrees_with_scipy():
    for a, b, rho in itertools.product((-3.0, 0.0, 0.4, 2.0), (-1.0, 0.0, 0.4), (-0.999, -0.92, -0.3, 0.5, 0.97)):
        joint = multivariate_normal.cdf([a, b], cov=[[1, rho], [rho, 1]], abseps=1e-14, releps=1e-14)
        assert ndtr(a) * ndtr(b) + delta_of(a, b, rho) == pytest.approx(joint, abs=1e-13)


@pytest.mark.parametrize("rho", [-1 + 1e-15, -0.95, -0.4, 0.2, 0.93, 1 - 1e-9, 1 - 1e-15])
def test_joint_probability_agrees_with_owens_t(rho):
    for a, b in itertools.product((-8.0, -1.3, 0.7, 2.0), (-2.1, -0.6, 1.9, 40.0)):
        slopes = [(one / other - rho) / math.sqrt((1 - rho) * (1 + rho)) for one, other in ((b, a), (a, b))]
        joint = (ndtr(a) + ndtr(b) - (a * b < 0)) / 2 - owens_t(a, slopes[0]) - owens_t(b, slopes[1])
        assert ndtr(a) * ndtr(b) + delta_of(a, b, rho) == pytest.approx(joint, abs=1e-14)


def test_perfect_correlation_is_the_smaller_probability():
    for a, b in itertools.product((-40.0, -8.0, -1.0, 0.0, 1.0, 8.0, 40.0), repeat=2):
        assert delta_of(a, b, 1.0) == pytest.approx(ndtr(min(a, b)) * ndtr(-max(a, b)), rel=1e-13)
        assert delta_of(a, b, -1.0) == pytest.approx(-ndtr(min(a, -b)) * ndtr(-max(a, -b)), rel=1e-13)
    assert information_of(0.0, 0.0, 1.0) == pytest.approx(math.log(2), abs=1e-15)


@pytest.mark.parametrize("rho", [-1.0, -0.9, 1e-8, 0.5, *NEAR_ONE, 1.0])
def test_even_labels_give_the_arcsine(rho):
    assert delta_of(0.0, 0.0, rho) == pytest.approx(math.asin(rho) / (2 * math.pi), rel=2e-15)


def test_no_correlation_is_exactly_no_information():
    assert delta_of(1.3, -0.2, 0.0) == 0
    assert information_of(1.3, -0.2, 0.0) == 0


@pytest.mark.parametrize("rho", [-0.99, -0.5, 1e-6, 1e-3, 0.3, 0.9, 1 - 1e-12])
def test_information_agrees_with_its_definition_in_many_digits(rho):
    for a, b in [(0.0, 0.0), (1.0, -0.5), (3.0, 2.0), (-6.0, 5.0), (8.0, 8.0)]:
        with mpmath.workdps(60):
            delta, expected = true_delta(a, b, rho), mpmath.mpf(0)
            for s, t in itertools.product((1, -1), repeat=2):
                q = mpmath.ncdf(s * mpmath.mpf(a)) * mpmath.ncdf(t * mpmath.mpf(b))
                cell = max(q + s * t * delta, mpmath.mpf(10) ** -60)  # an empty cell is zero times infinity
                expected += cell * mpmath.log(cell / q)
        assert information_of(a, b, rho) == pytest.approx(float(expected), rel=1e-9)


def test_scores_agree_with_sampling():
    rng, draws = np.random.default_rng(1), 200_000
    x, t = rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    mean, target_mean = rng.normal(size=3), rng.normal(size=2)
    weight = rng.normal(size=(draws, 3))
    p, q = ndtr(mean + weight @ x.T), ndtr(target_mean + weight @ t.T)
    exact = probit.pairwise_epig(mean, target_mean, (x * x).sum(1), (t * t).sum(1), x @ t.T)
    for i, j in itertools.product(range(3), range(2)):
        total = 0.0
        for y, z in itertools.product((0, 1), repeat=2):
            one, two = p[:, i] if y else 1 - p[:, i], q[:, j] if z else 1 - q[:, j]
            total += (one * two).mean() * math.log((one * two).mean() / one.mean() / two.mean())
        assert exact[i, j] == pytest.approx(total, abs=2e-3, rel=0.03)
    entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p)).mean(0)
    marginal = -(p.mean(0) * np.log(p.mean(0)) + (1 - p.mean(0)) * np.log1p(-p.mean(0)))
    assert probit.bald(mean, (x * x).sum(1)) == pytest.approx(marginal - entropy, abs=3e-3)


def true_bald(mean, variance):
    """E_f KL(p(y|f) || p(y)) by panels around the latent, the posterior of f given a surprise, and the origin."""
    with mpmath.workdps(45):
        m, v = mpmath.mpf(mean), mpmath.mpf(variance)
        sd, p = mpmath.sqrt(v), [mpmath.ncdf(s * m / mpmath.sqrt(1 + v)) for s in (1, -1)]

        def divergence(f):
            q = mpmath.ncdf(f), mpmath.ncdf(-f)
            return sum(x * mpmath.log(x / y) for x, y in zip(q, p, strict=True)) * mpmath.npdf(f, m, sd)

        knots = {m + sd * k for k in (-12, -7, -4, -2, 0, 2, 4, 7, 12)}
        knots |= {m / (1 + v) + sd / mpmath.sqrt(1 + v) * k for k in (-10, -5, -2, 0, 2, 5, 10)}
        return float(mpmath.quad(divergence, sorted(knots), method="gauss-legendre", maxdegree=5))


@pytest.mark.parametrize("mean", [0.0, -3.0, 8.0])
def test_bald_agrees_with_quadrature_in_many_digits(mean):
    for variance in (1e-12, 3e-9, 1.7, 1e4):
        expected = true_bald(mean, variance)
        assert float(probit.bald([mean], [variance])[0]) == pytest.approx(expected, rel=1e-9, abs=0)


def test_bald_at_places_known_in_closed_form():
    # for variance 1 and mean 0 the probability Φ(f) is uniform, and its expected entropy is half a nat
    known = probit.bald([0.0, 5.0, 1e300, 0.0], [1.0, 0.0, 1.0, 1e300])
    assert known == pytest.approx([math.log(2) - 0.5, 0.0, 0.0, math.log(2)], abs=1e-14)


latents = st.tuples(st.floats(-50, 50), st.floats(-50, 50), st.floats(0, 1e9), st.floats(0, 1e9), st.floats(-1, 1))


@settings(max_examples=150, deadline=None)
@given(latents)
def test_information_is_processed_never_made(latent):
    mean, target_mean, variance, target_variance, tie = latent
    covariance = tie * math.sqrt(variance) * math.sqrt(target_variance)
    score = float(probit.epig([mean], [target_mean], [variance], [target_variance], [[covariance]])[0])
    own, other = probit.bald([mean, target_mean], [variance, target_variance])
    assert 0 <= score <= min(own, other) * (1 + 1e-9) + 1e-300
    assert max(own, other) <= math.log(2)


@settings(max_examples=100, deadline=None)
@given(latents)
def test_swapping_and_turning_labels_changes_nothing(latent):
    mean, target_mean, variance, target_variance, tie = latent
    c = tie * math.sqrt(variance) * math.sqrt(target_variance)
    score = probit.pairwise_epig([mean], [target_mean], [variance], [target_variance], [[c]])
    assert score == probit.pairwise_epig([target_mean], [mean], [target_variance], [variance], [[c]])
    assert score == probit.pairwise_epig([-mean], [target_mean], [variance], [target_variance], [[-c]])
    assert score == probit.pairwise_epig([-mean], [-target_mean], [variance], [target_variance], [[c]])


def test_epig_is_the_weighted_mean_and_a_duplicate_weighs_two():
    mean, target_mean, variance, target_variance, covariance = posterior(np.random.default_rng(2), 7, 3)
    pairwise = probit.pairwise_epig(mean, target_mean, variance, target_variance, covariance)
    score = probit.epig(mean, target_mean, variance, target_variance, covariance)
    assert score == pytest.approx(pairwise.mean(1), rel=1e-14)
    twice = [0, 1, 1, 2]
    doubled = probit.epig(mean, target_mean[twice], variance, target_variance[twice], covariance[:, twice])
    weighted = probit.epig(mean, target_mean, variance, target_variance, covariance, weights=[5, 10, 5])
    assert weighted == pytest.approx(doubled, rel=1e-14)
    assert not np.allclose(weighted, score, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_libraries_and_precisions_agree(dtype):
    arrays = [x.astype(dtype) for x in posterior(np.random.default_rng(3), 6, 5)]
    exact = probit.epig(*(x.astype("float64") for x in arrays))
    scores = probit.epig(*arrays)
    assert scores.dtype == dtype
    np.testing.assert_allclose(scores, exact, rtol=1e-6 if dtype == "float32" else 0)
    tensors = [torch.from_numpy(x).requires_grad_() for x in arrays]
    for function in (probit.epig, probit.pairwise_epig, probit.label_covariance):
        answer = function(*tensors)
        assert isinstance(answer, torch.Tensor)
        assert answer.dtype == tensors[0].dtype
        np.testing.assert_array_equal(answer.numpy(), function(*arrays))
    answer = probit.bald(tensors[0], tensors[2])
    assert answer.dtype == tensors[0].dtype
    np.testing.assert_array_equal(answer.numpy(), probit.bald(arrays[0], arrays[2]))


@pytest.mark.parametrize("library", [np.asarray, torch.asarray])
def test_array_text_for_other_devices_says_the_same(library, monkeypatch):
    a = np.array([-40.0, -26.2, -8.0, -3.0, -0.5, 0.0, 0.1, 1.0, 4.9, 5.0, 8.0, 14.0, 25.0])
    for rho in (0.0, 1e-9, 0.2, -0.6, 0.89, 0.93, -0.99, 1 - 1e-12, 1.0, -1.0):
        one = np.full(a.shape, WIDE), np.full((len(a), len(a)), rho * WIDE)
        given = [library(x) for x in (a * math.sqrt(WIDE), a * math.sqrt(WIDE), one[0], one[0], one[1])]
        for function in (probit.label_covariance, probit.pairwise_epig, probit.epig):
            loop = np.asarray(function(*given))
            with monkeypatch.context() as patch:
                patch.setattr(probit, "as_numpy", lambda array: None)
                patch.setattr(probit, "ARRAY_BLOCK", 40)
                text = np.asarray(function(*given))
            np.testing.assert_allclose(text, loop, rtol=1e-11, atol=1e-290)


def test_bald_text_for_other_devices_says_the_same():
    mean, variance = np.array([0.0, -3.0, 20.0, 1e9, 0.2]), np.array([1.0, 0.0, 5.0, 2.0, 1e-14])
    xp = array_api_compat.array_namespace(torch.zeros(1))
    tensors = torch.from_numpy(mean), torch.from_numpy(variance)
    text = probit._bald(xp, *tensors, torch.float64, rows=2)
    np.testing.assert_allclose(text.numpy(), probit.bald(mean, variance), rtol=1e-10, atol=1e-300)


def test_blocks_threads_and_memory_order_do_not_show(monkeypatch):
    arrays = posterior(np.random.default_rng(4), 53, 11)
    score, pairwise = probit.epig(*arrays), probit.pairwise_epig(*arrays)
    for block, workers in ((1, "3"), (40, "1"), (77, "2")):
        monkeypatch.setattr(probit, "BLOCK", block)
        monkeypatch.setenv("ASKWELL_THREADS", workers)
        np.testing.assert_array_equal(probit.epig(*arrays), score)
        np.testing.assert_array_equal(probit.pairwise_epig(*arrays), pairwise)
    np.testing.assert_array_equal(probit.epig(*arrays[:4], np.asfortranarray(arrays[4])), score)
    rows = [probit.epig(arrays[0][[i]], arrays[1], arrays[2][[i]], arrays[3], arrays[4][[i]])[0] for i in range(53)]
    np.testing.assert_array_equal(rows, score)


def test_covariance_is_clipped_within_rounding_and_refused_beyond():
    at, over = (([0.3], [0.1], [2.0], [2.0], [[c]]) for c in (2.0, 2.0 + 1e-7))
    assert probit.epig(*over) == pytest.approx(probit.epig(*at), rel=1e-15)
    with pytest.raises(ValueError, match=r"covariance\[0, 0\] is 2.1 and the variances allow 2\. .*one joint"):
        probit.epig([0.3], [0.1], [2.0], [2.0], [[2.1]])
    assert float(probit.epig([0.3], [0.1], [0.0], [2.0], [[0.0]])[0]) == 0


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_faulty_covariance_is_named_wherever_it_is(entry, monkeypatch):
    arrays = posterior(np.random.default_rng(5), 9, 4)
    arrays[4][7, 2] = entry
    monkeypatch.setattr(probit, "BLOCK", 8)
    for function in (probit.epig, probit.pairwise_epig, probit.label_covariance):
        with pytest.raises(ValueError, match=rf"covariance\[7, 2\] is {entry}"):
            function(*arrays)
    monkeypatch.setattr(probit, "as_numpy", lambda array: None)
    with pytest.raises(ValueError, match=rf"covariance\[7, 2\] is {entry}"):
        probit.epig(*arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variance": [1.0, -0.5]}, r"variance must not be negative, but variance\[1\] is -0.5.*clip"),
        ({"target_variance": [-1.0]}, r"target_variance must not be negative, but target_variance\[0\] is -1"),
        ({"mean": [0.0, np.nan]}, r"mean must be finite, but mean\[1\] is nan.*posterior"),
        ({"target_mean": [np.inf]}, r"target_mean must be finite, but target_mean\[0\] is inf"),
        ({"variance": [1.0]}, r"mean and variance must have the same length, but they have 2 and 1"),
        ({"mean": [[0.0, 0.0]]}, r"mean must have one number per input, .* its shape is \(1, 2\).*ravel"),
        ({"covariance": [[0.1, 0.1]]}, r"covariance must have shape .* = \(2, 1\), .* \(1, 2\).*covariance\.T"),
        ({"covariance": [0.1, 0.1]}, r"covariance must have shape .*Rows are candidates"),
        ({"covariance": [[1], [1]]}, r"covariance must be an array of float32 or float64"),
        ({"weights": [-1.0]}, r"weights must be finite and not negative"),
        ({"weights": [1.0, 1.0]}, r"weights must have one number per target"),
        (
            {"target_mean": np.zeros(0), "target_variance": np.zeros(0), "covariance": np.zeros((2, 0))},
            r"target_mean must hold at least one target, but it is empty",
        ),
    ],
)
def test_refusals_teach(change, message):
    good = {"mean": [0.0, 1.0], "target_mean": [0.5], "variance": [1.0, 1.0], "target_variance": [1.0]}
    with pytest.raises(ValueError, match=message):
        probit.epig(**(good | {"covariance": [[0.1], [0.1]]} | change))


def test_bald_refuses_too():
    with pytest.raises(ValueError, match=r"variance must not be negative, but variance\[0\] is -1"):
        probit.bald([0.0], [-1.0])


def test_an_empty_pool_has_empty_scores():
    empty, one = np.zeros(0, "float32"), np.ones(1, "float32")
    scores = probit.epig(empty, one, empty, one, np.zeros((0, 1), "float32"))
    assert scores.shape == (0,)
    assert scores.dtype == np.float32
    assert probit.bald(empty, empty).shape == (0,)


def test_importing_the_room_does_not_load_numba_or_torch():
    code = "import sys, askwell.information.probit; sys.exit(bool({'numba', 'torch', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_compiled_loop_has_no_gaps_between_its_regimes():
    # the scheme changes with ρ, with the size of the exponent and with the length of the stretch: δ must not jump
    ones = np.ones(2)
    for a, b in [(0.5, 0.2), (3.0, 3.0), (3.0, -2.0), (6.0, 5.0), (20.0, 20.0)]:
        x, t = (np.stack([v * ones, ones, ones, ndtr(v) * ones, ndtr(-v) * ones], axis=1) for v in (a, b))
        grid = np.linspace(0.001, 0.9999, 4001)
        out = np.empty((1, len(grid)))
        probit_kernels.spread(grid[None], x[:1], np.repeat(t[:1], len(grid), axis=0), 1e-6, False, out)
        steps = np.diff(np.log(out[0]))
        assert (steps > -1e-11).all()
        assert np.abs(np.diff(steps))[100:-100].max() < 0.05


# ---- test_probit_bounds ----


NAMES = ("mean", "target_mean", "variance", "target_variance", "covariance")


def problem(n, m, *, seed=0, scale=3.0, width=2.0, dtype=np.float64):
    """Latents of n candidates and m targets from one joint Gaussian, as a posterior would give them."""
    rng = rng_for(seed, 0, "problem")
    factor = rng.normal(size=(n + m, 6)) * math.sqrt(scale / 6)
    joint, mean = factor @ factor.T, rng.normal(size=n + m) * width
    variance = np.diagonal(joint)
    return [each.astype(dtype) for each in (mean[:n], mean[n:], variance[:n], variance[n:], joint[:n, n:])]


def sorted_out(arrays, size, weights=None):
    scores = probit.epig(*arrays, weights=weights)
    order = sorted(range(len(scores)), key=lambda i: (-float(scores[i]), i))[:size]
    return np.array(order, int), scores[order]


# ---- the bound -----------------------------------------------------------------------------------------------------


def test_mehlers_series_is_the_covariance_of_labels():
    """The formula at the head of the module, by a loop with SciPy's polynomials."""
    for a, b, rho in [(0.0, 0.0, 0.6), (1.3, -0.4, 0.7), (-2.0, -2.5, -0.5), (3.0, 1.0, 0.3)]:
        total = sum(
            rho**n * math.exp(-(a * a + b * b) / 2) / (2 * math.pi)
            * eval_hermitenorm(n - 1, a) * eval_hermitenorm(n - 1, b) / math.factorial(n)
            for n in range(1, 100)
        )  # fmt: skip
        (delta,) = probit.label_covariance([a * 2], [b * 2], [3.0], [3.0], [[rho * 4]])[0]
        assert delta == pytest.approx(total, rel=1e-9)


@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 5, 127, 128, 130, 300]),
    st.sampled_from([1e-6, 0.1, 3.0, 30.0, 1e4]),
    st.sampled_from([0.0, 0.1, 2.0, 10.0, 100.0]),
)
@settings(max_examples=60, deadline=None)
def test_nothing_is_above_its_bound(seed, m, scale, width):
    arrays = problem(40, m, seed=seed, scale=scale, width=width)
    weights = rng_for(seed, 0, "weights").random(m)
    bound = mehler_bound(*arrays, weights=weights)
    assert (bound >= probit.epig(*arrays, weights=weights)).all()
    assert (bound <= math.log(2) * 1.001).all()


@pytest.mark.parametrize("rho", [-0.99999, -0.96, -0.94, -0.5, -1e-3, 0.0, 1e-9, 0.3, 0.8, 0.949, 0.951, 0.9999])
def test_every_pair_is_below_its_bound(rho):
    """One target at a time, over a grid of both means: nothing can hide in an average."""
    a = np.concatenate([np.linspace(-9, 9, 37), [-30.0, 30.0]])
    v = 1e6
    mean, variance = a * math.sqrt(1 + v), np.full(len(a), v)
    for target_mean in mean[::3]:
        given = [
            mean,
            np.array([target_mean]),
            variance,
            np.array([v]),
            np.full((len(a), 1), rho * (1 + v) * (1 - 1e-6)),
        ]
        assert (mehler_bound(*given) >= probit.epig(*given)).all()


def test_the_bound_is_close_where_correlations_are_moderate():
    arrays = problem(300, 200, scale=2.0, width=1.0)
    exact, bound = probit.epig(*arrays), mehler_bound(*arrays)
    assert (bound <= 1.02 * exact).all()
    assert np.median(bound / exact) < 1.001


def test_a_label_that_is_all_but_certain_is_bounded_by_its_entropy():
    mean, variance = np.array([30.0, -9.5, 0.0]), np.array([0.1, 0.1, 0.1])
    covariance = np.full((3, 2), 0.05)
    bound = mehler_bound(mean, np.array([0.0, 40.0]), variance, np.array([0.1, 0.1]), covariance)
    p = ndtr(-8.0)  # surer labels are bounded as this one is
    assert (bound[:2] <= (entr(p) + entr(1 - p)) * 1.001).all()
    assert bound[2] > 1e-5


def test_the_bound_holds_with_covariances_that_are_a_little_wrong():
    arrays, error = problem(200, 50, scale=1.0), 1e-3
    noise = rng_for(1, 0, "noise").uniform(-error, error, (200, 50))
    *rest, covariance = arrays
    exact = probit.epig(*arrays)
    assert (mehler_bound(*rest, covariance + noise, error=error) >= exact).all()
    against = covariance - error * np.sign(covariance)
    assert (mehler_bound(*rest, against) < exact).any()  # the error matters, or this test says nothing
    assert (mehler_bound(*rest, against, error=error) >= exact).all()


# ---- the best ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 120), st.integers(1, 40), st.sampled_from([0.01, 3.0, 100.0]), st.data())
@settings(max_examples=40, deadline=None)
def test_top_epig_is_what_sorting_gives(seed, n, m, scale, data):
    arrays = problem(n, m, seed=seed, scale=scale)
    size = data.draw(st.integers(0, n))
    weights = data.draw(st.sampled_from([None, rng_for(seed, 0, "weights").random(m)]))
    index, scores = top_epig(*arrays, size, weights=weights)
    expected = sorted_out(arrays, size, weights)
    assert index.tolist() == expected[0].tolist()
    np.testing.assert_array_equal(scores, expected[1])


def test_equal_scores_come_in_order_of_index():
    arrays = problem(3, 10)
    twice = [np.tile(each, (100, *[1] * (each.ndim - 1))) if name in ("mean", "variance", "covariance") else each
             for name, each in zip(NAMES, arrays, strict=True)]  # fmt: skip
    twice = [each.ravel() if name != "covariance" else each for name, each in zip(NAMES, twice, strict=True)]
    assert top_epig(*twice, 150)[0].tolist() == sorted_out(twice, 150)[0].tolist()


def test_covariances_may_be_a_function_of_rows_and_few_are_asked_for():
    *rest, covariance = arrays = problem(5000, 60, scale=2.0)
    asked = []

    def rows(index):
        asked.append(len(covariance[index]))
        return covariance[index]

    index, scores = top_epig(*rest, rows, 3, rough=lambda span: covariance[span].astype(np.float32), error=1e-5)
    expected = sorted_out(arrays, 3)
    assert index.tolist() == expected[0].tolist()
    np.testing.assert_array_equal(scores, expected[1])
    assert sum(asked) < 250  # of 5000


def test_float32_and_tensors_come_back_as_they_came():
    arrays = problem(50, 20, dtype=np.float32)
    index, scores = top_epig(*arrays, 5)
    assert scores.dtype == np.float32
    torch = pytest.importorskip("torch")
    index_t, scores_t = top_epig(*(torch.from_numpy(each) for each in arrays), 5)
    assert isinstance(scores_t, torch.Tensor)
    assert index_t.tolist() == index.tolist()
    np.testing.assert_array_equal(scores_t.numpy(), scores)


def test_inputs_are_not_modified():
    arrays = problem(40, 20)
    before = [each.copy() for each in arrays]
    top_epig(*arrays, 5)
    mehler_bound(*arrays, weights=np.ones(20))
    for now, then in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(now, then)


# ---- BALD ----------------------------------------------------------------------------------------------------------


def test_houlsbys_curve_is_above_the_entropy_by_no_more_than_it_says():
    f = np.linspace(-12, 12, 200_001)
    above = math.log(2) * np.exp(-f * f / (math.pi * math.log(2))) - entr(ndtr(f)) - entr(ndtr(-f))
    assert above.min() > -1e-12
    assert 0.00187 < above.max() < 0.00188


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-3, 1.0, 100.0, 1e6]), st.sampled_from([0.0, 1.0, 30.0]))
@settings(max_examples=40, deadline=None)
def test_top_bald_is_what_sorting_gives(seed, scale, width):
    rng = rng_for(seed, 0, "bald")
    mean, variance = rng.normal(size=200) * width, rng.random(200) * scale
    exact = probit.bald(mean, variance)
    gap = bald_bound(mean, variance) - exact
    assert (gap >= 0).all()
    assert (gap < 0.0019).all()
    index, scores = top_bald(mean, variance, 7)
    assert index.tolist() == sorted(range(200), key=lambda i: (-exact[i], i))[:7]
    np.testing.assert_array_equal(scores, exact[index])


# ---- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("variance", lambda each: each[:3], "variance must have one number per input"),
        ("target_variance", lambda each: each[:, None], "target_variance must have one number per input"),
        ("covariance", lambda each: each.T, r"covariance must have shape .* = \(10, 5\)"),
        ("covariance", lambda each: np.where(np.arange(5) == 3, np.nan, each), r"covariance\[0, 3\] is nan"),
        ("covariance", lambda each: each * 100, "variances allow"),
        ("mean", lambda each: np.where(np.arange(10) == 7, np.nan, each), r"mean\[7\] is nan"),
    ],
)
def test_faults_are_named(name, change, words):
    arrays = dict(zip(NAMES, problem(10, 5), strict=True))
    arrays[name] = change(arrays[name])
    with pytest.raises(ValueError, match=words):
        top_epig(*arrays.values(), 2)


def test_a_fault_in_a_function_of_rows_is_found_too():
    *rest, covariance = problem(200, 5)
    broken = covariance.copy()
    broken[150, 2] = np.nan
    with pytest.raises(ValueError, match="is nan"):
        top_epig(*rest, lambda rows: broken[rows], 1)
    assert np.isnan(mehler_bound(*rest, broken)).nonzero()[0].tolist() == [150]


def test_a_function_of_rows_must_give_those_rows():
    *rest, covariance = problem(300, 5)
    with pytest.raises(ValueError, match=r"covariance must give shape \(300, 5\)"):
        top_epig(*rest, lambda rows: covariance[rows][:-1], 1)


@pytest.mark.parametrize("size", [-1, 11])
def test_size_is_checked(size):
    with pytest.raises(ValueError, match="size must be between 0 and the number of candidates, 10"):
        top_epig(*problem(10, 5), size)
    with pytest.raises(ValueError, match="size must be between 0 and the number of candidates, 10"):
        top_bald(np.zeros(10), np.ones(10), size)


def test_there_must_be_a_target():
    with pytest.raises(ValueError, match="at least one target"):
        top_epig(np.zeros(3), np.zeros(0), np.ones(3), np.zeros(0), np.zeros((3, 0)), 1)


@pytest.mark.parametrize(
    ("dtype", "beyond", "refused"),
    [("float64", 1e-5, True), ("float64", 2e-7, False), ("float32", 1e-3, True), ("float32", 2e-5, False)],
)
def test_what_is_refused_does_not_depend_on_who_is_scored(dtype, beyond, refused):
    """The covariance of the candidate that tells least is beyond what its variances allow, by more or less."""
    arrays = problem(400, 5, width=0.2, dtype=dtype)
    mean, variance, covariance = (arrays[i].copy() for i in (0, 2, 4))
    mean[300] = 60.0  # nobody would score it
    root = np.sqrt((1 + variance[300]) * (1 + arrays[3][2]))
    covariance[300, 2] = np.sqrt(variance[300] * arrays[3][2]) + beyond * root
    arrays = [mean, arrays[1], variance, arrays[3], covariance]
    calls = (
        lambda: probit.epig(*arrays),
        lambda: top_epig(*arrays, 3),
        lambda: top_epig(*arrays[:4], lambda rows: covariance[rows], 3),
    )
    for call in calls:
        if refused:
            with pytest.raises(ValueError, match="covariance"):
                call()
        else:
            call()
    assert np.isnan(mehler_bound(*arrays))[300] == refused
    assert np.isnan(mehler_bound(*arrays)).sum() == refused
