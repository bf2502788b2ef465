"""Predictions of a project's model: the page's own model, for the pool, the targets and inputs it has not seen."""

import json

import numpy as np
import pytest
from mails import write_mails
from PIL import Image

from askwell.acquire import Strategy
from askwell.models.protocol import mean_predict
from askwell.project import init_project, predicting
from askwell.project.predicting import open_input, predict_items
from askwell.project.rounds import train_round
from askwell.seeds import rng_for


@pytest.fixture
def mail(tmp_path):
    """A project of texts with 30 labels, and the truth."""
    truth = write_mails(tmp_path / "pool.csv", 150)
    write_mails(tmp_path / "traffic.csv", 40, seed=1, truth=False)
    wanted = {"classes": ["ham", "spam"], "show": "text", "id": "key", "targets": tmp_path / "traffic.csv"}
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", **wanted) as project:
        labelled(project, truth, 30)
        yield project, truth


def labelled(project, truth, count):
    for item in list(truth)[:count]:
        project.session().answer("ada", item, truth[item], key=item)


def test_the_model_is_the_one_that_the_questions_come_from(mail, monkeypatch):
    project, _ = mail
    used = []
    as_ever = Strategy.round

    def remembered(*given):
        used.append(as_ever(*given))
        return used[-1]

    monkeypatch.setattr(Strategy, "round", remembered)
    train_round(project)
    (latest,) = used
    here = predict_items(project, "pool")
    np.testing.assert_array_equal(here.probs, mean_predict(latest.posterior, project.features()[0]))
    assert here.ids == project.items.ids
    assert predict_items(project, "targets").probs.shape == (40, 2)


def test_a_file_is_seen_as_the_pool_is(mail, tmp_path):
    """The pool as INPUT gives what the pool gives; new texts of the same kind are mostly right."""
    project, _ = mail
    again = predict_items(project, open_input(project, tmp_path / "pool.csv"))
    np.testing.assert_allclose(again.probs, predict_items(project, "pool").probs, atol=1e-5)
    truth = write_mails(tmp_path / "new.csv", 100, seed=5)
    new = predict_items(project, open_input(project, tmp_path / "new.csv"))
    assert new.ids == tuple(truth)
    assert np.mean([label == truth[item] for item, label in zip(new.ids, new.best(), strict=True)]) > 0.8
    np.testing.assert_allclose(new.probs.sum(axis=1), 1, atol=1e-6)


def test_chunks_change_nothing(mail, tmp_path, monkeypatch):
    project, _ = mail
    write_mails(tmp_path / "new.csv", 50, seed=5)
    items = open_input(project, tmp_path / "new.csv")
    whole = predict_items(project, items).probs
    monkeypatch.setattr(predicting, "MOST_ROWS", 7)
    monkeypatch.setattr(predicting, "AT_ONCE", 1)
    np.testing.assert_allclose(predict_items(project, items).probs, whole, atol=1e-6)


def test_ids_may_be_missing_and_empty_rows_are_reported(mail, tmp_path):
    project, _ = mail
    (tmp_path / "a.csv").write_text("text,note\nwinner prize cash,x\n,y\nmeeting report,z\n")
    found = predict_items(project, open_input(project, tmp_path / "a.csv"))
    assert found.ids == ("2", "4")
    assert [str(each) for each in found.left_out] == ["a.csv:3: the column 'text' has nothing to show here"]
    (tmp_path / "b.csv").write_text("name,text\nq1,winner prize cash\n")
    assert open_input(project, tmp_path / "b.csv", id="name").ids == ("q1",)
    with pytest.raises(ValueError, match="has no column 'nam'"):
        open_input(project, tmp_path / "b.csv", id="nam")


