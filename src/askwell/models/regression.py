"""Forests, bags and lists of regressors as draws.

A regressor's belief travels as means and variances `[n, k]` of the label given draw k, ready for
`askwell.information.gaussian.moment_matched_epig`. The variance is that of the leaf for trees, plus a noise that makes
the whole predictive variance right on average where the members were not fitted: see `noise_variance`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np

from askwell.arrays import take
from askwell.models.forest import (
    MaxFeatures,
    check_forest,
    features_looked_at,
    input_parts,
    is_pipeline,
    transformed,
)
from askwell.models.inputs import Names, check_lengths, column_names, count, features, numbers, sliceable
from askwell.models.protocol import check_rng
from askwell.models.scikit_learn import check_bag, check_can, last_step, seeded_copy, some_columns
from askwell.models.trees import Labels, Trees, grown, leaf_values, pack_trees
from askwell.notebook import brief

__all__ = ["RandomForestRegression", "RegressionModel", "RegressionPosterior", "noise_variance"]

FOLDS = 5
LEAST_NOISE = 0.01  # of the squared error: trees with pure leaves are surer of a label than anybody can be


@final
@dataclass(frozen=True)
class RegressionModel:
    """A forest or bag of regressors, or a pipeline that ends in one, of scikit-learn: its members are the draws.

    `noise` is the variance of a label that no member can explain, or "auto": estimated out of bag, or by 5-fold
    cross-validation where every member was fitted to all labels (ExtraTrees unless told otherwise).

    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from askwell.seeds import rng_for
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> posterior = RegressionModel(RandomForestRegressor(20)).fit(x, x[:, 0] ** 2, rng=rng_for(0, 0, "fit"))
    >>> means, variances = posterior.predict(x)
    >>> means.shape, variances.shape                                        # [n, k] both
    ((30, 20), (30, 20))
    """

    regression: ClassVar[bool] = True  # labels are numbers

    estimator: Any
    noise: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        check_bag(self.estimator, of="regressors")
        _check_noise(self.noise)

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator) -> "RegressionPosterior":
        """The posterior given inputs and real labels `y [n]`."""
        values = numbers(y)
        check_lengths(x, values)
        check_rng(rng)
        names, x = column_names(x), sliceable(x) if is_pipeline(self.estimator) else features(x, missing=True)
        fitted = seeded_copy(self.estimator, rng).fit(x, values)
        posterior = replace(_regression(fitted, x, values), names=names)
        noise = self._noise(fitted, posterior, x, values, rng) if self.noise == "auto" else float(self.noise)
        return replace(posterior, noise=noise)

    def _noise(
        self, fitted: Any, posterior: "RegressionPosterior", x: Any, y: np.ndarray, rng: np.random.Generator
    ) -> float:
        unseen = _out_of_bag(fitted, len(y))  # [n, k]
        if (unseen.sum(axis=1) > 1).any():
            return noise_variance(*posterior.predict(x), y, unseen=unseen)
        parts = np.array_split(rng.permutation(len(y)), min(FOLDS, len(y)))
        if len(parts) < 2:
            return 0.0
        folds = []
        for part in parts:
            rest = np.setdiff1d(np.arange(len(y)), part)
            fold = seeded_copy(self.estimator, rng).fit(take(x, rest), y[rest])
            folds.append(_regression(fold, take(x, rest), y[rest]).predict(take(x, part)))
        means, variances = (np.concatenate(each) for each in zip(*folds, strict=True))
        return noise_variance(means, variances, y[np.concatenate(parts)])


@final
@dataclass(frozen=True)
class RandomForestRegression:
    """askwell's own random forest for numbers: as scikit-learn's in distribution, and grown many times as fast.

    Parameters are those of `askwell.models.forest.RandomForest`, but that a node looks at all features, as scikit-learn
    has it; `noise` is that of `RegressionModel`, estimated out of bag.

    >>> from askwell.seeds import rng_for
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> posterior = RandomForestRegression(20).fit(x, x[:, 0] ** 2, rng=rng_for(0, 0, "fit"))
    >>> means, variances = posterior.predict(x)
    >>> means.shape, variances.shape                                        # [n, k] both
    ((30, 20), (30, 20))
    """

    regression: ClassVar[bool] = True  # labels are numbers

    trees: int = 500
    min_samples_leaf: int = 1
    max_features: MaxFeatures = 1.0
    noise: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        check_forest(self.trees, self.min_samples_leaf, self.max_features)
        _check_noise(self.noise)

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator) -> "RegressionPosterior":
        """The posterior given inputs and real labels `y [n]`."""
        values = numbers(y)
        check_lengths(x, values)
        check_rng(rng)
        names, x = column_names(x), features(x, missing=True)
        offset = float(values.mean())
        trees, bags = grown(
            x,
            Labels.of_numbers(values - offset),
            seeds=rng.integers(2**64, size=self.trees, dtype=np.uint64),
            look=features_looked_at(self.max_features, x.shape[1]),
            leaf=self.min_samples_leaf,
            bags=True,
        )
        posterior = RegressionPosterior(None, x.shape[1], _Trees(trees, offset), 0.0, names)
        if self.noise != "auto":
            return replace(posterior, noise=float(self.noise))
        unseen = (bags == 0).T  # [n, k]
        if not (unseen.sum(axis=1) > 1).any():
            return posterior
        return replace(posterior, noise=noise_variance(*posterior.predict(x), values, unseen=unseen))


@final
@dataclass(frozen=True)
class RegressionPosterior:
    """Fitted regressors as draws."""

    __repr__ = brief

    steps: Any  # of a pipeline, or None
    width: int | None  # features; None: whatever the members take
    members: "_Trees | _Regressors"
    noise: float  # added to every variance
    names: Names = None  # of the columns of the fit

    @staticmethod
    def of(regressors: Sequence[Any], *, noise: float = 0.0) -> "RegressionPosterior":
        """Regressors that are already fitted, as they are; `noise_variance` on inputs held out tells the noise.

        >>> from sklearn.linear_model import LinearRegression
        >>> fits = [LinearRegression().fit([[0.0], [1.0]], y) for y in ([0.0, 1.0], [0.0, 3.0])]
        >>> means, variances = RegressionPosterior.of(fits, noise=0.1).predict([[2.0]])
        >>> means.round(6), variances
        (array([[2., 6.]]), array([[0.1, 0.1]]))
        """
        if len(regressors) == 0:
            raise ValueError("regressors must hold at least one fitted regressor, but there is none.")
        for member in regressors:
            check_can(member, "predict")
        names = getattr(regressors[0], "feature_names_in_", None)
        members = _Regressors(tuple(regressors), None)
        return RegressionPosterior(None, None, members, float(noise), None if names is None else tuple(names))

    def predict(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the label, `[n, k]` each, float64: labels may stand far from zero."""
        means = np.empty((count(x), len(self.members)))
        variances = np.empty_like(means)
        for span, part in input_parts(x, steps=self.steps, width=self.width, names=self.names):
            means[span], variances[span] = self.members.moments(part)
        variances += self.noise
        return means, variances


