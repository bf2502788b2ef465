"""The seam: labels to columns, and models that know only what they have seen."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch

from askwell.models.protocol import Model, Posterior, check_rng, class_codes, fit_model, predicted, spread
from askwell.seeds import rng_for


@dataclass(frozen=True)
class Shares:
    """A posterior of two draws: the shares of the labels, with and without one more of each."""

    classes: tuple
    draws: np.ndarray

    def predict(self, x):
        return np.broadcast_to(self.draws, (len(x), *self.draws.shape)).copy()


class Counting:
    """The least a model can be."""

    def fit(self, x, y, *, rng):
        labels, counts = np.unique(y, return_counts=True)
        draws = np.stack([counts / counts.sum(), (counts + 1) / (counts + 1).sum()])
        return Shares(tuple(labels.tolist()), draws)


def test_the_least_is_enough():
    assert isinstance(Counting(), Model)
    posterior = fit_model(Counting(), [0, 0, 0], ["b", "a", "b"], rng=rng_for(0, 0, "fit"))
    assert isinstance(posterior, Posterior)
    assert posterior.classes == ("a", "b")


def test_classes_without_an_example_get_a_column_all_the_same():
    posterior = fit_model(Counting(), [0, 0], ["c", "a"], rng=rng_for(0, 0, "fit"), classes=["c", "b", "a"])
    assert list(posterior.classes) == ["c", "b", "a"]
    np.testing.assert_allclose(posterior.predict([1]), [[[0.5, 0, 0.5], [0.5, 0, 0.5]]])


def test_codes():
    codes, classes = class_codes([3, 1, 3], None)
    assert classes == (1, 3)
    np.testing.assert_array_equal(codes, [1, 0, 1])
    with pytest.raises(ValueError, match="'x' is none of them"):
        class_codes(["x"], ["a"])


@pytest.mark.parametrize(
    ("y", "classes", "words"),
    [
        ([["a"], ["b"]], None, r"one per example.*y.ravel\(\)"),
        (np.eye(3), None, r"y.argmax\(1\) if it is one-hot"),
        ("ab", None, r"its shape is \(\)"),
        ([], None, "Label a few examples"),
        ([1.0, np.nan], None, r"y\[1\] is nan"),
        (np.array(["a", None], object), None, r"y\[1\] is None. Leave unlabelled"),
        (np.array(["a", 1], object), None, r"it holds int, str.*pass classes="),
        (["a", "b"], ["a", "b", "a"], "name each class once"),
        ([0.5, 1.5], None, "one is 0.5, a fraction. To predict numbers"),
        (np.array([0.25, 1.0], np.float32), None, "0.25, a fraction"),
        ([1.0, 2.0], [1.0, 2.5], "2.5, a fraction"),
        ([True, 2], None, "2 is a number and True is a truth value"),
        ([1, 0], [True, False], "1 is a number and True is a truth value"),
        ([True, False], [1, 0], "1 is a number and True is a truth value"),
        (["a", pd.NA], None, r"y\[1\] is <NA>. Leave unlabelled"),
    ],
)
def test_labels_that_will_not_do(y, classes, words):
    with pytest.raises(ValueError, match=words):
        class_codes(y, classes)


def test_whole_floats_are_classes():
    codes, classes = class_codes([2.0, 1.0, 2.0], None)
    assert (codes.tolist(), classes) == ([1, 0, 1], (1.0, 2.0))


def test_a_tensor_is_taken_off_its_graph():
    class Graph:
        classes = ("a", "b")

        def predict(self, x):
            return torch.full((len(x), 3, 2), 0.5, requires_grad=True) * 1.0

    found = predicted(Graph(), [[0.0]])
    assert isinstance(found, np.ndarray)
    assert found.shape == (1, 3, 2)


def test_labels_of_several_kinds_need_their_classes_named():
    codes, classes = class_codes(np.array(["a", 1, "a"], object), ["a", 1])
    assert classes == ("a", 1)
    np.testing.assert_array_equal(codes, [0, 1, 0])


@pytest.mark.parametrize("rng", [0, 3, None, "fit"])
def test_seeds_are_no_generators(rng):
    with pytest.raises(ValueError, match=r"rng must be a NumPy Generator.*rng_for\("):
        check_rng(rng)
    check_rng(rng_for(0, 0, "fit"))


def test_spread_copies_only_what_it_must():
    probs = np.ones((2, 3, 2))
    assert spread(probs, [0, 1], 2) is probs
    assert spread(probs, [2, 0], 3)[0, 0].tolist() == [1, 0, 1]
