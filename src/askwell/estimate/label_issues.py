"""Labels that are worth a second look: the model, trained without them, finds them very unlikely, or people disagree.

    labels -> each predicted by a model that did not learn from it -> the least probable ones -> label issues

They are offered after the answer was given, never before it: a suggestion that is shown would be followed. What became
of the rule on labels that were flipped on purpose is in docs/label_issues.md; thresholds for each class, as confident
learning has them, found less at the same number of looks: labels that were chosen are those that models are unsure of.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np

from askwell.acquire import Strategy, classes_of
from askwell.estimate.accuracy import cross_fitted

__all__ = ["LabelIssue", "label_issues", "unlikely"]

UNLIKELY = 0.1  # p(label), below which a label is worth a second look
MOST = 0.05  # of all labels, at most: where a model is often wrong, no more of its doubts are worth a person's time
EARLIEST = 20  # labels before which a model's doubts say nothing


@final
@dataclass(frozen=True)
class LabelIssue:
    """A label that is worth a second look, and why."""

    item: Any
    label: Any
    probability: float  # of the label, by a model that did not learn from it
    suggested: Any  # what that model finds most probable; of labels that people disagree on, among theirs
    reason: Literal["unlikely", "disagreement"]

    def body(self) -> dict[str, Any]:
        """As it stands in a record."""
        return asdict(self)

    def __str__(self) -> str:
        why = "people disagree" if self.reason == "disagreement" else "the model, trained without it, finds it unlikely"
        return f"{self.item!r}: {self.label!r} has probability {self.probability:.2f}, {self.suggested!r}? ({why})"


def label_issues(
    strategy: Strategy,
    labels: Mapping[int, Any],
    *,
    votes: Mapping[int, Collection[Any]] | None = None,
    reviewed: Collection[int] = (),
) -> list[LabelIssue]:
    """The labels, position -> label, that are worth a second look, the least probable first.

    Those with a probability below 0.1, at most the lowest 5 % of all, and those whose `votes`, all labels of the item,
    differ. Items that were `reviewed` have had their second look: they are not offered again, and make no room for
    others.

    >>> from askwell.data.pool import as_pool
    >>> from askwell.models.linear import LinearModel
    >>> from askwell.seeds import rng_for
    >>> from askwell.targets import as_targets
    >>> x = rng_for(0, 0, "example").normal(size=(80, 2))
    >>> labels = {i: "right" if x[i, 0] > 0 else "left" for i in range(60)}
    >>> furthest = int(x[:60, 0].argmax())
    >>> issues = label_issues(Strategy(LinearModel(), as_pool(x), as_targets(None)), labels | {furthest: "left"})
    >>> issues[0].item == furthest, issues[0].label, issues[0].suggested, issues[0].reason
    (True, 'left', 'right', 'unlikely')
    """
    if len(labels) < EARLIEST:
        return []
    probs = cross_fitted(strategy, labels, [*labels], purpose="label issues")
    if probs is None:
        return []
    classes = classes_of(labels.values()) if strategy.classes is None else list(strategy.classes)
    column = {label: place for place, label in enumerate(classes)}
    own = probs[np.arange(len(probs)), [column[label] for label in labels.values()]]
    doubted, issues = unlikely(own), list[LabelIssue]()
    for row, (position, label) in enumerate(labels.items()):
        others = {*(votes or {}).get(position, ())} - {label}
        if position in reviewed or not (others or doubted[row]):
            continue
        among = [column[each] for each in others] if others else [*range(len(classes))]
        suggested = classes[max(among, key=lambda each: float(probs[row, each]))]
        reason: Literal["unlikely", "disagreement"] = "disagreement" if others else "unlikely"
        issues.append(LabelIssue(strategy.pool.ids[position], label, float(own[row]), suggested, reason))
    return sorted(issues, key=lambda issue: issue.probability)


def unlikely(own: np.ndarray) -> np.ndarray:
    """Which labels are worth a second look `[n]`, by their probabilities `[n]`: below 0.1, at most the lowest 5 %.

    >>> unlikely(np.array([0.9, 0.05, 0.02, *[0.8] * 17])).nonzero()
    (array([2]),)
    """
    lowest = np.argsort(own, kind="stable")[: math.ceil(MOST * len(own))]
    offered = np.zeros(len(own), bool)
    offered[lowest[own[lowest] < UNLIKELY]] = True
    return offered
