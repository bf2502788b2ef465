"""Forests and bags: a tree, or any member of an ensemble, is a draw.

RandomForest, ExtraTrees and Bagging of scikit-learn, or a pipeline that ends in one, as the user set them up. The draws
are the fitted members, so they are the same in every call by nature. A default forest has pure leaves: its votes are
hard and EPIG from them needs many trees (docs/information.md), so askwell's own `forest()` has 500.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from askwell.arrays import spans, take
from askwell.models.growing import grown_trees
from askwell.models.inputs import check_lengths, count, features, sliceable
from askwell.models.protocol import Posterior, check_rng, class_codes, spread

__all__ = [
    "ForestModel",
    "ForestPosterior",
    "MembersPosterior",
    "check_bag",
    "check_can",
    "forest",
    "is_pipeline",
    "last_step",
    "seeded_copy",
    "several_classes",
    "transformed",
]

ROWS = 2**14  # inputs predicted at a time: copies and the insides of members must not grow with the pool


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
        x = x if is_pipeline(self.estimator) else features(x)
        copy = seeded_copy(self.estimator, rng)
        if (trees := grown_trees(copy, x, codes)) is not None:
            return _tree_posterior(trees, None, x.shape[1], np.unique(codes).tolist(), known)
        with several_classes(self.estimator, codes, known):
            return _posterior(*last_step(copy.fit(x, codes)), known)


@final
@dataclass(frozen=True)
class ForestPosterior:
    """Trees as draws, all of them walked in one pass."""

    concurrent: ClassVar[bool] = True

    classes: tuple[Any, ...]
    steps: Any  # of a pipeline, or None
    width: int  # features
    trees: Any  # askwell.models.trees.Trees

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32."""
        from askwell.models.trees import leaf_values

        x = sliceable(x)
        out = np.empty((count(x), *self.trees.shape), np.float32)
        for span in spans(len(out), ROWS):
            part = features(transformed(self.steps, take(x, span)), width=self.width, first=span.start)
            leaf_values(self.trees, part, out=out[span])
        return out


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
        x = sliceable(x)
        out = np.zeros((count(x), len(self.members), len(self.classes)), np.float32)
        for span in spans(len(out), ROWS):
            part = features(transformed(self.steps, take(x, span)), width=self.width, first=span.start)
            for k, (member, inputs, columns) in enumerate(zip(self.members, self.inputs, self.columns, strict=True)):
                out[span, k, columns] = member.predict_proba(part[:, inputs])
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
        return
    if kind == "neither":
        words = f"{name} is none."
    elif kind != of[:-1]:
        room = "askwell.as_model" if kind == "classifier" else "askwell.models.regression.RegressionModel"
        words = f"{name} is a {kind}. For those there is {room}."
    elif hasattr(last, "best_estimator_") or hasattr(last, "refit"):
        words = f"{name} is a search. Give what it has found, its best_estimator_."
    elif of == "regressors":
        words = f"{name} is none. Try BaggingRegressor({name}(...), 100), or RegressionPosterior.of(a list of fits)."
    else:
        words = (
            f"{name} is none. Try BaggingClassifier({name}(...), 100), whose members see different samples of the "
            "labels; or askwell.models.linear.LinearModel(), which is Bayesian; or askwell.models.ensemble for a list "
            "of classifiers."
        )
    raise ValueError(f"estimator must be a forest or a bag of {of}, whose members are the draws, but {words}")


def _kind(estimator: Any) -> str:
    from sklearn.base import is_classifier, is_regressor

    if not hasattr(estimator, "get_params"):  # "passthrough", or no estimator at all
        return "neither"
    return "classifier" if is_classifier(estimator) else "regressor" if is_regressor(estimator) else "neither"


def check_can(member: Any, what: str) -> None:
    """Refuse a member without the method."""
    if not hasattr(member, what):
        raise ValueError(
            f"every member must have {what}(x), but {type(member).__name__} has none. "
            + ("Try CalibratedClassifierCV around it." if what == "predict_proba" else "")
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


def seeded_copy(estimator: Any, rng: np.random.Generator) -> Any:
    """An unfitted copy whose every random_state is drawn from rng: scikit-learn takes whole numbers, no generators."""
    from sklearn.base import clone

    copy = clone(estimator)
    names = sorted(name for name in copy.get_params() if name == "random_state" or name.endswith("__random_state"))
    return copy.set_params(**{name: int(rng.integers(2**31)) for name in names})


def _posterior(steps: Any, fitted: Any, classes: tuple[Any, ...]) -> Posterior:
    members = fitted.estimators_
    for member in members:
        check_can(member, "predict_proba")
    width, seen = fitted.n_features_in_, [int(code) for code in fitted.classes_]
    if all(hasattr(member, "tree_") for member in members) and not hasattr(fitted, "estimators_features_"):
        return _tree_posterior([member.tree_ for member in members], steps, width, seen, classes)
    inputs = tuple(getattr(fitted, "estimators_features_", [np.arange(width)] * len(members)))
    columns = tuple(np.array([seen[int(code)] for code in member.classes_]) for member in members)
    return MembersPosterior(classes, steps, width, tuple(members), inputs, columns)


def _tree_posterior(
    trees: list[Any], steps: Any, width: int, seen: Sequence[int], classes: tuple[Any, ...]
) -> ForestPosterior:
    """Of scikit-learn's trees, which know the classes with the codes `seen` only."""
    from askwell.models.trees import pack_trees

    values = [spread(_shares(tree.value[:, 0, :]), seen, len(classes)) for tree in trees]
    return ForestPosterior(classes, steps, width, pack_trees(trees, values))


def _shares(values: np.ndarray) -> np.ndarray:
    """The class shares of nodes; scikit-learn before 1.3 kept counts."""
    shares: np.ndarray = values / values.sum(axis=1, keepdims=True)
    return shares
