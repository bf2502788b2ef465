import json

import numpy as np
import pytest

from experiments.results import Job, Results, Runs, read_results, write_results

JOB = Job("Magic, forest", "epig", 3)
HEADER = {"effort": "quick", "options": {"labels": "logistic"}, "versions": {"numpy": "2.0"}}
ROWS = [{"labels": 4, "accuracy": 0.5, "asked": [0, 1]}, {"labels": 5, "accuracy": 0.75, "asked": [7]}]


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")


def begun(runs, rows=ROWS):
    assert runs.past(JOB, HEADER) == []
    for row in rows:
        runs.append(JOB, row)
    return runs.folder / JOB.file_name


def test_a_run_is_there_again(runs):
    begun(runs)
    assert runs.past(JOB, HEADER) == ROWS


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_torn_line_is_taken_off(runs, cut):
    file = begun(runs)
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    assert runs.past(JOB, HEADER) == ROWS[:1]
    runs.append(JOB, ROWS[1])
    assert file.read_bytes() == whole


def test_a_torn_header_is_written_again(runs):
    file = begun(runs, [])
    file.write_bytes(file.read_bytes()[:5])
    assert runs.past(JOB, HEADER) == []
    assert json.loads(file.read_bytes()) == HEADER


def test_other_terms_are_refused_but_other_versions_are_not(runs):
    begun(runs)
    assert runs.past(JOB, HEADER | {"versions": {"numpy": "3.0"}}) == ROWS
    with pytest.raises(ValueError, match="begun with effort quick, and now it is full"):
        runs.past(JOB, HEADER | {"effort": "full"})


def test_a_file_of_something_else_is_refused(runs):
    runs.folder.mkdir()
    (runs.folder / JOB.file_name).write_text("[1]\nnothing\n")
    with pytest.raises(ValueError, match="must hold the steps of a run"):
        runs.past(JOB, HEADER)


def test_names_of_files_do_not_meet():
    jobs = [Job("a-b", "c", 0), Job("a", "b-c", 0), Job("a/b", "c", 0), Job("a", "b/c", 0)]
    assert len({job.file_name for job in jobs}) == 3  # "-" joins and is kept: the first two
    assert all("/" not in job.file_name for job in jobs)


def test_results_of_what_there_is(runs):
    begun(runs)
    other = Job("Magic, forest", "bald", 3)
    found = runs.results([other, JOB], ("labels", "accuracy"))
    assert found["labels"].tolist() == [4, 5]
    assert found.names("score") == ["epig"]


def table():
    rows = [
        ("Magic, forest", score, seed, labels, value + seed / 10)
        for score, value in (("random", 0.5), ("epig", 0.6))
        for seed in (0, 1)
        for labels in (4, 5)
    ]
    return Results.of(("setting", "score", "seed", "labels", "accuracy"), rows)


def test_a_table_comes_back_from_its_file(tmp_path):
    results = table()
    assert write_results(results, tmp_path / "uci.csv") == tmp_path / "uci.csv"
    again = read_results(tmp_path / "uci.csv")
    for name, column in results.columns.items():
        assert again[name].tolist() == column.tolist()
        assert again[name].dtype.kind == column.dtype.kind


def test_a_large_table_is_packed_and_comes_back(tmp_path, monkeypatch):
    file = write_results(table(), tmp_path / "uci.csv")
    small = file.read_bytes()
    monkeypatch.setattr("experiments.results.LARGE", 10)
    packed = write_results(table(), tmp_path / "uci.csv")
    assert packed.name == "uci.csv.gz"
    assert not file.exists()  # or the older one would be read
    again = read_results(file)
    monkeypatch.undo()
    assert write_results(again, file).read_bytes() == small
    assert not packed.exists()


def test_no_table_says_so(tmp_path):
    with pytest.raises(ValueError, match="no results"):
        read_results(tmp_path / "uci.csv")


def test_where_and_traces():
    results = table()
    assert len(results.where(score="epig", seed=1)) == 2
    traces = results.traces("Magic, forest")
    assert [(trace.score, trace.seed) for trace in traces] == [("random", 0), ("random", 1), ("epig", 0), ("epig", 1)]
    assert traces[3].labels == (4, 5)
    assert traces[3].metrics == {"accuracy": (0.7, 0.7)}


def test_a_run_that_has_not_come_to_its_end_is_left_out():
    results = table()
    keep = np.ones(len(results), bool)
    keep[-1] = False
    short = Results({name: column[keep] for name, column in results.columns.items()})
    assert [(trace.score, trace.seed) for trace in short.traces("Magic, forest")][-1] == ("epig", 0)
    assert len(short.traces("Magic, forest", whole=False)) == 4
