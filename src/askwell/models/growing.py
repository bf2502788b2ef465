"""Growing the trees of a plain random forest without scikit-learn's checks of every tree.

With a hundred labels these checks, not the trees, are most of what `RandomForestClassifier.fit` does. Here its own
compiled builder is called directly, with the same seeds: the trees are those of `fit`, to the last bit.
"""

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np

from askwell.arrays import spans, threads

__all__ = ["grown_trees"]

FREE = {  # parameters that may have any value from this one on; the others must be as scikit-learn has them by default
    "n_estimators": 1,
    "max_depth": 1,
    "min_samples_split": 2,
    "min_samples_leaf": 1,
    "random_state": 0,
}


def grown_trees(forest: Any, x: np.ndarray, y: np.ndarray) -> list[Any] | None:
    """The `tree_` of each member that `forest.fit(x, y)` would have, or None where the forest is not a plain one.

    `x` is float32 `[n, d]`, `y` has codes. With `n_jobs` the work is spread over askwell's threads. None is also the
    answer where values are missing, and where scikit-learn's builder, which is not public, is not the one known here.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> x, y = np.arange(6, dtype=np.float32)[:, None], np.array([0, 0, 0, 1, 1, 1])
    >>> plain = RandomForestClassifier(3, random_state=5)
    >>> [tree.node_count for tree in grown_trees(plain, x, y)]
    [3, 3, 3]
    >>> [member.tree_.node_count for member in plain.fit(x, y).estimators_]
    [3, 3, 3]
    >>> grown_trees(RandomForestClassifier(3, max_samples=0.5, random_state=5), x, y) is None
    True
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.utils import check_random_state

    if type(forest) is not RandomForestClassifier or not _is_plain(forest) or np.isnan(x).any():
        return None
    seeds = check_random_state(forest.random_state).randint(np.iinfo(np.int32).max, size=forest.n_estimators)
    several = 1 if forest.n_jobs in (None, 1) else threads()
    parts = spans(len(seeds), -(-len(seeds) // several))
    try:
        with ThreadPoolExecutor(several) as pool:
            return list(chain.from_iterable(pool.map(lambda part: _grown(forest, x, y, seeds[part]), parts)))
    except (ImportError, TypeError):  # another builder than that of scikit-learn 1.4 to 1.9
        return None


def _is_plain(forest: Any) -> bool:
    """Whether the parameters are those that `_grown` knows about, and good ones: if not, scikit-learn says why."""
    usual, here = type(forest)().get_params(), forest.get_params()
    free = all(
        isinstance(here[name], int | np.integer) and here[name] >= least
        for name, least in FREE.items()
        if name != "max_depth" or here[name] is not None
    )
    return free and all(here[name] == value for name, value in usual.items() if name not in (*FREE, "n_jobs"))


def _grown(forest: Any, x: np.ndarray, y: np.ndarray, seeds: np.ndarray) -> list[Any]:
    """A tree for each seed, which draws both the rows it sees and the features it looks at."""
    from sklearn.tree._criterion import Gini
    from sklearn.tree._splitter import BestSplitter
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree
    from sklearn.utils import check_random_state

    (n, d), leaf, trees = x.shape, forest.min_samples_leaf, list[Any]()
    known, codes = np.unique(y, return_inverse=True)
    classes, labels = np.array([len(known)], np.intp), np.ascontiguousarray(codes.reshape(-1, 1), np.float64)
    split, depth = max(forest.min_samples_split, 2 * leaf), forest.max_depth or np.iinfo(np.int32).max
    for seed in seeds:
        times = np.bincount(check_random_state(seed).randint(0, n, n), minlength=n).astype(np.float64)
        look = max(1, int(np.sqrt(d)))
        splitter = BestSplitter(Gini(1, classes), look, leaf, 0.0, check_random_state(seed), None)
        trees.append(Tree(d, classes, 1))
        DepthFirstTreeBuilder(splitter, split, leaf, 0.0, depth, 0.0).build(trees[-1], x, labels, times, None)
    return trees
