"""`askwell export`, `import`, `backup` and `restore`."""

import json

import pytest
from cli_calls import INIT, fine, run
from mails import write_mails

from askwell.project import open_project


def test_export_and_import(project, place):
    for item in ("m0", "m1", "m2"):
        fine("tell", "p", item, project[item], "--who", "ada")
    assert fine("export", "p", "a.jsonl") == "Wrote 3 answers to a.jsonl.\n"
    assert fine("export", "p", "b.csv", "--consensus") == "Wrote 3 items to b.csv.\n"
    fine("init", "q", *INIT[1:])
    assert "3 added" in fine("bring", "q", "a.jsonl")
    assert "0 added, 3 known already" in fine("bring", "q", "a.jsonl")
    assert fine("export", "q", "c.jsonl") == "Wrote 3 answers to c.jsonl.\n"
    assert (place / "a.jsonl").read_bytes() == (place / "c.jsonl").read_bytes()
    (place / "d.csv").write_text("id,label\nzzz,ham\n")
    found = run("bring", "q", "d.csv")
    assert found.exit_code == 2
    assert "d.csv:2" in found.output


ODD = ["=1+1", "'=2", "+3;=4", " lead", "007", "NA", "1.10"]  # ids that a spreadsheet or a reader would change


@pytest.fixture
def odd(place):
    """Two projects over ids and classes that a CSV for spreadsheets has to change; the first has labels and a skip."""
    (place / "odd.jsonl").write_text("".join(json.dumps({"key": item, "n": len(item)}) + "\n" for item in ODD))
    for folder in ("p", "q"):
        fine("init", folder, "--pool", "odd.jsonl", "--id", "key", "--classes", "=spam,'=ham,NA")
    for place_, item in enumerate(ODD[:-1]):
        fine("tell", "p", "--who", "ada", "--", item, ["=spam", "'=ham", "NA"][place_ % 3])
    with open_project("p") as project:
        project.session().skip("ada", ODD[-1], "=why", key="k" * 8)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("options", [(), ("--consensus",), ("--exact",)])
def test_what_export_wrote_can_be_told(odd, place, ending, options):
    """Ids and labels came back with the ' that keeps a spreadsheet from running them."""
    fine("export", "p", f"a.{ending}", *options)
    exact = [word for word in options if word == "--exact"]
    assert fine("tell", "q", "--from", f"a.{ending}", "--who", "ada", *exact) == "Saved 6 labels.\n"
    fine("export", "p", "p.csv", "--consensus")
    fine("export", "q", "q.csv", "--consensus")
    assert (place / "p.csv").read_bytes() == (place / "q.csv").read_bytes()
    assert fine("tell", "q", "--from", f"a.{ending}", "--who", "ada", *exact) == "Saved 0 labels; 6 already known.\n"


def test_what_export_wrote_exactly_can_be_imported(odd, place):
    fine("export", "p", "a.csv", "--exact")
    assert "7 added" in fine("bring", "q", "a.csv", "--exact")
    fine("export", "q", "b.csv", "--exact")
    assert (place / "a.csv").read_bytes() == (place / "b.csv").read_bytes()


# ---- backup and restore ----


@pytest.fixture
def backed_up(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mails(tmp_path / "pool.csv", 30)
    fine("init", "p", "--pool", "pool.csv", "--classes", "ham,spam", "--show", "text", "--id", "key")
    fine("tell", "p", "m3", "ham", "--who", "ada")
    return tmp_path


def test_there_and_back(backed_up):
    said = fine("backup", "p", "--out", "b.zip")
    assert said == "Wrote b.zip: 2 records (1 label and 0 skips of 1 person), settings; data: ../pool.csv.\n"
    said = fine("restore", "b.zip", "q")
    assert said.startswith("Restored q, as it was at 2")
    assert "2 records (1 label and 0 skips of 1 person), settings; data: data/pool/pool.csv.\n" in said
    assert said.endswith("Next: askwell serve q\n")
    assert "1 of 30 items labelled" in fine("status", "q")
    assert fine("backup", "p").startswith("Wrote p-2")
    assert len([*backed_up.glob("p-2*Z.zip")]) == 1


def test_data_only_if_wanted(backed_up):
    assert "no data" in fine("backup", "p", "--out", "b.zip", "--without-data")
    said = fine("restore", "b.zip", "far/q")
    assert "Note: the pool '../pool.csv' is neither in the backup nor there" in said
    fine("export", "far/q", "labels.csv")  # needs no pool
    assert '"m3","ham","ada"' in (backed_up / "labels.csv").read_text()
    (backed_up / "far" / "pool.csv").write_bytes((backed_up / "pool.csv").read_bytes())
    assert "1 of 30 items labelled" in fine("status", "far/q")


def test_overwriting_says_so(backed_up):
    fine("backup", "p", "--out", "b.zip")
    fine("tell", "p", "m4", "spam", "--who", "ada")
    found = run("restore", "b.zip", "p")
    assert found.exit_code == 2
    assert "or give --overwrite, which moves what it replaces to a folder in it." in found.output
    assert "2 of 30 items labelled" in fine("status", "p")
    assert "Note: what was replaced is in replaced-2" in fine("restore", "b.zip", "p", "--overwrite")
    assert "1 of 30 items labelled" in fine("status", "p")


def test_a_project_in_use_is_not_replaced(backed_up):
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
def test_refusals_leave_nothing_behind(backed_up, words, said):
    fine("backup", "p", "--out", "good.zip")
    before = sorted(path.name for path in backed_up.iterdir())
    found = run(*words)
    assert found.exit_code == 2, found.output
    assert said in found.output
    assert "Traceback" not in found.output
    assert sorted(path.name for path in backed_up.iterdir()) == before
