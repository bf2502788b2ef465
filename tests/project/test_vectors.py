"""Vectors in files stay with their rows, whatever becomes of the order of either."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askwell.data import open_items
from askwell.project import Project, init_project, open_project
from askwell.project.rounds import train_round
from askwell.project.vectors import Pairing, is_file, vectors_of

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
            vectors_of(items, file, known=pairing)
    else:
        x, again = vectors_of(items, file, known=pairing)
        assert right(items, x)
        assert again == pairing


def test_rows_that_were_added_have_no_vector(tmp_path):
    file = saved(tmp_path, KEYS)
    _, pairing = vectors_of(pool(tmp_path, KEYS), file)
    with pytest.raises(
        ValueError, match=r"1 of the 9 items of pool.jsonl have no vector in v.npy \('m9'\).*Write it anew"
    ):
        vectors_of(pool(tmp_path, ["m9", *KEYS]), file, known=pairing)
    with pytest.raises(ValueError, match=r"1 of the 8 items of pool\.jsonl have no vector"):
        vectors_of(pool(tmp_path, [*KEYS[:7], "m9"]), file, known=pairing)
    x, new = vectors_of(pool(tmp_path, [*KEYS, "m9"]), saved(tmp_path, [*KEYS, "m9"]), known=pairing)
    assert x[-1].tolist() == vector("m9")
    assert new.keys == (*KEYS, "m9")


def test_both_changed(tmp_path):
    """A new file for a pool in another order, or the old order saved again: nobody can tell."""
    _, pairing = vectors_of(pool(tmp_path, KEYS), saved(tmp_path, KEYS))
    items = pool(tmp_path, KEYS[::-1])
    with pytest.raises(ValueError, match=r"have both changed .* ids=ids"):
        vectors_of(items, saved(tmp_path, KEYS[::-1]), known=pairing)
    with pytest.raises(ValueError, match=r"have both changed .* ids=ids"):
        vectors_of(items, saved(tmp_path, KEYS, dtype=np.float64), known=pairing)
    fewer = pool(tmp_path, KEYS[2:])
    assert right(fewer, vectors_of(fewer, saved(tmp_path, KEYS[2:]), known=pairing)[0])


def test_new_vectors_for_the_same_rows(tmp_path):
    """And then another order: the pairing that was kept is not of these vectors."""
    items = pool(tmp_path, KEYS)
    _, pairing = vectors_of(items, saved(tmp_path, KEYS))
    file = saved(tmp_path, KEYS, dtype=np.float64)
    assert vectors_of(items, file, known=pairing)[1] == pairing
    with pytest.raises(ValueError, match="have both changed"):
        vectors_of(pool(tmp_path, KEYS[::-1]), file, known=pairing)


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
        x, _ = vectors_of(filled, tmp_path / "v.npy", known=pairing)
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
        vectors_of(open_items(folder), file, known=pairing)
    (folder / "m0.txt").unlink()
    (folder / "m1.txt").unlink()
    items = open_items(folder)
    assert right(items, vectors_of(items, file, known=pairing)[0])


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
