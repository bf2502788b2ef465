"""Features: what they are made of, the same in every process, kept, and refused with file:row."""

import hashlib
import json
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mails import write_mails
from PIL import Image
from pyarrow import parquet
from random_nets import write_bert, write_mobilenet

from askwell.data import Rows, encoded, open_items, read_table
from askwell.project import Project, init_project, open_project
from askwell.project import features as room
from askwell.project.backup import backup_project, restore_project
from askwell.project.exchange import export_labels
from askwell.project.features import Pairing, is_file, kept_features, make_features, vectors_of
from askwell.project.predicting import open_input, predict_items
from askwell.project.rounds import train_round
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


# ---- encoders ----


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """Pictures, the first four of them in a second folder too, and a net with random weights; an own cache."""
    pytest.importorskip("torch", reason="PyTorch writes the random weights of these tests")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for folder, count in (("img", 12), ("new", 4)):
        (tmp_path / folder).mkdir()
        rng = rng_for(0, 0, "pictures")
        for place in range(count):
            values = rng.integers(0, 60, (20, 30, 3), dtype=np.uint8)
            values[:, :15] += np.uint8(150 * (place % 2))
            Image.fromarray(values).save(tmp_path / folder / f"{place:02}.png")
    write_mobilenet(tmp_path / "nets" / "net.pth")
    return tmp_path


def test_a_project_with_an_encoder_from_init_to_predictions(pictures):
    folder = pictures / "p"
    with init_project(
        folder, pool=pictures / "img", classes=["dark", "light"], features=str(pictures / "nets" / "net.pth")
    ) as project:
        recorded = project.settings.features
        assert re.fullmatch(r".*/nets/net\.pth@[0-9a-f]{12}", recorded)
        assert project.settings.model == "linear"
        assert project.features()[0].shape == (12, 11)
        assert project.features_note.startswith(f"1280 numbers by {recorded}, in 11 numbers by PCA (")
        session = project.session()
        for task in session.next("ada", size=10):
            answer = ("dark", "light")[int(task.item[:2]) % 2]
            session.answer("ada", task.item, answer, key=task.item, token=task.token)
    with open_project(folder) as project:
        found = predict_items(project, open_input(project, pictures / "new"))
        np.testing.assert_allclose(found.probs, predict_items(project, "pool").probs[:4], atol=1e-5)

    write_mobilenet(pictures / "nets" / "net.pth", seed=1)
    with open_project(folder) as project:
        assert project.features()[0].shape == (12, 11)  # as they were made
        with pytest.raises(ValueError, match=f"others than those that were recorded: .*, not {recorded[-12:]}"):
            open_input(project, pictures / "new")
    (pictures / "nets" / "net.pth").unlink()
    with open_project(folder) as project, pytest.raises(ValueError, match="there is no encoder"):
        open_input(project, pictures / "new")


def test_weights_inside_the_folder_of_the_project(pictures):
    (pictures / "p").mkdir()
    (pictures / "nets" / "net.pth").rename(pictures / "p" / "net.pth")
    name = str(pictures / "p" / "net.pth")
    with init_project(pictures / "p", pool=pictures / "img", classes=["a", "b"], features=name) as project:
        assert project.settings.features.startswith("./net.pth@")


def test_an_encoder_of_something_else(pictures, mail):
    name = str(pictures / "nets" / "net.pth")
    with pytest.raises(ValueError, match="are for items shown as image, but those here are of kind 'text'"):
        made(mail[0], None, name, folder=pictures)
    with pytest.raises(ValueError, match="are for items shown as image"):
        init_project(pictures / "p", pool=pictures / "pool.csv", classes=["a", "b"], show="text", features=name)
    assert not (pictures / "p").exists()


def test_a_picture_that_breaks_half_way_leaves_no_project(pictures):
    file = pictures / "img" / "11.png"
    file.write_bytes(file.read_bytes()[:-400])
    with pytest.raises(ValueError, match=r"11\.png is a damaged picture"):
        init_project(
            pictures / "p", pool=pictures / "img", classes=["a", "b"], features=str(pictures / "nets" / "net.pth")
        )
    assert not (pictures / "p").exists()


