"""From items to numbers: columns, words, pixels or embeddings. The same numbers in every process.

What is learnt about words and pixels (frequencies, directions) is learnt from the pool and the targets together, never
from labels, so that a word that only the targets use counts too.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.items import Items, is_prose
from askwell.items.pictures import pixels
from askwell.items.records import cell_text
from askwell.models.laplace import one_thread_each
from askwell.tables import Table, encoded
from askwell.tables.table import listed

__all__ = ["EMBEDDINGS", "Features", "kept_features", "make_features"]

EMBEDDINGS = "embeddings:"
WORDS = 50_000  # the most frequent words and pairs of words that count
PAIRS = 20_000  # texts up to which pairs of words are looked at; beyond, they would not fit the memory
DIRECTIONS = 50  # numbers that a text becomes
SIDE = 32  # pixels, each way, that a picture is scaled to
COMPONENTS = 64  # numbers that a picture becomes
LOOK = 5_000  # pictures that the components are found from


@final
@dataclass(frozen=True, eq=False)
class Features:
    """What the model sees: of the pool `[n, d]`, of the targets `[m, d]` (None without targets), and how in words.

    Where all numbers are `alike`, parts of one thing, they are in one unit: the mean square of a row's length is d, and
    directions that vary more count more. To standardise each of them would blow up the noise of the last ones.
    """

    pool: np.ndarray
    targets: np.ndarray | None
    note: str
    alike: bool


def make_features(
    items: Items, targets: Items | None, features: str | Sequence[str], *, drop: Sequence[str], folder: Path
) -> Features:
    """The features that a setting names, float32.

    "text" is TF-IDF of the shown texts, cut to 50 numbers by SVD; "pixels" 32 x 32 pixels, cut to 64 by PCA; "columns"
    all columns but those of `drop`, by `askwell.tables.encoded`, and prose as texts; a list of columns those, in the
    same way. "embeddings:" names a column of lists of numbers, or a .npy file of rows in the file's order, as seen from
    `folder`, with that of the targets after a comma.

    >>> path = getfixture("tmp_path") / "a.csv"
    >>> _ = path.write_text("age,town\\n31,Oslo\\n5,Rome\\n7,Rome\\n")
    >>> from askwell.items import open_items
    >>> found = make_features(open_items(path), None, "columns", drop=[], folder=path.parent)
    >>> found.pool.tolist()
    [[31.0, 0.0], [5.0, 1.0], [7.0, 1.0]]
    """
    if isinstance(features, str) and features.startswith(EMBEDDINGS):
        return _embeddings(items, targets, features.removeprefix(EMBEDDINGS), folder)
    both = [items] if targets is None else [items, targets]
    if features == "text":
        _check_kind(items, "text", features)
        return _apart(len(items), *_from_texts([each.take(np.arange(len(each))) for each in both]))
    if features == "pixels":
        _check_kind(items, "image", features)
        return _apart(len(items), *_from_pictures([each.take(np.arange(len(each))) for each in both]))
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
) -> Features:
    """`make_features`, made once and read from the file `kept` afterwards, as long as the items are the same."""
    if isinstance(features, str) and features.startswith(EMBEDDINGS):
        return make_features(items, targets, features, drop=drop, folder=folder)
    key = _fingerprint(items, targets, features, drop)
    found = _read(kept, key)
    if found is None:
        found = make_features(items, targets, features, drop=drop, folder=folder)
        _write(kept, key, found)
    return found


def _apart(n: int, x: np.ndarray, note: str) -> Features:
    """Numbers that are alike, in one unit; the first n rows are the pool's."""
    x = _in_one_unit(x)
    return Features(x[:n], x[n:] if len(x) > n else None, note, alike=True)


def _in_one_unit(x: np.ndarray) -> np.ndarray:
    """The rows around zero, their length √d in the mean of squares."""
    centred = x - x.mean(axis=0, dtype=np.float64)
    unit = float(np.sqrt(np.square(centred).mean()))
    found: np.ndarray = (centred / (unit or 1.0)).astype(np.float32)
    return found


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
    parts, notes = [], []
    if rest:
        try:
            found = encoded(first, columns=rest if names is not None else None, drop=[*_known(first, drop), *prose])
        except ValueError:
            if names is not None or not prose:
                raise
        else:
            parts.append([found.x, *(found.encode(table) for table in tables[1:])])
            notes.append(found.note)
    for name in prose:
        x, note = _from_texts([[*map(cell_text, table.column(name))] for table in tables])
        cut = np.split(np.asarray(x, np.float32), np.cumsum([table.rows for table in tables])[:-1])
        parts.append(cut)
        notes.append(f"{name}: {note}")
    joined = [np.concatenate([part[place] for part in parts], axis=1) for place in range(len(tables))]
    return Features(joined[0], joined[1] if len(joined) > 1 else None, "\n".join(notes), alike=False)


def _known(table: Table, drop: Sequence[str]) -> list[str]:
    return [name for name in drop if name in table.columns]


# ---- words ---------------------------------------------------------------------------------------------------------


