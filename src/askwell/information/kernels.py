"""The hot loop: the information between the labels of all candidates and all targets, on the processor's cache.

Everything askwell does waits for one computation, so this file and `vectors.py` are written for the machine. They are
the only ones that know numba, and are loaded by the first score, not by `import askwell`.

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
  Of two classes it is half of it. Where all draws are votes they are counted instead: `vote_kernels.py`.
- Arrays are copied by loops, not by `a[:] = b`: numba's words for shapes that do not fit take it seconds to compile.
- Each number is made by the same sequence of fused multiply-adds wherever it stands. Equal inputs get equal scores, to
  the bit, whatever the chunk, the thread or the neighbours.
"""

import numpy as np

from askwell.compiling import kernel
from askwell.information.packing import FEW, LEAST, candidate_classes, dot, pack_tile, target_classes
from askwell.information.vectors import (
    ANY_ORDER,
    JIT,
    LANES,
    ROWS,
    add_centred_terms,
    add_divergence_terms,
    add_product,
    add_terms,
    address,
    set_two_class_information,
)

__all__ = ["bald", "forms", "gram", "score", "sketch"]

WIDE = 2 * LANES  # places in one step where there is room: two vectors in flight hide each other's waiting
DEPTH = 50  # at most so many draws are added up before the sum is put aside: keeps the rounding of long sums small
TILE_BYTES = 256 << 10  # of D at a time, half of a usual second-level cache


@kernel(**JIT)
def _product(rows, columns, groups, out):
    """out[groups * ROWS, panels * width] = the products of packed rows and columns, summed over draws."""
    panels, draws, width = columns.shape
    stride = panels * width
    parts = (draws + DEPTH - 1) // DEPTH
    depth = (draws + parts - 1) // parts
    out[: groups * ROWS] = 0
    for panel in range(panels):
        for group in range(groups):
            for k in range(0, draws, depth):
                add_product(
                    address(rows, (group * draws + k) * ROWS),
                    address(columns, (panel * draws + k) * width),
                    address(out, group * ROWS * stride + panel * width),
                    min(depth, draws - k),
                    stride,
                )


@kernel(**JIT)
def _add_centred_row(u, at, p, share, z, right, below, total, work):
    """Row `total` += share phi(u), `right` += share u, `below` += p u; u from flat offset `at`, class z of targets."""
    m = share.shape[1]
    even = m // WIDE * WIDE
    for j in range(0, even, WIDE):
        add_centred_terms(
            WIDE, address(u, at + j), p, address(share, z * m + j), address(work, right * m + j),
            address(work, below * m + j), address(work, total * m + j),
        )  # fmt: skip
    if even < m:
        add_centred_terms(
            LANES, address(u, at + even), p, address(share, z * m + even), address(work, right * m + even),
            address(work, below * m + even), address(work, total * m + even),
        )  # fmt: skip


@kernel(**JIT)
def _add_row(t, at, share, z, total, work):
    """row `total` += share phi(t - 1); t from flat offset `at`, class z of all targets."""
    m = share.shape[1]
    even = m // WIDE * WIDE
    for j in range(0, even, WIDE):
        add_terms(WIDE, address(t, at + j), address(share, z * m + j), address(work, total * m + j))
    if even < m:
        add_terms(LANES, address(t, at + even), address(share, z * m + even), address(work, total * m + even))


@kernel(**JIT)
def _pair_information(d, first, means, order, centred, size, share, inverse, work, pairs):
    """pairs[j] = sum_(y, y*) p(y) p(y*) phi(u) = I(y; y*_j) of one candidate.

    Row `first + y` of `d` has u(y, y*_j), or t where not centred, at column y* size + j. `share [c, m]` is p(y*), and 0
    from `size` on, where m is rounded up to whole vectors; `inverse [m]` is 1 / p(y*) of the left-out y*. The scratch
    `work [c + 3, m]` keeps sum_y p(y) u (rows to c), sum_y* p(y*) u (c), what nobody reads (c + 1), and
    sum p(y*) phi(u) (c + 2).
    """
    classes, m = share.shape
    kept, right, unread, total = target_classes(classes, centred), classes, classes + 1, classes + 2
    pairs[:] = 0
    if centred:
        work[:] = 0
    for y in range(classes):
        p = work.dtype.type(means[order[y]])
        if centred:
            work[right] = 0
        for z in range(classes):
            if z % FEW == 0:  # few terms are added in float32, their sums in float64: c^2 of them lose no digits
                work[total] = 0
            at = (first + y) * d.shape[1] + z * size
            if not centred:
                _add_row(d, at, share, z, total, work)
            elif y == kept:
                for j in range(m):
                    work[z, j] /= -p
                _add_centred_row(work, z * m, p, share, z, unread, unread, total, work)
            elif z == kept:
                for j in range(m):
                    work[right, j] *= -inverse[j]
                _add_centred_row(work, right * m, p, share, z, unread, z, total, work)
            else:
                _add_centred_row(d, at, p, share, z, right, z, total, work)
            if z % FEW == FEW - 1 or z == classes - 1:
                for j in range(m):
                    pairs[j] += means[order[y]] * work[total, j]


