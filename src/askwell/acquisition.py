"""From a name to a score: what each candidate's label is worth, given beliefs about the pool and about the targets.

A score is a function `score(probs, target_probs, *, weights, rng) -> [n]`: beliefs about candidates `[n, k, c]` and
about targets `[m, k, c]` (None where it needs none) in, one float64 number per candidate out, higher = ask first.
Nothing is registered: a function of one's own is passed where a name would be. The mathematics is in
`askwell.information`.
"""

import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from askwell.arrays import Array, normalised_weights, to_numpy
from askwell.information import categorical, draws

__all__ = ["SCORES", "Score", "as_score", "auto", "needs_targets", "open_weights", "takes_votes"]

SETTLED = 0.02  # the least that a target counts, however sure the model is of it


class Score(Protocol):
    """What a candidate is worth. It must not depend on the other candidates: a pool is scored chunk by chunk."""

    def __call__(
        self, probs: Array, target_probs: Array | None, /, *, weights: Array | None, rng: np.random.Generator
    ) -> np.ndarray:
        """Scores `[n]` of candidates `probs [n, k, c]`; `target_probs [m, k, c]` and `weights [m]` are the targets."""
        ...


def auto(probs: Array, target_probs: Array, *, weights: Array | None = None) -> Array:
    """The default: EPIG about the predictions that can still change, from questions whose own answer is open, as [n].

    auto(x) = margin(x) * sum_j w_j I(y; y*_j | x, x*_j) / sum_j w_j, with w_j = weights_j * max(0.02, margin(x*_j)).

    What counts is accuracy, and a prediction is gained only where it flips. A target whose first two classes are far
    apart will not, whatever is learnt of it: each target counts by how close they are. And a question whose answer the
    model can guess changes little by being answered. Both factors are EPIG's and margin sampling's own, without a
    constant to tune, and a candidate's score does not depend on the other candidates.

    >>> split, lean, sure = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]
    >>> auto([split, lean, sure], [split, sure])
    array([0.67955606, 0.10576547, 0.        ])
    """
    informed = categorical.epig(probs, target_probs, weights=open_weights(target_probs, weights=weights))
    return informed * categorical.margin(probs)


def open_weights(target_probs: Array, *, weights: Array | None = None) -> np.ndarray:
    """What each target counts by how open its prediction is, weights_j * max(0.02, margin(x*_j)), summing to one, [m].

    >>> open_weights([[[0.5, 0.5]], [[0.75, 0.25]], [[1.0, 0.0]]]).round(3)
    array([0.658, 0.329, 0.013])
    """
    opened = np.maximum(to_numpy(categorical.margin(target_probs)).astype(np.float64), SETTLED)
    given = normalised_weights(weights, len(opened))
    found = opened if given is None else opened * given
    shares: np.ndarray = found / found.sum()
    return shares


def _drawn(probs: Array, target_probs: Array | None, /, *, weights: Array | None, rng: np.random.Generator) -> Any:
    """The same chance for all."""
    return rng.random(len(probs))


def _of_candidates(measure: Callable[[Array], Array]) -> Score:
    """A measure that looks at the candidates only, as a score."""

    def score(probs: Array, target_probs: Array | None, /, *, weights: Array | None, rng: Any) -> np.ndarray:
        return np.asarray(measure(probs), dtype=np.float64)

    return score


def _about_targets(measure: Callable[..., Array]) -> Score:
    """A measure of what candidates tell about targets, as a score."""

    def score(probs: Array, target_probs: Array | None, /, *, weights: Array | None, rng: Any) -> np.ndarray:
        if target_probs is None:
            raise ValueError(
                f"target_probs must be beliefs about targets [m, k, c] for {measure.__name__}, but it is None. Predict "
                "a sample of the inputs the model will meet, or part of the pool; or choose a score without targets: "
                f"{', '.join(name for name in SCORES if not needs_targets(name))}."
            )
        return np.asarray(measure(probs, target_probs, weights=weights), dtype=np.float64)

    return score


_CANDIDATES = {
    "entropy": categorical.entropy,
    "margin": categorical.margin,
    "least_confidence": categorical.least_confidence,
    "bald": categorical.bald,
}
_TARGETS = {
    "epig": categorical.epig,
    "epig_corrected": draws.epig_corrected,
    "epig_quadratic": draws.epig_quadratic,
    "auto": auto,
}

SCORES: Mapping[str, Score] = MappingProxyType(
    {
        "random": _drawn,
        **{name: _of_candidates(measure) for name, measure in _CANDIDATES.items()},
        **{name: _about_targets(measure) for name, measure in _TARGETS.items()},
    }
)
"""The scores that have a name. All but "random" give the same number whatever the rest of the pool."""


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


def needs_targets(score: str | Score) -> bool:
    """Whether a score looks at the targets: False for those that are known not to; a function of one's own may.

    >>> needs_targets("bald"), needs_targets("epig"), needs_targets(lambda probs, targets, weights, rng: probs[:, 0, 0])
    (False, True, True)
    """
    as_score(score)
    return _name(score) not in {"random", *_CANDIDATES}


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


def _unknown(score: Any) -> str:
    near = difflib.get_close_matches(str(score).lower(), SCORES, n=1)
    return (
        f"score must be one of {', '.join(SCORES)}, or a function, but it is {score!r}. "
        + (f"Did you mean {near[0]!r}? " if near else "")
        + "A function of your own is called as score(probs, target_probs, weights=..., rng=...) and gives [n] numbers."
    )
