"""A table's columns, places and labels."""

import numpy as np
import pytest

from askwell.tables.table import Table, is_missing, label_column, listed, typed


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
