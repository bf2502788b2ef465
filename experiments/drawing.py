"""What figures of learning curves have in common: panels side by side, a table per panel, and words about the claim."""

from collections.abc import Sequence
from typing import Any, Literal

from askwell.report.figures import dress, metric_name, score_name, scores_of, styles
from askwell.simulation.curves import Difference, Trace, curve, paired, summary
from experiments.results import Results

__all__ = ["above", "ahead", "comparable", "curve_panels", "curve_table", "judged", "measure_table"]

LOSSES = ("log_loss",)  # metrics of which less is better
LEVEL = 0.01  # a difference that is no larger is none to speak of


def curve_panels(
    results: Results, *, columns: int = 3, metric: str = "accuracy", settings: Sequence[str] | None = None
) -> Any:
    """A Matplotlib figure: one panel per setting, the mean over seeds of each score, bands of one standard error."""
    from matplotlib.figure import Figure

    names = list(settings if settings is not None else results.names("setting"))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * min(columns, len(names)), 3.4 * rows + 0.4), layout="constrained", facecolor="white")
    looks = styles(results.names("score"))
    handles: dict[str, Any] = {}
    for place, name in enumerate(names):
        axes = figure.add_subplot(rows, min(columns, len(names)), place + 1)
        traces = results.traces(name)
        for score in sorted(scores_of(traces), key=lambda each: looks[each].rank):
            look, found = looks[score], curve(traces, score, metric=metric)
            line: Any = "-" if look.dash == (1, 0) else (0, look.dash)
            (handles[score],) = axes.plot(
                found.labels,
                found.mean,
                color=look.light,
                linestyle=line,
                linewidth=0.7 * look.width,
                label=_shown(score),
            )
            low, high = found.mean - found.error, found.mean + found.error
            axes.fill_between(found.labels, low, high, color=look.light, alpha=0.15, linewidth=0)
        seeds = min(sum(trace.score == score for trace in traces) for score in scores_of(traces))
        title = f"{name} ({seeds} seed{'s' * (seeds != 1)})"
        dress(axes, metric_name(metric) if place % columns == 0 else "", title)
    shown = [handles[score] for score in looks if score in handles]
    figure.legend(handles=shown, loc="outside lower center", ncols=min(len(shown), 6), frameon=False)
    return figure


def comparable(traces: Sequence[Trace]) -> list[Trace]:
    """The traces at the numbers of labels that all of them have, so that one label at a time and ten compare."""
    common = sorted(set.intersection(*({*trace.labels} for trace in traces)))
    kept = []
    for trace in traces:
        places = [trace.labels.index(count) for count in common]
        values = {name: tuple(column[place] for place in places) for name, column in trace.metrics.items()}
        kept.append(Trace(trace.score, trace.seed, tuple(common), values, ()))
    return kept


def curve_table(results: Results, against: Sequence[tuple[str, str]], *, metric: str = "accuracy") -> str:
    """Markdown: per setting and score the final value and the area (the mean over the curve), mean ± standard error.

    Below each, the differences in area between the pairs of scores in `against`, paired by seed, with 95 % intervals.
    """
    lines = [
        f"| setting | score | seeds | final {metric_name(metric)} | mean over the curve |",
        "|---|---|---|---|---|",
    ]
    notes = []
    for setting in results.names("setting"):
        traces = comparable(results.traces(setting))
        scores = scores_of(traces)
        lines += [
            f"| {setting} | {_shown(row.score)} | {row.runs} | {row.final:.3f} ± {row.final_error:.3f} "
            f"| {row.area:.3f} ± {row.area_error:.3f} |"
            for row in summary(traces, metric=metric)
        ]
        for a, b in against:
            if a in scores and b in scores:
                notes.append(f"- {setting}: {_words(paired(traces, a, b, metric=metric))}")
    return "\n".join(
        [*lines, "", f"Differences in mean {metric_name(metric)} over the curve, paired by seed:", "", *notes]
    )


def ahead(
    results: Results,
    setting: str,
    a: str,
    b: str,
    *,
    of: Literal["area", "final"] = "area",
    margin: float = 0.0,
    metric: str = "accuracy",
) -> Literal["ahead", "level", "behind", "unknown"]:
    """Where score `a` stands against `b`: "level" where the 95 % interval holds zero, "unknown" with one seed.

    With a margin, against `b` less that margin: "ahead" means that no more than it is lost. Of a loss, less is ahead.
    """
    return _standing(paired(comparable(results.traces(setting)), a, b, of=of, metric=metric), margin)


