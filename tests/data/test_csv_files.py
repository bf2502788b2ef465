"""CSV and its relatives, as they come."""

import csv
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from askwell.data import csv_files, read_table
from askwell.data.columns import MISSING


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
    monkeypatch.setattr(csv_files, "PART", 7)
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
    monkeypatch.setattr(csv_files, "PART", 3)
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
    data, form, header = text.encode(), csv_files.Form(mark, spaced), [*"abc"[:width]]
    fast = cells_of(lambda: csv_files._by_arrow(data, form, width))
    assert fast in (None, cells_of(lambda: csv_files._by_python("a.csv", data, form, header)))


def test_arrow_reads_ordinary_files():
    """Or the test above would hold of nothing."""
    for text in ("a,b\n1,2\n", 'a,b\r\n"1, 2","""x"\r\n\r\n3,4', "a,b\n1,2\n\n\n3,4\n\n", 'a\n"x\n\ny"\n\n""\n'):
        data = text.encode()
        form = csv_files.likely_form(data)
        header = csv_files.csv_header("a.csv", data, form)
        fast = cells_of(lambda data=data, form=form, header=header: csv_files._by_arrow(data, form, len(header)))
        slow = cells_of(lambda d=data, form=form, header=header: csv_files._by_python("a.csv", d, form, header))
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
        patch.setattr(csv_files, "BLOCK", block)  # Arrow cuts a file there
        fast = table()
        patch.setattr(csv_files, "_by_arrow", lambda *_: None)
        assert fast == table()


@pytest.mark.parametrize("text", ["a,b\n1,2\n", 'a,b\n"1",2\n', "a, b\n1, 2\n"])
def test_cells_longer_than_a_block_are_read(tmp_path, monkeypatch, text):
    monkeypatch.setattr(csv_files, "BLOCK", 64)
    table = read(tmp_path, text + "x" * 500 + ",3\n" + "4,5\n" * 40)
    assert table.columns["a"][1] == "x" * 500
    assert table.columns["b"].tolist() == [2, 3, *[5] * 40]
