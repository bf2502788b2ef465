"""Models whose posterior can be asked: one file per kind, and the choice between them."""

import sys
from typing import Any

from askwell.models.protocol import Model, Posterior

__all__ = ["Model", "Posterior", "as_model"]


def as_model(estimator: Any) -> Model:
    """The estimator as a `Model`: what it takes to give a posterior with fixed draws.

    Takes scikit-learn's forests and bags, pipelines that end in one, torch modules with dropout, and any `Model`.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> as_model(RandomForestClassifier())
    ForestModel(estimator=RandomForestClassifier())
    """
    if isinstance(estimator, Model) and not hasattr(estimator, "get_params"):
        return estimator
    if "torch" in sys.modules and isinstance(estimator, sys.modules["torch"].nn.Module):
        from askwell.models.dropout import DropoutModel

        return DropoutModel(estimator)
    if hasattr(estimator, "get_params"):
        from askwell.models.forest import ForestModel

        return ForestModel(estimator)
    raise ValueError(
        "estimator must be a scikit-learn forest, bag or pipeline, a torch module with dropout, or have "
        f"fit(x, y, *, rng) that returns a posterior, but it is {type(estimator).__name__}. docs/models.md shows how "
        "to bring your own model."
    )
