"""What to ask next: the one ranking of the house, for a learner, a project and a simulation alike.

    Strategy: model, pool, targets, score, batch, seed      what stays the same from one question to the next
        first(labels)  -> typical inputs                    while no model can choose
        round(labels)  -> Round: posterior, targets, scores made once for a set of labels
                              choose(size) -> positions     the batch that is worth most

What comes out follows from labels and seed alone, not from the order in which people answered.
"""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, final

import numpy as np

from askwell.acquisition import Weighted, check_kind, open_weights, weighted
from askwell.arrays import take
from askwell.checks import share
from askwell.data.pool import Pool
from askwell.information import moments
from askwell.information.categorical import bald, epig, margin, pairwise_epig
from askwell.information.draws import signal
from askwell.models.inputs import aligned, as_vectors, column_names, count
from askwell.models.protocol import Model, fit_model, label_moments, predicted, predicts_numbers
from askwell.scoring import Search, best_items, flat_warning, score_items
from askwell.scoring.items import HEAD
from askwell.seeds import rng_for
from askwell.selection import Candidates, Wants, as_batch, check_for_numbers, joint, select, wants
from askwell.targets import Drawn, Sample, Targets, draw, given_inputs, is_turn

__all__ = [
    "Explanation",
    "Round",
    "Selected",
    "Strategy",
    "classes_of",
    "first_questions",
    "is_start",
    "item_costs",
    "usual_evaluation",
]

SOME = 500  # candidates that the signal is judged by
FIRST, FIRST_ROWS = 30, 1000  # first questions that are typical inputs, of so many that are looked at
EVALUATION = 0.2  # of the questions are drawn with the default score, unless something else is said
FIRST_EACH = 3  # first questions for each class: then classes that nobody has seen are no longer waited for


@final
@dataclass(frozen=True)
class Explanation:
    """Why an item is worth asking, or not. Where errors have costs, what it tells about targets is weighted by them."""

    item: Any
    label: Any  # what was told, or None
    belief: dict[Any, float]  # p(y|x) now; where labels are numbers, their "mean" and "std"
    score: float  # EPIG(x), in nats
    margin: float | None  # how close its two most probable classes are: 1 is a tie; None where labels are numbers
    about_open: float | None  # EPIG(x), targets counting by how open their predictions are; times the margin: "auto"
    bald: float  # what its label would tell about the model itself
    informs: tuple[tuple[int, float], ...]  # (target, I(y; y*)) in nats, the most informed first
    target_beliefs: tuple[dict[Any, float], ...]  # p(y*|x*) of those targets, in the same order
    targets: Any  # the inputs that these numbers count
    class_weights: dict[Any, float] | None = None  # what errors cost

    def __str__(self) -> str:
        lines = [
            f"item {self.item!r}" + ("" if self.label is None else f", labelled {self.label!r}"),
            f"  believed to be {_in_words(self.belief)}",
            f"  its label is expected to tell {self.score:.4f} nats about a target's, {self.bald:.4f} about the model",
        ]
        if self.margin is not None and self.about_open is not None:
            lines.append(
                f"  by default it is worth {self.margin * self.about_open:.4f}: {self.about_open:.4f} nats about "
                f"predictions that can still change, times {self.margin:.2f}, how open its own is"
            )
        for (target, nats), belief in zip(self.informs, self.target_beliefs, strict=True):
            lines.append(f"  {nats:.4f} nats about target {target}, believed to be {_in_words(belief)}")
        if self.class_weights is not None:
            costs = ", ".join(f"{label!r} {cost:g}" for label, cost in self.class_weights.items())
            lines.append(f"  an error costs: {costs}; nats about targets are weighted by it")
        return "\n".join(lines)


class Selected(NamedTuple):
    """An item to ask about: chosen for its score, or drawn with a known probability to evaluate the model."""

    position: int  # in the pool
    score: float | None = None  # nats; None: there is no model yet, or it was drawn
    probability: float | None = None  # of the item at each draw; None: it was chosen


