"""Labels out of a project and into one: CSV, JSON lines, Parquet, Label Studio's JSON.

What is written is what is in force: every person's last word on every item, label or skip, oldest first. Its key stands
for it everywhere, so the same file may be read in twice, and JSON lines and Parquet go through a project unchanged, to
the byte.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, final

from askwell.data import Items, ShownImage, ShownRow, ShownText
from askwell.data.table import cell_text, listed
from askwell.project.folder import Project
from askwell.project.formats import (
    Format,
    csv_bytes,
    format_of,
    iso_time,
    json_bytes,
    parquet_bytes,
    read_rows,
    studio_bytes,
    write_whole,
)
from askwell.session import Rules
from askwell.session.events import ItemSkipped, LabelAdded, text_of
from askwell.session.rules import Revision, most_frequent
from askwell.session.state import State
from askwell.store.records import Record, contents

__all__ = ["Report", "Row", "export_labels", "import_labels"]

AT_ONCE = 500  # records stored together
IMPORTED = "import"  # who said it, where the file does not tell


@final
@dataclass(frozen=True)
class Row:
    """An answer in force, as it is written."""

    id: str
    label: Any  # None for a skip
    who: str
    at: str  # ISO 8601, UTC
    seconds: float | None  # taken
    kind: Literal["label", "skip"]
    reason: str | None  # of a skip
    key: str


NAMES = tuple(field.name for field in fields(Row))
CONSENSUS = ("id", "label", "labels", "agreement")
BOM = b"\xef\xbb\xbf"


@final
@dataclass(frozen=True)
class Report:
    """What became of the rows of a file: each is added, known already, or refused with `file:row` and the reason.

    >>> print(Report(added=2, known=1, refused=("a.csv:5: there is no item 'x' in this project.",)))
    2 added, 1 known already, 1 refused
      a.csv:5: there is no item 'x' in this project.
    """

    added: int
    known: int
    refused: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """All of them."""
        return self.added + self.known + len(self.refused)

    def __str__(self) -> str:
        counts = f"{self.added:,} added, {self.known:,} known already, {len(self.refused):,} refused"
        return "\n".join([counts, *(f"  {fault}" for fault in self.refused)])


# ---- out -----------------------------------------------------------------------------------------------------------


def export_labels(
    project: Project,
    path: str | Path,
    *,
    format: Format | None = None,
    safe: bool = True,
    consensus: bool = False,
    with_item: bool = False,
    bom: bool = False,
) -> int:
    """Write the answers in force to a file; how many. An old file stays whole until the new one is.

    The format is that of the file's ending unless given: .csv, .jsonl, .parquet, .json for Label Studio. In a CSV,
    cells that a spreadsheet would run as a formula begin with a ' unless `safe` is False. With `consensus` there is one
    row for each labelled item instead: the label most people gave, how many gave one, and which share of them says so.
    `with_item` adds what people saw (a column that has the name of one of ours gets `item_` before it); everything
    else is in the store, and needs no pool. `bom` begins a CSV with a byte order mark, by which Excel knows UTF-8.
    """
    file = Path(path)
    project.check_output(file)
    wanted = format_of(file, format)
    if consensus and wanted == "label-studio":
        raise ValueError("format must be csv, jsonl or parquet for the consensus: Label Studio's JSON is of people.")
    if bom and wanted != "csv":
        raise ValueError(f"a byte order mark is for CSV files, but the format is {wanted}.")
    state = _state(project)
    rows = [*_consensus(state)] if consensus else [asdict(row) for row in _rows(project, state)]
    names = CONSENSUS if consensus else NAMES
    if with_item and wanted != "label-studio":  # whose tasks show the item anyway
        columns = _item_columns(project)
        rows = [row | _item_cells(project, row["id"], columns) for row in rows]
        names = (*names, *columns.values())
    if wanted == "csv":
        data = BOM * bom + csv_bytes(names, rows, safe=safe)
    elif wanted == "jsonl":
        data = json_bytes(rows)
    elif wanted == "parquet":
        data = parquet_bytes(names, rows)
    else:
        data = studio_bytes(rows, {row["id"]: _shown(project, row["id"]) for row in rows})
    write_whole(file, data)
    return len(rows)


def _state(project: Project) -> State:
    """What is in force by the store alone: the pool may be gone."""
    state = State()
    for record in project.store().read(project.settings.run):
        state.add(record)
    return state


def _rows(project: Project, state: State) -> Iterator[Row]:
    """The answers in force, in the order in which they were given."""
    told = {record.key: record.body["at"] for record in _records(project) if "at" in record.body}
    answers = (answer for item in state.answered() for answer in state.answers(item).values())
    for answer in sorted(answers, key=lambda each: each.seq):
        reason = answer.reason if answer.kind == "skip" else None
        at = iso_time(float(told.get(answer.key, answer.at)))  # an imported answer is as old as it was
        taken = None if answer.seconds is None else float(answer.seconds)
        yield Row(answer.item, answer.label, answer.who, at, taken, answer.kind, reason, answer.key)


def _records(project: Project) -> list[Record]:
    """The labels and skips of the project, in force or not."""
    return [each for each in project.store().read(project.settings.run) if each.kind in ("label", "skip")]


def _consensus(state: State) -> Iterator[dict[str, Any]]:
    for item in state.answered():
        if votes := state.votes(item):
            label, share = most_frequent(votes.values())
            yield {"id": item, "label": label, "labels": len(votes), "agreement": share}


def _pool(project: Project) -> Items:
    try:
        return project.items
    except ValueError as fault:
        raise ValueError(
            f"{fault} What people saw is in the pool, and only there; the answers alone can be exported without it, as "
            ".csv, .jsonl or .parquet."
        ) from None


def _item_columns(project: Project) -> dict[str, str]:
    """The pool's columns that people see -> what they are called beside ours."""
    items = _pool(project)
    shown = items.shown or (items.kind,)
    return {name: f"item_{name}" if name in (*NAMES, *CONSENSUS) else name for name in shown}