def _standing(gap: Difference, margin: float = 0.0) -> Literal["ahead", "level", "behind", "unknown"]:
    if gap.runs < 2:
        return "unknown"
    low, high = (-gap.high, -gap.low) if gap.metric in LOSSES else (gap.low, gap.high)
    return "ahead" if low > -margin else "behind" if high < -margin else "level"


def measure_table(results: Results, against: Sequence[tuple[str, str]], metrics: Sequence[str]) -> str:
    """Markdown: the pairs' differences in area by each metric, with 95 % intervals, and which of the two is better."""
    here = [metric for metric in metrics if metric in results.columns]
    lines = [f"| setting | difference | {' | '.join(map(metric_name, here))} |", "|---|---|" + "---|" * len(here)]
    for setting in results.names("setting"):
        traces = comparable(results.traces(setting))
        scores = scores_of(traces)
        for a, b in against:
            if a in scores and b in scores:
                cells = [_cell(paired(traces, a, b, metric=metric)) for metric in here]
                lines.append(f"| {setting} | {_shown(a)} - {_shown(b)} | {' | '.join(cells)} |")
    marks = "**bold**: the first is better, *italic*: the second is, plain: no difference shown"
    return "\n".join([f"Means over the curve by each measure, with 95 % intervals ({marks}):", "", *lines])


def _cell(gap: Difference) -> str:
    text = f"{gap.mean:+.3f}" if gap.runs < 2 else f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
    mark = {"ahead": "**", "behind": "*"}.get(_standing(gap), "")
    return f"{mark}{text}{mark}"


def above(
    results: Results,
    claim: str,
    a: str,
    b: str,
    *,
    margin: float = 0.0,
    matches: bool = False,
    metric: str = "accuracy",
) -> str:
    """What became of the claim that score `a` is above `b`, or a margin below at most, in the settings that have both.

    With `matches` level will do. Where the interval leaves it open, it is said how large a difference can be at most;
    up to `LEVEL` that is an answer.
    """
    holds: dict[str, bool | str | None] = {}
    for setting in results.names("setting"):
        traces = comparable(results.traces(setting))
        if {a, b} <= {*scores_of(traces)}:
            gap = paired(traces, a, b, metric=metric)
            most = max(-gap.low, gap.high)
            small = f"no difference larger than {most:.3f} in"
            open_ = True if matches else small if most <= LEVEL else f"not decided (at most {most:.3f} either way) in"
            words = {"ahead": True, "level": open_, "behind": False, "unknown": None}
            holds[setting] = words[_standing(gap, margin)]
    return judged(claim, [*holds.values()], [*holds])


def judged(claim: str, holds: Sequence[bool | str | None], places: Sequence[str]) -> str:
    """A claim and what became of it in each place: True holds, False does not, None is not decided, or in these words.

    >>> print(judged("EPIG is above BALD", [True, None, False], ["Magic", "Satellite", "Vowel"]))
    **EPIG is above BALD**: holds in Magic; not decided in Satellite; does not hold in Vowel.
    >>> print(judged("EPIG is above BALD", [True, "no difference larger than 0.01 in"], ["Magic", "Vowel"]))
    **EPIG is above BALD**: holds in Magic; no difference larger than 0.01 in Vowel.
    """
    words: dict[bool | str | None, str] = {True: "holds in"}
    words |= {each: each for each in holds if isinstance(each, str)} | {
        None: "not decided in",
        False: "does not hold in",
    }
    parts = [
        f"{text} {', '.join(place for place, each in zip(places, holds, strict=True) if each is value or each == text)}"
        for value, text in words.items()
        if any(each is value or each == text for each in holds)
    ]
    return f"**{claim}**: {'; '.join(parts)}."


def _shown(score: str) -> str:
    """A score as people write it, also where a name says more than the score: "epig, best 20"."""
    first, *rest = score.split(", ")
    return ", ".join([score_name(first), *rest])


def _words(gap: Difference) -> str:
    a, b = _shown(gap.a), _shown(gap.b)
    if gap.runs < 2:
        return f"{a} - {b} = {gap.mean:+.3f} in the one seed that was run."
    interval = f"{gap.mean:+.3f} ({gap.low:+.3f} to {gap.high:+.3f})"
    return f"{a} - {b} = {interval}, better in {gap.wins} of {gap.runs} seeds."
