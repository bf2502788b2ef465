"""Forests and bags of scikit-learn, and pipelines that end in one, as the user set them up: a member is a draw.

    estimator -- check_bag --> a seeded copy, fitted -- its trees, packed --> ForestPosterior
                                                     '- other members -----> MembersPosterior

The draws are the fitted members, so they are the same in every call by nature. A plain forest is grown by
scikit-learn's own compiled builder, without the checks that its `fit` makes of every tree.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Literal, final

import numpy as np

from askwell.arrays import spans, take, threads
from askwell.models.forest import ForestPosterior, input_parts, is_pipeline
from askwell.models.inputs import (
    Encoding,
    Names,
    check_lengths,
    column_names,
    count,
    encoded,
    features,
    is_frame,
    other_columns,
)
from askwell.models.protocol import Posterior, check_rng, class_codes, spread
from askwell.models.trees import pack_trees
from askwell.notebook import brief

__all__ = [
    "ForestModel",
    "MembersPosterior",
    "check_bag",
    "check_can",
    "grown_trees",
    "is_booster",
    "is_regressor",
    "is_single_classifier",
    "is_single_regressor",
    "last_step",
    "one_of_many",
    "package_of",
    "regressors",
    "seeded_copy",
    "several_classes",
    "side_by_side",
    "some_columns",
    "with_members",
]

FREE = {  # parameters that may have any value from this one on; the others must be as scikit-learn has them by default
    "n_estimators": 1,
    "max_depth": 1,
    "min_samples_split": 2,
    "min_samples_leaf": 1,
    "random_state": 0,
}

ONE_OF_MANY: Mapping[str, Mapping[str, Any]] = {  # parameters of a booster that is fitted beside others of its kind
    "lightgbm": {"n_jobs": 1, "verbosity": -1},
    "xgboost": {"n_jobs": 1, "verbosity": 0},
    "catboost": {"thread_count": 1, "verbose": False, "allow_writing_files": False},
}
OWN_DRAWS: Mapping[str, str] = {  # a line of that package that makes draws with one fit
    "lightgbm": 'LGBMClassifier(boosting_type="rf", subsample=0.6, subsample_freq=1), whose trees are draws',
    "xgboost": "XGBRFClassifier(), whose trees are draws",
    "catboost": "CatBoostClassifier(posterior_sampling=True), whose virtual ensembles are draws",
}
SPEECH = ("verbosity", "verbose", "verbose_eval", "silent", "logging_level")  # are left to whoever has set one


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
        codes, all_classes = class_codes(y, classes)
        check_lengths(x, codes)
        check_rng(rng)
        labels = encoded(codes, all_classes, declared=classes is not None)
        names, copy = column_names(x), labels.applied(seeded_copy(self.estimator, rng))
        if needs_frame(self.estimator, x):
            with several_classes(self.estimator, codes, all_classes):
                return _bag_of_frames(copy, x, labels, names, rng)
        x = x if is_pipeline(self.estimator) else features(x, missing=True)
        if (trees := grown_trees(copy, x, labels.y)) is not None:
            return _tree_posterior(trees, None, x.shape[1], labels.columns, all_classes, names)
        with several_classes(self.estimator, codes, all_classes):
            return _posterior(*last_step(copy.fit(x, labels.y)), labels, names)


@final
@dataclass(frozen=True)
class MembersPosterior:
    """Any fitted classifiers with `predict_proba` as draws."""

    __repr__ = brief

    classes: tuple[Any, ...]
    steps: Any  # of a pipeline, or None
    width: int | None  # features; None: members are given frames as they are
    members: tuple[Any, ...]
    inputs: tuple[Any, ...]  # the features each member looks at
    columns: tuple[Any, ...]  # the classes each member knows, as column numbers
    names: Names = None  # of the columns of the fit

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32."""
        out = np.zeros((count(x), len(self.members), len(self.classes)), np.float32)
        for span, part in input_parts(x, steps=self.steps, width=self.width, names=self.names):
            for k, (member, inputs, columns) in enumerate(zip(self.members, self.inputs, self.columns, strict=True)):
                out[span, k, columns] = member.predict_proba(some_columns(part, inputs))
        return out


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
            f"{name} is a search. Give its best_estimator_, or askwell.as_model(search, draws=50), "
            "which searches for each of 50 bootstrap samples of the labels."
        )
    elif of == "regressors":
        words = (
            f"{name} is none. Try askwell.as_model({name}(...), draws=50), which fits 50 copies to bootstrap samples "
            "of the labels, or RegressionPosterior.of(a list of fits)."
        )
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
    own = OWN_DRAWS.get(package_of(estimator))
    return f"Try {copies}{'' if own is None else f', or {own}'}."


