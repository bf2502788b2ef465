"""A report of a simulation as one HTML file: opens anywhere, loads nothing, in light and dark, on any screen."""

import html
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askwell.acquisition import MEANINGS
from askwell.report.chart import curves_svg, intervals_svg
from askwell.report.gallery import Picture
from askwell.report.styles import Style, metric_name, score_name, scores_of, styles
from askwell.simulation.curves import (
    LOWER_IS_BETTER,
    Difference,
    Standing,
    Trace,
    against_best,
    curve,
    summary,
    verdict,
)

if TYPE_CHECKING:
    from askwell.simulation import Simulation

__all__ = ["html_report"]

MAIN = "accuracy"
FIRST_QUESTIONS = 12
ABOUT = "Made with askwell: which examples to label next, so that a model predicts well on the inputs you care about."
NOTHING_LOADED = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


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

    Curves with bands, the verdict in words, summary, paired differences, the other metrics, what was asked first,
    settings and versions. `intro` is text, paragraphs apart by blank lines; `figures` come after the curves; `repeat`
    is what to run to get the same again; `ids` are what the rows of the pool are called, to be found again. The file
    is there whole or not at all.
    """
    traces = list(simulation.traces)
    looks = styles(scores_of(traces))
    metrics = _metrics(traces)
    rows = {row.score: row for row in summary(traces, metric=metrics[0])}
    parts = [
        _header(title, intro, verdict(traces, metric=metrics[0])),
        _meanings(looks),
        _cards(rows, looks, metrics[0]),
        _curves(traces, looks, metrics[0]),
        *(_picture(picture) for picture in figures),
        _table(rows, looks, metrics[0]),
        _differences(traces, metrics[0]),
        _other_metrics(traces, looks, metrics[1:]),
        _first_questions(traces, looks, ids),
        _settings(simulation.settings, repeat),
    ]
    file = Path(path)
    _write(file, _document(title, looks, "\n".join(parts)))
    return file


# ---- parts of the page ---------------------------------------------------------------------------------------------


def _document(title: str, looks: Mapping[str, Style], body: str) -> str:
    rows = " ".join(f'[data-score="{_css_text(score)}"] {{ --c: var(--s{i}); }}' for i, score in enumerate(looks))
    style = "\n".join(
        (
            Path(__file__).with_name("page.css").read_text("utf-8"),
            f":root {{ {_colours(looks, 'light')} }}",
            f"@media (prefers-color-scheme: dark) {{ :root {{ {_colours(looks, 'dark')} }} }}",
            rows,
        )
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{NOTHING_LOADED}">
<title>{html.escape(title)}</title>
<style>
{style}
</style>
</head>
<body>
<main>
{body}
<footer>{html.escape(ABOUT)}</footer>
</main>
</body>
</html>
"""


def _header(title: str, intro: str, words: str) -> str:
    said = "".join(f"<p>{html.escape(line)}</p>" for line in words.splitlines() if line)
    lead = "".join(f'<p class="lead">{html.escape(part)}</p>' for part in intro.split("\n\n") if part.strip())
    return f'<header><h1>{html.escape(title)}</h1>{lead}<div class="verdict">{said}</div></header>'


def _meanings(looks: Mapping[str, Style]) -> str:
    """What the scores are, in a line each."""
    known = [(looks[score].name, MEANINGS[score]) for score in looks if score in MEANINGS]
    lines = "".join(f"<li><b>{html.escape(name)}</b>: {html.escape(text)}.</li>" for name, text in known)
    return f'<ul class="note">{lines}</ul>' if lines else ""


def _cards(rows: Mapping[str, Standing], looks: Mapping[str, Style], metric: str) -> str:
    """The one number of each score, large."""
    cards = []
    for score, row in rows.items():
        error = f"± {row.area_error:.3f}, " if row.runs > 1 else ""
        cards.append(
            f'<div class="card" data-score="{html.escape(score)}"><b>{html.escape(looks[score].name)}</b>'
            f"<strong>{row.area:.3f}</strong><small>{error}mean {metric_name(metric)} over the curve</small></div>"
        )
    return f'<div class="cards">{"".join(cards)}</div>'


