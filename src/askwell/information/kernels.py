"""The hot loop: the information between the labels of all candidates and all targets, on the processor's cache.

Everything askwell does waits for one computation, so this file and `vectors.py` are written for the machine. They are
the only ones that know numba, and are loaded by the first score, not by `import askwell`.

How it goes. With draws k = 1..K write s(y) = sum_k p_k(y) and d_k(y) = p_k(y) - s(y) / K. For a candidate and a target

    J(y, y*) = sum_k p_k(y) p*_k(y*) = K p(y, y*),    Q(y, y*) = s(y) s*(y*) / K = K p(y) p(y*),
    D(y, y*) = sum_k d_k(y) d*_k(y*) = J - Q,         I(y; y*) = sum Q phi(D / Q) / K,   phi(u) = (1 + u) log(1 + u) - u.

- D is a matrix product of *centred* numbers and phi(u) ~ u^2 / 2, so a small score is not the difference of large ones:
  no term is negative, and float32 keeps the relative precision of scores of 1e-9 nats.
- D sums to zero over y and over y*. So where classes are few the most probable one of every input is left out of the
  product and follows by subtraction: (c - 1)^2 of c^2 products. It is the largest, so the subtraction loses nothing.
- Where draws are nearly sure and disagree ("strong" inputs: votes of trees), many cells of the joint table are nearly
  empty, and 1 + D / Q, nearly 0, keeps few digits in float32. If both a candidate and a target are strong, J itself is
  the product: a sum of positive numbers, precise to its last digits.
- Each number of J or D is made by the same sequence of fused multiply-adds wherever it stands. Equal inputs get equal
  scores, to the bit, whatever the chunk, the thread or the neighbours.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from askwell.arrays import SUM_TOLERANCE, spans, threads, value_fault
from askwell.information.vectors import (
    LANES,
    ROWS,
    add_centred_terms,
    add_divergence_terms,
    add_joint_terms,
    add_product,
    address,
    panel_width,
)

__all__ = ["Targets", "add_scores", "bald", "fill_pairs", "forms", "gram", "packs"]

WIDE = 2 * LANES  # places in one step where there is room: two vectors in flight hide each other's waiting
DEPTH = 64  # draws added up before a partial sum is put aside: keeps the rounding of long sums small
TILE_BYTES = 256 << 10  # of D at a time, half of a usual second-level cache
PACK_BYTES = 8 << 20  # of targets prepared at a time
COLUMNS = 1024  # of D for one block of targets ...
MOST_TARGETS = 128  # ... and the most targets in one
FEW = 16  # terms added up in float32; up to as many classes, one is left out of the product
CHUNK = 512  # candidates handed to a thread at a time
FAINT = 1 / 32  # a draw gives a class up where its probability is below this share of the mean ...
STRONG = 0.05  # ... and an input is strong if draws give up, on average, a class drawn from the mean this often

JIT: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}


# ---- from probabilities to centred rows and columns --------------------------------------------------------------


@njit(**JIT)
def _sums(p, tolerance, partial, sums):
    """s(y) = sum_k p_k(y) for one input's `p [k, c]`; False if a row is not a distribution. `partial [4, c]` is scratch."""
    partial[:] = 0.0
    sound = True
    for k in range(p.shape[0]):
        row = 0.0
        for y in range(p.shape[1]):
            value = np.float64(p[k, y])
            sound &= value >= 0
            row += value
            partial[k & 3, y] += value  # four sums: the next addition need not wait for the last
        sound &= abs(row - 1.0) <= tolerance
    for y in range(p.shape[1]):
        sums[y] = (partial[0, y] + partial[1, y]) + (partial[2, y] + partial[3, y])
    return sound


@njit(**JIT)
def _largest_last(sums, order):
    """order = the classes with the one of the largest sum moved to the end."""
    largest = 0
    for y in range(sums.shape[0]):
        order[y] = y
        if sums[y] > sums[largest]:
            largest = y
    order[largest] = sums.shape[0] - 1
    order[sums.shape[0] - 1] = largest