def _kind(estimator: Any) -> str:
    from sklearn import base

    if not hasattr(estimator, "get_params"):  # "passthrough", or no estimator at all
        return "neither"
    return "classifier" if base.is_classifier(estimator) else "regressor" if base.is_regressor(estimator) else "neither"


def is_regressor(estimator: Any) -> bool:
    """Whether it predicts numbers; a pipeline whether its last step does."""
    return not isinstance(estimator, type) and _kind(last_step(estimator)[1]) == "regressor"


def is_single_classifier(estimator: Any) -> bool:
    """Whether it is a classifier without members that are draws."""
    return _is_single(estimator, "classifier")


def is_single_regressor(estimator: Any) -> bool:
    """Whether it is a regressor without members that are draws."""
    return _is_single(estimator, "regressor")


def _is_single(estimator: Any, kind: str) -> bool:
    _, last = last_step(estimator)
    return _kind(last) == kind and not hasattr(type(last), "estimators_samples_")


def with_members(estimator: Any, draws: int) -> Any:
    """A copy of a forest, a bag or a pipeline that ends in one, with so many members.

    A single classifier is refused, of a single regressor a bag is made.
    """
    from sklearn.base import clone
    from sklearn.ensemble import BaggingRegressor

    _, last = last_step(estimator)
    if _kind(last) == "regressor" and not hasattr(type(last), "estimators_samples_"):
        return BaggingRegressor(estimator, draws)
    check_bag(estimator, of="regressors" if _kind(last) == "regressor" else "classifiers")
    name = f"{estimator.steps[-1][0]}__n_estimators" if is_pipeline(estimator) else "n_estimators"
    return clone(estimator).set_params(**{name: draws})


def regressors(estimator: Any, draws: int) -> Any:
    """A bag of so many copies of a regressor."""
    from sklearn.base import clone
    from sklearn.ensemble import BaggingRegressor

    return BaggingRegressor(one_of_many(clone(estimator)), draws)


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
    except ValueError as error:
        if (codes != codes[0]).any():
            raise
        raise ValueError(
            f"{type(estimator).__name__} cannot learn from one class, and all labels are {classes[codes[0]]!r}. Label "
            "an example of another class, or start with a forest or a LinearModel, which can."
        ) from error


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
    """The columns of a table at these positions; the table itself if they are all of them, in order."""
    if len(index) == x.shape[1] and np.array_equal(index, np.arange(len(index))):
        return x
    return x.iloc[:, index] if hasattr(x, "iloc") else x[:, index]


def seeded_copy(estimator: Any, rng: np.random.Generator) -> Any:
    """An unfitted copy whose every random_state is drawn from rng: scikit-learn takes whole numbers, no generators."""
    from sklearn.base import clone

    # CatBoost copies a dict of class weights that it is given, which scikit-learn's clone takes for a fault.
    catboost = package_of(estimator) == "catboost"
    copy = type(estimator)(**estimator.get_params()) if catboost and not is_pipeline(estimator) else clone(estimator)
    names = sorted(name for name in copy.get_params() if name == "random_state" or name.endswith("__random_state"))
    if catboost and f"{_prefix(copy)}random_state" not in names:  # it lists only what was set
        names = [*names, f"{_prefix(copy)}random_seed"]
    return copy.set_params(**{name: int(rng.integers(2**31)) for name in names})


