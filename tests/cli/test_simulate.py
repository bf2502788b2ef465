"""`askwell simulate` and `askwell demo`, as a user meets them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from askwell.cli import main
from askwell.seeds import rng_for

ROOT = Path(__file__).parents[2]


QUICK = ("--model", "linear", "--budget", "7", "--seeds", "2", "--processes", "1", "--scores", "random,epig")


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table in it, to work in."""
    monkeypatch.chdir(tmp_path)
    x = rng_for(0, 0, "table").normal(size=(60, 2))
    lines = [f"c{i},{a:.3f},{b:.3f},{'red' if b > 0 else ''},{'yes' if a > 0 else 'no'}" for i, (a, b) in enumerate(x)]
    (tmp_path / "data.csv").write_text("\n".join(["key,first,second,colour,bought", *lines]) + "\n")
    return tmp_path


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_demo_runs_and_writes_its_report(folder):
    found = run("demo", "--seeds", "1", "--budget", "7", "--processes", "1", "--out", "shown")
    assert found.exit_code == 0, found.output
    assert (folder / "shown" / "report.html").exists()
    assert "EPIG" in found.output
    for name in ("data.csv", "."):
        found = run("demo", "--seeds", "1", "--budget", "7", "--processes", "1", "--out", name)
        assert found.exit_code == 2
        assert "--out must be a" in found.output


def test_a_simulation_is_told_shown_and_written(folder):
    found = run("simulate", "data.csv", "--label", "bought", "--id", "key", *QUICK)
    assert found.exit_code == 0, found.output
    said = found.output
    assert "data.csv: 60 rows. Labels: bought, 2 classes" in said
    assert "numbers as they are: first, second\n" in said
    assert "one column per value: colour" in said
    assert re.search(r"^random +2 .*\n^epig +2 ", said, re.M)
    assert "acquisition functions:\n  random  random sampling: the baseline\n  epig  " in said
    assert re.search(r"EPIG.*random|random.*EPIG", said.splitlines()[-4])
    assert re.match(r"The accuracy that random has at 7 labels, \d.\d+, is reached by ", said.splitlines()[-3])
    assert left(folder) == ["data-simulation", "data.csv"]
    written = folder / "data-simulation"
    assert left(written) == ["curves.png", "curves.svg", "questions.csv", "report.html", "result.json", "steps"]
    traces = json.loads((written / "result.json").read_text())["traces"]
    assert [(trace["score"], trace["seed"]) for trace in traces] == [
        *(("random", seed) for seed in (0, 1)),
        *(("epig", seed) for seed in (0, 1)),
    ]
    assert all(trace["labels"] == [4, 5, 6, 7] for trace in traces)
    known = {line.split(",")[0]: line.split(",")[-1] for line in (folder / "data.csv").read_text().splitlines()}
    asked = [line.split(",") for line in (written / "questions.csv").read_text().splitlines()[1:]]
    assert [(score, seed, number) for score, seed, number, _, _ in asked] == [
        (score, str(seed), str(number)) for score in ("random", "epig") for seed in (0, 1) for number in range(1, 8)
    ]
    assert all(known[key] == label for _, _, _, key, label in asked)
    page = (written / "report.html").read_text("utf-8")
    assert "data.csv: 60 rows" in page
    assert "askwell simulate data.csv --label bought --id key --model linear" in page


