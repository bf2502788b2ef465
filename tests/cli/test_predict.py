"""Predictions from the command line."""

import csv
import io

import numpy as np
import pytest
from click.testing import CliRunner
from mails import write_mails

from askwell.cli import main
from askwell.project import open_project


def run(*words):
    return CliRunner().invoke(main, ["predict", *(str(word) for word in words)])


def fine(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project p of texts with 20 labels, and inputs that it has not seen."""
    monkeypatch.chdir(tmp_path)
    truth = write_mails(tmp_path / "pool.csv", 60)
    write_mails(tmp_path / "new.csv", 25, seed=3, truth=False)
    options = ("--pool", "pool.csv", "--classes", "ham,spam", "--show", "text", "--id", "key")
    assert CliRunner().invoke(main, ["init", "p", *options]).exit_code == 0
    with open_project("p") as project:
        for item, label in list(truth.items())[:20]:
            project.session().answer("ada", item, label, key=item)
    return tmp_path


def test_printed_and_written_are_the_same(place):
    printed = fine("p", "new.csv")
    rows = [*csv.DictReader(io.StringIO(printed.stdout, newline=""))]
    assert [row["id"] for row in rows] == [f"m{n}" for n in range(25)]
    assert all(row["class"] in ("ham", "spam") and 0.5 <= float(row["probability"]) <= 1 for row in rows)
    assert "Model: linear, trained on 20 labelled items." in printed.stderr
    written = fine("p", "new.csv", "--out", "out.csv")
    assert written.stdout == ""
    assert "25 predictions written to out.csv: ham " in written.stderr
    assert (place / "out.csv").read_bytes() == printed.stdout_bytes


def test_the_pool_and_every_class(place):
    fine("p", "--pool", "--all-classes", "--out", "pool.jsonl")
    assert len((place / "pool.jsonl").read_text().splitlines()) == 60
    assert '"p_ham"' in (place / "pool.jsonl").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("p",), "INPUT, --pool or --targets"),
        (("p", "new.csv", "--pool"), "INPUT, --pool or --targets"),
        (("p", "nwe.csv"), "there is no file 'nwe.csv'."),
        (("p", "bad.csv"), "bad.csv has no column 'text'. Did you mean 'txt'?"),
        (("p", "--targets"), "no targets of its own"),
        (("p", "new.csv", "--out", "new.csv"), "--out must not be the file INPUT, but both are 'new.csv'"),
        (("p", "--pool", "--out", "pool.csv"), "'pool.csv' belongs to the project, and was not written over"),
        (("p", "new.csv", "--out", "nowhere/a.csv"), "must be in an existing folder, but there is no folder 'nowhere'"),
        (("p", "new.csv", "--out", "a.xlsx"), "--format must be csv, jsonl or parquet, but the ending of 'a.xlsx'"),
        (("p", "new.csv", "--embeddings", "e.npy"), "--embeddings is only for projects whose features are embeddings"),
        (("p", "new.csv", "--id", "kye"), "has no column 'kye'. Did you mean 'key'?"),
        (("q", "new.csv"), "there is no project in"),
    ],
)
def test_refusals_write_nothing(place, words, said):
    (place / "bad.csv").write_text("key,txt\na,prize\n")
    before = sorted(path.name for path in place.iterdir())
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert sorted(path.name for path in place.iterdir()) == before


def test_embeddings_in_a_file_are_asked_for(place):
    rng_rows = np.arange(120.0).reshape(60, 2) % 7
    np.save(place / "pool.npy", rng_rows)
    options = ("--pool", "pool.csv", "--classes", "ham,spam", "--show", "text", "--id", "key")
    words = ["init", "q", *options, "--features", "embeddings:pool.npy", "--label", "truth"]
    assert CliRunner().invoke(main, words).exit_code == 0
    assert "--embeddings FILE.npy is missing" in run("q", "new.csv").output
    np.save(place / "new.npy", rng_rows[:25])
    with_ids = fine("q", "new.csv", "--embeddings", "new.npy").stdout.splitlines()
    bare = fine("q", "new.npy").stdout.splitlines()
    assert [line.split(",")[1:] for line in with_ids] == [line.split(",")[1:] for line in bare]
    assert bare[1].startswith('"0",')
