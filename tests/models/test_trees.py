"""Trees that askwell grows: by scikit-learn's rules, and the same however they are grown or walked."""

import hashlib

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from askwell.models import tree_kernels, trees
from askwell.models.trees import Labels, grown, leaf_rows, leaf_values
from askwell.seeds import rng_for


@pytest.fixture
def rng():
    return rng_for(0, 0, "trees")


def seeds(count):
    return np.arange(count, dtype=np.uint64)


def one_tree(x, labels, **options):
    """A tree of all examples that looks at all features."""
    return grown(x, labels, seeds=seeds(1), look=x.shape[1], bootstrap=False, **options).trees


def values_of(forest, x):
    out = np.empty((len(x), *forest.shape), np.float32)
    leaf_values(forest, x, out=out)
    return out


def gini(x, y, w, feature, cut, right):
    """What a split leaves of Gini's impurity, weighted: the slow way."""
    left = np.where(np.isnan(x[:, feature]), not right, x[:, feature] <= cut)
    total = 0.0
    for side in (left, ~left):
        shares = np.array([w[side & (y == c)].sum() for c in np.unique(y)])
        total += shares.sum() - (shares**2).sum() / shares.sum()
    return total


# ---- by the rules ----


@pytest.mark.parametrize("leaf", [1, 4])
@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_a_tree_is_as_good_as_that_of_scikit_learn(load, leaf):
    x, y = load(return_X_y=True)
    x = x.astype(np.float32)
    tree = one_tree(x, Labels.of_classes(y, y.max() + 1, np.ones(len(y))), leaf=leaf)
    other = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=0).fit(x, y)
    assert len(tree.left) == pytest.approx(other.tree_.node_count, rel=0.1)  # ties are broken otherwise
    found = values_of(tree, x)[:, 0]
    assert (found.argmax(1) == y).mean() >= other.score(x, y) - 1e-9 if leaf == 1 else True
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
    _, sizes = np.unique(leaf_rows_of_nodes(tree, x), return_counts=True)
    assert sizes.min() >= leaf


def leaf_rows_of_nodes(tree, x):
    """The node that each input ends in."""
    return leaf_rows(tree._replace(value=np.arange(len(tree.left), dtype=np.uint32), values=np.zeros((9999, 1))), x)[
        :, 0
    ]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_first_split_is_the_best_there_is(rng, missing, weighted):
    for _ in range(30):
        x = rng.integers(0, 6, (25, 3)).astype(np.float32)
        if missing:
            x[rng.random(x.shape) < 0.2] = np.nan
        y = rng.integers(0, 3, 25)
        w = np.array([1.0, 2.5, 0.3])[y] if weighted else np.ones(25)
        tree = one_tree(x, Labels.of_classes(y, 3, w), deepest=1)
        if tree.left[0] == 0:
            continue
        possible = [
            gini(x, y, w, f, cut, right)
            for f in range(3)
            for cut in [*np.unique(x[~np.isnan(x[:, f]), f])[:-1], np.finfo(np.float32).max]
            for right in (False, True)
            if 0 < np.where(np.isnan(x[:, f]), not right, x[:, f] <= cut).sum() < 25
        ]
        found = gini(x, y, w, tree.feature[0], tree.threshold[0], tree.missing_right[0])
        assert found == pytest.approx(min(possible), rel=1e-9)


