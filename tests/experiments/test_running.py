import dataclasses
import json
import os
import shutil

import pytest

from experiments.drawing import curve_panels, curve_table
from experiments.figure import Figure, Option, Setting
from experiments.results import read_results
from experiments.running import FIGURES, OUT, PAGE, figure_named, redraw, reproduce


def climb(job, terms, past):
    """A run whose steps follow from where it is; one score may fall over at its third step."""
    now = past[-1]["accuracy"] if past else 0.1 * (1 + job.seed)
    for step in range(len(past), 4):
        if job.score == "falls" and step == 2 and not os.environ.get("STANDS"):
            raise ValueError("it fell")
        now = 0.5 * now + (0.2 if terms.options.get("slope") == "low" else 0.4)
        yield {"labels": step, "accuracy": now, "log_loss": 1 - now, "seconds": 0.5}


def toy(*scores, name="toy", family=""):
    each = {"quick": 2, "standard": 2}
    return Figure(
        name=name,
        content="a toy",
        claim="it climbs",
        settings=(Setting("a", scores, each, {"quick": 4, "standard": 4}),),
        run=climb,
        draw=curve_panels,
        verdict=lambda results: curve_table(results, []),
        options={"slope": Option(("high", "low"), "how steep")},
        family=family,
    )


def test_files_of_a_figure(tmp_path):
    outcome = reproduce(toy("random", "epig"), processes=1, out=tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"toy.csv", "toy.png", "toy.svg", "toy.md", "runs"}
    assert outcome.verdict in (tmp_path / "toy.md").read_text()
    lines = (tmp_path / "toy.csv").read_text().splitlines()
    assert lines[0] == "setting,score,seed,labels,accuracy,log_loss"
    assert lines[1] == "a,random,0,0,0.45,0.55"
    assert len(lines) == 1 + 2 * 2 * 4
    header = json.loads((tmp_path / "runs" / "toy" / "standard" / "a-epig-1.jsonl").read_text().splitlines()[0])
    assert header["seed"] == 1
    assert header["versions"]["numpy"]


def one_step(job, terms, past):
    yield from () if past else [{"labels": 10, "accuracy": 0.5 + job.seed / 100, "log_loss": 0.5}]


def test_more_seeds_than_are_asked_for_now_stay_in_the_table(tmp_path):
    once = dataclasses.replace(
        toy("epig"), settings=(Setting("a", ("epig",), {"standard": 2}, {"standard": 1}),), run=one_step
    )
    reproduce(once, seeds=3, processes=1, out=tmp_path)
    table = (tmp_path / "toy.csv").read_text()
    assert len(table.splitlines()) == 1 + 3
    shutil.rmtree(tmp_path / "runs")
    reproduce(once, processes=1, out=tmp_path)
    assert (tmp_path / "toy.csv").read_text() == table


def test_other_terms_have_other_files(tmp_path):
    reproduce(toy("epig"), effort="quick", options={"slope": "low"}, processes=1, out=tmp_path)
    assert (tmp_path / "toy-quick+slope=low.csv").read_text().splitlines()[1] == "a,epig,0,0,0.25,0.75"
    assert (tmp_path / "toy-quick+slope=low.png").exists()


def test_a_run_that_fails_takes_no_other_down_and_goes_on_when_it_can(tmp_path, monkeypatch):
    monkeypatch.delenv("STANDS", raising=False)
    figure = toy("falls", "epig")
    with pytest.raises(RuntimeError, match=r"2 of 4 runs of toy failed; the first, a, falls, 0: it fell"):
        reproduce(figure, processes=1, out=tmp_path / "cut")
    runs = tmp_path / "cut" / "runs" / "toy" / "standard"
    assert len((runs / "a-epig-1.jsonl").read_text().splitlines()) == 1 + 4
    assert len((runs / "a-falls-0.jsonl").read_text().splitlines()) == 1 + 2
    monkeypatch.setenv("STANDS", "yes")
    reproduce(figure, processes=1, out=tmp_path / "cut")
    reproduce(figure, processes=1, out=tmp_path / "whole")
    assert (tmp_path / "cut" / "toy.csv").read_text() == (tmp_path / "whole" / "toy.csv").read_text()


def test_figures_of_a_family_share_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDS", "yes")
    reproduce(toy("falls", name="first", family="kin"), processes=1, out=tmp_path)
    monkeypatch.delenv("STANDS")
    reproduce(toy("falls", "epig", name="second", family="kin"), processes=1, out=tmp_path)  # nothing left that falls
    assert (tmp_path / "second.csv").exists()


