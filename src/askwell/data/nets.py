"""Two nets in NumPy, forwards only: a BERT for sentences (MiniLM) and MobileNetV2 for images; and their weights' files.

They spare a user PyTorch (754 MB) where all that is wanted is a few numbers for each text or image.
"""

import json
import pickle
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
from scipy.special import erf

__all__ = ["MEAN", "SCALE", "bert", "mobilenet", "read_weights"]

Weights: TypeAlias = Mapping[str, np.ndarray]

TYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
}  # of safetensors
STORED: Final[Mapping[str, np.dtype[Any]]] = {
    "FloatStorage": np.dtype("<f4"),
    "LongStorage": np.dtype("<i8"),
}  # of PyTorch
HALVING: Final = (2, 4, 7, 14)  # blocks of MobileNetV2 after which images are half as wide
MEAN, SCALE = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)  # ImageNet
MAGIC: Final = 0x1950A86A20F9469CFC6C  # what a file of PyTorch before 1.6 begins with


# ---- files ---------------------------------------------------------------------------------------------------------


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Name -> array of a .safetensors file, or of a .pth of PyTorch before 1.6; a ValueError if it is damaged."""
    try:
        with path.open("rb") as file:
            return _safetensors(file) if path.suffix == ".safetensors" else _pth(file)
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # decoders of damaged files raise whatever they stumble over
        raise ValueError(f"{path.name} holds no whole weights ({type(error).__name__}: {error}).") from None


def _safetensors(file: BinaryIO) -> dict[str, np.ndarray]:
    """The length of a JSON header, the header (type, shape and bytes of each array), the bytes."""
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    content = file.read()
    weights = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            flat = np.frombuffer(content[start:stop], TYPES[entry["dtype"]])
            weights[name] = flat.reshape(entry["shape"])
    return weights


class _Restricted(pickle.Unpickler):
    """Makes dictionaries and arrays, and nothing else that a pickle may ask for."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, tuple[np.ndarray, int]] = {}  # key -> (its numbers, read later; how many)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda numbers, offset, shape, *_: numbers[offset:][: int(np.prod(shape))].reshape(shape)
        if module == "torch" and name in STORED:
            return STORED[name]
        raise ValueError(f"it asks for {module}.{name}, which no weights need")

    def persistent_load(self, pid: Any) -> Any:
        _, dtype, key, _, size, *_ = pid
        return self.storages.setdefault(key, (np.zeros(size, dtype), size))[0]


def _pth(file: BinaryIO) -> dict[str, np.ndarray]:
    """A magic number, a version, sizes of types, the dictionary of arrays, the keys of storages, their numbers."""
    header = [_Restricted(file).load() for _ in range(3)]
    if header[0] != MAGIC:
        raise ValueError("it is no file of torch.save before 1.6: save it as .safetensors")
    unpickler = _Restricted(file)
    weights = dict(unpickler.load())
    for key in _Restricted(file).load():
        numbers, size = unpickler.storages[key]
        if int.from_bytes(file.read(8), "little") != size:
            raise ValueError("the lengths of its arrays differ from what it says")
        numbers[:] = np.frombuffer(file.read(numbers.nbytes), numbers.dtype)
    return weights


# ---- BERT ----------------------------------------------------------------------------------------------------------


