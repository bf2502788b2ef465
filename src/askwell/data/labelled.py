"""A table with labels as a task: inputs that can be asked about, a test set, targets, and what was read."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.data.encoding import Encoded, encoded
from askwell.data.reading import read_table
from askwell.data.table import Table, label_column, some_rows
from askwell.data.texts import Encoder, fit_texts, in_one_unit, is_prose, is_wordy

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
    texts: tuple[str, ...] = ()  # the inputs that are texts, by their words
    alike: bool = False  # whether they are all there is, in one unit: nothing to standardise


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

    A column of texts is encoded by its words, learnt from the rows that can be asked about and the targets. `test` is
    the path of a table to test on, else `test_share` (0.3) of the rows of each class is set aside at random.
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
      test set: 6 rows, set aside at random; 14 rows can be asked about
      targets: drawn from the rows that can be asked about
    """
    if test is not None and test_share is not None:
        raise ValueError("test and test_share exclude each other: give a table to test on, or a share of this one.")
    if test_share is not None and not 0 < test_share < 1:
        raise ValueError(f"test_share must be between 0 and 1, but it is {test_share}.")

    def read(path: str | Path, *, id: str | None = None) -> Table:
        return read_table(path, id=id, delimiter=delimiter, encoding=encoding)

    table = read(path, id=id)
    labels = label_column(table, label)
    _check_classes(table, label, labels)
    ids = list(table.ids if table.ids is not None else table.numbers)
    held = np.zeros(table.rows, bool) if test else _held_out(labels, 0.3 if test_share is None else test_share, rng)
    pool, wanted = some_rows(table, np.flatnonzero(~held)), None if targets is None else read(targets)
    inputs = _inputs(
        table, [label, *(name for name in drop if name != id)], [pool] if wanted is None else [pool, wanted]
    )
    note = [f"{table.source}: {table.rows:,} rows. {_class_note(label, labels)}", *inputs.notes]
    if test is None:
        judged = inputs.encode(some_rows(table, np.flatnonzero(held))), [labels[row] for row in np.flatnonzero(held)]
        note.append(f"test set: {held.sum():,} rows, set aside at random; {(~held).sum():,} rows can be asked about")
    else:
        other = read(test)
        labels, theirs = _alike((table, labels), (other, label_column(other, label)), label)
        judged = inputs.encode(other), theirs
        note.append(f"test set: the {other.rows:,} rows of {other.source}")
    aim = None
    if wanted is None:
        note.append("targets: drawn from the rows that can be asked about")
    else:
        aim = inputs.encode(wanted)
        note.append(f"targets: the {wanted.rows:,} rows of {wanted.source}")
    asked = np.flatnonzero(~held).tolist()
    return Labelled(
        inputs.encode(pool),
        [labels[row] for row in asked],
        [ids[row] for row in asked],
        judged,
        aim,
        "\n  ".join(note),
        inputs.texts,
        inputs.alike,
    )


@final
@dataclass(frozen=True, eq=False)
class _Inputs:
    """How a table becomes numbers."""

    encode: Callable[[Table], np.ndarray]
    notes: list[str]
    texts: tuple[str, ...]
    alike: bool


def _inputs(table: Table, drop: Sequence[str], read: Sequence[Table]) -> _Inputs:
    """Columns as the whole table has them, and prose by its words, which are learnt from the tables of `read`.

    Without other inputs, texts of two words are taken too; a row's texts are then in one unit, as in a project.
    """
    left = [name for name in table.columns if name not in drop]
    prose = tuple(name for name in left if is_prose(table.columns[name]))
    columns: Encoded | None = None
    try:
        columns = encoded(table, drop=[*drop, *prose])
    except ValueError:
        prose = prose or tuple(name for name in left if is_wordy(table.columns[name], words=2))
        if not prose or any(name not in table.columns for name in drop):
            raise
    encoders, notes = [] if columns is None else [columns.encode], [] if columns is None else columns.note.splitlines()
    for name in prose:
        numbers, note = fit_texts(*(each.texts(name) for each in read))
        encoders.append(partial(_encoded_texts, name, numbers))
        notes.append(f"{name}: {note}")

    def encode(other: Table) -> np.ndarray:
        return np.concatenate([each(other) for each in encoders], axis=1)

    if columns is not None:
        return _Inputs(encode, notes, prose, alike=False)
    in_unit = in_one_unit(np.concatenate([encode(each) for each in read]))
    return _Inputs(lambda other: in_unit(encode(other)), notes, prose, alike=True)


def _encoded_texts(name: str, numbers: Encoder, table: Table) -> np.ndarray:
    return np.asarray(numbers(table.texts(name)), np.float32)


def _alike(a: tuple[Table, list[Any]], b: tuple[Table, list[Any]], name: str) -> tuple[list[Any], list[Any]]:
    """Labels of two files as the same kind: texts, if they are in one of them (1, 2, x) and not in the other (1, 2)."""
    if isinstance(a[1][0], str) == isinstance(b[1][0], str):
        return a[1], b[1]
    one, other = ([text.strip() for text in table.texts(name)] for table, _ in (a, b))
    return one, other


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
            f"a share of {share:g} of {len(labels)} rows leaves no test set. Try a larger one: test_share=0.5."
        )
    return held
