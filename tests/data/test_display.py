"""Items by their ids."""

import io
import json
import os
import zlib

import malformed
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from askwell.data import Items, LeftOut, ShownImage, ShownRow, ShownText, Table, display, open_items
from askwell.data.display import inside, media_type, pixels


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


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def save(path, *, form="PNG", size=(4, 3), mode="RGB", colour="red"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, form)
    return path


# ---- where they are ----


def test_no_way_leads_out(tmp_path):
    root = tmp_path / "root"
    picture, secret = save(root / "in" / "a.png"), save(tmp_path / "secret.png")
    assert inside(root, "in/a.png") == picture
    (root / "link.png").symlink_to(picture)
    assert inside(root, "link.png") == picture, "links inside are fine"
    (root / "out.png").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path)
    (root / "loop.png").symlink_to(root / "loop.png")
    os.mkfifo(root / "pipe.png")
    for name in ("out.png", "folder/secret.png", "../secret.png", "in/../../secret.png", str(secret), "in", "no.png",
                 "loop.png", "pipe.png", "a\0.png", "", "..", "/", "x" * 5000, "in/a.png/b"):  # fmt: skip
        with pytest.raises(ValueError, match="must be the path of a file below the folder 'root'"):
            inside(root, name)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(["..", ".", "in", "a.png", "secret.png", "", "out", "%2e%2e", "\\", "\0"])))
def test_hostile_paths(tmp_path, parts):
    root = tmp_path / "root"
    if not root.exists():
        save(root / "in" / "a.png")
        save(tmp_path / "secret.png")
        (root / "out").symlink_to(tmp_path)
    for name in ("/".join(parts), "\\".join(parts)):
        try:
            found = inside(root, name)
        except ValueError:
            continue
        assert found == root / "in" / "a.png"


# ---- what they are ----


@pytest.mark.parametrize(("form", "kind"), [
    ("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp"), ("BMP", "image/bmp"),
])  # fmt: skip
def test_types_are_those_of_the_content(tmp_path, form, kind):
    path = save(tmp_path / "a.png", form=form)
    assert media_type(path) == kind, "whatever it is called"
    assert pixels(path, side=2).shape == (2, 2, 3)


@pytest.mark.parametrize(
    "data", [b"", SVG, b"<html>", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"II*\0", b"%!PS-Adobe-3.0 EPSF"]
)
def test_what_is_no_picture_is_refused(tmp_path, data):
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.png (is no PNG|is a damaged)"):
        media_type(path)


def test_large_pictures_are_refused_before_they_are_opened(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png", size=(100, 100))
    monkeypatch.setattr(display, "MOST_PIXELS", 9_999)
    for look in (media_type, lambda path: pixels(path, side=2)):
        with pytest.raises(ValueError, match="more than 0 million pixels"):
            look(path)
    data = bytearray(path.read_bytes())
    data[16:24] = (50_000).to_bytes(4, "big") * 2  # a header that promises 2.5 billion pixels
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    path.write_bytes(data)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"a\.png has more than 50 million pixels"):
        media_type(path)


def test_damaged_pictures_are_refused(tmp_path):
    file = io.BytesIO()
    Image.fromarray((np.arange(3072) % 256).astype(np.uint8).reshape(32, 32, 3)).save(file, "PNG")
    whole, path = file.getvalue(), tmp_path / "a.png"
    for cut in range(0, len(whole) - 20, 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"a\.png"):
            pixels(path, side=8)


# ---- as numbers ----


def test_pixels(tmp_path):
    checks = np.zeros((4, 4, 3), np.uint8)
    checks[:2, :2, 0] = 255
    checks[2:, 2:, 1] = 51
    Image.fromarray(checks).save(tmp_path / "a.png")
    found = pixels(tmp_path / "a.png", side=2)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[..., 0], [[1, 0], [0, 0]])
    np.testing.assert_allclose(found[..., 1], [[0, 0], [0, 0.2]], atol=1e-6)
    for mode, colour in (("RGBA", (255, 0, 0, 0)), ("L", 255), ("1", 1), ("P", 0)):
        save(tmp_path / "b.png", mode=mode, colour=colour)
        assert pixels(tmp_path / "b.png", side=2).shape == (2, 2, 3)
    save(tmp_path / "b.png", mode="RGBA", colour=(0, 0, 0, 0))
    assert (pixels(tmp_path / "b.png", side=2) == 1).all(), "on white"


