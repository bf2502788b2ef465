"""The contract of models of numbers, on each kind there is, and models that break it."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import askwell
from askwell.models import MODELS, as_model, model_named
from askwell.models.bayes import BayesianLinearRegression
from askwell.models.gp import GPRegressor
from askwell.models.protocol import predicts_numbers
from askwell.models.regression import RandomForestRegression

MODELS_OF_NUMBERS = {
    "forest of scikit-learn": as_model(RandomForestRegressor(10)),
    "trees all of whose labels are seen": as_model(ExtraTreesRegressor(10)),
    "bag": as_model(BaggingRegressor(Ridge(), 10)),
    "bag of some features": as_model(BaggingRegressor(Ridge(), 10, max_features=0.5)),
    "pipeline": as_model(make_pipeline(StandardScaler(), RandomForestRegressor(10))),
    "bootstrap members": as_model(Ridge(), draws=10),
    "forest": RandomForestRegression(10),
    "linear": BayesianLinearRegression(draws=20),
    "gp": GPRegressor(draws=20, normalise=True),
    "gp, learnt": GPRegressor(draws=20, normalise=True, learn=True),
}


@pytest.mark.parametrize("name", MODELS_OF_NUMBERS)
def test_models_of_numbers_keep_the_contract(name):
    assert predicts_numbers(MODELS_OF_NUMBERS[name])
    askwell.testing.check_model(MODELS_OF_NUMBERS[name], processes=name in ("forest", "linear"))


@pytest.mark.parametrize("name", MODELS)
def test_names_stand_for_models_of_numbers_too(name):
    x = np.zeros((5, 2))
    assert predicts_numbers(model_named(name, x, numbers=True))
    assert not predicts_numbers(model_named(name, x))


class Broken:
    regression: ClassVar[bool] = True

    def __init__(self, predict):
        self._predict = predict

    def fit(self, x, y, *, rng):
        model, seen = self, rng

        class Posterior:
            def predict(self, x):
                return model._predict(np.asarray(x), seen)

        return Posterior()


@pytest.mark.parametrize(
    ("predict", "words"),
    [
        (lambda x, rng: np.zeros((len(x), 3)), "pair"),
        (lambda x, rng: (np.zeros((len(x), 3)), -np.ones((len(x), 3))), "variances from 0"),
        (lambda x, rng: (np.full((len(x), 3), np.nan), np.ones((len(x), 3))), "finite"),
        (lambda x, rng: (np.zeros((len(x), 3)), np.ones((len(x), 2))), "equal shapes"),
        (lambda x, rng: (np.zeros((len(x), 1)), np.ones((len(x), 1))), "at least two draws"),
        (lambda x, rng: (rng.normal(size=(len(x), 3)), np.ones((len(x), 3))), "a second call gives other numbers"),
        (lambda x, rng: (np.arange(len(x))[:, None] * np.ones(3), np.ones((len(x), 3))), "differ"),
    ],
)
def test_a_broken_model_of_numbers_is_found(predict, words):
    with pytest.raises(AssertionError, match=words):
        askwell.testing.check_model(Broken(predict), processes=False)


def test_a_regressor_without_draws_names_the_way_to_some():
    with pytest.raises(ValueError, match=r"as_model\(Ridge\(...\), draws=50\)"):
        as_model(Ridge())
    assert as_model(RandomForestRegressor(10), draws=7).estimator.n_estimators == 7
