"""The score of every item is that of arrays."""

import numpy as np
import pytest
from fixed_posterior import Fixed
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier

import askwell
from askwell.acquire import Strategy
from askwell.data.pool import as_pool
from askwell.models.linear import LinearModel
from askwell.project.rounds import plan_round
from askwell.scoring import Search, best_items, flat_warning, score_items
from askwell.seeds import rng_for
from askwell.targets import given


def test_scores_are_those_of_arrays(search):
    probs = search.posterior.probs
    np.testing.assert_array_equal(score_items(search, "epig"), askwell.epig(probs[:100], probs[100:]))
    np.testing.assert_array_equal(score_items(search, "bald"), askwell.bald(probs[:100]))


def test_a_users_own_score_sees_beliefs_targets_weights_and_a_generator(search):
    seen = []

    def own(probs, target_probs, *, weights, rng):
        seen.append((probs.shape, target_probs.shape, weights, rng.random()))
        return probs[:, 0, 0]

    np.testing.assert_array_equal(score_items(search, own), search.posterior.probs[:100, 0, 0])
    assert seen[0][:3] == ((100, 20, 3), (30, 20, 3), None)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (lambda probs, targets, *, weights, rng: probs[:, 0], "one number per candidate"),
        (lambda probs, targets, *, weights, rng: np.full(len(probs), np.nan), "NaN"),
        ("no such score", "no such score"),
    ],
)
def test_scores_that_are_none_are_refused(search, own, words):
    with pytest.raises(ValueError, match=words):
        score_items(search, own)


def test_epig_without_targets_is_refused():
    with pytest.raises(ValueError, match="targets must be given"):
        score_items(Search(Fixed(10), np.arange(10.0)[:, None]), "epig")
    assert score_items(Search(Fixed(10), np.arange(10.0)[:, None]), "bald").shape == (10,)


# ---- A ranking that says nothing is named as one ----


X = rng_for(0, 0, "flat").normal(size=(300, 3))
Y = (X[:, 0] > 0).astype(int)
CONSTANT = BaggingClassifier(HistGradientBoostingClassifier(max_iter=3), 5)  # 20 labels to a leaf


def told(model, *, seed=0, labels=15, **options):
    learner = askwell.Learner(model, X, targets=X[200:], seed=seed, **options)
    learner.tell(range(labels), Y[:labels])
    return learner


def test_a_flat_ranking_warns_once_and_is_not_asked_in_pool_order():
    learner = told(CONSTANT)
    with pytest.warns(UserWarning, match="most of the scores are equal.*min_samples_leaf=2") as heard:
        first = learner.ask(5)
    assert len(heard) == 1
    assert first != [15, 16, 17, 18, 19]
    learner.tell(first[:1], Y[first[:1]])
    assert len(learner.ask(6)) == 6  # warnings are errors here: it is not said again


@pytest.mark.filterwarnings("ignore:most of the scores are equal")
def test_the_seed_decides_and_nothing_else():
    asked = [told(CONSTANT, seed=seed).ask(3) for seed in (0, 0, 1)]
    assert asked[0] == asked[1] != asked[2]


def test_signal_of_draws_that_are_constants_is_no_signal():
    with pytest.warns(UserWarning, match="the EPIG scores are all the same"):
        assert told(CONSTANT).signal() == 1
    assert told(CONSTANT).signal(warn=False) == 1
    assert told(RandomForestClassifier(200), labels=60).signal(warn=False) > 1.05


def test_scores_that_differ_are_left_alone():
    for model in (RandomForestClassifier(50), LinearModel(draws=20)):
        assert len(told(model).ask(3)) == 3


def test_a_few_copies_at_the_head_do_not_make_a_ranking_flat():
    x = np.vstack([np.repeat(X[:1], 60, axis=0), X])
    learner = askwell.Learner(LinearModel(draws=20), x, score=lambda p, t, *, weights, rng: p[:, 0, 0])
    learner.tell([60, 61, 62, 63], Y[:4])
    learner.ask()


def test_rounds_of_projects_warn_too():
    strategy = Strategy(askwell.as_model(CONSTANT), as_pool(X), given(X[200:]), classes=[0, 1])
    with pytest.warns(UserWarning, match="most of the scores are equal"):
        plan = plan_round(strategy, dict(enumerate(Y[:15].tolist())))
    assert sorted(line.position for line in plan.queue[:30]) != list(range(15, 45))
    assert plan.signal == 1


def test_costs_do_not_bring_the_order_of_the_pool_back():
    strategy = Strategy(askwell.as_model(CONSTANT), as_pool(X), given(X[200:]), classes=[0, 1], cost=np.ones(300))
    plan = plan_round(strategy, dict(enumerate(Y[:15].tolist())))
    assert sorted(line.position for line in plan.queue[:30]) != list(range(15, 45))


def test_small_pools_and_random_scores_say_nothing():
    learner = told(CONSTANT, labels=15, score="random")
    learner.ask(3)
    search = learner._session.read(learner._knowledge).search
    _, best = best_items(search, "epig", 20)
    assert flat_warning(search, "random", best) is None
    assert flat_warning(search, "epig", best[:1]) is None
    np.testing.assert_allclose(score_items(search, "epig"), best[0], rtol=1e-6)
    assert "100%" in flat_warning(search, "epig", best)
