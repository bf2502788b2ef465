"""Tables at the door: what comes in comes out as numbers, and refusals say what to do."""

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_matrix

from askwell.arrays import take
from askwell.models.inputs import check_lengths, count, features, numbers, sliceable

TABLE = np.arange(6.0).reshape(3, 2)


class Frame:
    """As much of a data frame as the door looks at; pandas is not needed to test it."""

    def __init__(self, columns):
        self.columns = {name: np.asarray(column) for name, column in columns.items()}
        self.dtypes = {name: column.dtype for name, column in self.columns.items()}
        self.shape = (len(next(iter(self.columns.values()))), len(columns))

    @property
    def iloc(self):
        return self

    def __getitem__(self, index):
        return Frame({name: column[index] for name, column in self.columns.items()})

    def __array__(self, dtype=None, copy=None):
        return np.stack([column.astype(object) for column in self.columns.values()], axis=1).astype(dtype)


@pytest.mark.parametrize("make", [np.array, np.ndarray.tolist, csr_matrix, coo_matrix])
def test_tables_of_any_kind(make):
    x = sliceable(make(TABLE))
    assert count(x) == 3
    np.testing.assert_array_equal(features(x), TABLE)
    np.testing.assert_array_equal(features(take(x, slice(1, 3))), TABLE[1:])
    np.testing.assert_array_equal(features(take(x, [2, 0])), TABLE[[2, 0]])
    assert features(x).dtype == np.float32
    assert features(x, dtype=np.float64).dtype == np.float64


def test_frames():
    frame = Frame({"age": [1, 2], "size": [0.5, 0.25]})
    np.testing.assert_array_equal(features(take(frame, [1])), [[2, 0.25]])
    with pytest.raises(ValueError, match=r"the columns colour, shape hold text.*OneHotEncoder"):
        features(Frame({"age": [1, 2], "colour": ["red", "blue"], "shape": ["o", "x"]}))


def test_what_is_right_already_is_not_copied():
    x = TABLE.astype(np.float32)
    assert features(x) is x
    assert sliceable(x) is x


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([1.0, 2.0], r"\[x\] for a single input"),
        (np.zeros((2, 3, 4)), r"x.reshape\(len\(x\), -1\)"),
        ([[1.0], [2.0, 3.0]], "rows have different lengths"),
        ([["red"]], "x must hold numbers"),
        ([[None]], "x must be finite, but x.7, 0. is nan.*SimpleImputer"),
        ([[0.0, np.inf]], r"x\[7, 1\] is inf. Clip"),
        ([[1e39]], r"in float32, but x\[7, 0\] is inf"),
        ([[1.0, 2.0]], "3 features.*in the same order"),
    ],
)
def test_refusals_of_tables(x, words):
    with pytest.raises(ValueError, match=words):
        features(x, width=3 if "same order" in words else None, first=7)


@pytest.mark.parametrize("x", [3.0, np.float64(3), "text", {"a": [1]}, None])
def test_what_has_no_rows_cannot_be_counted(x):
    with pytest.raises(ValueError, match="one row per input"):
        count(x)


def test_numbers():
    np.testing.assert_array_equal(numbers([1, 2]), [1.0, 2.0])
    for y, words in (
        (["a"], "For classes use a classifier"),
        ([[1.0]], "one per example"),
        ([], "at least one number"),
        ([0.0, np.nan], r"y\[1\] is nan"),
    ):
        with pytest.raises(ValueError, match=words):
            numbers(y)


def test_lengths():
    check_lengths(csr_matrix(TABLE), [0, 1, 2])
    with pytest.raises(ValueError, match="they have 3 and 2"):
        check_lengths(TABLE, [0, 1])
