"""Gaussian processes end to end: draws, covariances and closed forms tell one story, and others tell the same."""

import pickle

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import askwell
import askwell.models
from askwell.information import gaussian, nested, probit
from askwell.models.gp import GPClassifier, GPRegressor, Kernel, rough_covariance
from askwell.seeds import rng_for
from askwell.testing import check_model


def labelled(n, *, seed=0):
    """The paper's problem in the plane."""
    rng = rng_for(seed, n, "labelled")
    x = rng.standard_t(5, size=(n, 2)) * np.sqrt(0.8)
    return x, np.where(rng.random(n) < ndtr(20 * (np.tanh(2 * x[:, 0]) - x[:, 1])), "yes", "no")


def fitted(n=15, *, seed=0, **options):
    return GPClassifier(**options).fit(*labelled(n, seed=seed), rng=rng_for(seed, 0, "fit"), classes=["no", "yes"])


# ---- the contract --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["ep", "vi"])
def test_classifier_keeps_the_contract(inference):
    x, y = labelled(30)
    check_model(GPClassifier(inference=inference, draws=50), x=x, y=y, processes=inference == "ep")


def test_classifier_keeps_the_contract_with_one_class_seen():
    x, _ = labelled(30)
    check_model(GPClassifier(draws=50, frequencies=100), x=x, y=["yes"] * 30, processes=False)


def test_posterior_survives_pickling_before_and_after_its_first_draw():
    posterior, (x, _) = fitted(draws=20), labelled(40)
    early = pickle.dumps(posterior)
    assert len(early) < 20_000
    probs = posterior.predict(x)
    for copy in (pickle.loads(early), pickle.loads(pickle.dumps(posterior))):
        np.testing.assert_array_equal(copy.predict(x), probs)
        np.testing.assert_array_equal(copy.predict_proba(x), posterior.predict_proba(x))


def test_another_rng_gives_other_draws_of_the_same_belief():
    (x, y), model = labelled(15), GPClassifier(draws=20)
    one, other = (model.fit(x, y, rng=rng_for(seed, 0, "fit")) for seed in (0, 1))
    assert np.abs(one.predict(x) - other.predict(x)).max() > 0.1
    np.testing.assert_array_equal(one.predict_proba(x), other.predict_proba(x))


def test_long_predictions_come_in_blocks(monkeypatch):
    posterior, (x, _) = fitted(draws=20, frequencies=64), labelled(300)
    whole = posterior.predict(x), *posterior.latent(x), posterior.covariance(x, x[:7]), posterior.epig(x, x[:7])
    monkeypatch.setattr("askwell.models.gp.BLOCK", 1000)
    parts = posterior.predict(x), *posterior.latent(x), posterior.covariance(x, x[:7]), posterior.epig(x, x[:7])
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert posterior.predict(x[:0]).shape == (0, 20, 2)
    assert posterior.epig(x[:0], x).shape == (0,)


def test_as_model_takes_it_as_it_is():
    model = GPClassifier()
    assert askwell.models.as_model(model) is model


# ---- one story -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["ep", "vi"])
def test_draws_have_the_moments_of_the_joint_gaussian(inference):
    posterior, (x, _) = fitted(inference=inference, draws=8_000, frequencies=1024), labelled(25, seed=1)
    f = np.concatenate([f for _, f in posterior.process.paths(x)])
    mean, variance = posterior.latent(x)
    covariance = posterior.covariance(x, x)
    np.testing.assert_allclose(np.diag(covariance), variance, atol=1e-9)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-8
    assert np.abs(f.mean(1) - mean).max() < 0.15
    assert np.abs(np.cov(f) - covariance).max() < 0.6  # of 10; a standard error is up to 0.16


def test_mean_of_draws_is_the_closed_form():
    posterior, (x, _) = fitted(draws=8_000), labelled(50, seed=1)
    gap = posterior.predict(x).mean(1) - posterior.predict_proba(x)
    assert np.abs(gap).max() < 0.02  # a standard error is up to 0.005


def test_far_away_the_prior_is_back():
    far = np.full((1, 2), 50.0)
    for posterior in (fitted(), fitted(inference="vi")):
        mean, variance = posterior.latent(far)
        assert (abs(mean[0]), variance[0]) == pytest.approx((0, 10))
        np.testing.assert_allclose(posterior.predict_proba(far), 0.5)


def test_epig_is_exact_and_draws_agree():
    posterior = fitted(draws=8_000)
    x, targets = labelled(20, seed=1)[0], labelled(15, seed=2)[0]
    exact = posterior.epig(x, targets)
    (mean, variance), (target_mean, target_variance) = posterior.latent(x), posterior.latent(targets)
    belief = mean, target_mean, variance, target_variance, posterior.covariance(x, targets)
    plain = probit.epig(*belief)
    np.testing.assert_allclose(exact, plain, atol=1e-12)
    drawn = askwell.epig(posterior.predict(x), posterior.predict(targets))
    np.testing.assert_allclose(drawn, exact, atol=0.003, rtol=0.05)
    weights = np.arange(15.0)
    weighted = posterior.epig(x, targets, weights=weights)
    np.testing.assert_allclose(weighted, probit.epig(*belief, weights=weights), atol=1e-12)


