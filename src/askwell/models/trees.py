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
    children: np.ndarray  # [2 nodes]  uint32: of node i, the left at 2i and the right at 2i + 1
    values: np.ndarray  # [nodes, c]  float32: class probabilities (or the mean and variance of a regression leaf)

    @property
    def shape(self) -> tuple[int, int]:
        """(k, c)."""
        return len(self.roots), self.values.shape[1]


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
        roots.astype(np.uint32),
        np.array([tree.max_depth for tree in trees], np.int32),
        np.where(leaf, 0, nodes("feature")).astype(np.uint32),
        rounded.astype(np.float32),
        np.ascontiguousarray(children, np.uint32).ravel(),
        np.ascontiguousarray(np.concatenate(values), np.float32),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def _walk(x, roots, depths, feature, threshold, children, values, out):  # type: ignore[no-untyped-def]
    """WALKERS inputs go down a tree side by side, without a branch: none waits for another's guess to be wrong.

    Always as many, so that the loop over them is unrolled (those past the end walk with the last input, in vain), and
    unsigned, so that no index is looked at for a minus: together that is twice as fast.
    """
    n = out.shape[0]
    at = np.empty(WALKERS, np.uint32)
    for start in range(0, n, ROWS):
        for tree in range(roots.shape[0]):
            for first in range(start, min(start + ROWS, n), WALKERS):
                for i in range(WALKERS):
                    at[i] = roots[tree]
                for _ in range(depths[tree]):
                    for i in range(WALKERS):
                        node = at[i]
                        right = x[min(first + i, n - 1), feature[node]] > threshold[node]
                        at[i] = children[2 * node + np.uint32(right)]
                for i in range(min(WALKERS, n - first)):
                    for c in range(values.shape[1]):
                        out[first + i, tree, c] = values[at[i], c]


def leaf_values(trees: Trees, x: np.ndarray, *, out: np.ndarray) -> None:
    """Write the values of the leaves that `x [n, features]`, float32, falls into, to `out [n, k, c]`, float32."""
    x = np.ascontiguousarray(x, np.float32).view()
    x.flags.writeable = False  # so that numba compiles for one kind of array

    def job(span: slice) -> None:
        _walk(x[span], *trees, out[span])

    workers = threads()
    if workers == 1:
        job(slice(None))
        return
    chunks = list(spans(len(x), max(ROWS, -(-len(x) // (4 * workers)))))
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(job, chunks))
