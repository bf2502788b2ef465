"""CSV and its relatives, as they come."""

import csv
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from askwell.data import csv as askwell_csv
from askwell.data import read_table
from askwell.data.csv import extents, layout, read_chunk, read_column, read_numbers
from askwell.data.files import Chunk
from askwell.data.table import MISSING


def read(folder, text, name="a.csv", **options):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, **options)


def refused(folder, text, said, **options):
    with pytest.raises(ValueError, match=said):
        read(folder, text, **options)


def plain(values):
    """A column as a list in which None is missing."""
    return [None if value is None or value != value else value for value in list(values)]


# ---- forms ----


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_delimiters_line_ends_and_marks_of_encoding(tmp_path, mark, end, encoding):
    lines = [["name", "näme 2", "n"], ["a b", "ü", "1"], ["c", "é", "2"]]
    table = read(tmp_path, end.join(mark.join(line) for line in lines).encode(encoding))
    assert {name: plain(column) for name, column in table.columns.items()} == {
        "name": ["a b", "c"],
        "näme 2": ["ü", "é"],
        "n": [1, 2],
    }


def test_quoted_delimiters_newlines_and_quotation_marks(tmp_path):
    table = read(tmp_path, 'a,b\n"x, ""y""\nz",1\n"w",2\n')
    assert table.columns["a"] == ['x, "y"\nz', "w"]
    assert table.place(1) == "a.csv:3"  # as a spreadsheet counts


def test_a_delimiter_may_be_named(tmp_path):
    table = read(tmp_path, "a b\n1 2\n", delimiter=" ")
    assert [*table.columns] == ["a", "b"]
    refused(tmp_path, "a b\n1 2\n", "delimiter must be one character", delimiter="::")


def test_another_encoding_may_be_named(tmp_path):
    assert read(tmp_path, "a\nü\n".encode("cp1252"), encoding="cp1252").columns["a"] == ["ü"]
    refused(tmp_path, "a\nb\n", "encoding must be the name of a text encoding", encoding="utf-99")
    refused(tmp_path, "a\nb\n", "not utf-16", encoding="utf-16")


def test_empty_lines_are_no_rows_but_count(tmp_path):
    table = read(tmp_path, "a,b\n1,2\n\n\n3,4\n\n")
    assert table.columns["a"].tolist() == [1, 3]
    assert [table.place(row) for row in range(2)] == ["a.csv:2", "a.csv:5"]


def test_a_column_without_a_name_gets_one(tmp_path):
    assert [*read(tmp_path, ",a\n0,5\n").columns] == ["column 1", "a"]  # as data frames are saved


def test_names_may_be_numbers_of_columns(tmp_path):
    assert [*read(tmp_path, "0,1,2\n0.5,5,6\n").columns] == ["0", "1", "2"]


# ---- values ----


@pytest.mark.parametrize(("cells", "values"), [
    (["1", "2"], np.array([1, 2])),
    (["1", " -2.5e-1 "], np.array([1, -0.25])),
    (["1.0", "2"], np.array([1, 2])),
    (["1", ""], np.array([1, np.nan])),
    (["NA", "2.5"], np.array([np.nan, 2.5])),
    (["", ""], np.array([np.nan, np.nan])),
    (["0", "-0.5"], np.array([0, -0.5])),
    (["007", "12"], ["007", "12"]),
    (["-01", "12"], ["-01", "12"]),
    (["1_000", "2"], ["1_000", "2"]),
    (["١", "2"], ["١", "2"]),
    (["1", " x "], ["1", "x"]),
    (["x", "?"], ["x", None]),
    (["None", "some"], ["None", "some"]),
    (["true", "false"], ["true", "false"]),
])  # fmt: skip
def test_what_a_column_is(tmp_path, cells, values):
    found = read(tmp_path, "k;v\n" + "".join(f"r;{cell}\n" for cell in cells)).columns["v"]
    assert type(found) is type(values)
    if isinstance(values, list):
        assert found == values
    else:
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)


