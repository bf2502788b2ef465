"""The linear model: scikit-learn's mode, units, prior scales, and predictions in chunks. Draws: test_tempered.py."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from scipy.special import expit, log_softmax, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import askwell
from askwell.arrays import one_thread_each
from askwell.information.bounds import prepare
from askwell.models import as_model, linear, linear_kernels
from askwell.models.linear import FAR, LinearModel, gradient_embeddings, set_probs, set_probs_above, set_softmax
from askwell.seeds import rng_for
from askwell.testing import check_model

SHAPES = [(30, 3, 3), (6, 9, 3), (6, 9, 2), (40, 2, 2), (12, 5, 5), (5, 30, 4)]  # n, d, c
shapes = pytest.mark.parametrize(("n", "d", "c"), SHAPES)


def labelled(n, d, c, seed=0):
    rng = rng_for(seed, n, f"data {d} {c}")
    y = np.arange(n) % c
    return (rng.normal(size=(c, d))[y] + rng.normal(size=(n, d))).astype(np.float32), y


def fit(x, y, *, step=0, classes=None, **options):
    return LinearModel(**options).fit(x, y, rng=rng_for(0, step, "fit"), classes=classes)


def phi(posterior, x):
    """The features of the model, in float64."""
    inner = (np.asarray(x, np.float64) - posterior.centre) / posterior.scale
    one = np.ones((len(inner), len(posterior.mean) - inner.shape[1]))
    return np.concatenate([one, inner], axis=1)


# ---- contract ------------------------------------------------------------------------------------------------------


def test_contract():
    check_model(LinearModel(draws=20))
    check_model(LinearModel(prior_scale=2.0, intercept=False, standardise=False), processes=False)
    assert as_model(LinearModel()) == LinearModel()


def test_contract_with_more_features_than_labels():
    x, y = labelled(20, 50, 4)
    check_model(LinearModel(draws=10), x=x, y=y, processes=False)


def test_same_rng_same_posterior_and_other_rng_other_draws():
    x, y = labelled(10, 20, 3)
    first, again, other = fit(x, y), fit(x, y), fit(x, y, step=1)
    np.testing.assert_array_equal(first.weights, again.weights)
    np.testing.assert_allclose(first.mean, other.mean, atol=0.1)  # other folds, so other weights of the scales
    assert np.abs(first.weights - other.weights).max() > 0.1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(x), first.predict(x))


# ---- against scikit-learn ------------------------------------------------------------------------------------------


@shapes
@pytest.mark.parametrize("intercept", [True, False])
def test_mode_is_scikit_learns(n, d, c, intercept):
    x, y = labelled(n, d, c)
    posterior = fit(x, y, prior_scale=1.7, draws=1, intercept=intercept)
    # with two classes scikit-learn fits one vector w_1 - w_0, whose prior is twice as wide
    twin = LogisticRegression(C=1.7**2 * (2 if c == 2 else 1), fit_intercept=False, tol=1e-10, max_iter=10_000)
    wanted = twin.fit(phi(posterior, x), y).coef_.T
    found = posterior.mean if c > 2 else posterior.mean[:, 1:] - posterior.mean[:, :1]
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    np.testing.assert_allclose(posterior.mean_predict(x), twin.predict_proba(phi(posterior, x)), atol=1e-5)


# ---- the prior scale -----------------------------------------------------------------------------------------------


def test_auto_is_small_where_there_is_nothing_to_learn_and_large_where_there_is():
    rng = rng_for(0, 0, "noise")
    x = rng.normal(size=(200, 10))
    noise = fit(x, np.arange(200) % 2, draws=2)
    clear = fit(x, (x[:, 0] > 0).astype(int), draws=2)
    assert noise.prior_scale < 2 < 5 < clear.prior_scale
    assert clear.temper < noise.temper


def test_auto_predicts_digits_about_as_well_as_the_best_scale():
    x, y = load_digits(return_X_y=True)
    train, test = np.split(rng_for(0, 0, "split").permutation(len(x)), [100])

    def loss(scale):
        probs = fit(x[train], y[train], prior_scale=scale, draws=200, classes=range(10)).predict(x[test]).mean(axis=1)
        return -np.log(probs[np.arange(len(test)), y[test]]).mean()

    assert loss("auto") < min(loss(s) for s in (0.3, 1.0, 3.0, 10.0, 30.0)) + 0.1


# ---- what the labels do not reach ----------------------------------------------------------------------------------


def log_odds(posterior, x):
    logs = np.log(posterior.predict(x).astype(np.float64))
    return logs[:, :, 0] - logs[:, :, 1]


def test_inputs_outside_the_span_of_the_data_have_the_priors_variance():
    x = np.eye(10, dtype=np.float32)
    posterior = fit(x[:3], [0, 1, 2], prior_scale=1.2, draws=20_000, intercept=False, standardise=False)
    odds = log_odds(posterior, np.concatenate([x[3:], 3 * x[:3]]))
    square = np.mean(np.square(posterior.temper)) * 2 * 1.2**2 / 10
    assert (odds[:7].var(axis=1) > square).all()  # draws of several tempers vary more than their typical one
    np.testing.assert_allclose(odds[:7].mean(axis=1), 0, atol=0.02)
    assert np.abs(np.corrcoef(odds) - np.eye(10))[:7].max() < 0.03  # and nothing to do with each other
    assert (odds[7:9].var(axis=1) < 0.99 * 9 * 2 * 1.2**2 / 10).all()  # inside it labels have told something


def test_draws_are_linear_functions_in_and_outside_the_span():
    x, y = labelled(4, 12, 2)
    posterior = fit(x, y, draws=50, prior_scale=1.0, intercept=False, standardise=False)
    new = rng_for(0, 0, "new").normal(size=(5, 12))
    np.testing.assert_allclose(log_odds(posterior, -new), -log_odds(posterior, new), atol=1e-4)
    np.testing.assert_allclose(log_odds(posterior, 2 * new), 2 * log_odds(posterior, new), atol=1e-3)


def test_a_class_without_an_example_has_what_the_prior_leaves_it():
    x, y = labelled(40, 3, 2)
    posterior = fit(x, y, classes=[0, 1, "new"])
    probs = posterior.predict(x).mean(axis=1)
    assert posterior.classes == (0, 1, "new")
    assert (probs[:, 2] > 1e-4).all()
    assert probs[:, 2].mean() < 0.1
    few = fit(x[:2], y[:2], classes=[0, 1, "new"]).predict(x).mean(axis=1)
    assert few[:, 2].mean() > probs[:, 2].mean()


def test_one_class_so_far():
    x, _ = labelled(5, 3, 2)
    probs = fit(x, ["a"] * 5, classes=["a", "b"]).predict(x).mean(axis=1)
    assert (probs[:, 0] > 0.5).all()
    np.testing.assert_array_equal(fit(x, ["a"] * 5).predict(x), np.ones((5, 500, 1)))
    single = fit(x[:1], ["a"], classes=["a", "b", "c"]).predict(x)
    assert np.isfinite(single).all()


def test_sure_labels_with_a_wide_prior_stay_finite():
    x = np.repeat([[-100.0], [100.0]], 20, axis=0)
    for classes in ([0, 1], [0, 1, 2]):
        probs = fit(x, np.repeat([0, 1], 20), prior_scale=1000.0, classes=classes).predict([[-1e4], [0.0], [1e4]])
        assert np.isfinite(probs).all()


# ---- standardising -------------------------------------------------------------------------------------------------


def test_units_do_not_matter():
    x, y = labelled(40, 4, 3)
    stretched = x * np.array([1, 1e-3, 1e3, 1], np.float32) + np.array([0, 5, -100, 1e3], np.float32)
    first, second = fit(x, y, prior_scale=2.0), fit(stretched, y, prior_scale=2.0)
    gap = np.abs(first.mean_predict(x) - second.mean_predict(stretched))
    assert gap.max() < 0.05  # shrinking sees the units a little


def test_deviations_of_few_inputs_are_shrunk_together_and_of_many_left():
    rng = rng_for(0, 0, "deviations")
    few = linear._deviations(rng.normal(size=(3, 100)))
    many = linear._deviations(rng.normal(size=(5000, 4)) * [1, 2, 3, 4])
    assert few.max() / few.min() < 2
    np.testing.assert_allclose(many, [1, 2, 3, 4], rtol=0.05)
    np.testing.assert_allclose(linear._deviations(np.array([[0.0, 7], [2, 7], [4, 7]])), [2.44, 2.44], rtol=0.2)


def test_a_feature_far_from_zero_counts():
    """Seconds since 1970, of one afternoon: what float32 leaves of them is enough."""
    x, y = np.arange(40.0)[:, None] * 500 + 1.7e9, np.arange(40) >= 20
    posterior = fit(x, y, draws=100)
    assert (posterior.mean_predict(x)[:, 1] > 0.5).tolist() == y.tolist()
    np.testing.assert_allclose(
        posterior.mean_predict(x), fit(x - 1.7e9, y, draws=100).mean_predict(x - 1.7e9), atol=0.05
    )


def test_reference_gives_the_units():
    x, y = labelled(4, 3, 2)
    pool = rng_for(0, 0, "pool").normal(size=(1000, 3)) * 5 + 1
    posterior = fit(x, y, reference=pool)
    np.testing.assert_allclose(posterior.centre, pool.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(posterior.scale, pool.std(axis=0) * np.sqrt(3), rtol=0.05)


# ---- predict -------------------------------------------------------------------------------------------------------


def test_chunks_do_not_matter(monkeypatch):
    x, y = labelled(50, 6, 3)
    posterior = fit(x, y)
    whole, mean = posterior.predict(x), posterior.mean_predict(x)
    for block in (300, 1000, 7000):
        monkeypatch.setattr(linear, "BLOCK", block)
        np.testing.assert_allclose(posterior.predict(x), whole, atol=1e-6)
        np.testing.assert_allclose(posterior.mean_predict(x), mean, atol=1e-6)
    assert whole.dtype == np.float32
    assert posterior.predict(x[:0]).shape == (0, 500, 3)


def test_predict_is_the_softmax_of_the_drawn_weights():
    x, y = labelled(8, 12, 3)
    posterior = fit(x, y)
    logits = np.einsum("nd,dck->nkc", phi(posterior, x), posterior.weights.astype(np.float64))
    np.testing.assert_allclose(posterior.predict(x), softmax(logits, axis=2), atol=1e-5)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("c", [2, 3])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 31.0)])
def test_what_passes_a_screen_is_what_predict_says_and_nothing_good_is_left_out(monkeypatch, c, workers, weights):
    monkeypatch.setenv("ASKWELL_THREADS", workers)
    rng = rng_for(0, c, "screen")
    posterior = fit(*labelled(40, 5, c), draws=50)
    x, targets = rng.normal(size=(5000, 5)).astype(np.float32), posterior.predict(rng.normal(size=(30, 5)))
    whole = posterior.predict(x)
    scores = np.asarray(askwell.epig(whole, targets, weights=weights))
    floor = float(np.sort(scores)[-10])
    places, probs = posterior.predict_above(x, prepare(targets, weights=weights).screen(floor))
    np.testing.assert_array_equal(probs, whole[places])
    assert set(np.flatnonzero(scores >= floor)) <= set(places)
    assert (np.diff(places) > 0).all()
    assert len(places) < 2500 or c > 2
    nothing = posterior.predict_above(x[:0], prepare(targets).screen(floor))
    assert [len(part) for part in nothing] == [0, 0]


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_screen_sees_what_is_hardly_possible(sign):
    """Logits of about 20, either way: in float32 one class has probability 1, and only the other's digits differ."""
    rng = rng_for(0, 0, "hardly possible")
    weights = np.stack([np.zeros(40), sign * (20 + rng.normal(size=40))])[None].astype(np.float32)  # [D, c, k]
    unit = np.zeros(1, np.float32), np.ones(1, np.float32)
    posterior = linear.LinearPosterior((0, 1), *unit, weights, weights.mean(axis=2), 1.0, 0.0)
    x = rng.uniform(0.9, 1.1, size=(2000, 1)).astype(np.float32)
    whole, targets = posterior.predict(x), posterior.predict(rng.normal(size=(30, 1)) / 20)
    assert whole.max() == 1
    scores = np.asarray(askwell.epig(whole, targets))
    floor = float(np.sort(scores)[-5])
    places, _ = posterior.predict_above(x, prepare(targets).screen(floor))
    assert set(np.flatnonzero(scores >= floor)) <= set(places)