PROSE = [f"message number {i} about something else" for i in range(30)]


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def picture(path):
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.new("RGB", (4, 3), "red").save(path)


# ---- what is shown ----


def test_a_column_of_texts(tmp_path):
    path = write(tmp_path / "a.csv", 'key,text,who\n7,first one,x\n007,"two\nlines",y\n')
    items = open_items(path, id="key", show="text")
    assert (items.kind, items.ids, items.columns) == ("text", ("7", "007"), ("text", "who"))
    assert items.show("007") == ShownText("two\nlines")
    assert items.take([1, 0]) == ["two\nlines", "first one"]
    assert "7" in items
    assert 7 not in items
    with pytest.raises(
        ValueError, match=r"item must be the id of one of the 2 items of a.csv \('7', '007'\), but it is 7"
    ):
        items.show(7)


def test_several_columns_are_a_row(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"a": 1.50, "b": null, "c": true}\n\n{"a": 2, "c": false, "d": "x"}\n')
    items = open_items(path, show=["c", "a", "b"])
    assert (items.kind, items.ids) == ("table", ("1", "3")), "ids are the file's numbers of rows"
    assert items.show("1") == ShownRow((("c", "true"), ("a", "1.50"), ("b", "")))
    assert items.take([1]).columns["d"] == ["x"]
    assert items.take([1]).place(0) == "a.jsonl:3"


@pytest.mark.parametrize(("columns", "hide", "kind", "shown"), [
    ({"text": PROSE}, (), "text", ("text",)),
    ({"text": PROSE, "town": ["Oslo"] * 30, "n": range(30)}, (), "text", ("text",)),
    ({"text": PROSE, "town": ["Oslo"] * 30}, ("text",), "text", ("town",)),
    ({"text": PROSE, "more": PROSE, "n": range(30)}, (), "table", ("text", "more", "n")),
    ({"town": ["Oslo"] * 30, "n": range(30), "y": ["a"] * 30}, ("y",), "table", ("town", "n")),
    ({"n": range(30)}, (), "table", ("n",)),
])  # fmt: skip
def test_what_is_shown_where_nothing_is_said(tmp_path, columns, hide, kind, shown):
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    items = open_items(path, hide=hide)
    assert (items.kind, items.shown) == (kind, shown)
    assert len(items) == 30


def test_long_texts_and_wide_rows_are_cut(tmp_path):
    path = write(tmp_path / "a.jsonl", json.dumps({"text": "x" * 25_000}))
    items = open_items(path, show="text")
    assert items.show("1") == ShownText("x" * 20_000, 5_000)
    assert items.show("1", whole=True) == ShownText("x" * 25_000)
    row = open_items(path, kind="table").show("1").cells[0][1]
    assert len(row) == 2_001
    np.save(tmp_path / "a.npy", np.zeros((2, 70)))
    wide = open_items(tmp_path / "a.npy")
    assert (len(wide.show("1").cells), wide.show("1").more) == (60, 10)
    assert len(wide.show("1", whole=True).cells) == 70


def test_pictures_named_by_a_column(tmp_path):
    picture(tmp_path / "pool" / "img" / "a.png")
    write(tmp_path / "secret.png", (tmp_path / "pool" / "img" / "a.png").read_bytes())
    write(tmp_path / "pool" / "no.png", "<svg/>")
    path = write(tmp_path / "pool" / "a.csv", "file,n\nimg/a.png,1\nno.png,2\n../secret.png,3\n,4\nimg/b.png,5\n")
    items = open_items(path, show="file")
    assert (items.kind, items.ids) == ("image", ("2",))
    assert items.show("2") == ShownImage(tmp_path / "pool" / "img" / "a.png", "image/png")
    assert items.take([0]) == [tmp_path / "pool" / "img" / "a.png"]
    assert [each.place for each in items.left_out] == ["a.csv:3", "a.csv:4", "a.csv:5", "a.csv:6"]
    assert "by its content" in items.left_out[0].why
    assert "below the folder" in items.left_out[1].why


