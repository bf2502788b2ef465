import dataclasses
import itertools

import pytest
from sklearn.ensemble import RandomForestClassifier

from askwell.models.protocol import Model
from experiments import uci
from experiments.figure import Terms
from experiments.loop import Choice, Uniform, acquire
from experiments.measures import MEASURES
from experiments.results import Job, Results
from experiments.running import reproduce
from experiments.splits import uci_problem

pytestmark = pytest.mark.usefixtures("without_files")


@pytest.fixture
def few_trees(monkeypatch):
    monkeypatch.setattr(uci, "forest", lambda: RandomForestClassifier(10))


def rows(job, terms, count):
    return list(itertools.islice(uci.run(job, terms, ()), count))


@pytest.mark.parametrize("score", uci.SCORES)
def test_the_forest_is_asked_label_by_label(score):
    found = rows(Job("Vowel, forest", score, 0), Terms(), 2)
    assert [row["labels"] for row in found] == [22, 23]
    assert all(0.3 < row["accuracy"] <= 1 for row in found)  # clouds that are far apart


@pytest.mark.usefixtures("few_trees")
def test_the_whole_figure_at_toy_size(tmp_path, monkeypatch):
    monkeypatch.setattr(uci, "QUICK_BUDGET", 24)
    figure = dataclasses.replace(
        uci.FIGURE, settings=tuple(each for each in uci.FIGURE.settings if each.name == "Vowel, forest")
    )
    outcome = reproduce(figure, effort="quick", seeds=1, processes=1, out=tmp_path)
    assert "outperforms or matches BALD" in outcome.verdict
    assert "| Vowel, forest | EPIG | 1 |" in outcome.verdict


@pytest.mark.parametrize("score", ["bald", "epig"])
def test_the_net_is_asked_several_labels_at_a_time(score, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(uci.AT_ONCE, "quick", 3)
    found = rows(Job("Vowel, net", score, 0), Terms("quick"), 2)
    assert [row["labels"] for row in found] == [22, 25]


def test_the_full_protocol_is_the_papers():
    pytest.importorskip("torch")
    problem = uci_problem("Vowel", 0)
    model = uci.net(problem, Terms("full"))
    training = model.training
    assert (training.learning_rate, training.weight_decay, training.steps) == (0.1, 1e-4, 50_000)
    assert (training.patience, training.validate_every, training.samples) == (10_000, 50, 100)
    assert training.restore
    assert not uci.net(problem, Terms("full", {"weights": "last"})).training.restore
    assert model.draws == 100
    assert len(model.module) + 1 == len(uci.net(problem, Terms("full", {"input_dropout": "yes"})).module)
    short = dataclasses.replace(model, training=dataclasses.replace(training, steps=20, samples=5))
    assert isinstance(short, Model)
    found = acquire(problem, short, Choice("bald", "top", Uniform(problem.targets, uci.M)), seed=0, budget=25)
    assert [row["labels"] for row in found] == [22, 23, 24, 25]


@pytest.mark.usefixtures("few_trees")
def test_steps_of_the_figure_are_those_of_its_runs():
    steps = {setting.name: setting.steps for setting in uci.FIGURE.settings}
    assert steps["Magic, forest"] == {"quick": 7, "standard": 297, "full": 297}
    assert steps["Satellite, net"]["standard"] == 1 + 29  # 12, 22, ..., 292, 300
    assert len(rows(Job("Vowel, forest", "random", 0), Terms("quick"), 99)) == steps["Vowel, forest"]["quick"]


def test_the_verdict_says_where_bald_is_ahead():
    table = [
        (setting, score, seed, labels, 0.5 + seed / 10 + gap * (score == "epig"))
        for setting, gap in (("Magic, forest", 0.1), ("Vowel, net", -0.1))
        for score in ("random", "bald", "epig")
        for seed in range(3)
        for labels in (4, 5)
    ]
    text = uci.verdict(Results.of(("setting", "score", "seed", "labels", "accuracy"), table))
    assert "holds in Magic, forest; does not hold in Vowel, net." in text
    assert "EPIG is clearly below BALD in Vowel, net." in text


def test_the_nets_alone_have_all_measures_and_share_their_runs():
    jobs = {*uci.NETS.jobs(Terms())}
    assert {job for job in uci.FIGURE.jobs(Terms()) if job.setting.endswith("net")} <= jobs
    assert len({job.seed for job in jobs}) == 20
    table = [
        (f"{name}, net", score, seed, labels, *[0.5 + seed / 10 + 0.1 * (score == "epig")] * len(MEASURES))
        for name in ("Magic", "Vowel")
        for score in ("random", "bald", "epig", "epig, power", "epig, top")
        for seed in range(3)
        for labels in (4, 5)
    ]
    text = uci.verdict_nets(Results.of(("setting", "score", "seed", *uci.NETS.columns), table))
    assert "outperforms or matches BALD, by prior accuracy**: holds in Magic, net, Vowel, net." in text
    assert "outperforms or matches BALD, by log loss**: does not hold in Magic, net, Vowel, net." in text
    assert "| Magic, net | EPIG - BALD | **+0.100" in text
    assert "- Magic, net: EPIG, power - EPIG = -0.100" in text


@pytest.mark.parametrize("score", uci.OTHER_BATCHES)
def test_other_batches_of_the_net(score, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(uci.AT_ONCE, "quick", 3)
    found = rows(Job("Vowel, net", score, 0), Terms("quick"), 2)
    assert [row["labels"] for row in found] == [22, 25]
    assert {*MEASURES} < {*found[0]}


def test_features_as_ranks(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(uci.AT_ONCE, "quick", 3)
    setting = uci.NETS.settings[-1].name
    assert setting == "Magic, net, ranks"
    assert [row["labels"] for row in rows(Job(setting, "random", 0), Terms("quick"), 2)] == [4, 7]
    raw, ranked = uci_problem("Magic", 0), uci_problem("Magic", 0, ranks=True)
    assert (raw.y == ranked.y).all()
    assert abs(ranked.x.std() - 1) < 0.02
    for a, b in zip(raw.x.T, ranked.x.T, strict=True):
        assert (b[a.argsort()] == sorted(b)).all()
