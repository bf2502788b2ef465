"""Batches of 10 and of 50 on unbalanced MNIST: EPIG's questions chosen jointly, by `power`, by score alone, or as if
labels of the others were known (`parbals`); with the paper's net, and with a linear model on principal components.

The net is trained and asked as in `mnist.py`, the linear model as in `beyond.py`; all steps have one size.
"""

from collections.abc import Iterator, Sequence

from experiments import beyond, mnist
from experiments.drawing import curve_panels, curve_table, measure_table
from experiments.figure import Figure, Setting, Terms
from experiments.loop import Choice, Uniform, acquire
from experiments.measures import MEASURES
from experiments.parbals import PartialLabels
from experiments.results import Job, Results, Row
from experiments.splits import mnist_problem

__all__ = ["FIGURE"]

POOL = "Unbalanced"
SIZES = (10, 50)
WAYS = ("joint", "power", "top", "parbals")
BUDGET = {"quick": 70, "standard": 320, "full": 320}


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run."""
    quick, net = terms.effort == "quick", job.setting == "net"
    problem = mnist_problem(
        POOL, job.seed, features=None if net else beyond.FEATURES, test=500 if quick else 2000 if net else None
    )
    score, way, size = parts(job.score)
    targets = Uniform(problem.targets, mnist.M)
    parbals = way == "parbals"
    return acquire(
        problem,
        mnist.net(problem, terms) if net else beyond.model("linear"),
        Choice("random", "top", None, own=PartialLabels(targets)) if parbals else Choice(score, way, targets),
        seed=job.seed,
        budget=BUDGET[terms.effort],
        past=past,
        size=lambda known: size,
        candidates=mnist.candidates(terms) if net else beyond.CANDIDATES.get(terms.effort),
        test_draws=25 if net and terms.effort == "standard" else None,
    )


def parts(score: str) -> tuple[str, str, int]:
    """A score of this figure: askwell's score, how a batch is chosen, and its size.

    >>> parts("random"), parts("epig, power, 50")
    (('random', 'top', 10), ('epig', 'power', 50))
    """
    if score == "random":
        return score, "top", SIZES[0]
    name, way, size = score.split(", ")
    return name, way, int(size)


def verdict(results: Results) -> str:
    """Each way against the joint choice of the same size, and the joint choice of many against that of few."""
    pairs = [(f"epig, {way}, {size}", f"epig, joint, {size}") for size in SIZES for way in WAYS[1:]]
    pairs += [("epig, joint, 50", "epig, joint, 10"), ("epig, joint, 10", "random"), ("epig, joint, 50", "random")]
    return "\n\n".join([curve_table(results, pairs), measure_table(results, pairs, MEASURES)])


FIGURE = Figure(
    name="batches",
    content="unbalanced MNIST with 10 and 50 labels at a time, chosen in four ways, net and linear model",
    claim="a batch chosen jointly is worth more than the best by score",
    settings=tuple(
        Setting(
            kind,
            ("random", *(f"epig, {way}, {size}" for size in SIZES for way in WAYS)),
            {"quick": 1, "standard": seeds, "full": 20},
            {effort: 1 + (budget - 20) // SIZES[0] for effort, budget in BUDGET.items()},
        )
        for kind, seeds in (("net", 5), ("linear", 10))
    ),
    run=run,
    draw=curve_panels,
    verdict=verdict,
    options={"candidates": mnist.OPTIONS["candidates"]},
    columns=("labels", *MEASURES),
)