def test_texts_are_encoded_for_you(folder):
    """As the README says; with the model that a project would have, and rows that can be found in the file."""
    words = {"space": "rocket orbit moon launch", "food": "bread soup salt oven"}
    rng, lines = rng_for(0, 0, "news"), []
    for i in range(80):
        topic = ("space", "food")[i % 2]
        lines.append(f"r{i:04d},{topic},{' '.join(rng.choice([*words[topic].split(), 'the', 'new', 'says'], size=7))}")
    (folder / "news.csv").write_text("key,topic,text\n" + "\n".join(lines) + "\n")
    quick = ("--budget", "8", "--seeds", "2", "--processes", "1", "--scores", "random,epig")
    found = run("simulate", "news.csv", "--label", "topic", "--id", "key", *quick)
    assert found.exit_code == 0, found.output
    assert "text: " in found.output
    assert "by TF-IDF" in found.output
    kept = json.loads((folder / "news-simulation" / "result.json").read_text())
    assert kept["settings"]["model"].startswith("LinearModel")
    assert max(trace["metrics"]["accuracy"][-1] for trace in kept["traces"]) > 0.8
    page = (folder / "news-simulation" / "report.html").read_text("utf-8")
    assert re.search(r"r00\d\d, r00\d\d", page)
    found = run("simulate", "news.csv", "--label", "topic", "--drop", "key", *quick, "--out", "rows")
    assert found.exit_code == 0, found.output


def test_the_same_command_goes_on_and_another_is_refused(folder):
    words = ("simulate", "data.csv", "--label", "bought", "--drop", "key", *QUICK, "--out", "here")
    assert run(*words).exit_code == 0
    steps = {path.name: path.read_bytes() for path in (folder / "here" / "steps").glob("*.jsonl")}
    result = (folder / "here" / "result.json").read_bytes()
    (folder / "here" / "report.html").unlink()
    kept = folder / "here" / "steps" / "epig-1.jsonl"
    kept.write_bytes(b"".join(kept.read_bytes().splitlines(keepends=True)[:-1]))
    again = run(*words, "--metric", "log_loss")
    assert again.exit_code == 0
    assert "log loss" in again.output or "log_loss" in again.output
    now = {path.name: path.read_bytes() for path in (folder / "here" / "steps").glob("*.jsonl")}
    assert {name: data for name, data in now.items() if name != "epig-1.jsonl"} == {
        name: data for name, data in steps.items() if name != "epig-1.jsonl"
    }
    assert (folder / "here" / "report.html").exists()
    before = left(folder / "here")
    other = run(*words, "--initial", "1")
    assert other.exit_code == 2
    assert "initial was 2, and now it is 1. Name another folder with --out" in other.output
    assert left(folder / "here") == before
    assert json.loads(result)["settings"]["budget"] == 7


def test_targets_test_and_forest(folder):
    (folder / "more.csv").write_text("first,second,colour,bought\n" + "0.5,1,red,yes\n-0.5,-1,,no\n" * 5)
    found = run(
        *("simulate", "data.csv", "--label", "bought", "--drop", "key", "--test", "more.csv", "--targets", "more.csv"),
        *("--scores", "epig", "--budget", "5", "--seeds", "1", "--seed", "7", "--size", "2", "--processes", "1"),
    )
    assert found.exit_code == 0, found.output
    assert "test set: the 10 rows of more.csv\n  targets: the 10 rows of more.csv" in found.output
    (trace,) = json.loads((folder / "data-simulation" / "result.json").read_text())["traces"]
    assert (trace["seed"], trace["labels"]) == (7, [4, 5])