def _item_cells(project: Project, item: str, columns: Mapping[str, str]) -> dict[str, str | None]:
    """What people see of an item by column; nothing if it has left the pool."""
    items = _pool(project)
    if item not in items:
        return dict.fromkeys(columns.values())
    if items.kind != "table":
        return {name: str(items.contents[items.position(item)]) for name in columns.values()}
    shown = items.show(item, whole=True)
    assert isinstance(shown, ShownRow)
    return {columns[name]: text for name, text in shown.cells}


def _shown(project: Project, item: str) -> tuple[str, Any]:
    """(the name of what people see, what it is) for a task of Label Studio."""
    items = _pool(project)
    if item not in items:
        return "text", ""  # it has left the pool, and kept its labels
    shown = items.show(item, whole=True)
    if isinstance(shown, ShownText):
        return "text", shown.text
    return ("image", item) if isinstance(shown, ShownImage) else ("table", dict(shown.cells))


# ---- in ------------------------------------------------------------------------------------------------------------


def import_labels(project: Project, path: str | Path, *, format: Format | None = None, safe: bool = True) -> Report:
    """Read answers from a file into a project. What it holds already, by key, is not stored again.

    Columns that count are those of `export_labels`; only `id` and `label` must be there. A row that cannot be kept is
    refused and the others go in: rows in the file = added + known + refused. Give `safe=False` for a CSV that was
    written so, and the format by name where the ending does not tell.
    """
    file = Path(path)
    found = read_rows(file, format_of(file, format), safe=safe)
    rules, known = project.session().rules, {record.key: record for record in _records(project)}
    revisions = _state(project).revisions
    new, refused, again = list[Record](), list[str](), 0
    for place, row in found:
        try:
            if isinstance(row, str):
                raise ValueError(row)
            record = _record(project, rules, row)
            other = known.setdefault(record.key, record)
            if other is record:
                new.append(record)
            elif _same(other, record, revisions):
                again += 1
            else:
                raise ValueError(f"the key {record.key!r} stands for another answer in this project already.")
        except ValueError as fault:
            refused.append(f"{place}: {fault}")
    for start in range(0, len(new), AT_ONCE):
        project.store().append(new[start : start + AT_ONCE])
    return Report(len(new), again, tuple(refused))


