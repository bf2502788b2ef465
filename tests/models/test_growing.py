"""Trees grown without scikit-learn's checks are the trees that its own fit would have grown."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from askwell.models.forest import ForestModel
from askwell.models.growing import grown_trees
from askwell.seeds import rng_for

PARTS = ("children_left", "children_right", "feature", "threshold", "value")


def table(n=60, d=7, c=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32)
    return x, (x[:, 0] + rng.normal(size=n) > 0).astype(int) + (c - 2) * (x[:, 1] > 0.5)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_jobs": 2},
        {"n_estimators": 1},
        {"n_estimators": 3, "n_jobs": 2, "max_depth": 2},
        {"min_samples_leaf": 4},
        {"min_samples_split": 9, "random_state": np.int64(7)},
    ],
)
@pytest.mark.parametrize(("n", "d"), [(60, 7), (2, 1), (500, 30)])
def test_trees_are_those_of_fit(settings, n, d):
    x, y = table(n, d) if d > 1 else (np.array([[0.0], [1.0]], np.float32), np.array([0, 5]))
    forest = RandomForestClassifier(**{"random_state": 11, "n_estimators": 20} | settings)
    ours = grown_trees(forest, x, y)
    assert not hasattr(forest, "estimators_")  # it is not fitted on the way
    theirs = [member.tree_ for member in forest.fit(x, y).estimators_]
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        for part in PARTS:
            assert_array_equal(getattr(a, part), getattr(b, part))


def test_one_class():
    x, _ = table()
    (tree,) = grown_trees(RandomForestClassifier(1, random_state=0), x, np.full(len(x), 4))
    assert tree.node_count == 1


@pytest.mark.parametrize(
    "forest",
    [
        RandomForestClassifier(random_state=0, class_weight="balanced"),
        RandomForestClassifier(random_state=0, bootstrap=False),
        RandomForestClassifier(random_state=0, max_features=2),
        RandomForestClassifier(random_state=0, max_samples=10),
        RandomForestClassifier(random_state=0, criterion="entropy"),
        RandomForestClassifier(random_state=0, min_samples_leaf=0.1),
        RandomForestClassifier(random_state=0, ccp_alpha=0.1),
        RandomForestClassifier(random_state=None),
        RandomForestClassifier(0, random_state=0),
        ExtraTreesClassifier(random_state=0),
    ],
)
def test_what_is_not_plain_is_left_to_scikit_learn(forest):
    assert grown_trees(forest, *table()) is None


def test_another_builder_than_the_known_one(monkeypatch):
    """What is not public may change: then the forest is fitted by scikit-learn itself, with the same answer."""
    (x, y), model = table(), ForestModel(RandomForestClassifier(10))
    wanted = model.fit(x, y, rng=rng_for(0, 0, "fit")).predict(x)
    monkeypatch.setattr("sklearn.tree._splitter.BestSplitter", lambda criterion, look: None)
    assert grown_trees(RandomForestClassifier(10, random_state=0), x, y) is None
    assert_array_equal(model.fit(x, y, rng=rng_for(0, 0, "fit")).predict(x), wanted)


def test_bad_parameters_are_refused_in_scikit_learns_words():
    with pytest.raises(ValueError, match="n_estimators"):
        ForestModel(RandomForestClassifier(0)).fit(*table(), rng=rng_for(0, 0, "fit"))
