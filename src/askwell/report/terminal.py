"""Curves in the terminal: a drawing in braille dots, two by four in each character, or in ASCII."""

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, final

import numpy as np

from askwell.report.figures import Style, apart, metric_name, scores_of, styles
from askwell.simulation.curves import Curve, Trace, curve, main_metric

__all__ = ["Axis", "axis", "terminal_curves", "terminal_style"]

DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of a braille character, by row and column
BLANK = 0x2800
LEAST_WIDTH, LEAST_HEIGHT = 40, 6
STEPS = (1.0, 2.0, 2.5, 5.0)  # between ticks, times a power of ten


def terminal_curves(
    traces: Iterable[Trace],
    *,
    metric: str | None = None,
    width: int = 72,
    height: int = 16,
    colour: bool = False,
    plain: bool = False,
) -> str:
    """The mean of a metric over seeds against the number of labels, as text of `width` columns.

    `height` lines are for the curves, a few more for axes and legend. `colour` adds ANSI colours; `plain` uses ASCII
    characters only, for terminals and files that know no others.

    >>> runs = [
    ...     Trace("random", 0, (2, 40), {"accuracy": (0.5, 0.7)}, (0, 1)),
    ...     Trace("epig", 0, (2, 10, 40), {"accuracy": (0.5, 0.9, 1.0)}, (0, 1)),
    ... ]
    >>> print(terminal_curves(runs, width=44, height=6, plain=True))
    accuracy
    1.00 |                   ************ EPIG
         |      *************
    0.75 |    **
         |   *                   ........ random
         | **     ...............
    0.50 |*.......
         +------+-------+-------+-------+
               10      20      30      40 labels
    """
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        raise ValueError(
            f"width and height must be at least {LEAST_WIDTH} and {LEAST_HEIGHT}, but they are {width} and {height}."
        )
    traces = list(traces)
    looks, metric = styles(scores_of(traces)), main_metric(traces, metric=metric)
    curves = {score: curve(traces, score, metric=metric) for score in looks}
    frame = _Frame.around(list(curves.values()), list(looks.values()), width, height, plain=plain)
    pen = _letters if plain else _braille
    cells = pen(frame, [(curves[score], looks[score]) for score in sorted(looks, key=lambda score: looks[score].rank)])
    ends = _end_names(frame, curves, looks)
    margin = max(len(text) for text in frame.y_texts.values())
    bar, corner, tick, line = ("|", "+", "+", "-") if plain else ("┤", "└", "┴", "─")
    lines = [metric_name(metric)]
    for row in range(height):
        runs = groupby(cells[row], key=lambda cell: cell[1])
        drawn = "".join(_painted("".join(mark for mark, _ in run), style, colour) for style, run in runs)
        name = f" {_painted(ends[row].name[: frame.names], ends[row], colour)}" if row in ends else ""
        label = frame.y_texts.get(row, "")
        lines.append(f"{label:>{margin}} {bar if label or plain else '│'}{drawn}{name}".rstrip())
    rule = [line] * frame.columns
    for column in frame.x_texts:
        rule[column] = tick
    lines.append(f"{'':>{margin}} {corner}{''.join(rule)}")
    lines.append(f"{'':>{margin}}  {_under(frame)} labels")
    return "\n".join(lines)


def terminal_style() -> dict[str, bool]:
    """Whether standard output shows colours, and whether it knows ASCII only: options of `terminal_curves`."""
    try:
        "⣿┤±".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError, AttributeError):
        plain = True
    else:
        plain = False
    return {"colour": sys.stdout is not None and sys.stdout.isatty(), "plain": plain}


# ---- axes ------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Axis:
    """A range of numbers and the ticks inside it."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def position(self, values: Any, start: float, stop: float) -> np.ndarray:
        """Where values lie between `start` (the low end) and `stop` (the high end).

        >>> Axis(0.0, 10.0, (0.0, 5.0, 10.0)).position([0, 2.5, 10], 100, 0)
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
    finite = [float(value) for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        half = 0.5 if whole else max(0.05, 0.05 * abs(low))
        low, high = low - half, high + half
    for step in _steps((high - low) / most, whole):
        first, last = _cells(low, high, step, outwards=rounded)
        if last - first + 1 <= most:
            break
    ticks = tuple(float(f"{i * step:.12g}") for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks) if rounded else Axis(low, high, ticks)


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


# ---- drawing ---------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Frame:
    """The field that curves are drawn in, in characters, and what is written at its edges."""

    x: Axis
    y: Axis
    columns: int
    rows: int
    names: int  # characters for the names at the right
    across: int  # dots in a character
    down: int

    @staticmethod
    def around(curves: Sequence[Curve], looks: Sequence[Style], width: int, height: int, *, plain: bool) -> "_Frame":
        y = axis((float(v) for c in curves for v in c.mean), most=max(3, height // 2))
        x = axis((float(v) for c in curves for v in c.labels), most=width // 10, whole=True, rounded=False)
        margin = max(len(y.text(tick)) for tick in y.ticks) + 2
        names = min(max(len("labels"), *(len(style.name) for style in looks)), width // 3)
        return _Frame(x, y, width - margin - names - 1, height, names, *((1, 1) if plain else (2, 4)))

    @property
    def y_texts(self) -> dict[int, str]:
        """Row -> tick."""
        return {self.row(tick): self.y.text(tick) for tick in self.y.ticks}

    @property
    def x_texts(self) -> dict[int, str]:
        """Column -> tick."""
        columns = np.rint(self.x.position(self.x.ticks, 0, self.columns - 1)).astype(int)
        return {int(column): self.x.text(tick) for column, tick in zip(columns, self.x.ticks, strict=True)}

    def row(self, value: float) -> int:
        """The line of characters that a value is drawn in."""
        return int(np.rint(self.y.position(value, self.rows * self.down - 1, 0))) // self.down

    def raster(self, drawn: Curve) -> tuple[np.ndarray, np.ndarray]:
        """For each column of dots: whether the curve is there, and its row of dots."""
        labels, mean = drawn.labels[np.isfinite(drawn.mean)], drawn.mean[np.isfinite(drawn.mean)]
        places = np.arange(self.columns * self.across)
        if len(labels) == 0:
            return np.zeros(len(places), bool), np.zeros(len(places), int)
        at = self.x.position(labels, 0, len(places) - 1)
        rows = np.interp(places, at, self.y.position(mean, self.rows * self.down - 1, 0))
        inside = (places >= np.rint(at[0])) & (places <= np.rint(at[-1]))
        return inside, np.rint(rows).astype(int)


Cells = list[list[tuple[str, Style | None]]]


def _braille(frame: _Frame, curves: Sequence[tuple[Curve, Style]]) -> Cells:
    """Each curve as a line of dots, joined where it is steep; a character has the colour of the topmost curve in it."""
    bits = np.zeros((frame.rows, frame.columns), int)
    owner: dict[tuple[int, int], Style] = {}
    for drawn, style in curves:
        inside, rows = frame.raster(drawn)
        for column in np.flatnonzero(inside):
            if column % sum(style.dash) >= style.dash[0]:
                continue
            before = rows[column - 1] if column and inside[column - 1] else rows[column]
            step = 1 if rows[column] >= before else -1
            for row in range(before + step if before != rows[column] else before, rows[column] + step, step):
                cell = row // 4, int(column) // 2
                bits[cell] |= DOTS[row % 4, column % 2]
                owner[cell] = style
    return [
        [(chr(BLANK + bits[r, c]) if bits[r, c] else " ", owner.get((r, c))) for c in range(frame.columns)]
        for r in range(frame.rows)
    ]


def _letters(frame: _Frame, curves: Sequence[tuple[Curve, Style]]) -> Cells:
    """Each curve as one mark per column."""
    cells: Cells = [[(" ", None)] * frame.columns for _ in range(frame.rows)]
    for drawn, style in curves:
        inside, rows = frame.raster(drawn)
        for column in np.flatnonzero(inside):
            cells[rows[column]][column] = style.mark, style
    return cells


def _end_names(frame: _Frame, curves: dict[str, Curve], looks: dict[str, Style]) -> dict[int, Style]:
    """Row -> the style whose name stands there: where its curve ends, or next to it where that is taken."""
    wanted = []
    for drawn in curves.values():
        finite = drawn.mean[np.isfinite(drawn.mean)]
        dot = float(frame.y.position(finite[-1], frame.rows * frame.down - 1, 0)) if len(finite) else math.inf
        wanted.append(min((dot + 0.5) / frame.down, frame.rows - 0.5))  # parts of a row keep close ends in order
    rows = apart(wanted, least=1.0, low=0.0, high=frame.rows - 0.5)
    return {int(row): looks[score] for score, row in zip(curves, rows, strict=True)}


def _under(frame: _Frame) -> str:
    """The ticks of the lower axis, each ending under its place."""
    line = [" "] * frame.columns
    for column, text in frame.x_texts.items():
        start = max(0, min(column - len(text) // 2, frame.columns - len(text)))
        if all(mark == " " for mark in line[max(0, start - 1) : start + len(text) + 1]):
            line[start : start + len(text)] = text
    return "".join(line)


def _painted(text: str, style: Style | None, colour: bool) -> str:
    return f"\x1b[{style.ansi}m{text}\x1b[0m" if colour and style is not None else text