def test_a_tree_of_numbers_is_that_of_scikit_learn(rng):
    x = rng.normal(size=(80, 3)).astype(np.float32)
    y = x[:, 0] ** 2 + rng.normal(size=80) / 5
    tree = one_tree(x, Labels.of_numbers(y), leaf=5)
    other = DecisionTreeRegressor(min_samples_leaf=5, random_state=0).fit(x, y)
    new = rng.normal(size=(500, 3)).astype(np.float32)
    np.testing.assert_allclose(values_of(tree, new)[:, 0, 0], other.predict(new), atol=1e-5)
    leaf = other.apply(x)
    spread = {node: y[leaf == node].var() for node in np.unique(leaf)}
    np.testing.assert_allclose(values_of(tree, x)[:, 0, 1], [spread[node] for node in leaf], atol=1e-5)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_compiled_trees_are_those_of_the_text(rng, monkeypatch, missing):
    """The kernels as they are written, run by Python."""
    x = rng.integers(0, 9, (30, 4)).astype(np.float32)
    x[rng.random(x.shape) < missing] = np.nan
    labels = Labels.of_classes(rng.integers(0, 3, 30), 3, np.ones(30))
    compiled = grown(x, labels, seeds=seeds(3), look=2).trees
    for name in (
        "_mixed",
        "_below",
        "_lowest",
        "_sort",
        "_look",
        "_look_in_order",
        "_totals",
        "_end",
        "_look_sorted",
        "_split",
        "_parted",
        "_between",
        "_drawn",
        "grow",
    ):
        monkeypatch.setattr(tree_kernels, name, getattr(tree_kernels, name).py_func)
    with np.errstate(over="ignore"):
        plain = grown(x, labels, seeds=seeds(3), look=2).trees
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("counts", "03196485c6f58301"),
        ("weights", "3b75b32420f39cbd"),
        ("missing", "05385a9e016cc4f0"),
        ("numbers", "141243f9b529fc6a"),
    ],
)
def test_trees_are_those_of_before(kind, digest):
    """Of November 2026, before a cut that leaves a class alone on either side ended the search for a better one.

    Where weights are fractions it does not: sums that are equal may be rounded differently.
    """
    numbers = np.random.Generator(np.random.PCG64(7))
    x, y = numbers.normal(size=(150, 5)).astype(np.float32).round(1), numbers.integers(0, 3, 150)
    w = numbers.random(150)
    if kind == "missing":
        x[numbers.random(x.shape) < 0.1] = np.nan
    labels = Labels.of_numbers(x[:, 0] * y) if kind == "numbers" else Labels.of_classes(y, 3, w)
    trees = grown(x, labels, seeds=seeds(5), look=3, bootstrap=kind != "weights").trees
    several = hashlib.sha256(b"".join(part.tobytes() for part in (trees.feature, trees.threshold, trees.left)))
    assert several.hexdigest()[:16] == digest


@pytest.mark.parametrize("size", [2, 39, 41, 300, 3000])
def test_keys_are_sorted(rng, size):
    keys = (rng.integers(0, 70_000, size).astype(np.uint64) << np.uint64(32)) | np.arange(size, dtype=np.uint64)
    sorted_keys = keys.copy()
    tree_kernels._sort(sorted_keys, size, np.empty(size, np.uint64), np.empty(257, np.int64))
    np.testing.assert_array_equal(sorted_keys, np.sort(keys))


# ---- the same however ----


def test_threads_and_parts_change_nothing(rng, monkeypatch):
    x, labels = rng.normal(size=(120, 5)).astype(np.float32), rng.integers(0, 4, 120)
    labels = Labels.of_classes(labels, 4, np.ones(120))
    found = []
    for threads, nodes in (("1", 1 << 16), ("2", 1 << 16), ("3", 300)):
        monkeypatch.setenv("ASKWELL_THREADS", threads)
        monkeypatch.setattr(trees, "NODES", nodes)
        monkeypatch.setattr(trees, "WORTH", 0)
        forest = grown(x, labels, seeds=seeds(40), look=2, leaf=3).trees
        found.append(values_of(forest, x))
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_a_tree_depends_on_its_seed_alone(rng):
    x, y = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 2, 60)
    labels = Labels.of_classes(y, 2, np.ones(60))
    all_of_them = leaf_rows(grown(x, labels, seeds=seeds(9), look=1).trees, x)
    some = leaf_rows(grown(x, labels, seeds=seeds(9)[[7, 2]], look=1).trees, x)
    np.testing.assert_array_equal(some, all_of_them[:, [7, 2]])