def _from_texts(parts: Sequence[Sequence[str]]) -> tuple[np.ndarray, str]:
    """`[n + m, d]` and how."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.utils.extmath import randomized_svd

    texts = [text for part in parts for text in part]
    pairs = len(texts) <= PAIRS
    common: dict[str, Any] = {"sublinear_tf": True, "max_features": WORDS, "min_df": 2 if len(texts) >= 100 else 1}
    words = TfidfVectorizer(ngram_range=(1, 2 if pairs else 1), strip_accents="unicode", **common)
    what = "words and pairs of words" if pairs else "words"
    try:
        counts = words.fit_transform(texts)
    except ValueError:  # no words at all, or none twice: scripts without blanks, numbers, single letters
        what = "groups of one to three letters"
        words = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), **(common | {"min_df": 1}))
        counts = words.fit_transform(texts)
    d = min(DIRECTIONS, *(size - 1 for size in counts.shape))
    if d < 1:
        return counts.toarray(), f"{counts.shape[1]:,} {what} by TF-IDF"
    with one_thread_each():
        left, sizes, _ = randomized_svd(counts, d, n_iter=7, random_state=0)
    x = left * sizes
    length = np.linalg.norm(x, axis=1, keepdims=True)  # what is left of a text's length says how usual its words are
    return x / np.where(length > 0, length, 1), f"{counts.shape[1]:,} {what} by TF-IDF, in {d} numbers by SVD"


# ---- pixels --------------------------------------------------------------------------------------------------------


def _from_pictures(parts: Sequence[Sequence[Path]]) -> tuple[np.ndarray, str]:
    from sklearn.utils.extmath import randomized_svd

    paths = [path for part in parts for path in part]
    x = np.stack([pixels(path, side=SIDE).ravel() for path in paths])
    d = min(COMPONENTS, len(x) - 1)
    note = f"{SIDE} x {SIDE} pixels"
    if d < 1:
        return x, note
    some = x[:: 1 + len(x) // LOOK]
    centre = some.mean(axis=0, dtype=np.float64)
    with one_thread_each():
        _, sizes, directions = randomized_svd(some - centre, min(d, len(some)), n_iter=5, random_state=0)
        x = (x - centre) @ directions.T
    share = np.square(sizes).sum() / max(np.square(some - centre).sum(), 1e-12)
    return x, f"{note}, in {len(sizes)} numbers by PCA ({share:.0%} of the variance)"


# ---- embeddings ----------------------------------------------------------------------------------------------------


def _embeddings(items: Items, targets: Items | None, name: str, folder: Path) -> Features:
    if name in items.columns:
        x, note = _column_of_lists(items, name), f"embeddings: the column {name!r}"
        theirs = None if targets is None else _column_of_lists(targets, name)
    else:
        files = [part.strip() for part in name.split(",")]
        wanted = 1 if targets is None else 2
        if len(files) != wanted or not all(file.endswith(".npy") for file in files):
            known = f" (columns: {listed(items.columns)})" if items.columns else ""
            raise ValueError(
                f"features {EMBEDDINGS}{name} must name a column{known}, or "
                + (
                    "one .npy file, of the pool."
                    if targets is None
                    else "two .npy files with a comma between, the pool's and the targets'."
                )
            )
        x, note = _file_of_rows(_at(folder, files[0]), items), f"embeddings: {listed(files)}"
        theirs = None if targets is None else _file_of_rows(_at(folder, files[1]), targets)
    if theirs is not None and theirs.shape[1] != x.shape[1]:
        raise ValueError(
            f"embeddings must be of one length, but the pool's have {x.shape[1]} numbers and the targets' "
            f"{theirs.shape[1]}."
        )
    both = x if theirs is None else np.concatenate([x, theirs])
    return _apart(len(x), both, f"{note}, {x.shape[1]} numbers each")


def _at(folder: Path, name: str) -> Path:
    return Path(os.path.normpath(folder / name))


def _file_of_rows(file: Path, items: Items) -> np.ndarray:
    try:
        values = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(file)!r}.") from None
    except Exception as fault:  # the header is parsed as Python, and a damaged one fails in many ways
        raise ValueError(f"{file.name} is not a whole NumPy array of numbers: {fault}") from None
    rows = len(items) + len(items.left_out)
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind not in "fiu":
        raise ValueError(f"{file.name} must hold rows of numbers [n, d].")
    if len(values) == rows and items.kept is not None:
        values = values[np.asarray(items.kept, np.intp)]
    if len(values) != len(items):
        raise ValueError(
            f"{file.name} must have one row for each of the {rows:,} rows of {items.source}, but it has "
            f"{len(values):,}."
        )
    return _finite(values, lambda row: f"{file.name}: row {row}")


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
    digest.update(json.dumps([features, list(drop), packages]).encode())
    for each in [items] if targets is None else [items, targets]:
        digest.update(f"\n{each.kind}\n{len(each)}\n".encode())
        if each.kind == "image":
            for path in each.take(np.arange(len(each))):
                seen = path.stat()
                digest.update(f"{path.name}\0{seen.st_size}\0{seen.st_mtime_ns}\n".encode("utf-8", "replace"))
        elif each.kind == "text" and features == "text":
            for text in each.contents:
                digest.update(f"{len(text)}\n{text}".encode())
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
