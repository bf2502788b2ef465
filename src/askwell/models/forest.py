"""askwell's own random forest, and the posterior of any forest: a tree is a draw.

The draws are the fitted trees, so they are the same in every call by nature. A default forest has pure leaves: its
votes are hard and EPIG from them needs many trees (docs/information.md), so askwell's own `forest()` has 500.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, final

import numpy as np

from askwell import checks
from askwell.arrays import spans, take
from askwell.information.votes import Votes, code_type
from askwell.models.inputs import Encoding, Names, check_lengths, column_names, count, encoded, features, sliceable
from askwell.models.protocol import Posterior, check_rng, class_codes
from askwell.models.trees import Labels, Trees, grown, leaf_rows, leaf_values
from askwell.notebook import brief

__all__ = [
    "ForestPosterior",
    "MaxFeatures",
    "RandomForest",
    "check_forest",
    "features_looked_at",
    "forest",
    "input_parts",
    "is_pipeline",
    "picks_columns",
    "transformed",
]

ROWS = 2**14  # inputs predicted at a time: copies and the insides of members must not grow with the pool


MaxFeatures: TypeAlias = float | int | Literal["sqrt"]
"""How many features a node looks at: a share, a number, or the square root of how many there are."""


def forest(*, trees: int = 500) -> "RandomForest":
    """askwell's own default: a random forest with enough trees for EPIG.

    >>> forest()
    RandomForest(trees=500, min_samples_leaf=1, max_features='sqrt', class_weight=None)
    """
    return RandomForest(trees)


@final
@dataclass(frozen=True)
class RandomForest:
    """askwell's own random forest: as scikit-learn's in distribution, and grown many times as fast.

    Trees of Gini's impurity, each on a bootstrap sample of the labels, with the best cut of `max_features` features
    drawn at each node: "sqrt" of them, a share (float) or a number (int). Leaves are pure, or have `min_samples_leaf`
    examples or more. By `class_weight`, a dict from class to weight or "balanced", examples are drawn. Missing values,
    NaN, go where a cut sends them. The same `rng` gives the same forest on any machine and number of threads.

    >>> from askwell.seeds import rng_for
    >>> posterior = RandomForest(10).fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"))
    >>> posterior.predict([[0.0], [1.0]]).shape                            # [n, k, c]
    (2, 10, 2)
    """

    trees: int = 500
    min_samples_leaf: int = 1
    max_features: MaxFeatures = "sqrt"
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None

    def __post_init__(self) -> None:
        check_forest(self.trees, self.min_samples_leaf, self.max_features)
        if not (self.class_weight in (None, "balanced") or isinstance(self.class_weight, Mapping)):
            raise ValueError(
                'class_weight must be a dict from class to weight, "balanced" or None, but it is '
                f"{self.class_weight!r}."
            )

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None) -> Posterior:
        """The posterior whose draws are the trees; classes without an example have probability zero."""
        codes, all_classes = class_codes(y, classes)
        check_lengths(x, codes)
        check_rng(rng)
        names, x = column_names(x), features(x, missing=True)
        weights = self._weights(encoded(codes, all_classes, declared=classes is not None))
        result = grown(
            x,
            Labels.of_classes(codes, len(all_classes), weights),
            seeds=rng.integers(2**64, size=self.trees, dtype=np.uint64),
            look=features_looked_at(self.max_features, x.shape[1]),
            leaf=self.min_samples_leaf,
        )
        return ForestPosterior(all_classes, None, x.shape[1], result.trees, names)

    def _weights(self, labels: Encoding) -> np.ndarray:
        """What each example counts `[n]`."""
        if self.class_weight is None:
            return np.ones(len(labels.y))
        if isinstance(self.class_weight, str):
            counts = np.bincount(labels.y)
            balanced: np.ndarray = (len(labels.y) / (len(counts) * counts))[labels.y]
            return balanced
        by_number = labels.weights("class_weight", self.class_weight)
        weights = np.array([by_number[number] for number in range(len(by_number))], np.float64)
        if not (np.isfinite(weights) & (weights >= 0)).all() or not weights[labels.y].any():
            raise ValueError(
                f"class_weight must hold finite weights from 0, not all 0, but it is {self.class_weight!r}."
            )
        each: np.ndarray = weights[labels.y]
        return each


def check_forest(trees: Any, min_samples_leaf: Any, max_features: Any) -> None:
    """Refuse parameters that are not those of a forest."""
    checks.count("trees", trees)
    checks.count("min_samples_leaf", min_samples_leaf)
    number = isinstance(max_features, int) and not isinstance(max_features, bool) and max_features >= 1
    if max_features != "sqrt" and not number and not (isinstance(max_features, float) and 0 < max_features <= 1):
        raise ValueError(
            f'max_features must be "sqrt", a share above 0 and up to 1.0, or a whole number from 1, but it is '
            f"{max_features!r}."
        )


def features_looked_at(max_features: MaxFeatures, d: int) -> int:
    """How many of d features a node draws.

    >>> features_looked_at("sqrt", 20), features_looked_at(1.0, 20), features_looked_at(7, 5)
    (4, 20, 5)
    """
    if max_features == "sqrt":
        return max(1, int(np.sqrt(d)))
    return min(d, max_features) if isinstance(max_features, int) else max(1, int(max_features * d))


@final
@dataclass(frozen=True)
class ForestPosterior:
    """Trees as draws, all of them walked in one pass."""

    __repr__ = brief

    concurrent: ClassVar[bool] = True

    classes: tuple[Any, ...]
    steps: Any  # of a pipeline, or None
    width: int  # features
    trees: Trees
    names: Names = None  # of the columns of the fit

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32; missing values, NaN, go where each tree has learnt to send them."""
        out = np.empty((count(x), *self.trees.shape), np.float32)
        for span, part in input_parts(x, steps=self.steps, width=self.width, names=self.names):
            leaf_values(self.trees, part, out=out[span])
        return out

    def predict_votes(self, x: Any) -> Votes | None:
        """What `predict` gives, as votes; None where some leaves are not sure of a class."""
        if not self.trees.votes:
            return None
        k, c = self.trees.shape
        codes = np.empty((count(x), k), code_type(c))
        for span, part in input_parts(x, steps=self.steps, width=self.width, names=self.names):
            leaf_rows(self.trees, part, out=codes[span])
        return Votes(codes, c)


