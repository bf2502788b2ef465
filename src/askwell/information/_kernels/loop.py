"""The door to the compiled loops: targets packed in blocks, candidates in chunks and threads, faults put into words.

Only for arrays in this machine's memory (NumPy's, or tensors on the CPU seen as such). Loaded by the first score.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from askwell.arrays import SUM_TOLERANCE, spans, threads, value_fault
from askwell.information._kernels import epig
from askwell.information._kernels import votes as counting
from askwell.information._kernels.epig import IS_STRONG, IS_VOTES
from askwell.information._kernels.plain import MOST_TARGETS, block_size
from askwell.information._kernels.product import ROWS, panel_width
from askwell.information.votes import Votes, code_type, entropy, vote_logs

__all__ = [
    "Beliefs",
    "Pack",
    "VoteTargets",
    "add_scores",
    "add_vote_scores",
    "bald",
    "beliefs",
    "counted",
    "fill_pairs",
    "forms",
    "packs",
    "parts",
    "sketch",
    "sketch_rank",
    "vote_counts",
    "vote_packs",
    "vote_pairs",
]

PART_BYTES = 48 << 20  # of candidates looked at together
CHUNK_BYTES = 2 << 20  # of those handed to a thread at a time
PACK_BYTES = 8 << 20  # of targets prepared at a time
CELLS = 1 << 16  # that votes are counted in at a time
TOGETHER = 128  # classes of candidates that are sketched side by side


# ---- inputs ----------------------------------------------------------------------------------------------------------


class Beliefs(NamedTuple):
    """Inputs that have been looked at."""

    probs: np.ndarray  # [n, k, c]
    means: np.ndarray  # [n, c]  float64
    kinds: np.ndarray  # [n]  whether draws are sure and disagree, and are votes; empty if nobody asked


def beliefs(name: str, probs: np.ndarray, span: slice, dtype: Any, *, kinds: bool, log: bool) -> Beliefs:
    """Look at inputs `probs[span]`, in threads; rows that are no distributions are refused by this name."""
    given = probs[span]
    plain = np.ascontiguousarray(np.exp(given) if log else given, dtype).view()
    plain.flags.writeable = False  # so that numba compiles for one kind of array
    seen = Beliefs(plain, np.empty((len(plain), plain.shape[2])), np.empty(len(plain) if kinds else 0, np.uint8))
    tolerance, faults = SUM_TOLERANCE[str(plain.dtype)], []

    def look(span: slice) -> None:
        if epig.look_at(plain[span], tolerance, seen.means[span], seen.kinds[span]) >= 0:
            faults.append(span)

    _each_chunk(plain, len(plain), look)
    if faults:
        words = value_fault(name, probs, log=log)
        raise ValueError(words or f"{name} must hold probabilities that sum to one over its last axis (classes).")
    return seen


def parts(
    probs: np.ndarray, *, packed: Sequence["Pack"] = (), log: bool = False, kinds: bool = False
) -> Iterator[tuple[slice, Beliefs]]:
    """All candidates, looked at for what these targets ask, as many at a time as `PART_BYTES` hold."""
    kinds = kinds or any(pack.joint or pack.votes for pack in packed)
    most = max(1, PART_BYTES // (probs.shape[1] * probs.shape[2] * probs.itemsize))
    for span in spans(len(probs), most):
        yield span, beliefs("probs", probs, span, probs.dtype, kinds=kinds, log=log)


def _each_chunk(inputs: np.ndarray, count: int, job: Callable[[slice], None]) -> None:
    """Call `job(span)` for chunks of `count` inputs like these, in threads."""
    workers = threads()
    most = max(1, CHUNK_BYTES * len(inputs) // max(1, inputs.nbytes))
    chunks = list(spans(count, max(1, min(most, -(-count // (4 * workers))))))
    if workers == 1 or len(chunks) == 1:
        for span in chunks:
            job(span)
        return
    with ThreadPoolExecutor(workers) as pool:
        try:
            list(pool.map(job, chunks))
        except BaseException:  # also Ctrl-C: leave the chunks not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# ---- targets ---------------------------------------------------------------------------------------------------------


class PackedTargets(NamedTuple):
    """Consecutive targets as the loop wants them: in blocks of m, the last one padded with targets of no weight."""

    span: slice  # which of all targets these are
    centred: bool  # for u; or for t, because some of these are strong
    columns: np.ndarray  # [blocks, panels, k, width]  class after class
    share: np.ndarray  # [blocks, c, m]  p(y*), the most probable class last
    inverse: np.ndarray  # [blocks, m]  1 / p(y*) of the most probable class
    weights: np.ndarray  # [blocks, m]  they sum to one over all targets

    def blocks(self, run: slice) -> "PackedTargets":
        """Some consecutive blocks, nothing copied."""
        size = self.weights.shape[1]
        start, stop = (self.span.start + block * size for block in (run.start, run.stop))
        span = slice(start, min(stop, self.span.stop))
        return PackedTargets(span, self.centred, *(array[run] for array in self[2:]))


class VoteTargets(NamedTuple):
    """Consecutive targets whose draws are votes, as the loop that counts wants them: some blocks to a chunk of M."""

    f: np.ndarray  # [k + 1]  n log n, in whole units
    rises: np.ndarray  # [k]  f(n + 1) - f(n)
    unit: float  # 1 / (k units)
    bits: np.ndarray  # [chunks, c, words, M]  the draws that vote for a class
    cells: np.ndarray  # [chunks, k, M]  where a draw's vote is counted
    counts: np.ndarray  # [chunks, M]  votes for the first class
    own: np.ndarray  # [chunks, M]  sum_y* f(n(y*))
    weights: np.ndarray  # [chunks, blocks, m]


class Pack(NamedTuple):
    """The same targets in each form that some candidates need."""

    centred: PackedTargets
    joint: PackedTargets | None  # for strong candidates, where some targets are strong
    votes: VoteTargets | None  # for candidates that are votes, where all targets are


def packs(
    target_probs: np.ndarray, weights: np.ndarray | None, dtype: Any, *, log: bool = False, most: int | None = None
) -> Iterator[Pack]:
    """All targets, packed: as many blocks at a time as `PACK_BYTES` hold, and at most `most`.

    How targets fall into blocks depends on m and c alone, and blocks are added up in order, so scores do not depend, to
    the bit, on how many blocks are done at a time.
    """
    m, draws, classes = target_probs.shape
    size = block_size(m, classes)
    fitting = max(1, PACK_BYTES // (2 * size * classes * draws * np.dtype(dtype).itemsize))
    w = np.full(m, 1 / m) if weights is None else weights
    for span in spans(m, size * min(fitting, most or fitting)):
        seen = beliefs("target_probs", target_probs, span, dtype, kinds=True, log=log)
        kinds = [seen.kinds[part] for part in spans(len(seen.kinds), size)]
        # Float64 has digits to spare: there the centred form serves all.
        strong = [bool((each & IS_STRONG).any()) and dtype == np.float32 for each in kinds]
        counted = [bool((each & IS_VOTES).all()) for each in kinds]
        targets = _packed(seen, w[span], span, size, True)
        joint = _packed(seen, w[span], span, size, False) if any(strong) else targets
        for run in _runs(list(zip(strong, counted, strict=True))):
            some = targets.blocks(run)
            ours = np.arange(some.span.start, some.span.stop) - span.start
            yield Pack(
                some,
                joint.blocks(run) if strong[run.start] else None,
                _vote_targets(_codes(seen.probs, ours), classes, w[some.span], size) if counted[run.start] else None,
            )


def _runs(flags: Sequence[Any]) -> list[slice]:
    """The slices in which neighbouring flags are equal."""
    starts = [0, *(i for i in range(1, len(flags)) if flags[i] != flags[i - 1]), len(flags)]
    return [slice(a, b) for a, b in pairwise(starts)]


def _ceil_to(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _packed(seen: Beliefs, weights: np.ndarray, span: slice, size: int, centred: bool) -> PackedTargets:
    """The targets in blocks of `size`."""
    (count, draws, classes), dtype = seen.probs.shape, seen.probs.dtype
    blocks, width = -(-count // size), panel_width(dtype)
    panels = -(-epig.target_classes(classes, centred) * size // width)
    columns, share = np.zeros((blocks, panels, draws, width), dtype), np.zeros((blocks, classes, size), dtype)
    inverse, w = np.zeros((blocks, size), dtype), np.zeros((blocks, size))
    share[:, -1] = 1  # of what a block is filled up with: sure targets, of no weight
    for block, part in enumerate(spans(count, size)):
        w[block, : part.stop - part.start] = weights[part]
        packed = (columns[block], share[block], inverse[block])
        epig.pack_block(seen.probs[part], seen.means[part], centred, *packed)
    return PackedTargets(span, centred, columns, share, inverse, w)


def _codes(probs: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The classes that the draws of `probs[index]` vote for, [n, k]."""
    codes = np.empty((len(index), probs.shape[1]), code_type(probs.shape[2]))
    counting.codes_of(probs, index, codes)
    return codes


