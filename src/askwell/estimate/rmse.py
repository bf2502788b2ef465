"""Where labels are numbers: the error on the targets with an interval, and whether more labels would lower it.

Errors come as in `accuracy`: of questions that were drawn, each predicted by a model that did not learn from it, else
by cross-validation. Squared errors have long tails, so the interval is one of the logarithm of their mean:
mse exp(± t se / mse), with Student's t and the standard error se of the mean. Few labels seldom hold one of the large
errors, so the variance of squared errors is taken for no less than 4 mse² (of Gaussian errors it is 2 mse²): so the
interval held in 94 % of cases and more of Gaussian, Laplace and t5 errors, for 5 to 100 labels.

The advice asks what the last half of the labels changed. If a model of the first half predicts f' and the one of all
labels f, with variance v of a label, then the latter believes the squared errors to be v + (f - f')² before and v now.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from askwell.acquire import Round, Strategy
from askwell.estimate.accuracy import Estimate
from askwell.estimate.stopping import APART, EARLIEST, WORTH, Advice
from askwell.models.protocol import label_moments

__all__ = ["RULE", "advice", "interval", "rmse"]

LEAST, LEAST_DRAWN = 10, 5  # labels that an estimate can rest on, as for classes
FOLDS, DRAWN_FOLDS, REPEATS = 5, 10, 3
LONG = 4.0  # the least variance of squared errors, in units of their mean squared

RULE = (
    f"Stop when, two looks in a row ({APART} labels apart), the last half of the labels lowered the RMSE on the "
    f"targets by at most {WORTH:.0%}, as the model sees it."
)


def rmse(strategy: Strategy, labels: Mapping[int, Any], *, skipped: Collection[int] = ()) -> Estimate | None:
    """The RMSE of the model that learns from these labels, position -> number; None where they are too few to tell.

    >>> from askwell.data.pool import as_pool
    >>> from askwell.models.bayes import BayesianLinearRegression
    >>> from askwell.seeds import rng_for
    >>> from askwell.targets import as_targets
    >>> x = rng_for(0, 0, "example").normal(size=(80, 2))
    >>> strategy = Strategy(BayesianLinearRegression(draws=50), as_pool(x), as_targets(None))
    >>> found = rmse(strategy, {i: float(x[i, 0] + 0.5 * x[(7 * i) % 80, 1]) for i in range(40)})
    >>> found.metric, found.how, found.labels, 0.3 < found.low < found.value < found.high < 0.8
    ('rmse', 'cross-validated', 40, True)
    """
    rng = strategy.rng("estimate", labels)
    sample = {} if strategy.drawn is None else strategy.drawn.sample(labels, skipped)
    if strategy.drawn is not None and len(sample) >= LEAST_DRAWN:
        errors = _errors(strategy, labels, [*sample], DRAWN_FOLDS, rng)
        found = interval(errors**2, np.array([*sample.values()], float))
        return Estimate(*found, how="drawn", labels=len(sample), of=strategy.drawn.of, metric="rmse")
    if len(labels) < LEAST:
        return None
    repeats = [_errors(strategy, labels, [*labels], FOLDS, rng) ** 2 for _ in range(REPEATS)]
    found = interval(np.mean(repeats, axis=0), np.ones(len(labels)))
    return Estimate(*found, how="cross-validated", labels=len(labels), of="chosen", metric="rmse")


def interval(squares: np.ndarray, weights: np.ndarray) -> tuple[float, float, float]:
    """(value, low, high) of the root of the mean of squared errors, at 95 %.

    >>> [round(each, 2) for each in interval(np.array([1.0, 4.0, 0.0, 1.0]), np.ones(4))]
    [1.22, 0.2, 7.69]
    """
    n = float(weights.sum() ** 2 / (weights**2).sum())  # equally weighted labels that are worth as much
    mean = float(np.average(squares, weights=weights))
    if mean == 0 or n <= 1:
        return math.sqrt(mean), 0.0, math.sqrt(mean) if n > 1 else math.inf
    spread = max(float(np.average((squares - mean) ** 2, weights=weights)), LONG * mean**2)
    half = float(stdtrit(n - 1, 0.975)) * math.sqrt(spread / (n - 1)) / mean / 2
    return math.sqrt(mean), math.sqrt(mean) * math.exp(-half), math.sqrt(mean) * math.exp(min(half, 100.0))


def _errors(
    strategy: Strategy, labels: Mapping[int, Any], judged: Sequence[int], folds: int, rng: np.random.Generator
) -> np.ndarray:
    """y - f(x) `[len(judged)]` of labelled items, each by a model that did not learn from it."""
    fold = rng.permutation(len(judged)) % min(folds, len(judged))
    errors = np.empty(len(judged))
    for number in range(fold.max() + 1):
        where = np.flatnonzero(fold == number)
        out = [judged[i] for i in where.tolist()]
        posterior = strategy.fit({i: label for i, label in labels.items() if i not in {*out}}, rng)
        errors[where] = np.array([labels[i] for i in out]) - label_moments(posterior, strategy.pool.take(out))[0]
    return errors


def advice(latest: Round, labels: Mapping[int, Any]) -> Advice:
    """Whether to stop, given a round and its labels, position -> number in the order they were told."""
    if len(labels) < EARLIEST:
        return Advice(False, RULE, f"It is too early to say: the rule needs {EARLIEST} labels.")
    lowered = _lowered(latest, labels)
    why = (
        f"The last {len(labels) - len(labels) // 2} of {len(labels)} labels lowered the RMSE on the targets by "
        f"{lowered:.1%}, as the model sees it."
    )
    if lowered > WORTH:
        return Advice(False, RULE, why)
    earlier = dict([*labels.items()][:-APART])
    if len(earlier) < EARLIEST or _lowered(latest.strategy.round(earlier), earlier) > WORTH:
        return Advice(False, RULE, f"{why} It takes two looks in a row.")
    return Advice(True, RULE, why)


def _lowered(latest: Round, labels: Mapping[int, Any]) -> float:
    """The share of the RMSE on the targets that the last half of the labels took off, as the model sees it."""
    before = dict([*labels.items()][: len(labels) // 2])
    fitted = latest.strategy.fit(before, latest.strategy.rng("earlier fit", labels))
    mean, variance = label_moments(latest.posterior, latest.sample.x)
    moved = (mean - label_moments(fitted, latest.sample.x)[0]) ** 2
    now, then = (float(np.average(each, weights=latest.sample.weights)) for each in (variance, variance + moved))
    return 1 - math.sqrt(now / then) if then > 0 else 0.0
