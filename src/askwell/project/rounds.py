"""A round of a project's model: learn from the labels there are, record the next questions and how the model stands.

    labels, settings, data -> plan_round: fit, rank, estimate -> the queue and a report, two records of the log

The same labels and the same seed give the same plan, whoever answered in whatever order.
"""

import time
import traceback
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.acquire import Round, Strategy, is_start, usual_evaluation
from askwell.acquisition import Weighted
from askwell.data.pool import as_pool
from askwell.data.table import listed
from askwell.estimate import rmse
from askwell.estimate.accuracy import Estimate, estimate
from askwell.estimate.label_issues import LabelIssue, label_issues
from askwell.estimate.stopping import DOUBTED, RULE, Advice, Outlook, labels_needed, outlook
from askwell.information import moments
from askwell.information.categorical import pairwise_epig
from askwell.information.draws import epig_corrected, epig_error
from askwell.models import as_model
from askwell.models.protocol import predicted, shortcuts
from askwell.project.features import is_file
from askwell.project.project import Project
from askwell.project.settings import FILE
from askwell.session import Candidate, Session
from askwell.session.events import RulesChanged
from askwell.session.progress import agreement
from askwell.store.records import StoreError

__all__ = ["Plan", "Ranked", "learned_posterior", "plan_round", "project_warnings", "train_round"]

BATCHES = 10  # of questions in the queue, at least
QUEUE = 200  # questions in the queue, at least
JOINTLY = 3  # batches that are chosen together: people are seldom further ahead of the model than that
EXPLAINED = 30  # questions at the head that say which targets they inform
INFORMED = 6  # targets that each of them names: one may turn out to be the item itself
ISSUES = 20  # labels that are offered for a second look at a time
GOALS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.99)  # accuracies for which is said what they would take
START = ("classes", "budget", "labels_per_item", "most_labels", "lease_seconds")  # settings that are read only once


@final
@dataclass(frozen=True)
class Ranked:
    """A question of the queue: where its item stands in the pool, what its label is worth, and to which targets."""

    position: int
    score: float | None = None  # nats, per unit of cost where items have one; None: not chosen by a score
    informs: tuple[tuple[int, float], ...] = ()  # (place among the plan's targets, nats), the most informed first
    probability: float | None = None  # of the item, where it was drawn to evaluate the model


@final
@dataclass(frozen=True, eq=False)
class Plan:
    """What follows from a set of labels."""

    queue: tuple[Ranked, ...]
    targets: Any = None  # the inputs that `Ranked.informs` counts
    estimate: Estimate | None = None  # how good the model is on the targets
    gain: float | None = None  # nats that a label of the next batch is expected to tell about a target's, corrected
    noise: float | None = None  # the standard error of `gain` that comes from the finite number of draws
    signal: float | None = None
    outlook: Outlook | None = None  # what more labels would bring, and whether to stop
    issues: tuple[LabelIssue, ...] = ()  # labels that are worth a second look


def plan_round(
    strategy: Strategy,
    labels: Mapping[int, Any],
    *,
    size: int = 10,
    skipped: Collection[int] = (),
    agreement: float | None = None,
    votes: Mapping[int, Collection[Any]] | None = None,
    reviewed: Collection[int] = (),
) -> Plan:
    """The next questions for a pool of which the items at some positions have `labels`, in the order they were told.

    `size` questions make a batch; the first three batches are chosen together (see `Strategy`), those behind by score.
    Where a share of the questions is drawn (`Strategy.evaluation`), these stand between them; the `skipped` items are
    not drawn. How the model stands is judged without costs of errors; `agreement` is Cohen's kappa of several people.
    `votes` are all labels of the items that several people labelled, `reviewed` items had their second look.

    >>> from askwell.models.linear import LinearModel
    >>> from askwell.data.pool import as_pool
    >>> from askwell.targets import given
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> strategy = Strategy(LinearModel(draws=50), as_pool(x), given(x[:20]), classes=["a", "b"])
    >>> plan = plan_round(strategy, {0: "a", 1: "b"}, size=3)
    >>> len(plan.queue), {0, 1} & {each.position for each in plan.queue}, len(plan.queue[0].informs), plan.gain > 0
    (58, set(), 6, True)
    """
    free = strategy.free(labels)
    room = min(int(free.sum()), max(QUEUE, BATCHES * size))
    ahead = min(room, JOINTLY * size)

    def mixed(ranked: Iterable[Ranked]) -> tuple[Ranked, ...]:
        by_position = {each.position: each for each in ranked}
        chosen = ((each.position, each.score) for each in by_position.values())
        questions = islice(strategy.questions(chosen, asked=labels, skipped=skipped), room)
        return tuple(
            by_position[each.position]
            if each.probability is None
            else Ranked(each.position, probability=each.probability)
            for each in questions
        )

    first = [Ranked(each) for each in islice((each for each in strategy.first(labels) or () if free[each]), room)]
    if is_start([*labels.values()]):
        return Plan(mixed(first))
    latest = strategy.round(labels)
    ranked = _ranked(latest, free, room, ahead)
    head = first[:ahead]  # while a class has not been seen, what the model would ask comes behind
    taken = {each.position for each in head}
    behind = [each for each in _explained(latest, ranked) if each.position not in taken]
    found = (rmse.rmse if strategy.numbers else estimate)(strategy, labels, skipped=skipped)
    return Plan(
        mixed([*head, *behind]),
        latest.sample.x,
        found,
        *_gain(latest, labels, [each.position for each in ranked[:size]]),
        _signal(latest),
        Outlook(None, None, rmse.advice(latest, labels))
        if strategy.numbers
        else outlook(latest, labels, estimate=found, agreement=agreement),
        () if strategy.numbers else tuple(label_issues(strategy, labels, votes=votes, reviewed=reviewed)),
    )


