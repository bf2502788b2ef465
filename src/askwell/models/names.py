"""From a name to a model: one table for the command line, projects and simulations, so that a name is one model.

Sizes are those of the models themselves: 500 trees, 500 draws. With fewer, EPIG's bias, (c-1)²/2k nats for votes, hides
which questions are better (docs/models.md).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from askwell.models.protocol import Model

__all__ = ["MODELS", "model_named"]


def _forest(x: np.ndarray, alike: bool) -> Model:
    from askwell.models.forest import forest

    return forest()


def _linear(x: np.ndarray, alike: bool) -> Model:
    from askwell.models.linear import LinearModel

    return LinearModel(standardise=False) if alike else LinearModel(reference=x)


def _gp(x: np.ndarray, alike: bool) -> Model:
    from askwell.models.gp import GPClassifier, Kernel

    spread = np.ones(x.shape[1]) if alike else x.std(axis=0, dtype=np.float64)
    lengths = np.where(spread > 0, spread, 1.0) * np.sqrt(x.shape[1])
    return GPClassifier(Kernel(scale=10.0, length=tuple(lengths.tolist())), learn=True)


MODELS: Mapping[str, Callable[[np.ndarray, bool], Model]] = MappingProxyType(
    {"forest": _forest, "linear": _linear, "gp": _gp}
)


def model_named(name: str, x: Any, *, alike: bool = False) -> Model:
    """The model of that name for inputs like `x [n, d]`, a pool or a part of it.

    Features count by their standard deviations in `x`, or, where they are `alike` (parts of one thing in one unit:
    pixels, components, an embedding), as they are.

    >>> model_named("forest", np.zeros((5, 2)))
    RandomForest(trees=500, min_samples_leaf=1, max_features='sqrt', class_weight=None)
    """
    if name not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, but it is {name!r}.")
    return MODELS[name](np.asarray(x), alike)