def _same(stored: Record, row: Record, revisions: Sequence[Revision]) -> bool:
    """Whether a row is the answer that is stored under its key; the file may be older than the names of today."""
    alike = (stored.kind, stored.item, stored.who) == (row.kind, row.item, row.who)
    return alike and row.body.get("label") in _names(stored, revisions)


def _names(stored: Record, revisions: Sequence[Revision]) -> list[Any]:
    """What the class of a stored label has been called, from then until now: names may have been swapped."""
    earlier = [revision.version for revision in revisions if not stored.seq or revision.seq < stored.seq]
    since = stored.body.get("rules", max(earlier, default=0))
    names = [stored.body.get("label")]
    for revision in revisions:
        if revision.version > since and isinstance(names[-1], str):
            names.append(revision.renamed.get(names[-1], names[-1]))
    return names


def _record(project: Project, rules: Rules, row: Mapping[str, Any]) -> Record:
    """A row as the record to keep, or a ValueError that says why it cannot be."""
    item, kind, who = row.get("id"), row.get("kind") or "label", row.get("who")
    if isinstance(item, int | float | Decimal) and not isinstance(item, bool):
        item = _id_text(project, item)
    if not isinstance(item, str) or item not in project.items:
        raise ValueError(f"there is no item {item!r} in this project.")
    if kind not in ("label", "skip"):
        raise ValueError(f"kind must be label or skip, but it is {kind!r}.")
    who = IMPORTED if who is None else who
    label = _label(rules, row.get("label")) if kind == "label" else None
    reason = row.get("reason") or ""
    if kind == "skip" and not isinstance(reason, str):
        raise ValueError(f"reason must be a text, but it is {reason!r}.")
    times: dict[str, Any] = {"at": _time(row.get("at")), "seconds": _number("seconds", row.get("seconds"))}
    text = text_of(item)
    event = LabelAdded(text, label, **times) if kind == "label" else ItemSkipped(text, reason, **times)
    content = json.dumps([item, kind, label, who])
    key = row.get("key") or f"import:{hashlib.sha256(content.encode()).hexdigest()[:32]}"
    record = event.to_record(project.settings.run, who=who, key=key)
    contents([record])  # or it could not be stored
    return record


def _id_text(project: Project, number: Any) -> str:
    """A number as the id it is in the pool: as it is written; a whole one of a file of floats, without .0."""
    text = f"{number:f}" if isinstance(number, Decimal) else str(number)
    return text.removesuffix(".0") if text not in project.items else text


def _label(rules: Rules, value: Any) -> Any:
    """The label by its class's present name. Classes are texts: 1 is "1" where there is a class of that name."""
    label = rules.named(value)
    if rules.classes and label not in rules.classes and isinstance(value, int | float):
        label = rules.named(cell_text(value))
    if not isinstance(label, str | int | float) or (rules.classes and label not in rules.classes):
        allowed = f"one of {listed(rules.classes)}" if rules.classes else "a text or a number"
        raise ValueError(f"label must be {allowed}, but it is {value!r}.")
    return label


def _time(value: Any) -> float | None:
    """Unix seconds of an ISO 8601 time (in UTC if it names no zone), or of the number that older exports have."""
    with suppress(ValueError):
        return _number("at", value)
    try:
        found = datetime.fromisoformat(value)
        number = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    if number < 0:
        raise ValueError(f"at must be a time from 1970 on, like 2026-01-31T12:00:00Z, but it is {value!r}.")
    return number


def _number(name: str, value: Any) -> float | None:
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number of seconds, but it is {value!r}.") from None
    if isinstance(value, bool) or not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} must be a number of seconds from 0, but it is {value!r}.")
    return number
