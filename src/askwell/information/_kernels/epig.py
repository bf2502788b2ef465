"""The hot loop: the information between the labels of all candidates and all targets, on the processor's cache.

Everything askwell does waits for one computation, so this file is written for the machine: in plain loops that numba
turns into vectors, around one matrix product (`product.py`). It is loaded by the first score, not by `import askwell`.

How it goes. Write p(y) = mean_k p_k(y) and f_k(y) = p_k(y) / p(y) - 1. For a candidate and a target

    t(y, y*) = p(y, y*) / (p(y) p(y*)) = mean_k [p_k(y) / p(y)] [p*_k(y*) / p(y*)],
    u(y, y*) = t - 1 = mean_k f_k(y) f*_k(y*),
    I(y; y*) = sum p(y) p(y*) phi(u),  phi(u) = (1 + u) log(1 + u) - u.

- u is a matrix product of *centred* numbers and phi(u) ~ u^2 / 2, so a small score is not the difference of large ones:
  no term is negative, and float32 keeps the relative precision of scores of 1e-9 nats.
- p(y) u sums to zero over y, and p(y*) u over y*. So where classes are few the most probable one of every input is left
  out of the product and follows by subtraction: (c - 1)^2 of c^2 products. It is the largest, so that loses no digits.
  Of two classes one u gives all four terms.
- Where draws are nearly sure and disagree ("strong" inputs: trees), many cells of the joint table are nearly
  empty: t ~ 0, and 1 + u keeps few digits of it. If candidate and target are strong, t itself is the product, precise.
  Where all draws are votes they are counted instead: `votes.py`.
- Numba makes vectors of loops that are short, straight and over whole rows. Arrays are copied by loops, not by
  `a[:] = b`: numba's words for shapes that do not fit take it seconds to compile.
- Each number is made by the same sequence of fused multiply-adds wherever it stands. Equal inputs get equal scores, to
  the bit, whatever the chunk, the thread or the neighbours.
"""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from askwell.compiling import kernel
from askwell.information._kernels.product import ANY_ORDER, JIT, ROWS, product

__all__ = [
    "IS_STRONG",
    "IS_VOTES",
    "bald",
    "forms",
    "look_at",
    "pack_block",
    "score",
    "sketch",
    "target_classes",
    "two_class_information",
]

TILE_BYTES = 256 << 10  # of products at a time, half of a usual second-level cache

FEW = 16  # terms added up in float32; up to as many classes, one is left out of the product
LEAST = 1e-300  # a class less probable than this has no share: its inverse would overflow
FAINT = 1 / 128  # a draw gives a class up where its probability is below this share of the mean ...
STRONG = 0.05  # ... and an input is strong if draws give up, on average, a class drawn from the mean this often
IS_STRONG, IS_VOTES = 1, 2  # kinds of inputs, which add up
BESIDE = 16  # draws that are summed side by side: a whole number of vectors, whatever the classes


# ---- phi(u) = (1 + u) log(1 + u) - u -------------------------------------------------------------------------------


def _series(f: Any) -> Any:
    """phi(f) / f^2 = sum_(n >= 2) (-f)^(n-2) / (n (n-1)), for |f| < 1/2."""
    total = np.zeros_like(f)
    for n in range(80, 1, -1):
        total = total * -f + 1 / (n * (n - 1))
    return total


def _coefficients(degree: int) -> tuple[float, ...]:
    """Coefficients, lowest first, of a polynomial that stands for phi(f) / f^2 on [sqrt(1/2) - 1, sqrt(2) - 1]."""
    domain = [np.sqrt(0.5) - 1, np.sqrt(2.0) - 1]
    fit = np.polynomial.Chebyshev.interpolate(_series, degree, domain=domain)
    return tuple(float(value) for value in fit.convert(kind=np.polynomial.Polynomial).coef)


COARSE = tuple(np.float32(each) for each in _coefficients(7))  # to 4e-8
FINE = _coefficients(18)
LOG_2, TINY, ONE = np.float32(math.log(2)), np.float32(1e-30), np.float32(1)
HALF_ROOT, ONE_BITS, DIGITS = np.int32(0x3F3504F3), np.int32(0x3F800000), np.int32(23)  # sqrt(1/2), 1, the mantissa
HALF_ROOT_64, ONE_BITS_64, DIGITS_64 = np.int64(0x3FE6A09E667F3BCD), np.int64(0x3FF0000000000000), np.int64(52)


