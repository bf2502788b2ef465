"""One run: what is measured, what is written, and that it goes on from any line as if nothing had happened."""

import json
import shutil
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from posteriors import PROPERTY
from sklearn import metrics as known_metrics
from sklearn.ensemble import RandomForestClassifier

from askwell.learner import Learner
from askwell.seeds import rng_for
from askwell.simulation.runs import metrics, read_steps, run_file, run_one, trace_of
from askwell.simulation.setup import check_setup

X = rng_for(0, 0, "trial").normal(size=(90, 2))
Y = np.where(X[:, 0] > 0, "right", "left")


def posed(**options):
    given = {
        **{"test": (X[60:], Y[60:]), "targets": None, "scores": ("random", "bald", "epig"), "initial": 1, "budget": 7},
        **{"seeds": [3], "size": 1, "classes": None, "batch": None, "ids": None},
        **options,
    }
    return check_setup(given.pop("model", RandomForestClassifier(8)), X[:60], Y[:60], **given)


def run(setup, folder, score="epig", seed=3):
    """The trace and the steps that were told."""
    told = []
    run_one(setup, folder, (score, seed), told.append)
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
    learner = Learner(RandomForestClassifier(8), X[:60], score="epig", classes=["left", "right"], seed=3)
    learner.tell(start, Y[start])
    questions, accuracy = list(start), [np.mean(learner.predict_proba(X[60:]).argmax(1) == (Y[60:] == "right"))]
    while len(questions) < 7:
        (item,) = learner.ask()
        learner.tell([item], [Y[item]])
        questions.append(item)
        accuracy.append(np.mean(learner.predict_proba(X[60:]).argmax(1) == (Y[60:] == "right")))
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
    setup = posed(**options)
    whole, _ = run(setup, tmp_path, score)
    lines = run_file(tmp_path, (score, 3)).read_bytes().splitlines(keepends=True)
    assert len(lines) == setup.steps(3)
    for cut in range(1, len(lines)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        torn = lines[cut][: 10 * cut]  # the next line was being written
        run_file(folder, (score, 3)).write_bytes(b"".join(lines[:cut]) + torn)
        again, told = run(setup, folder, score)
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
