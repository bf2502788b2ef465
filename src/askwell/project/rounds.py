"""A round of a project's model: learn from the labels there are, record the next questions and how the model stands.

    labels, settings, data -> plan_round: fit, rank, estimate -> the queue and a report, two records of the log

The same labels and the same seed give the same plan, whoever answered in whatever order.
"""

import time
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.acquire import Round, first_questions, is_start, new_round
from askwell.acquisition import Weighted, weighted
from askwell.data.pool import Pool, as_pool
from askwell.data.table import listed
from askwell.estimate.accuracy import Estimate, cross_validated, held_out, judging_order
from askwell.estimate.stopping import forecast, points_of, stop_advice
from askwell.information.categorical import pairwise_epig
from askwell.information.draws import epig_corrected, epig_error, signal
from askwell.models import as_model
from askwell.models.protocol import Model, Posterior, fit_model, mean_predict, predicted, shortcuts
from askwell.project.features import is_file
from askwell.project.project import Project
from askwell.project.settings import FILE
from askwell.scoring import Search
from askwell.seeds import rng_for
from askwell.session import Candidate, Session
from askwell.session.events import RulesChanged
from askwell.store.records import StoreError
from askwell.targets import Targets, effective_size

__all__ = ["Change", "Plan", "Ranked", "learned_posterior", "plan_round", "project_warnings", "train_round"]

BATCHES = 10  # of questions in the queue, at least
QUEUE = 200  # questions in the queue, at least
JOINTLY = 3  # batches that are chosen together: people are seldom further ahead of the model than that
EXPLAINED = 30  # questions at the head that say which targets they inform
INFORMED = 6  # targets that each of them names: one may turn out to be the item itself
SOME = 500  # candidates that the signal is judged by
BEFORE = 50  # labels: what they changed is asked of a model without the last so many
START = ("classes", "budget", "labels_per_item", "most_labels", "lease_seconds")  # settings that are read only once