# ---- as it stands in the file ----

SPELT = ["9007199254740993", "12345678901234567", "1.10", "1.50", "1e5", "-0", " 2 ", "+3", "1E400", "0.1", "100"]


@pytest.mark.parametrize("others", [[], ["NA", ""], ["x"], ["007"]])
def test_cells_of_a_csv_are_shown_as_they_stand_there(tmp_path, others):
    """Whether the column is read as numbers or not."""
    cells = [*SPELT, *others]
    path = write(tmp_path / "a.csv", "key,v,w\n" + "".join(f"k{i},{cell},1\n" for i, cell in enumerate(cells)))
    items = open_items(path, id="key", kind="table")
    assert [dict(items.show(f"k{i}").cells)["v"] for i in range(len(cells))] == cells
    half = items.take([2, 0])
    assert half.texts("v") == [cells[2], cells[0]]


def test_whole_numbers_beside_a_gap_are_shown_whole(tmp_path):
    items = open_items(write(tmp_path / "a.csv", "a;b\n36;1,50\n;2\n"))
    assert items.show("2").cells == (("a", "36"), ("b", "1,50"))


def test_texts_keep_the_blanks_around_them(tmp_path):
    texts = [" one two", "three ", "\u3000four\xa0", "\nfive", " 1.50 ", "six"]
    lines = "".join(json.dumps({"key": f"k{i}", "text": text}) + "\n" for i, text in enumerate(texts))
    cells = "".join(f'k{i},"{text}"\n' for i, text in enumerate(texts))
    for path in (write(tmp_path / "a.jsonl", lines), write(tmp_path / "a.csv", "key,text\n" + cells)):
        items = open_items(path, id="key", show="text", kind="text")
        assert [items.show(f"k{i}").text for i in range(6)] == texts


def test_half_letters_are_reported_not_replaced(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"key": "a", "text": "half \\ud83d"}\n{"key": "b", "text": "whole"}\n')
    for kind in ("text", "table"):
        items = open_items(path, id="key", show="text", kind=kind)
        assert items.ids == ("b",)
        assert "a.jsonl:1: the column 'text' holds half of a character" in str(items.left_out[0])
    with pytest.raises(ValueError, match=r"a\.jsonl:1: the id in the column 'text' holds half of a character"):
        open_items(path, id="text")


def test_numbers_of_parquet_are_shown_as_they_stand_there(tmp_path):
    from decimal import Decimal

    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        "u": (pa.array([2**63 + 1, 2**63 + 5000, 0], pa.uint64()), [str(2**63 + 1), str(2**63 + 5000), "0"]),
        "gap": (pa.array([2**53 + 1, None, 7], pa.int64()), [str(2**53 + 1), "", "7"]),
        "d": (pa.array([Decimal("1.10"), None, Decimal("-2.00")]), ["1.10", "", "-2.00"]),
        "f": (pa.array([0.1, None, 2], pa.float32()), ["0.1", "", "2.0"]),
        "i": (pa.array([2**62 + 1, -5, 0]), [str(2**62 + 1), "-5", "0"]),
        "g": (pa.array([0.1, 2.0, None]), ["0.1", "2.0", ""]),
    }
    parquet.write_table(pa.table({name: column for name, (column, _) in columns.items()}), tmp_path / "a.parquet")
    items = open_items(tmp_path / "a.parquet")
    shown = [dict(items.show(item).cells) for item in items.ids]
    for name, (_, texts) in columns.items():
        assert [row[name] for row in shown] == texts, name
        values = items.table.columns[name]
        assert isinstance(values, np.ndarray), f"{name} are numbers to a model"


