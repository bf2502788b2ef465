"""Vectors in a file (.npy, .npz) and the rows of a pool they belong to: matched by id, and never by a place that moved.

A .npz with the arrays `ids` and `x` says itself whose each vector is. A .npy says nothing: its rows are those of the
pool in the file's order, when a project first uses it. That pairing is kept, so that a pool whose rows were put in
another order since is matched by id, and what cannot be matched is refused.
"""

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from askwell.data import Items
from askwell.data.table import listed

__all__ = ["Pairing", "is_file", "vectors_of"]

SAY_WHOSE = 'np.savez("vectors.npz", ids=ids, x=x), which says whose each vector is'


@final
@dataclass(frozen=True)
class Pairing:
    """Whose the vectors of a file are: the key of each of its rows ("" where the row was no item)."""

    file: str
    sha256: str
    keys: tuple[str, ...]


def is_file(name: str) -> bool:
    """Whether a name is that of a file of vectors."""
    return name.endswith((".npy", ".npz"))


def vectors_of(items: Items, file: Path, *, known: Pairing | None = None) -> tuple[np.ndarray, Pairing | None]:
    """The vectors of the items `[n, d]`, and whose those of the file are; a ValueError where that cannot be told.

    `known` is the pairing that was kept, None if there is none. A .npz has none.
    """
    values, ids = _read(file)
    if ids is not None:
        return _by_id(items, file, values, ids), None
    keys, counted = _keys(items), _is_counted(items)
    here = _places(items, len(values))
    now = None if here is None else _by_place(keys, here, len(values))
    if known is not None and now == known.keys:
        return _taken(values, here), known
    digest = _digest(file)
    if known is None:
        return _taken(values, _right_count(items, file, len(values), here)), Pairing(file.name, digest, now or ())
    if digest == known.sha256:
        if counted:
            places = _right_count(items, file, len(values), here)
            _check_still_there(items, file, keys, places, known)
            return _taken(values, places), known
        return _taken(values, _found_again(items, file, keys, here, known)), known
    places = _right_count(items, file, len(values), here)
    _check_order(items, file, keys, places, known)
    return _taken(values, places), Pairing(file.name, digest, now or ())


# ---- the file ------------------------------------------------------------------------------------------------------