def test_texts_by_an_encoder_and_new_ones_too(mail, tmp_path, monkeypatch):
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = str(write_bert(tmp_path / "net"))
    pool, targets, _ = mail
    both = made(pool, targets, name, folder=tmp_path)
    assert both.pool.shape == (120, 8)
    assert both.targets.shape == (30, 8)
    np.testing.assert_allclose(both.encode(targets, None), both.targets, atol=1e-5)
    np.testing.assert_allclose(np.square(np.concatenate([both.pool, both.targets])).mean(), 1, atol=1e-4)
    cached = [*(tmp_path / "cache").rglob("*.npz")]
    again = made(pool, None, name, folder=tmp_path)
    assert again.pool.shape == (120, 8)
    assert [*(tmp_path / "cache").rglob("*.npz")] == cached  # nothing was computed


def test_texts_that_stay_in_files(mail, tmp_path, monkeypatch):
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(room, "IN_A_FILE", 25)
    name = str(write_bert(tmp_path / "net"))
    (tmp_path / "big").mkdir()
    lines = (tmp_path / "pool.csv").read_text().splitlines()
    (tmp_path / "big" / "a.csv").write_text("\n".join(lines[:71]) + "\n")
    (tmp_path / "big" / "b.csv").write_text("\n".join([lines[0], *lines[71:]]) + "\n")
    pool = open_items(str(tmp_path / "big" / "*.csv"), id="key", show="text")
    found = made(pool, mail[1], name, folder=tmp_path)
    assert isinstance(found.pool, Rows)
    assert found.pool.shape == (120, 8)
    whole = made(mail[0], mail[1], name, folder=tmp_path)  # the same directions, turned by PCA
    gram = np.corrcoef((found.pool[:] @ found.pool[:].T).ravel(), (whole.pool @ whole.pool.T).ravel())[0, 1]
    assert gram > 0.99
    np.testing.assert_allclose(found.encode(pool, None), found.pool[:], atol=1e-5)
    np.testing.assert_allclose(found.encode(mail[1], None), found.targets, atol=1e-5)

    files = sorted((tmp_path / "cache").rglob("files/*.npy"))
    assert len(files) == 5  # 25, 25, 20 of the first file, 25, 25 of the second
    before = {file: file.stat().st_mtime_ns for file in files}
    files[2].write_bytes(files[2].read_bytes()[:-10])  # as nothing of askwell leaves it
    files[3].unlink()  # as if the process had been killed before
    again = made(pool, None, name, folder=tmp_path)
    np.testing.assert_allclose(again.pool[:], found.pool[:], atol=1e-5)
    made_again = [file for file in files if file.stat().st_mtime_ns != before[file]]
    assert made_again == [files[2], files[3]]


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
        found = kept_features(items, targets, named, drop=[], folder=tmp_path, cache=kept)
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
    assert kept_features(items, targets, "text", drop=[], folder=tmp_path, cache=tmp_path / "file" / "f.npz").alike


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


KEYS = [f"m{i}" for i in range(8)]


def vector(key):
    """Known by its key."""
    return [float(int(key[1:])), 1.0]


def pool(folder, keys, *, id="key", name="pool.jsonl"):
    lines = "".join(json.dumps({"key": key, "text": f"text of {key}" if key else ""}) + "\n" for key in keys)
    (folder / name).write_text(lines)
    return open_items(folder / name, id=id, show="text")


def saved(folder, keys, *, dtype=np.float32, name="v.npy"):
    np.save(folder / name, np.array([vector(key) for key in keys], dtype))
    return folder / name


def of(items, x):
    """item -> the key that its vector is of; by what is shown, so that it is right where rows are counted too."""
    shown = [items.show(item).text.removeprefix("text of ") for item in items.ids]
    return {key: f"m{int(row[0])}" for key, row in zip(shown, x, strict=True)}


def right(items, x):
    return all(key == whose for key, whose in of(items, x).items())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.permutations(KEYS), after=st.permutations(KEYS), gone=st.integers(0, 7), counted=st.booleans())
def test_no_vector_ever_goes_to_another_row(tmp_path, before, after, gone, counted):
    """Rows in any order, some of them gone: matched or refused."""
    id = None if counted else "key"
    file = saved(tmp_path, before)
    _, pairing = vectors_of(pool(tmp_path, before, id=id), file)
    items = pool(tmp_path, after[gone:], id=id)
    if counted and (gone or before != after):
        with pytest.raises(ValueError, match="one row for each" if gone else "have moved"):
            vectors_of(items, file, recorded=pairing)
    else:
        x, again = vectors_of(items, file, recorded=pairing)
        assert right(items, x)
        assert again == pairing


