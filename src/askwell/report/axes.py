"""Axes: where a number lies on a line, and the round numbers written beside it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

__all__ = ["Axis", "apart", "axis"]

STEPS = (1.0, 2.0, 2.5, 5.0)


@final
@dataclass(frozen=True)
class Axis:
    """A range of numbers and the ticks inside it."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, values: Any, start: float, stop: float) -> np.ndarray:
        """Where values lie between `start` (the low end) and `stop` (the high end).

        >>> Axis(0.0, 10.0, (0.0, 5.0, 10.0)).place([0, 2.5, 10], 100, 0)
        array([100.,  75.,   0.])
        """
        share = (np.asarray(values, np.float64) - self.low) / (self.high - self.low)
        return np.asarray(start + share * (stop - start))

    def text(self, tick: float) -> str:
        """A tick as it is written, with as many digits as all of them need."""
        return f"{tick:.{self._digits()}f}"

    def _digits(self) -> int:
        needed = (next((d for d in range(9) if math.isclose(t, round(t, d), abs_tol=1e-12)), 9) for t in self.ticks)
        return max(needed, default=0)


def axis(values: Iterable[float], *, most: int = 6, whole: bool = False, rounded: bool = True) -> Axis:
    """The axis that holds all values, with at most `most` round ticks.

    `rounded` widens the range to the next ticks; `whole` allows whole numbers only. Values that are not finite are left
    out.

    >>> axis([0.52, 0.97]).ticks
    (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    >>> axis([6, 60], whole=True, rounded=False)
    Axis(low=6.0, high=60.0, ticks=(10.0, 20.0, 30.0, 40.0, 50.0, 60.0))
    """
    if most < 2:
        raise ValueError(f"most must be at least 2 ticks, but it is {most}.")
    found = [float(value) for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(found), max(found)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        half = 0.5 if whole else max(0.05, 0.05 * abs(low))
        low, high = low - half, high + half
    for step in _steps((high - low) / most, whole):
        first, last = _cells(low, high, step, outwards=rounded)
        if last - first + 1 <= most:
            break
    ticks = tuple(float(f"{i * step:.12g}") for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks) if rounded else Axis(low, high, ticks)


def apart(wanted: Sequence[float], *, least: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, in the same order, at least `least` from each other and within bounds.

    Where there is no room for all of them, they go on beyond `high`.

    >>> apart([5.0, 5.0, 9.5], least=1.0, low=0.0, high=10.0)
    [5.0, 6.0, 9.5]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places = [wanted[i] for i in order]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + least)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], high - least * (len(places) - 1 - i))
    for i in range(len(places)):
        places[i] = max(places[i], low + least * i)
    found = [0.0] * len(places)
    for i, place in zip(order, places, strict=True):
        found[i] = place
    return found


def _steps(least: float, whole: bool) -> Iterable[float]:
    """Round steps, from one that is too small upwards."""
    power = math.floor(math.log10(least))
    for exponent in range(power, power + 4):
        for step in STEPS:
            size = step * 10.0**exponent
            if not whole or (size >= 1 and size == round(size)):
                yield size


def _cells(low: float, high: float, step: float, *, outwards: bool) -> tuple[int, int]:
    """The first and the last multiple of `step` around the range, or inside it; a hair over a tick is on it."""
    slack = 1e-9
    if outwards:
        return math.floor(low / step + slack), math.ceil(high / step - slack)
    return math.ceil(low / step - slack), math.floor(high / step + slack)
