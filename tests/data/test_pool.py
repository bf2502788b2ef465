"""Ids and inputs: kept as they came, refused where they cannot be told apart."""

import numpy as np
import pytest
from scipy import sparse

from askwell.arrays import plain, take
from askwell.data.pool import as_pool


class Frame:
    """As much of a data frame as a pool needs."""

    def __init__(self, values, index):
        self.values, self.index, self.shape, self.ndim = values, index, values.shape, 2
        self.iloc = self

    def __getitem__(self, places):
        return Frame(self.values[places], [self.index[place] for place in places])


def test_ids_are_row_numbers_or_the_frames_index_or_those_given():
    x = np.zeros((3, 2))
    assert as_pool(x).ids == range(3)
    assert as_pool(Frame(x, ["a", "b", "c"])).ids == ("a", "b", "c")
    assert as_pool(x, ids=np.array([7, 5, 3])).ids == (7, 5, 3)
    assert as_pool(as_pool(x, ids="xyz")).position("z") == 2


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, list, lambda x: Frame(x, "abcd")])
def test_inputs_are_taken_in_their_own_kind(kind):
    x = np.arange(8.0).reshape(4, 2)
    pool = as_pool(kind(x))
    taken = pool.take([3, 1])
    assert type(taken) is type(kind(x))
    values = taken.toarray() if sparse.issparse(taken) else getattr(taken, "values", taken)
    np.testing.assert_array_equal(np.asarray(values), x[[3, 1]])


def test_a_saved_array_is_a_pool(tmp_path):
    np.save(tmp_path / "pool.npy", np.arange(6.0).reshape(3, 2))
    pool = as_pool(tmp_path / "pool.npy")
    assert len(pool) == 3
    np.testing.assert_array_equal(pool.take([1]), [[2, 3]])


def test_a_table_is_a_pool(tmp_path):
    (tmp_path / "pool.csv").write_text("a,b\n1,2\n3,4\n")
    np.testing.assert_array_equal(as_pool(tmp_path / "pool.csv").take([1]), [[3, 4]])


@pytest.mark.parametrize(
    ("pool", "ids", "words"),
    [
        (np.zeros((0, 2)), None, "empty"),
        (np.zeros(3), None, r"reshape\(-1, 1\)"),
        (np.zeros((2, 2)), [1], "1 ids and 2 inputs"),
        (np.zeros((2, 2)), ["a", "a"], "'a' occurs more than once"),
        (3, None, "but it is int"),
        ("no such file.csv", None, "does not exist"),
    ],
)
def test_what_is_no_pool_is_refused(pool, ids, words):
    with pytest.raises(ValueError, match=words):
        as_pool(pool, ids=ids)


def test_an_unknown_id_is_refused_with_examples_of_known_ones():
    with pytest.raises(ValueError, match=r"0, 1, 2, \.\.\.\), but 9 is none"):
        as_pool(np.zeros((5, 1))).position(9)
    with pytest.raises(ValueError, match="none of them"):
        as_pool(np.zeros((5, 1))).position([1])  # not even hashable


def test_numbers_of_numpy_are_the_same_ids():
    assert as_pool(np.zeros((5, 1))).position(np.int32(4)) == 4
    assert plain(np.str_("a")) == "a"


def test_rows_of_a_list_are_a_list():
    assert take(["a", "b", "c"], np.array([2, 0])) == ["c", "a"]