@final
@dataclass(frozen=True)
class Ranked:
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

    queue: tuple[Ranked, ...]
    targets: Any = None  # the inputs that `Ranked.informs` counts
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
    >>> len(plan.queue), {0, 1} & {each.position for each in plan.queue}, len(plan.queue[0].informs), plan.gain > 0
    (58, set(), 6, True)
    """
    learnt = _learnt(labels, judges)
    free = np.ones(len(pool), bool)
    free[[*labels, *judges]] = False
    room = min(int(free.sum()), max(QUEUE, BATCHES * size))
    ahead = min(room, JOINTLY * size)

    def rng(purpose: str) -> np.random.Generator:
        return rng_for(seed, len(learnt), purpose)

    def woven(ranked: list[Ranked]) -> tuple[Ranked, ...]:
        waiting = [int(position) for position in judges if position not in labels]
        return tuple(_woven(ranked, waiting, len(labels), len(labels) - len(learnt), share))

    told = [*learnt.values()]
    first = list[Ranked]()
    if is_start(told, classes=() if score == "random" else classes):
        order = first_questions(pool, targets, [*learnt], rng=rng("first"))
        first = [Ranked(position) for position in islice((each for each in order if free[each]), room)]
    if is_start(told):
        return Plan(woven(first))
    fits = _Fits(model, pool, classes)
    known = new_round(model, pool, targets, learnt, classes=classes, seed=seed, cost=cost, engine=engine)
    score = weighted(score, class_weights, known.posterior.classes)
    ranked = _ranked(known, score, free, room, ahead, rng("batch"))
    judged = {position: label for position, label in labels.items() if position not in learnt}
    head = first[:ahead]  # while a class has not been seen, what the model would ask comes behind
    taken = {each.position for each in head}
    behind = [each for each in _explained(known.search, score, ranked) if each.position not in taken]
    return Plan(
        woven([*head, *behind][:room]),
        known.sample.x,
        _estimates(fits, known.posterior, learnt, judged, rng("estimate")),
        *_gain(fits, known.search, learnt, [each.position for each in ranked[:size]], rng("second fit")),
        _signal(known.search),
        _change(fits, known, learnt, rng("earlier fit")),
    )


def _learnt(labels: Mapping[int, Any], judges: Sequence[int]) -> dict[int, Any]:
    """The labels that are not held out."""
    judging = {int(position) for position in judges}
    return {position: label for position, label in labels.items() if position not in judging}


@final
@dataclass(frozen=True)
class _Fits:
    """Fits of one model to labels of one pool, given by position."""

    model: Model
    pool: Pool
    classes: Sequence[Any]

    def data(self, labels: Mapping[int, Any]) -> tuple[Any, list[Any]]:
        """What to learn from: by position, so that the order in which people answered changes nothing."""
        positions = sorted(labels)
        return self.pool.take(positions), [labels[position] for position in positions]

    def fit(self, labels: Mapping[int, Any], rng: np.random.Generator) -> Posterior:
        return fit_model(self.model, *self.data(labels), rng=rng, classes=self.classes)


# ---- the queue -----------------------------------------------------------------------------------------------------


def _ranked(
    known: Round, score: Any, free: np.ndarray, room: int, ahead: int, rng: np.random.Generator
) -> list[Ranked]:
    """The best questions by score; those `ahead` chosen as a learner would choose a batch."""
    batch = "joint" if isinstance(score, Weighted) or score in ("epig", "auto") else "top"
    head = known.choose(score, batch, ahead, free=free, pending=(), rng=rng) if ahead else []
    if (flat := known.flat_warning(score)) is not None:
        warnings.warn(flat, stacklevel=2)
    taken = {position for position, _ in head}
    behind = zip(*known.best(score, free, room), strict=True)
    rest = [Ranked(int(position), float(worth)) for position, worth in behind if position not in taken]
    return [*(Ranked(*each) for each in head), *rest][:room]


def _explained(search: Search, score: Any, ranked: list[Ranked]) -> list[Ranked]:
    """The same questions; the first ones say which targets they inform most."""
    few = [each.position for each in ranked[:EXPLAINED]]
    if not few:
        return ranked
    costs = score.class_weights if isinstance(score, Weighted) else None
    probs = search.predict(few)
    pairs = np.asarray(pairwise_epig(probs, search.target_probs, class_weights=costs), np.float64)  # [n, m]
    best = np.argsort(-pairs, axis=1, kind="stable")[:, :INFORMED]
    return [
        replace(each, informs=tuple((int(j), float(row[j])) for j in order))
        for each, row, order in zip(ranked, pairs, best, strict=False)
    ] + ranked[EXPLAINED:]


def _woven(ranked: list[Ranked], judges: list[int], labelled: int, judged: int, share: float) -> Iterator[Ranked]:
    """The questions with those for judging between them, wherever they would be less than their share."""
    waiting = iter(judges)
    for each in ranked:
        while judged < share * (labelled + 1) and (position := next(waiting, None)) is not None:
            labelled, judged = labelled + 1, judged + 1
            yield Ranked(position)
        labelled += 1
        yield each
    yield from (Ranked(position) for position in waiting)


# ---- how it stands -------------------------------------------------------------------------------------------------


def _estimates(
    fits: _Fits, posterior: Posterior, learnt: Mapping[int, Any], judged: Mapping[int, Any], rng: np.random.Generator
) -> tuple[Estimate, ...]:
    honest = held_out(posterior, fits.pool.take([*judged]), [*judged.values()]) if judged else None
    both = honest, cross_validated(fits.model, *fits.data(learnt), classes=fits.classes, rng=rng)
    return tuple(estimate for estimate in both if estimate is not None)


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


# ---- the round of a project: what it learns from, what it records ----------------------------------------------------


def train_round(project: Project, *, engine: Any = None) -> None:
    """Learn from the project's labels, and record the queue and how it stands. A failure is recorded too, in words.

    The pool is scored on an `engine` (see `askwell.engines`), by default here.

    What is learnt from is what most people say about each item. Items that still need labels of other people stand at
    the head of the queue.
    """
    session, began = project.session(), time.perf_counter()
    rounds = session.progress().rounds
    report: dict[str, Any] = {"round": 1 + max((int(body["round"]) for body in rounds), default=0)}
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always", UserWarning)
            results, queue = _report(project, session, engine)
        messages = dict.fromkeys(str(each.message) for each in heard if issubclass(each.category, UserWarning))
        points = points_of([*rounds, results])
        ahead, advice = forecast(points), stop_advice(points)
    except StoreError:
        raise  # there is nowhere to record it
    except Exception as error:
        session.put_round(report | {"failed": _sentence(error)})
        return
    report |= results | {"next50": None if ahead is None else ahead.body(), "advice": advice.body()}
    report |= {"seconds": round(time.perf_counter() - began, 3)} | ({"warnings": [*messages][:5]} if messages else {})
    session.put_round(report, queue=queue)


def learned_posterior(project: Project) -> Posterior:
    """What the project's model believes after the labels there are: as in a round, without its plan and its record."""
    lesson = _lesson(project)
    labels, seed = lesson["labels"], lesson["seed"]
    learnt = _learnt(labels, lesson["judges"])
    if len(classes := {*learnt.values()}) < 2:
        have = f"all {len(learnt):,} labels are {min(classes)!r}" if classes else "there is no label"
        held = f" to learn from ({len(labels):,} held out)" if len(labels) > len(learnt) and not classes else ""
        raise ValueError(f"there is no model yet: it needs labels of two classes, and {have}{held}. Label more first.")
    pool = as_pool(project.features()[0], ids=project.items.ids)
    return _Fits(as_model(project.model()), pool, lesson["classes"]).fit(learnt, rng_for(seed, len(learnt), "fit"))


