"""Tables at the door: what comes in comes out as numbers, and refusals say what to do."""

from collections import UserDict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.ensemble import HistGradientBoostingClassifier as Boosting
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

import askwell
from askwell.arrays import take
from askwell.models.dropout import DropoutModel
from askwell.models.ensemble import EnsembleModel, EnsemblePosterior
from askwell.models.gp import GPClassifier, GPRegressor
from askwell.models.inputs import aligned, check_lengths, column_names, count, encoded, features, numbers, sliceable
from askwell.models.linear import LinearModel, gradient_embeddings
from askwell.models.regression import RegressionModel
from askwell.models.scikit_learn import ForestModel
from askwell.seeds import rng_for

TABLE = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize("make", [np.array, np.ndarray.tolist, csr_matrix, coo_matrix])
def test_tables_of_any_kind(make):
    x = sliceable(make(TABLE))
    assert count(x) == 3
    np.testing.assert_array_equal(features(x), TABLE)
    np.testing.assert_array_equal(features(take(x, slice(1, 3))), TABLE[1:])
    np.testing.assert_array_equal(features(take(x, [2, 0])), TABLE[[2, 0]])
    assert features(x).dtype == np.float32
    assert features(x, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames(library):
    frame = library.DataFrame({"age": [1, 2], "size": [0.5, 0.25]})
    np.testing.assert_array_equal(features(take(frame, [1])), [[2, 0.25]])
    with pytest.raises(ValueError, match=r"the columns colour, shape hold text.*OneHotEncoder"):
        features(library.DataFrame({"age": [1, 2], "colour": ["red", "blue"], "shape": ["o", "x"]}))


def test_missing_values_of_nullable_columns_are_missing_values():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1, pd.NA], "Int64")})
    with pytest.raises(ValueError, match=r"x\[1, 1\] is nan \(column 'b'\). Fill missing values"):
        features(frame)
    np.testing.assert_array_equal(features(frame, missing=True), [[1, 1], [2, np.nan]])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pl.DataFrame({"a": [1.0]}).lazy(), r"polars.LazyFrame. Try .collect\(\)"),
        (pa.table({"a": [1.0]}), r"pyarrow.Table. Try .to_pandas\(\)"),
        (UserDict(input_ids=[[1.0]]), r"UserDict, which is only like one. Try dict\(x\)"),
        ({"ids": np.zeros((2, 3))}, "x must be a table .* but it is a dict of 'ids'"),
    ],
    ids=["lazy", "arrow", "tokens", "dict"],
)
def test_tables_that_have_to_be_turned_into_others(table, words):
    with pytest.raises(ValueError, match=words):
        features(table)


def test_what_is_right_already_is_not_copied():
    x = TABLE.astype(np.float32)
    assert features(x) is x
    assert sliceable(x) is x


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([1.0, 2.0], r"\[x\] for a single input"),
        (np.zeros((2, 3, 4)), r"x.reshape\(len\(x\), -1\)"),
        ([[1.0], [2.0, 3.0]], "rows have different lengths"),
        ([["red"]], "x must hold numbers"),
        ([[None]], "x must be finite, but x.7, 0. is nan.*SimpleImputer"),
        ([[0.0, np.inf]], r"x\[7, 1\] is inf. Clip"),
        ([[1e39]], r"in float32, but x\[7, 0\] is inf"),
        ([[1.0, 2.0]], "3 features.*in the same order"),
    ],
)
def test_refusals_of_tables(x, words):
    with pytest.raises(ValueError, match=words):
        features(x, width=3 if "same order" in words else None, first=7)


@pytest.mark.parametrize("x", [3.0, np.float64(3), "text", {}, {"a": 1}, None])
def test_what_has_no_rows_cannot_be_counted(x):
    with pytest.raises(ValueError, match="one row per input"):
        count(x)


