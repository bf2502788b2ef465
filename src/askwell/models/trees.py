"""The trees of a forest as one: grown together, packed, walked in one pass without a check per tree.

Growing and walking are compiled (`tree_kernels.py`). Until that is ready NumPy does both, with the same result.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from askwell.arrays import spans, threads
from askwell.compiling import ready
from askwell.models.plain_growing import Levels, grown_in_numpy, seconds

__all__ = ["Grown", "Labels", "Trees", "grown", "leaf_rows", "leaf_values", "pack_trees"]

SECONDS = 2e-8  # that NumPy takes for an input to go from a node to the next
NODES = 1 << 16  # of trees grown at a time, at least
PART = 2**12  # inputs whose leaves are looked up together
SIFTED = 500  # nodes of a tree up to which all inputs at each node take less than each input from node to node
WORTH = 20_000  # samples in all trees together: fewer are not worth a thread


class Trees(NamedTuple):
    """The nodes of k trees, one after the other.

    A node's children stand next to each other, the right one after the left. A leaf's left child is itself and its
    threshold is infinite, so a walk that has arrived stays. What leaves say are rows of a table; where they are class
    probabilities its first c rows are sure of one class each.
    """

    roots: np.ndarray  # [k]
    depths: np.ndarray  # [k]
    feature: np.ndarray  # [nodes]
    threshold: np.ndarray  # [nodes]  float32: go left where x <= threshold
    left: np.ndarray  # [nodes]  uint32
    value: np.ndarray  # [nodes]  uint32: a leaf's row of `values`
    missing_right: np.ndarray  # [nodes]  whether a missing value goes right
    values: np.ndarray  # [rows, c]  float32: class probabilities (or the mean and variance of a regression leaf)

    @property
    def shape(self) -> tuple[int, int]:
        """(k, c)."""
        return len(self.roots), self.values.shape[1]

    @property
    def votes(self) -> bool:
        """Whether all leaves are sure of a class, where they are class probabilities."""
        rows, c = self.values.shape
        return bool(rows == c)


# ---- growing ---------------------------------------------------------------------------------------------------------


class Labels(NamedTuple):
    """What trees learn: classes, or numbers if there are no classes."""

    y: np.ndarray  # [n]  int64 class numbers; 0 for numbers
    t: np.ndarray  # [n]  float64 numbers; 1 for classes
    weights: np.ndarray  # [n]  float64
    classes: int

    @staticmethod
    def of_classes(codes: np.ndarray, classes: int, weights: np.ndarray) -> "Labels":
        """Class numbers `[n]`, and what each example counts."""
        return Labels(codes.astype(np.int64), np.ones(len(codes)), weights.astype(np.float64), classes)

    @staticmethod
    def of_numbers(y: np.ndarray) -> "Labels":
        """Numbers `[n]`, best about zero."""
        return Labels(np.zeros(len(y), np.int64), y.astype(np.float64), np.ones(len(y)), 0)


class Grown(NamedTuple):
    """Trees, and how often each example was drawn for each."""

    trees: Trees
    bags: np.ndarray  # [k, n], or empty


def grown(
    x: np.ndarray,
    labels: Labels,
    *,
    seeds: np.ndarray,
    look: int,
    leaf: int = 1,
    deepest: int | None = None,
    bootstrap: bool = True,
    bags: bool = False,
) -> Grown:
    """A tree for each of `seeds [k]`, uint64, from inputs `x [n, d]`, float32, where NaN is a missing value.

    Each node takes the best cut of `look` features drawn there (scikit-learn's rules: those that are constant do not
    count until there is one that is not), by Gini's impurity or the variance; leaves have `leaf` examples or more.
    A bootstrap sample draws examples in proportion to their weights.

    >>> x, y = np.arange(6, dtype=np.float32)[:, None], np.array([0, 0, 0, 1, 1, 1])
    >>> seeds = np.arange(3, dtype=np.uint64)
    >>> trees = grown(x, Labels.of_classes(y, 2, np.ones(6)), seeds=seeds, look=1, bootstrap=False).trees
    >>> leaf_rows(trees, x).T
    array([[0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1],
           [0, 0, 0, 1, 1, 1]], dtype=uint8)
    """
    n, k = len(x), len(seeds)
    ranked, columns = _ranked(x), labels.classes or 2
    shares = np.round(np.cumsum(labels.weights) / labels.weights.sum() * 2**32).astype(np.int64)
    fixed = (labels.classes, look, leaf, n if deepest is None else deepest, shares if bootstrap else shares[:0])
    plain = bootstrap and labels.classes > 0 and not bags and not np.isnan(x).any()
    drawn = np.zeros((k if bags else 0, n), np.uint16)
    if not ready(seconds(n, k, look, labels.classes)) and plain:
        options = {"look": look, "leaf": leaf, "deepest": fixed[3], "shares": shares, "seeds": seeds}
        return Grown(_of_levels(grown_in_numpy(ranked[0], labels.y, labels.classes, **options), ranked[2], k), drawn)
    from askwell.models.tree_kernels import grow

    def some(span: slice) -> list[tuple[np.ndarray, ...]]:
        parts, start = [], span.start
        while start < span.stop:
            room = max(NODES, 2 * n)
            nodes = [np.empty(room, kind) for kind in (np.uint32, np.float64, np.uint32, np.uint32, np.bool_)]
            values = np.zeros((labels.classes + max(n, NODES // 8), columns))
            roots, depths = np.empty(span.stop - start, np.int64), np.empty(span.stop - start, np.int32)
            done, used, rows = grow(
                *ranked, *labels[:3], *fixed, seeds[start : span.stop], *nodes, values, labels.classes, roots, depths,
                drawn[start : span.stop],
            )  # fmt: skip
            own = values[labels.classes : rows].copy()
            parts.append((*(each[:used].copy() for each in nodes), own, roots[:done], depths[:done]))
            start += done
        return parts

    workers = threads() if n * k > WORTH else 1
    jobs = list(spans(k, -(-k // workers)))
    if len(jobs) == 1:
        return Grown(_joined(some(jobs[0]), labels.classes), drawn)
    with ThreadPoolExecutor(workers) as pool:
        return Grown(_joined(list(chain.from_iterable(pool.map(some, jobs))), labels.classes), drawn)


def _ranked(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(ranks `[d, n]`, how many different values a feature has `[d]`, these in order `[d, n]`, the inputs in order).

    A missing value has the rank after all others. The inputs in order are `[2, d, n]`: which they are, and the place of
    each.
    """
    n, d = x.shape
    order = np.argsort(x, axis=0, kind="stable").T  # missing values last  [d, n]
    ordered = np.take_along_axis(x.T, order, axis=1)
    there = ~np.isnan(ordered)
    new = np.ones((d, n), bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    rank = np.cumsum(new & there, axis=1) - 1
    levels = rank[:, -1] + 1
    rank = np.where(there, rank, levels[:, None])
    codes = np.empty((d, n), np.uint16 if n < 2**16 else np.uint32)
    np.put_along_axis(codes, order, rank.astype(codes.dtype), axis=1)
    numbers = np.zeros((d, n), np.float32)
    rows, first = np.nonzero(new & there)
    numbers[rows, rank[rows, first]] = ordered[rows, first]
    places = np.stack([order, np.empty_like(order)]).astype(codes.dtype)
    np.put_along_axis(places[1], order, np.arange(n, dtype=codes.dtype)[None], axis=1)
    return codes, levels.astype(np.int64), numbers, places


def _joined(parts: list[tuple[np.ndarray, ...]], classes: int) -> Trees:
    """Parts that were grown apart, as one forest: nodes and rows are counted on."""
    feature, threshold, left, value, missing_right, values, roots, depths = map(list, zip(*parts, strict=True))
    node = np.repeat(np.cumsum([0, *map(len, feature[:-1])]), [*map(len, feature)])
    tree = np.repeat(np.cumsum([0, *map(len, feature[:-1])]), [*map(len, roots)])
    row = np.repeat(np.cumsum([0, *map(len, values[:-1])]), [*map(len, feature)])
    says = np.concatenate(value).astype(np.int64)
    table = [np.eye(classes, classes or 2), *values]
    return Trees(
        (np.concatenate(roots) + tree).astype(np.uint32),
        np.concatenate(depths),
        np.concatenate(feature),
        _rounded(np.concatenate(threshold)),
        (np.concatenate(left) + node).astype(np.uint32),
        np.where(says < classes, says, says + row).astype(np.uint32),
        np.concatenate(missing_right),
        np.concatenate(table).astype(np.float32),
    )


def _of_levels(levels: Levels, numbers: np.ndarray, k: int) -> Trees:
    """What NumPy has grown, as if compiled."""
    leaf = levels.left == np.arange(len(levels.left))
    low, high = (numbers[levels.feature, np.maximum(rank, 0)].astype(np.float64) for rank in (levels.low, levels.high))
    middle = low / 2 + high / 2
    table, value = _rows(levels.counts / levels.counts.sum(axis=1, keepdims=True), ~leaf, True)
    return Trees(
        np.arange(k, dtype=np.uint32),
        levels.depths,
        levels.feature.astype(np.uint32),
        _rounded(np.where(leaf, np.inf, np.where(middle < high, middle, low))),
        levels.left.astype(np.uint32),
        value.astype(np.uint32),
        levels.missing_right,
        table,
    )


def _rounded(threshold: np.ndarray) -> np.ndarray:
    """Thresholds for float32 inputs; infinite ones stay.

    x <= threshold is the same question as x <= the largest float32 that is not above it.
    """
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded).astype(np.float32)


