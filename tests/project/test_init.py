"""Making a project: what is found, what is chosen, and nothing half-made left behind."""

import os
import subprocess
import sys

import numpy as np
import pytest
from mails import write_mails
from PIL import Image

from askwell.project import Settings, init, init_project, open_project, project_note
from askwell.store import open_store


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mails(tmp_path / "pool.csv", 40)
    return tmp_path


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def make(folder="p", **options):
    return init_project(folder, **({"pool": "pool.csv", "classes": ["ham", "spam"], "show": "text"} | options))


# ---- what is chosen ----


def test_defaults_follow_the_data(place):
    with make("texts") as project:
        assert project.settings == Settings(
            pool="../pool.csv", kind="text", classes=("ham", "spam"), features="text", model="linear", show=("text",)
        )
    (place / "numbers.csv").write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(9)))
    with make("table", pool="numbers.csv", show=None) as project:
        assert (project.settings.kind, project.settings.features, project.settings.model) == (
            "table",
            "columns",
            "forest",
        )
    with make("mixed", show=["text", "truth"]) as project:
        assert (project.settings.kind, project.settings.features, project.settings.model) == (
            "table",
            "columns",
            "linear",
        )
    with make("found", show=None, features=["text"], label="truth", classes=None) as project:
        assert (project.settings.kind, project.settings.show) == ("text", ("text",)), "the only prose"
        assert (project.settings.features, project.settings.model) == (("text",), "linear")
    (place / "img").mkdir()
    for name in ("a", "b", "c"):
        Image.new("RGB", (5, 5), {"a": "red", "b": "blue", "c": "green"}[name]).save(place / "img" / f"{name}.png")
    with make("images", pool="img", show=None) as project:
        assert (project.settings.kind, project.settings.features, project.settings.model) == (
            "image",
            "pixels",
            "linear",
        )
        assert project.items.ids == ("a.png", "b.png", "c.png")
    np.save(place / "x.npy", np.arange(80.0).reshape(40, 2) % 7)
    with make("embedded", features="embeddings:x.npy") as project:
        assert (project.settings.features, project.settings.model) == ("embeddings:../x.npy", "linear")
        assert project.features()[0].shape == (40, 2)
    with make("array", pool="x.npy", show=None) as project:
        assert (project.settings.kind, project.settings.model) == ("table", "forest")


def test_paths_are_as_seen_from_the_folder(place):
    with make("deep/p") as project:
        assert project.settings.pool == "../../pool.csv"
    with make("absolute", pool=place / "pool.csv") as project:
        assert project.settings.pool == str(place / "pool.csv")
    (place / "own").mkdir()
    write_mails(place / "own" / "pool.csv", 30)
    with make("own", pool=place / "own" / "pool.csv") as project:
        assert project.settings.pool == "pool.csv", "it moves with the folder"
    assert tree(place / "own") == [
        ".askwell",
        ".askwell/features.npz",
        "askwell.toml",
        "labels.db",
        "labels.db-lock",
        "pool.csv",
    ]


def test_known_labels_are_told(place):
    lines = (place / "pool.csv").read_text().splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0] + ","
    (place / "pool.csv").write_text("\n".join(lines))
    with make(label="truth", classes=None, id="key") as project:
        assert project.settings.classes == ("ham", "spam")
        labels = project.session().labels()
        assert len(labels) == 39
        assert "m2" not in labels
        assert all(labels[line.split(",")[0]].label == line.split(",")[-1] for line in lines[4:9])
        assert [(person.name, person.labels) for person in project.session().progress().people] == [("import", 39)]
        assert "truth" not in project.items.shown
        note = project_note(project)
    assert "initial labels: 39, from the column truth" in note


def test_rules_are_those_asked_for(place):
    with make(budget=7, labels_per_item=2, lease_seconds=30) as project:
        rules = project.session().rules
        assert (rules.budget, rules.labels_per_item, rules.most_labels, rules.lease_seconds) == (7, 2, 3, 30)


def test_the_note_says_what_was_found_and_left_out(place):
    with (place / "pool.csv").open("a") as file:
        file.write("".join(f"x{i},,\n" for i in range(7)))
    with make(id="key") as project:
        lines = project_note(project).splitlines()
    assert lines[0] == "pool: pool.csv, 40 items (text), showing text"
    assert lines[1:3] == ["  7 left out:", "  pool.csv:42: the column 'text' has nothing to show here"]
    assert lines[7] == "  and 2 more"
    assert lines[-1] == "model: linear; acquisition function: auto; batch size: 10"
    assert any(line.startswith("features: ") and "by TF-IDF" in line for line in lines)


# ---- nothing half-made ----