def test_numbers():
    np.testing.assert_array_equal(numbers([1, 2]), [1.0, 2.0])
    for y, words in (
        (["a"], "For classes use a classifier"),
        ([[1.0]], "one per example"),
        ([], "at least one number"),
        ([0.0, np.nan], r"y\[1\] is nan"),
    ):
        with pytest.raises(ValueError, match=words):
            numbers(y)


def test_lengths():
    check_lengths(csr_matrix(TABLE), [0, 1, 2])
    with pytest.raises(ValueError, match="they have 3 and 2"):
        check_lengths(TABLE, [0, 1])


# ---- columns by name -----------------------------------------------------------------------------------------------

X = rng_for(0, 0, "columns").normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
NET = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
MODELS = {
    "forest": ForestModel(RandomForestClassifier(10)),
    "extra": ForestModel(ExtraTreesClassifier(10)),
    "pipeline": ForestModel(make_pipeline(StandardScaler(), RandomForestClassifier(10))),
    "bag": ForestModel(BaggingClassifier(LogisticRegression(), 5)),
    "bag of some features": ForestModel(BaggingClassifier(GaussianNB(), 5, max_features=2)),
    "linear": LinearModel(draws=20),
    "gp": GPClassifier(draws=20),
    "ensemble": EnsembleModel(LogisticRegression(), draws=3),
    "dropout": DropoutModel(NET, draws=5),
    "regression forest": RegressionModel(RandomForestRegressor(10)),
    "regression bag": RegressionModel(BaggingRegressor(LinearRegression(), 5)),
    "regression gp": GPRegressor(draws=20),
}


def frame(library, x=X, names=("a", "b", "c")):
    return library.DataFrame({name: column for name, column in zip(names, x.T, strict=True)})  # noqa: C416


def fitted(model, x):
    return model.fit(x, X[:, 0] if getattr(model, "regression", False) else Y, rng=rng_for(0, 0, "fit"))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # scikit-learn's, of arrays after frames
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("name", MODELS)
def test_columns_are_matched_by_name(name, library):
    posterior, x = fitted(MODELS[name], frame(library)), frame(library)
    expected = posterior.predict(x)
    np.testing.assert_array_equal(posterior.predict(x[["c", "a", "b"]]), expected)
    np.testing.assert_array_equal(posterior.predict(X), expected)  # an array has no names: by position
    for other, words in (
        (x[["a", "b"]], "columns of the fit, 'a', 'b', 'c', but 'c' is missing"),
        (frame(library, names=("a", "b", "C ")), r"'c' is missing \(did you mean 'C ' for 'c'\?\).*'C ' was not there"),
        (frame(library, np.hstack([X, Y[:, None]]), ("a", "b", "c", "label")), r"'label' was not there.*Try x\[\['a'"),
    ):
        with pytest.raises(ValueError, match=words):
            posterior.predict(other)


@pytest.mark.parametrize("name", [name for name in MODELS if "gp" in name])
def test_closed_forms_match_columns_too(name):
    posterior, x = fitted(MODELS[name], frame(pd)), frame(pd)
    mixed = x[["b", "c", "a"]]
    np.testing.assert_array_equal(posterior.epig(mixed, mixed[:5]), posterior.epig(x, x[:5]))
    np.testing.assert_array_equal(posterior.covariance(x, mixed), posterior.covariance(x, x))
    if hasattr(posterior, "top_epig"):
        np.testing.assert_array_equal(posterior.top_epig(mixed, mixed[:5], 3)[0], posterior.top_epig(x, x[:5], 3)[0])


def test_a_reference_and_embeddings_match_columns_too():
    x, mixed = frame(pd) * [1, 10, 100], (frame(pd) * [1, 10, 100])[["c", "a", "b"]]
    one, two = (fitted(LinearModel(draws=10, reference=reference), x[:60]) for reference in (x, mixed))
    np.testing.assert_array_equal(one.scale, two.scale)
    np.testing.assert_array_equal(one.mean_predict(mixed), one.mean_predict(x))
    np.testing.assert_array_equal(gradient_embeddings(one, mixed).residuals, gradient_embeddings(one, x).residuals)


