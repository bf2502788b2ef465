"""SVG of curves and intervals: well-formed, every number in its place, nothing taken for markup that is none."""

import itertools
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from askwell.report.chart import LINE, curves_svg, intervals_svg
from askwell.report.styles import styles
from askwell.simulation.curves import Curve, Difference


def drawn(labels, mean, error=0.0):
    mean = np.asarray(mean, float)
    return Curve(np.asarray(labels), mean, np.full(len(mean), error), np.full(len(mean), 5 if error else 1))


def parts(svg, kind):
    """The elements of a class."""
    return [e for e in ElementTree.fromstring(svg).iter() if kind in e.get("class", "").split()]


def points(element):
    return np.array([[float(v) for v in pair.split(",")] for pair in element.get("points").split()])


def ticks(svg, anchor):
    """Tick value -> its place, of the left axis (anchor "end") or the lower one ("middle")."""
    axis = "y" if anchor == "end" else "x"
    found = [
        e for e in ElementTree.fromstring(svg).iter("text") if e.get("text-anchor") == anchor and not e.get("class")
    ]
    return {float(e.text): float(e.get(axis)) for e in found}


def test_lines_and_bands_agree_with_the_ticks():
    labels, mean, error = [10, 20, 40], np.array([0.2, 0.5, 0.8]), 0.1
    curves = {"random": drawn(labels, [0.0, 0.0, 0.0]), "epig": drawn(labels, mean, error)}
    svg = curves_svg(curves, styles(curves), label="accuracy")
    across, down = ticks(svg, "middle"), ticks(svg, "end")
    x = np.polyfit(list(across), list(across.values()), 1)
    y = np.polyfit(list(down), np.array(list(down.values())) - 4.5, 1)  # text stands a little below its line
    (line,) = [e for e in parts(svg, "line") if "--s1" in e.get("style")]
    (band,) = [e for e in parts(svg, "band") if "--s1" in e.get("style")]
    wanted = np.stack([np.polyval(x, labels), np.polyval(y, mean)], axis=1)
    np.testing.assert_allclose(points(line), wanted, atol=0.15)
    around = np.concatenate([mean + error, (mean - error)[::-1]])
    np.testing.assert_allclose(points(band)[:, 1], np.polyval(y, around), atol=0.15)


def test_epig_is_drawn_last_and_points_tell_their_values():
    curves = {"epig": drawn([1, 2], [0.5, 0.75], 0.125), "bald": drawn([1, 2], [0.4, 0.5])}
    svg = curves_svg(curves, styles(curves), label="accuracy")
    assert "--s0" in parts(svg, "line")[-1].get("style")
    told = [e[0].text for e in parts(svg, "point")]
    assert told[1::2] == ["BALD, 2 labels: 0.500", "EPIG, 2 labels: 0.750 ± 0.125"]
    assert not parts(curves_svg(curves, styles(curves), label="", points=False), "point")


def test_names_at_the_ends_keep_apart_and_inside():
    curves = {f"score {i}": drawn([1, 2], [0.5, 0.9 + i / 1000]) for i in range(6)}
    names = parts(curves_svg(curves, styles(curves), label="", height=300), "end")
    heights = {e.text: float(e.get("y")) for e in names}
    assert sorted(heights, key=lambda name: -heights[name]) == list(curves)  # the better, the higher
    places = sorted(heights.values())
    assert all(b - a >= LINE - 0.2 for a, b in itertools.pairwise(places))
    assert 0 < places[0] < places[-1] < 300


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\"&'", "x" * 300])
def test_hostile_names_are_text(name):
    curves = {name: drawn([1, 2], [0.5, 0.6])}
    svg = curves_svg(curves, styles(curves), label=name)
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == name
    assert {e.tag for e in root.iter()} == {"svg", "line", "text", "polygon", "polyline", "circle", "title"}
    (end,) = parts(svg, "end")
    assert end.text == name if len(name) < 16 else name.startswith(end.text.rstrip("…"))
    gap = Difference(name, "b", "accuracy", 0.1, 0.0, 0.1, 0.1, 1.0, 1, 1)
    assert ElementTree.fromstring(intervals_svg([gap], [name], label=name)).get("aria-label") == name


def test_what_is_not_finite_is_left_out():
    curves = {"epig": drawn([1, 2, 3], [0.5, math.nan, 0.7]), "bald": drawn([1, 2], [math.nan, math.nan])}
    svg = curves_svg(curves, styles(curves), label="")
    assert not re.search("nan|inf", svg.replace("nanos", ""))
    assert [len(points(e)) for e in parts(svg, "line") if e.get("points")] == [2]


def test_intervals_lie_on_their_axis():
    gaps = [
        Difference("epig", "bald", "accuracy", 0.3, 0.05, 0.2, 0.4, 0.1, 5, 5),
        Difference("epig", "random", "accuracy", 0.1, 0.1, -0.1, 0.3, 0.5, 3, 5),
    ]
    svg = intervals_svg(gaps, ["minus BALD", "minus random"], label="differences")
    across = ticks(svg, "middle")
    x = np.polyfit(list(across), list(across.values()), 1)
    for gap, span, dot in zip(gaps, parts(svg, "span"), ElementTree.fromstring(svg).iter("circle"), strict=True):
        found = [float(span.get("x1")), float(dot.get("cx")), float(span.get("x2"))]
        np.testing.assert_allclose(found, np.polyval(x, [gap.low, gap.mean, gap.high]), atol=0.15)
        assert dot.get("class") == ("clear" if gap.low > 0 else "open")
    (zero,) = parts(svg, "zero")
    assert float(zero.get("x1")) == pytest.approx(across[0.0])


def test_an_interval_without_bounds_reaches_the_edges():
    gap = Difference("a", "b", "accuracy", 0.3, 0.0, -math.inf, math.inf, 1.0, 1, 1)
    svg = intervals_svg([gap], ["minus b"], label="")
    (span,) = parts(svg, "span")
    places = ticks(svg, "middle").values()
    assert (float(span.get("x1")), float(span.get("x2"))) == (min(places), max(places))
