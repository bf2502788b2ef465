"""Coverage: k-centre and ball cover against loops, k-means against its own definition, typical points of clusters."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posteriors import PROPERTY, pool_and_targets
from scipy.stats import chisquare

from askwell.seeds import rng_for
from askwell.selection import coverage
from askwell.selection.candidates import Candidates
from askwell.selection.coverage import badge, kcentre, kmeans, probcover, pure_radius, spread_out, typiclust


def bare(x, labelled=None, **options):
    return Candidates(np.zeros(len(x)), x=x, labelled=labelled, **options)


def distance(a, b):
    return float(np.sqrt(((np.asarray(a) - np.asarray(b)) ** 2).sum()))


def blobs(sizes, *, seed=0, d=3, apart=20.0, spread=0.5):
    """Points [n, d] around far centres, and which centre each belongs to."""
    rng = rng_for(seed, 0, "blobs")
    group = np.repeat(np.arange(len(sizes)), sizes)
    centres = apart * np.array(list(itertools.product([0, 1, 2], repeat=d)))[: len(sizes)]
    return centres[group] + spread * rng.normal(size=(len(group), d)), group


# ---- k-centre ------------------------------------------------------------------------------------------------------


@settings(PROPERTY, max_examples=25)
@given(st.integers(2, 12), st.integers(0, 3), st.integers(0, 10**6))
def test_each_centre_is_the_farthest(n, labelled, seed):
    rng = rng_for(seed, 0, "centres")
    x, asked = rng.integers(0, 6, (n, 2)).astype(float), rng.integers(0, 6, (labelled, 2)).astype(float)
    chosen = kcentre(bare(x, asked), n, rng=None).tolist()
    assert sorted(chosen) == list(range(n))
    for step, best in enumerate(chosen):
        covered = [*asked, *x[chosen[:step]]]
        left = [i for i in range(n) if i not in chosen[:step]]
        if covered:
            far = {i: min(distance(x[i], one) for one in covered) for i in left}
            assert far[best] == pytest.approx(max(far.values()))
        else:
            near = {i: distance(x[i], x.mean(0)) for i in left}
            assert near[best] == pytest.approx(min(near.values()))


def test_labelled_points_are_never_chosen_again():
    """The authors' code gives a labelled point as its first choice."""
    x = np.array([[0.0], [5.0], [10.0]])
    assert kcentre(bare(x, [[10.0]]), 3, rng=None).tolist() == [0, 1, 2]


# ---- ball cover ----------------------------------------------------------------------------------------------------


def slow_cover(x, labelled, size, radius):
    chosen = []
    for _ in range(size):
        covered = [*labelled, *x[chosen]]
        left = [j for j in range(len(x)) if all(distance(x[j], one) >= radius for one in covered)]
        counts = [0 if i in chosen else sum(distance(x[i], x[j]) < radius for j in left) for i in range(len(x))]
        if max(counts) == 0:
            break
        chosen.append(int(np.argmax(counts)))
    return chosen


@settings(PROPERTY, max_examples=25)
@given(st.integers(1, 15), st.integers(0, 2), st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 1.5, 2.0, 4.0]))
def test_balls_by_loops(n, labelled, seed, radius):
    rng = rng_for(seed, 0, "balls")
    x, asked = rng.integers(0, 6, (n, 2)).astype(float), rng.integers(0, 6, (labelled, 2)).astype(float)
    expected = slow_cover(x, asked, n, radius)
    found = probcover(bare(x, asked), n, rng=None, radius=radius).tolist()
    assert found[: len(expected)] == expected
    assert sorted(found) == list(range(n))
    if len(expected) + 1 < n and (expected or labelled):  # all is covered: then the farthest
        covered = [*asked, *x[expected]]
        far = {i: min(distance(x[i], one) for one in covered) for i in range(n) if i not in expected}
        assert far[found[len(expected)]] == pytest.approx(max(far.values()))


