"""The trees of a forest as one table of nodes: grown together, or packed, and walked in one pass.

    x, labels, seeds -- grown --------> Trees -- leaf_rows ----> the leaf of each input in each tree [n, k]
    scikit-learn's trees - pack_trees --^    '-- leaf_values --> what these leaves say [n, k, c]

Growing and walking are compiled (`tree_kernels.py`). Until that is ready NumPy does both, with the same result: the
first forest of a fresh installation takes a tenth of a second, where compiling takes seven (docs/decisions.md).
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from askwell.arrays import spans, threads
from askwell.compiling import ready
from askwell.seeds import scrambled

__all__ = ["LEFT", "RIGHT", "STEP", "Grown", "Labels", "Trees", "grown", "leaf_rows", "leaf_values", "pack_trees"]

SECONDS = 2e-8  # that NumPy takes for an input to go from a node to the next
NODES = 1 << 16  # of trees grown at a time, at least
PART = 2**12  # inputs whose leaves are looked up together
SIFTED = 500  # nodes of a tree up to which all inputs at each node take less than each input from node to node
WORTH = 20_000  # samples in all trees together: fewer are not worth a thread
EACH = 2.5e-7  # seconds that NumPy takes to grow, for a sample, a feature and a level
STEP = np.uint64(0x9E3779B97F4A7C15)  # between the states that random numbers are made of
LEFT, RIGHT = np.uint64(0x5851F42D4C957F2D), np.uint64(0x14057B7EF767814F)  # what tells the keys of children apart


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
    seconds = EACH * n * k * look * (2 + np.log2(n)) * (1 + labels.classes / 8)
    if not ready(float(seconds)) and plain:
        options = {"look": look, "leaf": leaf, "deepest": fixed[3], "shares": shares, "seeds": seeds}
        return Grown(_of_levels(_grown_in_numpy(ranked[0], labels.y, labels.classes, **options), ranked[2], k), drawn)
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

    A missing value has the rank after all others. The inputs in order are `[2, d, n]`: which they are, and the
    position of each.
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
    ordered_samples = np.stack([order, np.empty_like(order)]).astype(codes.dtype)
    np.put_along_axis(ordered_samples[1], order, np.arange(n, dtype=codes.dtype)[None], axis=1)
    return codes, levels.astype(np.int64), numbers, ordered_samples


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


def _rounded(threshold: np.ndarray) -> np.ndarray:
    """Thresholds for float32 inputs; infinite ones stay.

    x <= threshold is the same question as x <= the largest float32 that is not above it.
    """
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded).astype(np.float32)


# ---- growing in NumPy ------------------------------------------------------------------------------------------------
#
# All trees at once, level by level. What is drawn at a node depends on the way there alone, counts are whole numbers,
# and what is compared is computed by the same steps, so no order of growing changes a cut. Missing values, and numbers
# as labels, wait for the compiler.


class _Levels(NamedTuple):
    """The nodes of k trees, level by level: the roots first. As `tree_kernels.grow` writes them."""

    feature: np.ndarray  # [nodes]
    low: np.ndarray  # [nodes]  the rank below the cut ...
    high: np.ndarray  # [nodes]  ... and above it
    left: np.ndarray  # [nodes]  itself of a leaf
    missing_right: np.ndarray  # [nodes]
    counts: np.ndarray  # [nodes, c]
    depths: np.ndarray  # [k]


def _grown_in_numpy(
    codes: np.ndarray,
    y: np.ndarray,
    classes: int,
    *,
    look: int,
    leaf: int,
    deepest: int,
    shares: np.ndarray,
    seeds: np.ndarray,
) -> _Levels:
    """A tree for each seed, of ranks `codes [d, n]`, none missing, and classes `y [n]`: see `tree_kernels.grow`."""
    times = _drawn(seeds, shares)  # [k, n]
    tree, sample = np.nonzero(times)
    weight = times[tree, sample].astype(np.float64)
    node, ways, depth = (
        tree.copy(),
        scrambled(seeds.astype(np.uint64)),
        0,
    )  # of each sample its node; of each node its way
    depths, first, levels = np.zeros(len(seeds), np.int32), 0, list[tuple[np.ndarray, ...]]()
    trees_of = np.arange(len(seeds))  # the tree of each node of this level
    while len(ways):
        depths[trees_of] = depth
        counts = np.zeros((len(ways), classes))
        np.add.at(counts, (node, y[sample]), weight)
        size = np.bincount(node, minlength=len(ways))
        cut = _cuts(codes, y, node, sample, weight, counts, size, ways, look, leaf, depth < deepest)
        inner = cut.feature >= 0
        left = first + np.arange(len(ways))
        left[inner] = first + len(ways) + 2 * np.arange(inner.sum())
        levels.append((np.where(inner, cut.feature, 0), cut.low, cut.high, left, inner & cut.missing_right, counts))
        goes_on = inner[node]
        node, sample, weight = node[goes_on], sample[goes_on], weight[goes_on]
        right = codes[cut.feature[node], sample] > cut.low[node]
        node = left[node] - first - len(ways) + right
        first += len(ways)
        ways = np.stack([scrambled(ways[inner] ^ LEFT), scrambled(ways[inner] ^ RIGHT)], 1).ravel()
        trees_of, depth = np.repeat(trees_of[inner], 2), depth + 1
    feature, low, high, left, missing_right, counts = (np.concatenate(each) for each in zip(*levels, strict=True))
    return _Levels(feature, low, high, left, missing_right, counts, depths)


class _Cut(NamedTuple):
    """The best cut of each node."""

    feature: np.ndarray  # -1 where there is none
    low: np.ndarray
    high: np.ndarray
    missing_right: np.ndarray
    good: np.ndarray


def _cuts(
    codes: np.ndarray, y: np.ndarray, node: np.ndarray, sample: np.ndarray, weight: np.ndarray, counts: np.ndarray,
    size: np.ndarray, ways: np.ndarray, look: int, leaf: int, deeper: bool,
) -> _Cut:  # fmt: skip
    """Features are drawn node by node; those that are looked at at the same turn are looked at together."""
    nodes, d = len(ways), len(codes)
    none = np.full(nodes, -1)
    best = _Cut(none.copy(), none.copy(), none.copy(), np.zeros(nodes, bool), np.full(nodes, -np.inf))
    searching = np.flatnonzero(((counts > 0).sum(1) > 1) & (size >= 2 * leaf)) if deeper else np.empty(0, np.intp)
    order, lively = np.tile(np.arange(d), (len(searching), 1)), np.zeros(len(searching), bool)
    for seen in range(d):
        if len(searching) == 0:
            break
        at, rows = d - seen, np.arange(len(searching))
        pick = _below(ways[searching], seen, at)
        chosen = order[rows, pick]
        order[rows, pick] = order[rows, at - 1]
        feature = np.full(nodes, -1)
        feature[searching] = chosen
        lively |= _take_better(codes, y, node, sample, weight, counts, feature, leaf, best)[searching]
        more = (seen + 1 < look) | ~lively
        searching, order, lively = searching[more], order[more], lively[more]
    return best


def _take_better(
    codes: np.ndarray, y: np.ndarray, node: np.ndarray, sample: np.ndarray, weight: np.ndarray, counts: np.ndarray,
    feature: np.ndarray, leaf: int, best: _Cut,
) -> np.ndarray:  # fmt: skip
    """Take the best cut of a feature at each node, if it is better; says at which nodes the feature is not constant."""
    here = np.flatnonzero(feature[node] >= 0)
    code = codes[feature[node[here]], sample[here]].astype(np.int64)
    here = here[np.lexsort((code, node[here]))]
    at, code, w = node[here], codes[feature[node[here]], sample[here]].astype(np.int64), weight[here]
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    which = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(at))))
    ones = np.zeros((len(at), counts.shape[1]))
    ones[np.arange(len(at)), y[sample[here]]] = w
    left = np.cumsum(ones, axis=0)
    left -= (left[starts] - ones[starts])[which]
    total = counts[at]
    heavy, whole = left.sum(1), total.sum(1)
    position = np.arange(len(at)) - starts[which] + 1
    size = np.diff(np.append(starts, len(at)))[which]
    last = position == size
    after = np.append(code[1:], -1)
    apart = ~last & (code != after) & (position >= leaf) & (size - position >= leaf)
    with np.errstate(divide="ignore", invalid="ignore"):
        good = (left**2).sum(1) / heavy + ((total - left) ** 2).sum(1) / (whole - heavy)
    good = np.where(apart, good, -np.inf)
    top = np.maximum.reduceat(good, starts)
    winner = np.flatnonzero((good == top[which]) & np.isfinite(good))
    _, firsts = np.unique(which[winner], return_index=True)
    winner = winner[firsts]
    winner = winner[good[winner] > best.good[at[winner]]]
    nodes = at[winner]
    best.good[nodes], best.feature[nodes] = good[winner], feature[nodes]
    best.low[nodes], best.high[nodes] = code[winner], after[winner]
    best.missing_right[nodes] = 2 * position[winner] <= size[winner]
    lively = np.zeros(len(feature), bool)
    ends = np.append(starts[1:], len(at)) - 1
    lively[at[starts]] = code[ends] > code[starts]
    return lively


def _below(states: np.ndarray, draw: int | np.ndarray, n: int) -> np.ndarray:
    """The random number below n that each state gives at its `draw`-th call, counted from 0."""
    moved = states + np.asarray(draw, np.uint64) * STEP + STEP
    return (((scrambled(moved) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)).astype(np.int64)


def _drawn(seeds: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """How often each sample is drawn for each tree, `[k, n]`."""
    n = len(shares)
    draws = _below(seeds.astype(np.uint64)[:, None], np.arange(n), 2**32)  # [k, n]
    picked = np.searchsorted(shares, draws, side="right")
    return np.stack([np.bincount(row, minlength=n) for row in picked])


def _of_levels(levels: _Levels, numbers: np.ndarray, k: int) -> Trees:
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
    position = base.copy()
    pair = base + 1 + 2 * (before - before[base])
    position[(children + base[:, None])[inner]] = np.stack([pair, pair + 1], axis=1)[inner]
    table, value = _rows(np.concatenate(values), inner, probabilities)
    # A split into missing and there has an infinite threshold: nothing that is there is above the largest number.
    threshold = np.where(inner, np.minimum(_rounded(nodes("threshold")), np.finfo(np.float32).max), np.inf)

    def moved(each: np.ndarray, kind: Any) -> np.ndarray:
        out = np.empty(len(each), kind)
        out[position] = each
        return out

    return Trees(
        first.astype(np.uint32),
        np.array([tree.max_depth for tree in trees], np.int32),
        moved(np.where(inner, nodes("feature"), 0), np.uint32),
        moved(threshold, np.float32),
        moved(np.where(inner, pair, position), np.uint32),
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


def leaf_rows(trees: Trees, x: np.ndarray, *, out: np.ndarray | None = None) -> np.ndarray:
    """The rows of `trees.values` that the leaves of `x [n, features]`, float32, have, `[n, k]`.

    They are written to `out`, if it is given: of unsigned integers that are wide enough.
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
    if out is None:
        kind = np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32
        out = np.empty((len(x), len(trees.roots)), kind)
    if not ready(SECONDS * len(x) * int(trees.depths.sum())):
        _walk(trees, x, out)
        return out
    from askwell.models.tree_kernels import WORD, sift, walk

    few = out.itemsize == 1 and len(x) >= WORD and len(trees.left) <= SIFTED * len(trees.roots)
    parts = _sifting(trees, max(1, (count - 1).bit_length())) if few else None
    if parts is None:
        _each_part(len(x), lambda span: walk(x[span], *trees[:6], out[span]))
    else:
        turned = np.zeros((x.shape[1], -(-len(x) // WORD) * WORD), np.float32)
        turned[:, : len(x)] = x.T
        _each_part(len(x), lambda span: sift(turned, span.start, *parts, out[span]))
    return out


def _sifting(trees: Trees, digits: int) -> tuple[Any, ...] | None:
    """(inner, leaf, first, most) as `tree_kernels.sift` wants them; None where the nodes of trees are mixed.

    Mixed are those of trees that NumPy has grown, level by level.
    """
    nodes = len(trees.left)
    sizes: np.ndarray = np.diff(trees.roots.astype(np.int64), append=nodes)
    if (sizes < 1).any():
        return None
    base, number = np.repeat(trees.roots, sizes), np.arange(nodes, dtype=np.uint32)  # of each node its tree's root
    left = trees.left - base
    if (trees.left < base).any() or (left >= np.repeat(sizes, sizes)).any():
        return None
    is_leaf, local, bounds = trees.left == number, number - base, np.append(trees.roots, nodes)
    inner = np.flatnonzero(~is_leaf)
    having = [
        np.flatnonzero(is_leaf & (trees.value >> np.uint32(b) & np.uint32(1)).astype(bool)) for b in range(digits)
    ]
    begun = np.cumsum([0, *map(len, having)])
    first = [
        inner.searchsorted(bounds),
        *(at + some.searchsorted(bounds) for at, some in zip(begun, having, strict=False)),
    ]
    cuts = local[inner], left[inner], trees.feature[inner], trees.threshold[inner]
    return cuts, local[np.concatenate(having)], np.stack(first), int(sizes.max())


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
