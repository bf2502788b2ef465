"""What follows from the labels so far: the next questions, and how the model stands. The mathematics of a round.

The same labels and the same seed give the same plan, whoever answered in whatever order.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, final

import numpy as np

from askwell.acquire import Round, first_questions, is_start, new_round
from askwell.acquisition import Weighted, weighted
from askwell.data.pool import Pool
from askwell.estimate.accuracy import Estimate, cross_validated, held_out
from askwell.information.categorical import pairwise_epig
from askwell.information.draws import epig_corrected, epig_error, signal
from askwell.models.protocol import Model, Posterior, fit_model, mean_predict, predicted, shortcuts
from askwell.scoring import Search
from askwell.seeds import rng_for
from askwell.targets import Targets, effective_size

__all__ = ["Change", "Line", "Plan", "fit_labels", "plan_round"]

BATCHES = 10  # of questions in the queue, at least
QUEUE = 200  # questions in the queue, at least
JOINTLY = 3  # batches that are chosen together: people are seldom further ahead of the model than that
EXPLAINED = 30  # questions at the head that say which targets they inform
INFORMED = 6  # targets that each of them names: one may turn out to be the item itself
SOME = 500  # candidates that the signal is judged by
BEFORE = 50  # labels: what they changed is asked of a model without the last so many


@final
@dataclass(frozen=True)
class Line:
    """A question of the queue: where its item stands in the pool, what its label is worth, and to which targets."""

    position: int
    score: float | None = None  # nats, per unit of cost where items have one; None: not chosen by a score
    informs: tuple[tuple[int, float], ...] = ()  # (place among the plan's targets, nats), the most informed first


@final
@dataclass(frozen=True)
class Change:
    """What the last labels changed: predictions with them against those of a model without them, on the targets."""

    labels: int  # the last so many
    changed: float  # the share of targets that are predicted differently: accuracy there moved by no more than that
    improved: float  # the accuracy won thereby, as the model believes now
    targets: int  # that this rests on


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """What follows from a set of labels."""

    queue: tuple[Line, ...]
    targets: Any = None  # the inputs that `Line.informs` counts
    estimates: tuple[Estimate, ...] = ()  # the one to believe first
    gain: float | None = None  # nats that a label of the next batch is expected to tell about a target's, corrected
    noise: float | None = None  # the standard error of `gain` that comes from the finite number of draws
    signal: float | None = None
    change: Change | None = None  # what the last 50 labels changed


def plan_round(
    model: Model,
    pool: Pool,
    targets: Targets,
    labels: Mapping[int, Any],
    *,
    classes: Sequence[Any],
    seed: int,
    size: int = 10,
    score: Any = "auto",
    cost: np.ndarray | None = None,
    class_weights: Mapping[Any, float] | None = None,
    judges: Sequence[int] = (),
    share: float = 0.0,
    engine: Any = None,
) -> Plan:
    """The next questions for a pool of which the items at some positions have `labels`, in the order they were told.

    `size` questions make a batch; the first three batches are chosen jointly where the score is EPIG, those behind by
    score. With `cost [n]`, what counts is the score per cost of a label. `class_weights` are costs of errors, as
    `askwell.Learner` takes them; how the model stands is judged without them. Items of `judges` are asked for judging
    only, in their order and so that they are about `share` of all labels; nothing is learnt from them. `engine` is
    where the pool is scored (see `askwell.engines`), by default here.

    >>> from askwell.models.linear import LinearModel
    >>> from askwell.data.pool import as_pool
    >>> from askwell.targets import given
    >>> x = rng_for(0, 0, "example").normal(size=(60, 2))
    >>> plan = plan_round(
    ...     LinearModel(draws=50), as_pool(x), given(x[:20]), {0: "a", 1: "b"}, classes=["a", "b"], seed=0, size=3
    ... )
    >>> len(plan.queue), {0, 1} & {line.position for line in plan.queue}, len(plan.queue[0].informs), plan.gain > 0
    (58, set(), 6, True)
    """
    judging = {int(position) for position in judges}
    learnt = {position: label for position, label in labels.items() if position not in judging}
    free = np.ones(len(pool), bool)
    free[[*labels, *judging]] = False
    room = min(int(free.sum()), max(QUEUE, BATCHES * size))
    ahead = min(room, JOINTLY * size)

    def rng(purpose: str) -> np.random.Generator:
        return rng_for(seed, len(learnt), purpose)

    def woven(lines: list[Line]) -> tuple[Line, ...]:
        waiting = [int(position) for position in judges if position not in labels]
        return tuple(_woven(lines, waiting, len(labels), len(labels) - len(learnt), share))

    told = [*learnt.values()]
    first = list[Line]()
    if is_start(told, classes=() if score == "random" else classes):
        order = first_questions(pool, targets, [*learnt], rng=rng("first"))
        first = [Line(position) for position in islice((each for each in order if free[each]), room)]
    if is_start(told):
        return Plan(woven(first))
    fits = _Fits(model, pool, classes)
    known = new_round(model, pool, targets, learnt, classes=classes, seed=seed, cost=cost, engine=engine)
    score = weighted(score, class_weights, known.posterior.classes)
    lines = _ranked(known, score, free, room, ahead, rng("batch"))
    judged = {position: label for position, label in labels.items() if position in judging}
    head = first[:ahead]  # while a class has not been seen, what the model would ask comes behind
    taken = {line.position for line in head}
    behind = [line for line in _explained(known.search, score, lines) if line.position not in taken]
    return Plan(
        woven([*head, *behind][:room]),
        known.sample.x,
        _estimates(fits, known.posterior, learnt, judged, rng("estimate")),
        *_gain(fits, known.search, learnt, [line.position for line in lines[:size]], rng("second fit")),
        _signal(known.search),
        _change(fits, known, learnt, rng("earlier fit")),
    )


def fit_labels(
    model: Model,
    pool: Pool,
    labels: Mapping[int, Any],
    *,
    classes: Sequence[Any],
    seed: int,
    judges: Sequence[int] = (),
) -> Posterior:
    """The posterior that `plan_round` makes its plan by, given the same labels and the same seed."""
    judging = {*judges}
    learnt = {position: label for position, label in labels.items() if position not in judging}
    if len(said := {*learnt.values()}) < 2:
        have = f"all {len(learnt):,} labels are {min(said)!r}" if said else "there is no label"
        held = f" to learn from ({len(labels):,} held out)" if len(labels) > len(learnt) and not said else ""
        raise ValueError(f"there is no model yet: it needs labels of two classes, and {have}{held}. Label more first.")
    return _Fits(model, pool, classes).fit(learnt, rng_for(seed, len(learnt), "fit"))


@final
@dataclass(frozen=True)
class _Fits:
    """Fits of one model to labels of one pool, given by position."""

    model: Model
    pool: Pool
    classes: Sequence[Any]

    def given(self, labels: Mapping[int, Any]) -> dict[str, Any]:
        """What to learn from: by position, so that the order in which people answered changes nothing."""
        positions = sorted(labels)
        return {"positions": positions, "labels": [labels[i] for i in positions], "classes": self.classes}

    def fit(self, labels: Mapping[int, Any], rng: np.random.Generator) -> Posterior:
        found = self.given(labels)
        x = self.pool.take(found["positions"])
        return fit_model(self.model, x, found["labels"], rng=rng, classes=self.classes)


# ---- the queue -----------------------------------------------------------------------------------------------------


def _ranked(known: Round, score: Any, free: np.ndarray, room: int, ahead: int, rng: np.random.Generator) -> list[Line]:
    """The best questions by score; those `ahead` chosen as a learner would choose a batch."""
    batch = "joint" if isinstance(score, Weighted) or score in ("epig", "auto") else "top"
    head = known.choose(score, batch, ahead, free=free, pending=(), rng=rng) if ahead else []
    if (flat := known.flat_warning(score)) is not None:
        warnings.warn(flat, stacklevel=2)
    taken = {position for position, _ in head}
    behind = zip(*known.best(score, free, room), strict=True)
    rest = [Line(int(position), float(worth)) for position, worth in behind if position not in taken]
    return [*(Line(*each) for each in head), *rest][:room]


def _explained(search: Search, score: Any, lines: list[Line]) -> list[Line]:
    """The same questions; the first ones say which targets they inform most."""
    few = [line.position for line in lines[:EXPLAINED]]
    if not few:
        return lines
    costs = score.class_weights if isinstance(score, Weighted) else None
    probs = search.predict(few)
    pairs = np.asarray(pairwise_epig(probs, search.target_probs, class_weights=costs), np.float64)  # [n, m]
    best = np.argsort(-pairs, axis=1, kind="stable")[:, :INFORMED]
    return [
        Line(line.position, line.score, tuple((int(j), float(row[j])) for j in order))
        for line, row, order in zip(lines, pairs, best, strict=False)
    ] + lines[EXPLAINED:]


def _woven(lines: list[Line], judges: list[int], labelled: int, judged: int, share: float) -> Iterator[Line]:
    """The questions with those for judging between them, wherever they would be less than their share."""
    waiting = iter(judges)
    for line in lines:
        while judged < share * (labelled + 1) and (position := next(waiting, None)) is not None:
            labelled, judged = labelled + 1, judged + 1
            yield Line(position)
        labelled += 1
        yield line
    yield from (Line(position) for position in waiting)


# ---- how it stands -------------------------------------------------------------------------------------------------


def _estimates(
    fits: _Fits, posterior: Posterior, learnt: Mapping[int, Any], judged: Mapping[int, Any], rng: np.random.Generator
) -> tuple[Estimate, ...]:
    known = fits.given(learnt)
    honest = held_out(posterior, fits.pool.take([*judged]), [*judged.values()]) if judged else None
    x = fits.pool.take(known["positions"])
    found = honest, cross_validated(fits.model, x, known["labels"], classes=fits.classes, rng=rng)
    return tuple(estimate for estimate in found if estimate is not None)


def _gain(
    fits: _Fits, search: Search, learnt: Mapping[int, Any], batch: list[int], rng: np.random.Generator
) -> tuple[float | None, float | None]:
    """Corrected EPIG of the next batch, the mean of its questions, and its standard error.

    Judged by a second posterior: the questions were chosen for what the first one's draws say, noise included.
    """
    if not batch:
        return 0.0, 0.0
    x = search.items.take(batch)
    if (closed_form := shortcuts(search.posterior).epig) is not None:  # no draws, no noise
        return float(np.mean(closed_form(x, search.targets, weights=search.weights))), 0.0
    other = fits.fit(learnt, rng)
    probs, target_probs = predicted(other, x), predicted(other, search.targets)
    if probs.shape[1] < 2:
        return None, None
    gain = np.mean(epig_corrected(probs, target_probs, weights=search.weights))
    # The questions share the draws, so their errors do not average out.
    return float(gain), float(np.mean(epig_error(probs, target_probs, weights=search.weights)))


def _signal(search: Search) -> float | None:
    some = search.asked[:: max(1, -(-len(search.asked) // SOME))]
    if len(some) == 0 or shortcuts(search.posterior).epig or np.asarray(search.target_probs).shape[1] < 2:
        return None
    ratio = signal(search.predict(some), search.target_probs, weights=search.weights, warn=False)
    return ratio if np.isfinite(ratio) else None


def _change(fits: _Fits, known: Round, learnt: Mapping[int, Any], rng: np.random.Generator) -> Change | None:
    """What the last 50 labels changed; None if there was no model before them."""
    before = dict(list(learnt.items())[:-BEFORE])
    if len(set(before.values())) < 2:
        return None
    earlier = mean_predict(fits.fit(before, rng), known.sample.x).argmax(axis=1)
    belief = np.asarray(known.search.target_probs).mean(axis=1)  # [m, c]
    won = belief.max(axis=1) - belief[np.arange(len(belief)), earlier]
    weights = np.ones(len(belief)) if known.sample.weights is None else known.sample.weights
    changed = float(np.average(earlier != belief.argmax(axis=1), weights=weights))
    improved, m = float(np.average(won, weights=weights)), int(effective_size(weights))
    return Change(BEFORE, changed, improved, m)
