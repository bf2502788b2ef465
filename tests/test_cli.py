"""The command line as a user meets it."""

import re

from click.testing import CliRunner

import askwell
from askwell.cli import main


def run(*words):
    return CliRunner().invoke(main, words)


def test_the_demo_asks_near_the_targets_with_epig_only():
    found = run("demo", "--draws", "400")
    assert found.exit_code == 0
    asked = {name: float(x) for name, x in re.findall(r"(\w+) .*asks at x = +(-?[\d.]+)", found.output)}
    assert 1.4 < asked["EPIG"] < 2.6
    assert abs(asked["BALD"]) > 2.8
    assert re.search(r"tell 0\.\d+ nats", found.output)


def test_the_demo_is_the_same_for_the_same_seed():
    assert run("demo", "--seed", "1").output == run("demo", "--seed", "1").output != run("demo", "--seed", "2").output


def test_wrong_words_are_refused_in_a_line():
    for words, said in ((("demo", "--draws", "1"), "not in the range"), (("dmo",), "No such command")):
        found = run(*words)
        assert found.exit_code == 2
        assert said in found.output
        assert "Traceback" not in found.output


def test_version():
    assert askwell.__version__ in run("--version").output
