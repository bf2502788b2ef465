"""Simulations: paired, the same in any number of processes, and not to be lost by anything that can happen to one."""

import html
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from posteriors import PROPERTY
from sklearn import metrics as known_metrics
from sklearn.ensemble import RandomForestClassifier

from askwell.learner import Learner
from askwell.seeds import rng_for
from askwell.simulation import Simulation, simulate
from askwell.simulation.curves import Trace, paired, summary, verdict
from askwell.simulation.design import design
from askwell.simulation.metrics import metrics
from askwell.simulation.simulate import read_steps, run_file, run_one, trace_of

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
sys.path[:0] = [{tests!r}, {around!r}]
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
    script.write_text(
        SCRIPT.format(
            tests=tests, around=str(Path(tests).parent), folder=str(folder), processes=processes, sign=int(sign)
        )
    )
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


# ---- one run: what is measured, what is written, and that it goes on from any line -----------------------------------


INPUTS = rng_for(0, 0, "trial").normal(size=(90, 2))
LABELS = np.where(INPUTS[:, 0] > 0, "right", "left")


def posed(**options):
    given = {
        **{
            "test": (INPUTS[60:], LABELS[60:]),
            "targets": None,
            "scores": ("random", "bald", "epig"),
            "initial": 1,
            "budget": 7,
        },
        **{"seeds": [3], "size": 1, "classes": None, "batch": None, "ids": None},
        **options,
    }
    return design(given.pop("model", RandomForestClassifier(8)), INPUTS[:60], LABELS[:60], **given)


def run(plan, folder, score="epig", seed=3):
    """The trace and the steps that were told."""
    told = []
    run_one(plan, folder, (score, seed), told.append)
    return trace_of((score, seed), read_steps(run_file(folder, (score, seed)))), told


# ---- metrics -------------------------------------------------------------------------------------------------------


@PROPERTY
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 30))
def test_metrics_are_those_of_scikit_learn(world, c, n):
    rng = rng_for(world, 0, "metrics")
    probs, codes = rng.dirichlet(np.ones(c), n), rng.integers(0, c, n)
    found = metrics(probs, codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are predicted and do not occur
        assert found["balanced_accuracy"] == pytest.approx(
            known_metrics.balanced_accuracy_score(codes, probs.argmax(1))
        )
    assert found["accuracy"] == pytest.approx(known_metrics.accuracy_score(codes, probs.argmax(1)))
    assert found["log_loss"] == pytest.approx(known_metrics.log_loss(codes, probs, labels=range(c)))


def test_a_loss_is_never_infinite_and_a_tie_goes_to_the_first():
    found = metrics(np.array([[1.0, 0.0], [0.5, 0.5]], np.float32), np.array([1, 1]))
    assert found["log_loss"] == pytest.approx((-np.log(1e-12) + np.log(2)) / 2)
    assert found["accuracy"] == 0


def test_a_class_that_cannot_occur_in_the_test_set_is_an_error_where_it_is_predicted():
    """As the paper counts "neither" for a test 1 or 7: nothing is restricted."""
    assert metrics(np.array([[0.3, 0.2, 0.5]]), np.array([0]))["accuracy"] == 0


def test_predictions_that_are_none_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        metrics(np.array([[np.nan, 1.0]]), np.array([0]))


# ---- a run ---------------------------------------------------------------------------------------------------------


def test_a_run_is_a_learner_that_is_told_the_known_labels(tmp_path):
    trace, told = run(posed(), tmp_path)
    start = posed().starts[3]
    learner = Learner(RandomForestClassifier(8), INPUTS[:60], score="epig", classes=["left", "right"], seed=3)
    learner.tell(start, LABELS[start])
    questions, accuracy = (
        list(start),
        [np.mean(learner.predict_proba(INPUTS[60:]).argmax(1) == (LABELS[60:] == "right"))],
    )
    while len(questions) < 7:
        (item,) = learner.ask()
        learner.tell([item], [LABELS[item]])
        questions.append(item)
        accuracy.append(np.mean(learner.predict_proba(INPUTS[60:]).argmax(1) == (LABELS[60:] == "right")))
    assert trace.questions == tuple(questions)
    assert trace.metrics["accuracy"] == pytest.approx(accuracy)
    assert trace.labels == (2, 3, 4, 5, 6, 7)
    assert [step["labels"] for step in told] == [2, 3, 4, 5, 6, 7]
    assert trace.seconds > 0


@pytest.mark.parametrize(
    "options",
    [{}, {"size": 2, "batch": "power"}, {"initial": 0}, {"initial": lambda rng: [0]}],
    ids=["plain", "batches drawn by chance", "no label at the start", "one class at the start"],
)
@pytest.mark.parametrize("score", ["epig", "random"])
def test_a_run_goes_on_from_any_line(options, score, tmp_path):
    plan = posed(**options)
    whole, _ = run(plan, tmp_path, score)
    lines = run_file(tmp_path, (score, 3)).read_bytes().splitlines(keepends=True)
    assert len(lines) == plan.steps((score, 3))
    for cut in range(1, len(lines)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        torn = lines[cut][: 10 * cut]  # the next line was being written
        run_file(folder, (score, 3)).write_bytes(b"".join(lines[:cut]) + torn)
        again, told = run(plan, folder, score)
        assert again == whole
        assert len(told) == len(lines) - cut


def test_a_finished_run_is_not_run_again(tmp_path):
    whole, _ = run(posed(), tmp_path)
    assert run(posed(), tmp_path) == (whole, [])


def test_a_run_ends_with_the_pool(tmp_path):
    trace, _ = run(posed(budget=1000, size=25), tmp_path, "random")
    assert trace.labels == (2, 27, 52, 60)
    assert sorted(trace.questions) == list(range(60))


def test_other_initial_labels_are_refused(tmp_path):
    run(posed(initial=lambda rng: [0, 1]), tmp_path)
    with pytest.raises(ValueError, match="begun with other initial labels"):
        run(posed(initial=lambda rng: [2, 1], budget=8), tmp_path)


def test_own_ids_are_written_beside_positions(tmp_path):
    _, told = run(posed(ids=[f"row {i}" for i in range(60)]), tmp_path)
    for step in told:
        assert step["items"] == [f"row {i}" for i in step["asked"]]


def test_warnings_are_written_down_once_a_step(tmp_path):
    def worried(probs, target_probs, *, weights, rng):
        for _ in range(3):
            warnings.warn("thin ice", stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return rng.random(len(probs))

    _, told = run(posed(scores={"worried": worried}, budget=4), tmp_path, "worried")
    assert [step.get("warnings") for step in told] == [
        None,
        [["UserWarning", "thin ice"]],
        [["UserWarning", "thin ice"]],
    ]


# ---- files ---------------------------------------------------------------------------------------------------------


def test_a_line_that_was_written_twice_counts_once(tmp_path):
    whole, _ = run(posed(), tmp_path)
    file = run_file(tmp_path, ("epig", 3))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], lines[2], lines[1], *lines[3:]]))
    assert trace_of(("epig", 3), read_steps(file)) == whole