def _phi(t: Any, u: Any) -> Any:
    """phi(u), given t = 1 + u too, which may be known to more digits.

    With t = 2^e (1 + f) and f in [sqrt(1/2) - 1, sqrt(2) - 1): phi(u) = 2^e phi(f) + t e log 2 + 1 - 2^e. At e = 0 that
    is phi(f), and there f = u.
    """


@overload(_phi, jit_options=JIT)
def _phi_of(t: Any, u: Any) -> Any:
    def single(t: Any, u: Any) -> Any:
        t = max(t, TINY)
        bits = np.float32(t).view(np.int32)
        e = (bits - HALF_ROOT) >> DIGITS
        shift = e << DIGITS
        power = np.int32(shift + ONE_BITS).view(np.float32)
        f = np.int32(bits - shift).view(np.float32) - ONE
        f = u if e == 0 else f
        square, a = f * f, COARSE
        low, high = (a[0] + a[1] * f) + (a[2] + a[3] * f) * square, (a[4] + a[5] * f) + (a[6] + a[7] * f) * square
        return power * square * (low + high * (square * square)) + (t * (np.float32(e) * LOG_2) + (ONE - power))

    def double(t: Any, u: Any) -> Any:
        t = max(t, 1e-30)
        bits = np.float64(t).view(np.int64)
        e = (bits - HALF_ROOT_64) >> DIGITS_64
        shift = e << DIGITS_64
        power = np.int64(shift + ONE_BITS_64).view(np.float64)
        f = np.int64(bits - shift).view(np.float64) - 1.0
        f = u if e == 0 else f
        total = FINE[-1]
        for n in range(len(FINE) - 2, -1, -1):
            total = total * f + FINE[n]
        return power * f * f * total + (t * (np.float64(e) * math.log(2.0)) + (1.0 - power))

    return single if t == types.float32 else double


@kernel(**JIT)
def _phi_times(row, share):
    """row = share phi(u) of a row of u."""
    one = row.dtype.type(1)
    for j in range(row.shape[0]):
        row[j] = share[j] * _phi(one + row[j], row[j])


@kernel(**JIT)
def _phi_of_ratio_times(row, share):
    """row = share phi(t - 1) of a row of t."""
    one = row.dtype.type(1)
    for j in range(row.shape[0]):
        row[j] = share[j] * _phi(row[j], row[j] - one)


@kernel(**JIT)
def two_class_information(u, p, q, share, rest, out):
    """out[j] = sum_(y, y*) p(y) p(y*) phi(u), two classes of each side, of u of the rarer classes.

    `p`, `q` are p(y) and `share`, `rest` p(y*) of the rarer class and of the other. p(y) u and p(y*) u sum to zero.
    """
    one, down = u.dtype.type(1), -p / q
    for j in range(out.shape[0]):
        across = -share[j] / rest[j]
        below, beside = u[j] * down, u[j] * across
        both = below * across
        upper = share[j] * _phi(one + u[j], u[j]) + rest[j] * _phi(one + beside, beside)
        lower = share[j] * _phi(one + below, below) + rest[j] * _phi(one + both, both)
        out[j] = p * upper + q * lower


# ---- inputs: checked, divided by their means, in the order in which they will be read --------------------------------


@kernel(**ANY_ORDER)
def _two_means(p, tolerance, means):
    """p(y) of one input's `p [k, 2]`; False if a row is not a distribution.

    Where all draws agree the mean is what they say, to the bit. Indices are unsigned: numba need not look for others.
    """
    flat, draws, one, zero = p.reshape(-1), p.shape[0], p.dtype.type(1), p.dtype.type(0)
    near, first, second, wrong, differ = p.dtype.type(tolerance), 0.0, 0.0, np.int32(0), np.int32(0)
    for k in range(np.uint64(draws)):
        a, b = flat[np.uint64(2) * k], flat[np.uint64(2) * k + np.uint64(1)]
        first += a
        second += b
        wrong |= np.int32(0) if (a >= zero) & (b >= zero) & (abs(a + b - one) <= near) else np.int32(1)
        differ |= np.int32(1) if (a != flat[0]) | (b != flat[1]) else np.int32(0)
    means[0], means[1] = first / draws, second / draws
    if not differ:  # sums in any order need not cancel
        means[0], means[1] = flat[0], flat[1]
    return wrong == 0


