"""The best items of a pool: piece by piece, here or on an engine, what sorting all scores would give."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np

from askwell.acquisition import takes_votes
from askwell.arrays import alone, one_thread_each, threads
from askwell.compiling import steady
from askwell.data import BadRows, Rows
from askwell.engines import as_engine
from askwell.information.bounds import top_epig
from askwell.information.draws import epig_quadratic
from askwell.information.votes import Votes
from askwell.models.protocol import shortcuts
from askwell.progress import counted
from askwell.scoring.checkpoint import Checkpoint, written
from askwell.scoring.items import checked, exact, in_closed_form, need_targets, score_chunk, score_items
from askwell.scoring.search import Clock, Search
from askwell.workers import Fault, Tell

__all__ = ["Report", "best_items", "fault_of"]

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
    """The best so far, in the question's order."""

    def __init__(self, search: Search, size: int) -> None:
        self.search, self.size, self.positions, self.scores = search, size, np.empty(0, np.intp), np.empty(0)

    def add(self, positions: Any, scores: Any) -> None:
        """Some more; the same ones again change nothing."""
        places = np.append(self.positions, np.asarray(positions, np.intp))
        values = np.append(self.scores, np.asarray(scores, np.float64))
        places, first = np.unique(places, return_index=True)
        order = self.search.order(places, values[first])[: self.size]
        self.positions, self.scores = places[order], values[first][order]

    @property
    def floor(self) -> float | None:
        """What has to be reached to be among them; None while there is room."""
        return float(self.scores[-1]) if 0 < self.size <= len(self.scores) else None