def test_classifiers_that_are_fitted_already_match_columns_too():
    posterior = EnsemblePosterior.of([LogisticRegression().fit(frame(pd), Y)])
    np.testing.assert_array_equal(posterior.predict(frame(pd)[["c", "a", "b"]]), posterior.predict(frame(pd)))


def test_a_pipeline_that_picks_columns_by_name_is_left_to_do_so():
    steps = ColumnTransformer([("numbers", "passthrough", ["a", "b"])])
    for model in (
        ForestModel(make_pipeline(steps, RandomForestClassifier(10))),
        EnsembleModel(make_pipeline(steps, LogisticRegression()), draws=3),
    ):
        posterior, x = fitted(model, frame(pd)), frame(pd)
        np.testing.assert_array_equal(
            posterior.predict(x.assign(more=1)[["more", "c", "b", "a"]]), posterior.predict(x)
        )
        np.testing.assert_array_equal(posterior.predict(x[["b", "a"]]), posterior.predict(x))  # c is not looked at
        with pytest.raises(ValueError, match="missing"):
            posterior.predict(x[["a", "c"]])


def test_a_learner_matches_targets_and_inputs_by_name():
    x = frame(pd)
    learners = [
        askwell.Learner(RandomForestClassifier(20), x, targets=given) for given in (x[:20], x[:20][["c", "b", "a"]])
    ]
    for learner in learners:
        learner.tell(range(30), Y[:30])
    assert learners[0].ask(3) == learners[1].ask(3)
    np.testing.assert_array_equal(learners[0].predict_proba(x[["b", "a", "c"]]), learners[1].predict_proba(x))
    renamed = askwell.Learner(RandomForestClassifier(20), x, targets=x[:20].rename(columns={"a": "aa"}))
    renamed.tell(range(30), Y[:30])
    with pytest.raises(ValueError, match=r"'a' is missing .did you mean 'aa' for 'a'"):
        renamed.ask()


def test_names_that_are_counted_or_not_alone():
    counted = pd.DataFrame(X)  # pandas gives its columns numbers
    assert aligned(counted, ("a", "b", "c")) is counted
    assert aligned(frame(pd), column_names(counted)).columns.tolist() == ["a", "b", "c"]
    twice = pd.DataFrame(X, columns=["a", "a", "b"])
    assert aligned(twice, ("a", "a", "b")) is twice
    with pytest.raises(ValueError, match="more than once"):
        aligned(twice, ("a", "b", "a"))


@pytest.mark.parametrize("model", [RandomForestClassifier(20), LinearModel(draws=20)], ids=["forest", "linear"])
def test_counted_columns_in_another_order_are_put_right(model):
    x = pd.DataFrame(X)
    posterior = askwell.as_model(model).fit(x, Y, rng=rng_for(0, 0, "fit"))
    np.testing.assert_array_equal(posterior.predict(x[[2, 0, 1]]), posterior.predict(x))
    read = x.rename(columns=str)  # as they come back from a CSV file
    np.testing.assert_array_equal(posterior.predict(read), posterior.predict(x))
    with pytest.raises(ValueError, match="did you mean '0' for 0"):
        posterior.predict(read[["2", "0", "1"]])
    with pytest.raises(ValueError, match="0 is missing, and 'zz' was not there in the fit"):
        posterior.predict(x.rename(columns={0: "zz"}))


# ---- bags of frames ------------------------------------------------------------------------------------------------


def mixed_frame(library):
    colour = np.array(["red", "green", "blue"])[rng_for(0, 0, "colour").integers(3, size=60)]
    return library.DataFrame({"a": X[:, 0], "colour": colour, "b": X[:, 1]}), (colour == "red").astype(int)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_bags_of_pipelines_are_given_the_frame(library):
    x, y = mixed_frame(library)
    colours = OneHotEncoder(sparse_output=False)  # scikit-learn 1.6 cannot put a sparse part beside one of polars
    encode = ColumnTransformer([("colour", colours, ["colour"]), ("numbers", "passthrough", ["a", "b"])])
    model = askwell.as_model(BaggingClassifier(make_pipeline(encode, LogisticRegression()), 7))
    posterior = model.fit(x, y, rng=rng_for(0, 0, "fit"))
    whole = posterior.predict(x)
    assert whole.shape == (60, 7, 2)
    assert ((whole.mean(axis=1)[:, 1] > 0.5) == y).mean() > 0.95
    np.testing.assert_array_equal(posterior.predict(x[["b", "colour", "a"]]), whole)
    again = model.fit(x, y, rng=rng_for(0, 0, "fit")).predict(x)
    np.testing.assert_array_equal(again, whole)


