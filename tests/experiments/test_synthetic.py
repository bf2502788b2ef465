import numpy as np
import pytest
from scipy.special import ndtr

from askwell.seeds import rng_for
from experiments.synthetic import P1, P2, P2_OF_CODE, Student, labels, problem


def test_inputs_are_students_t():
    x = P2.draw(200_000, rng=rng_for(0, 0, "inputs"))
    assert np.median(x, axis=0) == pytest.approx(P2.location, abs=0.01)
    assert np.cov(x.T)[0, 0] == pytest.approx(0.4 * 5 / 3, rel=0.05)  # variance of t: scale · 5/(5 - 2)
    assert np.cov(x.T)[0, 1] == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("target", [P1, P2, P2_OF_CODE, Student((3.0, -2.0), 1.5)])
def test_outside_is_the_share_of_draws_farther_out(target):
    x = target.draw(50_000, rng=rng_for(1, 0, "inputs"))
    place = np.add(target.location, [0.7, -1.1])
    share = (np.linalg.norm(x - target.location, axis=1) > np.linalg.norm([0.7, -1.1])).mean()
    assert target.outside(place[None])[0] == pytest.approx(share, abs=0.01)


def test_the_second_distribution_stands_on_the_boundary():
    assert P2.location == pytest.approx((0.785, 0.917), abs=1e-3)
    assert (P1.scale, P2.scale, P2_OF_CODE.scale) == (0.8, 0.4, 0.2)


def test_labels_have_the_probability_of_their_link():
    x = np.tile([[0.1, 0.18]], (100_000, 1))
    slope = 20 * (np.tanh(0.2) - 0.18)
    for link, share in (("probit", ndtr(slope)), ("logistic", 1 / (1 + np.exp(-slope)))):
        assert labels(x, link=link, rng=rng_for(0, 0, link)).mean() == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize(("link", "best"), [("probit", 0.988), ("logistic", 0.979)])
def test_the_best_accuracy_there_can_be(link, best):
    """As measured for the paper's and its code's labels."""
    found = problem(100_000, 3, link=link)
    guess = np.tanh(2 * found.x[:, 0]) > found.x[:, 1]
    assert (guess == found.y).mean() == pytest.approx(best, abs=0.001)


def test_a_smaller_pool_is_the_beginning_of_a_larger_one_and_all_else_is_the_same():
    small, large = problem(150, 4), problem(2_000, 4)
    np.testing.assert_array_equal(small.x, large.x[:150])
    np.testing.assert_array_equal(small.y, large.y[:150])
    np.testing.assert_array_equal(small.initial[0], large.initial[0])
    np.testing.assert_array_equal(small.test[0], large.test[0])


def test_seeds_differ_and_parts_share_no_inputs():
    one, other = problem(500, 0), problem(500, 1)
    assert not np.isin(one.x, other.x).any()
    assert not np.isin(one.x, one.test[0]).any()
    assert not np.isin(one.initial[0], one.x).any()
    radius = [np.linalg.norm(each[:500], axis=1) for each in (one.x, one.test[0])]
    assert abs(np.corrcoef(np.log(radius))[0, 1]) < 0.15  # the authors' code: 0.23 over 10,000


def test_balanced_pools_are_balanced():
    found = problem(1_000, 2, pool="balanced")
    assert len(found.x) == 1_000
    assert found.y.sum() == 500
    assert problem(1_000, 2).y.sum() != 500
