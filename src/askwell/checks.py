"""What every room checks and writes, once: whole numbers, fingerprints of data, files that are whole or not there."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["count", "fingerprint", "share", "write_file"]


def count(name: str, value: Any, *, least: int = 1, also: str = "") -> int:
    """`value` as an int, if it is a whole number from `least`; `also` says what else would be allowed.

    >>> count("size", np.int64(3))
    3
    >>> count("size", 0)
    Traceback (most recent call last):
    ValueError: size must be a whole number from 1, but it is 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number from {least}{also}, but it is {value!r}.")
    return int(value)


def share(name: str, value: Any, *, most: float = 1.0) -> float:
    """`value` as a float, if it is a number from 0 to `most`.

    >>> share("evaluation", 0.2, most=0.5)
    0.2
    >>> share("evaluation", 20, most=0.5)
    Traceback (most recent call last):
    ValueError: evaluation must be a share from 0 to 0.5, but it is 20. One in five is 0.2.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a share from 0 to {most:g}, but it is {value!r}. One in five is 0.2.")
    return float(value)


def fingerprint(parts: Iterable[Any]) -> str:
    """16 characters that differ where the parts do: texts, bytes, arrays, or anything whose `repr` says what it is.

    The parts count as if they were one after the other, so that large data can come in pieces.

    >>> fingerprint(["a", b"b"]), fingerprint(["ab"])
    ('fb8e20fc2e4c3f24', 'fb8e20fc2e4c3f24')
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray) and not part.dtype.hasobject:
            digest.update(np.ascontiguousarray(part).data)
        elif isinstance(part, bytes | bytearray | memoryview):
            digest.update(part)
        else:
            digest.update((part if isinstance(part, str) else repr(part)).encode("utf-8", "replace"))
    return digest.hexdigest()[:16]


def write_file(path: Path, content: bytes | str | Callable[[Path], Any], *, safe: bool = False) -> None:
    """Write a file that appears whole or not at all; an old one stays until then.

    `content` may be a function that writes the file it is given, which has the same ending. `safe` also survives a
    power cut.
    """
    part = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        if callable(content):
            content(part)
        else:
            part.write_bytes(content.encode() if isinstance(content, str) else content)
        if safe:
            with part.open("rb+") as written:
                os.fsync(written.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
