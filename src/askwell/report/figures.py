"""How a score looks everywhere, and curves as figures by matplotlib, which is loaded when one is drawn.

A score has the same name, colour, stroke and mark in the terminal, in figures and on the page. The colours of up to six
scores can be told apart with any kind of colour vision, in a tone for light and one for dark ground. EPIG and auto are
drawn thickest and last, random in grey; strokes differ too, for print and plain terminals.
"""

import html
import io
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from askwell.simulation.curves import Curve, Difference, Trace, curve, main_metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Style",
    "apart",
    "curves_svg",
    "dress",
    "intervals_svg",
    "metric_name",
    "plot_curves",
    "score_name",
    "scores_of",
    "styles",
]

NAMES = {
    "epig": "EPIG",
    "bald": "BALD",
    "badge": "BADGE",
    "epig_corrected": "corrected EPIG",
    "epig_quadratic": "quadratic EPIG",
}
INK, FAINT, ACCENT, SOFT = "#30353c", "#d9dde2", "#0068b3", "#5c6570"
LINE = 1.35  # height of a line of text, in font sizes
LONGEST_NAME = 26  # characters beside a curve or an interval


# ---- styles --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Style:
    """How one score is drawn."""

    name: str  # as people write it
    light: str  # colour on light ground
    dark: str  # colour on dark ground
    ansi: str  # colour in a terminal
    mark: str  # in plain terminals
    dash: tuple[int, int]  # drawn and left out; (1, 0) is a solid line
    width: float  # of the stroke
    rank: int  # drawn in this order: the highest lies on top

    @property
    def stroke(self) -> Any:
        """The line style for matplotlib."""
        return "-" if self.dash == (1, 0) else (0, self.dash)


_EPIG = (ACCENT, "#5cb8ff", "94", "*", (1, 0), 3.0)
_BALD = ("#c85200", "#ff9d4d", "33", "o", (4, 2), 2.25)
_RANDOM = ("#7b828c", "#9aa2ad", "90", ".", (1, 2), 2.25)
_OTHERS = (
    ("#8a1fd6", "#cf4dff", "35", "+", (6, 2), 2.0),
    ("#3d2a14", "#ffd8b0", "93", "x", (2, 1), 2.0),
    ("#1f2a6b", "#4d84c4", "34", "#", (3, 3), 2.0),
    ("#b0305a", "#e8606a", "31", "@", (5, 3), 2.0),
    ("#590d3b", "#b3fff0", "36", "&", (2, 2), 2.0),
)
_AUTO = ("#134e46", "#ceff0a", "32", "%", (9, 2), 3.0)
_OWN = {"auto": _AUTO, "epig": _EPIG, "bald": _BALD, "random": _RANDOM}


def styles(scores: Iterable[str]) -> dict[str, Style]:
    """Score -> style, in the order given; scores without a colour of their own take the next free one, in turn.

    >>> [(style.name, style.light) for style in styles(["random", "mine", "epig"]).values()]
    [('random', '#7b828c'), ('mine', '#8a1fd6'), ('EPIG', '#0068b3')]
    """
    looks: dict[str, Style] = {}
    others = 0
    for score in dict.fromkeys(scores):
        look = _OWN.get(score)
        if look is None:
            look = _OTHERS[others % len(_OTHERS)]
            others += 1
        rank = {"random": 0, "epig": 100, "auto": 101}.get(score, 1 + len(looks))
        looks[score] = Style(score_name(score), *look, rank)
    return looks


def scores_of(traces: Iterable[Trace]) -> list[str]:
    """The scores of these runs, each once, in the order in which they occur."""
    scores = list(dict.fromkeys(trace.score for trace in traces))
    if not scores:
        raise ValueError("traces must be runs of a simulation, but there are none.")
    return scores


def score_name(score: str) -> str:
    """A score as people write it: "epig" is EPIG."""
    return NAMES.get(score, score)


def metric_name(metric: str) -> str:
    """A metric as people write it.

    >>> metric_name("log_loss")
    'log loss'
    """
    return metric.replace("_", " ")