# ---- of scikit-learn -------------------------------------------------------------------------------------------------


def pack_trees(trees: list[Any], values: list[np.ndarray], *, probabilities: bool) -> Trees:
    """scikit-learn's trees with the values `[nodes, c]` of each one's nodes."""
    sizes = np.array([tree.node_count for tree in trees])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])  # the nodes of each tree

    def nodes(name: str) -> np.ndarray:
        return np.concatenate([getattr(tree, name) for tree in trees])

    base = np.repeat(first, sizes)
    children = np.stack([nodes("children_left"), nodes("children_right")], axis=1)
    inner = children[:, 0] >= 0
    # The root first, then the children of the tree's first inner node, of its second ...
    before: np.ndarray = np.cumsum(inner) - inner
    place = base.copy()
    pair = base + 1 + 2 * (before - before[base])
    place[(children + base[:, None])[inner]] = np.stack([pair, pair + 1], axis=1)[inner]
    table, value = _rows(np.concatenate(values), inner, probabilities)
    # A split into missing and there has an infinite threshold: nothing that is there is above the largest number.
    threshold = np.where(inner, np.minimum(_rounded(nodes("threshold")), np.finfo(np.float32).max), np.inf)

    def moved(each: np.ndarray, kind: Any) -> np.ndarray:
        out = np.empty(len(each), kind)
        out[place] = each
        return out

    return Trees(
        first.astype(np.uint32),
        np.array([tree.max_depth for tree in trees], np.int32),
        moved(np.where(inner, nodes("feature"), 0), np.uint32),
        moved(threshold, np.float32),
        moved(np.where(inner, pair, place), np.uint32),
        moved(value, np.uint32),
        moved(inner & (nodes("missing_go_to_left") == 0), np.bool_),
        table,
    )


