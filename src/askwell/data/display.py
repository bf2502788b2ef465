"""The records of the room: items in order, how one of them is shown, and what was left out and why."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np

from askwell.arrays import take
from askwell.data.pictures import inside, media_type
from askwell.data.table import Table, some_rows

__all__ = ["Items", "Kind", "LeftOut", "Shown", "ShownImage", "ShownRow", "ShownText"]

Kind: TypeAlias = Literal["text", "image", "table"]

LONGEST_TEXT = 20_000  # letters of a text that are shown at once
LONGEST_CELL = 2_000
MOST_CELLS = 60


@final
@dataclass(frozen=True)
class ShownText:
    """A text; `more` letters of it are not shown (0: this is all of it)."""

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


Shown: TypeAlias = ShownText | ShownImage | ShownRow


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

    Ids are texts, all different: those of the id column, else the numbers of the rows in the file (a CSV's first row of
    values is 2, as a spreadsheet counts), else paths below the folder. `table` holds the rows of a table, in the order
    of `ids`, and is None for folders.

    >>> items = Items("notes", "text", ("a.txt", "b.txt"), ["first", "second"])
    >>> len(items), items.show("b.txt"), items.take([1])
    (2, ShownText(text='second', more=0), ['second'])
    """

    source: str  # the file's or the folder's name
    kind: Kind
    ids: tuple[str, ...]
    contents: Sequence[Any] = field(repr=False)  # [n] texts, or paths of pictures; of a table, numbers of its rows
    table: Table | None = field(default=None, repr=False)
    shown: tuple[str, ...] = ()  # the columns that people see
    root: Path | None = None  # pictures are served from below here only
    left_out: tuple[LeftOut, ...] = ()
    kept: Sequence[int] | None = field(default=None, repr=False)  # [n] places in the file; None: all, in order

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        return item in self._places

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns; none where there is no table."""
        return () if self.table is None else tuple(self.table.columns)

    def position(self, item: str) -> int:
        """Where the item with this id stands."""
        try:
            return self._places[item]
        except (KeyError, TypeError):
            some = ", ".join(repr(known) for known in self.ids[:3])
            raise ValueError(
                f"item must be the id of one of the {len(self):,} items of {self.source} ({some}"
                f"{', ...' if len(self) > 3 else ''}), but it is {item!r}."
            ) from None

    def show(self, item: str, *, whole: bool = False) -> Shown:
        """An item as people see it; long texts are cut unless the `whole` is asked for.

        A picture is looked at again each time: what has become no picture, too large, or a link that leads out of the
        folder is a ValueError.
        """
        place = self.position(item)
        if self.kind == "image":
            assert self.root is not None
            path = inside(self.root, self.contents[place])
            return ShownImage(path, media_type(path))
        if self.kind == "text":
            text = self.contents[place]
            return ShownText(text) if whole else ShownText(text[:LONGEST_TEXT], max(0, len(text) - LONGEST_TEXT))
        assert self.table is not None
        names = self.shown if whole else self.shown[:MOST_CELLS]
        cells = [(name, self.table.text(name, place)) for name in names]
        if not whole:
            cells = [(name, text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…") for name, text in cells]
        return ShownRow(tuple(cells), len(self.shown) - len(names))

    def take(self, positions: Any) -> Any:
        """What features are made of: whole texts, the paths of pictures, or a `Table` of these rows."""
        places = np.asarray(positions, np.intp)
        if self.kind == "table":
            assert self.table is not None
            return some_rows(self.table, places)
        found = take(self.contents, places)
        return [inside(self.root, name) for name in found] if self.root is not None else found

    @cached_property
    def _places(self) -> dict[str, int]:
        return {item: place for place, item in enumerate(self.ids)}
