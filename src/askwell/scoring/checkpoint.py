"""The results of the pieces of a pool, in a folder: a job that was stopped resumes with the others."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.checks import fingerprint, write_file
from askwell.data import Rows
from askwell.scoring.search import Search

__all__ = ["Checkpoint", "mark", "written"]

ABOUT, LOOKED_AT = "question.json", 64


@final
class Checkpoint:
    """A folder with a small file per finished piece, and the name of the question that they answer.

    A file is written under another name and put in its place when it is whole, so that what is there is right.
    """

    def __init__(self, folder: Path, search: Search, about: Mapping[str, Any]) -> None:
        self._folder, self._pieces = folder, folder / "pieces"
        known = {**about, "fingerprint": mark(search)}
        self._pieces.mkdir(parents=True, exist_ok=True)
        file = folder / ABOUT
        if not file.exists():
            write_file(file, json.dumps(known), safe=True)
        elif (there := json.loads(file.read_text("utf-8"))) != known:
            other = ", ".join(sorted(name for name in known if there.get(name) != known[name]))
            raise ValueError(
                f"{folder} holds the answers to another question (other {other}). Name another folder, or delete it."
            )

    def done(self) -> dict[tuple[int, int], dict[str, Any]]:
        """(start, stop) of a piece -> what was found. A file of scores that is not whole does not count."""
        found = {}
        for file in sorted(self._pieces.glob("[0-9]*.json")):
            message = json.loads(file.read_text("utf-8"))
            if "file" not in message or _sum(self._folder / message["file"]) == message["sha256"]:
                start, stop = (int(number) for number in file.stem.split("-"))
                found[start, stop] = message
        return found

    def put(self, piece: tuple[int, int], message: dict[str, Any]) -> None:
        """Keep what was found about a piece."""
        write_file(self._pieces / f"{piece[0]:012d}-{piece[1]:012d}.json", json.dumps(message), safe=True)


def written(folder: Path, start: int, ids: Sequence[Any], positions: np.ndarray, scores: np.ndarray) -> dict[str, Any]:
    """Write the scores of a piece as Parquet; its name and checksum."""
    from askwell.data.parquet import packed

    name = f"scores-{start:012d}.parquet"
    data = packed({"id": list(ids), "position": positions, "score": scores})
    write_file(folder / name, data, safe=True)
    return {"file": name, "sha256": hashlib.sha256(data).hexdigest()}


def mark(search: Search) -> str:
    """The fingerprint of posterior, targets and pool, by what is believed of some items."""
    targets, x = search.target_probs, search.items.x
    pool = [tuple(chunk) for chunk in x.chunks] if isinstance(x, Rows) else len(search.items)
    asked = [] if search.positions is None else [search.asked]
    return fingerprint([b"none" if targets is None else targets, search.predict(search.some(LOOKED_AT)), pool, *asked])


def _sum(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
