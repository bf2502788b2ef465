"""The rules of a project from the command line: shown, changed whole or not at all, noticed by a running server."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner
from mails import write_mails

from askwell.cli import main
from askwell.project import open_project
from askwell.project.rounds import train_round


def run(*words):
    return CliRunner().invoke(main, ["rules", "p", *(str(word) for word in words)])


def fine(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words):
    """The one message of a refusal, which changed nothing."""
    before = fine("--json")
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert fine("--json") == before
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    return line


@pytest.fixture
def truth(tmp_path, monkeypatch):
    """A project p with a budget of 3, all of it spent: two of ham, one of spam."""
    monkeypatch.chdir(tmp_path)
    truth = write_mails(tmp_path / "pool.csv", 40)
    options = ("--pool", "pool.csv", "--classes", "ham,spam", "--show", "text", "--id", "key", "--budget", "3")
    assert CliRunner().invoke(main, ["init", "p", *options]).exit_code == 0
    wanted = ["ham", "ham", "spam"]
    with open_project("p") as project:
        for item, label in truth.items():
            if label in wanted:
                wanted.remove(label)
                project.session().answer("ada", item, label, key=item)
    return truth


def test_without_options_the_rules_in_force_are_shown(truth):
    shown = fine()
    assert "classes          ham, spam\n" in shown
    assert "budget           3 (3 given, 0 left)\n" in shown
    found = json.loads(fine("--json"))
    assert (found["classes"], found["budget"], found["labels_per_item"]) == (["ham", "spam"], 3, 1)


def test_a_budget_that_is_spent_can_be_raised(truth):
    with open_project("p") as project:
        assert project.session().next("bob") == []
        assert fine("--budget", 50) == "budget: 3 -> 50\n"
        assert len(project.session().next("bob")) == 1  # who has the project open notices
    assert fine("--budget", "none") == "budget: 50 -> none\n"
    assert "3 labels were given already, so no more questions are asked" in fine("--budget", 2)


def test_classes_are_added_removed_reordered_and_renamed(truth):
    assert fine("--add", "eggs", "--add", "bacon") == "classes: ham, spam -> ham, spam, eggs, bacon\n"
    assert fine("--remove", "eggs") == "classes: ham, spam, eggs, bacon -> ham, spam, bacon\n"
    assert fine("--classes", "spam, ham") == "classes: ham, spam, bacon -> spam, ham\n"
    assert fine("--rename", "ham=a=b", "--rename", "spam=junk").splitlines() == [
        "renamed: ham -> a=b (2 labels)",
        "renamed: spam -> junk (1 label)",
        "classes: spam, ham -> junk, a=b",
    ]
    assert "renamed: a=b -> ham" in fine("--rename", "a=b=ham")  # the = after a class that is there
    assert fine("--rename", "spam=junk") == "Nothing to change: these are the current rules.\n"


def test_more_labels_per_item_say_what_follows(truth):
    said = fine("--labels-per-item", 2, "--budget", "none")
    assert "labels per item: 1 -> 2\nmost labels: 1 -> 3\n" in said
    assert "3 labelled items need labels from other people now." in said
    assert "lease seconds: 90 -> 30.5" in fine("--lease-seconds", 30.5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "0"), "--budget must be a whole number from 1"),
        (("--budget", "many"), "--budget must be a whole number from 1, or none, but it is 'many'"),
        (("--classes", "ham"), "--classes must be at least two"),
        (
            ("--classes", "ham,eggs"),
            "'spam' has 1 label and is missing from ['ham', 'eggs']. Rename it (--rename old=new)",
        ),
        (("--remove", "ham", "--add", "x"), "'ham' has 2 labels"),
        (("--remove", "spm"), "'spm' is none of them. Did you mean 'spam'?"),
        (("--rename", "sspam=junk"), "'sspam' is none of them. Did you mean 'spam'?"),
        (("--rename", "spam"), "--rename must be like OLD=NEW, but it is 'spam'"),
        (("--rename", "spam="), "--rename must be like OLD=NEW"),
        (("--rename", "spam=ham"), "A class cannot be renamed to another one"),
        (("--rename", "spam=a", "--rename", "spam=b"), "--rename must name each class once"),
        (("--labels-per-item", "3", "--most-labels", "2"), "--most-labels must be at least labels_per_item, 3"),
        (("--lease-seconds", "nan"), "--lease-seconds must be a positive number"),
        (("--budget", "9", "--add", " "), "classes must be texts that are not empty"),
    ],
)
def test_refusals_change_nothing(truth, words, said):
    assert said in refused(*words)


def test_a_class_prior_follows_a_rename(tmp_path, monkeypatch):
    """The settings still have the old name: training failed after a rename."""
    monkeypatch.chdir(tmp_path)
    truth = write_mails(tmp_path / "pool.csv", 40)
    options = ("--classes", "ham,spam", "--show", "text", "--id", "key", "--class-prior", "ham=0.9,spam=0.1")
    assert CliRunner().invoke(main, ["init", "p", "--pool", "pool.csv", *options]).exit_code == 0
    fine("--rename", "ham=good")
    with open_project("p") as project:
        for item, label in list(truth.items())[:8]:
            project.session().answer("ada", item, label, key=item)
        train_round(project)
        assert "failed" not in project.session().progress().rounds[-1]


def test_a_model_for_two_classes_is_spoken_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mails(tmp_path / "pool.csv", 40)
    options = ("--classes", "ham,spam", "--show", "text", "--id", "key", "--model", "gp")
    assert CliRunner().invoke(main, ["init", "p", "--pool", "pool.csv", *options]).exit_code == 0
    assert "Note: the model gp supports only two classes, and there are 3 now." in fine("--add", "eggs")


def test_a_running_server_notices(truth, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from askwell.cli.serve import serve; serve(['p', '--port', '{port}'])"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE) as server:
        try:
            ask = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            while True:
                try:
                    ask.open(
                        urllib.request.Request(
                            f"http://127.0.0.1:{port}/api/sign-in",
                            json.dumps({"name": "ada"}).encode(),
                            {"Content-Type": "application/json"},
                        )
                    ).read()
                    break
                except urllib.error.HTTPError:
                    raise
                except OSError:
                    assert server.poll() is None, server.stderr.read().decode()
                    time.sleep(0.1)

            def rules():
                return json.load(ask.open(f"http://127.0.0.1:{port}/api/rules"))

            assert (rules()["budget"], rules()["classes"]) == (3, ["ham", "spam"])
            fine("--budget", 50, "--rename", "spam=junk")
            assert (rules()["budget"], rules()["classes"]) == (50, ["ham", "junk"])
        finally:
            os.kill(server.pid, signal.SIGINT)
        server.wait(30)