@final
@dataclass(frozen=True, eq=False)
class Strategy:
    """How to choose what to ask, whatever the labels are.

    Labels are classes, or numbers where the model is one of regression: no classes, no costs of errors.
    Without `classes` they are those of the labels; with them, questions begin by looking for each (see `is_start`).
    Several questions are chosen jointly for auto and EPIG, unless another `batch` is named, else by score alone. With
    `cost [n]`, what an item's label costs, items are ranked by score per cost. `class_weights` are costs of errors.
    `evaluation` is the share of the questions that are not chosen but drawn, so that the model can be judged by them:
    see `askwell.targets.drawing` and `askwell.estimate`. The model learns from all answers.

    >>> from askwell.data.pool import as_pool
    >>> from askwell.models.linear import LinearModel
    >>> from askwell.targets import given
    >>> x = rng_for(0, 0, "example").normal(size=(60, 2))
    >>> strategy = Strategy(LinearModel(draws=50), as_pool(x), given(x[:20]), seed=3)
    >>> next(strategy.first({0: "a"})) in range(1, 60), strategy.first({0: "a", 1: "b"})
    (True, None)
    >>> chosen = strategy.round({0: "a", 1: "b"}).choose(2)
    >>> len(chosen), all(score > 0 for _, score in chosen)
    (2, True)
    """

    model: Model
    pool: Pool
    targets: Targets
    score: Any = "auto"
    batch: Any = None
    classes: Sequence[Any] | None = None
    class_weights: Mapping[Any, float] | None = None
    cost: np.ndarray | None = None
    seed: int = 0
    engine: Any = None
    evaluation: float = 0.0

    def __post_init__(self) -> None:
        share("evaluation", self.evaluation, most=0.5)
        check_kind(self.score, numbers=self.numbers)
        if self.numbers:
            check_for_numbers(self.selection)
            for name in ("classes", "class_weights"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} must be left out, because {type(self.model).__name__} predicts numbers, not classes."
                    )

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers: the model says so."""
        return predicts_numbers(self.model)

    @property
    def selection(self) -> Any:
        """The batch, or what stands for None: questions by EPIG alone would repeat each other."""
        return self.batch if self.batch is not None else "joint" if self.score in ("epig", "auto") else "top"

    def free(self, *taken: Collection[int]) -> np.ndarray:
        """Which items of the pool `[n]` are at none of these positions."""
        free = np.ones(len(self.pool), bool)
        for positions in taken:
            free[[*positions]] = False
        return free

    def first(self, labels: Mapping[int, Any]) -> Iterator[int] | None:
        """Positions without a label in the order in which to ask, while no model can choose; None once one can."""
        if not is_start([*labels.values()], classes=() if self.score == "random" else self.classes or ()):
            return None
        return first_questions(self.pool, self.targets, [*labels], rng=self.rng("first", labels))

    @cached_property
    def drawn(self) -> Drawn | None:
        """The items that evaluate the model, in the order drawn; None where no questions are."""
        return draw(self.pool, self.targets, seed=self.seed) if self.evaluation else None

    def questions(
        self, chosen: Iterable[tuple[int, float | None]], *, asked: Collection[int], skipped: Collection[int] = ()
    ) -> Iterator[Selected]:
        """The `chosen` (position, score) and, in their turn, drawn ones between them.

        `asked` are the positions with labels or waiting for them; `skipped` ones are not drawn.
        """
        if self.drawn is None:
            yield from (Selected(*each) for each in chosen)
            return
        taken, waiting = {*asked}, iter(chosen)
        order = [each for each in dict.fromkeys(self.drawn.positions.tolist()) if each in taken or each not in skipped]
        head = 0  # of the order: all of these are taken
        while True:
            while head < len(order) and order[head] in taken:
                head += 1
            if head < len(order) and is_turn(len(taken), head, share=self.evaluation):
                question = Selected(order[head], None, self.drawn.probability(order[head]))
            else:
                following = next((each for each in waiting if each[0] not in taken), None)
                if following is None:
                    return
                question = Selected(*following)
            taken.add(question.position)
            yield question

    def round(self, labels: Mapping[int, Any]) -> "Round":
        """Fit the model to the labels, position -> label, and draw the targets of this step."""
        posterior = self.fit(self._choosing(labels), self.rng("fit", labels))
        sample = self.targets.sample(
            self.pool,
            lambda x: predicted(posterior, x),
            classes=() if self.numbers else posterior.classes,
            rng=rng_for(self.seed, 0 if self.targets.fixed else len(labels), "targets"),
        )
        # A model of somebody else's may not look at names. Other columns than the pool's are for the model to judge.
        sample = dataclasses.replace(sample, x=aligned(sample.x, column_names(self.pool.x), by_name=True))
        rng = partial(rng_for, self.seed, len(labels))
        search = Search(posterior, self.pool, sample.x, sample.weights, np.flatnonzero(self.free(labels)), rng)
        score = self.score if self.numbers else weighted(self.score, self.class_weights, posterior.classes)
        return Round(self, labels, sample, search, score, {})

    def _choosing(self, labels: Mapping[int, Any]) -> Mapping[int, Any]:
        """The labels that questions are chosen by: without the drawn ones, where they are drawn from the pool itself.

        Questions that are chosen in the knowledge of an item's label keep away from it, so that a model without the
        item has a hole there, and predicts it worse than it does others. While one waits for its answer or was skipped,
        those behind it are left out too: they will be in the sample.
        """
        if self.drawn is None or self.drawn.of != "pool":
            return labels
        held_out = self.drawn.head(labels, least=int(self.evaluation * len(labels)))
        rest = {position: label for position, label in labels.items() if position not in held_out}
        return rest if len(classes_of(rest.values())) > 1 else labels

    def fit(self, labels: Mapping[int, Any], rng: np.random.Generator) -> Any:
        """The posterior given labels: by position, so that the order in which people answered changes nothing."""
        if self.numbers:
            return fit_model(self.model, *self.data(labels), rng=rng)
        classes = classes_of(labels.values()) if self.classes is None else self.classes
        return fit_model(self.model, *self.data(labels), rng=rng, classes=classes, declared=self.classes is not None)

    def data(self, labels: Mapping[int, Any]) -> tuple[Any, list[Any]]:
        """Inputs and labels, ordered by position."""
        positions = sorted(labels)
        return self.pool.take(positions), [labels[position] for position in positions]

    def rng(self, purpose: str, labels: Mapping[int, Any]) -> np.random.Generator:
        """The random numbers of a step, for one purpose."""
        return rng_for(self.seed, len(labels), purpose)


@final
@dataclass(frozen=True, eq=False)
class Round:
    """What follows from a set of labels: a posterior, the targets of this step, and scores, made when asked for."""

    strategy: Strategy
    labels: Mapping[int, Any]  # position -> label
    sample: Sample
    search: Search  # by the posterior that chooses
    score: Any  # of the strategy, with the costs of errors in it
    ranked: dict[str, tuple[np.ndarray, np.ndarray]]  # "best" or "all" -> positions, scores: what was computed so far

    @cached_property
    def posterior(self) -> Any:
        """What is believed after all the labels."""
        if self.strategy._choosing(self.labels) is self.labels:
            return self.search.posterior
        return self.strategy.fit(self.labels, self.strategy.rng("fit", self.labels))

    def choose(
        self, size: int, *, free: np.ndarray | None = None, pending: Sequence[int] = ()
    ) -> list[tuple[int, float | None]]:
        """(position, score) of `size` of the items that are `free [n]`, while the `pending` ones wait for answers."""
        if free is None:
            free = np.zeros(len(self.search.items), bool)
            free[self.search.asked] = True
        batch = self.strategy.selection
        if size == 1 and len(pending) == 0 and as_batch(batch) is joint:
            batch = "top"  # the same item, without a shortlist
        wanted = wants(batch)
        if not wanted.scores:
            positions = np.flatnonzero(free)
            scores = np.zeros(len(positions))
        elif wanted.shortlist is None:
            positions, scores = self._all(free)
        else:
            positions, scores = self.best(free, wanted.count(size, int(free.sum())))
        targets: tuple[Any, Any] = self.batch_targets() if wanted.targets else (None, None)
        candidates = Candidates(
            scores,
            self._beliefs(wanted, positions),
            *targets,
            self._beliefs(wanted, np.array(pending, np.intp)),
            x=self._features(positions) if wanted.features else None,
            labelled=self._features(np.flatnonzero(~free)) if wanted.features else None,
        )
        rng = rng_for(self.strategy.seed, len(self.labels) + len(pending), "batch")
        chosen = select(batch, candidates, size, rng=rng)
        return [(int(positions[i]), float(scores[i]) if wanted.scores else None) for i in chosen]

    def batch_targets(self) -> tuple[Any, np.ndarray | None]:
        """(beliefs `[m, k, c]`, weights `[m]`) of the targets that a batch is to inform together."""
        if isinstance(self.score, Weighted) and self.search.target_probs is not None:
            return self.score.batch_targets(self.search.target_probs, self.search.weights)
        return self.search.target_probs, self.search.about(self.score).weights

    def flat_warning(self) -> str | None:
        """What to say where the scores made so far do not tell items apart; None elsewhere, or if none were made."""
        if self.strategy.cost is not None:
            return None
        _, scores = self.ranked.get("best") or self.ranked.get("all") or ((), ())
        return flat_warning(self.search, self.score, np.sort(scores)[::-1][:HEAD])

    def signal(self, *, warn: bool = False) -> float:
        """How many times the EPIG scores of unrelated draws these are; see `askwell.signal`."""
        search = self.search
        return signal(search.predict(search.some(SOME)), search.target_probs, weights=search.weights, warn=warn)

    def explain(self, position: int, *, label: Any, size: int) -> Explanation:
        """What an item's label would tell, and about which targets most."""
        probs, target_probs = self.search.predict([position]), self.search.target_probs
        if self.strategy.numbers:
            return self._explain_number(position, label, size)
        weights, classes = self.search.weights, self.search.posterior.classes
        class_weights = self.strategy.class_weights
        costs = None if class_weights is None else weighted("epig", class_weights, classes).class_weights
        pairs = np.asarray(pairwise_epig(probs, target_probs, class_weights=costs), np.float64)[0]
        opened = open_weights(target_probs, weights=weights, class_weights=costs)
        order = np.argsort(-pairs, kind="stable")[:size]
        return Explanation(
            item=self.search.items.ids[position],
            label=label,
            belief=_named(classes, probs[0]),
            score=float(epig(probs, target_probs, weights=weights, class_weights=costs)[0]),
            margin=float(margin(probs)[0]),
            about_open=float(epig(probs, target_probs, weights=opened, class_weights=costs)[0]),
            bald=float(bald(probs)[0]),
            informs=tuple((int(target), float(pairs[target])) for target in order),
            target_beliefs=tuple(_named(classes, np.asarray(target_probs)[target]) for target in order),
            targets=self.sample.x,
            class_weights=None if costs is None else dict(zip(classes, costs, strict=True)),
        )

    def _explain_number(self, position: int, label: Any, size: int) -> Explanation:
        """`explain` where labels are numbers, by draws: as they are what predicts, they say what is believed."""
        (here, there), search = (self.search.predict([position]), self.search.target_probs), self.search
        pairs = moments.pairwise_epig(here, there)[0]
        order = np.argsort(-pairs, kind="stable")[:size]
        mean, variance = label_moments(search.posterior, take(self.sample.x, order))
        return Explanation(
            item=search.items.ids[position],
            label=label,
            belief=_number(*(each[0] for each in label_moments(search.posterior, search.items.take([position])))),
            score=float(moments.epig(here, there, weights=search.weights)[0]),
            margin=None,
            about_open=None,
            bald=float(moments.bald(here)[0]),
            informs=tuple((int(target), float(pairs[target])) for target in order),
            target_beliefs=tuple(_number(*each) for each in zip(mean, variance, strict=True)),
            targets=self.sample.x,
        )

    def best(self, free: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The best free items; looked for once with some to spare: the next ones asked for will be among them."""
        positions, scores = self.ranked.get("best", (np.empty(0, np.intp), np.empty(0)))
        if free[positions].sum() < min(size, free.sum()):
            taken = int((~free[self.search.asked]).sum())
            if self.strategy.cost is None:
                most = max(HEAD, 2 * size) + taken
                positions, scores = best_items(self.search, self.score, most, engine=self.strategy.engine)
            else:
                positions, scores = self._all(free)
                order = self.search.order(positions, scores)
                positions, scores = positions[order], scores[order]
            self.ranked["best"] = positions, scores
        keep = np.flatnonzero(free[positions])[:size]
        return positions[keep], scores[keep]

    def scores(self, free: np.ndarray) -> list[tuple[int, float]]:
        """(position, score) of every free item, the best first."""
        positions, scores = self._all(free)
        order = self.search.order(positions, scores)
        return list(zip(positions[order].tolist(), scores[order].tolist(), strict=True))

    def _all(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if "all" not in self.ranked:
            scores, cost, asked = score_items(self.search, self.score), self.strategy.cost, self.search.asked
            self.ranked["all"] = asked, scores if cost is None else scores / cost[asked]
        positions, scores = self.ranked["all"]
        return positions[free[positions]], scores[free[positions]]

    def _beliefs(self, wanted: Wants, positions: np.ndarray) -> Any:
        """`[n, k, c]` of these items, `[n, 1, c]` where the mean will do, or None."""
        if wanted.beliefs == "none" or len(positions) == 0:
            return None
        if wanted.beliefs == "draws":
            return self.search.predict(positions)
        part = dataclasses.replace(self.search, positions=positions)
        return np.concatenate([probs.mean(axis=1, keepdims=True) for _, probs in part.chunks(shown="predicting")])

    def _features(self, positions: np.ndarray) -> np.ndarray | None:
        return as_vectors(self.search.items.take(positions)) if len(positions) else None


def item_costs(cost: Any, n: int) -> np.ndarray:
    """What the label of each of n items costs, `[n]`, checked.

    >>> item_costs([1, 2.5], 2)
    array([1. , 2.5])
    """
    try:
        costs = np.asarray(cost, np.float64)
    except (TypeError, ValueError):
        costs = np.empty(0)
    if costs.shape != (n,) or not (np.isfinite(costs) & (costs > 0)).all():
        raise ValueError(f"cost must be {n} positive numbers, what the label of each item costs, but it is {cost!r}.")
    return costs


def usual_evaluation(score: Any) -> float:
    """The share of drawn questions where none is given: with a score that was named all questions are chosen by it.

    >>> usual_evaluation("auto"), usual_evaluation("epig")
    (0.2, 0.0)
    """
    return EVALUATION if score == "auto" else 0.0


def classes_of(labels: Iterable[Any]) -> list[Any]:
    """The different labels, in order; 1 and True are two.

    >>> classes_of(["b", "a", "b"])
    ['a', 'b']
    """
    return sorted({(isinstance(label, bool), label): label for label in labels}.values())


def is_start(labels: Sequence[Any], *, classes: Sequence[Any] = ()) -> bool:
    """Whether the next question is one of the `first_questions`, after these labels.

    Until labels of two classes are known, and then until one of each of the `classes` that can occur is, for at most
    three questions a class: a model is sure of nothing less than of a class that it has never seen.

    >>> is_start(["a", "a"]), is_start(["a", "b"]), is_start(["a", "b"], classes="abc")
    (True, False, True)
    """
    seen = len(classes_of(labels))
    return seen < 2 or (seen < len(classes) and len(labels) < FIRST_EACH * len(classes))


def first_questions(
    pool: Pool, targets: Targets, labelled: Sequence[int], *, rng: np.random.Generator
) -> Iterator[int]:
    """Positions without a label, in the order in which to ask about them while no model can choose.

    First 30 typical inputs, each of a cluster of a random part of the pool that those before and the labelled ones
    leave open (TypiClust, one at a time); where targets were given, of a cluster of these, and the item of the pool
    that is nearest to it. Then the others at random; all of them where there are no numeric features to tell them
    apart.
    """
    unlabelled = np.setdiff1d(np.arange(len(pool)), labelled)
    some = np.sort(rng.choice(unlabelled, min(FIRST_ROWS, len(unlabelled)), replace=False))
    chosen = list[int]()
    for index in _typical(pool, targets, some, labelled, rng):
        chosen.append(int(some[index]))
        yield chosen[-1]
    yield from rng.permutation(np.setdiff1d(unlabelled, chosen)).tolist()


def _typical(
    pool: Pool, targets: Targets, some: np.ndarray, labelled: Sequence[int], rng: np.random.Generator
) -> Iterator[int]:
    """Up to `FIRST` indices into `some`; none without numeric features."""
    x = as_vectors(pool.take(some)) if len(some) else None
    if x is None:
        return
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    given = _given_features(targets, pool, x.shape[1], rng)
    before = as_vectors(pool.take(sorted(labelled))) if len(labelled) else None
    x, covered = x / scale, np.empty((0, x.shape[1])) if before is None else before / scale
    left = np.arange(len(x))
    for _ in range(min(FIRST, len(x))):
        among = x[left] if given is None else given / scale
        (typical,) = select("typiclust", Candidates(np.zeros(len(among)), x=among, labelled=covered), 1, rng=rng)
        nearest = typical if given is None else ((x[left] - among[typical]) ** 2).sum(axis=1).argmin()
        yield int(left[nearest])
        covered, left = np.concatenate([covered, x[left[[nearest]]]]), np.delete(left, nearest)


def _given_features(targets: Targets, pool: Pool, width: int, rng: np.random.Generator) -> np.ndarray | None:
    """Some of the targets that were given as `[m, width]` numbers, or None where there are none like the pool's."""
    inputs = given_inputs(targets)
    if inputs is None:
        return None
    inputs = aligned(inputs, column_names(pool.x), by_name=True)
    some = as_vectors(take(inputs, np.sort(rng.permutation(count(inputs))[:FIRST_ROWS])))
    return some if some is not None and some.shape[1] == width else None


def _named(classes: Sequence[Any], probs: np.ndarray) -> dict[Any, float]:
    """Class -> mean probability of `probs [k, c]`."""
    return dict(zip(classes, probs.mean(axis=0).tolist(), strict=True))


def _number(mean: float, variance: float) -> dict[Any, float]:
    return {"mean": float(mean), "std": float(np.sqrt(variance))}


def _in_words(belief: dict[Any, float]) -> str:
    if set(belief) == {"mean", "std"}:
        return f"{belief['mean']:.4g} ± {belief['std']:.2g}"
    likely = sorted(belief.items(), key=lambda pair: -pair[1])[:3]
    return ", ".join(f"{label!r} {share:.2f}" for label, share in likely)