def test_arrays_are_shown_in_their_own_precision(tmp_path):
    np.save(tmp_path / "f.npy", np.array([[0.1, np.nan]], np.float32))
    assert open_items(tmp_path / "f.npy").show("0").cells == (("x0", "0.1"), ("x1", ""))
    np.save(tmp_path / "u.npy", np.array([[2**63 + 1, 1]], np.uint64))
    assert open_items(tmp_path / "u.npy").show("0").cells == (("x0", str(2**63 + 1)), ("x1", "1"))


# ---- arrays ----


def test_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1.5, np.nan], [2.0, 3.0]], np.float32))
    items = open_items(tmp_path / "a.npy")
    assert (items.kind, items.ids, items.columns) == ("table", ("0", "1"), ("x0", "x1"))
    assert items.show("0") == ShownRow((("x0", "1.5"), ("x1", "")))
    np.save(tmp_path / "t.npy", np.array(["one", " ", "three"]))
    items = open_items(tmp_path / "t.npy")
    assert (items.kind, items.ids, items.rows) == ("text", ("0", "2"), [0, 2])
    assert str(items.left_out[0]) == "t.npy:1: an empty text"


@pytest.mark.parametrize("array", [
    np.zeros(3), np.zeros((2, 2, 2)), np.zeros((2, 2), complex), np.array([["a"]]), np.zeros((0, 2)), np.array(1.0),
    np.array(["", " "]),
])  # fmt: skip
def test_arrays_that_are_no_items(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"a\.npy"):
        open_items(tmp_path / "a.npy")