def bert(weights: Weights, *, heads: int, eps: float) -> Any:
    """A function from tokens and which of them are there `[n, t]` to the last layer `[n, t, d]`."""
    w = {name.removeprefix("bert."): np.asarray(each, np.float32) for name, each in weights.items()}
    layers = 1 + max(int(name.split(".")[2]) for name in w if name.startswith("encoder.layer."))

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        y: np.ndarray = x @ w[f"{name}.weight"].T
        y += w[f"{name}.bias"]
        return y

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(eps))
        x *= w[f"{name}.weight"]
        x += w[f"{name}.bias"]
        return x

    def encode(tokens: np.ndarray, there: np.ndarray) -> np.ndarray:
        n, t = tokens.shape
        x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][:t]
        x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")  # [n, t, d]
        d = x.shape[-1]
        absent = np.where(there, 0, -1e9).astype(np.float32)[:, None, None]
        for number in range(layers):
            layer = f"encoder.layer.{number}"
            q, k, v = (
                dense(x, f"{layer}.attention.self.{part}").reshape(n, t, heads, -1).swapaxes(1, 2)
                for part in ("query", "key", "value")
            )  # [n, h, t, d / h]
            share = q @ k.swapaxes(2, 3)  # [n, h, t, t]
            share *= np.float32(q.shape[-1] ** -0.5)
            share += absent
            share -= share.max(axis=-1, keepdims=True)
            np.exp(share, out=share)
            share /= share.sum(axis=-1, keepdims=True)
            seen = (share @ v).swapaxes(1, 2).reshape(n, t, d)
            x = norm(x + dense(seen, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
            y = dense(x, f"{layer}.intermediate.dense")
            y *= np.float32(0.5) * (1 + erf(y * np.float32(0.5**0.5)))
            x = norm(x + dense(y, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        return x

    return encode


# ---- MobileNetV2 ---------------------------------------------------------------------------------------------------


def mobilenet(weights: Weights) -> Any:
    """A function from images `[n, side, side, 3]`, from 0 to 1, to the mean of the last layer `[n, 1280]`."""
    first, last = _folded(weights, "features.0.0", "features.0.1"), _folded(weights, "features.18.0", "features.18.1")
    blocks = []
    for number in range(1, 18):
        name, wide = f"features.{number}.conv", f"features.{number}.conv.3.weight" in weights
        expand = _folded(weights, f"{name}.0.0", f"{name}.0.1") if wide else None
        depthwise = _folded(weights, f"{name}.{wide:d}.0", f"{name}.{wide:d}.1")
        blocks.append((expand, depthwise, _folded(weights, f"{name}.{1 + wide}", f"{name}.{2 + wide}")))

    def encode(images: np.ndarray) -> np.ndarray:
        x = (np.asarray(images, np.float32) - MEAN) / SCALE
        filters, bias = first
        x = np.concatenate([*_neighbours(x, 2)], axis=-1)  # [n, s, s, 9*3]
        x = _clipped(x @ filters.transpose(2, 3, 1, 0).reshape(27, -1), bias)
        for number, (expand, (each, shift), (filters, bias)) in enumerate(blocks, 1):
            y = x if expand is None else _clipped(x @ expand[0][:, :, 0, 0].T, expand[1])
            parts = _neighbours(y, 2 if number in HALVING else 1)
            total = next(parts) * each[:, 0, 0, 0]  # [n, s, s, width]
            for place, part in enumerate(parts, 1):
                total += part * each[:, 0, place // 3, place % 3]
            y = _clipped(total, shift) @ filters[:, :, 0, 0].T
            y += bias
            x = x + y if x.shape == y.shape else y
        filters, bias = last
        return np.asarray(_clipped(x @ filters[:, :, 0, 0].T, bias).mean(axis=(1, 2)), np.float32)

    return encode


def _folded(weights: Weights, filters: str, norm: str) -> tuple[np.ndarray, np.ndarray]:
    """Filters and bias of a convolution with the batch normalisation that follows it."""
    factor = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"] + 1e-5)
    bias = weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * factor
    return (weights[f"{filters}.weight"] * factor[:, None, None, None]).astype(np.float32), bias.astype(np.float32)


def _neighbours(x: np.ndarray, step: int) -> Iterator[np.ndarray]:
    """Row by row the nine shifts of images, zero beyond their edges; of every `step`-th pixel."""
    _, height, width, _ = x.shape
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for i in range(3):
        for j in range(3):
            yield x[:, i : i + height : step, j : j + width : step]


def _clipped(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """ReLU6, in place."""
    x += bias
    return np.clip(x, 0, 6, out=x)