def noise_variance(
    means: np.ndarray, variances: np.ndarray, y: np.ndarray, *, unseen: np.ndarray | None = None
) -> float:
    """The variance to add so that predictions `[n, k]` of labels `y [n]` are as wrong as they expect to be.

    mean_i[(y_i - m_i)² - V_k(means_ik) - mean_k(variances_ik)], with m_i the mean over draws: the error that neither
    the draws' disagreement nor their own variances account for; at least 1 % of the error. The labels must be new to
    the draws; `unseen [n, k]` says which are new to which (out of bag). Trees with pure leaves repeat the noise of
    single labels, so their disagreement holds most of it already; adding all of the error would count it twice.

    >>> noise_variance(np.zeros((2, 5)), np.zeros((2, 5)), np.array([-2.0, 2.0]))
    4.0
    """
    weights = np.ones_like(means) if unseen is None else unseen.astype(np.float64)
    several = weights.sum(axis=1) > 1
    means, variances, y, weights = means[several], variances[several], y[several], weights[several]
    k = weights.sum(axis=1)
    middle = (weights * means).sum(axis=1) / k
    disagreement = (weights * (means - middle[:, None]) ** 2).sum(axis=1) / (k - 1)
    error = np.mean((y - middle) ** 2)
    explained = np.mean(disagreement + (weights * variances).sum(axis=1) / k)
    return float(max(error - explained, LEAST_NOISE * error))


