"""Ensembles against their members, one by one."""

import pickle

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from askwell.models import ensemble
from askwell.models.ensemble import EnsembleModel, EnsemblePosterior
from askwell.seeds import rng_for
from askwell.testing import check_model

NET = MLPClassifier((4,), solver="lbfgs", max_iter=20)
unfinished = pytest.mark.filterwarnings("ignore:lbfgs failed to converge")  # nets stop where they are told to


def labelled(n, c=3, seed=0):
    rng, y = rng_for(seed, 0, "data"), np.arange(n) % c
    return (rng.normal(size=(c, 4))[y] * 2 + rng.normal(size=(n, 4))).astype(np.float32), y


def fit(model, x, y, **options):
    return model.fit(x, y, rng=rng_for(0, 0, "fit"), **options)


@pytest.mark.parametrize(
    "model",
    [
        EnsembleModel(GaussianNB(), draws=5),
        EnsembleModel(DecisionTreeClassifier(), draws=5),
        EnsembleModel([GaussianNB(), DecisionTreeClassifier(), LogisticRegression()]),
        EnsembleModel(lambda seed: DecisionTreeClassifier(random_state=seed, max_features=1), draws=4, bootstrap=False),
        EnsembleModel(make_pipeline(StandardScaler(), DecisionTreeClassifier()), draws=3),
    ],
)
def test_contract(model):
    check_model(model, processes=False)


@unfinished
def test_contract_of_a_deep_ensemble_in_another_process():
    check_model(EnsembleModel(NET, draws=3, bootstrap=False))


@unfinished
def test_draws_differ_by_resample_or_by_seed():
    x, y = labelled(30)
    for model in (EnsembleModel(LogisticRegression(), draws=3), EnsembleModel(NET, draws=3, bootstrap=False)):
        probs = fit(model, x, y).predict(x)
        assert np.abs(probs[:, 0] - probs[:, 1]).max() > 1e-3


def test_resamples_hold_every_class_with_an_example():
    codes = np.array([0] * 50 + [2])
    for step in range(20):
        chosen = ensemble._resample(codes, rng_for(0, step, "resample"))
        assert len(chosen) == 51
        assert set(codes[chosen]) == {0, 2}


def test_one_class_so_far():
    x, _ = labelled(6)
    probs = fit(EnsembleModel(GaussianNB(), draws=3), x, ["a"] * 6, classes=["a", "b"]).predict(x)
    np.testing.assert_array_equal(probs[:, :, 0], 1)


def test_fitted_classifiers_are_taken_as_they_are():
    x, y = labelled(30)
    names = np.array(["ant", "bee", "cow"])[y]
    few = names != "bee"
    members = [GaussianNB().fit(x, names), DecisionTreeClassifier().fit(x[few], names[few])]
    posterior = EnsemblePosterior.of(members, classes=["cow", "dog", "bee", "ant"])
    probs = posterior.predict(x)
    assert posterior.classes == ("cow", "dog", "bee", "ant")
    np.testing.assert_allclose(probs[:, 0][:, [3, 2, 0]], members[0].predict_proba(x), atol=1e-6)
    np.testing.assert_allclose(probs[:, 1][:, [3, 0]], members[1].predict_proba(x), atol=1e-6)
    np.testing.assert_array_equal(probs[:, :, 1], 0)
    assert EnsemblePosterior.of(members).classes == ("ant", "bee", "cow")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(posterior)).predict(x), probs)


def test_classifiers_without_classes_use_those_given():
    class Plain:
        def predict_proba(self, x):
            return np.full((len(x), 2), 0.5)

    assert EnsemblePosterior.of([Plain(), Plain()], classes=["a", "b"]).predict([[1.0]]).shape == (1, 2, 2)
    with pytest.raises(ValueError, match="Pass classes="):
        EnsemblePosterior.of([Plain()])


def test_texts_and_chunks(monkeypatch):
    texts, y = ["good day", "bad day", "good food", "bad food", "good", "bad"], [1, 0, 1, 0, 1, 0]
    posterior = fit(EnsembleModel(make_pipeline(TfidfVectorizer(), LogisticRegression()), draws=4), texts, y)
    whole = posterior.predict(texts)
    assert whole[0, :, 1].mean() > 0.5 > whole[1, :, 1].mean()
    monkeypatch.setattr(ensemble, "ROWS", 2)
    np.testing.assert_allclose(posterior.predict(texts), whole, atol=1e-6)
    assert posterior.predict([]).shape == (0, 4, 2)


@pytest.mark.parametrize(
    ("estimator", "words"), [(3, "or a function from a seed"), (RidgeClassifier(), "must have predict_proba")]
)
def test_refusals(estimator, words):
    x, y = labelled(6)
    with pytest.raises(ValueError, match=words):
        fit(EnsembleModel(estimator), x, y)


def test_refusals_of_data():
    x, y = labelled(6)
    model = EnsembleModel(GaussianNB(), draws=2)
    with pytest.raises(ValueError, match="same length"):
        fit(model, x[:5], y)
    with pytest.raises(ValueError, match="at least one label"):
        fit(model, x[:0], y[:0])
    with pytest.raises(ValueError, match="is none of them"):
        fit(model, x, y, classes=[0, 1])
    with pytest.raises(ValueError, match="NaN"):
        fit(model, x * np.nan, y)
    with pytest.raises(ValueError, match="expecting 4 features"):
        fit(model, x, y).predict(x[:, :3])
    with pytest.raises(ValueError, match="at least one draw"):
        EnsembleModel([])
    with pytest.raises(ValueError, match="at least one draw"):
        EnsembleModel(GaussianNB(), draws=0)
    with pytest.raises(ValueError, match="at least one fitted classifier"):
        EnsemblePosterior.of([])


def test_a_dict_of_arrays_that_members_cannot_take_is_refused():
    x = {"a": np.zeros((4, 2)), "b": np.ones((4, 2))}
    with pytest.raises(ValueError, match=r"GaussianNB cannot learn from a dict of 'a', 'b'.*networks"):
        EnsembleModel(GaussianNB(), draws=2).fit(x, [0, 1, 0, 1], rng=rng_for(0, 0, "fit"))


def test_members_that_disagree_on_the_classes_are_refused_in_words():
    class Bare:  # a classifier without classes_
        def __init__(self, columns):
            self.columns = columns

        def predict_proba(self, x):
            return np.full((len(x), self.columns), 1 / self.columns)

    posterior = EnsemblePosterior.of([Bare(3), Bare(2)], classes=["ant", "bee", "cow"])
    with pytest.raises(ValueError, match=r"Bare knows 3 classes and predict_proba gives the shape \(5, 2\)"):
        posterior.predict(np.zeros((5, 2)))
