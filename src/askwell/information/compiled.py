"""The door to the compiled loops: targets packed in blocks, candidates in chunks and threads, faults put into words.

Only for arrays in this machine's memory (NumPy's, or tensors on the CPU seen as such). Loaded by the first score.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from askwell.arrays import SUM_TOLERANCE, spans, threads, value_fault
from askwell.information import kernels, packing
from askwell.information.vectors import LANES, ROWS, panel_width

__all__ = ["Targets", "add_scores", "bald", "fill_pairs", "forms", "gram", "packs"]

PACK_BYTES = 8 << 20  # of targets prepared at a time
CHUNK_BYTES = 1 << 21  # of candidates handed to a thread at a time
COLUMNS = 1024  # of D for one block of targets ...
MOST_TARGETS = 128  # ... and the most targets in one


class Targets(NamedTuple):
    """Consecutive targets as the loop wants them: in blocks of m, the last one padded with targets of no weight."""

    span: slice  # which of all targets these are
    centred: bool  # for u; or for t, because some of these are strong
    size: int  # targets in a block; m is this, rounded up to whole vectors
    columns: np.ndarray  # [blocks, panels, k, width]  class after class
    share: np.ndarray  # [blocks, c, m]  p(y*), the most probable class last
    inverse: np.ndarray  # [blocks, m]  1 / p(y*) of the most probable class
    weights: np.ndarray  # [blocks, m]  they sum to one over all targets

    def blocks(self, run: slice) -> "Targets":
        """Some consecutive blocks, nothing copied."""
        start, stop = (self.span.start + block * self.size for block in (run.start, run.stop))
        span = slice(start, min(stop, self.span.stop))
        return Targets(span, self.centred, self.size, *(array[run] for array in self[3:]))


def packs(
    target_probs: np.ndarray, weights: np.ndarray | None, dtype: Any, *, log: bool = False, most: int | None = None
) -> Iterator[tuple[Targets, ...]]:
    """All targets, packed: as many blocks at a time as `PACK_BYTES` hold, and at most `most`.

    Each item is one pack for every candidate, or two: the centred one, and the other for strong candidates. How targets
    fall into blocks depends on m and c alone, and blocks are added up in order, so scores do not depend, to the bit, on
    how many blocks are done at a time.
    """
    m, draws, classes = target_probs.shape
    size = _block_size(m, classes)
    fitting = max(1, PACK_BYTES // (2 * size * classes * draws * np.dtype(dtype).itemsize))
    w = np.full(m, 1 / m) if weights is None else weights
    for span in spans(m, size * min(fitting, most or fitting)):
        probs = _plain(target_probs[span], dtype, log)
        try:
            targets, strong = _packed(probs, w[span], span, size, True)
        except _NoDistributionError:
            raise _refusal("target_probs", target_probs, log) from None
        joint = _packed(probs, w[span], span, size, False)[0] if strong.any() else targets
        for run in _runs(strong):
            yield (targets.blocks(run), joint.blocks(run)) if strong[run.start] else (targets.blocks(run),)


def _runs(flags: np.ndarray) -> list[slice]:
    """The slices in which neighbouring flags are equal."""
    starts = [0, *(np.flatnonzero(np.diff(flags)) + 1).tolist(), len(flags)]
    return [slice(a, b) for a, b in pairwise(starts)]


def _block_size(m: int, classes: int) -> int:
    """How many targets make a block: about equally many in each."""
    most = min(MOST_TARGETS, max(LANES, COLUMNS // classes))
    return -(-m // -(-m // most))


def _ceil_to(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _packed(
    probs: np.ndarray, weights: np.ndarray, span: slice, size: int, centred: bool
) -> tuple[Targets, np.ndarray]:
    """The targets `probs` in blocks of `size`, and which blocks have a strong one."""
    (count, draws, classes), dtype = probs.shape, probs.dtype
    blocks, padded, width = -(-count // size), _ceil_to(size, LANES), panel_width(dtype)
    panels = -(-(packing.classes_kept(classes, centred) * size + padded - size) // width)
    columns, share = np.zeros((blocks, panels, draws, width), dtype), np.zeros((blocks, classes, padded), dtype)
    inverse, w, strong = np.zeros((blocks, padded), dtype), np.zeros((blocks, padded)), np.zeros((blocks, size), bool)
    for block, part in enumerate(spans(count, size)):
        w[block, : part.stop - part.start] = weights[part]
        packed = (columns[block], share[block], inverse[block], strong[block])
        if packing.pack_block(probs[part], SUM_TOLERANCE[str(dtype)], centred, size, *packed) >= 0:
            raise _NoDistributionError
    if dtype != np.float32:
        strong[:] = False  # float64 has digits to spare: the centred form serves all
    return Targets(span, centred, size, columns, share, inverse, w), np.asarray(strong.any(axis=1))


class _NoDistributionError(Exception):
    """Some row that was to be packed or scored is not a distribution."""


def _refusal(name: str, probs: np.ndarray, log: bool) -> ValueError:
    """What is wrong with these beliefs, looked for once more, at leisure."""
    words = value_fault(name, probs, log=log)
    return ValueError(words or f"{name} must hold probabilities that sum to one over its last axis (classes).")


def _plain(part: np.ndarray, dtype: Any, log: bool) -> np.ndarray:
    """Probabilities as the loops want them: contiguous, and read-only, so that numba compiles for one kind of array."""
    plain = np.ascontiguousarray(np.exp(part) if log else part, dtype).view()
    plain.flags.writeable = False
    return plain


def add_scores(
    probs: np.ndarray,
    packed: Sequence[tuple[Targets, ...]],
    scores: np.ndarray,
    *,
    log: bool = False,
    index: np.ndarray | None = None,
) -> None:
    """scores[i] += sum_j w_j I(y_i; y*_j) over the packed targets, for `probs [n, k, c]` and float64 `scores [n]`.

    With `index` for those candidates only: `scores[i]` is that of `probs[index[i]]`.
    """
    no_pairs = np.empty((0, 0, 0), probs.dtype)

    def add(part: np.ndarray, tolerance: float, targets: Targets, rows: Any) -> int:
        found = scores[rows]
        fault = kernels.score(part, tolerance, *targets[1:], found, no_pairs)
        scores[rows] = found
        return int(fault)

    _each_chunk(probs, log, _by_strength(packed, add), index)


def fill_pairs(
    probs: np.ndarray, packed: Sequence[tuple[Targets, ...]], pairs: np.ndarray, *, log: bool = False
) -> None:
    """pairs[i, j] = I(y_i; y*_j) for the packed targets, for `probs [n, k, c]` and `pairs [n, m]` of all targets."""

    def fill(part: np.ndarray, tolerance: float, targets: Targets, rows: Any) -> int:
        found = np.empty((len(part), *targets.weights.shape), probs.dtype)
        fault = kernels.score(part, tolerance, *targets[1:], np.empty(0), found)
        count = targets.span.stop - targets.span.start
        pairs[rows, targets.span] = found[:, :, : targets.size].reshape(len(part), -1)[:, :count]
        return int(fault)

    _each_chunk(probs, log, _by_strength(packed, fill))


def _by_strength(
    packed: Sequence[tuple[Targets, ...]], kernel: Callable[[np.ndarray, float, Targets, Any], int]
) -> Callable[[np.ndarray, float, slice], int]:
    """A kernel for chunks that gives each candidate the targets in its form: for u, or for t if both are strong."""
    any_strong = any(len(pack) > 1 for pack in packed)

    def run(part: np.ndarray, tolerance: float, span: slice) -> int:
        strong = np.zeros(len(part), bool)
        if any_strong and packing.find_strong(part, tolerance, strong) >= 0:
            return 0
        for pack in packed:
            forms = zip(pack, (~strong, strong), strict=True) if len(pack) > 1 else [(pack[0], np.ones_like(strong))]
            for targets, chosen in forms:
                if chosen.all():
                    fault = kernel(part, tolerance, targets, span)
                elif chosen.any():
                    some = _plain(part[chosen], part.dtype, False)
                    fault = kernel(some, tolerance, targets, span.start + np.flatnonzero(chosen))
                else:
                    continue
                if fault >= 0:
                    return fault
        return -1

    return run


def bald(probs: np.ndarray, *, log: bool = False) -> np.ndarray:
    """BALD of `probs [n, k, c]` as float64 [n]."""
    scores = np.empty(len(probs))
    _each_chunk(probs, log, lambda part, tolerance, span: kernels.bald(part, tolerance, scores[span]))
    return scores


def gram(target_probs: np.ndarray, weights: np.ndarray, *, log: bool = False) -> np.ndarray:
    """G_kl = sum_j w_j sum_y (p_k(y) - p(y)) (p_l(y) - p(y)) / p(y) of `target_probs [m, k, c]`, as float64 [k, k]."""
    m, draws, classes = target_probs.shape
    width, total = panel_width(np.float64), np.zeros((draws, draws))
    for span in spans(m, max(1, PACK_BYTES // (16 * draws * classes))):
        part = _plain(target_probs[span], target_probs.dtype, log)
        rows, columns = (np.zeros((-(-draws // w), len(part) * classes, w)) for w in (ROWS, width))
        out = np.empty((len(rows) * ROWS, len(columns) * width))
        if kernels.gram(part, SUM_TOLERANCE[str(part.dtype)], weights[span], rows, columns, out) >= 0:
            raise _refusal("target_probs", target_probs, log)
        total += out[:draws, :draws]
    return total


def forms(probs: np.ndarray, gram: np.ndarray, *, log: bool = False, index: np.ndarray | None = None) -> np.ndarray:
    """(sum_kl A_kl G_kl, sum_k A_kk G_kk, sum_k A_kk) for `probs [n, k, c]` and symmetric `gram [k, k]`, as [n, 3].

    A_kl = sum_y (p_k(y) - p(y)) (p_l(y) - p(y)) / p(y). With `index` for those candidates only.
    """
    draws, width = len(gram), panel_width(probs.dtype)
    columns = np.zeros((draws, _ceil_to(draws, width)), probs.dtype)
    columns[:, :draws] = gram
    packed = np.ascontiguousarray(columns.reshape(draws, -1, width).swapaxes(0, 1))  # [panels, k, width]
    out = np.empty((len(probs) if index is None else len(index), 3))
    diagonal = np.diagonal(gram).astype(np.float64)
    _each_chunk(
        probs, log, lambda part, tolerance, span: kernels.forms(part, tolerance, packed, diagonal, out[span]), index
    )
    return out


def _each_chunk(
    probs: np.ndarray,
    log: bool,
    kernel: Callable[[np.ndarray, float, slice], int],
    index: np.ndarray | None = None,
) -> None:
    """Call `kernel(chunk, tolerance, span)` for all candidates, or those of `index`, in threads; word what it finds."""
    tolerance = SUM_TOLERANCE[str(probs.dtype)]

    def job(span: slice) -> None:
        part = _plain(probs[span if index is None else index[span]], probs.dtype, log)
        if kernel(part, tolerance, span) >= 0:
            raise _NoDistributionError

    count, workers = len(probs) if index is None else len(index), threads()
    most = max(1, CHUNK_BYTES // (probs.shape[1] * probs.shape[2] * probs.itemsize))
    chunks = list(spans(count, max(1, min(most, -(-count // (4 * workers))))))
    try:
        if workers == 1 or len(chunks) == 1:
            for span in chunks:
                job(span)
        else:
            _in_threads(job, chunks, workers)
    except _NoDistributionError:
        raise _refusal("probs", probs, log) from None


def _in_threads(job: Callable[[slice], None], chunks: list[slice], workers: int) -> None:
    with ThreadPoolExecutor(workers) as pool:
        try:
            list(pool.map(job, chunks))
        except BaseException:  # also Ctrl-C: leave the chunks not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise
