"""Drawn questions: a fair sample whatever else is asked, in their share, near the targets that they stand for."""

import numpy as np
import pytest
from hypothesis import given as cases
from hypothesis import strategies as st
from scipy import sparse

from askwell.data.pool import as_pool
from askwell.seeds import rng_for
from askwell.targets import as_targets, draw, given, is_turn
from askwell.targets.drawing import MOST


def test_without_targets_every_item_is_as_likely_as_any_other():
    first = [draw(as_pool(np.zeros((10, 1))), as_targets(None), seed=seed).positions[0] for seed in range(2000)]
    counts = np.bincount(first, minlength=10)
    assert abs(counts - 200).max() < 5 * np.sqrt(200)
    drawn = draw(as_pool(np.zeros((10, 1))), as_targets(None), seed=3)
    assert sorted(drawn.positions) == list(range(10))
    assert (drawn.of, drawn.probability(4)) == ("pool", 0.1)


def test_the_order_does_not_depend_on_how_a_large_pool_is_cut(monkeypatch):
    pool = as_pool(np.zeros((5000, 1)))
    whole = draw(pool, as_targets(None), seed=1).positions
    assert len(whole) == MOST
    monkeypatch.setattr("askwell.targets.drawing.KEYS", 700)
    assert (draw(pool, as_targets(None), seed=1).positions == whole).all()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_targets_that_are_in_the_pool_stand_for_themselves(kind, monkeypatch):
    monkeypatch.setattr("askwell.targets.drawing.CELLS", 500)  # the pool is read in several parts
    x = rng_for(0, 0, "drawing").normal(size=(300, 4)).round(2)
    make = sparse.csr_matrix if kind == "sparse" else np.asarray
    drawn = draw(as_pool(make(x)), as_targets(make(x[40:60])), seed=0)
    assert drawn.of == "targets"
    assert sorted(drawn.positions) == list(range(40, 60))


def test_other_targets_are_stood_for_by_the_nearest_items_by_a_slow_search():
    rng = rng_for(1, 0, "drawing")
    x, targets = rng.normal(size=(200, 3)) * [1, 10, 100], rng.normal(size=(50, 3)) * [1, 10, 100] + [2, 0, 0]
    drawn = draw(as_pool(x), as_targets(targets), seed=0)
    distances = (((targets[:, None] - x[None]) / x.std(axis=0)) ** 2).sum(axis=-1)
    assert drawn.of == "nearest"
    assert sorted(drawn.positions) == sorted(distances.argmin(axis=1))
    position = int(drawn.positions[0])
    assert drawn.probability(position) == pytest.approx((distances.argmin(axis=1) == position).mean())


def test_targets_are_drawn_by_their_weights():
    x = np.arange(4.0)[:, None]
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    first = [draw(as_pool(x), given(x, weights=weights), seed=seed).positions[0] for seed in range(3000)]
    assert np.bincount(first, minlength=4) / 3000 == pytest.approx(weights, abs=0.03)


def test_a_target_of_great_weight_is_drawn_again():
    """All are asked about in the end, and still count by their weights: a sample of all would have lost them."""
    x, weights = np.arange(4.0)[:, None], np.array([0.1, 0.2, 0.3, 0.4])
    drawn = draw(as_pool(x), given(x, weights=weights), seed=0)
    counts = np.array([drawn.sample(range(4))[position] for position in range(4)])
    assert counts / counts.sum() == pytest.approx(weights, abs=0.03)
    assert [drawn.probability(position) for position in range(4)] == pytest.approx(weights)


def test_the_probability_of_an_item_is_that_of_the_targets_it_stands_for(monkeypatch):
    pool = as_pool(np.array([[0.0], [10.0], [99.0]]))
    targets = given(np.array([[1.0], [2.0], [9.0]]), weights=np.array([0.2, 0.3, 0.5]))
    drawn = draw(pool, targets, seed=0)
    assert [drawn.probability(position) for position in range(3)] == pytest.approx([0.5, 0.5, 0.0])
    monkeypatch.setattr("askwell.targets.drawing.KEYS", 700)
    assert draw(as_pool(np.zeros((5000, 1))), as_targets(None), seed=1).probability(7) == 1 / 5000


@pytest.mark.parametrize("weighted", [False, True])
def test_more_targets_than_draws(weighted, monkeypatch):
    monkeypatch.setattr("askwell.targets.drawing.LEAST", 50)
    monkeypatch.setattr("askwell.targets.drawing.MOST", 50)
    x = np.arange(400.0)[:, None]
    weights = np.r_[np.full(200, 1.0), np.full(200, 3.0)]
    drawn = draw(as_pool(x), given(x, weights=weights) if weighted else as_targets(x), seed=2)
    assert (len(drawn.positions), drawn.of) == (50, "targets")
    assert abs(np.mean(drawn.positions >= 200) - (0.75 if weighted else 0.5)) < 0.2
    assert sum(drawn.probability(position) for position in {*drawn.positions.tolist()}) == pytest.approx(1)


def test_without_numbers_the_pool_is_drawn_from():
    assert draw(as_pool(["a text", "another"]), as_targets(["a third"]), seed=0).of == "pool"
    assert draw(as_pool(np.zeros((5, 2))), as_targets(np.zeros((5, 3))), seed=0).of == "pool"


@cases(st.sets(st.integers(0, 29)), st.sets(st.integers(0, 29)), st.integers(0, 5))
def test_the_sample_is_the_labelled_head_of_the_order(labelled, skipped, seed):
    drawn = draw(as_pool(np.zeros((30, 1))), as_targets(None), seed=seed)
    expected = []
    for position in drawn.positions.tolist():
        if position in labelled:
            expected.append(position)
        elif position not in skipped:
            break
    assert list(drawn.sample(labelled, skipped)) == expected
    known = [position for position in drawn.positions.tolist() if position in labelled]
    for least in (0, 3, 30):
        assert drawn.head(labelled, least=least) == {*drawn.sample(labelled), *known[:least]}


def test_an_item_that_stands_for_several_targets_counts_as_often():
    x = np.array([[0.0], [10.0]])
    drawn = draw(as_pool(x), as_targets(np.array([[1.0], [2.0], [9.0]])), seed=0)
    assert drawn.sample({0, 1}) == {0: 2, 1: 1}


@pytest.mark.parametrize("share", [0.1, 0.2, 0.25, 0.5])
def test_the_share_is_kept_from_the_first_question_on(share):
    drawn, turns = 0, []
    for asked in range(400):
        turns.append(is_turn(asked, drawn, share=share))
        drawn += turns[-1]
        assert drawn == int(share * (asked + 1) + 1e-9)
    assert is_turn(0, 0, share=0.0) is False


def test_those_that_are_behind_catch_up_and_no_faster_than_twice():
    drawn, turns = 0, []
    for asked in range(100, 200):
        turns.append(is_turn(asked, drawn, share=0.2))
        drawn += turns[-1]
    assert sum(turns[:50]) == 20
    assert drawn == 40
    assert max(len(run) for run in "".join("x" if turn else " " for turn in turns).split()) == 1
