"""`askwell score`: the best of a pool in files, as arrays would have it."""

import numpy as np
import pytest
from click.testing import CliRunner

from askwell.cli import main
from askwell.data import open_rows
from askwell.models.forest import forest
from askwell.scoring import Search, best_items
from askwell.seeds import rng_for

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path):
    """A pool of two Parquet files, labels and targets as CSV."""
    from pyarrow import parquet

    x = rng_for(0, 0, "a pool").normal(size=(400, 2)).astype(np.float32)
    for number in range(2):
        part = slice(200 * number, 200 * (number + 1))
        names = [f"r{row}" for row in range(400)[part]]
        table = pa.table({"name": names, "a": x[part, 0], "b": x[part, 1]})
        (tmp_path / "pool").mkdir(exist_ok=True)
        parquet.write_table(table, tmp_path / "pool" / f"{number}.parquet", row_group_size=64)
    lines = [f"{a!r},{b!r},{'yes' if a + b > 0 else 'no'}" for a, b in x[:30].tolist()]
    (tmp_path / "labels.csv").write_text("a,b,good\n" + "\n".join(lines) + "\n")
    (tmp_path / "traffic.csv").write_text("a,b\n" + "\n".join(f"{a!r},{b!r}" for a, b in x[300:350].tolist()) + "\n")
    return tmp_path


def called(folder, *words):
    start = ["score", str(folder / "pool"), "--labelled", str(folder / "labels.csv"), "--label", "good"]
    return CliRunner().invoke(
        main, [*start, "--id", "name", "--targets", str(folder / "traffic.csv"), *map(str, words)]
    )


@pytest.mark.parametrize("engine", [[], ["--engine", "local:2"]])
def test_it_prints_the_best(folder, engine):
    done = called(folder, "--size", 4, *engine)
    assert done.exit_code == 0, done.output
    rows = open_rows(folder / "pool", id="name")
    x, y = rows[np.arange(30)], np.where(rows[np.arange(30)].sum(axis=1) > 0, "yes", "no")
    posterior = forest(trees=100).fit(x, y.tolist(), rng=rng_for(0, 0, "fit"))
    positions, _ = best_items(Search(posterior, rows, rows[np.arange(300, 350)]), "auto", 4)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == rows.ids(positions)
    assert "400 rows" in done.stderr


def test_costs_of_errors_change_the_ranking(folder):
    """Another ranking has another folder."""
    plain, costly = called(folder, "--size", 20), called(folder, "--size", 20, "--class-weights", "yes=50")
    assert costly.exit_code == 0, costly.output
    assert plain.stdout != costly.stdout
    kept = called(folder, "--size", 20, "--class-weights", "yes=50", "--keep", folder / "kept")
    assert kept.stdout == costly.stdout
    other = called(folder, "--size", 20, "--class-weights", "yes=51", "--keep", folder / "kept")
    assert other.exit_code == 2
    assert "other score" in other.output
    assert called(folder, "--size", 20, "--class-weights", "yes=50", "--engine", "local:2").stdout == costly.stdout


def test_it_writes_all_scores_and_goes_on(folder):
    first = called(folder, "--out", folder / "scores")
    assert first.exit_code == 0, first.output
    files = sorted((folder / "scores").glob("*.parquet"))
    assert sum(pa.parquet.read_table(file).num_rows for file in files) == 400
    files[0].unlink()
    again = called(folder, "--out", folder / "scores")
    assert again.stdout == first.stdout
    assert files[0].exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--columns", "a,c"], "has no column 'c'"),
        (["--columns", "name"], "the column 'name' holds texts"),
        (["--id", "nobody"], "has no column 'nobody'"),
        (["--engine", "magic"], "engine must be 'serial', 'local'"),
        (["--score", "magic"], "magic"),
        (
            ["--class-weights", "maybe=2"],
            "--class-weights must be for the classes no, yes, but 'maybe' is none of them",
        ),
        (["--class-weights", "yes"], "--class-weights must be like spam=1,fraud=50, but it is 'yes'"),
        (["--class-weights", "yes=2", "--score", "bald"], "a score that heeds them"),
        (["--label", "bad"], "has no column 'bad'"),
        (["--targets", "nowhere.csv"], "'nowhere.csv' does not exist"),
        (["--out", "x", "--keep", "y"], "not both"),
        (["--screen", "2"], "--screen"),
    ],
)
def test_what_is_wrong_is_said(folder, words, said, monkeypatch):
    monkeypatch.chdir(folder)
    done = called(folder, *words)
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert "Traceback" not in done.output


def test_a_broken_file_is_named_or_left_out(folder):
    file = folder / "pool" / "1.parquet"
    file.write_bytes(file.read_bytes()[:100])
    done = called(folder)
    assert done.exit_code == 2
    assert "1.parquet" in done.output
    left = called(folder, "--skip-bad")
    assert left.exit_code == 0, left.output
    assert "1 files were left out: 1.parquet" in left.stderr
    assert "200 rows" in left.stderr


def test_texts_are_refused_in_words(folder):
    lines = ["key,text,kind", *(f"m{row},prize {row},{row % 2}" for row in range(30))]
    (folder / "mails.csv").write_text("\n".join(lines))
    words = ["score", folder / "mails.csv", "--labelled", folder / "mails.csv", "--label", "kind"]
    done = CliRunner().invoke(main, [*map(str, words)])
    assert done.exit_code == 2
    assert "mails.csv has no column that can be used as an input. Left out: key (30 different texts" in done.stderr
    assert "embeddings" in done.stderr
    (folder / "labels.csv").write_text("a,b,good\n1,x,yes\n2,y,no\n")
    done = called(folder)
    assert done.exit_code == 2
    assert "labels.csv:2: the column 'b' is numbers in the pool" in done.stderr


def test_a_ranking_of_equal_scores_says_so(folder):
    (folder / "same.csv").write_text("name,a,b\n" + "".join(f"k{row},1,1\n" for row in range(60)))
    words = ["score", str(folder / "same.csv"), "--labelled", str(folder / "labels.csv"), "--label", "good"]
    done = CliRunner().invoke(main, [*words, "--columns", "a,b", "--id", "name", "--size", "3"])
    assert done.exit_code == 0, done.output
    assert "most of the scores are equal: about 100% of the pool" in done.stderr.replace("\n", " ")
    assert len(done.stdout.splitlines()) == 3
    assert "equal" not in called(folder).stderr


def test_json_lines_are_refused_in_words(folder):
    (folder / "pool.jsonl").write_text('{"name": "x", "a": 1, "b": 2}\n')
    words = ["score", str(folder / "pool.jsonl"), "--labelled", str(folder / "labels.csv"), "--label", "good"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code != 0
    assert "pool.jsonl is a file of JSON" in done.stderr
    assert "CSV or Parquet" in done.stderr
