"""Rows of images: real PNG files that hold the pixels given, and text that stays text."""

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

from askwell.report import Row, Tile, gallery
from askwell.report.gallery import png
from askwell.seeds import rng_for


def pixels(data):
    """A PNG of greys without filters, read back; every checksum is looked at."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 0, 0, 0, 0]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert (lines[:, 0] == 0).all()
    return lines[:, 1:]


def test_a_png_holds_its_pixels():
    image = rng_for(0, 0, "image").random((5, 7))
    np.testing.assert_array_equal(pixels(png(image)), np.rint(255 * (1 - image)))
    assert pixels(png([[-1.0, 0.0, 1.0, 9.0]])).tolist() == [[255, 255, 0, 0]]


@pytest.mark.parametrize("image", [[0.5], np.zeros((2, 2, 3)), np.zeros((0, 3)), [[np.nan]]])
def test_what_is_no_image_is_refused(image):
    with pytest.raises(ValueError, match=r"image must be finite numbers \[h, w\]"):
        png(image)


def test_rows_hold_their_tiles():
    rows = [
        Row("EPIG", [Tile([[0.0, 1.0]], "7", marked=True), Tile([[1.0, 0.0]], "3")], note="1 of 2", score="epig"),
        Row("none", []),
    ]
    picture = gallery("Asked first", rows, caption="seed 0")
    assert (picture.title, picture.caption) == ("Asked first", "seed 0")
    closed = re.sub(r"(<img[^>]*)>", r"\1/>", picture.body)
    root = ElementTree.fromstring(f"<div>{closed}</div>")
    images = [base64.b64decode(img.get("src").split("base64,")[1]) for img in root.iter("img")]
    assert [pixels(data).tolist() for data in images] == [[[255, 0]], [[0, 255]]]
    assert [li.get("class") for li in root.iter("li")] == ["marked", None]
    assert [img.get("alt") for img in root.iter("img")] == ["7", "3"]
    assert [row.get("data-score") for row in root] == ["epig", None]
    assert ["".join(h3.itertext()) for h3 in root.iter("h3")] == ["EPIG 1 of 2", "none"]


def test_labels_are_text():
    evil = '"><script>'
    body = gallery("x", [Row(evil, [Tile([[0.0]], evil)], note=evil, score=evil)]).body
    assert "<script" not in body
    assert body.count("&quot;&gt;&lt;script&gt;") == 5
