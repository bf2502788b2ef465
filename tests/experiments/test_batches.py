import itertools

import pytest

from experiments import batches, mnist
from experiments.figure import Terms
from experiments.measures import MEASURES
from experiments.results import Job, Results

pytestmark = pytest.mark.usefixtures("without_files")


@pytest.mark.parametrize("score", ["random", *(f"epig, {way}, 50" for way in batches.WAYS)])
def test_every_batch_of_the_linear_model(score, monkeypatch):
    monkeypatch.setattr(batches.beyond, "CANDIDATES", {"standard": 60})
    rows = [*itertools.islice(batches.run(Job("linear", score, 0), Terms(), ()), 2)]
    assert [row["labels"] for row in rows] == [20, 30 if score == "random" else 70]
    assert {*MEASURES} < {*rows[1]}


def test_the_net_is_that_of_the_mnist_figures(monkeypatch):
    pytest.importorskip("torch")
    given = []
    monkeypatch.setattr(batches, "acquire", lambda problem, model, choice, **options: given.append((model, options)))
    batches.run(Job("net", "epig, joint, 10", 0), Terms(), ())
    ((model, options),) = given
    assert model.training == mnist.net(None, Terms()).training
    assert (options["candidates"], options["test_draws"], options["size"](150)) == (10_000, 25, 10)


def test_verdict():
    rows = [
        ("net", score, seed, labels, *[0.5 + seed / 10 + 0.1 * ("joint" in score)] * len(MEASURES))
        for score in batches.FIGURE.settings[0].scores
        for seed in range(3)
        for labels in (20, 70)
    ]
    text = batches.verdict(Results.of(("setting", "score", "seed", "labels", *MEASURES), rows))
    assert "| net | EPIG, top, 50 - EPIG, joint, 50 | *-0.100 (-0.100 to -0.100)* |" in text
    assert "- net: EPIG, joint, 10 - random = +0.100" in text
