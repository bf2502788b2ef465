"""Texts become numbers, and the same text the same ones."""

import numpy as np

from askwell.data import texts
from askwell.data.texts import fit_texts, in_one_unit, is_prose, is_wordy

PROSE = [f"message number {i} about something else" for i in range(30)]


def test_prose():
    assert is_prose(PROSE)
    assert not is_prose(PROSE[:20])
    assert not is_prose(["Ada Lovelace", "Alan Turing"] * 50)
    assert not is_prose([f"{first} {last}" for first in "abcdef" for last in "uvwxyz"])
    assert is_wordy([f"{first} {last}" for first in "abcdef" for last in "uvwxyz"], words=2)
    assert not is_prose(np.arange(50.0))


def test_other_texts_are_encoded_as_those_that_were_learnt_from():
    encode, note = fit_texts(PROSE)
    whole = encode(PROSE)
    assert whole.shape == (30, 29)
    assert "words and pairs of words by TF-IDF" in note
    np.testing.assert_allclose(encode(PROSE[3:5]), whole[3:5])
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1)
    assert encode(["nothing known here", ""])[1].tolist() == [0.0] * 29


def test_texts_without_words():
    encode, note = fit_texts(["你好世界", "你好", "世界"])
    assert "words" in note
    encode, note = fit_texts(["a", "b", "!"])
    assert "groups of one to three letters" in note
    assert encode(["a"]).shape[0] == 1


def test_one_unit_is_that_of_the_rows_it_was_learnt_from():
    x = np.array([[1.0, 5.0], [3.0, 5.0]])
    unit = in_one_unit(x)
    assert np.isclose(np.square(unit(x)).mean(), 1)
    assert np.isfinite(in_one_unit(np.ones((3, 2)))(np.ones((1, 2)))).all()


def test_many_texts_are_learnt_from_by_a_sample_of_each_part(monkeypatch):
    pool = [f"from{i % 7} a letter about{i % 5}" for i in range(400)]
    whole, _ = fit_texts(pool)
    monkeypatch.setattr(texts, "LEARNT", 60)
    encode, note = fit_texts(pool, ["only targets say zebra", "zebra again and again"])
    assert "learnt from 62 of 402 texts" in note
    assert np.linalg.norm(encode(["zebra"])) > 0
    found = encode(pool)  # some at a time
    np.testing.assert_allclose(found, np.concatenate([encode([text]) for text in pool]), atol=1e-12)
    assert found.shape[0] == whole(pool).shape[0] == 400
    likeness = found @ found.T
    expected = whole(pool) @ whole(pool).T
    assert np.corrcoef(likeness.ravel(), expected.ravel())[0, 1] > 0.95
    unit = in_one_unit(found)
    assert np.isclose(np.square(unit(found)).mean(), 1, rtol=1e-5)
