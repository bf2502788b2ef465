"""One pass through all trees of a forest: nodes packed, no checks per tree.

Compiled (`tree_kernels.py`), or in NumPy until that is ready: the same leaves either way.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from askwell.arrays import spans, threads
from askwell.compiling import ready

__all__ = ["Trees", "leaf_values", "pack_trees"]

SECONDS = 2e-8  # that NumPy takes for an input to go from a node to the next


class Trees(NamedTuple):
    """The nodes of k trees, one after the other. A leaf's children are itself, so a walk that has arrived stays."""

    roots: np.ndarray  # [k]
    depths: np.ndarray  # [k]
    feature: np.ndarray  # [nodes]
    threshold: np.ndarray  # [nodes]  float32: go left where x <= threshold
    children: np.ndarray  # [2 nodes]  uint32: of node i, the left at 2i and the right at 2i + 1
    values: np.ndarray  # [nodes, c]  float32: class probabilities (or the mean and variance of a regression leaf)
    missing_right: np.ndarray  # [nodes]  whether a missing value goes right

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
    # A split into missing and there has an infinite threshold; nothing that is there is above the largest number.
    rounded = np.minimum(rounded, np.finfo(np.float32).max)
    return Trees(
        roots.astype(np.uint32),
        np.array([tree.max_depth for tree in trees], np.int32),
        np.where(leaf, 0, nodes("feature")).astype(np.uint32),
        rounded.astype(np.float32),
        np.ascontiguousarray(children, np.uint32).ravel(),
        np.ascontiguousarray(np.concatenate(values), np.float32),
        nodes("missing_go_to_left") == 0,
    )


def leaf_values(trees: Trees, x: np.ndarray, *, out: np.ndarray) -> None:
    """Write the values of the leaves that `x [n, features]`, float32, falls into, to `out [n, k, c]`, float32.

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
    if not ready(SECONDS * len(x) * int(trees.depths.sum())):
        _walk(trees, x, out)
        return
    from askwell.models.tree_kernels import ROWS, walk

    def job(span: slice) -> None:
        walk(x[span], *trees[:-1], out[span])  # all but what is said of missing values

    workers = threads()
    if workers == 1:
        job(slice(None))
        return
    chunks = list(spans(len(x), max(ROWS, -(-len(x) // (4 * workers)))))
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(job, chunks))


def _walk(trees: Trees, x: np.ndarray, out: np.ndarray) -> None:
    """`tree_kernels.walk` in NumPy: all inputs down a tree together, one tree after the other."""
    first = np.arange(len(x)) * x.shape[1]  # of each input, where its features begin
    flat, feature, children = x.reshape(-1), trees.feature.astype(np.intp), trees.children.astype(np.intp)
    for tree, (root, depth) in enumerate(zip(trees.roots, trees.depths, strict=True)):
        at = np.full(len(x), root, np.intp)
        for _ in range(depth):
            right = flat[first + feature[at]] > trees.threshold[at]
            at = children[2 * at + right]
        out[:, tree] = trees.values[at]