@pytest.mark.parametrize(("options", "said"), [
    ({"pool": "no.csv"}, "there is no file"),
    ({"targets": "no.csv"}, "there is no file"),
    ({"classes": None}, "classes must be named"),
    ({"classes": ["ham"]}, "two or more"),
    ({"label": "truth", "classes": ["ham", "eggs"]}, r"pool.csv:\d+: the label column 'truth' holds 'spam'"),
    ({"label": "nothing"}, "no column 'nothing'"),
    ({"show": "texd"}, "Did you mean 'text'"),
    ({"features": ["texd"]}, "Did you mean 'text'"),
    ({"model": "gp", "classes": ["a", "b", "c"]}, "model gp is for two classes"),
    ({"model": "no_such_module:make"}, "cannot be imported"),
    ({"cost": "text"}, "cost column 'text' must hold a number"),
    ({"cost": "truth"}, "cost column"),
    ({"store": "mysql://x"}, "store must be one of"),
    ({"store": "sqlite:///no/such/folder.db"}, "no folder"),
    ({"colour": "red"}, "init_project has no option 'colour'"),
    ({"score": "epgi"}, "Did you mean 'epig'"),
    ({"template": "no.html"}, "template must be a file, but 'no.html': No such file"),
])  # fmt: skip
@pytest.mark.parametrize("new", [True, False])
def test_refusals_leave_nothing_behind(place, options, said, new):
    if not new:
        (place / "p").mkdir()
        (place / "p" / "notes.txt").write_text("mine")
    before = tree(place)
    with pytest.raises(Exception, match=said) as fault:
        make("p/q" if new else "p", **options)
    assert type(fault.value).__name__ in ("ValueError", "StoreError")
    assert tree(place) == before


def test_what_others_put_there_meanwhile_stays(place, monkeypatch):
    def busy(project):
        (place / "p" / "results.txt").write_text("of another program")
        raise ValueError("no")

    monkeypatch.setattr(init, "_begin", busy)
    with pytest.raises(ValueError, match="no"):
        make()
    assert tree(place / "p") == ["results.txt"]


def test_a_folder_that_is_a_project_stays_as_it_is(place):
    make().close()
    before = {path: path.read_bytes() for path in (place / "p").rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="is a project already"):
        make()
    assert {path: path.read_bytes() for path in (place / "p").rglob("*") if path.is_file()} == before
    with pytest.raises(ValueError, match="is a file"):
        make("pool.csv")


def test_a_run_that_is_there_is_not_taken_over(place):
    url = f"sqlite:///{place}/team.db"
    make("one", store=url).close()
    with pytest.raises(ValueError, match=r"has a run 'main' with records already\. Give run= another name"):
        make("two", store=url)
    assert not (place / "two").exists()
    make("two", store=url, run="two").close()
    with open_store(url) as store:
        assert store.runs() == ["main", "two"]
    with open_project("one") as one, open_project("two") as two:
        (task,) = one.session().next("ada")
        one.session().answer("ada", task.item, "ham", key="k")
        assert two.session().labels() == {}


def test_killed_half_way_there_is_no_project(place):
    """The settings appear last: before, the folder is no project; the same init goes on, another says what is there."""
    code = (
        "import os\nfrom askwell.project import init\n"
        "init._begin = lambda *args, begin=init._begin: (begin(*args), os._exit(9))\n"
        "init.init_project('p', pool='pool.csv', classes=['ham', 'spam'], show='text')"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=place, env=os.environ, check=False)
    assert found.returncode == 9
    with pytest.raises(ValueError, match="there is no project"):
        open_project("p")
    with pytest.raises(ValueError, match="has a run 'main' with records already"):
        make(budget=7)
    with make() as project:
        assert [record.kind for record in project.store().read("main")] == ["rules"]


def test_a_label_column_with_one_class_says_to_name_the_others(tmp_path):
    (tmp_path / "pool.csv").write_text("text,truth\n" + "one,ham\ntwo,\n" * 3)
    with pytest.raises(
        ValueError, match=r"label column 'truth' of pool\.csv holds only 'ham'\. .* classes='ham,\.\.\.'"
    ):
        init_project(tmp_path / "p", pool=tmp_path / "pool.csv", label="truth")
    made = init_project(tmp_path / "p", pool=tmp_path / "pool.csv", label="truth", classes=["ham", "spam"])
    made.close()


def test_a_label_column_of_measurements_is_one_of_numbers(tmp_path):
    numbers = [f"{0.1 + row / 7:.3f}" for row in range(30)]
    (tmp_path / "pool.csv").write_text("a,y\n" + "".join(f"{row % 7},{y}\n" for row, y in enumerate(numbers)))
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", label="y") as project:
        assert project.settings.numbers
    with pytest.raises(ValueError, match=r"'y' of pool\.csv holds 30 different numbers.*say so"):
        init_project(tmp_path / "q", pool=tmp_path / "pool.csv", label="y", numbers=False)
    assert not (tmp_path / "q" / "askwell.toml").exists()
    init_project(tmp_path / "r", pool=tmp_path / "pool.csv", label="y", classes=sorted(numbers)).close()