def test_sparse_and_list_inputs():
    x, y = labelled(8, 12, 3)
    x[x < 0] = 0
    dense, sparse = fit(x, y), fit(csr_matrix(x), y)
    np.testing.assert_array_equal(dense.weights, sparse.weights)
    np.testing.assert_array_equal(dense.predict(x), sparse.predict(csr_matrix(x)))
    np.testing.assert_array_equal(dense.predict(x), dense.predict(x.tolist()))


def test_memory_grows_only_with_the_output():
    x, y = labelled(20, 8, 2)
    posterior, pool = fit(x, y, draws=100), np.zeros((100_000, 8))
    tracemalloc.start()
    out = posterior.predict(pool)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - out.nbytes < 20 * 2**20 * linear.threads()  # float64 inputs are not copied as a whole either


# ---- scores --------------------------------------------------------------------------------------------------------


def test_gradient_embeddings_are_the_gradients_of_the_loss():
    x, y = labelled(8, 5, 3)
    posterior = fit(x, y)
    found = gradient_embeddings(posterior, x)
    rows, weights = phi(posterior, x), posterior.mean.astype(np.float64)
    guess = (rows @ weights).argmax(axis=1)
    for i in range(len(x)):
        for c, d in ((0, 0), (1, 3), (2, 5)):
            step = np.zeros_like(weights)
            step[d, c] = 1e-5
            up, down = (-log_softmax(rows[i] @ (weights + sign * step))[guess[i]] for sign in (1, -1))
            np.testing.assert_allclose(found.dense().reshape(8, 3, 6)[i, c, d], (up - down) / 2e-5, atol=1e-5)
    np.testing.assert_allclose(found.inner([1, 4]), found.dense() @ found.dense()[[1, 4]].T, atol=1e-5)