def _lesson(project: Project) -> dict[str, Any]:
    """What there is to learn from: labels by position, classes, and which items are held out."""
    settings, items, session = project.settings, project.items, project.session()
    labels = {items.position(item): said.label for item, said in session.labels().items()}
    named = session.rules.classes or settings.classes
    classes = [*named, *sorted({*labels.values()} - {*named}, key=str)]
    judges = judging_order(len(items), float(settings.held_out), seed=settings.seed).tolist()
    return {"labels": labels, "classes": classes, "seed": settings.seed, "judges": judges}


def _report(project: Project, session: Session, engine: Any) -> tuple[dict[str, Any], list[Candidate]]:
    """(what a round found, the queue)."""
    settings, items, rules = project.settings, project.items, session.rules
    changes, consensus, lesson = session.changes, session.labels(), _lesson(project)
    plan = plan_round(
        as_model(project.model()),
        as_pool(project.features()[0], ids=items.ids),
        project.targets(),
        **lesson,
        size=settings.batch,
        score=settings.score,
        cost=project.costs(),
        class_weights=project.class_weights(),
        share=float(settings.held_out),
        engine=engine,
    )
    wanting = [item for item, each in consensus.items() if rules.needed([*each.votes.values()])]
    report = {
        "labels": len(lesson["labels"]),
        "changes": changes,
        "model": settings.model,
        "trained": plan.targets is not None,
        "signal": plan.signal,
        "gain": plan.gain,
        "noise": plan.noise,
        "change": None if plan.change is None else asdict(plan.change),
        "estimate": plan.estimates[0].body() if plan.estimates else None,
    }
    if len(plan.estimates) > 1:
        report["cross_validated"] = plan.estimates[1].body()
    return report, [Candidate(item) for item in wanting] + _candidates(project, plan)


