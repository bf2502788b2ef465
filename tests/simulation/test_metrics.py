"""Metrics by name against scikit-learn's, functions of one's own, and which way is better."""

import numpy as np
import pytest
from sklearn import metrics as sk

from askwell.seeds import rng_for
from askwell.simulation.metrics import CLASSES, NUMBERS, Prediction, chosen_metrics, lower_is_better, measured, metrics

RNG = rng_for(0, 0, "metrics")


@pytest.mark.parametrize("c", [2, 4])
def test_metrics_of_classes_are_scikit_learns(c):
    probs, codes = RNG.dirichlet(np.ones(c), 200).round(2) + 1e-3, RNG.integers(c, size=200)
    probs /= probs.sum(axis=1, keepdims=True)
    best = probs.argmax(axis=1)
    found = measured(dict(zip(CLASSES, CLASSES, strict=True)), codes, Prediction(probs))
    areas = [sk.roc_auc_score(codes == each, probs[:, each]) for each in range(c)]
    wanted = {
        "accuracy": sk.accuracy_score(codes, best),
        "balanced_accuracy": sk.balanced_accuracy_score(codes, best),
        "f1": sk.f1_score(codes, best, average="macro"),
        "auc": np.mean(areas),
        "log_loss": sk.log_loss(codes, probs, labels=range(c)),
        "brier": ((probs - np.eye(c)[codes]) ** 2).sum(axis=1).mean(),
    }
    assert found == pytest.approx(wanted)


def test_metrics_of_numbers():
    y, mean, variance = RNG.normal(size=50), RNG.normal(size=50), RNG.gamma(2.0, size=50)
    found = measured(dict(zip(NUMBERS, NUMBERS, strict=True)), y, Prediction(mean=mean, variance=variance))
    density = np.exp(-((y - mean) ** 2) / 2 / variance) / np.sqrt(2 * np.pi * variance)
    wanted = {
        "rmse": sk.root_mean_squared_error(y, mean),
        "mae": sk.mean_absolute_error(y, mean),
        "nll": -np.log(density).mean(),
        "r2": sk.r2_score(y, mean),
    }
    assert found == pytest.approx(wanted)


def test_functions_get_labels_and_probabilities_if_they_take_them():
    def share(labels, predicted, *, probs):
        assert probs.shape == (3, 2)
        return np.mean((labels == predicted) & (probs.max(axis=1) > 0.6))

    probs = np.array([[0.9, 0.1], [0.45, 0.55], [0.2, 0.8]])
    found = measured(
        {"sure": share, "f1": lambda y, p: sk.f1_score(y, p, pos_label="no")},
        np.array([0, 1, 0]),
        Prediction(probs),
        classes=["no", "yes"],
    )
    assert found == pytest.approx({"sure": 1 / 3, "f1": 2 / 3})


@pytest.mark.parametrize("name", [*CLASSES, *NUMBERS])
def test_a_better_prediction_has_the_better_value(name):
    """The sign of each metric, seen: what is nearly right against what is wrong."""
    y = np.array([0.0, 1.0, 0.0, 1.0])
    if name in CLASSES:
        good, bad = ({name: name}, y.astype(int)), ({name: name}, 1 - y.astype(int))
        prediction = Prediction(np.stack([1 - 0.8 * y - 0.1, 0.8 * y + 0.1], axis=1))
    else:
        good, bad = ({name: name}, y), ({name: name}, 5 - y)
        prediction = Prediction(mean=y + 0.1, variance=np.ones(4))
    a, b = (measured(*given, prediction)[name] for given in (good, bad))
    assert (a < b) == lower_is_better(name)


def test_names_that_end_as_scikit_learns_losses_do():
    assert lower_is_better("mean_squared_error")
    assert lower_is_better("hinge_loss")
    assert not lower_is_better("f1")
    assert not lower_is_better("r2_score")


@pytest.mark.parametrize(
    ("given", "numbers", "words"),
    [
        (["acuracy"], False, "'acuracy'"),
        (["accuracy"], True, "where labels are numbers"),
        (["rmse"], False, "where labels are classes"),
        ([], False, "at least one"),
        ({"mine": 3}, False, "'mine' is 3"),
    ],
)
def test_what_is_no_metric_is_refused(given, numbers, words):
    with pytest.raises(ValueError, match=words):
        chosen_metrics(given, numbers=numbers)


def test_values_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="'mine' gave nan"):
        measured({"mine": lambda y, p: np.nan}, np.array([0]), Prediction(np.array([[1.0, 0.0]])), classes=[0, 1])
    with pytest.raises(ValueError, match="NaN or infinite"):
        metrics(np.array([[np.nan, 1.0]]), np.array([0]))
