"""The report: one file that loads nothing, holds the numbers, and takes no name for markup."""

import base64
import io
import re
import struct
import zlib
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from askwell.report import Picture, Tile, TileRow, gallery, html_report
from askwell.report.page import png
from askwell.seeds import rng_for
from askwell.simulation import Simulation
from askwell.simulation.curves import Trace, against_best, summary

EVIL = "</style><script>alert('x')</script><img src=\"http://example.org/x.png\">"
SETTINGS = {"model": "Forest(<100>)", "budget": 12, "classes": ["a", "b"], "versions": {"numpy": "2.4"}, "batch": None}


def simulation(scores=("random", "bald", "epig"), seeds=3):
    runs = []
    for place, score in enumerate(scores):
        for seed in range(seeds):
            accuracy = 0.5 + 0.15 * place + 0.1 * rng_for(seed, place, "page").random(9)
            metrics = {"log_loss": 1 - accuracy, "accuracy": accuracy, "balanced_accuracy": accuracy - 0.01}
            questions = rng_for(seed, place, "questions").permutation(1000)[:12].tolist()
            values = {name: tuple(found.tolist()) for name, found in metrics.items()}
            runs.append(Trace(score, seed, tuple(range(4, 13)), values, tuple(questions)))
    return Simulation(tuple(runs), SETTINGS)


class Page(HTMLParser):
    """Tags, attributes and text of a page; every tag that is opened is closed."""

    EMPTY = frozenset({"meta", "img", "br"})

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.styles, self.open = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        (self.styles if self.open[-1:] == ["style"] else self.texts).append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.texts))


def page(tmp_path, found, **options):
    path = html_report(found, tmp_path / "report.html", **{"title": "A title", **options})
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    return Page(path.read_text("utf-8"))


def test_nothing_is_loaded_and_nothing_runs(tmp_path):
    picture = gallery("Images", [TileRow("EPIG", [Tile(np.eye(3), "1", marked=True)], score="epig")])
    found = page(tmp_path, simulation(), figures=[picture], intro="See http://example.org")
    assert not {"script", "link", "iframe", "object", "embed", "base", "a", "form"} & {*found.tags}
    assert all(
        value.startswith(("data:", "#")) for name, value in found.attributes if name in {"src", "href", "srcset"}
    )
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import|http", "".join(found.styles))
    assert any("default-src 'none'" in value for name, value in found.attributes if name == "content")


def test_the_numbers_are_there(tmp_path):
    given = simulation()
    found = page(tmp_path, given, intro="First.\n\nSecond.", repeat="askwell simulate x.csv").text
    for row in summary(given.traces, metric="accuracy"):
        for value, error in ((row.area, row.area_error), (row.final, row.final_error)):
            assert f"{value:.3f}" in found
            assert f"± {error:.3f}" in found
    for gap in against_best(given.traces, metric="accuracy"):
        assert gap.a == "epig"
        assert f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f}), better in 3 of 3 seeds" in found
    for sentence in given.verdict(metric="accuracy").splitlines():
        assert sentence in found
    for trace in (trace for trace in given.traces if trace.seed == 0):
        assert ", ".join(map(str, trace.questions[4:])) in found
    for text in ("A title", "First.", "Second.", "Forest(<100>)", "a, b", "numpy 2.4", "askwell simulate x.csv"):
        assert text in found


def test_labels_needed_are_the_median_over_seeds(tmp_path):
    """EPIG ends at 1, so that the goal is 0.95: reached with 5, 6 and 7 labels; by the others in one seed at most."""
    runs = [
        Trace("epig", s, (4, 5, 6, 7), {"accuracy": (0, *(float(i >= s) for i in range(3)))}, (0,)) for s in range(3)
    ]
    runs += [Trace("bald", s, (4, 5, 6, 7), {"accuracy": (0, 0, 0, float(s == 0))}, (0,)) for s in range(3)]
    found = page(tmp_path, Simulation(tuple(runs), {})).text
    assert re.search(r"reach 0\.950 seeds EPIG [\d.]+ ± [\d.]+ 1\.000 ± 0\.000 6 3 BALD .* not reached 3 ±", found)


def test_curves_of_all_metrics_for_wide_and_narrow_screens(tmp_path):
    found = page(tmp_path, simulation())
    labels = [value for name, value in found.attributes if name == "aria-label"]
    for metric in ("accuracy", "balanced accuracy", "log loss"):
        assert labels.count(f"{metric} against the number of labels for random, BALD, EPIG") == 2
    assert labels.count("EPIG minus the others, mean accuracy over the curve") == 2
    kinds = [value for name, value in found.attributes if name == "class"]
    assert kinds.count("wide") == kinds.count("narrow") == 4


def test_light_and_dark_have_the_colours_of_every_score(tmp_path):
    style = "".join(page(tmp_path, simulation()).styles)
    light, dark = re.findall(r":root \{ (--s0[^}]*)\}", style)
    assert light.count("--s") == dark.count("--s") == 3
    assert light != dark
    assert '[data-score="epig"] { --c: var(--s2); }' in style