@pytest.mark.parametrize("damage", [b"{}\n", b"nonsense\n", b'{"labels": 9, "asked": []}\n', b"\xff\xff\n", b"[]\n"])
def test_a_damaged_file_is_refused_and_left_alone(damage, tmp_path):
    run(posed(), tmp_path)
    file = run_file(tmp_path, ("epig", 3))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], damage, *lines[1:]]))
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"epig-3.jsonl must hold the steps .* line 2 is none. Remove the file"):
        read_steps(file)
    assert file.read_bytes() == before


def test_a_missing_line_is_seen(tmp_path):
    run(posed(), tmp_path)
    file = run_file(tmp_path, ("epig", 3))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    with pytest.raises(ValueError, match="line 3 is none"):
        read_steps(file)


def test_lines_are_json_that_others_can_read(tmp_path):
    run(posed(), tmp_path)
    copy = shutil.copy(run_file(tmp_path, ("epig", 3)), tmp_path / "copy")
    with open(copy, encoding="utf-8") as file:
        first = json.loads(file.readline())
    assert set(first) == {"labels", "asked", "metrics", "seconds"}


def test_a_simulation_in_a_line_and_in_a_notebook():
    traces = tuple(
        Trace(score, seed, (2, 4), {"accuracy": (0.5, end + seed / 100)}, ((1, 2), (3,)), 0.0)
        for score, end in (("<epig>", 0.9), ("random", 0.7))
        for seed in range(3)
    )
    found = Simulation(traces, {})
    assert repr(found) == "Simulation(6 runs: <epig>, random; .verdict(), .table(), .plot(), .to_frame())"
    made = found._repr_html_()
    assert "<svg" in made
    assert "&lt;epig&gt;" in made
    assert "<epig>" not in made
    assert html.escape(found.verdict()) in made
    assert "No" not in Simulation((), {})._repr_html_()


def test_a_simulation_as_a_frame_and_as_a_figure(tmp_path):
    pytest.importorskip("pandas")
    runs = (
        Trace("epig", 0, (2, 4), {"accuracy": (0.5, 0.75), "log_loss": (0.7, 0.5)}, (0, 1), cost=(3.0, 5.0)),
        Trace("epig", 1, (2, 4), {"accuracy": (0.5, 1.0), "log_loss": (0.7, 0.4)}, (0, 1), cost=(3.0, 6.0)),
    )
    frame = Simulation(runs, {}).to_frame()
    assert [*frame.columns] == ["score", "seed", "labels", "accuracy", "log_loss", "cost"]
    assert frame[frame["labels"] == 4]["accuracy"].tolist() == [0.75, 1.0]
    assert frame.groupby("score")["cost"].max().to_dict() == {"epig": 6.0}
    figure = Simulation(runs, {}).plot(tmp_path / "curves.png", metric="log_loss", title="Loss")
    assert figure.axes[0].get_title(loc="left") == "Loss"
    assert (tmp_path / "curves.png").stat().st_size > 1000
