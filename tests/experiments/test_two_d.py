import numpy as np
import pytest

from askwell.information import probit
from askwell.models.gp import GPClassifier
from askwell.seeds import rng_for
from experiments.figure import Terms
from experiments.results import Job, Results
from experiments.synthetic import P1, problem
from experiments.two_d import FIGURE, acquire, pool_name, run

COLUMNS = ("setting", "score", "seed", *FIGURE.columns)
found = problem(400, 0)


def steps(score, past=(), **options):
    given = {"seed": 0, "budget": 9, "m": 30, **options}
    return list(acquire(found, score, past=past, **given))


def without_time(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.parametrize("score", ["random", "bald", "epig"])
def test_a_run_asks_one_by_one_and_goes_on_where_it_was(score):
    rows = steps(score)
    assert [row["labels"] for row in rows] == [4, 5, 6, 7, 8, 9]
    asked = [item for row in rows for item in row["asked"]]
    assert len({*asked}) == 5
    assert all(0.3 < row["accuracy"] <= 1 and row["log_loss"] > 0 for row in rows)
    for done in (1, 3, 6):
        assert without_time(steps(score, past=rows[:done])) == without_time(rows[done:])


@pytest.mark.parametrize("inference", ["vi", "ep"])
def test_what_is_asked_is_what_scoring_everything_would_ask(inference):
    """Against all scores of the pool, from the posterior and the targets of that step."""
    for score in ("bald", "epig"):
        rows = steps(score, inference=inference, budget=7)
        asked = [item for row in rows for item in row["asked"]]
        for step, item in enumerate(asked):
            x = np.concatenate([found.initial[0], found.x[asked[:step]]])
            y = np.concatenate([found.initial[1], found.y[asked[:step]]])
            posterior = GPClassifier(inference=inference).fit(x, y, rng=rng_for(0, len(y), "fit"))
            if score == "bald":
                scores = probit.bald(*posterior.latent(found.x))
            else:
                scores = posterior.epig(found.x, P1.draw(30, rng=rng_for(0, step, "targets")))
            scores[asked[:step]] = -np.inf
            assert scores[item] == pytest.approx(scores.max(), rel=1e-9)


def test_a_pool_can_be_exhausted():
    small = problem(3, 0)
    for score in ("random", "bald", "epig"):
        rows = list(acquire(small, score, seed=0, m=10))
        assert [row["labels"] for row in rows] == [4, 5, 6, 7]


def test_options_reach_the_problem():
    job = Job(pool_name(100), "random", 0)
    plain, other = (next(run(job, Terms("quick", options), [])) for options in ({}, {"link": "logistic"}))
    assert plain["accuracy"] != other["accuracy"]


def test_the_full_protocol_is_the_papers():
    jobs = FIGURE.jobs(FIGURE.terms("full", {}))
    assert len(jobs) == 300
    assert {(job.setting, job.score) for job in jobs} == {
        ("pool of 100,000", score) for score in ("random", "bald", "epig")
    }
    assert FIGURE.steps(jobs[0], Terms("full")) == 47


def test_it_is_drawn_and_judged():
    rows = [
        (pool_name(400), score, seed, row["labels"], row["accuracy"], row["log_loss"])
        for score in ("random", "bald", "epig")
        for seed in range(2)
        for row in acquire(found, score, seed=seed, budget=6, m=10)
    ]
    results = Results.of(COLUMNS, rows)
    assert FIGURE.draw(results).axes[0].get_lines()
    assert "EPIG is above BALD" in FIGURE.verdict(results)


def made_up(gaps):
    """Runs whose accuracies differ from random's by these."""
    rows = [
        (pool_name(100_000), score, seed, labels, 0.8 + gap + 0.001 * seed, 0.5)
        for score, gap in gaps.items()
        for seed in range(5)
        for labels in (4, 50)
    ]
    return Results.of(COLUMNS, rows)


def test_the_verdict_can_go_either_way():
    as_in_paper = FIGURE.verdict(made_up({"random": 0, "bald": -0.1, "epig": 0.1}))
    assert as_in_paper.count("holds in pool of 100,000") == 3
    not_so = FIGURE.verdict(made_up({"random": 0, "bald": 0.1, "epig": -0.1}))
    assert not_so.count("does not hold in pool of 100,000") == 3
