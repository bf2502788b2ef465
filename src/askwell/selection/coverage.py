"""Batches that spread out over the features, whatever the model believes or, for BADGE, how unsure it is there.

k-centre (Sener and Savarese 2018), TypiClust (Hacohen et al. 2022) and ProbCover (Yehuda et al. 2022) cover the pool,
good before the model knows much. Distances are Euclidean: scale the features as for nearest neighbours, best are
embeddings of unit length. Whatever was asked before (`labelled`) counts as covered. No scores, beliefs or targets are
looked at.

BADGE (Ash et al. 2020) takes gradients that are large and point different ways, by the seeding of k-means++. If the
label of x were the class the model believes in, the gradient of the log loss by the last layer of a net would be
(p(y|x) - [y = argmax p]) x' for features x: large where the model is unsure, and pointing along the features.
"""

from collections.abc import Callable, Sequence

import numpy as np

from askwell.arrays import spans
from askwell.selection.candidates import Candidates, beliefs, features

__all__ = ["badge", "kcentre", "kmeans", "probcover", "pure_radius", "spread_out", "typiclust"]

ENTRIES = 1 << 21  # of a table of distances at a time
ROUNDS = 50  # of Lloyd's algorithm at most
NEIGHBOURS = 20  # whose mean distance says how typical a point is
SMALL = 5  # points: a cluster of fewer is left for last
IMPURE = 0.05  # the share of balls that may hold points of two clusters
JUDGED = 2000  # points at most by which the radius is found
CLUSTERS = 10  # for the radius, if nobody says how many classes there are
SAME = 1e-12  # of the squared lengths: a squared distance below it is rounding


def kcentre(candidates: Candidates, size: int, /, *, rng: np.random.Generator) -> np.ndarray:
    """Greedy k-centre: each choice is the farthest from all chosen and labelled; the first of all is nearest the mean.

    The largest distance from any point to the nearest centre is at most twice the smallest possible. Draws nothing.

    >>> kcentre(Candidates([0.0] * 4, x=[[0.0], [1.0], [9.0], [10.0]], labelled=[[0.0]]), 2, rng=None)
    array([3, 1])
    """
    x, labelled = _centred(candidates, "kcentre")
    nearest = np.full(len(x), np.inf)
    for one in labelled:
        nearest = np.minimum(nearest, _away(x, one))
    return _farthest(x, nearest, [], size)


def typiclust(
    candidates: Candidates, size: int, /, *, rng: np.random.Generator, most_clusters: int = 500
) -> np.ndarray:
    """The most typical point of the largest cluster that has no label yet, then of the next largest, and so on.

    Clusters by k-means of candidates and labelled together, as many as there will be labels (at most `most_clusters`).
    Typical is what has the smallest mean distance to its 20 nearest neighbours in the cluster. Clusters of fewer than 5
    come last.

    >>> from askwell.seeds import rng_for
    >>> x = [[0.0], [0.1], [0.2], [0.3], [0.4], [9.0], [9.1], [9.2], [9.3], [9.4]]
    >>> typiclust(Candidates([0.0] * 10, x=x, labelled=[[0.15]]), 1, rng=rng_for(0, 0, "batch"))
    array([7])
    """
    x, labelled = _centred(candidates, "typiclust")
    both = np.concatenate([x, labelled])
    count = min(len(labelled) + size, most_clusters, len(both))
    cluster = kmeans(both, count, rng=rng)
    asked = np.bincount(cluster[len(x) :], minlength=count)
    whole = np.bincount(cluster, minlength=count)
    left = [list[int]() for _ in range(count)]
    for number in np.unique(cluster[: len(x)]):
        members = np.flatnonzero(cluster[: len(x)] == number)
        rank = np.argsort(_crowding(x[members], both[cluster == number]), kind="stable")
        left[number] = members[rank[:size]].tolist()
    chosen: list[int] = []
    while len(chosen) < size:
        open_ = [number for number in range(count) if left[number]]
        best = min(open_, key=lambda number: (asked[number], whole[number] < SMALL, -whole[number], number))
        chosen.append(left[best].pop(0))
        asked[best] += 1
    return np.array(chosen, dtype=np.intp)


