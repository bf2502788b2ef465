"""The score of every item, and a warning where the scores say nothing."""

import dataclasses
from typing import Any

import numpy as np

from askwell.acquisition import as_score, check_kind, needs_targets, open_weights, takes_votes
from askwell.compiling import steady
from askwell.information import gaussian
from askwell.information.categorical import margin
from askwell.information.votes import Votes
from askwell.models.protocol import label_moments, shortcuts
from askwell.scoring.search import Clock, Search

__all__ = [
    "HEAD",
    "checked",
    "exact",
    "flat_warning",
    "in_closed_form",
    "need_targets",
    "score_chunk",
    "score_items",
]

HEAD = 20  # of the best items, that say whether it is worth looking at others
SOME = 200  # items that are looked at
MOST = 0.5  # the share of them with the highest score, from which on the order means little
ALIKE = 1e-6  # relative difference of scores that are the same but for rounding
NOTHING = 1e-9  # nats


def score_items(search: Search, score: Any, *, piece: slice | None = None, clock: Clock | None = None) -> np.ndarray:
    """The score of each item that may be asked, or of a piece of them, float64 `[n]`, in the order of `search.asked`.

    Where the posterior knows EPIG without draws (a Gaussian process does), that is taken. Random numbers need no
    predictions.
    """
    start, stop, _ = (piece or slice(None)).indices(len(search))
    if score == "random":
        return search.rng("score").random(len(search))[start:stop]
    if in_closed_form(search, score):
        return exact(search, score, search.places(slice(start, stop)))
    checked(search, score)
    clock, scores = clock or Clock(), np.empty(stop - start)
    with steady(search.effort):
        shown = "" if piece else "scoring"
        for span, probs in search.chunks(piece=piece, shown=shown, clock=clock, votes=takes_votes(score)):
            with clock("score"):
                scores[span.start - start : span.stop - start] = score_chunk(search, score, span, probs)
    return scores


def score_chunk(search: Search, score: Any, span: slice, probs: np.ndarray | Votes) -> np.ndarray:
    """The scores of some items `[n]`, whose beliefs `[n, k, c]` are known."""
    function, target_probs = checked(search, score)
    rng = search.rng(f"score {span.start}")
    found = np.asarray(function(probs, target_probs, weights=search.weights, rng=rng), np.float64)
    if found.shape != (len(probs),):
        raise ValueError(f"score must give one number per candidate, [{len(probs)}], but it gave {found.shape}.")
    if np.isnan(found).any():
        raise ValueError("score must give numbers, but it gave NaN. Look at the model's predictions there.")
    return found


def in_closed_form(search: Search, score: Any) -> bool:
    """Whether the posterior knows this score without draws."""
    known = ("epig", "auto", "bald", "variance", "variance_reduction") if search.numbers else ("epig", "auto")
    return score in known and shortcuts(search.posterior).epig is not None


def exact(search: Search, score: str, positions: np.ndarray) -> np.ndarray:
    """EPIG by the posterior's own closed form; for "auto" times the margin, about the targets that are open.

    Of a joint Gaussian, whose labels are numbers, all scores but the random one.
    """
    if needs_targets(score):
        need_targets(search, score)
    posterior: Any = search.posterior
    x, targets, weights = search.items.take(positions), search.targets, search.weights
    if search.numbers and score not in ("epig", "auto"):
        variance = label_moments(posterior, x)[1]
        if score == "bald":
            return np.asarray(gaussian.bald(variance - posterior.noise_variance, posterior.noise_variance))
        if score == "variance":
            return variance
        return np.asarray(gaussian.variance_reduction(variance, posterior.covariance(x, targets), weights=weights))
    if score == "epig" or search.numbers:
        return np.asarray(posterior.epig(x, targets, weights=weights), np.float64)
    here, there = (posterior.predict_proba(inputs)[:, None, :] for inputs in (x, targets))  # [n, 1, c], [m, 1, c]
    informed = posterior.epig(x, targets, weights=open_weights(there, weights=weights))
    return np.asarray(informed * margin(here), np.float64)


def checked(search: Search, score: Any) -> tuple[Any, Any]:
    """The score as a function, and what it is to know of the targets."""
    function, needed = as_score(score), needs_targets(score)
    check_kind(score, numbers=search.numbers)
    if needed and isinstance(score, str):
        need_targets(search, score)
    if not needed:
        return function, None
    return function, search.target_beliefs if takes_votes(score) else search.target_probs


def need_targets(search: Search, score: str) -> None:
    """Refuse a question without targets."""
    if search.targets is None:
        raise ValueError(f"targets must be given for the score {score!r}: inputs like those the model will meet.")


# ---- a ranking that says nothing: most items have the same score, and it is the highest -----------------------------


def flat_warning(search: Search, score: Any, best: np.ndarray) -> str | None:
    """What to say where most items have the highest score, so that the seed decides what is asked; None elsewhere.

    `best` are the highest scores, best first, of at least `HEAD` items if there are as many. Where they differ nothing
    more is done; else some items of the whole pool are scored.
    """
    if score == "random" or len(search) < HEAD or len(best) < 2 or not _alike(best[:HEAD], best[0]).all():
        return None
    some = dataclasses.replace(search, positions=search.some(SOME))
    share = float(_alike(score_items(some, score), best[0]).mean())
    if share < MOST:
        return None
    name = score if isinstance(score, str) else getattr(score, "__name__", "score")
    return (
        f"most of the scores are equal: about {share:.0%} of the pool has the highest {name}, {best[0]:.3g}, so that "
        "the seed decides which of them is asked. Usual causes: a model whose members are constants because there are "
        "too few labels for a first split (HistGradientBoosting and LightGBM want 20 labels in a leaf: try "
        "min_samples_leaf=2, min_child_samples=2), draws that all agree, or a pool of copies. Label some more, or "
        "start with a forest or askwell.models.linear.LinearModel()."
    )


def _alike(scores: np.ndarray, best: float) -> np.ndarray:
    alike: np.ndarray = np.abs(np.asarray(scores, np.float64) - best) <= ALIKE * abs(best) + NOTHING
    return alike
