"""askwell's own random forest: as scikit-learn's in distribution, with its parameters."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier

import askwell
from askwell.models.forest import RandomForest, forest
from askwell.models.scikit_learn import ForestModel
from askwell.seeds import rng_for
from askwell.testing import check_model


@pytest.fixture
def rng():
    return rng_for(0, 0, "trees")


def test_our_own_has_enough_trees():
    assert forest().trees == 500
    assert forest(trees=20) == RandomForest(20)


@pytest.mark.parametrize("load", [load_digits, load_wine, load_breast_cancer])
def test_the_forest_is_as_scikit_learns_in_distribution(load):
    """Two forests of scikit-learn's differ as much: the whole comparison is `python -m benchmarks forest`."""
    x, y = load(return_X_y=True)
    gaps = []
    for seed in range(5):
        order = rng_for(seed, 0, "split").permutation(len(x))
        train, test = order[:80], order[80:480]
        figures = []
        for model in (ForestModel(RandomForestClassifier(300)), RandomForest(300)):
            posterior = model.fit(x[train], y[train], rng=rng_for(seed, 0, "fit"), classes=np.unique(y))
            probs = posterior.predict(x[test])
            figures.append(
                [
                    (probs.mean(1).argmax(1) == y[test]).mean(),
                    float(askwell.entropy(probs).mean()),
                    float(askwell.epig(probs, probs[:30]).mean()),
                    len(posterior.trees.left) / 300,
                ]
            )
        gaps.append(np.array(figures[1]) / figures[0] - 1)
    assert np.abs(np.mean(gaps, axis=0)).max() < 0.05


def test_the_forest_keeps_the_contract():
    check_model(RandomForest(20))


def test_leaves_that_are_not_sure():
    x, y = load_wine(return_X_y=True)
    posterior = RandomForest(30, min_samples_leaf=10).fit(x, y, rng=rng_for(0, 0, "fit"))
    assert posterior.predict_votes(x) is None
    assert ((posterior.predict(x) > 0) & (posterior.predict(x) < 1)).any()


@pytest.mark.parametrize("weight", [{"a": 30.0}, {"b": 1 / 30}, {"a": 30, "b": 1}])
def test_class_weights_reach_the_class_they_name(rng, weight):
    x = rng.normal(size=(300, 2))
    y = np.where(x[:, 0] + rng.normal(size=300) > 0, "b", "a")
    means = [
        RandomForest(100, min_samples_leaf=30, class_weight=given).fit(x, y, rng=rng_for(0, 0, "fit"), classes="ba")
        for given in (None, weight)
    ]
    plain, weighted = (posterior.predict(x).mean((0, 1)) for posterior in means)
    assert weighted[1] > plain[1] + 0.2  # columns are b, a


def test_balanced_weights(rng):
    x, y = rng.normal(size=(300, 2)), np.arange(300) < 30
    found = [
        model.fit(x, y, rng=rng_for(0, 0, "fit")).predict(x).mean((0, 1))[1]
        for model in (
            ForestModel(RandomForestClassifier(200, min_samples_leaf=20, class_weight="balanced")),
            RandomForest(200, min_samples_leaf=20, class_weight="balanced"),
            RandomForest(200, min_samples_leaf=20),
        )
    ]
    assert found[1] == pytest.approx(found[0], abs=0.03)
    assert found[1] > found[2] + 0.2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trees": 0}, "trees must be a whole number from 1"),
        ({"min_samples_leaf": 0.5}, "min_samples_leaf must be"),
        ({"max_features": 0.0}, "max_features must be"),
        ({"max_features": "log2"}, "max_features must be"),
        ({"class_weight": "balance"}, "class_weight must be"),
    ],
)
def test_wrong_parameters_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        RandomForest(**options)


def test_a_weight_of_no_class_is_refused():
    with pytest.raises(ValueError, match="'spam'"):
        RandomForest(5, class_weight={"spam": 2.0}).fit([[0.0], [1.0]], ["a", "b"], rng=rng_for(0, 0, "fit"))


@pytest.mark.parametrize("weights", [{0: -1.0}, {0: np.inf}, {0: 0.0, 1: 0.0}])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ValueError, match="finite weights from 0"):
        RandomForest(5, class_weight=weights).fit([[0.0], [1.0]], [0, 1], rng=rng_for(0, 0, "fit"))


def test_a_class_of_no_weight_has_no_votes(rng):
    x, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    posterior = RandomForest(20, class_weight={0: 0.0}).fit(x, y, rng=rng_for(0, 0, "fit"))
    assert np.isfinite(posterior.predict(x)).all()
