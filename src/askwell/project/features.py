"""From items to numbers: columns, words, pixels or embeddings. The same numbers in every process.

What is learnt about words and pixels (frequencies, directions) is learnt from the pool and the targets together, never
from labels, so that a word that only the targets use counts too. A pool in files stays there: its numbers are `Rows`.

Vectors in a file (.npy, .npz) belong to rows by id, and never by a position that moved. A .npz with the arrays `ids`
and `x` says itself whose each vector is. A .npy says nothing: its rows are those of the pool in the file's order, when
a project first uses it. That pairing is stored, so that a pool whose rows were put in another order since is matched by
id, and what cannot be matched is refused.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from askwell.arrays import one_thread_each, spans
from askwell.checks import fingerprint, write_file
from askwell.data import Dataset, Items, Rows, Table, open_rows
from askwell.data.display import pixels
from askwell.data.encoding import LEARNT, Encoder, fit_texts, in_one_unit, table_encoding
from askwell.data.files import saved_array
from askwell.data.pretrained import PretrainedEncoder, is_pretrained, pretrained
from askwell.data.table import check_column, listed
from askwell.progress import counted

__all__ = ["EMBEDDINGS", "Features", "Pairing", "is_file", "kept_features", "make_features", "vectors_of"]

Encode: TypeAlias = Callable[[Items, Path | None], np.ndarray]

EMBEDDINGS = "embeddings:"
SIDE = 32  # pixels, each way, that a picture is scaled to
COMPONENTS = 64  # numbers that a picture becomes, or the numbers that a net made of it or of a text
IN_A_FILE = 2_000  # texts of a pool in files whose numbers are saved together
LOOK = 5_000  # pictures, or what a net made, that the components are found from
SAY_WHOSE = 'np.savez("vectors.npz", ids=ids, x=x), which says whose each vector is'


@final
@dataclass(frozen=True)
class Pairing:
    """Whose the vectors of a file are: the key of each of its rows ("" where the row was no item)."""

    file: str
    sha256: str
    keys: tuple[str, ...]


@final
@dataclass(frozen=True, eq=False)
class Features:
    """What the model sees: of the pool `[n, d]`, of the targets `[m, d]` (None without targets), and how in words.

    Where all numbers are `alike`, parts of one thing, they are in one unit: the mean square of a row's length is d, and
    directions that vary more count more. To standardise each of them would blow up the noise of the last ones.

    `encode(items, file)` makes the same numbers of other items, `file` being that of their embeddings where the pool's
    are in a file; `columns` are those it looks at. Features that were read from a cache have neither.
    """

    pool: np.ndarray | Rows
    targets: np.ndarray | Rows | None
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
    recorded: Sequence[Pairing | None] = (),
) -> Features:
    """The features that a setting names, float32.

    "text" is TF-IDF of the shown texts, cut to 50 numbers by SVD; "pixels" 32 x 32 pixels, cut to 64 by PCA; "columns"
    all columns but those of `drop`, by `askwell.data.encoded`, and prose as texts; a list of columns those, in the
    same way. The name of an encoder (`askwell.data.pretrained`) is what it makes of the shown texts or pictures, cut to
    64 numbers by PCA. "embeddings:" names a column of lists of numbers, or a file of vectors as seen from `folder`
    (.npz with ids, or .npy), with that of the targets after a comma; `recorded` are the pairings that were stored, of
    the pool and of the targets, and `pairings` of the result those to store.

    >>> path = getfixture("tmp_path") / "a.csv"
    >>> _ = path.write_text("age,town\\n31,Oslo\\n5,Rome\\n7,Rome\\n")
    >>> from askwell.data import open_items
    >>> make_features(open_items(path), None, "columns", drop=[], folder=path.parent).pool.tolist()
    [[31.0, 0.0], [5.0, 1.0], [7.0, 1.0]]
    """
    if items.in_files or (targets is not None and targets.in_files):
        if items.in_files and isinstance(features, str) and is_pretrained(features):
            return _from_encoder_in_files(items, targets, features, folder)
        return _of_files(items, targets, features, drop)
    if isinstance(features, str) and features.startswith(EMBEDDINGS):
        return _embeddings(items, targets, features.removeprefix(EMBEDDINGS), folder, recorded)
    both = [items] if targets is None else [items, targets]
    if isinstance(features, str) and is_pretrained(features):
        return _from_encoder(both, features, folder)
    if features == "text":
        _check_kind(items, "text", features)
        x, note, numbers = _from_texts([_contents(each) for each in both])
        return _apart(len(items), x, note, lambda other, _: numbers(_contents(other)), items.shown)
    if features == "pixels":
        _check_kind(items, "image", features)
        x, note, cut = _from_pictures([_contents(each) for each in both])
        return _apart(len(items), x, note, lambda other, _: cut(_contents(other)), items.shown)
    tables = [each.table for each in both if isinstance(each.table, Table)]
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
    cache: Path,
    recorded: Sequence[Pairing | None] = (),
) -> Features:
    """`make_features`, made once and read from the file `cache` afterwards, as long as the items are the same."""
    if items.in_files or (isinstance(features, str) and features.startswith(EMBEDDINGS)):
        return make_features(items, targets, features, drop=drop, folder=folder, recorded=recorded)
    key = fingerprint(_dependencies(items, targets, features, drop))
    made = _cached(cache, key)
    if made is None:
        made = make_features(items, targets, features, drop=drop, folder=folder)
        _write(cache, key, made)
    return made


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
        _check_input(first.source, name, [*first.columns], drop)
    inputs = table_encoding(first, tables, columns=names, drop=[name for name in drop if name in first.columns])
    pool, *targets = map(inputs.encode, tables)

    def encode(items: Items, _: Path | None) -> np.ndarray:
        if not isinstance(items.table, Table):
            needed = listed(inputs.columns)
            raise ValueError(f"{items.source} has no columns, and the model needs {needed}. Give a table.")
        return inputs.encode(items.table)

    return Features(pool, targets[0] if targets else None, "\n".join(inputs.notes), False, inputs.columns, encode)


# ---- tables in files -----------------------------------------------------------------------------------------------


def _of_files(items: Items, targets: Items | None, features: str | Sequence[str], drop: Sequence[str]) -> Features:
    """The numbers of a pool that stays in its files, chunk by chunk; its targets may be in memory."""
    data = items.table
    if not isinstance(data, Dataset):
        raise ValueError("targets that stay in files need a pool that does: give the targets as one file.")
    vectors = isinstance(features, str) and features.startswith(EMBEDDINGS)
    if features in ("text", "pixels") or (vectors and str(features).removeprefix(EMBEDDINGS) not in data.columns):
        raise ValueError(
            f"features {features!r} are not made of a pool in files ({items.source}). Give embeddings as a column of "
            "its files (Parquet lists of a fixed size) and name it: embeddings:COLUMN. Or have texts embedded: minilm. "
            "Or give the pool as one file."
        )
    if vectors:
        name = str(features).removeprefix(EMBEDDINGS)
        rows = data.inputs(columns=[name]).in_one_unit()
    else:
        rows = _rows_of_columns(data, None if isinstance(features, str) else features, drop)

    def encode(others: Items, _: Path | None = None) -> np.ndarray:
        if others.table is None:
            raise ValueError(
                f"{others.source} has no columns, and the model needs {listed(rows.columns)}. Give a table."
            )
        if isinstance(others.table, Dataset):
            return others.table.inputs(like=rows)[:]
        return rows.scaled(_column_of_lists(others, name)) if vectors else rows.encode(others.table)

    theirs: np.ndarray | Rows | None = None
    if targets is not None:
        theirs = targets.table.inputs(like=rows) if isinstance(targets.table, Dataset) else encode(targets)
    return Features(rows, theirs, rows.note, vectors, rows.columns, encode)


def _rows_of_columns(data: Dataset, asked: Sequence[str] | None, drop: Sequence[str]) -> Rows:
    for name in asked or ():
        _check_input(data.source, name, data.columns, drop)
    rows = data.inputs(drop=drop if asked is None else [name for name in data.columns if name not in asked])
    if asked is not None and {*asked} > {*rows.columns}:
        unused = next(name for name in asked if name not in rows.columns)
        raise ValueError(f"the column {unused!r} of {data.source} cannot be used as an input of a pool in files.")
    return rows


def _check_input(source: str, name: str, names: Sequence[str], drop: Sequence[str]) -> None:
    if name in drop:
        raise ValueError(f"features must be inputs, but {name!r} is the column of labels or costs.")
    check_column(source, name, names)


# ---- words ---------------------------------------------------------------------------------------------------------


def _from_texts(parts: Sequence[Sequence[str]]) -> tuple[np.ndarray, str, Encoder]:
    """`[n + m, d]`, how, and a function that does the same to other texts."""
    encode, note = fit_texts(*parts)
    return encode([text for part in parts for text in part]), note, encode


# ---- pixels --------------------------------------------------------------------------------------------------------


def _from_pictures(parts: Sequence[Sequence[Path]]) -> tuple[np.ndarray, str, Callable[[Sequence[Path]], np.ndarray]]:
    """`[n + m, d]`, how, and a function that does the same to other pictures."""
    x = _pixels([path for part in parts for path in part])
    note = f"{SIDE} x {SIDE} pixels"
    if len(x) < 2:
        return x, note, _pixels
    cut, how = _components(x[:: 1 + len(x) // LOOK], min(COMPONENTS, len(x) - 1))
    return cut(x), note + how, lambda others: cut(_pixels(others))


def _components(some: np.ndarray, d: int) -> tuple[Callable[[np.ndarray], np.ndarray], str]:
    """A function that cuts rows to at most d numbers by PCA, found from `some [n, D]`, and how in words."""
    from sklearn.utils.extmath import randomized_svd

    centre = some.mean(axis=0, dtype=np.float64)
    with one_thread_each():
        _, sizes, directions = randomized_svd(some - centre, min(d, len(some)), n_iter=5, random_state=0)
    share = np.square(sizes).sum() / max(np.square(some - centre).sum(), 1e-12)
    how = f", in {len(sizes)} numbers by PCA ({share:.0%} of the variance)"

    def cut(x: Any) -> np.ndarray:
        with one_thread_each():
            return np.asarray((x - centre) @ directions.T)  # [n, d]

    return cut, how


def _pixels(paths: Sequence[Path]) -> np.ndarray:
    return np.stack([pixels(path, side=SIDE).ravel() for path in paths])


# ---- encoders ------------------------------------------------------------------------------------------------------


def _from_encoder(both: Sequence[Items], name: str, folder: Path) -> Features:
    """What a net makes of texts or pictures; of many, some at a time are held before they are cut."""
    encoder = pretrained(name, folder=folder)
    for each in both:
        _check_kind(each, encoder.kind, encoder.name)
    contents = [content for each in both for content in _contents(each)]
    note = f"{encoder.width} numbers by {encoder.full_name}"
    d = min(COMPONENTS, encoder.width, len(contents) - 1)
    some = encoder(contents[:: 1 + len(contents) // LOOK])
    cut, how = _components(some, d) if d > 0 else (lambda x: x, "")
    x = np.concatenate([cut(encoder(contents[span])) for span in spans(len(contents), LEARNT)])

    def encode(others: Items, _: Path | None) -> np.ndarray:
        _check_kind(others, encoder.kind, encoder.name)
        return cut(encoder(_contents(others)))

    return _apart(len(both[0]), x, note + how, encode, both[0].shown)


def _from_encoder_in_files(items: Items, targets: Items | None, name: str, folder: Path) -> Features:
    """The same of texts that stay in their files: what a net makes of them goes into files too, and is not cut."""
    encoder = pretrained(name, folder=folder)
    for each in [items] if targets is None else [items, targets]:
        _check_kind(each, encoder.kind, encoder.name)
    rows = _rows_by_encoder(items, encoder).in_one_unit()
    (column,) = items.shown

    def encode(others: Items, _: Path | None = None) -> np.ndarray:
        if isinstance(others.table, Dataset):
            return rows.scaled(_rows_by_encoder(others, encoder)[:])
        texts = others.table.texts(column) if others.table is not None else [*others.contents]
        return rows.scaled(_with_blanks(texts, encoder))

    theirs: np.ndarray | Rows | None = None
    if targets is not None:
        in_files = isinstance(targets.table, Dataset)
        theirs = _rows_by_encoder(targets, encoder).data.inputs(like=rows) if in_files else encode(targets)
    return Features(rows, theirs, f"{encoder.width} numbers by {encoder.full_name}", True, (column,), encode)


def _rows_by_encoder(items: Items, encoder: PretrainedEncoder) -> Rows:
    """The numbers of a column of texts in files, as files by their content: those that are there are not made again."""
    data = items.table
    assert isinstance(data, Dataset)
    if encoder.cache is None:
        raise ValueError("the numbers of a pool in files need a cache that they can be kept in.")
    folder = encoder.cache / encoder.fingerprint / "files"
    folder.mkdir(parents=True, exist_ok=True)
    alone, paths = replace(encoder, cache=None), []
    with counted(len(data), label=f"embedding by {encoder.name}", unit="texts") as done:
        for table in data.tables(items.shown):
            texts = table.texts(items.shown[0])
            for span in spans(len(texts), IN_A_FILE):
                some = texts[span]
                path = folder / f"{fingerprint([json.dumps(some)])}.npy"
                if not _is_array(path, (len(some), encoder.width)):
                    write_file(path, partial(_save_rows, x=_with_blanks(some, alone)))
                paths.append(path)
                done(len(some))
    return open_rows(paths)


def _save_rows(path: Path, *, x: np.ndarray) -> None:
    np.save(path, x)


def _is_array(path: Path, shape: tuple[int, int]) -> bool:
    """Whether a whole array of this shape is saved there."""
    try:
        return bool(saved_array(path).shape == shape)
    except ValueError:
        return False


def _with_blanks(texts: Sequence[str], encoder: PretrainedEncoder) -> np.ndarray:
    """The numbers of texts, zeros for those that say nothing: each row of a pool in files is an item."""
    x = np.zeros((len(texts), encoder.width), np.float32)
    rows = [row for row, text in enumerate(texts) if text.strip()]
    x[rows] = encoder([texts[row] for row in rows])
    return x


# ---- embeddings ----------------------------------------------------------------------------------------------------


def _embeddings(
    items: Items, targets: Items | None, name: str, folder: Path, recorded: Sequence[Pairing | None]
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
        read = [
            _file_of_rows(_at(folder, file), each, before)
            for file, each, before in zip(files, both, [*recorded, None, None], strict=False)
        ]
        x, note, theirs = read[0][0], f"embeddings: {listed(files)}", read[1][0] if len(read) > 1 else None
        pairings = tuple(pairing for _, pairing in read)
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
        vectors = _column_of_lists(others, name) if file is None else _file_of_rows(file, others)[0]
        if vectors.shape[1] != x.shape[1]:
            raise ValueError(
                f"embeddings must be of one length, but the pool's have {x.shape[1]} numbers and those of "
                f"{others.source} {vectors.shape[1]}."
            )
        return vectors

    return replace(_apart(len(x), joined, f"{note}, {x.shape[1]} numbers each", encode, columns), pairings=pairings)


def _at(folder: Path, name: str) -> Path:
    return Path(os.path.normpath(folder / name))


def _file_of_rows(file: Path, items: Items, recorded: Pairing | None = None) -> tuple[np.ndarray, Pairing | None]:
    x, pairing = vectors_of(
        items, file, recorded=recorded if recorded is not None and recorded.file == file.name else None
    )
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


def _finite(values: np.ndarray, where: Callable[[int], str]) -> np.ndarray:
    x = np.asarray(values, np.float32)
    wrong = ~np.isfinite(x).all(axis=1)
    if wrong.any():
        raise ValueError(
            f"{where(int(np.flatnonzero(wrong)[0]))}: embeddings must be finite numbers, and here one is not."
        )
    return x


# ---- a cache -------------------------------------------------------------------------------------------------------


def _dependencies(
    items: Items, targets: Items | None, features: str | Sequence[str], drop: Sequence[str]
) -> Iterator[Any]:
    """Whatever the features depend on."""
    yield json.dumps([features, list(drop), *(version(name) for name in ("askwell", "numpy", "scikit-learn")), LEARNT])
    for each in [items] if targets is None else [items, targets]:
        yield f"\n{each.kind}\n{len(each)}\n"
        if each.kind == "image":
            for path in each.take(np.arange(len(each))):
                seen = path.stat()
                yield f"{path.name}\0{seen.st_size}\0{seen.st_mtime_ns}\n"
        elif each.kind == "text" and (features == "text" or is_pretrained(str(features))):
            yield from (
                "".join([f"{len(text)}\n{text}" for text in each.contents[span]]) for span in spans(len(each), LEARNT)
            )
        elif isinstance(each.table, Table):
            for name, values in each.table.columns.items():
                yield f"\n{name!r}\n"
                yield json.dumps(values) if isinstance(values, list) else values


def _cached(path: Path, key: str) -> Features | None:
    """What the file holds under this key; None if nothing, or if the file is not what it was."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if str(stored["key"]) != key:
                return None
            targets = stored["targets"]
            note, alike = str(stored["note"]), bool(stored["alike"])
            return Features(stored["pool"], targets if targets.size else None, note, alike)
    except Exception:  # a cache: whatever is wrong with it, it is made again
        return None