# ---- the queue -----------------------------------------------------------------------------------------------------


def _ranked(latest: Round, free: np.ndarray, room: int, ahead: int) -> list[Ranked]:
    """The best questions by score; those `ahead` chosen as a learner would choose a batch."""
    head = latest.choose(ahead, free=free) if ahead else []
    if (flat := latest.flat_warning()) is not None:
        warnings.warn(flat, stacklevel=2)
    taken = {position for position, _ in head}
    behind = zip(*latest.best(free, room), strict=True)
    rest = [Ranked(int(position), float(worth)) for position, worth in behind if position not in taken]
    return [*(Ranked(*each) for each in head), *rest][:room]


def _explained(latest: Round, ranked: list[Ranked]) -> list[Ranked]:
    """The same questions; the first ones say which targets they inform most."""
    few = [each.position for each in ranked[:EXPLAINED]]
    if not few:
        return ranked
    costs = latest.score.class_weights if isinstance(latest.score, Weighted) else None
    probs, target_probs = latest.search.predict(few), latest.search.target_probs
    if isinstance(probs, moments.Moments):
        pairs = moments.pairwise_epig(probs, target_probs)  # [n, m]
    else:
        pairs = np.asarray(pairwise_epig(probs, target_probs, class_weights=costs), np.float64)
    best = np.argsort(-pairs, axis=1, kind="stable")[:, :INFORMED]
    return [
        replace(each, informs=tuple((int(j), float(row[j])) for j in order))
        for each, row, order in zip(ranked, pairs, best, strict=False)
    ] + ranked[EXPLAINED:]


# ---- how it stands -------------------------------------------------------------------------------------------------


