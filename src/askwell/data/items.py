"""From a path to items: tables, arrays, folders of pictures or texts.

Nothing is lost silently: a file that cannot be read whole is refused with `file:row`, and a row or a file that has
nothing to show is reported in `left_out`, so that rows in = items + rows reported.
"""

import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from askwell.data.display import Items, Kind, LeftOut
from askwell.data.files import saved_array
from askwell.data.pictures import SUFFIXES, inside, media_type
from askwell.data.reading import read_table
from askwell.data.table import Cells, Table, is_missing, some_rows
from askwell.data.texts import is_prose

__all__ = ["open_items"]

TEXTS = frozenset([".txt", ".text", ".md", ".eml"])
LARGEST_TEXT = 10_000_000  # bytes
LONGEST_ID = 500  # letters
HALF = "half of a letter (a lone surrogate, which is no valid Unicode)"
HALVES = re.compile("[\ud800-\udfff]")


def open_items(
    path: str | Path,
    *,
    id: str | None = None,
    show: str | Sequence[str] | None = None,
    kind: Kind | None = None,
    hide: Sequence[str] = (),
    encoding: str | None = None,
    delimiter: str | None = None,
) -> Items:
    """The items of a file (CSV, JSON lines, Parquet, a saved NumPy array) or of a folder of pictures or text files.

    `id` is the column with ids; without one rows are counted as the file counts them. `show` is what people see: one
    column of texts, or of paths of pictures below the file's folder, or several columns. Without it, a column of prose
    if there is exactly one, else all columns but those to `hide`. `kind` says "text", "image" or "table" where it
    should not be guessed. `encoding` and `delimiter` are those of `askwell.data.read_table`.

    >>> path = getfixture("tmp_path") / "mail.csv"
    >>> _ = path.write_text("key,text,sender\\nm1,Win a prize now,x@y.example\\nm2,,ada@z.example\\n")
    >>> items = open_items(path, id="key", show="text")
    >>> items.kind, items.ids, items.show("m1").text
    ('text', ('m1',), 'Win a prize now')
    >>> print(*items.left_out)
    mail.csv:3: the column 'text' has nothing to show here
    """
    if kind is not None and kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, but it is {kind!r}.")
    place = Path(path)
    if place.is_dir():
        if id is not None or show is not None:
            raise ValueError(
                f"{place.name} is a folder, whose files are shown whole and are called by their names: leave out id "
                "and show."
            )
        return _folder(place, kind)
    if place.suffix.lower() == ".npy":
        return _array(place, kind)
    table = _table(place, id=id, encoding=encoding, delimiter=delimiter)
    ids = _ids(table, id)
    shown = _shown(table, show, hide)
    kind = kind or _kind(table, shown)
    return _from_table(table, ids, kind, shown, place.parent)


# ---- tables --------------------------------------------------------------------------------------------------------


def _table(path: Path, **options: Any) -> Table:
    """The table, or a refusal that names the file, also where a value in it was too much for a library."""
    try:
        return read_table(path, **options)
    except (ValueError, ArithmeticError, RecursionError, OSError) as fault:
        said = str(fault)
        if isinstance(fault, ValueError) and path.name in said:
            raise
        raise ValueError(f"{path.name} cannot be read: {said}") from fault


def _ids(table: Table, name: str | None) -> tuple[str, ...]:
    """The rows' ids as texts: of the id column, or what the file calls the rows."""
    if table.ids is None:
        return tuple(map(str, table.numbers))
    ids = tuple(map(str, table.ids))
    if all(map(str.isprintable, ids)) and max(map(len, ids)) <= LONGEST_ID:
        return ids  # a million of them, most often
    for row, item in enumerate(ids):
        if fault := _id_fault(item):
            raise ValueError(f"{table.place(row)}: the id in the column {name!r} {fault}. Correct it, or use no id.")
    return ids


def _id_fault(text: str) -> str | None:
    """What keeps a text from being an id that can be stored, sent and shown; None if nothing does."""
    if not text:
        return "is empty"
    if len(text) > LONGEST_ID:
        return f"has {len(text):,} letters, and {LONGEST_ID} are the most"
    strange = next((letter for letter in text if unicodedata.category(letter) in ("Cc", "Cs")), None)
    if strange is None:
        return None
    return f"holds {'a control character' if unicodedata.category(strange) == 'Cc' else HALF} ({strange!r})"


def _shown(table: Table, show: str | Sequence[str] | None, hide: Sequence[str]) -> tuple[str, ...]:
    if show is not None:
        names = (show,) if isinstance(show, str) else tuple(show)
        if not names:
            raise ValueError("show must name a column or several, but it names none. Leave it out for all columns.")
        for name in names:
            table.column(name)
        return names
    names = tuple(name for name in table.columns if name not in hide)
    if not names:
        raise ValueError(f"{table.source} has no column to show beside those of ids and labels.")
    prose = tuple(name for name in names if is_prose(table.columns[name]))
    return prose if len(prose) == 1 else names


