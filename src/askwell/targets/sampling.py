"""Targets: what gives the target inputs of each step, from samples, from the pool, or from class frequencies.

Inputs are never converted or copied before rows are taken of them. The posterior is asked in chunks, and only where the
choice depends on it.

Many targets are summarised by a few with weights: importance sampling, evened out. Target j moves EPIG by
w_j I(y; y*_j), and I(y; y*_j) <= BALD_j, whatever the candidate. So targets are taken with probability proportional to
w_j (BALD_j + a little), in equal steps along the order of their BALD (systematic sampling: every stretch of the order
is taken its fair share of times), and those taken count w_j over that probability.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import array_api_compat
import numpy as np

from askwell.arrays import Array, check_probs, check_table, normalised_weights, take
from askwell.arrays import count as rows_of
from askwell.checks import count
from askwell.information import moments
from askwell.information.categorical import bald
from askwell.targets.prior import class_weights, effective_size

__all__ = [
    "Inputs",
    "Sample",
    "Targets",
    "as_targets",
    "class_prior",
    "from_pool",
    "given",
    "given_inputs",
    "inclusion",
    "representatives",
    "subset",
    "taken",
    "target_bald",
]

CHUNK_BYTES = 32 << 20  # of predictions at a time: as much as malloc gives again without asking the system anew
M = 100  # inputs of the pool, where nothing is said: the paper's
LOOK = 10  # times as many given inputs are looked at as are kept
FEW = 50  # effective inputs, below which weights stand on too little
LITTLE = 0.3  # of the mean BALD, added to each: without it, targets of no doubt at all get the largest weights
ROUNDED = 0.02  # how far from one the sum of a rounded prior may be

Belief = Callable[[Any], Any]


class Inputs(Protocol):
    """What a pool looks like from here."""

    def __len__(self) -> int:
        """How many inputs there are."""

    def take(self, positions: Any) -> Any:
        """The inputs at these positions, as the model wants them."""


@final
@dataclass(frozen=True, eq=False)
class Sample:
    """The target inputs of one step: m inputs `x`, `weights [m]` that sum to one (None: all the same), and a remark."""

    x: Any
    weights: np.ndarray | None = None
    note: str = ""


@runtime_checkable
class Targets(Protocol):
    """What gives target inputs. Anything with these two will do."""

    @property
    def fixed(self) -> bool:
        """False: every step is given randomness of its own. True: every step is given the same."""

    def sample(self, pool: Inputs, belief: Belief, *, classes: Sequence[Any], rng: np.random.Generator) -> Sample:
        """The target inputs of a step; `belief(x)` is `[n, k, c]`, with columns in the order of `classes`.

        Where labels are numbers, `classes` is empty, and `belief(x)` an `askwell.information.moments.Moments`.
        """


def given(x: Any, *, weights: Array | None = None, most: int | None = 1000) -> Targets:
    """Inputs like those the model will meet, which can never be asked: samples of p*(x*).

    `x` is an array, a sparse matrix with rows, a data frame, a list of inputs or a dict of arrays. `weights` say how
    much each counts. Where there are more than `most`, each step takes that many by importance sampling
    (`representatives`), having looked at no more than ten times as many; None takes all of them, always.

    >>> given(np.zeros((5, 2)))
    given(5 inputs)
    """
    n = _count(x)
    if most is not None:
        count("most", most)
    return _Given(x, normalised_weights(weights, n), most)


def given_inputs(targets: Targets) -> Any:
    """The inputs that were given as targets and count; None where they come from the pool.

    >>> given_inputs(given([[1.0], [2.0]])), given_inputs(from_pool(100))
    ([[1.0], [2.0]], None)
    """
    if not isinstance(targets, _Given):
        return None
    return targets.x if targets.weights is None else take(targets.x, np.flatnonzero(targets.weights))


def given_weights(targets: Targets) -> np.ndarray | None:
    """What the inputs of `given_inputs` count, summing to one; None where all count the same."""
    if not isinstance(targets, _Given) or targets.weights is None:
        return None
    weights: np.ndarray = targets.weights[np.flatnonzero(targets.weights)]
    return weights


def from_pool(m: int, *, fixed: bool = False) -> Targets:
    """`m` inputs of the pool, each as likely as any other; redrawn every step, or `fixed`.

    For a pool that looks like what the model will meet, or where nothing better is known.

    >>> from_pool(100)
    from_pool(100)
    """
    return _FromPool(count("m", m), fixed)


def class_prior(
    p: Mapping[Any, float] | Sequence[float] | np.ndarray,
    *,
    m: int = 200,
    among: int = 4000,
    resample: bool = False,
    fixed: bool = False,
) -> Targets:
    """Inputs of the pool, weighted so that classes are as frequent as `p` says the model will meet them.

    `p` maps classes to probabilities (those it does not name have none), or lists them in the order of the classes. Of
    `among` inputs of the pool, each gets the weight w(x) ∝ sum_y p*(y) p(y|x) / mean_x p(y|x), and `m` are kept by
    importance sampling. With `resample` they are m draws from w instead, which count the same: the paper's way, and
    noisier. `fixed` keeps looking at the same inputs; their weights still follow the model.

    >>> class_prior({"cat": 0.5, "dog": 0.5})
    class_prior({'cat': 0.5, 'dog': 0.5}, m=200)
    """
    m, among = count("m", m), count("among", among)
    if among < m:
        raise ValueError(f"among must be at least m, but among is {among} and m is {m}.")
    return _ClassPrior(*_checked_prior(p), m, among, resample, fixed)


def as_targets(value: Any) -> Targets:
    """Whatever a user may mean by targets: None (from the pool), inputs (given), or a `Targets` as it is.

    >>> as_targets(None), as_targets([[1.0, 2.0], [3.0, 4.0]])
    (from_pool(100), given(2 inputs))
    """
    if value is None:
        return from_pool(M)
    # A data frame has a method `sample` too, and may have a column `fixed`.
    if not hasattr(value, "iloc") and not isinstance(value, type) and isinstance(value, Targets):
        return value
    if hasattr(value, "iloc") or hasattr(value, "shape") or _is_list(value) or _is_arrays(value):
        return given(value)
    check_table(value, name="targets")
    kind = type(value).__name__
    remedy = "Try list(targets) if it can be gone through."
    if isinstance(value, Mapping):
        remedy = "Try askwell.targets.class_prior(...) if these are frequencies of classes."
    elif isinstance(value, int):
        remedy = f"Try askwell.targets.from_pool({value}) for that many inputs of the pool."
    elif isinstance(value, str):
        remedy = "Load the inputs first, the way the pool was loaded."
    elif callable(value):
        remedy = "Call it: askwell.targets.from_pool(100), for example."
    raise ValueError(
        "targets must be None (taken from the pool), inputs (an array, a data frame or a list), or something from "
        f"askwell.targets, but it is {kind}. {remedy}"
    )


# ---- the three kinds -----------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False, repr=False)
class _Given:
    x: Any
    weights: np.ndarray | None
    most: int | None
    fixed: bool = False

    def sample(self, pool: Inputs, belief: Belief, *, classes: Sequence[Any], rng: np.random.Generator) -> Sample:
        n = _count(self.x)
        if self.most is None or n <= self.most:
            return Sample(self.x, self.weights, f"{n:,} given inputs{_remark(self.weights)}")
        share = np.full(n, 1 / n) if self.weights is None else self.weights
        looked, w = subset(share, None, min(n, LOOK * self.most), rng=rng)
        parts = [target_bald(probs) for probs in _beliefs(lambda i: take(self.x, i), looked, belief)]
        kept, w = subset(w, np.concatenate(parts), self.most, rng=rng)
        return Sample(take(self.x, looked[kept]), w, f"{len(kept):,} of {n:,} given inputs{_remark(self.weights)}")

    def __repr__(self) -> str:
        n = _count(self.x)
        weights = "" if self.weights is None else ", weighted"
        return f"given({n:,} inputs{weights}{'' if self.most is None or n <= self.most else f', most={self.most}'})"


@final
@dataclass(frozen=True, repr=False)
class _FromPool:
    m: int
    fixed: bool

    def sample(self, pool: Inputs, belief: Belief, *, classes: Sequence[Any], rng: np.random.Generator) -> Sample:
        positions = _some(len(pool), self.m, rng)
        return Sample(pool.take(positions), None, f"{len(positions):,} inputs of the pool")

    def __repr__(self) -> str:
        return f"from_pool({self.m}{', fixed=True' if self.fixed else ''})"


@final
@dataclass(frozen=True, repr=False)
class _ClassPrior:
    named: tuple[Any, ...] | None  # None: in the order of the classes
    shares: tuple[float, ...]
    m: int
    among: int
    resample: bool
    fixed: bool

    def sample(self, pool: Inputs, belief: Belief, *, classes: Sequence[Any], rng: np.random.Generator) -> Sample:
        classes = list(classes)
        if not classes:
            raise ValueError(
                "targets must not be class_prior where labels are numbers: there are no classes to weigh. Try "
                "askwell.targets.given(x, weights=...), inputs like those the model will meet."
            )
        prior = self._prior(classes)
        looked = _some(len(pool), self.among, rng)
        means, doubts = [], []
        for probs in _beliefs(pool.take, looked, belief):
            if probs.shape[2] != len(prior):
                raise ValueError(
                    f"belief must give one column per class, {len(prior)}, but its shape is {probs.shape}."
                )
            means.append(np.asarray(probs, np.float64).mean(axis=1))
            doubts.append(target_bald(probs))
        mean = np.concatenate(means)  # [n, c]
        w = class_weights(mean, prior)
        self._warn(w, mean.mean(axis=0), prior, classes)
        note = f"{{}} of {len(looked):,} inputs of the pool, weighted by class{_remark(w)}"
        if self.resample:
            drawn = looked[np.sort(rng.choice(len(looked), self.m, p=w))]
            return Sample(pool.take(drawn), None, note.format(f"{self.m:,} draws"))
        kept, weights = subset(w, np.concatenate(doubts), self.m, rng=rng)
        return Sample(pool.take(looked[kept]), weights, note.format(f"{len(kept):,}"))

    def _prior(self, classes: Sequence[Any]) -> np.ndarray:
        if self.named is None:
            if len(self.shares) != len(classes):
                raise ValueError(
                    f"p must have one probability per class, {len(classes)}, but it has {len(self.shares)}. The "
                    f"classes are {list(classes)}, in this order; try a dict from class to probability."
                )
            return np.array(self.shares)
        wanted = dict(zip(self.named, self.shares, strict=True))
        strange = [label for label in wanted if label not in classes]
        if strange:
            raise ValueError(
                f"p must name classes of the model, {list(classes)}, but {strange[0]!r} is none of them. A class that "
                "has no label yet must be told beforehand: Learner(..., classes=[...])."
            )
        return np.array([wanted.get(label, 0.0) for label in classes])

    def _warn(self, w: np.ndarray, mean: np.ndarray, prior: np.ndarray, classes: Sequence[Any]) -> None:
        """One warning with all there is to say: classes that nothing stands for, and weights on few inputs."""
        said = []
        lost = [label for label, wanted, found in zip(classes, prior, mean, strict=True) if wanted > 0 and found <= 0]
        if lost:
            said.append(
                f"the model predicts {', '.join(map(repr, lost))} nowhere, so no target stands for it and the other "
                "classes share its probability. Label an example of it first."
            )
        size, least = effective_size(w), min(FEW, len(w) / 10)
        if size < least:
            rare = int(np.argmax(np.where((prior > 0) & (mean > 0), prior / np.where(mean > 0, mean, 1), 0)))
            said.append(
                f"the class prior rests on few inputs: {len(w):,} with an effective size of {size:.1f} (less than "
                f"{least:g}), mostly for {classes[rare]!r}, wanted with probability {prior[rare]:.3g} and predicted "
                f"with {mean[rare]:.3g}. Try a larger `among`, a prior nearer to what the pool has, more labels of "
                "that class, or askwell.targets.given(x)."
            )
        if said:
            warnings.warn(" Also, ".join(said), stacklevel=3)

    def __repr__(self) -> str:
        shares = [float(f"{share:.4g}") for share in self.shares]
        p = shares if self.named is None else dict(zip(self.named, shares, strict=True))
        options = "".join(f", {name}=True" for name in ("resample", "fixed") if getattr(self, name))
        return f"class_prior({p}, m={self.m}{options})"


# ---- inputs of any kind --------------------------------------------------------------------------------------------


def _count(x: Any) -> int:
    """How many inputs; refuses what has none, or no rows."""
    check_table(x)
    if _is_arrays(x):
        return rows_of(x)
    shape = getattr(x, "shape", None)
    if shape is None and not _is_list(x):
        raise ValueError(
            f"x must be an array, a data frame or a list of inputs, but it is {type(x).__name__}. "
            "Try list(x) if it can be gone through."
        )
    if shape is not None and len(shape) == 0:
        raise ValueError(f"x must have one row per input, but it is a single value, {x!r}.")
    n = int(len(x) if shape is None else shape[0])
    if n == 0:
        raise ValueError("x must have at least one target input, but it is empty. Leave targets out to use the pool.")
    if getattr(x, "format", None) in ("bsr", "coo", "dia"):
        raise ValueError(f"x must be a matrix that rows can be taken of, but it is {type(x).__name__}. Try x.tocsr().")
    if shape is None and isinstance(x[0], int | float | complex | np.number):
        raise ValueError(f"x must have one row per input, but it is a plain list of {n} numbers. Try [[v] for v in x].")
    kind = getattr(getattr(x, "dtype", None), "kind", "O")
    if shape is not None and len(shape) == 1 and (kind in "fiubc" or array_api_compat.is_torch_array(x)):
        raise ValueError(
            f"x must have one row per input, but it is a plain list of {n} numbers. "
            f"Try {'x.to_frame()' if hasattr(x, 'iloc') else 'x.reshape(-1, 1)'} if each input is one number, "
            "x.reshape(1, -1) if this is one input."
        )
    return n


def _is_arrays(x: Any) -> bool:
    """Whether x is a dict of arrays, as tokenised text comes; a dict of numbers is frequencies of classes."""
    return isinstance(x, dict) and bool(x) and all(hasattr(part, "shape") and len(part.shape) for part in x.values())


def _is_list(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str | bytes)


def _some(n: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most `most` of n positions, in order."""
    if n == 0:
        raise ValueError("pool must have at least one input to take targets from, but it is empty.")
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _beliefs(take: Callable[[np.ndarray], Any], positions: np.ndarray, belief: Belief) -> Iterator[Any]:
    """The posterior's probs of these inputs, chunk by chunk; the first one shows how large a row is."""
    start, rows = 0, 64
    while start < len(positions):
        found = belief(take(positions[start : start + rows]))
        probs = found if isinstance(found, moments.Moments) else np.asarray(found)
        yield probs
        start, rows = start + rows, max(1, CHUNK_BYTES // max(1, probs[0].nbytes))


def _remark(weights: np.ndarray | None) -> str:
    return "" if weights is None else f", effective size {effective_size(weights):,.0f}"


def _checked_prior(p: Any) -> tuple[tuple[Any, ...] | None, tuple[float, ...]]:
    """(the classes it names, or None; probabilities that sum to one)."""
    named = tuple(p.keys()) if hasattr(p, "keys") else None
    if named is None and (not hasattr(p, "__len__") or isinstance(p, set | frozenset)):
        raise ValueError(f"p must map classes to probabilities, or list them in class order, but it is {p!r}.")
    try:
        shares = np.array([p[label] for label in named] if named is not None else list(p), np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"p must hold numbers, but it is {p!r}.") from None
    if shares.ndim != 1 or len(shares) == 0:
        raise ValueError(f"p must hold one probability per class, but it is {p!r}.")
    if not (np.isfinite(shares).all() and (shares >= 0).all()):
        raise ValueError(f"p must hold probabilities, finite and not negative, but it is {p!r}.")
    total = float(shares.sum())
    if abs(total - 1) > ROUNDED:
        raise ValueError(
            f"p must sum to one (to within {ROUNDED}, for rounded numbers), but it sums to {total:.6g}. "
            "Divide by the sum if these are counts or per cents; name every class that will be met."
        )
    return named, tuple((shares / total).tolist())


# ---- many by a few ---------------------------------------------------------------------------------------------------


def representatives(
    probs: Array, size: int, *, weights: Array | None = None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, weights) of at most `size` targets that stand for all of `probs [m, k, c]`, none of them twice.

    EPIG with the few and their weights estimates EPIG with all and `weights`. Before the weights are made to sum to one
    the estimate is unbiased; after, it is off by a factor that is the same for all candidates, and in the mean by 1 %
    for 20 of 200. Fewer than `size` come back only where fewer have a positive weight.

    >>> from askwell.seeds import rng_for
    >>> sure, split = [[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]
    >>> positions, weights = representatives([sure] * 8 + [split] * 2, 4, rng=rng_for(0, 0, "few"))
    >>> positions[-2:], weights.round(2)  # both that can be informed, and some that stand for the rest
    (array([8, 9]), array([0.4, 0.4, 0.1, 0.1]))
    """
    _, (probs,) = check_probs(probs=probs, values=False)
    m = probs.shape[0]
    if m == 0:
        raise ValueError(f"probs must have at least one target, but its shape is {tuple(probs.shape)}.")
    w = normalised_weights(weights, m)
    share = np.full(m, 1 / m) if w is None else w
    return subset(share, target_bald(probs), size, rng=rng)


def target_bald(probs: Any) -> np.ndarray:
    """BALD of each target as float64, never negative, on the CPU."""
    if isinstance(probs, moments.Moments):
        return moments.bald(probs)
    scores = bald(probs)
    host = scores if isinstance(scores, np.ndarray) else scores.cpu().numpy()
    return np.maximum(host.astype(np.float64), 0.0)


def subset(
    weights: np.ndarray, doubt: np.ndarray | None, size: int, *, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(positions, weights that sum to one) of at most `size` of m inputs with `weights [m]` and BALD `doubt [m]`.

    Positions are in order. Without `doubt` only the weights decide.
    """
    count("size", size)
    mean = 0.0 if doubt is None else float(weights @ doubt)
    worth = np.ones(len(weights)) if doubt is None or mean == 0 else doubt + LITTLE * mean
    chance = inclusion(weights * worth, size)
    # Ties in BALD (hard votes) in random order: a sample in steps must not meet the period of a sorted file.
    shuffled = rng.permutation(len(weights))
    order = shuffled[np.argsort(worth[shuffled], kind="stable")]
    positions = np.sort(taken(chance, order, float(rng.random())))
    w = weights[positions] / chance[positions]
    return positions, w / w.sum()


def inclusion(scores: np.ndarray, size: int) -> np.ndarray:
    """Probabilities min(1, scores / t) of being taken, with t such that they sum to `size`; all of few are taken.

    >>> inclusion(np.array([8.0, 1.0, 1.0, 0.0]), 2)
    array([1. , 0.5, 0.5, 0. ])
    """
    if np.count_nonzero(scores) <= size:
        return (scores > 0).astype(np.float64)
    ranked = np.sort(scores)[::-1]
    rest = np.cumsum(ranked[::-1])[::-1][:size]  # of the scores from each rank on
    thresholds = rest / (size - np.arange(size))  # if all before it are taken for sure
    sure = int(np.argmax(ranked[:size] <= thresholds))
    chance: np.ndarray = np.minimum(1.0, scores / thresholds[sure])
    return chance


def taken(chance: np.ndarray, order: np.ndarray, start: float) -> np.ndarray:
    """The positions met by steps of one, from `start` in [0, 1), along the chances laid end to end in this order."""
    sure = np.flatnonzero(chance >= 1)
    open_ = order[(chance[order] > 0) & (chance[order] < 1)]
    if len(open_) == 0:
        return sure
    ends = np.cumsum(chance[open_])
    steps = max(1, round(float(ends[-1])))
    met = np.searchsorted(ends * (steps / ends[-1]), start + np.arange(steps), side="right")
    return np.concatenate([sure, open_[np.minimum(met, len(open_) - 1)]])
