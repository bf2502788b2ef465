"""How good the model is on the targets, with an interval: by questions that were drawn, else by cross-validation.

    labels -> the sample that was drawn, if questions are -> each predicted without itself -> Estimate of the targets
           -> else all labels                             -> each predicted without itself -> a lower bound, usually

Labels that were chosen to teach are no sample of anything: they are the most informative items, harder than the rest
at first, so that judging by them says too little. Where a share of the questions is drawn (`Strategy.evaluation`), the
drawn items are a random sample of the targets (`askwell.targets.drawing`). The model learns from them like from all
others, and each of them is predicted by a model that did not learn from it (cross-fitting): nothing is wasted, and
nothing is flattered. One of ten folds of the drawn labels is left out at a time, so the models that predict have hardly
fewer labels than the one that is judged.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np
from scipy.special import ndtri, stdtrit

from askwell.acquire import Strategy, classes_of
from askwell.arrays import take
from askwell.models.protocol import Model, Posterior, fit_model, mean_predict
from askwell.targets import Of

__all__ = ["Estimate", "Interval", "cross_fitted", "cross_validated", "drawn", "estimate", "stratified_folds", "wilson"]

LEAST = 10  # labels that cross-validation can rest on
LEAST_DRAWN = 5  # drawn items that an estimate can rest on: its interval says how little they are
LEAST_EACH = 5  # of them of a class, for an estimate of the class
FOLDS, DRAWN_FOLDS = 5, 10
JUDGED = 100  # times a label is judged in all, about: few labels are dealt out several times
TINY = 1e-3  # probability that a log loss believes in: one label in a thousand may be wrong


@final
@dataclass(frozen=True)
class Interval:
    """A value, the 95 % interval of it, and how many labels that rests on."""

    value: float
    low: float
    high: float
    labels: int


@final
@dataclass(frozen=True)
class Estimate:
    """The share of predictions that are right, and the 95 % interval of that share."""

    value: float
    low: float
    high: float
    how: Literal["drawn", "cross-validated"]
    labels: int  # that it rests on
    of: Of | Literal["chosen"]  # what it is about: the targets, the pool's items nearest to them, the pool; or neither
    metric: str = "accuracy"
    balanced_accuracy: Interval | None = None
    log_loss: Interval | None = None
    classes: Mapping[str, Interval] | None = None  # the accuracy among the items of a class, where there are enough
    kappa: float | None = None  # Cohen's, of predictions and labels: agreement beyond chance

    def body(self) -> dict[str, Any]:
        """As it stands in a record."""
        return {**asdict(self), "about": self.about}

    @property
    def about(self) -> str:
        """What it is about, and what it rests on, in words."""
        return {
            "targets": f"on the targets, from {self.labels} questions drawn from them at random",
            "nearest": f"near the targets, from {self.labels} questions about the pool items nearest to them, "
            "drawn at random; the targets themselves may be other than those",
            "pool": f"on inputs like the pool, from {self.labels} questions drawn from it at random",
            "chosen": f"cross-validated on {self.labels} chosen questions, which are harder than average: usually "
            f"{'an upper' if self.metric == 'rmse' else 'a lower'} bound",
        }[self.of]

    def __str__(self) -> str:
        value, low, high = (
            f"{each:.2f}" if self.metric == "accuracy" else f"{each:.4g}" for each in (self.value, self.low, self.high)
        )
        return f"{self.metric} {value} (95% interval {low} to {high}) {self.about}"


def estimate(strategy: Strategy, labels: Mapping[int, Any], *, skipped: Collection[int] = ()) -> Estimate | None:
    """How good the model is that learns from these labels, position -> label; None where they are too few to tell.

    >>> from askwell.data.pool import as_pool
    >>> from askwell.models.linear import LinearModel
    >>> from askwell.seeds import rng_for
    >>> from askwell.targets import as_targets
    >>> x = rng_for(0, 0, "example").normal(size=(80, 2))
    >>> strategy = Strategy(LinearModel(draws=50), as_pool(x), as_targets(None), evaluation=0.2)
    >>> drawn_items = strategy.drawn.positions[:12].tolist()
    >>> found = estimate(strategy, {i: "right" if x[i, 0] > 0 else "left" for i in drawn_items})
    >>> found.how, found.of, found.labels, found.low < found.value <= found.high <= 1
    ('drawn', 'pool', 12, True)
    """
    found = drawn(strategy, labels, skipped=skipped)
    if found is None and len(classes_of(labels.values())) > 1:
        classes = classes_of(labels.values()) if strategy.classes is None else strategy.classes
        rng = strategy.rng("estimate", labels)
        found = cross_validated(strategy.model, *strategy.data(labels), classes=classes, rng=rng)
    return found


def drawn(strategy: Strategy, labels: Mapping[int, Any], *, skipped: Collection[int] = ()) -> Estimate | None:
    """The estimate by the questions that were drawn; None where fewer than five were, or none can be predicted."""
    if strategy.drawn is None:
        return None
    sample = strategy.drawn.sample(labels, skipped)
    if len(sample) < LEAST_DRAWN:
        return None
    probs = cross_fitted(strategy, labels, [*sample], purpose="evaluation")
    if probs is None:
        return None
    classes = classes_of(labels.values()) if strategy.classes is None else list(strategy.classes)
    codes, weights = _codes([labels[each] for each in sample], classes), np.array([*sample.values()], float)
    right = probs.argmax(axis=1) == codes
    value = float(np.average(right, weights=weights))
    by_class = {
        column: _share(right[codes == column], weights[codes == column])
        for column in np.flatnonzero(np.bincount(codes, minlength=len(classes)) >= LEAST_EACH).tolist()
    }
    loss = -np.log(np.maximum(probs[np.arange(len(codes)), codes], TINY))
    return Estimate(
        value,
        *wilson(value * (n := _effective(weights)), n),
        how="drawn",
        labels=len(sample),
        of=strategy.drawn.of,
        balanced_accuracy=_balanced(by_class.values()) if len(by_class) == len(classes) else None,
        log_loss=_mean(loss, weights),
        classes={str(classes[column]): each for column, each in by_class.items()},
        kappa=_kappa(probs.argmax(axis=1), codes, weights),
    )


def cross_fitted(
    strategy: Strategy, labels: Mapping[int, Any], judged: Sequence[int], *, purpose: str
) -> np.ndarray | None:
    """p(y|x) `[len(judged), c]` of labelled items, each by a model that did not learn from it; None without a model.

    They are dealt out to ten folds, by random numbers for this purpose.
    """
    classes = classes_of(labels.values()) if strategy.classes is None else list(strategy.classes)
    rng = strategy.rng(purpose, labels)
    fold = rng.permutation(len(judged)) % min(DRAWN_FOLDS, len(judged))
    probs = np.zeros((len(judged), len(classes)))
    for number in range(fold.max() + 1):
        out = {position for position, each in zip(judged, fold, strict=True) if each == number}
        rest = {position: label for position, label in labels.items() if position not in out}
        if len(classes_of(rest.values())) < 2:
            return None
        posterior = strategy.fit(rest, rng)
        columns = _codes(list(posterior.classes), classes)
        where = np.flatnonzero(fold == number)
        probs[np.ix_(where, columns)] = mean_predict(posterior, strategy.pool.take([judged[i] for i in where.tolist()]))
    return probs


def _effective(weights: np.ndarray) -> float:
    """How many equally weighted labels are worth as much: (sum w)^2 / sum w^2."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def _share(right: np.ndarray, weights: np.ndarray) -> Interval:
    n, value = _effective(weights), float(np.average(right, weights=weights))
    return Interval(value, *wilson(value * n, n), labels=len(right))