def probcover(
    candidates: Candidates,
    size: int,
    /,
    *,
    rng: np.random.Generator,
    radius: float | None = None,
    clusters: int | None = None,
) -> np.ndarray:
    """Greedy cover by balls: each choice is the one whose ball holds most points that no chosen or labelled ball holds.

    A ball is all that is nearer than the radius. `radius` None is `pure_radius` with as many clusters as `clusters`
    says, else as there are classes, ten if nobody knows. Where all is covered, the farthest from all
    chosen and labelled is next (k-centre). Equal counts in order of position.

    >>> x = [[0.0], [1.0], [2.0], [8.0], [9.0], [20.0]]
    >>> probcover(Candidates([0.0] * 6, x=x), 3, rng=None, radius=1.5)
    array([1, 3, 5])
    """
    x, labelled = _centred(candidates, "probcover")
    if radius is None:
        classes = 1 if candidates.probs is None else np.shape(candidates.probs)[2]
        radius = pure_radius(x, clusters or (classes if classes > 1 else CLUSTERS), rng=rng)
    if not (np.isfinite(radius) and radius >= 0):
        raise ValueError(f"radius must be a distance, finite and not negative, but it is {radius}.")
    nearest = np.full(len(x), np.inf)
    for one in labelled:
        nearest = np.minimum(nearest, _away(x, one))
    reach = radius**2 * (1 - 1e-9)  # the point that the radius was measured to is outside, whatever the rounding
    bare = nearest >= reach  # not yet in any ball
    gains = _within(x, x[bare], reach)
    chosen: list[int] = []
    while len(chosen) < size:
        gains[chosen] = 0
        best = int(gains.argmax())
        if gains[best] <= 0:
            break
        chosen.append(best)
        distance = _away(x, x[best])
        nearest = np.minimum(nearest, distance)
        new = bare & (distance < reach)
        gains = gains - _within(x, x[new], reach)  # every point is covered once, so all of this is n^2 distances
        bare = bare & ~new
    return _farthest(x, nearest, chosen, size)


def pure_radius(x: np.ndarray, clusters: int, *, rng: np.random.Generator) -> float:
    """The largest radius at which 95 % of the balls around points hold points of one k-means cluster only.

    A ball is pure up to the distance of the nearest point of another cluster, so this is the 5 % quantile of these
    distances (over 2,000 points at most, drawn).

    >>> from askwell.seeds import rng_for
    >>> round(pure_radius(np.array([[0.0], [0.0], [5.0], [5.0]]), 2, rng=rng_for(0, 0, "radius")), 6)
    5.0
    """
    cluster = kmeans(x, min(clusters, len(x)), rng=rng)
    judged = np.arange(len(x)) if len(x) <= JUDGED else np.sort(rng.choice(len(x), JUDGED, replace=False))
    limit = np.full(len(judged), np.inf)
    for span in _rows(len(judged), len(x)):
        squares = _squares(x[judged[span]], x)
        squares[cluster[judged[span]][:, None] == cluster] = np.inf
        limit[span] = squares.min(axis=1)
    if np.isinf(limit).all():  # one cluster: one ball
        return float(np.sqrt(_squares(x[judged[:1]], x).max(initial=0)))
    return float(np.sqrt(np.quantile(limit, IMPURE, method="lower")))


def kmeans(x: np.ndarray, clusters: int, *, rng: np.random.Generator) -> np.ndarray:
    """The cluster of each point `x [n, d]`, as [n]: Lloyd's algorithm after the seeding of k-means++.

    >>> from askwell.seeds import rng_for
    >>> found = kmeans(np.array([[0.0], [9.0], [0.1], [9.1]]), 2, rng=rng_for(0, 0, "clusters"))
    >>> found[0] == found[2] != found[1] == found[3]
    np.True_
    """
    first = [int(rng.integers(len(x)))]
    centres = x[spread_out(lambda i: _away(x, x[i]), np.full(len(x), np.inf), clusters, first=first, rng=rng)]
    cluster = _nearest(x, centres)
    for _ in range(ROUNDS):
        count = np.bincount(cluster, minlength=clusters)
        sums = np.zeros_like(centres)
        np.add.at(sums, cluster, x)
        centres = np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], centres)
        before, cluster = cluster, _nearest(x, centres)
        if np.array_equal(before, cluster):
            break
    return cluster


def badge(candidates: Candidates, size: int, /, *, rng: np.random.Generator) -> np.ndarray:
    """The largest gradient, then draws in proportion to the squared distance from the nearest gradient chosen.

    Gradients of the mean prediction over draws, times the features `x` (best those of a model's last layer). Without
    features the first factor stands alone, and pending questions count as chosen. No scores or targets are looked at.

    >>> from askwell.seeds import rng_for
    >>> sure, left, right = [[1.0, 0.0]], [[0.6, 0.4]], [[0.4, 0.6]]
    >>> badge(Candidates([0.0] * 4, np.array([sure, left, left, right])), 2, rng=rng_for(0, 0, "batch")).tolist()
    [1, 3]
    """
    error = _error(beliefs(candidates, "badge", of="probs"))  # [n, c]
    x = np.ones((len(error), 1)) if candidates.x is None else features(candidates, "badge")[0]
    length = (error**2).sum(axis=1) * (x**2).sum(axis=1)

    def away(from_error: np.ndarray, from_x: np.ndarray) -> np.ndarray:
        """|e x' - e0 x0'|^2 without the outer products, which would be [n, c*d]."""
        both = length + (from_error**2).sum() * (from_x**2).sum()
        square = both - 2 * (error @ from_error) * (x @ from_x)
        return np.where(square > SAME * both, square, 0)

    nearest = np.full(len(error), np.inf)
    if candidates.x is None and candidates.pending is not None and len(candidates.pending):
        asked = _error(beliefs(candidates, "badge", of="pending"))
        nearest = np.min([away(one, np.ones(1)) for one in asked], axis=0)
    first = [int(length.argmax())] if len(length) and np.isinf(nearest).all() else []
    return spread_out(lambda i: away(error[i], x[i]), nearest, size, first=first[:size], rng=rng)


