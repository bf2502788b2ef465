"""Labels out of a project and into one: CSV, JSON lines, Parquet, Label Studio's JSON.

What is written is what is in force: every person's last word on every item, label or skip, oldest first. Its key stands
for it everywhere, so the same file may be read in twice, and JSON lines and Parquet go through a project unchanged, to
the byte. Below, rows are dicts of plain values: writers give bytes, readers (file:row, the row or why it cannot be
read), so that no row is lost in silence.
"""

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args

from askwell.checks import write_file
from askwell.data import Items, ShownImage, ShownRow, ShownText
from askwell.data.csv import read_rows as csv_rows
from askwell.data.parquet import read_content
from askwell.data.reading import check_file, json_rows
from askwell.data.table import cell_text, listed
from askwell.project.project import Project
from askwell.session import Rules
from askwell.session.events import ItemSkipped, LabelAdded, text_of
from askwell.session.rules import Revision, consensus
from askwell.session.state import State
from askwell.store.records import Record, contents

__all__ = [
    "Format",
    "ImportReport",
    "as_it_was",
    "csv_bytes",
    "export_labels",
    "format_of",
    "import_labels",
    "iso_time",
    "json_bytes",
    "parquet_bytes",
    "read_rows",
    "studio_bytes",
    "table_bytes",
    "write_output",
]

AT_ONCE = 500  # records stored together
IMPORTED = "import"  # the annotator, where the file does not say


Format: TypeAlias = Literal["csv", "jsonl", "parquet", "label-studio"]
ReadRow: TypeAlias = tuple[str, Mapping[str, Any] | str]
"""(file:row, what stands there or why it cannot be read)."""

FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES = {
    **{".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".pq": "parquet"},
    ".json": "label-studio",
}
# What a spreadsheet may take for a formula: at the start of a cell, and after what it may take for the end of one (in
# many places of the world the separator is ;). What was made safe already looks like it, so it is made safe once more.
FORMULA = re.compile(r"(?:^|(?<=[;|\t\r\n]))(?=['\"\s\u200b-\u200f\u2060\ufeff\x00-\x1f]*[=+\-@＝＋－＠﹦﹢﹣﹫])")
SAFE = re.compile(FORMULA.pattern + "'")
BREAK = re.compile(r"'*[\t\r\n]")
NUMBERS = ("seconds", "agreement")
LAST_TIME = 253_402_300_799.0  # unix seconds: the end of the year 9999, the last that has a name in ISO 8601
OURS = ("who", "at", "reason", "key")  # what Label Studio has no place for
NAMES = ("id", "label", "who", "at", "seconds", "kind", "reason", "key")
"""Of an answer in force: a skip has no label but a reason; `at` is ISO 8601 in UTC, `seconds` what it took."""
CONSENSUS = ("id", "label", "labels", "agreement")
BOM = b"\xef\xbb\xbf"


@final
@dataclass(frozen=True)
class ImportReport:
    """What became of the rows of a file: each is added, known already, or refused with `file:row` and the reason.

    >>> print(ImportReport(added=2, known=1, refused=("a.csv:5: there is no item 'x' in this project.",)))
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
        return "\n".join([counts, *(f"  {error}" for error in self.refused)])


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
    rows = [*_consensus(state)] if consensus else [*_rows(project, state)]
    names = CONSENSUS if consensus else NAMES
    if with_item and wanted != "label-studio":  # whose tasks show the item anyway
        columns = _item_columns(project)
        project.items.look_at([row["id"] for row in rows if row["id"] in project.items])
        rows = [row | _item_cells(project, row["id"], columns) for row in rows]
        names = (*names, *columns.values())
    if wanted == "label-studio":
        data = studio_bytes(rows, {row["id"]: _shown(project, row["id"]) for row in rows})
    else:
        data = BOM * bom + table_bytes(wanted, names, rows, safe=safe)
    write_output(file, data)
    return len(rows)


def _state(project: Project) -> State:
    """What is in force by the store alone: the pool may be gone."""
    state = State()
    for record in project.store().read(project.settings.run):
        state.add(record)
    return state


def _rows(project: Project, state: State) -> Iterator[dict[str, Any]]:
    """The answers in force, in the order in which they were given."""
    times = {record.key: record.body["at"] for record in _records(project) if "at" in record.body}
    answers = (answer for item in state.answered() for answer in state.answers(item).values())
    for answer in sorted(answers, key=lambda each: each.seq):
        reason = answer.reason if answer.kind == "skip" else None
        at = iso_time(float(times.get(answer.key, answer.at)))  # an imported answer is as old as it was
        taken = None if answer.seconds is None else float(answer.seconds)
        cells = (answer.item, answer.label, answer.who, at, taken, answer.kind, reason, answer.key)
        yield dict(zip(NAMES, cells, strict=True))


def _records(project: Project) -> list[Record]:
    """The labels and skips of the project, in force or not."""
    return [each for each in project.store().read(project.settings.run) if each.kind in ("label", "skip")]


def _consensus(state: State) -> Iterator[dict[str, Any]]:
    for item in state.answered():
        if votes := state.votes(item):
            label, share = consensus(votes.values(), state.rules)
            yield {"id": item, "label": label, "labels": len(votes), "agreement": share}


def _pool(project: Project) -> Items:
    try:
        return project.items
    except ValueError as error:
        raise ValueError(
            f"{error} What people saw is in the pool, and only there; the answers alone can be exported without it, as "
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


def import_labels(
    project: Project, path: str | Path, *, format: Format | None = None, safe: bool = True
) -> ImportReport:
    """Read answers from a file into a project. What it holds already, by key, is not stored again.

    Columns that count are those of `export_labels`; only `id` and `label` must be there. A row that cannot be kept is
    refused and the others go in: rows in the file = added + known + refused. Give `safe=False` for a CSV that was
    written so, and the format by name where the ending does not tell.
    """
    file = Path(path)
    rows = read_rows(file, format_of(file, format), safe=safe)
    rules, known = project.session().rules, {record.key: record for record in _records(project)}
    revisions = _state(project).revisions
    new, refused, again = list[Record](), list[str](), 0
    for position, row in rows:
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
        except ValueError as error:
            refused.append(f"{position}: {error}")
    for start in range(0, len(new), AT_ONCE):
        project.store().append(new[start : start + AT_ONCE])
    return ImportReport(len(new), again, tuple(refused))


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
    if rules.label_range is not None:
        return rules.checked(value)
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
        time = datetime.fromisoformat(value)
        number = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
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


# ---- formats --------------------------------------------------------------------------------------------------------


def format_of(file: Path, asked: str | None) -> Format:
    """The format that was asked for, or that of the file's ending.

    >>> format_of(Path("labels.ndjson"), None), format_of(Path("labels.txt"), "csv")
    ('jsonl', 'csv')
    """
    name = asked or SUFFIXES.get(file.suffix.lower())
    for format in FORMATS:
        if format == name:
            return format
    got = f"it is {asked!r}" if asked else f"{file.name!r} has none of the endings {', '.join(SUFFIXES)}"
    raise ValueError(f"format must be one of {', '.join(FORMATS)}, but {got}.")


def iso_time(at: float) -> str:
    """Unix seconds as an ISO 8601 time in UTC, to the microsecond.

    >>> iso_time(1.5e9)
    '2017-07-14T02:40:00.000000Z'
    """
    time = datetime.fromtimestamp(min(at, LAST_TIME), UTC)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def table_bytes(format: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], *, safe: bool = True) -> bytes:
    """Rows as a file in one of the formats that are tables; `safe` is that of `csv_bytes`."""
    if format == "csv":
        return csv_bytes(names, rows, safe=safe)
    return json_bytes(rows) if format == "jsonl" else parquet_bytes(names, rows)


# ---- writing -------------------------------------------------------------------------------------------------------


def csv_bytes(names: Sequence[str], rows: Iterable[Mapping[str, Any]], *, safe: bool) -> bytes:
    """A CSV, all cells in quotation marks; with `safe`, a ' stands before what a spreadsheet would run as a formula.

    That is what begins with = + - @ (blanks aside), at the start of a cell or after ; | TAB or a line break, whatever
    the separator of the spreadsheet is. What looks as if it were made safe already gets one more, and reading takes
    them off: nothing is lost.

    >>> print(csv_bytes(["id", "label"], [{"id": "=1+1", "label": None}], safe=True).decode(), end="")
    "id","label"
    "'=1+1",""
    """
    text = io.StringIO()
    lines = csv.writer(text, quoting=csv.QUOTE_ALL)
    lines.writerow(names)
    for row in rows:
        cells = ["" if row[name] is None else str(row[name]) for name in names]
        lines.writerow(_made_safe(cell) if safe else cell for cell in cells)
    try:
        return text.getvalue().encode()
    except UnicodeEncodeError:
        raise ValueError("CSV cannot hold half of a surrogate pair, which one answer has. Try .jsonl.") from None


def _made_safe(cell: str) -> str:
    cell = FORMULA.sub("'", cell)
    return f"'{cell}" if BREAK.match(cell) else cell


def as_it_was(cell: str) -> str:
    """A cell of a CSV without the ' that were put before formulas when it was written.

    >>> as_it_was("'=1+1"), as_it_was("'twas")
    ('=1+1', "'twas")
    """
    return SAFE.sub("", cell[1:] if cell[:1] == "'" and BREAK.match(cell) else cell)


def json_bytes(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """JSON lines, readable where they can be.

    >>> json_bytes([{"id": "ä"}]).decode()
    '{"id": "ä"}\\n'
    """
    return b"".join(_json_line(row) for row in rows)


def _json_line(row: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n").encode()
    except UnicodeEncodeError:  # half of a surrogate pair: only the escaped form can hold it
        return (json.dumps(row, allow_nan=False) + "\n").encode()


def parquet_bytes(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A Parquet file: texts and numbers, labels of whatever one kind they are."""
    import pyarrow as pa
    from pyarrow import parquet

    def column(name: str) -> Any:
        values = [row[name] for row in rows]
        if name in ("label", "class") and any(value is not None for value in values):
            return pa.array(values)
        if name == "at":
            times = [None if value is None else datetime.fromisoformat(value) for value in values]
            return pa.array(times, pa.timestamp("us", "UTC"))
        number = name in NUMBERS or any(isinstance(value, float) for value in values)
        kind = pa.float64() if number else pa.int64() if name == "labels" else pa.string()
        return pa.array(values, kind)

    sink = pa.BufferOutputStream()
    try:
        parquet.write_table(pa.table({name: column(name) for name in names}), sink, compression="zstd")
    except (pa.ArrowException, UnicodeError) as error:
        raise ValueError(f"Parquet cannot hold these labels: {str(error).splitlines()[0]}. Try .jsonl.") from None
    return bytes(sink.getvalue())


def studio_bytes(rows: Iterable[Mapping[str, Any]], shown: Mapping[str, tuple[str, Any]]) -> bytes:
    """Label Studio's JSON, to be imported there: a task for each item, `shown[id]` being (name, value) of its data.

    An annotation has one choice of "label", or was cancelled if it is a skip. Who said it is not "completed_by", since
    Label Studio refuses people it does not know: it stands, with time, reason and key, under "askwell".
    """
    tasks: dict[str, dict[str, Any]] = {}
    for row in rows:
        name, value = shown[row["id"]]
        task = tasks.setdefault(row["id"], {"data": {"askwell_id": row["id"], name: value}, "annotations": []})
        choice = {"from_name": "label", "to_name": name, "type": "choices", "value": {"choices": [row["label"]]}}
        skipped = row["kind"] == "skip"
        task["annotations"].append(
            {
                "result": [] if skipped else [choice],
                "was_cancelled": skipped,
                "ground_truth": False,
                "lead_time": row["seconds"],
                "created_at": datetime.fromisoformat(row["at"]).isoformat(),
                "askwell": {name: row[name] for name in OURS},
            }
        )
    return json.dumps(list(tasks.values()), indent=1, allow_nan=False).encode()


def write_output(file: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all, or say why it cannot be written."""
    try:
        write_file(file, data)
    except OSError as error:
        raise ValueError(f"path must be a file that can be written, but {str(file)!r}: {error.strerror}.") from None


# ---- reading -------------------------------------------------------------------------------------------------------


def read_rows(file: Path, format: str, *, safe: bool) -> list[ReadRow]:
    """What stands in a file, row by row; a ValueError if it cannot be read at all.

    It is read as every table is (`askwell.data.read_table`), but a row that is wrong does not spoil the others.
    """
    if format == "label-studio":
        return [*_read_studio(file)]
    check_file(file, empty=format == "jsonl")
    rows = _csv(file, safe) if format == "csv" else json_rows(file) if format == "jsonl" else _parquet(file)
    return [(f"{file.name}:{number}", row) for number, row in rows]


def _csv(file: Path, safe: bool) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    names, rows = csv_rows(file)
    _check_names(file, names)
    for number, row in rows:
        if isinstance(row, str):
            yield number, row
            continue
        cells = dict(zip(names, map(as_it_was, row) if safe else row, strict=True))
        yield number, {name: cell if cell or name == "who" else None for name, cell in cells.items()}


def _parquet(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    content = read_content(file)
    _check_names(file, content.column_names)
    for number, row in enumerate(content.to_pylist(), 1):
        if isinstance(row.get("at"), datetime):
            at = row["at"] if row["at"].tzinfo else row["at"].replace(tzinfo=UTC)
            row["at"] = iso_time(at.timestamp())
        yield number, row


def _read_studio(file: Path) -> Iterator[ReadRow]:
    try:
        tasks = json.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ValueError(f"{str(file)!r} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file.name} is not UTF-8 text. Save it as UTF-8.") from None
    except RecursionError:
        tasks = None
    except json.JSONDecodeError as error:
        raise ValueError(f"{file.name} is not JSON: {error}.") from None
    if not isinstance(tasks, list):
        raise ValueError(f"{file.name} must be a list of Label Studio's tasks. Export them there with the format JSON.")
    for number, task in enumerate(tasks, 1):
        annotations = task.get("annotations") if isinstance(task, dict) else None
        if not isinstance(annotations, list) or not isinstance(task.get("data"), dict):
            yield f"{file.name}:{number}", 'a task must have "data" and "annotations".'
            continue
        yield from ((f"{file.name}:{number}", _annotation(task, annotation)) for annotation in annotations)


def _annotation(task: Mapping[str, Any], annotation: Any) -> Mapping[str, Any] | str:
    """An annotation as a row."""
    if not isinstance(annotation, dict):
        return "an annotation must be a JSON object."
    data, ours = task["data"], annotation.get("askwell")
    row = {"id": data.get("askwell_id", data.get("pool_id", data.get("id"))), "seconds": annotation.get("lead_time")}
    row["kind"] = "skip" if annotation.get("was_cancelled") else "label"
    if isinstance(ours, dict):
        row |= {name: ours.get(name) for name in OURS}
    else:
        person = annotation.get("completed_by")
        row["who"] = person.get("email") if isinstance(person, dict) else None if person is None else str(person)
        if annotation.get("id") is not None:
            row["key"] = f"label-studio:{task.get('project')}:{annotation['id']}:{annotation.get('updated_at')}"
    if row["kind"] == "label":
        try:
            parts = [part for part in annotation["result"] if part.get("type") == "choices"]
            (row["label"],) = [choice for part in parts for choice in part["value"]["choices"]]
        except (KeyError, TypeError, ValueError, AttributeError):
            return "an annotation must have exactly one choice."
    return row


def _check_names(file: Path, names: Iterable[str]) -> None:
    if lacking := [name for name in ("id", "label") if name not in names]:
        raise ValueError(f"{file.name} has no column {lacking[0]!r}. Its columns are {listed([*names])}.")