@njit(**JIT)
def _is_strong(p, sums):
    """Whether sum_y p(y) share_k[p_k(y) < FAINT p(y)] > STRONG for one input's `p [k, c]`.

    Cells of a joint table with p(y, y*) < FAINT / 2 p(y) p(y*) hold at most twice this sum, of either input, of all
    p(y) p(y*): where one input is not strong there are few.
    """
    draws, found = p.shape[0], 0.0
    for k in range(draws):
        for y in range(p.shape[1]):
            found += sums[y] if p[k, y] * draws < FAINT * sums[y] else 0.0
    return found > STRONG * draws**2


@njit(**JIT)
def _kept(classes, centred):
    """How many classes of an input are packed: all, or all but the most probable."""
    return classes - 1 if centred and classes <= FEW else classes


@njit(**JIT)
def _pack(p, sums, order, centred, first, apart, packed):
    """Write one input into `packed [groups, k, width]`: d_k(y) if centred, else p_k(y), as vector `first + apart y`."""
    draws, width = p.shape[0], packed.shape[2]
    for y in range(_kept(p.shape[1], centred)):
        group, lane = divmod(first + apart * y, width)
        source = order[y]
        mean = sums[source] / draws if centred else 0.0
        for k in range(draws):
            packed[group, k, lane] = p[k, source] - mean


@njit(**JIT)
def _pack_block(probs, tolerance, centred, columns, share, inverse, strong):
    """Pack one block of targets `probs [<= m, k, c]`; the index of the first that is no distribution, or -1."""
    classes, m = share.shape
    partial, sums, order = np.empty((4, classes)), np.empty(classes), np.empty(classes, np.intp)
    for j in range(probs.shape[0]):
        if not _sums(probs[j], tolerance, partial, sums):
            return j
        strong[j] = _is_strong(probs[j], sums)
        _largest_last(sums, order)
        _pack(probs[j], sums, order, centred, j, m, columns)
        for y in range(classes):
            share[y, j] = sums[order[y]]
            inverse[y, j] = 1 / sums[order[y]] if sums[order[y]] > 0 else 0.0
    return -1


@njit(**JIT)
def _pack_tile(probs, tolerance, centred, sums, order, rows):
    """Pack a tile of candidates `probs [<= step, k, c]` into `rows`; the first that is no distribution, or -1."""
    partial = np.empty((4, probs.shape[2]))
    for i in range(probs.shape[0]):
        if not _sums(probs[i], tolerance, partial, sums[i]):
            return i
        _largest_last(sums[i], order[i])
        _pack(probs[i], sums[i], order[i], centred, i * _kept(probs.shape[2], centred), 1, rows)
    return -1


@njit(**JIT)
def _find_strong(probs, tolerance, strong):
    """strong[i] for candidates `probs [n, k, c]`; the first that is no distribution, or -1."""
    partial, sums = np.empty((4, probs.shape[2])), np.empty(probs.shape[2])
    for i in range(probs.shape[0]):
        if not _sums(probs[i], tolerance, partial, sums):
            return i
        strong[i] = _is_strong(probs[i], sums)
    return -1


# ---- from packed numbers to information ------------------------------------------------------------------------------


@njit(**JIT)
def _product(rows, columns, groups, out):
    """out[groups * ROWS, panels * width] = the products of packed rows and columns, summed over draws."""
    panels, draws, width = columns.shape
    stride = panels * width
    out[: groups * ROWS] = 0
    for panel in range(panels):
        for group in range(groups):
            for k in range(0, draws, DEPTH):
                add_product(
                    address(rows, (group * draws + k) * ROWS),
                    address(columns, (panel * draws + k) * width),
                    address(out, group * ROWS * stride + panel * width),
                    min(DEPTH, draws - k),
                    stride,
                )


@njit(**JIT)
def _add_centred(lanes, d, at, q, r, share, inverse, z, right, total, work, j):
    """Terms of class z of targets j, j + 1, ...; `right` and `total` are rows of `work`, `below` is row z."""
    m = share.shape[1]
    add_centred_terms(
        lanes,
        address(d, at + j),
        q,
        r,
        address(share, z * m + j),
        address(inverse, z * m + j),
        address(work, right * m + j),
        address(work, z * m + j),
        address(work, total * m + j),
    )


