"""Randomness: the only place that makes a generator."""

import hashlib

import numpy as np

__all__ = ["rng_for"]


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
