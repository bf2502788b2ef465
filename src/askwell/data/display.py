"""From a path to items, and how people see them: tables, arrays, folders of pictures or texts.

Nothing is lost silently: a file that cannot be read whole is refused with `file:row`, and a row or a file that has
nothing to show is reported in `left_out`, so that rows in = items + rows reported. Of a table in files (a glob, a URL,
a folder of tables) all rows are items, and a row is read when it is shown. Pictures are served only from below one
folder, typed by what is in them, and never too large to look at.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args

import numpy as np

from askwell.arrays import take
from askwell.data.dataset import Dataset, open_dataset
from askwell.data.encoding import is_prose
from askwell.data.files import is_pattern, saved_array
from askwell.data.reading import read_table
from askwell.data.table import Table, WrittenCells, is_missing, some_rows

__all__ = [
    "Items",
    "Kind",
    "LeftOut",
    "ShownImage",
    "ShownItem",
    "ShownRow",
    "ShownText",
    "inside",
    "media_type",
    "open_items",
    "pixels",
]

Kind: TypeAlias = Literal["text", "image", "table"]

LONGEST_TEXT = 20_000  # characters of a text that are shown at once
LONGEST_CELL = 2_000
MOST_CELLS = 60
LARGEST_TEXT = 10_000_000  # bytes of a text file
LONGEST_ID = 500  # characters
TABLES = frozenset([".parquet", ".pq", ".csv", ".tsv"])  # of which a folder can be a pool in files
TEXTS = frozenset([".txt", ".text", ".md", ".eml"])
SUFFIXES = frozenset([".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"])
HALF = "half of a character (a lone surrogate, which is no valid Unicode)"
HALVES = re.compile("[\ud800-\udfff]")
MOST_BYTES = 50_000_000  # of a picture's file
MOST_PIXELS = 50_000_000  # of one picture: 150 MB when it is opened
TYPES = {  # what every browser shows, by Pillow's name; no SVG, which may hold a script
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
}


@final
@dataclass(frozen=True)
class ShownText:
    """A text; `more` characters of it are not shown (0: this is all of it)."""

    text: str
    more: int = 0


@final
@dataclass(frozen=True)
class ShownImage:
    """A picture: a file under the pool's folder, and what its content says it is ("image/png")."""

    path: Path
    media_type: str


@final
@dataclass(frozen=True)
class ShownRow:
    """(column, value as text) of a row, "" where there is none; `more` columns are not shown."""

    cells: tuple[tuple[str, str], ...]
    more: int = 0


ShownItem: TypeAlias = ShownText | ShownImage | ShownRow


