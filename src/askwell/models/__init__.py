"""Models: what learns from labels, and the posterior that it gives.

    labelled x, y -- Model.fit(x, y, rng=) --> Posterior -- .predict(x) --> probs [n, k, c]

A posterior has k draws, each of them one set of parameters, the same in every call: EPIG multiplies what a draw says of
a candidate with what the same draw says of a target. `protocol` has these two contracts and the optional shortcuts of a
posterior, `inputs` what may come in. Each kind of model has its file, and what is compiled is apart from it:

    forest       askwell's own trees (trees, tree_kernels)     linear    logistic regression (tempered, linear_kernels)
    scikit_learn forests and bags, as the user set them up     gp        Gaussian processes (gp_inference)
    regression   forests and bags for numbers                  dropout   networks (masks, passes, tensors, training)
    bayes        Bayesian linear regression                    ensemble  any list of classifiers

Which model an estimator or a name stands for is decided here.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from askwell import checks
from askwell.models.protocol import Model, Posterior, takes

__all__ = ["MODELS", "Model", "Posterior", "as_model", "model_named"]


def as_model(estimator: Any, *, draws: int | None = None) -> Model:
    """The estimator as a `Model`: what it takes to give a posterior with fixed draws.

    Takes scikit-learn's forests and bags, of classifiers or regressors, pipelines that end in one, torch modules with
    dropout, and any `Model`; of other packages LightGBM and XGBoost as random forests and CatBoost with
    `posterior_sampling=True`. What is given is a template: it is copied, never fitted itself, and what it has learnt
    before does not count. A forest is taken with the trees it has. For EPIG 100 are few (`askwell.models.forest` says
    why, `askwell.signal` how few).

    `draws` is how many draws the posterior is to have: of a forest or bag the members, of a net the sets of masks. Any
    other classifier with `predict_proba`, and any other regressor, is fitted that often, each time to a bootstrap
    sample of the labels (`askwell.models.ensemble`, `askwell.models.regression`), boosters on all cores.

    >>> from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    >>> as_model(RandomForestClassifier(500))
    ForestModel(estimator=RandomForestClassifier(n_estimators=500))
    >>> as_model(HistGradientBoostingClassifier(), draws=50)
    EnsembleModel(estimator=HistGradientBoostingClassifier(), draws=50, bootstrap=True)
    """
    draws = None if draws is None else checks.count("draws", draws, least=2)
    if hasattr(estimator, "get_params") and not (isinstance(estimator, type) and draws is not None):
        return _of_estimator(estimator, draws)
    if "torch" in sys.modules and isinstance(estimator, sys.modules["torch"].nn.Module):
        from askwell.models.dropout import DropoutModel

        return DropoutModel(estimator) if draws is None else DropoutModel(estimator, draws=draws)
    if isinstance(estimator, type) and hasattr(estimator, "fit"):
        raise ValueError(f"estimator must be an object, but it is a class. Try {estimator.__name__}().")
    if isinstance(estimator, Model) and takes(estimator.fit, "rng"):
        return estimator if draws is None else _with_draws(estimator, draws)
    raise ValueError(
        "estimator must be a scikit-learn forest, bag or pipeline, a torch module with dropout, or have "
        f"fit(x, y, *, rng) that returns a posterior, but it is {type(estimator).__name__}. docs/models.md shows how "
        "to bring your own model."
    )


def _of_estimator(estimator: Any, draws: int | None) -> Model:
    """A model of a scikit-learn style classifier or regressor."""
    from askwell.models.boosting import BoosterModel, has_own_draws
    from askwell.models.scikit_learn import (
        ForestModel,
        is_regressor,
        is_single_classifier,
        is_single_regressor,
        regressors,
        with_members,
    )

    if has_own_draws(estimator):
        return BoosterModel(estimator, draws=draws)
    if is_regressor(estimator):
        from askwell.models.regression import RegressionModel

        if draws is None:
            return RegressionModel(estimator)
        several = regressors if is_single_regressor(estimator) else with_members
        return RegressionModel(several(estimator, draws))
    if draws is None:
        return ForestModel(estimator)
    if not is_single_classifier(estimator):
        return ForestModel(with_members(estimator, draws))
    from askwell.models.ensemble import EnsembleModel

    return EnsembleModel(estimator, draws=draws)


def _with_draws(model: Any, draws: int) -> Model:
    """The model, with so many draws."""
    if dataclasses.is_dataclass(model) and any(field.name == "draws" for field in dataclasses.fields(model)):
        return cast(Model, dataclasses.replace(cast(Any, model), draws=draws))
    raise ValueError(
        f"draws cannot be set here: {type(model).__name__} is a model already, with draws of its own. Leave draws= out."
    )


# ---- by name ---------------------------------------------------------------------------------------------------------


def _forest(x: np.ndarray, alike: bool, numbers: bool) -> Model:
    from askwell.models.forest import forest
    from askwell.models.regression import RandomForestRegression

    return RandomForestRegression() if numbers else forest()


def _linear(x: np.ndarray, alike: bool, numbers: bool) -> Model:
    from askwell.models.bayes import BayesianLinearRegression
    from askwell.models.linear import LinearModel

    if numbers:
        return BayesianLinearRegression(standardise=False) if alike else BayesianLinearRegression(reference=x)

    return LinearModel(standardise=False) if alike else LinearModel(reference=x)


def _gp(x: np.ndarray, alike: bool, numbers: bool) -> Model:
    from askwell.models.gp import GPClassifier, GPRegressor, Kernel

    spread = np.ones(x.shape[1]) if alike else x.std(axis=0, dtype=np.float64)
    lengths = np.where(spread > 0, spread, 1.0) * np.sqrt(x.shape[1])
    if numbers:
        return GPRegressor(Kernel(length=tuple(lengths.tolist())), learn=True, normalise=True)
    return GPClassifier(Kernel(scale=10.0, length=tuple(lengths.tolist())), learn=True)


MODELS: Mapping[str, Callable[[np.ndarray, bool, bool], Model]] = MappingProxyType(
    {"forest": _forest, "linear": _linear, "gp": _gp}
)


def model_named(name: str, x: Any, *, alike: bool = False, numbers: bool = False) -> Model:
    """The model of that name for inputs like `x [n, d]`, a pool or a part of it: the same through every door.

    It predicts classes, or `numbers`: then it is askwell's regression forest, Bayesian linear regression, or a GP.

    Sizes are those of the models themselves: 500 trees, 500 draws. With fewer, EPIG's bias, (c-1)²/2k nats for votes,
    hides which questions are better (docs/models.md).
    Features count by their standard deviations in `x`, or, where they are `alike` (parts of one thing in one unit:
    pixels, components, an embedding), as they are.

    >>> model_named("forest", np.zeros((5, 2)))
    RandomForest(trees=500, min_samples_leaf=1, max_features='sqrt', class_weight=None)
    """
    if name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, but it is {name!r}.")
    return MODELS[name](np.asarray(x), alike, numbers)
