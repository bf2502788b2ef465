"""Folders: every file is an item or is reported."""

import os

import pytest
from PIL import Image

from askwell.items import ShownImage, ShownText, open_items


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
    assert [*items.kept] == [1, 2], "of all files, in order"


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
    (folder / "a.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match=r"no file that can be shown. The first: things/a.csv: no picture by its name"):
        open_items(folder)
    with pytest.raises(ValueError, match="not as a table"):
        open_items(folder, kind="table")
    with pytest.raises(ValueError, match="leave out id and show"):
        open_items(folder, show="text")
