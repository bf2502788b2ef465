"""Boosters of which one fit has draws: random forests of LightGBM and XGBoost, and CatBoost's sampled posterior.

    LGBMClassifier(boosting_type="rf", subsample=0.6, subsample_freq=1)     a draw is a tree
    XGBRFClassifier()                                                       a draw is a tree
    CatBoostClassifier(posterior_sampling=True)                             a draw is a virtual ensemble

CatBoost's posterior sampling is stochastic gradient Langevin boosting (Ustimenko and Prokhorenkova, 2021): its trees
are the steps of a Markov chain, and a virtual ensemble is the model at one of k places in the chain's second half.
Neighbours have most of their trees in common, so fifty of them tell less than fifty fits do.
All other boosters are one answer, and `askwell.models.ensemble` fits them several times.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import expit, softmax

from askwell.models.forest import input_parts
from askwell.models.inputs import Names, check_lengths, column_names, count, encoded, sliceable
from askwell.models.protocol import check_rng, class_codes
from askwell.models.scikit_learn import last_step, one_of_many, package_of, seeded_copy, several_classes
from askwell.notebook import brief

__all__ = ["BoosterModel", "BoosterPosterior", "has_own_draws"]

VIRTUAL = 50  # draws of CatBoost's posterior, unless told otherwise


@final
@dataclass(frozen=True)
class BoosterModel:
    """A booster whose one fit has draws, or a pipeline that ends in one; `draws` trees or virtual ensembles.

    Without `draws`, as many trees as the estimator has, or 50 virtual ensembles, which need at least 100 trees.
    """

    estimator: Any
    draws: int | None = None

    def __post_init__(self) -> None:
        if not has_own_draws(self.estimator):
            raise ValueError(
                "estimator must be LightGBM's or XGBoost's random forest, or CatBoost with posterior_sampling=True, "
                f"but it is {type(last_step(self.estimator)[1]).__name__}. Try askwell.as_model(estimator, draws=50)."
            )

    def fit(
        self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None
    ) -> "BoosterPosterior":
        """The posterior of one fit; classes without an example have probability zero."""
        codes, known = class_codes(y, classes)
        names, x = column_names(x), sliceable(x)
        check_lengths(x, codes)
        check_rng(rng)
        labels = encoded(codes, known, declared=classes is not None)
        copy = one_of_many(labels.applied(seeded_copy(self.estimator, rng)))
        catboost = package_of(copy) == "catboost"
        if self.draws is not None and not catboost:
            steps, _ = last_step(copy)
            copy.set_params(**{"n_estimators" if steps is None else f"{copy.steps[-1][0]}__n_estimators": self.draws})
        with several_classes(self.estimator, codes, known):
            steps, fitted = last_step(copy.fit(x, labels.y))
        leaves = _leaf_values(fitted) if package_of(fitted) == "xgboost" else None
        draws = (self.draws or VIRTUAL) if catboost else _trees(fitted)
        _check_draws(fitted, draws)
        return BoosterPosterior(known, steps, fitted, draws, leaves, labels.columns, names)


@final
@dataclass(frozen=True)
class BoosterPosterior:
    """The trees or virtual ensembles of one fitted booster as draws."""

    __repr__ = brief

    classes: tuple[Any, ...]
    steps: Any  # of a pipeline, or None
    fitted: Any
    draws: int
    leaves: tuple[np.ndarray, ...] | None  # of XGBoost's trees, the values by node
    columns: tuple[int, ...]  # the classes that occurred, as column numbers
    names: Names = None  # of the columns of the fit

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32."""
        out = np.zeros((count(x), self.draws, len(self.classes)), np.float32)
        for span, part in input_parts(x, steps=self.steps, width=None, names=self.names):
            out[span, :, self.columns] = self._probs(part)
        return out

    def _probs(self, x: Any) -> np.ndarray:
        """Of the classes that occurred, `[n, k, s]`."""
        fitted, k = self.fitted, self.draws
        if package_of(fitted) == "lightgbm":
            # Not in threads: which trees are meant is kept in the booster, and another thread would change it.
            trees = [fitted.predict_proba(x, start_iteration=tree, num_iteration=1) for tree in range(k)]
            return np.stack(trees, axis=1)
        if self.leaves is not None:
            margins = _tree_margins(fitted, self.leaves, x, k)
        else:
            margins = fitted.virtual_ensembles_predict(
                x, prediction_type="VirtEnsembles", virtual_ensembles_count=k
            )  # [n, k, s], or [n, k, 1] of two classes
        if margins.shape[2] > 1:
            probs: np.ndarray = softmax(margins, axis=2)
            return probs
        return np.concatenate([expit(-margins), expit(margins)], axis=2)


def has_own_draws(estimator: Any) -> bool:
    """Whether one fit of a booster has draws."""
    _, last = last_step(estimator)
    package = package_of(last)
    if package == "lightgbm" and hasattr(last, "predict_proba"):
        params = last.get_params()
        return any(params.get(name) in ("rf", "random_forest") for name in ("boosting_type", "boosting"))
    if package == "catboost" and hasattr(last, "predict_proba"):
        return bool(last.get_params().get("posterior_sampling"))
    return package == "xgboost" and any(kind.__name__ == "XGBRFClassifier" for kind in type(last).__mro__)


def _trees(forest: Any) -> int:
    """How many trees a fitted forest of LightGBM or XGBoost has, for each class."""
    if package_of(forest) == "lightgbm":
        return int(forest.booster_.current_iteration())
    return int(forest.n_estimators)


def _check_draws(fitted: Any, draws: int) -> None:
    name = type(fitted).__name__
    if package_of(fitted) == "catboost" and draws > fitted.tree_count_ // 2:
        raise ValueError(
            f"draws must be at most half of the trees, but there are {draws} draws and {name} has "
            f"{fitted.tree_count_} trees. Try iterations={max(1000, 20 * draws)}."
        )
    if draws < 2:
        raise ValueError(
            f"a forest must have at least two trees, whose answers are the draws, but {name} has {draws}. Try "
            "n_estimators=100."
        )


# ---- XGBoost, tree by tree -------------------------------------------------------------------------------------------


def _leaf_values(forest: Any) -> tuple[np.ndarray, ...]:
    """Of each tree of a fitted XGBoost forest, what its leaves add to the margin, by the number of the node."""
    document = json.loads(bytes(forest.get_booster().save_raw(raw_format="json")))
    trees = document["learner"]["gradient_booster"]["model"]["trees"]
    return tuple(np.array(tree["split_conditions"], np.float32) for tree in trees)  # a leaf's is its value


def _tree_margins(forest: Any, values: tuple[np.ndarray, ...], x: Any, k: int) -> np.ndarray:
    """Margins `[n, k, s]`, s = 1 of two classes, of each tree as if all k trees were like it.

    A forest's margin is a base plus the sum over its trees, each of them scaled by 1/k. XGBoost stores the trees of one
    class after the other.
    """
    nodes = forest.apply(x).astype(np.intp)  # [n, s*k]
    added = np.stack([leaf[node] for leaf, node in zip(values, nodes.T, strict=True)], axis=1)
    added = added.reshape(len(nodes), -1, k).swapaxes(1, 2)  # [n, k, s]
    margin = forest.predict(x, output_margin=True).reshape(len(nodes), 1, -1)  # [n, 1, s]
    margins: np.ndarray = margin - added.sum(axis=1, keepdims=True) + k * added
    return margins
