"""Forests and bags: a tree, or any member of an ensemble, is a draw.

RandomForest, ExtraTrees and Bagging of scikit-learn, or a pipeline that ends in one, as the user set them up. The draws
are the fitted members, so they are the same in every call by nature. A default forest has pure leaves: its votes are
hard and EPIG from them needs many trees (docs/information.md), so askwell's own `forest()` has 500.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from askwell.models.protocol import Posterior, class_codes, spread

__all__ = [
    "ForestModel",
    "ForestPosterior",
    "MembersPosterior",
    "features",
    "forest",
    "is_pipeline",
    "seeded_copy",
    "transformed",
]


def forest(*, trees: int = 500) -> "ForestModel":
    """askwell's own default: a random forest with enough trees for EPIG.

    >>> forest().estimator.n_estimators
    500
    """
    from sklearn.ensemble import RandomForestClassifier

    return ForestModel(RandomForestClassifier(trees, n_jobs=-1))


@final
@dataclass(frozen=True)
class ForestModel:
    """A forest, a bag, or a pipeline that ends in one, of scikit-learn; never fitted itself, only copies of it are.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from askwell.seeds import rng_for
    >>> model = ForestModel(RandomForestClassifier(10))
    >>> posterior = model.fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"), classes=["maybe", "no", "yes"])
    >>> posterior.predict([[0.0], [1.0]]).shape                            # [n, k, c]
    (2, 10, 3)
    """

    estimator: Any

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None) -> Posterior:
        """The posterior whose draws are the members; classes without an example have probability zero."""
        codes, known = class_codes(y, classes)
        if not is_pipeline(self.estimator):
            x = features(x)
        if len(x) != len(codes):
            raise ValueError(f"x and y must be of the same length, but they have {len(x)} and {len(codes)}.")
        fitted = seeded_copy(self.estimator, rng).fit(x, codes)
        steps, final_step = (fitted[:-1], fitted[-1]) if is_pipeline(fitted) else (None, fitted)
        return _posterior(steps, final_step, known)


@final
@dataclass(frozen=True)
class ForestPosterior:
    """Trees as draws, all of them walked in one pass."""

    classes: tuple[Any, ...]
    steps: Any  # of a pipeline, or None
    width: int  # features
    trees: Any  # askwell.models.trees.Trees

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32."""
        from askwell.models.trees import leaf_values

        return leaf_values(self.trees, features(transformed(self.steps, x), width=self.width))


@final
@dataclass(frozen=True)
class MembersPosterior:
    """Any fitted classifiers with `predict_proba` as draws."""

    classes: tuple[Any, ...]
    steps: Any  # of a pipeline, or None
    width: int  # features
    members: tuple[Any, ...]
    inputs: tuple[Any, ...]  # the features each member looks at
    columns: tuple[Any, ...]  # the classes each member knows, as column numbers

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32."""
        x = features(transformed(self.steps, x), width=self.width)
        out = np.zeros((len(x), len(self.members), len(self.classes)), np.float32)
        for k, (member, inputs, columns) in enumerate(zip(self.members, self.inputs, self.columns, strict=True)):
            out[:, k, columns] = member.predict_proba(x[:, inputs])
        return out


def features(x: Any, *, width: int | None = None) -> np.ndarray:
    """`x [n, features]` as numbers, finite and of the width the model was fitted with."""
    try:
        array = np.asarray(x.toarray() if hasattr(x, "toarray") else x, np.float32)  # sparse from an encoder
    except (TypeError, ValueError):
        raise ValueError(
            "x must hold numbers, but some of it is text or something else. Encode categories first, for instance "
            "in a scikit-learn pipeline with OneHotEncoder or OrdinalEncoder in front of the model."
        ) from None
    if array.ndim != 2 or (width is not None and array.shape[1] != width):
        wanted = "any number of" if width is None else str(width)
        raise ValueError(f"x must be a table [inputs, {wanted} features], but its shape is {array.shape}.")
    if not np.isfinite(array).all():
        row, column = (int(axis[0]) for axis in np.nonzero(~np.isfinite(array)))
        raise ValueError(
            f"x must be finite, but x[{row}, {column}] is {array[row, column]}. Fill missing values first, for "
            "instance with scikit-learn's SimpleImputer in a pipeline."
        )
    return array


def is_pipeline(estimator: Any) -> bool:
    """Whether it is a scikit-learn pipeline."""
    return hasattr(estimator, "steps") and hasattr(estimator, "named_steps")


def transformed(steps: Any, x: Any) -> Any:
    """The inputs after a pipeline's first steps; as they are if there are none."""
    return x if steps is None or len(steps) == 0 else steps.transform(x)


def seeded_copy(estimator: Any, rng: np.random.Generator) -> Any:
    """An unfitted copy whose every random_state is drawn from rng: scikit-learn takes whole numbers, no generators."""
    from sklearn.base import clone

    copy = clone(estimator)
    names = sorted(name for name in copy.get_params() if name == "random_state" or name.endswith("__random_state"))
    return copy.set_params(**{name: int(rng.integers(2**31)) for name in names})


def _posterior(steps: Any, fitted: Any, classes: tuple[Any, ...]) -> Posterior:
    members = getattr(fitted, "estimators_", None)
    if members is None or not hasattr(fitted, "predict_proba") or not isinstance(members, list):
        raise ValueError(
            f"estimator must be a forest or a bag of classifiers, whose members are the draws, but "
            f"{type(fitted).__name__} has none. Try BaggingClassifier({type(fitted).__name__}(...), 100): its members "
            "see different samples of the labels."
        )
    width, seen = fitted.n_features_in_, [int(code) for code in fitted.classes_]
    if all(hasattr(member, "tree_") for member in members) and not hasattr(fitted, "estimators_features_"):
        from askwell.models.trees import pack_trees

        values = [spread(_shares(member.tree_.value[:, 0, :]), seen, len(classes)) for member in members]
        return ForestPosterior(classes, steps, width, pack_trees([member.tree_ for member in members], values))
    inputs = tuple(getattr(fitted, "estimators_features_", [np.arange(width)] * len(members)))
    columns = tuple(np.array([seen[int(code)] for code in member.classes_]) for member in members)
    return MembersPosterior(classes, steps, width, tuple(members), inputs, columns)


def _shares(values: np.ndarray) -> np.ndarray:
    """The class shares of nodes; scikit-learn before 1.3 kept counts."""
    shares: np.ndarray = values / values.sum(axis=1, keepdims=True)
    return shares
