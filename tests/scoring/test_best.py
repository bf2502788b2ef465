"""Chunk by chunk, piece by piece, anywhere: the same answer."""

import time
from functools import partial

import numpy as np
import pytest
from fixed_posterior import Fixed

import askwell
from askwell.acquisition import FOR_CLASSES
from askwell.arrays import threads
from askwell.data import BadRows, open_rows
from askwell.models.linear import LinearModel
from askwell.scoring import Report, Search, best_items, score_items
from askwell.scoring import search as asking
from askwell.seeds import rng_for


@pytest.mark.parametrize("score", sorted(FOR_CLASSES))
def test_best_items_are_what_sorting_all_scores_gives(monkeypatch, search, score):
    whole = score_items(search, score)
    order = np.argsort(-whole, kind="stable")[:7]
    positions, scores = best_items(search, score, 7)
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_allclose(scores, whole[order], rtol=1e-9)
    monkeypatch.setattr(asking, "CHUNK_BYTES", 17 * 20 * 3 * 8)
    np.testing.assert_array_equal(score_items(search, score), whole)
    np.testing.assert_array_equal(best_items(search, score, 7)[0], order)


def test_votes_are_scored_as_anything_else(search):
    probs = np.eye(3)[search.posterior.probs.argmax(axis=-1)]
    search.posterior.probs = probs
    positions, best = best_items(search, "epig", 5)
    scores = np.asarray(askwell.epig(probs[:100], probs[100:]))
    expected = search.order(np.arange(100), scores)[:5]
    np.testing.assert_array_equal(positions, expected)
    np.testing.assert_allclose(best, scores[expected], rtol=1e-12)


# ---- equal scores --------------------------------------------------------------------------------------------------


