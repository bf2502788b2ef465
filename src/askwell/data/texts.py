"""From texts to numbers: TF-IDF of words, cut to a few directions. Learnt from texts alone, never from labels.

A million texts are learnt from by a sample, and encoded some at a time: what it takes is their numbers and little more.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from askwell.arrays import one_thread_each, spans
from askwell.data.table import Values
from askwell.seeds import rng_for

__all__ = ["LEARNT", "Encoder", "fit_texts", "in_one_unit", "is_prose", "is_wordy"]

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
        found = np.empty((len(others), d))
        for span in spans(len(others), LEARNT):
            x = words.transform(others[span]) @ directions.T
            length = np.linalg.norm(x, axis=1, keepdims=True)  # what is left of a length says how usual the words are
            found[span] = x / np.where(length > 0, length, 1)
        return found

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
        found = np.empty(rows.shape, np.float32)
        for span in spans(len(rows), LEARNT):
            found[span] = (rows[span] - centre) / unit
        return found

    return in_unit
