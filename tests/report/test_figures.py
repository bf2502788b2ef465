"""Figures: how scores look, files with the right numbers in them, and matplotlib loaded late and left as it was."""

import itertools
import math
import re
import struct
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.report import plot_curves
from askwell.report.figures import (
    LONGEST_NAME,
    apart,
    curves_svg,
    intervals_svg,
    metric_name,
    score_name,
    scores_of,
    styles,
)
from askwell.simulation.curves import Difference, Trace, curve

RUNS = [
    Trace(
        score, seed, (2, 4, 8), {"accuracy": (0.5, 0.6 + seed / 20, top), "log_loss": (1.0, 0.9, 0.8)}, tuple(range(8))
    )
    for score, top in (("random", 0.7), ("epig", 0.95), ("bald", 0.71))
    for seed in (0, 1, 2)
]


def test_lines_and_bands_are_the_curves():
    figure = plot_curves(RUNS, None, title="Digits")
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "Digits"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("labels", "accuracy")
    order = ("random", "bald", "epig")  # EPIG on top
    for score, line, band in zip(order, axes.lines, axes.collections, strict=True):
        wanted = curve(RUNS, score)
        np.testing.assert_allclose(line.get_xdata(), wanted.labels)
        np.testing.assert_allclose(line.get_ydata(), wanted.mean)
        heights = band.get_paths()[0].vertices[:, 1]
        assert heights.max() == pytest.approx((wanted.mean + wanted.error).max())
        assert heights.min() == pytest.approx((wanted.mean - wanted.error).min())
    heights = {text.get_text(): text.xy[1] for text in axes.texts}
    assert sorted(heights, key=lambda name: heights[name]) == ["random", "BALD", "EPIG"]
    assert heights["BALD"] - heights["random"] > 0.02  # moved apart


