import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr, eval_hermitenorm, ndtr

from askwell.information import probit
from askwell.information.probit_bounds import bald_bound, mehler_bound, top_bald, top_epig
from askwell.seeds import rng_for

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