def test_no_pickle_is_ever_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("sprung").write_text, ("x",))

    np.save(tmp_path / "a.npy", np.array([Trap()], object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"a\.npy is not a whole NumPy array"):
        open_items(tmp_path / "a.npy")
    for cut in range(0, 128, 9):
        np.save(tmp_path / "b.npy", np.zeros((3, 2)))
        write(tmp_path / "b.npy", (tmp_path / "b.npy").read_bytes()[:cut])
        with pytest.raises(ValueError, match=r"b\.npy"):
            open_items(tmp_path / "b.npy")
    assert not (tmp_path / "sprung").exists()


# ---- refusals ----


@pytest.mark.parametrize(("options", "said"), [
    ({"show": "texd"}, "a.csv has no column 'texd'. Did you mean 'text'"),
    ({"show": []}, "names none"),
    ({"show": ["text", "n"], "kind": "text"}, "show must be one column for kind 'text'"),
    ({"kind": "video"}, "kind must be one of text, image, table"),
    ({"hide": ["text", "n"]}, "no column to show"),
    ({"kind": "image", "show": "text"}, "nothing that can be shown. The first: a.csv:2: 'hello' must be"),
])  # fmt: skip
def test_refusals(tmp_path, options, said):
    path = write(tmp_path / "a.csv", "text,n\nhello,1\n")
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        open_items(path, **options)
    with pytest.raises(ValueError, match="there is no file"):
        open_items(tmp_path / "b.csv")
    with pytest.raises(ValueError, match="there is no file"):
        open_items(tmp_path / "b.npy")


# ---- malformed files (R11) ----


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(maker=st.sampled_from(malformed.MAKERS), rng=st.randoms(use_true_random=False))
def test_malformed_files_lose_no_row_silently(tmp_path, maker, rng):
    fault, form = maker
    malformed.judged(malformed.FAULTS[fault][0](rng, form), tmp_path)


def test_every_fault_is_met_as_it_should_be():
    found = malformed.soak(2 * len(malformed.MAKERS))
    assert {fault for fault, _ in found} == {*malformed.FAULTS}
    for fault in ("none", "marks and line ends", "blank lines", "one column", "half a letter"):
        assert not found[fault, "refused"], fault
    for fault in ("an id twice", "an id missing", "a strange id", "ragged", "no object", "bad UTF-8", "NUL", "empty"):
        assert not found[fault, "read"], fault


def test_the_judge_sees_lost_rows(tmp_path):
    lost = malformed.Case("a.csv", b"key,text\na,one\nb,two\n", rows=3)
    with pytest.raises(AssertionError, match="rows in = rows out"):
        malformed.judged(lost, tmp_path)
    with pytest.raises(AssertionError):
        malformed.judged(malformed.Case("a.csv", b"key,text\na,one\n", rows=1, texts={"a": "two"}), tmp_path)
    with pytest.raises(AssertionError, match="should have been refused"):
        malformed.judged(malformed.Case("a.csv", b"key,text\na,one\n", refused="a.csv:2"), tmp_path)


# ---- folders ----


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "things"
    (place / "deep" / "er").mkdir(parents=True)
    return place


def test_texts(folder, tmp_path):
    (folder / "b.txt").write_text("second")
    (folder / "deep" / "er" / "a.md").write_bytes("\ufefffirst\r\nline".encode())
    for name, data in (("latin.txt", b"ok\ncaf\xe9"), ("nul.txt", b"a\0b"), ("empty.txt", b" \n"), ("x.bin", b"x"),
                       (".hidden", b"x")):  # fmt: skip
        (folder / name).write_bytes(data)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    items = open_items(folder)
    assert (items.kind, items.ids, items.table, items.columns) == ("text", ("b.txt", "deep/er/a.md"), None, ())
    assert items.show("deep/er/a.md") == ShownText("first\nline")
    reported = {each.place: each.why for each in items.left_out}
    assert {*reported} == {f"things/{name}" for name in
                           (".hidden", "empty.txt", "latin.txt", "nul.txt", "out.txt", "up", "x.bin")}  # fmt: skip
    assert reported["things/latin.txt"] == "line 2 is not UTF-8 text"
    assert "link that leads out" in reported["things/out.txt"]
    assert [*items.rows] == [1, 2], "of all files, in order"


def test_pictures(folder):
    for name in ("b.png", "deep/a.jpg"):
        Image.new("RGB", (3, 3)).save(folder / name)
    (folder / "notes.txt").write_text("two pictures")
    (folder / "bad.png").write_bytes(b"<svg><script>alert(1)</script></svg>")
    (folder / "vector.svg").write_bytes(b"<svg/>")
    items = open_items(folder)
    assert (items.kind, items.ids) == ("image", ("b.png", "deep/a.jpg"))
    assert items.show("deep/a.jpg") == ShownImage(folder / "deep" / "a.jpg", "image/jpeg")
    assert [each.place for each in items.left_out] == ["things/bad.png", "things/notes.txt", "things/vector.svg"]
    (folder / "b.png").write_bytes(b"<svg/>")
    with pytest.raises(ValueError, match="by its content"):
        items.show("b.png")
    assert open_items(folder, kind="text").ids == ("notes.txt",)


def test_names_that_cannot_be_ids(folder):
    (folder / "fine.txt").write_text("x")
    for name in (b"caf\xe9.txt", b"bell\x07.txt"):
        with open(os.path.join(os.fsencode(folder), name), "w") as file:
            file.write("x")
    items = open_items(folder)
    assert items.ids == ("fine.txt",)
    assert len(items.left_out) == 2
    assert ["control character" in each.why for each in items.left_out] == [True, False]
    assert "no valid Unicode" in items.left_out[1].why
    assert all(each.place.encode() for each in items.left_out)


def test_folders_that_have_no_items(folder, tmp_path):
    with pytest.raises(ValueError, match="things is a folder without files"):
        open_items(folder)
    (folder / "a.json").write_text("[]")
    with pytest.raises(ValueError, match=r"nothing that can be shown.*: things/a.json: no picture by its name"):
        open_items(folder)
    with pytest.raises(ValueError, match="not as a table"):
        open_items(folder, kind="table")
    with pytest.raises(ValueError, match="leave out id and show"):
        open_items(folder, show="text")
