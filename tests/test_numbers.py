"""The loop where labels are numbers: ask, tell, predict, explain, resume, refuse; for every kind of model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import askwell
from askwell.acquisition import FOR_NUMBERS
from askwell.information import gaussian
from askwell.information.moments import Moments
from askwell.models.bayes import BayesianLinearRegression
from askwell.models.gp import GPRegressor
from askwell.models.protocol import label_moments, predicted
from askwell.models.regression import RandomForestRegression
from askwell.scoring import Search, best_items, score_items
from askwell.seeds import rng_for
from askwell.selection import Candidates, select
from askwell.targets import class_prior, given

X = rng_for(0, 0, "numbers").normal(size=(120, 3))
Y = X[:, 0] ** 2 + np.sin(2 * X[:, 1]) + 0.1 * rng_for(1, 0, "numbers").normal(size=120)
MODELS = {
    "forest of scikit-learn": RandomForestRegressor(20),
    "bag": BaggingRegressor(Ridge(), 10),
    "pipeline": make_pipeline(StandardScaler(), RandomForestRegressor(20)),
    "forest": RandomForestRegression(20),
    "linear": BayesianLinearRegression(draws=40),
    "gp": GPRegressor(draws=40, normalise=True, learn=True),
}


def begun(model="linear", **options):
    learner = askwell.Learner(MODELS[model], X, **options)
    learner.tell(range(12), Y[:12])
    return learner


def test_a_learner_of_numbers_in_a_line():
    assert f"labels: 12 ({Y[:12].min():g} to {Y[:12].max():g})" in repr(begun())


@pytest.mark.parametrize("model", MODELS)
def test_the_loop_for_each_model(model):
    learner = begun(model, targets=X[100:], seed=1)
    assert learner.classes == []
    asked = learner.ask(3)
    assert len({*asked} - {*range(12)}) == 3
    assert learner.ask(3) == asked
    learner.tell(asked, Y[asked])
    mean, std = learner.predict(X[:7], return_std=True)
    assert mean.shape == std.shape == (7,)
    assert (std > 0).all()
    np.testing.assert_array_equal(learner.predict(X[:7]), mean)
    assert learner.labels[asked[0]] == Y[asked[0]]


@pytest.mark.parametrize("score", FOR_NUMBERS)
@pytest.mark.parametrize("model", ["forest", "linear"])
def test_what_is_asked_has_the_highest_score(model, score):
    learner = begun(model, targets=X[100:], score=score, seed=2, evaluation=0)
    (asked,) = learner.ask()
    search = learner._round.search
    scores = score_items(search, score)
    assert asked == search.asked[scores.argmax()]
    best, values = best_items(search, score, 5)
    np.testing.assert_array_equal(best, search.asked[np.argsort(-scores)[:5]])
    np.testing.assert_allclose(values, np.sort(scores)[::-1][:5])


def test_the_same_items_on_an_engine_and_in_pieces():
    posterior = MODELS["forest"].fit(X[:12], Y[:12], rng=rng_for(0, 0, "fit"))
    search = Search(posterior, X, X[100:], np.linspace(1, 2, 20))
    here, scores = best_items(search, "epig", 6)
    there, again = best_items(search, "epig", 6, engine="local:2")
    np.testing.assert_array_equal(here, there)
    np.testing.assert_allclose(scores, again)
    apart = np.concatenate([score_items(search, "epig", piece=slice(i, i + 40)) for i in (0, 40, 80)])
    np.testing.assert_allclose(apart, score_items(search, "epig"), rtol=1e-12)


def test_a_joint_gaussian_is_scored_without_draws():
    posterior = MODELS["linear"].fit(X[:12], Y[:12], rng=rng_for(0, 0, "fit"))
    search = Search(posterior, X, X[100:])
    noise, latent = posterior.noise_variance, posterior.latent(X)[1]
    np.testing.assert_allclose(score_items(search, "variance"), latent + noise)
    np.testing.assert_allclose(score_items(search, "bald"), 0.5 * np.log1p(latent / noise))
    covariance = posterior.covariance(X, X[100:])
    np.testing.assert_allclose(
        score_items(search, "variance_reduction"), (covariance**2).mean(axis=1) / (latent + noise)
    )
    np.testing.assert_allclose(
        score_items(search, "auto"), gaussian.epig(latent + noise, latent[100:] + noise, covariance)
    )


def test_weights_and_targets_decide_what_is_asked():
    x = np.concatenate([np.linspace(-5, -4, 30), np.linspace(4, 5, 30)])[:, None]
    y = np.sin(x[:, 0])
    model = GPRegressor(noise=0.01)
    for side, targets in (("left", x[:30]), ("right", x[30:])):
        learner = askwell.Learner(model, x, targets=targets, score="epig")
        learner.tell([0, 59], y[[0, 59]])
        assert all((i < 30) == (side == "left") for i in learner.ask(3))
        weights = np.repeat([1.0, 0.0] if side == "left" else [0.0, 1.0], 30)
        again = askwell.Learner(model, x, targets=given(x, weights=weights), score="epig")
        again.tell([0, 59], y[[0, 59]])
        assert all((i < 30) == (side == "left") for i in again.ask(3))


def test_many_targets_are_stood_for_by_some():
    learner = begun("linear", targets=given(np.tile(X, (20, 1)), most=50), score="epig")
    learner.ask()
    assert len(learner._round.sample.x) <= 50
    assert learner._round.sample.weights.sum() == pytest.approx(1)


def test_own_scores_get_moments():
    seen = []

    def score(moments, targets, *, weights, rng):
        seen.append((moments, targets))
        return -moments.mean

    learner = begun("forest", targets=X[100:], score=score)
    (asked,) = learner.ask()
    assert all(isinstance(each, Moments) for pair in seen for each in pair)
    rest = np.setdiff1d(np.arange(120), np.arange(12))
    assert asked == rest[learner.predict(X[rest]).argmin()]


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_is_chosen_for_what_it_tells_together():
    """Greedy log det is what a joint Gaussian's information is; the batch's value must be near to the best pair's."""
    x = rng_for(3, 0, "batch").uniform(-3, 3, size=(40, 1))
    posterior = GPRegressor(noise=0.05, draws=4000).fit(x[:3], np.sin(x[:3, 0]), rng=rng_for(0, 0, "fit"))
    pool, targets = x[3:], np.linspace(-3, 3, 25)[:, None]
    noise = posterior.noise_variance

    def worth(pair):
        inside = posterior.covariance(pool[pair], pool[pair]) + noise * np.eye(2)
        return np.mean(
            [
                gaussian.information_between(
                    inside, posterior.covariance(t[None], t[None]) + noise, posterior.covariance(pool[pair], t[None])
                )
                for t in targets
            ]
        )

    scores = posterior.epig(pool, targets)
    found = select("joint", Candidates(scores, predicted(posterior, pool), predicted(posterior, targets)), 2, rng=None)
    pairs = [[i, j] for i in range(len(pool)) for j in range(i)]
    values = [worth(pair) for pair in pairs]
    top = np.argsort(-scores)[:2].tolist()
    assert worth(found.tolist()) >= 0.9 * max(values)
    assert worth(found.tolist()) > worth(top)


