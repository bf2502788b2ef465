"""Simulations: paired, the same in any number of processes, and not to be lost by anything that can happen to one."""

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from askwell.seeds import rng_for
from askwell.simulation import Simulation, simulate
from askwell.simulation.curves import Trace, paired, summary, verdict

X = rng_for(0, 0, "simulate").normal(size=(140, 2))
X[:70, 0] += 2.5
X = X[rng_for(1, 0, "simulate").permutation(140)]
Y = np.where(X[:, 0] > 1.2, "right", "left")

SCORES = ("random", "margin", "epig", "auto")  # by default


def simulated(**options):
    """Two blobs, twenty trees, up to eight labels, two seeds."""
    given = {"test": (X[100:], Y[100:]), "budget": 8, "seeds": range(2), "processes": 1, "progress": False, **options}
    return simulate(given.pop("model", RandomForestClassifier(20)), X[:100], Y[:100], **given)


@pytest.fixture(scope="module")
def known():
    """The undisturbed simulation."""
    return simulated()


# ---- what it finds -------------------------------------------------------------------------------------------------


def test_there_is_a_trace_for_every_score_and_seed(known):
    assert [(t.score, t.seed) for t in known.traces] == [(s, i) for s in SCORES for i in (0, 1)]
    for trace in known.traces:
        assert trace.labels == (4, 5, 6, 7, 8)
        assert len(set(trace.questions)) == len(trace.questions) == 8
        assert {len(values) for values in trace.metrics.values()} == {5}
        assert set(trace.metrics) == {"accuracy", "balanced_accuracy", "log_loss"}
    assert known.folder is None


def test_scores_of_a_seed_begin_alike_and_go_their_ways(known):
    for seed in (0, 1):
        traces = [trace for trace in known.traces if trace.seed == seed]
        assert len({trace.questions[:4] for trace in traces}) == 1
        assert len({trace.metrics["log_loss"][0] for trace in traces}) == 1  # also the same first model
    paths = {tuple(trace.questions for trace in known.traces if trace.score == score) for score in SCORES}
    assert len(paths) == 4
    assert known.traces[0].questions[:4] != known.traces[1].questions[:4]


def test_more_processes_change_nothing(known):
    """With lambdas, which pickle cannot send."""
    again = simulated(processes=2, model=lambda seed: RandomForestClassifier(20))
    assert again.traces == known.traces


@pytest.mark.parametrize("engine", ["serial", "local:2", "ray:2"])
def test_engines_change_nothing(known, engine, tmp_path):
    if engine == "ray:2":
        pytest.importorskip("ray")
    assert simulated(processes=None, engine=engine, folder=tmp_path).traces == known.traces


def test_engines_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(ValueError, match="processes or engine, not both"):
        simulated(engine="local:2")
    with pytest.raises(ValueError, match="a folder that they share"):
        simulated(processes=None, engine="ray")
    with pytest.raises(ValueError, match="engine must be"):
        simulated(processes=None, engine="cluster", folder=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_delegates(known):
    assert known.summary() == summary(known.traces)
    assert known.paired("epig", "margin", of="final") == paired(known.traces, "epig", "margin", of="final")
    assert known.verdict() == verdict(known.traces)
    assert known.curve("epig", metric="log_loss").labels.tolist() == [4, 5, 6, 7, 8]


def test_table_has_the_figures(known):
    head, *lines = known.table().splitlines()
    assert head.split()[:2] == ["score", "runs"]
    for row, line in zip(known.summary(), lines, strict=True):
        assert line.startswith(row.score)
        assert f"{row.area:.3f} ± {row.area_error:.3f}" in line
        assert f"{row.final:.3f} ± {row.final_error:.3f}" in line


def test_table_says_where_a_level_is_not_reached():
    values = {"random": [0.2, 0.9], "epig": [0.5, 0.6]}  # seeds; the level is 95 % of 0.55, both scores' mean
    traces = [
        Trace(score, seed, (2,), {"accuracy": (value,)}, (0, 1))
        for score, each in values.items()
        for seed, value in enumerate(each)
    ]
    head, random, _ = Simulation(tuple(traces), {}).table().splitlines()
    assert head.endswith("labels to 0.522")
    assert random.endswith("not reached")


def test_saved_and_loaded(known, tmp_path):
    again = Simulation.load(known.save(tmp_path / "result.json"))
    assert again.traces == known.traces
    assert again.settings == known.settings
    assert again.traces[0].seconds == known.traces[0].seconds
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("content", [None, "nonsense", "{}", '{"traces": [{}], "settings": {}}', "[]"])
def test_what_save_did_not_write_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / "file").write_text(content)
    with pytest.raises(ValueError, match=r"path must be a file that Simulation.save wrote"):
        Simulation.load(tmp_path / "file")


