"""Trees of classes grown in NumPy, for the time until the loop of `tree_kernels.py` is compiled: the same trees.

All trees at once, level by level. What is drawn at a node depends on the way there alone, counts are whole numbers, and
what is compared is computed by the same steps, so no order of growing changes a cut. Missing values and numbers as
labels are not served.
"""

from typing import NamedTuple

import numpy as np

from askwell.seeds import scrambled

__all__ = ["LEFT", "RIGHT", "STEP", "Levels", "grown_in_numpy", "seconds"]

STEP = np.uint64(0x9E3779B97F4A7C15)  # between the states that random numbers are made of
LEFT, RIGHT = np.uint64(0x5851F42D4C957F2D), np.uint64(0x14057B7EF767814F)  # what tells the keys of children apart
EACH = 2.5e-7  # seconds for a sample, a feature and a level


class Levels(NamedTuple):
    """The nodes of k trees, level by level: the roots first. As `tree_kernels.grow` writes them."""

    feature: np.ndarray  # [nodes]
    low: np.ndarray  # [nodes]  the rank below the cut ...
    high: np.ndarray  # [nodes]  ... and above it
    left: np.ndarray  # [nodes]  itself of a leaf
    missing_right: np.ndarray  # [nodes]
    counts: np.ndarray  # [nodes, c]
    depths: np.ndarray  # [k]


def seconds(n: int, trees: int, look: int, classes: int) -> float:
    """About how long it takes."""
    return float(EACH * n * trees * look * (2 + np.log2(n)) * (1 + classes / 8))


def grown_in_numpy(
    codes: np.ndarray,
    y: np.ndarray,
    classes: int,
    *,
    look: int,
    leaf: int,
    deepest: int,
    shares: np.ndarray,
    seeds: np.ndarray,
) -> Levels:
    """A tree for each seed, of ranks `codes [d, n]`, none missing, and classes `y [n]`: see `tree_kernels.grow`."""
    times = _drawn(seeds, shares)  # [k, n]
    tree, sample = np.nonzero(times)
    weight = times[tree, sample].astype(np.float64)
    node, ways, depth = (
        tree.copy(),
        scrambled(seeds.astype(np.uint64)),
        0,
    )  # of each sample its node; of each node its way
    depths, first, found = np.zeros(len(seeds), np.int32), 0, list[tuple[np.ndarray, ...]]()
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
        found.append((np.where(inner, cut.feature, 0), cut.low, cut.high, left, inner & cut.missing_right, counts))
        goes_on = inner[node]
        node, sample, weight = node[goes_on], sample[goes_on], weight[goes_on]
        right = codes[cut.feature[node], sample] > cut.low[node]
        node = left[node] - first - len(ways) + right
        first += len(ways)
        ways = np.stack([scrambled(ways[inner] ^ LEFT), scrambled(ways[inner] ^ RIGHT)], 1).ravel()
        trees_of, depth = np.repeat(trees_of[inner], 2), depth + 1
    feature, low, high, left, missing_right, counts = (np.concatenate(each) for each in zip(*found, strict=True))
    return Levels(feature, low, high, left, missing_right, counts, depths)


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
        lively |= _look(codes, y, node, sample, weight, counts, feature, leaf, best)[searching]
        more = (seen + 1 < look) | ~lively
        searching, order, lively = searching[more], order[more], lively[more]
    return best


def _look(
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
    place = np.arange(len(at)) - starts[which] + 1
    size = np.diff(np.append(starts, len(at)))[which]
    last = place == size
    after = np.append(code[1:], -1)
    apart = ~last & (code != after) & (place >= leaf) & (size - place >= leaf)
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
    best.missing_right[nodes] = 2 * place[winner] <= size[winner]
    lively = np.zeros(len(feature), bool)
    ends = np.append(starts[1:], len(at)) - 1
    lively[at[starts]] = code[ends] > code[starts]
    return lively


# ---- what is drawn ---------------------------------------------------------------------------------------------------


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