def test_files_are_what_their_endings_say(tmp_path):
    plot_curves(RUNS, tmp_path / "a.png", size=(4, 3))
    data = (tmp_path / "a.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (800, 600)  # 200 to the inch
    plot_curves(RUNS, str(tmp_path / "a.SVG"), metric="log_loss")
    assert ElementTree.parse(tmp_path / "a.SVG").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    plot_curves(RUNS, tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes()[:5] == b"%PDF-"
    with pytest.raises(ValueError, match=r"path must end in \.png, \.svg or \.pdf, but it is .*a\.doc"):
        plot_curves(RUNS, tmp_path / "a.doc")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.SVG", "a.pdf", "a.png"]


def test_dollars_are_no_formulas(tmp_path):
    runs = [Trace("$5 \\frac", 0, (1, 2), {"accuracy": (0.1, 0.2)}, (0, 1))]
    plot_curves(runs, tmp_path / "a.svg", title="costs $x_{ in $")
    assert (tmp_path / "a.svg").stat().st_size > 1000


def test_matplotlib_is_loaded_late_and_left_alone():
    code = """
import sys
from askwell.report import plot_curves
from askwell.simulation.curves import Trace
assert "matplotlib" not in sys.modules
import matplotlib
before = repr(matplotlib.rcParams.copy())  # looking one up by name could load pyplot, to find a backend
plot_curves([Trace("epig", 0, (1, 2), {"accuracy": (0.1, 0.2)}, (0, 1))], None)
assert "matplotlib.pyplot" not in sys.modules
assert repr(matplotlib.rcParams.copy()) == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_curves(RUNS, None)


# ---- figures inside a page: well-formed, every number in its position, nothing taken for markup that is none --------


def svg_of(traces, *, metric="accuracy", **options):
    return curves_svg(traces, styles(scores_of(traces)), metric=metric, size=(600, 300), **options)


def runs_of(score, labels, *values):
    return [Trace(score, seed, tuple(labels), {"accuracy": tuple(each)}, (0,)) for seed, each in enumerate(values)]


def strokes(svg):
    """The elements that are drawn with a line, as (style, points [n, 2])."""
    drawn = [each for each in ElementTree.fromstring(svg).iter("path") if "stroke-width" in each.get("style", "")]
    return [
        (each.get("style"), np.array(re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", each.get("d")), float)) for each in drawn
    ]


def points(svg):
    """What the points that a pointer can rest on say -> where they are."""
    found = [each for each in ElementTree.fromstring(svg).iter("circle") if each.get("class") == "point"]
    return {each[0].text: (float(each.get("cx")), float(each.get("cy"))) for each in found}


def texts(svg):
    return [each.text for each in ElementTree.fromstring(svg).iter("text")]


def test_a_pointer_rests_on_the_line_and_reads_its_values():
    runs = [*runs_of("epig", [1, 2, 4], [0.5, 0.75, 0.9], [0.5, 0.5, 0.9]), *runs_of("bald", [1, 4], [0.4, 0.5])]
    found = points(svg_of(runs))
    assert [*found] == [
        *("BALD, 1 labels: 0.400", "BALD, 4 labels: 0.500", "EPIG, 1 labels: 0.500 ± 0.000"),
        *("EPIG, 2 labels: 0.625 ± 0.125", "EPIG, 4 labels: 0.900 ± 0.000"),
    ]
    lines = [line for style, line in strokes(svg_of(runs)) if "var(--s" in style]
    np.testing.assert_allclose(np.concatenate(lines), list(found.values()), atol=0.15)
    assert not points(svg_of(runs, hover=False))
    (x1, _), (x2, _), (x4, _) = list(found.values())[2:]
    assert x4 - x2 == pytest.approx(2 * (x2 - x1), abs=0.3)


def test_epig_is_drawn_last_in_the_colours_of_the_page():
    runs = [*runs_of("epig", [1, 2], [0.5, 0.75]), *runs_of("bald", [1, 2], [0.4, 0.5])]
    lines = [style for style, _ in strokes(svg_of(runs)) if "var(--s" in style and "soft" not in style]
    assert ["var(--s1)" in lines[0], "var(--s0)" in lines[1]] == [True, True]
    assert not re.search("#[0-9a-f]{6}", svg_of(runs))  # every colour is the page's


def test_names_at_the_ends_keep_apart_and_in_order():
    runs = [run for i in range(6) for run in runs_of(f"score {i}", [1, 2], [0.5, 0.9 + i / 1000])]
    figure = plot_curves(runs, None, size=(6, 4))
    figure.draw_without_rendering()
    boxes = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    assert sorted(boxes, key=lambda name: boxes[name].y0) == [f"score {i}" for i in range(6)]  # better is higher
    heights = sorted((box.y0, box.y1) for box in boxes.values())
    assert all(above[0] >= below[1] for below, above in itertools.pairwise(heights))
    assert heights[0][0] > 0
    assert heights[-1][1] < figure.bbox.height


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\"&'", "x" * 300])
def test_hostile_names_are_text(name):
    svg = svg_of(runs_of(name, [1, 2], [0.5, 0.6]))
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label").endswith(f"for {name}")
    assert not {"script", "style", "image", "a"} & {each.tag for each in root.iter()}
    shown = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    assert shown in texts(svg)
    gap = Difference("b", name, "accuracy", 0.1, 0.0, 0.1, 0.1, 1.0, 1, 1)
    assert ElementTree.fromstring(intervals_svg([gap], label=name, width=600)).get("aria-label") == name


def test_what_is_not_finite_is_left_out():
    runs = [*runs_of("epig", [1, 2, 3], [0.5, math.nan, 0.7]), *runs_of("bald", [1, 2], [math.nan, math.nan])]
    svg = svg_of(runs)
    assert not re.search("nan|inf", svg)
    assert [*points(svg)] == ["EPIG, 1 labels: 0.500", "EPIG, 3 labels: 0.700"]


def test_intervals_lie_on_their_axis():
    gaps = [
        Difference("epig", "bald", "accuracy", 0.3, 0.05, 0.2, 0.4, 0.1, 5, 5),
        Difference("epig", "random", "accuracy", 0.1, 0.1, -0.1, 0.3, 0.5, 3, 5),
    ]
    svg = intervals_svg(gaps, label="differences", width=600)
    clear, open_ = ([line for style, line in strokes(svg) if f"var(--{name})" in style] for name in ("accent", "soft"))
    bars = [next(line for line in lines if line[0][1] == line[1][1]) for lines in (clear, open_)]
    zero = next(line for line in open_ if line[0][0] == line[1][0])
    ends = np.array([0.2, 0.4, -0.1, 0.3, 0.0])
    found = [*bars[0][:, 0], *bars[1][:, 0], zero[0][0]]
    np.testing.assert_allclose(found, np.polyval(np.polyfit(ends, found, 1), ends), atol=0.15)
    assert bars[0][0][1] < bars[1][0][1]  # the first is on top
    assert [text for text in texts(svg) if text.startswith("minus")] == ["minus BALD", "minus random"]


def test_an_interval_without_bounds_reaches_the_edges():
    gap = Difference("a", "b", "accuracy", 0.3, 0.0, -math.inf, math.inf, 1.0, 1, 1)
    lines = [line for _, line in strokes(intervals_svg([gap], label="", width=600))]
    bar, floor = (line for line in lines if line[0][1] == line[1][1])  # the axes' lower edge is drawn last
    np.testing.assert_allclose(bar[:, 0], floor[:, 0])


# ---- styles: names as people write them, colours that can be told from the ground and from each other ---------------

MANY = ["random", "bald", "epig", "auto", "one", "two", "three", "four", "five"]


VISIONS = {  # what is left of linear red, green and blue without one kind of cone (Machado and others, 2009)
    "all cones": np.eye(3),
    "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no middle": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    """Linear red, green and blue of #rrggbb."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    """Relative luminance as the web's accessibility guidelines define it."""
    return linear(colour) @ XYZ[1]


def lab(colour, vision):
    """CIELAB, in which a distance of 2 can just be seen side by side."""
    share = XYZ @ np.clip(np.array(vision) @ linear(colour), 0, 1) / XYZ.sum(axis=1)
    f = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("tone", "grounds"), [("light", ("#ffffff", "#f6f7f9")), ("dark", ("#14171b", "#1c2026"))])
def test_colours_stand_out_from_the_ground(tone, grounds):
    for style in styles(MANY).values():
        assert min(contrast(getattr(style, tone), ground) for ground in grounds) >= 3.5, style.name


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("tone", ["light", "dark"])
def test_six_colours_can_be_told_apart_with_any_colour_vision(tone, vision):
    places = [lab(getattr(style, tone), VISIONS[vision]) for style in styles(MANY[:6]).values()]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(places, 2)) > 15


