"""What a template draws stays; what acts, listens, loads or leads away does not."""

import re

import pytest

from askwell.web.markup import ATTRIBUTES, TAGS, harmless

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
