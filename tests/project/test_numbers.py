"""A project whose labels are numbers: from init to predictions, the same questions as in Python, what is refused."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import askwell
from askwell.cli import main
from askwell.data import holds_numbers
from askwell.models import model_named
from askwell.project import init_project, open_project
from askwell.project.predicting import predict_items
from askwell.project.rounds import train_round
from askwell.project.settings import Settings, read_settings, settings_text
from askwell.seeds import rng_for
from askwell.session.rules import Rules

X = rng_for(0, 0, "houses").normal(size=(80, 3)).round(4)
PRICE = (100 + 20 * X[:, 0] - 5 * X[:, 1]).round(2)


@pytest.fixture
def pool(tmp_path):
    known = [f"{price:.2f}" if i < 12 else "" for i, price in enumerate(PRICE)]
    lines = [f"h{i},{a},{b},{c},{label}" for i, ((a, b, c), label) in enumerate(zip(X, known, strict=True))]
    path = tmp_path / "houses.csv"
    path.write_text("\n".join(["key,a,b,c,price", *lines]) + "\n")
    return path


def begun(pool, **options):
    options = {"id": "key", "label": "price", "numbers": True, "model": "linear", **options}
    return init_project(pool.parent / "project", pool=pool, **options)


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_rounds_know_errors_and_predictions_have_doubts(pool):
    with begun(pool) as project:
        train_round(project)
        (report,) = project.session().progress().rounds
        assert (report["estimate"]["metric"], report["labels"]) == ("rmse", 12)
        assert "too early" in report["advice"]["why"]
        assert report["next50"] is None
        found = predict_items(project, "pool")
        assert list(next(found.rows())) == ["id", "mean", "std"]
        error = np.abs(np.array(found.best()) - PRICE)
        assert error.mean() < 5
        assert found.data("csv").decode().splitlines()[0] == '"id","mean","std"'
        assert project.session().progress().classes == {}


@pytest.mark.parametrize("model", ["linear", "forest", "gp"])
def test_the_same_questions_as_in_python(pool, model):
    with begun(pool, model=model, evaluation=0) as project:
        train_round(project)
        session = project.session()
        queue = [each.item for each in session.next("ada", size=4)]
        x = project.features()[0]
        learner = askwell.Learner(
            model_named(model, x, numbers=True), x, ids=list(project.items.ids), seed=0, evaluation=0
        )
        learner.tell([f"h{i}" for i in range(12)], PRICE[:12])
        assert learner.ask(4) == queue


def test_several_people_have_a_mean_and_need_not_agree(pool):
    with begun(pool, label=None, labels_per_item=2) as project:
        session = project.session()
        session.answer("ada", "h1", 10, key="1")
        assert session.answer("bob", "h1", 20.0, key="2").needed == 0
        assert session.labels()["h1"].label == 15.0
        assert session.progress().agreement is None


def test_numbers_come_as_text_too_and_the_same_key_is_the_same_answer(pool):
    with begun(pool, label=None) as project:
        session = project.session()
        first = session.answer("ada", "h1", "12.5", key="1")
        assert session.labels()["h1"].label == 12.5
        assert session.answer("ada", "h1", "12.50", key="1").kept == "again"
        assert first.kept == "counted"


@pytest.mark.parametrize("label", ["many", float("nan"), float("inf"), True, None, 99.5, -1])
def test_labels_that_are_no_numbers_or_out_of_range_are_not_stored(pool, label):
    with begun(pool, label=None, label_range=(0, 99)) as project:
        session = project.session()
        with pytest.raises(ValueError, match="a number from 0 to 99"):
            session.answer("ada", "h1", label, key="1")
        assert session.labels() == {}


def test_on_the_command_line(pool):
    folder = pool.parent / "shop"
    done = run("init", folder, "--pool", pool, "--id", "key", "--label", "price", "--numbers", "--label-range", "0,500")
    assert done.exit_code == 0, done.output
    assert "labels: numbers from 0 to 500" in done.output
    assert run("tell", folder, "h20", "120.5").exit_code == 0
    refused = run("tell", folder, "h21", "501")
    assert refused.exit_code == 2
    assert "a number from 0 to 500" in refused.output
    (folder / "more.csv").write_text("id,label\nh22,7\nh23,x\n")
    assert "more.csv:3: label must be a number" in run("tell", folder, "--from", folder / "more.csv").output
    assert run("ask", folder, "--size", "2").exit_code == 0
    status = run("status", folder)
    assert "rmse" in status.output
    found = json.loads(run("status", folder, "--json").output)
    assert found["rmse"]["how"] == "cross-validated"
    assert found["labelled"] == 13
    out = pool.parent / "labels.csv"
    assert run("export", folder, out).exit_code == 0
    assert '"h20","120.5"' in out.read_text()
    assert "numbers from" in run("predict", folder, "--pool").output


def test_exports_come_back(pool, tmp_path):
    with begun(pool) as project:
        project.session().answer("ada", "h30", -3.25, key="k")
    assert run("export", pool.parent / "project", tmp_path / "out.jsonl").exit_code == 0
    again = tmp_path / "again"
    assert run("init", again, "--pool", pool, "--id", "key", "--numbers").exit_code == 0
    done = run("import", again, tmp_path / "out.jsonl")
    assert done.exit_code == 0, done.output
    with open_project(again) as project:
        assert project.session().labels()["h30"].label == -3.25
        assert len(project.session().labels()) == 13


def test_a_column_of_many_numbers_is_recognised(tmp_path):
    lines = [f"{a * a % 31 / 4},{a * 7 % 97 / 10}" for a in range(80)]
    (tmp_path / "a.csv").write_text("\n".join(["x,y", *lines]) + "\n")
    with init_project(tmp_path / "p", pool=tmp_path / "a.csv", label="y") as project:
        assert project.settings.numbers
        assert read_settings(project.folder / "askwell.toml") == project.settings
    assert holds_numbers([i / 2 for i in range(30)])
    assert not holds_numbers([*range(10)] * 9)
    assert not holds_numbers([True, False] * 40)
    assert not holds_numbers(["a", 1.5])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classes": ["a", "b"]}, "classes must be left out"),
        ({"score": "margin"}, "'margin' is for classes"),
        ({"label_range": (3.0, 1.0)}, "the lower first"),
        ({"numbers": False, "classes": ["a", "b"], "label": None, "label_range": (1.0, 3.0)}, "set numbers = true"),
        ({"label_range": (0.0, 50.0)}, r"houses.csv:\d+: label must be a number from 0 to 50"),
        ({"model": "sklearn.ensemble:RandomForestClassifier"}, "model must predict numbers"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(pool, options, words):
    with pytest.raises(ValueError, match=words):
        begun(pool, **options)
    assert not (pool.parent / "project").exists()


def test_settings_without_classes_are_read_back(tmp_path):
    wanted = Settings("a.csv", "table", (), "columns", "forest", numbers=True, label_range=(0.0, 10.0))
    (tmp_path / "askwell.toml").write_text(settings_text(wanted))
    assert read_settings(tmp_path / "askwell.toml") == wanted


def test_rules_keep_their_range():
    rules = Rules().after({"label_range": [0, None]})
    assert rules.after(rules.body({})).label_range == (0, None)
    assert rules.checked("3") == 3.0
    with pytest.raises(ValueError, match="a number from 0, but"):
        rules.checked(-1)
