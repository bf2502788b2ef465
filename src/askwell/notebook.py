"""What a notebook shows of a thing: short text, and HTML made of tables and curves. Everything is escaped.

`brief` is the `__repr__` of records that hold arrays; the rest is for `_repr_html_`.
"""

import dataclasses
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["brief", "curves", "paragraph", "table"]

WIDTH, HEIGHT = 360, 140  # of a figure, pixels
COLOURS = ("#0068b3", "#c85200", "#134e46", "#8a1fd6", "#7b828c", "#b0305a")
LONGEST = 60  # characters of a value


def brief(record: Any) -> str:
    """A data class as text, without the fields that hold arrays, fitted models and the like.

    >>> @dataclasses.dataclass
    ... class Fit:
    ...     classes: tuple
    ...     weights: list
    ...     __repr__ = brief
    >>> Fit(("no", "yes"), [0.5] * 1000)
    Fit(classes=('no', 'yes'), ...)
    """
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    shown = [f"{name}={value!r}" for name, value in values.items() if _is_short(value)]
    return f"{type(record).__name__}({', '.join([*shown, '...'] if len(shown) < len(values) else shown)})"


def _is_short(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_short, value)) and len(repr(value)) <= LONGEST
    return value is None or (isinstance(value, bool | int | float | str) and len(repr(value)) <= LONGEST)


def paragraph(text: str) -> str:
    """A paragraph.

    >>> paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    return f"<p>{html.escape(text)}</p>"


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """A table; without a head if that is empty.

    >>> table([], [["items", 3]])
    '<table><tr><td>items</td><td>3</td></tr></table>'
    """
    lines = [_row("th", head)] if head else []
    return f"<table>{''.join([*lines, *(_row('td', row) for row in rows)])}</table>"


def _row(cell: str, values: Sequence[Any]) -> str:
    return f"<tr>{''.join(f'<{cell}>{html.escape(str(value))}</{cell}>' for value in values)}</tr>"


def curves(lines: Mapping[str, tuple[Any, Any]], *, x: str, y: str) -> str:
    """Curves by name, (x values, y values) each, as one small SVG with a legend below.

    >>> "polyline" in curves({"epig": ([2, 4], [0.5, 0.75])}, x="labels", y="accuracy")
    True
    """
    across = [value for xs, _ in lines.values() for value in xs]
    upward = [value for _, ys in lines.values() for value in ys]
    left, low = min(across), min(upward)
    wide, high = max(across) - left or 1, max(upward) - low or 1
    drawn, legend = [], []
    for number, (name, (xs, ys)) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{(a - left) / wide * WIDTH:.1f},{HEIGHT - (b - low) / high * HEIGHT:.1f}"
            for a, b in zip(xs, ys, strict=True)
        )
        drawn.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>')
        legend.append(f'<span style="color:{colour}">&#9632; {html.escape(name)}</span>')
    axes = f"{y} from {low:.3g} to {low + high:.3g}, {left:g} to {left + wide:g} {x}"
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="-4 -4 {WIDTH + 8} {HEIGHT + 8}" role="img" '
        f'aria-label="{html.escape(axes)}">{"".join(drawn)}</svg><div>{" ".join(legend)}</div>{paragraph(axes)}'
    )
