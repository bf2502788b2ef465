"""Ensembles: any list of fitted classifiers, or of regressors, as draws; deep ensembles the same way.

The draws are the fitted members, so they are the same in every call by nature. Ten of them are few for EPIG
(`askwell.information.draws.signal` warns); what fits in a millisecond is worth having a hundred times.

A regressor's belief travels as means and variances `[n, k]` of the label given draw k, ready for
`askwell.information.gaussian.moment_matched_epig`. The variance is that of the leaf for trees, plus a noise that makes
the whole predictive variance right on average where the members were not fitted: see `noise_variance`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, final

import numpy as np

from askwell.arrays import spans
from askwell.models.forest import features, is_pipeline, seeded_copy, transformed
from askwell.models.protocol import class_codes

__all__ = ["EnsembleModel", "EnsemblePosterior", "RegressionModel", "RegressionPosterior", "noise_variance"]

ROWS = 2**14  # inputs a member predicts at a time: the insides of a member must not grow with the pool
FOLDS = 5
LEAST_NOISE = 0.01  # of the squared error: trees with pure leaves are surer of a label than anybody can be


# ---- classes -------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class EnsembleModel:
    """k independent fits of a classifier with `predict_proba`.

    `estimator` is a scikit-learn style classifier, of which `draws` copies with different seeds are fitted; a list of
    them, one draw each; or a function from a seed to an unfitted classifier. With `bootstrap` each is fitted to its own
    resample of the labels (with one example at least of each class that has any). Without it only the seeds differ:
    right for nets, whose random start tells them apart, and useless for classifiers that have one answer.

    >>> from sklearn.neural_network import MLPClassifier
    >>> from askwell.seeds import rng_for
    >>> model = EnsembleModel(MLPClassifier((8,), solver="lbfgs"), draws=5, bootstrap=False)     # a deep ensemble
    >>> posterior = model.fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"))
    >>> posterior.predict([[0.0], [0.5], [1.0]]).shape                      # [n, k, c]
    (3, 5, 2)
    """

    estimator: Any
    draws: int = 10
    bootstrap: bool = True

    def __post_init__(self) -> None:
        if self.draws < 1 or (isinstance(self.estimator, Sequence) and not self.estimator):
            raise ValueError("an ensemble must have at least one draw. Try ten or more: one knows no uncertainty.")

    def fit(
        self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None
    ) -> "EnsemblePosterior":
        """The posterior whose draws are the fits; classes without an example have probability zero."""
        codes, known = class_codes(y, classes)
        if _count(x) != len(codes):
            raise ValueError(f"x and y must be of the same length, but they have {_count(x)} and {len(codes)}.")
        members = []
        for make in self._makers():
            chosen = _resample(codes, rng) if self.bootstrap else np.arange(len(codes))
            members.append(make(rng).fit(_take(x, chosen), codes[chosen]))
        for member in members:
            _check_can(member, "predict_proba")
        columns = tuple(np.asarray(member.classes_, np.intp) for member in members)
        return EnsemblePosterior(known, tuple(members), columns)

    def _makers(self) -> list[Callable[[np.random.Generator], Any]]:
        given = self.estimator if isinstance(self.estimator, Sequence) else [self.estimator] * self.draws
        return [_maker(estimator) for estimator in given]


@final
@dataclass(frozen=True)
class EnsemblePosterior:
    """Fitted classifiers as draws."""

    classes: tuple[Any, ...]
    members: tuple[Any, ...]
    columns: tuple[np.ndarray, ...]  # the classes each member knows, as column numbers

    @staticmethod
    def of(classifiers: Sequence[Any], *, classes: Sequence[Any] | None = None) -> "EnsemblePosterior":
        """Classifiers that are already fitted, as they are; their columns are brought in line by their `classes_`.

        `classes` are all the labels there are, in the order wanted; those that some member knows, sorted, if not given.

        >>> from sklearn.naive_bayes import GaussianNB
        >>> x = [[0.0], [1.0], [2.0], [3.0]]
        >>> fits = [GaussianNB().fit(x[:3], ["a", "b", "a"]), GaussianNB().fit(x, ["a", "a", "b", "c"])]
        >>> posterior = EnsemblePosterior.of(fits)
        >>> posterior.classes, posterior.predict(x).shape
        (('a', 'b', 'c'), (4, 2, 3))
        """
        if len(classifiers) == 0:
            raise ValueError("classifiers must hold at least one fitted classifier, but there is none.")
        for member in classifiers:
            _check_can(member, "predict_proba")
        seen = [_known(member, classes) for member in classifiers]
        _, known = class_codes([label for labels in seen for label in labels], classes)
        columns = tuple(np.array([known.index(label) for label in labels], np.intp) for labels in seen)
        return EnsemblePosterior(known, tuple(classifiers), columns)

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32; x is what the members take."""
        out = np.zeros((_count(x), len(self.members), len(self.classes)), np.float32)
        for span in spans(len(out), ROWS):
            part = _take(x, span)
            for k, (member, columns) in enumerate(zip(self.members, self.columns, strict=True)):
                out[span, k, columns] = np.asarray(member.predict_proba(part))
        return out