@final
@dataclass(frozen=True)
class LeftOut:
    """A row or a file that is no item: where it is (`pool.csv:17`), and why."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


@final
@dataclass(frozen=True, eq=False)
class Items:
    """What can be asked about, in order. Made by `open_items`.

    `ids` are texts: those of an id column, else the numbers of the rows in the file (a CSV's first row of values is 2,
    as a spreadsheet counts), else paths below the folder. `table` holds the rows of a table, in the order of `ids`, in
    memory or in files, and is None for folders of texts or pictures.

    >>> items = Items("notes", "text", ("a.txt", "b.txt"), ["first", "second"])
    >>> len(items), items.show("b.txt"), items.take([1])
    (2, ShownText(text='second', more=0), ['second'])
    """

    source: str  # the file's or the folder's name
    kind: Kind
    ids: tuple[str, ...]
    contents: Sequence[Any] = field(repr=False)  # [n] texts, or paths of pictures; of a table, positions in it
    table: Table | Dataset | None = field(default=None, repr=False)
    shown: tuple[str, ...] = ()  # the columns that people see
    root: Path | None = None  # pictures are served from below here only
    left_out: tuple[LeftOut, ...] = ()
    rows: Sequence[int] | None = field(default=None, repr=False)  # [n] positions in the file; None: all, in order

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        return item in self._positions

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns; none where there is no table."""
        return () if self.table is None else tuple(self.table.columns)

    @property
    def in_files(self) -> bool:
        """Whether the rows stay in files, and are read when they are looked at."""
        return isinstance(self.table, Dataset)

    def position(self, item: str) -> int:
        """Where the item with this id stands."""
        try:
            return self._positions[item]
        except (KeyError, TypeError):
            some = ", ".join(repr(other) for other in self.ids[:3])
            raise ValueError(
                f"item must be the id of one of the {len(self):,} items of {self.source} ({some}"
                f"{', ...' if len(self) > 3 else ''}), but it is {item!r}."
            ) from None

    def show(self, item: str, *, whole: bool = False) -> ShownItem:
        """An item as people see it; long texts are cut unless the `whole` is asked for.

        A picture is looked at again each time: what has become no picture, too large, or a link that leads out of the
        folder is a ValueError.
        """
        position = self.position(item)
        if self.kind == "image":
            assert self.root is not None
            path = inside(self.root, self.contents[position])
            return ShownImage(path, media_type(path))
        if self.kind == "text":
            text = self.contents[position]
            return ShownText(text) if whole else ShownText(text[:LONGEST_TEXT], max(0, len(text) - LONGEST_TEXT))
        assert self.table is not None
        names = self.shown if whole else self.shown[:MOST_CELLS]
        cells = [(name, self.table.text(name, position)) for name in names]
        if not whole:
            cells = [(name, text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…") for name, text in cells]
        return ShownRow(tuple(cells), len(self.shown) - len(names))

    def look_at(self, items: Sequence[str]) -> None:
        """Read what `show` needs of these items in one go, if they are in files."""
        if isinstance(self.table, Dataset):
            self.table.look_at([self.position(item) for item in items])

    def take(self, positions: Any) -> Any:
        """What features are made of: whole texts, the paths of pictures, or a `Table` of these rows."""
        positions = np.asarray(positions, np.intp)
        if self.kind == "table":
            assert isinstance(self.table, Table)
            return some_rows(self.table, positions)
        contents = take(self.contents, positions)
        return [inside(self.root, name) for name in contents] if self.root is not None else contents

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {item: position for position, item in enumerate(self.ids)}


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
    """The items of a file (CSV, JSON lines, Parquet, a saved NumPy array), of a folder of pictures or text files, or of
    tables that stay in their files: a glob, a URL, or a folder with more tables in it than pictures and texts.

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
    if is_pattern(path) or _is_of_tables(Path(path), kind):
        if encoding is not None or delimiter is not None:
            raise ValueError(
                "encoding and delimiter are for a pool in one file: files read in chunks must be in UTF-8."
            )
        return _in_files(path, id, kind, show, hide)
    file = Path(path)
    if file.is_dir():
        if id is not None or show is not None:
            raise ValueError(
                f"{file.name} is a folder, whose files are shown whole and are called by their names: leave out id "
                "and show."
            )
        return _folder(file, kind)
    if file.suffix.lower() == ".npy":
        return _array(file, kind)
    table = _table(file, id=id, encoding=encoding, delimiter=delimiter)
    ids = _ids(table, id)
    shown = _shown(table, show, hide)
    return _from_table(table, ids, kind or _kind(table, shown), shown, file.parent)


def _selected(
    source: str, kind: Kind, ids: Sequence[str], contents: Sequence[Any], why: Mapping[int, LeftOut], **more: Any
) -> Items:
    """The items without those rows or files that are left out."""
    if not why:
        return Items(source, kind, tuple(ids), contents, **more)
    reported = tuple(why[row] for row in sorted(why))
    rows = [row for row in range(len(ids)) if row not in why]
    if not rows:
        others = f" And {len(reported) - 1:,} more." if len(reported) > 1 else ""
        raise ValueError(f"{source} has nothing that can be shown. The first: {reported[0]}.{others}")
    if (table := more.get("table")) is not None:
        more["table"] = some_rows(table, np.array(rows))
    contents = range(len(rows)) if isinstance(contents, range) else [contents[row] for row in rows]
    return Items(source, kind, tuple(ids[row] for row in rows), contents, left_out=reported, rows=rows, **more)


# ---- tables --------------------------------------------------------------------------------------------------------


def _table(path: Path, **options: Any) -> Table:
    """The table, or an error that names the file, also where a value in it was too much for a library."""
    try:
        return read_table(path, **options)
    except (ValueError, ArithmeticError, RecursionError, OSError) as error:
        if isinstance(error, ValueError) and path.name in str(error):
            raise
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def _ids(table: Table | Dataset, name: str | None) -> tuple[str, ...]:
    """The rows' ids as texts: of the id column, or what the file calls the rows."""
    if table.ids is None:
        return tuple(map(str, table.numbers))
    ids = tuple(map(str, table.ids))
    if all(map(str.isprintable, ids)) and max(map(len, ids)) <= LONGEST_ID:
        return ids  # a million of them, most often
    for row, item in enumerate(ids):
        if wrong := _wrong_id(item):
            raise ValueError(f"{table.place(row)}: the id in the column {name!r} {wrong}. Correct it, or use no id.")
    return ids


def _wrong_id(text: str) -> str | None:
    """What keeps a text from being an id that can be stored, sent and shown; None if nothing does."""
    if not text:
        return "is empty"
    if len(text) > LONGEST_ID:
        return f"has {len(text):,} characters, and {LONGEST_ID} are the most"
    strange = next((character for character in text if unicodedata.category(character) in ("Cc", "Cs")), None)
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


def _check_one_column(kind: Kind, shown: tuple[str, ...]) -> None:
    if kind != "table" and len(shown) > 1:
        raise ValueError(
            f"show must be one column for kind {kind!r}, but it is {', '.join(shown)}. For several: kind 'table'."
        )


def _from_table(table: Table, ids: tuple[str, ...], kind: Kind, shown: tuple[str, ...], folder: Path) -> Items:
    _check_one_column(kind, shown)
    why = {}
    missing = np.logical_and.reduce([is_missing(table.columns[name]) for name in shown])
    for row in np.flatnonzero(missing).tolist():
        lacking = f"the column {shown[0]!r} has" if len(shown) == 1 else "the row has"
        why[row] = f"{lacking} nothing to show here"
    for name in shown:
        for row in _halves(table.cells(name)):
            why[row] = f"the column {name!r} holds {HALF}, which no page can show. Correct it"
    contents: Sequence[Any] = range(len(ids)) if kind == "table" else table.texts(shown[0])
    if kind == "image":
        for row, name in enumerate(contents):
            if row not in why and (wrong := _wrong_picture(folder, name)):
                why[row] = wrong
    left_out = {row: LeftOut(table.place(row), reason) for row, reason in why.items()}
    root = folder if kind == "image" else None
    return _selected(table.source, kind, ids, contents, left_out, table=table, shown=shown, root=root)


def _wrong_picture(folder: Path, name: str) -> str | None:
    try:
        media_type(inside(folder, name))
    except ValueError as error:
        return str(error).removesuffix(".")
    return None


def _halves(values: WrittenCells) -> list[int]:
    """The rows whose text has a lone surrogate, which JSON can hold and nothing can send."""
    if not isinstance(values, list):
        return []
    return [row for row, text in enumerate(values) if text and not text.isascii() and HALVES.search(text)]


# ---- tables in files -----------------------------------------------------------------------------------------------


def _is_of_tables(folder: Path, kind: Kind | None) -> bool:
    """Whether a folder has more tables in it than pictures and texts below it."""
    if not folder.is_dir() or kind == "image":
        return False
    tables = sum(path.suffix.lower() in TABLES for path in folder.iterdir() if not path.name.startswith((".", "_")))
    others = (name for name in _files(folder) if Path(name).suffix.lower() in SUFFIXES | TEXTS)
    return bool(tables) and len([*islice(others, tables)]) < tables


def _in_files(
    source: str | Path, id: str | None, kind: Kind | None, show: str | Sequence[str] | None, hide: Sequence[str]
) -> Items:
    """All rows of a table in files. What is shown of them is seen by some of them where it is not said."""
    data = open_dataset(source, id=id)
    if any(file.kind == "npy" for file in data.files):
        raise ValueError(
            f"{source} has saved arrays, of which people would see numbers only. Give one array, Parquet or CSV."
        )
    given = [] if show is None else [show] if isinstance(show, str) else [*show]
    names = given or [name for name in data.columns if kind != "table" or name not in hide]
    shown: tuple[str, ...] = tuple(names)
    if kind != "table" or given:
        some = data.some(names)
        shown = _shown(some, show, hide)
        kind = kind or _kind(some, shown)
    if kind == "image":
        raise ValueError(
            "pictures cannot be a pool in files: give the folder that they are in, or one table with their paths."
        )
    _check_one_column(kind, shown)
    ids = _ids(data, id)
    contents = range(len(ids)) if kind == "table" else _Texts(data, shown[0])
    name = "/".join(Path(str(source)).parts[-2:]) if is_pattern(source) else Path(source).name
    return Items(name, kind, ids, contents, data, shown)


@final
@dataclass(frozen=True)
class _Texts(Sequence[str]):
    """The texts of a column that stays in its files."""

    data: Dataset
    column: str

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, position: Any) -> Any:
        return self.data.text(self.column, position)


# ---- arrays --------------------------------------------------------------------------------------------------------


def _array(file: Path, kind: Kind | None) -> Items:
    """A saved array: rows of numbers, or a list of texts. Positions are the ids, from 0, as NumPy counts."""
    values = saved_array(file)
    ids = tuple(map(str, range(len(values)))) if values.ndim else ()
    if values.ndim == 1 and values.dtype.kind == "U" and kind in (None, "text"):
        texts = [str(text) for text in values]
        why = {row: "an empty text" for row, text in enumerate(texts) if not text.strip()}
        why |= dict.fromkeys(_halves(texts), f"it holds {HALF}, which no page can show")
        left_out = {row: LeftOut(f"{file.name}:{row}", reason) for row, reason in why.items()}
        return _selected(file.name, "text", ids, texts, left_out)
    if values.ndim != 2 or values.dtype.kind not in "fiub" or kind not in (None, "table"):
        raise ValueError(
            f"{file.name} must hold rows of numbers [n, d], or texts [n], but it is {values.dtype.name} of shape "
            f"{values.shape}. Pictures are given as a folder of PNG files."
        )
    large = values.dtype == np.uint64 and values.max() >= 2**63
    wanted = float if values.dtype.kind == "f" or large else bool if values.dtype.kind == "b" else np.int64
    given = {f"x{number}": np.ascontiguousarray(values[:, number]) for number in range(values.shape[1])}
    columns = {name: each.astype(wanted) for name, each in given.items()}
    short = values.dtype.kind == "f" and values.dtype.itemsize < 8  # 0.1 would be shown as 0.10000000149011612
    written: dict[str, WrittenCells] = {}
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
    contents, left_out = list[str](), dict[int, LeftOut]()
    for row, name in enumerate(files):
        try:
            if wrong := _wrong_id(name):
                raise ValueError(f"its name {wrong}")
            contents.append(read(folder, name))
        except ValueError as error:
            contents.append("")
            printable = name.encode("utf-8", "replace").decode("utf-8")
            left_out[row] = LeftOut(f"{folder.name}/{printable}", str(error).removesuffix("."))
    return _selected(folder.name, kind, files, contents, left_out, root=folder if kind == "image" else None)


def _files(folder: Path) -> Iterator[str]:
    """The paths of all files below the folder, as `a/b.png`; a link to a folder counts as a file that is none."""
    for path, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        for name in [*files, *links]:
            yield Path(path, name).relative_to(folder).as_posix()


def _text(folder: Path, name: str) -> str:
    if Path(name).suffix.lower() not in TEXTS:
        raise ValueError(f"no text file by its name ({', '.join(sorted(TEXTS))})")
    path = inside(folder, name)
    try:
        if path.stat().st_size > LARGEST_TEXT:
            raise ValueError(f"larger than {LARGEST_TEXT // 10**6} MB. Cut it into parts")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"line {line} is not UTF-8 text") from None
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror or error}") from None
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


