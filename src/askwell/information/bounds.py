"""Bounds on EPIG, and the exactly best candidates without scoring all of them against all targets.

For the K draws as a uniform prior both bounds hold exactly, for the estimates and not only in the limit:

- data processing: y - theta - y* is a Markov chain, so I(y; y*_j) <= min(BALD(x), BALD(x*_j)). Too loose to prune with.
- chi-square: I <= log(1 + chi2), and with Jensen EPIG(x) <= log(1 + mean_j chi2(x, x*_j)). The mean over *all* targets
  is one quadratic form sum_kl A_kl(x) G_kl / K^2 in a K x K matrix G of the targets: the same cost for any number.
  G is mostly of low rank: with its leading eigenvectors V, sum_kl A_kl G_kl <= sum_v (l_v - l) (v^T A v) + l tr A for l
  the largest eigenvalue left out, at a fraction of that cost.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from scipy.linalg import eigh

from askwell.arrays import Array, as_numpy, check_probs, normalised_weights, one_thread_each, shares, spans
from askwell.information._kernels import hot_loop
from askwell.information._kernels.plain import seconds
from askwell.information.categorical import bald, epig, like, pool_and_targets
from askwell.information.shapes import check_size
from askwell.information.votes import Votes

__all__ = [
    "Prepared",
    "PreparedVotes",
    "Screen",
    "chi2_bound",
    "data_processing_bound",
    "forms",
    "pays",
    "prepare",
    "target_gram",
    "top_epig",
]

SECONDS = 1e-10  # that NumPy takes for a multiplication in a matrix product
GRAM, EIGEN, SKETCH = 5, 11, 3  # how long a multiplication takes there, beside one of the scores: measured
KEPT = 0.5  # of the candidates a bound may leave to be scored and still pay, where it is not known
FINER = 0.25  # of the work of scoring: so much the bound without eigenvectors may cost
SAMPLE = 4096  # numbers of prepared targets that are looked at again
OTHER_TARGETS = (
    "prepared must be of these target_probs, of shape {}, but it was prepared of others, of shape {}, or they have "
    "been changed since. Prepare them again whenever the model has been fitted: prepare(target_probs, ...)."
)
OTHER_WEIGHTS = (
    "prepared must be of the same weights and log as this call, but it was prepared with others. "
    "Try prepare(target_probs, weights=weights, log=log)."
)
SLACK = 1e-6  # how much of its largest possible value a bound is raised by: more than float32 can be wrong


def data_processing_bound(
    probs: Array, target_probs: Array, *, weights: Array | None = None, log: bool = False
) -> Array:
    """sum_j w_j min(BALD(x), BALD(x*_j)) >= EPIG(x), for `probs [n, k, c]` and `target_probs [m, k, c]`, as [n].

    >>> split, sure = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]
    >>> data_processing_bound([split], [split, sure])
    array([0.34657359])
    """
    xp, probs, target_probs = pool_and_targets(probs, target_probs, log)
    check_probs(target_probs=target_probs, log=log)
    w = normalised_weights(weights, target_probs.shape[0])
    own, theirs = bald(probs, log=log), bald(target_probs, log=log)
    least = xp.minimum(own[:, None], like(xp, own, theirs)[None, :])  # [n, m]
    return xp.mean(least, axis=1) if w is None else least @ like(xp, own, w)


def chi2_bound(probs: Array, target_probs: Array, *, weights: Array | None = None, log: bool = False) -> Array:
    """log(1 + sum_j w_j chi2(x, x*_j)) >= EPIG(x), at a cost that does not depend on m, as [n].

    chi2(x, x*) = sum_(y, y*) (p(y, y*) - p(y) p(y*))^2 / (p(y) p(y*)).

    >>> split = [[1.0, 0.0], [0.0, 1.0]]
    >>> chi2_bound([split], [split])
    array([0.69314718])
    """
    xp, probs, target_probs = pool_and_targets(probs, target_probs, log)
    w = normalised_weights(weights, target_probs.shape[0])
    gram = target_gram(target_probs, weights=w, log=log)
    chi2 = forms(probs, gram, log=log)[:, 0] / gram.shape[0] ** 2
    return like(xp, probs, xp.log1p(chi2))


def top_epig(
    probs: Array,
    target_probs: Array,
    size: int,
    *,
    weights: Array | None = None,
    log: bool = False,
    floor: float = -np.inf,
    prepared: "Prepared | PreparedVotes | None" = None,
) -> tuple[Array, Array]:
    """The `size` candidates with the highest EPIG, best first: (indices [size], scores [size]).

    Exactly what sorting `epig` would give, equal scores in order of index, but candidates that provably cannot be among
    the best are dropped on the way: the targets are taken block by block, and the chi-square bound says what the blocks
    to come can still add. With `floor`, those that score below it may be left out, so that fewer come back: give it
    what the `size`-th best elsewhere has, and the best of a pool are found part by part; `prepared` (by `prepare`, of
    the same targets and weights) then saves that the same is done to the targets for each part. What was prepared of
    others is refused.

    >>> split, vague = [[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.4], [0.4, 0.6]]
    >>> top_epig([vague, split, split], [split], 2)
    (array([1, 2]), array([0.69314718, 0.69314718]))
    """
    if isinstance(probs, Votes) and isinstance(target_probs, Votes):
        check_size(size, len(probs))
        return _top_of_votes(probs, target_probs, size, weights, floor, prepared)
    xp, probs, target_probs = pool_and_targets(probs, target_probs, log)
    n = probs.shape[0]
    check_size(size, n)
    host, host_targets = as_numpy(probs), as_numpy(target_probs)
    near = host is not None and host_targets is not None
    fast = hot_loop(seconds=seconds(n, *target_probs.shape)) if near else None
    if fast is None or host is None or host_targets is None or 0 in (*probs.shape, size) or probs.shape[2] == 1:
        scores = epig(probs, target_probs, weights=weights, log=log)
        best = xp.argsort(scores, descending=True, stable=True)[:size]
        return best, scores[best]
    if prepared is not None:
        prepared.check(host_targets, weights, log)
    if not isinstance(prepared, Prepared) or prepared.dtype != host.dtype:
        prepared = _prepared(fast, host_targets, weights, host.dtype, log, n)
    best, scores = np.empty(0, np.intp), np.empty(0)
    for span, part in fast.parts(host, packed=prepared.blocks, log=log):
        index, found = _survivors(_Race(fast, part, prepared), size, scores, floor)
        best, scores = np.concatenate([best, index + span.start]), np.concatenate([scores, found])
        best, scores = _best(best, scores, size, host.dtype)
    return xp.asarray(best, device=probs.device), like(xp, probs, scores)


def _top_of_votes(
    votes: Votes, targets: Votes, size: int, weights: Array | None, floor: float, prepared: Any
) -> tuple[np.ndarray, np.ndarray]:
    """`top_epig` where votes are counted, which costs less than a bound would."""
    if prepared is not None:
        prepared.check(targets, weights, False)
        scores = np.zeros(len(votes))
        for pack in prepared.packs:
            prepared.fast.add_vote_scores(votes, pack, scores)
    else:
        scores = epig(votes, targets, weights=weights)
    scores = scores.astype(votes.dtype)
    index = np.flatnonzero(scores >= floor * (1 - SLACK)) if floor > 0 else np.arange(len(scores))
    return _best(index, scores[index], min(size, len(index)), scores.dtype)


def target_gram(target_probs: Array, *, weights: np.ndarray | None = None, log: bool = False) -> Array:
    """G_kl = sum_j w_j sum_y* (p_k(y*) - p(y*)) (p_l(y*) - p(y*)) / p(y*) for `target_probs [m, k, c]`, as [k, k].

    All that the quadratic scores need to know of the targets.
    """
    xp, (target_probs,) = check_probs(target_probs=target_probs, log=log, values=False)
    check_probs(target_probs=target_probs, log=log)
    w = np.full(len(target_probs), 1 / len(target_probs)) if weights is None else weights
    host = as_numpy(target_probs)
    return _gram(xp, target_probs, w, log) if host is None else xp.asarray(_exact_gram(host, w, log=log))


def _exact_gram(target_probs: np.ndarray, weights: np.ndarray, *, log: bool) -> np.ndarray:
    """`target_gram` in float64, the same to the bit whatever processors are free."""
    with one_thread_each():
        gram: np.ndarray = _gram(np, target_probs.astype(np.float64), weights, log)
    return gram


def _gram(xp: Any, target_probs: Array, w: np.ndarray, log: bool) -> Array:
    m, k, c = target_probs.shape
    gram = xp.zeros((k, k), dtype=target_probs.dtype, device=target_probs.device)
    for span in spans(m, max(1, (1 << 20) // (k * c))):
        rows = _scaled(xp, xp.exp(target_probs[span]) if log else target_probs[span])  # [m, k, c]
        rows = rows * xp.sqrt(like(xp, rows, w[span]))[:, None, None]
        rows = xp.reshape(xp.permute_dims(rows, (1, 0, 2)), (k, -1))  # [k, m*c]
        gram = gram + rows @ rows.T
    return gram


def forms(probs: Array, gram: Array, *, log: bool = False) -> Array:
    """(sum_kl A_kl G_kl, sum_k A_kk G_kk, sum_k A_kk) for `probs [n, k, c]`, as [n, 3].

    A_kl = sum_y (p_k(y) - p(y)) (p_l(y) - p(y)) / p(y).
    """
    xp, (probs,) = check_probs(probs=probs, log=log, values=False)
    host, host_gram = as_numpy(probs), as_numpy(gram)
    near = host is not None and host_gram is not None and 0 not in probs.shape and probs.shape[2] > 1
    if near and (fast := hot_loop(seconds=SECONDS * math.prod(probs.shape) * len(gram))) is not None:
        found = [fast.forms(part, host_gram) for _, part in fast.parts(host, log=log)]
        return xp.asarray(np.concatenate(found), device=probs.device)
    check_probs(probs=probs, log=log)
    text = [xp.zeros((0, 3), dtype=gram.dtype, device=probs.device)]
    for span in spans(probs.shape[0], max(1, (1 << 20) // (probs.shape[1] * probs.shape[2]))):
        part = xp.asarray(probs[span], dtype=gram.dtype)
        rows = xp.permute_dims(_scaled(xp, xp.exp(part) if log else part), (0, 2, 1))  # [n, c, k]
        squares = xp.sum(rows * rows, axis=1)  # [n, k]
        full = xp.sum(rows * (rows @ gram), axis=(1, 2))
        text.append(xp.stack([full, squares @ xp.linalg.diagonal(gram), xp.sum(squares, axis=1)], axis=1))
    return xp.concat(text)


def _scaled(xp: Any, probs: Array) -> Array:
    """(p_k(y) - p(y)) / sqrt(p(y)) as [n, k, c]."""
    marginal = xp.mean(probs, axis=1, keepdims=True)
    return xp.where(marginal > 0, (probs - marginal) / xp.sqrt(xp.where(marginal > 0, marginal, 1)), 0)


# ---- the race ------------------------------------------------------------------------------------------------------


def pays(candidates: int, m: int, draws: int, classes: int, *, rank: int) -> bool:
    """Whether bounds by `rank` eigenvectors take less than the scores that they save, by the multiplications of each.

    >>> pays(2_000, 100, 500, 2, rank=8), pays(10_000_000, 100, 500, 2, rank=8)
    (False, True)
    """
    scoring = candidates * m * draws * (classes - 1) ** 2
    begin = GRAM * m * classes * draws**2 + EIGEN * draws**3
    sketch = candidates * draws * rank * (1 if classes == 2 else SKETCH * classes)
    return scoring * (1 - KEPT) > begin + sketch


@final
@dataclass(frozen=True, eq=False)
class Prepared:
    """Targets as `top_epig` wants them; what is for bounds is worked out when one is asked for."""

    fast: Any  # the compiled loop
    target_probs: np.ndarray  # [m, k, c]
    weights: np.ndarray  # [m]
    dtype: Any
    log: bool
    candidates: int  # how many are to be scored, in all
    sample: np.ndarray  # a few of the targets' numbers, as they were

    def check(self, target_probs: np.ndarray, weights: Array | None, log: bool) -> None:
        """Refuse other targets than these, or other weights. The same array is not read again, but for a sample."""
        same = target_probs is self.target_probs or np.array_equal(target_probs, self.target_probs)
        if not same or not np.array_equal(_sample(target_probs), self.sample, equal_nan=True):
            raise ValueError(OTHER_TARGETS.format(target_probs.shape, self.target_probs.shape))
        if log != self.log or not np.array_equal(shares(weights, len(target_probs)), self.weights):
            raise ValueError(OTHER_WEIGHTS)

    @cached_property
    def blocks(self) -> list[Any]:
        """The targets, a block each."""
        return list(self.fast.packs(self.target_probs, self.weights, self.dtype, log=self.log, most=1))

    @cached_property
    def tails(self) -> list[tuple[float, np.ndarray]]:
        """(weight, Gram matrix) of a block and all after it; the last is of nothing."""
        draws = self.target_probs.shape[1]
        tails = [(0.0, np.zeros((draws, draws)))]
        for block in reversed(self.blocks):
            span = block.centred.span
            gram = _exact_gram(self.target_probs[span], self.weights[span], log=self.log)
            tails.insert(0, (tails[0][0] + self.weights[span].sum(), tails[0][1] + gram))
        return tails

    @cached_property
    def pays(self) -> bool:
        """Whether to bound scores before any is worked out."""
        return pays(self.candidates, *self.target_probs.shape, rank=self.rank)

    @property
    def rank(self) -> int:
        """Eigenvectors of a sketch."""
        _, draws, classes = self.target_probs.shape
        return int(self.fast.sketch_rank(classes, draws))

    @property
    def finer(self) -> bool:
        """Whether the bound by the whole Gram matrix is cheap beside the scores: where targets are many."""
        m, draws, classes = self.target_probs.shape
        return bool(classes * draws < FINER * m * (classes - 1) ** 2)

    @cached_property
    def sketch(self) -> tuple[np.ndarray, float] | None:
        """(V (l_v - l)^(1/2) `[k, rank]`, l) of the Gram matrix of all."""
        draws, rank = self.target_probs.shape[1], self.rank
        if not self.pays or draws < 2 * rank or all(block.votes for block in self.blocks):
            return None
        with one_thread_each():
            values, vectors = eigh(self.tails[0][1], subset_by_index=[draws - rank - 1, draws - 1])
        rest = max(float(values[0]), 0.0)
        return vectors[:, 1:] * np.sqrt(np.maximum(values[1:] - rest, 0)), rest

    def screen(self, floor: float) -> "Screen | None":
        """What a candidate must pass to score at least this; None where that cannot be told beforehand."""
        if self.sketch is None or not 0 < floor < np.inf:
            return None
        (vectors, rest), (weight, gram) = self.sketch, self.tails[0]
        chi2 = weight * np.expm1(floor * (1 - SLACK) / weight)
        return Screen(vectors, rest + SLACK * float(np.trace(gram)), float(chi2 * len(gram) ** 2))


@final
@dataclass(frozen=True, eq=False)
class PreparedVotes:
    """Targets whose draws are votes, as `top_epig` counts them."""

    fast: Any  # the compiled loop
    targets: Votes
    weights: np.ndarray  # [m]

    def check(self, targets: Votes | np.ndarray, weights: Array | None, log: bool) -> None:
        """Refuse other targets than these, or other weights."""
        if targets is not self.targets and not np.array_equal(np.asarray(targets), np.asarray(self.targets)):
            raise ValueError(OTHER_TARGETS.format(targets.shape, self.targets.shape))
        if log or not np.array_equal(shares(weights, len(targets)), self.weights):
            raise ValueError(OTHER_WEIGHTS)

    @cached_property
    def packs(self) -> list[Any]:
        """The targets as they are counted."""
        return [pack for _, pack in self.fast.vote_packs(self.targets, self.weights)]

    def screen(self, floor: float) -> None:
        """No bound is cheaper than counting."""


class Screen(NamedTuple):
    """The rough bound as a test, for models that can do it before they write a prediction down.

    With A_kl = sum_y (p_k(y) - p(y)) (p_l(y) - p(y)) / p(y) of a candidate: it may score enough only if
    sum_v (V^T A V)_vv + `factor` sum_k A_kk >= `least`.
    """

    vectors: np.ndarray  # [k, rank]  V
    factor: float
    least: float


def prepare(
    target_probs: Array, *, weights: Array | None = None, log: bool = False, candidates: int = 1_000_000
) -> Prepared | PreparedVotes | None:
    """What `top_epig` needs to know of these targets, for candidates of the same dtype; None without the compiled loop.

    `candidates` is about how many there are in all: few are scored without further ado.

    >>> split = [[1.0, 0.0], [0.0, 1.0]]
    >>> top_epig([split], [split], 1, prepared=prepare([split]))
    (array([0]), array([0.69314718]))
    """
    if isinstance(target_probs, Votes):
        loop = hot_loop()
        return None if loop is None else PreparedVotes(loop, target_probs, shares(weights, len(target_probs)))
    _, (target_probs,) = check_probs(target_probs=target_probs, log=log, values=False)
    host = as_numpy(target_probs)
    fast = None if host is None else hot_loop()
    if fast is None or host is None or 0 in host.shape or host.shape[2] == 1:
        return None
    return _prepared(fast, host, weights, host.dtype, log, candidates)


def _prepared(
    fast: Any, target_probs: np.ndarray, weights: Array | None, dtype: Any, log: bool, candidates: int
) -> Prepared:
    w = shares(weights, len(target_probs))
    return Prepared(fast, target_probs, w, dtype, log, candidates, _sample(target_probs))


def _sample(target_probs: np.ndarray) -> np.ndarray:
    """Some thousand numbers from all over an array, copied: a target array that is filled anew shows in them."""
    numbers: np.ndarray = target_probs.flat[:: max(1, target_probs.size // SAMPLE)]
    return numbers


class _Race(NamedTuple):
    """What does not change while the candidates are run against the targets, block after block."""

    fast: Any  # the compiled loop
    candidates: Any  # as the loop wants them
    targets: Prepared

    def totals(self, index: np.ndarray) -> np.ndarray:
        """The whole scores of some candidates."""
        return self.run(index, np.zeros(len(index)), 0, len(self.targets.blocks))

    def run(self, index: np.ndarray, totals: np.ndarray, first: int, stop: int) -> np.ndarray:
        """Add what the blocks from `first` to `stop` tell."""
        self.fast.add_scores(self.candidates, self.targets.blocks[first:stop], totals, index=index)
        return totals

    def promise(self, index: np.ndarray) -> np.ndarray:
        """At least `most_to_come` of all blocks, and cheaper where the targets have been sketched."""
        if self.targets.sketch is None:
            return self.most_to_come(index, 0)
        (weight, gram), (vectors, rest) = self.targets.tails[0], self.targets.sketch
        leading, trace = self.fast.sketch(self.candidates, vectors, index=index).T
        return _bound(weight, gram, leading + rest * trace, trace)

    def most_to_come(self, index: np.ndarray, block: int) -> np.ndarray:
        """The most that this block and those after it can add: W log(1 + chi2 / W), chi2 weighted, W their weight."""
        weight, gram = self.targets.tails[block]
        if weight <= 0:
            return np.zeros(len(index))
        full, _, trace = self.fast.forms(self.candidates, gram, index=index).T
        return _bound(weight, gram, full, trace)


def _bound(weight: float, gram: np.ndarray, full: np.ndarray, trace: np.ndarray) -> np.ndarray:
    """W log(1 + chi2 / W), chi2 raised by more than rounding."""
    chi2 = (full + SLACK * trace * np.trace(gram)) / len(gram) ** 2
    most: np.ndarray = weight * np.log1p(np.maximum(chi2, 0) / weight)
    return most


def _best(index: np.ndarray, scores: np.ndarray, size: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """The `size` best, best first; equal scores, as the user will see them, in order of index."""
    shown = scores.astype(dtype)
    if len(shown) > size:
        enough = shown >= np.partition(shown, -size)[-size]
        index, scores, shown = index[enough], scores[enough], shown[enough]
    order = np.lexsort((index, -shown))[:size]
    return index[order], scores[order]


def _survivors(race: _Race, size: int, known: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """(index, scores) of the candidates that could not be ruled out; the best are among them or among the known."""
    blocks = race.targets.blocks
    counted = race.fast.counted(race.candidates, blocks)
    others = np.flatnonzero(~counted)
    if len(others) == 0 or not race.targets.pays:
        every = np.arange(len(counted))
        return every, race.totals(every)
    promise, least = np.full(len(counted), np.inf), floor * (1 - SLACK)
    promise[others] = race.promise(others)
    left = np.flatnonzero(promise >= least)
    most = len(counted) - len(others) + 2 * size + 32
    order = np.argpartition(-promise[left], most) if most < len(left) else np.arange(len(left))
    head, rest = left[order[:most]], np.sort(left[order[most:]])
    head_totals = race.totals(head)
    bar = max(_kth(np.concatenate([known, head_totals]), size), least)
    rest = rest[promise[rest] >= bar]
    if not race.targets.finer:
        return np.concatenate([head, rest]), np.concatenate([head_totals, race.totals(rest)])
    if race.targets.sketch is not None and len(blocks) > 1:  # else the finer bound costs what it saves
        rest = rest[race.most_to_come(rest, 0) >= bar]
    totals, done, step = np.zeros(len(rest)), 0, 1
    while done < len(blocks):
        race.run(rest, totals, done, done + step)
        done = min(done + step, len(blocks))
        keep = totals + race.most_to_come(rest, done) >= bar
        # Where the bound drops next to nothing, ask it less and less often.
        step = 1 if keep.sum() < 0.9 * len(keep) else 2 * step
        rest, totals = rest[keep], totals[keep]
    return np.concatenate([head, rest]), np.concatenate([head_totals, totals])


def _kth(scores: np.ndarray, size: int) -> float:
    """The `size`-th largest score, lowered by more than rounding; -inf while there are fewer."""
    return float(np.partition(scores, -size)[-size]) * (1 - SLACK) if len(scores) >= size else -np.inf
