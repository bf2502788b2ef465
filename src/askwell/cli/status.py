"""`askwell status`: the progress of a project, as text for a terminal or as JSON."""

import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from askwell.cli.options import one_message, path_argument, plural
from askwell.report import terminal_curves, terminal_style
from askwell.session import Progress
from askwell.session.progress import has_model
from askwell.simulation.curves import Trace, shown_value

__all__ = ["status", "status_text"]

PEOPLE = 10  # that are named
WIDTH = 72
ESTIMATE = ("value", "low", "high", "how", "labels", "of")


@click.command()
@path_argument("folder")
@click.option("--reach", type=float, metavar="ACCURACY", help="Say how many more labels it takes, such as 0.95.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def status(folder: Path, reach: float | None, as_json: bool) -> None:
    """Show progress: learning curve, budget, pace, people, and whether to stop."""
    from askwell.project import open_project
    from askwell.project.rounds import project_warnings
    from askwell.project.training import training_since

    with one_message(), open_project(folder, writable=False) as project:
        session, notes = project.session(), project_warnings(project)
        progress, looks = session.progress(), len(session.label_issues())
        needed = None if reach is None else _needed(progress, reach)
        if as_json:
            now = {**asdict(progress), **_standing(progress.rounds), "label_issues": looks, "warnings": notes}
            if needed is not None:
                now["labels_needed"] = {"accuracy": reach, "least": needed[0], "about": needed[1]}
            click.echo(json.dumps(now, default=dict, ensure_ascii=False))
            return
        began = training_since(project.store(), project.settings.run)
        seconds = None if began is None else max(0.0, time.time() - began)
        click.echo(status_text(progress, title=project.folder.name, training=seconds, **terminal_style()))
        if reach is not None and needed is not None:
            click.echo(_wrapped([_reached(reach, *needed)]))
        if looks:
            deserve = "deserves" if looks == 1 else "deserve"
            click.echo(_wrapped([f"{plural(looks, 'label')} {deserve} a second look: askwell review {folder}"]))
        for note in notes:
            click.echo(textwrap.fill(f"Note: {note}", WIDTH, subsequent_indent="  "))


def _standing(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How good the model is, what more labels would bring and what to do, as the last round had it; else None."""
    last: Mapping[str, Any] = next((each for each in reversed(rounds) if not each.get("failed")), {})
    estimate = last.get("estimate")
    metric = "accuracy" if estimate is None else estimate.get("metric", "accuracy")
    return {
        metric: None if estimate is None else {name: estimate.get(name) for name in ESTIMATE},
        "forecast": last.get("next50"),
        "advice": last.get("advice"),
    }


def _needed(progress: Progress, accuracy: float) -> list[int | None]:
    """(at least, about) how many more labels an accuracy takes, by the last round; None: more than are foreseen."""
    from askwell.estimate.accuracy import Estimate
    from askwell.estimate.stopping import Change, labels_needed

    last: Mapping[str, Any] = next((each for each in reversed(progress.rounds) if not each.get("failed")), {})
    change, estimate = last.get("change"), last.get("estimate")
    found = labels_needed(
        None if change is None else Change(**change),
        None if estimate is None else Estimate(*(estimate.get(name) for name in ESTIMATE)),
        accuracy,
    )
    return [None if n is None or n > progress.items - progress.labelled else n for n in found]


def _reached(accuracy: float, least: int | None, about: int | None) -> str:
    if least is None:
        return f"How many more labels an accuracy of {accuracy:g} on the targets takes cannot be foreseen."
    if about == 0:
        return f"The model is estimated to have an accuracy of {accuracy:g} on the targets already."
    likely = "more than can be foreseen" if about is None else f"about {about:,}"
    return (
        f"An accuracy of {accuracy:g} on the targets takes at least {plural(least, 'more label')}, probably {likely}."
    )


# ---- as text -------------------------------------------------------------------------------------------------------


def status_text(
    progress: Progress, *, title: str, training: float | None = None, colour: bool = False, plain: bool = False
) -> str:
    """Labels, budget and pace, who did what, the learning curve, what the next labels are expected to tell, advice.

    `training` is for how many seconds a model has been trained by now, if one is.
    """
    good = [each for each in progress.rounds if not each.get("failed")]
    parts = [
        _wrapped([f"{title}: {_counts(progress)}", *_work(progress)]),
        _curve(good, colour=colour, plain=plain),
        _wrapped([*_last(progress, good, training), *_failure(progress.rounds), *_closed(progress)]),
    ]
    return "\n\n".join(part for part in parts if part)


def _counts(progress: Progress) -> str:
    skipped = f", {progress.skipped:,} skipped" if progress.skipped else ""
    budget = f"; {progress.left:,} of {progress.budget:,} labels of the budget left" if progress.budget else ""
    return f"{progress.labelled:,} of {progress.items:,} items labelled{skipped}{budget}"


def _work(progress: Progress) -> list[str]:
    lines = []
    if progress.rate is not None:
        rest = "" if progress.hours is None else f"; the rest takes about {_hours(progress.hours)}"
        lines.append(f"  {progress.rate:,.0f} labels an hour while people work{rest}")
    for person in progress.people[:PEOPLE]:
        skips = f", {person.skips:,} skipped" if person.skips else ""
        pace = "" if person.seconds is None else f", {person.seconds:.1f} s each"
        lines.append(f"  {person.name or 'unnamed'}: {plural(person.labels, 'label')}{skips}{pace}")
    if len(progress.people) > PEOPLE:
        lines.append(f"  and {len(progress.people) - PEOPLE} more people")
    if progress.labels and progress.classes:
        lines.append("  " + ", ".join(f"{name} {count:,}" for name, count in progress.classes.items()))
    if progress.agreement is not None:
        kappa = "" if progress.agreement.kappa is None else f", kappa {progress.agreement.kappa:.2f}"
        lines.append(
            f"  people agree on {progress.agreement.share:.0%} of the {plural(progress.agreement.items, 'item')} "
            f"labelled by several{kappa}"
        )
    return lines


def _curve(rounds: Sequence[Mapping[str, Any]], *, colour: bool, plain: bool) -> str:
    """The estimates that were made as the last one was, one for each number of labels."""
    estimated = [each for each in rounds if each.get("estimate")]
    if not estimated:
        return ""
    last = estimated[-1]["estimate"]
    kind = last["metric"], last["how"]
    points = {
        int(each["labels"]): float(each["estimate"]["value"])
        for each in estimated
        if (each["estimate"]["metric"], each["estimate"]["how"]) == kind
    }
    about = last.get("about") or last["how"]  # as rounds of earlier versions have it
    value, low, high = (shown_value(last[name], metric=last["metric"]) for name in ("value", "low", "high"))
    text = _wrapped([f"{last['metric']} {value} (95% interval {low} to {high}) {about}", *_measures(last)])
    if len(points) < 2:
        return text
    labels = tuple(sorted(points))
    trace = Trace(last["how"], 0, labels, {last["metric"]: tuple(points[n] for n in labels)}, ())
    drawn = terminal_curves([trace], metric=last["metric"], width=WIDTH, height=10, colour=colour, plain=plain)
    return f"{drawn}\n{text}"


def _measures(estimate: Mapping[str, Any]) -> list[str]:
    """What else is known by the same questions."""
    named = [
        f"{name.replace('_', ' ')} {each['value']:.3f} ({each['low']:.3f} to {each['high']:.3f})"
        for name in ("balanced_accuracy", "log_loss")
        if (each := estimate.get(name))
    ]
    classes = [f"{name} {each['value']:.2f}" for name, each in (estimate.get("classes") or {}).items()]
    return [", ".join(named)] * bool(named) + [f"accuracy by class: {', '.join(classes)}"] * bool(classes)


def _last(progress: Progress, good: Sequence[Mapping[str, Any]], training: float | None) -> list[str]:
    busy = [] if training is None else [f"Training for {training:.0f} s so far."]
    report = good[-1] if good else {}
    if not has_model(report):
        two = not progress.classes or sum(n > 0 for n in progress.classes.values()) > 1
        once = "" if two else " once two classes have labels,"
        where = "" if busy else f": training starts{once} while askwell serve runs or at the next askwell ask"
        return [*busy, f"No model yet{where}. Questions are drawn at random or spread over the pool until then."]
    lines = [*busy, f"Trained on {plural(report['labels'], 'label')} in round {report['round']} ({report['model']})."]
    if report.get("gain") is not None:
        lines.append(
            f"Expected information per label: {report['gain']:.4f} nats about a target's label (EPIG; a fair coin flip "
            "has 0.69 nats)."
        )
    ahead = report.get("next50")
    if ahead:
        lines.append(
            f"Another {ahead['labels']} labels are expected to add {ahead['gain']:+.1%} of accuracy "
            f"({ahead['low']:+.1%} to {ahead['high']:+.1%})."
        )
    lines += [f"Note: {warning}" for warning in report.get("warnings", ())]
    advice = report.get("advice")
    if advice:
        word = "stop" if advice["stop"] else "continue, once the budget allows it" if progress.left == 0 else "continue"
        if advice["stop"] or not progress.closed or progress.left == 0:
            lines += [f"Advice: {word}. {advice['why']}", f"Rule: {advice['rule']}"]
    return lines


def _failure(rounds: Sequence[Mapping[str, Any]]) -> list[str]:
    failed = rounds[-1].get("failed") if rounds else None
    return [f"The last training failed, so questions are chosen as before it: {failed}"] if failed else []


def _closed(progress: Progress) -> list[str]:
    return [f"No more questions: {progress.closed}"] if progress.closed else []


def _wrapped(lines: Sequence[str]) -> str:
    return "\n".join(
        textwrap.fill(line, WIDTH, subsequent_indent="    " if line.startswith("  ") else "  ") for line in lines
    )


def _hours(hours: float) -> str:
    return f"{round(60 * hours)} minutes" if hours < 1 else f"{hours:.1f} hours"