def _error(probs: np.ndarray) -> np.ndarray:
    """p(y|x) - [y = argmax p] of the mean prediction, as [n, c]."""
    mean = probs.mean(axis=1)
    error: np.ndarray = mean - np.eye(mean.shape[1])[mean.argmax(axis=1)]
    return error


def spread_out(
    away: Callable[[int], np.ndarray],
    nearest: np.ndarray,
    size: int,
    *,
    first: Sequence[int],
    rng: np.random.Generator,
) -> np.ndarray:
    """Seeding of k-means++: after the `first`, each in proportion to its squared distance from the nearest chosen.

    `away(i)` are the squared distances [n] of all from the i-th, `nearest` those from what is given already. Where all
    that are left lie on chosen ones, any of them.

    >>> from askwell.seeds import rng_for
    >>> x = np.array([0.0, 0.0, 5.0])
    >>> spread_out(lambda i: (x - x[i]) ** 2, np.full(3, np.inf), 2, first=[0], rng=rng_for(0, 0, "batch")).tolist()
    [0, 2]
    """
    chosen: list[int] = []
    free = np.ones(len(nearest), dtype=bool)
    while len(chosen) < size:
        if len(chosen) < len(first):
            best = first[len(chosen)]
        else:
            share = np.where(free, nearest, 0)
            share = share if share.sum() > 0 else free.astype(np.float64)
            best = int(rng.choice(len(share), p=share / share.sum()))
        chosen.append(best)
        free[best] = False
        nearest = np.minimum(nearest, away(best))
    return np.array(chosen, dtype=np.intp)


# ---- distances -----------------------------------------------------------------------------------------------------


def _centred(candidates: Candidates, what: str) -> tuple[np.ndarray, np.ndarray]:
    """The features, the candidates' mean taken off: far from the origin the products below would lose the distances."""
    x, labelled = features(candidates, what)
    centre = x.mean(axis=0)
    return x - centre, labelled - centre


def _farthest(x: np.ndarray, nearest: np.ndarray, chosen: list[int], size: int) -> np.ndarray:
    """The chosen and then the farthest from all, up to `size`; `nearest` are squared distances to what is covered."""
    chosen = list(chosen)
    while len(chosen) < size:
        apart = nearest if np.isfinite(nearest).all() else -_away(x, x.mean(axis=0))
        apart = apart.copy()
        apart[chosen] = -np.inf
        chosen.append(int(apart.argmax()))
        nearest = np.minimum(nearest, _away(x, x[chosen[-1]]))
    return np.array(chosen, dtype=np.intp)


def _away(x: np.ndarray, one: np.ndarray) -> np.ndarray:
    """Squared distances of `x [n, d]` from one point, as [n]."""
    apart = x - one
    squares: np.ndarray = np.einsum("nd,nd->n", apart, apart)
    return squares


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances [n, m] by one product; those that are rounding are 0."""
    lengths = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)
    squares = lengths - 2 * (a @ b.T)
    return np.where(squares > 1e-13 * lengths, squares, 0)


def _rows(n: int, m: int) -> list[slice]:
    return list(spans(n, max(1, ENTRIES // max(1, m))))


def _nearest(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The nearest centre of each point, as [n]."""
    found = [_squares(x[span], centres).argmin(axis=1) for span in _rows(len(x), len(centres))]
    return np.concatenate([np.empty(0, dtype=np.intp), *found])


def _within(x: np.ndarray, points: np.ndarray, reach: float) -> np.ndarray:
    """How many of the points are nearer than the squared distance `reach` to each `x`, as [n]."""
    counts = [(_squares(x[span], points) < reach).sum(axis=1) for span in _rows(len(x), len(points))]
    return np.concatenate([np.empty(0, dtype=np.intp), *counts])


def _crowding(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The mean distance of each point to its nearest neighbours among others (itself one of them), as [n]."""
    most = min(NEIGHBOURS, len(others) - 1)
    found = []
    for span in _rows(len(points), len(others)):
        squares = _squares(points[span], others)
        closest = np.partition(squares, most, axis=1)[:, : most + 1]
        found.append(np.sqrt(closest).sum(axis=1) / max(most, 1))  # its own distance is 0
    return np.concatenate(found)
