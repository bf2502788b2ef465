"""Forests and bags: a tree, or any member of an ensemble, is a draw.

askwell's own `RandomForest`, and the RandomForest, ExtraTrees and Bagging of scikit-learn, or a pipeline that ends in
one, as the user set them up. The draws are the fitted members, so they are the same in every call by nature. A default
forest has pure leaves: its votes are hard and EPIG from them needs many trees (docs/information.md), so askwell's own
`forest()` has 500.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from askwell.arrays import spans, take
from askwell.information.votes import Votes, code_type
from askwell.models.growing import grown_trees
from askwell.models.inputs import (
    Names,
    check_lengths,
    column_names,
    count,
    features,
    is_frame,
    other_columns,
    sliceable,
)
from askwell.models.labels import Encoding, encoded
from askwell.models.protocol import Posterior, check_rng, class_codes, spread

__all__ = [
    "ForestModel",
    "ForestPosterior",
    "MembersPosterior",
    "RandomForest",
    "check_bag",
    "check_can",
    "check_forest",
    "features_looked_at",
    "forest",
    "is_pipeline",
    "is_single_classifier",
    "last_step",
    "needs_frame",
    "picks_columns",
    "seeded_copy",
    "several_classes",
    "some_columns",
    "transformed",
    "with_members",
]

ROWS = 2**14  # inputs predicted at a time: copies and the insides of members must not grow with the pool


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
    max_features: float | int | Literal["sqrt"] = "sqrt"
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
        from askwell.models.trees import Labels, grown

        codes, known = class_codes(y, classes)
        check_lengths(x, codes)
        check_rng(rng)
        names, x = column_names(x), features(x, missing=True)
        weights = self._weights(encoded(codes, known, declared=classes is not None))
        found = grown(
            x,
            Labels.of_classes(codes, len(known), weights),
            seeds=rng.integers(2**64, size=self.trees, dtype=np.uint64),
            look=features_looked_at(self.max_features, x.shape[1]),
            leaf=self.min_samples_leaf,
        )
        return ForestPosterior(known, None, x.shape[1], found.trees, names)

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
    for name, value in {"trees": trees, "min_samples_leaf": min_samples_leaf}.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number from 1, but it is {value!r}.")
    number = isinstance(max_features, int) and not isinstance(max_features, bool) and max_features >= 1
    if max_features != "sqrt" and not number and not (isinstance(max_features, float) and 0 < max_features <= 1):
        raise ValueError(
            f'max_features must be "sqrt", a share above 0 and up to 1.0, or a whole number from 1, but it is '
            f"{max_features!r}."
        )


def features_looked_at(max_features: float | int | Literal["sqrt"], d: int) -> int:
    """How many of d features a node draws.

    >>> features_looked_at("sqrt", 20), features_looked_at(1.0, 20), features_looked_at(7, 5)
    (4, 20, 5)
    """
    if max_features == "sqrt":
        return max(1, int(np.sqrt(d)))
    return min(d, max_features) if isinstance(max_features, int) else max(1, int(max_features * d))


@final
@dataclass(frozen=True)
class ForestModel:
    """A forest, a bag, or a pipeline that ends in one, of scikit-learn; never fitted itself, only copies of it are.

    It is taken as it is, also with few trees. Mind that a default forest votes: chance alone gives its EPIG about
    (c - 1)² / 2k nats, which with c = 10 classes and k = 100 trees is more than there is to find. `askwell.signal` says
    how much of the scores is more than chance, and warns. What helps is several times as many trees (`forest()` has
    500); `min_samples_leaf` softens the votes but blurs the forest.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from askwell.seeds import rng_for
    >>> model = ForestModel(RandomForestClassifier(10))
    >>> posterior = model.fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"), classes=["maybe", "no", "yes"])
    >>> posterior.predict([[0.0], [1.0]]).shape                            # [n, k, c]
    (2, 10, 3)
    """

    estimator: Any

    def __post_init__(self) -> None:
        check_bag(self.estimator, of="classifiers")

    def fit(self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None) -> Posterior:
        """The posterior whose draws are the members; classes without an example have probability zero."""
        codes, known = class_codes(y, classes)
        check_lengths(x, codes)
        check_rng(rng)
        labels = encoded(codes, known, declared=classes is not None)
        names, copy = column_names(x), labels.applied(seeded_copy(self.estimator, rng))
        if needs_frame(self.estimator, x):
            with several_classes(self.estimator, codes, known):
                return _bag_of_frames(copy, x, labels, names, rng)
        x = x if is_pipeline(self.estimator) else features(x, missing=True)
        if (trees := grown_trees(copy, x, labels.y)) is not None:
            return _tree_posterior(trees, None, x.shape[1], labels.columns, known, names)
        with several_classes(self.estimator, codes, known):
            return _posterior(*last_step(copy.fit(x, labels.y)), labels, names)


@final
@dataclass(frozen=True)
class ForestPosterior:
    """Trees as draws, all of them walked in one pass."""

    concurrent: ClassVar[bool] = True

    classes: tuple[Any, ...]
    steps: Any  # of a pipeline, or None
    width: int  # features
    trees: Any  # askwell.models.trees.Trees
    names: Names = None  # of the columns of the fit

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32; missing values, NaN, go where each tree has learnt to send them."""
        from askwell.models.trees import leaf_values

        x = sliceable(x, names=self.names, by_name=picks_columns(self.steps))
        out = np.empty((count(x), *self.trees.shape), np.float32)
        for span, part in self._parts(x):
            leaf_values(self.trees, part, out=out[span])
        return out

    def predict_votes(self, x: Any) -> Votes | None:
        """What `predict` gives, as votes; None where some leaves are not sure of a class."""
        from askwell.models.trees import leaf_rows

        if not self.trees.votes:
            return None
        x = sliceable(x, names=self.names, by_name=picks_columns(self.steps))
        k, c = self.trees.shape
        codes = np.empty((count(x), k), code_type(c))
        for span, part in self._parts(x):
            codes[span] = leaf_rows(self.trees, part)
        return Votes(codes, c)

    def _parts(self, x: Any) -> Iterator[tuple[slice, np.ndarray]]:
        """(which, their features), some inputs at a time."""
        for span in spans(count(x), ROWS):
            # Without names for what is in between: it would be kept until the next ones are there.
            yield (
                span,
                features(transformed(self.steps, take(x, span)), width=self.width, first=span.start, missing=True),
            )