def _check_noise(noise: Any) -> None:
    if noise != "auto" and not (isinstance(noise, int | float) and noise >= 0):
        raise ValueError(f'noise must be "auto" or a variance from 0, but it is {noise!r}.')


class _Trees(NamedTuple):
    """Regression trees, walked in one pass; their values stand about an offset, which float32 could not hold."""

    trees: Trees
    offset: float

    def __len__(self) -> int:
        return len(self.trees.roots)

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        leaves = np.empty((len(x), *self.trees.shape), np.float32)  # [n, k, 2]
        leaf_values(self.trees, x, out=leaves)
        return leaves[:, :, 0] + np.float64(self.offset), leaves[:, :, 1]


class _Regressors(NamedTuple):
    """Anything with `predict`, each on the features it looks at; without variances of their own."""

    members: tuple[Any, ...]
    inputs: tuple[Any, ...] | None

    def __len__(self) -> int:
        return len(self.members)

    def moments(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        inputs = self.inputs or [None] * len(self.members)
        parts = [x if columns is None else some_columns(x, columns) for columns in inputs]
        means = [np.asarray(member.predict(part)) for member, part in zip(self.members, parts, strict=True)]
        return np.stack(means, axis=1), np.zeros((count(x), len(means)))


def _regression(fitted: Any, x: Any, y: np.ndarray) -> RegressionPosterior:
    """The members of a fitted forest, bag or pipeline as draws, without noise; it was fitted to `x` and `y`."""
    steps, last = last_step(fitted)
    members = last.estimators_
    width = last.n_features_in_
    inputs = getattr(last, "estimators_features_", [])
    whole = all(np.array_equal(columns, np.arange(width)) for columns in inputs)
    if whole and all(hasattr(member, "tree_") for member in members):
        return RegressionPosterior(steps, width, _packed(last, features(transformed(steps, x), missing=True), y), 0.0)
    return RegressionPosterior(steps, width, _Regressors(tuple(members), None if whole else tuple(inputs)), 0.0)


def _packed(forest: Any, x: np.ndarray, y: np.ndarray) -> _Trees:
    """Trees with values `[nodes, 2]`: the mean and the variance of the labels in a leaf."""
    trees, offset = [member.tree_ for member in forest.estimators_], float(y.mean())
    values = [
        np.stack([tree.value[:, 0, 0] - offset, _leaf_variances(tree, x[chosen], y[chosen])], axis=1)
        for tree, chosen in zip(trees, forest.estimators_samples_, strict=True)
    ]
    return _Trees(pack_trees(trees, values, probabilities=False), offset)


def _leaf_variances(tree: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The variance of the labels in each leaf, `[nodes]`; zeros for other nodes.

    Not the tree's own impurity: that is a variance for one criterion only, and loses its digits to a large mean.
    """
    leaf = tree.apply(x)
    squares = np.bincount(leaf, (y - tree.value[leaf, 0, 0]) ** 2, tree.node_count)
    variances: np.ndarray = squares / np.maximum(1, np.bincount(leaf, minlength=tree.node_count))
    return variances


def _out_of_bag(fitted: Any, n: int) -> np.ndarray:
    """Which labels each member has not seen, `[n, k]`."""
    _, last = last_step(fitted)
    unseen = np.ones((n, len(last.estimators_)), bool)
    for k, chosen in enumerate(last.estimators_samples_):
        unseen[chosen, k] = False
    return unseen
