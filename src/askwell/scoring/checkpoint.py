"""What has been found about the pieces of a pool, kept in a folder: a job that was stopped goes on with the others."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.data import Rows
from askwell.scoring.search import Search

__all__ = ["Kept", "fingerprint", "written"]

ABOUT, LOOKED_AT = "question.json", 64


@final
class Kept:
    """A folder with a small file per finished piece, and the name of the question that they answer.

    A file is written under another name and put in its place when it is whole, so that what is there is right.
    """

    def __init__(self, folder: Path, search: Search, about: Mapping[str, Any]) -> None:
        self._folder, self._pieces = folder, folder / "pieces"
        known = {**about, "fingerprint": fingerprint(search)}
        self._pieces.mkdir(parents=True, exist_ok=True)
        file = folder / ABOUT
        if not file.exists():
            _put(file, json.dumps(known).encode())
        elif (there := json.loads(file.read_text("utf-8"))) != known:
            other = ", ".join(sorted(name for name in known if there.get(name) != known[name]))
            raise ValueError(
                f"{folder} holds the answers to another question (other {other}). Name another folder, or delete it."
            )

    def done(self) -> dict[tuple[int, int], dict[str, Any]]:
        """(start, stop) of a piece -> what was found. A file of scores that is not whole does not count."""
        found = {}
        for file in sorted(self._pieces.glob("*.json")):
            message = json.loads(file.read_text("utf-8"))
            if "file" not in message or _sum(self._folder / message["file"]) == message["sha256"]:
                start, stop = (int(number) for number in file.stem.split("-"))
                found[start, stop] = message
        return found

    def put(self, piece: tuple[int, int], message: dict[str, Any]) -> None:
        """Keep what was found about a piece."""
        _put(self._pieces / f"{piece[0]:012d}-{piece[1]:012d}.json", json.dumps(message).encode())


def written(folder: Path, start: int, ids: Sequence[Any], positions: np.ndarray, scores: np.ndarray) -> dict[str, Any]:
    """Write the scores of a piece as Parquet; its name and checksum."""
    from askwell.data.parquet import packed

    name = f"scores-{start:012d}.parquet"
    data = packed({"id": list(ids), "position": positions, "score": scores})
    _put(folder / name, data)
    return {"file": name, "sha256": hashlib.sha256(data).hexdigest()}


def _put(file: Path, data: bytes) -> None:
    """A file that is there whole or not at all, also after a power cut."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    with part.open("wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(part, file)


def fingerprint(search: Search) -> str:
    """Of posterior, targets and pool, by what is believed of some items."""
    found = hashlib.sha256()
    for probs in (search.target_probs, search.predict(search.some(LOOKED_AT))):
        found.update(np.ascontiguousarray(probs).tobytes() if probs is not None else b"none")
    x = search.items.x
    found.update(repr([tuple(chunk) for chunk in x.chunks] if isinstance(x, Rows) else len(search.items)).encode())
    if search.positions is not None:
        found.update(search.asked.tobytes())
    return found.hexdigest()[:16]


def _sum(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
