"""What follows from the labels so far: a posterior, targets, and the scores of what could be asked next.

Made once for each set of labels and kept until there are others, so that asking again costs nothing.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from askwell.acquisition import Weighted, open_weights, weighted
from askwell.arrays import take
from askwell.data.pool import Pool
from askwell.information.categorical import bald, epig, margin, pairwise_epig
from askwell.models.inputs import aligned, column_names, count
from askwell.models.protocol import Model, Posterior, fit_model, predicted
from askwell.scoring import Search, best_items, flat_warning, score_items
from askwell.scoring.items import HEAD
from askwell.seeds import rng_for
from askwell.selection import Candidates, Wants, as_batch, joint, select, wants
from askwell.targets import Sample, Targets, given_inputs

__all__ = ["Explanation", "Round", "batch_targets", "first_questions", "is_start", "new_round"]

FIRST, FIRST_ROWS = 30, 1000  # first questions that are typical inputs, of so many that are looked at
FIRST_EACH = 3  # first questions for each class: then classes that nobody has seen are no longer waited for


@final
@dataclass(frozen=True)
class Explanation:
    """Why an item is worth asking, or not. Where errors have costs, what it tells about targets is weighted by them."""

    item: Any
    label: Any  # what was told, or None
    belief: dict[Any, float]  # p(y|x) now
    score: float  # EPIG(x), in nats
    margin: float  # how close its two most probable classes are: 1 is a tie
    about_open: float  # EPIG(x) where targets count by how open their predictions are; times the margin it is "auto"
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
            f"  by default it is worth {self.margin * self.about_open:.4f}: {self.about_open:.4f} nats about "
            f"predictions that can still change, times {self.margin:.2f}, how open its own is",
        ]
        for (target, nats), belief in zip(self.informs, self.target_beliefs, strict=True):
            lines.append(f"  {nats:.4f} nats about target {target}, believed to be {_in_words(belief)}")
        if self.class_weights is not None:
            costs = ", ".join(f"{label!r} {cost:g}" for label, cost in self.class_weights.items())
            lines.append(f"  an error costs: {costs}; nats about targets are weighted by it")
        return "\n".join(lines)


@final
@dataclass(frozen=True, eq=False)
class Round:
    """A posterior, the targets of this step, and what has been found out about the pool so far."""

    posterior: Posterior
    sample: Sample
    search: Search
    found: dict[str, tuple[np.ndarray, np.ndarray]]  # "best" or "all" -> positions, scores
    cost: np.ndarray | None = None  # [n] of the pool: what a label costs
    engine: Any = None  # where the best are looked for; here, if None

    def choose(
        self, score: Any, batch: Any, size: int, *, free: np.ndarray, pending: Sequence[int], rng: np.random.Generator
    ) -> list[tuple[int, float | None]]:
        """(position, score) of `size` of the items that are `free [n]`, while the `pending` ones wait for answers."""
        if size == 1 and len(pending) == 0 and as_batch(batch) is joint:
            batch = "top"  # the same item, without a shortlist
        wanted = wants(batch)
        if not wanted.scores:
            positions = np.flatnonzero(free)
            scores = np.zeros(len(positions))
        elif wanted.shortlist is None:
            positions, scores = self._all(score, free)
        else:
            positions, scores = self.best(score, free, wanted.count(size, int(free.sum())))
        candidates = Candidates(
            scores,
            self._beliefs(wanted, positions),
            *(batch_targets(self.search, score) if wanted.targets else (None, None)),
            self._beliefs(wanted, np.array(pending, np.intp)),
            x=self._features(positions) if wanted.features else None,
            labelled=self._features(np.flatnonzero(~free)) if wanted.features else None,
        )
        chosen = select(batch, candidates, size, rng=rng)
        return [(int(positions[i]), float(scores[i]) if wanted.scores else None) for i in chosen]

    def flat_warning(self, score: Any) -> str | None:
        """What to say where the scores found so far do not tell items apart; None elsewhere, or if none were made."""
        if self.cost is not None:
            return None
        _, scores = self.found.get("best") or self.found.get("all") or ((), ())
        return flat_warning(self.search, score, np.sort(scores)[::-1][:HEAD])

    def explain(
        self, position: int, *, label: Any, size: int, class_weights: Mapping[Any, float] | None = None
    ) -> Explanation:
        """What an item's label would tell, and about which targets most."""
        probs, target_probs = self.search.predict([position]), self.search.target_probs
        weights, classes = self.search.weights, self.posterior.classes
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

    def best(self, score: Any, free: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The best free items; found once with some to spare, since the next ones asked for will be among them."""
        positions, scores = self.found.get("best", (np.empty(0, np.intp), np.empty(0)))
        if free[positions].sum() < min(size, free.sum()):
            taken = int((~free[self.search.asked]).sum())
            if self.cost is None:
                positions, scores = best_items(self.search, score, max(HEAD, 2 * size) + taken, engine=self.engine)
            else:
                positions, scores = self._all(score, free)
                order = self.search.order(positions, scores)
                positions, scores = positions[order], scores[order]
            self.found["best"] = positions, scores
        keep = np.flatnonzero(free[positions])[:size]
        return positions[keep], scores[keep]

    def _all(self, score: Any, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if "all" not in self.found:
            scores = score_items(self.search, score)
            asked = self.search.asked
            self.found["all"] = asked, scores if self.cost is None else scores / self.cost[asked]
        positions, scores = self.found["all"]
        return positions[free[positions]], scores[free[positions]]

    def _beliefs(self, wanted: Wants, positions: np.ndarray) -> np.ndarray | None:
        """`[n, k, c]` of these items, `[n, 1, c]` where the mean will do, or None."""
        if wanted.beliefs == "none" or len(positions) == 0:
            return None
        if wanted.beliefs == "draws":
            return self.search.predict(positions)
        part = dataclasses.replace(self.search, positions=positions)
        return np.concatenate([probs.mean(axis=1, keepdims=True) for _, probs in part.chunks(shown="predicting")])

    def _features(self, positions: np.ndarray) -> np.ndarray | None:
        return _features(self.search.items.take(positions)) if len(positions) else None


def new_round(
    model: Model,
    pool: Pool,
    targets: Targets,
    labels: Mapping[int, Any],
    *,
    classes: Sequence[Any],
    seed: int,
    declared: bool = True,
    cost: np.ndarray | None = None,
    engine: Any = None,
) -> Round:
    """Fit the model to the labels, position -> label, and draw the targets of this step.

    What comes out follows from labels and seed alone, not from the order in which the labels were told. The classes are
    all that can occur, or, if they are not `declared`, those of the labels. With `cost [n]`, what an item's label
    costs, items are ranked by score per cost.
    """
    positions = sorted(labels)

    def rng(purpose: str) -> np.random.Generator:
        return rng_for(seed, 0 if purpose == "targets" and targets.fixed else len(positions), purpose)

    x, y = pool.take(positions), [labels[position] for position in positions]
    posterior = fit_model(model, x, y, rng=rng("fit"), classes=classes, declared=declared)
    sample = targets.sample(pool, lambda x: predicted(posterior, x), classes=posterior.classes, rng=rng("targets"))
    # A model of somebody else's may not look at names. Other columns than the pool's are for the model to judge.
    sample = dataclasses.replace(sample, x=aligned(sample.x, column_names(pool.x), by_name=True))
    unlabelled = np.ones(len(pool), bool)
    unlabelled[positions] = False
    search = Search(posterior, pool, sample.x, sample.weights, np.flatnonzero(unlabelled), rng)
    return Round(posterior, sample, search, {}, cost, engine)


def batch_targets(search: Search, score: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(beliefs `[m, k, c]`, weights `[m]`) of the targets that a batch chosen by this score is to inform together."""
    if isinstance(score, Weighted) and search.target_probs is not None:
        return score.batch_targets(search.target_probs, search.weights)
    return search.target_probs, search.about(score).weights


def is_start(labels: Sequence[Any], *, classes: Sequence[Any] = ()) -> bool:
    """Whether the next question is one of the `first_questions`, after these labels.

    Until labels of two classes are known, and then until one of each of the `classes` that can occur is, for at most
    three questions a class: a model is sure of nothing less than of a class that it has never seen.

    >>> is_start(["a", "a"]), is_start(["a", "b"]), is_start(["a", "b"], classes="abc")
    (True, False, True)
    """
    seen = len(set(labels))
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
    places = np.setdiff1d(np.arange(len(pool)), labelled)
    some = np.sort(rng.choice(places, min(FIRST_ROWS, len(places)), replace=False))
    chosen = list[int]()
    for place in _typical(pool, targets, some, labelled, rng):
        chosen.append(int(some[place]))
        yield chosen[-1]
    yield from rng.permutation(np.setdiff1d(places, chosen)).tolist()


def _typical(
    pool: Pool, targets: Targets, some: np.ndarray, labelled: Sequence[int], rng: np.random.Generator
) -> Iterator[int]:
    """Up to `FIRST` places in `some`; none without numeric features."""
    x = _features(pool.take(some)) if len(some) else None
    if x is None:
        return
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    given = _given_features(targets, pool, x.shape[1], rng)
    before = _features(pool.take(sorted(labelled))) if len(labelled) else None
    x, covered = x / scale, np.empty((0, x.shape[1])) if before is None else before / scale
    left = np.arange(len(x))
    for _ in range(min(FIRST, len(x))):
        among = x[left] if given is None else given / scale
        (typical,) = select("typiclust", Candidates(np.zeros(len(among)), x=among, labelled=covered), 1, rng=rng)
        place = typical if given is None else ((x[left] - among[typical]) ** 2).sum(axis=1).argmin()
        yield int(left[place])
        covered, left = np.concatenate([covered, x[left[[place]]]]), np.delete(left, place)


def _given_features(targets: Targets, pool: Pool, width: int, rng: np.random.Generator) -> np.ndarray | None:
    """Some of the targets that were given as `[m, width]` numbers, or None where there are none like the pool's."""
    inputs = given_inputs(targets)
    if inputs is None:
        return None
    inputs = aligned(inputs, column_names(pool.x), by_name=True)
    found = _features(take(inputs, np.sort(rng.permutation(count(inputs))[:FIRST_ROWS])))
    return found if found is not None and found.shape[1] == width else None


def _features(x: Any) -> np.ndarray | None:
    """Inputs as `[n, d]` numbers, or None where they are none."""
    try:
        values = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        return None
    if values.ndim < 2 or not np.isfinite(values).all():
        return None
    flat: np.ndarray = values.reshape(len(values), -1)
    return flat


def _named(classes: Sequence[Any], probs: np.ndarray) -> dict[Any, float]:
    """Class -> mean probability of `probs [k, c]`."""
    return dict(zip(classes, probs.mean(axis=0).tolist(), strict=True))


def _in_words(belief: dict[Any, float]) -> str:
    likely = sorted(belief.items(), key=lambda pair: -pair[1])[:3]
    return ", ".join(f"{label!r} {share:.2f}" for label, share in likely)
