"""Numbers or texts: Arrow's numbers are Python's."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from askwell.data import columns
from askwell.data.columns import column_values, numbers_in, numbers_of

CELL = (
    st.sampled_from(["", "NA", " ? ", "nan", "-inf", "1,5", "1.5", "007", "-01", "+1", "+02", "nan(1)", "1_0", "١"])
    | st.text(st.sampled_from("0123.,-+e \t"), max_size=5)
    | st.floats().map(repr)
    | st.integers().map(str)
)


def arrow(cells, cut=0):
    return pa.chunked_array([cells[:cut], cells[cut:]], pa.string())


def same(a, b):
    return (a is None) == (b is None) and (a is None or np.array_equal(a, b, equal_nan=True))


@settings(max_examples=800, deadline=None)
@given(cells=st.lists(CELL, min_size=1, max_size=6), comma=st.booleans(), cut=st.integers(0, 6), kind=st.booleans())
@example(cells=["1", "nan(1)"], comma=False, cut=0, kind=False)
@example(cells=["0", "-0", "0.5", "-00"], comma=False, cut=1, kind=True)
def test_arrow_finds_the_numbers_that_python_finds(cells, comma, cut, kind):
    found = arrow(cells, cut)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "LOOK", 1)
        fast = numbers_in(found.cast(pa.large_string()) if kind else found, comma=comma)
    assert same(fast, numbers_of(cells, comma=comma))


@pytest.mark.parametrize("cells", [["1", "2"], ["1.5", "-inf"], ["", "2"], [" 1", "NA"], ["1.10", "?"]])
def test_ordinary_numbers_need_no_python(monkeypatch, cells):
    expected = numbers_of(cells, comma=False)
    monkeypatch.setattr(columns, "numbers_of", lambda some, **_: expected if len(some) == columns.LOOK else 1 / 0)
    monkeypatch.setattr(columns, "LOOK", len(cells))
    whole = arrow(cells * 2)
    assert same(numbers_in(whole, comma=False), np.tile(expected, 2))


def test_cells_are_kept_where_values_do_not_print_as_they(tmp_path):
    for cells, kept in [(["1", "-2"], False), (["-0"], True), (["1.0"], True), (["", "1"], True), (["x", ""], False)]:
        _, written = column_values(arrow(cells), comma=False)
        assert (written is not None) == kept, cells
        assert written is None or written.to_pylist() == cells


def test_a_text_that_repeats_is_held_once():
    values, _ = column_values(arrow(["oslo ", "rome", "oslo "] * 50), comma=False)
    assert len({*map(id, values)}) == 2


def test_a_slice_is_read_from_where_it_begins():
    cells = arrow(["x", "007", "1", "2"]).slice(2)
    assert numbers_in(cells, comma=False).tolist() == [1, 2]