def apart(wanted: Sequence[float], *, least: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, in the same order, at least `least` from each other and within bounds.

    Where there is no room for all of them, they go on beyond `high`.

    >>> apart([5.0, 5.0, 9.5], least=1.0, low=0.0, high=10.0)
    [5.0, 6.0, 9.5]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    positions = [wanted[i] for i in order]
    for i in range(1, len(positions)):
        positions[i] = max(positions[i], positions[i - 1] + least)
    for i in reversed(range(len(positions))):
        positions[i] = min(positions[i], high - least * (len(positions) - 1 - i))
    for i in range(len(positions)):
        positions[i] = max(positions[i], low + least * i)
    by_index = dict(zip(order, positions, strict=True))
    return [by_index[i] for i in range(len(wanted))]


# ---- figures as files ----------------------------------------------------------------------------------------------


def plot_curves(
    traces: Iterable[Trace],
    path: str | os.PathLike[str] | None,
    *,
    metric: str | None = None,
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
    looks, metric = styles(scores_of(traces)), main_metric(traces, metric=metric)
    figure = _figure(*size, facecolor="white")
    _draw(figure.add_subplot(), _curves(traces, looks, metric), looks, metric_name(metric), title)
    if path is not None:
        kind = Path(path).suffix.lower()[1:]
        figure.savefig(path, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return figure


def dress(axes: Any, metric: str, title: str) -> None:
    """Few lines, no box: what is left is the curves."""
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold", parse_math=False)
    axes.set_xlabel("labels", color=INK)
    axes.set_ylabel(metric, color=INK, parse_math=False)
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, bottom=False, left=False)
    axes.margins(x=0)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)


def _figure(width: float, height: float, **options: Any) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib, which cannot be loaded: pip install matplotlib.") from error
    return Figure(figsize=(width, height), layout="constrained", **options)


def _curves(traces: Sequence[Trace], looks: Mapping[str, Style], metric: str) -> dict[str, Curve]:
    """Score -> curve, in the order in which they are drawn."""
    return {score: curve(traces, score, metric=metric) for score in sorted(looks, key=lambda each: looks[each].rank)}


def _draw(axes: Any, curves: Mapping[str, Curve], looks: Mapping[str, Style], metric: str, title: str) -> None:
    """The curves with their bands, each with its name at its end; no legend to look up."""
    for score, drawn in curves.items():
        style = looks[score]
        axes.plot(drawn.labels, drawn.mean, color=style.light, linestyle=style.stroke, linewidth=0.8 * style.width)
        low, high = drawn.mean - drawn.error, drawn.mean + drawn.error
        axes.fill_between(drawn.labels, low, high, color=style.light, alpha=0.15, linewidth=0)
    dress(axes, metric, title)
    low, high = axes.get_ylim()
    # The figure's height in lines, less what title and ticks take
    line = (high - low) * LINE * 10 / 72 / (axes.figure.get_figheight() - 0.8)
    ends = {score: drawn.mean[np.isfinite(drawn.mean)] for score, drawn in curves.items()}
    heights = apart([float(end[-1]) if len(end) else low for end in ends.values()], least=line, low=low, high=high)
    for (score, drawn), height in zip(curves.items(), heights, strict=True):
        axes.annotate(
            _short(looks[score].name),
            (drawn.labels[-1], height),
            xytext=(6, 0),
            textcoords="offset points",
            color=looks[score].light,
            va="center",
            fontweight="bold" if looks[score].rank == 100 else "normal",
            annotation_clip=False,
            parse_math=False,
        )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


# ---- figures inside a page -----------------------------------------------------------------------------------------


def curves_svg(
    traces: Sequence[Trace], looks: Mapping[str, Style], *, metric: str, size: tuple[int, int], hover: bool = True
) -> str:
    """The figure of `plot_curves` as SVG inside HTML, of a size in points; `hover` shows values under the pointer.

    Score number i has the CSS colour `--s<i>`, text `--soft`, lines `--rule`: right in light and dark.
    """
    figure, curves = _figure(size[0] / 72, size[1] / 72, dpi=72), _curves(traces, looks, metric)
    axes = figure.add_subplot()
    _draw(axes, curves, looks, "", "")
    colours = {style.light: f"var(--s{i})" for i, style in enumerate(looks.values())}
    label = (
        f"{metric_name(metric)} against the number of labels for {', '.join(style.name for style in looks.values())}"
    )
    svg = _svg(figure, colours, label)
    points = [_hover(axes, drawn, looks[score], size[1]) for score, drawn in curves.items()] if hover else []
    return svg.replace("</svg>", f"{''.join(points)}</svg>")


def intervals_svg(gaps: Sequence[Difference], *, label: str, width: int) -> str:
    """Differences as points with their 95 % intervals, one under the other, around a line at zero, as SVG in HTML."""
    figure = _figure(width / 72, (27 * len(gaps) + 27) / 72, dpi=72)
    axes = figure.add_subplot()
    dress(axes, "", "")
    finite = [value for gap in gaps for value in (gap.low, gap.mean, gap.high) if np.isfinite(value)]
    low, high = min(0.0, *finite), max(0.0, *finite)
    room = 0.05 * (high - low) or 0.05
    axes.set_xlim(low - room, high + room)
    axes.axvline(0, color=SOFT, linewidth=1.2, zorder=0)
    for row, gap in enumerate(gaps):
        colour, face = (ACCENT, ACCENT) if gap.clear else (SOFT, "none")
        ends = np.clip((gap.low, gap.high), *axes.get_xlim())
        axes.plot(ends, (row, row), color=colour, linewidth=2.5, solid_capstyle="round")
        axes.plot(gap.mean, row, "o", color=colour, markerfacecolor=face, markersize=10)
    axes.set(xlabel="", ylim=(len(gaps) - 0.5, -0.5), yticks=range(len(gaps)))
    axes.set_yticklabels([_short(f"minus {score_name(gap.b)}") for gap in gaps], parse_math=False)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    return _svg(figure, {ACCENT: "var(--accent)", SOFT: "var(--soft)"}, label)


def _svg(figure: Any, colours: Mapping[str, str], label: str) -> str:
    """A figure as an element of an HTML page: text as text, colours of the page, no ids but those it refers to."""
    import matplotlib

    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "askwell"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has other fonts
        figure.savefig(file, format="svg", dpi=72, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = file.getvalue().replace("xlink:href", "href")
    text = re.sub(r"(?s)^.*?<svg[^>]*>|<metadata>.*?</metadata>|<style.*?</style>", "", text)
    text = re.sub(r" id=\"[\w.]+_\d+\"| transform=\"rotate\(-0 [^\"]*\"| font-family: [^;\"]*;", "", text)
    text = re.sub(r"font: ((?:\d+ )?[\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", text)
    text = re.sub(r"\s*\n\s*", " ", text)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d)\d+", r"\1", tag[0]), text)  # a tenth of a point is enough
    for colour, name in {**colours, INK: "var(--soft)", FAINT: "var(--rule)"}.items():
        text = text.replace(colour, name)
    width, height = (round(72 * inches) for inches in figure.get_size_inches())
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg role="img" aria-label="{html.escape(label)}" {size}>{text}'


def _hover(axes: Any, drawn: Curve, style: Style, height: int) -> str:
    """Unseen discs that show the value when a pointer rests on them."""
    parts = []
    finite = np.flatnonzero(np.isfinite(drawn.mean))
    for i, (x, y) in zip(finite, axes.transData.transform(np.c_[drawn.labels, drawn.mean][finite]), strict=True):
        error = f" ± {drawn.error[i]:.3f}" if drawn.runs[i] > 1 else ""
        text = html.escape(f"{style.name}, {drawn.labels[i]} labels: {drawn.mean[i]:.3f}{error}")
        parts.append(f'<circle class="point" cx="{x:.1f}" cy="{height - y:.1f}" r="7"><title>{text}</title></circle>')
    return "".join(parts)