def test_copies_are_not_asked_together():
    x = np.concatenate([X[:40], X[:40]])
    learner = askwell.Learner(MODELS["forest"], x, targets=X[100:], score="epig", seed=1)
    learner.tell(range(8), Y[:8])
    asked = learner.ask(6)
    assert len({i % 40 for i in asked}) == 6
    assert not {i % 40 for i in learner.ask(8)[6:]} & {i % 40 for i in asked}  # pending ones count


@pytest.mark.parametrize("batch", ["top", "power", "softmax", "softrank", "kcentre", "typiclust", "probcover", "joint"])
def test_batches_for_numbers(batch):
    assert len({*begun("forest", batch=batch, score="epig").ask(4)}) == 4


@pytest.mark.parametrize("batch", ["badge", "batchbald"])
def test_batches_about_classes_are_refused(batch):
    with pytest.raises(ValueError, match="is about classes"):
        askwell.Learner(MODELS["forest"], X, batch=batch)


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_explanations_are_in_numbers():
    learner = begun("gp", targets=X[100:])
    found = learner.explain(50)
    mean, variance = label_moments(learner.posterior, X[[50]])
    assert found.belief == {"mean": pytest.approx(mean[0]), "std": pytest.approx(np.sqrt(variance[0]))}
    assert found.margin is None
    assert [nats for _, nats in found.informs] == sorted((nats for _, nats in found.informs), reverse=True)
    assert "±" in str(found)
    assert "by default it is worth" not in str(found)


