"""What follows from labels: chosen from a shortlist or from all, with what is pending taken into account."""

from itertools import islice

import numpy as np
import pytest
from light_model import LightModel

from askwell.acquire import Strategy, first_questions
from askwell.data.pool import as_pool
from askwell.scoring import score_items
from askwell.seeds import rng_for
from askwell.targets import as_targets, from_pool, given


@pytest.fixture
def latest():
    x = rng_for(5, 0, "knowledge").normal(size=(300, 2))
    strategy = Strategy(LightModel(), as_pool(x), given(x[:30]), score="epig", batch="top", classes=["a", "b"])
    return strategy.round({0: "a", 1: "b", 2: "a", 3: "b"})


def chosen(latest, size, taken=()):
    return [position for position, _ in latest.choose(size, free=latest.strategy.free(range(4), taken))]


def test_top_is_the_order_of_the_scores(latest):
    scores = score_items(latest.search, "epig")
    order = latest.search.asked[np.argsort(-scores, kind="stable")]
    assert chosen(latest, 6) == order[:6].tolist()
    assert chosen(latest, 3, taken=order[:200]) == order[200:203].tolist()
    assert [position for position, _ in latest.choose(6)] == order[:6].tolist()  # all that has no label


def test_what_was_ranked_once_is_used_again(latest, monkeypatch):
    first = chosen(latest, 3)
    monkeypatch.setattr("askwell.acquire.best_items", None)
    again = chosen(latest, 3, taken=first)
    assert len({*first, *again}) == 6


def test_a_copy_of_a_pending_question_is_not_asked():
    x = rng_for(6, 0, "copies").normal(size=(40, 2))
    pool = as_pool(np.concatenate([x, x]))  # item i and item i + 40 are the same

    class Sure(LightModel):
        """Votes without noise: the label of a copy is known once the other's is."""

        def fit(self, x, y, *, rng):
            return Votes(rng)

    class Votes:
        classes = ("a", "b")

        def __init__(self, rng):
            self.direction = rng.normal(size=(50, 2))

        def predict(self, x):
            return np.eye(2)[(np.asarray(x) @ self.direction.T > 0).astype(int)]

    latest = Strategy(Sure(), pool, given(x[:20]), score="epig", classes=["a", "b"]).round({0: "a", 1: "b"})
    batch = [position for position, _ in latest.choose(6)]
    assert len({position % 40 for position in batch}) == 6
    free = latest.strategy.free([0, 1], batch[:1])
    ((following, _),) = latest.choose(1, free=free, pending=batch[:1])
    assert following % 40 != batch[0] % 40


def first_of(pool, targets, size, *, labelled=()):
    return [*islice(first_questions(pool, targets, labelled, rng=rng_for(0, len(labelled), "first")), size)]


@pytest.mark.parametrize("size", [1, 7, 300])
def test_spreading_out_gives_different_places(size):
    pool = as_pool(rng_for(7, 0, "places").normal(size=(300, 3)))
    for targets in (from_pool(100), given(pool.x[:40] + 0.1), given(["text", "more text"])):
        places = first_of(pool, targets, size)
        assert len({*places}) == size
        assert first_of(pool, targets, size) == places
        assert not {*first_of(pool, targets, 300 - min(size, 299), labelled=places[:299])} & {*places[:299]}


def test_first_questions_lie_near_given_targets_whatever_the_scale_of_a_feature():
    rng = rng_for(8, 0, "places")
    x = np.concatenate([rng.normal(size=(270, 2)), rng.normal(size=(30, 2)) + np.array([9, 0])]) * [1, 1000]
    pool, targets = as_pool(x), given(x[270:] + 0.01)
    first = first_of(pool, targets, 6)
    assert min(first) >= 270
    more = first_of(pool, targets, 6, labelled=first)
    assert min(more) >= 270
    assert not {*first} & {*more}
    assert min(first_of(pool, from_pool(100), 6)) < 270


def test_targets_of_no_weight_draw_no_first_questions():
    x = np.concatenate([np.zeros((50, 1)), np.full((50, 1), 9.0)]) + rng_for(8, 1, "places").normal(size=(100, 1)) * 0.1
    targets = given(x, weights=np.repeat([0.0, 1.0], 50))
    assert min(first_of(as_pool(x), targets, 5)) >= 50


def test_first_questions_one_by_one_go_to_different_clusters_of_the_targets():
    rng = rng_for(9, 0, "places")
    x = np.concatenate([rng.normal(size=(50, 2)) * 0.1 + centre for centre in ([0, 0], [9, 0], [0, 9], [9, 9])])
    targets, asked = given(x[50:150] + 0.01), list[int]()
    for _ in range(2):
        asked += first_of(as_pool(x), targets, 1, labelled=asked)
    assert {place // 50 for place in asked} == {1, 2}
    assert {place // 50 for place in first_of(as_pool(x), targets, 2)} == {1, 2}


# ---- questions that are drawn ----------------------------------------------------------------------------------------


def test_drawn_labels_take_no_part_in_choosing_while_one_before_them_waits_or_was_skipped():
    """They will be in the sample once it is answered: what was chosen in their knowledge would keep away from them."""
    x = rng_for(5, 0, "held out").normal(size=(200, 2))
    strategy = Strategy(LightModel(), as_pool(x), as_targets(None), classes=["a", "b"], evaluation=0.2)
    order = strategy.drawn.positions.tolist()
    answered = [*order[:2], *order[3:9], *order[100:130]]  # not the third
    labels = {position: "ab"[position % 2] for position in answered}
    without = {position: label for position, label in labels.items() if position not in order[:8]}
    latest = strategy.round(labels)
    expected = strategy.fit(without, strategy.rng("fit", labels))
    assert (latest.search.posterior.predict(x) == expected.predict(x)).all()
    assert (latest.posterior.predict(x) != expected.predict(x)).any()  # what is believed follows from all


def test_an_item_that_somebody_skipped_and_somebody_labelled_is_not_waited_for_again():
    x = rng_for(5, 0, "held out").normal(size=(50, 2))
    strategy = Strategy(LightModel(), as_pool(x), as_targets(None), evaluation=0.2)
    order = strategy.drawn.positions.tolist()
    rest = [(position, 1.0) for position in order[::-1]]
    asked = order[:1]
    plain = [*islice(strategy.questions(rest, asked=asked), 20)]
    assert [*islice(strategy.questions(rest, asked=asked, skipped=asked), 20)] == plain
    passed = [*islice(strategy.questions(rest, asked=asked, skipped=order[1:2]), 20)]
    assert order[1] not in [each.position for each in passed if each.probability is not None]
