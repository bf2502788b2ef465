"""Dropout with one mask per draw, shared by all inputs: the layers that stand in for torch's.

A mask is a function, not a state: whether draw k keeps feature i of a layer is a hash of (seed, layer, k, i). So draws
are the same in any batch, chunk, process, on any device, and for sequences of any length, and nothing needs storing.

The first dropout layer that a batch of b inputs meets multiplies it into b*k rows (row i*k + j is input i in draw j);
what comes before is computed once per input, and once for all passes of the same inputs (`Before`). Two rewrites of
`nn.Sequential` push that point further back:
- a channel's mask is one number >= 0, so dropout of channels may change places with pooling and ReLU after it;
- convolution is linear in its input channels, conv(m * x) = sum_i m_i conv_i(x_i), so the conv_i are computed once per
  input, and a draw costs one product with its mask instead of a convolution.
Max pooling is the largest of a few slices (`SlicedMaxPool`), and behind such a convolution the largest of a few
whole tensors.
Linear layers, which are what is left of a draw's cost, take the faster of the products there are (`Affine`).
"""

import copy
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from askwell.arrays import spans
from askwell.models.tensors import Tensor, linear, nn, torch

__all__ = [
    "LAYERS",
    "Affine",
    "Before",
    "Dropped",
    "FixedDropout",
    "FixedDropoutConv",
    "Head",
    "drop",
    "fuse",
    "kept_features",
    "once",
    "same_weights",
    "with_fixed_masks",
]

#: torch's layer: (drops whole channels, sets to the negative saturation of SELU instead of zero)
KINDS: dict[Any, tuple[bool, bool]] = {
    nn.Dropout: (False, False),
    nn.Dropout1d: (True, False),
    nn.Dropout2d: (True, False),
    nn.Dropout3d: (True, False),
    nn.AlphaDropout: (False, True),
    nn.FeatureAlphaDropout: (True, True),
}
LAYERS: Any = tuple(KINDS)
#: f(m x) = m f(x) for a number m >= 0 per channel
HOMOGENEOUS = (
    nn.Identity, nn.ReLU, nn.LeakyReLU,
    nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
)  # fmt: skip
SATURATION = -1.7580993408473766  # -scale * alpha of SELU
MOST_KEPT = 1 << 22  # numbers of a layer's masks that are kept for the next pass; larger ones are made again
MOST_APART = 1 << 21  # numbers of convolutions channel by channel at once


@final
@dataclass(frozen=True)
class Dropped:
    """One pass: b inputs under some draws of a seed."""

    inputs: int
    draws: range
    seed: int
    calls: Counter[int] = field(default_factory=Counter)  # meetings with each layer: every one has its own masks
    hidden: list[Tensor] | None = None  # a list to leave in what came into the last linear layer; kept only if wanted
    before: list[Tensor] | None = None  # one for all passes of the same inputs: what comes before the first dropout

    def by_draw(self, x: Tensor) -> Tensor:
        """Rows as `[b, k, ...]`, or `[b, 1, ...]` where no dropout has multiplied them yet."""
        if len(x) == self.inputs * len(self.draws):
            return x.unflatten(0, (self.inputs, len(self.draws)))
        if len(x) == self.inputs:
            return x.unsqueeze(1)
        raise ValueError(
            f"a dropout layer must see one row per input along its first axis, but it sees a tensor of shape "
            f"{tuple(x.shape)} for {self.inputs} inputs. Layers for [time, batch, features] take batch_first=True."
        )


_PASS: ContextVar[Dropped] = ContextVar("pass")  # of this thread: several may predict with one posterior


def drop(call: Callable[[], Tensor], now: Dropped) -> Tensor:
    """The answer of a call that runs layers of this file, `[b, k, ...]`, without gradients."""
    before = _PASS.set(now)
    try:
        with torch.no_grad():
            result = now.by_draw(call())
    finally:
        _PASS.reset(before)
    return result.expand(-1, len(now.draws), *result.shape[2:])