# ---- boosting of other packages, of which many are fitted ------------------------------------------------------------


def package_of(estimator: Any) -> str:
    """The package that an estimator, or the last step of a pipeline, is from.

    >>> from sklearn.linear_model import LogisticRegression
    >>> package_of(LogisticRegression())
    'sklearn'
    """
    return type(last_step(estimator)[1]).__module__.partition(".")[0]


def is_booster(estimator: Any) -> bool:
    """Whether it is of LightGBM, XGBoost or CatBoost, which compute without holding up Python's other threads."""
    return package_of(estimator) in ONE_OF_MANY


def one_of_many(estimator: Any) -> Any:
    """The estimator; a booster with one thread, and without output or files unless such were asked for.

    A booster's own threads wait for each other with a few hundred labels: fits side by side take half the time.
    """
    given, prefix = estimator.get_params() if is_booster(estimator) else {}, _prefix(estimator)
    spoken = any(given.get(f"{prefix}{name}") is not None for name in SPEECH)
    settings = ONE_OF_MANY.get(package_of(estimator), {})
    wanted = {name: value for name, value in settings.items() if not (spoken and name in SPEECH)}
    return estimator.set_params(**{f"{prefix}{name}": value for name, value in wanted.items()}) if wanted else estimator


def side_by_side(function: Callable[[Any], Any], items: Sequence[Any], *, several: bool) -> list[Any]:
    """The function of each item, if `several` in as many threads as there are cores."""
    from sklearn.utils.parallel import Parallel, delayed  # hands scikit-learn's settings on to its threads

    workers = threads() if several else 1
    if workers == 1:
        return [function(item) for item in items]
    return list(Parallel(n_jobs=workers, require="sharedmem")(delayed(function)(item) for item in items))


def _prefix(estimator: Any) -> str:
    """What stands in front of the names of the last step's parameters."""
    return f"{estimator.steps[-1][0]}__" if is_pipeline(estimator) else ""


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
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{type(bag.estimator).__name__}, a member of the bag, cannot learn from this table"
                + (f", whose columns {', '.join(map(repr, other))} hold text or something else" if other else "")
                + f": {error} Encode categories first, in a pipeline inside the bag or in front of it."
            ) from error
    columns = tuple(labels.columns_of(member) for member in members)
    return MembersPosterior(labels.classes, None, None, tuple(members), inputs, columns, names)


def _tree_posterior(
    trees: list[Any], steps: Any, width: int, seen: Sequence[int], classes: tuple[Any, ...], names: Names
) -> ForestPosterior:
    """Of scikit-learn's trees, which know the classes of the columns `seen` only."""
    values = [spread(_shares(tree.value[:, 0, :]), seen, len(classes)) for tree in trees]
    return ForestPosterior(classes, steps, width, pack_trees(trees, values, probabilities=True), names)


def _shares(values: np.ndarray) -> np.ndarray:
    """The class shares of nodes; scikit-learn before 1.3 kept counts."""
    shares: np.ndarray = values / values.sum(axis=1, keepdims=True)
    return shares


# ---- a plain forest, grown without checks ----------------------------------------------------------------------------