def _curves(traces: list[Trace], looks: Mapping[str, Style], metric: str) -> str:
    name = metric_name(metric)
    runs = max(int(curve(traces, score, metric=metric).runs.max()) for score in looks)
    band = f"Mean of {runs} seeds; the bands are one standard error." if runs > 1 else "One seed."
    return (
        f"<section><h2>{html.escape(name.capitalize())} by number of labels</h2>"
        f"<figure>{_chart(traces, looks, metric)}<figcaption>{band}</figcaption></figure></section>"
    )


def _chart(traces: list[Trace], looks: Mapping[str, Style], metric: str, *, small: bool = False) -> str:
    """Twice: for wide screens and for phones, since text in a drawing shrinks with it. CSS shows one of them."""
    curves = {score: curve(traces, score, metric=metric) for score in looks}
    label = f"{metric_name(metric)} against the number of labels for {', '.join(s.name for s in looks.values())}"
    width, height = (390, 270) if small else (796, 430)
    wide = curves_svg(curves, looks, label=label, width=width, height=height, name="wide")
    return wide + curves_svg(curves, looks, label=label, width=364, height=280, points=False, name="narrow")


def _picture(picture: Picture) -> str:
    caption = f"<figcaption>{html.escape(picture.caption)}</figcaption>" if picture.caption else ""
    return f"<section><h2>{html.escape(picture.title)}</h2><figure>{picture.body}{caption}</figure></section>"


