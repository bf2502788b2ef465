"""Questions that are drawn, not chosen: items of the pool that stand for inputs drawn at random from the targets.

A model can be judged only by questions that nobody chose. The order in which items are drawn follows from the seed
alone, so the items at its head, as far as all of them are labelled, are a random sample, whatever else was asked: also
where one of them was chosen for its score before its turn came.

    targets from the pool:   every item is as likely as any other
    given targets:           a target is drawn, and the item of the pool nearest to it stands for it; where the targets
                             are in the pool themselves, that is the target. By their weights, if they have any: then
                             one may be drawn again
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from askwell.arrays import spans, take
from askwell.models.inputs import aligned, as_vectors, column_names, count
from askwell.seeds import mixed, rng_for
from askwell.targets.sampling import Inputs, Targets, given_inputs, given_weights

__all__ = ["Drawn", "Of", "draw", "is_turn"]

MOST, LEAST = 2_000, 200  # draws: more would not make an estimate more useful
KEYS = 1 << 20  # positions of a pool that are put in random order at a time
PAIRS = 200_000_000  # distances in all: a large pool is compared with fewer draws
CELLS = 1 << 22  # distances at a time
EPS = 1e-9  # a fifth of five questions is one, also in floating point

Of = Literal["targets", "nearest", "pool"]
"""What the drawn items are a sample of: the targets, the pool's items nearest to them, or the pool."""


@final
@dataclass(frozen=True, eq=False)
class Drawn:
    """Items of a pool in the order drawn; one may stand for several draws.

    >>> from askwell.data.pool import as_pool
    >>> from askwell.targets import as_targets
    >>> drawn = draw(as_pool(np.zeros((50, 2))), as_targets(None), seed=0)
    >>> first, second = drawn.positions[:2].tolist()
    >>> drawn.sample({first}), drawn.sample({second}), drawn.sample({first, second}) == {first: 1, second: 1}
    ({...: 1}, {}, True)
    """

    positions: np.ndarray  # of the pool, `[at most 2,000]`
    of: Of
    shares: Mapping[int, float] | float  # position -> its probability at each draw; one number: of every item

    def sample(self, labelled: Collection[int], skipped: Collection[int] = ()) -> dict[int, int]:
        """Position -> how many draws it stands for: the head of the order, as far as it is labelled.

        Skipped items are left out, as if the targets had none like them.
        """
        head = Counter[int]()
        for position in self.positions.tolist():
            if position in labelled:
                head[position] += 1
            elif position not in skipped:
                break
        return dict(head)

    def head(self, labelled: Collection[int], *, least: int) -> set[int]:
        """The labelled ones among the first: those of the sample, and in any case `least` of them, if there are."""
        first = {*self.sample(labelled)}
        for position in self.positions.tolist():
            if len(first) >= least:
                break
            if position in labelled:
                first.add(position)
        return first

    def probability(self, position: int) -> float:
        """How likely an item was to be drawn, each time: as likely as the targets are that it stands for.

        Of more targets than are drawn, by those that were.
        """
        return self.shares if isinstance(self.shares, float) else self.shares.get(position, 0.0)


def is_turn(asked: int, drawn: int, *, share: float) -> bool:
    """Whether the next question is to be drawn, after `asked` questions, the first `drawn` of the order among them.

    Drawn questions are `share` of all. Where they are fewer, because labels came from elsewhere, they catch up: at most
    twice as many are drawn as otherwise.

    >>> [is_turn(n, n // 5, share=0.2) for n in range(10)]
    [False, False, False, False, True, False, False, False, False, True]
    >>> sum(is_turn(n, 0, share=0.2) for n in range(100, 110))
    4
    """

    def due(n: int, share: float) -> int:
        return int(share * n + EPS)

    return drawn < due(asked + 1, share) and due(asked + 1, 2 * share) > due(asked, 2 * share)


def draw(pool: Inputs, targets: Targets, *, seed: int) -> Drawn:
    """The order in which items of the pool are drawn for the targets."""
    x = given_inputs(targets)
    if x is not None:
        nearest = _nearest(pool, x, given_weights(targets), seed)
        if nearest is not None:
            return nearest
    keys = (
        (key, position)
        for span in spans(len(pool), KEYS)
        for key, position in _smallest(mixed(seed, np.arange(span.start, span.stop)), span.start)
    )
    order = np.array([position for _, position in heapq.nsmallest(MOST, keys)], np.intp)
    return Drawn(order, "pool", 1 / len(pool))


def _smallest(keys: np.ndarray, start: int) -> Iterator[tuple[int, int]]:
    some = np.argpartition(keys, MOST)[:MOST] if len(keys) > MOST else np.arange(len(keys))
    return zip(keys[some].tolist(), (start + some).tolist(), strict=True)


def _nearest(pool: Any, x: Any, weights: np.ndarray | None, seed: int) -> Drawn | None:
    """Targets that are drawn, as the items nearest to them; None where there are no numbers to tell by.

    Without weights none is drawn twice. With them one may be: a sample of all that there are would have lost them.
    """
    m, n = count(x), len(pool)
    most = max(LEAST, min(MOST, PAIRS // max(n, 1)))
    rng = rng_for(seed, 0, "drawn targets")
    if weights is None:
        order = np.argsort(rng.exponential(size=m), kind="stable")[:most]
    else:
        order = rng.choice(m, most, p=weights / weights.sum())
    compared = np.arange(m) if m <= most else np.unique(order)
    wanted = as_vectors(take(aligned(x, column_names(pool.x), by_name=True), compared))
    items = None if wanted is None else _nearest_items(pool, wanted)
    if items is None:
        return None
    nearest, distances = items
    share = np.bincount(order, minlength=m) if m > most else np.ones(m) if weights is None else weights
    by_item = np.bincount(nearest, weights=share[compared] / share.sum())
    shares = {position: float(by_item[position]) for position in np.unique(nearest).tolist()}
    in_order = nearest[np.searchsorted(compared, order)]
    return Drawn(in_order, "nearest" if distances.any() else "targets", shares)


def _nearest_items(pool: Any, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(positions, squared distances) `[m]` of the pool's items nearest to `wanted [m, features]`."""
    m, n = len(wanted), len(pool)
    best, nearest = np.full(m, np.inf), np.zeros(m, np.intp)
    scale: np.ndarray | None = None
    for span in spans(n, max(1, CELLS // max(m, wanted.shape[1]))):
        some = as_vectors(pool.take(np.arange(span.start, span.stop)))
        if some is None or some.shape[1] != wanted.shape[1]:
            return None
        if scale is None:  # of the first items: those of all would take another reading
            scale = np.where(some.std(axis=0) > 0, some.std(axis=0), 1.0)
            wanted = wanted / scale
        some = some / scale
        row = ((some**2).sum(axis=1) - 2 * wanted @ some.T).argmin(axis=1)  # [m]
        closest = ((wanted - some[row]) ** 2).sum(axis=1)  # by differences: exactly zero for the same input
        better = closest < best
        best[better], nearest[better] = closest[better], row[better] + span.start
    return nearest, best
