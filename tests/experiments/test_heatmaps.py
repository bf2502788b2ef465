import numpy as np
import pytest

from askwell.information import probit
from askwell.models.gp import GPClassifier
from askwell.seeds import rng_for
from experiments import heatmaps
from experiments.figure import Terms
from experiments.heatmaps import FIGURE
from experiments.results import Job, Results
from experiments.synthetic import P1, labels


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(heatmaps.SIDE, "quick", 9)
    monkeypatch.setattr(heatmaps, "M", 40)


def all_rows(terms):
    rows = []
    for job in FIGURE.jobs(terms):
        rows += [(*job, row["x1"], row["x2"], row["value"]) for row in FIGURE.run(job, terms, [])]
    return Results.of(("setting", "score", "seed", *FIGURE.columns), rows)


def test_maps_are_the_scores_at_their_places(small):
    results = all_rows(Terms("quick"))
    data = results.where(setting="data", score="labels")
    x = np.stack([data["x1"], data["x2"]], axis=1)
    full = P1.draw(10, rng=rng_for(0, 0, "heatmap inputs"))
    np.testing.assert_allclose(x, full, atol=1e-6)
    y = labels(full, rng=rng_for(0, 0, "heatmap labels"))
    np.testing.assert_array_equal(data["value"], y)
    posterior = GPClassifier(inference="vi").fit(full, y, rng=rng_for(0, 0, "fit"))
    targets = P1.draw(40, rng=rng_for(0, 0, "heatmap targets"))
    for setting, i in (("the model", 12), ("p1", 40)):
        found = results.where(setting=setting)
        assert len(found) == 81
        place = np.array([[found["x1"][i], found["x2"][i]]])
        expected = posterior.epig(place, targets) if setting == "p1" else probit.bald(*posterior.latent(place))
        assert found["value"][i] == pytest.approx(expected[0], rel=1e-5)


def test_it_is_drawn_with_a_star_each_and_judged(small):
    results = all_rows(Terms("quick"))
    picture = FIGURE.draw(results)
    for axes, setting in zip(picture.axes, ("the model", "p1", "p2"), strict=True):
        found = results.where(setting=setting)
        best = found["value"].argmax()
        (star,) = axes.get_lines()
        assert (star.get_xdata()[0], star.get_ydata()[0]) == (found["x1"][best], found["x2"][best])
        shown = axes.get_images()[0].get_array()
        assert shown[0, 1] == found["value"][1]
        assert (found["x1"][1], found["x2"][1]) == (-3.75, -5.0)  # rows go up from below
    assert "BALD is highest away from the data" in FIGURE.verdict(results)


def test_the_width_of_p2_is_an_option(small):
    plain, code = (all_rows(FIGURE.terms("quick", options)) for options in ({}, {"p2": "0.2"}))
    assert plain.where(score="targets")["value"].tolist() == [0.8, 0.4]
    assert code.where(score="targets")["value"].tolist() == [0.8, 0.2]
    assert (plain.where(setting="p2")["value"] != code.where(setting="p2")["value"]).any()
    np.testing.assert_array_equal(plain.where(setting="p1")["value"], code.where(setting="p1")["value"])
    assert FIGURE.verdict(code) != FIGURE.verdict(plain)


def test_a_map_goes_on_where_it_was(small):
    job, terms = Job("p1", "epig", 0), Terms("quick")
    rows = list(FIGURE.run(job, terms, []))
    assert list(FIGURE.run(job, terms, rows[:50])) == rows[50:]


def test_the_verdict_can_go_either_way(small):
    results = all_rows(Terms("quick"))
    turned = Results({**results.columns, "value": np.where(results["setting"] == "data", 1, -1) * results["value"]})
    assert "does not hold in p1" in FIGURE.verdict(turned)
