"""Columns as numbers: each way against the same thing written by hand, and what is left out."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.data import Table, encoded, encoding
from askwell.data.encoding import MOST_LEVELS, fit_texts, in_one_unit, is_prose, is_wordy


def table(**columns):
    length = len(next(iter(columns.values())))
    return Table("a.csv", columns, range(2, length + 2))


def by_name(found):
    return {name: found.x[:, place].tolist() for place, name in enumerate(found.names)}


# ---- ways ----


def test_numbers_and_truth_values_as_they_are():
    found = encoded(table(f=np.array([0.5, -1]), i=np.array([7, 8]), b=np.array([True, False])))
    assert by_name(found) == {"f": [0.5, -1], "i": [7, 8], "b": [1, 0]}
    assert found.x.dtype == np.float32
    assert found.note == "numbers as they are: f, i, b"


def test_large_numbers_are_not_rounded():
    found = encoded(table(a=np.array([2**24, 2**24 + 1]), b=np.array([0.5, 0.25])))
    assert found.x.dtype == np.float64
    assert by_name(found)["a"] == [2**24, 2**24 + 1]


def test_missing_numbers_are_medians_and_marked():
    given_values = np.array([1, np.nan, 3, 10, np.nan])
    before = given_values.copy()
    found = encoded(table(a=given_values))
    assert by_name(found) == {"a": [1, 3, 3, 10, 3], "a (missing)": [0, 1, 0, 0, 1]}
    assert "missing values as the median, and a column that says where: a (2 rows)" in found.note
    np.testing.assert_array_equal(given_values, before)


def test_a_number_that_is_known_or_not_says_that():
    assert by_name(encoded(table(a=np.array([4, np.nan, 4])))) == {"a": [4, 4, 4], "a (missing)": [0, 1, 0]}


def test_few_levels_have_a_column_each():
    found = encoded(table(t=["b", "a", "c", "a"]))
    assert by_name(found) == {"t=a": [0, 1, 0, 1], "t=b": [1, 0, 0, 0], "t=c": [0, 0, 1, 0]}
    assert found.note == "one column per value: t (3 values)"


def test_of_two_levels_one_is_enough():
    assert by_name(encoded(table(t=["true", "false", "true"]))) == {"t=true": [1, 0, 1]}


def test_missing_is_a_level():
    found = encoded(table(t=["a", None, "b"]))
    assert by_name(found) == {"t=a": [1, 0, 0], "t=b": [0, 0, 1], "t=(missing)": [0, 1, 0]}
    assert by_name(encoded(table(t=["a", None]))) == {"t=a": [1, 0], "t=(missing)": [0, 1]}


def test_rare_levels_share_a_column():
    levels = [f"level {place:03}" for place in range(MOST_LEVELS + 5)]
    values = levels[:-5] * 3 + levels[-5:]
    found = encoded(table(t=values))
    assert found.names == (*(f"t={level}" for level in levels[:-5]), "t=(other)")
    assert (found.x.sum(axis=1) == 1).all()
    assert found.x[:, -1].tolist() == [0] * 3 * MOST_LEVELS + [1] * 5
    assert found.note == f"the {MOST_LEVELS} most frequent values and (other): t ({MOST_LEVELS + 5} values)"


@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=3, max_size=20).filter(lambda v: len({*v}) > 2))
def test_each_row_has_one_level(values):
    found = encoded(table(t=values))
    assert (found.x.sum(axis=1) == 1).all()
    for row, value in enumerate(values):
        assert found.x[row, found.names.index(f"t={value or '(missing)'}")] == 1


def test_dates_are_days():
    found = encoded(table(d=["1970-01-02", "2024-01-31T12:00", None, "1970-01-01T02:00+02:00", "1970-01-02 00:00:00Z"]))
    day = (datetime.date(2024, 1, 31) - datetime.date(1970, 1, 1)).days + 0.5
    assert by_name(found) == {"d (days)": [1, day, 1, 0, 1], "d (missing)": [0, 0, 1, 0, 0]}
    assert "dates as days since 1970-01-01: d" in found.note


def test_what_only_looks_like_dates_is_text():
    assert encoded(table(d=["2024-01-31", "2024-02-31"])).names == ("d=2024-02-31",)


# ---- what is left out ----


def test_what_says_nothing_is_left_out():
    names = [f"name {place}" for place in range(30)]
    found = encoded(
        table(x=np.arange(30) % 7, row=np.arange(5, 35), one=np.ones(30), word=["w"] * 30, none=[None] * 30, name=names)
    )
    assert found.names == ("x",)
    assert found.note.splitlines()[1] == (
        "left out: row (it counts the rows), one (one value only), word (one value only), none (no values), "
        "name (30 different texts in 30 rows)"
    )


def test_a_bad_cell_among_numbers_is_pointed_at():
    cells = [str(place / 7) for place in range(30)]
    cells[4] = "oops"
    assert (
        "t (numbers, except for 1 cell such as 'oops' in a.csv:6; correct or"
        in encoded(table(t=cells, x=np.arange(30) % 7)).note
    )


def test_dropped_columns_are_not_used():
    assert encoded(table(a=np.arange(3), b=np.arange(3)), drop=["a"]).names == ("b",)
    with pytest.raises(ValueError, match=r"no column 'A'. Did you mean 'a'"):
        encoded(table(a=np.arange(3)), drop=["A"])


def test_columns_asked_for_are_used_or_refused():
    free = [f"name {place}" for place in range(30)]
    whole = table(row=np.arange(30), one=np.ones(30), name=free, x=np.arange(30) % 7)
    assert encoded(whole, columns=["x", "row", "one"]).names == ("x", "row", "one")
    with pytest.raises(ValueError, match=r"the column 'name' of a\.csv cannot be used: 30 different texts.*embeddings"):
        encoded(whole, columns=["x", "name"])


def test_something_must_be_left():
    with pytest.raises(
        ValueError, match=r"no column that can be used as an input. Left out: b \(one value only\).*embeddings"
    ):
        encoded(table(a=np.arange(3), b=["x", "x", "x"]), drop=["a"])
    with pytest.raises(ValueError, match="Left out: nothing; there are no others"):
        encoded(table(a=np.arange(3)), drop=["a"])


def test_infinite_numbers_are_refused():
    with pytest.raises(ValueError, match=r"a.csv:3: the column 'a' holds an infinite number here"):
        encoded(table(a=np.array([1, -np.inf, 2])))


# ---- another table ----


def test_another_table_in_the_same_features():
    found = encoded(table(n=np.array([1.0, np.nan, 5]), t=["a", "b", "c"], d=["1970-01-02"] * 3))
    other = table(d=["1970-01-05", None], t=["z", "b"], extra=["?", "?"], n=np.array([np.nan, 7]))
    assert found.names == ("n", "n (missing)", "t=a", "t=b", "t=c", "d (days)")
    assert found.encode(other).tolist() == [[3, 1, 0, 0, 0, 4], [7, 0, 0, 1, 0, 1]]
    np.testing.assert_array_equal(found.encode(table(n=np.array([1.0, np.nan, 5]), t=["a", "b", "c"],
                                                     d=["1970-01-02"] * 3)), found.x)  # fmt: skip


def test_levels_that_look_like_numbers_elsewhere_are_levels():
    found = encoded(table(t=["1", "2", "x"]))
    assert found.encode(table(t=np.array([2, 1]))).tolist() == [[0, 1, 0], [1, 0, 0]]


@pytest.mark.parametrize(("columns", "said"), [
    ({"n": ["1", "many"], "d": ["2024-01-01"] * 2}, "a.csv:3: the column 'n' must hold a number here .* it is 'many'"),
    ({"n": np.arange(2), "d": ["2024-01-01", "soon"]}, "a.csv:3: the column 'd' must hold a date like .* it is 'soon'"),
    ({"n": np.arange(2)}, "a.csv has no column 'd'"),
])  # fmt: skip
def test_another_table_must_fit(columns, said):
    found = encoded(table(n=np.arange(3), d=["2024-01-01", "2024-01-02", "2024-01-03"]))
    with pytest.raises(ValueError, match=said):
        found.encode(table(**columns))


PROSE = [f"message number {i} about something else" for i in range(30)]


def test_prose():
    assert is_prose(PROSE)
    assert not is_prose(PROSE[:20])
    assert not is_prose(["Ada Lovelace", "Alan Turing"] * 50)
    assert not is_prose([f"{first} {last}" for first in "abcdef" for last in "uvwxyz"])
    assert is_wordy([f"{first} {last}" for first in "abcdef" for last in "uvwxyz"], words=2)
    assert not is_prose(np.arange(50.0))


def test_other_texts_are_encoded_as_those_that_were_learnt_from():
    encode, note = fit_texts(PROSE)
    whole = encode(PROSE)
    assert whole.shape == (30, 29)
    assert "words and pairs of words by TF-IDF" in note
    np.testing.assert_allclose(encode(PROSE[3:5]), whole[3:5])
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1)
    assert encode(["nothing known here", ""])[1].tolist() == [0.0] * 29


def test_texts_without_words():
    encode, note = fit_texts(["你好世界", "你好", "世界"])
    assert "words" in note
    encode, note = fit_texts(["a", "b", "!"])
    assert "groups of one to three letters" in note
    assert encode(["a"]).shape[0] == 1


def test_one_unit_is_that_of_the_rows_it_was_learnt_from():
    x = np.array([[1.0, 5.0], [3.0, 5.0]])
    unit = in_one_unit(x)
    assert np.isclose(np.square(unit(x)).mean(), 1)
    assert np.isfinite(in_one_unit(np.ones((3, 2)))(np.ones((1, 2)))).all()


def test_many_texts_are_learnt_from_by_a_sample_of_each_part(monkeypatch):
    pool = [f"from{i % 7} a letter about{i % 5}" for i in range(400)]
    whole, _ = fit_texts(pool)
    monkeypatch.setattr(encoding, "LEARNT", 60)
    encode, note = fit_texts(pool, ["only targets say zebra", "zebra again and again"])
    assert "learnt from 62 of 402 texts" in note
    assert np.linalg.norm(encode(["zebra"])) > 0
    found = encode(pool)  # some at a time
    np.testing.assert_allclose(found, np.concatenate([encode([text]) for text in pool]), atol=1e-12)
    assert found.shape[0] == whole(pool).shape[0] == 400
    likeness = found @ found.T
    expected = whole(pool) @ whole(pool).T
    assert np.corrcoef(likeness.ravel(), expected.ravel())[0, 1] > 0.95
    unit = in_one_unit(found)
    assert np.isclose(np.square(unit(found)).mean(), 1, rtol=1e-5)
