"""MNIST with a convolutional net: curated, unbalanced and redundant pools. Three figures of the paper share their runs.

mnist_standard: random, BALD and EPIG with samples of p*(x*). mnist_ablation: EPIG that knows only p*(y*), or takes
targets from the pool. mnist_extra_baselines: predictive entropy, and BADGE with 10 labels at a time.

`--full` is the paper's protocol: up to 50,000 steps of training per label, one label at a time, all 40,000 candidates,
20 seeds. By default (`standard`) the same net is trained by AdamW for 400 steps in bfloat16, is given 10 labels at a
time (20 from 60 on, 40 from 140 on; chosen jointly, EPIG by its joint batch and BALD by BatchBALD) from 10,000
candidates drawn anew each step, is tested on 2,000 images with 25 of its draws, and there are 12 seeds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from askwell.targets import class_prior
from experiments.drawing import above, curve_panels, curve_table, measure_table
from experiments.figure import Figure, Option, Setting, Terms
from experiments.loop import Choice, Elsewhere, Uniform, acquire, gradient_badge
from experiments.measures import MEASURES
from experiments.results import Job, Results, Row
from experiments.splits import MNIST, Problem, mnist_problem

__all__ = ["ABLATION", "EXTRA_BASELINES", "OPTIONS", "STANDARD", "candidates", "choice_for", "grid", "net"]

BUDGET = 300
M = 100
KNOWN_CLASSES, POOL_TARGETS = "epig, p*(y*)", "epig, pool targets"
LITTLE = 0.02  # accuracy over the curve that may be lost where EPIG knows less about the targets
AMONG = 500  # images of the pool that are weighed by class in the cheaper protocols
QUICK_BUDGET = 60


def run(job: Job, terms: Terms, past: Sequence[Row]) -> Iterator[Row]:
    """One run."""
    full = terms.effort == "full"
    problem = mnist_problem(job.setting, job.seed, test=None if full else 2000 if terms.effort == "standard" else 500)
    return acquire(
        problem,
        net(problem, terms),
        choice_for(job.score, problem, terms),
        seed=job.seed,
        budget=QUICK_BUDGET if terms.effort == "quick" else BUDGET,
        past=past,
        size=sizes(job.score, terms),
        candidates=candidates(terms),
        test_draws=25 if terms.effort == "standard" else None,
    )


def candidates(terms: Terms) -> int | None:
    """How many images of the pool a step looks at; None is all of them."""
    asked = terms.options.get("candidates", OPTIONS["candidates"].default)
    if terms.effort == "quick":
        return 300
    return None if terms.effort == "full" or asked == "all" else int(asked)


def net(problem: Problem, terms: Terms) -> Any:
    """The net of BatchBALD, dropout 0.5, 100 draws."""
    from askwell.models.dropout import DropoutModel
    from askwell.models.networks import cnn
    from askwell.models.training import ModernTraining, PaperTraining

    best = OPTIONS["weights"].default == terms.options.get("weights", "best")
    paper = PaperTraining(learning_rate=0.01, validate_every=100, patience=5000, restore=best)
    cheap = ModernTraining(learning_rate=2e-3, steps=400 if terms.effort == "standard" else 60, bfloat16=True)
    training = paper if terms.effort == "full" else cheap
    return DropoutModel(
        cnn,
        draws=100 if terms.effort != "quick" else 30,
        training=training,
        validation=problem.validation if terms.effort == "full" else None,
        bfloat16=terms.effort != "full",
        device="cpu" if terms.effort != "full" else "auto",
    )


def choice_for(score: str, problem: Problem, terms: Terms) -> Choice:
    """What a name in these figures stands for."""
    if score == "badge":
        return Choice("random", "top", None, own=gradient_badge)
    if score not in (KNOWN_CLASSES, POOL_TARGETS):
        return Choice(score, {"epig": "joint", "bald": "batchbald"}.get(score, "top"), Uniform(problem.targets, M))
    pool = problem.x[problem.initial :]
    if score == POOL_TARGETS:
        apart = terms.options.get("pool_targets") == "apart"
        return Choice("epig", "joint", Uniform(problem.pool_like if apart else pool, M))
    drawn = terms.options.get("class_targets", "drawn") == "drawn"
    among = len(pool) if terms.effort == "full" else AMONG
    return Choice("epig", "joint", Elsewhere(pool, class_prior(problem.prior, m=M, among=among, resample=drawn)))


def sizes(score: str, terms: Terms) -> Callable[[int], int]:
    """Labels per step, given how many are known."""
    if terms.effort == "full":
        return lambda known: 10 if score == "badge" else 1
    return lambda known: 10 if known < 60 else 20 if known < 140 else 40


def grid(initial: int, size: Callable[[int], int], budget: int) -> list[int]:
    """The numbers of labels of a run's steps.

    >>> grid(20, lambda known: 10 if known < 40 else 20, 90)
    [20, 30, 40, 60, 80, 90]
    """
    labels = [initial]
    while labels[-1] < budget:
        labels.append(min(budget, labels[-1] + size(labels[-1])))
    return labels


def verdict_standard(results: Results) -> str:
    """EPIG against BALD and random."""
    return _verdict(results, [("epig", "bald"), ("epig", "random")], {"bald": "BALD", "random": "random"})


def verdict_ablation(results: Results) -> str:
    """What is lost where less is known of the targets, and whether BALD is still beaten."""
    less = [score for score in (KNOWN_CLASSES, POOL_TARGETS) if score in results.names("score")]
    pairs = [(score, other) for score in less for other in ("epig", "bald")]
    parts = [curve_table(results, pairs)]
    for score in less:
        name = score.replace("epig", "EPIG")
        parts += [
            above(results, f"{name}: less than {LITTLE} is lost", score, "epig", margin=LITTLE),
            above(results, f"{name}: above BALD", score, "bald"),
        ]
    return "\n\n".join([*parts, measure_table(results, pairs, MEASURES)])


def verdict_extra(results: Results) -> str:
    """EPIG against entropy and BADGE."""
    pairs = [("epig", "entropy"), ("epig", "badge")]
    return _verdict(results, pairs, {"entropy": "predictive entropy", "badge": "BADGE"})


def _verdict(results: Results, pairs: Sequence[tuple[str, str]], named: Mapping[str, str]) -> str:
    """The table by accuracy, what became of the claim that the first of each pair is above the second, all measures."""
    claims = [above(results, f"EPIG is above {named[b]}", a, b) for a, b in pairs]
    return "\n\n".join([curve_table(results, pairs), *claims, measure_table(results, pairs, MEASURES)])


def _settings(scores: Sequence[str], but: Mapping[str, Sequence[str]] | None = None) -> tuple[Setting, ...]:
    """The three pools; `but` are scores that a pool does without."""
    found = []
    for name in MNIST:
        initial = 6 if name == "Redundant" else 20
        steps = {
            effort: len(grid(initial, sizes("epig", Terms(effort)), QUICK_BUDGET if effort == "quick" else BUDGET))
            for effort in ("quick", "standard", "full")
        }
        kept = tuple(score for score in scores if score not in (but or {}).get(name, ()))
        found.append(Setting(name, kept, {"quick": 1, "standard": 12, "full": 20}, steps))
    return tuple(found)


def _figure(
    name: str, content: str, claim: str, settings: tuple[Setting, ...], verdict: Callable[[Results], str]
) -> Figure:
    return Figure(
        name=name,
        content=content,
        claim=claim,
        settings=settings,
        run=run,
        draw=curve_panels,
        verdict=verdict,
        options=OPTIONS,
        columns=("labels", *MEASURES),
        family="mnist",
    )


OPTIONS = {
    "weights": Option(
        ("best", "last"),
        "the net's weights after the full training: those of the best validation (paper) or the last (authors' code).",
    ),
    "pool_targets": Option(
        ("pool", "apart"),
        "targets 'from the pool': of the pool itself (paper), or of a set apart with its class frequencies (authors' "
        "code).",
    ),
    "class_targets": Option(
        ("drawn", "weighted"),
        "targets for a known p*(y*): 100 draws by weight (paper), or askwell's importance sampling with weights kept.",
    ),
    "candidates": Option(
        ("10000", "1000", "all"),
        "how many images of the pool a step of the standard protocol looks at, drawn anew each time; few favour BALD.",
    ),
}
STANDARD = _figure(
    "mnist_standard",
    "curated, unbalanced and redundant MNIST, dropout CNN",
    "EPIG is above BALD and random",
    _settings(("random", "bald", "epig")),
    verdict_standard,
)
# A curated pool is like its targets already: the pool variant would be the same run under another name.
ABLATION = _figure(
    "mnist_ablation",
    "the same with EPIG that knows less about the targets",
    "EPIG keeps its performance without knowledge of p*(x*)",
    _settings(("random", "bald", "epig", KNOWN_CLASSES, POOL_TARGETS), {"Curated": (POOL_TARGETS,)}),
    verdict_ablation,
)
EXTRA_BASELINES = _figure(
    "mnist_extra_baselines",
    "the same with predictive entropy and BADGE beside them",
    "EPIG is above predictive entropy and BADGE",
    _settings(("random", "bald", "epig", "entropy", "badge")),
    verdict_extra,
)