def test_numpy_finds_the_same_leaves(rng, plain_walk):
    x, y = rng.normal(size=(200, 4)).astype(np.float32), rng.integers(0, 3, 200)
    x[rng.random(x.shape) < 0.1] = np.nan
    forest = grown(x, Labels.of_classes(y, 3, np.ones(200)), seeds=seeds(20), look=2, leaf=2).trees
    compiled = leaf_rows(forest, x), values_of(forest, x)
    plain_walk()
    np.testing.assert_array_equal(leaf_rows(forest, x), compiled[0])
    np.testing.assert_array_equal(values_of(forest, x), compiled[1])


@pytest.fixture
def plain_walk(monkeypatch):
    return lambda: monkeypatch.setenv("ASKWELL_COMPILE", "never")


# ---- in NumPy, until the loop is compiled ----


@pytest.mark.parametrize(
    ("n", "d", "classes", "options"),
    [
        (60, 20, 2, {}),
        (60, 5, 10, {}),
        (40, 30, 26, {"look": 1}),
        (150, 4, 3, {"leaf": 5}),
        (100, 3, 3, {"deepest": 3}),
        (30, 2, 4, {"ties": True}),
        (50, 3, 3, {"weights": True}),
        (900, 6, 3, {"ties": True, "weights": True}),
        (700, 4, 2, {}),
    ],
)
def test_numpy_grows_the_same_trees(rng, monkeypatch, n, d, classes, options):
    ties, weights = options.pop("ties", False), options.pop("weights", False)
    x = (rng.integers(0, 3, (n, d)) if ties else rng.normal(size=(n, d))).astype(np.float32)
    y = rng.integers(0, classes, n)
    labels = Labels.of_classes(y, classes, rng.random(classes)[y] if weights else np.ones(n))
    options = {"seeds": rng.integers(2**64, size=30, dtype=np.uint64), "look": max(1, int(d**0.5)), **options}
    new = rng.normal(size=(300, d)).astype(np.float32)
    compiled = grown(x, labels, **options).trees
    monkeypatch.setenv("ASKWELL_COMPILE", "never")
    plain = grown(x, labels, **options).trees
    monkeypatch.undo()
    assert len(plain.left) == len(compiled.left)
    np.testing.assert_array_equal(plain.depths, compiled.depths)
    for inputs in (x, new, np.where(rng.random(new.shape) < 0.2, np.nan, new).astype(np.float32)):
        np.testing.assert_array_equal(values_of(plain, inputs), values_of(compiled, inputs))


@pytest.mark.parametrize("labels", [1, 2, 40, 90, 400])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n", [63, 64, 65, 1000])
@pytest.mark.parametrize(("classes", "leaf"), [(2, 1), (3, 1), (12, 1), (3, 4), (0, 2)])
def test_inputs_are_sifted_to_the_leaves_they_walk_to(labels, missing, n, classes, leaf, monkeypatch):
    """Trees of one leaf, of few and of many, a word of them and some; rows of a byte and of more. `never` walks."""
    rng = rng_for(0, labels, "sift")
    x, seen = rng.normal(size=(n, 5)).astype(np.float32), rng.normal(size=(labels, 5)).astype(np.float32)
    if missing:
        x[rng.random(x.shape) < 0.2], seen[rng.random(seen.shape) < 0.2] = np.nan, np.nan
    y = rng.integers(max(1, classes), size=labels)
    given = Labels.of_classes(y, classes, np.ones(labels)) if classes else Labels.of_numbers(rng.normal(size=labels))
    trees = grown(seen, given, seeds=np.arange(70, dtype=np.uint64), look=2, leaf=leaf).trees
    rows = []
    for mode in ("wait", "never"):
        monkeypatch.setenv("ASKWELL_COMPILE", mode)
        rows.append(leaf_rows(trees, x))
    np.testing.assert_array_equal(*rows)
