"""A table's columns, places and labels."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from askwell.data import table as tables
from askwell.data.table import (
    Table,
    cell_text,
    column_values,
    is_missing,
    label_column,
    listed,
    numbers_in,
    numbers_of,
    some_rows,
    typed,
)


def people():
    return Table("people.csv", {"age": np.array([31, 5, 8]), "Town": ["Oslo", None, "Rome"]}, [2, 4, 5])


@pytest.mark.parametrize(
    ("asked", "meant"), [("town", "'Town'"), ("Twon", "'Town'"), ("AGE", "'age'"), ("ages", "'age'")]
)
def test_an_unknown_column_is_answered_with_the_closest(asked, meant):
    with pytest.raises(ValueError, match=rf"no column '{asked}'. Did you mean {meant}\? Its columns are age, Town"):
        people().column(asked)


def test_nothing_is_suggested_where_nothing_is_close():
    with pytest.raises(ValueError, match=r"no column 'xylophone'. Its columns are age, Town\."):
        people().column("xylophone")


def test_one_column_is_likely_several():
    with pytest.raises(ValueError, match=r"Its only column is 'a b c'.*delimiter=' '"):
        Table("a.csv", {"a b c": np.arange(3)}, range(2, 5)).column("a")


def test_one_column_with_a_plain_name_is_one():
    with pytest.raises(ValueError, match=r"a\.csv has no column 'text'\. Its only column is 'body'\.$"):
        Table("a.csv", {"body": ["x"]}, range(2, 3)).column("text")


def test_a_table_without_columns_says_so():
    with pytest.raises(ValueError, match=r"a\.csv has no column 'text'\. It has no columns at all\.$"):
        Table("a.csv", {}, range(2, 3)).column("text")


def test_places_are_rows_of_the_file():
    assert [people().place(row) for row in range(3)] == ["people.csv:2", "people.csv:4", "people.csv:5"]


def test_labels_are_plain_values():
    table = Table("a", {"i": np.array([1, 2]), "f": np.array([0.5, 1]), "b": np.array([True, False]), "t": ["x", "y"]},
                  range(2))  # fmt: skip
    for name, labels in {"i": [1, 2], "f": [0.5, 1.0], "b": [True, False], "t": ["x", "y"]}.items():
        found = label_column(table, name)
        assert found == labels
        assert [*map(type, found)] == [*map(type, labels)]


@pytest.mark.parametrize(("values", "said"), [
    (["a", None, "b"], r"no value in 1 of 3 rows \(row 4\)"),
    ([None] * 3, r"no value in 3 of 3 rows \(rows 2, 4, 5\)"),
    (np.array([np.nan, 1.0, np.nan]), r"no value in 2 of 3 rows \(rows 2, 5\)"),
])  # fmt: skip
def test_labels_must_be_there(values, said):
    with pytest.raises(ValueError, match=said):
        label_column(Table("a.csv", {"y": values}, [2, 4, 5]), "y")


def test_not_all_rows_without_a_label_are_named():
    with pytest.raises(ValueError, match=r"\(rows 2, 3, 4, 5, 6 and 95 more\)"):
        label_column(Table("a.csv", {"y": [None] * 100}, range(2, 102)), "y")


def test_small_things():
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b", "c"], most=1) == "a and 2 more"
    assert is_missing(np.array([1, 2])).tolist() == [False, False]
    assert is_missing(np.array([True])).tolist() == [False]
    assert typed(np.array([1.0, 2.5])).dtype == typed(np.array([1.0, 2.0**53])).dtype == float
    assert typed(np.array([1.0, 2.0**53 - 1])).tolist() == [1, 2**53 - 1]


def test_some_rows_keep_their_places():
    written = {"n": ["0.0", "1.10", "2", "3e0"], "t": np.array([b"1", b"2", b"3", b"4"])}
    columns = {"n": np.arange(4.0), "s": ["a", None, "b", "c"], "t": np.arange(4.0)}
    whole = Table("a.csv", columns, range(2, 6), ("a", "b", "c", "d"), written)
    part = some_rows(whole, np.array([3, 1]))
    assert (part.ids, part.place(0), part.columns["n"].tolist()) == (("d", "b"), "a.csv:5", [3, 1])
    assert (part.texts("n"), part.texts("s"), part.text("t", 1)) == (["3e0", "1.10"], ["c", ""], "2")
    assert whole.rows == 4


@pytest.mark.parametrize(("value", "text"), [
    (None, ""), (float("nan"), ""), (np.nan, ""), (3, "3"), (np.float32(0.5), "0.5"), (True, "true"),
    (np.False_, "false"), ("007", "007"),
    (np.bytes_(b"1.10"), "1.10"),
])  # fmt: skip
def test_values_as_text(value, text):
    assert cell_text(value) == text


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
        patch.setattr(tables, "LOOK", 1)
        fast = numbers_in(found.cast(pa.large_string()) if kind else found, comma=comma)
    assert same(fast, numbers_of(cells, comma=comma))


@pytest.mark.parametrize("cells", [["1", "2"], ["1.5", "-inf"], ["", "2"], [" 1", "NA"], ["1.10", "?"]])
def test_ordinary_numbers_need_no_python(monkeypatch, cells):
    expected = numbers_of(cells, comma=False)
    monkeypatch.setattr(tables, "numbers_of", lambda some, **_: expected if len(some) == tables.LOOK else 1 / 0)
    monkeypatch.setattr(tables, "LOOK", len(cells))
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
