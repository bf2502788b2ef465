"""Prove your own parts with askwell's tests."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import cloudpickle
import numpy as np

from askwell.arrays import value_fault
from askwell.models.protocol import Model, Posterior, fit_model, label_moments, predicted, predicts_numbers
from askwell.seeds import rng_for
from askwell.workers import code_paths

__all__ = ["StoreContract", "check_model"]  # noqa: F822 (the first is made by __getattr__)

UNSEEN = "a class nobody has seen"
TOLERANCE = 1e-5  # of probabilities: a matrix product may round differently in another batch


def __getattr__(name: str) -> Any:
    """The contract suite of stores, loaded when it is asked for: it needs pytest and hypothesis."""
    if name == "StoreContract":
        from askwell.store.contract import StoreContract

        return StoreContract
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check_model(model: Model, *, x: Any = None, y: Any = None, processes: bool = True) -> None:
    """Prove that a model keeps the contract of `askwell.models.protocol`, or raise an AssertionError that says where.

    Looks at the shape, at rows that sum to one, at draws that are the same in every call (whatever the batch and the
    order), at the same rng giving the same posterior, at classes without an example, and at a posterior in another
    process (left out with `processes=False`). `x` and `y` are examples to fit and predict; blobs if not given. Of
    a model with `regression = True` it looks at means and variances, and at a closed form, if there is one.

    A class without an example is a label added to those of y. A model that has no room for one more (it is for two
    classes, say) may refuse it with a ValueError; it is then shown the labels of y with one of them left out.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import askwell
    >>> check_model(askwell.as_model(RandomForestClassifier(10)), processes=False)
    """
    if predicts_numbers(model):
        _check_numbers(model, *(_numbers() if x is None else (x, y)), processes=processes)
        return
    if x is None:
        x, y, posterior, classes = _fitted_to_blobs(model)
    else:
        posterior, classes = _fitted(model, x, y)
    probs = predicted(posterior, x)
    _check_shape(posterior, probs, len(np.asarray(y)), classes)
    _check_draws(posterior, x, probs)
    again = fit_model(model, x, y, rng=rng_for(0, 0, "check_model"), classes=classes)
    _same(
        predicted(again, x),
        probs,
        "fit must give the same posterior for the same rng, but a second fit differs",
    )
    if processes:
        _same(
            _elsewhere(posterior, x),
            probs,
            "a posterior must survive being sent to another process, but there it differs",
        )


def _check_numbers(model: Any, x: Any, y: Any, *, processes: bool) -> None:
    """The contract of models of numbers; labels are standardised in the comparisons."""
    posterior, again = (model.fit(x, y, rng=rng_for(0, 0, "check_model")) for _ in range(2))
    assert not hasattr(posterior, "classes"), "a posterior of numbers must have no classes: that is how it is known."
    found, unit = posterior.predict(x), float(np.std(np.asarray(y, np.float64))) or 1.0
    assert isinstance(found, tuple), (
        f"predict must return a pair, means and variances [inputs, draws], but it returned {type(found).__name__}."
    )
    try:
        moments = predicted(posterior, x)
    except ValueError as fault:
        raise AssertionError(str(fault)) from fault
    n, k = moments.means.shape
    assert n == len(np.asarray(y)), (
        f"predict must return a row for each of {len(np.asarray(y))} inputs, but it has {n}."
    )
    assert k > 1, "predict must return at least two draws: one draw knows no uncertainty."
    scaled = _Scaled(posterior, unit)
    _check_draws(scaled, x, scaled.predict(x))
    _same(_Scaled(again, unit).predict(x), scaled.predict(x), "fit must give the same posterior for the same rng")
    if processes:
        elsewhere = np.asarray(_elsewhere(posterior, x)) / [unit, unit**2]
        words = "a posterior must survive being sent to another process, but there it differs"
        _same(elsewhere, scaled.predict(x), words)
    if hasattr(posterior, "latent"):
        mean, variance = label_moments(posterior, x)
        gap = np.abs(moments.mean - mean) / np.sqrt(variance * 25 / k)
        assert gap.max() < 1, "latent must give the mean that the draws have, but they differ by more than 5 errors."


class _Scaled:
    """A posterior of numbers as arrays `[n, k, 2]`, in units of the labels."""

    def __init__(self, posterior: Any, unit: float) -> None:
        self.posterior, self.unit = posterior, unit

    def predict(self, x: Any) -> np.ndarray:
        scaled: np.ndarray = np.asarray(predicted(self.posterior, x)) / [self.unit, self.unit**2]
        return scaled


def _numbers() -> tuple[np.ndarray, np.ndarray]:
    x, _ = _blobs(3)
    return x, 100 + 5 * x[:, 0] - 3 * x[:, 1] + rng_for(0, 0, "check_model numbers").normal(size=len(x))


def _fitted_to_blobs(model: Model) -> tuple[Any, Any, Posterior, list[Any]]:
    """(x, y, posterior, classes): of three blobs, or of two if the model will not have three."""
    try:
        return *_blobs(3), *_fitted(model, *_blobs(3))
    except ValueError:
        return *_blobs(2), *_fitted(model, *_blobs(2))


def _blobs(c: int) -> tuple[np.ndarray, np.ndarray]:
    rng = rng_for(0, 0, "check_model blobs")
    centres = rng.normal(size=(3, 4)) * 1.5
    labels = np.arange(60) % c
    return (centres[labels] + rng.normal(size=(60, 4))).astype(np.float32), np.array(["a", "b", "c"])[labels]


def _fitted(model: Model, x: Any, y: Any) -> tuple[Posterior, list[Any]]:
    """(a posterior, the classes it was asked for): one more than y has, or those of y if the model takes no more."""
    labels = np.asarray(y)
    seen = list(dict.fromkeys(labels.tolist()))
    more = [*seen, UNSEEN if labels.dtype.kind in "US" else 10**6]
    try:
        return fit_model(model, x, y, rng=rng_for(0, 0, "check_model"), classes=more), more
    except ValueError as fault:
        posterior = fit_model(model, x, y, rng=rng_for(0, 0, "check_model"), classes=seen)
        _check_left_out(model, x, labels, seen, fault)
        return posterior, seen


def _check_left_out(model: Model, x: Any, y: np.ndarray, classes: list[Any], refusal: ValueError) -> None:
    """Classes need a column without an example too: fit without those of the last."""
    words = f"fit must take classes without an example, but it refuses them: {refusal}"
    assert len(classes) > 1, words
    rest = np.flatnonzero(y != classes[-1])
    try:
        posterior = fit_model(model, _rows(x, rest), y[rest], rng=rng_for(0, 0, "check_model"), classes=classes)
    except ValueError as fault:
        raise AssertionError(f"{words} Nor does it take {classes} without an example of the last: {fault}") from fault
    _check_shape(posterior, predicted(posterior, x), len(y), classes)


def _check_shape(posterior: Posterior, probs: np.ndarray, n: int, classes: Sequence[Any]) -> None:
    assert list(posterior.classes) == list(classes), (
        f"posterior.classes must be the classes that were asked for, {list(classes)}, but it is "
        f"{list(posterior.classes)}. Classes without an example need a column too."
    )
    assert probs.ndim == 3, f"predict must return [inputs, draws, classes], but the shape is {probs.shape}."
    assert (probs.shape[0], probs.shape[2]) == (n, len(classes)), (
        f"predict must return [inputs, draws, classes] = [{n}, k, {len(classes)}], but the shape is {probs.shape}."
    )
    assert probs.shape[1] > 1, "predict must return at least two draws: one draw knows no uncertainty."
    assert probs.dtype.kind == "f", f"predict must return floating point numbers, but the dtype is {probs.dtype}."
    fault = value_fault("predict(x)", probs)
    assert fault is None, fault


def _check_draws(posterior: Any, x: Any, probs: np.ndarray) -> None:
    """Draw k must be the same parameters in every call: EPIG multiplies draws of different calls with each other."""
    n, half = len(probs), len(probs) // 2
    words = (
        "draw k must be the same parameters in every call, but {}. Ordinary dropout draws a new mask for every row and "
        "call; draw the parameters once, in fit, and keep them in the posterior."
    )
    _same(predicted(posterior, x), probs, words.format("a second call gives other numbers"))
    parts = [predicted(posterior, _rows(x, part)) for part in (range(half), range(half, n))]
    _same(np.concatenate(parts), probs, words.format("two halves, predicted apart, differ from the whole"))
    twice = predicted(posterior, _rows(x, [*range(n), *range(n)]))
    _same(twice[:n], twice[n:], words.format("an input that stands twice in a call gets two different answers"))
    backwards = predicted(posterior, _rows(x, range(n - 1, -1, -1)))
    _same(backwards[::-1], probs, words.format("the same inputs in another order get other answers"))
    single = predicted(posterior, _rows(x, [half]))
    _same(single[0], probs[half], words.format("an input alone gets another answer than in company"))


def _rows(x: Any, index: Iterable[int]) -> Any:
    chosen = list(index)
    if isinstance(x, dict):
        return {name: _rows(part, chosen) for name, part in x.items()}
    if hasattr(x, "iloc"):
        return x.iloc[chosen]
    return [x[i] for i in chosen] if isinstance(x, list) else x[chosen]


def _same(found: np.ndarray, wanted: np.ndarray, words: str) -> None:
    assert found.shape == wanted.shape, f"{words}: shapes {found.shape} and {wanted.shape}."
    gap = float(np.max(np.abs(found - wanted), initial=0.0))
    assert gap <= TOLERANCE, f"{words} (by up to {gap:.2g})."


def _elsewhere(posterior: Any, x: Any) -> np.ndarray:
    """What the posterior predicts in a fresh process; cloudpickle also sends classes defined in a notebook."""
    words = "a posterior must survive being sent to another process, but: "
    try:
        sent = cloudpickle.dumps((posterior, x))
    except (TypeError, pickle.PicklingError) as fault:
        raise AssertionError(f"{words}{fault}. Keep arrays and settings in it, not handles or locks.") from fault
    code = (
        "import pickle, sys; from askwell.models.protocol import predicted; "
        "import numpy; p, x = pickle.load(sys.stdin.buffer); "
        "pickle.dump(numpy.asarray(predicted(p, x)), sys.stdout.buffer)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, env=os.environ | code_paths())
    assert done.returncode == 0, words + done.stderr.decode()[-500:]
    return np.asarray(pickle.loads(done.stdout))
