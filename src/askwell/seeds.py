"""Randomness: the only place that makes a generator."""

import hashlib

import numpy as np

__all__ = ["mixed", "rng_for", "scrambled"]


def rng_for(seed: int, step: int, purpose: str) -> np.random.Generator:
    """The generator for one purpose at one step of one run: the same wherever and whenever it is asked for.

    Different purposes and steps get independent streams, so that a run that was killed goes on as it would have, and
    using more random numbers for one purpose changes none of another's.

    >>> rng_for(0, 3, "targets").integers(100) == rng_for(0, 3, "targets").integers(100)
    np.True_
    """
    digest = hashlib.sha256(purpose.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    return np.random.default_rng([seed, step, *words])


def mixed(seed: int, numbers: np.ndarray) -> np.ndarray:
    """Whole numbers in random order: a key for each, which depends on nothing but it and the seed.

    What is sorted by these keys is in the same random order however it is cut into parts. No two numbers have the
    same key.

    >>> np.argsort(mixed(1, np.arange(6))), np.argsort(mixed(2, np.arange(6)))
    (array([...]), array([...]))
    """
    return scrambled((np.asarray(numbers).astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15))


def scrambled(keys: np.ndarray) -> np.ndarray:
    """Each of `keys`, uint64, as another number that looks drawn: the last step of SplitMix64 (Steele et al. 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    result: np.ndarray = keys ^ (keys >> np.uint64(31))
    return result
