"""Boosters of other packages: as many fits, as forests tree by tree, as CatBoost's sampled posterior."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import askwell
from askwell.models.boosting import BoosterModel
from askwell.models.ensemble import EnsembleModel
from askwell.models.regression import RegressionModel
from askwell.models.scikit_learn import one_of_many
from askwell.seeds import rng_for
from askwell.testing import check_model


def lightgbm(**options):
    package = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return package.LGBMClassifier(**{"n_estimators": 10, "min_child_samples": 2} | options)


def lightgbm_forest(**options):
    return lightgbm(boosting_type="rf", subsample=0.6, subsample_freq=1, **options)


def xgboost(**options):
    package = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    return package.XGBClassifier(**{"n_estimators": 10} | options)


def xgboost_forest(**options):
    package = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    return package.XGBRFClassifier(**{"n_estimators": 10} | options)


def catboost(**options):
    package = pytest.importorskip("catboost", reason="CatBoost is not installed")
    return package.CatBoostClassifier(**{"iterations": 20} | options)


def catboost_posterior(**options):
    return catboost(posterior_sampling=True, **options)


BOOSTERS = [lightgbm, xgboost, catboost]
WITH_DRAWS = [lightgbm_forest, xgboost_forest, catboost_posterior]
each_booster = pytest.mark.parametrize("make", BOOSTERS)
each_with_draws = pytest.mark.parametrize("make", WITH_DRAWS)


def labelled(n, c=3, seed=0):
    rng, y = rng_for(seed, 0, "data"), np.arange(n) % c
    return (rng_for(7, 0, "centres").normal(size=(c, 4))[y] * 2 + rng.normal(size=(n, 4))).astype(np.float32), y


def fit(model, x, y, **options):
    return model.fit(x, y, rng=rng_for(0, 0, "fit"), **options)


def frame(n=60):
    x = pd.DataFrame({"size": np.arange(float(n)) % 7, "colour": pd.Categorical((list("rgb") * n)[:n])})
    return x, np.where(x["colour"] == "r", "yes", "no")


# ---- many fits -------------------------------------------------------------------------------------------------------


@each_booster
def test_many_fits_keep_the_contract_and_leave_nothing_behind(make, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    model = askwell.as_model(make(), draws=3)
    assert isinstance(model, EnsembleModel)
    check_model(model, processes=False)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("make", [*BOOSTERS, xgboost_forest, lightgbm_forest])
def test_as_many_threads_as_there_are_change_nothing(make, monkeypatch):
    x, y = labelled(60)
    model, probs = EnsembleModel(make(), draws=5), []
    for threads in "13":
        monkeypatch.setenv("ASKWELL_THREADS", threads)
        probs.append(fit(model, x, y).predict(x))
    np.testing.assert_array_equal(*probs)
    assert np.abs(probs[0][:, 0] - probs[0][:, 1]).max() > 1e-3


def test_an_error_inside_a_thread_is_the_caller_s(monkeypatch):
    package = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    monkeypatch.setenv("ASKWELL_THREADS", "2")
    with pytest.raises(package.basic.LightGBMError, match="num_leaves"):
        fit(askwell.as_model(lightgbm(num_leaves=1), draws=3), *labelled(30))


@each_booster
def test_columns_of_a_frame_are_found_by_name_and_categories_are_native(make):
    x, y = frame()
    options = {"xgboost": {"enable_categorical": True}, "catboost": {"cat_features": ["colour"]}}.get(make.__name__, {})
    posterior = fit(askwell.as_model(make(**options), draws=3), x, y)
    probs = posterior.predict(x)
    assert (probs.mean(axis=1).argmax(axis=1) == (y == "yes")).all()
    np.testing.assert_array_equal(posterior.predict(x[["colour", "size"]]), probs)


@each_booster
def test_a_pipeline_and_a_learner(make):
    x, y = labelled(80)
    learner = askwell.Learner(askwell.as_model(make_pipeline(StandardScaler(), make()), draws=4), x, targets=x[60:])
    learner.tell(range(40), y[:40])
    assert len(learner.ask(2)) == 2
    assert (learner.predict(x[:40]) == y[:40]).mean() > 0.8


def test_one_of_many_has_one_thread_and_says_what_it_was_told_to_say():
    assert one_of_many(lightgbm()).get_params()["n_jobs"] == 1
    assert one_of_many(lightgbm()).get_params()["verbosity"] == -1
    assert "verbosity" not in one_of_many(lightgbm(verbose=1)).get_params()
    inside = one_of_many(make_pipeline(StandardScaler(), lightgbm(n_jobs=4))).get_params()
    assert inside["lgbmclassifier__n_jobs"] == 1
    plain = LogisticRegression()
    assert one_of_many(plain) is plain


def test_seeds_of_catboost_are_set_though_it_does_not_list_them():
    x, y = labelled(30)
    posterior = fit(askwell.as_model(catboost(class_weights={2: 3.0}), draws=3), x, y)
    seeds = {member.get_params()["random_seed"] for member in posterior.members}
    assert len(seeds) == 3
    again = fit(askwell.as_model(catboost(class_weights={2: 3.0}), draws=3), x, y)
    assert seeds == {member.get_params()["random_seed"] for member in again.members}


@each_booster
def test_without_draws_the_refusal_names_the_lines_that_work(make):
    estimator = make()
    name = type(estimator).__name__
    own = {"lightgbm": 'boosting_type="rf"', "xgboost": "XGBRFClassifier()", "catboost": "posterior_sampling=True"}
    with pytest.raises(ValueError, match=r"as_model\(" + name + r"\(\.\.\.\), draws=50\)") as refusal:
        askwell.as_model(estimator)
    assert own[make.__name__] in str(refusal.value)


def test_regressors_become_a_bag():
    package = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    x, _ = labelled(60)
    model = askwell.as_model(package.LGBMRegressor(n_estimators=10, min_child_samples=2), draws=7)
    assert isinstance(model, RegressionModel)
    means, variances = fit(model, x, x[:, 0] ** 2).predict(x)
    assert means.shape == variances.shape == (60, 7)
    assert np.corrcoef(means.mean(axis=1), x[:, 0] ** 2)[0, 1] > 0.8
    assert (variances > 0).all()


# ---- one fit that has draws ------------------------------------------------------------------------------------------


@each_with_draws
def test_contract_of_boosters_with_draws_of_their_own(make):
    model = askwell.as_model(make(), draws=5)
    assert isinstance(model, BoosterModel)
    check_model(model)
    check_model(BoosterModel(make_pipeline(StandardScaler(), make()), draws=4), processes=False)


@each_with_draws
@pytest.mark.parametrize("c", [2, 3])
def test_the_mean_of_the_draws_is_near_the_booster_s_own_answer(make, c):
    x, y = labelled(90, c)
    posterior = fit(askwell.as_model(make(), draws=10), x, y)
    probs, own = posterior.predict(x), posterior.fitted.predict_proba(x)
    assert probs.shape == (90, 10, c)
    assert np.mean(probs.mean(axis=1).argmax(axis=1) == own.argmax(axis=1)) > 0.9
    assert np.abs(probs[:, 0] - probs[:, -1]).max() > 1e-3


@pytest.mark.parametrize("c", [2, 3])
def test_trees_of_xgboost_add_up_to_its_margin(c):
    from scipy.special import logit

    x, y = labelled(90, c)
    posterior = fit(askwell.as_model(xgboost_forest()), x, y)
    probs = posterior.predict(x).astype(np.float64)
    margin = posterior.fitted.predict(x, output_margin=True)
    if c == 2:
        np.testing.assert_allclose(logit(probs[:, :, 1]).mean(axis=1), margin, atol=1e-4)
    else:  # of each draw up to a number for all classes
        means = np.log(probs).mean(axis=1)
        np.testing.assert_allclose(np.diff(means, axis=1), np.diff(margin, axis=1), atol=1e-4)


def test_a_tree_of_lightgbm_is_the_forest_of_that_tree_alone():
    x, y = labelled(90)
    posterior = fit(askwell.as_model(lightgbm_forest(), draws=60), x, y)
    probs = posterior.predict(x)
    for tree in range(60):
        alone = posterior.fitted.predict_proba(x, start_iteration=tree, num_iteration=1)
        np.testing.assert_allclose(probs[:, tree], alone, atol=1e-6)


def test_virtual_ensembles_need_trees():
    x, y = labelled(30)
    with pytest.raises(ValueError, match=r"at most half of the trees, but there are 50 draws .* has 20 trees"):
        fit(askwell.as_model(catboost_posterior()), x, y)


def test_one_tree_is_no_forest():
    x, y = labelled(30)
    with pytest.raises(ValueError, match="at least two trees"):
        fit(askwell.as_model(lightgbm_forest(n_estimators=1)), x, y)


def test_what_has_no_draws_of_its_own_is_refused():
    with pytest.raises(ValueError, match=r"LogisticRegression. Try askwell.as_model\(estimator, draws=50\)"):
        BoosterModel(LogisticRegression())


@each_with_draws
def test_frames_of_boosters_with_draws(make):
    x, y = frame()
    options = {"xgboost_forest": {"enable_categorical": True}, "catboost_posterior": {"cat_features": ["colour"]}}
    posterior = fit(askwell.as_model(make(**options.get(make.__name__, {})), draws=5), x, y)
    probs = posterior.predict(x)
    np.testing.assert_array_equal(posterior.predict(x[["colour", "size"]]), probs)
    assert probs[(y == "yes"), :, 1].mean() > probs[(y == "no"), :, 1].mean() + 0.2
