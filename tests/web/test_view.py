"""Cards: what the page draws of an item."""

import pytest

from askwell.data import Items, ShownImage, ShownRow
from askwell.web.view import Broken, Cells, Html, Picture, Text, Viewer, excerpt


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
    assert Viewer(notes, of="pool").card("a") == Text(text="x" * 20_000, more=10_000)


def test_a_picture_is_an_address_with_the_items_id(tmp_path):
    card = Viewer(Fixed(ShownImage(tmp_path / "a.png", "image/png")), of="targets").card("a/b &c.png")
    assert card == Picture(source="/api/picture?of=targets&item=a%2Fb+%26c.png", alt="Picture a/b &c.png")
    assert str(tmp_path) not in card.model_dump_json()


def test_a_row():
    card = Viewer(Fixed(ShownRow((("size", "3"), ("colour", "")), 2)), of="pool").card("a")
    assert card == Cells(cells=[("size", "3"), ("colour", "")], more=2)
    assert excerpt(card) == "size 3"


@pytest.mark.parametrize("fault", [ValueError("no picture"), FileNotFoundError("gone")])
def test_what_cannot_be_shown_is_said(fault):
    assert Viewer(Fixed(fault), of="pool").card("a") == Broken(why=str(fault))


def test_a_template_escapes_and_is_kept_in_its_sandbox():
    row = Fixed(ShownRow((("name", "<i>x</i>"),)))
    assert Viewer(row, of="pool", template="<b>{{ cells.name }}</b>").card("a") == Html(
        html="<b>&lt;i&gt;x&lt;/i&gt;</b>"
    )
    assert Viewer(row, of="pool", template="{{ cells.nothing }}").card("a").kind == "broken"
    leak = "{{ cells.__class__.__mro__[1].__subclasses__() }}"
    assert Viewer(row, of="pool", template=leak).card("a").kind == "broken"
    with pytest.raises(ValueError, match="template must be a Jinja template"):
        Viewer(row, of="pool", template="{% if %}")


def test_excerpts_are_short_lines():
    assert excerpt(Text(text="  one\n two ")) == "one two"
    assert len(excerpt(Text(text="word " * 500))) == 160
    assert excerpt(Picture(source="/x", alt="Picture a")) == "Picture a"
    assert excerpt(Broken(why="gone")) == ""
