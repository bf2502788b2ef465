"""Pictures in files: only from below one folder, typed by what is in them, and never too large to look at."""

import stat
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["MOST_BYTES", "MOST_PIXELS", "SUFFIXES", "inside", "media_type", "pixels"]

MOST_BYTES = 50_000_000  # of a picture's file
MOST_PIXELS = 50_000_000  # of one picture: 150 MB when it is opened
TYPES = {  # what every browser shows, by Pillow's name; no SVG, which may hold a script
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
}
SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"])


def inside(root: Path, name: str | Path) -> Path:
    """The regular file `name` below the folder `root`, or a ValueError: no way leads out, not by a link either.

    >>> inside(getfixture("tmp_path"), "../secret.png")
    Traceback (most recent call last):
    ValueError: '../secret.png' must be the path of a file below the folder ...
    """
    why = f"{str(name)!r} must be the path of a file below the folder {root.name!r}"
    asked = Path(name)
    if asked.is_absolute() or ".." in asked.parts:
        raise ValueError(f"{why}, written from there.")
    try:
        found = (root / asked).resolve(strict=True)
        if not found.is_relative_to(root.resolve()):
            raise ValueError(f"{why}, but it is a link that leads out of it. Copy the file into the folder.")
        if not stat.S_ISREG(found.stat().st_mode):
            raise ValueError(f"{why}, but it is no regular file.")
    except (OSError, RuntimeError) as fault:
        raise ValueError(f"{why}, but it cannot be opened: {getattr(fault, 'strerror', None) or fault}.") from None
    except ValueError as fault:
        if "null" in str(fault):  # what Python says of a path with a NUL in it
            raise ValueError(f"{why}, but it holds a NUL.") from None
        raise
    return found


def media_type(path: Path) -> str:
    """What a picture is by its content, such as "image/png"; a ValueError if it is none that may be shown.

    Only the beginning of the file is read.
    """
    with _opened(path) as picture:
        return TYPES[picture.format]


def pixels(path: Path, *, side: int) -> np.ndarray:
    """The picture as numbers from 0 to 1, `[side, side, 3]`, scaled without keeping its proportions, on white."""
    with _opened(path) as picture:
        try:
            if picture.format == "JPEG":
                picture.draft("RGB", (2 * side, 2 * side))  # decodes a smaller picture, which is many times faster
            whole = picture.convert("RGBA")
            ground = _image().new("RGBA", whole.size, "white")
            ground.alpha_composite(whole)
            small = ground.convert("RGB").resize((side, side), _image().Resampling.BOX)
        except Exception as fault:
            raise ValueError(_broken(path, fault)) from None
    values: np.ndarray = np.asarray(small, np.float32) / np.float32(255)
    return values


def _opened(path: Path) -> Any:
    """The picture with its first bytes read."""
    image = _image()
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} has more than {MOST_BYTES // 10**6} million bytes. Make it smaller.")
    try:
        picture = image.open(path, formats=list(TYPES))
    except image.UnidentifiedImageError:
        raise ValueError(f"{path.name} is no PNG, JPEG, GIF, WebP or BMP picture by its content.") from None
    except (image.DecompressionBombError, image.DecompressionBombWarning):
        raise ValueError(_large(path)) from None
    except Exception as fault:  # decoders of damaged files raise whatever they stumble over
        raise ValueError(_broken(path, fault)) from None
    if picture.width * picture.height > MOST_PIXELS:
        picture.close()
        raise ValueError(_large(path))
    return picture


def _large(path: Path) -> str:
    return f"{path.name} has more than {MOST_PIXELS // 10**6} million pixels. Make it smaller."


def _broken(path: Path, fault: Exception) -> str:
    return f"{path.name} is a damaged picture ({type(fault).__name__}: {fault})."


def _image() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("pictures need Pillow: pip install 'askwell[images]'.") from None
    return Image
