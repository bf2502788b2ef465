"""Draws that are votes: each is sure of a class, as the trees of a forest grown to the end are.

`Votes` stands for such beliefs `probs [n, k, c]` and holds a byte where those have c floats. p(y|x) is then a share of
votes, BALD is the entropy of that, and p(y, y*) is the share of draws that vote for y here and for y* there:

    K I(y; y*) = sum_(y, y*) F(n(y, y*)) - sum_y F(n(y)) - sum_y* F(n(y*)) + F(K),    F(n) = n log n,

with counts n. F comes from a table: no logarithm and no product is left.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

__all__ = ["LANES", "Votes", "code_type", "entropy", "vote_logs"]

LANES = 8  # sums that a weighted mean is taken in
BITS = 50  # of the largest F: the last ones of a float64 are not the same on every machine


@final
@dataclass(frozen=True, eq=False)
class Votes:
    """Beliefs `[n, k, c]` of draws that are each sure of a class, as class numbers.

    The scores of `askwell.information` take them like an array, and so does NumPy.

    >>> votes = Votes(np.array([[0, 2, 2]], np.uint8), 3)
    >>> votes.shape, votes.counts.tolist()
    ((1, 3, 3), [[1, 0, 2]])
    >>> np.asarray(votes)
    array([[[1., 0., 0.],
            [0., 0., 1.],
            [0., 0., 1.]]], dtype=float32)
    """

    codes: np.ndarray  # [n, k]  `code_type(classes)`
    classes: int

    dtype: ClassVar[Any] = np.dtype(np.float32)  # of the array that this stands for
    device: ClassVar[str] = "cpu"
    ndim: ClassVar[int] = 3

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n, k, c)."""
        return (*self.codes.shape, self.classes)

    @property
    def nbytes(self) -> int:
        """That are held."""
        return self.codes.nbytes

    @property
    def counts(self) -> np.ndarray:
        """How many draws vote for each class, `[n, c]`."""
        counts = [np.count_nonzero(self.codes == y, axis=1) for y in range(self.classes)]
        return np.stack(counts, axis=1)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> "Votes":
        """The beliefs about some of the inputs: a slice, a mask or a list of positions."""
        codes = self.codes[rows]
        if codes.ndim != 2:
            raise TypeError("rows of Votes are taken by a slice, a mask or a list. Try numpy.asarray(votes) for more.")
        return Votes(codes, self.classes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        probs = np.zeros(self.shape, np.float32)
        np.put_along_axis(probs, self.codes[..., None].astype(np.intp), np.float32(1), axis=2)
        return probs if dtype is None else probs.astype(dtype, copy=False)


def entropy(means: np.ndarray) -> np.ndarray:
    """-sum_y p(y) log p(y) of `means [n, c]`, as [n]."""
    total: np.ndarray = np.maximum(-np.sum(means * np.log(np.where(means > 0, means, 1)), axis=-1), 0.0)
    return total


def code_type(classes: int) -> Any:
    """The type of class numbers: a byte where that is enough."""
    return np.uint8 if classes <= 256 else np.uint16


def vote_logs(draws: int) -> tuple[np.ndarray, float]:
    """F(n) = n log n for n up to the number of draws, as whole numbers, and how many of these make 1.

    Sums of whole numbers do not depend on their order.

    >>> f, one = vote_logs(2)
    >>> f / one
    array([0.        , 0.        , 1.38629436])
    """
    n = np.arange(draws + 1, dtype=np.float64)
    logs = n * np.log(np.maximum(n, 1))
    one = 2.0 ** (BITS - math.ceil(math.log2(logs[-1] + 1)))
    return np.round(logs * one).astype(np.int64), one
