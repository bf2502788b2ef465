import csv
import io

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from askwell.rows import separated


def write(path, rows, **options):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", **options).writerows(rows)
    path.write_bytes(text.getvalue().encode())
    return str(path)


CELL = st.text(st.sampled_from('ab",\n; é'), max_size=6)


@given(
    rows=st.lists(st.tuples(CELL, st.integers(-99, 99)), min_size=1, max_size=30),
    size=st.integers(1, 8),
    last=st.booleans(),
)
@example(rows=[(" ", 0), (', "', 0)], size=1, last=True)  # no blank between cells: it stands inside one
def test_pieces_are_the_rows_whatever_is_quoted(tmp_path_factory, rows, size, last):
    path = tmp_path_factory.getbasetemp() / "quoted.csv"
    place = write(path, [("name", "value"), *[(f"{text}x", value) for text, value in rows]])
    if not last:
        path.write_bytes(path.read_bytes()[:-1])
    names, form, start = separated.header(place)
    assert (names, form["delimiter"]) == (["name", "value"], ",")
    pieces = separated.pieces(place, start, size)
    assert [count for _, _, count in pieces[:-1]] == [size] * (len(pieces) - 1)
    assert sum(count for _, _, count in pieces) == len(rows)
    values = np.concatenate([separated.read_piece(place, piece[:2], ["value"]) for piece in pieces])
    assert values[:, 0].tolist() == [value for _, value in rows]
    texts = [text for piece in pieces for text in separated.read_column(place, piece[:2], "name")]
    assert texts == [f"{text}x" for text, _ in rows]


@pytest.mark.parametrize("block", [7, 64])
def test_blocks_may_end_anywhere(tmp_path, monkeypatch, block):
    place = write(tmp_path / "a.csv", [("a", "b"), *[(f'say "{number}"\n,', number) for number in range(50)]])
    _, _, start = separated.header(place)
    whole = separated.pieces(place, start, 7)
    monkeypatch.setattr(separated, "BLOCK", block)
    assert separated.pieces(place, start, 7) == whole
    assert sum(rows for _, _, rows in whole) == 50


def test_missing_values_and_other_delimiters(tmp_path):
    (tmp_path / "a.csv").write_text("\ufeffa;b\n1;\nNA;2.5\n")
    place = str(tmp_path / "a.csv")
    names, form, start = separated.header(place)
    assert (names, form["delimiter"]) == (["a", "b"], ";")
    ((first, stop, rows),) = separated.pieces(place, start, 100)
    assert rows == 2
    np.testing.assert_array_equal(separated.read_piece(place, (first, stop), ["b", "a"]), [[np.nan, 1], [2.5, np.nan]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\nx,3\n", "row 2: 'a' must be a number, but it is 'x'"),
        ("a,b\n1\n", "row 1 has 1 values for 2 columns"),
    ],
)
def test_what_is_no_number_is_named(tmp_path, text, said):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        separated.read_piece(str(tmp_path / "a.csv"), (4, len(text)), ["a", "b"])