def best_items(
    search: Search,
    score: Any,
    size: int,
    *,
    engine: Any = None,
    screen: float | None = None,
    skip_bad: bool = False,
    report: Report | None = None,
    folder: Path | None = None,
    every: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, scores) of the best `size` items, best first: what sorting all scores would give.

    Items with equal scores come in an order that `search.rng` gives, the same on every engine. EPIG's best are found
    without scoring everything (`top_epig`). Pieces of a pool in files are read one by one, the next while this one is
    scored. `engine` is where the pieces are worked on ("local", "ray", see `askwell.engines`), by default here; what is
    best so far goes along, and the answer is the same. `screen=0.1` scores only the tenth of the items whose quadratic
    EPIG is highest: faster, no longer exact. With `skip_bad`, pieces that cannot be read are left out; `report` gets
    what was done. In `folder` goes what is found, piece by piece: the same call again does only what is missing. With
    `every` the scores of all items go there too, as Parquet files (id, position, score).
    """
    if every and folder is None:
        raise ValueError("every needs a folder to write the scores to.")
    if score == "random":
        scores = score_items(search, score)
        order = search.order(search.asked, scores)[:size]
        return search.asked[order], scores[order]
    checked(search, score)
    best, report = _Best(search, min(size, len(search))), report or Report()
    in_files = isinstance(search.items.x, Rows)
    whole = engine is None and not in_files and folder is None
    shown = "scoring" if whole else ""
    how = _How(score, best.size, _bar(search, screen), skip_bad, shown, folder if every else None)
    about = {"score": str(score), "size": size, "screen": screen, "every": every, "skip_bad": skip_bad}
    kept = None if folder is None else Checkpoint(folder, search, about)
    done = {} if kept is None else kept.done()
    for message in done.values():
        best.add(message["positions"], message["scores"])
        report.add(message)
    pieces = [slice(0, len(search))] if whole else search.pieces()
    jobs = [(piece.start, piece.stop) for piece in pieces if (piece.start, piece.stop) not in done]

    def told(place: int, message: dict[str, Any]) -> None:
        if kept is not None:
            kept.put(jobs[place], message)
        best.add(message["positions"], message["scores"])
        report.add(message)
        scored(message["rows"] + message["skipped"])

    rows = sum(stop - start for start, stop in jobs)
    with steady(search.effort), counted(rows, label="" if whole else "scoring", unit="rows") as scored:
        find = partial(_best_of, search, how)
        if engine is None and in_files:
            _side_by_side(search, find, jobs, told, best)
        elif engine is None:
            for place, job in enumerate(jobs):
                find(job, partial(told, place), best.floor)
        else:
            for fault in as_engine(engine).run(find, jobs, told=told, hint=lambda: best.floor):
                if fault is not None:
                    raise fault_of(fault)
    return best.positions, best.scores


def fault_of(fault: Fault) -> Exception:
    """What to raise for a fault of a job."""
    kinds = {"BadRows": BadRows, "ValueError": ValueError}
    return kinds.get(fault.kind, RuntimeError)(fault.text)


@final
@dataclass(frozen=True)
class _How:
    """How the best of a piece are found."""

    score: Any
    size: int
    bar: float  # of the quadratic score
    skip_bad: bool
    shown: str
    out: Path | None  # for the scores of all items


def _side_by_side(
    search: Search,
    find: Callable[[tuple[int, int], Tell, float | None], None],
    jobs: Sequence[tuple[int, int]],
    told: Callable[[int, dict[str, Any]], None],
    best: _Best,
) -> None:
    """Pieces of files in threads of this process: some are read while others are scored.

    A thread does all of a piece's work alone, without waiting for others at each step. Only where a posterior does not
    say that several threads may predict at a time, one piece is scored after the other, with threads inside.
    """
    apart, turn, x = shortcuts(search.posterior).concurrent, threading.Lock(), search.items.x
    _ = search.prepared  # here, not by each thread

    def one(job: tuple[int, int], floor: float | None) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        if apart:
            with alone():
                find(job, messages.append, floor)
            return messages
        with contextlib.suppress(BadRows):  # said below, in its place
            x[search.places(slice(job[0], job[0] + 1))]
        with turn:
            find(job, messages.append, floor)
        return messages

    several, waiting, running = max(2, threads()), enumerate(jobs), dict[Future[list[dict[str, Any]]], int]()
    x.keep = several
    with one_thread_each() if apart else contextlib.nullcontext(), ThreadPoolExecutor(several) as pool:
        try:
            while True:
                for place, job in islice(waiting, several - len(running)):
                    running[pool.submit(one, job, best.floor)] = place
                if not running:
                    return
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    place = running.pop(done)
                    for message in done.result():
                        told(place, message)
        except BaseException:  # also Ctrl-C: leave what has not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _best_of(search: Search, how: _How, job: tuple[int, int], tell: Tell, floor: float | None) -> None:
    """The best of a piece that reach the floor, told in one message."""
    span, clock = slice(*job), Clock()
    message: dict[str, Any] = {"positions": [], "scores": [], "rows": span.stop - span.start, "screened": 0}
    message |= {"skipped": 0, "why": [], "seconds": clock.seconds}
    try:
        if how.out is not None:
            message |= _all_of(search, how, span, clock)
        elif in_closed_form(search, how.score):
            message |= _chosen(search, _exact_best(search, how.score, how.size, span, clock), how.size)
        else:
            message |= _searched(search, how, span, clock, floor)
    except BadRows as fault:
        if not how.skip_bad:
            raise
        message |= {"rows": 0, "skipped": message["rows"], "why": [str(fault)]}
    tell(message)


def _chosen(search: Search, found: tuple[np.ndarray, np.ndarray], size: int) -> dict[str, Any]:
    best = _Best(search, size)
    best.add(*found)
    return _told(best)


def _told(best: _Best) -> dict[str, Any]:
    return {"positions": best.positions.tolist(), "scores": best.scores.tolist()}


def _all_of(search: Search, how: _How, span: slice, clock: Clock) -> dict[str, Any]:
    """Every score, written."""
    assert how.out is not None
    scores = score_items(search, how.score, piece=span, clock=clock)
    positions, x = search.places(span), search.items.x
    ids = x.ids(positions) if isinstance(x, Rows) else [search.items.ids[place] for place in positions]
    with clock("write"):
        named = written(how.out, span.start, ids, positions, scores)
    return named | _chosen(search, (positions, scores), how.size)


def _searched(search: Search, how: _How, span: slice, clock: Clock, floor: float | None) -> dict[str, Any]:
    """Those that can be among the best, chunk by chunk."""
    best, screened = _Best(search, how.size), 0

    def least() -> float:
        return max((each for each in (floor, best.floor) if each is not None), default=-np.inf)

    where: dict[str, Any] = {"piece": span, "shown": how.shown, "clock": clock}
    if how.score == "epig" and how.bar == -np.inf and not search.numbers:
        for positions, probs in search.promising(least, **where):
            with clock("score"):
                best.add(*_best_epig(search, how.size, positions, probs, least()))
        return _told(best)
    if how.score == "auto" and how.bar == -np.inf and not search.numbers:
        # A margin is at most 1: what cannot reach the floor by EPIG about the open targets cannot at all.
        for positions, probs in search.about_open.promising(least, **where):
            with clock("score"):
                scores = score_chunk(search, "auto", span, probs)
                enough = _enough(scores, how.size)
                best.add(positions[enough], scores[enough])
        return _told(best)
    for part, probs in search.chunks(**where, votes=how.bar == -np.inf and takes_votes(how.score)):
        with clock("score"):
            positions = search.places(part)
            if how.bar > -np.inf:
                keep = _kept(search, probs, how.bar)
                screened += len(probs) - len(keep)
                positions, probs = positions[keep], probs[keep]
            if len(probs) == 0:
                continue
            if how.score == "epig" and not search.numbers:
                best.add(*_best_epig(search, how.size, positions, probs, least()))
                continue
            scores = score_chunk(search, how.score, part, probs)
            enough = _enough(scores, how.size)
            best.add(positions[enough], scores[enough])
    return _told(best) | {"screened": screened}


def _best_epig(
    search: Search, size: int, positions: np.ndarray, probs: np.ndarray | Votes, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, scores) of the best, and of all that score as much as the last of them.

    One more than is wanted says whether there are such; then those that reach this score are looked for once more.
    """
    fixed: dict[str, Any] = {"weights": search.weights, "prepared": search.prepared}
    few, targets = min(size + 1, len(probs)), search.target_beliefs
    index, found = top_epig(probs, targets, few, floor=floor, **fixed)
    if len(found) > size > 0 and found[size] == found[size - 1]:
        index, found = top_epig(probs, targets, len(probs), floor=float(found[size]), **fixed)
    return positions[np.asarray(index)], np.asarray(found, np.float64)


