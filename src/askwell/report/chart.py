"""Curves and intervals as SVG that takes its colours from the page around it, so that it is right in light and dark."""

import html
from collections.abc import Mapping, Sequence

import numpy as np

from askwell.report.axes import Axis, apart, axis
from askwell.report.styles import Style
from askwell.simulation.curves import Curve, Difference

__all__ = ["curves_svg", "intervals_svg"]

LETTER = 8.0  # mean width of a letter at 13 px
LINE = 17.0  # height of one


def curves_svg(
    curves: Mapping[str, Curve],
    looks: Mapping[str, Style],
    *,
    label: str,
    width: int = 760,
    height: int = 400,
    points: bool = True,
    name: str = "",
) -> str:
    """Mean curves with bands of one standard error; `points` adds what a pointer that rests on the curve reads.

    Score number i is drawn in the CSS colour `--s<i>`, text in `--ink`, grid in `--rule`. `label` says what it shows;
    `name` is added to its class.
    """
    spread = (float(v) for c in curves.values() for e in (-1, 1) for v in c.mean + e * c.error)
    y = axis(spread, most=max(3, height // 50))
    x = axis((float(v) for c in curves.values() for v in c.labels), most=width // 80, whole=True, rounded=False)
    longest = max(len(_short(style.name)) for style in looks.values())
    left, right, top, bottom = 8 + LETTER * max(len(y.text(t)) for t in y.ticks), 14 + LETTER * longest, 12.0, 44.0
    box = (left, width - right, top, height - bottom)
    number = {score: i for i, score in enumerate(looks)}
    order = sorted(curves, key=lambda score: looks[score].rank)
    parts = [_grid(x, y, box, width, height)]
    parts += [_band(curves[score], x, y, box, number[score]) for score in order]
    parts += [_line(curves[score], x, y, box, number[score], looks[score]) for score in order]
    parts += _end_names(curves, looks, y, box, number)
    if points:
        parts += [_points(curves[score], x, y, box, looks[score]) for score in order]
    return _svg(width, height, label, "".join(parts), f"curves {name}".strip())


def intervals_svg(gaps: Sequence[Difference], names: Sequence[str], *, label: str, width: int = 760) -> str:
    """Differences as points with their 95 % intervals, one under the other, around a line at zero."""
    ends = [0.0, *(float(v) for gap in gaps for v in (gap.low, gap.mean, gap.high))]
    x = axis(ends, most=max(3, width // 90))
    short = [_short(name, most=26) for name in names]
    left, right, step = 12 + LETTER * max(len(name) for name in short), 16.0, 34.0
    height = round(step * len(gaps) + 34)
    floor = step * len(gaps) + 4
    parts = []
    for tick in x.ticks:
        at = float(x.place(tick, left, width - right))
        kind = "zero" if tick == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="2" y2="{floor:.1f}"/>')
        parts.append(f'<text x="{at:.1f}" y="{floor + 20:.1f}" text-anchor="middle">{x.text(tick)}</text>')
    for i, (gap, name) in enumerate(zip(gaps, short, strict=True)):
        y = step * (i + 0.5)
        low, mean, high = (
            float(x.place(np.clip(v, x.low, x.high), left, width - right)) for v in (gap.low, gap.mean, gap.high)
        )
        kind = "clear" if gap.clear else "open"
        parts.append(f'<text class="name" x="{left - 12:.1f}" y="{y + 4.5:.1f}" text-anchor="end">')
        parts.append(f"{html.escape(name)}</text>")
        parts.append(f'<line class="span {kind}" x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<circle class="{kind}" cx="{mean:.1f}" cy="{y:.1f}" r="5.5"/>')
    return _svg(width, height, label, "".join(parts), "intervals")


Box = tuple[float, float, float, float]  # left, right, top, bottom


def _svg(width: int, height: int, label: str, body: str, kind: str) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="{kind}" role="img" aria-label="{html.escape(label)}" {size}>{body}</svg>'


def _grid(x: Axis, y: Axis, box: Box, width: int, height: int) -> str:
    left, right, top, bottom = box
    parts = []
    for tick, at in zip(y.ticks, y.place(y.ticks, bottom, top), strict=True):
        parts.append(f'<line class="grid" x1="{left:.1f}" x2="{right:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{left - 8:.1f}" y="{at + 4.5:.1f}" text-anchor="end">{y.text(tick)}</text>')
    for tick, at in zip(x.ticks, x.place(x.ticks, left, right), strict=True):
        parts.append(f'<text x="{at:.1f}" y="{bottom + 20:.1f}" text-anchor="middle">{x.text(tick)}</text>')
    middle = (left + right) / 2
    parts.append(f'<text class="axis" x="{middle:.1f}" y="{height - 6}" text-anchor="middle">labels</text>')
    return "".join(parts)


def _places(drawn: Curve, x: Axis, y: Axis, box: Box, shift: float) -> list[str]:
    """Points of the curve moved by `shift` standard errors, as text; what is not finite is left out."""
    left, right, top, bottom = box
    value = drawn.mean + shift * drawn.error
    keep = np.isfinite(value)
    across, down = x.place(drawn.labels[keep], left, right), y.place(value[keep], bottom, top)
    return [f"{a:.1f},{d:.1f}" for a, d in zip(across, down, strict=True)]


def _band(drawn: Curve, x: Axis, y: Axis, box: Box, number: int) -> str:
    around = _places(drawn, x, y, box, 1) + _places(drawn, x, y, box, -1)[::-1]
    return f'<polygon class="band" style="fill:var(--s{number})" points="{" ".join(around)}"/>'


def _line(drawn: Curve, x: Axis, y: Axis, box: Box, number: int, style: Style) -> str:
    dash = "" if style.dash == (1, 0) else f";stroke-dasharray:{style.dash[0] * 2.5:g} {style.dash[1] * 2.5:g}"
    look = f"stroke:var(--s{number});stroke-width:{style.width:g}{dash}"
    return f'<polyline class="line" style="{look}" points="{" ".join(_places(drawn, x, y, box, 0))}"/>'


def _end_names(
    curves: Mapping[str, Curve], looks: Mapping[str, Style], y: Axis, box: Box, number: Mapping[str, int]
) -> list[str]:
    """Names at the ends of the curves, moved apart where they would lie on each other."""
    _, right, top, bottom = box
    wanted = [_end(drawn, y, box) for drawn in curves.values()]
    heights = apart(wanted, least=LINE, low=top, high=bottom)
    return [
        f'<text class="end{" best" if looks[score].rank == 100 else ""}" x="{right + 8:.1f}" y="{at + 4.5:.1f}" '
        f'style="fill:var(--s{number[score]})">{html.escape(_short(looks[score].name))}</text>'
        for score, at in zip(curves, heights, strict=True)
    ]


def _end(drawn: Curve, y: Axis, box: Box) -> float:
    """Where a curve ends; at the bottom if it has no finite value."""
    finite = drawn.mean[np.isfinite(drawn.mean)]
    return float(y.place(finite[-1], box[3], box[2])) if len(finite) else box[3]


def _points(drawn: Curve, x: Axis, y: Axis, box: Box, style: Style) -> str:
    """Unseen discs that say the value when a pointer rests on them."""
    parts = []
    finite = np.flatnonzero(np.isfinite(drawn.mean))
    for at, i in zip(_places(drawn, x, y, box, 0), finite, strict=True):
        across, down = at.split(",")
        error = f" ± {drawn.error[i]:.3f}" if drawn.runs[i] > 1 else ""
        says = html.escape(f"{style.name}, {drawn.labels[i]} labels: {drawn.mean[i]:.3f}{error}")
        parts.append(f'<circle class="point" cx="{across}" cy="{down}" r="7"><title>{says}</title></circle>')
    return "".join(parts)


def _short(name: str, *, most: int = 16) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