def test_rows_that_were_added_have_no_vector(tmp_path):
    file = saved(tmp_path, KEYS)
    _, pairing = vectors_of(pool(tmp_path, KEYS), file)
    with pytest.raises(
        ValueError, match=r"1 of the 9 items of pool.jsonl have no vector in v.npy \('m9'\).*Write it anew"
    ):
        vectors_of(pool(tmp_path, ["m9", *KEYS]), file, recorded=pairing)
    with pytest.raises(ValueError, match=r"1 of the 8 items of pool\.jsonl have no vector"):
        vectors_of(pool(tmp_path, [*KEYS[:7], "m9"]), file, recorded=pairing)
    x, new = vectors_of(pool(tmp_path, [*KEYS, "m9"]), saved(tmp_path, [*KEYS, "m9"]), recorded=pairing)
    assert x[-1].tolist() == vector("m9")
    assert new.keys == (*KEYS, "m9")


def test_both_changed(tmp_path):
    """A new file for a pool in another order, or the old order saved again: nobody can tell."""
    _, pairing = vectors_of(pool(tmp_path, KEYS), saved(tmp_path, KEYS))
    items = pool(tmp_path, KEYS[::-1])
    with pytest.raises(ValueError, match=r"have both changed .* ids=ids"):
        vectors_of(items, saved(tmp_path, KEYS[::-1]), recorded=pairing)
    with pytest.raises(ValueError, match=r"have both changed .* ids=ids"):
        vectors_of(items, saved(tmp_path, KEYS, dtype=np.float64), recorded=pairing)
    fewer = pool(tmp_path, KEYS[2:])
    assert right(fewer, vectors_of(fewer, saved(tmp_path, KEYS[2:]), recorded=pairing)[0])


def test_new_vectors_for_the_same_rows(tmp_path):
    """And then another order: the pairing that was kept is not of these vectors."""
    items = pool(tmp_path, KEYS)
    _, pairing = vectors_of(items, saved(tmp_path, KEYS))
    file = saved(tmp_path, KEYS, dtype=np.float64)
    assert vectors_of(items, file, recorded=pairing)[1] == pairing
    with pytest.raises(ValueError, match="have both changed"):
        vectors_of(pool(tmp_path, KEYS[::-1]), file, recorded=pairing)


def test_rows_that_were_no_items(tmp_path):
    """A vector for each row of the file; one of them had nothing to show at first."""
    rows = ["m0", "", "m2"]
    np.save(tmp_path / "v.npy", np.array([vector(f"m{i}") for i in range(3)]))
    items = pool(tmp_path, rows, id=None)
    x, pairing = vectors_of(items, tmp_path / "v.npy")
    assert right(items, x)
    assert pairing.keys[1] == ""
    filled = pool(tmp_path, ["m0", "m1", "m2"], id=None)
    with pytest.warns(UserWarning, match=r"1 rows of pool.jsonl are not what they were"):
        x, _ = vectors_of(filled, tmp_path / "v.npy", recorded=pairing)
    assert right(filled, x)


def test_a_file_that_says_whose_each_vector_is(tmp_path):
    items = pool(tmp_path, KEYS)
    x = np.array([vector(key) for key in KEYS[::-1]])
    np.savez(tmp_path / "v.npz", ids=KEYS[::-1], x=x)
    found, pairing = vectors_of(items, tmp_path / "v.npz")
    assert right(items, found)
    assert pairing is None
    with pytest.raises(ValueError, match="1 of the 9 items"):
        vectors_of(pool(tmp_path, [*KEYS, "m9"]), tmp_path / "v.npz")
    for wrong, said in [
        ({"x": x}, "two arrays"),
        ({"ids": KEYS, "x": x, "y": x}, "two arrays"),
        ({"ids": KEYS[:3], "x": x}, "as many texts"),
        ({"ids": ["m0"] * 8, "x": x}, "'m0' occurs more than once"),
        ({"ids": KEYS, "x": x[:, 0]}, "rows of numbers"),
    ]:
        np.savez(tmp_path / "w.npz", **wrong)
        with pytest.raises(ValueError, match=said):
            vectors_of(items, tmp_path / "w.npz")
    assert is_file("v.npz")
    assert not is_file("embedding")


