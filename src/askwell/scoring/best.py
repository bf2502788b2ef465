"""The best items of a pool: piece by piece, here or on an engine, what sorting all scores would give."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np

from askwell.engines import as_engine
from askwell.information.bounds import top_epig
from askwell.information.draws import epig_quadratic
from askwell.progress import track
from askwell.rows import BadRows, Rows
from askwell.scoring.items import checked, need_targets, score_chunk, score_items
from askwell.scoring.question import Clock, Question
from askwell.workers import Fault, Tell

__all__ = ["Report", "best_items", "fault_of"]

MOSTLY = 0.9  # of the draws
SCREENED_BY = 10_000  # items that say how high the quadratic score of a given share is


@final
@dataclass(eq=False)
class Report:
    """What was done to find the best items; seconds are summed over processes."""

    rows: int = 0
    screened: int = 0  # of them not scored exactly, since the quadratic score was low
    skipped: list[str] = field(default_factory=list)  # pieces that could not be read, with the reason
    skipped_rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # read, predict, score

    def add(self, message: dict[str, Any]) -> None:
        """What a piece tells."""
        self.rows += message["rows"]
        self.screened += message["screened"]
        self.skipped_rows += message["skipped"]
        self.skipped += message["why"]
        for what, seconds in message["seconds"].items():
            self.seconds[what] = self.seconds.get(what, 0.0) + seconds


@final
class _Best:
    """The best so far: in order of score, equal ones of position."""

    def __init__(self, size: int) -> None:
        self.size, self.positions, self.scores = size, np.empty(0, np.intp), np.empty(0)

    def add(self, positions: Any, scores: Any) -> None:
        """Some more; the same ones again change nothing."""
        places = np.append(self.positions, np.asarray(positions, np.intp))
        values = np.append(self.scores, np.asarray(scores, np.float64))
        places, first = np.unique(places, return_index=True)
        order = np.lexsort((places, -values[first]))[: self.size]
        self.positions, self.scores = places[order], values[first][order]

    @property
    def floor(self) -> float | None:
        """What has to be reached to be among them; None while there is room."""
        return float(self.scores[-1]) if 0 < self.size <= len(self.scores) else None


def best_items(
    question: Question,
    score: Any,
    size: int,
    *,
    engine: Any = None,
    screen: float | None = None,
    skip_bad: bool = False,
    report: Report | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, scores) of the best `size` items, best first, ties by position: what sorting all scores would give.

    EPIG's are found without scoring everything (`top_epig`), unless draws are votes: their bounds prune nothing. Pieces
    of a pool in files are read one by one, the next while this one is scored. `engine` is where the pieces are worked
    on ("local", "ray", see `askwell.engines`), by default here; what is best so far goes along, and the answer is the
    same. `screen=0.1` scores only the tenth of the items whose quadratic EPIG is highest: faster, no longer exact.
    With `skip_bad`, pieces that cannot be read are left out; `report` gets what was done.
    """
    if score == "random":
        scores = score_items(question, score)
        order = np.argsort(-scores, kind="stable")[:size]
        return question.asked[order], scores[order]
    checked(question, score)
    best, report = _Best(min(size, len(question.asked))), report or Report()
    in_files = isinstance(question.items.x, Rows)
    shown = "scoring" if engine is None and not in_files else ""
    find = partial(_best_of, question, score, best.size, _bar(question, screen), skip_bad, shown)

    def told(_: int, message: dict[str, Any]) -> None:
        best.add(message["positions"], message["scores"])
        report.add(message)

    if engine is None:
        pieces = question.pieces() if in_files else [slice(0, len(question.asked))]
        for piece in _read_ahead(question, pieces):
            find(piece, partial(told, 0), best.floor)
    else:
        jobs = [(piece.start, piece.stop) for piece in question.pieces()]
        for fault in as_engine(engine).run(find, jobs, told=told, hint=lambda: best.floor):
            if fault is not None:
                raise fault_of(fault)
    return best.positions, best.scores


def fault_of(fault: Fault) -> Exception:
    """What to raise for a fault of a job."""
    kinds = {"BadRows": BadRows, "ValueError": ValueError}
    return kinds.get(fault.kind, RuntimeError)(fault.text)