def _write(path: Path, key: str, features: Features) -> None:
    """Write the cache, if the folder can be written."""
    targets = features.targets if features.targets is not None else np.zeros((0, 0), np.float32)
    arrays: dict[str, Any] = {"pool": features.pool, "targets": targets, "key": key, "note": features.note}
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        write_file(path, lambda part: np.savez(part, alike=np.array(features.alike), **arrays))


# ---- vectors in files ----------------------------------------------------------------------------------------------


def is_file(name: str) -> bool:
    """Whether a name is that of a file of vectors."""
    return name.endswith((".npy", ".npz"))


def vectors_of(items: Items, file: Path, *, recorded: Pairing | None = None) -> tuple[np.ndarray, Pairing | None]:
    """The vectors of the items `[n, d]`, and whose those of the file are; a ValueError where that cannot be told.

    `recorded` is the pairing that was stored, None if there is none. A .npz has none.
    """
    values, ids = _read(file)
    if ids is not None:
        return _by_id(items, file, values, ids), None
    keys, counted = _keys(items), _is_counted(items)
    here = _positions(items, len(values))
    now = None if here is None else _by_position(keys, here, len(values))
    if recorded is not None and now == recorded.keys:
        return _taken(values, here), recorded
    digest = _digest(file)
    if recorded is None:
        return _taken(values, _right_count(items, file, len(values), here)), Pairing(file.name, digest, now or ())
    if digest == recorded.sha256:
        if counted:
            positions = _right_count(items, file, len(values), here)
            _check_still_there(items, file, keys, positions, recorded)
            return _taken(values, positions), recorded
        return _taken(values, _found_again(items, file, keys, here, recorded)), recorded
    positions = _right_count(items, file, len(values), here)
    _check_order(items, file, keys, positions, recorded)
    return _taken(values, positions), Pairing(file.name, digest, now or ())