def _rows(values: np.ndarray, inner: np.ndarray, probabilities: bool) -> tuple[np.ndarray, np.ndarray]:
    """The table of what leaves say, and the row of each node's `values [nodes, c]`."""
    sure = np.eye(values.shape[1] if probabilities else 0, values.shape[1], dtype=np.float32)
    own = ~inner if not probabilities else ~inner & (values.max(axis=1) < 1)
    row = np.where(inner, 0, values.argmax(axis=1) if probabilities else 0)
    row[own] = len(sure) + np.arange(own.sum())
    return np.concatenate([sure, values[own].astype(np.float32)]), row


# ---- walking ---------------------------------------------------------------------------------------------------------


def leaf_values(trees: Trees, x: np.ndarray, *, out: np.ndarray) -> None:
    """Write the values of the leaves that `x [n, features]`, float32, falls into, to `out [n, k, c]`, float32."""
    for span in spans(len(x), PART):
        rows = leaf_rows(trees, x[span])
        if ready(0.0):
            from askwell.models.tree_kernels import spread_leaves

            spread_leaves(rows, trees.values, out[span])
        else:
            np.take(trees.values, rows, axis=0, out=out[span])


def leaf_rows(trees: Trees, x: np.ndarray) -> np.ndarray:
    """The rows of `trees.values` that the leaves of `x [n, features]`, float32, have, `[n, k]`.

    A missing value, NaN, goes where the node says: the features are given twice, once with missing values below every
    threshold and once above, and a node looks at one or the other.
    """
    absent = np.isnan(x)
    if absent.any():
        feature = (trees.feature + trees.missing_right * np.uint32(x.shape[1])).astype(np.uint32)
        trees = trees._replace(feature=feature)
        x = np.concatenate([np.where(absent, np.float32(-np.inf), x), np.where(absent, np.float32(np.inf), x)], axis=1)
    x = np.ascontiguousarray(x, np.float32).view()
    x.flags.writeable = False  # so that numba compiles for one kind of array
    count = len(trees.values)
    out = np.empty(
        (len(x), len(trees.roots)), np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32
    )
    if not ready(SECONDS * len(x) * int(trees.depths.sum())):
        _walk(trees, x, out)
        return out
    from askwell.models.tree_kernels import WORD, sift, walk

    digits = max(1, (count - 1).bit_length()) if out.itemsize == 1 else 0
    parts = _parts(trees, digits) if len(x) >= WORD and len(trees.left) <= SIFTED * len(trees.roots) else None
    if parts is None:
        _each_part(len(x), lambda span: walk(x[span], *trees[:6], out[span]))
    else:
        turned = np.zeros((x.shape[1], -(-len(x) // WORD) * WORD), np.float32)
        turned[:, : len(x)] = x.T
        _each_part(len(x), lambda span: sift(turned, span.start, *parts[:3], *_scratch(parts[3], digits), out[span]))
    return out


def _parts(trees: Trees, digits: int) -> tuple[Any, ...] | None:
    """What `tree_kernels.sift` needs to know of the trees, and the most nodes of one; None where trees are mixed.

    Mixed are those that NumPy has grown, level by level.
    """
    nodes = len(trees.left)
    sizes: np.ndarray = np.diff(trees.roots.astype(np.int64), append=nodes)
    if (sizes < 1).any():
        return None
    base, number = np.repeat(trees.roots, sizes), np.arange(nodes, dtype=np.uint32)  # of each node its tree's root
    left, ends = trees.left - base, np.repeat(sizes, sizes)
    if (trees.left < base).any() or (left >= ends).any():
        return None
    is_leaf, local = trees.left == number, number - base
    inner = np.flatnonzero(~is_leaf)
    having = [is_leaf & (trees.value >> np.uint32(b) & np.uint32(1)).astype(bool) for b in range(digits)] or [is_leaf]
    some = [np.flatnonzero(which) for which in having]
    before = np.cumsum([0, *map(len, some)])
    bounds = np.append(trees.roots, nodes)
    first = [np.searchsorted(inner, bounds)] + [
        begun + np.searchsorted(which, bounds) for begun, which in zip(before, some, strict=False)
    ]
    leaf = np.concatenate(some)
    cuts = local[inner], left[inner], trees.feature[inner], trees.threshold[inner]
    return cuts, (local[leaf], trees.value[leaf]), np.stack(first), int(sizes.max())


def _scratch(nodes: int, digits: int) -> tuple[np.ndarray, ...]:
    from askwell.models.tree_kernels import WORD

    return np.empty(nodes, np.uint64), np.empty((digits, WORD), np.uint64), np.empty(WORD, np.uint8)


def _each_part(n: int, job: Any) -> None:
    """`job(span)` for all of n inputs, in threads."""
    from askwell.models.tree_kernels import ROWS, WORD

    workers = threads()
    if workers == 1 or n <= ROWS:
        job(slice(0, n))
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(job, spans(n, -(-max(ROWS, -(-n // (4 * workers))) // WORD) * WORD)))


def _walk(trees: Trees, x: np.ndarray, out: np.ndarray) -> None:
    """`tree_kernels.walk` in NumPy: all inputs down a tree together, one tree after the other."""
    first = np.arange(len(x)) * x.shape[1]  # of each input, where its features begin
    flat, feature, left = x.reshape(-1), trees.feature.astype(np.intp), trees.left.astype(np.intp)
    for tree, (root, depth) in enumerate(zip(trees.roots, trees.depths, strict=True)):
        at = np.full(len(x), root, np.intp)
        for _ in range(depth):
            at = left[at] + (flat[first + feature[at]] > trees.threshold[at])
        out[:, tree] = trees.value[at]
