"""Forests and bags as posteriors: what scikit-learn says, faster, and draws that stay the same."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import coo_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import askwell
from askwell.models import forest as forest_module
from askwell.models import scikit_learn
from askwell.models.forest import ForestPosterior, RandomForest
from askwell.models.linear import LinearModel
from askwell.models.scikit_learn import ForestModel, MembersPosterior, grown_trees
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


@pytest.mark.parametrize("labels", [5, 400])
def test_numpy_and_the_compiled_walk_come_to_the_same_leaves(monkeypatch, labels):
    rng = rng_for(0, 0, "walk")
    x = rng.normal(size=(700, 3)).astype(np.float32).round(1)  # many inputs lie on a threshold
    y = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)
    posterior = ForestModel(RandomForestClassifier(20)).fit(x[:labels], y[:labels], rng=rng, classes=[0, 1, 2])
    found = []
    for mode in ("wait", "never"):
        monkeypatch.setenv("ASKWELL_COMPILE", mode)
        found.append(posterior.predict(x))
    np.testing.assert_array_equal(*found)


def test_other_seeds_give_other_forests():
    x, y = digits()
    model = askwell.as_model(RandomForestClassifier(5))
    one, other = (model.fit(x, y, rng=rng_for(0, 0, purpose)).predict(x) for purpose in ("a", "b"))
    assert (one != other).any()


def test_one_class_so_far():
    posterior = RandomForest(trees=10).fit([[0.0], [1.0]], ["a", "a"], rng=rng_for(0, 0, "fit"), classes=["a", "b"])
    np.testing.assert_array_equal(posterior.predict([[5.0]]), [[[1, 0]] * 10])


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([[1.0], [np.inf]], [0, 1], r"x\[1, 0\] is inf. Clip"),
        ([["red"], ["blue"]], [0, 1], "x must hold numbers.*OneHotEncoder"),
        ([1.0, 2.0], [0, 1], "x must be a table"),
        ([[1.0], [2.0]], [], "y must have at least one label"),
        ([[1.0], [2.0]], [0.0, np.nan], r"y\[1\] is nan"),
        ([[1.0], [2.0]], [[0], [1]], "one per example"),
        ([[1.0], [2.0], [3.0]], [0, 1], "same length"),
    ],
)
def test_bad_examples_are_refused(x, y, words):
    with pytest.raises(ValueError, match=f"(?s){words}"):
        RandomForest(trees=3).fit(x, y, rng=rng_for(0, 0, "fit"))


def test_bad_labels_widths_and_estimators_are_refused():
    with pytest.raises(ValueError, match="'c' is none of them"):
        RandomForest(trees=3).fit([[1.0]], ["c"], rng=rng_for(0, 0, "fit"), classes=["a", "b"])
    posterior = RandomForest(trees=3).fit([[1.0], [2.0]], [0, 1], rng=rng_for(0, 0, "fit"))
    with pytest.raises(ValueError, match=r"\[inputs, 1 features\], but its shape is \(1, 2\)"):
        posterior.predict([[1.0, 2.0]])
    assert posterior.predict(np.empty((0, 1))).shape == (0, 3, 2)


# ---- what may be a model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (
            LogisticRegression(),
            r"LogisticRegression is none. Try askwell.models.linear.LinearModel\(\).*Else askwell.as_model",
        ),
        (make_pipeline(StandardScaler(), LogisticRegression()), "LogisticRegression is none"),
        (AdaBoostClassifier(), "AdaBoostClassifier is none"),  # has members, but they are no draws
        (OneVsRestClassifier(GaussianNB()), "OneVsRestClassifier is none"),
        (
            GaussianNB(),
            r"Try askwell.as_model\(GaussianNB\(...\), draws=50\).*or BaggingClassifier\(GaussianNB\(...\), 100\)",
        ),
        (
            VotingClassifier([("a", GaussianNB())]),
            r"VotingClassifier\(\.\.\., voting=\"soft\"\)",
        ),
        (LinearSVC(), r"try BaggingClassifier\(CalibratedClassifierCV\(LinearSVC\(\)\), 100\)"),
        (BaggingClassifier(LinearSVC(), 3), r"Try BaggingClassifier\(CalibratedClassifierCV\(LinearSVC\(\)\), 100\)"),
        (
            make_pipeline(StandardScaler(), LinearSVC()),
            r"BaggingClassifier\(CalibratedClassifierCV\(pipeline\), 100\)",
        ),
        (
            BaggingClassifier(make_pipeline(StandardScaler(), LinearSVC()), 3),
            r"LinearSVC has none\. Try BaggingClassifier\(CalibratedClassifierCV\(pipeline\), 100\)",
        ),
        (GridSearchCV(RandomForestClassifier(), {}), "its best_estimator_"),
        (StandardScaler(), "StandardScaler is none"),
        (make_pipeline(StandardScaler(), "passthrough"), "str is none"),
        (RandomForestClassifier, r"it is a class. Try RandomForestClassifier\(\)"),
        (ForestModel, r"it is a class. Try ForestModel\(\)"),
        ("a forest", "bring your own"),
        ([RandomForestClassifier()], "it is list"),
    ],
    ids=lambda case: str(case)[:40],
)
def test_what_is_no_model_is_refused_at_once(estimator, words):
    with pytest.raises(ValueError, match=words):
        askwell.as_model(estimator)


def test_fit_without_rng_is_no_model():
    class Network:
        def fit(self, x, y, epochs=3): ...

    with pytest.raises(ValueError, match="it is Network"):
        askwell.as_model(Network())


def test_members_without_probabilities_are_refused():
    with pytest.raises(ValueError, match=r"RidgeClassifier has none\. Try BaggingClassifier\(CalibratedClassifierCV"):
        askwell.as_model(BaggingClassifier(RidgeClassifier(), 3))


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        GaussianNB(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        CalibratedClassifierCV(LinearSVC(), cv=2),
        StackingClassifier([("a", GaussianNB())], LogisticRegression(), cv=2),
        StackingClassifier([("a", GaussianNB())], cv=2),  # says only when fitted that it has probabilities
        make_pipeline(StandardScaler(), StackingClassifier([("a", GaussianNB())], cv=2)),
        VotingClassifier([("a", GaussianNB())], voting="soft"),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        OneVsRestClassifier(GaussianNB()),
    ],
    ids=lambda case: type(case).__name__,
)
def test_any_classifier_becomes_a_model_with_draws(estimator):
    with pytest.raises(ValueError, match=r"draws=50"):
        askwell.as_model(estimator)
    x, y = digits(100)
    posterior = askwell.as_model(estimator, draws=3).fit(x[:, 10:14], y % 2, rng=rng_for(0, 0, "fit"))
    assert posterior.predict(x[:5, 10:14]).shape == (5, 3, 2)


def test_draws_of_what_has_draws_already():
    assert askwell.as_model(RandomForestClassifier(), draws=7).estimator.n_estimators == 7
    assert (
        askwell.as_model(make_pipeline(StandardScaler(), BaggingClassifier()), draws=7).estimator[-1].n_estimators == 7
    )
    assert askwell.as_model(LinearModel(), draws=7).draws == 7
    assert askwell.as_model(LinearModel(), draws=np.int64(7)).draws == 7
    with pytest.raises(ValueError, match=r"LinearSVC has none\. Try CalibratedClassifierCV"):
        askwell.as_model(LinearSVC(), draws=7)
    assert askwell.as_model(RandomForestRegressor(), draws=7).estimator.n_estimators == 7
    assert askwell.as_model(LinearRegression(), draws=7).regression
    assert askwell.as_model(LinearRegression(), draws=7).estimator.n_estimators == 7
    with pytest.raises(ValueError, match="Leave draws= out"):
        askwell.as_model(ForestModel(RandomForestClassifier()), draws=7)
    for draws in (0, 1, 2.5, True, "many"):
        with pytest.raises(ValueError, match="draws must be a whole number from 2"):
            askwell.as_model(GaussianNB(), draws=draws)


def test_members_that_want_two_classes_say_so():
    bag = askwell.as_model(BaggingClassifier(LogisticRegression(), 3))
    with pytest.raises(ValueError, match="cannot learn from one class, and all labels are 'a'"):
        bag.fit([[0.0], [1.0]], ["a", "a"], rng=rng_for(0, 0, "fit"), classes=["a", "b"])


def test_what_was_fitted_before_does_not_count():
    x, y = digits()
    fitted = make_pipeline(StandardScaler(), RandomForestClassifier(5)).fit(x[:50], y[:50])
    found, wanted = (
        askwell.as_model(estimator).fit(x, y, rng=rng_for(0, 0, "fit")).predict(x)
        for estimator in (fitted, clone(fitted))
    )
    np.testing.assert_array_equal(found, wanted)


# ---- many inputs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["forest", "bagged anything", "pipeline"])
def test_chunks_do_not_matter(monkeypatch, name):
    x, y = digits()
    posterior = askwell.as_model(MODELS[name]).fit(x, y, rng=rng_for(0, 0, "fit"))
    whole = posterior.predict(x)
    monkeypatch.setattr(forest_module, "ROWS", 7)
    np.testing.assert_allclose(posterior.predict(x), whole, atol=1e-7)
    np.testing.assert_allclose(posterior.predict(coo_matrix(x) if name != "pipeline" else x), whole, atol=1e-7)
    late = np.array(x)
    late[150, 3] = np.inf
    if name != "pipeline":
        with pytest.raises(ValueError, match=r"x\[150, 3\] is inf"):
            posterior.predict(late)


@pytest.mark.parametrize("name", ["forest", "bagged anything", "pipeline"])
def test_memory_grows_only_with_the_output(name):
    x, y = digits()
    posterior = askwell.as_model(MODELS[name]).fit(x, y, rng=rng_for(0, 0, "fit"))
    pool = np.zeros((50_000, 64))  # float64: 24 MiB, and 12 as float32
    posterior.predict(pool[:10])
    tracemalloc.start()
    out = posterior.predict(pool)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - out.nbytes < 2.5 * forest_module.ROWS * 64 * 8


# ---- few trees -----------------------------------------------------------------------------------------------------


def test_few_trees_are_taken_as_they_are_and_the_guard_warns_once(recwarn):
    x, y = digits(600)
    ratios = []
    for trees in (10, 300):
        model = askwell.as_model(RandomForestClassifier(trees))
        posterior = model.fit(x[:100], y[:100], rng=rng_for(0, 0, "fit"))
        pool, targets = posterior.predict(x[100:300]), posterior.predict(x[300:])
        assert pool.shape[1] == trees
        assert not recwarn.list  # neither fit nor predict: they do not know what the draws are for
        ratios.append(askwell.signal(pool, targets))
        assert [str(each.message).count("try several times as many trees") for each in recwarn.list] == [1]
        recwarn.clear()
    assert ratios[0] < ratios[1]


# ---- plain forests, grown without checks ---------------------------------------------------------------------------

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


@pytest.fixture
def builder_not_tried():
    """As in a new process; and for the next test again."""
    scikit_learn._builder_is_known.cache_clear()
    yield
    scikit_learn._builder_is_known.cache_clear()


def test_another_builder_than_the_known_one(monkeypatch, builder_not_tried):
    """What is not public may change: then the forest is fitted by scikit-learn itself, with the same answer."""
    (x, y), model = table(), ForestModel(RandomForestClassifier(10))
    wanted = model.fit(x, y, rng=rng_for(0, 0, "fit")).predict(x)
    scikit_learn._builder_is_known.cache_clear()
    monkeypatch.setattr("sklearn.tree._splitter.BestSplitter", lambda criterion, look: None)
    assert grown_trees(RandomForestClassifier(10, random_state=0), x, y) is None
    assert_array_equal(model.fit(x, y, rng=rng_for(0, 0, "fit")).predict(x), wanted)


def test_a_builder_that_grows_other_trees_is_noticed_once(monkeypatch, builder_not_tried):
    """It takes what it took, and means something else."""
    (x, y), model, plain = table(), ForestModel(RandomForestClassifier(10)), RandomForestClassifier(10, random_state=0)
    wanted = model.fit(x, y, rng=rng_for(0, 0, "fit")).predict(x)
    scikit_learn._builder_is_known.cache_clear()
    grown = scikit_learn._grown
    monkeypatch.setattr(scikit_learn, "_grown", lambda forest, x, y, seeds: grown(forest, x, y, seeds + 1))
    with pytest.warns(RuntimeWarning, match="grows other trees"):
        assert grown_trees(plain, x, y) is None
    assert grown_trees(plain, x, y) is None  # and says so no more
    assert_array_equal(model.fit(x, y, rng=rng_for(0, 0, "fit")).predict(x), wanted)


def test_the_builder_is_tried_once(monkeypatch, builder_not_tried):
    tried = []
    grown = scikit_learn._grown
    monkeypatch.setattr(scikit_learn, "_grown", lambda *given: tried.append(given) or grown(*given))
    for _ in range(3):
        grown_trees(RandomForestClassifier(1, random_state=0), *table())
    assert len(tried) == 1 + 3


def test_bad_parameters_are_refused_in_scikit_learns_words():
    with pytest.raises(ValueError, match="n_estimators"):
        ForestModel(RandomForestClassifier(0)).fit(*table(), rng=rng_for(0, 0, "fit"))