# ---- the file ------------------------------------------------------------------------------------------------------


def _read(file: Path) -> tuple[np.ndarray, list[str] | None]:
    """(vectors `[n, d]`, their ids if the file says them)."""
    ids = None
    try:
        x = np.load(file, allow_pickle=False)
        if not isinstance(x, np.ndarray):
            with x:
                names = [name for name in x.files if name != "ids"]
                if "ids" not in x.files or len(names) != 1:
                    raise ValueError('it must hold two arrays: "ids" [n] and one of vectors [n, d]')
                ids, x = x["ids"], x[names[0]]
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(file)!r}.") from None
    except Exception as error:  # the header is parsed as Python, and a damaged one fails in many ways
        raise ValueError(f"{file.name} is not a whole NumPy array of numbers: {error}") from None
    if x.ndim != 2 or x.dtype.kind not in "fiu":
        raise ValueError(f"{file.name} must hold rows of numbers [n, d].")
    if ids is None:
        return x, None
    if ids.shape != (len(x),) or ids.dtype.kind not in "iuU":
        raise ValueError(f'{file.name}: "ids" must be as many texts or whole numbers as there are vectors.')
    return x, [*map(str, ids.tolist())]


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
    """What a row is recorded by: its id, or, where rows are counted, what it shows."""
    if not _is_counted(items):
        return [*items.ids]
    if items.kind != "table":
        shown = [(str(content),) for content in items.contents]
    else:
        assert items.table is not None
        shown = [*zip(*(items.table.texts(name) for name in items.shown), strict=True)]
    return [hashlib.blake2b(repr(row).encode("utf-8", "replace"), digest_size=8).hexdigest() for row in shown]