def test_bags_of_boosting_see_categories_and_missing_values():
    x, y = mixed_frame(pd)
    x = x.assign(colour=x.colour.astype("category"), a=x.a.where(x.a < 1))
    boosting = Boosting(max_iter=5, min_samples_leaf=2)
    posterior = askwell.as_model(BaggingClassifier(boosting, 5)).fit(x, y, rng=rng_for(0, 0, "fit"))
    assert all(member.is_categorical_.tolist() == [False, True, False] for member in posterior.members)
    assert ((posterior.predict(x).mean(axis=1)[:, 1] > 0.5) == y).mean() > 0.95


def test_bags_respect_the_features_of_each_member_in_frames(monkeypatch):
    x, y = mixed_frame(pd)
    x = x.assign(colour=x.colour.astype("category"))
    bag = BaggingClassifier(Boosting(max_iter=3, min_samples_leaf=2), 6, max_features=2, max_samples=0.5)
    posterior = askwell.as_model(bag).fit(x, y, rng=rng_for(0, 0, "fit"))
    assert [len(inputs) for inputs in posterior.inputs] == [2] * 6
    whole = posterior.predict(x)
    monkeypatch.setattr("askwell.models.forest.ROWS", 7)
    np.testing.assert_array_equal(posterior.predict(x), whole)


def test_a_bag_of_what_takes_no_text_says_so():
    x, y = mixed_frame(pd)
    with pytest.raises(
        ValueError, match=r"LogisticRegression.*whose columns 'colour' hold text.*pipeline inside the bag"
    ):
        askwell.as_model(BaggingClassifier(LogisticRegression(), 3)).fit(x, y, rng=rng_for(0, 0, "fit"))


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(15, random_state=0),
        RandomForestClassifier(15, random_state=0, max_samples=0.7),
        ExtraTreesClassifier(15, random_state=0),
        BaggingClassifier(Boosting(max_iter=3, min_samples_leaf=2), 5, random_state=0),
    ],
    ids=["forest", "other forest", "extra", "bag"],
)
@pytest.mark.parametrize("learnt", [True, False], ids=["fitted with", "fitted without"])
def test_missing_values_go_where_scikit_learn_sends_them(estimator, learnt):
    holes = X.copy()
    holes[rng_for(0, 0, "holes").random(X.shape) < 0.3] = np.nan
    x = holes if learnt else X
    posterior = ForestModel(estimator).fit(x, Y, rng=rng_for(0, 0, "fit"))
    rng = rng_for(0, 0, "fit")
    states = sorted(name for name in estimator.get_params() if name.endswith("random_state"))
    theirs = estimator.set_params(**{name: int(rng.integers(2**31)) for name in states}).fit(x.astype(np.float32), Y)
    np.testing.assert_allclose(
        posterior.predict(holes).mean(axis=1), theirs.predict_proba(holes.astype(np.float32)), atol=1e-6
    )


def test_members_that_cannot_take_missing_values_say_so():
    holes = np.where(X > 1, np.nan, X)
    with pytest.raises(ValueError, match="contains NaN"):
        askwell.as_model(BaggingClassifier(LogisticRegression(), 3)).fit(holes, Y, rng=rng_for(0, 0, "fit"))


# ---- labels: parameters that name classes reach the classes they name ----------------------------------------------