@pytest.mark.parametrize("field", ["light", "dark", "ansi", "mark", "dash"])
def test_no_two_scores_look_alike(field):
    looks = [getattr(style, field) for style in styles(MANY).values()]
    assert all(a != b for a, b in itertools.combinations(looks, 2))


def test_auto_and_epig_are_on_top_and_thickest_and_random_below():
    looks = styles(["epig", *MANY])
    assert list(looks) == ["epig", "random", "bald", "auto", "one", "two", "three", "four", "five"]
    assert sorted(looks, key=lambda score: looks[score].rank)[-2:] == ["epig", "auto"]
    assert {score for score in looks if looks[score].width == looks["auto"].width} == {"epig", "auto"}
    assert max(style.width for style in looks.values()) == looks["auto"].width
    assert min(looks, key=lambda score: looks[score].rank) == "random"


def test_a_known_score_has_its_colour_wherever_it_stands_and_colours_may_repeat():
    assert styles(["epig"])["epig"].light == styles(MANY)["epig"].light
    assert len(styles([str(i) for i in range(20)])) == 20


def test_names():
    assert [score_name(score) for score in ("epig", "bald", "epig_corrected", "random", "my score")] == [
        *("EPIG", "BALD", "corrected EPIG", "random", "my score")
    ]
    assert metric_name("balanced_accuracy") == "balanced accuracy"


def test_scores_are_listed_once():
    runs = [Trace(score, seed, (1,), {"accuracy": (0.5,)}, (0,)) for seed in (0, 1) for score in ("b", "a")]
    assert scores_of(runs) == ["b", "a"]
    with pytest.raises(ValueError, match="there are none"):
        scores_of([])


@given(st.lists(st.floats(0, 100), max_size=10))
def test_names_keep_their_order_and_distance_within_bounds(wanted):
    found = apart(wanted, least=10.0, low=0.0, high=100.0)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = [found[i] for i in order]
    assert all(b - a >= 10 - 1e-9 for a, b in itertools.pairwise(places))
    assert all(-1e-9 <= place <= 100 + 1e-9 for place in places)
    if all(wanted[b] - wanted[a] >= 10 for a, b in itertools.pairwise(order)):
        np.testing.assert_allclose(found, wanted)


def test_names_without_room_go_on_below():
    assert apart([1.0, 1.0, 1.0], least=2.0, low=0.0, high=2.0) == [0.0, 2.0, 4.0]