def kept_features(
    seed: int, position: Sequence[int], draws: Sequence[int], shape: Sequence[int], *, rate: float
) -> np.ndarray:
    """Which features each draw keeps, bool `[k, *shape]`, each with probability 1 - rate; a larger shape adds to it.

    `position` tells the layers of a net apart.

    >>> small, large = kept_features(3, [0], range(2), [4], rate=0.5), kept_features(3, [0], range(5), [9], rate=0.5)
    >>> bool((large[:2, :4] == small).all())
    True
    """
    result: Any = np.array(seed, np.uint64)
    for number in position:
        result = _hashed(result, [number])[..., 0]
    for index in (draws, *(range(size) for size in shape)):
        result = _hashed(result, index)
    return np.asarray(result >= np.uint64(min(int(rate * 2**64), 2**64 - 1)))


def _hashed(result: Any, index: Sequence[int]) -> Any:
    """One more axis."""
    return _mixed(result[..., None] + (np.asarray(index, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def _mixed(z: Any) -> Any:
    """The finaliser of splitmix64: every bit of the answer depends on every bit of z."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@final
class FixedDropout(nn.Module):  # type: ignore[misc]
    """A dropout layer whose masks are those of the pass it runs in."""

    def __init__(self, layer: Any, position: int) -> None:
        super().__init__()
        self.channels, self.alpha = next(kind for cls, kind in KINDS.items() if isinstance(layer, cls))
        self.rate, self.position = float(layer.p), position
        self._last: tuple[Any, Any] = (None, None)

    def forward(self, x: Tensor) -> Tensor:
        """`[b or b*k, ...]` -> `[b*k, ...]`."""
        now = _PASS.get()
        scale, shift = self.factors(now, x)
        y = now.by_draw(x) * scale  # [b, k, ...]
        return (y if shift is None else y + shift).flatten(0, 1)

    def factors(self, now: Dropped, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """What to multiply with and what to add, each `[k, ...]`."""
        shape = tuple(x.shape[1:2] if self.channels else x.shape[1:])
        call = now.calls[self.position]
        now.calls[self.position] += 1
        key = (now.seed, call, now.draws, tuple(x.shape[1:]), x.dtype, x.device)
        last, result = self._last  # one read: another thread may write
        if last != key:
            bits = kept_features(now.seed, (self.position, call), now.draws, shape, rate=self.rate)
            mask = torch.from_numpy(bits).to(x.device, x.dtype)
            mask = mask.reshape(len(now.draws), *shape, *[1] * (x.ndim - 1 - len(shape)))
            full = (len(now.draws), *x.shape[1:])  # of one number per feature, a product is several times as fast
            result = self._affine(mask.expand(full).contiguous() if math.prod(full) <= MOST_KEPT else mask)
            if mask.numel() <= MOST_KEPT:
                self._last = (key, result)
        return result  # type: ignore[no-any-return]

    def _affine(self, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        if self.rate == 1:
            return mask * 0, None
        if not self.alpha:
            return mask / (1 - self.rate), None
        scale = ((1 - self.rate) * (1 + self.rate * SATURATION**2)) ** -0.5
        return scale * mask, scale * SATURATION * (1 - mask - self.rate)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": (None, None)}


@final
class FixedDropoutConv(nn.Module):  # type: ignore[misc]
    """Dropout of channels, the convolution after it and perhaps its pooling: conv(m * x) = sum_i m_i conv_i(x_i)."""

    def __init__(self, dropout: FixedDropout, conv: Any, pool: Any = None) -> None:
        super().__init__()
        self.dropout, self.conv, self.pool = dropout, conv, pool

    def forward(self, x: Tensor) -> Tensor:
        """`[b or b*k, c, h, w]` -> `[b*k, d, h', w']`."""
        now, conv = _PASS.get(), self.conv
        columns, (height, width) = self._columns(x)
        apart = (
            conv.weight.shape[:2].numel() * columns.shape[4:].numel()
        )  # numbers of one input's convolutions by channel
        if len(x) != now.inputs or len(now.draws) == 1 or apart > MOST_APART or 0 in columns.shape:
            result = conv(self.dropout(x))
            return result if self.pool is None else self.pool(result)
        scale = self.dropout.factors(now, x[:, :, :1, :1])[0].flatten(1)  # [k, c]
        weight = conv.weight.transpose(0, 1).flatten(2)  # [c, d, kernel]
        out = x.new_empty(len(x), len(scale), len(conv.weight), height * width)
        for span in spans(len(x), max(1, MOST_APART // (apart // conv.in_channels * len(scale)))):
            sums = scale @ (weight @ columns[span].flatten(2, 3).flatten(3)).flatten(2)  # [b, k, d*positions]
            first, *others = sums.unflatten(2, (len(conv.weight), -1, height * width)).unbind(
                3
            )  # [b, k, d, h'*w'] each
            best = out[span].copy_(first)
            for other in others:  # of the positions of a window
                torch.maximum(best, other, out=best)
        if conv.bias is not None:
            out.flatten(2).add_(conv.bias.repeat_interleave(height * width))
        return out.view(-1, len(conv.weight), height, width)

    def _columns(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """What each position of the kernel sees, and (h', w'): `[b, c, kernel h, kernel w, window, h'*w']`, a view.

        A window's positions lie farther apart than the windows do, so that pooling takes the largest of a few whole
        tensors.
        """
        conv, window = self.conv, self.pool.window if self.pool is not None else (1, 1)
        x = nn.functional.pad(x, [conv.padding[1]] * 2 + [conv.padding[0]] * 2)
        for axis, (size, step, positions) in enumerate(zip(conv.kernel_size, conv.stride, window, strict=True)):
            seen = size + (positions - 1) * step  # by the positions of one window
            x = x.unfold(2 + axis, min(seen, x.shape[2 + axis]), step * positions)
        height, width = x.shape[2:4]  # of [b, c, h', w', seen, seen]
        x = x.flatten(2, 3).permute(0, 1, 3, 4, 2).contiguous()
        x = x.unfold(2, conv.kernel_size[0], conv.stride[0]).unfold(3, conv.kernel_size[1], conv.stride[1])
        return x.permute(0, 1, 5, 6, 2, 3, 4), (height, width)


@final
class SlicedMaxPool(nn.Module):  # type: ignore[misc]
    """Max pooling by windows side by side, as the largest of a few slices: a tenth of what torch's takes on the CPU."""

    def __init__(self, window: tuple[int, int]) -> None:
        super().__init__()
        self.window = window

    def forward(self, x: Tensor) -> Tensor:
        """`[rows, c, h, w]` -> `[rows, c, h', w']`."""
        down, across = self.window
        x = x[..., : x.shape[2] // down * down, : x.shape[3] // across * across]
        slices = (x[..., i::down, j::across] for i in range(down) for j in range(across))
        return functools.reduce(torch.maximum, slices)


@final
class Head(nn.Module):  # type: ignore[misc]
    """The last linear layer, which leaves its input with the pass: BADGE's embeddings are made of it."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        """`[rows, h]` -> `[rows, c]`."""
        wanted = _PASS.get().hidden
        if wanted is not None:
            wanted[:] = [x]
        return linear(x, self.linear.weight, self.linear.bias)


@final
class Affine(nn.Module):  # type: ignore[misc]
    """A linear layer and the ReLU that may come after it, by the fastest product there is."""

    def __init__(self, linear: Any, *, relu: bool = False) -> None:
        super().__init__()
        self.linear, self.relu = linear, relu

    def forward(self, x: Tensor) -> Tensor:
        """`[rows, h]` -> `[rows, d]`."""
        return linear(x, self.linear.weight, self.linear.bias, relu=self.relu)


@final
class Before(nn.Sequential):  # type: ignore[misc]
    """The layers before the first dropout: where draws take several passes, only the first of them runs these."""

    def forward(self, x: Tensor) -> Tensor:
        """`[b, ...]` -> `[b, ...]`."""
        result = _PASS.get().before
        if result is None:
            return super().forward(x)
        if not result:
            result.append(super().forward(x))
        return result[0]


def same_weights(net: Any, *uncopied: Any) -> Any:
    """A copy of the layers of a net on the same parameters and buffers, and with the `uncopied` layers themselves."""
    return copy.deepcopy(net, {id(part): part for part in (*net.parameters(), *net.buffers(), *uncopied)})


def with_fixed_masks(net: Any, *, head: Any) -> Any:
    """A copy of the net on the same parameters, in eval mode, with fixed masks in place of its dropout layers.

    It follows the net through its training. `head` is the net's last linear layer, or None.
    """
    twin = same_weights(net, head).eval()
    positions = itertools.count()
    result: dict[int, Any] = {}
    for parent in list(twin.modules()):
        if isinstance(parent, nn.TransformerEncoderLayer):
            parent.training = True  # or torch takes a short cut past the dropout layers
        for name, layer in parent._modules.items():
            if isinstance(layer, LAYERS) and layer.p > 0:
                if id(layer) not in result:
                    result[id(layer)] = FixedDropout(layer, next(positions))
                parent._modules[name] = result[id(layer)]
            elif head is not None and layer is head:
                parent._modules[name] = Head(layer)
    return twin


def fuse(net: Any) -> Any:
    """The net, with its `nn.Sequential` parts rewritten so that more is shared by the draws (see the top)."""
    for name, layer in net._modules.items():
        if layer is not None:
            net._modules[name] = fuse(layer)
    return nn.Sequential(*_fused(list(net))) if type(net) is nn.Sequential else net


def _fused(layers: list[Any]) -> list[Any]:
    for start in range(len(layers) - 1, -1, -1):
        i = start
        while _drops_channels(layers[i]) and i + 1 < len(layers) and isinstance(layers[i + 1], HOMOGENEOUS):
            layers[i], layers[i + 1] = layers[i + 1], layers[i]
            i += 1
    merged: list[Any] = []
    for layer in layers:
        last: Any = merged[-1] if merged else None
        layer = SlicedMaxPool(window) if (window := _window(layer)) is not None else layer
        if _drops_channels(last) and _splits(layer):
            merged[-1] = FixedDropoutConv(last, layer)
        elif isinstance(last, FixedDropoutConv) and last.pool is None and isinstance(layer, SlicedMaxPool):
            merged[-1] = FixedDropoutConv(last.dropout, last.conv, layer)
        elif isinstance(last, Affine) and not last.relu and type(layer) is nn.ReLU:
            merged[-1] = Affine(last.linear, relu=True)
        else:
            merged.append(Affine(layer) if type(layer) is nn.Linear else layer)
    return merged


def once(net: Any) -> Any:
    """A net that is one `nn.Sequential`, with its layers before the first dropout as one (`Before`); others as is.

    Only for a net that is called once in a pass, with the inputs.
    """
    if type(net) is not nn.Sequential:
        return net
    layers = list(net)
    first = next(i for i, layer in enumerate(layers) if any(isinstance(part, FixedDropout) for part in layer.modules()))
    return nn.Sequential(Before(*layers[:first]), *layers[first:]) if first else net


def _drops_channels(layer: Any) -> bool:
    return isinstance(layer, FixedDropout) and layer.channels and not layer.alpha


def _splits(layer: Any) -> bool:
    """Whether a convolution is cheaper channel by channel: the product with the masks saves the kernel's area."""
    plain = type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"
    return plain and layer.dilation == (1, 1) and not isinstance(layer.padding, str) and layer.kernel_size != (1, 1)


def _window(layer: Any) -> tuple[int, int] | None:
    """The window of a max pooling whose windows lie side by side; None for all else."""
    if type(layer) is not nn.MaxPool2d or layer.ceil_mode or layer.return_indices:
        return None
    size, step, padding, dilation = (
        each if isinstance(each, tuple) else (each, each)
        for each in (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    )
    return size if size == step and padding == (0, 0) and dilation == (1, 1) else None
