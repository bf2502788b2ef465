"""Curves as figures for papers and slides, by matplotlib: loaded when one is drawn, and its global state left alone."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askwell.report.styles import metric_name, scores_of, styles
from askwell.simulation.curves import Trace, curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["dress", "plot_curves"]

INK, FAINT = "#30353c", "#d9dde2"


def plot_curves(
    traces: Iterable[Trace],
    path: str | os.PathLike[str] | None,
    *,
    metric: str = "accuracy",
    title: str = "",
    size: tuple[float, float] = (6.4, 4.0),
) -> "Figure":
    """The mean of a metric over seeds against the number of labels, with bands of one standard error.

    Saved to `path`, unless it is None, as PNG, SVG or PDF by its ending; `size` is in inches.

    >>> runs = [Trace("epig", seed, (2, 4), {"accuracy": (0.5, 0.8 + seed / 10)}, (0, 1)) for seed in (0, 1)]
    >>> figure = plot_curves(runs, None, title="Digits")
    >>> [text.get_text() for text in figure.axes[0].texts], figure.axes[0].get_title(loc="left")
    (['EPIG'], 'Digits')
    """
    traces = list(traces)
    if path is not None and Path(path).suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise ValueError(f"path must end in .png, .svg or .pdf, but it is {os.fspath(path)!r}.")
    figure = _figure(size)
    axes = figure.add_subplot()
    ends = []
    for score, style in sorted(styles(scores_of(traces)).items(), key=lambda item: item[1].rank):
        drawn = curve(traces, score, metric=metric)
        line: Any = "-" if style.dash == (1, 0) else (0, style.dash)
        axes.plot(drawn.labels, drawn.mean, color=style.light, linestyle=line, linewidth=0.8 * style.width)
        axes.fill_between(
            drawn.labels, drawn.mean - drawn.error, drawn.mean + drawn.error, color=style.light, alpha=0.15, linewidth=0
        )
        ends.append((drawn.labels[-1], drawn.mean[-1], style))
    dress(axes, metric_name(metric), title)
    _name_ends(axes, ends)
    if path is not None:
        kind = Path(path).suffix.lower()[1:]
        figure.savefig(path, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return figure


def _figure(size: tuple[float, float]) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib, which cannot be loaded: pip install matplotlib.") from error
    return Figure(figsize=size, layout="constrained", facecolor="white")


def dress(axes: Any, metric: str, title: str) -> None:
    """Few lines, no box: what is left is the curves."""
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", parse_math=False)
    axes.set_xlabel("labels", color=INK)
    axes.set_ylabel(metric, color=INK, parse_math=False)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)
    axes.margins(x=0)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def _name_ends(axes: Any, ends: list[tuple[float, float, Any]]) -> None:
    """Each curve's name at its end, kept apart from the others; no legend to look up."""
    low, high = axes.get_ylim()
    floor = low
    for x, y, style in sorted(ends, key=lambda end: end[1]):
        place = max(y, floor)
        floor = place + 0.06 * (high - low)
        axes.annotate(
            style.name,
            (x, place),
            xytext=(6, 0),
            textcoords="offset points",
            color=style.light,
            va="center",
            fontweight="bold" if style.rank == 100 else "normal",
            annotation_clip=False,
            parse_math=False,
        )
