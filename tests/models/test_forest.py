"""Forests and bags as posteriors: what scikit-learn says, faster, and draws that stay the same."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import askwell
from askwell.models.forest import ForestModel, ForestPosterior, MembersPosterior, forest
from askwell.seeds import rng_for
from askwell.testing import check_model

MODELS = {
    "forest": RandomForestClassifier(12),
    "soft leaves": RandomForestClassifier(12, min_samples_leaf=4, max_features=2),
    "extra trees": ExtraTreesClassifier(12),
    "bagged trees": BaggingClassifier(DecisionTreeClassifier(max_depth=3), 8),
    "bagged anything": BaggingClassifier(GaussianNB(), 8, max_features=0.5),
    "pipeline": make_pipeline(StandardScaler(), RandomForestClassifier(12)),
}


def digits(n=200):
    x, y = load_digits(return_X_y=True)
    return x[:n], y[:n]


@pytest.mark.parametrize("name", MODELS)
def test_contract(name):
    check_model(askwell.as_model(MODELS[name]), processes=name in ("forest", "bagged anything"))


@pytest.mark.parametrize("name", ["forest", "soft leaves", "extra trees"])
def test_a_tree_is_a_draw(name):
    """To the last bit what the trees say, also where a feature equals a threshold to float32."""
    x, y = digits()
    posterior = askwell.as_model(MODELS[name]).fit(x, y, rng=rng_for(0, 0, "fit"))
    seed = rng_for(0, 0, "fit").integers(2**31)
    twin = MODELS[name].__class__(**{**MODELS[name].get_params(), "random_state": int(seed)}).fit(x.astype("f"), y)
    new = np.concatenate([load_digits().data[200:400], x, np.nextafter(x.astype("f"), 100)])
    wanted = np.stack([tree.predict_proba(new.astype("f")) for tree in twin.estimators_], axis=1)
    np.testing.assert_allclose(posterior.predict(new), wanted, atol=1e-7)


def test_a_bag_aligns_members_that_missed_a_class():
    x, y = digits(40)
    bag = BaggingClassifier(KNeighborsClassifier(3), 10, max_samples=12)  # neighbours take no weights: they see fewer
    posterior = askwell.as_model(bag).fit(x, y, rng=rng_for(0, 0, "fit"), classes=range(12))
    assert isinstance(posterior, MembersPosterior)
    assert any(len(columns) < 10 for columns in posterior.columns)
    probs = posterior.predict(x)
    assert probs.shape == (40, 10, 12)
    assert not probs[:, :, 10:].any()
    np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-5)


def test_pipelines_see_their_inputs_as_they_are():
    words = np.array([["red", "x"], ["blue", "y"], ["red", "y"], ["blue", "x"]] * 5, dtype=object)
    model = askwell.as_model(make_pipeline(OneHotEncoder(handle_unknown="ignore"), RandomForestClassifier(10)))
    posterior = model.fit(words, ["r", "b", "r", "b"] * 5, rng=rng_for(0, 0, "fit"))
    assert isinstance(posterior, ForestPosterior)
    assert posterior.classes == ("b", "r")
    assert (posterior.predict(words).mean(axis=1).argmax(1) == ([1, 0, 1, 0] * 5)).all()
    gaps = np.array([[np.nan, 1.0], [2.0, 0.0], [3.0, np.nan], [4.0, 1.0]])
    posterior = askwell.as_model(make_pipeline(SimpleImputer(), RandomForestClassifier(5))).fit(
        gaps, [0, 1, 0, 1], rng=rng_for(0, 0, "fit")
    )
    assert np.isfinite(posterior.predict(gaps)).all()


def test_the_estimator_given_is_never_touched():
    estimator = RandomForestClassifier(5, random_state=3)
    askwell.as_model(estimator).fit([[0.0], [1.0]], [0, 1], rng=rng_for(0, 0, "fit"))
    assert not hasattr(estimator, "estimators_")
    assert estimator.random_state == 3


def test_other_seeds_give_other_forests():
    x, y = digits()
    model = askwell.as_model(RandomForestClassifier(5))
    one, other = (model.fit(x, y, rng=rng_for(0, 0, purpose)).predict(x) for purpose in ("a", "b"))
    assert (one != other).any()


def test_our_own_has_enough_trees():
    assert forest().estimator.n_estimators == 500
    assert isinstance(forest(trees=20), ForestModel)


def test_one_class_so_far():
    posterior = forest(trees=10).fit([[0.0], [1.0]], ["a", "a"], rng=rng_for(0, 0, "fit"), classes=["a", "b"])
    np.testing.assert_array_equal(posterior.predict([[5.0]]), [[[1, 0]] * 10])


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([[1.0], [np.nan]], [0, 1], r"x\[1, 0\] is nan.*SimpleImputer"),
        ([["red"], ["blue"]], [0, 1], "x must hold numbers.*OneHotEncoder"),
        ([1.0, 2.0], [0, 1], "x must be a table"),
        ([[1.0], [2.0]], [], "y must have at least one label"),
        ([[1.0], [2.0]], [0.0, np.nan], "y must hold labels, but some are NaN"),
        ([[1.0], [2.0]], [[0], [1]], "one per example"),
        ([[1.0], [2.0], [3.0]], [0, 1], "same length"),
    ],
)
def test_bad_examples_are_refused(x, y, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        forest(trees=3).fit(x, y, rng=rng_for(0, 0, "fit"))


def test_bad_labels_widths_and_estimators_are_refused():
    with pytest.raises(ValueError, match="'c' is none of them"):
        forest(trees=3).fit([[1.0]], ["c"], rng=rng_for(0, 0, "fit"), classes=["a", "b"])
    posterior = forest(trees=3).fit([[1.0], [2.0]], [0, 1], rng=rng_for(0, 0, "fit"))
    with pytest.raises(ValueError, match=r"\[inputs, 1 features\], but its shape is \(1, 2\)"):
        posterior.predict([[1.0, 2.0]])
    with pytest.raises(ValueError, match="BaggingClassifier"):
        askwell.as_model(LogisticRegression()).fit([[1.0], [2.0]], [0, 1], rng=rng_for(0, 0, "fit"))
    with pytest.raises(ValueError, match="bring your own"):
        askwell.as_model("a forest")
    assert posterior.predict(np.empty((0, 1))).shape == (0, 3, 2)
