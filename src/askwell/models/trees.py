"""One pass through all trees of a forest: rows in cache, nodes packed, no checks per tree. Compiled by numba."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from askwell.arrays import spans, threads

__all__ = ["Trees", "leaf_values", "pack_trees"]

WALKERS = 16
ROWS = 256  # inputs that go through all trees before the next ones: their features stay in cache


class Trees(NamedTuple):
    """The nodes of k trees, one after the other. A leaf's children are itself, so a walk that has arrived stays."""

    roots: np.ndarray  # [k]
    depths: np.ndarray  # [k]
    feature: np.ndarray  # [nodes]
    threshold: np.ndarray  # [nodes]  float32: go left where x <= threshold
    children: np.ndarray  # [nodes, 2]
    values: np.ndarray  # [nodes, c]  float32: class probabilities (or the mean and variance of a regression leaf)


def pack_trees(trees: list[Any], values: list[np.ndarray]) -> Trees:
    """scikit-learn's trees with the values `[nodes, c]` of each one's nodes."""
    sizes = [tree.node_count for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])

    def nodes(name: str) -> np.ndarray:
        return np.concatenate([getattr(tree, name) for tree in trees])

    children = np.stack([nodes("children_left"), nodes("children_right")], axis=1)
    leaf = children[:, 0] < 0
    children = np.where(leaf[:, None], np.arange(len(leaf))[:, None], children + np.repeat(roots, sizes)[:, None])
    threshold = nodes("threshold")
    rounded = threshold.astype(np.float32)
    # x is float32, so x <= threshold is the same question as x <= the largest float32 that is not above it.
    rounded = np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return Trees(
        roots.astype(np.int32),
        np.array([tree.max_depth for tree in trees], np.int32),
        np.where(leaf, 0, nodes("feature")).astype(np.int32),
        rounded.astype(np.float32),
        np.ascontiguousarray(children, np.int32),
        np.ascontiguousarray(np.concatenate(values), np.float32),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _walk(x, roots, depths, feature, threshold, children, values, out):  # type: ignore[no-untyped-def]
    """WALKERS inputs go down a tree side by side, without a branch: none waits for another's guess to be wrong."""
    n = out.shape[0]
    at = np.empty(WALKERS, np.int32)
    for start in range(0, n, ROWS):
        for tree in range(roots.shape[0]):
            for first in range(start, min(start + ROWS, n), WALKERS):
                count = min(WALKERS, n - first)
                at[:] = roots[tree]
                for _ in range(depths[tree]):
                    for i in range(count):
                        node = at[i]
                        at[i] = children[node, 0 if x[first + i, feature[node]] <= threshold[node] else 1]
                for i in range(count):
                    for c in range(values.shape[1]):
                        out[first + i, tree, c] = values[at[i], c]


def leaf_values(trees: Trees, x: np.ndarray) -> np.ndarray:
    """The values of the leaves that `x [n, features]`, float32, falls into, as `[n, k, c]`."""
    out = np.empty((len(x), len(trees.roots), trees.values.shape[1]), np.float32)
    x = np.ascontiguousarray(x, np.float32)

    def job(span: slice) -> None:
        _walk(x[span], *trees, out[span])

    workers = threads()
    chunks = list(spans(len(x), max(ROWS, -(-len(x) // (4 * workers)))))
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(job, chunks))
    return out
