"""Labels out of a project and into one: CSV, JSON lines, Parquet, Label Studio's JSON.

What is written is what is in force: every person's last word on every item, label or skip, oldest first. Its key stands
for it everywhere, so the same file may be read in twice, and JSON lines and Parquet go through a project unchanged, to
the byte.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, final

from askwell.desk import Rules
from askwell.items import ShownImage, ShownText
from askwell.project.folder import Project
from askwell.project.formats import (
    Format,
    csv_bytes,
    format_of,
    json_bytes,
    parquet_bytes,
    read_rows,
    studio_bytes,
)
from askwell.store.records import Record, contents
from askwell.store.run import text_of
from askwell.tables.table import listed

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
    at: float  # unix seconds
    seconds: float | None  # taken
    kind: Literal["label", "skip"]
    reason: str | None  # of a skip
    key: str


NAMES = tuple(field.name for field in fields(Row))


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
    project: Project, path: str | Path, *, format: Format | None = None, safe: bool = True, consensus: bool = False
) -> int:
    """Write the answers in force to a file; how many. An old file stays whole until the new one is.

    The format is that of the file's ending unless given: .csv, .jsonl, .parquet, .json for Label Studio. In a CSV,
    cells that a spreadsheet would run as a formula begin with a ' unless `safe` is False. With `consensus` there is one
    row for each labelled item instead: the label most people gave, how many gave one, and which share of them says so.
    """
    file = Path(path)
    wanted = format_of(file, format)
    rows = _consensus(project) if consensus else [asdict(row) for row in _rows(project)]
    names = ("id", "label", "labels", "agreement") if consensus else NAMES
    if wanted == "csv":
        data = csv_bytes(names, rows, safe=safe)
    elif wanted == "jsonl":
        data = json_bytes(rows)
    elif wanted == "parquet":
        data = parquet_bytes(names, rows)
    elif consensus:
        raise ValueError("format must be csv, jsonl or parquet for the consensus: Label Studio's JSON is of people.")
    else:
        data = studio_bytes(rows, {row["id"]: _shown(project, row["id"]) for row in rows})
    _write(file, data)
    return len(rows)


def _rows(project: Project) -> Iterator[Row]:
    """The answers in force, in the order in which they were given."""
    told = {record.key: record.body["at"] for record in _records(project) if "at" in record.body}
    for answer in project.desk().answers():
        reason = answer.reason if answer.kind == "skip" else None
        at = float(told.get(answer.key, answer.at))  # an imported answer is as old as it was
        taken = None if answer.seconds is None else float(answer.seconds)
        yield Row(answer.item, answer.label, answer.who, at, taken, answer.kind, reason, answer.key)


def _records(project: Project) -> list[Record]:
    """The labels and skips of the project, in force or not."""
    return [each for each in project.store().read(project.settings.run) if each.kind in ("label", "skip")]


def _consensus(project: Project) -> list[dict[str, Any]]:
    return [
        {"id": item, "label": said.label, "labels": len(said.votes), "agreement": said.share}
        for item, said in project.desk().labels().items()
    ]


def _shown(project: Project, item: str) -> tuple[str, Any]:
    """(the name of what people see, what it is) for a task of Label Studio."""
    if item not in project.items:
        return "text", ""  # it has left the pool, and kept its labels
    shown = project.items.show(item, whole=True)
    if isinstance(shown, ShownText):
        return "text", shown.text
    return ("image", item) if isinstance(shown, ShownImage) else ("table", dict(shown.cells))


def _write(file: Path, data: bytes) -> None:
    draft = file.with_name(f".{file.name}.new")
    try:
        draft.write_bytes(data)
        os.replace(draft, file)
    except OSError as fault:
        draft.unlink(missing_ok=True)
        raise ValueError(f"path must be a file that can be written, but {str(file)!r}: {fault.strerror}.") from None


# ---- in ------------------------------------------------------------------------------------------------------------


def import_labels(project: Project, path: str | Path, *, format: Format | None = None, safe: bool = True) -> Report:
    """Read answers from a file into a project. What it holds already, by key, is not stored again.

    Columns that count are those of `export_labels`; only `id` and `label` must be there. A row that cannot be kept is
    refused and the others go in: rows in the file = added + known + refused. Give `safe=False` for a CSV that was
    written so, and the format by name where the ending does not tell.
    """
    file = Path(path)
    found = read_rows(file, format_of(file, format), safe=safe)
    rules, known = project.desk().rules, {record.key: record for record in _records(project)}
    new, refused, again = list[Record](), list[str](), 0
    for place, row in found:
        try:
            if isinstance(row, str):
                raise ValueError(row)
            record = _record(project, rules, row)
            other = known.setdefault(record.key, record)
            if other is record:
                new.append(record)
            elif _same(other, record, rules):
                again += 1
            else:
                raise ValueError(f"the key {record.key!r} stands for another answer in this project already.")
        except ValueError as fault:
            refused.append(f"{place}: {fault}")
    for start in range(0, len(new), AT_ONCE):
        project.store().append(new[start : start + AT_ONCE])
    return Report(len(new), again, tuple(refused))


def _same(one: Record, other: Record, rules: Rules) -> bool:
    labels = [rules.named(record.body.get("label")) for record in (one, other)]
    return (one.kind, one.item, one.who, labels[0]) == (other.kind, other.item, other.who, labels[1])


def _record(project: Project, rules: Rules, row: Mapping[str, Any]) -> Record:
    """A row as the record to keep, or a ValueError that says why it cannot be."""
    item, kind, who = row.get("id"), row.get("kind") or "label", row.get("who")
    item = str(item) if isinstance(item, int) and not isinstance(item, bool) else item
    if not isinstance(item, str) or item not in project.items:
        raise ValueError(f"there is no item {item!r} in this project.")
    if kind not in ("label", "skip"):
        raise ValueError(f"kind must be label or skip, but it is {kind!r}.")
    who = IMPORTED if who is None else who
    if kind == "skip":
        body = {"reason": row.get("reason") or ""}
        if not isinstance(body["reason"], str):
            raise ValueError(f"reason must be a text, but it is {body['reason']!r}.")
    else:
        body = {"label": _label(rules, row.get("label"))}
    for name in ("at", "seconds"):
        if (number := _number(name, row.get(name))) is not None:
            body[name] = number
    content = json.dumps([item, kind, body.get("label"), who])
    key = row.get("key") or f"import:{hashlib.sha256(content.encode()).hexdigest()[:32]}"
    record = Record(key, project.settings.run, kind, text_of(item), body, who)
    contents([record])  # or it could not be stored
    return record


def _label(rules: Rules, value: Any) -> Any:
    """The label by its class's present name."""
    label = rules.named(value)
    if not isinstance(label, str | int | float) or (rules.classes and label not in rules.classes):
        allowed = f"one of {listed(rules.classes)}" if rules.classes else "a text or a number"
        raise ValueError(f"label must be {allowed}, but it is {value!r}.")
    return label


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
