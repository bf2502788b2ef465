"""Synthetic data: BALD with pools of 100, 1,000, 10,000 and 100,000; 100 seeds, as in the paper.

A seed's smaller pool is the beginning of its larger one. The runs with the largest are those of `2d_data`.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from askwell.report.figures import dress
from askwell.simulation.curves import Trace, curve, paired, summary
from experiments.drawing import judged
from experiments.figure import Figure, Setting
from experiments.results import Results
from experiments.two_d import BUDGET, FAMILY, OPTIONS, pool_name, run

__all__ = ["FIGURE"]

SIZES = (100, 1_000, 10_000, 100_000)
SHADES = ("#9ecae1", "#6baed6", "#3182bd", "#08519c")  # darker is larger
STEPS = BUDGET - 3


def draw(results: Results) -> Any:
    """One panel, a curve per size: the mean over seeds, and a band of one standard error."""
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(5.2, 4.2), layout="constrained", facecolor="white")
    axes, traces = picture.add_subplot(), _by_size(results)
    for name, shade in zip(_sizes(traces), SHADES, strict=False):
        found = curve(traces, name)
        axes.plot(found.labels, found.mean, color=shade, label=name)
        low, high = found.mean - found.error, found.mean + found.error
        axes.fill_between(found.labels, low, high, color=shade, alpha=0.15, linewidth=0)
    seeds = len({trace.seed for trace in traces})
    dress(axes, "accuracy", f"BALD ({seeds} seed{'s' * (seeds != 1)})")
    picture.legend(loc="outside lower center", ncols=2, frameon=False)
    return picture


def verdict(results: Results) -> str:
    """Final accuracy and area per size, and whether each tenfold pool is worse, paired by seed."""
    traces = _by_size(results)
    rows = [
        f"| {row.score} | {row.runs} | {row.final:.3f} ± {row.final_error:.3f} "
        f"| {row.area:.3f} ± {row.area_error:.3f} |"
        for row in summary(traces)
    ]
    gaps = [paired(traces, larger, smaller) for smaller, larger in pairwise(_sizes(traces))]
    notes = [f"- {gap.a} - {gap.b} = {gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})" for gap in gaps]
    worse = [True if gap.high < 0 else False if gap.low > 0 else None for gap in gaps]
    return "\n\n".join(
        [
            "\n".join(["| BALD | seeds | final accuracy | mean over the curve |", "|---|---|---|---|", *rows]),
            "Differences in mean accuracy over the curve, paired by seed, with 95 % intervals:",
            "\n".join(notes),
            judged("A pool ten times as large makes BALD worse", worse, [f"the {gap.a}" for gap in gaps]),
        ]
    )


def _by_size(results: Results) -> list[Trace]:
    """All runs, smallest pools first, each under the name of its pool."""
    known = results.names("setting")
    names = [name for name in map(pool_name, SIZES) if name in known]
    return [replace(trace, score=name) for name in names for trace in results.traces(name)]


def _sizes(traces: list[Trace]) -> list[str]:
    return list(dict.fromkeys(trace.score for trace in traces))


FIGURE = Figure(
    name="bald_pool_size",
    content="BALD with pools of 100 to 100,000 inputs",
    claim="BALD can fail on big pools: the more unlabelled inputs there are, the worse the accuracy",
    settings=tuple(
        Setting(
            pool_name(size),
            ("bald",),
            {"quick": 5, "standard": 100, "full": 100},
            {"quick": STEPS, "standard": STEPS, "full": STEPS},
        )
        for size in SIZES
    ),
    run=run,
    draw=draw,
    verdict=verdict,
    options=OPTIONS,
    family=FAMILY,
)
