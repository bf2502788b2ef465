"""A round of a project's model: learn from the labels there are, and record the next questions and how it stands."""

import time
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from askwell.data.pool import as_pool
from askwell.estimate.accuracy import judging_order
from askwell.estimate.stopping import forecast, points_of, stop_advice
from askwell.models import as_model
from askwell.models.protocol import Posterior
from askwell.project.planning import Plan, fit_labels, plan_round
from askwell.project.project import Project
from askwell.session import Candidate, Session
from askwell.store.records import StoreError

__all__ = ["learned_posterior", "train_round"]


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
            found, queue = _found(project, session, engine)
        said = list(
            dict.fromkeys(str(warning.message) for warning in heard if issubclass(warning.category, UserWarning))
        )
        points = points_of([*rounds, found])
        ahead, advice = forecast(points), stop_advice(points)
    except StoreError:
        raise  # there is nowhere to record it
    except Exception as fault:
        session.put_round(report | {"failed": _sentence(fault)})
        return
    report |= found | {"next50": None if ahead is None else ahead.body(), "advice": advice.body()}
    report |= {"seconds": round(time.perf_counter() - began, 3)} | ({"warnings": said[:5]} if said else {})
    session.put_round(report, queue=queue)


def learned_posterior(project: Project) -> Posterior:
    """What the project's model believes after the labels there are: as in a round, without its plan and its record."""
    pool = as_pool(project.features()[0], ids=project.items.ids)
    return fit_labels(as_model(project.model()), pool, **_lesson(project))


def _lesson(project: Project) -> dict[str, Any]:
    """What there is to learn from: labels by position, classes, and which items are held out."""
    settings, items, session = project.settings, project.items, project.session()
    labels = {items.position(item): said.label for item, said in session.labels().items()}
    named = session.rules.classes or settings.classes
    classes = [*named, *sorted({*labels.values()} - {*named}, key=str)]
    judges = judging_order(len(items), float(settings.held_out), seed=settings.seed).tolist()
    return {"labels": labels, "classes": classes, "seed": settings.seed, "judges": judges}


def _found(project: Project, session: Session, engine: Any) -> tuple[dict[str, Any], list[Candidate]]:
    """(what a round found, the queue)."""
    settings, items, rules = project.settings, project.items, session.rules
    changes, told, lesson = session.changes, session.labels(), _lesson(project)
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
    wanting = [item for item, said in told.items() if rules.needed([*said.votes.values()])]
    queue = [Candidate(item) for item in wanting] + _candidates(project, plan)
    report = {
        "labels": len(lesson["labels"]),
        "changes": changes,
        "model": settings.model,
        "trained": plan.targets is not None,
    }
    report |= {"signal": plan.signal}
    report |= {"gain": plan.gain, "noise": plan.noise, "change": None if plan.change is None else asdict(plan.change)}
    report |= {"estimate": plan.estimates[0].body() if plan.estimates else None}
    if len(plan.estimates) > 1:
        report["cross_validated"] = plan.estimates[1].body()
    return report, queue


def _candidates(project: Project, plan: Plan) -> list[Candidate]:
    """The queue by ids. Where targets are drawn from the pool, an item is no reason for itself."""
    names, ids = _target_names(project, plan), project.items.ids
    own = project.target_items is None
    queue = []
    for line in plan.queue:
        item = ids[line.position]
        why = {names[place]: nats for place, nats in line.informs[::-1]}  # of equal ones the first is named, once
        reasons = [(name, why[name]) for name in reversed(why) if not (own and name == item)]
        queue.append(Candidate(item, line.score, tuple(reasons)))
    return queue


def _target_names(project: Project, plan: Plan) -> dict[int, str]:
    """Place among the plan's targets -> id, for those that the queue names.

    Targets that were drawn are known again by their features; of equal ones the first is meant.
    """
    pool, given = project.features()
    rows, ids = pool, project.items.ids
    if given is not None and project.target_items is not None:
        rows, ids = given, project.target_items.ids
    asked = sorted({place for line in plan.queue for place, _ in line.informs})
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


def _sentence(fault: Exception) -> str:
    """What went wrong, for people: our own refusals as they are, others with their place."""
    said = " ".join(str(fault).split())[:1000]
    if isinstance(fault, MemoryError):
        return "The memory was too small to train. Try a smaller model, fewer features, or another machine."
    if isinstance(fault, ValueError | ImportError) and said:
        return said
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"The model could not be trained: {type(fault).__name__}{f': {said}' if said else ''}{place}."
