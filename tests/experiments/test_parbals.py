from types import SimpleNamespace

import numpy as np
import pytest

import askwell
from askwell.seeds import rng_for
from askwell.selection import Candidates, joint_exact
from experiments.loop import Uniform
from experiments.parbals import PartialLabels, weighted_epig


def beliefs(n, k=40, c=3, *, seed=0, sharp=1.0):
    rng = rng_for(seed, 0, "beliefs")
    return rng.dirichlet(np.full(c, 1 / sharp), size=(n, k))


def learner(probs):
    """Whose posterior believes this of the inputs 0, 1, 2, ..."""
    return SimpleNamespace(posterior=SimpleNamespace(predict=lambda x: probs[np.asarray(x, int)[:, 0]]))


def test_weights_are_shares_of_draws():
    """A draw of twice the weight is a draw that is there twice."""
    probs, targets = beliefs(6, 5), beliefs(4, 5, seed=1)
    weights = np.array([2, 1, 0, 1, 1]) / 5
    twice = [0, 0, 1, 3, 4]
    np.testing.assert_allclose(
        weighted_epig(probs, targets, weights), askwell.epig(probs[:, twice], targets[:, twice]), atol=1e-12
    )


def test_it_approaches_the_greedy_choice_by_joint_information():
    """Of copies of one informative item only one is taken, and with many fantasies the batch is the exact one."""
    probs, targets = beliefs(12, sharp=5), beliefs(10, seed=1, sharp=5)
    probs[1] = probs[0]
    everything = np.concatenate([probs, targets])
    items, about = np.arange(12)[:, None], Uniform(np.arange(12, 22)[:, None], 10)
    found = PartialLabels(about, fantasies=4000)(learner(everything), items, 3, rng_for(0, 0, "own"))
    scores = np.asarray(askwell.epig(probs, targets))
    exact = joint_exact(Candidates(scores, probs, targets), 3, rng=rng_for(0, 0, "batch"))
    assert found.tolist() == exact.tolist()


@pytest.mark.parametrize("size", [1, 4])
def test_few_fantasies_give_different_items_the_best_first(size):
    everything = np.concatenate([beliefs(30), beliefs(10, seed=1)]).astype(np.float32)
    own = PartialLabels(Uniform(np.arange(30, 40)[:, None], 10), shortlist=5)
    found = own(learner(everything), np.arange(30)[:, None], size, rng_for(0, 0, "own"))
    assert len({*found}) == size
    assert found[0] == np.argmax(askwell.epig(everything[:30], everything[30:]))