class Steps(Fixed):
    """Beliefs that are the same for ten inputs in a row, so that scores are equal in tens."""

    def predict(self, x):
        return self.probs[np.asarray(x)[:, 0].astype(int) // 10 * 10].astype(np.float32)


class Flat(Fixed):
    """Draws that are constants: every input is believed to be the same."""

    def predict(self, x):
        return np.repeat(self.probs[:1], len(x), axis=0).astype(np.float32)


def tied(posterior, seed, rows=1000):
    numbers = np.arange(float(rows))[:, None]
    return Search(posterior, numbers, targets=numbers[::50], rng=partial(rng_for, seed, 0))


@pytest.mark.parametrize("score", ["epig", "bald", "entropy"])
@pytest.mark.parametrize("kind", [Steps, Flat])
def test_equal_scores_are_ordered_by_the_seed_alike_everywhere(monkeypatch, kind, score):
    posterior = kind(1000)
    search = tied(posterior, seed=3)
    scores = score_items(search, score)
    expected = search.order(np.arange(1000), scores)[:37]
    assert len(np.unique(scores)) <= 100
    np.testing.assert_array_equal(best_items(search, score, 37)[0], expected)
    np.testing.assert_array_equal(best_items(tied(posterior, seed=3), score, 37, engine="local:2")[0], expected)
    monkeypatch.setattr(asking, "CHUNK_BYTES", 64 * 20 * 3 * 8)
    np.testing.assert_array_equal(best_items(tied(posterior, seed=3), score, 37)[0], expected)
    np.testing.assert_array_equal(best_items(tied(posterior, seed=3), score, 5)[0], expected[:5])
    assert (best_items(tied(posterior, seed=4), score, 37)[0] != expected).any()


def test_all_equal_items_have_the_same_chance():
    chosen = [int(best_items(tied(Flat(100), seed, rows=100), "epig", 1)[0][0]) for seed in range(200)]
    assert len({*chosen}) > 70  # 87 of 100 are expected to come at least once
    assert 35 < np.mean(chosen) < 65


def test_equal_scores_of_a_process_in_closed_form_are_ordered_by_the_seed_too():
    from askwell.models.gp import GPClassifier

    x = np.repeat(rng_for(0, 0, "copies").normal(size=(30, 2)), 20, axis=0)
    posterior = GPClassifier().fit(x[::60], [0, 1] * 5, rng=rng_for(0, 0, "fit"))
    found = [
        best_items(Search(posterior, x, x[::40], rng=partial(rng_for, seed, 0)), "epig", 3)[0] for seed in range(3)
    ]
    scores = posterior.epig(x, x[::40])
    for positions in found:
        np.testing.assert_allclose(scores[positions], scores.max(), rtol=1e-9)
    assert len({tuple(positions) for positions in found}) == 3


def test_weights_and_positions_count(search):
    weights = np.arange(30.0)
    some = Search(search.posterior, search.pool, search.targets, weights, np.array([5, 90, 7]))
    probs = search.posterior.probs
    expected = askwell.epig(probs[[5, 90, 7]], probs[100:], weights=weights)
    np.testing.assert_allclose(score_items(some, "epig"), expected, rtol=1e-12)
    positions, _ = best_items(some, "epig", 2)
    np.testing.assert_array_equal(positions, np.array([5, 90, 7])[np.argsort(-expected, kind="stable")[:2]])


def test_a_posterior_that_knows_epig_without_draws_is_asked_for_it():
    from askwell.models.gp import GPClassifier

    x = rng_for(0, 0, "exact").normal(size=(60, 2))
    posterior = GPClassifier().fit(x[:10], (x[:10, 0] > 0).tolist(), rng=rng_for(0, 0, "fit"))
    search = Search(posterior, x[10:50], targets=x[50:])
    scores = score_items(search, "epig")
    np.testing.assert_array_equal(scores, posterior.epig(x[10:50], x[50:]))
    positions, best = best_items(search, "epig", 4)
    np.testing.assert_array_equal(positions, np.argsort(-scores, kind="stable")[:4])
    np.testing.assert_allclose(best, scores[positions], rtol=1e-9)
    assert len(best_items(search, "epig", 100)[0]) == 40


def test_auto_of_a_posterior_that_knows_epig_without_draws():
    from askwell.acquisition import open_weights
    from askwell.models.gp import GPClassifier

    x = rng_for(0, 0, "exact").normal(size=(60, 2))
    posterior = GPClassifier().fit(x[:10], (x[:10, 0] > 0).tolist(), rng=rng_for(0, 0, "fit"))
    search = Search(posterior, x[10:50], targets=x[50:])
    means, of_targets = posterior.predict_proba(x[10:50]), posterior.predict_proba(x[50:])
    opened = open_weights(of_targets[:, None])
    expected = (1 - np.abs(means[:, 1] - means[:, 0])) * posterior.epig(x[10:50], x[50:], weights=opened)
    np.testing.assert_allclose(score_items(search, "auto"), expected, rtol=1e-9)
    positions, best = best_items(search, "auto", 4)
    np.testing.assert_array_equal(positions, np.argsort(-expected, kind="stable")[:4])
    np.testing.assert_allclose(best, expected[positions], rtol=1e-9)


# ---- in pieces, here or elsewhere ----------------------------------------------------------------------------------


@pytest.fixture(params=["soft", "votes"])
def sure(request, monkeypatch, search):
    """Draws as they are, or sure of a class."""
    if request.param == "votes":
        probs = search.posterior.probs
        search.posterior.probs = np.eye(3)[probs.argmax(axis=2)]
    monkeypatch.setattr(asking, "PIECE", 13)
    return search


@pytest.mark.parametrize("engine", ["serial", "local:2"])
@pytest.mark.parametrize("score", ["epig", "bald"])
def test_engines_find_what_is_found_here(sure, score, engine):
    here = best_items(sure, score, 9)
    there, report = best_items(sure, score, 9, engine=engine, report=(told := Report())), told
    np.testing.assert_array_equal(there[0], here[0])
    np.testing.assert_array_equal(there[1], here[1])
    assert (report.rows, report.skipped_rows, report.screened) == (100, 0, 0)
    assert {"read", "predict", "score"} <= {*report.seconds}


@pytest.fixture
def files(tmp_path):
    """The inputs of `question` in four files."""
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.arange(25.0 * number, 25.0 * (number + 1))[:, None])
    return tmp_path


