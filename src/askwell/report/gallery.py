"""Rows of small images for a report, such as the first items that each score asked for."""

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

__all__ = ["Picture", "Row", "Tile", "gallery", "png"]


@final
@dataclass(frozen=True)
class Picture:
    """A part of a report with a title. `body` is HTML or SVG and goes in as it is: escape what is not yours."""

    title: str
    body: str
    caption: str = ""


@final
@dataclass(frozen=True, eq=False)
class Tile:
    """A small image `[h, w]` from 0 (ground) to 1 (ink), and what is written under it."""

    image: Any
    label: str = ""
    marked: bool = False  # drawn in the row's colour; the others step back


@final
@dataclass(frozen=True, eq=False)
class Row:
    """Tiles side by side, under a name. `score` gives them that score's colour."""

    name: str
    tiles: Sequence[Tile]
    note: str = ""
    score: str = ""


def gallery(title: str, rows: Sequence[Row], *, caption: str = "") -> Picture:
    """Rows of images as a part of a report.

    >>> picture = gallery("Asked first", [Row("EPIG", [Tile([[0, 1], [1, 0]], "7", marked=True)], score="epig")])
    >>> picture.title, picture.body.count("<img")
    ('Asked first', 1)
    """
    return Picture(title, "\n".join(_row(row) for row in rows), caption)


def png(image: Any) -> bytes:
    """An image `[h, w]` from 0 (white) to 1 (black) as a PNG file in 256 greys; what lies outside is cut off.

    >>> png([[0.0, 1.0]])[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    ink = np.asarray(image, np.float64)
    if ink.ndim != 2 or ink.size == 0 or not np.isfinite(ink).all():
        raise ValueError(f"image must be finite numbers [h, w], but its shape is {ink.shape}.")
    grey = np.rint(255 * (1 - np.clip(ink, 0, 1))).astype(np.uint8)
    height, width = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)  # each begins with its filter: none
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _row(row: Row) -> str:
    tiles = "".join(_tile(tile) for tile in row.tiles)
    note = f" <span>{html.escape(row.note)}</span>" if row.note else ""
    score = f' data-score="{html.escape(row.score)}"' if row.score else ""
    return f'<div class="row"{score}><h3>{html.escape(row.name)}{note}</h3><ol class="tiles">{tiles}</ol></div>'


def _tile(tile: Tile) -> str:
    data = base64.b64encode(png(tile.image)).decode("ascii")
    label = html.escape(tile.label)
    kind = ' class="marked"' if tile.marked else ""
    return f'<li{kind}><div><img alt="{label}" src="data:image/png;base64,{data}"></div>{label}</li>'
