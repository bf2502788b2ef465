"""What a batch is chosen from, and what a way of choosing looks like."""

from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from askwell.arrays import check_probs
from askwell.information.moments import Moments

__all__ = ["Batch", "Candidates", "beliefs", "features", "finite_scores"]


@final
@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a batch: a shortlist or the whole pool. Only the scores are always there.

    Features are rows of numbers; `labelled` are those of items that were asked, answered or not, and `pending` the
    beliefs about items that were asked and not yet answered.

    >>> Candidates(scores=[0.3, 0.1], x=[[0.0, 1.0]])
    Traceback (most recent call last):
    ValueError: x must have a row for each of the 2 candidates, but it has 1.
    """

    scores: np.ndarray  # [n]
    probs: np.ndarray | Moments | None = None  # [n, k, c]
    target_probs: np.ndarray | Moments | None = None  # [m, k, c]
    weights: np.ndarray | None = None  # [m]
    pending: np.ndarray | Moments | None = None  # [q, k, c]
    x: Any = None  # [n, d]
    labelled: Any = None  # [l, d]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.asarray(self.scores, dtype=np.float64))
        if self.scores.ndim != 1:
            raise ValueError(f"scores must be one number per candidate, [n], but the shape is {self.scores.shape}.")
        for name, rows in (("probs", self.probs), ("x", self.x)):
            if rows is not None and np.shape(rows)[0] != len(self):
                raise ValueError(
                    f"{name} must have a row for each of the {len(self)} candidates, but it has {np.shape(rows)[0]}."
                )

    def __len__(self) -> int:
        return len(self.scores)


class Batch(Protocol):
    """A way of choosing: the positions of `size` different candidates, in order of choice."""

    def __call__(self, candidates: Candidates, size: int, /, *, rng: np.random.Generator) -> np.ndarray:
        """Positions `[size]`, whole numbers from 0 to n - 1."""
        ...


def finite_scores(candidates: Candidates) -> np.ndarray:
    """The scores, all of them finite.

    >>> finite_scores(Candidates(scores=[0.5, np.nan]))
    Traceback (most recent call last):
    ValueError: scores must be finite numbers, but scores[1] is nan. ...
    """
    bad = np.flatnonzero(~np.isfinite(candidates.scores))
    if len(bad):
        raise ValueError(
            f"scores must be finite numbers, but scores[{bad[0]}] is {candidates.scores[bad[0]]}"
            + (f", and {len(bad) - 1} more are not" if len(bad) > 1 else "")
            + ". Leave out candidates that may not be asked, rather than scoring them -inf; for a NaN look at the "
            "model's predictions there."
        )
    return candidates.scores


def beliefs(candidates: Candidates, what: str, *, of: str) -> np.ndarray:
    """The beliefs called `of`, for the batch called `what`, in float64 and with rows that sum to one to the last bit.

    >>> beliefs(Candidates(scores=[0.5]), "joint", of="target_probs")
    Traceback (most recent call last):
    ValueError: target_probs must be given for the batch 'joint': beliefs [inputs, k, c], but it is None.
    """
    found = getattr(candidates, of)
    if found is None:
        raise ValueError(f"{of} must be given for the batch {what!r}: beliefs [inputs, k, c], but it is None.")
    if isinstance(found, Moments):
        raise ValueError(f"batch must be one for numbers, but {what!r} is for classes. Try joint, power or top.")
    check_probs(**{of: found})
    if of != "probs" and candidates.probs is not None:
        check_probs(probs=candidates.probs, **{of: found}, values=False)
    exact: np.ndarray = np.array(found, dtype=np.float64)
    exact /= exact.sum(axis=-1, keepdims=True)
    return exact


def features(candidates: Candidates, what: str) -> tuple[np.ndarray, np.ndarray]:
    """The features of the candidates and of what was asked before, `[n, d]` and `[l, d]`, as float64.

    >>> features(Candidates(scores=[0.5]), "kcentre")
    Traceback (most recent call last):
    ValueError: x must be given for the batch 'kcentre', which goes by distances: ...
    """
    if candidates.x is None:
        raise ValueError(
            f"x must be given for the batch {what!r}, which goes by distances: numbers [n, d], scaled as for nearest "
            "neighbours. Encode categories, embed texts and images, or choose a batch that goes by scores."
        )
    x = _rows("x", candidates.x)
    if candidates.labelled is None or np.shape(candidates.labelled)[0] == 0:
        return x, np.empty((0, x.shape[1]))
    labelled = _rows("labelled", candidates.labelled)
    if labelled.shape[1] != x.shape[1]:
        raise ValueError(
            f"labelled must have the {x.shape[1]} features of x, but it has {labelled.shape[1]}: {labelled.shape}."
        )
    return x, labelled


def _rows(name: str, rows: Any) -> np.ndarray:
    try:
        found = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be numbers [n, d], but it is a {type(rows).__name__} that does not turn into them. Encode "
            "categories; of a sparse matrix take the leading directions (TruncatedSVD)."
        ) from None
    if found.ndim != 2:
        raise ValueError(f"{name} must be numbers [n, d], but its shape is {found.shape}. Try x.reshape(len(x), -1).")
    if not np.isfinite(found).all():
        row, column = np.argwhere(~np.isfinite(found))[0]
        raise ValueError(
            f"{name} must be finite, but {name}[{row}, {column}] is {found[row, column]}. Fill in what is missing."
        )
    return found
