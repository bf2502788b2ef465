import dataclasses
import itertools

import pytest

from experiments import mnist, splits
from experiments.figure import Terms
from experiments.loop import Uniform, acquire
from experiments.results import Job, Results
from experiments.splits import mnist_problem

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("without_files")


@pytest.fixture(scope="module")
def redundant(without_files):
    return mnist_problem("Redundant", 0, test=20)


def small(model):
    """The same net, hardly trained."""
    changes = {"steps": 2} | ({"samples": 2} if hasattr(model.training, "samples") else {})
    return dataclasses.replace(model, draws=4, training=dataclasses.replace(model.training, **changes))


@pytest.mark.parametrize(
    "score", ["random", "bald", "epig", "entropy", "badge", mnist.KNOWN_CLASSES, mnist.POOL_TARGETS]
)
def test_every_score_of_the_three_figures_runs(score, redundant, monkeypatch):
    monkeypatch.setattr(mnist, "AMONG", 100)
    terms = Terms()
    rows = acquire(
        redundant,
        small(mnist.net(redundant, terms)),
        mnist.choice_for(score, redundant, terms),
        seed=0,
        budget=26,
        size=mnist.sizes(score, terms),
        candidates=40,
    )
    assert [row["labels"] for row in rows] == [6, 16, 26]


def test_a_quick_run_learns(monkeypatch):
    monkeypatch.setattr(mnist, "QUICK_BUDGET", 30)
    (first, last) = itertools.islice(mnist.run(Job("Redundant", "epig", 0), Terms("quick"), ()), 2)
    assert (first["labels"], last["labels"]) == (6, 16)
    assert last["accuracy"] > 0.5


def test_the_full_protocol_is_the_papers(redundant):
    model = mnist.net(redundant, Terms("full"))
    training = model.training
    assert (training.learning_rate, training.steps, training.patience) == (0.01, 50_000, 5_000)
    assert (training.validate_every, training.restore, model.draws) == (100, True, 100)
    assert len(model.validation[1]) == 60
    assert not mnist.net(redundant, Terms("full", {"weights": "last"})).training.restore
    assert mnist.sizes("epig", Terms("full"))(250) == 1
    assert mnist.sizes("badge", Terms("full"))(250) == 10
    choice = mnist.choice_for(mnist.KNOWN_CLASSES, redundant, Terms("full"))
    assert len(choice.targets.x) == choice.targets.targets.among == 40 * splits.DIGITS


def test_the_full_protocol_runs_for_a_few_steps(redundant):
    terms = Terms("full")
    rows = acquire(
        dataclasses.replace(redundant, x=redundant.x[:200], y=redundant.y[:200]),
        small(mnist.net(redundant, terms)),
        mnist.choice_for("epig", redundant, terms),
        seed=0,
        budget=8,
        size=mnist.sizes("epig", terms),
    )
    assert [row["labels"] for row in rows] == [6, 7, 8]


def test_where_targets_come_from(redundant):
    known = mnist.choice_for("epig", redundant, Terms()).targets
    assert isinstance(known, Uniform)
    assert known.x is redundant.targets
    pool = mnist.choice_for(mnist.POOL_TARGETS, redundant, Terms()).targets
    assert len(pool.x) == 40 * splits.DIGITS
    apart = mnist.choice_for(mnist.POOL_TARGETS, redundant, Terms("standard", {"pool_targets": "apart"})).targets
    assert apart.x is redundant.pool_like
    assert mnist.choice_for(mnist.KNOWN_CLASSES, redundant, Terms()).targets.targets.resample
    weighted = Terms("standard", {"class_targets": "weighted"})
    assert not mnist.choice_for(mnist.KNOWN_CLASSES, redundant, weighted).targets.targets.resample


def test_figures_share_their_runs():
    jobs = [{*figure.jobs(Terms())} for figure in (mnist.STANDARD, mnist.ABLATION, mnist.EXTRA_BASELINES)]
    assert jobs[0] <= jobs[1]
    assert jobs[0] <= jobs[2]
    assert {figure.family for figure in (mnist.STANDARD, mnist.ABLATION, mnist.EXTRA_BASELINES)} == {"mnist"}
    assert not any(job.setting == "Curated" and job.score == mnist.POOL_TARGETS for job in jobs[1])


def results(values):
    rows = [
        (setting, score, seed, labels, value + seed / 10)
        for (setting, score), value in values.items()
        for seed in range(3)
        for labels in (20, 30)
    ]
    return Results.of(("setting", "score", "seed", "labels", "accuracy"), rows)


def test_verdicts():
    values = {("Redundant", "random"): 0.4, ("Redundant", "bald"): 0.5, ("Redundant", "epig"): 0.6}
    values |= {("Redundant", mnist.KNOWN_CLASSES): 0.59, ("Redundant", mnist.POOL_TARGETS): 0.45}
    values |= {("Curated", "random"): 0.4, ("Curated", "bald"): 0.7, ("Curated", "epig"): 0.6}
    found = results(values)
    assert "**: holds in Redundant; does not hold in Curated." in mnist.verdict_standard(found)
    text = mnist.verdict_ablation(found)
    assert "EPIG, p*(y*): less than 0.02 is lost**: holds in Redundant." in text
    assert "EPIG, p*(y*): above BALD**: holds in Redundant." in text
    assert "EPIG, pool targets: less than 0.02 is lost**: does not hold in Redundant." in text
    assert "EPIG, pool targets: above BALD**: does not hold in Redundant." in text


def test_how_many_candidates():
    assert mnist.candidates(Terms()) == 10_000
    assert mnist.candidates(Terms("standard", {"candidates": "1000"})) == 1_000
    assert mnist.candidates(Terms("standard", {"candidates": "all"})) is None
    assert mnist.candidates(Terms("full")) is None
    assert mnist.candidates(Terms("quick")) == 300