def grown_trees(forest: Any, x: np.ndarray, y: np.ndarray) -> list[Any] | None:
    """The `tree_` of each member that `forest.fit(x, y)` would have, or None where the forest is not a plain one.

    `x` is float32 `[n, d]`, `y` has codes. With a hundred labels the checks of each tree, not the trees, are most of
    what `fit` does. With `n_jobs` the work is spread over askwell's threads. None is also the answer where values are
    missing, and where scikit-learn's builder, which is not public, is not the one known here.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> x, y = np.arange(6, dtype=np.float32)[:, None], np.array([0, 0, 0, 1, 1, 1])
    >>> plain = RandomForestClassifier(3, random_state=5)
    >>> [tree.node_count for tree in grown_trees(plain, x, y)]
    [3, 3, 3]
    >>> [member.tree_.node_count for member in plain.fit(x, y).estimators_]
    [3, 3, 3]
    >>> grown_trees(RandomForestClassifier(3, max_samples=0.5, random_state=5), x, y) is None
    True
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.utils import check_random_state

    plain = type(forest) is RandomForestClassifier and _is_plain(forest) and not np.isnan(x).any()
    if not (plain and _builder_is_known()):
        return None
    seeds = check_random_state(forest.random_state).randint(np.iinfo(np.int32).max, size=forest.n_estimators)
    several = 1 if forest.n_jobs in (None, 1) else threads()
    parts = spans(len(seeds), -(-len(seeds) // several))
    with ThreadPoolExecutor(several) as pool:
        return list(chain.from_iterable(pool.map(lambda part: _grown(forest, x, y, seeds[part]), parts)))


@cache
def _builder_is_known() -> bool:
    """Whether scikit-learn's builder, called directly, grows the trees of `fit`: tried once in a process, node by node.

    Where it takes other arguments, that is as good as public; where it takes the same and grows other trees, somebody
    should know.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.utils import check_random_state

    forest = RandomForestClassifier(2, random_state=0, min_samples_leaf=2)
    x = np.sin(np.arange(120.0)).reshape(40, 3).astype(np.float32)
    y = np.arange(40) * 7 % 3
    seeds = check_random_state(0).randint(np.iinfo(np.int32).max, size=2)
    try:
        ours = _grown(forest, x, y, seeds)
    except (ImportError, TypeError):  # another builder than that of scikit-learn 1.4 to 1.9
        return False
    theirs = [member.tree_ for member in forest.fit(x, y).estimators_]
    names = ("children_left", "children_right", "feature", "threshold", "value")
    if all(np.array_equal(getattr(a, n), getattr(b, n)) for a, b in zip(ours, theirs, strict=True) for n in names):
        return True
    warnings.warn(
        "this version of scikit-learn grows other trees when its builder is called directly, as askwell does to be "
        "faster. Forests are fitted by scikit-learn itself instead. Try a newer askwell.",
        RuntimeWarning,
        stacklevel=4,
    )
    return False


def _is_plain(forest: Any) -> bool:
    """Whether the parameters are those that `_grown` knows about, and good ones: if not, scikit-learn says why."""
    usual, here = type(forest)().get_params(), forest.get_params()
    free = all(
        isinstance(here[name], int | np.integer) and here[name] >= least
        for name, least in FREE.items()
        if name != "max_depth" or here[name] is not None
    )
    return free and all(here[name] == value for name, value in usual.items() if name not in (*FREE, "n_jobs"))


def _grown(forest: Any, x: np.ndarray, y: np.ndarray, seeds: np.ndarray) -> list[Any]:
    """A tree for each seed, which draws both the rows it sees and the features it looks at."""
    from sklearn.tree._criterion import Gini
    from sklearn.tree._splitter import BestSplitter
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree
    from sklearn.utils import check_random_state

    (n, d), leaf, trees = x.shape, forest.min_samples_leaf, list[Any]()
    seen, codes = np.unique(y, return_inverse=True)
    classes, labels = np.array([len(seen)], np.intp), np.ascontiguousarray(codes.reshape(-1, 1), np.float64)
    split, depth = max(forest.min_samples_split, 2 * leaf), forest.max_depth or np.iinfo(np.int32).max
    for seed in seeds:
        times = np.bincount(check_random_state(seed).randint(0, n, n), minlength=n).astype(np.float64)
        look = max(1, int(np.sqrt(d)))
        splitter = BestSplitter(Gini(1, classes), look, leaf, 0.0, check_random_state(seed), None)
        trees.append(Tree(d, classes, 1))
        DepthFirstTreeBuilder(splitter, split, leaf, 0.0, depth, 0.0).build(trees[-1], x, labels, times, None)
    return trees