@pytest.mark.parametrize("name", [EVIL, 'a"]b', "\\", "ß 𝛼\n"])
def test_hostile_names_are_text(tmp_path, name):
    runs = tuple(
        Trace(score, seed, (1, 2), {"accuracy": (0.1, 0.2 + seed / 10)}, (5, 6))
        for score in (name, "epig")
        for seed in (0, 1)
    )
    picture = gallery(name, [TileRow(name, [Tile([[1.0]], name)], note=name, score=name)], caption=name)
    found = page(tmp_path, Simulation(runs, {name: name}), title=name, intro=name, repeat=name, figures=[picture])
    assert {"script", "a"}.isdisjoint(found.tags)
    assert re.sub(r"\s+", " ", name) in found.text
    assert all(value.startswith("data:") for key, value in found.attributes if key == "src")
    assert "<" not in "".join(found.styles)  # or it could end the style


@pytest.mark.parametrize(("scores", "seeds"), [(("epig",), 1), (("epig",), 3), (("random", "epig"), 1)])
def test_few_runs_make_a_report_too(tmp_path, scores, seeds):
    found = page(tmp_path, simulation(scores, seeds))
    assert ("±" in found.text) == (seeds > 1)
    assert "seed by seed" not in found.text


def test_only_metrics_that_all_runs_have_are_shown(tmp_path):
    runs = (Trace("a", 0, (1,), {"f1": (0.5,), "accuracy": (0.5,)}, (0,)), Trace("b", 0, (1,), {"f1": (0.6,)}, (0,)))
    found = page(tmp_path, Simulation(runs, {})).text
    assert "F1 by number of labels" in found
    assert "ccuracy" not in found
    with pytest.raises(ValueError, match="a metric in common"):
        html_report(Simulation((runs[0], Trace("b", 0, (1,), {"mse": (1.0,)}, (0,))), {}), tmp_path / "x", title="")


def test_a_report_is_there_whole_or_not_at_all(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old", "utf-8")
    with pytest.raises(ValueError, match="there are none"):
        html_report(Simulation((), {}), path, title="x")
    assert path.read_text("utf-8") == "old"
    with pytest.raises(UnicodeEncodeError):
        html_report(simulation(), path, title="\ud800")  # half a letter cannot be written
    assert path.read_text("utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_pictures_go_in_as_they_are(tmp_path):
    found = page(tmp_path, simulation(), figures=[Picture("Mine", "<b>bold</b>", "and <small>")])
    assert "b" in found.tags
    assert "bold and <small>" in found.text


def test_the_report_says_what_the_scores_are_and_how_many_labels_they_save(tmp_path):
    found = simulation(("random", "epig", "mine"))
    text = Page(html_report(found, tmp_path / "report.html", title="Digits").read_text("utf-8")).text
    assert "expected predictive information gain" in text
    assert "random sampling: the baseline" in text
    assert "disagreement" not in text  # BALD did not run
    assert "is reached by" in text.split("Summary table")[0]
    assert "The accuracy that random has at" in text


def test_questions_can_be_found_in_the_users_file(tmp_path):
    found, names = simulation(), [f"mail <{n}>" for n in range(1000)]
    page = Page(html_report(found, tmp_path / "report.html", title="Digits", ids=names).read_text("utf-8"))
    assert names[found.traces[0].questions[4]] in page.text
    assert "counted from 0" not in page.text


# ---- rows of images: real PNG files that hold the pixels given, and text that stays text ---------------------------


def pixels(data):
    """A PNG of greys, read back; every checksum is looked at."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind, body = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        place += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 0, 0, 0, 0]
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (width, height)
        return np.asarray(image)


def test_a_png_holds_its_pixels():
    image = rng_for(0, 0, "image").random((5, 7))
    np.testing.assert_array_equal(pixels(png(image)), np.rint(255 * (1 - image)))
    assert pixels(png([[-1.0, 0.0, 1.0, 9.0]])).tolist() == [[255, 255, 0, 0]]


@pytest.mark.parametrize("image", [[0.5], np.zeros((2, 2, 3)), np.zeros((0, 3)), [[np.nan]]])
def test_what_is_no_image_is_refused(image):
    with pytest.raises(ValueError, match=r"image must be finite numbers \[h, w\]"):
        png(image)


def test_rows_hold_their_tiles():
    rows = [
        TileRow("EPIG", [Tile([[0.0, 1.0]], "7", marked=True), Tile([[1.0, 0.0]], "3")], note="1 of 2", score="epig"),
        TileRow("none", []),
    ]
    picture = gallery("Asked first", rows, caption="seed 0")
    assert (picture.title, picture.caption) == ("Asked first", "seed 0")
    closed = re.sub(r"(<img[^>]*)>", r"\1/>", picture.body)
    root = ElementTree.fromstring(f"<div>{closed}</div>")
    images = [base64.b64decode(img.get("src").split("base64,")[1]) for img in root.iter("img")]
    assert [pixels(data).tolist() for data in images] == [[[255, 0]], [[0, 255]]]
    assert [li.get("class") for li in root.iter("li")] == ["marked", None]
    assert [img.get("alt") for img in root.iter("img")] == ["7", "3"]
    assert [row.get("data-score") for row in root] == ["epig", None]
    assert ["".join(h3.itertext()) for h3 in root.iter("h3")] == ["EPIG 1 of 2", "none"]


def test_labels_are_text():
    evil = '"><script>'
    body = gallery("x", [TileRow(evil, [Tile([[0.0]], evil)], note=evil, score=evil)]).body
    assert "<script" not in body
    assert body.count("&#34;&gt;&lt;script&gt;") == 5