def _kind(table: Table, shown: tuple[str, ...]) -> Kind:
    values = table.columns[shown[0]]
    if len(shown) > 1 or not isinstance(values, list):
        return "table"
    texts = [text for text in values if text is not None]
    pictures = texts and all(Path(text).suffix.lower() in SUFFIXES for text in texts)
    return "image" if pictures else "text"


def _from_table(table: Table, ids: tuple[str, ...], kind: Kind, shown: tuple[str, ...], folder: Path) -> Items:
    if kind != "table" and len(shown) > 1:
        raise ValueError(
            f"show must be one column for kind {kind!r}, but it is {', '.join(shown)}. For several: kind 'table'."
        )
    left_out = {}
    missing = np.logical_and.reduce([is_missing(table.columns[name]) for name in shown])
    for row in np.flatnonzero(missing).tolist():
        where = f"the column {shown[0]!r} has" if len(shown) == 1 else "the row has"
        left_out[row] = f"{where} nothing to show here"
    for name in shown:
        for row in _halves(table.cells(name)):
            left_out[row] = f"the column {name!r} holds {HALF}, which no page can show. Correct it"
    texts = table.texts(shown[0]) if kind != "table" else []
    if kind == "image":
        for row, name in enumerate(texts):
            if row not in left_out and (fault := _picture_fault(folder, name)):
                left_out[row] = fault
    root = folder if kind == "image" else None
    if not left_out:
        return Items(table.source, kind, ids, texts if kind != "table" else range(len(ids)), table, shown, root)
    kept = [row for row in range(table.rows) if row not in left_out]
    reported = tuple(LeftOut(table.place(row), left_out[row]) for row in sorted(left_out))
    if not kept:
        raise ValueError(f"{table.source} has no row that can be shown. {_first(reported)}")
    return Items(
        table.source,
        kind,
        tuple(ids[row] for row in kept),
        [texts[row] for row in kept] if kind != "table" else range(len(kept)),
        some_rows(table, np.array(kept)),
        shown,
        root,
        reported,
        kept,
    )


def _picture_fault(folder: Path, name: str) -> str | None:
    try:
        media_type(inside(folder, name))
    except ValueError as fault:
        return str(fault).removesuffix(".")
    return None


def _halves(values: Cells) -> list[int]:
    """The rows whose text has a lone surrogate, which JSON can hold and nothing can send."""
    if not isinstance(values, list):
        return []
    return [row for row, text in enumerate(values) if text and not text.isascii() and HALVES.search(text)]


def _first(reported: Sequence[Any]) -> str:
    more = f" And {len(reported) - 1:,} more." if len(reported) > 1 else ""
    return f"The first: {reported[0]}.{more}" if reported else ""


# ---- arrays --------------------------------------------------------------------------------------------------------


def _array(file: Path, kind: Kind | None) -> Items:
    """A saved array: rows of numbers, or a list of texts. Positions are the ids, from 0, as NumPy counts."""
    values = saved_array(file)
    ids = tuple(map(str, range(len(values)))) if values.ndim else ()
    if values.ndim == 1 and values.dtype.kind == "U" and kind in (None, "text"):
        texts = [str(text) for text in values]
        why = {row: "an empty text" for row, text in enumerate(texts) if not text.strip()}
        why |= dict.fromkeys(_halves(texts), f"it holds {HALF}, which no page can show")
        kept = [row for row in range(len(texts)) if row not in why]
        reported = tuple(LeftOut(f"{file.name}:{row}", why[row]) for row in sorted(why))
        if not kept:
            raise ValueError(f"{file.name} has no text that can be shown. {_first(reported)}")
        contents = [texts[row] for row in kept]
        return Items(file.name, "text", tuple(ids[row] for row in kept), contents, left_out=reported, kept=kept)
    if values.ndim != 2 or values.dtype.kind not in "fiub" or kind not in (None, "table"):
        raise ValueError(
            f"{file.name} must hold rows of numbers [n, d], or texts [n], but it is {values.dtype.name} of shape "
            f"{values.shape}. Pictures are given as a folder of PNG files."
        )
    large = values.dtype == np.uint64 and values.max() >= 2**63
    wanted = float if values.dtype.kind == "f" or large else bool if values.dtype.kind == "b" else np.int64
    given = {f"x{place}": np.ascontiguousarray(values[:, place]) for place in range(values.shape[1])}
    columns = {name: each.astype(wanted) for name, each in given.items()}
    short = values.dtype.kind == "f" and values.dtype.itemsize < 8  # 0.1 would be shown as 0.10000000149011612
    written: dict[str, Cells] = {}
    if large or short:
        written = {name: np.where(is_missing(each), b"", each.astype("S")) for name, each in given.items()}
    table = Table(file.name, columns, range(len(values)), written=written)
    return Items(file.name, "table", ids, range(len(ids)), table, tuple(columns))


# ---- folders -------------------------------------------------------------------------------------------------------


def _folder(folder: Path, kind: Kind | None) -> Items:
    """The pictures or the text files below a folder, called by their paths from there; whichever there are more of.

    Links are followed to files inside the folder only.
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
            fault = _id_fault(name)
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
