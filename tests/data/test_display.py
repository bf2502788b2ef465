"""Items by their ids."""

import numpy as np
import pytest

from askwell.data import Items, LeftOut, ShownRow, Table


def table(n):
    return Table("a.csv", {"n": np.arange(n), "s": [f"s{i}" if i else None for i in range(n)]}, range(2, n + 2))


def test_positions_are_those_of_the_ids():
    items = Items("a", "text", tuple(f"k{i}" for i in range(1000)), [f"text {i}" for i in range(1000)])
    assert [items.position(f"k{i}") for i in (0, 17, 999)] == [0, 17, 999]
    assert items.take(np.array([5, 3])) == ["text 5", "text 3"]
    for wrong in ("k1000", 5, None, [1]):
        with pytest.raises(ValueError, match="item must be the id of one of the 1,000 items of a"):
            items.position(wrong)


def test_rows_of_a_table():
    items = Items("a.csv", "table", ("2", "3", "4"), range(3), table(3), ("s", "n"))
    assert items.show("2") == ShownRow((("s", ""), ("n", "0")))
    assert items.take([2, 0]).columns["s"] == ["s2", None]
    assert items.columns == ("n", "s")


def test_what_was_left_out_says_where():
    assert str(LeftOut("a.csv:3", "nothing to show")) == "a.csv:3: nothing to show"
