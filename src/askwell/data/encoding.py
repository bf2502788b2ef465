"""From columns to numbers: a default for numbers, categories, dates and texts, and what it did in words.

Texts become TF-IDF of their words, cut to a few directions. A million of them are learnt from by a sample, and encoded
some at a time. Nothing here is learnt from labels.
"""

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, final

import numpy as np

from askwell.arrays import one_thread_each, spans
from askwell.data.table import Table, Values, as_texts, is_missing, listed
from askwell.seeds import rng_for

__all__ = [
    "LEARNT",
    "MOST_LEVELS",
    "Encoded",
    "Encoder",
    "Feature",
    "TableEncoding",
    "check_finite",
    "encoded",
    "fit_texts",
    "in_one_unit",
    "is_prose",
    "is_wordy",
    "matrix",
    "table_encoding",
]

MOST_LEVELS = 50  # of a category; the rarer ones share a column
FREE_TEXT = 20  # different texts, from which a column in which most of them occur once is taken for names or prose
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
ADVICE = (
    "To use a text, turn it into numbers first: embeddings of a language model, one column per number. (askwell "
    "simulate and projects encode a column of prose, several words a text, by themselves, if the table is one file.)"
)


@final
@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers."""

    column: str
    kind: Literal["number", "date", "level"]
    names: tuple[str, ...]  # of the numbers it becomes
    fill: float = 0.0  # for a missing number
    levels: tuple[str | None, ...] = ()  # one number each; None is missing
    other: bool = False  # a number more, for any other level


@final
@dataclass(frozen=True, eq=False)
class Encoded:
    """Numbers for a model: `x [n, d]`, the names of its columns, and a note on how they came about.

    >>> table = Table("a.csv", {"age": np.array([31.0, np.nan, 5.0]), "town": ["Oslo", "Rome", "Bern"]}, range(2, 5))
    >>> inputs = encoded(table)
    >>> inputs.names
    ('age', 'age (missing)', 'town=Bern', 'town=Oslo', 'town=Rome')
    >>> inputs.encode(Table("b.csv", {"town": ["Rome", "Paris"], "age": np.array([7, 8])}, range(2, 4))).tolist()
    [[7.0, 0.0, 0.0, 0.0, 1.0], [8.0, 0.0, 0.0, 0.0, 0.0]]
    """

    x: np.ndarray
    names: tuple[str, ...]
    note: str
    features: tuple[Feature, ...] = field(repr=False)

    def encode(self, table: Table) -> np.ndarray:
        """Another table's rows in the same features: the same medians, the same levels; an unknown level is other."""
        return matrix(table, self.features, self.x.dtype)


def encoded(table: Table, *, columns: Sequence[str] | None = None, drop: Iterable[str] = ()) -> Encoded:
    """The columns as numbers, each in the way that suits it:

    - numbers and truth values as they are; a missing one is the median, and a column `name (missing)` says where;
    - texts with few different values (levels) one column per level, of two levels one is enough; the 50 most frequent
      levels and `(other)` if there are more; missing is a level;
    - ISO dates and times as days since 1970-01-01 (UTC);
    - columns that say nothing (one value only), that count the rows, and texts that hardly repeat are left out.

    `columns` are the ones to use, by default all but those of `drop`; a column asked for by name is never left out
    silently. `x` is float32 unless a number needs more.
    """
    drop = tuple(drop)
    for name in drop:
        table.column(name)
    features, left_out = [], {}
    for name in columns if columns is not None else [name for name in table.columns if name not in drop]:
        feature = _feature(table, name, asked=columns is not None)
        if isinstance(feature, Feature):
            features.append(feature)
        elif columns is None:
            left_out[name] = feature
        else:
            raise ValueError(f"the column {name!r} of {table.source} cannot be used: {feature}. {ADVICE}")
    if not features:
        raise ValueError(
            f"{table.source} has no column that can be used as an input. Left out: "
            + ("; ".join(f"{name} ({why})" for name, why in left_out.items()) or "nothing; there are no others")
            + f". {ADVICE}"
        )
    wide = any(np.nanmax(abs(table.column(f.column))) >= 2**24 for f in features if f.kind == "number")  # type: ignore[arg-type]
    x = matrix(table, features, np.dtype(np.float64 if wide else np.float32))
    names = tuple(name for feature in features for name in feature.names)
    return Encoded(x, names, _note(table, features, left_out), tuple(features))