@final
@dataclass(frozen=True)
class MembersPosterior:
    """Any fitted classifiers with `predict_proba` as draws."""

    classes: tuple[Any, ...]
    steps: Any  # of a pipeline, or None
    width: int | None  # features; None: members are given frames as they are
    members: tuple[Any, ...]
    inputs: tuple[Any, ...]  # the features each member looks at
    columns: tuple[Any, ...]  # the classes each member knows, as column numbers
    names: Names = None  # of the columns of the fit

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32."""
        x = sliceable(x, names=self.names, by_name=picks_columns(self.steps))
        out = np.zeros((count(x), len(self.members), len(self.classes)), np.float32)
        for span in spans(len(out), ROWS):
            part = transformed(self.steps, take(x, span))
            if self.width is not None:
                part = features(part, width=self.width, first=span.start, missing=True)
            for k, (member, inputs, columns) in enumerate(zip(self.members, self.inputs, self.columns, strict=True)):
                out[span, k, columns] = member.predict_proba(some_columns(part, inputs))
        return out


def is_pipeline(estimator: Any) -> bool:
    """Whether it is a scikit-learn pipeline."""
    return hasattr(estimator, "steps") and hasattr(estimator, "named_steps")


def last_step(estimator: Any) -> tuple[Any, Any]:
    """(the steps before, or None; the last one) of a pipeline; (None, itself) of anything else."""
    return (estimator[:-1], estimator[-1]) if is_pipeline(estimator) else (None, estimator)


def check_bag(estimator: Any, *, of: Literal["classifiers", "regressors"]) -> None:
    """Refuse what has no members that were fitted apart: only those are draws.

    Boosting, stacking and one-against-the-rest have members too, but theirs are parts of one answer.
    """
    if isinstance(estimator, type):
        raise ValueError(f"estimator must be an object, but it is a class. Try {estimator.__name__}().")
    _, last = last_step(estimator)
    name, kind = type(last).__name__, _kind(last)
    if hasattr(type(last), "estimators_samples_") and kind == of[:-1]:
        member = getattr(last, "estimator", None)
        if of == "classifiers" and hasattr(member, "get_params") and not hasattr(member, "predict_proba"):
            inner = type(last_step(member)[1]).__name__
            raise ValueError(
                f"every member must have predict_proba(x), but {inner} has none. Try {name}(CalibratedClassifierCV("
                f"{'pipeline' if is_pipeline(member) else f'{inner}()'}), 100)."
            )
        return
    if kind == "neither":
        words = f"{name} is none."
    elif kind != of[:-1]:
        room = "askwell.as_model" if kind == "classifier" else "askwell.models.regression.RegressionModel"
        words = f"{name} is a {kind}. For those there is {room}."
    elif hasattr(last, "best_estimator_") or hasattr(last, "refit"):
        words = (
            f"{name} is a search. Give what it has found, its best_estimator_, or askwell.as_model(search, draws=50), "
            "which searches for each of 50 bootstrap samples of the labels."
        )
    elif of == "regressors":
        words = f"{name} is none. Try BaggingRegressor({name}(...), 100), or RegressionPosterior.of(a list of fits)."
    else:
        words = f"{name} is none. {_ways_to_draws(estimator, last)}"
    raise ValueError(f"estimator must be a forest or a bag of {of}, whose members are the draws, but {words}")


def _ways_to_draws(estimator: Any, last: Any) -> str:
    """What a classifier without draws can be made into, the best first."""
    name = type(last).__name__
    whole = "estimator" if is_pipeline(estimator) else f"{name}(...)"
    if not gives_probabilities(estimator):
        if getattr(last, "voting", None) == "hard":
            return f'It gives no probabilities either: try askwell.as_model({name}(..., voting="soft"), draws=50).'
        given = "pipeline" if is_pipeline(estimator) else f"{name}()"
        return (
            f"It gives no probabilities either: try BaggingClassifier(CalibratedClassifierCV({given}), 100), or "
            f"askwell.as_model(CalibratedClassifierCV({given}), draws=50)."
        )
    copies = (
        f"askwell.as_model({whole}, draws=50), which fits 50 copies to bootstrap samples of the labels, or "
        f"BaggingClassifier({whole}, 100)"
    )
    if ".linear_model" in type(last).__module__:
        return (
            "Try askwell.models.linear.LinearModel(), which is Bayesian: bootstrap samples of a linear model are no "
            f"posterior. Else {copies}."
        )
    return f"Try {copies}."


def _kind(estimator: Any) -> str:
    from sklearn.base import is_classifier, is_regressor

    if not hasattr(estimator, "get_params"):  # "passthrough", or no estimator at all
        return "neither"
    return "classifier" if is_classifier(estimator) else "regressor" if is_regressor(estimator) else "neither"


def is_single_classifier(estimator: Any) -> bool:
    """Whether it is a classifier without members that are draws."""
    _, last = last_step(estimator)
    return _kind(last) == "classifier" and not hasattr(type(last), "estimators_samples_")


def with_members(estimator: Any, draws: int) -> Any:
    """A copy of a forest, a bag or a pipeline that ends in one, with so many members; what is none is refused."""
    from sklearn.base import clone

    check_bag(estimator, of="classifiers")
    name = f"{estimator.steps[-1][0]}__n_estimators" if is_pipeline(estimator) else "n_estimators"
    return clone(estimator).set_params(**{name: draws})


def gives_probabilities(classifier: Any) -> bool:
    """Whether a classifier, fitted or not, has `predict_proba`."""
    # a stack makes its last estimator, a logistic regression, in fit, and knows of no probabilities before
    return hasattr(classifier, "predict_proba") or getattr(last_step(classifier)[1], "final_estimator", 0) is None


def check_can(member: Any, what: str) -> None:
    """Refuse a member without the method."""
    if not (gives_probabilities(member) if what == "predict_proba" else hasattr(member, what)):
        raise ValueError(
            f"every member must have {what}(x), but {type(member).__name__} has none. "
            + (f"Try CalibratedClassifierCV({type(member).__name__}())." if what == "predict_proba" else "")
        )


@contextlib.contextmanager
def several_classes(estimator: Any, codes: np.ndarray, classes: Sequence[Any]) -> Iterator[None]:
    """Say what is the matter where an estimator will not learn from labels that are all the same."""
    try:
        yield
    except ValueError as fault:
        if (codes != codes[0]).any():
            raise
        raise ValueError(
            f"{type(estimator).__name__} cannot learn from one class, and all labels are {classes[codes[0]]!r}. Label "
            "an example of another class, or start with a forest or a LinearModel, which can."
        ) from fault


def transformed(steps: Any, x: Any) -> Any:
    """The inputs after a pipeline's first steps; as they are if there are none."""
    return x if steps is None or len(steps) == 0 else steps.transform(x)