def _read(file: Path) -> tuple[np.ndarray, list[str] | None]:
    """(vectors `[n, d]`, their ids if the file says them)."""
    ids = None
    try:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, np.ndarray):
            with found:
                names = [name for name in found.files if name != "ids"]
                if "ids" not in found.files or len(names) != 1:
                    raise ValueError('it must hold two arrays: "ids" [n] and one of vectors [n, d]')
                ids, found = found["ids"], found[names[0]]
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(file)!r}.") from None
    except Exception as fault:  # the header is parsed as Python, and a damaged one fails in many ways
        raise ValueError(f"{file.name} is not a whole NumPy array of numbers: {fault}") from None
    if found.ndim != 2 or found.dtype.kind not in "fiu":
        raise ValueError(f"{file.name} must hold rows of numbers [n, d].")
    if ids is None:
        return found, None
    if ids.shape != (len(found),) or ids.dtype.kind not in "iuU":
        raise ValueError(f'{file.name}: "ids" must be as many texts or whole numbers as there are vectors.')
    return found, [*map(str, ids.tolist())]


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _taken(values: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    return values if rows is None or np.array_equal(rows, np.arange(len(values))) else values[rows]


# ---- whose is which ------------------------------------------------------------------------------------------------


def _is_counted(items: Items) -> bool:
    """Whether ids are only numbers of rows, which say nothing about what a row is."""
    return items.table.ids is None if items.table is not None else items.ids[0].isdecimal()


def _keys(items: Items) -> list[str]:
    """What a row is known by: its id, or, where rows are counted, what it shows."""
    if not _is_counted(items):
        return [*items.ids]
    if items.kind != "table":
        shown = [(str(content),) for content in items.contents]
    else:
        assert items.table is not None
        shown = [*zip(*(items.table.texts(name) for name in items.shown), strict=True)]
    return [hashlib.blake2b(repr(row).encode("utf-8", "replace"), digest_size=8).hexdigest() for row in shown]


def _places(items: Items, rows: int) -> np.ndarray | None:
    """The items' rows in a file of so many, if it has one for each row of the pool, or for each item."""
    if rows == len(items) + len(items.left_out):
        return np.arange(len(items)) if items.kept is None else np.asarray(items.kept, np.intp)
    return np.arange(len(items)) if rows == len(items) else None


def _right_count(items: Items, file: Path, rows: int, here: np.ndarray | None) -> np.ndarray:
    if here is None:
        raise ValueError(
            f"{file.name} must have one row for each of the {len(items) + len(items.left_out):,} rows of "
            f"{items.source}, but it has {rows:,}. Write it anew for {items.source} as it is now."
        )
    return here


def _by_place(keys: Sequence[str], places: np.ndarray, rows: int) -> tuple[str, ...]:
    found = [""] * rows
    for key, place in zip(keys, places.tolist(), strict=True):
        found[place] = key
    return tuple(found)


def _once(keys: Sequence[str]) -> dict[str, int]:
    """Key -> place, of those that occur once."""
    found: dict[str, int] = {}
    twice: set[str] = {""}
    for place, key in enumerate(keys):
        if key in found:
            twice.add(key)
        found[key] = place
    return {key: place for key, place in found.items() if key not in twice}


def _by_id(items: Items, file: Path, values: np.ndarray, ids: Sequence[str]) -> np.ndarray:
    places = {item: place for place, item in enumerate(ids)}
    if len(places) < len(ids):
        twice = next(item for place, item in enumerate(ids) if places[item] != place)
        raise ValueError(f"{file.name}: ids must all be different, but {twice!r} occurs more than once.")
    _check_all(items, file, [item for item in items.ids if item not in places])
    return values[[places[item] for item in items.ids]]


def _found_again(items: Items, file: Path, keys: Sequence[str], here: np.ndarray | None, known: Pairing) -> np.ndarray:
    """Where the vectors of these ids are: the file is as it was, the pool is not."""
    places = _once(known.keys)
    rows = [places.get(key, -1) for key in keys]
    if here is not None:  # what was no item then, and had a vector all the same
        rows = [
            place if row < 0 and known.keys[place] == "" else row
            for row, place in zip(rows, here.tolist(), strict=True)
        ]
    _check_all(items, file, [key for key, row in zip(keys, rows, strict=True) if row < 0])
    return np.asarray(rows, np.intp)


def _check_all(items: Items, file: Path, lacking: Sequence[str]) -> None:
    if lacking:
        raise ValueError(
            f"{len(lacking):,} of the {len(items):,} items of {items.source} have no vector in {file.name} "
            f"({listed([repr(item) for item in lacking], most=3)}): it was made before they were added. Write it anew "
            f"for {items.source} as it is now, or save {SAY_WHOSE}."
        )


def _check_still_there(items: Items, file: Path, keys: Sequence[str], here: np.ndarray, known: Pairing) -> None:
    """Rows that are counted stand where they stood."""
    before, now = _once(known.keys), _once(keys)
    moved = [place for key, place in now.items() if key in before and before[key] != here[place]]
    if moved:
        raise ValueError(
            f"the rows of {items.source} have moved since {file.name} was first used (item {items.ids[moved[0]]!r} "
            "stood elsewhere), and without an id column vectors and answers belong to rows by their number. Bring the "
            "old order back."
        )
    if changed := sum(key != known.keys[place] for key, place in zip(keys, here.tolist(), strict=True)):
        warnings.warn(
            f"{changed:,} rows of {items.source} are not what they were when {file.name} was first used; their vectors "
            "are taken as they are.",
            stacklevel=2,
        )


def _check_order(items: Items, file: Path, keys: Sequence[str], here: np.ndarray, known: Pairing) -> None:
    """File and pool have both changed: rows that were there before must follow each other as they did."""
    before = _once(known.keys)
    order = [before[key] for _, key in sorted(zip(here.tolist(), keys, strict=True)) if key in before]
    if order != sorted(order):
        raise ValueError(
            f"{file.name} and the order of the rows of {items.source} have both changed since {file.name} was first "
            f"used, so that nobody can tell whose each vector is. Save {SAY_WHOSE}, and name that file in askwell.toml."
        )
