"""A posterior, a pool and targets in; the score of every item, or the best items, out. Chunk by chunk.

>>> import askwell
>>> from sklearn.ensemble import RandomForestClassifier
>>> rng = np.random.default_rng(0)
>>> x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
>>> posterior = askwell.as_model(RandomForestClassifier(50)).fit(x, y, rng=rng)
>>> pool, around = as_pool(rng.normal(size=(500, 2))), rng.normal(size=(20, 2))
>>> scores = score_items(Question(posterior, pool, around), "epig")
>>> best, _ = best_items(Question(posterior, pool, around), "epig", 3)
>>> bool((np.argsort(-scores, kind="stable")[:3] == best).all())
True
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from askwell.acquisition import as_score, needs_targets
from askwell.arrays import spans
from askwell.information.bounds import top_epig
from askwell.models.protocol import Posterior
from askwell.pool import Pool, as_pool
from askwell.progress import track
from askwell.seeds import rng_for

__all__ = ["Question", "best_items", "score_items"]

CHUNK_BYTES = 64 << 20  # of predictions at a time
MOSTLY = 0.9  # of the draws


@final
@dataclass(frozen=True, eq=False)
class Question:
    """What is asked of a pool: which of its items would tell this posterior most about these target inputs.

    `positions` are the items that may be asked (all, if None); `rng` gives the generator for a purpose, for scores that
    are drawn.
    """

    posterior: Posterior
    pool: Any
    targets: Any = None
    weights: np.ndarray | None = None
    positions: np.ndarray | None = None
    rng: Callable[[str], np.random.Generator] = lambda purpose: rng_for(0, 0, purpose)

    @cached_property
    def items(self) -> Pool:
        """The pool, with ids."""
        return as_pool(self.pool)

    @cached_property
    def asked(self) -> np.ndarray:
        """The positions that may be asked, in order."""
        return np.arange(len(self.items)) if self.positions is None else np.asarray(self.positions, np.intp)

    @cached_property
    def target_probs(self) -> np.ndarray | None:
        """`[m, k, c]` of the targets under the posterior's draws."""
        return None if self.targets is None else np.asarray(self.posterior.predict(self.targets))

    def predict(self, positions: Any) -> np.ndarray:
        """`[n, k, c]` of the items at these positions."""
        return np.asarray(self.posterior.predict(self.items.take(positions)))

    def chunks(self, *, shown: str = "") -> Iterator[tuple[slice, np.ndarray]]:
        """(span of `asked`, its beliefs), in order; as many rows at a time as `CHUNK_BYTES` hold."""
        size = self._row_bytes()
        parts = list(spans(len(self.asked), max(1, CHUNK_BYTES // size)))
        for span in track(parts, label=shown):
            yield span, self.predict(self.asked[span])

    def _row_bytes(self) -> int:
        belief = self.target_probs if self.target_probs is not None else self.predict(self.asked[:1])
        return int(belief[0].nbytes)


def score_items(question: Question, score: Any) -> np.ndarray:
    """The score of each item that may be asked, float64 `[n]`, in the order of `question.asked`.

    Where the posterior knows EPIG without draws (a Gaussian process does), that is taken. Random numbers need no
    predictions.
    """
    if score == "random":
        return question.rng("score").random(len(question.asked))
    exact = _exact(question, score)
    if exact is not None:
        return exact
    function, target_probs = _checked(question, score)
    scores = np.empty(len(question.asked))
    for span, probs in question.chunks(shown="scoring"):
        rng = question.rng(f"score {span.start}")
        found = np.asarray(function(probs, target_probs, weights=question.weights, rng=rng), np.float64)
        if found.shape != (len(probs),):
            raise ValueError(f"score must give one number per candidate, [{len(probs)}], but it gave {found.shape}.")
        if np.isnan(found).any():
            raise ValueError("score must give numbers, but it gave NaN. Look at the model's predictions there.")
        scores[span] = found
    return scores


def best_items(question: Question, score: Any, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(positions, scores) of the best `size` items, best first, ties by position: what sorting all scores would give.

    EPIG's are found without scoring everything (`top_epig`), unless draws are votes: their bounds prune nothing.
    """
    if score == "epig" and hasattr(question.posterior, "top_epig"):
        _need_targets(question, score)
        x, count = question.items.take(question.asked), min(size, len(question.asked))
        index, found = question.posterior.top_epig(x, question.targets, count, weights=question.weights)
        return question.asked[index], np.asarray(found, np.float64)
    if score != "epig" or hasattr(question.posterior, "epig") or _votes(question.target_probs):
        scores = score_items(question, score)
        order = np.argsort(-scores, kind="stable")[:size]
        return question.asked[order], scores[order]
    _, target_probs = _checked(question, score)
    places, scores = np.empty(0, np.intp), np.empty(0)
    for span, probs in question.chunks(shown="scoring"):
        index, found = top_epig(probs, target_probs, min(size, len(probs)), weights=question.weights)
        places, scores = np.append(places, index + span.start), np.append(scores, np.asarray(found, np.float64))
        order = np.lexsort((places, -scores))[:size]
        places, scores = places[order], scores[order]
    return question.asked[places], scores


def _votes(probs: np.ndarray | None) -> bool:
    """Whether draws are nearly all sure of a class."""
    return probs is not None and bool((np.max(probs, axis=-1) == 1).mean() > MOSTLY)


def _exact(question: Question, score: Any) -> np.ndarray | None:
    """EPIG by the posterior's own closed form, where it has one."""
    if score != "epig" or not hasattr(question.posterior, "epig"):
        return None
    _need_targets(question, score)
    x = question.items.take(question.asked)
    return np.asarray(question.posterior.epig(x, question.targets, weights=question.weights), np.float64)


def _checked(question: Question, score: Any) -> tuple[Any, np.ndarray | None]:
    """The score as a function, and what it is to know of the targets."""
    function, needed = as_score(score), needs_targets(score)
    if needed and isinstance(score, str):
        _need_targets(question, score)
    return function, question.target_probs if needed else None


def _need_targets(question: Question, score: str) -> None:
    if question.targets is None:
        raise ValueError(f"targets must be given for the score {score!r}: inputs like those the model will meet.")
