"""Models whose posterior can be asked: one file per kind, and the choice between them."""

import sys
from typing import Any

from askwell.models.protocol import Model, Posterior, takes

__all__ = ["Model", "Posterior", "as_model"]


def as_model(estimator: Any) -> Model:
    """The estimator as a `Model`: what it takes to give a posterior with fixed draws.

    Takes scikit-learn's forests and bags, pipelines that end in one, torch modules with dropout, and any `Model`. What
    is given is a template: it is copied, never fitted itself, and what it has learnt before does not count. A forest is
    taken with the trees it has. For EPIG 100 are few (`askwell.models.forest` says why, `askwell.signal` how few).

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> as_model(RandomForestClassifier(500))
    ForestModel(estimator=RandomForestClassifier(n_estimators=500))
    """
    if hasattr(estimator, "get_params"):
        from askwell.models.forest import ForestModel

        return ForestModel(estimator)
    if "torch" in sys.modules and isinstance(estimator, sys.modules["torch"].nn.Module):
        from askwell.models.dropout import DropoutModel

        return DropoutModel(estimator)
    if isinstance(estimator, type) and hasattr(estimator, "fit"):
        raise ValueError(f"estimator must be an object, but it is a class. Try {estimator.__name__}().")
    if isinstance(estimator, Model) and takes(estimator.fit, "rng"):
        return estimator
    raise ValueError(
        "estimator must be a scikit-learn forest, bag or pipeline, a torch module with dropout, or have "
        f"fit(x, y, *, rng) that returns a posterior, but it is {type(estimator).__name__}. docs/models.md shows how "
        "to bring your own model."
    )