def _gain(latest: Round, labels: Mapping[int, Any], batch: list[int]) -> tuple[float | None, float | None]:
    """Corrected EPIG of the next batch, the mean of its questions, and its standard error.

    Judged by a second posterior: the questions were chosen for what the first one's draws say, noise included.
    """
    if not batch:
        return 0.0, 0.0
    strategy, search = latest.strategy, latest.search
    x = search.items.take(batch)
    if (closed_form := shortcuts(search.posterior).epig) is not None:  # no draws, no noise
        return float(np.mean(closed_form(x, search.targets, weights=search.weights))), 0.0
    other = strategy.fit(labels, strategy.rng("second fit", labels))
    probs, target_probs = predicted(other, x), predicted(other, search.targets)
    if probs.shape[1] < 2:
        return None, None
    if isinstance(probs, moments.Moments):
        chance = moments.epig(probs, target_probs.rolled(probs.shape[1] // 2), weights=search.weights)
        return float(np.mean(moments.epig(probs, target_probs, weights=search.weights) - chance)), None
    gain = np.mean(epig_corrected(probs, target_probs, weights=search.weights))
    # The questions share the draws, so their errors do not average out.
    return float(gain), float(np.mean(epig_error(probs, target_probs, weights=search.weights)))


def _signal(latest: Round) -> float | None:
    search = latest.search
    if len(search) == 0 or shortcuts(search.posterior).epig or search.target_probs.shape[1] < 2:
        return None
    ratio = latest.signal()
    return ratio if np.isfinite(ratio) else None


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
    except StoreError:
        raise  # there is nowhere to record it
    except Exception as error:
        session.put_round(report | {"failed": _sentence(error)})
        return
    report |= (
        results
        | {"seconds": round(time.perf_counter() - began, 3)}
        | ({"warnings": [*messages][:5]} if messages else {})
    )
    session.put_round(report, queue=queue)


def learned_posterior(project: Project) -> Any:
    """What the project's model believes after the labels there are: as in a round, without its plan and its record."""
    labels, classes = _lesson(project)
    if len(seen := {*labels.values()}) < 2:
        have = f"all {len(labels):,} labels are {min(seen)!r}" if seen else "there is no label"
        wanted = "two different labels" if project.settings.numbers else "labels of two classes"
        raise ValueError(f"there is no model yet: it needs {wanted}, and {have}. Label more first.")
    strategy = _strategy(project, classes)
    return strategy.fit(labels, strategy.rng("fit", labels))


def _lesson(project: Project) -> tuple[dict[int, Any], list[Any] | None]:
    """(labels by position, the classes; None where labels are numbers)."""
    settings, items, session = project.settings, project.items, project.session()
    labels = {items.position(item): each.label for item, each in session.labels().items()}
    if settings.numbers:
        return labels, None
    named = session.rules.classes or settings.classes
    return labels, [*named, *sorted({*labels.values()} - {*named}, key=str)]


def _strategy(project: Project, classes: Sequence[Any] | None, *, engine: Any = None) -> Strategy:
    """How the project chooses; its settings as objects."""
    score, share = project.settings.score, project.settings.evaluation
    return Strategy(
        as_model(project.model()),
        as_pool(project.features()[0], ids=project.items.ids),
        project.targets(),
        score=score,
        classes=classes,
        class_weights=project.class_weights(),
        cost=project.costs(),
        seed=project.settings.seed,
        engine=engine,
        evaluation=usual_evaluation(score) if share is None else float(share),
    )


def _report(project: Project, session: Session, engine: Any) -> tuple[dict[str, Any], list[Candidate]]:
    """(the report of a round, the queue)."""
    settings, rules = project.settings, session.rules
    changes, consensus = session.changes, session.labels()
    labels, classes = _lesson(project)
    strategy = _strategy(project, classes, engine=engine)
    position = project.items.position
    skipped, reviewed = session.read(
        lambda state: (
            [position(item) for item in state.skips if item in state.items],
            [position(item) for item in consensus if state.is_reviewed(item)],
        )
    )
    votes = {position(item): each.votes for item, each in consensus.items() if len(each.votes) > 1}
    plan = plan_round(
        strategy,
        labels,
        size=settings.batch,
        skipped={*skipped},
        agreement=_agreement(strategy, votes, labels, {*skipped}),
        votes={place: [*each.values()] for place, each in votes.items()},
        reviewed={*reviewed},
    )
    ahead = plan.outlook
    wanting = [item for item, each in consensus.items() if rules.needed([*each.votes.values()])]
    report = {
        "labels": len(labels),
        "changes": changes,
        "model": settings.model,
        "trained": plan.targets is not None,
        "signal": plan.signal,
        "gain": plan.gain,
        "noise": plan.noise,
        "change": None if ahead is None or ahead.change is None else asdict(ahead.change),
        "estimate": None if plan.estimate is None else plan.estimate.body(),
        "next50": None if ahead is None or ahead.forecast is None else ahead.forecast.body(),
        "needed": _needed(plan, most=len(project.items) - len(labels)),
        "advice": (Advice(False, RULE, "There is no model yet.") if ahead is None else ahead.advice).body(),
        "label_issues": [each.body() for each in plan.issues[:ISSUES]],
    }
    return report, [Candidate(item) for item in wanting] + _candidates(project, plan)


def _needed(plan: Plan, *, most: int) -> list[tuple[float, int | None, int | None]]:
    """(accuracy, at least, about so many more labels until it) for round accuracies above that of the model.

    None: more than can be foreseen, or than there are items.
    """
    if plan.estimate is None or plan.estimate.how != "drawn" or plan.outlook is None or plan.outlook.change is None:
        return []
    goals = [goal for goal in GOALS if goal > plan.estimate.value][:3]
    found = [labels_needed(plan.outlook.change, plan.estimate, goal) for goal in goals]
    least, about = ([None if n is None or n > most else n for n in each] for each in zip(*found, strict=True))
    return [*zip(goals, least, about, strict=True)]


def _agreement(
    strategy: Strategy, votes: Mapping[int, Mapping[str, Any]], labels: Mapping[int, Any], skipped: Collection[int]
) -> float | None:
    """Cohen's kappa of the annotators on drawn items, as the model's is: they agree less on chosen ones, as it does."""
    if strategy.drawn is None:
        return None
    people = agreement(votes[position] for position in strategy.drawn.sample(labels, skipped) if position in votes)
    return None if people is None or people.items < DOUBTED else people.kappa


def _candidates(project: Project, plan: Plan) -> list[Candidate]:
    """The queue by ids. Where targets are drawn from the pool, an item is no reason for itself."""
    names, ids = _target_names(project, plan), project.items.ids
    own = project.target_items is None
    queue = []
    for each in plan.queue:
        item = ids[each.position]
        why = {names[place]: nats for place, nats in each.informs[::-1]}  # of equal ones the first is named, once
        reasons = [(name, why[name]) for name in reversed(why) if not (own and name == item)]
        queue.append(Candidate(item, each.score, tuple(reasons), each.probability))
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