def test_files_say_class_and_probability(mail, tmp_path):
    from pyarrow import parquet

    found = predict_items(mail[0], "targets")
    found.write(tmp_path / "a.jsonl", all_classes=True)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == [*found.rows(all_classes=True)]
    assert [*rows[0]] == ["id", "class", "probability", "p_ham", "p_spam"]
    assert all(row["probability"] == max(row["p_ham"], row["p_spam"]) == row[f"p_{row['class']}"] for row in rows)
    found.write(tmp_path / "a.parquet", all_classes=True)
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == rows
    found.write(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[0] == '"id","class","probability"'
    for name in ("a.json", "a.xlsx"):
        with pytest.raises(ValueError, match=f"must be csv, jsonl or parquet, but the ending of '{name}'"):
            found.write(tmp_path / name)
    assert sorted(path.name for path in tmp_path.glob("a.*")) == ["a.csv", "a.jsonl", "a.parquet"]


def test_a_table_needs_the_columns_of_the_model_and_no_others(tmp_path):
    rng = rng_for(0, 0, "table")
    x = rng.normal(size=(80, 2))
    truth = {f"r{i}": "yes" if a > 0 else "no" for i, a in enumerate(x[:, 0])}
    lines = [f"r{i},{a:.4f},{b:.4f},{truth[f'r{i}']}" for i, (a, b) in enumerate(x)]
    (tmp_path / "pool.csv").write_text("\n".join(["key,first,second,bought", *lines]))
    wanted = {"classes": ["no", "yes"], "id": "key", "label": "bought", "model": "linear"}
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", **wanted) as project:
        (tmp_path / "new.csv").write_text("second,key,first\n0.1,a,2.5\n0.2,b,-2.5\n")
        assert predict_items(project, open_input(project, tmp_path / "new.csv")).best() == ["yes", "no"]
        (tmp_path / "bad.csv").write_text("key,frist,second\na,1,2\n")
        with pytest.raises(ValueError, match=r"no column 'first'\. Did you mean 'frist'\?"):
            open_input(project, tmp_path / "bad.csv")
        (tmp_path / "bad.csv").write_text("key,first,second\na,many,2\n")
        with pytest.raises(ValueError, match=r"bad\.csv:2: the column 'first' must hold a number"):
            predict_items(project, open_input(project, tmp_path / "bad.csv"))


def test_folders_and_embeddings(tmp_path):
    rng = rng_for(0, 0, "pictures")
    for folder, count in (("pool", 30), ("new", 4)):
        (tmp_path / folder).mkdir()
        for place in range(count):
            grey = 40 if place % 2 else 200
            picture = np.clip(rng.normal(grey, 20, (16, 16)), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(tmp_path / folder / f"{place:02}.png")
    truth = {f"{place:02}.png": ("light", "dark")[place % 2] for place in range(30)}
    with init_project(tmp_path / "p", pool=tmp_path / "pool", classes=["light", "dark"]) as project:
        labelled(project, truth, 10)
        found = predict_items(project, open_input(project, tmp_path / "new"))
        assert (found.ids, found.best()) == (tuple(truth)[:4], ["light", "dark", "light", "dark"])
    x = rng.normal(size=(30, 3)) + [[5 * (place % 2), 0, 0] for place in range(30)]
    np.save(tmp_path / "pool.npy", x)
    np.save(tmp_path / "new.npy", x[:4])
    wanted = {"classes": ["light", "dark"], "features": f"embeddings:{tmp_path / 'pool.npy'}"}
    with init_project(tmp_path / "q", pool=tmp_path / "pool", **wanted) as project:
        labelled(project, truth, 10)
        items = open_input(project, tmp_path / "new")
        found = predict_items(project, items, embeddings=tmp_path / "new.npy")
        assert found.best() == ["light", "dark", "light", "dark"]
        np.testing.assert_allclose(found.probs, predict_items(project, "pool").probs[:4], atol=1e-6)
        with pytest.raises(ValueError, match="has no targets"):
            predict_items(project, "targets")


def test_too_few_labels_are_said(tmp_path):
    truth = write_mails(tmp_path / "pool.csv", 20)
    wanted = {"classes": ["ham", "spam"], "show": "text", "id": "key"}
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", **wanted) as project:
        with pytest.raises(ValueError, match="no model yet: it needs labels of two classes, and there is no label"):
            predict_items(project, "pool")
        first = next(item for item, label in truth.items() if label == "ham")
        project.session().answer("ada", first, "ham", key="k")
        with pytest.raises(ValueError, match="and all 1 labels are 'ham'"):
            predict_items(project, "pool")
