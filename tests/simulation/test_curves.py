"""Curves and comparisons against counts by hand, loops over all signs, and SciPy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from posteriors import PROPERTY
from scipy import stats

from askwell.seeds import rng_for
from askwell.simulation.curves import (
    Trace,
    against_best,
    area,
    curve,
    holm,
    labels_saved,
    labels_to_reach,
    paired,
    savings,
    signed_rank,
    summary,
    verdict,
)


def run(score, seed, values, *, labels=None, metric="accuracy"):
    labels = tuple(labels or range(2, 2 + len(values)))
    return Trace(score, seed, labels, {metric: tuple(values)}, tuple(range(labels[-1] if labels else 0)))


def runs_of(table, **options):
    """score -> values of seeds 0, 1, ... as runs that were evaluated once."""
    return [
        run(score, seed, [value], **options) for score, values in table.items() for seed, value in enumerate(values)
    ]


def test_traces_are_equal_whatever_time_they_took():
    first = run("epig", 0, [0.5, 0.6])
    assert first == Trace("epig", 0, (2, 3), {"accuracy": (0.5, 0.6)}, (0, 1, 2), seconds=9.0)
    assert first != run("epig", 0, [0.5, 0.61])


# ---- one run -------------------------------------------------------------------------------------------------------


def slow_area(trace, metric):
    total, values = 0.0, trace.metrics[metric]
    for i in range(1, len(values)):
        total += (trace.labels[i] - trace.labels[i - 1]) * (values[i] + values[i - 1]) / 2
    return total / (trace.labels[-1] - trace.labels[0])


@PROPERTY
@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1)), min_size=2, max_size=8))
def test_area_is_the_mean_height(steps):
    labels = np.cumsum([gap for gap, _ in steps]).tolist()
    trace = run("epig", 0, [value for _, value in steps], labels=labels)
    assert area(trace) == pytest.approx(slow_area(trace, "accuracy"))
    assert min(v for _, v in steps) - 1e-9 <= area(trace) <= max(v for _, v in steps) + 1e-9


def test_area_of_one_evaluation_is_its_value():
    assert area(run("epig", 0, [0.7])) == 0.7


@pytest.mark.parametrize(
    ("metric", "level", "first"),
    [("accuracy", 0.5, 2), ("accuracy", 0.6, 4), ("accuracy", 0.9, None), ("log_loss", 0.5, 2), ("log_loss", 0.4, 6)],
)
def test_labels_to_reach_is_the_first_time(metric, level, first):
    """Upwards for an accuracy, downwards for a loss."""
    trace = run("epig", 0, [0.5, 0.6, 0.4], labels=(2, 4, 6), metric=metric)
    assert labels_to_reach(trace, level, metric=metric) == first


# ---- several -------------------------------------------------------------------------------------------------------


def test_curve_by_hand():
    found = curve([run("epig", 0, [0.2, 0.4]), run("bald", 0, [0.0, 0.0]), run("epig", 1, [0.4, 0.8])], "epig")
    np.testing.assert_allclose(found.mean, [0.3, 0.6])
    np.testing.assert_allclose(found.error, [0.1, 0.2])  # sd sqrt(2) d, over sqrt(2)
    assert found.labels.tolist() == [2, 3]
    assert found.runs.tolist() == [2, 2]


def test_curve_of_runs_that_differ_in_length_and_of_one():
    found = curve([run("epig", 0, [0.2, 0.4]), run("epig", 1, [0.6], labels=(3,))], "epig")
    np.testing.assert_allclose(found.mean, [0.2, 0.5])
    assert found.error[0] == 0
    assert found.runs.tolist() == [1, 2]


def test_paired_is_the_t_test_and_the_signed_rank_test_of_scipy():
    rng = rng_for(0, 0, "paired")
    a, b = rng.random((2, 8))
    found = paired(runs_of({"a": a, "b": b})[::-1], "a", "b", of="final")
    known = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert found.mean == pytest.approx((a - b).mean())
    assert found.error == pytest.approx(stats.sem(a - b))
    assert (found.low, found.high) == pytest.approx((known.low, known.high))
    assert found.p_value == pytest.approx(stats.wilcoxon(a, b, method="exact").pvalue)
    assert (found.wins, found.runs) == ((a > b).sum(), 8)


def test_paired_compares_seeds_that_both_have_and_knows_which_way_is_up():
    traces = runs_of({"a": [0.1, 0.2, 0.9], "b": [0.4, 0.3]}, metric="log_loss")
    found = paired(traces, "a", "b", metric="log_loss")
    assert (found.runs, found.wins) == (2, 2)
    assert found.mean == pytest.approx(-0.2)


def test_paired_of_the_area_and_of_the_end():
    traces = [run("a", 0, [0.0, 1.0]), run("b", 0, [0.5, 0.5])]
    assert paired(traces, "a", "b").mean == 0
    assert paired(traces, "a", "b", of="final").mean == 0.5


def test_one_seed_bounds_nothing():
    found = paired(runs_of({"a": [0.9], "b": [0.1]}), "a", "b")
    assert (found.low, found.high, found.p_value, found.error) == (-math.inf, math.inf, 1.0, 0.0)
    assert not found.clear


def slow_signed_rank(gaps):
    """Over all patterns of signs, one by one."""
    gaps = [gap for gap in gaps if gap != 0]
    ranks = stats.rankdata(np.abs(gaps))
    middle = ranks.sum() / 2
    seen = abs(sum(rank for rank, gap in zip(ranks, gaps, strict=True) if gap > 0) - middle)
    patterns = list(itertools.product([0, 1], repeat=len(gaps)))
    return np.mean([abs(np.dot(pattern, ranks) - middle) >= seen for pattern in patterns])


@PROPERTY
@given(st.lists(st.integers(-4, 4), max_size=8))
def test_signed_rank_with_ties_and_zeros(gaps):
    assert signed_rank([gap / 8 for gap in gaps]) == pytest.approx(slow_signed_rank(gaps))


@pytest.mark.parametrize("n", [6, 15, 40])
def test_signed_rank_is_exact_for_many(n):
    gaps = rng_for(n, 0, "gaps").normal(0.2, 1, size=n)
    assert signed_rank(gaps) == pytest.approx(stats.wilcoxon(gaps, method="exact").pvalue, rel=1e-9)


def test_signed_rank_sees_ties_through_rounding():
    assert signed_rank([0.3 - 0.2, 0.1, -0.1, 0.2]) == signed_rank([1, 1, -1, 2])


@PROPERTY
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_by_its_definition(p_values):
    found, worst = holm(p_values), 0.0
    for step, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        worst = max(worst, min(1.0, (len(p_values) - step) * p_values[place]))
        assert found[place] == pytest.approx(worst)


# ---- summary and words ---------------------------------------------------------------------------------------------


def test_summary_by_hand():
    traces = [
        run("random", 0, [0.2, 0.4, 0.6]),
        run("random", 1, [0.2, 0.4, 0.8]),
        run("epig", 0, [0.2, 0.8, 0.8]),
        run("epig", 1, [0.4, 0.6, 1.0]),
    ]
    random, epig = summary(traces)
    assert (random.score, epig.score, epig.runs) == ("random", "epig", 2)
    assert (random.final, epig.final) == pytest.approx((0.7, 0.9))
    assert epig.final_error == pytest.approx(0.1)
    assert random.level == epig.level == pytest.approx(0.95 * 0.9)
    assert epig.labels_to_level is None  # one never, one at 4
    assert summary(traces[2:3])[0].labels_to_level == 3
    assert (random.area, epig.area) == pytest.approx((0.425, 0.65))
    assert epig.against == paired(traces, "epig", "random")


def test_summary_compares_with_the_best_other_also_of_a_loss():
    rows = summary(runs_of({"a": [0.1], "b": [0.2], "c": [0.3]}, metric="log_loss"), metric="log_loss")
    assert [row.against.b for row in rows] == ["b", "a", "a"]
    assert rows[0].level == 0.3
    assert [row.labels_to_level for row in rows] == [2.0, 2.0, 2.0]
    assert summary(runs_of({"a": [0.1]}))[0].against is None


def test_verdict_names_who_is_ahead_and_where_nothing_was_seen():
    traces = runs_of({"random": [0.5, 0.6, 0.5, 0.4], "epig": [0.9, 0.8, 0.9, 0.9], "bald": [0.9, 0.9, 0.7, 0.9]})
    ahead, same = verdict(traces).splitlines()
    assert ahead.startswith("EPIG is ahead of random by 0.375 (0.")
    assert ahead.endswith("in mean accuracy over the curve, in 4 of 4 seeds.")
    assert same.startswith("No difference seen between EPIG and BALD: 0.025 (-0.")
    assert same.endswith("EPIG better in 1 of 4 seeds.")


def test_verdict_of_a_loss_counts_down():
    traces = runs_of({"a": [0.5, 0.6, 0.5], "b": [0.1, 0.21, 0.1]}, metric="log_loss")
    assert verdict(traces, metric="log_loss").startswith("b is ahead of a by 0.397 (0.38")


def test_verdict_of_one_seed_or_one_score_claims_nothing():
    lines = verdict(runs_of({"a": [0.1], "b": [0.9]}))
    assert "ahead" not in lines
    assert "One seed can show anything" in lines
    assert "nothing to compare" in verdict(runs_of({"a": [0.1, 0.2]}))


def rising(score, seed, speed, *, noise=0.0, labels=range(4, 41), rng=None):
    """A run that gets from 0.5 towards 0.9, at its speed."""
    values = [0.9 - 0.4 * math.exp(-speed * (count - 4)) + (noise * rng.normal() if noise else 0) for count in labels]
    return run(score, seed, values, labels=tuple(labels))


def test_savings_by_hand():
    """Twice as fast needs half of the way, 4 + 36 / 2 labels; slower ones do not get there. Seeds share the noise."""
    bumps = [0.0, 0.01, -0.02, 0.005]
    traces = []
    for seed, bump in enumerate(bumps):
        for score, speed in [("random", 0.05), ("fast", 0.1), ("same", 0.05), ("slow", 0.03)]:
            smooth = rising(score, seed, speed)
            traces.append(run(score, seed, [v + bump for v in smooth.metrics["accuracy"]], labels=smooth.labels))
    fast, same, slow = savings(traces)
    assert (fast.score, fast.baseline, fast.at, fast.runs) == ("fast", "random", 40, 4)
    assert fast.level == pytest.approx(0.9 - 0.4 * math.exp(-0.05 * 36) + np.mean(bumps))
    assert (fast.labels, fast.low, fast.high) == (22, 22, 22)
    assert (same.labels, same.low, same.high) == (40, 40, 40)
    assert (slow.labels, slow.low, slow.high) == (None, None, None)
    words = labels_saved(traces)
    assert words.startswith(
        "The accuracy that random has at 40 labels, 0.833, is reached by fast with 22 (95 %: 22 to 22)"
    )
    assert words.endswith("and same with 40 (95 %: 40 to 40); slow does not reach it.")
    assert words in verdict(traces)
    assert savings(traces, baseline="fast")[0].labels is None
    (only,) = savings([trace for trace in traces if trace.score in ("fast", "slow")])
    assert (only.baseline, only.score) == ("fast", "slow")  # without random the first one


def test_savings_of_a_loss_count_down():
    traces = [
        run(s, seed, v, metric="log_loss") for s, v in [("random", [3, 2, 1]), ("a", [3, 1, 0])] for seed in (0, 1)
    ]
    (saving,) = savings(traces, metric="log_loss")
    assert (saving.labels, saving.level) == (3, 1)


def test_savings_claim_nothing_by_one_seed_or_one_look():
    one = [rising("random", 0, 0.05), rising("a", 0, 0.1)]
    (saving,) = savings(one)
    assert (saving.labels, saving.low, saving.high) == (22, 4, None)
    assert labels_saved(one) == "The accuracy that random has at 40 labels, 0.834, is reached by a with 22."
    assert labels_saved(runs_of({"random": [0.1, 0.2], "a": [0.3, 0.4]})) == ""
    assert labels_saved(one[:1]) == ""
    slow = labels_saved([rising("random", 0, 0.05), rising("a", 0, 0.02)])
    assert slow == "The accuracy that random has at 40 labels, 0.834, is reached by no other score: a."


def test_savings_are_not_lured_by_a_lucky_step():
    """One high value between low ones is no level that was reached."""
    lucky = [run("a", seed, [0.2, 0.9, 0.3, 0.4, 0.8, 0.9]) for seed in range(4)]
    (saving,) = savings([*lucky, *(run("random", seed, [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]) for seed in range(4))])
    assert saving.labels == 6
    assert saving.low == 3
    assert saving.high == 6


@pytest.mark.parametrize("seeds", [5, 20])
def test_the_interval_of_a_saving_holds_the_truth(seeds):
    """In 200 trials, with noise of runs and of steps: in truth 95 %, fewer than 89 % have a chance below 0.1 %."""
    rng, held = rng_for(seeds, 0, "savings"), 0
    for _ in range(200):
        traces = []
        for seed in range(seeds):
            shift = 0.02 * rng.normal()
            for score, speed in [("random", 0.05), ("fast", 0.1)]:
                found = rising(score, seed, speed, noise=0.01, rng=rng)
                own = shift + 0.01 * rng.normal()
                traces.append(run(score, seed, [v + own for v in found.metrics["accuracy"]], labels=found.labels))
        (saving,) = savings(traces)
        held += saving.low is not None and saving.low <= 22 and (saving.high is None or saving.high >= 22)
    assert held >= 0.89 * 200


NOISE = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, size=shape),
    "shared by a seed": lambda rng, shape: 0.5 * rng.normal(size=shape) + rng.normal(size=shape[1:]),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize(("scores", "seeds"), [(3, 5), (5, 20), (10, 5)])
def test_verdict_crowns_no_winner_among_equals(scores, seeds, noise):
    """In 100 trials: at most 5 % in truth, so that more than 12 have a chance below 0.2 %."""
    rng, crowned = rng_for(scores, seeds, f"equals {noise}"), 0
    for _ in range(100):
        table = 0.7 + 0.02 * NOISE[noise](rng, (scores, seeds))
        crowned += "ahead" in verdict(runs_of({f"s{i}": row for i, row in enumerate(table)}))
    assert crowned <= 12


def test_verdict_sees_a_winner():
    """One of three scores is better by a standard deviation of the runs, ten seeds: seen in 46 % of 4,000 trials."""
    rng, seen = rng_for(0, 0, "winner"), 0
    for _ in range(200):
        table = 0.7 + 0.02 * rng.normal(size=(3, 10)) + [[0.02], [0], [0]]
        words = verdict(runs_of({f"s{i}": row for i, row in enumerate(table)}))
        seen += "s0 is ahead" in words
    assert seen > 0.35 * 200


def test_against_best_is_adjusted_for_all_pairs():
    rng = rng_for(0, 0, "against best")
    table = {name: rng.normal(mean, 0.1, 8) for name, mean in [("a", 0.3), ("b", 0.7), ("c", 0.2), ("d", 0.5)]}
    found = against_best(runs_of(table))
    assert [(gap.a, gap.b) for gap in found] == [("b", "a"), ("b", "c"), ("b", "d")]
    p_values = {}
    for a, b in itertools.combinations(table, 2):
        p_values[frozenset((a, b))] = stats.wilcoxon(table[a], table[b], method="exact").pvalue
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    for gap in found:
        known = stats.ttest_rel(table["b"], table[gap.b]).confidence_interval(1 - 0.05 / 6)
        assert (gap.low, gap.high) == pytest.approx((known.low, known.high))
        assert gap.p_value == pytest.approx(adjusted[frozenset((gap.a, gap.b))])
    assert summary(runs_of(table))[0].against == paired(runs_of(table), "a", "b", comparisons=6)


def test_against_best_of_a_loss_and_of_two_scores():
    traces = runs_of({"a": [0.5, 0.6, 0.5], "b": [0.1, 0.21, 0.1]}, metric="log_loss")
    assert against_best(traces, metric="log_loss") == [paired(traces, "b", "a", metric="log_loss")]
    assert against_best(runs_of({"a": [0.1]})) == []


def test_t_intervals_hold_what_they_say_where_bootstrap_intervals_do_not():
    """Why `paired` uses Student's t: how often the interval of five normal differences has the truth inside."""
    inside, rng = {"t": 0, "bootstrap": 0}, rng_for(0, 0, "coverage")
    for _ in range(600):
        gaps = rng.normal(size=5)
        found = paired(runs_of({"a": gaps, "b": np.zeros(5)}), "a", "b")
        inside["t"] += found.low < 0 < found.high
        means = rng.choice(gaps, (400, 5)).mean(axis=1)
        inside["bootstrap"] += np.quantile(means, 0.025) < 0 < np.quantile(means, 0.975)
    assert inside["t"] / 600 == pytest.approx(0.95, abs=0.03)
    assert inside["bootstrap"] / 600 < 0.88


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: area(run("a", 0, [0.1]), metric="acuracy"), "metric must be one of accuracy"),
        (lambda: area(run("a", 0, [])), "evaluated at least once, but a, seed 0"),
        (lambda: curve(runs_of({"a": [0.1]}), "b"), "score must be one of a, but it is 'b'"),
        (lambda: curve([], "b"), "there are none"),
        (lambda: summary([]), "there are none"),
        (lambda: curve(runs_of({"a": [0.1]}) * 2, "a"), "several of one seed"),
        (lambda: paired([run("a", 0, [0.1]), run("b", 1, [0.1])], "a", "b"), "a seed in which both"),
        (lambda: paired([run("a", 0, [0.1]), run("b", 0, [0.1, 0.2])], "a", "b"), "same numbers of labels"),
        (lambda: paired(runs_of({"a": [0.1], "b": [0.1]}), "a", "b", of="end"), "'area' or 'final'"),
        (lambda: paired(runs_of({"a": [0.1], "b": [0.1]}), "a", "b", comparisons=0), "comparisons must be at least 1"),
        (lambda: holm([0.5, 1.5]), "numbers from 0 to 1"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()