@kernel(**ANY_ORDER)
def _are_distributions(p, tolerance):
    """Whether no number of `p [k, c]` is below zero or missing, and each row sums to one."""
    zero, one, near, wrong = p.dtype.type(0), p.dtype.type(1), p.dtype.type(tolerance), np.int32(0)
    for k in range(p.shape[0]):
        total = zero
        for y in range(p.shape[1]):
            total += p[k, y]
        wrong |= np.int32(0) if abs(total - one) <= near else np.int32(1)
    flat = p.reshape(-1)
    for j in range(flat.shape[0]):
        wrong |= np.int32(0) if flat[j] >= zero else np.int32(1)
    return wrong == 0


@kernel(**JIT)
def _class_means(p, first, partial, means):
    """p(y) for one input's `p [k, c]`, c > 2; `first` and `partial [BESIDE c]` are scratch.

    `BESIDE` draws are summed side by side, as vectors over draws and classes, and as differences from the first draw:
    where all draws agree, their mean is what they say, to the bit.
    """
    (draws, classes), flat, width = p.shape, p.reshape(-1), partial.shape[0]
    for j in range(width):
        first[j], partial[j] = p[0, j % classes], 0
    for start in range(0, flat.shape[0], width):
        part = flat[start : start + width]
        for j in range(part.shape[0]):
            partial[j] += np.float64(part[j]) - np.float64(first[j])
    for y in range(classes):
        total = 0.0
        for j in range(y, width, classes):
            total += partial[j]
        means[y] = p[0, y] + total / draws


@kernel(**ANY_ORDER)
def _two_are_strong(p, means):
    """`_is_strong` for two, as vectors over draws."""
    limits = p.dtype.type(FAINT * means[0]), p.dtype.type(FAINT * means[1])
    first, second = np.int32(0), np.int32(0)
    for k in range(p.shape[0]):
        first += p[k, 0] < limits[0]
        second += p[k, 1] < limits[1]
    return means[0] * first + means[1] * second > STRONG * p.shape[0]


@kernel(**JIT)
def _is_strong(p, means, limits, given_up):
    """Whether sum_y p(y) share_k[p_k(y) < FAINT p(y)] > STRONG for one input's `p [k, c]`.

    Cells of a joint table with p(y, y*) < FAINT / 2 p(y) p(y*) hold at most twice this sum, of either input, of all
    p(y) p(y*): where one input is not strong there are few. `limits` and `given_up [BESIDE c]` are scratch.
    """
    (draws, classes), flat, width = p.shape, p.reshape(-1), limits.shape[0]
    if classes == 2:
        return _two_are_strong(p, means)
    for j in range(width):
        limits[j], given_up[j] = FAINT * means[j % classes], 0
    for start in range(0, flat.shape[0], width):
        part = flat[start : start + width]
        for j in range(part.shape[0]):
            given_up[j] += np.int32(part[j] < limits[j])
    expected = 0.0
    for j in range(width):
        expected += means[j % classes] * given_up[j]
    return expected > STRONG * draws


@kernel(**ANY_ORDER)
def _two_votes(p):
    """How many draws vote for the first of two classes; -1 if some draw does not vote."""
    first, sure = np.int32(0), True
    for k in range(p.shape[0]):
        first += p[k, 0] == 1
        sure &= ((p[k, 0] == 1) & (p[k, 1] == 0)) | ((p[k, 0] == 0) & (p[k, 1] == 1))
    return first if sure else np.int32(-1)


@kernel(**JIT)
def _are_votes(p, means):
    """Whether each draw of one input's `p [k, c]` is sure of a class, to the bit; then also its means."""
    draws, classes = p.shape
    means[:] = 0
    if (p[0, 0] != 0) & (p[0, 0] != 1):
        return False
    if classes == 2:
        first = _two_votes(p)
        means[0], means[1] = first / draws, (draws - first) / draws
        return first >= 0
    for k in range(draws):
        ones = 0
        for y in range(classes):
            one = p[k, y] == 1
            if not one and p[k, y] != 0:
                return False
            ones += one
            means[y] += one
        if ones != 1:
            return False
    for y in range(classes):
        means[y] /= draws
    return True


