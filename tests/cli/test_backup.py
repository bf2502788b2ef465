"""Backup and restore from the command line."""

import pytest
from click.testing import CliRunner
from mails import write_mails

from askwell.cli import main
from askwell.project import open_project


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def fine(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mails(tmp_path / "pool.csv", 30)
    fine("init", "p", "--pool", "pool.csv", "--classes", "ham,spam", "--show", "text", "--id", "key")
    fine("tell", "p", "m3", "ham", "--who", "ada")
    return tmp_path


def test_there_and_back(place):
    said = fine("backup", "p", "--out", "b.zip")
    assert said == "Wrote b.zip: 2 records (1 label and 0 skips of 1 person), settings; data: ../pool.csv.\n"
    said = fine("restore", "b.zip", "q")
    assert said.startswith("Restored q, as it was at 2")
    assert "2 records (1 label and 0 skips of 1 person), settings; data: data/pool/pool.csv.\n" in said
    assert said.endswith("Next: askwell serve q\n")
    assert "1 of 30 items labelled" in fine("status", "q")
    assert fine("backup", "p").startswith("Wrote p-2")
    assert len([*place.glob("p-2*Z.zip")]) == 1


def test_data_only_if_wanted(place):
    assert "no data" in fine("backup", "p", "--out", "b.zip", "--without-data")
    said = fine("restore", "b.zip", "far/q")
    assert "Note: the pool '../pool.csv' is neither in the backup nor there" in said
    fine("export", "far/q", "labels.csv")  # needs no pool
    assert '"m3","ham","ada"' in (place / "labels.csv").read_text()
    (place / "far" / "pool.csv").write_bytes((place / "pool.csv").read_bytes())
    assert "1 of 30 items labelled" in fine("status", "far/q")


def test_overwriting_says_so(place):
    fine("backup", "p", "--out", "b.zip")
    fine("tell", "p", "m4", "spam", "--who", "ada")
    found = run("restore", "b.zip", "p")
    assert found.exit_code == 2
    assert "or give --overwrite, which moves what it replaces to a folder in it." in found.output
    assert "2 of 30 items labelled" in fine("status", "p")
    assert "Note: what was replaced is in replaced-2" in fine("restore", "b.zip", "p", "--overwrite")
    assert "1 of 30 items labelled" in fine("status", "p")


def test_a_project_in_use_is_not_replaced(place):
    fine("backup", "p", "--out", "b.zip")
    with open_project("p") as project:
        project.session()
        found = run("restore", "b.zip", "p", "--overwrite")
    assert found.exit_code == 2
    assert "is in use, and nothing was changed. Stop askwell serve" in found.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("backup", "nowhere"), "there is no project in"),
        (("backup", "p", "--out", "b.rar"), "must be a .zip file"),
        (("backup", "p", "--out", "pool.csv"), "must be a .zip file"),
        (("backup", "p", "--out", "no/b.zip"), "there is no folder 'no'"),
        (("restore", "no.zip", "q"), "there is no file 'no.zip'"),
        (("restore", "pool.csv", "q"), "pool.csv is not a whole backup"),
        (("restore", "p", "q"), "'p' is a folder, and a backup is a .zip file"),
        (("restore", "good.zip", "pool.csv"), "'pool.csv' is a file. Name a folder to restore to."),
        (("restore", "good.zip", "q", "--store", "mysql://x"), "store must be one of"),
    ],
)
def test_refusals_leave_nothing_behind(place, words, said):
    fine("backup", "p", "--out", "good.zip")
    before = sorted(path.name for path in place.iterdir())
    found = run(*words)
    assert found.exit_code == 2, found.output
    assert said in found.output
    assert "Traceback" not in found.output
    assert sorted(path.name for path in place.iterdir()) == before