def test_epig_prefers_candidates_that_tell_of_the_targets():
    rng = rng_for(0, 0, "epig")
    x, y = labelled(10, 30, 2)
    posterior = fit(x, y, draws=500)
    targets = rng.normal(size=(1, 30)) + 0.1 * rng.normal(size=(50, 30))
    near, far = targets[:20] * 1.1, rng.normal(size=(20, 30))
    scores = askwell.epig(posterior.predict(np.concatenate([near, far])), posterior.predict(targets))
    assert scores[:20].min() > np.median(scores[20:])


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((2, 3)), ["a", "z"], "'z' is none of them"),
        (np.zeros((2, 3)), [[1], [2]], "one per example"),
        (np.zeros((3, 3)), ["a", "b"], "same length"),
        (np.zeros((0, 3)), [], "at least one label"),
        ([[0.0, np.nan]], ["a"], r"x\[0, 1\] is nan"),
        ([["text"]], ["a"], "must hold numbers"),
        (np.zeros(3), ["a", "b", "a"], "must be a table"),
    ],
)
def test_refusals_of_fit(x, y, words):
    with pytest.raises(ValueError, match=words):
        fit(x, y, classes=["a", "b"])


def test_refusals_of_predict():
    x, y = labelled(8, 5, 3)
    posterior = fit(x, y)
    with pytest.raises(ValueError, match=r"\[inputs, 5 features\]"):
        posterior.predict(x[:, :4])
    late = np.zeros((20_000, 5))
    late[19_000, 2] = np.inf
    with pytest.raises(ValueError, match=r"x\[19000, 2\] is inf"):
        posterior.predict(late)


