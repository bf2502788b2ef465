"""Training in the background, in real processes: in turns, killed, hung, and gone when nobody needs it."""

import contextlib
import os
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest

from askwell.project import init_project
from askwell.project.training import Retraining, training_since, training_turn
from askwell.seeds import rng_for
from askwell.session.progress import has_model
from askwell.store import open_store

X = rng_for(2, 0, "retraining").normal(size=(30, 2)).round(3)
MODEL = """
import os, signal, time
from pathlib import Path
from light_model import LightModel

HERE = Path(__file__).parent

def said(text):
    with open(HERE / "said", "a") as file:
        file.write(f"{text} {os.getpid()} {time.monotonic()}\\n")

class Model:
    def fit(self, x, y, *, rng):
        said("fit")
        wish = (HERE / "wish").read_text()
        if wish == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if wish == "hang":
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
            time.sleep(600)
        if wish == "slow":
            time.sleep(0.3)
        found = LightModel().fit(x, y, rng=rng)
        said("done")
        return found

model = Model
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with labels, and a model that does what is wished for in a file."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(os.path.dirname(__file__)), *sys.path]))
    monkeypatch.setattr("askwell.project.training.FAILED_PAUSE", 1.0)
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "odd.py").write_text(MODEL)
    (folder / "wish").write_text("")
    (folder / "said").write_text("")
    np.save(tmp_path / "pool.npy", X)
    with init_project(folder, pool=tmp_path / "pool.npy", classes=["a", "b"], model="odd:model") as found:
        yield found


def soon(condition):
    """Wait for what other processes do; they start slowly where a machine is busy."""
    until = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < until, "what was waited for did not happen"
        time.sleep(0.05)


def label(project, places):
    ids = project.items.ids
    for place in places:
        project.session().answer("ada", ids[place], "a" if X[place, 0] > 0 else "b", key=f"k{place}")


def retraining(project, **options):
    wanted = {"every_labels": 3, "every_seconds": 600, "look_seconds": 0.05, "store": project.store(), **options}
    return Retraining(project.folder, **wanted)


def wish(project, text):
    (project.folder / "wish").write_text(text)


def said(project):
    return [line.split() for line in (project.folder / "said").read_text().splitlines()]


def rounds(project):
    return project.session().progress().rounds


def gone(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), 0)
        with open(f"/proc/{pid}/stat") as stat:
            return ") Z " in stat.read()  # a zombie has nobody to bury it where init does not
    return True


def test_a_first_round_at_once_and_another_after_so_many_labels(project):
    label(project, range(6))
    with retraining(project) as training:
        soon(lambda: len(rounds(project)) == 1)
        soon(lambda: training.status()["state"] == "idle")
        assert training.status() == {"state": "idle", "since": None, "text": "", "labels": 0, "next_in": None}
        label(project, [6, 7])
        soon(lambda: training.status()["labels"] == 2)
        assert 500 < training.status()["next_in"] <= 600
        assert len(rounds(project)) == 1
        label(project, [8])
        soon(lambda: training.status()["state"] == "fitting")
        assert training.status()["since"] == pytest.approx(time.time(), abs=60)
        soon(lambda: len(rounds(project)) == 2)
    assert [body["labels"] for body in rounds(project)] == [6, 9]
    assert training.status()["state"] == "closed"


def test_after_so_many_seconds_one_new_label_is_enough(project):
    with retraining(project, every_labels=100, every_seconds=0.5):
        soon(lambda: len(rounds(project)) == 1)
        label(project, [0])
        soon(lambda: len(rounds(project)) == 2)
        time.sleep(1)
    assert [body["labels"] for body in rounds(project)] == [0, 1]


def test_the_first_model_comes_as_soon_as_two_classes_have_labels(project):
    """Newcomer: a quick pair spent its whole budget at random while ten labels were waited for."""
    with retraining(project, every_labels=100) as training:
        soon(lambda: len(rounds(project)) == 1)
        label(project, [0, 1])
        soon(lambda: any(has_model(body) for body in rounds(project)))
        soon(lambda: training.status()["state"] == "idle")
        trained = len(rounds(project))
        label(project, [2, 3])  # there is a model now: the next one waits for its labels
        soon(lambda: training.status()["labels"] == 2)
        assert training.status()["next_in"] > 100
        assert len(rounds(project)) == trained


def test_others_can_see_since_when_it_trains(project):
    label(project, range(6))
    wish(project, "slow")
    assert training_since(project.store(), "main") is None
    with retraining(project) as training:
        soon(lambda: training_since(project.store(), "main") is not None)
        assert training_since(project.store(), "main") == pytest.approx(time.time(), abs=60)
        soon(lambda: training.status()["state"] == "idle")
    assert training_since(project.store(), "main") is None


@pytest.mark.parametrize(
    ("what", "text", "options"),
    [
        ("die", "training was ended by SIGKILL", {}),
        ("hang", "training took longer than 3 seconds", {"limit_seconds": 3}),
    ],
)
def test_a_process_that_dies_or_hangs_is_recorded_and_training_goes_on(project, what, text, options):
    label(project, range(6))
    wish(project, what)
    with retraining(project, **options) as training:
        soon(lambda: training.status()["state"] == "failed")
        wish(project, "")
        assert text in training.status()["text"]
        soon(lambda: len(rounds(project)) > 0)
        assert text in rounds(project)[0]["failed"]
        training._limit = 100
        soon(lambda: training.status()["state"] == "idle")
    assert ["failed" in body for body in rounds(project)] == [True, False]
    assert all(gone(pid) for _, pid, _ in said(project))


def test_closing_ends_the_process(project):
    label(project, range(6))
    wish(project, "hang")
    with retraining(project) as training:
        soon(lambda: bool(said(project)))
    assert training.status()["state"] == "closed"
    ((_, pid, _),) = said(project)
    assert gone(pid)
    assert rounds(project) == ()


def test_the_process_ends_with_its_parent(project):
    label(project, range(6))
    wish(project, "hang")
    child = subprocess.Popen(
        [sys.executable, "-m", "askwell.project.training", str(project.folder), "600"], stdin=subprocess.PIPE
    )
    soon(lambda: bool(said(project)))
    assert child.poll() is None
    child.stdin.close()
    assert child.wait(timeout=20) == 1


def test_servers_of_one_project_take_turns(project):
    label(project, range(6))
    wish(project, "slow")
    with retraining(project) as one, retraining(project) as two:
        soon(lambda: len(rounds(project)) >= 1)
        label(project, [6, 7, 8])
        soon(lambda: any(body["labels"] == 9 for body in rounds(project)))
        soon(lambda: {each.status()["state"] for each in (one, two)} == {"idle"} and one.status()["labels"] == 0)
    spans = {}
    for _, pid, at in said(project):
        spans.setdefault(pid, []).append(float(at))
    times = sorted((min(each), max(each)) for each in spans.values())
    assert len(times) >= 2
    assert all(end <= start for (_, end), (start, _) in pairwise(times))
    assert not any("failed" in body for body in rounds(project))


def test_a_turn_is_held_until_it_is_given_back(tmp_path):
    url = f"sqlite:///{tmp_path / 'labels.db'}"
    with open_store(url) as one, open_store(url) as two:
        assert training_turn(one, "main").take()
        assert training_turn(one, "main").take()
        assert not training_turn(two, "main").take()
        assert training_turn(two, "other").take()
        training_turn(one, "main").release()
        assert training_turn(two, "main").take()


def test_a_folder_that_is_no_project_is_told(tmp_path):
    with retraining_of(tmp_path) as training:
        soon(lambda: training.status()["state"] == "failed")
        assert "there is no project in" in training.status()["text"]


def retraining_of(folder):
    return Retraining(folder, every_labels=1, every_seconds=1)


@pytest.mark.parametrize("options", [{"every_labels": 0}, {"every_seconds": 0}])
def test_never_is_no_interval(project, options):
    with pytest.raises(ValueError, match="must be above zero, but it is 0"):
        retraining(project, **options)
