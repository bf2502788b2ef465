"""How good the model is, with an interval: by cross-validation on the labels, or by labels set aside for judging.

Labels that were chosen to teach are no sample of anything, so cross-validation on them judges the model on the
questions it found worth asking: usually harder than the rest, and each fold knows fewer labels than the model. Both
make it say too little. It is not corrected here: weights towards the targets would rest on a few labels, and the best
by score, unlike questions that were drawn with known probabilities, have no probability to divide by. So it is named
for what it is, and where a share of the questions is drawn at random, labelled for judging only and never learnt from,
that is the estimate to believe.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np
from scipy.special import ndtri

from askwell.arrays import take
from askwell.models.protocol import Model, Posterior, fit_model, mean_predict
from askwell.seeds import rng_for

__all__ = ["Estimate", "cross_validated", "held_out", "judging_order", "stratified_folds", "wilson"]

LEAST = 10  # labels that an estimate can rest on
FOLDS = 5
JUDGED = 100  # times a label is judged in all, about: few labels are dealt out several times


@final
@dataclass(frozen=True)
class Estimate:
    """The share of predictions that are right, and the 95 % interval of that share."""

    value: float
    low: float
    high: float
    how: Literal["cross-validated", "held-out"]
    judged: int  # labels that it rests on
    metric: str = "accuracy"

    def body(self) -> dict[str, Any]:
        """As it stands in a record."""
        return asdict(self)


def wilson(right: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a probability, `right` of `n` having happened; `right` may be a mean of several counts.

    (p + z²/2n ± z sqrt(p (1 - p) / n + z²/4n²)) / (1 + z²/n), p = right / n: never beyond 0 and 1, and not of length
    zero where all are right.

    >>> low, high = wilson(9, 10)
    >>> round(low, 3), round(high, 3)
    (0.596, 0.982)
    """
    if n < 1 or not 0 <= right <= n:
        raise ValueError(f"right must be from 0 to n, and n from 1, but right is {right} and n is {n}.")
    z, p = float(ndtri(0.5 + level / 2)), right / n
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + side * half) / (1 + z * z / n) for side in (-1, 1))
    return (0.0 if right == 0 else max(0.0, low)), (1.0 if right == n else min(1.0, high))


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
    >>> found.value > 0.9, found.judged, found.how
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
    return Estimate(right / repeats / n, *wilson(right / repeats, n), how="cross-validated", judged=n)


def held_out(posterior: Posterior, x: Any, y: Sequence[Any]) -> Estimate | None:
    """Accuracy on labelled inputs that the posterior has not learnt from, drawn at random; Wilson's interval.

    None for fewer than ten.
    """
    if len(y) < LEAST:
        return None
    classes = list(posterior.classes)
    right = int((_predicted(posterior, x, classes) == _codes(y, classes)).sum())
    return Estimate(right / len(y), *wilson(right, len(y)), how="held-out", judged=len(y))


def judging_order(n: int, share: float, *, seed: int) -> np.ndarray:
    """The positions, in random order, of the items of a pool of `n` that are asked for judging only: about that share.

    An item is one of them or not whatever is labelled, and stays so when the pool grows at its end.

    >>> judges = judging_order(1000, 0.1, seed=0)
    >>> 80 < len(judges) < 120, set(judges) <= set(judging_order(2000, 0.1, seed=0))
    (True, True)
    """
    if not 0 <= share <= 0.5:
        raise ValueError(f"share must be from 0 to 0.5, but it is {share}. One question in ten is 0.1.")
    drawn = rng_for(seed, 0, "judging").random(n)
    order = np.argsort(drawn, kind="stable")
    return order[: int((drawn < share).sum())]


def _codes(y: Sequence[Any], classes: Sequence[Any]) -> np.ndarray:
    place = {label: column for column, label in enumerate(classes)}
    return np.array([place[label] for label in y], np.intp)


def _predicted(posterior: Posterior, x: Any, classes: Sequence[Any]) -> np.ndarray:
    """The likeliest class of each input, as its place in `classes`."""
    best = mean_predict(posterior, x).argmax(axis=1)
    predicted: np.ndarray = _codes(list(posterior.classes), classes)[best]
    return predicted
