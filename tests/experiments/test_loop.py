import itertools
import warnings

import numpy as np
import pytest
from light_model import LightModel

import askwell
from askwell.learner import Learner
from askwell.seeds import rng_for
from askwell.targets import class_prior
from experiments.loop import Choice, Elsewhere, Uniform, acquire, gradient_badge
from experiments.splits import Problem


def problem(n=60):
    rng = rng_for(1, 0, "problem")
    x = rng.normal(size=(n + 40, 2)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    order = np.concatenate([np.flatnonzero(y[:n] == 0)[:2], np.flatnonzero(y[:n] == 1)[:2]])
    order = np.concatenate([order, np.setdiff1d(np.arange(n), order)])
    return Problem(
        classes=(0, 1),
        x=x[:n][order],
        y=y[:n][order],
        initial=4,
        targets=x[n : n + 20] + 1,
        pool_like=x[:0],
        prior=(0.3, 0.7),
        validation=(x[:4], y[:4]),
        test=(x[n + 20 :], y[n + 20 :]),
    )


CHOICES = {
    "random": Choice("random"),
    "bald": Choice("bald", "top"),
    "epig": Choice("epig", "joint", Uniform(problem().targets, 8)),
    "classes": Choice("epig", "joint", Elsewhere(problem().x, class_prior((0.3, 0.7), m=8, among=30, resample=True))),
}


def plain(rows):
    return [{name: value for name, value in row.items() if name not in ("seconds", "cpu")} for row in rows]


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("candidates", [None, 15])
def test_a_run_that_was_cut_goes_on_as_it_would_have(name, candidates):
    def run(past=()):
        options = {"seed": 2, "budget": 12, "past": past, "candidates": candidates}
        return acquire(problem(), LightModel(), CHOICES[name], **options, size=lambda known: 3)

    whole = list(run())
    assert [row["labels"] for row in whole] == [4, 7, 10, 12]
    for cut in range(1, 5):
        assert plain(whole[cut:]) == plain(run(whole[:cut]))


def test_the_first_step_has_the_initial_labels_and_nothing_is_asked_twice():
    rows = list(acquire(problem(20), LightModel(), Choice("bald", "top"), seed=0, budget=300, size=lambda known: 7))
    assert rows[0]["asked"] == [0, 1, 2, 3]
    assert [row["labels"] for row in rows] == [4, 11, 18, 20]  # the pool is exhausted
    assert sorted(itertools.chain(*(row["asked"] for row in rows))) == list(range(20))


def test_steps_are_those_of_the_definition():
    """One label at a time: the candidate with the highest EPIG about the step's targets, judged on the test set."""
    given, aim = problem(), Uniform(problem().targets, 8)
    rows = list(acquire(given, LightModel(), Choice("epig", "joint", aim), seed=5, budget=6))
    known = rows[0]["asked"] + rows[1]["asked"]
    rng = rng_for(5, len(known), "fit")
    posterior = LightModel().fit(given.x[known], given.y[known].tolist(), rng=rng)
    targets = aim.sample(None, None, classes=(), rng=rng_for(5, len(known), "targets")).x
    free = np.setdiff1d(np.arange(len(given.y)), known)
    scores = askwell.epig(posterior.predict(given.x[free]), posterior.predict(targets))
    assert rows[2]["asked"] == [int(free[np.argmax(scores)])]
    mean = np.asarray(posterior.predict(given.test[0])).mean(axis=1)
    hits = [int(row.argmax() == label) for row, label in zip(mean, given.test[1], strict=True)]
    assert rows[1]["accuracy"] == pytest.approx(sum(hits) / len(hits), abs=1e-6)
    losses = [-np.log(max(row[label], 1e-12)) for row, label in zip(mean, given.test[1], strict=True)]
    assert rows[1]["log_loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_candidates_are_drawn_anew_each_step():
    rows = list(acquire(problem(), LightModel(), Choice("random"), seed=0, budget=60, candidates=1))
    assert sorted(row["asked"][0] for row in rows[1:]) == list(range(4, 60))


def test_uniform_targets_change_with_the_step_and_are_drawn_without_replacement():
    aim = Uniform(np.arange(50.0)[:, None], 10)
    first, second = (aim.sample(None, None, classes=(), rng=rng_for(0, step, "targets")).x for step in (1, 2))
    assert len(np.unique(first)) == 10
    assert not np.array_equal(first, second)
    assert len(Uniform(np.zeros((3, 1)), 10).sample(None, None, classes=(), rng=None).x) == 3


class LoudModel:
    """Warns in every fit."""

    def fit(self, x, y, *, rng):
        warnings.warn(f"only {len(y)} labels", stacklevel=1)
        return LightModel().fit(x, y, rng=rng)


def test_warnings_are_kept_with_the_step():
    rows = list(acquire(problem(), LoudModel(), Choice("random"), seed=0, budget=5))
    assert [row["warnings"] for row in rows] == [["only 4 labels"], ["only 5 labels"]]


def test_badge_takes_the_largest_gradient_first_and_then_others():
    torch = pytest.importorskip("torch")
    from askwell.models.dropout import DropoutModel, gradient_embeddings
    from askwell.models.training import ModernTraining

    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
    given = problem()
    learner = Learner(DropoutModel(net, draws=5, training=ModernTraining(steps=5)), given.x, classes=(0, 1))
    learner.tell([0, 1, 2, 3], given.y[:4].tolist())
    x = given.x[4:]
    chosen = gradient_badge(learner, x, 6, rng_for(0, 0, "batch"))
    lengths = [float(np.sum(row.astype(np.float64) ** 2)) for row in gradient_embeddings(learner.posterior, x)]
    assert chosen[0] == int(np.argmax(lengths))
    assert len({*chosen.tolist()}) == 6
    rows = list(
        acquire(
            given,
            DropoutModel(net, draws=5, training=ModernTraining(steps=5)),
            Choice("random", "top", None, own=gradient_badge),
            seed=0,
            budget=16,
            size=lambda known: 6,
        )
    )
    assert [len(row["asked"]) for row in rows] == [4, 6, 6]