@kernel(**JIT)
def look_at(probs, tolerance, means, kinds):
    """p(y) and, unless `kinds` is empty, whether it is strong (1) and votes (2), for each of `probs [n, k, c]`.

    Returns the first that is no distribution, or -1.
    """
    classes = probs.shape[2]
    width = BESIDE * classes
    partial, first, given_up = np.empty(width), np.empty(width, probs.dtype), np.empty(width, np.int32)
    for i in range(probs.shape[0]):
        if kinds.size and _are_votes(probs[i], means[i]):
            kinds[i] = IS_VOTES + IS_STRONG * (1 - _dot(means[i], means[i]) > STRONG)  # what is below, at less cost
            continue
        if classes == 2:
            sound = _two_means(probs[i], tolerance, means[i])
        else:
            sound = _are_distributions(probs[i], tolerance)
            _class_means(probs[i], first, partial, means[i])
        if not sound:
            return i
        if kinds.size:
            kinds[i] = IS_STRONG * _is_strong(probs[i], means[i], first, given_up)
    return -1


@kernel(**ANY_ORDER)
def _dot(a, b):
    """sum_j a b, as vectors: the same order for every candidate."""
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@kernel(**JIT)
def target_classes(classes, centred):
    """How many classes of an input are packed: all, or all but the most probable."""
    return classes - 1 if centred and classes <= FEW else classes


@kernel(**JIT)
def _largest_last(means, order):
    """order = the classes with the most probable one moved to the end."""
    largest = 0
    for y in range(means.shape[0]):
        order[y] = y
        if means[y] > means[largest]:
            largest = y
    order[largest] = means.shape[0] - 1
    order[means.shape[0] - 1] = largest


@kernel(**JIT)
def _pack(p, means, order, centred, scale, first, apart, packed):
    """Write one input into `packed [groups, k, width]`: class `order[y]` as vector `first + apart y`.

    The numbers are scale f_k(y) if centred, else scale p_k(y) / p(y); 0 for a class of no probability.
    """
    for y in range(target_classes(order.shape[0], centred)):
        group, lane = divmod(first + apart * y, packed.shape[2])
        source = order[y]
        mean = means[source]
        factor, less = scale / mean if mean > LEAST else 0.0, mean if centred else 0.0
        for k in range(p.shape[0]):
            packed[group, k, lane] = (p[k, source] - less) * factor


@kernel(**JIT)
def pack_block(probs, means, centred, columns, share, inverse):
    """Pack one block of targets `probs [<= m, k, c]`; `share [c, m]` is their p(y*), `inverse [m]` the last's 1 / p."""
    classes, size = share.shape
    order = np.empty(classes, np.intp)
    for j in range(probs.shape[0]):
        _largest_last(means[j], order)
        _pack(probs[j], means[j], order, centred, 1 / probs.shape[1], j, size, columns)
        for y in range(classes):
            share[y, j] = means[j, order[y]]
        inverse[j] = 1 / means[j, order[classes - 1]]


@kernel(**JIT)
def _pack_tile(probs, means, index, centred, order, rows):
    """Pack some candidates, `probs[index]`, into `rows`, class after class."""
    count = target_classes(probs.shape[2], centred)
    for i in range(index.shape[0]):
        _largest_last(means[index[i]], order[i])
        _pack(probs[index[i]], means[index[i]], order[i], centred, 1.0, i * count, 1, rows)


# ---- scores ----------------------------------------------------------------------------------------------------------


@kernel(**JIT)
def _pair_information(d, first, means, order, centred, share, inverse, work, pairs):
    """pairs[j] = sum_(y, y*) p(y) p(y*) phi(u) = I(y; y*_j) of one candidate.

    Row `first + y` of `d` has u(y, y*_j), or t where not centred, at column y* m + j. `share [c, m]` is p(y*), `inverse
    [m]` 1 / p(y*) of the left-out y*. Rows of the scratch `work [2, c m]`: this y, and sum_y p(y) u.
    """
    (classes, m), flat = share.shape, share.reshape(-1)
    row, below, count = work[0], work[1], target_classes(classes, centred)
    for j in range(classes * m):
        below[j] = 0
    for j in range(m):
        pairs[j] = 0
    for y in range(classes):
        p = work.dtype.type(means[order[y]])
        if y < count:
            given = d[first + y]
            for j in range(count * m):
                row[j] = given[j]
            if count < classes:
                _fill_left_out(row, share, inverse)
                for j in range(classes * m):
                    below[j] += p * row[j]
        else:
            for j in range(classes * m):
                row[j] = below[j] / -p
        if centred:
            _phi_times(row, flat)
        else:
            _phi_of_ratio_times(row, flat)
        _add_classes(row, means[order[y]], pairs)


@kernel(**JIT)
def _fill_left_out(row, share, inverse):
    """The last m of `row [c m]`: u of the left-out y*, since p(y*) u sums to zero."""
    classes, m = share.shape
    last = row[(classes - 1) * m :]
    for j in range(m):
        last[j] = 0
    for z in range(classes - 1):
        here, weight = row[z * m : (z + 1) * m], share[z]
        for j in range(m):
            last[j] += weight[j] * here[j]
    for j in range(m):
        last[j] *= -inverse[j]