def _read_ahead(question: Question, pieces: Sequence[slice]) -> Iterator[slice]:
    """The pieces; while one of them is worked on, the file of the next is read."""
    x = question.items.x
    if not isinstance(x, Rows):
        yield from pieces
        return
    first = [question.asked[piece.start] for piece in pieces]
    with ThreadPoolExecutor(1) as reader:
        for number, piece in enumerate(track(pieces, label="scoring")):
            if number + 1 < len(pieces):
                reader.submit(x.__getitem__, first[number + 1 : number + 2])
            yield piece


def _best_of(
    question: Question,
    score: Any,
    size: int,
    bar: float,
    skip_bad: bool,
    shown: str,
    piece: slice | tuple[int, int],
    tell: Tell,
    floor: float | None,
) -> None:
    """The best of a piece that reach the floor, told in one message."""
    span = piece if isinstance(piece, slice) else slice(*piece)
    best, clock, screened, why = _Best(size), Clock(), 0, []
    try:
        if score == "epig" and hasattr(question.posterior, "epig"):
            best.add(*_exact_best(question, size, span, clock))
        else:
            for part, probs in question.chunks(piece=span, shown=shown, clock=clock):
                with clock("score"):
                    keep = _kept(question, probs, bar)
                    screened += len(probs) - len(keep)
                    least = max((each for each in (floor, best.floor) if each is not None), default=-np.inf)
                    found = _best_of_chunk(question, score, size, part, probs[keep], least)
                    best.add(question.asked[part][keep[found[0]]], found[1])
    except BadRows as fault:
        if not skip_bad:
            raise
        best, screened, why = _Best(size), 0, [str(fault)]
    rows = span.stop - span.start
    tell(
        {
            "positions": best.positions.tolist(),
            "scores": best.scores.tolist(),
            "rows": 0 if why else rows,
            "screened": screened,
            "skipped": rows if why else 0,
            "why": why,
            "seconds": clock.seconds,
        }
    )


def _best_of_chunk(
    question: Question, score: Any, size: int, span: slice, probs: np.ndarray, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """(places in the chunk, scores) of its best."""
    if len(probs) == 0:
        return np.empty(0, np.intp), np.empty(0)
    if score != "epig" or _votes(question.target_probs):
        scores = score_chunk(question, score, span, probs)
        order = np.argsort(-scores, kind="stable")[:size]
        return order, scores[order]
    index, found = top_epig(probs, question.target_probs, min(size, len(probs)), weights=question.weights, floor=floor)
    return np.asarray(index), np.asarray(found, np.float64)


def _exact_best(question: Question, size: int, span: slice, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """Of a posterior that knows EPIG without draws (a Gaussian process does)."""
    need_targets(question, "epig")
    with clock("read"):
        places = question.asked[span]
        x = question.items.take(places)
    with clock("score"):
        posterior: Any = question.posterior
        if not hasattr(posterior, "top_epig"):
            return places, np.asarray(posterior.epig(x, question.targets, weights=question.weights), np.float64)
        index, found = posterior.top_epig(x, question.targets, min(size, len(places)), weights=question.weights)
    return places[index], np.asarray(found, np.float64)


def _bar(question: Question, screen: float | None) -> float:
    """The quadratic score that a share of the pool reaches, by some of its items: the same however it is cut up."""
    if screen is None:
        return -np.inf
    if not 0 < screen <= 1:
        raise ValueError(f"screen must be a share above 0 and at most 1, but it is {screen}.")
    need_targets(question, "epig_quadratic")
    scores = epig_quadratic(
        question.predict(question.some(SCREENED_BY)), question.target_probs, weights=question.weights
    )
    return float(np.quantile(np.asarray(scores), 1 - screen))


def _kept(question: Question, probs: np.ndarray, bar: float) -> np.ndarray:
    """The places of items that pass the screen."""
    if bar == -np.inf:
        return np.arange(len(probs))
    scores = epig_quadratic(probs, question.target_probs, weights=question.weights)
    return np.flatnonzero(np.asarray(scores) >= bar)


def _votes(probs: np.ndarray | None) -> bool:
    """Whether draws are nearly all sure of a class."""
    return probs is not None and bool((np.max(probs, axis=-1) == 1).mean() > MOSTLY)