def picks_columns(steps: Any) -> bool:
    """Whether the first of a pipeline's steps picks the columns of a frame by name itself: a ColumnTransformer does."""
    while is_pipeline(steps) and len(steps):
        steps = steps[0]
    return hasattr(steps, "transformers")


def needs_frame(estimator: Any, x: Any) -> bool:
    """Whether x is a table that a bag's members must be given as it is, and not as numbers.

    A bag makes an array of a frame, in which its members cannot find columns by name, nor categories. Trees look at
    numbers only.
    """
    member: Any = getattr(estimator, "estimator", None)
    if not hasattr(member, "get_params") or hasattr(estimator, "criterion"):  # not a bag, but a forest or a pipeline
        return False
    if not is_frame(x):
        return getattr(getattr(x, "dtype", None), "kind", "") == "O" and is_pipeline(member)
    return bool(other_columns(x)) or any(_names_columns(*param) for param in member.get_params().items())


def _names_columns(name: str, value: Any) -> bool:
    """Whether a parameter may say which columns of a frame are meant, by name."""
    last = name.rpartition("__")[2]
    if last in ("categorical_features", "cat_features"):
        return isinstance(value, list | tuple) and any(isinstance(each, str) for each in value)
    return last in ("transformers", "func")  # of a ColumnTransformer, of a FunctionTransformer


