"""Learning curves and honest comparisons of them: means, areas, labels needed, differences paired by seed.

A `Trace` is one simulated run: one score, one seed, and a metric at each number of labels. Runs of different scores and
the same seed began with the same labels, so their *differences* are compared: what both share cancels out.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, final

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import stdtrit

from askwell.simulation.metrics import CLASSES, lower_is_better

__all__ = [
    "Curve",
    "Difference",
    "Saving",
    "Standing",
    "Trace",
    "against_best",
    "area",
    "curve",
    "holm",
    "labels_saved",
    "labels_to_reach",
    "main_metric",
    "paired",
    "savings",
    "shown_value",
    "signed_rank",
    "summary",
    "verdict",
]

TIE = 1e-12  # accuracies are fractions: equal ones may differ by a rounding
_ACRONYMS = {"epig": "EPIG", "bald": "BALD", "badge": "BADGE"}


@final
@dataclass(frozen=True)
class Trace:
    """One simulated run. Traces are equal if they asked and found the same, however long it took."""

    score: str
    seed: int
    labels: tuple[int, ...]  # known at each evaluation, growing
    metrics: Mapping[str, tuple[float, ...]]  # name -> one value per entry of `labels`
    questions: tuple[int, ...]  # positions in the order labelled, the initial ones first
    seconds: float = field(default=0.0, compare=False)
    cost: tuple[float, ...] = ()  # of all labels at each evaluation, where labels have costs
    predictions: np.ndarray | None = field(
        default=None, compare=False, repr=False
    )  # [t, n, c], or [t, n, 2]: mean, variance


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """A metric against the number of labels, over seeds."""

    labels: np.ndarray  # [t]
    mean: np.ndarray  # [t]
    error: np.ndarray  # [t], the standard error of the mean; 0 for one run
    runs: np.ndarray  # [t], how many runs have a value there


@final
@dataclass(frozen=True)
class Difference:
    """How much higher a score's metric is than another's, paired by seed."""

    a: str
    b: str
    metric: str
    mean: float  # of a minus b
    error: float  # the standard error of the mean; 0 for one run
    low: float  # 95 % interval of the mean, by Student's t, for all comparisons together; without bounds for one run
    high: float
    p_value: float  # of Wilcoxon's signed ranks, two-sided, exact; of `against_best` by Holm's method
    wins: int  # seeds in which a is the better one: higher, or lower for a loss
    runs: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@final
@dataclass(frozen=True)
class Standing:
    """Where a score stands among the others: one row of a summary."""

    score: str
    runs: int
    final: float  # the mean of the last values
    final_error: float
    area: float  # the mean of the areas
    area_error: float
    level: float  # 95 % of what the best score has at the end, on average; of a loss, what the worst one has
    labels_to_level: float | None  # median over seeds; None where half of them or more never get there
    against: Difference | None  # area of this score minus that of the best other one, adjusted as in `against_best`


@final
@dataclass(frozen=True)
class Saving:
    """With how many labels a score is as good as the baseline is at the end."""

    score: str
    baseline: str
    metric: str
    at: int  # labels that the baseline has at the end
    level: float  # what it has reached there, on average
    labels: int | None  # that the score needs for it, on average; None: it does not get there
    low: int | None  # 95 % interval; None: it surely does not get there
    high: int | None  # None: it may not get there
    runs: int


# ---- one run -------------------------------------------------------------------------------------------------------


def area(trace: Trace, *, metric: str | None = None) -> float:
    """The mean of the metric over the labels axis: the trapezoid under the curve over its length, in the metric's unit.

    >>> area(Trace("epig", 0, (2, 3, 6), {"accuracy": (0.25, 0.75, 0.75)}, (5, 1, 2, 0, 3, 4)))
    0.6875
    """
    values, labels = _values(trace, metric), np.asarray(trace.labels, np.float64)
    if len(values) == 1:
        return float(values[0])
    return float(np.diff(labels) @ (values[1:] + values[:-1]) / 2 / (labels[-1] - labels[0]))


def labels_to_reach(trace: Trace, level: float, *, metric: str | None = None) -> int | None:
    """The number of labels at which the metric first is as good as `level`; None if it never is.

    The first time, without smoothing: it may fall behind again.

    >>> trace = Trace("epig", 0, (2, 3, 4, 5), {"accuracy": (0.4, 0.7, 0.6, 0.8)}, (5, 1, 2, 0, 3))
    >>> labels_to_reach(trace, 0.65), labels_to_reach(trace, 0.9)
    (3, None)
    """
    values, metric = _values(trace, metric), main_metric([trace], metric=metric)
    reached = np.flatnonzero(values <= level if lower_is_better(metric) else values >= level)
    return trace.labels[reached[0]] if len(reached) else None


def _final(trace: Trace, *, metric: str | None) -> float:
    return float(_values(trace, metric)[-1])


def _values(trace: Trace, metric: str | None) -> np.ndarray:
    metric = main_metric([trace], metric=metric)
    if metric not in trace.metrics:
        raise ValueError(f"metric must be one of {', '.join(sorted(trace.metrics))}, but it is {metric!r}.")
    if not trace.labels:
        raise ValueError(
            f"traces must have been evaluated at least once, but {trace.score}, seed {trace.seed}, was not."
        )
    return np.asarray(trace.metrics[metric], np.float64)


# ---- several runs --------------------------------------------------------------------------------------------------


def curve(traces: Iterable[Trace], score: str, *, metric: str | None = None) -> Curve:
    """Mean and standard error over a score's runs at each number of labels that any of them was evaluated at.

    >>> runs = [Trace("epig", seed, (2, 3), {"accuracy": (0.5, 0.5 + seed / 10)}, (0, 1, 2)) for seed in (0, 2)]
    >>> found = curve(runs, "epig")
    >>> found.labels, found.mean, found.error.round(6)
    (array([2, 3]), array([0.5, 0.6]), array([0. , 0.1]))
    """
    values: dict[int, list[float]] = {}
    for trace in _of(traces, score):
        for count, value in zip(trace.labels, _values(trace, metric).tolist(), strict=True):
            values.setdefault(count, []).append(value)
    labels = sorted(values)
    moments = np.array([_mean_and_error(values[count]) for count in labels])  # [t, 2]
    runs = np.array([len(values[count]) for count in labels])
    return Curve(np.array(labels), moments[:, 0], moments[:, 1], runs)


def paired(
    traces: Iterable[Trace],
    a: str,
    b: str,
    *,
    metric: str | None = None,
    of: Literal["area", "final"] = "area",
    comparisons: int = 1,
) -> Difference:
    """Score `a` minus score `b`, in the runs whose seeds they share: of the area, or of the final value.

    The interval is Student's t, mean ± t(1 - 0.025 / comparisons, runs - 1) error: with the few seeds that people run,
    a bootstrap interval is too narrow (docs/simulate.md). One comparison is right for two scores that were named before
    the runs were looked at; `against_best` is for a winner. Wilcoxon's p is never below 2 / 2^runs: 0.0625 for five
    seeds.

    >>> def run(score, seed, value):
    ...     return Trace(score, seed, (2,), {"accuracy": (value,)}, (0, 1))
    >>> runs = [run("epig", 0, 0.9), run("epig", 1, 0.8), run("bald", 0, 0.5), run("bald", 1, 0.6)]
    >>> found = paired(runs, "epig", "bald")
    >>> round(found.mean, 6), round(found.error, 6), found.wins, found.p_value
    (0.3, 0.1, 2, 0.5)
    """
    if comparisons < 1:
        raise ValueError(f"comparisons must be at least 1, but it is {comparisons}.")
    traces = list(traces)
    measure, metric = _measure(of), main_metric(traces, metric=metric)
    first, second = _by_seed(_of(traces, a)), _by_seed(_of(traces, b))
    seeds = [seed for seed in first if seed in second]
    if not seeds:
        raise ValueError(f"traces must have a seed in which both {a!r} and {b!r} were run, but there is none.")
    for seed in seeds:
        ends = [(run.labels[:1], run.labels[-1:]) for run in (first[seed], second[seed])]
        if ends[0] != ends[1]:
            raise ValueError(
                f"traces must begin and end at the same numbers of labels to be compared, but {a!r} and {b!r} differ "
                f"in seed {seed}. Let both runs finish."
            )
    gaps = np.array([measure(first[seed], metric=metric) - measure(second[seed], metric=metric) for seed in seeds])
    mean, error = _mean_and_error(gaps)
    reach = float(stdtrit(len(gaps) - 1, 1 - 0.025 / comparisons)) * error if len(gaps) > 1 else math.inf
    wins = int((_sign(metric) * gaps > 0).sum())
    return Difference(a, b, metric, mean, error, mean - reach, mean + reach, signed_rank(gaps), wins, len(gaps))


def summary(traces: Iterable[Trace], *, metric: str | None = None) -> list[Standing]:
    """One row per score, in the order in which they occur.

    >>> runs = [Trace(s, 0, (2, 3), {"accuracy": (0.4, v)}, (0, 1, 2)) for s, v in [("random", 0.6), ("epig", 0.8)]]
    >>> [(row.score, row.final, round(row.area, 3), row.labels_to_level) for row in summary(runs)]
    [('random', 0.6, 0.5, None), ('epig', 0.8, 0.6, 3.0)]
    """
    metric = main_metric(traces := list(traces), metric=metric)
    sign = _sign(metric)
    groups = {score: _of(traces, score) for score in _scores(traces)}
    finals = {score: _mean_and_error([_final(run, metric=metric) for run in runs]) for score, runs in groups.items()}
    areas = {score: _mean_and_error([area(run, metric=metric) for run in runs]) for score, runs in groups.items()}
    ends = [mean for mean, _ in finals.values()]
    level = max(ends) if lower_is_better(metric) else 0.95 * max(ends)
    rows = []
    for score, runs in groups.items():
        other = max((name for name in groups if name != score), key=lambda name: sign * areas[name][0], default=None)
        needed = [labels_to_reach(run, level, metric=metric) for run in runs]
        median = float(np.median([math.inf if count is None else count for count in needed]))
        rows.append(
            Standing(
                score,
                len(runs),
                *finals[score],
                *areas[score],
                level,
                median if math.isfinite(median) else None,
                None if other is None else paired(traces, score, other, metric=metric, comparisons=_pairs(groups)),
            )
        )
    return rows


def against_best(traces: Iterable[Trace], *, metric: str | None = None) -> list[Difference]:
    """The score with the best mean area minus each of the others, in the order in which these occur.

    The best is chosen by the same runs that it is then compared in, so any pair of scores may come to be compared, and
    intervals and p-values are adjusted for all pairs: the intervals by Bonferroni's method, all of them hold together
    in at least 95 % of cases; Wilcoxon's p-values by Holm's.

    >>> def run(score, seed, value):
    ...     return Trace(score, seed, (2,), {"accuracy": (value + seed % 2 / 10,)}, (0, 1))
    >>> runs = [run(s, seed, v) for s, v in [("random", 0.5), ("epig", 0.8), ("bald", 0.6)] for seed in range(4)]
    >>> [(gap.a, gap.b, round(gap.mean, 3)) for gap in against_best(runs)]
    [('epig', 'random', 0.3), ('epig', 'bald', 0.2)]
    """
    metric = main_metric(traces := list(traces), metric=metric)
    scores, sign = _scores(traces), _sign(metric)
    areas = {score: float(np.mean([area(run, metric=metric) for run in _of(traces, score)])) for score in scores}
    best = max(scores, key=lambda score: sign * areas[score])
    others = [score for score in scores if score != best]
    every = [(best, score) for score in others] + list(itertools.combinations(others, 2))
    gaps = [paired(traces, a, b, metric=metric, comparisons=len(every)) for a, b in every]
    adjusted = holm([gap.p_value for gap in gaps]).tolist()
    return [replace(gap, p_value=p) for gap, p in zip(gaps, adjusted, strict=True)][: len(others)]


def verdict(traces: Iterable[Trace], *, metric: str | None = None) -> str:
    """What can be said of the best score against each of the others, in plain sentences.

    "Ahead" is said where the interval of `against_best` leaves out zero; else no difference was seen. Among scores that
    do not differ it is said in at most 5 % of cases, however many there are. Then the same in labels: `labels_saved`.

    >>> runs = [
    ...     Trace(score, seed, (2,), {"accuracy": (value + seed / 100,)}, (0, 1))
    ...     for score, value in [("random", 0.5), ("epig", 0.8)]
    ...     for seed in range(5)
    ... ]
    >>> print(verdict(runs))
    EPIG is ahead of random by 0.300 (0.300 to 0.300) in mean accuracy over the curve, in 5 of 5 seeds.
    """
    metric = main_metric(traces := list(traces), metric=metric)
    scores = _scores(traces)
    lines = [_sentence(gap) for gap in against_best(traces, metric=metric)]
    if not lines:
        lines = [f"Only {_shown(scores[0])} was run: there is nothing to compare it with."]
    if saved := labels_saved(traces, metric=metric):
        lines.append(saved)
    if min(len(_of(traces, score)) for score in scores) == 1:
        lines.append("One seed can show anything: run at least five, and twenty for a claim.")
    return "\n".join(lines)


def savings(traces: Iterable[Trace], *, metric: str | None = None, baseline: str | None = None) -> list[Saving]:
    """With how many labels each score is as good as the baseline is at the end, in the order in which scores occur.

    The baseline is "random" where it was run, else the first score. d(t) is a score at t labels minus the baseline at
    the end, paired by seed. `labels` is the first t at which the mean of d, made monotone by least squares, is not
    negative. The interval holds all t at which Student's t does not tell the mean of d from zero (a test, inverted);
    all intervals hold together in at least 95 % of cases, by Bonferroni's method.

    >>> runs = [
    ...     Trace(score, seed, (2, 10, 18), {"accuracy": values}, tuple(range(18)))
    ...     for score, values in [("random", (0.5, 0.6, 0.8)), ("epig", (0.5, 0.8, 0.9))]
    ...     for seed in range(3)
    ... ]
    >>> (saving,) = savings(runs)
    >>> saving.at, saving.labels, saving.low, saving.high
    (18, 10, 10, 10)
    """
    metric = main_metric(traces := list(traces), metric=metric)
    scores, sign = _scores(traces), _sign(metric)
    if baseline is None:
        baseline = next((score for score in scores if "random" in score.split(", ")), scores[0])
    theirs, others = _by_seed(_of(traces, baseline)), [score for score in scores if score != baseline]
    found = []
    for score in others:
        runs = [run for run in _of(traces, score) if run.seed in theirs]
        if not runs:
            continue
        labels = sorted(set.intersection(*({*run.labels} for run in runs)))
        rows = [dict(zip(run.labels, _values(run, metric).tolist(), strict=True)) for run in runs]
        ends = [_final(theirs[run.seed], metric=metric) for run in runs]
        gaps = sign * np.array([[row[t] - end for t in labels] for row, end in zip(rows, ends, strict=True)])
        mean = gaps.mean(axis=0)  # [t]
        n = len(gaps)
        reach = stdtrit(n - 1, 1 - 0.025 / len(others)) * gaps.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else math.inf
        enough, may, must = isotonic_regression(mean).x >= -TIE, mean + reach >= -TIE, mean - reach >= -TIE
        reached = labels[int(enough.argmax())] if enough.any() else None
        low = labels[int(may.argmax())] if may.any() else None
        surely = len(labels) - int(must[::-1].argmin()) if not must.all() else 0  # from here on
        high = labels[surely] if surely < len(labels) else None
        if reached is not None:
            low, high = min(reached, reached if low is None else low), None if high is None else max(reached, high)
        at = max(theirs[run.seed].labels[-1] for run in runs)
        found.append(Saving(score, baseline, metric, at, float(np.mean(ends)), reached, low, high, n))
    return found


def labels_saved(traces: Iterable[Trace], *, metric: str | None = None) -> str:
    """The `savings` in one sentence, the largest first; "" where there is nothing to compare.

    >>> runs = [
    ...     Trace(score, seed, (2, 10, 18), {"accuracy": values}, tuple(range(18)))
    ...     for score, values in [("random", (0.5, 0.6, 0.8)), ("epig", (0.5, 0.8, 0.8)), ("bald", (0.5, 0.5, 0.6))]
    ...     for seed in range(3)
    ... ]
    >>> labels_saved(runs)
    'The accuracy that random has at 18 labels, 0.800, is reached by EPIG with 10 (95 %: 10 to 10); BALD does not...'
    """
    metric = main_metric(traces := list(traces), metric=metric)
    if len(_scores(traces)) < 2 or all(len(trace.labels) < 2 for trace in traces):
        return ""
    found = sorted(savings(traces, metric=metric), key=lambda each: math.inf if each.labels is None else each.labels)
    reached = [f"{_shown(each.score)} with {each.labels:,}{_range(each)}" for each in found if each.labels is not None]
    never = [f"{_shown(each.score)}{_range(each)}" for each in found if each.labels is None]
    if not found:
        return ""
    what, first = metric.replace("_", " "), found[0]
    level = shown_value(first.level, metric=metric)
    words = f"The {what} that {_shown(first.baseline)} has at {first.at:,} labels, {level}, is "
    if not reached:
        return f"{words}reached by no other score: {', '.join(never)}."
    none = f"; {_listed(never)} {'does' if len(never) == 1 else 'do'} not reach it" if never else ""
    return f"{words}reached by {_listed(reached)}{none}."


def holm(p_values: Sequence[float]) -> np.ndarray:
    """p-values adjusted for there being several of them, by Holm's step-down method, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    given = np.asarray(p_values, np.float64)
    if given.ndim != 1 or not ((given >= 0) & (given <= 1)).all():
        raise ValueError(f"p_values must be a list of numbers from 0 to 1, but they are {p_values!r}.")
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def signed_rank(gaps: Sequence[float] | np.ndarray) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, exact, also with ties; zeros are left out.

    Each of the 2^n patterns of signs is as likely as any other if there is no difference; the distribution of the sum
    of positive ranks over all of them is built rank by rank.

    >>> signed_rank([0.1, 0.2, 0.3, 0.4, 0.5]) == 2 / 2**5
    True
    """
    found = np.round(np.asarray(gaps, np.float64), 12)  # accuracies are fractions: equal ones may differ by a rounding
    found = found[found != 0]
    sizes, place, counts = np.unique(np.abs(found), return_inverse=True, return_counts=True)
    twice = (2 * np.cumsum(counts) - counts + 1)[place] if len(sizes) else np.empty(0, int)  # midranks, times two
    total = int(twice.sum())
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for rank in twice:
        chance[rank:] = (chance[rank:] + chance[: total + 1 - rank]) / 2
        chance[:rank] /= 2
    off = np.abs(2 * np.arange(total + 1) - total)
    return min(1.0, float(chance[off >= abs(2 * int(twice[found > 0].sum()) - total)].sum()))


# ---- words and counts ----------------------------------------------------------------------------------------------


def _sentence(gap: Difference) -> str:
    """The difference between the best score and another one in words."""
    sign, what = _sign(gap.metric), f"in mean {gap.metric.replace('_', ' ')} over the curve"
    better, (low, high) = sign * gap.mean, sorted((sign * gap.low, sign * gap.high))
    a, b, said = _shown(gap.a), _shown(gap.b), partial(shown_value, metric=gap.metric)
    if gap.runs == 1:
        return f"{a} is {said(better)} better than {b} {what}, in the one seed that was run."
    interval, seeds = f"({said(low)} to {said(high)})", f"in {gap.wins} of {gap.runs} seeds"
    if low > 0:
        return f"{a} is ahead of {b} by {said(better)} {interval} {what}, {seeds}."
    return f"No difference seen between {a} and {b}: {said(better)} {interval} {what}, {a} better {seeds}."


def _range(saving: Saving) -> str:
    """The interval of a saving in words; "" where it says no more than the sentence."""
    if saving.runs == 1 or saving.low is None:
        return ""
    return f" (95 %: {saving.low:,} to {f'more than {saving.at:,}' if saving.high is None else f'{saving.high:,}'})"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _shown(score: str) -> str:
    return ", ".join(_ACRONYMS.get(part, part) for part in score.split(", "))


def main_metric(traces: Iterable[Trace], *, metric: str | None = None) -> str:
    """The metric, or the first one of the traces where none is named.

    >>> main_metric([Trace("epig", 0, (2,), {"rmse": (0.5,), "mae": (0.4,)}, (0, 1))])
    'rmse'
    """
    return metric or next((name for trace in traces for name in trace.metrics), "accuracy")


def shown_value(value: float, *, metric: str) -> str:
    """A value of a metric in words: three decimals, or four digits of what has the labels' unit.

    >>> shown_value(0.75, metric="accuracy"), shown_value(2041.3, metric="rmse")
    ('0.750', '2041')
    """
    return f"{value:.3f}" if metric in CLASSES else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _sign(metric: str) -> int:
    return -1 if lower_is_better(metric) else 1


def _measure(of: str) -> Callable[..., float]:
    measures = {"area": area, "final": _final}
    if of not in measures:
        raise ValueError(f"of must be 'area' or 'final', but it is {of!r}.")
    return measures[of]


def _pairs(scores: Sized) -> int:
    """How many pairs the scores form; 1 where there are none."""
    return max(1, math.comb(len(scores), 2))


def _scores(traces: Iterable[Trace]) -> list[str]:
    scores = list(dict.fromkeys(trace.score for trace in traces))
    if not scores:
        raise ValueError("traces must be runs of a simulation, but there are none.")
    return scores


def _of(traces: Iterable[Trace], score: str) -> list[Trace]:
    """The runs of a score, in the order of their seeds."""
    traces = list(traces)
    found = sorted((trace for trace in traces if trace.score == score), key=lambda trace: trace.seed)
    if not found:
        raise ValueError(f"score must be one of {', '.join(_scores(traces))}, but it is {score!r}.")
    if len(_by_seed(found)) < len(found):
        raise ValueError(f"traces must hold one run per score and seed, but {score!r} has several of one seed.")
    return found


def _by_seed(traces: Iterable[Trace]) -> dict[int, Trace]:
    return {trace.seed: trace for trace in traces}


def _mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The mean and its standard error; 0 for one value."""
    n = len(values)
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else 0.0