@pytest.mark.parametrize(("words", "said"), [
    (["--label", "Bought"], "data.csv has no column 'Bought'. Did you mean 'bought'?"),
    (["--label", "colour"], r"the label column 'colour' of data.csv has no value in \d+ of 60 rows"),
    (["--label", "key"], "Is it an id or a text.*If it is a number to predict, say so"),
    (["--label", "key", "--numbers"], "the label column 'key' of data.csv must hold numbers"),
    (["--label", "first", "--metric", "accuracy"], "--metric must be one of rmse, mae, nll"),
    (["--label", "first", "--scores", "margin"], "'margin' is for classes"),
    (["--label", "bought", "--id", "colour"], "the id column 'colour' has no value here"),
    (["--label", "bought", "--drop", "ky"], "Did you mean 'key'"),
    (["--label", "bought", "--drop", "key", "--scores", "epic"], "--scores must be among random.*Did you mean 'epig'"),
    (["--label", "bought", "--scores", ","], "--scores must be one or more different names separated by commas"),
    (["--label", "bought", "--scores", "epig,epig"], "--scores must be one or more different names"),
    (["--label", "bought", "--drop", "key", "--budget", "3"], "Raise the budget, or begin with fewer: --initial 1"),
    (["--label", "bought", "--test-share", "0.01"], "Try a larger one: --test-share 0.5"),
    (["--label", "bought", "--test", "data.csv", "--test-share", "0.5"], "exclude each other"),
    (["--label", "bought", "--targets", "nowhere.csv"], "there is no file 'nowhere.csv'"),
    (["--label", "bought", "--delimiter", r"\t"], r"Its only column is 'key,first,.* such as --delimiter ' '"),
    (["--label", "bought", "--encoding", "utf-16"], "not utf-16"),
    (["--label", "bought", "--out", "data.csv"], "--out must be a folder, but 'data.csv' is a file"),
    (["--label", "bought", "--out", "."], "'.' holds other files"),
    (["--label", "bought", "--out", "data.csv/deeper"], "--out 'data.csv/deeper' cannot be written"),
])  # fmt: skip
def test_refusals_are_one_message_and_leave_nothing(folder, words, said):
    found = run("simulate", "data.csv", *words)
    assert found.exit_code == 2, found.output
    assert re.search(said, found.stderr)
    assert found.stderr.count("\n") == 1
    assert left(folder) == ["data.csv"]


@pytest.mark.parametrize(("text", "said"), [
    ("key,x,bought\na,1,yes\n", "table.csv has 1 row"),
    ("key,x,bought\na,1,yes\nb,2,no\na,3,no\n", "table.csv:4: ids must all be different"),
    ("key,x,bought\na,1,yes\nb,2\n", "table.csv:3: this row has 2 values"),
    ("", "table.csv is empty"),
    (b"key,x,bought\na,1,j\xe4\n", "table.csv:2: this is not utf-8 text .* Try --encoding 'cp1252'"),
])  # fmt: skip
def test_bad_tables_are_refused(folder, text, said):
    (folder / "table.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    found = run("simulate", "table.csv", "--label", "bought", "--id", "key")
    assert found.exit_code == 2, found.output
    assert re.search(said, found.stderr)
    assert left(folder) == ["data.csv", "table.csv"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(folder):
    (folder / "locked").mkdir(mode=0o500)
    found = run("simulate", "data.csv", "--label", "bought", "--out", "locked/here")
    assert found.exit_code == 2
    assert "cannot be written: Permission denied" in found.stderr


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupted_simulation_says_how_to_go_on(folder):
    words = ["simulate", "data.csv", "--label", "bought", "--drop", "key", *QUICK, "--budget", "25", "--seeds", "1"]
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from askwell.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", start, *words],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    steps = folder / "data-simulation" / "steps"
    while process.poll() is None and not list(steps.glob("*.jsonl")):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "Stopped. Finished steps are saved in data-simulation. To resume: askwell simulate data.csv --label" in said
    assert left(folder / "data-simulation") == ["steps"]
    assert run(*words).exit_code == 0
    assert (folder / "data-simulation" / "report.html").exists()


def test_a_column_of_numbers_is_simulated_as_such(folder):
    quick = ("--model", "linear", "--budget", "13", "--seeds", "2", "--processes", "1")
    found = run("simulate", "data.csv", "--label", "first", "--id", "key", *quick)
    assert found.exit_code == 0, found.output
    assert "Labels: first, numbers from" in found.output
    assert re.search(r"^variance +2 .*\n^epig +2 ", found.output, re.M)
    assert "mean rmse" in found.output
    again = run("simulate", "data.csv", "--label", "first", "--id", "key", *quick, "--metric", "nll")
    assert "mean nll" in again.output
    assert "lower is better" in (folder / "data-simulation" / "report.html").read_text("utf-8")
