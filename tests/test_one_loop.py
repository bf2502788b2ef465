"""The same labels, seed, model and pool give the same next questions in Python, on the command line and on the page."""

import json

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from mails import write_mails

import askwell
from askwell.cli import main
from askwell.project import open_project
from askwell.project.rounds import train_round
from askwell.web import create_app

SIZE = 5


def run(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def init(folder, *, targets, model, classes="ham,spam"):
    given = ("--targets", "traffic.csv") if targets else ()
    run("init", folder, "--pool", "pool.csv", "--classes", classes, "--show", "text", "--id", "key", *given,
        "--model", model, "--seed", 3, "--retrain-every", 1)  # fmt: skip


def by_learner(folder, labels):
    """Told in another order than the project's."""
    with open_project(folder) as project:
        x, targets = project.features()
        learner = askwell.Learner(
            project.model(), x, targets=targets, ids=project.items.ids, classes=project.settings.classes, seed=3
        )
    for item in reversed(labels):
        learner.tell([item], [labels[item]])
    return learner.ask(SIZE)


def by_command_line(folder, labels):
    for item, label in labels.items():
        run("tell", folder, item, label, "--who", "ada")
    lines = run("ask", folder, "--size", SIZE, "--who", "ada", "--json").splitlines()
    tasks = [json.loads(line) for line in lines]
    if len(labels) == 20:  # some questions are drawn, to evaluate the model
        assert 0 < sum(task["score"] is None for task in tasks) < SIZE
    return [task["item"] for task in tasks]


def by_page(folder, labels):
    with open_project(folder) as project:
        app = create_app(project.session(), project.items, title="mails")
        with TestClient(app, base_url="http://localhost:8765") as page:
            assert page.post("/api/sign-in", json={"name": "ada"}).status_code == 200
            for item, label in labels.items():
                page.post(
                    "/api/answers", json={"key": f"{item}-answer", "item": item, "label": label}
                ).raise_for_status()
            train_round(project)  # what the server has done in the background
            return [task["item"] for task in page.post("/api/next", json={"size": SIZE}).json()["tasks"]]


@pytest.mark.parametrize(
    ("told", "classes", "model", "targets"),
    [
        (0, "ham,spam", "linear", True),  # the first questions
        (1, "ham,spam", "forest", False),
        (2, "ham,spam,other", "forest", True),  # there is a model, and a class that nobody has seen
        (20, "ham,spam", "linear", True),
        (20, "ham,spam", "forest", False),
        (20, "ham,spam,other", "forest", True),
    ],
)
def test_the_same_questions_through_every_door(tmp_path, monkeypatch, told, classes, model, targets):
    monkeypatch.chdir(tmp_path)
    truth = write_mails(tmp_path / "pool.csv", 80)
    write_mails(tmp_path / "traffic.csv", 20, seed=1, truth=False)
    kinds = sorted(truth, key=lambda item: (list(truth.values()).index(truth[item]) > 0, item))
    some = [*kinds[: told // 2], *kinds[::-1][: told - told // 2]]  # of both kinds
    labels = {item: truth[item] for item in some}
    for folder in ("a", "b"):
        init(folder, targets=targets, model=model, classes=classes)
    wanted = by_learner("a", labels)
    assert len({*wanted} - {*labels}) == SIZE
    assert by_command_line("a", labels) == wanted
    assert by_page("b", labels) == wanted