@pytest.mark.parametrize("labels", [Y, Y == "right", np.where(Y == "right", 7, 3)], ids=["text", "truth", "numbers"])
def test_labels_of_every_kind_give_the_same(labels, known):
    found = simulate(
        RandomForestClassifier(20), X[:100], labels[:100],
        test=(X[100:], labels[100:]), budget=8, seeds=range(2), processes=1, progress=False,
    )  # fmt: skip
    assert [trace.questions for trace in found.traces] == [trace.questions for trace in known.traces]


def test_own_scores_and_targets():
    def rightmost(probs, target_probs, *, weights, rng):
        return probs.mean(axis=1)[:, 1]

    found = simulated(scores={"rightmost": rightmost, "epig": "epig"}, targets=X[100:120], seeds=[5], size=2)
    assert [trace.score for trace in found.traces] == ["rightmost", "epig"]
    assert found.traces[0].labels == (4, 6, 8)


# ---- folders -------------------------------------------------------------------------------------------------------


def test_a_folder_is_gone_on_with_and_may_get_more_seeds_and_scores(known, tmp_path):
    first = simulated(folder=tmp_path, seeds=[1], scores=["epig"])
    assert first.folder == tmp_path
    before = (tmp_path / "epig-1.jsonl").read_bytes()
    calls = []
    again = simulated(folder=str(tmp_path), progress=lambda *call: calls.append(call))
    assert again.traces == known.traces
    assert (tmp_path / "epig-1.jsonl").read_bytes() == before
    assert [call[0] for call in calls] == [5, *range(6, 41)]  # what was there already is told first


def test_a_folder_of_other_settings_is_refused(tmp_path):
    simulated(folder=tmp_path, scores=["random"], seeds=[0])
    kept = {file: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"with other budget and size: budget was 8, and now it is 9; size was 1"):
        simulated(folder=tmp_path, budget=9, size=2)
    with pytest.raises(ValueError, match=r"with other model: model was 'RandomForestClassifier\(n_estimators=20\)'"):
        simulated(folder=tmp_path, model=RandomForestClassifier(21))
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == kept


