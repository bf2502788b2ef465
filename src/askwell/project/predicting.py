"""What the project's model predicts, of its pool, its targets, or inputs it has never seen."""

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.arrays import spans
from askwell.data import Dataset, Items, LeftOut, Table, open_items
from askwell.data.files import is_pattern
from askwell.data.pretrained import is_pretrained
from askwell.data.table import some_rows
from askwell.models.protocol import label_moments, mean_predict, predicted
from askwell.progress import counted
from askwell.project.exchange import Format, format_of, table_bytes, write_output
from askwell.project.features import EMBEDDINGS, Features
from askwell.project.project import Project
from askwell.project.rounds import learned_posterior

__all__ = ["Predictions", "open_input", "predict_items", "table_format", "takes_embeddings"]

AT_ONCE = 1 << 24  # probabilities held at a time, of all draws and classes
MOST_ROWS = 10_000  # encoded at a time


@final
@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities of some items, in their order.

    >>> found = Predictions(("a", "b"), ("ham", "spam"), np.array([[0.75, 0.25], [0.5, 0.5]]))
    >>> print(found.data("csv").decode(), end="")
    "id","class","probability"
    "a","ham","0.75"
    "b","ham","0.5"
    """

    ids: tuple[str, ...]
    classes: tuple[Any, ...]  # none where labels are numbers
    probs: np.ndarray  # [n, c]; of numbers mean and standard deviation [n, 2]
    left_out: tuple[LeftOut, ...] = ()  # rows of the input that have nothing to predict from

    def best(self) -> list[Any]:
        """The most probable class of each, of equally probable ones the first; of numbers the mean."""
        if not self.classes:
            return [float(mean) for mean in self.probs[:, 0]]
        return [self.classes[column] for column in self.probs.argmax(axis=1)]

    def rows(self, *, all_classes: bool = False) -> Iterator[dict[str, Any]]:
        """id, class, probability; with `all_classes` also `p_` and a class for the probability of each.

        Of numbers id, mean, std.
        """
        if not self.classes:
            for item, (mean, std) in zip(self.ids, self.probs.tolist(), strict=True):
                yield {"id": item, "mean": float(f"{mean:.8g}"), "std": float(f"{std:.4g}")}
            return
        names = [f"p_{label}" for label in self.classes]
        for item, label, probs in zip(self.ids, self.best(), self.probs, strict=True):
            shares = [round(float(share), 6) for share in probs]
            more = zip(names, shares, strict=True) if all_classes else ()
            yield {"id": item, "class": label, "probability": max(shares), **dict(more)}

    def data(self, format: str, *, all_classes: bool = False, safe: bool = True) -> bytes:
        """The rows as a file: csv, jsonl or parquet. `safe` is that of `csv_bytes`."""
        names = ["id", "class", "probability", *(f"p_{label}" for label in self.classes if all_classes)]
        names = names if self.classes else ["id", "mean", "std"]
        return table_bytes(format, names, [*self.rows(all_classes=all_classes)], safe=safe)

    def write(
        self, path: str | Path, *, format: str | None = None, all_classes: bool = False, safe: bool = True
    ) -> None:
        """Write them to a file, whole or not at all; the format is that of its ending unless given."""
        write_output(Path(path), self.data(table_format(path, format), all_classes=all_classes, safe=safe))


def table_format(path: str | Path, asked: str | None) -> Format:
    """csv, jsonl or parquet, by name or by the file's ending."""
    with suppress(ValueError):
        if (found := format_of(Path(path), asked)) != "label-studio":
            return found
    name = Path(path).name
    raise ValueError(
        f"format must be csv, jsonl or parquet, but the ending of {name!r} is that of none. Try {name}.csv."
    )