@kernel(**JIT)
def _add_classes(row, p, pairs):
    """pairs[j] += p sum_y* row[y* m + j]; few terms are added in float32, their sums in float64."""
    m = pairs.shape[0]
    classes = row.shape[0] // m
    for start in range(0, classes, FEW):
        total = row[start * m : (start + 1) * m]
        for z in range(start + 1, min(start + FEW, classes)):
            here = row[z * m : (z + 1) * m]
            for j in range(m):
                total[j] += here[j]
        for j in range(m):
            pairs[j] += p * total[j]


@kernel(**JIT)
def _tile_step(n, rows, bytes_per_row):
    """How many candidates make a tile of about `TILE_BYTES`, their rows filling whole register tiles where they can."""
    step = max(1, TILE_BYTES // (bytes_per_row * rows))
    while step * rows % ROWS and step * rows > ROWS and step < n:
        step += 1
    return min(n, step)


@kernel(**JIT)
def score(probs, means, index, centred, columns, share, inverse, weights, scores, pairs):
    """Add sum_j w_j I(y; y*_j) to `scores[i]` for the candidates `probs[index[i]]`.

    If `pairs [n, blocks, m]` is not empty I(y; y*_j) is written there instead. The targets are as in `PackedTargets`.
    """
    blocks, panels, draws, width = columns.shape
    n, (classes, m), count = index.shape[0], share.shape[1:], target_classes(probs.shape[2], centred)
    step = _tile_step(n, count, probs.itemsize * panels * width)
    rows = np.zeros(((step * count + ROWS - 1) // ROWS, draws, ROWS), probs.dtype)
    d = np.empty((rows.shape[0] * ROWS, panels * width), probs.dtype)
    order, work, told = np.empty((step, classes), np.intp), np.empty((2, classes * m), probs.dtype), np.empty(m)
    for start in range(0, n, step):
        tile = index[start : start + step]
        _pack_tile(probs, means, tile, centred, order, rows)
        for block in range(blocks):
            product(rows, columns[block], (tile.shape[0] * count + ROWS - 1) // ROWS, d)
            for i in range(tile.shape[0]):
                own = means[tile[i]]
                if classes == 2 and centred:
                    p, q = probs.dtype.type(own[order[i, 0]]), probs.dtype.type(own[order[i, 1]])
                    two_class_information(d[i], p, q, share[block, 0], share[block, 1], told)
                else:
                    _pair_information(d, i * count, own, order[i], centred, share[block], inverse[block], work, told)
                if pairs.size:
                    for j in range(m):
                        pairs[start + i, block, j] = told[j]
                else:
                    scores[start + i] += _dot(weights[block], told)


@kernel(**JIT)
def bald(probs, means, scores):
    """BALD(x) = mean_k sum_y p(y) phi(f_k(y))."""
    n, draws, classes = probs.shape
    t, u, total = np.empty(draws, probs.dtype), np.empty(draws, probs.dtype), np.empty(draws, probs.dtype)
    for i in range(n):
        scores[i] = 0
        for y in range(classes):
            if y % FEW == 0:
                for k in range(draws):
                    total[k] = 0
            p = means[i, y]
            if p > LEAST:
                for k in range(draws):
                    t[k], u[k] = probs[i, k, y] / p, (probs[i, k, y] - p) / p
                _add_phi(t, u, probs.dtype.type(p), total)
            if y % FEW == FEW - 1 or y == classes - 1:
                for k in range(draws):
                    scores[i] += total[k] / draws


@kernel(**JIT)
def _add_phi(t, u, p, total):
    """total += p phi(u)."""
    for k in range(t.shape[0]):
        total[k] += p * _phi(t[k], u[k])


# ---- bounds ----------------------------------------------------------------------------------------------------------


@kernel(**ANY_ORDER)
def _dots(f, v, diagonal):
    """(sum_k f v, sum_k f^2 diagonal, sum_k f^2)."""
    full, weighted, plain = 0.0, 0.0, 0.0
    for k in range(f.shape[0]):
        full += f[k] * v[k]
        weighted += f[k] * f[k] * diagonal[k]
        plain += f[k] * f[k]
    return full, weighted, plain


@kernel(**JIT)
def forms(probs, means, index, columns, diagonal, out):
    """(sum_kl A_kl G_kl, sum_k A_kk G_kk, sum_k A_kk) of candidates `probs[index]`, A_kl = sum_y p(y) f_k(y) f_l(y).

    `columns [panels, k, width]` is the symmetric G, packed, `diagonal [k]` its diagonal, `out [n, 3]`.
    """
    draws, classes = probs.shape[1:]
    n, count, width = index.shape[0], target_classes(classes, np.bool_(True)), columns.shape[0] * columns.shape[2]
    step = _tile_step(n, count, probs.itemsize * width)
    rows = np.zeros(((step * count + ROWS - 1) // ROWS, draws, ROWS), probs.dtype)
    turned, order = np.empty((rows.shape[0] * ROWS, width), probs.dtype), np.empty((step, classes), np.intp)
    f, v, left_out = np.empty(draws), np.empty(draws), np.empty((2, draws))
    for start in range(0, n, step):
        tile = index[start : start + step]
        _pack_tile(probs, means, tile, np.bool_(True), order, rows)
        product(rows, columns, (tile.shape[0] * count + ROWS - 1) // ROWS, turned)
        for i in range(tile.shape[0]):
            out[start + i], left_out[:] = 0, 0
            for y in range(classes):
                p = means[tile[i], order[i, y]]
                if y < count:
                    group, lane = divmod(i * count + y, ROWS)
                    for k in range(draws):
                        f[k], v[k] = rows[group, k, lane], turned[i * count + y, k]
                        left_out[0, k] -= p * f[k]
                        left_out[1, k] -= p * v[k]
                else:
                    for k in range(draws):
                        f[k], v[k] = left_out[0, k] / p, left_out[1, k] / p
                full, weighted, plain = _dots(f, v, diagonal)
                out[start + i, 0] += p * full
                out[start + i, 1] += p * weighted
                out[start + i, 2] += p * plain


@kernel(**JIT)
def _trace(p, means):
    """sum_y p(y) |f(y)|^2 of one input's `p [k, c]`."""
    total = 0.0
    for k in range(p.shape[0]):
        for y in range(p.shape[1]):
            apart = p[k, y] - means[y]
            total += apart * apart / means[y] if means[y] > LEAST else 0.0
    return total


@kernel(**JIT)
def _add_squares(turned, shares, below, totals):
    """totals[i] += sum_y p(y) sum_v turned[v, y n + i]^2, n candidates side by side; `shares [c, n]` are their p(y).

    A left-out class has what makes the sum of p(y) turned zero; `below [n]` is scratch.
    """
    classes, n = shares.shape
    count = target_classes(classes, np.bool_(True))
    for v in range(turned.shape[0]):
        for i in range(n):
            below[i] = 0
        for y in range(count):
            row, share = turned[v, y * n : (y + 1) * n], shares[y]
            for i in range(n):
                term = share[i] * row[i]
                below[i] += term
                totals[i] += term * row[i]
        if count < classes:
            for i in range(n):
                totals[i] += below[i] * below[i] / shares[count, i]


@kernel(**JIT)
def sketch(probs, means, index, vectors, columns, out):
    """(sum_y p(y) |V^T f(y)|^2, sum_y p(y) |f(y)|^2) of candidates `probs[index]`, as `out [n, 2]`.

    `vectors [groups, k, ROWS]` is V, packed as rows: here it is candidates that lie side by side, in the scratch
    `columns [panels, k, width]`, 0 at first.
    """
    classes, n = probs.shape[2], index.shape[0]
    step = min(n, columns.shape[0] * columns.shape[2] // target_classes(classes, np.bool_(True)))
    turned = np.empty((vectors.shape[0] * ROWS, columns.shape[0] * columns.shape[2]), probs.dtype)
    order, shares = np.empty(classes, np.intp), np.ones((classes, step))
    below, totals = np.empty(step), np.empty(step)
    for start in range(0, n, step):
        tile = index[start : start + step]
        for i in range(tile.shape[0]):
            _largest_last(means[tile[i]], order)
            _pack(probs[tile[i]], means[tile[i]], order, np.bool_(True), 1.0, i, step, columns)
            for y in range(classes):
                shares[y, i] = means[tile[i], order[y]]
            totals[i] = 0
        product(vectors, columns, vectors.shape[0], turned)
        _add_squares(turned, shares, below, totals)
        for i in range(tile.shape[0]):
            out[start + i, 0], out[start + i, 1] = totals[i], _trace(probs[tile[i]], means[tile[i]])