def _positions(items: Items, rows: int) -> np.ndarray | None:
    """The items' rows in a file of so many, if it has one for each row of the pool, or for each item."""
    if rows == len(items) + len(items.left_out):
        return np.arange(len(items)) if items.rows is None else np.asarray(items.rows, np.intp)
    return np.arange(len(items)) if rows == len(items) else None


def _right_count(items: Items, file: Path, rows: int, here: np.ndarray | None) -> np.ndarray:
    if here is None:
        raise ValueError(
            f"{file.name} must have one row for each of the {len(items) + len(items.left_out):,} rows of "
            f"{items.source}, but it has {rows:,}. Write it anew for {items.source} as it is now."
        )
    return here


def _by_position(keys: Sequence[str], positions: np.ndarray, rows: int) -> tuple[str, ...]:
    result = [""] * rows
    for key, position in zip(keys, positions.tolist(), strict=True):
        result[position] = key
    return tuple(result)


def _once(keys: Sequence[str]) -> dict[str, int]:
    """Key -> position, of those that occur once."""
    positions: dict[str, int] = {}
    twice: set[str] = {""}
    for position, key in enumerate(keys):
        if key in positions:
            twice.add(key)
        positions[key] = position
    return {key: position for key, position in positions.items() if key not in twice}


def _by_id(items: Items, file: Path, values: np.ndarray, ids: Sequence[str]) -> np.ndarray:
    positions = {item: position for position, item in enumerate(ids)}
    if len(positions) < len(ids):
        twice = next(item for position, item in enumerate(ids) if positions[item] != position)
        raise ValueError(f"{file.name}: ids must all be different, but {twice!r} occurs more than once.")
    _check_all(items, file, [item for item in items.ids if item not in positions])
    return values[[positions[item] for item in items.ids]]


