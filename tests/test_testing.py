"""check_model must fail where a model breaks the contract, and say how."""

import dataclasses
import threading
from dataclasses import dataclass, field

import numpy as np
import pytest

from askwell.models.gp import GPClassifier
from askwell.seeds import rng_for
from askwell.testing import check_model


@dataclass(frozen=True)
class Linear:
    """A posterior of weight draws, and ways to spoil it."""

    classes: tuple
    weights: np.ndarray
    fault: str = ""
    rng: np.random.Generator = field(default_factory=lambda: rng_for(0, 0, "noise"))

    def predict(self, x):
        x = np.asarray(x, float)
        logits = np.einsum("nf,kfc->nkc", x, self.weights)
        if self.fault == "dropout per row":
            logits = logits * self.rng.integers(0, 2, (len(x), 1, 1)) * 2
        if self.fault == "new draws per call":
            logits = logits + self.rng.normal(size=(1, *logits.shape[1:]))
        if self.fault == "batch normalised":
            logits = logits - logits.mean(axis=0)
        probs = np.exp(logits)
        probs /= probs.sum(-1, keepdims=True) * (2 if self.fault == "half" else 1)
        return probs[:, :1] if self.fault == "one draw" else probs


@dataclass(frozen=True)
class Model:
    fault: str = ""

    def fit(self, x, y, *, rng, classes=None):
        generator = np.random.Generator(np.random.PCG64()) if self.fault == "another seed" else rng
        known = tuple(np.unique(y).tolist()) if self.fault == "unseen left out" else tuple(classes)
        return Linear(known, generator.normal(size=(5, np.shape(x)[1], len(known))), self.fault)


def test_a_sound_model_passes():
    check_model(Model())


def test_own_examples():
    check_model(Model(), x=[[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], y=[0, 1, 1], processes=False)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("dropout per row", "draw k must be the same parameters in every call"),
        ("new draws per call", "a second call gives other numbers"),
        ("batch normalised", "two halves, predicted apart"),
        ("half", "sums to 0.5"),
        ("one draw", "at least two draws"),
        ("another seed", "same rng"),
        ("unseen left out", "Classes without an example need a column too"),
    ],
)
def test_a_faulty_model_fails(fault, words):
    with pytest.raises(AssertionError, match=f"(?s){words}"):
        check_model(Model(fault), processes=False)


@dataclass(frozen=True)
class TwoClasses:
    """A model for two classes only, that may or may not do without an example of one of them."""

    fault: str = ""

    def fit(self, x, y, *, rng, classes):
        if len(classes) != 2:
            raise ValueError(f"two classes, not {len(classes)}")
        if self.fault == "both wanted" and len(set(y)) < 2:
            raise ValueError("an example of each")
        known = tuple(np.unique(y).tolist()) if self.fault == "unseen left out" else tuple(classes)
        return Linear(known, rng.normal(size=(5, np.shape(x)[1], len(known))), self.fault)


def test_a_model_for_two_classes_passes():
    x, y = rng_for(0, 0, "x").normal(size=(20, 3)), np.arange(20) % 2
    check_model(TwoClasses(), x=x, y=y, processes=False)
    check_model(GPClassifier(draws=20, frequencies=64), x=x, y=y, processes=False)
    check_model(GPClassifier(draws=20, frequencies=64), processes=False)  # finds out for itself


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("both wanted", "refuses them: two classes, not 3.*without an example of the last: an example of each"),
        ("unseen left out", "Classes without an example need a column too"),
        ("new draws per call", "a second call gives other numbers"),
    ],
)
def test_a_faulty_model_for_two_classes_fails(fault, words):
    x, y = rng_for(0, 0, "x").normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(AssertionError, match=f"(?s){words}"):
        check_model(TwoClasses(fault), x=x, y=y, processes=False)


def test_one_class_and_no_room_for_another():
    class One:
        def fit(self, x, y, *, rng, classes):
            if len(classes) > 1:
                raise ValueError("one class only")
            return Model().fit(x, y, rng=rng, classes=classes)

    with pytest.raises(AssertionError, match="refuses them: one class only"):
        check_model(One(), x=[[0.0], [1.0]], y=["a", "a"], processes=False)


def test_examples_that_are_refused_are_the_callers_to_see():
    with pytest.raises(ValueError, match="x must be finite"):
        check_model(GPClassifier(), x=[[np.nan], [1.0]], y=[0, 1], processes=False)


def test_inputs_may_be_a_dict_of_arrays():
    class ByName:
        def fit(self, x, y, *, rng, classes):
            return Named(Model().fit(x["values"], y, rng=rng, classes=classes))

    @dataclass(frozen=True)
    class Named:
        inner: Linear

        @property
        def classes(self):
            return self.inner.classes

        def predict(self, x):
            return self.inner.predict(x["values"])

    x = rng_for(0, 0, "x").normal(size=(8, 3))
    check_model(ByName(), x={"values": x}, y=np.arange(8) % 2, processes=False)


def test_what_cannot_be_sent_fails():
    class Locked:
        def fit(self, x, y, *, rng, classes=None):
            return dataclasses.replace(Model().fit(x, y, rng=rng, classes=classes), rng=threading.Lock())

    with pytest.raises(AssertionError, match=r"sent to another process.*not handles or locks"):
        check_model(Locked())