# ---- one column ----


def _feature(table: Table, name: str, *, asked: bool) -> Feature | str:
    """How to encode a column, or why not."""
    values = table.column(name)
    missing = is_missing(values)
    if missing.all():
        return "no values"
    if isinstance(values, np.ndarray):
        return _number_feature(table, name, values, missing, asked=asked)
    counts = Counter(values)
    present = [level for level in counts if level is not None]
    if all(map(ISO_DATE.fullmatch, present)) and None not in map(_days, present):
        days = np.array([np.nan if value is None else _days(value) for value in values], float)
        return _filled(name, "date", f"{name} (days)", days, missing)
    if len(counts) == 1:
        return "one value only"
    if len(present) > FREE_TEXT and 2 * len(present) > len(values) - missing.sum():
        return _free_text(table, values, len(present))
    order = sorted(present, key=lambda level: (-counts[level], level))
    levels: list[str | None] = [*sorted(order[:MOST_LEVELS])]
    if len(counts) == 2 and not missing.any():
        levels = levels[1:]
    elif missing.any():
        levels.append(None)
    other = len(order) > MOST_LEVELS
    names = tuple(f"{name}={'(missing)' if level is None else level}" for level in levels)
    return Feature(name, "level", names + (f"{name}=(other)",) * other, levels=tuple(levels), other=other)


def check_finite(table: Table, name: str) -> None:
    """No number of a column is infinite."""
    values = table.column(name)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise ValueError(
            f"{table.place(row)}: the column {name!r} holds an infinite number here. "
            "Leave the cell empty if it is unknown, write a large number, or drop the column."
        )


def _number_feature(table: Table, name: str, values: np.ndarray, missing: np.ndarray, *, asked: bool) -> Feature | str:
    check_finite(table, name)
    present = values[~missing]
    if not asked and not missing.any() and (present == present[0]).all():
        return "one value only"
    if not asked and values.dtype.kind == "i" and len(values) > 9 and (np.diff(values) == 1).all():
        return "it counts the rows"
    return _filled(name, "number", name, values.astype(float), missing)


def _filled(
    column: str, kind: Literal["number", "date"], name: str, values: np.ndarray, missing: np.ndarray
) -> Feature:
    names = (name, f"{column} (missing)") if missing.any() else (name,)
    return Feature(column, kind, names, fill=float(np.median(values[~missing])))


