"""Axes: round ticks that hold the values, places on a line, and names that keep their distance."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askwell.report.axes import Axis, apart, axis

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


def test_places_are_linear_either_way():
    np.testing.assert_allclose(Axis(2, 4, ()).place([2, 3, 4], 10, 30), [10, 20, 30])
    np.testing.assert_allclose(Axis(2, 4, ()).place([2, 3, 4], 30, 10), [30, 20, 10])


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
