"""The tempered posterior: dense float64 twins of mode, width and weights, and whether its answers are worth having."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression

from askwell.models import tempered as inside
from askwell.models.linear import LinearModel
from askwell.models.tempered import tempered_posterior
from askwell.seeds import rng_for

SHAPES = [(30, 4, 3), (6, 10, 3), (6, 10, 2), (40, 3, 2), (12, 6, 5), (5, 31, 4)]  # n, D, c
shapes = pytest.mark.parametrize(("n", "size", "c"), SHAPES)


def labelled(n, size, c):
    """Inputs [n, D] that begin with a one, and class numbers [n]."""
    rng = rng_for(0, n, f"tempered {size} {c}")
    y = np.arange(n) % c
    x = rng.normal(size=(c, size))[y] + rng.normal(size=(n, size))
    x[:, 0] = 1
    return x / np.sqrt(size), y


def fit(rows, codes, c, **options):
    return tempered_posterior(rows, codes, c, rng=rng_for(0, 0, "fit"), **options)


def modes_by_scikit_learn(rows, codes, c, scale):
    """[D, c]; every class must have an example."""
    twin = LogisticRegression(C=scale**2 * (2 if c == 2 else 1), fit_intercept=False, tol=1e-10, max_iter=10_000)
    coefficients = twin.fit(rows, codes).coef_.T
    return coefficients if c > 2 else np.concatenate([-coefficients / 2, coefficients / 2], axis=1)


@shapes
def test_the_mean_is_where_the_gradient_is_zero(n, size, c):
    rows, codes = labelled(n, size, c)
    mode = fit(rows, codes, c, draws=1, scale=1.5).mean
    gradient = rows.T @ (softmax(rows @ mode, axis=1) - np.eye(c)[codes]) + mode / 1.5**2
    assert np.abs(gradient).max() < 1e-5


@shapes
def test_draws_have_the_mean_and_covariance_of_the_dense_bound(n, size, c, monkeypatch):
    monkeypatch.setattr(inside, "TEMPERS", (0.5,))
    rows, codes = labelled(n, size, c)
    found = fit(rows, codes, c, draws=20_000, scale=1.5)
    inverse = np.linalg.inv(np.eye(size) / 1.5**2 + rows.T @ rows / 2)
    wanted = 0.25 * np.kron(np.eye(c) - 1 / c, inverse)
    flat = found.weights.transpose(1, 0, 2).reshape(c * size, -1)  # [c D, k]
    sizes = np.sqrt(np.diagonal(wanted))
    np.testing.assert_allclose(np.cov(flat) / sizes / sizes[:, None], wanted / sizes / sizes[:, None], atol=0.05)
    np.testing.assert_allclose(flat.mean(axis=1) / sizes, found.mean.T.ravel() / sizes, atol=0.04)
    assert (found.scale, found.temper) == (1.5, 0.5)


@shapes
@pytest.mark.parametrize("width", [1e-3, 1.0, 300.0])
def test_modes_of_several_sets_at_once_have_no_gradient(n, size, c, width):
    """Sets of inputs that leave some out, as rows of zeros; one leaves out all. In units of the prior, where the
    Hessian is >= I: a gradient of 1e-6 is a mode found to 1e-6, also where L-BFGS gives up."""
    rows, codes = labelled(n, size, c)
    sets = np.stack([np.where((np.arange(n) % 3 == i)[:, None], 0, width * rows) for i in range(4)])
    sets[3] = 0
    scales, truth = np.array([0.5, 3.0, 12.0]), np.eye(c)[codes]
    for s, found in zip(scales, inside._modes(sets, truth, scales, tolerance=1e-6), strict=True):
        for z, mode in zip(sets, found, strict=True):
            gradient = s * z.T @ (softmax(z @ mode, axis=1) - truth) + mode / s
            assert np.linalg.norm(gradient) <= 1.01e-6


@pytest.mark.parametrize(("n", "size", "c"), [(30, 4, 3), (12, 20, 2), (40, 3, 2)])
def test_weights_are_belief_times_the_likelihood_of_labels_held_out(n, size, c, monkeypatch):
    """Each fold fitted by scikit-learn, the width by a dense inverse, many draws."""
    monkeypatch.setattr(inside, "HELD_OUT_DRAWS", 20_000)
    rows, codes = labelled(n, size, c)
    found = inside._weights(rows, codes, np.eye(c)[codes], np.array([1.0, 4.0]), rng_for(0, 0, "folds"))
    rng = rng_for(0, 0, "folds")
    rng.standard_normal((10_000, c))
    folds, logs = inside._folds(codes, rng), np.zeros((2, len(inside.TEMPERS)))
    noise = rng_for(0, 0, "twin").normal(size=(20_000, c))
    for i in range(n):
        seen = folds != folds[i]
        for a, s in enumerate((1.0, 4.0)):
            mode = modes_by_scikit_learn(rows[seen], codes[seen], c, s)
            inverse = np.linalg.inv(np.eye(size) / s**2 + rows[seen].T @ rows[seen] / 2)
            for b, temper in enumerate(inside.TEMPERS):
                logits = rows[i] @ mode + temper * np.sqrt(rows[i] @ inverse @ rows[i]) * noise
                logs[a, b] += np.log(softmax(logits, axis=1)[:, codes[i]].mean())
    (typical_s, spread_s), (typical_t, spread_t) = inside.BELIEF
    logs -= (np.log(np.array([1.0, 4.0]) / typical_s) / spread_s)[:, None] ** 2 / 2
    logs -= (np.log(np.array(inside.TEMPERS) / typical_t) / spread_t) ** 2 / 2
    wanted = np.exp(logs - logs.max())
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=0.03)


def test_every_fold_has_its_share_of_each_class():
    codes = np.repeat([0, 1, 2], [50, 20, 5])
    folds = inside._folds(codes, rng_for(0, 0, "folds"))
    table = np.array([np.bincount(folds[codes == c], minlength=5) for c in range(3)])
    assert (table.max(axis=1) - table.min(axis=1) <= 1).all()
    assert sorted(np.bincount(inside._folds(codes[:3], rng_for(0, 0, "folds")))) == [1, 1, 1]


def test_draws_are_dealt_in_proportion_to_the_weights(monkeypatch):
    """Scales so far apart that a draw's size tells which one it is of."""
    monkeypatch.setattr(inside, "SCALES", (0.01, 100.0))
    monkeypatch.setattr(inside, "TEMPERS", (1.0,))
    monkeypatch.setattr(inside, "_weights", lambda *_: np.array([[0.25], [0.75]]))
    rows, codes = labelled(4, 50, 2)
    large = np.abs(fit(rows, codes, 2, draws=40).weights).max(axis=(0, 1)) > 1
    assert large.sum() == 30
    assert 0 < large[:20].sum() < 20  # and not one kind after the other


