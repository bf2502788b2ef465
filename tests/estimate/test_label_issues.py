"""Labels that deserve a second look: planted errors come first, nothing is judged by who has learnt it."""

import math

import numpy as np
import pytest
from light_model import LightModel

from askwell.acquire import Strategy
from askwell.data.pool import as_pool
from askwell.estimate.label_issues import MOST, UNLIKELY, label_issues, unlikely
from askwell.models.linear import LinearModel
from askwell.seeds import rng_for
from askwell.targets import as_targets

X = rng_for(0, 0, "label issues").normal(size=(200, 2))
Y = np.where(X[:, 0] > 0, "right", "left").tolist()
CLEAR = [int(each) for each in np.argsort(-np.abs(X[:, 0])) if each < 100][:4]  # nobody can mistake these
FLIPPED = {"right": "left", "left": "right"}


def strategy_of(model=None, **options):
    ids = [f"item {n}" for n in range(200)]
    return Strategy(model or LinearModel(draws=50), as_pool(X, ids=ids), as_targets(None), **options)


def labels_of(wrong=(), n=100):
    return {place: FLIPPED[Y[place]] if place in wrong else Y[place] for place in range(n)}


def test_planted_errors_are_found():
    issues = label_issues(strategy_of(), labels_of(CLEAR))
    assert {f"item {place}" for place in CLEAR} <= {each.item for each in issues}
    assert len(issues) <= 5
    assert [each.probability for each in issues] == sorted(each.probability for each in issues)
    assert all(each.probability < UNLIKELY and each.reason == "unlikely" for each in issues)
    assert all(FLIPPED[each.label] == each.suggested for each in issues)
    first = issues[0]
    assert str(first).startswith(f"'{first.item}': '{first.label}' has probability 0.0")
    assert {*first.body()} == {"item", "label", "probability", "suggested", "reason"}


def test_a_model_that_learns_by_heart_finds_them_too():
    """It is trained without the label that it judges."""

    class ByHeart(LightModel):
        def fit(self, x, y, *, rng):
            return Nearest(np.asarray(x), [*y])

    class Nearest:
        classes = ("left", "right")

        def __init__(self, x, y):
            self.x, self.y = x, np.array([self.classes.index(label) for label in y])

        def predict(self, x):
            nearest = ((np.asarray(x)[:, None] - self.x) ** 2).sum(axis=-1).argmin(axis=1)
            return np.eye(2)[self.y[nearest]][:, None]

    wrong = CLEAR[:1]
    assert f"item {wrong[0]}" in [each.item for each in label_issues(strategy_of(ByHeart()), labels_of(wrong))]


def test_what_was_reviewed_is_not_offered_again_and_makes_no_room():
    labels = labels_of(CLEAR)
    before = [each.item for each in label_issues(strategy_of(), labels)]
    after = [each.item for each in label_issues(strategy_of(), labels, reviewed=CLEAR[:2])]
    assert after == [item for item in before if item not in {f"item {place}" for place in CLEAR[:2]}]


def test_people_who_disagree_are_asked_again():
    labels, strategy = labels_of(), strategy_of(classes=["left", "right", "other"])
    votes = {7: [labels[7], labels[7], "other"], 8: [labels[8], labels[8]]}
    (issue,) = [each for each in label_issues(strategy, labels, votes=votes) if each.reason == "disagreement"]
    assert (issue.item, issue.label, issue.suggested) == ("item 7", labels[7], "other")
    assert label_issues(strategy, labels, votes=votes, reviewed=range(100)) == []


@pytest.mark.parametrize("labels", [{}, labels_of(CLEAR, 19), dict.fromkeys(range(50), "left")])
def test_too_little_is_no_reason_to_doubt(labels):
    assert label_issues(strategy_of(), labels) == []


@pytest.mark.parametrize("n", [1, 19, 20, 21, 100])
def test_the_least_probable_are_offered_and_few(n):
    own = rng_for(n, 0, "unlikely").random(n) * 0.3
    found = unlikely(own)
    assert found.sum() == min(math.ceil(MOST * n), (own < UNLIKELY).sum())
    assert not found.any() or own[found].max() <= own[~found].min(initial=1.0)
