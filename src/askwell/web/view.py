"""An item as the page draws it: a text, a picture by the item's id, the cells of a row, or a template's work."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol, TypeAlias
from urllib.parse import urlencode

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, Field

from askwell.data import ShownImage, ShownItem, ShownRow, ShownText
from askwell.web.markup import harmless

__all__ = ["Broken", "Card", "Cells", "Html", "Picture", "Text", "Viewer", "excerpt"]

LONGEST_EXCERPT = 160  # letters of a target in "why this item?"


class Shows(Protocol):
    """What the page needs of items."""

    @property
    def ids(self) -> Any:
        """What items are called."""

    def __contains__(self, item: object) -> bool: ...

    def show(self, item: str) -> ShownItem:
        """One of them, as people see it."""


class Text(BaseModel):
    """A text; `more` letters of it are not shown."""

    kind: Literal["text"] = "text"
    text: str
    more: int = 0


class Picture(BaseModel):
    """A picture, by the address at which this server gives it."""

    kind: Literal["picture"] = "picture"
    source: str
    alt: str


class Cells(BaseModel):
    """The columns and values of a row; `more` columns are not shown."""

    kind: Literal["cells"] = "cells"
    cells: list[tuple[str, str]]
    more: int = 0


class Html(BaseModel):
    """What the project's own template made of the item: it draws, and nothing in it acts or leads away."""

    kind: Literal["html"] = "html"
    html: str


class Broken(BaseModel):
    """An item that cannot be shown, and why: the person can skip it."""

    kind: Literal["broken"] = "broken"
    why: str


Card: TypeAlias = Annotated[Text | Picture | Cells | Html | Broken, Field(discriminator="kind")]


class Viewer:
    """Makes cards of items; `of` is "pool" or "targets", and part of a picture's address.

    A `template` is Jinja's, in its sandbox, with `id`, `text`, `cells` (column -> value) and `image` (an address).

    >>> from askwell.data import Items
    >>> notes = Items("notes", "text", ("a", "b"), ["<b>first</b>", "second"])
    >>> Viewer(notes, of="pool").card("b").text
    'second'
    >>> Viewer(notes, of="pool", template="<h3>{{ id }}</h3>{{ text }}").card("a").html
    '<h3>a</h3>&lt;b&gt;first&lt;/b&gt;'
    """

    def __init__(self, items: Shows, *, of: Literal["pool", "targets"], template: str | None = None) -> None:
        self.items, self._of = items, of
        # A template with a mistake is an error when the server starts, not when somebody labels.
        environment = SandboxedEnvironment(autoescape=True, undefined=StrictUndefined)
        try:
            self._template = None if template is None else environment.from_string(template)
        except TemplateError as fault:
            raise ValueError(f"template must be a Jinja template, but: {fault}.") from None

    def card(self, item: str) -> Card:
        """How an item is drawn; never an error, since nobody should be stuck at a bad picture."""
        try:
            shown = self.items.show(item)
            if self._template is not None:
                return Html(html=harmless(self._template.render(self._words(item, shown))))
        except (ValueError, OSError, TemplateError) as fault:
            return Broken(why=str(fault))
        return self._card(item, shown)

    def brief(self, item: str) -> tuple[str, str | None]:
        """(an item in one line, the address of its picture if it is one), whatever a template makes of it."""
        try:
            card = self._card(item, self.items.show(item))
        except (ValueError, OSError):
            return "", None
        return excerpt(card), card.source if isinstance(card, Picture) else None

    def _card(self, item: str, shown: ShownItem) -> Card:
        if isinstance(shown, ShownText):
            return Text(text=shown.text, more=shown.more)
        if isinstance(shown, ShownImage):
            return Picture(source=self._address(item), alt=f"Picture {item}")
        return Cells(cells=list(shown.cells), more=shown.more)

    def _address(self, item: str) -> str:
        return f"/api/picture?{urlencode({'of': self._of, 'item': item})}"

    def _words(self, item: str, shown: ShownItem) -> Mapping[str, object]:
        return {
            "id": item,
            "text": shown.text if isinstance(shown, ShownText) else "",
            "cells": dict(shown.cells) if isinstance(shown, ShownRow) else {},
            "image": self._address(item) if isinstance(shown, ShownImage) else "",
        }


def excerpt(card: Card) -> str:
    """A card in one line.

    >>> excerpt(Cells(cells=[("size", "3"), ("colour", "red")]))
    'size 3 · colour red'
    """
    if isinstance(card, Text):
        line = " ".join(card.text[: 4 * LONGEST_EXCERPT].split())
    elif isinstance(card, Cells):
        line = " · ".join(f"{name} {value}" for name, value in card.cells if value)
    else:
        line = card.alt if isinstance(card, Picture) else ""
    return line if len(line) <= LONGEST_EXCERPT else f"{line[: LONGEST_EXCERPT - 1]}…"