def _days(text: str) -> float | None:
    """Days since 1970-01-01, of a time without a zone as if it were UTC; None if it is no date."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    zoned = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    return zoned.timestamp() / 86_400


def _free_text(table: Table, values: list[str | None], distinct: int) -> str:
    """Why a text column is left out; most often it is one, but a few bad cells make text of numbers."""
    others = [row for row, value in enumerate(values) if value is not None and _number(value) is None]
    if others and len(others) < len(values) / 10:
        return (
            f"numbers, except for {len(others)} {'cell' if len(others) == 1 else 'cells'} such as "
            f"{values[others[0]]!r} in {table.place(others[0])}; correct or empty them to use it"
        )
    return f"{distinct} different texts in {len(values)} rows"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# ---- all columns ----


def matrix(table: Table, features: Sequence[Feature], dtype: np.dtype[Any]) -> np.ndarray:
    """The rows of a table in these features `[n, d]`, filled column by column."""
    x = np.zeros((table.rows, sum(len(feature.names) for feature in features)), dtype)
    start = 0
    for feature in features:
        values = table.column(feature.column)
        part = x[:, start : start + len(feature.names)]
        if feature.kind == "level":
            _fill_levels(part, feature, table)
        else:
            numbers = _numbers(table, feature, values)
            missing = np.isnan(numbers)
            part[:, 0] = np.where(missing, feature.fill, numbers)
            if len(feature.names) == 2:
                part[:, 1] = missing
        start += len(feature.names)
    return x


def _numbers(table: Table, feature: Feature, values: Values) -> np.ndarray:
    """A column of numbers or dates as floats, NaN where missing."""
    if feature.kind == "number" and isinstance(values, np.ndarray):
        return values.astype(float)
    numbers = np.full(len(values), np.nan)
    read = _number if feature.kind == "number" else _days
    for row, value in enumerate(values):
        if value is None or value != value:
            continue
        number = read(str(value))
        if number is None:
            wanted = "a number" if feature.kind == "number" else "a date like 2024-01-31"
            raise ValueError(
                f"{table.place(row)}: the column {feature.column!r} must hold {wanted} here as elsewhere, "
                f"but it is {value!r}."
            )
        numbers[row] = number
    return numbers


def _fill_levels(part: np.ndarray, feature: Feature, table: Table) -> None:
    positions = {level: position for position, level in enumerate(feature.levels)}
    other = len(feature.levels) if feature.other else -1
    texts = as_texts(table, feature.column)  # also of numbers only, where the first table had others too
    columns = np.fromiter((positions.get(text, other) for text in texts), np.intp, len(texts))
    known = np.flatnonzero(columns >= 0)
    part[known, columns[known]] = 1


def _note(table: Table, features: Sequence[Feature], left_out: dict[str, str]) -> str:
    """What became of the columns, a line for each way."""
    ways: dict[str, list[str]] = {}

    def add(way: str, thing: str) -> None:
        ways.setdefault(way, []).append(thing)

    for feature in features:
        if feature.kind == "number":
            add("numbers as they are", feature.column)
        elif feature.kind == "date":
            add("dates as days since 1970-01-01", feature.column)
        elif feature.other:
            distinct = len({*table.column(feature.column)} - {None})
            add(f"the {MOST_LEVELS} most frequent values and (other)", f"{feature.column} ({distinct} values)")
        else:
            add("one column per value", f"{feature.column} ({max(len(feature.levels), 2)} values)")
        if feature.kind != "level" and len(feature.names) == 2:
            count = int(is_missing(table.column(feature.column)).sum())
            add("missing values as the median, and a column that says where", f"{feature.column} ({count} rows)")
    for name, why in left_out.items():
        add("left out", f"{name} ({why})")
    return "\n".join(f"{way}: {listed(things)}" for way, things in ways.items())


Encoder: TypeAlias = Callable[[Sequence[str]], np.ndarray]
"""Texts to numbers `[n, d]`."""

WORDS = 50_000  # the most frequent words and pairs of words that count
PAIRS = 20_000  # texts up to which pairs of words are looked at; beyond, they would not fit the memory
LEARNT = 100_000  # texts that words and directions are learnt from; and that are encoded at a time
DIRECTIONS = 50  # numbers that a text becomes
FEW_TEXTS = 20  # different ones: a category
PROSE = 4  # words of a text, on average


def is_prose(values: Values) -> bool:
    """Whether a column holds texts to read rather than names or categories: many different ones, of several words.

    >>> is_prose([f"a message about topic {i}" for i in range(30)]), is_prose(["Oslo", "Rome"] * 30)
    (True, False)
    """
    return is_wordy(values, words=PROSE)


def is_wordy(values: Values, *, words: float) -> bool:
    """Whether a column holds many different texts, of so many words on average.

    >>> is_wordy([f"query {i}" for i in range(30)], words=2)
    True
    """
    if not isinstance(values, list):
        return False
    texts = {value for value in values if value is not None}
    return len(texts) > FEW_TEXTS and sum(len(text.split()) for text in texts) >= words * len(texts)


@final
@dataclass(frozen=True, eq=False)
class TableEncoding:
    """How a table becomes numbers, its texts included: `encode(table)` is `[n, d]` of any with these `columns`."""

    encode: Callable[[Table], np.ndarray]
    columns: tuple[str, ...]
    texts: tuple[str, ...]  # those of them that are encoded by their words
    notes: list[str]


def table_encoding(
    table: Table,
    learnt_from: Sequence[Table],
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    words: float = PROSE,
) -> TableEncoding:
    """Columns as `encoded` has them by the whole `table`, and prose by its words, learnt from the tables `learnt_from`.

    Where there are no other inputs, texts of so many `words` are prose too.

    >>> columns = {"text": [f"a message about topic {i}" for i in range(30)], "n": np.arange(30) % 7}
    >>> table = Table("a.csv", columns, range(30))
    >>> table_encoding(table, [table]).encode(table).shape
    (30, 30)
    """
    for name in drop:
        table.column(name)
    names = [name for name in table.columns if name not in drop] if columns is None else columns
    texts = [name for name in names if is_prose(table.columns[name])]
    rest = [name for name in names if name not in texts]
    numbers: Encoded | None = None
    try:
        if rest or not texts:
            numbers = encoded(table, columns=None if columns is None else rest, drop=[*drop, *texts])
    except ValueError:
        texts = texts or [name for name in rest if is_wordy(table.columns[name], words=words)]
        if columns is not None or not texts:
            raise
    encoders = [] if numbers is None else [numbers.encode]
    notes = [] if numbers is None else numbers.note.splitlines()
    for name in texts:
        encoder, note = fit_texts(*(_filled_texts(each, name) for each in learnt_from))
        encoders.append(partial(_encoded_texts, name, encoder))
        notes.append(f"{name}: {note}")
    used = {*texts, *(feature.column for feature in (numbers.features if numbers else ()))}
    return TableEncoding(
        lambda other: np.concatenate([each(other) for each in encoders], axis=1),
        tuple(name for name in table.columns if name in used),
        tuple(texts),
        notes,
    )


def _filled_texts(table: Table, name: str) -> list[str]:
    return [text or "" for text in as_texts(table, name)]


def _encoded_texts(name: str, encoder: Encoder, table: Table) -> np.ndarray:
    return np.asarray(encoder(_filled_texts(table, name)), np.float32)


def fit_texts(*parts: Sequence[str]) -> tuple[Encoder, str]:
    """(a function that makes numbers of texts, how it does so in words), learnt from these texts.

    Words and pairs of words by TF-IDF, in 50 numbers by SVD; groups of letters where there are no words. Of each part
    (a pool, targets) 100,000 texts at most are learnt from.

    >>> encode, note = fit_texts(["red apple", "green apple", "red car", "green car"])
    >>> encode(["red apple", "blue car"]).shape, note
    ((2, 3), '8 words and pairs of words by TF-IDF, in 3 numbers by SVD')
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.utils.extmath import randomized_svd

    texts = [text for part in parts for text in _some(part)]
    there = sum(map(len, parts))
    of = f", learnt from {len(texts):,} of {there:,} texts" if len(texts) < there else ""
    pairs = there <= PAIRS
    common: dict[str, Any] = {"sublinear_tf": True, "max_features": WORDS, "min_df": 2 if len(texts) >= 100 else 1}
    words = TfidfVectorizer(ngram_range=(1, 2 if pairs else 1), strip_accents="unicode", **common)
    what = "words and pairs of words" if pairs else "words"
    try:
        counts = words.fit_transform(texts)
    except ValueError:  # no words at all, or none twice: scripts without blanks, numbers, single letters
        what = "groups of one to three letters"
        words = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), **(common | {"min_df": 1}))
        counts = words.fit_transform(texts)
    d = min(DIRECTIONS, *(size - 1 for size in counts.shape))
    if d < 1:
        return lambda others: words.transform(others).toarray(), f"{counts.shape[1]:,} {what} by TF-IDF{of}"
    with one_thread_each():
        _, _, directions = randomized_svd(counts, d, n_iter=7, random_state=0)

    def encode(others: Sequence[str]) -> np.ndarray:
        numbers = np.empty((len(others), d))
        for span in spans(len(others), LEARNT):
            x = words.transform(others[span]) @ directions.T
            length = np.linalg.norm(x, axis=1, keepdims=True)  # what is left of a length says how usual the words are
            numbers[span] = x / np.where(length > 0, length, 1)
        return numbers

    return encode, f"{counts.shape[1]:,} {what} by TF-IDF, in {d} numbers by SVD{of}"


def _some(texts: Sequence[str]) -> Sequence[str]:
    """As many as are learnt from, always the same ones; drawn, since every tenth text may be of one kind."""
    if len(texts) <= LEARNT:
        return texts
    rows = rng_for(0, 0, "texts to learn from").choice(len(texts), LEARNT, replace=False)
    return [texts[row] for row in np.sort(rows).tolist()]


def in_one_unit(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function that puts rows around zero, their length √d in the mean of squares, as it would these `x [n, d]`.

    >>> in_one_unit(np.array([[1.0, 0.0], [3.0, 0.0]]))(np.array([[4.0, 0.0]])).tolist()
    [[2.828..., 0.0]]
    """
    centre = x.mean(axis=0, dtype=np.float64)
    squares = [float(np.square(x[span] - centre).sum()) for span in spans(len(x), LEARNT)]
    unit = float(np.sqrt(sum(squares) / x.size)) or 1.0

    def in_unit(rows: np.ndarray) -> np.ndarray:
        scaled = np.empty(rows.shape, np.float32)
        for span in spans(len(rows), LEARNT):
            scaled[span] = (rows[span] - centre) / unit
        return scaled

    return in_unit
