"""Curves in the terminal: dots where the numbers say, no line too long, names at the ends."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.report import terminal_curves
from askwell.report.terminal import DOTS, Axis, axis
from askwell.simulation.curves import Trace

ANSI = re.compile(r"\x1b\[\d*m")


def run(score, labels, values, seed=0, metric="accuracy"):
    return Trace(score, seed, tuple(labels), {metric: tuple(values)}, tuple(range(max(labels))))


def field(text):
    """The lines between heading and lower axis: what stands right of the left axis, and the labels left of it."""
    lines = text.splitlines()[1:-2]
    parts = [re.split(r"[|┤│]", line, maxsplit=1) for line in lines]
    return [right for _, right in parts], [left.strip() for left, _ in parts]


def dots(text):
    """(row, column) of every braille dot in the field."""
    found = set()
    for r, line in enumerate(field(text)[0]):
        for c, letter in enumerate(line):
            if 0x2800 <= ord(letter) < 0x2900:
                found |= {(4 * r + i, 2 * c + j) for i, j in np.ndindex(4, 2) if (ord(letter) - 0x2800) & DOTS[i, j]}
    return found


def test_braille_dots_lie_on_the_line():
    """From (0, 0.0) to (40, 1.0): the axes are these ranges, so the line is the diagonal of the field."""
    text = terminal_curves([run("epig", [0, 40], [0.0, 1.0])], width=60, height=10)
    columns = 2 * text.splitlines()[-2].count("─") + 2 * text.splitlines()[-2].count("┴")
    found = dots(text)
    assert {(39, 0), (0, columns - 1)} <= found
    assert {column for _, column in found} == set(range(columns))
    for row, column in found:
        assert abs(row - (39 - 39 * column / (columns - 1))) <= 1


def test_steep_parts_are_joined():
    text = terminal_curves([run("epig", [0, 10, 11, 20], [0.0, 0.0, 1.0, 1.0])], width=60, height=10)
    assert {row for row, _ in dots(text)} == set(range(40))


def test_plain_marks_lie_where_the_means_are():
    """The mean of two seeds goes from 0.1 to 0.9 on an axis from 0 to 1, whose ticks stand beside their lines."""
    runs = [run("epig", [0, 10], values, seed) for seed, values in enumerate([(0.0, 0.8), (0.2, 1.0)])]
    lines, ticks = field(terminal_curves([*runs, run("bald", [0, 10], [0.1, 0.1])], width=50, height=11, plain=True))
    assert ticks == ["1.00", "", "0.75", "", "", "0.50", "", "", "0.25", "", "0.00"]
    assert [row for row, line in enumerate(lines) if line.startswith("*")] == [9]  # on top of BALD, which starts there
    assert lines[1].endswith("* EPIG")
    assert lines[9].endswith("o BALD")
    middle = lines[9].index(" BALD") // 2
    assert [row for row, line in enumerate(lines) if line[middle : middle + 1] == "*"] == [5]


def test_one_run_may_be_shorter():
    lines, _ = field(terminal_curves([run("epig", [0, 5], [1, 1]), run("bald", [0, 10], [0, 0])], plain=True))
    assert abs(lines[0].count("*") - lines[-1].count("o") / 2) <= 1


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(("width", "height"), [(40, 6), (72, 16), (120, 30)])
def test_lines_fit_and_colours_change_nothing_else(plain, width, height):
    runs = [run(score, range(2, 61), np.linspace(0.5, end, 59)) for score, end in (("random", 0.6), ("epig", 0.98))]
    runs.append(run("a name that is far too long for any terminal to show beside it", [2, 60], [0.5, 0.61]))
    text = terminal_curves(runs, width=width, height=height, plain=plain)
    assert len(text.splitlines()) == height + 3
    assert all(len(line) <= width for line in text.splitlines())
    assert text.isascii() == plain
    coloured = terminal_curves(runs, width=width, height=height, plain=plain, colour=True)
    assert "\x1b[94m" in coloured
    assert ANSI.sub("", coloured) == text


def test_names_stand_in_the_order_of_the_ends():
    runs = [run(score, [0, 10], [0, end]) for score, end in (("bald", 0.70), ("epig", 0.71), ("random", 0.72))]
    text = terminal_curves(runs, height=8)
    assert text.index("random") < text.index("EPIG") < text.index("BALD")


def test_other_metrics_single_points_and_gaps():
    assert terminal_curves([run("epig", [5], [0.5], metric="log_loss")], metric="log_loss").startswith("log loss\n")
    gaps = [run("epig", [0, 1, 2], [0.0, float("nan"), 1.0]), run("bald", [0, 2], [float("nan")] * 2)]
    assert len(dots(terminal_curves(gaps))) > 50


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="at least 40 and 6"):
        terminal_curves([run("epig", [0, 1], [0, 1])], width=20)
    with pytest.raises(ValueError, match="metric must be one of accuracy"):
        terminal_curves([run("epig", [0, 1], [0, 1])], metric="f1")
    with pytest.raises(ValueError, match="there are none"):
        terminal_curves([])


# ---- axes: round ticks that hold the values, and positions on a line ------------------------------------------------

numbers = st.floats(-1e6, 1e6).filter(lambda value: value == 0 or abs(value) > 1e-6)
several = st.lists(numbers, min_size=1, max_size=8)


def is_round(step):
    """1, 2, 2.5 or 5 times a power of ten."""
    digits = step / 10 ** math.floor(math.log10(step) + 1e-9)
    return any(math.isclose(digits, wanted, rel_tol=1e-6) for wanted in (1, 2, 2.5, 5))


@given(several, st.integers(3, 9))
def test_a_rounded_axis_holds_everything_between_round_ticks(values, most):
    found = axis(values, most=most)
    slack = 1e-8 * (found.high - found.low)
    assert found.low - slack <= min(values)
    assert max(values) <= found.high + slack
    assert (found.low, found.high) == (found.ticks[0], found.ticks[-1])
    assert 2 <= len(found.ticks) <= most
    gaps = np.diff(found.ticks)
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-4)
    assert is_round(float(f"{gaps[0]:.4g}"))
    assert len({found.text(tick) for tick in found.ticks}) == len(found.ticks)


@given(st.integers(0, 5000), st.integers(1, 5000), st.integers(2, 9))
def test_a_whole_axis_begins_and_ends_with_the_values(low, length, most):
    found = axis([low, low + length], most=most, whole=True, rounded=False)
    assert (found.low, found.high) == (low, low + length)
    assert len(found.ticks) <= most
    assert all(tick == round(tick) and low <= tick <= low + length for tick in found.ticks)


def test_known_axes():
    assert axis([0.0, 1.0]).ticks == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert axis([0.97, 0.99], most=6).ticks == (0.97, 0.975, 0.98, 0.985, 0.99)
    assert axis([0.1, math.nan, 0.3, math.inf], most=3).ticks == (0.1, 0.2, 0.3)
    assert axis([]) == axis([0.0, 1.0])
    with pytest.raises(ValueError, match="most must be at least 2"):
        axis([0, 1], most=1)


@pytest.mark.parametrize(("value", "whole"), [(0.5, False), (0.0, False), (7.0, True)])
def test_one_value_still_has_room(value, whole):
    found = axis([value, value], whole=whole, rounded=not whole)
    assert found.low < value < found.high
    assert not whole or found.ticks == (7.0,)


def test_text_has_the_digits_that_ticks_need():
    assert [Axis(0, 1, (0.0, 0.25, 0.5)).text(tick) for tick in (0.0, 0.25, 0.5)] == ["0.00", "0.25", "0.50"]
    assert Axis(0, 20, (0.0, 10.0, 20.0)).text(10.0) == "10"


def test_positions_are_linear_either_way():
    np.testing.assert_allclose(Axis(2, 4, ()).position([2, 3, 4], 10, 30), [10, 20, 30])
    np.testing.assert_allclose(Axis(2, 4, ()).position([2, 3, 4], 30, 10), [30, 20, 10])
