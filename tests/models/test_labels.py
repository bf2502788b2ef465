"""Parameters that name classes reach the classes they name, as in scikit-learn's own fit on the labels."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import askwell
from askwell.models.ensemble import EnsembleModel
from askwell.models.forest import ForestModel
from askwell.models.labels import encoded
from askwell.seeds import rng_for

RNG = rng_for(0, 0, "labels")
X = RNG.normal(size=(240, 2))
SIDE = (X[:, 0] + RNG.normal(size=240) > 0).astype(int)  # 0 or 1, hard to tell apart
KINDS = {
    "0 and 1": (0, 1),
    "1 and 2": (1, 2),
    "text": ("ham", "spam"),
    "truth values": (False, True),
    "NumPy numbers": (np.int64(3), np.int64(7)),
    "whole floats": (1.0, 2.0),
}
FOREST = {"n_estimators": 30, "max_depth": 2}


def mean(model, kind, *, order=None):
    """The mean probability of each label."""
    y = np.array(KINDS[kind])[SIDE]
    posterior = model.fit(X, y, rng=rng_for(0, 0, "fit"), classes=order)
    return dict(zip(posterior.classes, posterior.predict(X).mean((0, 1)).tolist(), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda weights: ForestModel(RandomForestClassifier(**FOREST, class_weight=weights)),
        lambda weights: ForestModel(ExtraTreesClassifier(**FOREST, class_weight=weights)),
        lambda weights: ForestModel(
            make_pipeline(StandardScaler(), RandomForestClassifier(**FOREST, class_weight=weights))
        ),
        lambda weights: ForestModel(BaggingClassifier(LogisticRegression(class_weight=weights), 5)),
        lambda weights: ForestModel(
            BaggingClassifier(make_pipeline(StandardScaler(), LogisticRegression(class_weight=weights)), 5)
        ),
        lambda weights: EnsembleModel(LogisticRegression(class_weight=weights), draws=3),
        lambda weights: EnsembleModel(
            [LogisticRegression(class_weight=weights), RandomForestClassifier(**FOREST, class_weight=weights)]
        ),
        lambda weights: EnsembleModel(
            make_pipeline(StandardScaler(), LogisticRegression(class_weight=weights)), draws=3
        ),
        lambda weights: EnsembleModel(HistGradientBoostingClassifier(max_iter=5, class_weight=weights), draws=2),
        lambda weights: EnsembleModel(
            VotingClassifier([("one", LogisticRegression(class_weight=weights))], voting="soft"), draws=2
        ),
        lambda weights: EnsembleModel(lambda seed: LogisticRegression(class_weight=weights), draws=2),
    ],
    ids=[
        *("forest", "extra", "pipeline", "bag", "bag of pipelines", "ensemble", "list", "ensemble of pipelines"),
        *("boosting", "voting", "function"),
    ],
)
def test_weights_reach_the_class_they_name(make, backwards, kind):
    first, second = KINDS[kind]
    order = [second, first] if backwards else None
    found = mean(make({first: 20.0, second: 1.0}), kind, order=order)
    assert found[first] > 0.75 > 0.25 > found[second]
    found = mean(make({second: 20.0}), kind, order=order)
    assert found[second] > 0.75 > 0.25 > found[first]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(**FOREST),
        ExtraTreesClassifier(**FOREST),
        make_pipeline(StandardScaler(), RandomForestClassifier(**FOREST)),
        RandomForestClassifier(**FOREST, class_weight="balanced"),
    ],
    ids=["forest", "extra", "pipeline", "balanced"],
)
def test_the_trees_are_those_of_a_fit_on_the_labels(estimator, backwards, kind):
    first, second = KINDS[kind]
    y = np.array(KINDS[kind])[SIDE]
    name = next(name for name in estimator.get_params() if name.endswith("class_weight"))
    estimator = clone(estimator)
    if estimator.get_params()[name] is None:
        estimator.set_params(**{name: {second: 5.0}})
    order = [second, first] if backwards else [first, second]
    posterior = ForestModel(estimator).fit(X, y, rng=rng_for(0, 0, "fit"), classes=order)
    seed = int(rng_for(0, 0, "fit").integers(2**31))
    states = {each: seed for each in estimator.get_params() if each.endswith("random_state")}
    theirs = clone(estimator).set_params(**states).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(posterior.predict(X).mean(axis=1), theirs[:, ::-1] if backwards else theirs, atol=1e-6)


def test_a_class_without_labels_yet_may_have_a_weight():
    y = np.array(["a", "b"])[SIDE]
    for model in (
        ForestModel(RandomForestClassifier(**FOREST, class_weight={"a": 20, "c": 3})),
        ForestModel(BaggingClassifier(LogisticRegression(class_weight={"a": 20, "c": 3}), 3)),
        EnsembleModel(LogisticRegression(class_weight={"a": 20, "c": 3}), draws=2),
    ):
        posterior = model.fit(X, y, rng=rng_for(0, 0, "fit"), classes=["c", "b", "a"])
        assert posterior.predict(X)[:, :, 2].mean() > 0.75
        assert (posterior.predict(X)[:, :, 0] == 0).all()


def test_a_learner_does_not_stop_at_a_class_that_is_still_to_come():
    forest = RandomForestClassifier(**FOREST, class_weight={0: 20, 1: 1, 2: 5})
    learner = askwell.Learner(forest, X)
    learner.tell(range(40), SIDE[:40])
    assert len(learner.ask(3)) == 3
    assert learner.classes == [0, 1]


@pytest.mark.parametrize(
    ("weights", "classes", "words"),
    [
        ({"sp am": 20}, None, "class_weight must name classes.*'sp am' is none of them.*Did you mean 'spam'"),
        ({"ham": 1, "spam": 2, "eggs": 3}, ["ham", "spam"], "'eggs' is none of them"),
        ({1: 20}, ["ham", "spam"], "1 is none of them"),
        ({"eggs": 20}, None, r"has no label yet, name all classes: classes="),
    ],
)
def test_a_key_that_is_no_class_is_refused(weights, classes, words):
    y = np.array(["ham", "spam"])[SIDE]
    for model in (
        ForestModel(RandomForestClassifier(5, class_weight=weights)),
        ForestModel(make_pipeline(StandardScaler(), BaggingClassifier(LogisticRegression(class_weight=weights), 2))),
        EnsembleModel(LogisticRegression(class_weight=weights), draws=2),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(X, y, rng=rng_for(0, 0, "fit"), classes=classes)


def test_priors_are_in_sorted_order_and_may_be_of_classes_without_labels():
    y = np.array(["ham", "spam"])[SIDE]
    theirs = GaussianNB(priors=[0.9, 0.1]).fit(X, y).predict_proba(X).mean(axis=0)
    model = EnsembleModel(GaussianNB(priors=[0.9, 0.1]), draws=20)
    ours = model.fit(X, y, rng=rng_for(0, 0, "fit"), classes=["spam", "ham"]).predict(X).mean((0, 1))
    np.testing.assert_allclose(ours[::-1], theirs, atol=0.05)
    model = EnsembleModel(GaussianNB(priors=[0.5, 0.45, 0.05]), draws=20)  # eggs, ham, spam
    ours = model.fit(X, y, rng=rng_for(0, 0, "fit"), classes=["spam", "eggs", "ham"]).predict(X).mean((0, 1))
    np.testing.assert_allclose(ours, [theirs[1], 0, theirs[0]], atol=0.05)
    with pytest.raises(ValueError, match=r"priors must have a number for each of the classes"):
        EnsembleModel(GaussianNB(priors=[0.2] * 5), draws=2).fit(X, y, rng=rng_for(0, 0, "fit"))


def test_weights_of_one_against_the_rest_mean_the_rest_and_the_one():
    y = np.array(["a", "b", "c"])[(X[:, 0] > -0.5).astype(int) + (X[:, 0] > 0.5)]
    weights = {0: 1.0, 1: 30.0}
    model = EnsembleModel(OneVsRestClassifier(LogisticRegression(class_weight=weights)), draws=10)
    ours = model.fit(X, y, rng=rng_for(0, 0, "fit")).predict(X).mean(axis=1)
    theirs = OneVsRestClassifier(LogisticRegression(class_weight=weights)).fit(X, y).predict_proba(X)
    assert np.abs(ours - theirs).mean() < 0.05


def test_weights_inside_a_calibration_are_translated_too():
    inner = LogisticRegression(class_weight={"spam": 20.0})
    labels = encoded(SIDE, ("spam", "ham"), declared=True)
    changed = labels.applied(CalibratedClassifierCV(inner))
    assert changed.estimator.class_weight == {0: 1.0, 1: 20.0}  # sorted: ham, spam


def test_encoding():
    labels = encoded(np.array([2, 0, 2]), ("dog", "cow", "cat"), declared=True)
    assert labels.seen == ["cat", "dog"]
    assert labels.columns == (2, 0)
    np.testing.assert_array_equal(labels.y, [0, 1, 0])
