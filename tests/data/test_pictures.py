"""Pictures: from below the folder only, typed by content, limited in size; damaged and hostile ones are refused."""

import io
import os
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from askwell.data import pictures
from askwell.data.pictures import inside, media_type, pixels

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
    monkeypatch.setattr(pictures, "MOST_PIXELS", 9_999)
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
