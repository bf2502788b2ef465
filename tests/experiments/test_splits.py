import numpy as np
import pytest

from askwell.seeds import rng_for
from experiments import splits
from experiments.splits import draw_parts, mnist_problem, uci_problem

pytestmark = pytest.mark.usefixtures("without_files")
PAPER = splits.DIGITS  # before the fixture makes it smaller
DIGITS = 40  # as the fixture has it


def test_the_papers_counts():
    """A target set of 10,000 and a pool of 40,000 images."""
    assert PAPER == 1000
    assert splits.DIGITS == DIGITS


def counts(y, c):
    return np.bincount(y, minlength=c).tolist()


def rows_of(*parts):
    """Inputs as sets of bytes, to see who is where."""
    return [{row.tobytes() for row in part} for part in parts]


def test_parts_are_disjoint_and_as_large_as_asked():
    y = np.array([0] * 5 + [1] * 7)
    parts = draw_parts(y, {"a": (2, 3), "b": (3, 1)}, rng=rng_for(0, 0, "split"))
    assert counts(y[parts["a"]], 2) == [2, 3]
    assert counts(y[parts["b"]], 2) == [3, 1]
    assert not {*parts["a"].tolist()} & {*parts["b"].tolist()}


def test_parts_are_in_no_order_of_classes():
    y = np.repeat([0, 1], 200)
    part = draw_parts(y, {"pool": (200, 200)}, rng=rng_for(0, 0, "split"))["pool"]
    assert 60 < y[part][:200].sum() < 140


def test_more_than_there_is_is_refused():
    with pytest.raises(ValueError, match="3 of class 1, but it has 2"):
        draw_parts(np.array([0, 1, 1]), {"a": (1, 2), "b": (0, 1)}, rng=rng_for(0, 0, "split"))


@pytest.mark.parametrize(
    ("name", "pool", "val", "test", "targets"),
    [
        ("Magic", [4980, 2700], [39, 21], [660, 1980], 2640),
        ("Satellite", [536, 240, 481, 208, 235, 519], [14, 6, 13, 6, 6, 14], [461, 224, 397, 211, 237, 470], 399),
        ("Vowel", [26] * 11, [6] * 11, [42] * 11, 110),
    ],
)
def test_uci_splits_have_the_counts_of_the_authors(name, pool, val, test, targets):
    problem = uci_problem(name, 3)
    c = len(pool)
    assert problem.classes == tuple(range(c))
    assert problem.initial == 2 * c
    assert counts(problem.y[: problem.initial], c) == [2] * c
    assert counts(problem.y[problem.initial :], c) == pool
    assert counts(problem.validation[1], c) == val
    assert counts(problem.test[1], c) == test
    assert len(problem.targets) == targets
    assert sum(problem.prior) == pytest.approx(1)


def test_uci_parts_do_not_overlap():
    problem = uci_problem("Satellite", 0)
    parts = rows_of(problem.x, problem.targets, problem.validation[0], problem.test[0])
    assert len(set.union(*parts)) == sum(map(len, parts))


def test_features_are_scaled_by_what_is_not_tested():
    x, _, test_x, _ = splits._uci("Satellite")
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(axis=0), 1, atol=1e-5)
    assert abs(test_x.mean(axis=0)).max() > 1e-3


def test_a_seed_decides_and_nothing_else_does():
    first, again, other = uci_problem("Magic", 1), uci_problem("Magic", 1), uci_problem("Magic", 2)
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)
    (held,) = rows_of(splits._uci("Magic")[2])
    assert all(rows_of(each.test[0])[0] <= held for each in (first, other))  # one test base for all seeds


def test_curated():
    problem = mnist_problem("Curated", 0)
    assert problem.x.shape == (20 + 40 * DIGITS, 28, 28)
    assert counts(problem.y[:20], 10) == [2] * 10
    assert counts(problem.y[20:], 10) == [4 * DIGITS] * 10
    assert counts(problem.validation[1], 10) == [6] * 10
    assert len(problem.targets) == 10 * DIGITS
    assert len(problem.test[1]) == 1000


def test_unbalanced():
    problem = mnist_problem("Unbalanced", 0)
    assert counts(problem.y[20:], 10) == [4 * DIGITS // 10] * 5 + [4 * DIGITS] * 5
    assert counts(problem.validation[1], 10) == [1] * 5 + [10] * 5
    assert len(problem.targets) == 10 * DIGITS
    assert len(problem.pool_like) == 5.5 * DIGITS


def test_redundant():
    problem = mnist_problem("Redundant", 0, test=50)
    assert problem.classes == (0, 1, 2)
    assert counts(problem.y[:6], 3) == [2, 2, 2]
    assert counts(problem.y[6:], 3) == [4 * DIGITS, 4 * DIGITS, 32 * DIGITS]
    assert len(problem.targets) == 2 * DIGITS
    assert problem.prior == (0.5, 0.5, 0.0)
    assert len(problem.test[1]) == 50
    assert {*problem.test[1].tolist()} == {0, 1}


def test_principal_components_are_those_of_the_training_images():
    (x, _), (test_x, _) = splits.principal(5)
    (flat, _), (test_flat, _) = splits.images()
    flat, test_flat = (part.reshape(len(part), -1).astype(np.float64) for part in (flat, test_flat))
    _, _, axes = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)
    for found, given in ((x, flat), (test_x, test_flat)):
        expected = (given - flat.mean(axis=0)) @ axes[:5].T
        signs = np.sign((found * expected).sum(axis=0))  # an axis may point either way
        np.testing.assert_allclose(found * signs, expected, atol=1e-2)
