"""Greedy joint EPIG by moments: gains against conditioning of the whole covariance, batches against exact ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from posteriors import KINDS, PROPERTY, hard, linear, pool_and_targets, shares, slow_chi2, softmax

import askwell
from askwell.seeds import rng_for
from askwell.selection import moments
from askwell.selection.candidates import Candidates
from askwell.selection.moments import joint, moment_gains
from askwell.selection.outcomes import joint_epig, joint_exact


def slow_gains(probs, targets, asked, weights=None):
    """Standardised one-hot labels of all inputs in one covariance matrix, conditioned on those asked by its inverse."""
    every = np.concatenate([probs, targets, asked]).astype(np.float64)
    every /= every.sum(-1, keepdims=True)
    count, k, c = every.shape
    mean = every.mean(1)
    cov = np.zeros((count, c, count, c))
    for i in range(count):
        for j in range(count):
            for y in range(c):
                for other in range(c):
                    product = mean[i, y] * mean[j, other]
                    if product > 0:
                        joint_ = (every[i, :, y] @ every[j, :, other]) / k if i != j else mean[i, y] * (y == other)
                        cov[i, y, j, other] = (joint_ - product) / np.sqrt(product)
    flat = cov.reshape(count * c, count * c)
    known = np.arange((len(probs) + len(targets)) * c, count * c)
    left = flat - flat[:, known] @ np.linalg.pinv(flat[np.ix_(known, known)], rcond=1e-9, hermitian=True) @ flat[known]
    left, w, gains = left.reshape(cov.shape), shares(weights, len(targets)), np.zeros(len(probs))
    for i in range(len(probs)):
        inverse = np.linalg.pinv(left[i, :, i, :], rcond=1e-9, hermitian=True)
        for j in range(len(targets)):
            cross = left[i, :, len(probs) + j, :]
            gains[i] += w[j] * np.trace(cross.T @ inverse @ cross) / 2
    return gains


def copied(seed, c, *, groups=25, copies=4, draws=400, m=60):
    """A pool of near copies, a group after the other: softmax regression with four features."""
    rng = rng_for(seed, 0, "near copies")
    weights = 1.5 * rng.normal(size=(draws, 4, c))
    x = np.repeat(rng.normal(size=(groups, 4)), copies, axis=0) + 0.02 * rng.normal(size=(groups * copies, 4))
    return tuple(softmax(np.einsum("nf,kfc->nkc", a, weights)) for a in (x, rng.normal(size=(m, 4))))


# ---- the gain ------------------------------------------------------------------------------------------------------


@settings(PROPERTY, max_examples=25)
@given(
    st.sampled_from(["soft", "uniform", "agreeing", "confident"]),
    st.integers(2, 5),
    st.integers(0, 3),
    st.integers(0, 10**6),
    st.sampled_from(["float32", "float64"]),
)
def test_gains_are_those_of_conditioning(kind, c, s, seed, dtype):
    probs, targets = pool_and_targets(kind, 4 + s, 3, 12, c, seed=seed, dtype=dtype)
    found = moment_gains(probs[:4], targets, probs[4:], weights=[1, 0, 2])
    np.testing.assert_allclose(found, slow_gains(probs[:4], targets, probs[4:], [1, 0, 2]), atol=1e-6)


@pytest.mark.parametrize("s", [1, 3])
def test_gains_with_sure_answers(s):
    """Hard votes: of 40 draws, 3 answers of 3 classes leave most unknown, and what they leave is solid."""
    votes = hard(rng_for(0, 0, "sure"), 9 + s, 40, 3)
    found = moment_gains(votes[:6], votes[6:9], votes[9:])
    np.testing.assert_allclose(found, slow_gains(votes[:6], votes[6:9], votes[9:]), atol=1e-6)
    assert found.min() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_with_nothing_asked_it_is_half_the_chi_square(kind):
    probs, targets = pool_and_targets(kind, 8, 5, 20, 4)
    found = moment_gains(probs, targets, probs[:0], weights=[1, 2, 0, 1, 1])
    np.testing.assert_allclose(found, slow_chi2(probs, targets, [1, 2, 0, 1, 1]) / 2, rtol=1e-6, atol=1e-9)


def test_more_targets_than_draws_and_fewer():
    probs, targets = pool_and_targets("soft", 5, 9, 30, 3)
    for m in (4, 9):
        for k in (6, 30):
            found = moment_gains(probs[:4, :k], targets[:m, :k], probs[4:, :k])
            np.testing.assert_allclose(found, slow_gains(probs[:4, :k], targets[:m, :k], probs[4:, :k]), atol=1e-7)


def test_asking_again_counts_by_its_noise():
    sure, noisy = np.eye(2)[[0, 0, 1, 1]][None], (0.6 * np.eye(2)[[0, 0, 1, 1]] + 0.2)[None]
    assert moment_gains(sure, sure, sure)[0] < 1e-6
    first, second = (moment_gains(noisy, sure, noisy[:times])[0] for times in (0, 1))
    assert first == pytest.approx(0.5 * 0.6**2)
    assert second == pytest.approx(0.5 * (2 * 0.36 / 1.36 - 0.36))  # R^2 of two readings minus that of one


def test_classes_of_no_mass_change_nothing():
    probs, targets = pool_and_targets("soft", 6, 4, 12, 3)
    padded = [np.insert(a, [0, 2, 3], 0.0, axis=2) for a in (probs, targets)]
    plain = moment_gains(probs[:4], targets, probs[4:])
    np.testing.assert_allclose(moment_gains(padded[0][:4], padded[1], padded[0][4:]), plain, rtol=1e-9)


def test_many_classes_keep_their_strongest_directions(monkeypatch):
    """Few draws differ in few directions, and then nothing is lost."""
    probs, targets = pool_and_targets("soft", 6, 4, 20, 90)
    found = moment_gains(probs[:4], targets, probs[4:])
    monkeypatch.setattr(moments, "DIRECTIONS", 1000)
    whole = moment_gains(probs[:4], targets, probs[4:])
    np.testing.assert_allclose(found, whole, rtol=1e-6)


# ---- the batch -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("c", "size"), [(2, 5), (3, 4)])
def test_a_pool_of_near_copies(c, size):
    """Groups are never asked twice, and the batch is worth what exact greedy finds; the best by score, about half."""
    values = []
    for seed in range(2):
        probs, targets = copied(seed, c, groups=12, copies=3, draws=200, m=30)
        scores = askwell.epig(probs, targets)
        given_ = Candidates(scores, probs, targets)
        batches = joint(given_, size, rng=None), joint_exact(given_, size, rng=None), np.argsort(-scores)[:size]
        assert len({*(batches[0] // 3).tolist()}) == size
        assert batches[0][0] == scores.argmax()
        values.append([joint_epig(probs[batch], targets) for batch in batches])
    ours, exact, best = np.mean(values, axis=0)
    assert ours > 0.97 * exact
    assert best < 0.75 * exact


@settings(PROPERTY, max_examples=25)
@given(st.sampled_from(["soft", "hard", "peaked", "confident"]), st.integers(0, 10**6), st.data())
def test_copies_wait_until_all_others_have_been_asked(kind, seed, data):
    probs, targets = pool_and_targets(kind, 6, 4, 15, 3, seed=seed, dtype=data.draw(st.sampled_from(["f4", "f8"])))
    group = np.array(data.draw(st.permutations([0, 0, 0, 1, 1, 2, 3, 3, 4, 5, 5, 5])))
    scores = np.asarray(askwell.epig(probs, targets), np.float64)
    chosen = joint(Candidates(scores[group], probs[group], targets, pending=probs[5:]), 12, rng=None)
    assert sorted(chosen) == list(range(12))
    telling = {i for i in range(5) if scores[i] > 1e-9}
    assert {*group[chosen[: len(telling)]].tolist()} == telling


def test_the_draws_may_run_out():
    """Six draws are told apart by three sure answers; the batch goes on, copies still last."""
    votes = hard(rng_for(2, 0, "out"), 9, 6, 3)
    targets = hard(rng_for(1, 0, "out"), 5, 6, 3)
    pool = np.concatenate([votes, votes])
    chosen = joint(Candidates(askwell.epig(pool, targets), pool, targets), 12, rng=None)
    assert sorted(chosen[:9] % 9) == list(range(9))
    assert len({*chosen.tolist()}) == 12


def test_pending_questions_count_as_answered():
    probs, targets = copied(0, 2, groups=10, copies=2, draws=100, m=20)
    scores = askwell.epig(probs, targets)
    plain = joint(Candidates(scores, probs, targets), 4, rng=None)
    after = joint(Candidates(scores, probs, targets, pending=probs[plain[:2]]), 2, rng=None)
    np.testing.assert_array_equal(after, plain[2:])


def test_weights_and_precision_and_order():
    probs, targets = linear(rng_for(0, 0, "joint"), 30, 12, 40, 3)
    weights = np.arange(12) % 3
    scores = askwell.epig(probs, targets, weights=weights)
    plain = joint(Candidates(scores, probs, targets, weights), 6, rng=None)
    twice = np.repeat(targets, weights, axis=0)
    np.testing.assert_array_equal(joint(Candidates(scores, probs, twice), 6, rng=None), plain)
    narrow = Candidates(scores, probs.astype("f4"), targets.astype("f4"), weights)
    np.testing.assert_array_equal(joint(narrow, 6, rng=None), plain)
    backwards = joint(Candidates(scores[::-1], probs[::-1], targets, weights), 6, rng=None)
    np.testing.assert_array_equal(29 - backwards, plain)


def test_what_has_nothing_to_tell_comes_last_by_score():
    sure = np.tile([1.0, 0.0], (4, 1))
    split = np.eye(2)[[0, 0, 1, 1]]
    given_ = Candidates([-0.3, 0.9, 0.1, -0.1], np.stack([split, sure, split, split]), split[None])
    assert joint(given_, 4, rng=None).tolist() == [2, 1, 3, 0]


def test_moments_do_not_see_the_exclusive_or():
    """No pair of labels is correlated, so there is no gain; exact enumeration sees it. Copies still come last."""
    first, second, either = (np.eye(2)[bits] for bits in ([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]))
    pool = np.stack([first, first, second])
    assert moment_gains(pool, either[None], first[None]).max() < 1e-12
    assert joint(Candidates([0.3, 0.2, 0.1], pool, either[None]), 2, rng=None).tolist() == [0, 2]


def test_what_is_missing_is_named():
    probs, targets = pool_and_targets("soft", 4, 3, 5, 3)
    with pytest.raises(ValueError, match="target_probs must be given for the batch 'joint'"):
        joint(Candidates(np.zeros(4), probs), 2, rng=None)
    with pytest.raises(ValueError, match="probs must be given for the batch 'joint'"):
        joint(Candidates(np.zeros(4), target_probs=targets), 2, rng=None)
    with pytest.raises(ValueError, match="probs and pending must have the same number of draws"):
        joint(Candidates(np.zeros(4), probs, targets, pending=probs[:, :2]), 2, rng=None)
    with pytest.raises(ValueError, match=r"scores\[0\] is nan"):
        joint(Candidates([np.nan, 0, 0, 0], probs, targets), 2, rng=None)
