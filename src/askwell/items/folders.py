"""Folders of pictures or text files: every file is an item or is reported."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from askwell.items.pictures import SUFFIXES, inside, media_type
from askwell.items.records import Items, Kind, LeftOut

__all__ = ["open_folder"]

TEXTS = frozenset([".txt", ".text", ".md", ".eml"])
LARGEST_TEXT = 10_000_000  # bytes


def open_folder(folder: Path, *, kind: Kind | None, fault_of: Callable[[str], str | None]) -> Items:
    """The pictures or the text files below a folder, called by their paths from there; whichever there are more of.

    `fault_of(name)` says why a name cannot be an id. Links are followed to files inside the folder only.
    """
    files = sorted(_files(folder))
    if not files:
        raise ValueError(f"{folder.name} is a folder without files.")
    if kind is None:
        suffixes = [Path(name).suffix.lower() for name in files]
        pictures, texts = (sum(suffix in known for suffix in suffixes) for known in (SUFFIXES, TEXTS))
        kind = "image" if pictures >= texts else "text"
    if kind == "table":
        raise ValueError(f"{folder.name} is a folder. Its files are shown as kind 'text' or 'image', not as a table.")
    read = _text if kind == "text" else _picture
    ids, contents, left_out, kept = [], [], [], []
    for place, name in enumerate(files):
        try:
            fault = fault_of(name)
            if fault:
                raise ValueError(f"its name {fault}")
            content = read(folder, name)
        except ValueError as why:
            left_out.append(LeftOut(f"{folder.name}/{_printable(name)}", str(why).removesuffix(".")))
        else:
            ids.append(name)
            contents.append(content)
            kept.append(place)
    if not ids:
        more = f" And {len(left_out) - 1:,} more." if len(left_out) > 1 else ""
        raise ValueError(f"{folder.name} has no file that can be shown. The first: {left_out[0]}.{more}")
    root = folder if kind == "image" else None
    return Items(folder.name, kind, tuple(ids), contents, root=root, left_out=tuple(left_out), kept=kept)


def _files(folder: Path) -> Iterator[str]:
    """The paths of all files below the folder, as `a/b.png`; a link to a folder counts as a file that is none."""
    for place, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in [*files, *links]:
            yield Path(place, name).relative_to(folder).as_posix()


def _text(folder: Path, name: str) -> str:
    if Path(name).suffix.lower() not in TEXTS:
        raise ValueError(f"no text file by its name ({', '.join(sorted(TEXTS))})")
    path = inside(folder, name)
    try:
        if path.stat().st_size > LARGEST_TEXT:
            raise ValueError(f"larger than {LARGEST_TEXT // 10**6} MB. Cut it into parts")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        raise ValueError(f"line {line} is not UTF-8 text") from None
    except OSError as fault:
        raise ValueError(f"it cannot be read: {fault.strerror or fault}") from None
    if "\0" in text:
        raise ValueError("it holds a NUL, so it is no text")
    if not text.strip():
        raise ValueError("nothing to show in it")
    return text.replace("\r\n", "\n")


def _picture(folder: Path, name: str) -> str:
    if Path(name).suffix.lower() not in SUFFIXES:
        raise ValueError(f"no picture by its name ({', '.join(sorted(SUFFIXES))})")
    media_type(inside(folder, name))
    return name


def _printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode("utf-8")