def some_columns(x: Any, index: Any) -> Any:
    """The columns of a table at these places; the table itself if they are all of them, in order."""
    if len(index) == x.shape[1] and np.array_equal(index, np.arange(len(index))):
        return x
    return x.iloc[:, index] if hasattr(x, "iloc") else x[:, index]


def seeded_copy(estimator: Any, rng: np.random.Generator) -> Any:
    """An unfitted copy whose every random_state is drawn from rng: scikit-learn takes whole numbers, no generators."""
    from sklearn.base import clone

    copy = clone(estimator)
    names = sorted(name for name in copy.get_params() if name == "random_state" or name.endswith("__random_state"))
    return copy.set_params(**{name: int(rng.integers(2**31)) for name in names})


def _posterior(steps: Any, fitted: Any, labels: Encoding, names: Names) -> Posterior:
    members = fitted.estimators_
    for member in members:
        check_can(member, "predict_proba")
    width, classes = fitted.n_features_in_, labels.classes
    if all(hasattr(member, "tree_") for member in members) and not hasattr(fitted, "estimators_features_"):
        return _tree_posterior([member.tree_ for member in members], steps, width, labels.columns, classes, names)
    inputs = tuple(getattr(fitted, "estimators_features_", [np.arange(width)] * len(members)))
    columns = tuple(labels.columns_of(member) for member in members)
    return MembersPosterior(classes, steps, width, tuple(members), inputs, columns, names)


def _bag_of_frames(bag: Any, x: Any, labels: Encoding, names: Names, rng: np.random.Generator) -> MembersPosterior:
    """The members of a bag, fitted to the rows and columns of a data frame that the bag would give them.

    The bag itself is only asked which rows and columns those are: it would turn the frame into an array. A sample that
    lacks a class gets an example of it, since most classifiers refuse a single class.
    """
    from sklearn.base import clone
    from sklearn.dummy import DummyClassifier

    sampler = clone(bag).set_params(estimator=DummyClassifier(), oob_score=False)
    sampler.fit(np.zeros(x.shape), labels.y)
    members, inputs, other = [], tuple(sampler.estimators_features_), other_columns(x) if is_frame(x) else []
    for chosen, columns in zip(sampler.estimators_samples_, inputs, strict=True):
        lacking = np.setdiff1d(labels.y, labels.y[chosen])
        more = [int(rng.choice(np.flatnonzero(labels.y == code))) for code in lacking]
        rows = np.concatenate([chosen, np.array(more, np.intp)]).astype(np.intp)
        part = some_columns(take(x, rows), columns)
        try:
            members.append(seeded_copy(bag.estimator, rng).fit(part, labels.y[rows]))
        except (TypeError, ValueError) as fault:
            raise ValueError(
                f"{type(bag.estimator).__name__}, a member of the bag, cannot learn from this table"
                + (f", whose columns {', '.join(map(repr, other))} hold text or something else" if other else "")
                + f": {fault} Encode categories first, in a pipeline inside the bag or in front of it."
            ) from fault
    columns = tuple(labels.columns_of(member) for member in members)
    return MembersPosterior(labels.classes, None, None, tuple(members), inputs, columns, names)


def _tree_posterior(
    trees: list[Any], steps: Any, width: int, seen: Sequence[int], classes: tuple[Any, ...], names: Names
) -> ForestPosterior:
    """Of scikit-learn's trees, which know the classes of the columns `seen` only."""
    from askwell.models.trees import pack_trees

    values = [spread(_shares(tree.value[:, 0, :]), seen, len(classes)) for tree in trees]
    return ForestPosterior(classes, steps, width, pack_trees(trees, values, probabilities=True), names)


def _shares(values: np.ndarray) -> np.ndarray:
    """The class shares of nodes; scikit-learn before 1.3 kept counts."""
    shares: np.ndarray = values / values.sum(axis=1, keepdims=True)
    return shares
