"""Figures: real files with the right numbers in them, and matplotlib loaded late and left as it was."""

import struct
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from askwell.report import plot_curves
from askwell.simulation.curves import Trace, curve

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