@kernel(**JIT)
def _two_class_information(d, first, means, order, draws, centred, size, share, work, pairs):
    """`_pair_information` for two classes: all four terms at once, from one u or, where not centred, from two sums."""
    m, at = share.shape[1], first * d.shape[1]
    p, q = work.dtype.type(means[order[0]]), work.dtype.type(means[order[1]])
    for j in range(0, m, LANES):
        here = (address(d, at + j), address(d, at + size + j))
        there = (address(share, j), address(share, m + j), address(work, j))
        if centred:
            set_two_class_information(LANES, True, here[0], here[0], p, q, there[0], there[1], there[2])
        else:
            set_two_class_information(LANES, False, here[0], here[1], p, q, there[0], there[1], there[2])
    for j in range(m):
        pairs[j] = work[0, j] if centred else work[0, j] / draws


@kernel(**JIT)
def _tile_step(n, rows, bytes_per_row):
    """How many candidates make a tile of about `TILE_BYTES`, their rows filling whole register tiles where they can."""
    step = max(1, TILE_BYTES // (bytes_per_row * rows))
    while step * rows % ROWS and step * rows > ROWS and step < n:
        step += 1
    return min(n, step)


@kernel(**JIT)
def score(probs, means, index, centred, size, columns, share, inverse, weights, scores, pairs):
    """Add sum_j w_j I(y; y*_j) to `scores[i]` for the candidates `probs[index[i]]`.

    If `pairs [n, blocks, m]` is not empty I(y; y*_j) is written there instead. The targets are as in `Targets`.
    """
    draws, classes = probs.shape[1:]
    blocks, panels, _, width = columns.shape
    n, m, count = index.shape[0], share.shape[2], candidate_classes(classes, centred)
    step = _tile_step(n, count, probs.itemsize * panels * width)
    rows = np.zeros(((step * count + ROWS - 1) // ROWS, draws, ROWS), probs.dtype)
    d = np.empty((rows.shape[0] * ROWS, panels * width), probs.dtype)
    order, work, found = np.empty((step, classes), np.intp), np.empty((classes + 3, m), probs.dtype), np.empty(m)
    for start in range(0, n, step):
        tile = index[start : start + step]
        pack_tile(probs, means, tile, centred, order, rows)
        for block in range(blocks):
            _product(rows, columns[block], (tile.shape[0] * count + ROWS - 1) // ROWS, d)
            for i in range(tile.shape[0]):
                here = (i * count, means[tile[i]], order[i])
                if classes == 2:
                    _two_class_information(d, *here, draws, centred, size, share[block], work, found)
                else:
                    _pair_information(d, *here, centred, size, share[block], inverse[block], work, found)
                if pairs.size:
                    for j in range(m):
                        pairs[start + i, block, j] = found[j]
                else:
                    scores[start + i] += dot(weights[block], found)


@kernel(**JIT)
def bald(probs, means, scores):
    """BALD(x) = mean_k sum_y p(y) phi(f_k(y))."""
    n, draws, classes = probs.shape
    m = (draws + LANES - 1) // LANES * LANES
    work = np.zeros((3, m), probs.dtype)
    work[0] = 1  # in the padding t = 1 and u = 0, which adds nothing
    for i in range(n):
        scores[i] = 0
        for y in range(classes):
            if y % FEW == 0:
                work[2] = 0
            p = means[i, y]
            if p > LEAST:
                for k in range(draws):
                    work[0, k], work[1, k] = probs[i, k, y] / p, (probs[i, k, y] - p) / p
                for j in range(0, m, LANES):
                    add_divergence_terms(
                        LANES, address(work, j), address(work, m + j), work.dtype.type(p), address(work, 2 * m + j)
                    )
            if y % FEW == FEW - 1 or y == classes - 1:
                for k in range(draws):
                    scores[i] += work[2, k] / draws


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
    n, count, width = index.shape[0], candidate_classes(classes, np.bool_(True)), columns.shape[0] * columns.shape[2]
    step = _tile_step(n, count, probs.itemsize * width)
    rows = np.zeros(((step * count + ROWS - 1) // ROWS, draws, ROWS), probs.dtype)
    product, order = np.empty((rows.shape[0] * ROWS, width), probs.dtype), np.empty((step, classes), np.intp)
    f, v, left_out = np.empty(draws), np.empty(draws), np.empty((2, draws))
    for start in range(0, n, step):
        tile = index[start : start + step]
        pack_tile(probs, means, tile, np.bool_(True), order, rows)
        _product(rows, columns, (tile.shape[0] * count + ROWS - 1) // ROWS, product)
        for i in range(tile.shape[0]):
            out[start + i], left_out[:] = 0, 0
            for y in range(classes):
                p = means[tile[i], order[i, y]]
                if y < count:
                    group, lane = divmod(i * count + y, ROWS)
                    for k in range(draws):
                        f[k], v[k] = rows[group, k, lane], product[i * count + y, k]
                        left_out[0, k] -= p * f[k]
                        left_out[1, k] -= p * v[k]
                else:
                    for k in range(draws):
                        f[k], v[k] = left_out[0, k] / p, left_out[1, k] / p
                full, weighted, plain = _dots(f, v, diagonal)
                out[start + i, 0] += p * full
                out[start + i, 1] += p * weighted
                out[start + i, 2] += p * plain


@kernel(**ANY_ORDER)
def _square(a, step):
    """The sum of the squares of every `step`-th number."""
    total = 0.0
    for j in range(0, a.shape[0], step):
        total += np.float64(a[j]) * a[j]
    return total


@kernel(**JIT)
def sketch(probs, means, index, columns, out):
    """(sum_y p(y) |V^T f(y)|^2, sum_y p(y) |f(y)|^2) of candidates `probs[index]`, as `out [n, 2]`.

    `columns [panels, k, width]` is V, packed. More than two classes: `pairs.py` has the others.
    """
    draws, classes = probs.shape[1:]
    n, count, width = index.shape[0], candidate_classes(classes, np.bool_(True)), columns.shape[0] * columns.shape[2]
    step = _tile_step(n, count, probs.itemsize * width)
    rows = np.zeros(((step * count + ROWS - 1) // ROWS, draws, ROWS), probs.dtype)
    product, order = np.empty((rows.shape[0] * ROWS, width), probs.dtype), np.empty((step, classes), np.intp)
    flat, f, v = rows.reshape(-1), np.empty(draws), np.empty(width)
    for start in range(0, n, step):
        tile = index[start : start + step]
        pack_tile(probs, means, tile, np.bool_(True), order, rows)
        _product(rows, columns, (tile.shape[0] * count + ROWS - 1) // ROWS, product)
        for i in range(tile.shape[0]):
            f[:], v[:] = 0, 0
            first, second = 0.0, 0.0
            for y in range(count):
                p = means[tile[i], order[i, y]]
                group, lane = divmod(i * count + y, ROWS)
                own = flat[group * draws * ROWS + lane : (group + 1) * draws * ROWS]
                if count < classes:
                    for k in range(draws):
                        f[k] += p * own[k * ROWS]
                    for k in range(width):
                        v[k] += p * product[i * count + y, k]
                first += p * _square(product[i * count + y], 1)
                second += p * _square(own, ROWS)
            if count < classes:
                p = means[tile[i], order[i, classes - 1]]
                first += _square(v, 1) / p
                second += _square(f, 1) / p
            out[start + i, 0], out[start + i, 1] = first, second


@kernel(**JIT)
def gram(probs, means, weights, rows, columns, out):
    """out[k, l] = sum_j w_j sum_y p(y) f_k(y) f_l(y) of targets `probs [m, k, c]`.

    `rows [groups, m c, ROWS]` and `columns [panels, m c, width]` are scratch, 0 in the padding.
    """
    m, draws, classes = probs.shape
    for j in range(m):
        for y in range(classes):
            mean = means[j, y]
            scale = np.sqrt(weights[j] / mean) if mean > LEAST else 0.0
            for k in range(draws):
                value = scale * (probs[j, k, y] - mean)
                rows[k // ROWS, j * classes + y, k % ROWS] = value
                columns[k // columns.shape[2], j * classes + y, k % columns.shape[2]] = value
    _product(rows, columns, rows.shape[0], out)
