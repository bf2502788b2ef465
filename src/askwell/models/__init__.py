"""Models whose posterior can be asked: one file per kind, and the choice between them."""

import dataclasses
import sys
from typing import Any, cast

import numpy as np

from askwell.models.protocol import Model, Posterior, takes

__all__ = ["Model", "Posterior", "as_model"]


def as_model(estimator: Any, *, draws: int | None = None) -> Model:
    """The estimator as a `Model`: what it takes to give a posterior with fixed draws.

    Takes scikit-learn's forests and bags, pipelines that end in one, torch modules with dropout, and any `Model`. What
    is given is a template: it is copied, never fitted itself, and what it has learnt before does not count. A forest is
    taken with the trees it has. For EPIG 100 are few (`askwell.models.forest` says why, `askwell.signal` how few).

    `draws` is how many draws the posterior is to have: of a forest or bag the members, of a net the sets of masks. Any
    other classifier with `predict_proba` is fitted that often, each time to a bootstrap sample of the labels
    (`askwell.models.ensemble.EnsembleModel`).

    >>> from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    >>> as_model(RandomForestClassifier(500))
    ForestModel(estimator=RandomForestClassifier(n_estimators=500))
    >>> as_model(HistGradientBoostingClassifier(), draws=50)
    EnsembleModel(estimator=HistGradientBoostingClassifier(), draws=50, bootstrap=True)
    """
    if draws is not None and (isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 2):
        raise ValueError(f"draws must be a whole number from 2, but it is {draws!r}. Try 50 or more.")
    draws = None if draws is None else int(draws)
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
    """A model of a scikit-learn style classifier."""
    from askwell.models.forest import ForestModel, is_single_classifier, with_members

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