def test_the_radius_is_the_largest_that_keeps_balls_pure():
    x, group = blobs([30, 30, 30])
    nearest = [
        min(distance(a, b) for b, other in zip(x, group, strict=True) if other != g)
        for a, g in zip(x, group, strict=True)
    ]
    radius = pure_radius(x, 3, rng=rng_for(0, 0, "radius"))
    assert radius == pytest.approx(np.quantile(nearest, 0.05, method="lower"))
    assert np.mean(np.array(nearest) >= radius) >= 0.95
    assert pure_radius(x, 1, rng=rng_for(0, 0, "radius")) > 20  # one cluster: one ball


def test_the_radius_from_some_of_many(monkeypatch):
    x, _ = blobs([200, 200, 200])
    whole = pure_radius(x, 3, rng=rng_for(0, 0, "radius"))
    monkeypatch.setattr(coverage, "JUDGED", 150)
    assert pure_radius(x, 3, rng=rng_for(0, 0, "radius")) == pytest.approx(whole, rel=0.05)


def test_each_cluster_gets_a_ball():
    x, group = blobs([40, 30, 20, 10])
    chosen = probcover(bare(x, x[-1:]), 3, rng=rng_for(0, 0, "cover"), clusters=4)
    assert group[chosen].tolist() == [0, 1, 2]  # the fourth is labelled
    classes = Candidates(np.zeros(100), np.full((100, 1, 4), 0.25), x=x)
    assert group[probcover(classes, 4, rng=rng_for(0, 0, "cover"))].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="radius must be a distance, finite and not negative, but it is -1"):
        probcover(bare(x), 1, rng=None, radius=-1)


# ---- clusters ------------------------------------------------------------------------------------------------------


def test_kmeans_finds_blobs_and_keeps_its_definition():
    x, group = blobs([30, 20, 40, 10])
    found = kmeans(x, 4, rng=rng_for(0, 0, "kmeans"))
    pairs = {*zip(found.tolist(), group.tolist(), strict=True)}
    assert len(pairs) == 4
    loose = rng_for(1, 0, "loose").normal(size=(200, 2))
    found = kmeans(loose, 5, rng=rng_for(0, 0, "kmeans"))
    centres = np.array([loose[found == c].mean(0) for c in range(5)])
    assert [int(np.argmin([distance(p, c) for c in centres])) for p in loose] == found.tolist()


def test_kmeans_of_fewer_places_than_clusters():
    x = np.array([[0.0], [0.0], [1.0], [1.0]])
    found = kmeans(x, 4, rng=rng_for(0, 0, "kmeans"))
    assert found[0] == found[1] != found[2] == found[3]


def test_far_from_the_origin_distances_are_kept():
    x, _ = blobs([30, 20, 10])
    near = [typiclust(bare(a), 3, rng=rng_for(0, 0, "t")).tolist() for a in (x, x + 1e7)]
    assert near[0] == near[1]
    cover = [probcover(bare(a), 3, rng=rng_for(0, 0, "t"), clusters=3).tolist() for a in (x, x + 1e7)]
    assert cover[0] == cover[1]


def test_typical_points_of_the_largest_clusters_without_labels():
    x, group = blobs([40, 30, 25, 3])
    chosen = typiclust(bare(x, x[:1] + 0.1), 3, rng=rng_for(1, 0, "typical"))
    assert group[chosen].tolist() == [1, 2, 3]  # a label in the first; the smallest, of fewer than five, last
    for place in chosen[:2]:
        members = np.flatnonzero(group == group[place])
        typical = {i: np.mean(sorted(distance(x[i], x[j]) for j in members if j != i)[:20]) for i in members}
        assert place == min(typical, key=typical.get)


def test_when_every_cluster_has_a_label_the_least_labelled_comes_first():
    x, group = blobs([30, 20])
    asked = np.concatenate([x[:2], x[30:31]])
    chosen = typiclust(bare(x, asked), 2, rng=rng_for(0, 0, "again"), most_clusters=2)
    assert group[chosen].tolist() == [1, 0]


