"""Regressors against their members, one by one, up to EPIG."""

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from askwell.information import gaussian
from askwell.models.regression import RandomForestRegression, RegressionModel, RegressionPosterior, noise_variance
from askwell.models.scikit_learn import seeded_copy
from askwell.seeds import rng_for


def curve(n, noise=0.3, seed=0):
    rng = rng_for(seed, n, "curve")
    x = rng.uniform(-2, 2, (n, 2)).astype(np.float32)
    return x, np.sin(2 * x[:, 0]) + x[:, 1] + noise * rng.normal(size=n)


def fit(model, x, y):
    return model.fit(x, y, rng=rng_for(0, 0, "fit"))


REGRESSORS = [
    RandomForestRegressor(15),
    RandomForestRegressor(15, min_samples_leaf=4),
    ExtraTreesRegressor(15),
    BaggingRegressor(n_estimators=15),
    BaggingRegressor(n_estimators=15, max_features=0.5),
    BaggingRegressor(KNeighborsRegressor(3), 15),
    make_pipeline(StandardScaler(), RandomForestRegressor(15)),
]


@pytest.mark.parametrize("estimator", REGRESSORS, ids=str)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_means_are_those_of_the_members(estimator, offset):
    x, y = curve(60)
    posterior = fit(RegressionModel(estimator), x, y + offset)
    fitted = seeded_copy(estimator, rng_for(0, 0, "fit")).fit(x, y + offset)
    last, inner = (fitted[-1], fitted[:-1].transform(x)) if hasattr(fitted, "steps") else (fitted, x)
    columns = getattr(last, "estimators_features_", [[0, 1]] * 15)
    wanted = [m.predict(inner[:, inputs]) for m, inputs in zip(last.estimators_, columns, strict=True)]
    means, variances = posterior.predict(x)
    np.testing.assert_allclose(means, np.stack(wanted, axis=1), atol=1e-5)
    assert means.shape == variances.shape == (60, 15)
    assert (variances > 0).all()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(posterior)).predict(x)[0], means)


