"""Nets with random weights in the files that real ones come in: small, so that tests need no download."""

import json

import numpy as np

from askwell.seeds import rng_for

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "apple", "car", "a"]


def bert_weights(*, seed=0, width=8, layers=2, wide=16):
    rng = rng_for(seed, 0, "bert")
    shapes = {
        "embeddings.word_embeddings.weight": (len(WORDS), width),
        "embeddings.position_embeddings.weight": (32, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        sizes = {f"attention.self.{part}": (width, width) for part in ("query", "key", "value")}
        sizes |= {"attention.output.dense": (width, width), "intermediate.dense": (wide, width)}
        sizes |= {"output.dense": (width, wide)}
        for name, shape in sizes.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}.{name}.weight": (width,), f"{layer}.{name}.bias": (width,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def write_safetensors(path, weights):
    header, parts, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, values in weights.items():
        data = values.tobytes()
        header[name] = {"dtype": "F32", "shape": [*values.shape], "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def write_bert(folder, *, seed=0, **changes):
    """A folder as Hugging Face has it, of a BERT with four heads that knows ten words."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "bert", "hidden_act": "gelu", "num_attention_heads": 4, "layer_norm_eps": 1e-12}
    (folder / "config.json").write_text(json.dumps(config | changes))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")
            },
        },
        "model": {
            "type": "WordLevel",
            "vocab": {word: place for place, word in enumerate(WORDS)},
            "unk_token": "[UNK]",
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_safetensors(folder / "model.safetensors", bert_weights(seed=seed))
    return folder


def mobilenet_weights(*, seed=0):
    """Weights of MobileNetV2 in full size (3.5 million), so scaled that its layers neither vanish nor saturate."""
    rng = rng_for(seed, 0, "mobilenet")
    weights = {}

    def add(filters, norm, out, into, size):
        scale = (2 / (into * size * size)) ** 0.5
        weights[f"{filters}.weight"] = rng.normal(scale=scale, size=(out, into, size, size)).astype(np.float32)
        for name, values in (
            ("weight", rng.uniform(0.5, 1.5, out)),
            ("bias", rng.normal(scale=0.3, size=out)),
            ("running_mean", rng.normal(scale=0.1, size=out)),
            ("running_var", rng.uniform(0.5, 1.5, out)),
        ):
            weights[f"{norm}.{name}"] = values.astype(np.float32)

    add("features.0.0", "features.0.1", 32, 3, 3)
    into, number = 32, 0
    for expand, out, count in ((1, 16, 1), (6, 24, 2), (6, 32, 3), (6, 64, 4), (6, 96, 3), (6, 160, 3), (6, 320, 1)):
        for _ in range(count):
            number += 1
            name, at, wide = f"features.{number}.conv", int(expand > 1), into * expand
            if at:
                add(f"{name}.0.0", f"{name}.0.1", wide, into, 1)
            add(f"{name}.{at}.0", f"{name}.{at}.1", wide, 1, 3)
            add(f"{name}.{at + 1}", f"{name}.{at + 2}", out, wide, 1)
            into = out
    add("features.18.0", "features.18.1", 1280, into, 1)
    return weights


def write_mobilenet(path, *, seed=0):
    """A file of PyTorch as it was before 1.6."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.tensor(values) for name, values in mobilenet_weights(seed=seed).items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    return path
