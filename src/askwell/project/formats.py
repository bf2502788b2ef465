"""Rows as files and back: CSV, JSON lines, Parquet, Label Studio's JSON. To what they mean `exchange` attends.

Rows are dicts of plain values. Writers give bytes; readers give (file:row, the row, or a text that says why it cannot
be read), so that no row is lost in silence.
"""

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from askwell.data.csv import read_rows as csv_rows
from askwell.data.parquet import read_content
from askwell.data.reading import check_file, json_rows
from askwell.data.table import listed

__all__ = [
    "FORMATS",
    "Format",
    "Found",
    "as_it_was",
    "csv_bytes",
    "format_of",
    "iso_time",
    "json_bytes",
    "parquet_bytes",
    "read_rows",
    "studio_bytes",
    "write_whole",
]

Format: TypeAlias = Literal["csv", "jsonl", "parquet", "label-studio"]
Found: TypeAlias = tuple[str, Mapping[str, Any] | str]
"""(file:row, what stands there or why it cannot be read)."""

FORMATS = ("csv", "jsonl", "parquet", "label-studio")
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


def format_of(file: Path, asked: str | None) -> str:
    """The format that was asked for, or that of the file's ending.

    >>> format_of(Path("labels.ndjson"), None), format_of(Path("labels.txt"), "csv")
    ('jsonl', 'csv')
    """
    found = asked or SUFFIXES.get(file.suffix.lower())
    if found not in FORMATS:
        said = f"it is {asked!r}" if asked else f"{file.name!r} has none of the endings {', '.join(SUFFIXES)}"
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, but {said}.")
    return found


def iso_time(at: float) -> str:
    """Unix seconds as an ISO 8601 time in UTC, to the microsecond.

    >>> iso_time(1.5e9)
    '2017-07-14T02:40:00.000000Z'
    """
    found = datetime.fromtimestamp(min(at, LAST_TIME), UTC)
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


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
    except (pa.ArrowException, UnicodeError) as fault:
        raise ValueError(f"Parquet cannot hold these labels: {str(fault).splitlines()[0]}. Try .jsonl.") from None
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


def write_whole(file: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all; an old one stays until then."""
    draft = file.with_name(f".{file.name}.new")
    try:
        draft.write_bytes(data)
        os.replace(draft, file)
    except OSError as fault:
        draft.unlink(missing_ok=True)
        raise ValueError(f"path must be a file that can be written, but {str(file)!r}: {fault.strerror}.") from None


# ---- reading -------------------------------------------------------------------------------------------------------


def read_rows(file: Path, format: str, *, safe: bool) -> list[Found]:
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


def _read_studio(file: Path) -> Iterator[Found]:
    try:
        tasks = json.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as fault:
        raise ValueError(f"{str(file)!r} cannot be read: {fault.strerror or fault}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file.name} is not UTF-8 text. Save it as UTF-8.") from None
    except RecursionError:
        tasks = None
    except json.JSONDecodeError as fault:
        raise ValueError(f"{file.name} is not JSON: {fault}.") from None
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
