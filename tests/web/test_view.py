"""Cards of items, and the HTML of templates without what acts."""

import re

import pytest

from askwell.data import Items, ShownImage, ShownRow
from askwell.web.view import (
    ATTRIBUTES,
    TAGS,
    BrokenCard,
    CellsCard,
    HtmlCard,
    PictureCard,
    TextCard,
    Viewer,
    excerpt,
    harmless,
)


class Fixed:
    """Items that show one thing, or raise it."""

    ids = ("a",)

    def __init__(self, shown):
        self.shown = shown

    def __contains__(self, item):
        return item == "a"

    def show(self, item):
        if isinstance(self.shown, Exception):
            raise self.shown
        return self.shown


def test_a_text():
    notes = Items("notes", "text", ("a",), ["x" * 30_000])
    assert Viewer(notes, of="pool").card("a") == TextCard(text="x" * 20_000, more=10_000)


def test_a_picture_is_an_address_with_the_items_id(tmp_path):
    card = Viewer(Fixed(ShownImage(tmp_path / "a.png", "image/png")), of="targets").card("a/b &c.png")
    assert card == PictureCard(source="/api/picture?of=targets&item=a%2Fb+%26c.png", alt="Picture a/b &c.png")
    assert str(tmp_path) not in card.model_dump_json()


def test_a_row():
    card = Viewer(Fixed(ShownRow((("size", "3"), ("colour", "")), 2)), of="pool").card("a")
    assert card == CellsCard(cells=[("size", "3"), ("colour", "")], more=2)
    assert excerpt(card) == "size 3"


@pytest.mark.parametrize("fault", [ValueError("no picture"), FileNotFoundError("gone")])
def test_what_cannot_be_shown_is_said(fault):
    assert Viewer(Fixed(fault), of="pool").card("a") == BrokenCard(why=str(fault))


def test_a_template_escapes_and_is_kept_in_its_sandbox():
    row = Fixed(ShownRow((("name", "<i>x</i>"),)))
    assert Viewer(row, of="pool", template="<b>{{ cells.name }}</b>").card("a") == HtmlCard(
        html="<b>&lt;i&gt;x&lt;/i&gt;</b>"
    )
    assert Viewer(row, of="pool", template="{{ cells.nothing }}").card("a").kind == "broken"
    leak = "{{ cells.__class__.__mro__[1].__subclasses__() }}"
    assert Viewer(row, of="pool", template=leak).card("a").kind == "broken"
    with pytest.raises(ValueError, match="template must be a Jinja template"):
        Viewer(row, of="pool", template="{% if %}")


def test_excerpts_are_short_lines():
    assert excerpt(TextCard(text="  one\n two ")) == "one two"
    assert len(excerpt(TextCard(text="word " * 500))) == 160
    assert excerpt(PictureCard(source="/x", alt="Picture a")) == "Picture a"
    assert excerpt(BrokenCard(why="gone")) == ""


KEPT = [
    "Plain text &amp; more",
    '<p class="text short">Hello <b>there</b></p>',
    '<table class="cells"><tbody><tr><th scope="row">a</th><td colspan="2">1</td></tr></tbody></table>',
    '<img src="/api/picture?of=pool&amp;item=a" alt="Picture a">',
    "<ul><li>one</li><li>two</li></ul><hr><pre>x &lt; y</pre>",
]


@pytest.mark.parametrize("html", KEPT)
def test_what_draws_is_kept(html):
    assert harmless(html) == html


ACTING = [
    '<meta http-equiv="refresh" content="0;url=https://evil.example/">',
    '<META HTTP-EQUIV=refresh CONTENT="0;url=//evil.example">',
    '<base href="https://evil.example/">',
    "<script>location='https://evil.example'</script>",
    "<script src=https://evil.example/x.js></script>",
    "<style>@import url(https://evil.example)</style>",
    '<link rel="stylesheet" href="https://evil.example/x.css">',
    '<iframe src="https://evil.example"></iframe>',
    '<iframe srcdoc="<meta http-equiv=refresh content=0>"></iframe>',
    '<object data="https://evil.example"></object><embed src="https://evil.example">',
    '<form action="https://evil.example"><input name=a><button>x</button></form>',
    '<img src="https://evil.example/x.png" onerror="x()">',
    '<img src="//evil.example/x.png">',
    '<img src="\\\\evil.example\\x.png">',
    '<a href="javascript:x()">x</a>',
    '<a href=" java\nscript:x()">x</a>',
    '<a href="data:text/html,<script>x()</script>">x</a>',
    '<svg><a href="https://evil.example"><text>x</text></a><script>x()</script></svg>',
    "<math><mtext><table><mglyph><style><img src=x onerror=x()></style></mglyph></table></mtext></math>",
    '<p style="background:url(https://evil.example)" onclick="x()" id="stage" data-hx-get="/x" hx-get="/x">x</p>',
    '<noscript><p title="</noscript><img src=x onerror=x()>"></noscript>',
    "<!--><img src=x onerror=x()>-->",
    "<![CDATA[<meta http-equiv=refresh content=0>]]>",
    '<p title="<meta http-equiv=refresh content=0>">x</p>',
    '<<p>meta http-equiv="refresh" content="0">',
    "<me<script></script>ta http-equiv=refresh content=0>",
    '<template><meta http-equiv="refresh" content="0"></template>',
    "<title><meta http-equiv=refresh content=0></title>",
    "<textarea><meta http-equiv=refresh content=0></textarea>",
    '<p\x00 onclick="x()">x</p><meta\x0bhttp-equiv=refresh>',
]
TAG = re.compile(r"<(/?)([a-zA-Z][^\s>/]*)([^>]*)>")


@pytest.mark.parametrize("html", ACTING)
def test_what_acts_is_left_out(html):
    found = harmless(f"<div>before {html} after</div>")
    for _, tag, attributes in TAG.findall(found):
        assert tag in TAGS, found
        for name in re.findall(r' ([^\s=]+)="', attributes):
            assert name in ATTRIBUTES or name in ("target", "rel"), found
    loaded = re.findall(r'src="([^"]*)"', found)
    assert all(not address.startswith(("http", "//", "\\")) for address in loaded), found
    assert harmless(found) == found  # read again it says the same


def test_links_open_elsewhere_and_only_by_hand():
    assert harmless('<a href="https://example.org/x" target="_top">more</a>') == (
        '<a href="https://example.org/x" target="_blank" rel="noopener noreferrer">more</a>'
    )


def test_what_is_not_closed_is_closed_and_ends_nothing_of_the_page():
    assert harmless("</div></main><b>bold <i>and</b> plain") == "<b>bold <i>and</i></b> plain"
