"""Reading tables: CSV, JSON lines, Parquet; and tables with labels, to simulate on. An error says `file:row`."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.data.csv import read_csv
from askwell.data.encoding import in_one_unit, table_encoding
from askwell.data.parquet import read_parquet
from askwell.data.table import Column, Table, joined, label_column, numbers_column, some_rows, texts_column

__all__ = [
    "LabelledTable",
    "check_file",
    "checked_ids",
    "holds_numbers",
    "is_separated",
    "json_rows",
    "labelled",
    "read_table",
]

MOST_FRACTIONS, MOST_WHOLE = 20, 50  # different values that may still be names of classes

WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,99})")

JSON_LINES, PARQUET = (".jsonl", ".ndjson"), (".parquet", ".pq")
OTHER_KINDS = {
    ".xlsx": "a spreadsheet: save it as CSV",
    ".xls": "a spreadsheet: save it as CSV",
    ".ods": "a spreadsheet: save it as CSV",
    ".json": "one JSON document: write one object per line (.jsonl)",
    ".npy": "an array: give its path, or the array, as pool instead",
    ".npz": "several arrays: load the one you want with numpy.load",
    ".pkl": "a pickle: load it yourself and give the frame or the array",
    ".gz": "compressed: unpack it first",
    ".zip": "compressed: unpack it first",
}


def read_table(
    path: str | Path, *, id: str | None = None, encoding: str | None = None, delimiter: str | None = None
) -> Table:
    """The table in a file: `.jsonl` or `.ndjson` is JSON lines, `.parquet` or `.pq` Parquet, anything else CSV.

    The first row of a CSV names its columns. Its delimiter (comma, semicolon, tab or |) is found by itself, and UTF-8
    with or without a mark and marked UTF-16 are understood; `delimiter` and `encoding` say otherwise. In a file with
    semicolons 1,5 is one and a half. Empty cells, NA, N/A, NaN, null, ? are missing; 007 is a text. `id` is the column
    with the rows' ids, which must all be different; an id is a text as it stands in the file, blanks around it and
    NA included.

    >>> path = getfixture("tmp_path") / "people.csv"
    >>> _ = path.write_text("name;age;weight\\nAda;36;55,5\\nBob;;80\\n")
    >>> table = read_table(path, id="name")
    >>> table.ids, table.columns
    (('Ada', 'Bob'), {'age': array([36., nan]), 'weight': array([55.5, 80. ])})
    """
    file = Path(path)
    check_file(file)
    suffix = file.suffix.lower()
    if suffix in JSON_LINES:
        table = _json_lines(file, encoding or "utf-8-sig")
    elif suffix in PARQUET:
        table = read_parquet(file)
    else:
        if delimiter is not None and len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, but it is {delimiter!r}.")
        table = read_csv(file, encoding=encoding, delimiter=delimiter, as_text=id)
    return table if id is None else _with_ids(table, id)


def is_separated(path: str | Path) -> bool:
    """Whether a table of that name is read as CSV.

    >>> is_separated("a.tsv"), is_separated("a.jsonl")
    (True, False)
    """
    return Path(path).suffix.lower() not in (*JSON_LINES, *PARQUET)


def check_file(file: Path, *, empty: bool = False) -> None:
    """Something to read is there; with `empty`, it may be nothing."""
    try:
        if file.is_dir():
            raise ValueError(f"path must be a file, but {str(file)!r} is a folder. Name the file in it.")
        if not file.exists():
            others = sorted(other.name for other in file.parent.iterdir()) if file.parent.is_dir() else []
            near = [other for other in others if other.lower() == file.name.lower() or Path(other).stem == file.stem]
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"there is no file {str(file)!r}.{hint}")
        if file.suffix.lower() in OTHER_KINDS:
            raise ValueError(f"{file.name} is {OTHER_KINDS[file.suffix.lower()]}.")
        with file.open("rb") as opened:
            first = opened.read(1 << 12)
    except OSError as error:
        raise ValueError(f"{str(file)!r} cannot be read: {error.strerror or error}.") from None
    if not first.strip() and not empty:
        raise ValueError(f"{file.name} is empty. A table has a row of column names and rows of values.")
    if first.startswith(b"PK\x03\x04"):
        raise ValueError(f"{file.name} is a spreadsheet or a zip file by its content. Save the table as CSV.")


def _with_ids(table: Table, name: str) -> Table:
    """The same table with a column as ids: whole numbers if all are written as such, else texts as they stand there."""
    ids: tuple[Any, ...] = checked_ids(table, name, table.texts(name))
    if all(map(WHOLE.fullmatch, ids)) and "-0" not in ids:
        ids = tuple(map(int, ids))
    rest = {other: values for other, values in table.columns.items() if other != name}
    written = {other: cells for other, cells in table.written.items() if other != name}
    return Table(table.source, rest, table.numbers, ids, written)


def checked_ids(table: Any, name: str, ids: Sequence[str]) -> tuple[str, ...]:
    """The ids in a column of a table, or a ValueError with the first row that has none of its own."""
    different = {*ids}
    if len(different) == len(ids) and all(map(str.strip, different)):
        return tuple(ids)
    seen: dict[str, int] = {}
    for row, item in enumerate(ids):
        if not item.strip():
            break
        if item in seen:
            raise ValueError(
                f"{table.place(row)}: ids must all be different, but {item!r} in the column {name!r} is that of row "
                f"{table.numbers[seen[item]]} already. Delete one, or choose another id column, or none: "
                "rows are counted then."
            )
        seen[item] = row
    raise ValueError(f"{table.place(row)}: the id column {name!r} has no value here. Every row needs an id.")


# ---- JSON lines ----


def _json_lines(file: Path, encoding: str) -> Table:
    """One object per line; a name that a line lacks is missing there."""
    columns: dict[str, list[Any]] = {}
    numbers: list[int] = []
    for number, record in json_rows(file, encoding=encoding):
        if isinstance(record, str):
            raise ValueError(f"{file.name}:{number}: {record}")
        for name, value in record.items():
            if name not in columns:
                columns[name] = [None] * len(numbers)
            columns[name].append(value)
        numbers.append(number)
        for values in columns.values():
            if len(values) < len(numbers):
                values.append(None)
    if not columns:
        raise ValueError(f"{file.name} has no rows with values. Each line must be an object like" + ' {"age": 31}.')
    return joined(file.name, {name: _values(cells) for name, cells in columns.items()}, numbers)


def json_rows(file: Path, *, encoding: str = "utf-8-sig") -> Iterator[tuple[int, dict[str, Any] | str]]:
    """(its number, the object or what is wrong with it) of each line that is not empty."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, _object(line, encoding)