def _candidates(project: Project, plan: Plan) -> list[Candidate]:
    """The queue by ids. Where targets are drawn from the pool, an item is no reason for itself."""
    names, ids = _target_names(project, plan), project.items.ids
    own = project.target_items is None
    queue = []
    for each in plan.queue:
        item = ids[each.position]
        why = {names[place]: nats for place, nats in each.informs[::-1]}  # of equal ones the first is named, once
        reasons = [(name, why[name]) for name in reversed(why) if not (own and name == item)]
        queue.append(Candidate(item, each.score, tuple(reasons)))
    return queue


def _target_names(project: Project, plan: Plan) -> dict[int, str]:
    """Place among the plan's targets -> id, for those that the queue names.

    Targets that were drawn are known again by their features; of equal ones the first is meant.
    """
    pool, given = project.features()
    rows, ids = pool, project.items.ids
    if given is not None and project.target_items is not None:
        rows, ids = given, project.target_items.ids
    asked = sorted({place for each in plan.queue for place, _ in each.informs})
    if asked and len(plan.targets) == len(rows):
        return {place: ids[place] for place in asked}
    wanted = {place: np.asarray(plan.targets[place]).tobytes() for place in asked}
    found: dict[bytes, str] = {}
    left = {*wanted.values()}
    for item, row in zip(ids, rows, strict=True):
        if left and (known := row.tobytes()) in left:
            left.remove(known)
            found[known] = item
    return {place: found[known] for place, known in wanted.items()}


def _sentence(error: Exception) -> str:
    """What went wrong, for people: our own refusals as they are, others with their place."""
    said = " ".join(str(error).split())[:1000]
    if isinstance(error, MemoryError):
        return "The memory was too small to train. Try a smaller model, fewer features, or another machine."
    if isinstance(error, ValueError | ImportError) and said:
        return said
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"The model could not be trained: {type(error).__name__}{f': {said}' if said else ''}{place}."


# ---- what does not fit together: settings, data and store ------------------------------------------------------------


def project_warnings(project: Project) -> list[str]:
    """Labels of items that left the pool, rules that were edited where they do not count, vectors that do not fit."""
    return [*_left_the_pool(project), *_edited_rules(project), *_vectors(project)]


def _left_the_pool(project: Project) -> list[str]:
    gone = dict.fromkeys(
        answer.item
        for answer in project.session().answers()
        if answer.kind == "label" and answer.item not in project.items
    )
    if not gone:
        return []
    some = listed([*gone], most=3)
    if len(gone) == 1:
        return [
            f"1 labelled item is no longer in the pool ({some}). Its label is kept and exported, but not used for "
            "training."
        ]
    return [
        f"{len(gone):,} labelled items are no longer in the pool ({some}). Their labels are kept and exported, "
        "but not used for training."
    ]


def _edited_rules(project: Project) -> list[str]:
    """Rules in the settings that are neither those at the start nor those in force: they were edited in vain."""
    records = project.store().read(project.settings.run)
    begun: Any = next((record.body for record in records if record.kind == RulesChanged.kind), None)
    rules = project.session().rules
    said = []
    for name in START if begun is not None else ():
        now = getattr(project.settings, name)
        if name == "most_labels":
            now = now or 2 * project.settings.labels_per_item - 1
        then, here = begun.get(name), getattr(rules, name)
        plain = tuple(then) if isinstance(then, list) else then
        if now not in (plain, here):
            said.append(
                f"the change to [start] {name} in {FILE} has no effect: these rules are read only once, when the "
                f"project is created. The current {name} {'are' if name == 'classes' else 'is'} {_words(here)}. Change "
                "rules with askwell rules, or on the page."
            )
    return said


def _words(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else "unlimited" if value is None else str(value)


def _vectors(project: Project) -> list[str]:
    """Why the embeddings in files do not match the pool, if so."""
    if not (isinstance(project.settings.features, str) and is_file(project.settings.features)):
        return []
    try:
        project.features()
    except ValueError as fault:
        return [f"The model cannot be trained: {fault}"]
    return []
