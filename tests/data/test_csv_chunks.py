import csv
import io

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from askwell.data import csv_chunks, read_table
from askwell.data.csv_chunks import extents, layout, read_chunk, read_column, read_numbers
from askwell.data.files import Chunk


def chunks(place, start, rows):
    parts = extents(place, start, rows)
    return [Chunk(place, "csv", first, stop, 0, count, number) for first, stop, count, number in parts]


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
def test_chunks_are_the_rows_whatever_is_quoted(tmp_path_factory, rows, size, last):
    path = tmp_path_factory.getbasetemp() / "quoted.csv"
    place = write(path, [("name", "value"), *[(f"{text}x", value) for text, value in rows]])
    if not last:
        path.write_bytes(path.read_bytes()[:-1])
    columns, form, start = layout(place)
    assert (columns, form.delimiter) == ({"name": 0, "value": 1}, ",")
    found = chunks(place, start, size)
    assert [chunk.rows for chunk in found[:-1]] == [size] * (len(found) - 1)
    assert sum(chunk.rows for chunk in found) == len(rows)
    values = np.concatenate([read_numbers(chunk, ["value"]) for chunk in found])
    assert values[:, 0].tolist() == [value for _, value in rows]
    texts = [text for chunk in found for text in read_column(chunk, "name")]
    assert texts == [f"{text}x" for text, _ in rows]


@pytest.mark.parametrize("block", [7, 64])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_blocks_may_end_anywhere(tmp_path, monkeypatch, block, end):
    place = write(tmp_path / "a.csv", [("a", "b"), *[(f'say "{number}"\n,', number) for number in range(50)]])
    text = (tmp_path / "a.csv").read_text().replace('"\n', f'"{end}')
    (tmp_path / "a.csv").write_bytes(text.encode())
    start = layout(place).start
    whole = chunks(place, start, 7)
    monkeypatch.setattr(csv_chunks, "BLOCK", block)
    assert chunks(place, start, 7) == whole
    assert sum(chunk.rows for chunk in whole) == 50


def test_missing_values_and_other_delimiters(tmp_path):
    (tmp_path / "a.csv").write_text("\ufeffa;b\n1;\nNA;2.5\n")
    place = str(tmp_path / "a.csv")
    columns, form, start = layout(place)
    assert ([*columns], form.delimiter) == (["a", "b"], ";")
    (chunk,) = chunks(place, start, 100)
    assert (chunk.rows, chunk.number) == (2, 2)
    np.testing.assert_array_equal(read_numbers(chunk, ["b", "a"]), [[np.nan, 1], [2.5, np.nan]])
    table = read_chunk(chunk, ["b"])
    assert (table.place(1), table.texts("b")) == ("a.csv:3", ["", "2.5"])


LINES = st.lists(st.sampled_from(["1,2", '"3","4"', '"a\n\nb",5', ""]), max_size=20)


@given(lines=LINES, size=st.integers(1, 6), block=st.integers(1, 30), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_rows_have_the_numbers_they_have_in_a_table(tmp_path_factory, lines, size, block, end):
    """Also where empty lines stand between them, which count."""
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    path.write_bytes(end.join(["a,b", "0,0", *lines]).encode())
    table = read_table(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_chunks, "BLOCK", block)
        found = chunks(str(path), layout(str(path)).start, size)
    assert [chunk.number + row for chunk in found for row in range(chunk.rows)] == [*table.numbers]
    assert [text for chunk in found for text in read_column(chunk, "a")] == table.texts("a")


def test_a_header_longer_than_a_look(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_chunks, "LOOK", 16)
    place = write(tmp_path / "a.csv", [[f"x{number}" for number in range(100)], [*range(100)], [*range(100)]])
    columns, _, start = layout(place)
    assert columns == {f"x{number}": 1 for number in range(100)}
    assert read_numbers(chunks(place, start, 1)[1], ["x99"]).tolist() == [[99]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\nx,3\n", "a.csv:3: 'a' must be a number, but it is 'x'"),
        ("a,b\n1,2\n07,3\n", "a.csv:3: 'a' must be a number, but it is '07'"),
        ("a;b\n1,5;2\n1.5;3\n", "a.csv: 'a' must be numbers, but it mixes 1,5 and 1.5"),
        ("a,b\n1\n", "a.csv:2: this row has 1 value and the header names 2 columns"),
        ("a,b\n1,2\n3,4,5\n", "a.csv:3: this row has 3 values"),
    ],
)
def test_what_is_no_number_is_named(tmp_path, text, said):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=said):
        read_numbers(Chunk(str(tmp_path / "a.csv"), "csv", 4, len(text), 0, 2, 2), ["a", "b"])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("a,b\n1,2\n".encode("utf-16"), "it is UTF-16"),
        (b"a,b", "it has no second row"),
        (b"a,a\n1,2\n", "columns must have different names"),
        (b"1.5,2\n1,2\n", "the first row must name the columns"),
    ],
)
def test_files_that_are_no_tables_of_numbers(tmp_path, data, said):
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(ValueError, match=said):
        layout(str(tmp_path / "a.csv"))