@njit(**JIT)
def _add_centred_row(d, at, q, r, share, inverse, z, right, total, work):
    """The same for all m targets, D from flat offset `at` of `d`."""
    m = share.shape[1]
    even = m // WIDE * WIDE
    for j in range(0, even, WIDE):
        _add_centred(WIDE, d, at, q, r, share, inverse, z, right, total, work, j)
    if even < m:
        _add_centred(LANES, d, at, q, r, share, inverse, z, right, total, work, even)


@njit(**JIT)
def _add_joint(lanes, d, at, q, r, share, inverse, z, total, work, j):
    """Terms of class z of targets j, j + 1, ... from J, into row `total` of `work`."""
    m = share.shape[1]
    add_joint_terms(
        lanes,
        address(d, at + j),
        q,
        r,
        address(share, z * m + j),
        address(inverse, z * m + j),
        address(work, total * m + j),
    )


@njit(**JIT)
def _add_joint_row(d, at, q, r, share, inverse, z, total, work):
    """The same for all m targets, J from flat offset `at` of `d`."""
    m = share.shape[1]
    even = m // WIDE * WIDE
    for j in range(0, even, WIDE):
        _add_joint(WIDE, d, at, q, r, share, inverse, z, total, work, j)
    if even < m:
        _add_joint(LANES, d, at, q, r, share, inverse, z, total, work, even)


@njit(**JIT)
def _pair_information(d, first, sums, order, draws, centred, share, inverse, work, pairs):
    """pairs[j] = sum_(y, y*) Q phi(D / Q) / K = I(y; y*_j) of one candidate.

    Row `first + y` of `d` has D(y, y*_j), or J where not centred, at column y* m + j; `share, inverse [c, m]` are s* and
    1 / s*. The scratch `work [c + 3, m]` keeps D of the left-out y (rows to c), of the left-out y* (c), what nobody reads
    (c + 1), and a sum (c + 2).
    """
    classes, m = share.shape
    kept, right, unread, total = _kept(classes, centred), classes, classes + 1, classes + 2
    work[:] = 0
    pairs[:] = 0
    for y in range(classes):
        s = sums[order[y]] / draws
        q, r = work.dtype.type(s), work.dtype.type(1 / s if s > 0 else 0.0)
        work[right] = 0
        for z in range(classes):
            if z % FEW == 0:  # few terms are added in float32, their sums in float64: c^2 of them lose no digits
                work[total] = 0
            at = (first + y) * d.shape[1] + z * m
            if not centred:
                _add_joint_row(d, at, q, r, share, inverse, z, total, work)
            elif y == kept:
                _add_centred_row(work, z * m, q, r, share, inverse, z, unread, total, work)
            elif z == kept:
                _add_centred_row(work, right * m, q, r, share, inverse, z, unread, total, work)
            else:
                _add_centred_row(d, at, q, r, share, inverse, z, right, total, work)
            if z % FEW == FEW - 1 or z == classes - 1:
                for j in range(m):
                    pairs[j] += work[total, j]
    for j in range(m):
        pairs[j] /= draws


