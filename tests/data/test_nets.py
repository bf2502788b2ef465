"""The two nets against PyTorch with the same weights, and the files that weights come in."""

import io
import pickle

import numpy as np
import pytest
from random_nets import WORDS, bert_weights, mobilenet_weights, write_mobilenet, write_safetensors

from askwell.data.nets import MEAN, SCALE, bert, mobilenet, read_weights
from askwell.seeds import rng_for

torch = pytest.importorskip("torch")


def layers_of_torch(weights):
    """PyTorch's own transformer with these weights."""
    layers = []
    for number in range(2):
        name = f"encoder.layer.{number}"
        w = {key.removeprefix(f"{name}."): torch.tensor(each) for key, each in weights.items() if name in key}
        layer = torch.nn.TransformerEncoderLayer(
            8, 4, 16, dropout=0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        state = {
            f"self_attn.in_proj_{kind}": torch.cat([w[f"attention.self.{each}.{kind}"] for each in parts])
            for kind in ("weight", "bias")
            for parts in [("query", "key", "value")]
        }
        theirs = {
            "self_attn.out_proj": "attention.output.dense",
            "linear1": "intermediate.dense",
            "linear2": "output.dense",
            "norm1": "attention.output.LayerNorm",
            "norm2": "output.LayerNorm",
        }
        state |= {f"{a}.{kind}": w[f"{b}.{kind}"] for a, b in theirs.items() for kind in ("weight", "bias")}
        layer.load_state_dict(state)
        layers.append(layer.train())  # the fast path of eval() leaves out what is masked
    return layers


def test_bert_is_the_transformer_of_pytorch():
    weights = bert_weights()
    rng = rng_for(0, 0, "tokens")
    tokens, lengths = rng.integers(len(WORDS), size=(5, 7)), np.array([7, 3, 1, 5, 7])
    there = np.arange(7) < lengths[:, None]
    x = bert(weights, heads=4, eps=1e-12)(tokens, there)
    w = {name.removeprefix("embeddings."): torch.tensor(each) for name, each in weights.items()}
    with torch.no_grad():
        y = (
            w["word_embeddings.weight"][tokens]
            + w["position_embeddings.weight"][:7]
            + w["token_type_embeddings.weight"][0]
        )
        y = torch.nn.functional.layer_norm(y, (8,), w["LayerNorm.weight"], w["LayerNorm.bias"], 1e-12)
        for layer in layers_of_torch(weights):
            y = layer(y, src_key_padding_mask=torch.tensor(~there))
    np.testing.assert_allclose(x[there], y.numpy()[there], atol=2e-5)


def by_pytorch(weights, images):
    """MobileNetV2 with unfolded batch normalisation, layer by layer."""
    f, w = torch.nn.functional, {name: torch.tensor(each) for name, each in weights.items()}

    def layer(x, filters, norm, *, stride=1, clipped=True):
        kernel = w[f"{filters}.weight"]
        x = f.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2, groups=x.shape[1] // kernel.shape[1])
        names = ("running_mean", "running_var", "weight", "bias")
        x = f.batch_norm(x, *(w[f"{norm}.{name}"] for name in names))
        return f.relu6(x) if clipped else x

    x = torch.tensor((images - MEAN) / SCALE).permute(0, 3, 1, 2)
    x = layer(x, "features.0.0", "features.0.1", stride=2)
    for number in range(1, 18):
        name, y, at = f"features.{number}.conv", x, 0
        if f"{name}.3.weight" in w:
            y, at = layer(x, f"{name}.0.0", f"{name}.0.1"), 1
        y = layer(y, f"{name}.{at}.0", f"{name}.{at}.1", stride=2 if number in (2, 4, 7, 14) else 1)
        y = layer(y, f"{name}.{at + 1}", f"{name}.{at + 2}", clipped=False)
        x = x + y if x.shape == y.shape else y
    return layer(x, "features.18.0", "features.18.1").mean(dim=(2, 3)).numpy()


@pytest.mark.parametrize("side", [32, 33, 70])
def test_mobilenet_is_that_of_pytorch(side):
    weights, images = mobilenet_weights(), rng_for(side, 0, "images").random((2, side, side, 3), dtype=np.float32)
    theirs = by_pytorch(weights, images)
    assert theirs.std() > 0.05
    np.testing.assert_allclose(mobilenet(weights)(images), theirs, rtol=1e-3, atol=1e-4)


def test_weights_are_read_from_both_kinds_of_files(tmp_path):
    write_safetensors(tmp_path / "a.safetensors", bert_weights())
    found = read_weights(tmp_path / "a.safetensors")
    assert all(np.array_equal(found[name], each) for name, each in bert_weights().items())
    found = read_weights(write_mobilenet(tmp_path / "b.pth"))
    assert all(np.array_equal(found[name], each) for name, each in mobilenet_weights().items())


class Evil:
    def __reduce__(self):
        return print, ("hello",)


def test_no_pickle_does_anything(tmp_path, capsys):
    file = io.BytesIO()
    for each in (0x1950A86A20F9469CFC6C, 1001, {}, Evil()):
        pickle.dump(each, file, protocol=2)
    (tmp_path / "evil.pth").write_bytes(file.getvalue())
    with pytest.raises(ValueError, match=r"evil.pth holds no whole weights .*asks for .*print"):
        read_weights(tmp_path / "evil.pth")
    assert not capsys.readouterr().out


@pytest.mark.parametrize("share", [0.0, 0.001, 0.4, 0.999])
def test_damaged_weights_are_refused(tmp_path, share):
    write_safetensors(tmp_path / "a.safetensors", bert_weights())
    write_mobilenet(tmp_path / "b.pth")
    for name in ("a.safetensors", "b.pth"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match=f"{name} holds no whole weights"):
            read_weights(tmp_path / name)


def test_files_of_today_and_no_files(tmp_path):
    torch.save({"a": torch.zeros(3)}, tmp_path / "new.pth")
    with pytest.raises(ValueError, match=r"new\.pth holds no whole weights"):
        read_weights(tmp_path / "new.pth")
    with pytest.raises(ValueError, match=r"none\.pth cannot be read: No such file"):
        read_weights(tmp_path / "none.pth")
