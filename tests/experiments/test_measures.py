import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from askwell.seeds import rng_for
from experiments.measures import MEASURES, auc, measures, with_prior


def predictions(c, n=300, seed=0):
    rng = rng_for(seed, c, "predictions")
    codes = rng.integers(c, size=n)
    logits = rng.normal(size=(n, c)) + 1.5 * np.eye(c)[codes]
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), codes


@pytest.mark.parametrize("c", [2, 3, 6])
def test_auc_is_scikit_learns(c):
    probs, codes = predictions(c)
    wanted = roc_auc_score(codes, probs[:, 1]) if c == 2 else roc_auc_score(codes, probs, multi_class="ovr")
    assert auc(probs, codes) == pytest.approx(wanted)


def test_auc_of_ties_and_of_one_class():
    probs, codes = predictions(2)
    assert auc(probs.round(1), codes) == pytest.approx(roc_auc_score(codes, probs[:, 1].round(1)))
    assert np.isnan(auc(probs[:3], np.zeros(3, int)))


def test_auc_of_classes_that_are_not_tested():
    """Redundant MNIST: three classes, of which the test set has two."""
    probs, codes = predictions(3)
    kept = codes < 2
    wanted = np.mean([roc_auc_score(codes[kept] == code, probs[kept, code]) for code in (0, 1)])
    assert auc(probs[kept], codes[kept]) == pytest.approx(wanted)


@pytest.mark.parametrize("prior", [(0.25, 0.75), (0.5, 0.5), (0.98, 0.02)])
def test_the_mean_prediction_becomes_the_prior(prior):
    probs, _ = predictions(2)
    found = with_prior(probs, prior)
    np.testing.assert_allclose(found.mean(axis=0), prior, atol=1e-5)
    odds = found[:, 1] / found[:, 0] / (probs[:, 1] / probs[:, 0])
    np.testing.assert_allclose(odds, odds[0], rtol=1e-6)  # one weight per class: the order stays


def test_a_class_that_does_not_occur_is_not_predicted():
    probs, _ = predictions(3)
    found = with_prior(probs, (0.5, 0.5, 0.0))
    np.testing.assert_allclose(found.mean(axis=0), (0.5, 0.5, 0), atol=1e-5)
    assert (found[:, 2] < 1e-9).all()


def test_a_known_prior_rights_a_model_that_leans():
    """Right predictions for even classes, bent towards the first: the prior bends them back, and accuracy with them."""
    probs, codes = predictions(2, n=4000)
    bent = probs * (1, 0.05)
    bent /= bent.sum(axis=1, keepdims=True)
    straight, leaning = measures(probs, codes, (0.5, 0.5)), measures(bent, codes, (0.5, 0.5))
    assert set(leaning) == set(MEASURES)
    assert leaning["accuracy"] < straight["accuracy"] - 0.1
    assert leaning["prior_accuracy"] == pytest.approx(straight["prior_accuracy"], abs=1e-9)
    assert leaning["auc"] == pytest.approx(straight["auc"])


def test_certain_predictions_are_taken():
    found = with_prior(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), (0.5, 0.5))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
