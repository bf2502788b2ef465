"""The walk of many inputs down many trees, compiled. Importing this file imports numba."""

import numpy as np

from askwell.compiling import kernel

__all__ = ["ROWS", "walk"]

WALKERS = 16
ROWS = 256  # inputs that go through all trees before the next ones: their features stay in cache


@kernel(nogil=True, error_model="numpy")
def walk(x, roots, depths, feature, threshold, children, values, out):  # type: ignore[no-untyped-def]
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