def test_draws_are_the_same_in_every_call():
    x, y = curve(60)
    for estimator in (RandomForestRegressor(10), BaggingRegressor(KNeighborsRegressor(3), 10)):
        first, again = fit(RegressionModel(estimator), x, y), fit(RegressionModel(estimator), x, y)
        whole = first.predict(x)
        for part in (slice(0, 20), slice(20, 60)):
            for found, wanted in zip(first.predict(x[part]), whole, strict=True):
                np.testing.assert_allclose(found, wanted[part], atol=1e-6)
        for found, wanted in zip(again.predict(x), whole, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_variances_of_leaves_are_those_of_their_labels():
    x, y = curve(80)
    for bootstrap in (False, True):
        estimator = RandomForestRegressor(3, min_samples_leaf=5, bootstrap=bootstrap)
        posterior = fit(RegressionModel(estimator, noise=0.25), x, y)
        tree = seeded_copy(estimator, rng_for(0, 0, "fit")).fit(x, y).estimators_[1]
        wanted = tree.tree_.impurity[tree.apply(x)] + 0.25
        np.testing.assert_allclose(posterior.predict(x)[1][:, 1], wanted, rtol=1e-5)


@pytest.mark.parametrize("estimator", REGRESSORS[:4], ids=str)
def test_the_whole_variance_is_right_on_new_inputs(estimator):
    estimator = clone(estimator).set_params(n_estimators=60)
    (x, y), (new, truth) = curve(300), curve(1000, seed=1)
    means, variances = fit(RegressionModel(estimator), x, y).predict(new)
    expected = means.var(axis=1, ddof=1).mean() + variances.mean()
    assert 0.6 < np.mean((truth - means.mean(axis=1)) ** 2) / expected < 1.5


def test_noise_variance_against_loops():
    rng = rng_for(0, 0, "noise")
    means, variances, y = rng.normal(size=(6, 5)), rng.random((6, 5)), 5 * rng.normal(size=6)
    unseen = rng.random((6, 5)) < 0.6
    errors, excess = [], []
    for i in range(6):
        kept = unseen[i]
        if kept.sum() > 1:
            errors.append((y[i] - means[i, kept].mean()) ** 2)
            excess.append(errors[-1] - means[i, kept].var(ddof=1) - variances[i, kept].mean())
    assert noise_variance(means, variances, y, unseen=unseen) == pytest.approx(np.mean(excess))
    assert noise_variance(means, variances + 100, y) == pytest.approx(0.01 * np.mean((y - means.mean(axis=1)) ** 2))


def test_fitted_regressors_are_taken_as_they_are():
    x, y = curve(40)
    members = [LinearRegression().fit(x[i::4], y[i::4]) for i in range(4)]
    means, variances = RegressionPosterior.of(members, noise=0.2).predict(x)
    np.testing.assert_allclose(means, np.stack([m.predict(x) for m in members], axis=1))
    assert (variances == 0.2).all()
    scores = gaussian.moment_matched_epig(means, variances, means[:3], variances[:3])
    assert scores.shape == (40,)
    assert RegressionPosterior.of(members).predict(x[:0])[0].shape == (0, 4)


@pytest.mark.parametrize("estimator", [RandomForestRegressor(300), ExtraTreesRegressor(300, bootstrap=True)], ids=str)
def test_epig_ranks_a_candidate_near_the_targets_above_a_far_one(estimator):
    x, y = curve(40)
    posterior = fit(RegressionModel(estimator), x, y)
    targets = rng_for(0, 0, "targets").uniform(1.4, 1.6, (50, 2))
    candidates = np.array([[1.5, 1.5], [1.4, 1.6], [-1.5, -1.5], [-1.5, 0.5]])
    scores = gaussian.moment_matched_epig(*posterior.predict(candidates), *posterior.predict(targets))
    assert scores[:2].min() > 2 * scores[2:].max()


def test_few_labels():
    for n in (1, 2, 3):
        x, y = curve(n)
        means, variances = fit(RegressionModel(RandomForestRegressor(5)), x, y).predict(x)
        assert np.isfinite(means).all()
        assert (variances >= 0).all()


def test_memory_grows_only_with_the_output():
    x, y = curve(30)
    posterior, pool = fit(RegressionModel(RandomForestRegressor(20)), x, y), np.zeros((100_000, 2), np.float32)
    posterior.predict(pool[:10])  # compiles
    tracemalloc.start()
    out = posterior.predict(pool)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - sum(part.nbytes for part in out) < 15 * 2**20


@pytest.mark.parametrize("estimator", [LinearRegression(), GradientBoostingRegressor(), RandomForestClassifier(2)])
def test_refusals_of_what_has_no_members(estimator):
    with pytest.raises(ValueError, match="a forest or a bag of regressors"):
        RegressionModel(estimator)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((2, 1)), ["a", "b"], "y must hold numbers"),
        (np.zeros((2, 1)), [0.0, np.nan], r"y\[1\] is nan"),
        (np.zeros((2, 1)), [[0.0], [1.0]], "one per example"),
        (np.zeros((0, 1)), [], "at least one number"),
        (np.zeros((3, 1)), [0.0, 1.0], "same length"),
        ([[np.inf], [1.0]], [0.0, 1.0], "x must be finite"),
    ],
)
def test_refusals_of_regression(x, y, words):
    with pytest.raises(ValueError, match=words):
        fit(RegressionModel(RandomForestRegressor(2)), x, y)


def test_refusals_of_regression_elsewhere():
    x, y = curve(10)
    with pytest.raises(ValueError, match=r"\[inputs, 2 features\]"):
        fit(RegressionModel(RandomForestRegressor(2)), x, y).predict(x[:, :1])
    with pytest.raises(ValueError, match="noise must be"):
        RegressionModel(RandomForestRegressor(2), noise=-1.0)
    with pytest.raises(ValueError, match="at least one fitted regressor"):
        RegressionPosterior.of([])
    with pytest.raises(ValueError, match=r"must have predict\(x\)"):
        RegressionPosterior.of([3])


def test_numbers_as_scikit_learns_in_distribution():
    rng = rng_for(0, 0, "trees")
    x = rng.normal(size=(150, 4))
    y = 1000 + x[:, 0] * 3 + np.abs(x[:, 1]) + rng.normal(size=150) / 3
    new = rng.normal(size=(400, 4))
    found = [
        model.fit(x, y, rng=rng_for(0, 0, "fit"))
        for model in (RegressionModel(RandomForestRegressor(300)), RandomForestRegression(300))
    ]
    (means, spread), (own_means, own_spread) = (posterior.predict(new) for posterior in found)
    assert np.abs(means.mean(1) - own_means.mean(1)).mean() < 0.05 * y.std()
    assert own_means.std(1).mean() == pytest.approx(means.std(1).mean(), rel=0.05)
    assert own_spread.mean() == pytest.approx(spread.mean(), rel=0.3)
    assert found[1].noise == pytest.approx(found[0].noise, rel=0.3)
