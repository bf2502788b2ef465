"""Beyond the paper: MNIST without a convolutional net, and EPIG's other estimators and batches.

The model is a Bayesian linear one, or a forest of 300 trees, on the 50 leading principal components of the images,
which need no labels. A fit takes a fraction of a second, so 4,000 candidates per step, fewer labels at a time and all
test images are affordable. Scores: EPIG as the paper estimates it, corrected for the chance in few draws, and its
quadratic form, with 5 labels at a time (10 from 100 on); and EPIG with 20 at a time, jointly or by score alone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from experiments.drawing import ahead, curve_panels, curve_table
from experiments.figure import Figure, Setting, Terms
from experiments.loop import Choice, Uniform, acquire
from experiments.mnist import grid
from experiments.results import Job, Results, Row
from experiments.splits import MNIST, mnist_problem

__all__ = ["FIGURE"]

FEATURES = 50
BUDGET, QUICK_BUDGET = 300, 60
M = 100
SCORES = {  # name -> score, batch, labels per step up to LATER
    "random": ("random", "top", 5),
    "bald": ("bald", "batchbald", 5),
    "entropy": ("entropy", "top", 5),
    "epig": ("epig", "joint", 5),
    "epig_corrected": ("epig_corrected", "joint", 5),
    "epig_quadratic": ("epig_quadratic", "joint", 5),
    "epig, 20 jointly": ("epig", "joint", 20),
    "epig, best 20": ("epig", "top", 20),
}
LATER = 100  # from here on at least 10 labels per step
CANDIDATES = {"quick": 500, "standard": 4000}


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run."""
    name, kind = job.setting.split(", ")
    score, batch, size = SCORES[job.score]
    problem = mnist_problem(name, job.seed, features=FEATURES, test=500 if terms.effort == "quick" else None)
    later = sizes(size, terms.effort)
    return acquire(
        problem,
        model(kind),
        Choice(score, batch, Uniform(problem.targets, M)),
        seed=job.seed,
        budget=QUICK_BUDGET if terms.effort == "quick" else BUDGET,
        past=past,
        # The first step ends at 20, so that all pools are judged at the same numbers of labels.
        size=lambda known: 20 - known if known < 20 else later(known),
        candidates=CANDIDATES.get(terms.effort),
    )


def sizes(size: int, effort: str) -> Callable[[int], int]:
    """Labels per step, given how many are known: `size`, and at least 10 from LATER on."""
    return lambda known: 20 if effort == "quick" else size if known < LATER else max(size, 10)


def model(kind: str) -> Any:
    """The linear model with 200 draws, or the forest.

    Components have one unit: to standardise each would blow up the small ones, which are noise (5 points of accuracy).
    """
    if kind == "linear":
        from askwell.models.linear import LinearModel

        return LinearModel(draws=200, standardise=False)
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(300)


def draw(results: Results) -> Any:
    """Pools side by side, the linear model above the forest."""
    names = [f"{name}, {kind}" for kind in ("linear", "forest") for name in MNIST]
    return curve_panels(results, settings=[name for name in names if name in results.names("setting")])


def verdict(results: Results) -> str:
    """Tables, and in which pools EPIG is above BALD and random."""
    pairs = [("epig", "bald"), ("epig", "random"), ("epig", "entropy")]
    pairs += [(name, "epig") for name in ("epig_corrected", "epig_quadratic", "epig, 20 jointly")]
    pairs += [("epig, 20 jointly", "epig, best 20")]
    words = {"ahead": "above", "level": "level with", "behind": "below", "unknown": "not compared with"}
    lines = [
        f"- {setting}: EPIG is {words[ahead(results, setting, 'epig', 'bald')]} BALD and "
        f"{words[ahead(results, setting, 'epig', 'random')]} random."
        for setting in results.names("setting")
    ]
    return "\n\n".join([curve_table(results, pairs), "\n".join(lines)])


def _steps() -> dict[str, int]:
    budgets = {"quick": QUICK_BUDGET, "standard": BUDGET, "full": BUDGET}
    return {effort: len(grid(20, sizes(5, effort), budget)) for effort, budget in budgets.items()}


FIGURE = Figure(
    name="mnist_beyond",
    content="beyond the paper: cheap models on principal components, other EPIGs, batches",
    claim="Does a cheap model on unsupervised features beat the paper's net, and where is EPIG above BALD with it?",
    settings=tuple(
        Setting(f"{name}, {kind}", tuple(SCORES), {"quick": 1, "standard": 3, "full": 20}, _steps())
        for name in MNIST
        for kind in ("linear", "forest")
    ),
    run=run,
    draw=draw,
    verdict=verdict,
)