RNG = rng_for(0, 0, "labels")
POINTS = RNG.normal(size=(240, 2))
SIDE = (POINTS[:, 0] + RNG.normal(size=240) > 0).astype(int)  # 0 or 1, hard to tell apart
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
    posterior = model.fit(POINTS, y, rng=rng_for(0, 0, "fit"), classes=order)
    return dict(zip(posterior.classes, posterior.predict(POINTS).mean((0, 1)).tolist(), strict=True))


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
        lambda weights: EnsembleModel(Boosting(max_iter=5, class_weight=weights), draws=2),
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
    posterior = ForestModel(estimator).fit(POINTS, y, rng=rng_for(0, 0, "fit"), classes=order)
    seed = int(rng_for(0, 0, "fit").integers(2**31))
    states = {each: seed for each in estimator.get_params() if each.endswith("random_state")}
    theirs = clone(estimator).set_params(**states).fit(POINTS, y).predict_proba(POINTS)
    np.testing.assert_allclose(
        posterior.predict(POINTS).mean(axis=1), theirs[:, ::-1] if backwards else theirs, atol=1e-6
    )


def test_a_class_without_labels_yet_may_have_a_weight():
    y = np.array(["a", "b"])[SIDE]
    for model in (
        ForestModel(RandomForestClassifier(**FOREST, class_weight={"a": 20, "c": 3})),
        ForestModel(BaggingClassifier(LogisticRegression(class_weight={"a": 20, "c": 3}), 3)),
        EnsembleModel(LogisticRegression(class_weight={"a": 20, "c": 3}), draws=2),
    ):
        posterior = model.fit(POINTS, y, rng=rng_for(0, 0, "fit"), classes=["c", "b", "a"])
        assert posterior.predict(POINTS)[:, :, 2].mean() > 0.75
        assert (posterior.predict(POINTS)[:, :, 0] == 0).all()


def test_a_learner_does_not_stop_at_a_class_that_is_still_to_come():
    forest = RandomForestClassifier(**FOREST, class_weight={0: 20, 1: 1, 2: 5})
    learner = askwell.Learner(forest, POINTS)
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
            model.fit(POINTS, y, rng=rng_for(0, 0, "fit"), classes=classes)


def test_priors_are_in_sorted_order_and_may_be_of_classes_without_labels():
    y = np.array(["ham", "spam"])[SIDE]
    theirs = GaussianNB(priors=[0.9, 0.1]).fit(POINTS, y).predict_proba(POINTS).mean(axis=0)
    model = EnsembleModel(GaussianNB(priors=[0.9, 0.1]), draws=20)
    ours = model.fit(POINTS, y, rng=rng_for(0, 0, "fit"), classes=["spam", "ham"]).predict(POINTS).mean((0, 1))
    np.testing.assert_allclose(ours[::-1], theirs, atol=0.05)
    model = EnsembleModel(GaussianNB(priors=[0.5, 0.45, 0.05]), draws=20)  # eggs, ham, spam
    ours = model.fit(POINTS, y, rng=rng_for(0, 0, "fit"), classes=["spam", "eggs", "ham"]).predict(POINTS).mean((0, 1))
    np.testing.assert_allclose(ours, [theirs[1], 0, theirs[0]], atol=0.05)
    with pytest.raises(ValueError, match=r"priors must have a number for each of the classes"):
        EnsembleModel(GaussianNB(priors=[0.2] * 5), draws=2).fit(POINTS, y, rng=rng_for(0, 0, "fit"))


def test_weights_of_one_against_the_rest_mean_the_rest_and_the_one():
    y = np.array(["a", "b", "c"])[(POINTS[:, 0] > -0.5).astype(int) + (POINTS[:, 0] > 0.5)]
    weights = {0: 1.0, 1: 30.0}
    model = EnsembleModel(OneVsRestClassifier(LogisticRegression(class_weight=weights)), draws=10)
    ours = model.fit(POINTS, y, rng=rng_for(0, 0, "fit")).predict(POINTS).mean(axis=1)
    theirs = OneVsRestClassifier(LogisticRegression(class_weight=weights)).fit(POINTS, y).predict_proba(POINTS)
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
