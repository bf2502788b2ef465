"""From a name to a score: what each candidate's label is worth, given beliefs about the pool and about the targets.

A score is a function `score(probs, target_probs, *, weights, rng) -> [n]`: beliefs about candidates `[n, k, c]` and
about targets `[m, k, c]` (None where it needs none) in, one float64 number per candidate out, higher = ask first.
Where labels are numbers, beliefs are `askwell.information.moments.Moments`, and a name stands for what it means there.
Nothing is registered: a function of one's own is passed where a name would be. The mathematics is in
`askwell.information`.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Protocol, final

import numpy as np

from askwell.arrays import Array, normalised_weights, plain, to_numpy
from askwell.information import categorical, draws, moments
from askwell.information.moments import Moments

__all__ = [
    "FOR_CLASSES",
    "FOR_NUMBERS",
    "MEANINGS",
    "SCORES",
    "WEIGHTED",
    "Score",
    "ScoreName",
    "Weighted",
    "as_score",
    "auto",
    "check_kind",
    "checked_class_weights",
    "needs_targets",
    "open_weights",
    "takes_votes",
    "weighted",
]

SETTLED = 0.02  # the least that a target counts, however sure the model is of it


class Score(Protocol):
    """What a candidate is worth. It must not depend on the other candidates: a pool is scored chunk by chunk."""

    def __call__(
        self, probs: Array, target_probs: Array | None, /, *, weights: Array | None, rng: np.random.Generator
    ) -> np.ndarray:
        """Scores `[n]` of candidates `probs [n, k, c]`; `target_probs [m, k, c]` and `weights [m]` are the targets."""
        ...


def auto(
    probs: Array, target_probs: Array, *, weights: Array | None = None, class_weights: Array | None = None
) -> Array:
    """The default: EPIG about the predictions that can still change, from questions whose own answer is open, as [n].

    auto(x) = margin(x) * sum_j w_j I(y; y*_j | x, x*_j) / sum_j w_j, with w_j = weights_j * max(0.02, margin(x*_j)).

    What counts is accuracy, and a prediction is gained only where it flips. A target whose first two classes are far
    apart will not, whatever is learnt of it: each target counts by how close they are. And a question whose answer the
    model can guess changes little by being answered. Both factors are EPIG's and margin sampling's own, without a
    constant to tune, and a candidate's score does not depend on the other candidates.

    With `class_weights [c]`, what a wrong prediction of a class costs, EPIG and the targets' margins are those of
    `askwell.epig` and `askwell.margin` with them: a prediction can change where the costs of being wrong are close.
    The candidate's own margin stays: whether its answer can be guessed is a matter of p(y), whatever it costs.

    >>> split, lean, sure = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]
    >>> auto([split, lean, sure], [split, sure])
    array([0.67955606, 0.10576547, 0.        ])
    """
    opened = open_weights(target_probs, weights=weights, class_weights=class_weights)
    informed = categorical.epig(probs, target_probs, weights=opened, class_weights=class_weights)
    return informed * categorical.margin(probs)


def open_weights(
    target_probs: Array, *, weights: Array | None = None, class_weights: Array | None = None
) -> np.ndarray:
    """What each target counts by how open its prediction is, weights_j * max(0.02, margin(x*_j)), summing to one, [m].

    >>> open_weights([[[0.5, 0.5]], [[0.75, 0.25]], [[1.0, 0.0]]]).round(3)
    array([0.658, 0.329, 0.013])
    """
    margins = to_numpy(categorical.margin(target_probs, class_weights=class_weights)).astype(np.float64)
    opened = np.maximum(margins, SETTLED)
    given = normalised_weights(weights, len(opened))
    found = opened if given is None else opened * given
    shares: np.ndarray = found / found.sum()
    return shares


def _drawn(probs: Array, target_probs: Array | None, /, *, weights: Array | None, rng: np.random.Generator) -> Any:
    """The same chance for all."""
    return rng.random(len(probs))


def _of_candidates(name: str) -> Score:
    """A measure that looks at the candidates only, as a score."""

    def score(probs: Any, target_probs: Any, /, *, weights: Array | None, rng: Any) -> np.ndarray:
        return np.asarray(_measure(name, probs)(probs), dtype=np.float64)

    return score


def _about_targets(name: str, **options: Any) -> Score:
    """A measure of what candidates tell about targets, as a score."""

    def score(probs: Any, target_probs: Any, /, *, weights: Array | None, rng: Any) -> np.ndarray:
        if target_probs is None:
            raise ValueError(
                f"target_probs must be beliefs about targets [m, k, c] for {name}, but it is None. Predict "
                "a sample of the inputs the model will meet, or part of the pool; or choose a score without targets: "
                f"{', '.join(name for name in SCORES if not needs_targets(name))}."
            )
        return np.asarray(_measure(name, probs)(probs, target_probs, weights=weights, **options), dtype=np.float64)

    return score


def _measure(name: str, belief: Any) -> Callable[..., Any]:
    """What the name stands for, given beliefs of this kind."""
    numbers = isinstance(belief, Moments)
    check_kind(name, numbers=numbers)
    return _NUMBERS[name] if numbers else {**_CANDIDATES, **_TARGETS}[name]


_CANDIDATES = {
    "entropy": categorical.entropy,
    "margin": categorical.margin,
    "least_confidence": categorical.least_confidence,
    "bald": categorical.bald,
}
_TARGETS: dict[str, Callable[..., Array]] = {
    "epig": categorical.epig,
    "epig_corrected": draws.epig_corrected,
    "epig_quadratic": draws.epig_quadratic,
    "auto": auto,
}
_NUMBERS: dict[str, Callable[..., Any]] = {
    "bald": moments.bald,
    "variance": moments.variance,
    "variance_reduction": moments.variance_reduction,
    "epig": moments.epig,
    "auto": moments.epig,  # all errors count there, so that there is no margin to weigh by
}
FOR_CLASSES = ("random", *_CANDIDATES, *_TARGETS)
FOR_NUMBERS = ("random", *_NUMBERS)
"""The names of the scores of classes, and of numbers."""

_ALONE = {"random", "variance", *_CANDIDATES}  # that look at the candidates only

ScoreName = Literal[
    "auto", "epig", "epig_corrected", "epig_quadratic", "bald", "margin", "entropy", "least_confidence", "random",
    "variance", "variance_reduction",
]  # fmt: skip
"""The names of `SCORES`, for editors."""

SCORES: Mapping[str, Score] = MappingProxyType(
    {
        "random": _drawn,
        **{name: _of_candidates(name) for name in (*_CANDIDATES, "variance")},
        **{name: _about_targets(name) for name in (*_TARGETS, "variance_reduction")},
    }
)
"""The scores that have a name. All but "random" give the same number whatever the rest of the pool."""

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "random": "random sampling: the baseline",
        "entropy": "highest entropy of the prediction, over all classes",
        "margin": "smallest margin between the two most probable classes",
        "least_confidence": "lowest probability of the most probable class",
        "bald": "disagreement of the posterior draws: most information about the model itself",
        "epig": "expected predictive information gain: most information about the targets",
        "epig_corrected": "epig minus its value for unrelated draws",
        "epig_quadratic": "second-order epig: many targets cost no more than few",
        "auto": "the default: epig about predictions that can still change, times margin",
        "variance": "numbers only: highest variance of the prediction",
        "variance_reduction": "numbers only: most variance taken off the targets (qNIPV, ALC)",
    }
)
"""What a score asks for, in a line."""


def as_score(score: str | Score) -> Score:
    """The score of that name; a function passes through, and a measure such as `askwell.bald` becomes a score.

    >>> split, sure = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]
    >>> as_score("epig")([split, sure], [split], weights=None, rng=None)
    array([0.69314718, 0.        ])
    >>> as_score("eppig")
    Traceback (most recent call last):
    ValueError: score must be one of random, entropy, ..., but it is 'eppig'. Did you mean 'epig'? ...
    """
    name = _name(score)
    if name is not None:
        return SCORES[name]
    if not callable(score):
        raise ValueError(_unknown(score))
    return score


def check_kind(score: Any, *, numbers: bool) -> None:
    """Refuse a named score that is not for labels of this kind, numbers or classes.

    >>> check_kind("margin", numbers=True)
    Traceback (most recent call last):
    ValueError: score must be one for numbers, random, bald, variance, variance_reduction, epig, auto, but ...
    """
    name = _name(score)
    if name is None or name in (FOR_NUMBERS if numbers else FOR_CLASSES):
        return
    if numbers:
        raise ValueError(
            f"score must be one for numbers, {', '.join(FOR_NUMBERS)}, but {name!r} is for classes. Or pass a function."
        )
    raise ValueError(f"score must be one for classes, but {name!r} is for numbers, which a regression model predicts.")


def needs_targets(score: str | Score) -> bool:
    """Whether a score looks at the targets: False for those that are known not to; a function of one's own may.

    >>> needs_targets("bald"), needs_targets("epig"), needs_targets(lambda probs, targets, weights, rng: probs[:, 0, 0])
    (False, True, True)
    """
    as_score(score)
    return _name(score) not in _ALONE


def takes_votes(score: str | Score) -> bool:
    """Whether a score looks at beliefs as `askwell.information.votes.Votes`; a function of one's own wants an array."""
    return _name(score) in {*_CANDIDATES, "epig", "auto"}