# ---- others --------------------------------------------------------------------------------------------------------


def test_regression_is_scikit_learns():
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))
    y = 5 + np.sin(x[:, 0]) + 0.1 * rng.normal(size=30)
    for normalise in (False, True):
        model = GPRegressor(kernel=Kernel(2.0, (1.0, 2.0, 3.0)), noise=0.05, normalise=normalise)
        posterior = model.fit(x, y, rng=rng_for(0, 0, "fit"))
        kernel = ConstantKernel(2.0, "fixed") * RBF([1.0, 2.0, 3.0], "fixed")
        theirs = GaussianProcessRegressor(kernel, alpha=0.05, normalize_y=normalise, optimizer=None).fit(x, y)
        mean, covariance = theirs.predict(new, return_cov=True)
        np.testing.assert_allclose(posterior.latent(new)[0], mean, atol=1e-6)
        np.testing.assert_allclose(posterior.latent(new)[1], np.diag(covariance), atol=1e-6)
        np.testing.assert_allclose(posterior.covariance(new, new), covariance, atol=1e-6)
        if not normalise:
            assert posterior.process.sites.evidence == pytest.approx(theirs.log_marginal_likelihood_value_)


def test_classifier_is_near_scikit_learns_laplace():
    x, y = labelled(40)
    new = labelled(200, seed=1)[0]
    kernel = ConstantKernel(10.0, "fixed") * RBF(1.0, "fixed")
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(x, y).predict_proba(new)
    ours = fitted(40).predict_proba(new)
    assert np.abs(ours - theirs).mean() < 0.12  # a logit and Laplace there, a probit and EP here
    assert ((ours > 0.5) == (theirs > 0.5)).mean() > 0.95


def test_learnt_kernels_predict_better_than_bad_ones():
    (x, y), (new, truth) = labelled(60), labelled(500, seed=1)
    bad = GPClassifier(kernel=Kernel(1.0, 0.05))
    scores = []
    for model in (
        bad,
        GPClassifier(kernel=bad.kernel, learn=True),
        GPClassifier(kernel=bad.kernel, learn=True, inference="vi"),
    ):
        probs = model.fit(x, y, rng=rng_for(0, 0, "fit"), classes=["no", "yes"]).predict_proba(new)
        scores.append(np.log(np.where(truth == "yes", probs[:, 1], probs[:, 0])).mean())
    assert min(scores[1:]) > scores[0] + 0.2


# ---- regression ----------------------------------------------------------------------------------------------------


def regression_posterior(**options):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(8, 1))
    return GPRegressor(noise=0.1, **options).fit(x, np.sin(2 * x[:, 0]), rng=rng_for(0, 0, "fit"))


def test_regression_draws_have_the_moments_of_the_joint_gaussian():
    posterior, x = regression_posterior(draws=8_000, normalise=True), np.linspace(-3, 3, 15)[:, None]
    means, variances = posterior.predict(x)
    assert means.shape == variances.shape == (15, 8_000)
    assert (variances == posterior.noise_variance).all()
    mean, variance = posterior.latent(x)
    np.testing.assert_allclose(means.mean(1), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(means), posterior.covariance(x, x), atol=0.03)
    np.testing.assert_allclose(np.diag(posterior.covariance(x, x)), variance, atol=1e-9)


def test_regression_epig_against_nested_monte_carlo():
    posterior = regression_posterior(draws=2000)
    x, targets = np.array([[-1.0], [1.9], [2.5], [4.0]]), np.array([[2.2], [2.6], [3.0]])
    exact = posterior.epig(x, targets)
    simulated = nested.gaussian_epig(
        *posterior.predict(x), *posterior.predict(targets), rng=rng_for(0, 0, "nested"), outcomes=3000
    )
    np.testing.assert_allclose(simulated, exact, atol=0.03)
    np.testing.assert_allclose(
        gaussian.moment_matched_epig(*posterior.predict(x), *posterior.predict(targets)), exact, atol=0.02, rtol=0.05
    )
    assert exact.argmax() == 2