def _vote_targets(codes: np.ndarray, classes: int, weights: np.ndarray, size: int) -> VoteTargets:
    """Targets `codes [m, k]` in blocks of `size`, as many blocks to a chunk as are counted fastest."""
    count, draws = codes.shape
    blocks = min(-(-count // size), max(1, min(MOST_TARGETS, CELLS // classes) // size))
    chunks, (f, one) = -(-count // (blocks * size)), vote_logs(draws)
    w = np.zeros((chunks, blocks, size))
    w.reshape(-1)[:count] = weights
    bits = np.empty((chunks, classes, -(-draws // counting.WORD), blocks * size), np.uint64)
    cells, own = np.empty((chunks, draws, blocks * size), np.uint16), np.empty((chunks, blocks * size), np.int64)
    counts = np.empty((chunks, blocks * size), np.uint32)
    counting.pack(codes, f, bits, cells, counts, own)
    return VoteTargets(f, np.diff(f), 1 / (draws * one), bits, cells, counts, own, w)


def vote_packs(votes: Votes, weights: np.ndarray) -> Iterator[tuple[slice, VoteTargets]]:
    """(which they are, targets), all of them, as many at a time as `PACK_BYTES` hold."""
    m, draws, classes = votes.shape
    size = block_size(m, classes)
    fitting = max(1, PACK_BYTES // (size * draws * (2 + classes // 8)))
    for span in spans(m, size * fitting):
        yield span, _vote_targets(votes.codes[span], classes, weights[span], size)


# ---- scores ----------------------------------------------------------------------------------------------------------


def add_scores(
    candidates: Beliefs, packed: Sequence[Pack], scores: np.ndarray, *, index: np.ndarray | None = None
) -> None:
    """scores[i] += sum_j w_j I(y_i; y*_j) over the packed targets, for float64 `scores [n]`.

    With `index` for those candidates only: `scores[i]` is that of candidate `index[i]`.
    """
    no_pairs = np.empty((0, 0, 0), candidates.probs.dtype)

    def add(pack: Pack, targets: PackedTargets | VoteTargets, rows: np.ndarray, places: np.ndarray) -> None:
        found = scores[places]
        _score(candidates, targets, rows, found, no_pairs)
        scores[places] = found

    _by_kind(candidates, packed, add, index)


def fill_pairs(candidates: Beliefs, packed: Sequence[Pack], pairs: np.ndarray) -> None:
    """pairs[i, j] = I(y_i; y*_j) for the packed targets and all candidates, for `pairs [n, m]` of all targets."""

    def fill(pack: Pack, targets: PackedTargets | VoteTargets, rows: np.ndarray, places: np.ndarray) -> None:
        shape = targets.own.shape if isinstance(targets, VoteTargets) else targets.weights.shape
        found = np.empty((len(rows), *shape), pairs.dtype)
        _score(candidates, targets, rows, np.empty(0), found)
        span = pack.centred.span
        pairs[places, span] = found.reshape(len(rows), -1)[:, : span.stop - span.start]

    _by_kind(candidates, packed, fill)


def _score(
    candidates: Beliefs, targets: PackedTargets | VoteTargets, rows: np.ndarray, scores: np.ndarray, pairs: np.ndarray
) -> None:
    """Add to the scores of some candidates or, if `pairs` is not empty, fill that."""
    if isinstance(targets, VoteTargets):
        counting.score(_codes(candidates.probs, rows), *targets, scores, pairs)
    else:
        epig.score(*candidates[:2], rows, *targets[1:], scores, pairs)


def vote_counts(votes: Votes) -> np.ndarray:
    """How many draws vote for each class, `[n, c]`."""
    counts, codes = np.empty((len(votes), votes.classes), np.int64), np.ascontiguousarray(votes.codes)
    _each_chunk(codes, len(votes), lambda span: counting.count(codes[span], counts[span]))
    return counts


def add_vote_scores(votes: Votes, targets: VoteTargets, scores: np.ndarray) -> None:
    """scores[i] += sum_j w_j I(y_i; y*_j) over these targets, for float64 `scores [n]`."""
    no_pairs = np.empty((0, 0, 0), np.float32)

    def add(span: slice) -> None:
        counting.score(votes.codes[span], *targets, scores[span], no_pairs)

    _each_chunk(votes.codes, len(votes), add)


def vote_pairs(votes: Votes, targets: VoteTargets) -> np.ndarray:
    """I(y_i; y*_j) of these targets and what they are filled up with, float32 [n, chunks M]."""
    pairs = np.empty((len(votes), *targets.own.shape), np.float32)

    def fill(span: slice) -> None:
        counting.score(votes.codes[span], *targets, np.empty(0), pairs[span])

    _each_chunk(votes.codes, len(votes), fill)
    return pairs.reshape(len(votes), -1)


def counted(candidates: Beliefs, packed: Sequence[Pack]) -> np.ndarray:
    """Whether a candidate is scored by counting votes alone, as [n]: that costs less than a bound would."""
    if any(pack.votes is None for pack in packed):
        return np.zeros(len(candidates.probs), bool)
    found: np.ndarray = (candidates.kinds & IS_VOTES) > 0
    return found


def _by_kind(
    candidates: Beliefs,
    packed: Sequence[Pack],
    kernel: Callable[[Pack, PackedTargets | VoteTargets, np.ndarray, np.ndarray], None],
    index: np.ndarray | None = None,
) -> None:
    """`kernel(pack, targets, rows, places)` in threads, each candidate with the targets in the form that it needs."""
    rows = np.arange(len(candidates.probs)) if index is None else index

    def job(span: slice) -> None:
        places = np.arange(span.start, span.stop)
        for pack in packed:
            left = places
            for targets, kind in ((pack.votes, IS_VOTES), (pack.joint, IS_STRONG)):
                if targets is not None and len(left):
                    chosen = (candidates.kinds[rows[left]] & kind) > 0
                    if chosen.any():
                        kernel(pack, targets, rows[left[chosen]], left[chosen])
                    left = left[~chosen]
            if len(left):
                kernel(pack, pack.centred, rows[left], left)

    _each_chunk(candidates.probs, len(rows), job)


def bald(candidates: Beliefs) -> np.ndarray:
    """BALD as float64 [n]. Draws that are votes have no entropy of their own: it is that of their mean."""
    scores = np.empty(len(candidates.probs))

    def job(span: slice) -> None:
        epig.bald(candidates.probs[span], candidates.means[span], scores[span])

    if len(candidates.kinds) and (candidates.kinds & IS_VOTES).all():
        return entropy(candidates.means)
    _each_chunk(candidates.probs, len(scores), job)
    votes = np.flatnonzero(candidates.kinds & IS_VOTES)
    scores[votes] = entropy(candidates.means[votes])
    return scores


def forms(candidates: Beliefs, gram: np.ndarray, *, index: np.ndarray | None = None) -> np.ndarray:
    """(sum_kl A_kl G_kl, sum_k A_kk G_kk, sum_k A_kk) for symmetric `gram [k, k]`, as [n, 3].

    A_kl = sum_y (p_k(y) - p(y)) (p_l(y) - p(y)) / p(y). With `index` for those candidates only.
    """
    rows = np.arange(len(candidates.probs)) if index is None else index
    packed = _panels(gram, candidates.probs.dtype, panel_width(candidates.probs.dtype))
    out, diagonal = np.empty((len(rows), 3)), np.diagonal(gram).astype(np.float64)

    def job(span: slice) -> None:
        epig.forms(*candidates[:2], rows[span], packed, diagonal, out[span])

    _each_chunk(candidates.probs, len(rows), job)
    return out


def sketch_rank(classes: int, draws: int) -> int:
    """How many vectors a sketch takes: more where draws are many; few for two classes, where scores are cheap."""
    return 8 if classes == 2 else 16 * min(4, -(-draws // 128))


def sketch(candidates: Beliefs, vectors: np.ndarray, *, index: np.ndarray) -> np.ndarray:
    """(sum_kl A_kl (V V^T)_kl, sum_k A_kk) for `vectors` V `[k, sketch_rank]`, as [n, 2]: some of `forms`, cheaper."""
    dtype, (_, draws, classes) = candidates.probs.dtype, candidates.probs.shape
    packed, out, width = _panels(vectors, dtype, ROWS), np.empty((len(index), 2)), panel_width(dtype)

    def job(span: slice) -> None:
        columns = np.zeros((_ceil_to(max(classes, TOGETHER), width) // width, draws, width), dtype)
        epig.sketch(*candidates[:2], index[span], packed, columns, out[span])

    _each_chunk(candidates.probs, len(index), job)
    return out


def _panels(matrix: np.ndarray, dtype: Any, width: int) -> np.ndarray:
    """A matrix [k, columns] as [panels, k, width], filled up with zeros."""
    draws, columns = matrix.shape
    filled = np.zeros((draws, _ceil_to(columns, width)), dtype)
    filled[:, :columns] = matrix
    return np.ascontiguousarray(filled.reshape(draws, -1, width).swapaxes(0, 1))
