"""A project that is open: what its settings name, and that it is found again."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import cloudpickle
import numpy as np
import pytest
from mails import write_mails

import askwell
from askwell.models.forest import RandomForest
from askwell.models.linear import LinearModel
from askwell.project import init_project, open_project
from askwell.seeds import rng_for
from askwell.store import StoreError, open_store


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mails(tmp_path / "pool.csv", 60)
    write_mails(tmp_path / "traffic.csv", 20, seed=1, truth=False)
    rng = rng_for(0, 0, "table")
    lines = [f"{a:.3f},{b:.3f},{1 + i % 3}" for i, (a, b) in enumerate(rng.normal(size=(30, 2)))]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,minutes", *lines]) + "\n")
    return tmp_path


def texts(**more):
    return init_project("p", pool="pool.csv", classes=["ham", "spam"], show="text", id="key", **more)


def rows(**more):
    return init_project("p", pool="table.csv", classes=["no", "yes"], **more)


def test_a_project_is_found_again_wherever_it_is_opened_from(place, monkeypatch):
    with texts(targets="traffic.csv") as made:
        x, targets = made.features()
    monkeypatch.chdir(place / "p")
    for name in (".", place / "p", place / "p" / "askwell.toml", "../p"):
        with open_project(name) as found:
            assert found.settings == made.settings
            assert found.items.ids == made.items.ids
            assert found.target_items.ids[:2] == ("m0", "m1")
            np.testing.assert_array_equal(found.features()[0], x)
            np.testing.assert_array_equal(found.features()[1], targets)
    monkeypatch.chdir(place)
    shutil.move("p", "q")
    with open_project("q") as found:
        assert len(found.session().next("ada", size=3)) == 3


def test_labels_go_through_one_store(place):
    with texts() as project:
        (task,) = project.session().next("ada")
        project.session().answer("ada", task.item, "ham", key="k1", token=task.token)
    with open_project("p") as again:
        assert [said.label for said in again.session().labels().values()] == ["ham"]
        assert again.session().rules.classes == ("ham", "spam")
        assert again.session() is again.session()
        x, _ = again.features()
    with askwell.Learner(
        again.model(), x, ids=again.items.ids, classes=["ham", "spam"], store="sqlite:///p/labels.db"
    ) as seen:
        assert seen.labels == {task.item: "ham"}


def test_targets(place):
    with rows() as project:
        assert repr(project.targets()) == "from_pool(100)"
        assert project.target_items is None
    shutil.rmtree("p")
    with rows(class_prior={"no": 0.9, "yes": 0.1}) as project:
        assert repr(project.targets()) == "class_prior({'no': 0.9, 'yes': 0.1}, m=200)"
    shutil.rmtree("p")
    (place / "t.csv").write_text("a,b\n1,2\n3,4\n")
    with rows(targets="t.csv", features=["a", "b"]) as project:
        assert repr(project.targets()) == "given(2 inputs)"
        assert project.features()[1].tolist() == [[1, 2], [3, 4]]


def test_targets_need_no_ids(place):
    (place / "t.csv").write_text("text\nfree cash\nlunch tomorrow\n")
    with texts(targets="t.csv") as project:
        assert project.target_items.ids == ("2", "3")
    shutil.rmtree("p")
    (place / "t.csv").write_text("key,text\na,free cash\na,lunch tomorrow\n")
    with pytest.raises(ValueError, match=r"t\.csv:3: ids must all be different"):
        texts(targets="t.csv")


def test_costs(place):
    with rows(cost="minutes") as project:
        assert project.costs().tolist() == [1.0, 2.0, 3.0] * 10
        assert project.features()[0].shape == (30, 2), "a cost is no input"
        assert project.items.shown == ("a", "b")
    shutil.rmtree("p")
    with rows() as project:
        assert project.costs() is None
    shutil.rmtree("p")
    text = (place / "table.csv").read_text().splitlines()
    for bad in ("0", "-1", "", "much"):
        (place / "table.csv").write_text("\n".join([*text[:3], f"1,2,{bad}", *text[3:]]))
        with pytest.raises(ValueError, match="the cost column 'minutes' must hold a number above zero"):
            rows(cost="minutes")


# ---- models ----


def test_models_by_name(place):
    with texts() as project:
        assert project.model() == LinearModel(standardise=False)
    shutil.rmtree("p")
    with rows(model="linear") as project:
        assert project.model().reference is project.features()[0]
    shutil.rmtree("p")
    with rows() as project:
        assert project.model() == RandomForest(500)
    shutil.rmtree("p")
    with rows(model="gp") as project:
        x, _ = project.features()
        expected = x.std(axis=0, dtype=float) * np.sqrt(3)
        np.testing.assert_allclose(project.model().kernel.length, expected)
        y = np.where(x[:, 0] > 0, "yes", "no")
        posterior = project.model().fit(x, y, rng=rng_for(0, 0, "fit"), classes=["no", "yes"])
        assert ((posterior.predict_proba(x)[:, 1] > 0.5) == (y == "yes")).mean() > 0.9


def test_a_model_of_ones_own_lies_in_the_folder(place):
    (place / "p").mkdir()
    (place / "p" / "mine_for_test.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\ndef forest():\n    return RandomForestClassifier(37)\n"
    )
    before = list(sys.path)
    with rows(model="mine_for_test:forest") as project:
        assert project.model().n_estimators == 37
        assert askwell.as_model(project.model())
    assert sys.path == before
    shutil.rmtree("p")
    for name, said in (
        ("nowhere_at_all:forest", "cannot be imported"),
        ("mine_for_test:woods", "names no function"),
        ("builtins:list", "estimator must be"),
    ):
        with pytest.raises(ValueError, match=said):
            rows(model=name)
        assert not (place / "p").exists()


OWN = """
import own_trees
from sklearn.ensemble import RandomForestClassifier

class Woods(RandomForestClassifier):
    def planted(self):
        return own_trees.TREES

def forest():
    return Woods(own_trees.TREES)
"""


def with_own_model(folder, trees, name="own_woods"):
    """A project whose model is made by a module in its folder, which imports another one from there."""
    Path(folder).mkdir()
    (Path(folder) / f"{name}.py").write_text(OWN)
    (Path(folder) / "own_trees.py").write_text(f"TREES = {trees}\n")
    return init_project(folder, pool="table.csv", classes=["no", "yes"], model=f"{name}:forest")


def test_projects_do_not_share_modules_of_the_same_name(place):
    """The second project was given the first one's module, since that was loaded already."""
    with with_own_model("a", 11) as first, with_own_model("b", 22) as second:
        models = [project.model() for project in (first, second, first, second)]
        assert [model.n_estimators for model in models] == [11, 22, 11, 22]
        assert type(models[0]) is type(models[2])  # loaded once
        code = "import pickle, sys; print([each.planted() for each in pickle.load(sys.stdin.buffer)])"
        done = subprocess.run(
            [sys.executable, "-c", code], input=cloudpickle.dumps(models), capture_output=True, check=True
        )
        assert done.stdout.decode().strip() == "[11, 22, 11, 22]"


def test_a_module_of_the_folder_comes_before_one_that_the_program_has_loaded(place, monkeypatch):
    theirs = ModuleType("own_theirs")
    monkeypatch.setitem(sys.modules, "own_theirs", theirs)
    with with_own_model("a", 11, name="own_theirs") as project:
        assert project.model().n_estimators == 11
    assert sys.modules["own_theirs"] is theirs


def test_one_unit_learns_faster_than_standardised_directions(place):
    truth = write_mails(place / "pool.csv", 400)
    with texts() as project:
        x, _ = project.features()
        y = np.array([truth[item] == "spam" for item in project.items.ids])
        models = {"ours": project.model(), "standardised": LinearModel(reference=x)}
    right = dict.fromkeys(models, 0.0)
    for seed in range(5):
        order = rng_for(seed, 0, "order").permutation(len(y))
        known, rest = order[:30], order[30:]
        for name, model in models.items():
            found = model.fit(x[known], y[known], rng=rng_for(seed, 0, "fit"), classes=[False, True])
            right[name] += float((found.predict(x[rest]).mean(axis=1).argmax(axis=1) == y[rest]).mean()) / 5
    assert right["ours"] > 0.8
    assert right["ours"] > right["standardised"] + 0.05


def test_no_project(tmp_path):
    with pytest.raises(ValueError, match="there is no project in"):
        open_project(tmp_path)


def test_a_lost_store_is_said_and_no_empty_one_put_in_its_place(place):
    texts().close()
    (stored,) = place.glob("*/labels.db")
    folder = stored.parent
    for file in folder.glob("labels.db*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()
    with open_project(folder) as project, pytest.raises(StoreError, match=r"labels\.db', is not there.*backup"):
        project.session()
    assert not stored.exists()


def test_an_emptied_store_is_said(place):
    texts().close()
    (stored,) = place.glob("*/labels.db")
    for file in stored.parent.glob("labels.db*"):
        file.unlink()
    open_store(f"sqlite:///{stored}").close()
    with (
        open_project(stored.parent) as project,
        pytest.raises(StoreError, match=r"no records of its run 'main'.*backup"),
    ):
        project.session()