def test_many_labels_choose_by_some_of_them(monkeypatch):
    rows, codes = labelled(600, 3, 2)
    some = fit(rows, codes, 2, draws=1)
    monkeypatch.setattr(inside, "MOST_ROWS", 1000)
    assert abs(np.log(some.scale / fit(rows, codes, 2, draws=1).scale)) < 0.5


def test_nothing_given_is_changed():
    rows, codes = labelled(6, 10, 3)
    before = rows.copy(), codes.copy()
    fit(rows, codes, 3, draws=2)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(codes, before[1])


# ---- is it worth asking? -------------------------------------------------------------------------------------------

PROBLEMS = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}


def answers(name, labels, seed):
    """(mean log-likelihood of a training label under a draw, log loss, confidence, accuracy) on what is left."""
    x, y = PROBLEMS[name](return_X_y=True)
    order = rng_for(seed, 0, "split").permutation(len(x))
    known, rest = order[:labels], order[labels:]
    model = LinearModel(draws=200, reference=x[rest])
    posterior = model.fit(x[known], y[known], rng=rng_for(seed, 0, "fit"), classes=range(y.max() + 1))
    own = np.log(posterior.predict(x[known])[np.arange(labels), :, y[known]]).mean()
    mean = posterior.predict(x[rest]).mean(axis=1)
    loss = -np.log(mean[np.arange(len(rest)), y[rest]]).mean()
    at_mode = -np.log(posterior.mean_predict(x[rest])[np.arange(len(rest)), y[rest]]).mean()
    return own, loss, at_mode, mean.max(axis=1).mean(), (mean.argmax(axis=1) == y[rest]).mean()


def test_a_draw_fits_the_labels_it_learnt_from():
    """Laplace's draws gave them -2.6 nats each, uniform guessing -2.3."""
    assert answers("digits", 100, 0)[0] > -0.8


@pytest.mark.parametrize(("name", "labels"), [("digits", 30), ("digits", 100), ("wine", 30), ("cancer", 60)])
def test_confidence_is_near_accuracy_and_the_mean_of_the_draws_predicts_like_the_mode(name, labels):
    """Laplace's confidence was 0.53, 0.53, 0.31 and 0.10 below accuracy, and his log loss twice the mode's and more."""
    _, loss, at_mode, confidence, accuracy = np.mean([answers(name, labels, seed) for seed in range(3)], axis=0)
    assert abs(confidence - accuracy) < 0.15
    assert loss < 1.1 * at_mode


def test_noise_is_not_believed():
    def answer(seed):
        rng = rng_for(seed, 0, "noise")
        x, y = rng.normal(size=(160, 20)), rng.integers(0, 3, 160)
        posterior = LinearModel(draws=100).fit(x[:60], y[:60], rng=rng_for(seed, 0, "fit"))
        mean = posterior.predict(x[60:]).mean(axis=1)
        return mean.max(axis=1).mean(), -np.log(mean[np.arange(100), y[60:]]).mean(), posterior.prior_scale

    confidence, loss, scale = np.mean([answer(seed) for seed in range(8)], axis=0)
    assert confidence < 0.5
    assert loss < 1.25  # guessing: 1.10
    assert scale < 1.5


def test_a_class_without_a_label_keeps_its_width():
    """The labels of two classes, which are easy, make draws that hardly differ; of a third they have said nothing."""
    rng = rng_for(0, 0, "three")
    y = np.arange(40) % 2
    x = np.where(y[:, None] == 1, 2.0, -2.0) + 0.3 * rng.normal(size=(40, 3))
    found = LinearModel(draws=500).fit(x, y, rng=rng_for(0, 0, "fit"), classes=[0, 1, 2])
    assert found.temper < 0.5
    widths = found.weights.std(axis=2)  # [D, c]
    assert (widths[:, 2] > 1.3 * widths[:, 0]).all()