def _enough(scores: np.ndarray, size: int) -> np.ndarray:
    """Where the `size` highest scores stand, and all that are equal to the last of them."""
    if len(scores) <= size or size == 0:
        return np.arange(len(scores))
    enough: np.ndarray = np.flatnonzero(scores >= np.partition(scores, -size)[-size])
    return enough


def _exact_best(search: Search, score: str, size: int, span: slice, clock: Clock) -> tuple[np.ndarray, np.ndarray]:
    """Of a posterior that knows EPIG without draws (a Gaussian process does)."""
    places, top = search.places(span), shortcuts(search.posterior).top_epig
    if score != "epig" or top is None:
        return places, exact(search, score, places)
    with clock("read"):
        x = search.items.take(places)
    with clock("score"):
        most = min(size + 1, len(places))
        index, found = top(x, search.targets, most, weights=search.weights)
        while most < len(places) and size > 0 and found[-1] == found[size - 1]:  # more may be equal to the last
            most = min(8 * most, len(places))
            index, found = top(x, search.targets, most, weights=search.weights)
    return places[index], np.asarray(found, np.float64)


def _bar(search: Search, screen: float | None) -> float:
    """The quadratic score that a share of the pool reaches, by some of its items: the same however it is cut up."""
    if screen is None:
        return -np.inf
    if not 0 < screen <= 1:
        raise ValueError(f"screen must be a share above 0 and at most 1, but it is {screen}.")
    if search.numbers:
        raise ValueError("screen is for classes: the scores of numbers take one matrix product. Leave it out.")
    need_targets(search, "epig_quadratic")
    scores = epig_quadratic(search.predict(search.some(SCREENED_BY)), search.target_probs, weights=search.weights)
    return float(np.quantile(np.asarray(scores), 1 - screen))


def _kept(search: Search, probs: np.ndarray, bar: float) -> np.ndarray:
    """The places of items that pass the screen."""
    scores = epig_quadratic(probs, search.target_probs, weights=search.weights)
    return np.flatnonzero(np.asarray(scores) >= bar)