def test_classes_are_as_they_stand_in_the_file(tmp_path):
    """Numbers beside a gap, and numbers of any spelling."""
    (tmp_path / "pool.csv").write_text("text,truth\n" + "one,1\ntwo,\nthree,2.50\nfour, 1 \n")
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", label="truth", show="text") as made:
        assert made.settings.classes == ("1", "2.50")
        assert {item: said.label for item, said in made.session().labels().items()} == {"2": "1", "4": "2.50", "5": "1"}


# ---- targets that may be labelled ------------------------------------------------------------------------------------


def test_targets_that_may_be_labelled_are_in_the_pool_too(tmp_path):
    (tmp_path / "pool.csv").write_text('key,text,size,label\na,"one, two",1.50,ham\nb,three,2,spam\n')
    (tmp_path / "new.csv").write_text("key,text,size\nc,four,3\nd,five,4\n")
    options = {"id": "key", "label": "label", "show": "text", "label_targets": True}
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", targets=tmp_path / "new.csv", **options) as project:
        assert project.items.ids == ("a", "b", "c", "d")
        assert project.items.show("a").text == "one, two"
        assert {item: each.label for item, each in project.session().labels().items()} == {"a": "ham", "b": "spam"}
        assert project.settings.pool == "pool.csv"
        assert len(project.target_items) == 2
    assert (tmp_path / "p" / "pool.csv").read_text().splitlines()[1] == 'a,"one, two",1.50,ham'


def test_numbers_with_a_comma_stay_numbers(tmp_path):
    (tmp_path / "pool.csv").write_text("size;text\n1,5;one\n2,5;two\n")
    (tmp_path / "new.csv").write_text("size;text\n3,25;three\n")
    options = {"classes": ["a", "b"], "label_targets": True, "show": ["text", "size"], "kind": "table"}
    with init_project(tmp_path / "p", pool=tmp_path / "pool.csv", targets=tmp_path / "new.csv", **options) as project:
        assert project.items.table.columns["size"].tolist() == [1.5, 2.5, 3.25]
    options |= {"delimiter": ";"}
    with init_project(tmp_path / "q", pool=tmp_path / "pool.csv", targets=tmp_path / "new.csv", **options) as project:
        assert project.items.table.columns["size"].tolist() == [1.5, 2.5, 3.25]


def test_arrays_are_joined_and_what_cannot_be_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(10.0).reshape(5, 2))
    np.save(tmp_path / "t.npy", np.arange(4.0).reshape(2, 2))
    options = {"classes": ["a", "b"], "label_targets": True}
    with init_project(tmp_path / "p", pool=tmp_path / "x.npy", targets=tmp_path / "t.npy", **options) as project:
        assert len(project.items) == 7
    (tmp_path / "pictures").mkdir()
    with pytest.raises(ValueError, match="label_targets joins two tables"):
        init_project(tmp_path / "q", pool=tmp_path / "pictures", targets=tmp_path / "t.npy", **options)
    with pytest.raises(ValueError, match="label_targets needs targets"):
        init_project(tmp_path / "q", pool=tmp_path / "x.npy", **options)
    with pytest.raises(ValueError, match="classes must be two or more"):
        init_project(
            tmp_path / "q", pool=tmp_path / "x.npy", targets=tmp_path / "t.npy", classes=["a"], label_targets=True
        )
    np.save(tmp_path / "wide.npy", np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"equally many columns, but they have the shapes \(5, 2\) and \(2, 3\)"):
        init_project(tmp_path / "q", pool=tmp_path / "x.npy", targets=tmp_path / "wide.npy", **options)
    assert not (tmp_path / "q").exists()


def test_targets_with_ids_of_the_pool_are_refused_in_their_own_words(tmp_path):
    """It named a row of a file that is not there: that of both together."""
    (tmp_path / "pool.csv").write_text("key,text\na,one\nb,two\n")
    (tmp_path / "new.csv").write_text("key,text\nb,three\nc,four\n")
    options = {"pool": tmp_path / "pool.csv", "targets": tmp_path / "new.csv", "classes": ["x", "y"], "show": "text"}
    with pytest.raises(
        ValueError, match=r"joins pool.csv and new.csv, but both have rows of the same id, such as 'b' in the column"
    ):
        init_project(tmp_path / "p", id="key", label_targets=True, **options)
    assert not (tmp_path / "p").exists()
    with init_project(tmp_path / "p", label_targets=True, **options) as project:
        assert len(project.items) == 4
    with pytest.raises(ValueError, match="class_prior"):
        init_project(tmp_path / "q", label_targets=True, class_prior={"x": 0.5, "y": 0.5}, **options)