def predict_items(project: Project, source: Items | str, *, embeddings: str | Path | None = None) -> Predictions:
    """What the model believes after the labels there are about "pool", "targets", or other items (`open_input`).

    The model is the one that the page's questions come from after the same labels. `embeddings` is the file with those
    of the items, for a project whose features are embeddings in a file.
    """
    posterior = learned_posterior(project)
    items = project.items if source == "pool" else project.target_items if source == "targets" else source
    if not isinstance(items, Items):
        raise ValueError("the project has no targets of its own: it was made without --targets.")
    x = project.features()[0 if source == "pool" else 1] if isinstance(source, str) else None
    parts = [x] if x is not None else _encoded(project.encoder(), items, embeddings)
    probs = []
    with counted(len(items), label="predicting", unit="items") as done:
        for part in parts:
            draws = max(1, np.asarray(predicted(posterior, part[:1])).size)  # k times c
            for span in spans(len(part), max(1, AT_ONCE // draws)):
                probs.append(_believed(posterior, part[span]))
                done(len(probs[-1]))
    return Predictions(items.ids, tuple(getattr(posterior, "classes", ())), np.concatenate(probs), items.left_out)


def _believed(posterior: Any, x: Any) -> np.ndarray:
    """p(y|x) `[n, c]`; of numbers mean and standard deviation `[n, 2]`."""
    if hasattr(posterior, "classes"):
        return np.asarray(mean_predict(posterior, x), np.float64)
    mean, variance = label_moments(posterior, x)
    return np.stack([mean, np.sqrt(variance)], axis=1)


def _encoded(features: Features, items: Items, embeddings: str | Path | None) -> Iterator[np.ndarray]:
    """The items as the model sees them, some at a time."""
    assert features.encode is not None
    if embeddings is not None:
        yield features.encode(items, Path(embeddings))
        return
    if isinstance(items.table, Dataset):
        parts: Iterable[tuple[slice, Table | None]] = (
            (slice(chunk.start, chunk.start + chunk.rows), table)
            for chunk, table in zip(items.table.chunks, items.table.tables(items.table.columns), strict=True)
        )
    else:
        table = items.table
        parts = (
            (span, table and some_rows(table, np.arange(len(items))[span])) for span in spans(len(items), MOST_ROWS)
        )
    for span, part in parts:
        contents = range(span.stop - span.start) if items.kind == "table" else items.contents[span]
        some = dataclasses.replace(items, ids=items.ids[span], contents=contents, table=part, left_out=(), rows=None)
        yield features.encode(some, None)


def open_input(project: Project, path: str | Path, *, id: str | None = None, **reading: str | None) -> Items:
    """The items of a file or a folder that the model can look at: a table needs the columns that the model uses.

    `id` is the column with ids, by default that of the project; rows are counted where there is none. `encoding` and
    `delimiter` are those of the project unless given.
    """
    features = project.encoder()
    options: dict[str, Any] = {"kind": project.settings.kind if _is_shown(project.settings.features) else None}
    for name in ("encoding", "delimiter"):
        options[name] = reading.get(name) or getattr(project.settings, name)
    if is_pattern(path):
        options |= {"kind": "table", "encoding": None, "delimiter": None}
    elif Path(path).is_dir() or Path(path).suffix.lower() == ".npy":
        return open_items(path, **options)
    options |= {"kind": options["kind"] or "table", "show": features.columns or None}
    options["hide"] = [name for name in (project.settings.label, project.settings.cost) if name is not None]
    wanted = id or project.settings.id
    try:
        return open_items(path, id=wanted, **options)
    except ValueError:
        items = open_items(path, **options)
        if id is not None or wanted in (None, *items.columns):  # not the id column was the trouble
            raise
        return items


def _is_shown(features: str | tuple[str, ...]) -> bool:
    """Whether features are made of what people see: a text or a picture."""
    return features in ("text", "pixels") or (isinstance(features, str) and is_pretrained(features))


def takes_embeddings(project: Project) -> bool:
    """Whether the project's features are embeddings in a file, so that an input's must be given in one too."""
    features = project.settings.features
    return isinstance(features, str) and features.startswith(EMBEDDINGS) and not project.encoder().columns
