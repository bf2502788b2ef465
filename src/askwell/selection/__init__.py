"""From scores to a batch: which questions to ask together.

A batch is a function `batch(candidates, size, *, rng) -> positions [size]`. Nothing is registered: a function of one's
own, or `functools.partial(power, beta=4)`, is passed where a name would be.

    candidates.py: scores [n], beliefs [n, k, c], features [n, d]
        stochastic.py   by scores alone             top power softmax softrank
        moments.py      by scores and beliefs       joint
        outcomes.py     by all answers together     batchbald joint_exact
        coverage.py     by distances                kcentre typiclust probcover badge
"""

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, final

import numpy as np

from askwell.selection.candidates import Batch, Candidates
from askwell.selection.coverage import badge, kcentre, probcover, typiclust
from askwell.selection.moments import joint
from askwell.selection.outcomes import batchbald, joint_epig, joint_exact
from askwell.selection.stochastic import power, softmax, softrank, top

__all__ = [
    "BATCHES",
    "Batch",
    "BatchName",
    "Candidates",
    "Wants",
    "as_batch",
    "badge",
    "batchbald",
    "check_for_numbers",
    "joint",
    "joint_epig",
    "joint_exact",
    "kcentre",
    "power",
    "probcover",
    "select",
    "softmax",
    "softrank",
    "top",
    "typiclust",
    "wants",
]

SHORTLIST = 512

BatchName = Literal[
    "top", "power", "softmax", "softrank", "joint", "batchbald", "badge", "kcentre", "typiclust", "probcover"
]
"""The names of `BATCHES`, for editors."""

BATCHES: Mapping[str, Batch] = MappingProxyType(
    {
        "top": top,
        "power": power,
        "softmax": softmax,
        "softrank": softrank,
        "joint": joint,
        "batchbald": batchbald,
        "badge": badge,
        "kcentre": kcentre,
        "typiclust": typiclust,
        "probcover": probcover,
    }
)
"""The batches that have a name."""


@final
@dataclass(frozen=True)
class Wants:
    """What a batch is to be given: how many candidates, and what about them.

    `shortlist`: that many of the best by score are enough (0: as many as are asked for); None: the whole pool.
    `beliefs`: none, the mean over draws `[n, 1, c]` is enough, or all draws. `pending` questions come with the same.
    """

    shortlist: int | None = None
    scores: bool = True
    beliefs: Literal["none", "mean", "draws"] = "draws"
    targets: bool = True
    features: bool = True

    def count(self, size: int, n: int) -> int:
        """How many of `n` candidates to give for a batch of `size`, the best by score.

        >>> [wants(batch).count(10, 100_000) for batch in ("top", "joint", "power")]
        [10, 512, 100000]
        """
        if self.shortlist is None:
            return n
        return min(n, max(self.shortlist, 4 * size if self.shortlist else size))


_BY_SCORE = Wants(beliefs="none", targets=False, features=False)
_BY_DISTANCE = Wants(scores=False, beliefs="none", targets=False)
_WANTS: tuple[tuple[Batch, Wants], ...] = (
    (top, Wants(0, beliefs="none", targets=False, features=False)),
    (power, _BY_SCORE),
    (softmax, _BY_SCORE),
    (softrank, _BY_SCORE),
    (joint, Wants(SHORTLIST, features=False)),
    (joint_exact, Wants(64, features=False)),
    (batchbald, Wants(SHORTLIST, targets=False, features=False)),
    (badge, Wants(scores=False, beliefs="mean", targets=False)),
    (kcentre, _BY_DISTANCE),
    (typiclust, _BY_DISTANCE),
    (probcover, _BY_DISTANCE),
)


def as_batch(batch: str | Batch) -> Batch:
    """The batch of that name; a function passes through.

    >>> as_batch("top") is top
    True
    >>> as_batch("powr")
    Traceback (most recent call last):
    ValueError: batch must be one of top, power, ..., but it is 'powr'. Did you mean 'power'? ...
    """
    if isinstance(batch, str) and batch in BATCHES:
        return BATCHES[batch]
    if isinstance(batch, str) or not callable(batch):
        near = difflib.get_close_matches(str(batch).lower(), BATCHES, n=1)
        raise ValueError(
            f"batch must be one of {', '.join(BATCHES)}, or a function, but it is {batch!r}. "
            + (f"Did you mean {near[0]!r}? " if near else "")
            + "A function of your own is called as batch(candidates, size, rng=...) and gives [size] positions."
        )
    return batch


def check_for_numbers(batch: str | Batch) -> None:
    """Refuse a batch that is about classes, where labels are numbers.

    >>> check_for_numbers("badge")
    Traceback (most recent call last):
    ValueError: batch must be one for numbers, but 'badge' is about classes. Try joint, power, top or kcentre.
    """
    if as_batch(batch) in (badge, batchbald, joint_exact):
        name = batch if isinstance(batch, str) else getattr(batch, "__name__", batch)
        raise ValueError(
            f"batch must be one for numbers, but {name!r} is about classes. Try joint, power, top or kcentre."
        )


def wants(batch: str | Batch) -> Wants:
    """What a batch looks at, so that nothing else need be made; of a function of one's own: everything.

    >>> wants("joint")
    Wants(shortlist=512, scores=True, beliefs='draws', targets=True, features=False)
    >>> wants(functools.partial(power, beta=4)).beliefs
    'none'
    """
    function: Any = as_batch(batch)
    while isinstance(function, functools.partial):
        function = function.func
    return next((wanted for known, wanted in _WANTS if known is function), Wants())


def select(batch: str | Batch, candidates: Candidates, size: int, *, rng: np.random.Generator) -> np.ndarray:
    """The positions of `size` different candidates, in order of choice: the one door, which checks both ways.

    >>> select("top", Candidates([0.2, 0.9, 0.4]), 2, rng=None)
    array([1, 2])
    """
    n = len(candidates)
    if not 0 <= size <= n:
        raise ValueError(f"size must be between 0 and the number of candidates, {n}, but it is {size}. Ask for fewer.")
    chosen = np.asarray(as_batch(batch)(candidates, size, rng=rng) if size else [], dtype=np.intp)
    if chosen.shape != (size,) or len(np.unique(chosen)) != size or not ((chosen >= 0) & (chosen < n)).all():
        raise ValueError(
            f"batch must give {size} different positions from 0 to {n - 1}, but it gave {chosen.tolist()[:20]}."
        )
    return chosen
