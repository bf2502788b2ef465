"""Styles: names as people write them, colours that can be told from the ground and from each other."""

import itertools

import numpy as np
import pytest

from askwell.report.styles import metric_name, score_name, scores_of, styles
from askwell.simulation.curves import Trace

MANY = ["random", "bald", "epig", "auto", "one", "two", "three", "four", "five"]


VISIONS = {  # what is left of linear red, green and blue without one kind of cone (Machado and others, 2009)
    "all cones": np.eye(3),
    "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no middle": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    """Linear red, green and blue of #rrggbb."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    """Relative luminance as the web's accessibility guidelines define it."""
    return linear(colour) @ XYZ[1]


def lab(colour, vision):
    """CIELAB, in which a distance of 2 can just be seen side by side."""
    share = XYZ @ np.clip(np.array(vision) @ linear(colour), 0, 1) / XYZ.sum(axis=1)
    f = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("tone", "grounds"), [("light", ("#ffffff", "#f6f7f9")), ("dark", ("#14171b", "#1c2026"))])
def test_colours_stand_out_from_the_ground(tone, grounds):
    for style in styles(MANY).values():
        assert min(contrast(getattr(style, tone), ground) for ground in grounds) >= 3.5, style.name


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("tone", ["light", "dark"])
def test_six_colours_can_be_told_apart_with_any_colour_vision(tone, vision):
    places = [lab(getattr(style, tone), VISIONS[vision]) for style in styles(MANY[:6]).values()]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(places, 2)) > 15


@pytest.mark.parametrize("field", ["light", "dark", "ansi", "mark", "dash"])
def test_no_two_scores_look_alike(field):
    looks = [getattr(style, field) for style in styles(MANY).values()]
    assert all(a != b for a, b in itertools.combinations(looks, 2))


def test_auto_and_epig_are_on_top_and_thickest_and_random_below():
    looks = styles(["epig", *MANY])
    assert list(looks) == ["epig", "random", "bald", "auto", "one", "two", "three", "four", "five"]
    assert sorted(looks, key=lambda score: looks[score].rank)[-2:] == ["epig", "auto"]
    assert {score for score in looks if looks[score].width == looks["auto"].width} == {"epig", "auto"}
    assert max(style.width for style in looks.values()) == looks["auto"].width
    assert min(looks, key=lambda score: looks[score].rank) == "random"


def test_a_known_score_has_its_colour_wherever_it_stands_and_colours_may_repeat():
    assert styles(["epig"])["epig"].light == styles(MANY)["epig"].light
    assert len(styles([str(i) for i in range(20)])) == 20


def test_names():
    assert [score_name(score) for score in ("epig", "bald", "epig_corrected", "random", "my score")] == [
        *("EPIG", "BALD", "corrected EPIG", "random", "my score")
    ]
    assert metric_name("balanced_accuracy") == "balanced accuracy"


def test_scores_are_listed_once():
    runs = [Trace(score, seed, (1,), {"accuracy": (0.5,)}, (0,)) for seed in (0, 1) for score in ("b", "a")]
    assert scores_of(runs) == ["b", "a"]
    with pytest.raises(ValueError, match="there are none"):
        scores_of([])