@pytest.mark.parametrize(("name", "value"), [("draws", 0), *(("prior_scale", s) for s in (0.0, "none", np.inf))])
def test_refusals_of_options(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        LinearModel(**{name: value})


# ---- the logistic function, against SciPy's in twice the digits ----------------------------------------------------


@pytest.fixture(params=["wait", "never"])
def either_path(request, monkeypatch):
    """Compiled, and in NumPy."""
    monkeypatch.setenv("ASKWELL_COMPILE", request.param)


def two(difference):
    out = np.empty((*difference.shape, 2), np.float32)
    set_softmax(difference, out)
    return out


@pytest.mark.usefixtures("either_path")
def test_it_is_right_to_the_last_bits_everywhere():
    logits = np.linspace(-FAR, FAR, 1_000_001, dtype=np.float32).reshape(1, -1)
    found, wanted = two(logits), expit(logits.astype(np.float64))
    assert_allclose(found[..., 1], wanted, rtol=5e-7)
    assert_allclose(found[..., 0], expit(-logits.astype(np.float64)), rtol=5e-7)
    assert_allclose(found.sum(axis=2), 1, rtol=2e-7)


@pytest.mark.usefixtures("either_path")
def test_the_ends():
    found = two(np.array([[0.0, 1e30, -1e30, np.inf, -np.inf, 100.0]], np.float32))[0]
    assert_array_equal(found[0], [0.5, 0.5])
    assert_array_equal(found[1::2, 1], 1)
    assert_array_equal(found[2:5:2, 0], 1)
    assert ((found >= 0) & np.isfinite(found)).all()


@pytest.mark.usefixtures("either_path")
def test_it_never_falls():
    logits = np.sort(np.random.default_rng(0).normal(scale=5, size=(1, 100_000)).astype(np.float32))
    assert (np.diff(two(logits)[0, :, 1].astype(np.float64)) >= -1.2e-7).all()  # but for a last bit


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (1001, 3, 77), (3000, 40, 200)])
def test_numpy_and_the_compiled_loop_predict_the_same_to_the_bit(monkeypatch, n, d, k):
    rng = rng_for(0, 0, "logistic")
    x, weights = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(d + 1, k), scale=3).astype(np.float32)
    given = x, x.mean(axis=0), x.std(axis=0) + np.float32(0.1)
    rows, probs = np.empty((2, n, d + 1), np.float32), []
    linear.set_standardised(*given, rows[0])
    linear_kernels.set_standardised(*given, rows[1])
    with one_thread_each():
        for mode in ("wait", "never"):
            monkeypatch.setenv("ASKWELL_COMPILE", mode)
            probs.append(np.empty((n, k, 2), np.float32))
            set_probs(*given, weights, 512, probs[-1])
    assert_array_equal(*rows)
    assert_array_equal(*probs)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("c", [3, 10, 26])
