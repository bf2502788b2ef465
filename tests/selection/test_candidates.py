"""What a batch is given: shapes agree, and what is missing or not a number is named."""

import numpy as np
import pytest
from posteriors import pool_and_targets

from askwell.selection.candidates import Candidates, beliefs, features, finite_scores


def test_lists_become_arrays_and_rows_must_agree():
    assert Candidates([1, 2, 3]).scores.dtype == np.float64
    assert len(Candidates([1, 2, 3])) == 3
    with pytest.raises(ValueError, match=r"scores must be one number per candidate, \[n\], but the shape is \(1, 2\)"):
        Candidates([[1, 2]])
    with pytest.raises(ValueError, match="probs must have a row for each of the 2 candidates, but it has 3"):
        Candidates([1, 2], np.ones((3, 1, 1)))


@pytest.mark.parametrize(("bad", "words"), [(np.nan, "nan"), (-np.inf, "-inf"), (np.inf, "inf")])
def test_scores_that_are_no_numbers(bad, words):
    with pytest.raises(ValueError, match=rf"scores\[1\] is {words}\. Leave out candidates"):
        finite_scores(Candidates([0.0, bad]))
    with pytest.raises(ValueError, match=rf"scores\[0\] is {words}, and 1 more are not"):
        finite_scores(Candidates([bad, bad]))


def test_beliefs_sum_to_one_to_the_last_bits():
    probs, targets = pool_and_targets("soft", 5, 4, 6, 7, dtype="float32")
    given = Candidates(np.zeros(5), probs, targets)
    for of in ("probs", "target_probs"):
        wide = beliefs(given, "joint", of=of)
        assert wide.dtype == np.float64
        np.testing.assert_allclose(wide.sum(axis=2), 1, rtol=1e-15)
        np.testing.assert_allclose(wide, getattr(given, of), rtol=1e-6)


def test_beliefs_that_are_missing_or_do_not_fit():
    probs, targets = pool_and_targets("soft", 5, 4, 6, 3)
    with pytest.raises(ValueError, match="pending must be given for the batch 'joint'"):
        beliefs(Candidates(np.zeros(5), probs), "joint", of="pending")
    with pytest.raises(ValueError, match="probs and target_probs must have the same number of draws"):
        beliefs(Candidates(np.zeros(5), probs, targets[:, :2]), "joint", of="target_probs")
    with pytest.raises(ValueError, match=r"^probs must hold probabilities"):
        beliefs(Candidates(np.zeros(5), 2 * probs), "joint", of="probs")


def test_features():
    x, labelled = features(Candidates([0, 0], x=[[1, 2], [3, 4]], labelled=[[5, 6]]), "kcentre")
    assert x.tolist() == [[1, 2], [3, 4]]
    assert labelled.tolist() == [[5, 6]]
    for nothing in (None, np.empty((0, 2)), []):
        assert features(Candidates([0, 0], x=[[1, 2], [3, 4]], labelled=nothing), "kcentre")[1].shape == (0, 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "x must be given for the batch 'kcentre'"),
        ({"x": [["a"], ["b"]]}, "x must be numbers .* a list that does not turn into them"),
        ({"x": [1.0, 2.0]}, r"x must be numbers \[n, d\], but its shape is \(2,\)"),
        ({"x": [[1.0, 2.0], [np.nan, 1.0]]}, r"x must be finite, but x\[1, 0\] is nan"),
        ({"x": [[1.0], [2.0]], "labelled": [[1.0, 2.0]]}, "labelled must have the 1 features of x, but it has 2"),
        ({"x": [[1.0], [2.0]], "labelled": [[np.inf]]}, r"labelled must be finite, but labelled\[0, 0\] is inf"),
    ],
)
def test_features_that_will_not_do(given, words):
    with pytest.raises(ValueError, match=words):
        features(Candidates([0, 0], **given), "kcentre")
