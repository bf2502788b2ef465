"""Simulations of numbers; metrics, models, sizes and costs that were asked for."""

import json
from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score

import askwell
from askwell.models.bayes import BayesianLinearRegression
from askwell.models.forest import RandomForest
from askwell.models.regression import RandomForestRegression
from askwell.report import html_report
from askwell.seeds import rng_for
from askwell.simulation import Simulation
from askwell.simulation.curves import curve, labels_to_reach, paired

X = rng_for(0, 0, "simulated numbers").normal(size=(160, 2))
Y = 1000 * X[:, 0] + 300 * X[:, 1] + 50 * rng_for(1, 0, "simulated numbers").normal(size=160)
KIND = np.where(X[:, 0] > 0, "right", "left")
LINEAR = BayesianLinearRegression(draws=30)
QUIET = {"processes": 1, "progress": False}


def simulated(model=LINEAR, y=Y, **options):
    options = {"budget": 16, "seeds": range(3), **QUIET, **options}
    return askwell.simulate(model, X[:120], y[:120], test=(X[120:], y[120:]), **options)


@cache
def known():
    return simulated()


def test_numbers_have_their_scores_their_start_and_their_metrics():
    found = known()
    assert found.settings["scores"] == ["random", "variance", "epig"]
    assert found.settings["classes"] is None
    assert found.traces[0].labels == tuple(range(10, 17))
    assert list(found.traces[0].metrics) == ["rmse", "mae", "nll"]
    starts = {trace.questions[:10] for trace in found.traces if trace.seed == 0}
    assert len(starts) == 1
    assert curve(found.traces, "epig").mean[-1] < 200  # rmse is the main one


def test_less_is_better_in_every_sentence():
    found = known()
    rows = found.summary()
    assert rows[0].level == max(row.final for row in rows)
    better = min(rows, key=lambda row: row.area)
    gap = found.paired(better.score, "random") if better.score != "random" else found.paired("random", "epig")
    assert gap.metric == "rmse"
    assert gap.mean <= 0
    assert found.verdict().startswith(("No difference seen", f"{better.score.upper()} is ahead", better.score))
    assert "rmse" in found.table().splitlines()[0]
    trace = found.traces[0]
    assert labels_to_reach(trace, max(trace.metrics["rmse"])) == trace.labels[0]


def test_numbers_resume_and_are_saved(tmp_path):
    whole = simulated(folder=tmp_path / "runs", keep_predictions=True)
    assert whole.traces == known().traces
    file = next((tmp_path / "runs").glob("epig-0.jsonl"))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]))
    assert simulated(folder=tmp_path / "runs", keep_predictions=True).traces == whole.traces
    again = Simulation.load(whole.save(tmp_path / "all.json"))
    assert again.traces == whole.traces
    assert html_report(again, tmp_path / "report.html", title="Houses").read_text("utf-8").count("rmse") > 2


def test_predictions_are_kept_on_request():
    numbers = simulated(keep_predictions=True, scores=["epig"], seeds=[0])
    (trace,) = numbers.traces
    assert trace.predictions.shape == (7, 40, 2)
    rmse = np.sqrt(((trace.predictions[:, :, 0] - Y[120:]) ** 2).mean(axis=1))
    np.testing.assert_allclose(rmse, trace.metrics["rmse"], rtol=1e-5)
    classes = simulated(RandomForest(20), KIND, keep_predictions=True, scores=["epig"], seeds=[0], budget=6)
    assert classes.traces[0].predictions.shape == (3, 40, 2)
    assert known().traces[0].predictions is None


def test_metrics_that_were_asked_for():
    def f1(labels, predicted):
        return f1_score(labels, predicted, pos_label="left")

    found = simulated(RandomForest(20), KIND, metrics={"f1": f1, "share_error": lambda y, p: np.mean(y != p)}, budget=8)
    assert list(found.traces[0].metrics) == ["f1", "share_error"]
    assert "mean f1" in found.verdict()
    same = found.paired("epig", "random", metric="share_error")
    assert same.wins == sum(
        np.trapezoid(a.metrics["share_error"]) < np.trapezoid(b.metrics["share_error"])
        for a in found.traces
        for b in found.traces
        if (a.score, b.score) == ("epig", "random") and a.seed == b.seed
    )
    named = simulated(RandomForest(20), KIND, metrics=["auc", "brier"], budget=6, seeds=[0], scores=["random"])
    assert list(named.traces[0].metrics) == ["auc", "brier"]


def test_other_metrics_do_not_resume(tmp_path):
    options = {"scores": ["random"], "seeds": [0], "budget": 12, "folder": tmp_path / "runs"}
    simulated(**options)
    with pytest.raises(ValueError, match="other metrics"):
        simulated(metrics=["mae"], **options)


def test_several_models_and_sizes():
    models = {"linear": LINEAR, "forest": RandomForestRegression(20)}
    found = simulated(models, scores=["random", "epig"], size=[1, 3], seeds=range(2))
    names = [trace.score for trace in found.traces][::2]
    assert names == [
        f"{model}, {score}, {size} at a time" for model in models for score in ("random", "epig") for size in (1, 3)
    ]
    assert found.traces[0].labels == tuple(range(10, 17))
    assert found.traces[2].labels == (10, 13, 16)
    gap = paired(found.traces, names[0], names[1])
    assert gap.runs == 2
    assert "linear, EPIG, 3 at a time" in found.verdict()
    alone = simulated(scores=["epig"], size=3, seeds=range(2))
    assert [t.questions for t in alone.traces] == [
        t.questions for t in found.traces if t.score == "linear, epig, 3 at a time"
    ]


def test_what_labels_cost():
    cost = np.where(X[:120, 1] > 0, 5.0, 1.0)
    found = simulated(scores=["epig"], seeds=[0], cost=cost)
    (trace,) = found.traces
    assert trace.cost[-1] == cost[list(trace.questions)].sum()
    assert len(trace.cost) == len(trace.labels)
    cheap = np.mean(cost[list(trace.questions[10:])] == 1)
    plain = np.mean(cost[list(simulated(scores=["epig"], seeds=[0]).traces[0].questions[10:])] == 1)
    assert cheap > plain
    assert json.loads(json.dumps(found.settings))["cost"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scores": ["margin"]}, "'margin' is for classes"),
        ({"classes": ["a", "b"]}, "classes must be left out"),
        ({"initial": {"a": 1}}, "how many labels to begin with"),
        ({"metrics": ["accuracy"]}, "where labels are numbers"),
        ({"y": np.where(Y > 0, Y, np.nan)}, "one is nan"),
        ({"y": KIND}, "one is '(left|right)'"),
        ({"model": {"a": LINEAR, "b": RandomForestClassifier(5)}}, "must predict the same, but a numbers, b classes"),
        ({"model": {}}, "at least one model"),
        ({"cost": [1.0]}, "120 positive numbers"),
        ({"size": [1, 0]}, "size must be"),
        ({"budget": 5}, "must cover the initial labels, 10"),
    ],
)
def test_what_cannot_be_simulated_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        simulated(**options)
