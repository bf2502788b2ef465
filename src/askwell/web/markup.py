"""HTML of a project's template as it may be put into the page: what draws, and nothing that acts.

What is not on the lists below is left out, and everything is written anew, so that a browser reads what was checked:
no script, no style, no frame, no form, no `<meta>` or `<base>` that leads the page away, no attribute that listens, and
nothing loaded from elsewhere. The text of what is left out stays, but for scripts and styles.
"""

from html import escape
from html.parser import HTMLParser
from typing import Final, final
from urllib.parse import urlsplit

__all__ = ["harmless"]

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
        kept = {name: value or "" for name, value in attrs if name in ATTRIBUTES or name.startswith("aria-")}
        kept = {name: value for name, value in kept.items() if name not in ("src", "href") or _allowed(name, value)}
        if tag == "a" and "href" in kept:
            kept |= {"target": "_blank", "rel": "noopener noreferrer"}
        written = "".join(f' {name}="{escape(value)}"' for name, value in kept.items())
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


def _allowed(name: str, address: str) -> bool:
    """A picture of this server, or a link that a person may follow: no script, no foreign picture."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return False
    if name == "src":
        return not parts.scheme and not parts.netloc and "\\" not in address
    return parts.scheme in ("http", "https")