# ---- pictures ------------------------------------------------------------------------------------------------------


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
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{why}, but it cannot be opened: {getattr(error, 'strerror', None) or error}.") from None
    except ValueError as error:
        if "null" in str(error):  # what Python says of a path with a NUL in it
            raise ValueError(f"{why}, but it holds a NUL.") from None
        raise
    return found


def media_type(path: Path) -> str:
    """What a picture is by its content, such as "image/png"; a ValueError if it is none that may be shown.

    Only the beginning of the file is read.
    """
    with _opened(path) as picture:
        return TYPES[picture.format]


def pixels(path: Path | np.ndarray, *, side: int, smooth: bool = False) -> np.ndarray:
    """The picture as numbers from 0 to 1, `[side, side, 3]`, scaled without keeping its proportions, on white.

    `path` may be an array of bytes instead, `[h, w]` or `[h, w, 3]`. What is made larger has steps unless `smooth`.
    """
    if isinstance(path, np.ndarray):
        if path.dtype != np.uint8 or path.ndim not in (2, 3) or path.shape[2:] not in ((), (3,)):
            raise ValueError(f"a picture must be bytes [h, w] or [h, w, 3], but it is {path.dtype} {path.shape}.")
        image = _image()
        return _scaled(image.fromarray(path), side, smooth)
    with _opened(path) as picture:
        try:
            if picture.format == "JPEG":
                picture.draft("RGB", (2 * side, 2 * side))  # decodes a smaller picture, which is many times faster
            return _scaled(picture, side, smooth)
        except Exception as error:
            raise ValueError(_broken(path, error)) from None


def _scaled(picture: Any, side: int, smooth: bool) -> np.ndarray:
    whole = picture.convert("RGBA")
    ground = _image().new("RGBA", whole.size, "white")
    ground.alpha_composite(whole)
    way = _image().Resampling.BILINEAR if smooth else _image().Resampling.BOX
    small = ground.convert("RGB").resize((side, side), way)
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
    except Exception as error:  # decoders of damaged files raise whatever they stumble over
        raise ValueError(_broken(path, error)) from None
    if picture.width * picture.height > MOST_PIXELS:
        picture.close()
        raise ValueError(_large(path))
    return picture


def _large(path: Path) -> str:
    return f"{path.name} has more than {MOST_PIXELS // 10**6} million pixels. Make it smaller."


def _broken(path: Path, error: Exception) -> str:
    return f"{path.name} is a damaged picture ({type(error).__name__}: {error})."


def _image() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("pictures need Pillow: pip install 'askwell[images]'.") from None
    return Image
