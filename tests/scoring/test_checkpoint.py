"""A job that was stopped at any moment goes on, and finds what it would have found."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fixed_posterior import Fixed

from askwell.data import open_rows
from askwell.scoring import Report, Search, best_items, score_items

parquet = pytest.importorskip("pyarrow.parquet")


class Counting:
    """Another posterior, which leaves a mark for each input it is asked about; slow on request."""

    classes = ("a", "b", "c")

    def __init__(self, folder, pause=0.0):
        self.inside, self.folder, self.pause = Fixed(130), Path(folder), pause

    def predict(self, x):
        time.sleep(self.pause)
        with (self.folder / f"seen-{os.getpid()}").open("a") as file:
            file.writelines(f"{int(number)}\n" for number in np.asarray(x)[:, 0])
        return self.inside.predict(x)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "pool").mkdir()
    for number in range(10):
        np.save(tmp_path / "pool" / f"{number}.npy", np.arange(10.0 * number, 10.0 * (number + 1))[:, None])
    return tmp_path / "pool"


def asked(files, posterior):
    return Search(posterior, open_rows(files, rows=10), np.arange(100.0, 130.0)[:, None])


def read(folder):
    tables = [parquet.read_table(file) for file in sorted(folder.glob("scores-*.parquet"))]
    columns = [[value for table in tables for value in table.column(name).to_pylist()] for name in ("id", "score")]
    return dict(zip(*columns, strict=True))


@pytest.mark.parametrize("engine", [None, "local:2"])
def test_scores_of_all_items_are_written(tmp_path, files, engine):
    search = asked(files, Fixed(130))
    positions, scores = best_items(search, "epig", 4, engine=engine, folder=tmp_path / "out", every=True)
    whole = score_items(search, "epig")
    assert read(tmp_path / "out") == dict(enumerate(whole.tolist()))
    np.testing.assert_array_equal(positions, np.argsort(-whole, kind="stable")[:4])
    np.testing.assert_array_equal(scores, whole[positions])


def test_what_is_done_is_not_done_again(tmp_path, files):
    first = best_items(asked(files, Counting(tmp_path)), "epig", 4, folder=tmp_path / "out", every=True)
    for file in tmp_path.glob("seen-*"):
        file.unlink()
    damaged = tmp_path / "out" / "scores-000000000030.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    (tmp_path / "out" / "pieces" / "000000000070-000000000080.json").unlink()
    report = Report()
    again = best_items(asked(files, Counting(tmp_path)), "epig", 4, folder=tmp_path / "out", every=True, report=report)
    np.testing.assert_array_equal(again[0], first[0])
    assert report.rows == 100
    seen = [int(line) for file in tmp_path.glob("seen-*") for line in file.read_text().splitlines()]
    assert {*range(30, 40), *range(70, 80)} <= {*seen}
    assert len([number for number in seen if number < 100 and number not in (*range(30, 40), *range(70, 80))]) <= 64
    assert len(read(tmp_path / "out")) == 100


@pytest.mark.parametrize("other", [{"score": "bald"}, {"size": 5}])
def test_another_question_has_another_folder(tmp_path, files, other):
    best_items(asked(files, Fixed(130)), "epig", 4, folder=tmp_path / "out")
    changed = {"score": "epig", "size": 4} | other
    with pytest.raises(ValueError, match=f"holds the answers to another question \\(other {next(iter(other))}\\)"):
        best_items(asked(files, Fixed(130)), **changed, folder=tmp_path / "out")
    with pytest.raises(ValueError, match=r"other fingerprint"):
        best_items(asked(files, Fixed(131)), "epig", 4, folder=tmp_path / "out")


DRIVER = """
import sys
from pathlib import Path
from test_checkpoint import Counting, asked
from askwell.scoring import best_items
pool, marks, engine, out = sys.argv[1:]
found = best_items(asked(pool, Counting(marks, 0.05)), "epig", 4, engine=engine, folder=Path(out))
print(found[0].tolist())
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("engine", ["serial", "local:2"])
def test_a_driver_that_is_killed_goes_on(tmp_path, files, engine):
    expected, out = best_items(asked(files, Fixed(130)), "epig", 4)[0].tolist(), tmp_path / "out"
    command = [sys.executable, "-c", DRIVER, str(files), str(tmp_path), engine, str(out)]
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[1])])
    done = lambda: len([*out.glob("pieces/[0-9]*.json")])  # noqa: E731
    for _ in range(2):
        before = done()
        with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, start_new_session=True) as driver:
            while driver.poll() is None and done() < before + 3:
                time.sleep(0.005)
            os.killpg(driver.pid, signal.SIGKILL)
        assert driver.returncode == -signal.SIGKILL
        assert done() < 10
    last = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=60, check=False
    )
    assert last.returncode == 0, last.stderr
    assert json.loads(last.stdout) == expected
    assert done() == 10
