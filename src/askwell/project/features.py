"""From items to numbers: columns, words, pixels or embeddings. The same numbers in every process.

What is learnt about words and pixels (frequencies, directions) is learnt from the pool and the targets together, never
from labels, so that a word that only the targets use counts too.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from askwell.arrays import one_thread_each, spans
from askwell.data import Items, Table, encoded
from askwell.data.display import pixels
from askwell.data.encoding import LEARNT, Encoder, fit_texts, in_one_unit, is_prose
from askwell.data.table import cell_text, listed
from askwell.project.vectors import Pairing, is_file, vectors_of

__all__ = ["EMBEDDINGS", "Features", "kept_features", "make_features"]

Encode: TypeAlias = Callable[[Items, Path | None], np.ndarray]

EMBEDDINGS = "embeddings:"
SIDE = 32  # pixels, each way, that a picture is scaled to
COMPONENTS = 64  # numbers that a picture becomes
LOOK = 5_000  # pictures that the components are found from


@final
@dataclass(frozen=True, eq=False)
class Features:
    """What the model sees: of the pool `[n, d]`, of the targets `[m, d]` (None without targets), and how in words.

    Where all numbers are `alike`, parts of one thing, they are in one unit: the mean square of a row's length is d, and
    directions that vary more count more. To standardise each of them would blow up the noise of the last ones.

    `encode(items, file)` makes the same numbers of other items, `file` being that of their embeddings where the pool's
    are in a file; `columns` are those it looks at. Features that were read from a cache have neither.
    """

    pool: np.ndarray
    targets: np.ndarray | None
    note: str
    alike: bool
    columns: tuple[str, ...] = ()
    encode: Encode | None = None
    pairings: tuple[Pairing | None, ...] = ()


def make_features(
    items: Items,
    targets: Items | None,
    features: str | Sequence[str],
    *,
    drop: Sequence[str],
    folder: Path,
    known: Sequence[Pairing | None] = (),
) -> Features:
    """The features that a setting names, float32.

    "text" is TF-IDF of the shown texts, cut to 50 numbers by SVD; "pixels" 32 x 32 pixels, cut to 64 by PCA; "columns"
    all columns but those of `drop`, by `askwell.data.encoded`, and prose as texts; a list of columns those, in the
    same way. "embeddings:" names a column of lists of numbers, or a file of vectors as seen from `folder` (.npz with
    ids, or .npy: `askwell.project.vectors`), with that of the targets after a comma; `known` are the pairings that were
    kept, of the pool and of the targets, and `pairings` of the result those to keep.

    >>> path = getfixture("tmp_path") / "a.csv"
    >>> _ = path.write_text("age,town\\n31,Oslo\\n5,Rome\\n7,Rome\\n")
    >>> from askwell.data import open_items
    >>> found = make_features(open_items(path), None, "columns", drop=[], folder=path.parent)
    >>> found.pool.tolist()
    [[31.0, 0.0], [5.0, 1.0], [7.0, 1.0]]
    """
    if isinstance(features, str) and features.startswith(EMBEDDINGS):
        return _embeddings(items, targets, features.removeprefix(EMBEDDINGS), folder, known)
    both = [items] if targets is None else [items, targets]
    if features == "text":
        _check_kind(items, "text", features)
        x, note, numbers = _from_texts([_contents(each) for each in both])
        return _apart(len(items), x, note, lambda other, _: numbers(_contents(other)), items.shown)
    if features == "pixels":
        _check_kind(items, "image", features)
        x, note, cut = _from_pictures([_contents(each) for each in both])
        return _apart(len(items), x, note, lambda other, _: cut(_contents(other)), items.shown)
    tables = [each.table for each in both if each.table is not None]
    if len(tables) < len(both):
        raise ValueError(f"features must be columns of a table, but {items.source} has none. Leave features out.")
    return _from_columns(tables, None if isinstance(features, str) else list(features), drop)


def kept_features(
    items: Items,
    targets: Items | None,
    features: str | Sequence[str],
    *,
    drop: Sequence[str],
    folder: Path,
    kept: Path,
    known: Sequence[Pairing | None] = (),
) -> Features:
    """`make_features`, made once and read from the file `kept` afterwards, as long as the items are the same."""
    if isinstance(features, str) and features.startswith(EMBEDDINGS):
        return make_features(items, targets, features, drop=drop, folder=folder, known=known)
    key = _fingerprint(items, targets, features, drop)
    found = _read(kept, key)
    if found is None:
        found = make_features(items, targets, features, drop=drop, folder=folder)
        _write(kept, key, found)
    return found


def _contents(items: Items) -> Any:
    return items.take(np.arange(len(items)))


def _apart(n: int, x: np.ndarray, note: str, encode: Encode, columns: tuple[str, ...]) -> Features:
    """Numbers that are alike, in one unit: rows around zero, their length √d in the mean of squares.

    The first n rows are the pool's. `encode` gives other items' rows as `x` has them, in no unit yet.
    """
    in_unit = in_one_unit(x)
    both = in_unit(x)
    targets = both[n:] if len(x) > n else None
    return Features(both[:n], targets, note, True, columns, lambda items, file: in_unit(encode(items, file)))


def _check_kind(items: Items, kind: str, features: str) -> None:
    if items.kind != kind:
        raise ValueError(
            f"features {features!r} are for items shown as {kind}, but those here are of kind {items.kind!r}."
        )


# ---- columns -------------------------------------------------------------------------------------------------------


def _from_columns(tables: Sequence[Table], names: list[str] | None, drop: Sequence[str]) -> Features:
    first = tables[0]
    asked = names if names is not None else [name for name in first.columns if name not in drop]
    for name in asked:
        if name in drop:
            raise ValueError(f"features must be inputs, but {name!r} is the column of labels or costs.")
        first.column(name)
    prose = [name for name in asked if is_prose(first.columns[name])]
    rest = [name for name in asked if name not in prose]
    parts, notes, encoders, used = [], [], list[Callable[[Table], np.ndarray]](), [*prose]
    if rest:
        try:
            found = encoded(first, columns=rest if names is not None else None, drop=[*_known(first, drop), *prose])
        except ValueError:
            if names is not None or not prose:
                raise
        else:
            parts.append([found.x, *(found.encode(table) for table in tables[1:])])
            notes.append(found.note)
            encoders.append(found.encode)
            used += [feature.column for feature in found.features]
    for name in prose:
        x, note, numbers = _from_texts([_column_texts(table, name) for table in tables])
        cut = np.split(np.asarray(x, np.float32), np.cumsum([table.rows for table in tables])[:-1])
        parts.append(cut)
        notes.append(f"{name}: {note}")
        encoders.append(partial(_encoded_texts, name, numbers))
    joined = [np.concatenate([part[place] for part in parts], axis=1) for place in range(len(tables))]
    columns = tuple(name for name in first.columns if name in used)

    def encode(items: Items, _: Path | None) -> np.ndarray:
        if (table := items.table) is None:
            raise ValueError(f"{items.source} has no columns, and the model needs {listed(columns)}. Give a table.")
        return np.concatenate([each(table) for each in encoders], axis=1).astype(joined[0].dtype)

    return Features(joined[0], joined[1] if len(joined) > 1 else None, "\n".join(notes), False, columns, encode)


def _column_texts(table: Table, name: str) -> list[str]:
    return [*map(cell_text, table.column(name))]


def _encoded_texts(name: str, numbers: Callable[[Sequence[str]], np.ndarray], table: Table) -> np.ndarray:
    return np.asarray(numbers(_column_texts(table, name)), np.float32)


def _known(table: Table, drop: Sequence[str]) -> list[str]:
    return [name for name in drop if name in table.columns]


# ---- words ---------------------------------------------------------------------------------------------------------


def _from_texts(parts: Sequence[Sequence[str]]) -> tuple[np.ndarray, str, Encoder]:
    """`[n + m, d]`, how, and a function that does the same to other texts."""
    encode, note = fit_texts(*parts)
    return encode([text for part in parts for text in part]), note, encode


# ---- pixels --------------------------------------------------------------------------------------------------------


def _from_pictures(parts: Sequence[Sequence[Path]]) -> tuple[np.ndarray, str, Callable[[Sequence[Path]], np.ndarray]]:
    """`[n + m, d]`, how, and a function that does the same to other pictures."""
    from sklearn.utils.extmath import randomized_svd

    x = _pixels([path for part in parts for path in part])
    d = min(COMPONENTS, len(x) - 1)
    note = f"{SIDE} x {SIDE} pixels"
    if d < 1:
        return x, note, _pixels
    some = x[:: 1 + len(x) // LOOK]
    centre = some.mean(axis=0, dtype=np.float64)
    with one_thread_each():
        _, sizes, directions = randomized_svd(some - centre, min(d, len(some)), n_iter=5, random_state=0)
        cut = (x - centre) @ directions.T
    share = np.square(sizes).sum() / max(np.square(some - centre).sum(), 1e-12)
    note += f", in {len(sizes)} numbers by PCA ({share:.0%} of the variance)"
    return cut, note, lambda others: (_pixels(others) - centre) @ directions.T


def _pixels(paths: Sequence[Path]) -> np.ndarray:
    return np.stack([pixels(path, side=SIDE).ravel() for path in paths])


# ---- embeddings ----------------------------------------------------------------------------------------------------


def _embeddings(
    items: Items, targets: Items | None, name: str, folder: Path, known: Sequence[Pairing | None]
) -> Features:
    pairings: tuple[Pairing | None, ...] = ()
    if name in items.columns:
        x, note = _column_of_lists(items, name), f"embeddings: the column {name!r}"
        theirs = None if targets is None else _column_of_lists(targets, name)
    else:
        files = [part.strip() for part in name.split(",")]
        wanted = 1 if targets is None else 2
        if len(files) != wanted or not all(map(is_file, files)):
            there = f" (columns: {listed(items.columns)})" if items.columns else ""
            raise ValueError(
                f"features {EMBEDDINGS}{name} must name a column{there}, or "
                + (
                    "one .npy or .npz file, of the pool."
                    if targets is None
                    else "two .npy or .npz files with a comma between, the pool's and the targets'."
                )
            )
        both = [items] if targets is None else [items, targets]
        found = [
            _file_of_rows(_at(folder, file), each, before)
            for file, each, before in zip(files, both, [*known, None, None], strict=False)
        ]
        x, note, theirs = found[0][0], f"embeddings: {listed(files)}", found[1][0] if len(found) > 1 else None
        pairings = tuple(pairing for _, pairing in found)
    if theirs is not None and theirs.shape[1] != x.shape[1]:
        raise ValueError(
            f"embeddings must be of one length, but the pool's have {x.shape[1]} numbers and the targets' "
            f"{theirs.shape[1]}."
        )
    joined = x if theirs is None else np.concatenate([x, theirs])
    columns = (name,) if name in items.columns else ()

    def encode(others: Items, file: Path | None) -> np.ndarray:
        if columns and others.table is None:
            raise ValueError(f"{others.source} has no columns, and the model needs {name!r}. Give a table.")
        if not columns and file is None:
            raise ValueError(
                f"the project's features are embeddings in a file: those of {others.source} are needed in another one."
            )
        found = _column_of_lists(others, name) if file is None else _file_of_rows(file, others)[0]
        if found.shape[1] != x.shape[1]:
            raise ValueError(
                f"embeddings must be of one length, but the pool's have {x.shape[1]} numbers and those of "
                f"{others.source} {found.shape[1]}."
            )
        return found

    return replace(_apart(len(x), joined, f"{note}, {x.shape[1]} numbers each", encode, columns), pairings=pairings)


def _at(folder: Path, name: str) -> Path:
    return Path(os.path.normpath(folder / name))


def _file_of_rows(file: Path, items: Items, known: Pairing | None = None) -> tuple[np.ndarray, Pairing | None]:
    x, pairing = vectors_of(items, file, known=known if known is not None and known.file == file.name else None)
    return _finite(x, lambda row: f"{file.name}: the vector of {items.ids[row]!r}"), pairing


def _column_of_lists(items: Items, name: str) -> np.ndarray:
    table = items.table
    assert table is not None
    rows: list[list[float]] = []
    for row, text in enumerate(table.column(name)):
        numbers = _list_of_numbers(text)
        if not numbers or (rows and len(numbers) != len(rows[0])):
            wanted = f"a list of {len(rows[0])} numbers, as above" if rows else "a list of numbers like [0.1, 0.2]"
            raise ValueError(
                f"{table.place(row)}: the column {name!r} must hold {wanted}, but it holds {str(text)[:40]!r}."
            )
        rows.append(numbers)
    return _finite(np.array(rows), table.place)


def _list_of_numbers(text: Any) -> list[float]:
    """The numbers of "[0.1, 0.2]"; none if it is something else."""
    try:
        return [float(number) for number in json.loads(text)]
    except (TypeError, ValueError, OverflowError, RecursionError):
        return []


def _finite(values: np.ndarray, place: Callable[[int], str]) -> np.ndarray:
    found = np.asarray(values, np.float32)
    wrong = ~np.isfinite(found).all(axis=1)
    if wrong.any():
        raise ValueError(
            f"{place(int(np.flatnonzero(wrong)[0]))}: embeddings must be finite numbers, and here one is not."
        )
    return found


# ---- kept in a file ------------------------------------------------------------------------------------------------


def _fingerprint(items: Items, targets: Items | None, features: str | Sequence[str], drop: Sequence[str]) -> str:
    """Changes with whatever the features depend on."""
    digest = hashlib.sha256()
    packages = [version(name) for name in ("askwell", "numpy", "scikit-learn")]
    digest.update(json.dumps([features, list(drop), packages, LEARNT]).encode())
    for each in [items] if targets is None else [items, targets]:
        digest.update(f"\n{each.kind}\n{len(each)}\n".encode())
        if each.kind == "image":
            for path in each.take(np.arange(len(each))):
                seen = path.stat()
                digest.update(f"{path.name}\0{seen.st_size}\0{seen.st_mtime_ns}\n".encode("utf-8", "replace"))
        elif each.kind == "text" and features == "text":
            for span in spans(len(each), LEARNT):
                digest.update("".join([f"{len(text)}\n{text}" for text in each.contents[span]]).encode())
        elif each.table is not None:
            for name, values in each.table.columns.items():
                digest.update(f"\n{name!r}\n".encode())
                content = json.dumps(values).encode() if isinstance(values, list) else values.tobytes()
                digest.update(content)
    return digest.hexdigest()


def _read(path: Path, key: str) -> Features | None:
    """What is kept under this key; None if nothing is, or if the file is not what it was."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            if str(found["key"]) != key:
                return None
            targets = found["targets"]
            note, alike = str(found["note"]), bool(found["alike"])
            return Features(found["pool"], targets if targets.size else None, note, alike)
    except Exception:  # a cache: whatever is wrong with it, it is made again
        return None


def _write(path: Path, key: str, features: Features) -> None:
    """Keep the features if the folder can be written; it appears whole or not at all."""
    part = path.with_name(f"{path.stem}-{os.getpid()}.npz")
    targets = features.targets if features.targets is not None else np.zeros((0, 0), np.float32)
    try:
        path.parent.mkdir(exist_ok=True)
        key_, note, alike = np.array(key), np.array(features.note), np.array(features.alike)
        np.savez(part, pool=features.pool, targets=targets, key=key_, note=note, alike=alike)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
