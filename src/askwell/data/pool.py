"""The pool: inputs that could be asked about, each with the id its owner gave it.

A pool is anything with a length and rows: an array, a data frame, a list of inputs, a dict of arrays (tokenised text),
the path of a table or of a saved array. What comes out of `take` is what the model gets; nothing is copied before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.arrays import check_table, count, plain, take
from askwell.data.dataset import Rows, open_rows
from askwell.data.encoding import encoded
from askwell.data.files import is_pattern, saved_array
from askwell.data.reading import read_table

__all__ = ["Pool", "as_pool", "plain"]


@final
@dataclass(frozen=True, eq=False)
class Pool:
    """Inputs and their ids, in order.

    >>> pool = as_pool(np.arange(6.0).reshape(3, 2))
    >>> len(pool), pool.ids, pool.take([2])
    (3, range(0, 3), array([[4., 5.]]))
    """

    x: Any
    ids: Sequence[Any]  # a range, if rows are counted: ten million numbers need no memory
    positions: Mapping[Any, int]  # id -> its place in `ids`

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, positions: Any) -> Any:
        """The inputs at these positions, or of a slice of all, as the model wants them."""
        return take(self.x, positions if isinstance(positions, slice) else np.asarray(positions, np.intp))

    def position(self, item: Any) -> int:
        """Where the item with this id stands."""
        try:
            return self.positions[plain(item)]
        except (KeyError, TypeError):
            shown = ", ".join(repr(known) for known in self.ids[:3])
            raise ValueError(
                f"ids must be ids of the pool's {len(self)} items ({shown}{', ...' if len(self) > 3 else ''}), "
                f"but {item!r} is none of them. Ids are the data frame's index, or row numbers: of a table in a "
                "file those of the file, where the first row under a CSV's header is 2."
            ) from None


def as_pool(pool: Any, *, ids: Iterable[Any] | None = None) -> Pool:
    """A pool over an array, a data frame, a list of inputs, a dict of arrays, or the path of a table or a saved array.

    A folder, a glob or a URL is a pool that stays in its files (`askwell.data.open_rows`). Ids are `ids`, else the
    frame's index, else row numbers: those of a table in a file are the numbers that the file gives them, as everywhere
    (a CSV's first row of values is 2), all others count from 0. They must all be different.
    """
    if isinstance(pool, Pool):
        return pool
    x, numbers = _opened(pool) if isinstance(pool, str | Path) else (pool, None)
    check_table(x, name="pool")
    if not hasattr(x, "__len__") and not hasattr(x, "shape"):
        raise ValueError(
            f"pool must be an array, a data frame, a list of inputs or a path, but it is {type(x).__name__}. "
            "Try list(pool) for a generator."
        )
    n = count(x) if isinstance(x, dict) and x else int(x.shape[0]) if hasattr(x, "shape") else len(x)
    if n == 0:
        raise ValueError("pool must have at least one input to ask about, but it is empty.")
    if getattr(x, "ndim", 2) == 1 and getattr(getattr(x, "dtype", None), "kind", "O") in "fiub":
        raise ValueError(
            f"pool must have one row per input, but it is a plain list of {n} numbers. "
            "Try pool.reshape(-1, 1) if each input is one number."
        )
    if isinstance(x, Rows):
        numbers = x.numbers
    elif numbers is None:
        numbers = range(n)
    if ids is None and isinstance(numbers, range) and not hasattr(x, "iloc"):
        return Pool(x, numbers, _Counted(numbers))
    given = ids if ids is not None else x.index if hasattr(x, "iloc") else numbers
    known = tuple(plain(item) for item in given)
    if len(known) != n:
        raise ValueError(f"ids must have one id per input, but there are {len(known)} ids and {n} inputs.")
    positions = {item: place for place, item in enumerate(known)}
    if len(positions) < n:
        twice = next(item for place, item in enumerate(known) if positions[item] != place)
        raise ValueError(
            f"ids must all be different, but {twice!r} occurs more than once. "
            "Try frame.reset_index(), or give ids of your own."
        )
    return Pool(x, known, positions)


@final
class _Counted(Mapping[Any, int]):
    """Row numbers, which follow each other, and their places."""

    def __init__(self, rows: range) -> None:
        self._rows = rows

    def __getitem__(self, item: Any) -> int:
        if isinstance(item, int | float) and item in self._rows:
            return int(item) - self._rows.start
        raise KeyError(item)

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _opened(path: str | Path) -> tuple[Any, Sequence[int] | None]:
    """What the file holds, a saved array or the encoded columns of a table; and the numbers of its rows."""
    file = Path(path)
    if file.is_dir() or is_pattern(path):
        return open_rows(path), None
    if not file.exists():
        raise ValueError(f"pool must be the path of a file, but {str(path)!r} does not exist.")
    if file.suffix == ".npy":
        return saved_array(file), None
    table = read_table(file)
    return encoded(table).x, table.numbers
