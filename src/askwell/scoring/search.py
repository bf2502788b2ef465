"""What is asked of a pool, and the beliefs about its items, chunk by chunk."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, final

import numpy as np

from askwell.acquisition import open_weights
from askwell.arrays import spans, whole_power
from askwell.data import Rows
from askwell.data.pool import Pool, as_pool
from askwell.information._kernels.plain import seconds
from askwell.information.bounds import Prepared, PreparedVotes, prepare
from askwell.information.votes import Votes
from askwell.models.protocol import beliefs, predicted, shortcuts
from askwell.progress import track
from askwell.seeds import mixed, rng_for

__all__ = ["Clock", "Search"]

CHUNK_BYTES = 64 << 20  # of predictions at a time
FILE_CHUNK_BYTES = 16 << 20  # where a thread each works on pieces of files: malloc gives so much again by itself
PIECE = 50_000  # items of a pool in memory that are one job
FEW = 4  # pieces of files that are read to learn what items are like


@final
class Clock:
    """Seconds spent, by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Count this time as spent on that."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - start


Chunks: TypeAlias = Iterator[tuple[slice, Any]]


@final
@dataclass(frozen=True, eq=False)
class Search:
    """What is asked of a pool: which of its items would tell this posterior most about these target inputs.

    `positions` are the items that may be asked (all, if None); `rng` gives the generator for a purpose, for scores that
    are drawn and for the order of items with equal scores.
    """

    posterior: Any  # a Posterior, or a NumericPosterior
    pool: Any
    targets: Any = None
    weights: np.ndarray | None = None
    positions: np.ndarray | None = None
    rng: Callable[[str], np.random.Generator] = lambda purpose: rng_for(0, 0, purpose)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: what was worked out of the targets, not what was worked out of the pool."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("items", "prepared", "_first", "target_probs", "about_open")
        }

    @cached_property
    def items(self) -> Pool:
        """The pool, with ids."""
        return as_pool(self.pool)

    def __len__(self) -> int:
        """How many items may be asked."""
        return len(self.items) if self.positions is None else len(self.positions)

    @property
    def asked(self) -> np.ndarray:
        """The positions that may be asked, in order."""
        return self.places(slice(0, len(self)))

    def places(self, span: slice) -> np.ndarray:
        """`asked[span]`, without a list of all items of a pool that may be asked as a whole."""
        if self.positions is None:
            return np.arange(*span.indices(len(self)))
        return np.asarray(self.positions, np.intp)[span]

    @cached_property
    def target_beliefs(self) -> Any:
        """`[m, k, c]` of the targets under the posterior's draws, as votes where these are; `Moments` of numbers."""
        return None if self.targets is None else beliefs(self.posterior, self.targets)

    @cached_property
    def target_probs(self) -> Any:
        """`target_beliefs` as an array; of numbers as they are."""
        votes = isinstance(self.target_beliefs, Votes)
        return np.asarray(self.target_beliefs) if votes else self.target_beliefs

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers, not classes."""
        return not hasattr(self.posterior, "classes")

    @cached_property
    def about_open(self) -> "Search":
        """The same search, where each target counts by how open its prediction is: what "auto" asks about."""
        assert self.target_beliefs is not None
        return dataclasses.replace(self, weights=open_weights(self.target_beliefs, weights=self.weights))

    def about(self, score: Any) -> "Search":
        """The question with the weights of targets that a score sees."""
        return self.about_open if score == "auto" and self.targets is not None and not self.numbers else self

    @property
    def effort(self) -> float:
        """About how many seconds it would take NumPy to score all against the targets."""
        return 0.0 if self.target_beliefs is None else seconds(len(self), *self.target_beliefs.shape)

    @cached_property
    def prepared(self) -> Prepared | PreparedVotes | None:
        """What `top_epig` needs to know of the targets."""
        return (
            None
            if self.target_beliefs is None or self.numbers
            else prepare(self.target_beliefs, weights=self.weights, candidates=len(self))
        )

    def predict(self, positions: Any) -> Any:
        """`[n, k, c]` of the items at these positions, or `Moments`."""
        return predicted(self.posterior, self.items.take(positions))

    def order(self, positions: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """What sorts items at these positions: the highest score first, equal scores as the seed has it.

        The order of two items depends on nothing but their scores, their positions and the seed.
        """
        return np.lexsort((mixed(self._tie_seed, positions), -np.asarray(scores)))

    @cached_property
    def _tie_seed(self) -> int:
        return int(self.rng("ties").integers(2**63))

    def pieces(self) -> list[slice]:
        """Spans of `asked` that can be worked on apart: of a pool in files a piece of a file, else so many items."""
        x = self.items.x
        if not isinstance(x, Rows):
            return list(spans(len(self), PIECE))
        cuts = [*(chunk.start for chunk in x.chunks), len(x)]
        if self.positions is not None:
            cuts = np.searchsorted(self.asked, cuts).tolist()
        return [slice(start, stop) for start, stop in pairwise(cuts) if stop > start]

    def some(self, most: int) -> np.ndarray:
        """At most so many of the positions that may be asked, evenly spread; of a pool in files, over a few pieces."""
        whole = slice(0, len(self))
        pieces = self.pieces() if isinstance(self.items.x, Rows) else [whole]
        few = pieces[:: -(-len(pieces) // FEW)]
        return np.concatenate(
            [self.places(piece)[:: max(1, -(-len(few) * (piece.stop - piece.start) // most))] for piece in few]
        )[:most]

    def chunks(
        self, *, piece: slice | None = None, shown: str = "", clock: Clock | None = None, votes: bool = False
    ) -> Chunks:
        """(span of `asked`, its beliefs), in order; as many rows at a time as fit into a chunk.

        Beliefs are arrays `[n, k, c]` or, with `votes`, `Votes` where draws are sure.
        """
        clock = clock or Clock()
        for span, x in self._inputs(piece, shown, clock, votes=votes):
            with clock("predict"):
                probs = beliefs(self.posterior, x) if votes else predicted(self.posterior, x)
            yield span, probs

    def promising(
        self, floor: Callable[[], float], *, piece: slice | None = None, shown: str = "", clock: Clock | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray | Votes]]:
        """(positions, beliefs) of the items whose EPIG may reach the floor, and of others, chunk by chunk.

        A posterior with `predict_above(x, screen)` need not write down what it believes of those that cannot.
        """
        clock = clock or Clock()
        above = shortcuts(self.posterior).predict_above
        for span, x in self._inputs(piece, shown, clock, votes=True):
            with clock("predict"):
                positions = self.places(span)
                screen = None if above is None or self.prepared is None else self.prepared.screen(floor())
                if above is None or screen is None:
                    probs = beliefs(self.posterior, x)
                else:
                    kept, probs = above(x, screen)
                    positions = positions[kept]
            yield positions, probs

    def _inputs(self, piece: slice | None, shown: str, clock: Clock, *, votes: bool) -> Iterator[tuple[slice, Any]]:
        """(span of `asked`, the inputs)."""
        start, stop, _ = (piece or slice(None)).indices(len(self))
        chunk = FILE_CHUNK_BYTES if isinstance(self.items.x, Rows) else CHUNK_BYTES
        parts = [
            slice(start + part.start, start + part.stop)
            for part in spans(stop - start, whole_power(chunk // self._row_bytes(votes)))
        ]
        for span in track(parts, label=shown):
            with clock("read"):
                follow = self.positions is None and isinstance(self.items.x, Rows)  # a slice of an array is no copy
                x = self.items.take(span if follow else self.places(span))
            yield span, x

    def _row_bytes(self, votes: bool) -> int:
        """Of the beliefs about an item."""
        found: np.ndarray = self.target_beliefs if self.target_beliefs is not None else self._first
        return found.nbytes // len(found) if votes else int(np.prod(found.shape[1:])) * found.dtype.itemsize

    @cached_property
    def _first(self) -> Any:
        return beliefs(self.posterior, self.items.take(self.places(slice(0, 1))))
