"""Features: what they are made of, the same in every process, kept, and refused with file:row."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
from mails import write_mails
from PIL import Image

from askwell.data import encoded, open_items, read_table
from askwell.project import features as room
from askwell.project.features import kept_features, make_features
from askwell.seeds import rng_for


@pytest.fixture
def mail(tmp_path):
    truth = write_mails(tmp_path / "pool.csv", 120)
    write_mails(tmp_path / "targets.csv", 30, seed=1, truth=False)
    items = open_items(tmp_path / "pool.csv", id="key", show="text")
    return items, open_items(tmp_path / "targets.csv", id="key", show="text"), list(truth.values())


def made(items, targets=None, features="columns", *, drop=(), folder=None):
    return make_features(items, targets, features, drop=drop, folder=folder)


def shown_as_table(path, text):
    path.write_text(text)
    return open_items(path, kind="table")


# ---- words ----


def test_words_tell_the_classes_apart(mail):
    items, targets, truth = mail
    found = made(items, targets, "text")
    assert found.pool.shape == (120, 50)
    assert found.targets.shape == (30, 50)
    assert found.pool.dtype == np.float32
    assert found.alike
    # nearest neighbours share their label far more often than by chance
    x = found.pool / np.linalg.norm(found.pool, axis=1, keepdims=True)
    alike = x @ x.T - 2 * np.eye(120)
    assert np.mean([truth[i] == truth[j] for i, j in enumerate(alike.argmax(axis=1))]) > 0.75


def test_numbers_that_are_alike_are_in_one_unit(mail):
    items, targets, _ = mail
    found = made(items, targets, "text")
    both = np.concatenate([found.pool, found.targets]).astype(np.float64)
    np.testing.assert_allclose(both.mean(axis=0), 0, atol=1e-5)
    assert np.square(both).mean() == pytest.approx(1, abs=1e-5)
    assert both.std(axis=0).max() > 1.5 * both.std(axis=0).min(), "what varies more counts more"


@pytest.mark.parametrize(
    "texts", [["a"], ["x y", "x y"], ["数据很好", "天气不好", "数据"], ["1", "2", "!"], ["é è", "è é", "z"]]
)
def test_texts_with_hardly_any_words(tmp_path, texts):
    np.save(tmp_path / "t.npy", np.array(texts))
    found = made(open_items(tmp_path / "t.npy"), None, "text")
    assert len(found.pool) == len(texts)
    assert np.isfinite(found.pool).all()


def test_the_same_in_every_process(mail, tmp_path):
    items, targets, _ = mail
    here = made(items, targets, "text")
    code = (
        "import hashlib, sys\n"
        "from askwell.data import open_items\n"
        "from askwell.project.features import make_features\n"
        "a, b = (open_items(f'{sys.argv[1]}/{name}.csv', id='key', show='text') for name in ('pool', 'targets'))\n"
        "x = make_features(a, b, 'text', drop=[], folder=None)\n"
        "print(hashlib.sha256(x.pool.tobytes() + x.targets.tobytes()).hexdigest())"
    )
    there = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert there.stdout.strip() == hashlib.sha256(here.pool.tobytes() + here.targets.tobytes()).hexdigest()


# ---- columns ----


def test_columns_are_encoded_as_tables_are(tmp_path):
    text = "age,town,y\n" + "".join(f"{20 + i % 7},{'Oslo' if i % 3 else 'Rome'},{i % 2}\n" for i in range(40))
    items = shown_as_table(tmp_path / "a.csv", text)
    found = made(items, drop=["y"])
    np.testing.assert_array_equal(found.pool, encoded(read_table(tmp_path / "a.csv"), drop=["y"]).x)
    assert not found.alike
    assert "numbers as they are: age" in found.note
    assert made(items, None, ["town"]).pool.shape == (40, 1)
    targets = shown_as_table(tmp_path / "b.csv", "town,age\nRome,3\nBern,5\n")
    assert made(items, targets, drop=["y"]).targets.tolist() == [[3.0, 1.0], [5.0, 0.0]]
    assert made(items, targets, ["age", "town"], drop=["y"]).targets.tolist() == [[3.0, 1.0], [5.0, 0.0]]


def test_prose_among_columns_is_read_by_its_words(mail, tmp_path):
    table = open_items(tmp_path / "pool.csv", id="key", kind="table", show=["text", "truth"])
    words = made(table, None, ["text"])
    assert words.pool.shape == (120, 50)
    assert made(table, None, "columns").pool.shape == (120, 51), "and the truth"
    assert "text: " in words.note


@pytest.mark.parametrize(("features", "said"), [
    (["agee"], "a.csv has no column 'agee'. Did you mean 'age'"),
    (["y"], "features must be inputs, but 'y' is the column of labels or costs"),
    ("text", "features 'text' are for items shown as text"),
    ("pixels", "features 'pixels' are for items shown as image"),
    ("embeddings:no.npy", "there is no file"),
    ("embeddings:ag", "must name a column"),
    ("embeddings:age", r"a.csv:2: the column 'age' must hold a list of numbers like \[0.1, 0.2\], but it holds '1'"),
])  # fmt: skip
def test_features_that_cannot_be_made(tmp_path, features, said):
    items = shown_as_table(tmp_path / "a.csv", "age,y\n1,a\n2,b\n")
    with pytest.raises(ValueError, match=said):
        made(items, None, features, drop=["y"], folder=tmp_path)


def test_folders_have_no_columns(tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("hello")
    with pytest.raises(ValueError, match="features must be columns of a table, but texts has none"):
        made(open_items(tmp_path / "texts"))


# ---- pixels ----


def test_pixels_tell_pictures_apart(tmp_path):
    rng = rng_for(0, 0, "pictures")
    for place in range(12):
        values = rng.integers(0, 60, (20, 30, 3), dtype=np.uint8)
        values[:, :15] += np.uint8(150 * (place % 2))
        (tmp_path / "img").mkdir(exist_ok=True)
        Image.fromarray(values).save(tmp_path / "img" / f"{place:02}.png")
    found = made(open_items(tmp_path / "img"), None, "pixels")
    assert found.pool.shape == (12, 11)
    first = found.pool[:, 0]
    assert (np.sign(first[::2]) == np.sign(first[0])).all()
    assert (np.sign(first[1::2]) == -np.sign(first[0])).all()


# ---- embeddings ----


def test_embeddings_in_a_column(tmp_path):
    rows = [[1.0, 0.5], [3.0, 0.25], [5, -1]]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": f"t{i}", "vector": row}) for i, row in enumerate(rows)))
    items = open_items(path, show="text")
    found = made(items, items, "embeddings:vector")
    np.testing.assert_array_equal(found.pool, found.targets)
    x = np.array(rows) - np.mean(rows, axis=0)
    np.testing.assert_allclose(found.pool, x / np.sqrt(np.square(x).mean()), rtol=1e-6)
    for bad in ([1], [1, None], "x", [1, [2]], [], None, {"a": 1}, [1, float("inf")], [1, 10**400]):
        path.write_text(path.read_text().splitlines()[0] + "\n" + json.dumps({"text": "t", "vector": bad}))
        with pytest.raises(ValueError, match=r"a\.jsonl:2: "):
            made(open_items(path, show="text"), None, "embeddings:vector")


def test_embeddings_in_files(tmp_path):
    x = rng_for(0, 0, "x").normal(size=(5, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "t.npy", x[:2])
    items = shown_as_table(tmp_path / "a.csv", "a,b\n1,x\n,\n3,z\n4,u\n5,v\n")
    assert len(items) == 4
    found = made(items, None, "embeddings:x.npy", folder=tmp_path)
    kept = x[[0, 2, 3, 4]]
    centred = kept - kept.mean(axis=0)
    np.testing.assert_allclose(found.pool, centred / np.sqrt(np.square(centred).mean()), rtol=1e-5)
    targets = shown_as_table(tmp_path / "b.csv", "a,b\n1,x\n2,y\n")
    assert made(items, targets, "embeddings:x.npy, t.npy", folder=tmp_path).targets.shape == (2, 3)
    for name, array, said in (
        ("x.npy", x[:3], "must have one row for each of the 5 rows of a.csv, but it has 3"),
        ("x.npy", x[0], r"must hold rows of numbers \[n, d\]"),
        ("x.npy", np.where(x > 2, np.nan, np.inf), "x.npy: the vector of '2': embeddings must be finite"),
        ("t.npy", x[:2, :2], "embeddings must be of one length, but the pool's have 3 numbers and the targets' 2"),
    ):
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / name, array)
        with pytest.raises(ValueError, match=said):
            made(items, targets, "embeddings:x.npy,t.npy", folder=tmp_path)
    with pytest.raises(ValueError, match=r"two \.npy or \.npz files with a comma between"):
        made(items, targets, "embeddings:x.npy", folder=tmp_path)


def test_no_pickle_is_ever_loaded(tmp_path):
    items = shown_as_table(tmp_path / "a.csv", "a,b\n1,x\n2,y\n")
    np.save(tmp_path / "x.npy", np.array([[1], [object]], object), allow_pickle=True)
    with pytest.raises(ValueError, match="not a whole NumPy array of numbers"):
        made(items, None, "embeddings:x.npy", folder=tmp_path)


# ---- kept ----


def test_features_are_made_once_and_again_when_something_changes(mail, tmp_path, monkeypatch):
    items, targets, _ = mail
    kept, made_often = tmp_path / "cache" / "f.npz", []
    whole = room.make_features
    monkeypatch.setattr(room, "make_features", lambda *a, **b: made_often.append(1) or whole(*a, **b))

    def features(items=items, targets=targets, named="text"):
        found = kept_features(items, targets, named, drop=[], folder=tmp_path, kept=kept)
        return found, len(made_often)

    first, count = features()
    again, count_again = features()
    assert (count, count_again) == (1, 1)
    np.testing.assert_array_equal(first.pool, again.pool)
    np.testing.assert_array_equal(first.targets, again.targets)
    assert (first.note, first.alike) == (again.note, again.alike)
    assert features(targets=None)[0].targets is None
    assert features()[1] == 3, "one kind is kept at a time"
    text = (tmp_path / "pool.csv").read_text()
    (tmp_path / "pool.csv").write_text(text.replace("prize", "price", 1))
    assert features(items=open_items(tmp_path / "pool.csv", id="key", show="text"))[1] == 4
    for damage in (b"", kept.read_bytes()[:1000], b"x" * 1000):
        kept.write_bytes(damage)
        np.testing.assert_array_equal(features()[0].pool, first.pool)
    assert [path.name for path in kept.parent.iterdir()] == ["f.npz"]


def test_a_folder_that_cannot_be_written_is_no_trouble(mail, tmp_path):
    items, targets, _ = mail
    (tmp_path / "file").write_text("not a folder")
    assert kept_features(items, targets, "text", drop=[], folder=tmp_path, kept=tmp_path / "file" / "f.npz").alike


# ---- other items ----


def test_other_items_get_the_numbers_that_the_pool_has(mail, tmp_path):
    """The pool's own rows, in another order and without the rest, become what they are in the pool."""
    items, targets, _ = mail
    some = [7, 3, 100]
    text = made(items, targets, "text")
    rows = [items.contents[place] for place in some]
    np.save(tmp_path / "some.npy", np.array(rows))
    np.testing.assert_allclose(text.encode(open_items(tmp_path / "some.npy"), None), text.pool[some], atol=1e-5)

    lines = ["age,town,note", *(f"{i},{'Oslo' if i % 3 else 'Rome'},a note of {i} about things" for i in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    table = made(open_items(tmp_path / "t.csv", kind="table"))
    assert table.columns == ("town", "note")  # ages count the rows here
    (tmp_path / "u.csv").write_text(
        "\n".join(["note,town", "a note of 5 about things,Oslo", "a note of 6 about things,Rome"])
    )
    other = open_items(tmp_path / "u.csv", kind="table")
    np.testing.assert_allclose(table.encode(other, None), table.pool[[5, 6]], atol=1e-5)
    (tmp_path / "v.csv").write_text("note,twon\nx,Oslo\n")
    with pytest.raises(ValueError, match="no column 'town'\\. Did you mean 'twon'"):
        table.encode(open_items(tmp_path / "v.csv", kind="table"), None)


def test_other_pictures_and_embeddings_too(tmp_path):
    rng = rng_for(0, 0, "pictures")
    (tmp_path / "pool").mkdir()
    (tmp_path / "one").mkdir()
    for place in range(12):
        picture = Image.fromarray(rng.integers(0, 255, (20, 20, 3), np.uint8))
        picture.save(tmp_path / "pool" / f"{place:02}.png")
        if place == 5:
            picture.save(tmp_path / "one" / "new.png")
    found = made(open_items(tmp_path / "pool"), None, "pixels")
    np.testing.assert_allclose(found.encode(open_items(tmp_path / "one"), None), found.pool[[5]], atol=1e-4)

    x = rng.normal(size=(12, 3)).astype(np.float32)
    np.save(tmp_path / "e.npy", x)
    np.save(tmp_path / "one.npy", x[[4]])
    np.save(tmp_path / "wide.npy", np.ones((1, 4)))
    found = made(open_items(tmp_path / "pool"), None, "embeddings:e.npy", folder=tmp_path)
    one = open_items(tmp_path / "one")
    np.testing.assert_allclose(found.encode(one, tmp_path / "one.npy"), found.pool[[4]], atol=1e-6)
    for file, said in ((None, "in another one"), ("wide.npy", "have 3 numbers and those of one 4")):
        with pytest.raises(ValueError, match=said):
            found.encode(one, None if file is None else tmp_path / file)
