"""The paper's two-dimensional problem: heavy-tailed inputs, and two classes on either side of a wave.

Inputs have a bivariate Student's t distribution with 5 degrees of freedom. The first, p1, is centred on the origin with
scale matrix 0.8 I; the second, p2, is narrower and stands to one side, where the boundary bends. A label is 1 with
probability Φ(20 (tanh 2x_1 - x_2)).

Where the paper and its authors' code differ, `OPTIONS` has both, the paper first: the link of the labels (D1), the
width of p2 (D2), and whether pools are balanced by class (D12). Test inputs are drawn independently of the pool; in the
authors' code their radii are the same random numbers (D15), which nobody can want.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit, ndtr

from askwell.seeds import rng_for
from experiments.figure import Option

__all__ = ["OPTIONS", "P1", "P2", "P2_OF_CODE", "Problem", "Student", "labels", "problem"]

FREEDOM = 5
TEST = 10_000
INITIAL = 2  # of each class
OPTIONS = {
    "link": Option(
        ("probit", "logistic"),
        "how a label depends on 20 (tanh 2x_1 - x_2): probit (paper; the best possible accuracy is 0.988) or logistic "
        "(authors' code; 0.979).",
    ),
    "pool": Option(("drawn", "balanced"), "the pool: as drawn (paper) or half of each class (authors' code)."),
}


@final
@dataclass(frozen=True)
class Student:
    """A bivariate Student's t distribution with 5 degrees of freedom and scale matrix `scale` · I."""

    location: tuple[float, float] = (0.0, 0.0)
    scale: float = 0.8

    def draw(self, n: int, *, rng: np.random.Generator) -> np.ndarray:
        """Inputs `[n, 2]`.

        >>> P1.draw(3, rng=rng_for(0, 0, "inputs")).shape
        (3, 2)
        """
        normal, chi2 = rng.standard_normal((n, 2)), rng.chisquare(FREEDOM, (n, 1))
        inputs: np.ndarray = self.location + math.sqrt(self.scale) * normal / np.sqrt(chi2 / FREEDOM)
        return inputs

    def outside(self, x: np.ndarray) -> np.ndarray:
        """The share of the distribution where its density is lower than at x, `[n, 2] -> [n]`.

        >>> P1.outside(np.array([[0.0, 0.0], [2.0, 2.0], [9.0, 9.0]])).round(3)
        array([1.   , 0.064, 0.   ])
        """
        squares = ((x - np.asarray(self.location)) ** 2).sum(axis=1) / self.scale
        share: np.ndarray = (1 + squares / FREEDOM) ** (-FREEDOM / 2)
        return share


P1 = Student()
P2 = Student((math.pi / 4, math.tanh(math.pi / 2)), 0.4)
P2_OF_CODE = Student(P2.location, 0.2)


def labels(x: np.ndarray, *, link: str = "probit", rng: np.random.Generator) -> np.ndarray:
    """Labels 0 and 1 of inputs `[n, 2]`, drawn.

    >>> labels(np.array([[1.0, 0.0], [-1.0, 0.0]]), rng=rng_for(0, 0, "labels"))
    array([1, 0])
    """
    slope = 20 * (np.tanh(2 * x[:, 0]) - x[:, 1])
    share = ndtr(slope) if link == "probit" else expit(slope)
    drawn: np.ndarray = (rng.random(len(x)) < share).astype(int)
    return drawn


@final
@dataclass(frozen=True, eq=False)
class Problem:
    """What a run starts from."""

    initial: tuple[np.ndarray, np.ndarray]  # labelled inputs [4, 2] and labels [4], two of each class
    x: np.ndarray  # the pool [n, 2]
    y: np.ndarray  # its labels [n], to be asked for
    test: tuple[np.ndarray, np.ndarray]


def problem(size: int, seed: int, *, link: str = "probit", pool: str = "drawn") -> Problem:
    """The problem of a seed; a smaller pool is the beginning of a larger one, and all else is the same.

    >>> found = problem(100, 0)
    >>> found.x.shape, found.initial[1], found.test[0].shape
    ((100, 2), array([0, 0, 1, 1]), (10000, 2))
    """
    first = _labelled(64, link, seed, "initial")
    initial = np.concatenate([np.flatnonzero(first[1] == c)[:INITIAL] for c in (0, 1)])
    x, y = _labelled(size, link, seed, "pool")
    if pool == "balanced":
        x, y = _balanced(size, link, seed)
    return Problem((first[0][initial], first[1][initial]), x, y, _labelled(TEST, link, seed, "test"))


def _labelled(n: int, link: str, seed: int, purpose: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels; the first of many are the same as a few."""
    blocks = []
    for step in range(-(-n // 100)):
        x = P1.draw(100, rng=rng_for(seed, step, f"{purpose} inputs"))
        blocks.append((x, labels(x, link=link, rng=rng_for(seed, step, f"{purpose} labels"))))
    x, y = (np.concatenate(parts)[:n] for parts in zip(*blocks, strict=True))
    return x, y


def _balanced(size: int, link: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Half of each class: of more inputs than needed, the first of each class."""
    x, y = _labelled(size + size // 5 + 100, link, seed, "pool")
    kept = np.sort(np.concatenate([np.flatnonzero(y == c)[: size // 2] for c in (0, 1)]))
    return x[kept], y[kept]
