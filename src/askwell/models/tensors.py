"""Tensors at the door: torch or a word about the extra, inputs as tensors, the device, seeded randomness.

This is the only file that imports torch; the rest of the networks take it from here.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

try:
    import torch
    from torch import nn
except ImportError as error:
    raise ImportError(
        "networks with dropout need torch, which is not installed. Try: pip install 'askwell[torch]'"
    ) from error

__all__ = [
    "Tensor",
    "arrays",
    "as_tensors",
    "chosen_device",
    "count",
    "linear",
    "mapped",
    "nn",
    "one_thread",
    "rows",
    "seeded",
    "torch",
]

Tensor: TypeAlias = Any
"""A torch tensor; torch carries no types that strict checking could use."""


def mapped(function: Callable[[Any], Any], x: Any) -> Any:
    """The function of an array, or of each array of a dict.

    >>> mapped(len, {"input_ids": [1, 2], "attention_mask": [1, 1]})
    {'input_ids': 2, 'attention_mask': 2}
    """
    return {name: function(part) for name, part in x.items()} if isinstance(x, dict) else function(x)


def arrays(x: Any) -> Any:
    """Inputs as an array, a tensor, or a dict of them that all have n rows; what is one already is not copied."""
    result = mapped(_array, x)
    parts = list(result.values()) if isinstance(x, dict) else [result]
    if not parts or any(part.ndim == 0 for part in parts) or len({len(part) for part in parts}) > 1:
        shapes = [tuple(part.shape) for part in parts]
        raise ValueError(
            f"x must be an array, or a dict of arrays, with one row per input, but the shapes are {shapes}."
        )
    return result


def _array(part: Any) -> Any:
    if isinstance(part, np.ndarray | torch.Tensor):
        return part
    if hasattr(part, "toarray"):
        raise ValueError("x must be an array, but it is a sparse matrix, which networks do not take. Try x.toarray().")
    try:
        return np.asarray(part)
    except ValueError:
        raise ValueError(
            "x must be an array, but its rows have different lengths. Pad them, for instance with zeros."
        ) from None


def count(x: Any) -> int:
    """How many inputs there are.

    >>> count({"input_ids": torch.zeros(3, 5), "attention_mask": torch.zeros(3, 5)})
    3
    """
    return len(next(iter(x.values()))) if isinstance(x, dict) else len(x)


def rows(x: Any, index: Any) -> Any:
    """Some of the inputs."""
    return mapped(lambda part: part[index], x)


def as_tensors(x: Any, *, device: str, ids: bool) -> Any:
    """Inputs as tensors on the device: numbers as float32, but whole numbers as they are if they are `ids`.

    >>> as_tensors(np.array([[1, 2]]), device="cpu", ids=False)
    tensor([[1., 2.]])
    """
    return mapped(lambda part: _tensor(part, device, ids or isinstance(x, dict)), x)


def _tensor(part: Any, device: str, ids: bool) -> Tensor:
    try:
        result = part.detach() if isinstance(part, torch.Tensor) else torch.from_numpy(np.array(part, order="C"))
    except TypeError:
        raise ValueError(
            f"x must hold numbers, but its dtype is {part.dtype}. Encode texts (a tokeniser) and categories "
            "(scikit-learn's OneHotEncoder) first."
        ) from None
    if result.is_floating_point() or not ids:
        result = result.to(device, torch.float32)
        if not bool(torch.isfinite(result).all()):
            row, *where = torch.nonzero(~torch.isfinite(result))[0].tolist()
            raise ValueError(
                f"x must be finite, in float32, but a number of it is {float(result[row, *where])} (at {where} of "
                "its input). Fill missing values first, for instance by scikit-learn's SimpleImputer; clip large ones."
            )
        return result
    return result.to(device, torch.bool if result.dtype == torch.bool else torch.int64)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *, relu: bool = False) -> Tensor:
    """`x @ weight.T + bias`, `[..., d]`, and its positive part if wanted; without gradients.

    On the CPU by oneDNN, whose product is twice as fast as that of MKL on processors that are not Intel's, and which
    takes the ReLU along. The operator is torch's own, but not one of its documented ones: without it, by the usual way.

    >>> linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), None, relu=True)
    tensor([[3., 0.]])
    """
    if _ONEDNN is not None and x.device.type == "cpu" and x.dtype in _REALS and x.ndim == 2:
        return _ONEDNN(x, weight, bias, "relu" if relu else "none", [], "")
    result = nn.functional.linear(x, weight, bias)
    return result.relu_() if relu else result


_REALS = (torch.float32, torch.bfloat16)
_ONEDNN: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None


def chosen_device(name: str) -> str:
    """The device itself; of "auto", the GPU where there is one."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"


@contextlib.contextmanager
def seeded(seed: int, *, device: str) -> Iterator[None]:
    """Torch's global generators seeded inside, and afterwards as they were.

    Layers initialise themselves, and ordinary dropout draws its masks, from the global generators only.

    >>> with seeded(0, device="cpu"): a = torch.rand(1)
    >>> with seeded(0, device="cpu"): b = torch.rand(1)
    >>> bool(a == b)
    True
    """
    gpu = torch.device(device).type == "cuda"
    with torch.random.fork_rng(devices=[torch.device(device)] if gpu else []):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed GPUs that were not forked
        if gpu:
            torch.cuda.manual_seed(seed)
        yield


_ALONE = threading.Lock()
_alone, _usual = 0, 1  # how many are inside `one_thread` now, and torch's threads before the first of them


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread inside, for what is small: its threads wait for each other at every layer, spinning.

    A thread's number of torch threads is its own, but that of threads yet to come and of MKL is one for all: who comes
    in while others are inside must not take theirs for the usual.

    >>> before = torch.get_num_threads()
    >>> with one_thread(): torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    global _alone, _usual
    with _ALONE:
        _usual = _usual if _alone else torch.get_num_threads()
        _alone += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _ALONE:
            _alone -= 1
            torch.set_num_threads(_usual)
