"""A table with labels as a task: inputs that can be asked about, inputs to judge by, targets, and what was read."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.tables.encoding import encoded
from askwell.tables.reading import read_table
from askwell.tables.table import Table, label_column

__all__ = ["Labelled", "labelled"]


@final
@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled inputs, some of them set aside."""

    x: np.ndarray
    y: list[Any]
    ids: list[Any]  # of x; the rows of the file, if no column has them
    test: tuple[np.ndarray, list[Any]]
    targets: np.ndarray | None
    note: str  # what was read, and how


def labelled(
    path: str | Path,
    *,
    label: str,
    rng: np.random.Generator,
    id: str | None = None,
    drop: Sequence[str] = (),
    targets: str | Path | None = None,
    test: str | Path | None = None,
    test_share: float | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Labelled:
    """The task in a table whose column `label` is known in every row; the other columns, encoded, are the inputs.

    `test` is the path of a table to judge by, else `test_share` (0.3) of the rows of each class is set aside at random.
    `targets` is the path of a table of inputs like those the model will meet. Both are encoded as the first table is.

    >>> from askwell.seeds import rng_for
    >>> path = getfixture("tmp_path") / "a.csv"
    >>> _ = path.write_text("x,kind\\n" + "1,a\\n2,b\\n3,a\\n4,b\\n" * 5)
    >>> task = labelled(path, label="kind", rng=rng_for(0, 0, "test rows"))
    >>> task.x.shape, task.test[0].shape
    ((14, 1), (6, 1))
    >>> print(task.note)
    a.csv: 20 rows. Labels: kind, 2 classes: a (10), b (10).
      numbers as they are: x
      to judge by: 6 rows, set aside at random; 14 rows can be asked about
      targets: drawn from the rows that can be asked about
    """
    if test is not None and test_share is not None:
        raise ValueError("test and test_share exclude each other: give a table to judge by, or a share of this one.")
    if test_share is not None and not 0 < test_share < 1:
        raise ValueError(f"test_share must be between 0 and 1, but it is {test_share}.")

    def read(path: str | Path, *, id: str | None = None) -> Table:
        return read_table(path, id=id, delimiter=delimiter, encoding=encoding)

    table = read(path, id=id)
    labels = label_column(table, label)
    _check_classes(table, label, labels)
    inputs = encoded(table, drop=[label, *(name for name in drop if name != id)])
    ids = list(table.ids if table.ids is not None else table.numbers)
    note = [f"{table.source}: {table.rows:,} rows. {_class_note(label, labels)}", *inputs.note.splitlines()]
    if test is None:
        held = _held_out(labels, 0.3 if test_share is None else test_share, rng)
        judged = inputs.x[held], [labels[row] for row in np.flatnonzero(held)]
        note.append(f"to judge by: {held.sum():,} rows, set aside at random; {(~held).sum():,} rows can be asked about")
    else:
        held = np.zeros(table.rows, bool)
        other = read(test)
        labels, theirs = _alike(labels, label_column(other, label))
        judged = inputs.encode(other), theirs
        note.append(f"to judge by: the {other.rows:,} rows of {other.source}")
    aim = None
    if targets is None:
        note.append("targets: drawn from the rows that can be asked about")
    else:
        wanted = read(targets)
        aim = inputs.encode(wanted)
        note.append(f"targets: the {wanted.rows:,} rows of {wanted.source}")
    asked = np.flatnonzero(~held).tolist()
    return Labelled(
        inputs.x[asked], [labels[row] for row in asked], [ids[row] for row in asked], judged, aim, "\n  ".join(note)
    )


def _alike(a: list[Any], b: list[Any]) -> tuple[list[Any], list[Any]]:
    """Labels of two files as the same kind: texts, if they are in one of them (1, 2, x) and not in the other (1, 2)."""
    if isinstance(a[0], str) == isinstance(b[0], str):
        return a, b
    return [str(label) for label in a], [str(label) for label in b]


def _check_classes(table: Table, name: str, labels: list[Any]) -> None:
    """There are classes to tell apart."""
    n, c = table.rows, len({*labels})
    if n < 4:
        raise ValueError(
            f"{table.source} has {n} {'row' if n == 1 else 'rows'}. A simulation needs rows to ask about and rows to "
            "judge by: some dozens at least."
        )
    if c == 1:
        raise ValueError(
            f"the label column {name!r} of {table.source} holds {labels[0]!r} in every row. There is nothing to learn "
            "with one class; is this the right column?"
        )
    if c > n / 2 or (c > 20 and any(isinstance(label, float) for label in labels)):
        raise ValueError(
            f"the label column {name!r} of {table.source} holds {c} different values in {n} rows. Is it a number to be "
            "predicted (regression), an id or a text? A simulation needs classes: choose another column, or cut the "
            "numbers into a few ranges."
        )


def _class_note(name: str, labels: list[Any]) -> str:
    counts = Counter(labels).most_common()
    shown = ", ".join(f"{label} ({count:,})" for label, count in counts[:6]) + (", ..." if len(counts) > 6 else "")
    share = counts[0][1] / len(labels)
    hint = f" {share:.0%} of the rows are {counts[0][0]}: balanced accuracy counts all classes alike."
    return f"Labels: {name}, {len(counts)} classes: {shown}." + (hint if share > 0.8 else "")


def _held_out(labels: list[Any], share: float, rng: np.random.Generator) -> np.ndarray:
    """Which rows are set aside `[n]`: the share of each class, at random, and never the whole of one."""
    held, codes = np.zeros(len(labels), bool), np.unique(np.array(labels), return_inverse=True)[1]
    for code in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == code))
        held[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    if not held.any():
        raise ValueError(
            f"a share of {share:g} of {len(labels)} rows leaves none to judge by. Try a larger one: test_share=0.5."
        )
    return held
