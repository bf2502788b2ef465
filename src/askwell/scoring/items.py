"""The score of every item."""

from typing import Any

import numpy as np

from askwell.acquisition import as_score, needs_targets, open_weights, takes_votes
from askwell.compiling import steady
from askwell.information.categorical import margin
from askwell.information.votes import Votes
from askwell.scoring.question import Clock, Question

__all__ = ["checked", "exact", "in_closed_form", "need_targets", "score_chunk", "score_items"]


def score_items(
    question: Question, score: Any, *, piece: slice | None = None, clock: Clock | None = None
) -> np.ndarray:
    """The score of each item that may be asked, or of a piece of them, float64 `[n]`, in the order of `question.asked`.

    Where the posterior knows EPIG without draws (a Gaussian process does), that is taken. Random numbers need no
    predictions.
    """
    start, stop, _ = (piece or slice(None)).indices(len(question))
    if score == "random":
        return question.rng("score").random(len(question))[start:stop]
    if in_closed_form(question, score):
        return exact(question, score, question.places(slice(start, stop)))
    checked(question, score)
    clock, scores = clock or Clock(), np.empty(stop - start)
    with steady(question.effort):
        shown = "" if piece else "scoring"
        for span, probs in question.chunks(piece=piece, shown=shown, clock=clock, votes=takes_votes(score)):
            with clock("score"):
                scores[span.start - start : span.stop - start] = score_chunk(question, score, span, probs)
    return scores


def score_chunk(question: Question, score: Any, span: slice, probs: np.ndarray | Votes) -> np.ndarray:
    """The scores of some items `[n]`, whose beliefs `[n, k, c]` are known."""
    function, target_probs = checked(question, score)
    rng = question.rng(f"score {span.start}")
    found = np.asarray(function(probs, target_probs, weights=question.weights, rng=rng), np.float64)
    if found.shape != (len(probs),):
        raise ValueError(f"score must give one number per candidate, [{len(probs)}], but it gave {found.shape}.")
    if np.isnan(found).any():
        raise ValueError("score must give numbers, but it gave NaN. Look at the model's predictions there.")
    return found


def in_closed_form(question: Question, score: Any) -> bool:
    """Whether the posterior knows this score without draws."""
    return score in ("epig", "auto") and hasattr(question.posterior, "epig")


def exact(question: Question, score: str, positions: np.ndarray) -> np.ndarray:
    """EPIG by the posterior's own closed form; for "auto" times the margin, about the targets that are open."""
    need_targets(question, score)
    posterior: Any = question.posterior
    x, targets, weights = question.items.take(positions), question.targets, question.weights
    if score == "epig":
        return np.asarray(posterior.epig(x, targets, weights=weights), np.float64)
    here, there = (posterior.predict_proba(inputs)[:, None, :] for inputs in (x, targets))  # [n, 1, c], [m, 1, c]
    informed = posterior.epig(x, targets, weights=open_weights(there, weights=weights))
    return np.asarray(informed * margin(here), np.float64)


def checked(question: Question, score: Any) -> tuple[Any, np.ndarray | Votes | None]:
    """The score as a function, and what it is to know of the targets."""
    function, needed = as_score(score), needs_targets(score)
    if needed and isinstance(score, str):
        need_targets(question, score)
    if not needed:
        return function, None
    return function, question.target_beliefs if takes_votes(score) else question.target_probs


def need_targets(question: Question, score: str) -> None:
    """Refuse a question without targets."""
    if question.targets is None:
        raise ValueError(f"targets must be given for the score {score!r}: inputs like those the model will meet.")
