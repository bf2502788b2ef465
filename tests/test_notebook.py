"""What notebooks show is short, escaped and says what to do next."""

import dataclasses
import xml.etree.ElementTree as ElementTree

import numpy as np

from askwell import notebook


@dataclasses.dataclass
class Fit:
    classes: tuple
    draws: int
    weights: np.ndarray
    names: tuple

    __repr__ = notebook.brief


def test_arrays_and_long_values_are_left_out():
    fit = Fit(("a", "b"), 50, np.zeros((1000, 3)), tuple(f"column {n}" for n in range(100)))
    assert repr(fit) == "Fit(classes=('a', 'b'), draws=50, ...)"


def test_nothing_is_left_out_of_what_is_short():
    assert repr(Fit((), 2, None, ("x",))) == "Fit(classes=(), draws=2, weights=None, names=('x',))"


def test_text_is_escaped_everywhere():
    evil = "<script>alert('1')</script>"
    drawn = notebook.curves({evil: ([1, 2], [0.5, 0.5])}, x=evil, y=evil)
    for made in (notebook.paragraph(evil), notebook.table([evil], [[evil]]), drawn):
        assert "<script" not in made
        ElementTree.fromstring(f"<div>{made}</div>")  # well formed


def test_curves_go_from_corner_to_corner():
    made = notebook.curves({"a": ([2, 4], [0.5, 1.0]), "b": ([2, 4], [1.0, 0.5])}, x="labels", y="accuracy")
    assert 'points="0.0,140.0 360.0,0.0"' in made
    assert 'points="0.0,0.0 360.0,140.0"' in made
    assert "accuracy from 0.5 to 1, 2 to 4 labels" in made
