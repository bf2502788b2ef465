"""Synthetic data: random, BALD and EPIG with a pool of 100,000, from 4 labels to 50, 100 seeds.

The paper's protocol at full size. Its posterior is found by 10,000 steps of gradient descent and its scores by 5,000
draws; here the posterior is the optimum of the same objective (or expectation propagation, an option), and the scores
are exact: BALD and EPIG in closed form, the best candidate by bounds that no other can exceed. EPIG has 1,000 targets
x* ~ p1, drawn anew for each step, as in the authors' code; the paper gives no number (D10).
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from askwell.information.probit import top_bald
from askwell.models.gp import GPClassifier, GPPosterior
from askwell.seeds import rng_for
from askwell.simulation.metrics import metrics
from experiments.drawing import ahead, curve_panels, curve_table, judged
from experiments.figure import Figure, Option, Setting, Terms
from experiments.results import Job, Results, Row
from experiments.synthetic import OPTIONS as PROBLEM_OPTIONS
from experiments.synthetic import P1, Problem, problem

__all__ = ["BUDGET", "FAMILY", "FIGURE", "OPTIONS", "acquire", "pool_name", "run"]

FAMILY = "synthetic"
SCORES = ("random", "bald", "epig")
BUDGET = 50
M = 1000
STEPS = BUDGET - 3  # rows of a run: with 4 labels, 5, ..., 50
OPTIONS = {
    **PROBLEM_OPTIONS,
    "inference": Option(
        ("vi", "ep"),
        "the approximate posterior: the optimum of the evidence lower bound (paper's objective), or expectation "
        "propagation.",
    ),
}


def pool_name(size: int) -> str:
    """The name of a setting.

    >>> pool_name(100_000)
    'pool of 100,000'
    """
    return f"pool of {size:,}"


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run of this figure, or of `bald_pool_size`."""
    size = int(job.setting.removeprefix("pool of ").replace(",", ""))
    chosen = {name: terms.options.get(name, option.default) for name, option in OPTIONS.items()}
    inference = chosen.pop("inference")
    found = problem(size, job.seed, **chosen)
    return acquire(found, job.score, seed=job.seed, inference=inference, past=past)


def acquire(
    problem: Problem,
    score: str,
    *,
    seed: int,
    inference: str = "vi",
    budget: int = BUDGET,
    m: int = M,
    past: Sequence[Row] = (),
) -> Iterator[Row]:
    """The steps after those that are past, one label each: labels, what was asked, accuracy and log loss."""
    asked = [int(item) for row in past for item in row["asked"]]
    start, budget = len(problem.initial[1]), min(budget, len(problem.initial[1]) + len(problem.y))
    model = GPClassifier(inference=inference)
    posterior = _fit(model, problem, asked, seed) if past else None
    while posterior is None or start + len(asked) < budget:
        began, new = time.perf_counter(), []
        if posterior is not None:
            new = [_question(posterior, problem, score, asked, seed, m)]
            asked = asked + new
        posterior = _fit(model, problem, asked, seed)
        found = metrics(posterior.predict_proba(problem.test[0]), problem.test[1])
        yield {
            "labels": start + len(asked),
            "asked": new,
            "accuracy": round(found["accuracy"], 6),
            "log_loss": round(found["log_loss"], 6),
            "seconds": round(time.perf_counter() - began, 3),
        }


def draw(results: Results) -> Any:
    """The three curves."""
    return curve_panels(results, columns=1)


def verdict(results: Results) -> str:
    """The table, and whether EPIG is above random and BALD below it."""
    settings = results.names("setting")
    signs = {"ahead": True, "behind": False, "level": None, "unknown": None}
    lines = [
        judged(claim, [signs[ahead(results, setting, a, b)] for setting in settings], settings)
        for claim, a, b in (
            ("EPIG is above random acquisition", "epig", "random"),
            ("BALD is below random acquisition", "random", "bald"),
            ("EPIG is above BALD", "epig", "bald"),
        )
    ]
    pairs = [("epig", "bald"), ("epig", "random"), ("bald", "random")]
    return "\n\n".join([curve_table(results, pairs), *lines])


def _fit(model: GPClassifier, problem: Problem, asked: Sequence[int], seed: int) -> GPPosterior:
    x, y = problem.initial
    places = np.array(asked, np.intp)
    inputs, known = np.concatenate([x, problem.x[places]]), np.concatenate([y, problem.y[places]])
    return model.fit(inputs, known, rng=rng_for(seed, len(known), "fit"), classes=[0, 1])


def _question(posterior: GPPosterior, problem: Problem, score: str, asked: Sequence[int], seed: int, m: int) -> int:
    """The position in the pool of the next label to ask for, among those not asked yet."""
    free = np.delete(np.arange(len(problem.y)), asked)
    x, step = problem.x[free], len(asked)
    if score == "random":
        return int(rng_for(seed, step, "random").choice(free))
    if score == "bald":
        return int(free[top_bald(*posterior.latent(x), 1)[0][0]])
    targets = P1.draw(m, rng=rng_for(seed, step, "targets"))
    return int(free[posterior.top_epig(x, targets, 1)[0][0]])


CLAIM = "EPIG deals effectively with a pool of 100,000; BALD is counterproductive relative to random acquisition"
FIGURE = Figure(
    name="2d_data",
    content="random, BALD and EPIG on the synthetic problem, a pool of 100,000",
    claim=CLAIM,
    settings=(
        Setting(pool_name(100_000), SCORES, {"standard": 100, "full": 100}, {"standard": STEPS, "full": STEPS}),
        Setting(pool_name(10_000), SCORES, {"quick": 5}, {"quick": STEPS}),
    ),
    run=run,
    draw=draw,
    verdict=verdict,
    options=OPTIONS,
    family=FAMILY,
)
