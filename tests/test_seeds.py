"""One generator per seed, step and purpose: the same every time, and unlike any other."""

import subprocess
import sys

import numpy as np
import pytest

from askwell.seeds import mixed, rng_for


def test_the_same_wherever_and_whenever():
    first = rng_for(3, 5, "targets").random(100)
    rng_for(3, 5, "targets").random(7)  # using one changes no other
    np.testing.assert_array_equal(rng_for(3, 5, "targets").random(100), first)
    code = "from askwell.seeds import mixed, rng_for; print(rng_for(3, 5, 'targets').random(3).tolist())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(first[:3].tolist())


def test_the_stream_is_fixed_for_good():
    """Resuming a run of years ago depends on it."""
    assert rng_for(0, 0, "targets").integers(0, 1 << 32, 3).tolist() == [2557347682, 2216569709, 1113254220]


@pytest.mark.parametrize(
    "other", [(4, 5, "targets"), (3, 6, "targets"), (3, 5, "target"), (5, 3, "targets"), (3, 5, "")]
)
def test_every_argument_counts(other):
    a, b = rng_for(3, 5, "targets").random(1000), rng_for(*other).random(1000)
    assert not np.intersect1d(a, b).size


def test_streams_are_uncorrelated():
    keys = [
        (seed, step, purpose) for seed in range(5) for step in range(5) for purpose in ("draws", "ties", "split", "é")
    ]
    noise = np.stack([rng_for(*key).standard_normal(4000) for key in keys])
    correlation = np.corrcoef(noise) - np.eye(len(keys))
    assert np.abs(correlation).max() < 5.5 / np.sqrt(4000)
    assert correlation.std() == pytest.approx(1 / np.sqrt(4000), rel=0.1)


@pytest.mark.parametrize("wrong", [(-1, 0, "x"), (0, -1, "x")])
def test_negative_numbers_are_refused(wrong):
    with pytest.raises(ValueError):
        rng_for(*wrong)


def test_mixed_keys_are_different_and_depend_on_number_and_seed_only():
    keys = mixed(7, np.arange(100_000))
    assert len(np.unique(keys)) == 100_000
    np.testing.assert_array_equal(mixed(7, np.array([70_000, 3])), keys[[70_000, 3]])
    assert (mixed(8, np.arange(100)) != keys[:100]).all()
    first = [int(np.argmin(mixed(seed, np.arange(10)))) for seed in range(2000)]
    assert np.bincount(first, minlength=10).min() > 140  # 200 are expected of each


def test_mixed_takes_large_seeds():
    assert mixed(2**63 - 1, np.arange(3)).dtype == np.uint64
