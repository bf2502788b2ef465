"""The demonstration: an honest split, the paper's first labels, and the whole of it at toy size."""

import io
import re

import numpy as np
import pytest
from rich.console import Console
from rich.live import Live
from sklearn.datasets import load_digits

from askwell import demo
from askwell.demo import redundant_digits, run_demo
from askwell.seeds import rng_for
from askwell.simulation import Simulation
from askwell.simulation.curves import Trace


@pytest.mark.parametrize("seed", [0, 1])
def test_pool_targets_and_test_share_no_image(seed):
    digits = redundant_digits(seed)
    x, y = load_digits(return_X_y=True)
    assert len(np.unique(x, axis=0)) == len(x)  # so that images can be recognised
    truth = {image.tobytes(): digit for image, digit in zip(x, y, strict=True)}
    rooms = [digits.x, digits.targets, digits.test[0]]
    images = [image.tobytes() for room in rooms for image in room]
    assert len(set(images)) == len(images)
    assert np.bincount(digits.digits).tolist() == [80] * 10
    assert [truth[image.tobytes()] for image in digits.x] == digits.digits.tolist()
    for room in rooms[1:]:
        assert {truth[image.tobytes()] for image in room} == {1, 7}
    assert [str(truth[image.tobytes()]) for image in digits.test[0]] == digits.test[1].tolist()
    for digit, label in zip(digits.digits, digits.y, strict=True):
        assert label == (str(digit) if digit in (1, 7) else "neither")


def test_splits_differ_by_seed_and_by_nothing_else():
    assert (redundant_digits(0).x == redundant_digits(0).x).all()
    assert (redundant_digits(0).x != redundant_digits(1).x).any()


def test_the_first_labels_are_the_papers():
    digits, others = redundant_digits(0), set()
    for seed in range(30):
        first = digits.first_labels(rng_for(seed, 0, "initial"))
        counts = np.bincount(digits.digits[first], minlength=10)
        assert counts[[1, 7]].tolist() == [2, 2]
        assert sorted(np.delete(counts, [1, 7])) == [0] * 6 + [1, 1]
        assert len(set(first)) == 6
        others |= set(digits.digits[first]) - {1, 7}
    assert others == {0, 2, 3, 4, 5, 6, 8, 9}


def test_the_whole_demonstration_at_toy_size(tmp_path):
    said = []
    report = run_demo(seeds=[0], budget=9, folder=tmp_path / "out", processes=1, echo=said.append)
    found, digits = Simulation.load(tmp_path / "out" / "result.json"), redundant_digits(0)
    assert [trace.score for trace in found.traces] == ["random", "bald", "epig", "auto"]
    assert {trace.labels for trace in found.traces} == {(6, 7, 8, 9)}
    assert {trace.questions[:6] for trace in found.traces} == {tuple(digits.first_labels(rng_for(0, 0, "initial")))}
    assert "800 handwritten digits" in said[0]
    assert said[-3].startswith("100 %  mean accuracy so far: random")
    assert said[-2].startswith("accuracy\n")
    for text in (found.table(), found.verdict(), str(report)):
        assert text in said[-1]

    page = report.read_text("utf-8")
    for trace in found.traces:
        (row,) = re.findall(rf'<div class="row" data-score="{trace.score}">(.*?)</ol>', page, re.S)
        shown = re.findall(r'alt="(\d)"', row)
        assert shown == [str(digits.digits[i]) for i in trace.questions[6:]]
        hits = sum(digit in "17" for digit in shown)
        assert f"{hits} of the first 3 are 1s or 7s" in row
        share = f"{hits / 3:.0%} by {demo.score_name(trace.score)}"
        assert share in said[-1]
        assert share in page
    assert "askwell demo --seeds 1 --budget 9" in page

    steps = {file: file.read_bytes() for file in (tmp_path / "out" / "steps").rglob("*.jsonl")}
    run_demo(seeds=[0], budget=9, folder=tmp_path / "out", processes=1, echo=said.append)
    assert Simulation.load(tmp_path / "out" / "result.json") == found  # nothing was run again
    assert {file: file.read_bytes() for file in steps} == steps
    run_demo(seeds=[0], budget=6, folder=tmp_path / "out", processes=1, echo=said.append)  # other settings are welcome
    assert "Nothing was queried." in said[-1]


def test_on_a_terminal_the_curves_are_redrawn_in_place():
    screen = io.StringIO()
    with Live(console=Console(file=screen, force_terminal=True, width=100), auto_refresh=False) as live:
        progress = demo._in_place({}, live, {"width": 60, "colour": True, "plain": False})
        for done, accuracy in enumerate([(0.5,), (0.5, 0.9)], 1):
            run = Trace("epig", 0, (6, 7)[:done], {"accuracy": accuracy}, (1, 2, 3))
            progress(done, 2, {**run.__dict__})
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", screen.getvalue())
    assert "[====================                    ]  50%" in text
    assert "mean accuracy so far: EPIG 0.500" in text
    assert "mean accuracy so far: EPIG 0.700" in text
    assert "100%" in text


@pytest.mark.parametrize(("encoding", "plain"), [("utf-8", False), ("ascii", True), ("latin-1", True)])
def test_letters_are_those_that_the_output_knows(monkeypatch, encoding, plain):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert demo._look() == {"width": 72, "colour": False, "plain": plain}
