"""A table as a task: what is set aside, what other files must have, and what is no task."""

import csv

import numpy as np
import pytest

from askwell.data import labelled
from askwell.seeds import rng_for


def write(path, names, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def rows(n, classes="ab"):
    """An id, a number that is the row's, a word, and classes in turn."""
    return [[f"r{i}", i / 2, ["red", "blue", "green"][i % 3], classes[i % len(classes)]] for i in range(n)]


def task(path, **options):
    return labelled(path, label="y", rng=rng_for(0, 0, "test rows"), **options)


NAMES = ["key", "number", "word", "y"]


def test_every_row_is_asked_about_or_judged_by_with_its_label(tmp_path):
    found = task(write(tmp_path / "a.csv", NAMES, rows(60)), id="key", test_share=0.25)
    every = np.concatenate([found.x[:, 0], found.test[0][:, 0]])
    assert sorted(every) == [i / 2 for i in range(60)]
    for x, y in ((found.x, found.y), found.test):
        assert [*y] == ["ab"[int(2 * value) % 2] for value in x[:, 0]]
    assert found.ids == [f"r{int(2 * value)}" for value in found.x[:, 0]]
    assert (len(found.y), len(found.test[1])) == (44, 16)  # a quarter of each class: 7.5 rounds to 8
    assert found.targets is None


def test_rows_are_named_by_number_without_ids(tmp_path):
    found = task(write(tmp_path / "a.csv", NAMES, rows(60)), drop=["key"])
    assert found.ids == [int(2 * value) + 2 for value in found.x[:, 0]]


def test_the_same_rng_sets_the_same_rows_aside(tmp_path):
    path = write(tmp_path / "a.csv", NAMES, rows(60))
    assert task(path).ids == task(path).ids
    assert task(path).ids != labelled(path, label="y", rng=rng_for(1, 0, "test rows")).ids


def test_no_class_is_set_aside_whole(tmp_path):
    found = task(write(tmp_path / "a.csv", NAMES, [*rows(20), ["r20", 1, "red", "rare"]]), test_share=0.9)
    assert set(found.y) == {"a", "b", "rare"}


def test_other_files_are_encoded_alike(tmp_path):
    path = write(tmp_path / "a.csv", NAMES, rows(30))
    test = write(tmp_path / "t.csv", ["y", "word", "number"], [["b", "green", 7], ["a", "none", 8]])
    targets = write(tmp_path / "g.csv", ["number", "word"], [[9, "blue"]])
    found = task(path, id="key", drop=["key"], test=test, targets=targets)
    assert len(found.y) == 30
    assert found.test[1] == ["b", "a"]
    assert found.test[0].tolist() == [[7, 0, 1, 0], [8, 0, 0, 0]]  # number, blue, green, red
    assert found.targets.tolist() == [[9, 1, 0, 0]]
    assert found.note.splitlines()[-2:] == ["  test set: the 2 rows of t.csv", "  targets: the 1 rows of g.csv"]


def test_labels_of_two_files_are_of_one_kind(tmp_path):
    path = write(tmp_path / "a.csv", NAMES, rows(30, ["1", "2", "x"]))
    test = write(tmp_path / "t.csv", NAMES, rows(4, ["1", "2"]))
    assert task(path, test=test).test[1] == ["1", "2", "1", "2"]
    assert task(test, test=path).y == ["1", "2", "1", "2"]


def test_one_class_that_is_nearly_all_is_pointed_at(tmp_path):
    path = write(tmp_path / "a.csv", NAMES, rows(30, "aaaaaaaaab"))
    assert "90% of the rows are a: balanced accuracy" in task(path).note
    assert "balanced" not in task(write(path, NAMES, rows(30))).note


@pytest.mark.parametrize(("table", "options", "said"), [
    (rows(1), {}, "a.csv has 1 row. A simulation needs rows"),
    (rows(30, "a"), {}, "holds 'a' in every row"),
    (rows(30, [str(i) for i in range(16)]), {}, "holds 16 different values in 30 rows. Is it a number to be predicted"),
    (rows(90, [str(i / 2) for i in range(30)]), {}, "holds 30 different values in 90 rows. Is it a number to be"),
    (rows(30), {"drop": ["numbr"]}, "no column 'numbr'. Did you mean 'number'"),
    (rows(30), {"drop": ["key", "number", "word"]}, "no column that can be used as an input"),
    (rows(30), {"test_share": 0.01}, "leaves no test set. Try a larger one: test_share=0.5"),
    (rows(30), {"test_share": 1.5}, "test_share must be between 0 and 1, but it is 1.5"),
    (rows(30), {"test_share": 0.5, "test": "t.csv"}, "test and test_share exclude each other"),
])  # fmt: skip
def test_what_is_no_task_is_refused(tmp_path, table, options, said):
    with pytest.raises(ValueError, match=said):
        task(write(tmp_path / "a.csv", NAMES, table), **options)


def test_twenty_nine_whole_numbers_may_be_classes(tmp_path):
    assert len({*task(write(tmp_path / "a.csv", NAMES, rows(90, [str(i) for i in range(29)]))).y}) == 29


# ---- texts ----

TOPICS = {"space": "rocket orbit moon launch", "food": "bread soup salt oven", "law": "court judge trial appeal"}


def news(n, *, seed=0):
    rng, found = rng_for(seed, 0, "news"), []
    for i in range(n):
        topic = [*TOPICS][i % 3]
        words = rng.choice([*TOPICS[topic].split(), "the", "new", "today", "says", "people"], size=8)
        found.append((f"r{i:04d}", topic, f"{' '.join(words)} {i}"))
    return found


def test_texts_are_encoded_by_their_words(tmp_path):
    path = write(tmp_path / "news.csv", ["key", "topic", "text"], news(90))
    found = labelled(path, label="topic", id="key", rng=rng_for(0, 0, "test rows"))
    assert (found.texts, found.alike) == (("text",), True)
    assert found.x.shape[1] == found.test[0].shape[1] == 50
    assert np.isclose(np.square(found.x).mean(), 1, atol=1e-3), "in one unit"
    assert "text: " in found.note
    assert "words by TF-IDF, in 50 numbers by SVD" in found.note


def test_words_are_not_learnt_from_the_rows_to_judge_by(tmp_path):
    """Whatever these say, the inputs that can be asked about are the same; targets count."""
    path, rng = tmp_path / "news.csv", lambda: rng_for(0, 0, "test rows")
    write(path, ["key", "topic", "text"], news(90))
    first = labelled(path, label="topic", id="key", rng=rng())
    asked = {*first.ids}
    rows = [(key, topic, text if key in asked else f"quite other words {key}") for key, topic, text in news(90)]
    write(path, ["key", "topic", "text"], rows)
    again = labelled(path, label="topic", id="key", rng=rng())
    assert again.ids == first.ids
    np.testing.assert_array_equal(again.x, first.x)
    assert not np.array_equal(again.test[0], first.test[0])
    targets = write(tmp_path / "t.csv", ["text"], [[f"orbit of another moon {i}"] for i in range(30)])
    aimed = labelled(path, label="topic", id="key", rng=rng(), targets=targets)
    assert aimed.targets.shape == (30, 50)
    assert not np.array_equal(aimed.x, first.x)


def test_texts_beside_columns(tmp_path):
    rows = [(*row, i % 7, "ab"[i % 2]) for i, row in enumerate(news(90))]
    path = write(tmp_path / "news.csv", ["key", "topic", "text", "n", "kind"], rows)
    found = labelled(path, label="topic", id="key", rng=rng_for(0, 0, "test rows"))
    assert (found.texts, found.alike, found.x.shape[1]) == (("text",), False, 52)
    test = write(tmp_path / "t.csv", ["text", "topic", "kind", "n"], [("moon launch", "space", "a", 3)])
    other = labelled(path, label="topic", id="key", rng=rng_for(0, 0, "test rows"), test=test)
    assert other.test[0].shape == (1, 52)
    assert len(other.x) == 90


def test_short_texts_are_inputs_where_there_are_no_others(tmp_path):
    rows = [(f"r{i}", "ab"[i % 2], f"{'red' if i % 2 else 'blue'} {i}") for i in range(60)]
    path = write(tmp_path / "queries.csv", ["key", "y", "query"], rows)
    assert task(path, id="key").texts == ("query",)
    path = write(tmp_path / "names.csv", ["key", "y"], [row[:2] for row in rows])
    with pytest.raises(ValueError, match=r"no column that can be used as an input. Left out: key \(60 different texts"):
        task(path)