def _mean(values: np.ndarray, weights: np.ndarray) -> Interval:
    n, value = _effective(weights), float(np.average(values, weights=weights))
    spread = math.sqrt(float(np.average((values - value) ** 2, weights=weights)) / max(n - 1, 1))
    half = float(stdtrit(max(n - 1, 1), 0.975)) * spread
    return Interval(value, max(0.0, value - half), value + half, labels=len(values))


def _kappa(predicted: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> float | None:
    """Cohen's kappa; None where chance alone would always agree."""
    both = np.zeros((max(predicted.max(), codes.max()) + 1,) * 2)
    np.add.at(both, (predicted, codes), weights / weights.sum())
    chance = float(both.sum(axis=0) @ both.sum(axis=1))
    return None if chance > 1 - 1e-12 else float((np.trace(both) - chance) / (1 - chance))


def _balanced(classes: Collection[Interval]) -> Interval:
    """The mean over the classes; its variance is that of Wilson's intervals."""
    value = float(np.mean([each.value for each in classes]))
    low, high = (
        math.sqrt(sum((getattr(each, end) - each.value) ** 2 for each in classes)) / len(classes)
        for end in ("low", "high")
    )
    return Interval(value, max(0.0, value - low), min(1.0, value + high), sum(each.labels for each in classes))


def wilson(right: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a probability, `right` of `n` having happened; `right` may be a mean of several counts.

    (p + z²/2n ± z sqrt(p (1 - p) / n + z²/4n²)) / (1 + z²/n), p = right / n: never beyond 0 and 1, and not of length
    zero where all are right.

    >>> low, high = wilson(9, 10)
    >>> round(low, 3), round(high, 3)
    (0.596, 0.982)
    """
    if n < 1 or not -1e-9 <= right <= n + 1e-9:
        raise ValueError(f"right must be from 0 to n, and n from 1, but right is {right} and n is {n}.")
    z, p = float(ndtri(0.5 + level / 2)), min(max(right / n, 0.0), 1.0)
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + side * half) / (1 + z * z / n) for side in (-1, 1))
    return (0.0 if right <= 0 else max(0.0, low)), (1.0 if right >= n else min(1.0, high))


def stratified_folds(y: Sequence[Any], folds: int, *, rng: np.random.Generator) -> np.ndarray:
    """The fold `[n]` of each label, from 0: every class is dealt out evenly, and so are all labels.

    >>> from askwell.seeds import rng_for
    >>> fold = stratified_folds(["a"] * 4 + ["b"] * 2, 2, rng=rng_for(0, 0, "folds"))
    >>> np.bincount(fold[:4]), np.bincount(fold[4:])
    (array([2, 2]), array([1, 1]))
    """
    if not 2 <= folds <= len(y):
        raise ValueError(f"folds must be from 2 to the number of labels, {len(y)}, but it is {folds}.")
    by_class: dict[Any, list[int]] = {}
    for place, label in enumerate(y):
        by_class.setdefault(label, []).append(place)
    dealt = np.concatenate([rng.permutation(places) for places in by_class.values()])
    fold = np.empty(len(y), np.intp)
    fold[dealt] = np.arange(len(y)) % folds  # class after class: each goes round the folds where the last one stopped
    return fold


def cross_validated(
    model: Model, x: Any, y: Sequence[Any], *, classes: Sequence[Any], rng: np.random.Generator
) -> Estimate | None:
    """Accuracy on labelled inputs, each predicted by a model that did not learn from it.

    Five stratified folds, dealt out up to three times where labels are few. The interval is Wilson's for as many labels
    as there are: dealing again steadies the value and adds no label. None where it would say nothing: fewer than ten
    labels, or fewer than two of a second class.

    >>> from askwell.models.linear import LinearModel
    >>> from askwell.seeds import rng_for
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> found = cross_validated(
    ...     LinearModel(draws=50), x, ["low" if a < 0 else "high" for a in x[:, 0]],
    ...     classes=["low", "high"], rng=rng_for(0, 0, "estimate"),
    ... )
    >>> found.value > 0.9, found.labels, found.how
    (True, 40, 'cross-validated')
    """
    n, codes = len(y), _codes(y, classes)
    often = np.sort(np.bincount(codes, minlength=2))
    if n < LEAST or often[-2] < 2:  # two classes in every fold's labels need two labels of two classes
        return None
    repeats = max(1, min(3, round(JUDGED / n)))
    right = 0
    for _ in range(repeats):
        fold = stratified_folds(codes.tolist(), FOLDS, rng=rng)
        for number in range(FOLDS):
            learnt, judged = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            posterior = fit_model(model, take(x, learnt), [y[i] for i in learnt.tolist()], rng=rng, classes=classes)
            right += int((_predicted(posterior, take(x, judged), classes) == codes[judged]).sum())
    return Estimate(right / repeats / n, *wilson(right / repeats, n), how="cross-validated", labels=n, of="chosen")


def _codes(y: Sequence[Any], classes: Sequence[Any]) -> np.ndarray:
    place = {label: column for column, label in enumerate(classes)}
    return np.array([place[label] for label in y], np.intp)


def _predicted(posterior: Posterior, x: Any, classes: Sequence[Any]) -> np.ndarray:
    """The likeliest class of each input, as its place in `classes`."""
    best = mean_predict(posterior, x).argmax(axis=1)
    predicted: np.ndarray = _codes(list(posterior.classes), classes)[best]
    return predicted
