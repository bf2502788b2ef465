"""An item as the page draws it: a text, a picture by the item's id, the cells of a row, or a template's work."""

from collections.abc import Mapping
from html import escape
from html.parser import HTMLParser
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, final
from urllib.parse import urlencode, urlsplit

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment
from pydantic import BaseModel, Field

from askwell.data import ShownImage, ShownItem, ShownRow, ShownText

__all__ = ["BrokenCard", "Card", "CellsCard", "HtmlCard", "PictureCard", "TextCard", "Viewer", "excerpt", "harmless"]

LONGEST_EXCERPT = 160  # characters of a target in "why this item?"


class Shows(Protocol):
    """What the page needs of items."""

    @property
    def ids(self) -> Any:
        """What items are called."""

    def __contains__(self, item: object) -> bool: ...

    def show(self, item: str) -> ShownItem:
        """One of them, as people see it."""


class TextCard(BaseModel):
    """A text; `more` characters of it are not shown."""

    kind: Literal["text"] = "text"
    text: str
    more: int = 0


class PictureCard(BaseModel):
    """A picture, by the address at which this server gives it."""

    kind: Literal["picture"] = "picture"
    source: str
    alt: str


class CellsCard(BaseModel):
    """The columns and values of a row; `more` columns are not shown."""

    kind: Literal["cells"] = "cells"
    cells: list[tuple[str, str]]
    more: int = 0


class HtmlCard(BaseModel):
    """What the project's own template made of the item: it draws, and nothing in it acts or leads away."""

    kind: Literal["html"] = "html"
    html: str


class BrokenCard(BaseModel):
    """An item that cannot be shown, and why: the person can skip it."""

    kind: Literal["broken"] = "broken"
    why: str


Card: TypeAlias = Annotated[TextCard | PictureCard | CellsCard | HtmlCard | BrokenCard, Field(discriminator="kind")]


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
        except TemplateError as error:
            raise ValueError(f"template must be a Jinja template, but: {error}.") from None

    def card(self, item: str) -> Card:
        """How an item is drawn; never an error, since nobody should be stuck at a bad picture."""
        try:
            shown = self.items.show(item)
            if self._template is not None:
                return HtmlCard(html=harmless(self._template.render(self._words(item, shown))))
        except (ValueError, OSError, TemplateError) as error:
            return BrokenCard(why=str(error))
        return self._card(item, shown)

    def brief(self, item: str) -> tuple[str, str | None]:
        """(an item in one line, the address of its picture if it is one), whatever a template makes of it."""
        try:
            card = self._card(item, self.items.show(item))
        except (ValueError, OSError):
            return "", None
        return excerpt(card), card.source if isinstance(card, PictureCard) else None

    def _card(self, item: str, shown: ShownItem) -> Card:
        if isinstance(shown, ShownText):
            return TextCard(text=shown.text, more=shown.more)
        if isinstance(shown, ShownImage):
            return PictureCard(source=self._address(item), alt=f"Picture {item}")
        return CellsCard(cells=list(shown.cells), more=shown.more)

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

    >>> excerpt(CellsCard(cells=[("size", "3"), ("colour", "red")]))
    'size 3 · colour red'
    """
    if isinstance(card, TextCard):
        line = " ".join(card.text[: 4 * LONGEST_EXCERPT].split())
    elif isinstance(card, CellsCard):
        line = " · ".join(f"{name} {value}" for name, value in card.cells if value)
    else:
        line = card.alt if isinstance(card, PictureCard) else ""
    return line if len(line) <= LONGEST_EXCERPT else f"{line[: LONGEST_EXCERPT - 1]}…"


# ---- HTML of a template ----------------------------------------------------------------------------------------------


# What is not on these lists is left out, and everything is written anew, so that a browser reads what was checked: no
# script, style, frame or form, no `<meta>` or `<base>` that leads the page away, no attribute that listens, and nothing
# loaded from elsewhere. The text of what is left out stays, but for scripts and styles.

TAGS: Final = frozenset(
    {
        *("a", "abbr", "article", "aside", "b", "bdi", "bdo", "blockquote", "br", "caption", "cite", "code", "col"),
        *("colgroup", "dd", "del", "details", "dfn", "div", "dl", "dt", "em", "figcaption", "figure", "footer"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "i", "img", "ins", "kbd", "li", "main", "mark", "ol"),
        *("p", "pre", "q", "rp", "rt", "ruby", "s", "samp", "section", "small", "span", "strong", "sub", "summary"),
        *("sup", "table", "tbody", "td", "tfoot", "th", "thead", "time", "tr", "u", "ul", "var", "wbr"),
    }
)
EMPTY: Final = frozenset({"br", "col", "hr", "img", "wbr"})
SILENT: Final = frozenset({"script", "style", "template", "title", "textarea", "noscript", "iframe", "svg", "math"})
ATTRIBUTES: Final = frozenset(
    {
        *("alt", "class", "colspan", "datetime", "dir", "height", "href", "lang", "open", "role", "rowspan"),
        *("scope", "span", "src", "start", "title", "value", "width"),
    }
)


def harmless(html: str) -> str:
    """The same HTML without what could act.

    >>> harmless('<p onclick="x()">Hello <b>there</b><script>x()</script><meta http-equiv="refresh" content="0">')
    '<p>Hello <b>there</b></p>'
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.written()


@final
class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._open: list[str] = []
        self._silent: list[str] = []

    def written(self) -> str:
        return "".join(self._parts) + "".join(f"</{tag}>" for tag in reversed(self._open))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SILENT:
            self._silent.append(tag)
        if self._silent or tag not in TAGS:
            return
        attributes = {name: value or "" for name, value in attrs if name in ATTRIBUTES or name.startswith("aria-")}
        attributes = {
            name: value for name, value in attributes.items() if name not in ("src", "href") or _allowed(name, value)
        }
        if tag == "a" and "href" in attributes:
            attributes |= {"target": "_blank", "rel": "noopener noreferrer"}
        written = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
        self._parts.append(f"<{tag}{written}>")
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in SILENT:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._silent:
            if tag == self._silent[-1]:
                self._silent.pop()
        elif tag in self._open:
            while self._open[-1] != tag:  # what was not closed ends here
                self._parts.append(f"</{self._open.pop()}>")
            self._parts.append(f"</{self._open.pop()}>")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._parts.append(escape(data, quote=False))


def _allowed(name: str, value: str) -> bool:
    """A harmless attribute; of addresses only a picture of this server, or a link that a person may follow."""
    if name not in ("src", "href"):
        return name in ATTRIBUTES or name.startswith("aria-")
    try:
        parts = urlsplit(value.strip())
    except ValueError:
        return False
    if name == "src":
        return not parts.scheme and not parts.netloc and "\\" not in value
    return parts.scheme in ("http", "https")