# ---- inputs ----------------------------------------------------------------------------------------------------------


def input_parts(x: Any, *, steps: Any, width: int | None, names: Names) -> Iterator[tuple[slice, Any]]:
    """(which, what members are given of them), some inputs at a time: after a pipeline's first steps, if there are any.

    As numbers of that width; with None as they are.
    """
    x = sliceable(x, names=names, by_name=picks_columns(steps))
    for span in spans(count(x), ROWS):
        # Without names for what is in between: it would stay in memory until the next ones are there.
        yield span, _numbers(transformed(steps, take(x, span)), width, span.start)


def _numbers(x: Any, width: int | None, first: int) -> Any:
    return x if width is None else features(x, width=width, first=first, missing=True)


def is_pipeline(estimator: Any) -> bool:
    """Whether it is a scikit-learn pipeline."""
    return hasattr(estimator, "steps") and hasattr(estimator, "named_steps")


def transformed(steps: Any, x: Any) -> Any:
    """The inputs after a pipeline's first steps; as they are if there are none."""
    return x if steps is None or len(steps) == 0 else steps.transform(x)


def picks_columns(steps: Any) -> bool:
    """Whether the first of a pipeline's steps picks the columns of a frame by name itself: a ColumnTransformer does."""
    while is_pipeline(steps) and len(steps):
        steps = steps[0]
    return hasattr(steps, "transformers")