def _object(line: bytes, encoding: str) -> dict[str, Any] | str:
    try:
        record = _parsed(line.decode(encoding))
    except UnicodeDecodeError:
        return "this line is not UTF-8 text. Try encoding='cp1252'."
    except (json.JSONDecodeError, RecursionError) as error:
        return f"this line is not JSON ({error}). Each line must be one whole object."
    if isinstance(record, dict):
        return record
    return f'each line must be an object like {{"age": 31}}, but this is {type(record).__name__}.'


class _Spelt(float):
    """A number, and how it is written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "_Spelt":
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


def _parsed(text: str) -> Any:
    """A line of JSON in which the numbers of an object print as they are written.

    >>> print(_parsed('{"a": 1.10}')["a"], _parsed('{"a": 9007199254740993}')["a"])
    1.10 9007199254740993
    """
    record = json.loads(text)
    if isinstance(record, dict) and any(type(value) is float for value in record.values()):
        return json.loads(text, parse_float=_Spelt)  # a call for each number: not for lines of embeddings
    return record


def _values(cells: list[Any]) -> Column:
    """A column of JSON values: numbers, truth values, or all of them as text."""
    kinds = {float if isinstance(value, float) else type(value) for value in cells}
    if kinds == {bool}:
        return np.array(cells), None
    if kinds <= {int, float, type(None)}:
        try:
            return numbers_column(cells)
        except OverflowError:  # a whole number beyond any float: an id
            pass
    return texts_column([_cell(value) for value in cells])


def _cell(value: Any) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


@final
@dataclass(frozen=True, eq=False)
class LabelledTable:
    """LabelledTable inputs, some of them set aside."""

    x: np.ndarray
    y: list[Any]
    ids: list[Any]  # of x; the rows of the file, if no column has them
    test: tuple[np.ndarray, list[Any]]
    targets: np.ndarray | None
    note: str  # what was read, and how
    texts: tuple[str, ...] = ()  # the inputs that are texts, by their words
    alike: bool = False  # whether they are all there is, in one unit: nothing to standardise
    numbers: bool = False  # whether the labels are numbers, not classes


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
    numbers: bool | None = None,
) -> LabelledTable:
    """The task in a table whose column `label` is known in every row; the other columns, encoded, are the inputs.

    A column of texts is encoded by its words, learnt from the rows that can be asked about and the targets. `test` is
    the path of a table to test on, else `test_share` (0.3) of the rows of each class is set aside at random.
    `targets` is the path of a table of inputs like those the model will meet. Both are encoded as the first table is.
    Labels are classes or `numbers`; where nothing is said, `holds_numbers` says it.

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
    if numbers is None:
        numbers = holds_numbers(labels)
    (_check_numbers if numbers else _check_classes)(table, label, labels)
    ids = list(table.ids if table.ids is not None else table.numbers)
    groups = [0] * table.rows if numbers else labels
    held = np.zeros(table.rows, bool) if test else _held_out(groups, 0.3 if test_share is None else test_share, rng)
    pool, wanted = some_rows(table, np.flatnonzero(~held)), None if targets is None else read(targets)
    learnt_from = [pool] if wanted is None else [pool, wanted]
    inputs = table_encoding(table, learnt_from, drop=[label, *(name for name in drop if name != id)], words=2)
    encode, alike = inputs.encode, inputs.columns == inputs.texts
    if alike:  # parts of one thing, in one unit, as in a project
        in_unit = in_one_unit(np.concatenate([encode(each) for each in learnt_from]))
        encode = lambda other: in_unit(inputs.encode(other))  # noqa: E731
    note = [
        f"{table.source}: {table.rows:,} rows. {(_number_note if numbers else _class_note)(label, labels)}",
        *inputs.notes,
    ]
    if test is None:
        held_out = encode(some_rows(table, np.flatnonzero(held))), [labels[row] for row in np.flatnonzero(held)]
        note.append(f"test set: {held.sum():,} rows, set aside at random; {(~held).sum():,} rows can be asked about")
    else:
        other = read(test)
        labels, theirs = _alike((table, labels), (other, label_column(other, label)), label)
        if numbers:
            _check_numbers(other, label, theirs)
        held_out = encode(other), theirs
        note.append(f"test set: the {other.rows:,} rows of {other.source}")
    target_inputs = None
    if wanted is None:
        note.append("targets: drawn from the rows that can be asked about")
    else:
        target_inputs = encode(wanted)
        note.append(f"targets: the {wanted.rows:,} rows of {wanted.source}")
    asked = np.flatnonzero(~held).tolist()
    return LabelledTable(
        encode(pool),
        [labels[row] for row in asked],
        [ids[row] for row in asked],
        held_out,
        target_inputs,
        "\n  ".join(note),
        inputs.texts,
        alike,
        numbers,
    )


