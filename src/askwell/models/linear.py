"""Bayesian multinomial logistic regression: the fast default for text and embeddings.

p(y=j|x,W) = softmax_j(Wᵀφ(x)) with φ(x) = [1, standardised x / √d] `[D]` and the prior w_j ~ N(0, s² I) for each of c
classes, so s is the prior standard deviation of a typical input's logit whatever d is. Both s and the posterior's
width about its mode are chosen by how well they predict labels held out (`tempered.py`).

What a prediction does besides its matrix product is compiled (`linear_kernels.py`), or NumPy until that is ready.
Either way the same steps in the same order, none of them fused, and the same BLAS: predictions are equal to the bit.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np
from scipy.linalg.blas import sgemm
from scipy.special import digamma, polygamma

from askwell import checks
from askwell.arrays import one_thread_each, spans, take, threads, whole_power
from askwell.compiling import ready
from askwell.information.bounds import Screen
from askwell.models.inputs import Names, check_lengths, column_names, count, features, sliceable
from askwell.models.protocol import check_rng, class_codes
from askwell.models.tempered import tempered_posterior
from askwell.notebook import brief

__all__ = [
    "GradientEmbeddings",
    "LinearModel",
    "LinearPosterior",
    "gradient_embeddings",
    "set_probs",
    "set_probs_above",
    "set_softmax",
    "set_standardised",
]

REFERENCE_ROWS = 10_000  # inputs, evenly spaced, that give the units
MOST_ROWS = 2**10  # in such a chunk
MOST_BLOCKS = 32  # of those, handed to a thread at a time
BLOCK = 2**20  # logits in one chunk of predict: 4 MiB of float32, so that the passes of the softmax stay in cache
FAR = np.float32(80)  # logits: there a class has all the probability, and exp still fits in float32
ONE, HALF, TO_POWERS = np.float32(1), np.float32(0.5), np.float32(1 / np.log(2))
# log 2 in two parts, of which the first has few digits: whole numbers times it are exact
LOG_2_MOST = np.float32(0.693359375)
LOG_2_REST = np.float32(np.log(2) - 0.693359375)
# (exp(f) - 1 - f) / f^2 = sum_(n >= 2) f^(n-2) / n!, for |f| <= log(2) / 2, highest first
TERMS = tuple(np.float32(1 / np.prod(np.arange(1.0, n + 1))) for n in range(8, 1, -1))
BIAS, DIGITS = np.int32(127), np.int32(23)  # of a float32: its exponent's zero, and how far up the exponent is
SECONDS = 2e-8  # that NumPy takes for a number, beside the matrix product


@final
@dataclass(frozen=True)
class LinearModel:
    """Logistic regression with `draws` samples of its tempered posterior; a hundred are few for EPIG of ten classes.

    `prior_scale` s is a number, or "auto": draws of several scales, each in proportion to how well it predicts labels
    held out, times a weak log-normal belief about s that settles it while labels are few. The draws' spread about their
    mode is chosen in the same way.
    `standardise` takes the mean off each feature and divides it by its standard deviation, both of the labelled inputs,
    or better of `reference`, any inputs, such as the pool. Standard deviations of few inputs are noise, so they are
    shrunk towards each other (empirical Bayes) as far as that noise explains their differences.

    >>> from askwell.seeds import rng_for
    >>> model = LinearModel(draws=50)
    >>> posterior = model.fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"), classes=["maybe", "no", "yes"])
    >>> posterior.predict([[0.0], [0.5], [1.0]]).shape                      # [n, k, c]
    (3, 50, 3)
    """

    draws: int = 500
    prior_scale: float | Literal["auto"] = "auto"
    intercept: bool = True
    standardise: bool = True
    reference: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.count("draws", self.draws)
        s = self.prior_scale
        if s != "auto" and not (isinstance(s, int | float) and 0 < s < math.inf):
            raise ValueError(f'prior_scale must be "auto" or a number above zero, but it is {s!r}.')

    def fit(
        self, x: Any, y: Any, *, rng: np.random.Generator, classes: Sequence[Any] | None = None
    ) -> "LinearPosterior":
        """The posterior of `x [n, d]` and labels `y [n]`; a class without an example gets what the prior leaves it."""
        codes, all_classes = class_codes(y, classes)
        check_lengths(x, codes)
        check_rng(rng)
        names, x = column_names(x), features(x)
        centre, scale = self._units(x, names)
        rows = _augmented((x.astype(np.float64) - centre) / scale, self.intercept)  # [n, D]
        chosen = None if self.prior_scale == "auto" else self.prior_scale
        drawn = tempered_posterior(rows, codes, len(all_classes), draws=self.draws, rng=rng, scale=chosen)
        weights, mean = np.ascontiguousarray(drawn.weights, np.float32), drawn.mean.astype(np.float32)
        units = centre.astype(np.float32), scale.astype(np.float32)
        return LinearPosterior(all_classes, *units, weights, mean, drawn.scale, drawn.temper, names)

    def _units(self, x: np.ndarray, names: Names) -> tuple[np.ndarray, np.ndarray]:
        """What is taken off the features, and what they are divided by, √d included; `[d]` both."""
        d = x.shape[1]
        if not self.standardise:
            return np.zeros(d), np.full(d, math.sqrt(d))
        given = x if self.reference is None else sliceable(self.reference, names=names)
        given = features(take(given, slice(None, None, 1 + count(given) // REFERENCE_ROWS)), width=d)
        return given.mean(axis=0, dtype=np.float64), _deviations(given) * math.sqrt(d)


@final
@dataclass(frozen=True)
class LinearPosterior:
    """Weights drawn from the posterior."""

    __repr__ = brief

    concurrent: ClassVar[bool] = True

    classes: tuple[Any, ...]
    centre: np.ndarray  # [d]
    scale: np.ndarray  # [d]
    weights: np.ndarray  # [D, c, k]  of the standardised features; with an intercept D = d + 1 and it comes first
    mean: np.ndarray  # [D, c]  the posterior mode; with several prior scales, the mean of their modes
    prior_scale: float  # where there are several, their geometric mean
    temper: float  # the spread of the draws about their mode, of what the curvature's bound gives; the geometric mean
    names: Names = None  # of the columns of the fit

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, k, c]`, float32, in chunks: beyond the output it holds a few MiB."""
        x = sliceable(x, names=self.names)
        out = np.empty((count(x), self.weights.shape[2], len(self.classes)), np.float32)
        weights = self._columns

        def job(span: slice) -> None:
            set_probs(self._readable(x, span), self.centre, self.scale, weights, self._block, out[span])

        self._in_parts(job, len(out))
        return out

    def predict_above(self, x: Any, screen: Screen) -> tuple[np.ndarray, np.ndarray]:
        """(positions, predictions) of the inputs that pass a screen, in order: to the bit what `predict` says of them.

        For two classes without writing down what it would say of the others.
        """
        x = sliceable(x, names=self.names)
        if len(self.classes) != 2 or count(x) == 0:
            return np.arange(count(x)), self.predict(x)
        test = np.ascontiguousarray(screen.vectors.T, np.float32), float(screen.factor), float(screen.least)
        weights = self._columns

        def job(span: slice) -> tuple[np.ndarray, np.ndarray]:
            n = span.stop - span.start
            index, out = np.empty(n, np.intp), np.empty((n, self.weights.shape[2], 2), np.float32)
            part = self._readable(x, span)
            passing = set_probs_above(part, self.centre, self.scale, weights, self._block, test, index, out)
            return span.start + index[:passing], out[:passing].copy()

        positions, probs = zip(*self._in_parts(job, count(x)), strict=True)
        return np.concatenate(positions), np.concatenate(probs)

    def _in_parts(self, job: Callable[[slice], Any], n: int) -> list[Any]:
        """`job(span)` of all inputs, in threads; spans are of whole blocks."""
        several = threads()
        parts = spans(n, self._block * max(1, min(MOST_BLOCKS, n // (4 * several * self._block))))
        with one_thread_each():
            if several == 1:
                return [job(part) for part in parts]
            with ThreadPoolExecutor(several) as pool:
                return list(pool.map(job, parts))

    @property
    def _block(self) -> int:
        """Rows of a product: 2^i, since BLAS rounds by a row's position in it, and chunks have 2^j."""
        _, c, k = self.weights.shape
        return whole_power(min(MOST_ROWS, BLOCK // max(len(self.weights), k if c == 2 else c * k)))

    @property
    def _columns(self) -> np.ndarray:
        """The weights of a product `[D, c k]`; of two classes `[D, k]`, the second's less the first's.

        Classes come before draws: a softmax then runs along whole cache lines of draws.
        """
        if len(self.classes) == 2:
            return np.asarray(self.weights[:, 1] - self.weights[:, 0])
        return self.weights.reshape(len(self.weights), -1)

    def _readable(self, x: Any, span: slice) -> np.ndarray:
        """Inputs `[rows, d]` of a chunk, not to be written, so that numba compiles for one kind of array."""
        part = features(take(x, span), width=len(self.centre), first=span.start).view()
        part.flags.writeable = False
        return part

    def mean_predict(self, x: Any) -> np.ndarray:
        """Class probabilities `[n, c]` at the mode: a little sharper than the mean of the draws."""
        x = sliceable(x, names=self.names)
        out = np.empty((count(x), len(self.classes)), np.float32)
        for span in spans(len(out), max(1, BLOCK // max(self.mean.shape))):
            logits = self._inputs(x, span) @ self.mean
            logits -= logits.max(axis=1, keepdims=True)
            np.exp(logits, out=logits)
            out[span] = logits / logits.sum(axis=1, keepdims=True)
        return out

    def _inputs(self, x: Any, span: slice) -> np.ndarray:
        """φ(x) `[rows, D]` of a chunk."""
        part = features(take(x, span), width=len(self.centre), first=span.start or 0)
        rows = np.empty((len(part), len(self.weights)), np.float32)
        set_standardised(part, self.centre, self.scale, rows)
        return rows


class GradientEmbeddings(NamedTuple):
    """BADGE's embeddings g_i = r_i ⊗ φ_i in two factors: `[n, c]` and `[n, D]` instead of `[n, c D]`."""

    residuals: np.ndarray  # [n, c]
    features: np.ndarray  # [n, D]

    def dense(self) -> Any:
        """The embeddings themselves, `[n, c D]`."""
        return (self.residuals[:, :, None] * self.features[:, None, :]).reshape(len(self.residuals), -1)

    def inner(self, index: Any) -> Any:
        """Inner products `[n, b]` with the embeddings at `index`: (r_i · r_j)(φ_i · φ_j)."""
        return (self.residuals @ self.residuals[index].T) * (self.features @ self.features[index].T)


def gradient_embeddings(posterior: LinearPosterior, x: Any) -> GradientEmbeddings:
    """Gradients of the loss at the mode's own guess ŷ: g(x) = (p(·|x) - onehot(ŷ)) ⊗ φ(x), as BADGE selects by.

    Squared distances, all that k-means++ asks for, need no `[n, c D]`: |g_i - g_j|² = |g_i|² + |g_j|² - 2 `inner`.

    >>> from askwell.seeds import rng_for
    >>> posterior = LinearModel().fit([[0.0], [1.0]], ["no", "yes"], rng=rng_for(0, 0, "fit"))
    >>> residuals, phi = gradient_embeddings(posterior, [[0.0], [0.5], [1.0]])
    >>> residuals.shape, phi.shape
    ((3, 2), (3, 2))
    """
    x = sliceable(x, names=posterior.names)
    residuals = posterior.mean_predict(x)
    residuals[np.arange(len(residuals)), residuals.argmax(axis=1)] -= 1
    return GradientEmbeddings(residuals, posterior._inputs(x, slice(None)))


# ---- inputs --------------------------------------------------------------------------------------------------------


def _augmented(x: np.ndarray, intercept: bool) -> np.ndarray:
    return np.concatenate([np.ones((len(x), 1), x.dtype), x], axis=1) if intercept else x


def _deviations(x: np.ndarray) -> np.ndarray:
    """Standard deviations `[d]`, shrunk towards their geometric mean; that mean where a feature does not vary.

    The log of a variance of n inputs is off by a noise of known variance ψ'((n-1)/2) (Smyth 2004); what the logs of
    the d variances differ by beyond that is real and stays.
    """
    variance = x.var(axis=0, dtype=np.float64) * len(x) / max(1, len(x) - 1)
    size = np.square(x, dtype=np.float64).mean(axis=0)
    varies = variance > 1e-13 * size  # less is what float32 rounds off
    if not varies.any():
        return np.full(x.shape[1], math.sqrt(size.mean()) if size.any() else 1.0)
    freedom = (len(x) - 1) / 2
    logs = np.log(variance[varies]) - digamma(freedom) + math.log(freedom)
    spread, chance = logs.var(), float(polygamma(1, freedom))
    share = max(0.0, 1 - chance / spread) if spread > 0 else 0.0
    shrunk = np.full(x.shape[1], logs.mean())
    shrunk[varies] += share * (logs - logs.mean())
    return np.exp(shrunk / 2)


# ---- predictions -----------------------------------------------------------------------------------------------------


def set_probs(
    x: np.ndarray, centre: np.ndarray, scale: np.ndarray, weights: np.ndarray, block: int, out: np.ndarray
) -> None:
    """out[i, k, y] = p(y) of `x [n, d]` for `weights` as `LinearPosterior._columns` has them.

    So many rows at a time as `block` says, which stay in cache.
    """
    if ready(SECONDS * len(x) * weights.shape[1]):
        from askwell.models import linear_kernels  # here, because it imports numba

        linear_kernels.set_probs(x, centre, scale, weights, block, out)
        return
    rows = np.empty((min(block, len(x)), len(weights)), np.float32)
    for span in spans(len(x), block):
        part = rows[: span.stop - span.start]
        set_standardised(x[span], centre, scale, part)
        # numba's np.dot is a call of SciPy's BLAS, with both matrices turned over: the same call here
        _set_softmax(sgemm(1.0, weights.T, part.T).T, out[span])


def set_probs_above(
    x: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    weights: np.ndarray,
    block: int,
    screen: tuple[np.ndarray, float, float],
    index: np.ndarray,
    out: np.ndarray,
) -> int:
    """`set_probs` of two classes for rows that pass a screen, in order: writes `index` and `out`, returns how many.

    `screen` is (vectors [rank, k], factor, least), see `askwell.information.bounds.Screen`. In NumPy all pass: to find
    out would cost more than it saves.
    """
    if ready(SECONDS * len(x) * weights.shape[1]):
        from askwell.models import linear_kernels

        return int(linear_kernels.set_probs_above(x, centre, scale, weights, block, screen, index, out))
    set_probs(x, centre, scale, weights, block, out)
    index[: len(x)] = np.arange(len(x))
    return len(x)


def set_standardised(x: np.ndarray, centre: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    """out[i] = (x[i] - centre) / scale for `x [n, d]`, behind ones where `out [n, D]` is wider.

    >>> out = np.empty((1, 3), np.float32)
    >>> set_standardised(np.ones((1, 2), np.float32), np.ones(2, np.float32), np.ones(2, np.float32), out)
    >>> out
    array([[1., 0., 0.]], dtype=float32)
    """
    first = out.shape[1] - x.shape[1]
    out[:, :first] = ONE
    np.subtract(x, centre, out=out[:, first:])
    out[:, first:] /= scale


def set_softmax(logits: np.ndarray, out: np.ndarray) -> None:
    """out[i, k, y] = softmax_y of `logits [n, c k]`; those more than FAR below the largest count as FAR below it.

    Of two classes `logits [n, k]` are differences, second less first. With odds e = exp(-difference) of the first class
    the probabilities are e / (1 + e) and 1 / (1 + e).

    >>> out = np.empty((1, 1, 3), np.float32)
    >>> set_softmax(np.array([[0.0, 0.0, -200.0]], np.float32), out)
    >>> np.round(out, 6)
    array([[[0.5, 0.5, 0. ]]], dtype=float32)
    """
    if ready(SECONDS * logits.size):
        from askwell.models import linear_kernels

        linear_kernels.set_softmax(logits, out)
    else:
        _set_softmax(logits, out)


def _set_softmax(logits: np.ndarray, out: np.ndarray) -> None:
    n, k, c = out.shape
    if c == 2:
        odds = _exp(-np.clip(logits, -FAR, FAR))
        second = ONE / (ONE + odds)
        out[..., 0], out[..., 1] = odds * second, second
        return
    logits = logits.reshape(n, c, k)
    odds = _exp(np.maximum(logits - logits.max(axis=1, keepdims=True), -FAR))  # [n, c, k]
    total = odds[:, 0].copy()
    for y in range(1, c):  # in this order, as compiled
        total += odds[:, y]
    np.multiply(odds.transpose(0, 2, 1), (ONE / total)[:, :, None], out=out)


def _exp(logit: np.ndarray) -> np.ndarray:
    """exp of numbers from -FAR to FAR."""
    power = np.floor(logit * TO_POWERS + HALF)
    f = (logit - power * LOG_2_MOST) - power * LOG_2_REST
    series = TERMS[0]
    for term in TERMS[1:]:
        series = series * f + term
    powers = ((power.astype(np.int32) + BIAS) << DIGITS).view(np.float32)
    return np.asarray(((series * (f * f) + f) + ONE) * powers)