def test_what_is_no_folder_is_refused_and_nothing_written(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for place in (file, file / "below"):
        with pytest.raises(ValueError, match="folder must be a folder to write to"):
            simulated(folder=place)
    with pytest.raises(ValueError, match="budget must"):
        simulated(folder=tmp_path / "new", budget=0)
    with pytest.raises(ValueError, match="processes must"):
        simulated(folder=tmp_path / "new", processes=0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may have it ignored
sys.path.insert(0, {tests!r})
from test_simulate import simulated

def stop(done, total, latest):
    if done >= 8:
        os.kill(os.getpid(), {sign})

simulated(folder={folder!r}, processes={processes}, progress=stop)
"""


def lines(folder):
    return sum(file.read_bytes().count(b"\n") for file in Path(folder).glob("*.jsonl"))


@pytest.mark.parametrize(("sign", "processes"), [(signal.SIGKILL, 2), (signal.SIGINT, 1)], ids=["kill -9", "Ctrl-C"])
def test_a_simulation_that_was_stopped_goes_on_bit_for_bit(sign, processes, known, tmp_path):
    folder = tmp_path / "runs"
    script = tmp_path / "script.py"
    tests = str(Path(__file__).parent)
    script.write_text(SCRIPT.format(tests=tests, folder=str(folder), processes=processes, sign=int(sign)))
    parent = subprocess.run([sys.executable, str(script)], stderr=subprocess.PIPE, text=True, check=False)
    words = parent.stderr
    assert parent.returncode != 0
    assert 8 <= lines(folder) < 30
    if sign is signal.SIGINT:
        assert f"Finished steps are saved: call simulate again with the same settings and folder='{folder}'" in words
    again = simulated(folder=folder)
    assert again.traces == known.traces
    assert lines(folder) >= 30


# ---- what goes wrong, and who looks on -----------------------------------------------------------------------------


def test_a_run_that_fails_names_itself_and_spares_the_others(known, tmp_path):
    marker = tmp_path / "mended"

    def model(seed):
        if seed == 1 and not marker.exists():
            raise ArithmeticError("not today")
        return RandomForestClassifier(20)

    folder = tmp_path / "runs"
    with pytest.raises(RuntimeError) as caught:
        simulated(model=model, folder=folder)
    assert "4 of 8 runs failed. Finished steps are saved" in str(caught.value)
    assert "epig, seed 1, after 0 labels: ArithmeticError: not today" in str(caught.value)
    assert "in model" in caught.value.__notes__[0]
    assert lines(folder) == 20
    marker.touch()
    assert simulated(model=model, folder=folder).traces == known.traces


def test_a_fault_of_the_input_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match=r"random, seed 0, after 0 labels: ValueError: x must hold numbers"):
        simulate(RandomForestClassifier(5), [["a"], ["b"]] * 5, [0, 1] * 5, test=([["a"]], [0]), budget=5,
                 scores=["random"], seeds=[0], folder=tmp_path)  # fmt: skip


def test_warnings_are_passed_on_once():
    def worried(probs, target_probs, *, weights, rng):
        warnings.warn(f"only {len(probs)} left", RuntimeWarning, stacklevel=1)
        return rng.random(len(probs))

    with pytest.warns(RuntimeWarning) as heard:
        simulated(scores={"worried": worried})
    (warning,) = heard
    assert str(warning.message) == "only 96 left [worried, seed 0, 5 labels, and 7 more like it]"
    assert warning.filename == __file__


def test_interrupted_by_who_looks_on(known, tmp_path):
    def stop(done, total, latest):
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"stopped. Finished steps are saved"):
        simulated(folder=tmp_path, progress=stop)
    assert simulated(folder=tmp_path).traces == known.traces


def test_progress_tells_the_run_so_far(known):
    calls = []
    simulated(scores=["epig"], seeds=[1], progress=lambda *call: calls.append(call))
    assert [(done, total) for done, total, _ in calls] == [(i, 5) for i in range(1, 6)]
    (trace,) = [trace for trace in known.traces if (trace.score, trace.seed) == ("epig", 1)]
    for place, (_, _, latest) in enumerate(calls, 1):
        assert (latest["score"], latest["seed"]) == ("epig", 1)
        assert latest["labels"] == trace.labels[:place]
        assert latest["metrics"]["accuracy"] == trace.metrics["accuracy"][:place]


def test_nothing_is_shown_where_nobody_looks(capfd):
    simulated(scores=["random"], seeds=[0], progress=None)
    assert capfd.readouterr() == ("", "")


# ---- real data -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif("ASKWELL_DATA" not in os.environ, reason="ASKWELL_DATA names no folder with uci/vowel-context.data")
def test_vowel(tmp_path):
    table = np.loadtxt(Path(os.environ["ASKWELL_DATA"]) / "uci" / "vowel-context.data")
    train = table[:, 0] == 0
    x, y = table[:, 3:13], table[:, 13].astype(int)
    found = simulate(
        RandomForestClassifier(30), x[train], y[train], test=(x[~train], y[~train]), targets=x[~train],
        budget=30, seeds=[0], size=4, folder=tmp_path, processes=1, progress=False,
    )  # fmt: skip
    assert found.settings["classes"] == list(range(11))
    for trace in found.traces:
        assert trace.labels == (22, 26, 30)
        assert sorted(y[train][list(trace.questions[:22])]) == sorted([*range(11)] * 2)
        assert all(0.1 < value < 0.7 for value in trace.metrics["accuracy"])
        assert trace.metrics["accuracy"] == pytest.approx(trace.metrics["balanced_accuracy"])  # 42 of each class
    assert json.loads((tmp_path / "settings.json").read_text())["n"] == 528