def test_how_good_and_when_to_stop():
    learner = askwell.Learner(MODELS["linear"], X, seed=3)
    assert learner.estimate() is None
    for _ in range(45):
        items = learner.ask()
        learner.tell(items, Y[items])
    found = learner.estimate()
    assert (found.metric, found.how, found.of) == ("rmse", "drawn", "pool")
    assert found.low < found.value < found.high
    rest = np.setdiff1d(np.arange(120), [*learner.labels])
    assert found.low < np.sqrt(np.mean((learner.predict(X[rest]) - Y[rest]) ** 2)) < found.high
    assert "rmse" in str(found)
    assert "RMSE" in learner.advice().why
    for call in (learner.forecast, lambda: learner.labels_needed(0.9)):
        with pytest.raises(ValueError, match="forecasts are for classes"):
            call()


# ---- stores ----------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_with_the_same_question(tmp_path):
    store = f"sqlite:///{tmp_path / 'run.db'}"
    options = {"targets": X[100:], "seed": 5, "score": "epig"}
    with begun("forest", store=store, **options) as learner:
        first = learner.ask(2)
        learner.tell(first, Y[first])
    with askwell.Learner(MODELS["forest"], X, store=store, **options) as again:
        assert list(again.labels.values()) == Y[[*range(12), *first]].tolist()
        following = again.ask(2)
    whole = begun("forest", **options)
    items = whole.ask(2)
    whole.tell(items, Y[items])
    assert (items, whole.ask(2)) == (first, following)


def test_a_run_of_numbers_is_not_opened_with_a_classifier(tmp_path):
    store = f"sqlite:///{tmp_path / 'run.db'}"
    begun("linear", store=store).close()
    with pytest.raises(ValueError, match="begun with other labels: 'numbers', and now it is 'classes'"):
        askwell.Learner(RandomForestClassifier(5), X, store=store)


def test_frames_and_costs():
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"row {i}" for i in range(120)])
    learner = askwell.Learner(MODELS["linear"], frame, cost=[1.0] * 60 + [100.0] * 60)
    learner.tell(frame.index[:12], pd.Series(Y[:12]))
    (item,) = learner.ask()
    assert int(item.split()[1]) < 60
    np.testing.assert_allclose(learner.predict(frame[["c", "b", "a"]]), learner.predict(frame))


def test_a_pool_in_files(tmp_path):
    table = pd.DataFrame(X, columns=list("abc"))
    (tmp_path / "pool").mkdir()
    for part in range(3):
        table[40 * part : 40 * part + 40].to_parquet(tmp_path / "pool" / f"{part}.parquet")
    learner = askwell.Learner(MODELS["forest"], str(tmp_path / "pool"), targets=X[100:], score="epig", seed=1)
    ids = learner._pool.ids
    learner.tell([ids[i] for i in range(12)], Y[:12])
    assert len(learner.ask(3)) == 3


# ---- what is refused, and nothing stored -----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, "3", None, True])
def test_labels_that_are_no_numbers_are_refused(bad):
    learner = begun()
    with pytest.raises(ValueError, match="labels must hold finite numbers"):
        learner.tell([20, 21], [1.5, bad])
    assert 20 not in learner.labels


def test_a_classifier_given_floats_says_what_to_take():
    learner = askwell.Learner(RandomForestClassifier(5), X)
    with pytest.raises(ValueError, match="take a regressor for a model"):
        learner.tell(range(3), Y[:3])
    assert learner.labels == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"score": "margin"}, "'margin' is for classes"),
        ({"classes": ["a", "b"]}, "classes must be left out"),
        ({"class_weights": {1: 2.0}}, "class_weights must be left out"),
        ({"cost": [1.0]}, "120 positive numbers"),
        ({"cost": [-1.0] * 120}, "120 positive numbers"),
    ],
)
def test_options_that_are_not_for_numbers_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        askwell.Learner(MODELS["linear"], X, **options)


def test_other_doors_that_are_not_for_numbers():
    learner = begun()
    with pytest.raises(ValueError, match="predict_proba is for classes"):
        learner.predict_proba(X)
    with pytest.raises(ValueError, match="there are no classes to weigh"):
        begun(targets=class_prior({"a": 1.0})).ask()
    classes = askwell.Learner(RandomForestClassifier(5), X)
    classes.tell([0, 1], ["a", "b"])
    with pytest.raises(ValueError, match="return_std is for labels that are numbers"):
        classes.predict(X, return_std=True)