def _name(score: Any) -> str | None:
    """The name of a score that has one, given by that name, as the score, or as the measure it is made from."""
    if isinstance(score, str):
        if score in SCORES:
            return score
        raise ValueError(_unknown(score))
    known: list[tuple[str, Any]] = [*SCORES.items(), *_CANDIDATES.items(), *_TARGETS.items()]
    return next((name for name, function in known if score is function), None)


# ---- costs of errors -----------------------------------------------------------------------------------------------

WEIGHTED = ("epig", "auto")
"""The scores that heed costs of errors."""


@final
@dataclass(frozen=True)
class Weighted:
    """A score where errors have costs: made by `weighted`, and passed where a score's name would be.

    `class_weights` are in the order of the posterior's classes.
    """

    name: str
    class_weights: tuple[float, ...]

    def __call__(self, probs: Array, target_probs: Array | None, /, *, weights: Array | None, rng: Any) -> np.ndarray:
        """Scores `[n]`, as any score gives them."""
        score = _about_targets(self.name, class_weights=self.class_weights)
        return score(probs, target_probs, weights=weights, rng=rng)

    def batch_targets(self, target_probs: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Targets `[m, k, c]` and weights `[m]` about which joint information is what the costs make it.

        A label y* of weight w is seen with probability w / max w; else one drawn from s(y*) = w(y*) p(y*) / Z_j stands
        for it, which tells nothing. The deviations from the mean are then (w delta - s sum w delta) / max w, so that
        with targets that count 1 / Z_j the batch "joint" gets chi-squares of the joint w(y*) p(y, y*).

        >>> coin = np.array([[[1.0, 0.0], [0.0, 1.0]]])
        >>> Weighted("epig", (1.0, 3.0)).batch_targets(coin, None)
        (array([[[0.5, 0.5],
                [0. , 1. ]]]), array([1.]))
        """
        if self.name == "auto":
            weights = open_weights(target_probs, weights=weights, class_weights=self.class_weights)
        probs, w = np.asarray(target_probs, np.float64), np.asarray(self.class_weights) / max(self.class_weights)
        costs = probs * w  # [m, k, c]
        z = costs.sum(axis=2).mean(axis=1)  # [m]
        share = np.divide(costs.mean(axis=1), z[:, None], out=probs.mean(axis=1), where=z[:, None] > 0)  # [m, c]
        seen = costs + share[:, None, :] * (1 - costs.sum(axis=2, keepdims=True))
        counts = np.divide(1.0 if weights is None else weights, z, out=np.zeros(len(z)), where=z > 0)
        total = counts.sum()
        return seen, counts / total if total > 0 else np.full(len(z), 1 / len(z))


def weighted(score: Any, class_weights: Mapping[Any, float] | None, classes: Sequence[Any]) -> Any:
    """The score where errors have these costs, class -> cost, 1 where nothing is said; without any the score itself.

    >>> weighted("epig", {"fraud": 50}, ["fraud", "spam"])
    Weighted(name='epig', class_weights=(50.0, 1.0))
    """
    if class_weights is None:
        return score
    known = checked_class_weights(class_weights, score=score, classes=None)
    other = next((label for label in known if isinstance(label, str) != isinstance(classes[0], str)), None)
    if other is not None:
        raise ValueError(f"class_weights must be for classes such as {classes[0]!r}, but one is for {other!r}.")
    return Weighted(score, tuple(known.get(label, 1.0) for label in classes))


def checked_class_weights(class_weights: Any, *, score: Any, classes: Sequence[Any] | None) -> dict[Any, float]:
    """Class -> cost as plain values; a ValueError where they are none, of no class, or for a score without costs.

    >>> checked_class_weights({"fraud": 50}, score="auto", classes=["ham", "spam"])
    Traceback (most recent call last):
    ValueError: class_weights must be for the classes ham, spam, but 'fraud' is none of them.
    """
    if not isinstance(class_weights, Mapping) or not class_weights:
        raise ValueError(
            f"class_weights must map classes to what an error costs, such as {{'spam': 1, 'fraud': 50}}, but it is "
            f"{class_weights!r}."
        )
    known = {plain(label): plain(cost) for label, cost in class_weights.items()}
    allowed = None if classes is None else [(isinstance(each, bool), each) for each in classes]  # True is not 1
    for label, cost in known.items():
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < np.inf:
            raise ValueError(f"class_weights must be numbers from 0, but that of {label!r} is {cost!r}.")
        if allowed is not None and (isinstance(label, bool), label) not in allowed:
            names = [str(each) for _, each in allowed]
            near = difflib.get_close_matches(str(label), names, n=1)
            raise ValueError(
                f"class_weights must be for the classes {', '.join(names)}, but {label!r} is none of them."
                + (f" Did you mean {near[0]!r}?" if near else "")
            )
    if not any(known.values()) and (classes is None or len(known) == len(classes)):
        raise ValueError("class_weights must not all be 0: no error would cost anything.")
    if not isinstance(score, str) or score not in WEIGHTED:
        shown = score if isinstance(score, str) else getattr(score, "__name__", score)
        raise ValueError(
            f"class_weights must go with a score that heeds them, {', '.join(WEIGHTED)}, but the score is {shown!r}. "
            "Choose one of these, or leave class_weights out."
        )
    return {label: float(cost) for label, cost in known.items()}


def _unknown(score: Any) -> str:
    near = difflib.get_close_matches(str(score).lower(), SCORES, n=1)
    return (
        f"score must be one of {', '.join(SCORES)}, or a function, but it is {score!r}. "
        + (f"Did you mean {near[0]!r}? " if near else "")
        + "A function of your own is called as score(probs, target_probs, weights=..., rng=...) and gives [n] numbers."
    )