def holds_numbers(labels: Sequence[Any]) -> bool:
    """Whether labels look like numbers to predict and not like classes: more than 20 different ones with fractions,
    or more than 50 different whole ones.

    >>> holds_numbers([0.5 * i for i in range(50)]), holds_numbers([*range(10)] * 10), holds_numbers(["a", 0.5])
    (True, False, False)
    """
    if not all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels):
        return False
    whole = all(float(label).is_integer() for label in labels)
    return len({*labels}) > (MOST_WHOLE if whole else MOST_FRACTIONS)


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
            f"the label column {name!r} of {table.source} holds {c} different values in {n} rows. Is it an id or a "
            "text? Classes occur more often: choose another column. If it is a number to predict, say so (--numbers)."
        )


def _check_numbers(table: Table, name: str, labels: list[Any]) -> None:
    """Labels are finite numbers, of several values."""
    other = next((label for label in labels if isinstance(label, str | bool) or not np.isfinite(label)), None)
    if other is not None:
        raise ValueError(f"the label column {name!r} of {table.source} must hold numbers, but one is {other!r}.")
    if len({*labels}) < 2:
        raise ValueError(f"the label column {name!r} of {table.source} holds {labels[0]!r} in every row.")


def _number_note(name: str, labels: list[Any]) -> str:
    return (
        f"Labels: {name}, numbers from {min(labels):.6g} to {max(labels):.6g}, mean {np.mean(labels):.4g}, standard "
        f"deviation {np.std(labels):.4g}."
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
