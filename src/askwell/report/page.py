"""A report of a simulation as one HTML file: opens anywhere, loads nothing, in light and dark, on any screen."""

import base64
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from askwell.acquisition import MEANINGS
from askwell.checks import write_file
from askwell.report.figures import Style, curves_svg, intervals_svg, metric_name, score_name, scores_of, styles
from askwell.simulation.curves import Difference, Trace, against_best, shown_value, summary, verdict
from askwell.simulation.metrics import lower_is_better

if TYPE_CHECKING:
    from jinja2 import Environment

    from askwell.simulation import Simulation

__all__ = ["Picture", "Tile", "TileRow", "gallery", "html_report", "png"]

HERE = Path(__file__).parent
FIRST_QUERIES = 12
WIDE, NARROW, SMALL = (612, 330), (280, 216), (300, 208)  # points; text shrinks with a figure, so phones get their own


@final
@dataclass(frozen=True)
class Picture:
    """A part of a report with a title. `body` is HTML or SVG and goes in as it is: escape what is not yours."""

    title: str
    body: str
    caption: str = ""


@final
@dataclass(frozen=True, eq=False)
class Tile:
    """A small image `[h, w]` from 0 (ground) to 1 (ink), and what is written under it."""

    image: Any
    label: str = ""
    marked: bool = False  # drawn in the row's colour; the others step back


@final
@dataclass(frozen=True, eq=False)
class TileRow:
    """Tiles side by side, under a name. `score` gives them that score's colour."""

    name: str
    tiles: Sequence[Tile]
    note: str = ""
    score: str = ""


def gallery(title: str, rows: Sequence[TileRow], *, caption: str = "") -> Picture:
    """Rows of images as a part of a report.

    >>> picture = gallery("First queries", [TileRow("EPIG", [Tile([[0, 1], [1, 0]], "7", marked=True)], score="epig")])
    >>> picture.title, picture.body.count("<img")
    ('First queries', 1)
    """
    return Picture(title, _templates().get_template("gallery.html").render(rows=rows), caption)


def png(image: Any) -> bytes:
    """An image `[h, w]` from 0 (white) to 1 (black) as a PNG file in 256 greys; what lies outside is cut off.

    >>> png([[0.0, 1.0]])[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    from PIL import Image

    ink = np.asarray(image, np.float64)
    if ink.ndim != 2 or ink.size == 0 or not np.isfinite(ink).all():
        raise ValueError(f"image must be finite numbers [h, w], but its shape is {ink.shape}.")
    file = io.BytesIO()
    Image.fromarray(np.rint(255 * (1 - np.clip(ink, 0, 1))).astype(np.uint8)).save(file, "PNG", optimize=True)
    return file.getvalue()


def html_report(
    simulation: "Simulation",
    path: str | os.PathLike[str],
    *,
    title: str,
    intro: str = "",
    figures: Sequence[Picture] = (),
    repeat: str = "",
    ids: Sequence[Any] | None = None,
) -> Path:
    """Write a report of a simulation as one HTML file that needs no other, and return its path.

    Curves with bands, the verdict as sentences, summary, paired differences, the other metrics, the first queries,
    settings and versions. `intro` is text, paragraphs separated by blank lines; `figures` come after the curves;
    `repeat` is the command that gives the same again; `ids` are what the rows of the pool are called. The file appears
    whole or not at all.
    """
    traces = list(simulation.traces)
    looks = styles(scores_of(traces))
    main, *others = _metrics(traces)
    rows = summary(traces, metric=main)
    seed = min(trace.seed for trace in traces)
    text = (
        _templates()
        .get_template("page.html")
        .render(
            title=title,
            css=(HERE / "page.css").read_text("utf-8"),
            looks=looks,
            intro=[part for part in intro.split("\n\n") if part.strip()],
            verdict=[line for line in verdict(traces, metric=main).splitlines() if line],
            meanings={looks[score].name: MEANINGS[score] for score in looks if score in MEANINGS},
            rows=rows,
            runs=max(row.runs for row in rows),
            level=rows[0].level,
            main=main,
            metric=metric_name(main),
            lower={name for name in (main, *others) if lower_is_better(name)},
            lower_is_better=lower_is_better(main),
            curves=_charts(traces, looks, main, WIDE),
            figures=figures,
            **_differences(against_best(traces, metric=main), main),
            others={name: _charts(traces, looks, name, SMALL) for name in others},
            seed=seed,
            first={trace.score: _first(trace, ids) for trace in traces if trace.seed == seed},
            has_ids=ids is not None,
            repeat=repeat,
            settings=simulation.settings,
        )
    )
    file = Path(path)
    write_file(file, text)
    return file


def _metrics(traces: list[Trace]) -> list[str]:
    """The metrics that all runs have, the main one first."""
    shared = [name for name in traces[0].metrics if all(name in trace.metrics for trace in traces)]
    if not shared:
        raise ValueError("traces must have a metric in common, but they have none.")
    return sorted(shared, key=lambda name: name != "accuracy")


def _charts(traces: list[Trace], looks: Mapping[str, Style], metric: str, size: tuple[int, int]) -> dict[str, str]:
    """The curves for wide screens and for phones: CSS shows one of them."""
    wide = curves_svg(traces, looks, metric=metric, size=size)
    return {"wide": wide, "narrow": curves_svg(traces, looks, metric=metric, size=NARROW, hover=False)}


def _differences(gaps: Sequence[Difference], metric: str) -> dict[str, Any]:
    """The best score against each of the others, seed by seed; nothing if there is only one seed."""
    if not gaps or min(gap.runs for gap in gaps) < 2:
        return {"gaps": ()}
    best, pairs = score_name(gaps[0].a), math.comb(len(gaps) + 1, 2)
    label = f"{best} minus the others, mean {metric_name(metric)} over the curve"
    intervals = {
        name: intervals_svg(gaps, label=label, width=width) for name, (width, _) in (("wide", WIDE), ("narrow", NARROW))
    }
    smallest = min(1.0, pairs * 2 / 2 ** max(gap.runs for gap in gaps))
    return {"gaps": gaps, "best": best, "pairs": pairs, "intervals": intervals, "smallest_p": smallest}


def _first(trace: Trace, ids: Sequence[Any] | None) -> list[Any]:
    """What a score queried first, after the initial labels."""
    queries = trace.questions[trace.labels[0] :][:FIRST_QUERIES]
    return list(queries) if ids is None else [ids[row] for row in queries]


# ---- templates -----------------------------------------------------------------------------------------------------


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    templates.trim_blocks = templates.lstrip_blocks = True
    templates.filters |= {
        "css_text": _css_text,
        "metric_name": metric_name,
        "png": lambda image: base64.b64encode(png(image)).decode("ascii"),
        "setting": _setting,
        "shown": lambda value, metric, sign=False: (
            ("+" if sign and value >= 0 else "") + shown_value(value, metric=metric)
        ),
        "upper_first": lambda text: text[:1].upper() + text[1:],
    }
    return templates


def _setting(value: Any) -> str:
    """A setting as people write it: lists with commas, mappings as pairs."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_setting(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_setting(item) for item in value)
    return "none" if value is None else str(value)


def _css_text(text: str) -> str:
    """Any text inside the quotes of a CSS attribute selector: everything but letters and digits as code points."""
    return "".join(c if c.isascii() and c.isalnum() else f"\\{ord(c):x} " for c in text)