def _maker(estimator: Any) -> Callable[[np.random.Generator], Any]:
    if hasattr(estimator, "get_params"):
        return lambda rng: seeded_copy(estimator, rng)
    if callable(estimator):
        return lambda rng: estimator(int(rng.integers(2**31)))
    raise ValueError(
        "estimator must be a scikit-learn style classifier, a list of them, or a function from a seed to one, but it "
        f"is {type(estimator).__name__}. For classifiers that are already fitted use EnsemblePosterior.of."
    )


def _resample(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A bootstrap sample with at least one example of each class: many classifiers refuse to fit a single class."""
    one = [int(rng.choice(np.flatnonzero(codes == code))) for code in np.unique(codes)]
    return np.concatenate([one, rng.integers(len(codes), size=len(codes) - len(one))]).astype(np.intp)


def _known(member: Any, classes: Sequence[Any] | None) -> list[Any]:
    labels = getattr(member, "classes_", classes)
    if labels is None:
        raise ValueError(
            f"{type(member).__name__} has no classes_ that say which class each column of predict_proba is. "
            "Pass classes=, the labels in the order of its columns."
        )
    return [label.item() if isinstance(label, np.generic) else label for label in labels]


def _check_can(member: Any, what: str) -> None:
    if not hasattr(member, what):
        raise ValueError(
            f"every member must have {what}(x), but {type(member).__name__} has none. "
            + ("Try CalibratedClassifierCV around it." if what == "predict_proba" else "")
        )


def _count(x: Any) -> int:
    return int(x.shape[0]) if hasattr(x, "shape") else len(x)


def _take(x: Any, index: Any) -> Any:
    """Rows of an array, a sparse matrix, a data frame or a list."""
    if hasattr(x, "iloc"):
        return x.iloc[index]
    if hasattr(x, "shape"):
        return x[index]
    return x[index] if isinstance(index, slice) else [x[i] for i in index]


# ---- regression ----------------------------------------------------------------------------------------------------


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

    estimator: Any
    noise: float | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        if self.noise != "auto" and not (isinstance(self.noise, int | float) and self.noise >= 0):
            raise ValueError(f'noise must be "auto" or a variance from 0, but it is {self.noise!r}.')

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator) -> "RegressionPosterior":
        """The posterior given inputs and real labels `y [n]`."""
        values = _numbers(y)
        if not is_pipeline(self.estimator):
            x = features(x)
        if _count(x) != len(values):
            raise ValueError(f"x and y must be of the same length, but they have {_count(x)} and {len(values)}.")
        fitted = seeded_copy(self.estimator, rng).fit(x, values)
        posterior = _regression(fitted, x, values)
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
        found = []
        for part in parts:
            rest = np.setdiff1d(np.arange(len(y)), part)
            fold = seeded_copy(self.estimator, rng).fit(_take(x, rest), y[rest])
            found.append(_regression(fold, _take(x, rest), y[rest]).predict(_take(x, part)))
        means, variances = (np.concatenate(each) for each in zip(*found, strict=True))
        return noise_variance(means, variances, y[np.concatenate(parts)])


@final
@dataclass(frozen=True)
class RegressionPosterior:
    """Fitted regressors as draws."""

    steps: Any  # of a pipeline, or None
    width: int | None  # features; None: whatever the members take
    members: "_Trees | _Regressors"
    noise: float  # added to every variance

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
            _check_can(member, "predict")
        return RegressionPosterior(None, None, _Regressors(tuple(regressors), None), float(noise))

    def predict(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the label, `[n, k]` each, float64: labels may stand far from zero."""
        x = transformed(self.steps, x)
        x = x if self.width is None else features(x, width=self.width)
        means = np.empty((_count(x), len(self.members)))
        variances = np.empty_like(means)
        for span in spans(len(means), ROWS):
            means[span], variances[span] = self.members.moments(_take(x, span))
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


class _Trees(NamedTuple):
    """Regression trees, walked in one pass; their values stand about an offset, which float32 could not hold."""

    trees: Any  # askwell.models.trees.Trees
    offset: float

    def __len__(self) -> int:
        return len(self.trees.roots)

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from askwell.models.trees import leaf_values

        leaves = leaf_values(self.trees, x)  # [n, k, 2]
        return leaves[:, :, 0] + np.float64(self.offset), leaves[:, :, 1]


class _Regressors(NamedTuple):
    """Anything with `predict`, each on the features it looks at; without variances of their own."""

    members: tuple[Any, ...]
    inputs: tuple[Any, ...] | None

    def __len__(self) -> int:
        return len(self.members)

    def moments(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        inputs = self.inputs or [None] * len(self.members)
        parts = [x if columns is None else x[:, columns] for columns in inputs]
        means = [np.asarray(member.predict(part)) for member, part in zip(self.members, parts, strict=True)]
        return np.stack(means, axis=1), np.zeros((_count(x), len(means)))


def _regression(fitted: Any, x: Any, y: np.ndarray) -> RegressionPosterior:
    """The members of a fitted forest, bag or pipeline as draws, without noise; it was fitted to `x` and `y`."""
    steps, last = (fitted[:-1], fitted[-1]) if is_pipeline(fitted) else (None, fitted)
    members = getattr(last, "estimators_", None)
    if not isinstance(members, list) or hasattr(last, "predict_proba"):
        raise ValueError(
            f"estimator must be a forest or a bag of regressors, whose members are the draws, but "
            f"{type(last).__name__} is none. Try BaggingRegressor({type(last).__name__}(...), 100), or "
            "RegressionPosterior.of(a list of fits)."
        )
    width = last.n_features_in_
    inputs = getattr(last, "estimators_features_", [])
    whole = all(np.array_equal(columns, np.arange(width)) for columns in inputs)
    if whole and all(hasattr(member, "tree_") for member in members):
        return RegressionPosterior(steps, width, _packed(last, features(transformed(steps, x)), y), 0.0)
    return RegressionPosterior(steps, width, _Regressors(tuple(members), None if whole else tuple(inputs)), 0.0)


def _packed(forest: Any, x: np.ndarray, y: np.ndarray) -> _Trees:
    """Trees with values `[nodes, 2]`: the mean and the variance of the labels in a leaf."""
    from askwell.models.trees import pack_trees

    trees, offset = [member.tree_ for member in forest.estimators_], float(y.mean())
    values = [
        np.stack([tree.value[:, 0, 0] - offset, _leaf_variances(tree, x[chosen], y[chosen])], axis=1)
        for tree, chosen in zip(trees, forest.estimators_samples_, strict=True)
    ]
    return _Trees(pack_trees(trees, values), offset)


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
    last = fitted[-1] if is_pipeline(fitted) else fitted
    unseen = np.ones((n, len(last.estimators_)), bool)
    for k, chosen in enumerate(last.estimators_samples_):
        unseen[chosen, k] = False
    return unseen


def _numbers(y: Any) -> np.ndarray:
    try:
        values = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers, but some of it is text. For classes use a classifier.") from None
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"y must be a list of at least one number, one per example, but its shape is {values.shape}.")
    if not np.isfinite(values).all():
        raise ValueError(
            f"y must be finite, but y[{int(np.flatnonzero(~np.isfinite(values))[0])}] is not. "
            "Leave unlabelled examples out of x and y."
        )
    return values
