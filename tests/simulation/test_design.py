"""What can be simulated and what is refused; what a run begins with."""

from collections import Counter
from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import askwell
from askwell.seeds import rng_for
from askwell.simulation.design import design

X = rng_for(0, 0, "plan").normal(size=(30, 2))
Y = ["a"] * 20 + ["b"] * 9 + ["c"]
FOREST = RandomForestClassifier(5)


def posed(**options):
    given = {
        **{"model": FOREST, "x": X, "y": Y, "test": (X[::3], Y[::3]), "targets": None, "scores": ("random", "epig")},
        **{"initial": 2, "budget": 12, "seeds": [0, 1], "size": 1, "classes": None, "batch": None, "ids": None},
        **options,
    }
    return design(given.pop("model"), given.pop("x"), given.pop("y"), **given)


# ---- labels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "known"),
    [
        (Y, ["a", "b", "c"]),
        (np.array(Y), ["a", "b", "c"]),
        (np.array(Y, object), ["a", "b", "c"]),
        ([ord(label) for label in Y], [97, 98, 99]),
        (np.array([ord(label) for label in Y], np.int8), [97, 98, 99]),
        ([label == "a" for label in Y], [False, True]),
        (np.array([label == "a" for label in Y]), [False, True]),
        (np.array([float(ord(label)) for label in Y]), [97.0, 98.0, 99.0]),
    ],
)
def test_labels_of_any_kind_become_plain_values(labels, known):
    plan = posed(y=labels, test=(X, labels))
    assert plan.classes == known
    assert [type(label) for label in plan.classes] == [type(label) for label in known]
    assert [plan.classes[code] for code in plan.test[1]] == list(plan.labels) == list(labels)