def _found_again(
    items: Items, file: Path, keys: Sequence[str], here: np.ndarray | None, recorded: Pairing
) -> np.ndarray:
    """Where the vectors of these ids are: the file is as it was, the pool is not."""
    positions = _once(recorded.keys)
    rows = [positions.get(key, -1) for key in keys]
    if here is not None:  # what was no item then, and had a vector all the same
        rows = [
            position if row < 0 and recorded.keys[position] == "" else row
            for row, position in zip(rows, here.tolist(), strict=True)
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


def _check_still_there(items: Items, file: Path, keys: Sequence[str], here: np.ndarray, recorded: Pairing) -> None:
    """Rows that are counted stand where they stood."""
    before, now = _once(recorded.keys), _once(keys)
    moved = [position for key, position in now.items() if key in before and before[key] != here[position]]
    if moved:
        raise ValueError(
            f"the rows of {items.source} have moved since {file.name} was first used (item {items.ids[moved[0]]!r} "
            "stood elsewhere), and without an id column vectors and answers belong to rows by their number. Bring the "
            "old order back."
        )
    if changed := sum(key != recorded.keys[position] for key, position in zip(keys, here.tolist(), strict=True)):
        warnings.warn(
            f"{changed:,} rows of {items.source} are not what they were when {file.name} was first used; their vectors "
            "are taken as they are.",
            stacklevel=2,
        )


def _check_order(items: Items, file: Path, keys: Sequence[str], here: np.ndarray, recorded: Pairing) -> None:
    """File and pool have both changed: rows that were there before must follow each other as they did."""
    before = _once(recorded.keys)
    order = [before[key] for _, key in sorted(zip(here.tolist(), keys, strict=True)) if key in before]
    if order != sorted(order):
        raise ValueError(
            f"{file.name} and the order of the rows of {items.source} have both changed since {file.name} was first "
            f"used, so that nobody can tell whose each vector is. Save {SAY_WHOSE}, and name that file in askwell.toml."
        )