def test_folders_are_known_by_their_names(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for key in KEYS[1:]:
        (folder / f"{key}.txt").write_text(f"text of {key}")
    file = saved(tmp_path, KEYS[1:])
    _, pairing = vectors_of(open_items(folder), file)
    assert pairing == Pairing("v.npy", pairing.sha256, tuple(f"{key}.txt" for key in KEYS[1:]))
    (folder / "m0.txt").write_text("text of m0")  # the first by name: all others move
    with pytest.raises(ValueError, match=r"'m0.txt'"):
        vectors_of(open_items(folder), file, recorded=pairing)
    (folder / "m0.txt").unlink()
    (folder / "m1.txt").unlink()
    items = open_items(folder)
    assert right(items, vectors_of(items, file, recorded=pairing)[0])


# ---- in a project ----


@pytest.fixture
def place(tmp_path):
    """A project with vectors of pool and targets in files."""
    keys = [f"m{i}" for i in range(40)]
    pool(tmp_path, keys)
    pool(tmp_path, keys[:9], name="targets.jsonl")
    files = f"embeddings:{saved(tmp_path, keys)},{saved(tmp_path, keys[:9], name='t.npy')}"
    made = init_project(
        tmp_path / "p",
        pool=tmp_path / "pool.jsonl",
        targets=tmp_path / "targets.jsonl",
        id="key",
        show="text",
        classes=["a", "b"],
        features=files,
    )
    made.close()
    return tmp_path


def features_by_id(folder):
    with open_project(folder / "p") as project:
        x, targets = project.features()
        return dict(zip(project.items.ids, x.tolist(), strict=True)), targets.tolist()


def test_a_project_keeps_whose_vectors_they_are(place):
    first, targets = features_by_id(place)
    pool(place, [f"m{i}" for i in range(39, -1, -1)])
    pool(place, [f"m{i}" for i in range(8, -1, -1)], name="targets.jsonl")
    again, others = features_by_id(place)
    assert again == first
    assert others == targets[::-1]


def test_a_row_without_a_vector_is_said_where_people_look(place):
    from click.testing import CliRunner

    from askwell.cli import main

    with open_project(place / "p") as project:
        for i in range(6):
            project.session().answer("ada", f"m{i}", "ab"[i % 2], key=f"k{i}")
        pool(place, [f"m{i}" for i in range(41)])
    for words, code in ((["status"], 0), (["ask", "--who", "ada"], 1)):  # ask says that it could not train
        done = CliRunner().invoke(main, [*words, str(place / "p")])
        assert done.exit_code == code, done.output
        assert "1 of the 41 items of pool.jsonl have no vector in v.npy ('m40')" in " ".join(done.output.split()), words


def test_a_project_of_before_gets_a_pairing_with_a_note(request, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(Project, "keep_pairings", lambda project: None)
        place = request.getfixturevalue("place")
    with open_project(place / "p") as project:
        with pytest.warns(UserWarning, match=r"order of the rows of pool.jsonl is kept with this project from now on"):
            project.features()
        train_round(project)
    first, _ = features_by_id(place)
    pool(place, [f"m{i}" for i in range(39, -1, -1)])
    assert features_by_id(place)[0] == first


# ---- pools in files ----


def files(folder, *, vectors=False):
    """Two Parquet files of 30 rows: a number, a category, a text, a label; and vectors."""
    folder.mkdir()
    rng = rng_for(0, 0, "files")
    for number in range(2):
        rows = range(30 * number, 30 * number + 30)
        columns = {
            "key": [f"k{row}" for row in rows],
            "x": [row / 2 for row in rows],
            "y": ["ab"[row % 2] for row in rows],
        }
        columns |= {"price": [1 + row % 4 for row in rows], "town": ["Oslo" if row % 3 else "Rome" for row in rows]}
        columns |= {"text": [f"a message about the topic {row}" for row in rows]}
        if vectors:
            flat = pa.array(rng.normal(size=120).astype(np.float32) + 5)
            columns["v"] = pa.FixedSizeListArray.from_arrays(flat, 4)
        parquet.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=8)
    return folder


def test_a_pool_in_files_has_the_columns_of_one_in_memory(tmp_path):
    opened = open_items(files(tmp_path / "big"), id="key", kind="table")
    whole = open_items(tmp_path / "big" / "1.parquet", id="key", kind="table")
    for wanted, columns in (("columns", ("x", "town")), (["town"], ("town",))):
        found = make_features(opened, whole, wanted, drop=["y", "text", "price"], folder=tmp_path)
        assert (found.columns, found.alike, found.pool.shape[0]) == (columns, False, 60)
        same = make_features(whole, None, wanted, drop=["y", "text", "price"], folder=tmp_path)
        np.testing.assert_array_equal(found.pool[30:], same.pool)
        np.testing.assert_array_equal(found.targets, same.pool)
        np.testing.assert_array_equal(found.encode(whole, None), same.pool)
        np.testing.assert_array_equal(
            make_features(opened, opened, wanted, drop=["y", "text", "price"], folder=tmp_path).targets[:],
            found.pool[:],
        )
    assert "left out: text" in make_features(opened, None, "columns", drop=[], folder=tmp_path).note


def test_embeddings_are_a_column_of_the_files_in_one_unit(tmp_path):
    opened = open_items(files(tmp_path / "big", vectors=True), id="key", kind="table")
    found = make_features(opened, opened, "embeddings:v", drop=["y"], folder=tmp_path)
    assert (found.pool.shape, found.alike, found.columns) == ((60, 4), True, ("v",))
    x = found.pool[:]
    np.testing.assert_allclose([x.mean(), np.square(x).mean()], [0, 1], atol=1e-5)
    np.testing.assert_array_equal(found.targets[:], x)
    raw = np.concatenate(
        [np.stack(parquet.read_table(tmp_path / "big" / f"{k}.parquet")["v"].to_pylist()) for k in (0, 1)]
    )
    np.testing.assert_allclose(x, (raw - raw.mean(0)) / np.sqrt(np.square(raw - raw.mean(0)).mean()), atol=1e-5)
    (tmp_path / "new.jsonl").write_text(
        "".join(json.dumps({"key": str(n), "v": row}) + "\n" for n, row in enumerate(raw[:3].tolist()))
    )
    np.testing.assert_allclose(found.encode(open_items(tmp_path / "new.jsonl", kind="table"), None), x[:3], atol=1e-5)


@pytest.mark.parametrize(("wanted", "said"), [
    ("text", "'text' are not made of a pool in files .* one file"),
    ("embeddings:v.npy", "Give embeddings as a column of its files"),
    (["text"], "'text' of .* has no column|has no column that can be used|cannot be used"),
    (["y"], "'y' is the column of labels"),
    (["tetx"], "has no column 'tetx'. Did you mean 'text'"),
])  # fmt: skip
def test_what_a_pool_in_files_cannot_have(tmp_path, wanted, said):
    opened = open_items(files(tmp_path / "big"), id="key", show="text")
    assert (opened.kind, opened.show("k31").text) == ("text", "a message about the topic 31")
    with pytest.raises(ValueError, match=said):
        make_features(opened, None, wanted, drop=["y"], folder=tmp_path)


def test_targets_in_files_need_a_pool_in_files(tmp_path):
    opened = open_items(files(tmp_path / "big"), id="key", kind="table")
    whole = open_items(tmp_path / "big" / "1.parquet", id="key", kind="table")
    with pytest.raises(ValueError, match="give the targets as one file"):
        make_features(whole, opened, "columns", drop=[], folder=tmp_path)


def test_a_project_in_files_from_init_to_backup(tmp_path):
    """Labels and costs of columns, training, predictions, export with items, and a backup that is restored."""
    files(tmp_path / "big")
    pool = tmp_path / "big" / "*.parquet"
    options = {"id": "key", "label": "y", "show": ["town", "text"], "features": ["town"]}
    with pytest.raises(ValueError, match=r"0\.parquet:1: the cost column 'x' must hold a number above zero"):
        init_project(tmp_path / "q", pool=pool, cost="x", **options)
    with init_project(tmp_path / "p", pool=pool, cost="price", **options) as project:
        assert project.settings.pool == str(pool)
        assert (len(project.items), project.settings.classes) == (60, ("a", "b"))
        assert project.costs().tolist() == [1.0 + row % 4 for row in range(60)]
        train_round(project)
        assert "failed" not in project.session().progress().rounds[-1]
        assert export_labels(project, tmp_path / "out.jsonl", with_item=True) == 60
        last = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])
        assert (last["id"], last["town"], last["text"]) == ("k59", "Oslo", "a message about the topic 59")
        predicted = predict_items(project, "pool")
        assert (predicted.ids, predicted.probs.shape) == (project.items.ids, (60, 2))
        some = open_input(project, tmp_path / "big" / "[1].parquet")
        np.testing.assert_array_equal(predict_items(project, some).probs, predicted.probs[30:])
        with pytest.raises(ValueError, match="belongs to the project"):
            project.check_output(tmp_path / "big" / "1.parquet")
        backup = backup_project(project, path=tmp_path / "b.zip")
        assert not backup.notes
    restored = restore_project(tmp_path / "b.zip", tmp_path / "r")
    assert (restored.data, restored.notes) == (("data/pool/*.parquet",), ())
    with open_project(tmp_path / "r") as project:
        assert project.items.show("k59", whole=True).cells == (("town", "Oslo"), ("text", last["text"]))
        assert len(project.session().labels()) == 60
