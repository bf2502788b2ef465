import pytest

from askwell.simulation.curves import Trace
from experiments.drawing import above, ahead, comparable, curve_panels, curve_table, measure_table
from experiments.results import Results


def results(gaps, settings=("Magic",), seeds=3):
    """EPIG is `gap` above BALD, whose accuracy differs from seed to seed; two steps."""
    rows = [
        (setting, score, seed, labels, 0.5 + seed / 10 + (score == "epig") * (gap + wobble * seed))
        for setting in settings
        for gap, wobble in [gaps]
        for score in ("bald", "epig")
        for seed in range(seeds)
        for labels in (4, 8)
    ]
    return Results.of(("setting", "score", "seed", "labels", "accuracy"), rows)


@pytest.mark.parametrize(
    ("gaps", "state"), [((0.1, 0.001), "ahead"), ((-0.1, 0.001), "behind"), ((-0.1, 0.1), "level")]
)
def test_who_is_ahead(gaps, state):
    assert ahead(results(gaps), "Magic", "epig", "bald") == state


@pytest.mark.parametrize(
    ("gaps", "state"), [((-0.01, 0.001), "ahead"), ((-0.1, 0.001), "behind"), ((-0.01, 0.1), "level")]
)
def test_what_is_lost_may_be_less_than_a_margin(gaps, state):
    assert ahead(results(gaps), "Magic", "epig", "bald", margin=0.05) == state


def test_what_is_open_has_a_size():
    """Gaps of 0, 0.1, -0.1: mean 0, standard error 0.1 / sqrt(3), and t(0.975, 2) = 4.303."""
    table = results((0.0, 0.0))
    table.columns["accuracy"][table["score"] == "epig"] += [0, 0, 0.1, 0.1, -0.1, -0.1]
    assert above(table, "A", "epig", "bald") == "**A**: not decided (at most 0.248 either way) in Magic."
    table.columns["accuracy"][:] = 0.5 + (table["accuracy"] - 0.5) / 25
    assert above(table, "A", "epig", "bald") == "**A**: no difference larger than 0.010 in Magic."
    assert above(table, "A", "epig", "bald", matches=True) == "**A**: holds in Magic."
    assert above(results((0.1, 0.0), seeds=1), "A", "epig", "bald") == "**A**: not decided in Magic."
    assert above(results((-0.1, 0.001)), "A", "epig", "bald", matches=True) == "**A**: does not hold in Magic."


def test_of_a_loss_less_is_better():
    table = results((0.1, 0.001))
    table.columns["log_loss"] = table["accuracy"]
    assert ahead(table, "Magic", "epig", "bald", metric="log_loss") == "behind"
    assert measure_table(table, [("epig", "bald")], ["accuracy", "auc", "log_loss"]).splitlines()[2:] == [
        "| setting | difference | accuracy | log loss |",
        "|---|---|---|---|",
        "| Magic | EPIG - BALD | **+0.101 (+0.099 to +0.103)** | *+0.101 (+0.099 to +0.103)* |",
    ]


def test_one_seed_decides_nothing():
    assert ahead(results((0.1, 0.0), seeds=1), "Magic", "epig", "bald") == "unknown"


def test_runs_with_other_steps_are_compared_where_both_have_been():
    fine = Trace("epig", 0, (4, 5, 6), {"accuracy": (0.1, 0.2, 0.3)}, ())
    coarse = Trace("badge", 0, (4, 6), {"accuracy": (0.4, 0.5)}, ())
    first, second = comparable([fine, coarse])
    assert first.labels == second.labels == (4, 6)
    assert first.metrics == {"accuracy": (0.1, 0.3)}


def test_the_table_has_means_errors_and_paired_differences():
    text = curve_table(results((0.1, 0.0)), [("epig", "bald"), ("epig", "random")])
    assert "| Magic | BALD | 3 | 0.600 ± 0.058 | 0.600 ± 0.058 |" in text  # of 0.5, 0.6, 0.7: 0.1 / sqrt(3)
    assert "| Magic | EPIG | 3 | 0.700 ± 0.058 | 0.700 ± 0.058 |" in text
    assert "- Magic: EPIG - BALD = +0.100 (+0.100 to +0.100), better in 3 of 3 seeds." in text
    assert "random" not in text


def test_scores_are_called_as_people_call_them():
    rows = [("a", score, seed, 4, 0.5) for score in ("epig, best 20", "bald") for seed in (0, 1)]
    found = Results.of(("setting", "score", "seed", "labels", "accuracy"), rows)
    text = curve_table(found, [("epig, best 20", "bald")])
    assert "| a | EPIG, best 20 | 2 |" in text
    assert "- a: EPIG, best 20 - BALD = +0.000" in text


def test_a_panel_for_each_setting():
    figure = curve_panels(results((0.1, 0.0), settings=("Magic", "Vowel", "Satellite", "Curated")))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        f"{name} (3 seeds)" for name in ("Magic", "Vowel", "Satellite", "Curated")
    ]
    drawn = figure.axes[0].lines[-1]  # EPIG lies on top
    assert drawn.get_ydata().tolist() == pytest.approx([0.7, 0.7])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["BALD", "EPIG"]