def test_softmax_is_right_to_the_last_bits(c):
    logits = rng_for(0, c, "softmax").normal(scale=8, size=(200, c, 50)).astype(np.float32)
    found, wanted = np.empty((200, 50, c), np.float32), softmax(logits.astype(np.float64), axis=1)
    set_softmax(logits.reshape(200, -1), found)
    far = logits < logits.max(axis=1, keepdims=True) - FAR
    assert_allclose(
        np.where(far, 0, found.transpose(0, 2, 1)), np.where(far, 0, wanted), rtol=4e-6
    )  # of the subtraction
    assert (found.transpose(0, 2, 1)[far] < 1e-34).all()
    assert_allclose(found.sum(axis=2), 1, rtol=5e-7)


@pytest.mark.usefixtures("either_path")
def test_logits_may_be_very_large():
    found = np.empty((1, 1, 3), np.float32)
    set_softmax(np.array([[1e38, -1e38, 0.0]], np.float32), found)
    assert_allclose(found[0, 0], [1, 0, 0], atol=1e-30)


@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("n", "d", "k", "c"), [(1, 1, 1, 3), (700, 3, 77, 5), (300, 40, 200, 26)])
def test_of_many_classes_both_predict_the_same_to_the_bit(monkeypatch, n, d, k, c):
    rng = rng_for(0, 0, "softmax")
    x, weights = rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(d + 1, c * k), scale=3).astype(np.float32)
    given, probs = (x, x.mean(axis=0), x.std(axis=0) + np.float32(0.1)), np.empty((2, n, k, c), np.float32)
    with one_thread_each():
        for mode, out in zip(("wait", "never"), probs, strict=True):
            monkeypatch.setenv("ASKWELL_COMPILE", mode)
            set_probs(*given, weights, 128, out)
    assert_array_equal(*probs)


@pytest.mark.usefixtures("either_path")
def test_what_passes_a_screen_is_what_is_predicted():
    rng = rng_for(0, 0, "screen")
    x, weights = rng.normal(size=(300, 2)).astype(np.float32), rng.normal(size=(3, 50)).astype(np.float32)
    given = x, x.mean(axis=0), x.std(axis=0), weights, 128
    probs, some, index = *np.empty((2, 300, 50, 2), np.float32), np.empty(300, np.intp)
    screen = rng.normal(size=(8, 50)).astype(np.float32), 0.1, 20.0
    with one_thread_each():
        set_probs(*given, probs)
        count = set_probs_above(*given, screen, index, some)
    assert 0 < count <= 300
    assert_array_equal(some[:count], probs[index[:count]])
