"""The command line as a whole."""

import runpy
from pathlib import Path

from click.testing import CliRunner

import askwell
from askwell.cli import main

ROOT = Path(__file__).parents[1]


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_version_and_wrong_words():
    assert askwell.__version__ in run("--version").output
    for words, said in (
        (("dmo",), "No such command"),
        (("simulate",), "Missing argument"),
        (("demo", "--budget", "1"), "range"),
    ):
        found = run(*words)
        assert found.exit_code == 2
        assert said in found.output


def test_the_page_of_the_manual_is_what_the_commands_say():
    """`python scripts/cli_docs.py` writes it anew."""
    page = runpy.run_path(str(ROOT / "scripts" / "cli_docs.py"))["page"]()
    assert (ROOT / "docs" / "cli.md").read_text("utf-8") == page
    assert all(f"## askwell {name}\n" in page for name in main.commands)
