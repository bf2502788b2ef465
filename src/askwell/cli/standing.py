"""Progress of a project, as text for a terminal."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from askwell.report import terminal_curves
from askwell.session import Progress
from askwell.session.progress import has_model
from askwell.simulation.curves import Trace

__all__ = ["standing_text"]

PEOPLE = 10  # that are named


def standing_text(
    progress: Progress,
    *,
    title: str,
    training: float | None = None,
    width: int = 72,
    colour: bool = False,
    plain: bool = False,
) -> str:
    """Labels, budget and pace, who did what, the learning curve, what the next labels are expected to tell, advice.

    `training` is for how many seconds a model has been trained by now, if one is.
    """
    good = [each for each in progress.rounds if not each.get("failed")]
    parts = [
        _wrapped([f"{title}: {_counts(progress)}", *_work(progress)], width),
        _curve(good, width=width, colour=colour, plain=plain),
        _wrapped([*_last(progress, good, training), *_failure(progress.rounds), *_closed(progress)], width),
    ]
    return "\n\n".join(part for part in parts if part)


def _counts(progress: Progress) -> str:
    said = f"{progress.labelled:,} of {progress.items:,} items labelled"
    if progress.skipped:
        said += f", {progress.skipped:,} skipped"
    if progress.budget is not None:
        said += f"; {progress.left:,} of {progress.budget:,} labels of the budget left"
    return said


def _work(progress: Progress) -> list[str]:
    lines = []
    if progress.rate is not None:
        rest = "" if progress.hours is None else f"; the rest takes about {_hours(progress.hours)}"
        lines.append(f"  {progress.rate:,.0f} labels an hour while people work{rest}")
    for person in progress.people[:PEOPLE]:
        skips = f", {person.skips:,} skipped" if person.skips else ""
        pace = "" if person.seconds is None else f", {person.seconds:.1f} s each"
        lines.append(f"  {person.name or 'unnamed'}: {_several(person.labels, 'label')}{skips}{pace}")
    if len(progress.people) > PEOPLE:
        lines.append(f"  and {len(progress.people) - PEOPLE} more people")
    if progress.labels:
        lines.append("  " + ", ".join(f"{name} {count:,}" for name, count in progress.classes.items()))
    if progress.agreement is not None:
        kappa = "" if progress.agreement.kappa is None else f", kappa {progress.agreement.kappa:.2f}"
        lines.append(
            f"  people agree on {progress.agreement.share:.0%} of the {_several(progress.agreement.items, 'item')} "
            f"labelled by several{kappa}"
        )
    return lines


def _curve(rounds: Sequence[Mapping[str, Any]], *, width: int, colour: bool, plain: bool) -> str:
    """The estimates that were made as the last one was, one for each number of labels."""
    found = [each for each in rounds if each.get("estimate")]
    if not found:
        return ""
    last = found[-1]["estimate"]
    kind = last["metric"], last["how"]
    points = {
        int(each["labels"]): float(each["estimate"]["value"])
        for each in found
        if (each["estimate"]["metric"], each["estimate"]["how"]) == kind
    }
    said = f"{last['metric']} {last['value']:.3f}, between {last['low']:.3f} and {last['high']:.3f}, {last['how']}"
    if last["how"] == "cross-validated":
        said += " (on chosen questions, which are harder than average: usually a lower bound)"
    said = _wrapped([said], width)
    if len(points) < 2:
        return said
    labels = tuple(sorted(points))
    trace = Trace(last["how"], 0, labels, {last["metric"]: tuple(points[n] for n in labels)}, ())
    drawn = terminal_curves([trace], metric=last["metric"], width=width, height=10, colour=colour, plain=plain)
    return f"{drawn}\n{said}"


def _last(progress: Progress, good: Sequence[Mapping[str, Any]], training: float | None) -> list[str]:
    busy = [] if training is None else [f"Training for {training:.0f} s so far."]
    report = good[-1] if good else {}
    if not has_model(report):
        two = sum(n > 0 for n in progress.classes.values()) > 1
        once = "" if two else " once two classes have labels,"
        where = "" if busy else f": training starts{once} while askwell serve runs or at the next askwell ask"
        return [*busy, f"No model yet{where}. Questions are drawn at random or spread over the pool until then."]
    lines = [*busy, f"Trained on {_several(report['labels'], 'label')} in round {report['round']} ({report['model']})."]
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


def _wrapped(lines: Sequence[str], width: int) -> str:
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent="    " if line.startswith("  ") else "  ") for line in lines
    )


def _several(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _hours(hours: float) -> str:
    return f"{round(60 * hours)} minutes" if hours < 1 else f"{hours:.1f} hours"