@pytest.mark.parametrize("entries", [50, 1 << 21])
def test_tables_are_made_in_parts(entries, monkeypatch):
    x, group = blobs([12, 9, 7])
    monkeypatch.setattr(coverage, "ENTRIES", entries)
    assert group[typiclust(bare(x), 3, rng=rng_for(0, 0, "parts"))].tolist() == [0, 1, 2]
    assert group[probcover(bare(x), 3, rng=rng_for(0, 0, "parts"), clusters=3)].tolist() == [0, 1, 2]


# ---- BADGE: distances against outer products written out, draws against their exact probabilities ----


def gradients(probs, x=None):
    """By loops: (p - one-hot of the likeliest) times every feature, a row each."""
    rows = []
    for i, belief in enumerate(probs):
        p = belief.mean(0)
        error = [p[y] - (y == p.argmax()) for y in range(len(p))]
        rows.append([e * f for e in error for f in ([1.0] if x is None else x[i])])
    return np.array(rows)


def squares(rows, one):
    return ((rows - one) ** 2).sum(1)


@pytest.mark.parametrize("featured", [False, True])
def test_the_first_is_the_largest_gradient_and_the_second_a_draw(featured):
    probs, _ = pool_and_targets("soft", 6, 1, 5, 3)
    x = rng_for(0, 0, "x").normal(size=(6, 2)) if featured else None
    rows, times = gradients(probs, x), 3000
    pairs = np.array([badge(Candidates(np.zeros(6), probs, x=x), 2, rng=rng_for(s, 0, "b")) for s in range(times)])
    first = int((rows**2).sum(1).argmax())
    assert (pairs[:, 0] == first).all()
    share = squares(rows, rows[first])
    found = np.bincount(pairs[:, 1], minlength=6)
    assert found[first] == 0
    others = np.arange(6) != first
    assert chisquare(found[others], times * share[others] / share.sum()).pvalue > 1e-3


def test_the_third_goes_by_the_nearest_of_two():
    x = np.array([0.0, 1.0, 4.0, 10.0])
    drawn = [
        spread_out(lambda i: (x - x[i]) ** 2, np.full(4, np.inf), 3, first=[0, 3], rng=rng_for(s, 0, "d"))[2]
        for s in range(2000)
    ]
    assert chisquare(np.bincount(drawn)[1:3], 2000 * np.array([1, 16]) / 17).pvalue > 1e-3


def test_copies_are_not_drawn_while_anything_else_is_left():
    probs, _ = pool_and_targets("soft", 4, 1, 5, 3)
    x = rng_for(0, 0, "x").normal(size=(4, 3)) * 1e3
    for seed in range(40):
        given = Candidates(np.zeros(12), np.tile(probs, (3, 1, 1)), x=np.tile(x, (3, 1)))
        chosen = badge(given, 6, rng=rng_for(seed, 0, "copies"))
        assert sorted(chosen[:4] % 4) == [0, 1, 2, 3]
        assert len({*chosen.tolist()}) == 6


def test_pending_questions_count_as_chosen():
    probs, _ = pool_and_targets("soft", 5, 1, 5, 3)
    rows, times = gradients(probs), 2000
    drawn = [
        badge(Candidates(np.zeros(4), probs[:4], pending=probs[4:]), 1, rng=rng_for(s, 0, "p"))[0] for s in range(times)
    ]
    share = squares(rows[:4], rows[4])
    assert chisquare(np.bincount(drawn, minlength=4), times * share / share.sum()).pvalue > 1e-3
    same = Candidates(np.zeros(2), probs[:2], pending=probs[:2])  # nothing new to choose from: any
    assert sorted(badge(same, 2, rng=rng_for(0, 0, "p"))) == [0, 1]


def test_sure_candidates_come_last():
    sure, unsure = [[1.0, 0.0]], [[0.7, 0.3]]
    for seed in range(20):
        chosen = badge(Candidates(np.zeros(4), np.array([sure, unsure, sure, sure])), 2, rng=rng_for(seed, 0, "sure"))
        assert chosen[0] == 1
