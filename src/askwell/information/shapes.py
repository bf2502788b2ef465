"""What `gaussian`, `nested` and `variational` ask of their arrays: one dtype, right axes, sound numbers, weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from askwell.arrays import Array, accept, shares

__all__ = [
    "alike",
    "check_ensemble",
    "check_rng",
    "check_shape",
    "check_size",
    "check_square",
    "check_targets",
    "check_variance",
    "cholesky",
    "refuse",
    "rounding",
    "target_weights",
    "with_noise",
]


def alike(**named: Array) -> tuple[Any, list[Array]]:
    """Accept arrays of one library and bring them to their widest dtype.

    >>> xp, (a, b) = alike(a=np.ones(2, dtype="float32"), b=np.ones(2))
    >>> a.dtype
    dtype('float64')
    """
    xp, arrays = accept(**named)
    dtype = xp.result_type(*arrays)
    return xp, [xp.astype(array, dtype, copy=False) for array in arrays]


def rounding(array: Array) -> float:
    """How far rounding may push a squared correlation above one, or an eigenvalue below zero; more is a mistake."""
    return {"float32": 1e-3, "float64": 1e-6}[str(array.dtype).removeprefix("torch.")]


def check_shape(name: str, array: Array, shape: Sequence[int | None], words: str) -> None:
    """Refuse an array of another shape; None stands for any length, `words` for the axes' names.

    >>> check_shape("covariance", np.ones((3, 2)), (2, 3), "[n, m]")
    Traceback (most recent call last):
    ValueError: covariance must have shape [n, m] = (2, 3), but its shape is (3, 2). Try covariance.T.
    """
    came = tuple(array.shape)
    if len(came) == len(shape) and all(b is None or a == b for a, b in zip(came, shape, strict=True)):
        return
    sizes = (
        "(" + ", ".join("any" if size is None else str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"
    )
    hint = f" Try {name}.T." if len(came) == 2 and came[::-1] == tuple(shape) else ""
    raise ValueError(f"{name} must have shape {words} = {sizes}, but its shape is {came}.{hint}")


def refuse(xp: Any, name: str, array: Array, bad: Array, expected: str, hint: str) -> None:
    """Raise if any entry of `bad` is true, and show the first.

    >>> xp, (a,) = alike(variance=[1.0, -1.0])
    >>> refuse(xp, "variance", a, a < 0, "hold numbers from 0", "Try clipping.")
    Traceback (most recent call last):
    ValueError: variance must hold numbers from 0, but variance[1] is -1. Try clipping.
    """
    if bool(xp.any(bad)):
        index = tuple(int(axis[0]) for axis in xp.nonzero(bad))
        place = ", ".join(map(str, index))
        raise ValueError(f"{name} must {expected}, but {name}[{place}] is {float(array[index]):.6g}. {hint}")


def check_variance(xp: Any, name: str, variance: Array, axes: str) -> None:
    """Refuse variances that are negative, infinite or not numbers; zero is a value known for certain."""
    check_shape(name, variance, [None] * (axes.count(",") + 1), axes)
    bad = ~(variance >= 0) | xp.isinf(variance)
    refuse(xp, name, variance, bad, "hold finite numbers from 0", "Rounding in a posterior? Try clipping at 0.")


def check_ensemble(
    xp: Any, side: str, means: Array, variances: Array, *, least: int = 1, positive: bool = False
) -> int:
    """Refuse what is not `means, variances [inputs, k]` of at least `least` Gaussian predictions; answers k."""
    check_variance(xp, f"{side}variances", variances, "[inputs, k]")
    check_shape(f"{side}means", means, variances.shape, f"of {side}variances")
    if means.shape[1] < least:
        raise ValueError(f"{side}means must hold at least {least} draws, but its shape is {tuple(means.shape)}.")
    refuse(xp, f"{side}means", means, ~xp.isfinite(means), "hold finite numbers", "Look at the model there.")
    if positive:
        hint = "A label without noise has no density: try gaussian.moment_matched_epig, or a small positive variance."
        refuse(xp, f"{side}variances", variances, variances == 0, "hold positive numbers", hint)
    return int(means.shape[1])


def with_noise(name: str, array: Array, noise: Array | float) -> tuple[Any, list[Array]]:
    """Both arrays alike, the noise positive; a plain number takes the other's dtype and its axes but the last."""
    xp, (array,) = accept(**{name: array})
    if isinstance(noise, int | float) or np.ndim(noise) == 0:
        noise = xp.full(array.shape[: max(1, array.ndim - 1)], float(noise), dtype=array.dtype, device=array.device)
    xp, arrays = alike(**{name: array, "noise_variance": noise})
    bad = ~(arrays[1] > 0) | xp.isinf(arrays[1])
    hint = "A label without noise tells infinitely much of a real-valued function: use a small positive noise, or EPIG."
    refuse(xp, "noise_variance", arrays[1], bad, "hold positive finite numbers", hint)
    return xp, arrays


def check_rng(rng: np.random.Generator) -> None:
    """Refuse a seed, a legacy RandomState or None: randomness is passed in, never global."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, but it is {rng!r}. Try numpy.random.default_rng(0).")


def check_size(size: int, n: int) -> None:
    """Refuse to look for more of the best candidates than there are."""
    if not 0 <= size <= n:
        raise ValueError(
            f"size must be between 0 and the number of candidates, {n}, but it is {size}. "
            "Ask for fewer, or give a larger pool."
        )


def check_targets(m: int) -> None:
    """Refuse to score against no targets at all."""
    if m == 0:
        raise ValueError(
            "there must be at least one target, but their axis has length 0. Give the inputs x* to care for."
        )


def target_weights(xp: Any, like: Array, m: int, weights: Array | None) -> Array:
    """Weights `[m]` that sum to one, equal ones for None, as an array of the library, dtype and device of `like`.

    >>> xp, (a,) = alike(a=[1.0])
    >>> target_weights(xp, a, 2, [1, 3])
    array([0.25, 0.75])
    """
    check_targets(m)
    return xp.asarray(shares(weights, m), dtype=like.dtype, device=like.device)


def check_square(xp: Any, name: str, matrix: Array) -> None:
    """Refuse what is not a stack of finite symmetric matrices `[..., b, b]`."""
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2] or 0 in matrix.shape:
        raise ValueError(f"{name} must hold square matrices [..., b, b], but its shape is {tuple(matrix.shape)}.")
    refuse(xp, name, matrix, ~xp.isfinite(matrix), "hold finite numbers", "Look at the model there.")
    gap = xp.abs(matrix - xp.matrix_transpose(matrix))
    far = gap > rounding(matrix) * xp.max(xp.abs(matrix), axis=(-2, -1), keepdims=True)
    refuse(
        xp, f"{name} minus its transpose", gap, far, "vanish", f"Try ({name} + its transpose) / 2 if this is rounding."
    )


def cholesky(xp: Any, name: str, matrix: Array) -> Array:
    """The lower factor L of each matrix L Lᵀ `[..., b, b]`; no jitter is added."""
    check_square(xp, name, matrix)
    try:
        return xp.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError) as fault:  # torch's own error is a RuntimeError
        raise ValueError(
            f"{name} must be positive definite, but it has no Cholesky factor. Usual cause: equal inputs and labels "
            "without noise. Try adding the noise variance to the diagonal, dropping duplicates, or float64."
        ) from fault