def test_more_seeds_are_added_to_those_that_are_there(tmp_path):
    said = []
    reproduce(toy("epig"), processes=1, out=tmp_path, told=said.append)
    assert len(said) == 8
    reproduce(toy("epig"), processes=1, out=tmp_path, seeds=3, told=said.append)
    assert len(said) == 12
    assert said[-1] == "12 of 12 steps, 0 s left; now a, epig, seed 2"


def test_the_time_left_is_of_the_steps_left(tmp_path):
    said = []
    reproduce(toy("epig"), processes=1, out=tmp_path, told=said.append)
    assert said[0] == "1 of 8 steps, 4 s left; now a, epig, seed 0"  # 7 steps of half a second, rounded


def test_redrawing_needs_the_table_only(tmp_path):
    reproduce(toy("epig"), processes=1, out=tmp_path)
    shutil.rmtree(tmp_path / "runs")
    picture = (tmp_path / "toy.svg").read_bytes()
    (tmp_path / "toy.svg").unlink()
    redraw(toy("epig"), out=tmp_path)
    assert (tmp_path / "toy.svg").read_bytes()[:200] == picture[:200]
    with pytest.raises(ValueError, match="no results"):
        redraw(toy("epig"), effort="quick", out=tmp_path)


def test_an_effort_without_runs_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no runs with the effort 'full'"):
        reproduce(toy("epig"), effort="full", processes=1, out=tmp_path)


def test_data_are_looked_for_where_it_is_said(tmp_path, monkeypatch):
    seen = []

    def look(job, terms, past):
        seen.append(os.environ.get("ASKWELL_DATA"))
        yield from climb(job, terms, past)

    monkeypatch.delenv("ASKWELL_DATA", raising=False)
    figure = dataclasses.replace(toy("epig"), run=look)
    reproduce(figure, processes=1, out=tmp_path, data=tmp_path / "data", seeds=1)
    assert seen == [str(tmp_path / "data")]
    assert "ASKWELL_DATA" not in os.environ


def test_processes_find_what_one_process_finds(tmp_path):
    reproduce(toy("random", "epig"), processes=1, out=tmp_path / "one")
    reproduce(toy("random", "epig"), processes=2, out=tmp_path / "two")
    reproduce(toy("random", "epig"), engine="local:2", out=tmp_path / "engine")
    first, *others = [(tmp_path / name / "toy.csv").read_text() for name in ("one", "two", "engine")]
    assert others == [first, first]


def test_unknown_figures_are_refused():
    with pytest.raises(ValueError, match="figure must be one of heatmaps"):
        figure_named("figure7")


@pytest.mark.parametrize("name", FIGURES)
def test_the_readme_says_what_the_results_say(name):
    """`askwell reproduce NAME --redraw` writes it anew."""
    verdict = OUT / f"{name}.md"
    if not verdict.exists():
        pytest.skip(f"{name} has not been run yet")
    assert f"<!-- {name} -->\n\n{verdict.read_text()}\n<!-- /{name} -->" in PAGE.read_text()
    assert f"(results/{name}.png)" in PAGE.read_text()
    assert figure_named(name).verdict(read_results(OUT / f"{name}.csv")) + "\n" == verdict.read_text()


def test_runs_of_one_step_that_stand_in_the_table_are_not_done_again(tmp_path):
    def once(job, terms, past):
        assert not past
        yield {"labels": 1, "accuracy": 0.5 + 0.1 * job.seed, "log_loss": 0.1}

    def toy_of(run):
        once_each = {"standard": 1}
        settings = (Setting("a", ("random", "epig"), {"standard": 2}, once_each),)
        return dataclasses.replace(toy("epig"), settings=settings, run=run)

    reproduce(toy_of(once), processes=1, out=tmp_path, seeds=1)
    first = (tmp_path / "toy.csv").read_text().splitlines()
    shutil.rmtree(tmp_path / "runs")  # as in another checkout, which has the table only

    def others(job, terms, past):
        assert job.seed == 1, "this one was done before"
        yield from once(job, terms, past)

    reproduce(toy_of(others), processes=1, out=tmp_path)
    again = (tmp_path / "toy.csv").read_text().splitlines()
    assert len(again) == 1 + 2 * 2
    assert set(first) <= set(again)