def _table(rows: Mapping[str, Standing], looks: Mapping[str, Style], metric: str) -> str:
    name, level = html.escape(metric_name(metric)), next(iter(rows.values())).level
    what = "the value of the weakest score" if metric in LOWER_IS_BETTER else "95 % of the value of the best score"
    head = (
        "score",
        f"{name},<br>mean over the curve",
        f"{name}<br>at the end",
        f"labels to<br>reach {level:.3f}",
        "seeds",
    )
    lines = []
    for score, row in rows.items():
        means = (_number(row.area, row.area_error, row.runs), _number(row.final, row.final_error, row.runs))
        needed = "not reached" if row.labels_to_level is None else f"{row.labels_to_level:g}"
        cells = (*means, needed, row.runs)
        lines.append(f"<tr>{_named(score, looks)}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    several = "± is one standard error over seeds. " if any(row.runs > 1 for row in rows.values()) else ""
    note = (
        f"{several}{level:.3f} is {what} at the end, on average. The number of labels at which it was first "
        "reached is the median over seeds."
    )
    top = f"<thead><tr>{''.join(f'<th>{h}</th>' for h in head)}</tr></thead>"
    return (
        f'<section><h2>Summary table</h2><div class="scroll"><table>{top}<tbody>{"".join(lines)}</tbody></table></div>'
        f'<p class="note">{note}</p></section>'
    )


def _differences(traces: list[Trace], metric: str) -> str:
    """The best score against each of the others, seed by seed."""
    gaps = against_best(traces, metric=metric)
    if not gaps or min(gap.runs for gap in gaps) < 2:
        return ""
    first, pairs = score_name(gaps[0].a), math.comb(len(gaps) + 1, 2)
    label = f"{first} minus the others, mean {metric_name(metric)} over the curve"
    names = [f"minus {score_name(gap.b)}" for gap in gaps]
    wide = intervals_svg(gaps, names, label=label, width=796).replace("intervals", "intervals wide", 1)
    narrow = intervals_svg(gaps, names, label=label, width=364).replace("intervals", "intervals narrow", 1)
    runs = max(gap.runs for gap in gaps)
    words = "".join(f"<li>{_gap_words(gap)}</li>" for gap in gaps)
    together = (
        f", adjusted for all {pairs} pairs of scores, since the best score was picked from the same runs"
        if pairs > 1
        else ""
    )
    note = (
        "Runs with the same seed start from the same labels, so each difference is taken within a seed. The bars are "
        f"95 % confidence intervals of the mean (Student's t){together}; p is from Wilcoxon's signed-rank test"
        f"{', adjusted for all pairs (Holm)' if pairs > 1 else ''}. With {runs} seeds no p is below "
        f"{min(1.0, pairs * 2 / 2**runs):.2g}, however large the difference."
    )
    return (
        f"<section><h2>{html.escape(first)} against the others, seed by seed</h2>"
        f'<figure>{wide}{narrow}</figure><ul>{words}</ul><p class="note">{note}</p></section>'
    )


def _gap_words(gap: Difference) -> str:
    return html.escape(
        f"{score_name(gap.a)} minus {score_name(gap.b)}: {gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f}), "
        f"better in {gap.wins} of {gap.runs} seeds, p = {gap.p_value:.2g}."
    )


def _other_metrics(traces: list[Trace], looks: Mapping[str, Style], metrics: Sequence[str]) -> str:
    if not metrics:
        return ""
    figures = "".join(
        f"<figure><h3>{html.escape(metric_name(metric).capitalize())}"
        f"{' <span>lower is better</span>' if metric in LOWER_IS_BETTER else ''}</h3>"
        f"{_chart(traces, looks, metric, small=True)}</figure>"
        for metric in metrics
    )
    return f'<section><h2>Other metrics</h2><div class="pair">{figures}</div></section>'


def _first_questions(traces: list[Trace], looks: Mapping[str, Style], ids: Sequence[Any] | None) -> str:
    """Which rows each score asked for first, in the first seed."""
    seed = min(trace.seed for trace in traces)
    lines = []
    for trace in (t for score in looks for t in traces if (t.score, t.seed) == (score, seed)):
        asked = [row if ids is None else ids[row] for row in trace.questions[trace.labels[0] :][:FIRST_QUESTIONS]]
        lines.append(
            f'<tr>{_named(trace.score, looks)}<td class="words">'
            f"{html.escape(', '.join(map(str, asked))) or 'none'}</td></tr>"
        )
    by = "Rows of the pool, counted from 0" if ids is None else "Ids of the file, or its row numbers if it has none"
    note = f"{by}, after the initial labels; seed {seed}."
    return (
        f'<section><h2>First queries</h2><p class="note">{note}</p>'
        f'<div class="scroll"><table><tbody>{"".join(lines)}</tbody></table></div></section>'
    )


def _settings(settings: Mapping[str, Any], repeat: str) -> str:
    items = "".join(
        f"<dt>{html.escape(metric_name(str(k)))}</dt><dd>{html.escape(_text(v))}</dd>" for k, v in settings.items()
    )
    again = f"<h2>Reproduce</h2><pre>{html.escape(repeat)}</pre>" if repeat else ""
    return f"<section>{again}<h2>Settings and versions</h2><dl>{items}</dl></section>"


# ---- words and numbers ---------------------------------------------------------------------------------------------


def _metrics(traces: list[Trace]) -> list[str]:
    """The metrics that all runs have, the main one first."""
    shared = [name for name in traces[0].metrics if all(name in trace.metrics for trace in traces)]
    if not shared:
        raise ValueError("traces must have a metric in common, but they have none.")
    return sorted(shared, key=lambda name: name != MAIN)


def _named(score: str, looks: Mapping[str, Style]) -> str:
    shown = html.escape(looks[score].name)
    return f'<td data-score="{html.escape(score)}"><span class="dot"></span>{shown}</td>'


def _number(value: float, error: float, runs: int) -> str:
    return f"{value:.3f} <small>± {error:.3f}</small>" if runs > 1 else f"{value:.3f}"


def _text(value: Any) -> str:
    """A setting as people write it: lists with commas, mappings as pairs."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return "none" if value is None else str(value)


def _colours(looks: Mapping[str, Style], tone: str) -> str:
    return " ".join(f"--s{i}: {getattr(style, tone)};" for i, style in enumerate(looks.values()))


def _css_text(text: str) -> str:
    """Any text inside the quotes of a CSS attribute selector: everything but letters and digits as code points."""
    return "".join(c if c.isascii() and c.isalnum() else f"\\{ord(c):x} " for c in text)


def _write(file: Path, text: str) -> None:
    """Whole or not at all."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_text(text, "utf-8")
        os.replace(beside, file)
    finally:
        beside.unlink(missing_ok=True)