@pytest.mark.parametrize("rows", [7, 25, 1000])
@pytest.mark.parametrize("engine", [None, "local:2"])
def test_pools_in_files_are_as_good_as_arrays(search, files, rows, engine):
    free = np.setdiff1d(np.arange(100), [3, 50, *range(75, 100)])
    here = best_items(Search(search.posterior, search.pool, search.targets, positions=free), "epig", 5)
    in_files = Search(search.posterior, open_rows(files, rows=rows), search.targets, positions=free)
    there = best_items(in_files, "epig", 5, engine=engine)
    np.testing.assert_array_equal(there[0], here[0])
    np.testing.assert_array_equal(there[1], here[1])


@pytest.mark.parametrize("score", ["epig", "auto"])
@pytest.mark.parametrize("engine", [None, "local:2"])
def test_a_linear_head_leaves_out_only_what_cannot_be_among_the_best(monkeypatch, tmp_path, engine, score):
    monkeypatch.setattr(asking, "CHUNK_BYTES", 1 << 20)
    rng = rng_for(0, 0, "linear head")
    x = rng.normal(size=(9000, 6)).astype(np.float32)
    posterior = LinearModel(draws=60).fit(x[:50], (x[:50, 0] > 0).tolist(), rng=rng)
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", x[3000 * number : 3000 * (number + 1)])
    targets = rng.normal(size=(20, 6)) + 1
    scores = score_items(Search(posterior, x, targets), score)
    positions, found = best_items(Search(posterior, open_rows(tmp_path), targets), score, 7, engine=engine)
    order = np.argsort(-scores, kind="stable")[:7]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(found, scores[order])


@pytest.mark.parametrize("concurrent", [False, True])
def test_one_thread_predicts_at_a_time_unless_the_posterior_says_more_may(search, files, monkeypatch, concurrent):
    monkeypatch.setenv("ASKWELL_THREADS", "2")
    now, seen = [], []

    class Watched:
        classes = search.posterior.classes

        def predict(self, x):
            now.append(x)
            time.sleep(0.2)
            seen.append((len(now), threads()))
            now.pop()
            return search.posterior.predict(x)

    posterior = Watched()
    posterior.concurrent = concurrent
    in_files = Search(posterior, open_rows(files, rows=50), search.targets)
    np.testing.assert_array_equal(best_items(in_files, "epig", 5)[0], best_items(search, "epig", 5)[0])
    assert ((2, 1) in seen) == concurrent  # each of the two has one thread
    assert {number for number, _ in seen} == {1, 2} if concurrent else {1}


@pytest.mark.parametrize("engine", [None, "serial"])
def test_bad_pieces_stop_it_or_are_left_out_and_counted(search, files, engine):
    spoilt = np.load(files / "1.npy")
    spoilt[3] = np.nan
    np.save(files / "1.npy", spoilt)
    in_files = Search(search.posterior, open_rows(files, rows=25), search.targets)
    with pytest.raises(BadRows, match=r"1\.npy, rows 0 to 24: row 28 of the pool has no finite number"):
        best_items(in_files, "epig", 5, engine=engine)
    report = Report()
    positions, _ = best_items(in_files, "epig", 100, engine=engine, skip_bad=True, report=report)
    assert sorted(positions) == [*range(25), *range(50, 100)]
    assert (report.rows, report.skipped_rows) == (75, 25)
    assert "1.npy" in report.skipped[0]


@pytest.mark.parametrize("engine", [None, "serial"])
def test_a_screen_leaves_out_what_hardly_counts(monkeypatch, search, engine):
    monkeypatch.setattr(asking, "PIECE", 13)
    report = Report()
    positions, _ = best_items(search, "epig", 3, engine=engine, screen=0.3, report=report)
    assert report.screened == 70
    quadratic = score_items(search, "epig_quadratic")
    passed = np.argsort(-quadratic)[:30]
    scores = score_items(search, "epig")
    np.testing.assert_array_equal(positions, passed[np.argsort(-scores[passed], kind="stable")][:3])
    with pytest.raises(ValueError, match="screen must be a share"):
        best_items(search, "epig", 3, screen=1.5)


def test_what_a_model_refuses_elsewhere_is_said_here(search):
    search.posterior.probs = search.posterior.probs[:50]  # so that it does not know some inputs
    with pytest.raises(RuntimeError, match="index"):
        best_items(Search(search.posterior, np.arange(100.0)[:, None]), "bald", 3, engine="serial")