def test_classes_may_be_more_than_occur_and_in_any_order():
    plan = posed(classes=["c", "z", "a", "b"], test=(X[:2], ["z", "a"]))
    assert plan.classes == ["c", "z", "a", "b"]
    assert plan.test[1].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"y": Y[:-1]}, "x and y must be of the same length, but they have 30 and 29"),
        ({"y": [*Y[:-1], None]}, r"y\[29\] is None. Leave inputs without a label out"),
        ({"y": [1.0] * 29 + [np.nan]}, r"y\[29\] is nan"),
        ({"y": [*Y[:-1], 3]}, r"labels of one kind, but y\[29\] is 3 and y\[0\] is 'a'"),
        ({"y": [0, 1] * 14 + [True, False]}, r"of one kind, but y\[28\] is True"),
        ({"y": "aabb"}, "y must be a list of labels"),
        ({"y": np.zeros((30, 2))}, r"y\[0\] is \[0.0, 0.0\]"),
        ({"y": ["a"] * 30}, r"two or more classes, but there is only \['a'\]"),
        ({"classes": ["a", "b"]}, "y must hold labels of the classes .*but 'c'"),
        ({"y": [True, False] * 15, "classes": [0, 1]}, "but True is none of them"),
        ({"test": (X, ["a"] * 29 + ["d"])}, "test must hold labels of the pool's classes .*'d' is none of them"),
        ({"test": (X, Y[:-1])}, "as many inputs as labels, but there are 30 and 29"),
        ({"test": (X[:0], [])}, "there are 0 and 0"),
        ({"test": X}, r"test must be a pair of inputs and labels"),
        ({"test": (X, [None] * 30)}, r"test\[1\]\[0\] is None"),
        ({"x": "pool.csv"}, "x must be an array, a data frame or a list"),
        ({"x": iter(X)}, "x must be an array, a data frame or a list"),
        ({"ids": ["same"] * 30}, "ids must all be different"),
        ({"ids": [1, 2]}, "one id per input"),
        ({"model": "forest"}, "estimator must be"),
        ({"scores": ["eppig"]}, "Did you mean 'epig'"),
        ({"scores": []}, "at least one score"),
        ({"scores": ["epig", "epig"]}, "different names"),
        ({"seeds": 5}, r"seeds must be a list of whole numbers, but it is 5. Try range\(5\)"),
        ({"seeds": []}, "at least one"),
        ({"seeds": [0, 0]}, "different whole numbers"),
        ({"seeds": [-1]}, "whole number from 0"),
        ({"size": 0}, "size must be a whole number from 1"),
        ({"budget": 2.5}, "budget must be a whole number"),
        ({"budget": 4}, r"cover the initial labels, 5 \(2 of each of 3 classes\), but it is 4"),
        ({"initial": -1}, "initial must be a whole number from 0"),
        ({"initial": True}, "initial must be a whole number"),
        ({"initial": {"a": 1, "z": 1}}, "initial must name classes of .*'z'"),
        ({"initial": {"c": 2}}, "no more than there are, but 2 of the 1 'c'"),
        ({"initial": lambda rng: [1, 1]}, "different whole numbers"),
        ({"initial": lambda rng: [30]}, "positions from 0 to 29, but one is 30"),
        ({"batch": "topp"}, "topp"),
        ({"targets": "nobody"}, "targets"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(ValueError, match=words):
        posed(**options)


# ---- the start -----------------------------------------------------------------------------------------------------


def test_a_start_has_so_many_of_each_class_and_differs_by_seed():
    starts = posed(seeds=range(5)).starts
    for start in starts.values():
        assert Counter(Y[place] for place in start) == {"a": 2, "b": 2, "c": 1}  # there is only one c
    assert len({tuple(start) for start in starts.values()}) == 5


def test_a_start_by_class_and_by_function():
    assert Counter(Y[place] for place in posed(initial={"a": 3}).starts[0]) == {"a": 3}
    starts = posed(initial=lambda rng: rng.choice(30, 4, replace=False)).starts
    assert starts[1] == rng_for(1, 0, "initial").choice(30, 4, replace=False).tolist()


@pytest.mark.parametrize(
    ("options", "steps", "limit"),
    [
        ({}, 8, 12),  # 5 labels, then 7 of 1
        ({"size": 3}, 4, 12),  # 3, 3, 1
        ({"budget": 99}, 26, 30),
        ({"budget": 5}, 1, 5),
        ({"initial": 0}, 12, 12),
    ],
)
def test_how_long_a_run_is(options, steps, limit):
    plan = posed(**options)
    assert (plan.steps((next(iter(plan.scores)), 0)), plan.limit) == (steps, limit)


# ---- settings ------------------------------------------------------------------------------------------------------


def test_settings_say_what_decides_a_run():
    settings = posed(ids=[f"row {i}" for i in range(30)]).settings
    assert settings["model"] == "RandomForestClassifier(n_estimators=5)"
    assert (settings["n"], settings["test"], settings["classes"]) == (30, 10, ["a", "b", "c"])
    assert settings["versions"]["askwell"] == askwell.__version__
    assert (settings["initial"], settings["batch"]) == (2, None)


def first_column(probs, target_probs, *, weights, rng):
    return probs[:, 0, 0]


def test_functions_are_called_by_their_names():
    settings = posed(scores=["random", first_column], initial=lambda rng: [0, 25]).settings
    assert settings["scores"] == ["random", "first_column"]
    assert settings["initial"] == "<lambda>"
    assert list(posed(scores={"mine": first_column, "other": "bald"}).scores) == ["mine", "other"]
    assert list(posed(scores="epig").scores) == ["epig"]


def test_a_model_may_depend_on_the_seed():
    plan = posed(model=lambda seed: RandomForestClassifier(seed + 1))
    assert [make(3).n_estimators for make in plan.models.values()] == [4] * len(plan.scores)
    assert posed(model=partial(RandomForestClassifier)).models["epig"](7).n_estimators == 7
    assert posed().models["epig"](3) is FOREST


class Aimless:
    """A model without a text of its own."""

    def fit(self, x, y, *, rng):
        raise NotImplementedError


def test_names_do_not_depend_on_the_place_in_memory():
    assert posed(model=Aimless()).settings == posed(model=Aimless()).settings


@pytest.mark.parametrize(
    "options",
    [
        {"x": X + 1e-12},
        {"y": [*Y[1:], "a"]},
        {"test": (X[1::3], Y[::3])},
        {"targets": X[:5]},
    ],
)
def test_other_data_have_another_fingerprint(options):
    assert posed().settings["data"] == posed().settings["data"]
    assert posed(**options).settings["data"] != posed().settings["data"]


def test_inputs_need_not_be_arrays():
    """Lists of texts, or rows of different lengths."""
    texts = [f"text {i}" for i in range(30)]
    plan = posed(x=texts, test=(texts, Y), model=Aimless())
    assert plan.pool.take([3]) == ["text 3"]
    ragged = [list(range(i)) for i in range(30)]
    found = {posed(x=x, test=(texts, Y), model=Aimless()).settings["data"] for x in (ragged, ragged[::-1])}
    assert len(found) == 2