def test_decimal_commas_between_semicolons_only(tmp_path):
    np.testing.assert_array_equal(read(tmp_path, "a;b\n1,5;1\n-2;\n").columns["a"], [1.5, -2])
    assert read(tmp_path, "a;b\n1.234,5;1\n").columns["a"] == ["1.234,5"]
    assert read(tmp_path, "a\tb\n1,234\t1\n").columns["a"] == ["1,234"]


@pytest.mark.parametrize("row", [0, 1, 6, 7, 19])
def test_a_late_text_makes_the_whole_column_text(tmp_path, monkeypatch, row):
    """And nothing of what was read as numbers before is lost in its spelling."""
    monkeypatch.setattr(askwell_csv, "PART", 7)
    cells = [f"{value}.0" for value in range(20)]
    cells[row] = "oops"
    table = read(tmp_path, "a,b\n" + "".join(f"{cell},{place}\n" for place, cell in enumerate(cells)))
    assert table.columns["a"] == cells
    assert table.columns["b"].tolist() == [*range(20)]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12), mark=st.sampled_from(",;\t|"))
def test_what_python_writes_is_read(tmp_path, rows, mark):
    """Any text between quotation marks comes back, but for the blanks around it and the words for missing."""
    out = io.StringIO()
    csv.writer(out, delimiter=mark, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [("a", "b"), ("x", "y"), *rows]
    )
    table = read(tmp_path, out.getvalue(), delimiter=mark)
    for place, name in enumerate("ab"):
        expected = [None if row[place].strip() in MISSING else row[place].strip() for row in rows]
        assert table.columns[name][1:] == expected


# ---- refusals ----


@pytest.mark.parametrize(("text", "said"), [
    ("a,b\n", "a.csv has a header and no rows"),
    ("\na,b\n1,2\n", "a.csv:1: the first row must name the columns, but it is empty"),
    ("a,b,a\n1,2,3\n", "a.csv:1: columns must have different names, but a occurs more than once"),
    ("a,b\n1,2\n3\n", "a.csv:3: this row has 1 value and the header names 2 columns"),
    ("a,b\n1,2\n\n3,4,5\n", "a.csv:4: this row has 3 values .* separated by ',' here"),
    ("a\tb\n1\t2\t3\n", "a.csv:2: .* separated by a tab here"),
    ("5.1,3.5,setosa\n4.9,3.0,setosa\n", "a.csv:1: the first row must name the columns, but it holds 5.1, 3.5, setosa"),
    ('a,b\n1,"2\n3,4\n', "a.csv:2: this row cannot be read: a quotation mark that is opened and never closed"),
    ('a,b\n1,2\n3,"4"5\n', "a.csv:3: this row cannot be read"),
    ('a,b\n1,"' + "x" * 140_000, "a.csv:2: this row cannot be read: a quotation mark that is opened and never closed"),
    (b"a,b\n1,2\n\xfc,4\n", r"a.csv:3: this is not utf-8 text \(byte 0xfc\). Try encoding='cp1252'"),
    (b"\x89PNG\r\n\x1a\n\x00\x00", "a.csv is no text file by its content"),
    (b"a,b\n1,\x002\n", "a.csv: line 2 holds a NUL byte"),
    ("a,b\n1,2\n".encode("utf-16-le"), "NUL byte"),
])  # fmt: skip
def test_refusals_say_where_and_what_to_try(tmp_path, text, said):
    refused(tmp_path, text, said)


def test_rows_are_counted_over_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(askwell_csv, "PART", 3)
    for row in range(2, 12):
        lines = ["a,b"] + ["1,2"] * 12
        lines[row - 1] = "1,2,3"
        refused(tmp_path, "\n".join(lines), f"a.csv:{row}: this row has 3 values")


# ---- Arrow and its slow twin ----


def cells_of(read):
    """What a reader makes of a file: cells and row numbers, or the refusal."""
    try:
        found = read()
    except ValueError as fault:
        return str(fault)
    return found and ([column.to_pylist() for column in found[0]], [*found[1]])