@njit(**JIT)
def _tile_step(n, rows, bytes_per_row):
    """How many candidates make a tile of about `TILE_BYTES`, their rows filling whole register tiles where they can."""
    step = max(1, TILE_BYTES // (bytes_per_row * rows))
    while step * rows % ROWS and step * rows > ROWS and step < n:
        step += 1
    return min(n, step)


@njit(**JIT)
def _score(probs, tolerance, centred, columns, share, inverse, weights, scores, pairs):
    """Add sum_j w_j I(y; y*_j) to `scores [n]`; if `pairs [n, blocks, m]` is not empty write I(y; y*_j) there instead.

    The targets come in blocks, as in `Targets`. Returns the first candidate that is no distribution, or -1.
    """
    n, draws, classes = probs.shape
    blocks, panels, _, width = columns.shape
    m, count = share.shape[2], _kept(classes, centred)
    step = _tile_step(n, count, probs.itemsize * panels * width)
    rows = np.zeros(((step * count + ROWS - 1) // ROWS, draws, ROWS), probs.dtype)
    d = np.empty((rows.shape[0] * ROWS, panels * width), probs.dtype)
    sums, order = np.empty((step, classes)), np.empty((step, classes), np.intp)
    work, found = np.empty((classes + 3, m), probs.dtype), np.empty(m)
    for start in range(0, n, step):
        tile = probs[start : start + step]
        fault = _pack_tile(tile, tolerance, centred, sums, order, rows)
        if fault >= 0:
            return start + fault
        for block in range(blocks):
            _product(rows, columns[block], (tile.shape[0] * count + ROWS - 1) // ROWS, d)
            for i in range(tile.shape[0]):
                _pair_information(
                    d, i * count, sums[i], order[i], draws, centred, share[block], inverse[block], work, found
                )
                if pairs.size:
                    pairs[start + i, block] = found
                else:
                    score = 0.0
                    for j in range(m):
                        score += weights[block, j] * found[j]
                    scores[start + i] += score
    return -1


@njit(**JIT)
def _bald(probs, tolerance, scores):
    """BALD(x) = K^-1 sum_(y, k) p(y) phi(d_k(y) / p(y))."""
    n, draws, classes = probs.shape
    m = (draws + LANES - 1) // LANES * LANES
    partial, sums, work = np.empty((4, classes)), np.empty(classes), np.zeros((3, m), probs.dtype)
    for i in range(n):
        if not _sums(probs[i], tolerance, partial, sums):
            return i
        work[2] = 0
        for y in range(classes):
            q = sums[y] / draws
            for k in range(draws):
                work[0, k], work[1, k] = probs[i, k, y], probs[i, k, y] - q
            work[0, draws:] = q  # the padding has d = 0, so it adds nothing
            q, r = work.dtype.type(q), work.dtype.type(1 / q if q > 0 else 0.0)
            for j in range(0, m, LANES):
                add_divergence_terms(LANES, address(work, j), address(work, m + j), q, r, address(work, 2 * m + j))
        scores[i] = 0
        for k in range(draws):
            scores[i] += work[2, k] / draws
    return -1


@njit(**{**JIT, "fastmath": {"contract", "nsz", "reassoc"}})
def _dots(d, v, diagonal):
    """(sum_k d v, sum_k d^2 diagonal, sum_k d^2)."""
    full, weighted, plain = 0.0, 0.0, 0.0
    for k in range(d.shape[0]):
        full += d[k] * v[k]
        weighted += d[k] * d[k] * diagonal[k]
        plain += d[k] * d[k]
    return full, weighted, plain


@njit(**JIT)
def _forms(probs, tolerance, columns, diagonal, out):
    """(sum_kl A_kl G_kl, sum_k A_kk G_kk, sum_k A_kk) of every candidate, A_kl = sum_y d_k(y) d_l(y) / p(y).

    `columns [panels, k, width]` is the symmetric G, packed, `diagonal [k]` its diagonal, `out [n, 3]`.
    """
    n, draws, classes = probs.shape
    count, width = _kept(classes, True), columns.shape[0] * columns.shape[2]
    step = _tile_step(n, count, probs.itemsize * width)
    rows = np.zeros(((step * count + ROWS - 1) // ROWS, draws, ROWS), probs.dtype)
    product = np.empty((rows.shape[0] * ROWS, width), probs.dtype)
    sums, order = np.empty((step, classes)), np.empty((step, classes), np.intp)
    d, v, left_out = np.empty(draws), np.empty(draws), np.empty((2, draws))
    for start in range(0, n, step):
        tile = probs[start : start + step]
        fault = _pack_tile(tile, tolerance, True, sums, order, rows)
        if fault >= 0:
            return start + fault
        _product(rows, columns, (tile.shape[0] * count + ROWS - 1) // ROWS, product)
        for i in range(tile.shape[0]):
            out[start + i], left_out[:] = 0, 0
            for y in range(classes):
                if y < count:
                    group, lane = divmod(i * count + y, ROWS)
                    for k in range(draws):
                        d[k], v[k] = rows[group, k, lane], product[i * count + y, k]
                        left_out[0, k] -= d[k]
                        left_out[1, k] -= v[k]
                else:
                    d[:], v[:] = left_out[0], left_out[1]
                full, weighted, plain = _dots(d, v, diagonal)
                share = sums[i, order[i, y]] / draws
                if share > 0:
                    out[start + i, 0] += full / share
                    out[start + i, 1] += weighted / share
                    out[start + i, 2] += plain / share
    return -1


@njit(**JIT)
def _scaled(probs, tolerance, weights, out):
    """sqrt(w_j) (p_k(y) - p(y)) / sqrt(p(y)) of targets `probs [m, k, c]` into `out [k, m, c]`; the first fault, or -1."""
    m, draws, classes = probs.shape
    partial, sums = np.empty((4, classes)), np.empty(classes)
    for j in range(m):
        if not _sums(probs[j], tolerance, partial, sums):
            return j
        for y in range(classes):
            share = sums[y] / draws
            scale = np.sqrt(weights[j] / share) if share > 0 else 0.0
            for k in range(draws):
                out[k, j, y] = scale * (probs[j, k, y] - share)
    return -1


# ---- the door --------------------------------------------------------------------------------------------------------


class Targets(NamedTuple):
    """Consecutive targets as the loop wants them: in blocks of m, the last one padded with targets of no weight."""

    span: slice  # which of all targets these are
    centred: bool  # d*, the most probable class left out; or p*, because some of these are strong
    columns: np.ndarray  # [blocks, panels, k, width]  class after class
    share: np.ndarray  # [blocks, c, m]  s*
    inverse: np.ndarray  # [blocks, c, m]  1 / s*
    weights: np.ndarray  # [blocks, m]  they sum to one over all targets


def packs(
    target_probs: np.ndarray, weights: np.ndarray | None, dtype: Any, *, log: bool = False, most: int | None = None
) -> Iterator[tuple[Targets, ...]]:
    """All targets, packed: as many blocks at a time as `PACK_BYTES` hold, and at most `most`.

    Each item is a pack for every candidate, or two: the centred one, and the joint one for strong candidates. How targets
    fall into blocks depends on m and c alone, and blocks are added up in order, so scores do not depend, to the bit,
    on how many blocks are done at a time.
    """
    m, draws, classes = target_probs.shape
    size = _block_size(m, classes)
    fitting = max(1, PACK_BYTES // (2 * size * classes * draws * np.dtype(dtype).itemsize))
    w = np.full(m, 1 / m) if weights is None else weights
    for span in spans(m, size * min(fitting, most or fitting)):
        probs = _plain(target_probs[span], dtype, log)
        centred, strong = _packed(probs, w[span], span, size, True)
        yield (centred, _packed(probs, w[span], span, size, False)[0]) if strong else (centred,)


def _block_size(m: int, classes: int) -> int:
    """How many targets make a block: about equally many in each, a multiple of LANES."""
    most = min(MOST_TARGETS, max(LANES, COLUMNS // classes))
    return _ceil_to(-(-m // -(-m // most)), LANES)


def _ceil_to(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _packed(probs: np.ndarray, weights: np.ndarray, span: slice, size: int, centred: bool) -> tuple[Targets, bool]:
    """The targets `probs` in blocks of `size`, and whether any of them is strong."""
    (count, draws, classes), dtype = probs.shape, probs.dtype
    blocks, width = -(-count // size), panel_width(dtype)
    panels = -(-_kept(classes, centred) * size // width)
    columns, share = np.zeros((blocks, panels, draws, width), dtype), np.zeros((blocks, classes, size), dtype)
    inverse, padded, strong = np.zeros_like(share), np.zeros(blocks * size), np.zeros(size, bool)
    padded[:count] = weights
    for block, part in enumerate(spans(count, size)):
        fault = _pack_block(
            probs[part], SUM_TOLERANCE[str(dtype)], centred, columns[block], share[block], inverse[block], strong
        )
        if fault >= 0:
            raise ValueError(_words("target_probs", probs[part.start + fault], span.start + part.start + fault))
    targets = Targets(span, centred, columns, share, inverse, padded.reshape(blocks, size))
    return targets, bool(strong.any()) and dtype == np.float32


def _words(name: str, p: np.ndarray, index: int) -> str:
    fault = value_fault(name, p[None], offset=index)
    return fault or f"{name}[{index}] must hold probabilities that sum to one over classes."


def _plain(part: np.ndarray, dtype: Any, log: bool) -> np.ndarray:
    return np.ascontiguousarray(np.exp(part) if log else part, dtype)


def add_scores(
    probs: np.ndarray,
    pack: tuple[Targets, ...],
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
        fault = _score(part, tolerance, *targets[1:], found, no_pairs)
        scores[rows] = found
        return int(fault)

    _each_chunk(probs, log, _by_strength(pack, add), index)


def fill_pairs(probs: np.ndarray, pack: tuple[Targets, ...], pairs: np.ndarray, *, log: bool = False) -> None:
    """pairs[i, j] = I(y_i; y*_j) for the packed targets, for `probs [n, k, c]` and `pairs [n, m]` of all targets."""
    blocks, size = pack[0].weights.shape
    span = pack[0].span

    def fill(part: np.ndarray, tolerance: float, targets: Targets, rows: Any) -> int:
        found = np.empty((len(part), blocks, size), probs.dtype)
        fault = _score(part, tolerance, *targets[1:], np.empty(0), found)
        pairs[rows, span] = found.reshape(-1, blocks * size)[:, : span.stop - span.start]
        return int(fault)

    _each_chunk(probs, log, _by_strength(pack, fill))


def _by_strength(
    pack: tuple[Targets, ...], kernel: Callable[[np.ndarray, float, Targets, Any], int]
) -> Callable[[np.ndarray, float, slice], int]:
    """A kernel for chunks that gives each candidate the targets in its form: centred, or joint if both are strong."""

    def run(part: np.ndarray, tolerance: float, span: slice) -> int:
        if len(pack) == 1:
            return kernel(part, tolerance, pack[0], span)
        strong = np.empty(len(part), bool)
        fault = int(_find_strong(part, tolerance, strong))
        if fault >= 0:
            return fault
        for targets, chosen in zip(pack, (~strong, strong), strict=True):
            if chosen.all():
                kernel(part, tolerance, targets, span)
            elif chosen.any():
                kernel(part[chosen], tolerance, targets, span.start + np.flatnonzero(chosen))
        return -1

    return run


def bald(probs: np.ndarray, *, log: bool = False) -> np.ndarray:
    """BALD of `probs [n, k, c]` as float64 [n]."""
    scores = np.empty(len(probs))
    _each_chunk(probs, log, lambda part, tolerance, span: _bald(part, tolerance, scores[span]))
    return scores


def gram(target_probs: np.ndarray, weights: np.ndarray, *, log: bool = False) -> np.ndarray:
    """G_kl = sum_j w_j sum_y (p_k(y) - p(y)) (p_l(y) - p(y)) / p(y) of `target_probs [m, k, c]`, as float64 [k, k]."""
    m, draws, classes = target_probs.shape
    total = np.zeros((draws, draws))
    for span in spans(m, max(1, PACK_BYTES // (8 * draws * classes))):
        part = _plain(target_probs[span], target_probs.dtype, log)
        rows = np.empty((draws, len(part), classes))
        fault = _scaled(part, SUM_TOLERANCE[str(part.dtype)], weights[span], rows)
        if fault >= 0:
            raise ValueError(_words("target_probs", part[fault], span.start + fault))
        rows = rows.reshape(draws, -1)  # [k, m*c]
        total += rows @ rows.T
    return total


def forms(probs: np.ndarray, gram: np.ndarray, *, log: bool = False, index: np.ndarray | None = None) -> np.ndarray:
    """(sum_kl A_kl G_kl, sum_k A_kk G_kk, sum_k A_kk) as float64 [n, 3] for `probs [n, k, c]` and symmetric `gram [k, k]`.

    A_kl = sum_y (p_k(y) - p(y)) (p_l(y) - p(y)) / p(y). With `index` for those candidates only.
    """
    draws, width = len(gram), panel_width(probs.dtype)
    columns = np.zeros((draws, _ceil_to(draws, width)), probs.dtype)
    columns[:, :draws] = gram
    packed = np.ascontiguousarray(columns.reshape(draws, -1, width).swapaxes(0, 1))  # [panels, k, width]
    out = np.empty((len(probs) if index is None else len(index), 3))
    diagonal = np.diagonal(gram).astype(np.float64)
    _each_chunk(probs, log, lambda part, tolerance, span: _forms(part, tolerance, packed, diagonal, out[span]), index)
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
        fault = kernel(part, tolerance, span)
        if fault >= 0:
            place = span.start + fault
            raise ValueError(_words("probs", part[fault], place if index is None else int(index[place])))

    count, workers = len(probs) if index is None else len(index), threads()
    chunks = list(spans(count, min(CHUNK, max(16, -(-count // (4 * workers))))))
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
