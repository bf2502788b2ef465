"""Ensembles: any list of fitted classifiers as draws; deep ensembles the same way.

The draws are the fitted members, so they are the same in every call by nature. Ten of them are few for EPIG
(`askwell.signal` warns); what fits in a millisecond is worth having a hundred times.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from askwell.arrays import spans, take
from askwell.models.forest import picks_columns
from askwell.models.inputs import Names, check_lengths, column_names, count, encoded, sliceable
from askwell.models.protocol import check_rng, class_codes
from askwell.models.scikit_learn import (
    check_can,
    is_booster,
    last_step,
    one_of_many,
    seeded_copy,
    several_classes,
    side_by_side,
)
from askwell.notebook import brief

__all__ = ["EnsembleModel", "EnsemblePosterior"]

ROWS = 2**14  # inputs a member predicts at a time: the insides of a member must not grow with the pool


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
        for estimator in self.estimator if isinstance(self.estimator, Sequence) else [self.estimator]:
            if isinstance(estimator, type) and hasattr(estimator, "fit"):
                raise ValueError(f"estimator must be an object, but it is a class. Try {estimator.__name__}().")
            if hasattr(estimator, "get_params"):
                check_can(estimator, "predict_proba")

    def fit(
        self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None
    ) -> "EnsemblePosterior":
        """The posterior whose draws are the fits; classes without an example have probability zero."""
        codes, known = class_codes(y, classes)
        x = sliceable(x)
        check_lengths(x, codes)
        check_rng(rng)
        labels = encoded(codes, known, declared=classes is not None)
        jobs = []
        for make in self._makers():  # everything random before the first fit: these may go side by side
            chosen = _resample(codes, rng) if self.bootstrap else np.arange(len(codes))
            jobs.append((labels.applied(make(rng)), chosen))

        def fitted(job: tuple[Any, np.ndarray]) -> Any:
            member, chosen = job
            with several_classes(member, codes, known), _says_if_dict(member, x):
                return member.fit(take(x, chosen), labels.y[chosen])

        members = side_by_side(fitted, jobs, several=all(is_booster(member) for member, _ in jobs))
        for member in members:
            check_can(member, "predict_proba")
        columns = tuple(labels.columns_of(member) for member in members)
        return EnsemblePosterior(known, tuple(members), columns, column_names(x))

    def _makers(self) -> list[Callable[[np.random.Generator], Any]]:
        given = self.estimator if isinstance(self.estimator, Sequence) else [self.estimator] * self.draws
        return [_maker(estimator) for estimator in given]


@final
@dataclass(frozen=True)
class EnsemblePosterior:
    """Fitted classifiers as draws."""

    __repr__ = brief

    classes: tuple[Any, ...]
    members: tuple[Any, ...]
    columns: tuple[np.ndarray, ...]  # the classes each member knows, as column numbers
    names: Names = None  # of the columns of the fit

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
            check_can(member, "predict_proba")
        seen = [_known(member, classes) for member in classifiers]
        _, known = class_codes([label for labels in seen for label in labels], classes)
        columns = tuple(np.array([known.index(label) for label in labels], np.intp) for labels in seen)
        names = getattr(classifiers[0], "feature_names_in_", None)
        return EnsemblePosterior(known, tuple(classifiers), columns, None if names is None else tuple(names))

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32; x is what the members take."""
        by_name = any(picks_columns(last_step(member)[0]) for member in self.members)
        x = sliceable(x, names=self.names, by_name=by_name)
        out = np.zeros((count(x), len(self.members), len(self.classes)), np.float32)
        several = all(is_booster(member) for member in self.members)
        for span in spans(len(out), ROWS):
            part = take(x, span)
            predict = partial(_probabilities, part)
            for k, probs in enumerate(side_by_side(predict, self.members, several=several)):
                out[span, k, self.columns[k]] = _of_classes(probs, self.columns[k], self.members[k])
        return out


def _probabilities(x: Any, member: Any) -> np.ndarray:
    return np.asarray(member.predict_proba(x), np.float32)


def _of_classes(probs: np.ndarray, columns: np.ndarray, member: Any) -> np.ndarray:
    """The member's probabilities, which must have a column for each class that it is said to know."""
    if probs.ndim == 2 and probs.shape[1] == len(columns):
        return probs
    raise ValueError(
        f"every member must give a probability for each of its classes, but {type(member).__name__} knows "
        f"{len(columns)} classes and predict_proba gives the shape {probs.shape}. Give classes= in the order of its "
        "columns, the same for all members, or members that have classes_."
    )


def _maker(estimator: Any) -> Callable[[np.random.Generator], Any]:
    if hasattr(estimator, "get_params"):
        return lambda rng: one_of_many(seeded_copy(estimator, rng))
    if callable(estimator):
        return lambda rng: estimator(int(rng.integers(2**31)))
    raise ValueError(
        "estimator must be a scikit-learn style classifier, a list of them, or a function from a seed to one, but it "
        f"is {type(estimator).__name__}. For classifiers that are already fitted use EnsemblePosterior.of."
    )


@contextlib.contextmanager
def _says_if_dict(member: Any, x: Any) -> Iterator[None]:
    """Say what is the matter where a member cannot take a dict of arrays: networks can, most others cannot."""
    try:
        yield
    except (TypeError, ValueError) as fault:
        if not isinstance(x, dict):
            raise
        raise ValueError(
            f"{type(member).__name__} cannot learn from a dict of {', '.join(map(repr, x))}. Give it one table "
            "of numbers; networks (askwell.models.dropout) take a dict of arrays by name."
        ) from fault


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