LETTERS = st.text(st.sampled_from('ab1.-0,;\t|" \n\r\né\0'), max_size=60)
ROWS = st.lists(st.lists(st.text(st.sampled_from('ab1,;" \n\ré'), max_size=4), max_size=3), max_size=12)


def written(rows, quoting):
    out = io.StringIO()
    csv.writer(out, quoting=quoting, lineterminator="\n").writerows(rows)
    return out.getvalue()


FILES = LETTERS | st.builds(written, ROWS, st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]))


@settings(max_examples=600, deadline=None)
@given(text=FILES, width=st.integers(1, 3), mark=st.sampled_from(",;\t|"), spaced=st.booleans())
@example(text='a,b\n"x\n\ny",1\n\n"z",2\n\n', width=2, mark=",", spaced=False)
@example(text='a\n""\n\n,\n', width=1, mark=";", spaced=False)
@example(text=",\n\n,\r\n\r\r\n,", width=2, mark=",", spaced=True)
@example(text='a"b,c\n', width=2, mark=",", spaced=False)
def test_arrow_reads_what_python_reads_or_leaves_it_to_python(text, width, mark, spaced):
    data, form, header = text.encode(), askwell_csv.Form(mark, spaced), [*"abc"[:width]]
    fast = cells_of(lambda: askwell_csv._by_arrow(data, form, width))
    assert fast in (None, cells_of(lambda: askwell_csv._by_python("a.csv", data, form, header)))


def test_arrow_reads_ordinary_files():
    """Or the test above would hold of nothing."""
    for text in ("a,b\n1,2\n", 'a,b\r\n"1, 2","""x"\r\n\r\n3,4', "a,b\n1,2\n\n\n3,4\n\n", 'a\n"x\n\ny"\n\n""\n'):
        data = text.encode()
        form = askwell_csv.likely_form(data)
        header = askwell_csv.csv_header("a.csv", data, form)
        fast = cells_of(lambda data=data, form=form, header=header: askwell_csv._by_arrow(data, form, len(header)))
        slow = cells_of(lambda d=data, form=form, header=header: askwell_csv._by_python("a.csv", d, form, header))
        assert fast == slow


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=FILES.map(lambda text: f"a,b\n{text}"), block=st.sampled_from([64, 1 << 22]))
def test_a_table_is_the_same_by_both(tmp_path, text, block):
    def table():
        try:
            found = read(tmp_path, text)
        except ValueError as fault:
            return str(fault)
        return [(name, plain(column), found.texts(name)) for name, column in found.columns.items()], [*found.numbers]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(askwell_csv, "BLOCK", block)  # Arrow cuts a file there
        fast = table()
        patch.setattr(askwell_csv, "_by_arrow", lambda *_: None)
        assert fast == table()


@pytest.mark.parametrize("text", ["a,b\n1,2\n", 'a,b\n"1",2\n', "a, b\n1, 2\n"])
def test_cells_longer_than_a_block_are_read(tmp_path, monkeypatch, text):
    monkeypatch.setattr(askwell_csv, "BLOCK", 64)
    table = read(tmp_path, text + "x" * 500 + ",3\n" + "4,5\n" * 40)
    assert table.columns["a"][1] == "x" * 500
    assert table.columns["b"].tolist() == [2, 3, *[5] * 40]


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
    monkeypatch.setattr(askwell_csv, "SCAN", block)
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
        patch.setattr(askwell_csv, "SCAN", block)
        found = chunks(str(path), layout(str(path)).start, size)
    assert [chunk.number + row for chunk in found for row in range(chunk.rows)] == [*table.numbers]
    assert [text for chunk in found for text in read_column(chunk, "a")] == table.texts("a")


def test_a_header_longer_than_a_look(tmp_path, monkeypatch):
    monkeypatch.setattr(askwell_csv, "SAMPLE", 16)
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