def test_regression_learns():
    rng = rng_for(3, 0, "truth")
    x = rng.uniform(0, 20, size=(80, 1))
    y = 300 + 20 * rng.multivariate_normal(np.zeros(80), Kernel(1.0, 2.0)(x, x) + 0.01 * np.eye(80))
    posterior = GPRegressor(learn=True, normalise=True).fit(x, y, rng=rng)
    assert 1.4 < posterior.process.kernel.length < 2.8
    assert 1.5 < posterior.noise_variance < 10  # the truth is 4
    assert posterior.latent([[100.0]])[0] == pytest.approx(y.mean())


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "classes", "words"),
    [
        ([[0.0], [1.0], [2.0]], ["a", "b", "c"], None, r"for two classes, but there are 3: \('a', 'b', 'c'\)"),
        ([[0.0], [1.0]], ["a", "b"], ["a", "b", "c"], "For more there are forests"),
        ([[0.0], [1.0]], ["a", "a"], None, r"all labels are 'a'. Pass both as classes="),
        ([[0.0], [1.0]], ["a", "d"], ["a", "b"], "'d' is none of them"),
        (np.empty((0, 1)), [], ["a", "b"], "at least one label"),
        ([[0.0], [np.nan]], ["a", "b"], None, r"x\[1, 0\] is nan"),
        ([[0.0], [1.0], [2.0]], ["a", "b"], None, "same length, but they have 3 and 2"),
        ([0.0, 1.0], ["a", "b"], None, r"x must be a table"),
        ([["red"], ["blue"]], ["a", "b"], None, "x must hold numbers"),
    ],
)
def test_classifier_says_what_is_wrong(x, y, classes, words):
    with pytest.raises(ValueError, match=words):
        GPClassifier().fit(x, y, rng=rng_for(0, 0, "fit"), classes=classes)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([[0.0]], ["much"], "For classes use a classifier"),
        ([[0.0], [1.0]], [1.0, np.inf], r"y\[1\] is inf"),
        ([[0.0], [1.0]], [[1.0], [2.0]], "its shape is"),
        (np.empty((0, 1)), [], "at least one"),
        ([[0.0], [1.0]], [1.0], "same length, but they have 2 and 1"),
    ],
)
def test_regressor_says_what_is_wrong(x, y, words):
    with pytest.raises(ValueError, match=words):
        GPRegressor().fit(x, y, rng=rng_for(0, 0, "fit"))


def test_options_say_what_is_wrong():
    for wrong, words in (({"inference": "laplace"}, '"ep" or "vi"'), ({"draws": 1}, "at least 2")):
        with pytest.raises(ValueError, match=words):
            GPClassifier(**wrong)
    with pytest.raises(ValueError, match="noise must be a positive number"):
        GPRegressor(noise=0.0)
    with pytest.raises(ValueError, match="one for each of the 2 features of x, but there are 3"):
        fitted(kernel=Kernel(1.0, (1.0, 1.0, 1.0)))


def test_predictions_say_what_is_wrong():
    posterior = fitted(draws=5, frequencies=8)
    for call in (posterior.predict, posterior.latent, posterior.predict_proba):
        with pytest.raises(ValueError, match="2 features"):
            call(np.zeros((3, 4)))
        with pytest.raises(ValueError, match="must be finite"):
            call([[0.0, np.nan]])


# ---- the best of many ----------------------------------------------------------------------------------------------


def with_candidates(labels, features, *, seed=0, kernel=None, spread=2.0, offset=0.0):
    rng = rng_for(seed, 0, "gp")
    x = offset + spread * rng.standard_normal((labels + 400 + 70, features))
    y = (x[:labels].sum(axis=1) > features * offset).astype(int)
    model = GPClassifier(kernel=kernel or Kernel(scale=10.0))
    posterior = model.fit(x[:labels], y, rng=rng, classes=[0, 1])
    return posterior, x[labels : labels + 400], x[labels + 400 :]


@pytest.mark.parametrize("features", [1, 2, 5, 12])
@pytest.mark.parametrize("kernel", [Kernel(scale=10.0), Kernel(scale=0.3, length=2.5)])
def test_the_best_are_those_of_sorting(features, kernel):
    posterior, x, targets = with_candidates(25, features, kernel=kernel)
    weights = rng_for(1, 0, "weights").random(len(targets))
    scores = posterior.epig(x, targets, weights=weights)
    index, best = posterior.top_epig(x, targets, 20, weights=weights)
    assert index.tolist() == np.argsort(-scores, kind="stable")[:20].tolist()
    np.testing.assert_allclose(best, scores[index], rtol=1e-9)


@pytest.mark.parametrize("features", [1, 2, 5, 12])
@pytest.mark.parametrize("spread", [0.01, 2.0, 300.0])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_rough_covariances_are_as_wrong_as_they_say_at_most(features, spread, offset):
    lengths = tuple(np.linspace(0.5, 2.0, features)) if features > 1 else 1.0
    posterior, x, targets = with_candidates(40, features, kernel=Kernel(10.0, lengths), spread=spread, offset=offset)
    rough, error = rough_covariance(posterior.process, x, targets)
    for rows in (slice(0, 400), np.array([3, 399, 7])):
        found = rough(rows)
        assert found.dtype == np.float32
        assert np.abs(found - posterior.covariance(x[rows], targets)).max() <= error
    assert error < 1e-3 or spread == 300.0


def test_inputs_of_another_width_are_refused():
    posterior, x, targets = with_candidates(10, 2)
    with pytest.raises(ValueError, match="features"):
        posterior.top_epig(x[:, :1], targets, 1)
