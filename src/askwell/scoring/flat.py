"""A ranking that says nothing: most items have the same score, and it is the highest."""

import dataclasses
from typing import Any

import numpy as np

from askwell.scoring.items import score_items
from askwell.scoring.search import Search

__all__ = ["HEAD", "flat_warning"]

HEAD = 20  # of the best items, that say whether it is worth looking at others
SOME = 200  # items that are looked at
MOST = 0.5  # the share of them with the highest score, from which on the order means little
ALIKE = 1e-6  # relative difference of scores that are the same but for rounding
NOTHING = 1e-9  # nats


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
