"""What runs found: a file of lines per run while it goes, and one small table per figure to redraw it from.

A run is one setting, one score and one seed. Its file grows by one whole line per step, so a run that was killed goes
on after its last step. The table has a line per step too, with the columns a figure is drawn from and nothing else.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final
from urllib.parse import quote

import numpy as np

from askwell.simulation.curves import Trace

__all__ = ["KEYS", "Job", "Results", "Row", "Runs", "read_results", "write_results"]

KEYS = ("setting", "score", "seed")
LARGE = 1 << 19  # bytes of a table from which on it is compressed

Row = dict[str, Any]
"""What one step found: numbers by name (labels, accuracy, log_loss, seconds, ...), perhaps lists (asked: positions)."""


class Job(NamedTuple):
    """One run.

    >>> Job("Magic, forest", "epig", 3).file_name
    'Magic%2C%20forest-epig-3.jsonl'
    """

    setting: str
    score: str
    seed: int

    @property
    def file_name(self) -> str:
        """The name of the file its steps are kept in."""
        return "-".join(quote(str(part), safe="") for part in self) + ".jsonl"


@final
@dataclass(frozen=True)
class Runs:
    """A folder with a file per run. The first line says on what terms it was begun; one line per step follows."""

    folder: Path

    def past(self, job: Job, header: Mapping[str, Any]) -> list[Row]:
        """The steps that were done; begins the file if there is none, and takes a last line that is torn off it."""
        file = self.folder / job.file_name
        data = file.read_bytes() if file.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with file.open("r+b") as lines:
                lines.truncate(len(whole))
        if not whole:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._append(job, header)
            return []
        try:
            first, *rows = [json.loads(line) for line in whole.splitlines()]
            begun = {name: first.get(name) for name in header}
        except (ValueError, AttributeError):
            raise ValueError(f"{file.name} must hold the steps of a run, but it does not. Remove it.") from None
        different = [name for name in header if name != "versions" and begun[name] != _as_json(header[name])]
        if different:
            name = different[0]
            raise ValueError(
                f"the run {file.name} was begun with {name} {begun[name]}, and now it is {header[name]}. Give another "
                "--out, or remove that file."
            )
        return rows

    def append(self, job: Job, row: Row) -> None:
        """Write one step down: a line is there whole or, at the very end of the file, torn."""
        self._append(job, row)

    def results(
        self, jobs: Iterable[Job], columns: Sequence[str], *, known: Mapping[Job, Row] | None = None
    ) -> "Results":
        """What the runs of these jobs have found so far, these columns of it; `known` are runs of one step."""
        rows = []
        for job in jobs:
            file = self.folder / job.file_name
            lines = file.read_bytes().split(b"\n")[1:-1] if file.exists() else []
            steps = [known[job]] if known and job in known else map(json.loads, lines)
            rows += [(*job, *(step[name] for name in columns)) for step in steps]
        return Results.of((*KEYS, *columns), rows)

    def _append(self, job: Job, row: Mapping[str, Any]) -> None:
        with (self.folder / job.file_name).open("ab", buffering=0) as lines:
            lines.write((json.dumps(row) + "\n").encode())


@final
@dataclass(frozen=True, eq=False)
class Results:
    """A table: columns by name, all of one length; the first three are setting, score and seed."""

    columns: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> "Results":
        """The table of these rows."""
        parts = zip(*rows, strict=True) if rows else [()] * len(names)
        return cls({name: np.array(part) for name, part in zip(names, parts, strict=True)})

    def __len__(self) -> int:
        return len(self.columns["seed"])

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def where(self, **values: Any) -> "Results":
        """The rows in which columns have these values: `results.where(setting="Magic, forest", score="epig")`."""
        kept = np.ones(len(self), bool)
        for name, value in values.items():
            kept &= self[name] == value
        return Results({name: column[kept] for name, column in self.columns.items()})

    def names(self, column: str) -> list[str]:
        """The different values of a column, in the order in which they come."""
        return list(dict.fromkeys(self[column].tolist()))

    def traces(self, setting: str, *, whole: bool = True) -> list[Trace]:
        """The runs of a setting, to compare curves; with `whole` only those that have gone as far as the farthest."""
        here = self.where(setting=setting)
        metrics = [name for name in here.columns if name not in (*KEYS, "labels")]
        traces = []
        for score in here.names("score"):
            for seed in here.where(score=score).names("seed"):
                run = here.where(score=score, seed=seed)
                values = {name: tuple(run[name].tolist()) for name in metrics}
                traces.append(Trace(score, int(seed), tuple(run["labels"].tolist()), values, ()))
        last = max((trace.labels[-1] for trace in traces), default=0)
        return [trace for trace in traces if not whole or trace.labels[-1] == last]


def write_results(results: Results, file: Path) -> Path:
    """Write the table as CSV, gzipped if it is large; the path that was written to (with .gz then)."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(results.columns)
    table.writerows(zip(*(map(_shown, column.tolist()) for column in results.columns.values()), strict=True))
    data, packed = text.getvalue().encode(), file.with_name(file.name + ".gz")
    file.parent.mkdir(parents=True, exist_ok=True)
    for old in (file, packed):
        old.unlink(missing_ok=True)
    if len(data) < LARGE:
        file.write_bytes(data)
        return file
    packed.write_bytes(gzip.compress(data, mtime=0))
    return packed


def read_results(file: Path) -> Results:
    """The table that `write_results` wrote to that path."""
    packed = file.with_name(file.name + ".gz")
    if not file.exists() and not packed.exists():
        raise ValueError(f"there are no results in {file} yet. Run the experiment first.")
    data = file.read_bytes() if file.exists() else gzip.decompress(packed.read_bytes())
    names, *rows = csv.reader(io.StringIO(data.decode()))
    texts = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return Results({name: np.array(texts[name] if name in KEYS[:2] else _numbers(texts[name])) for name in names})


def _shown(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _numbers(texts: list[str]) -> list[Any]:
    for kind in (int, float):
        try:
            return [kind(text) for text in texts]
        except ValueError:
            continue
    return texts


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))
