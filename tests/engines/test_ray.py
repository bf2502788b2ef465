"""Real workers and real nodes, some of which are killed: the answer is the same."""

import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from askwell.data import open_rows
from askwell.engines import Engine, Ray, as_engine
from askwell.scoring import Search, best_items

cluster = pytest.importorskip("cluster")
ray = pytest.importorskip("ray")
from askwell.engines import ray as engine  # noqa: E402 - not Ray itself


@pytest.fixture(scope="module")
def both():
    nodes = cluster.TwoNodes()
    yield nodes
    nodes.end()


@pytest.fixture
def nodes(both):
    both.whole()
    return both


def done(job, jobs, **options):
    """(messages in order of job, faults)."""
    found = {}

    def told(place, message):
        found.setdefault(place, []).append(message)

    faults = Ray(**options).run(job, jobs, told=told)
    return [found.get(place) for place in range(len(jobs))], faults


# ---- names and options ---------------------------------------------------------------------------------------------


def test_by_name():
    assert as_engine("ray") == Ray()
    assert as_engine("ray:3") == Ray(workers=3)
    assert as_engine("ray:auto") == Ray("auto")
    assert as_engine("ray:somewhere:6379") == Ray("somewhere:6379")
    assert as_engine("ray://somewhere:10001") == Ray("ray://somewhere:10001")
    assert isinstance(Ray(), Engine)
    with pytest.raises(ValueError, match="engine must be"):
        as_engine("ray:0")


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="workers must be a whole number from 1"):
        Ray(workers=0)
    with pytest.raises(ValueError, match="patience must be a number of seconds above 0"):
        Ray(patience=float("nan"))


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'askwell\[ray\]'"):
        Ray().run(cluster.hangs, [1], told=print)


@pytest.mark.parametrize("failures", [1, 2])
def test_a_cluster_that_does_not_start_is_started_once_more(monkeypatch, failures):
    began = []

    def init(**settings):
        began.append(settings)
        if len(began) <= failures:
            raise Exception("the node timed out")  # as Ray does

    monkeypatch.setattr(ray, "init", init)
    if failures == 1:
        engine._start(ray, num_cpus=2)
    else:
        with pytest.raises(RuntimeError, match=r"does not start on this machine: the node timed out .*engine='local'"):
            engine._start(ray, num_cpus=2)
    assert began == [{"address": "local", "include_dashboard": False, "num_cpus": 2}] * 2


def test_an_address_where_nobody_is():
    if ray.is_initialized():
        pytest.skip("Ray runs already, and is used")
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1"):
        with pytest.raises(ConnectionError, match=f"address must be that of a Ray cluster.*'{address}' none answers"):
            Ray(address).run(cluster.hangs, [1], told=print)


# ---- jobs ----------------------------------------------------------------------------------------------------------


def test_jobs_are_done_with_fresh_hints_and_faults_are_kept(nodes):
    found = []
    faults = Ray().run(cluster.hinted, range(12), told=lambda *heard: found.append(heard), hint=lambda: len(found))
    assert [fault and (fault.kind, fault.text) for fault in faults] == [
        ("ValueError", "three is too many") if job == 3 else None for job in range(12)
    ]
    jobs, workers = found[::2], found[1::2]
    assert sorted(place for place, _ in jobs) == [place for place in range(12) if place != 3]
    assert all(place == job for place, (job, _) in jobs)
    assert {threads for _, (_, threads) in workers} == {"1"}
    assert os.getpid() not in {pid for _, (pid, _) in workers}
    for place, (_, hint) in jobs:  # when a job is given out, all but so many of those before it have ended
        assert hint >= 2 * (place - engine.AHEAD * 2)
    assert Ray().run(cluster.hinted, [], told=print) == []


def test_a_function_is_loaded_once_by_each_worker(nodes, tmp_path):
    heavy = cluster.Heavy(str(tmp_path))
    for _ in range(2):  # the second time it is there already
        pids, faults = done(heavy, range(20))
        assert faults == [None] * 20
    loaded = [int(path.name.split("-")[1]) for path in tmp_path.glob("loaded-*")]
    assert {pid for (pid,) in pids} <= set(loaded)
    assert len(loaded) == len(set(loaded))


def test_what_cannot_be_sent_is_said(nodes):
    with pytest.raises(ValueError, match=r"must survive being sent to a worker of Ray, but: .*lock"):
        done(cluster.Unsent(), [1])
    with pytest.raises(ValueError, match=r"must survive being sent to a worker of Ray, but: invalid literal"):
        done(cluster.Unloadable(), [1])


def test_what_hangs_is_given_up_and_the_rest_is_kept(nodes):
    done(cluster.hangs, [1])  # there is a worker
    found, faults = done(cluster.hangs, [1, 2, "hang"], patience=5.0)
    assert [len(each or []) for each in found] == [1, 1, 0]
    assert faults[:2] == [None, None]
    assert faults[2].text.startswith("nothing has ended for ")
    assert "1 jobs were given out" in faults[2].text


# ---- the same answer -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shuffled:
    """Jobs in another order."""

    engine: Engine
    order: tuple[int, ...]

    def run(self, function, jobs, *, told, hint=None):
        order = [place for place in self.order if place < len(jobs)]
        faults = self.engine.run(
            function, [jobs[place] for place in order], told=lambda place, heard: told(order[place], heard), hint=hint
        )
        return [faults[order.index(place)] for place in range(len(jobs))]


@pytest.mark.parametrize("rows", [7, 25, 1000])
@pytest.mark.parametrize("score", ["epig", "bald"])
def test_the_best_are_the_same_everywhere(nodes, tmp_path, pieces, score, rows):
    here = best_items(pieces(25), score, 9)
    for order in (range(30), range(30)[::-1], np.argsort(np.arange(30) * 7 % 30)):
        there = best_items(pieces(rows), score, 9, engine=Shuffled(Ray(), tuple(order)))
        np.testing.assert_array_equal(there[0], here[0])
        np.testing.assert_array_equal(there[1], here[1])


@pytest.fixture
def pieces(tmp_path):
    """A question about a pool in four files, in pieces of so many rows."""
    from fixed_posterior import Fixed

    numbers = np.arange(130.0)[:, None]
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", numbers[25 * number : 25 * (number + 1)])
    return lambda rows: Search(Fixed(130), open_rows(tmp_path, rows=rows), numbers[100:])


# ---- deaths --------------------------------------------------------------------------------------------------------


def test_a_worker_that_is_killed_costs_one_job(nodes, tmp_path):
    found, faults = done(cluster.killed_once, [(str(tmp_path), place, 4) for place in range(10)])
    assert faults == [None] * 10
    assert found == [[place * place] for place in range(10)]
    assert cluster.begun(tmp_path) == {place: 1 + (place == 4) for place in range(10)}


def test_a_job_that_kills_each_worker_is_given_up(nodes, monkeypatch):
    monkeypatch.setattr(engine, "RETRIES", 1)
    (found,), (fault,) = done(cluster.always_dies, [1])
    assert found is None
    assert fault.kind == "RuntimeError"
    assert fault.text.startswith("its worker was lost 2 times, at last: WorkerCrashedError")


def test_a_node_that_is_killed_costs_one_job(nodes, tmp_path):
    node = nodes.second.node_id
    found, faults = done(cluster.node_killed, [(str(tmp_path), place, node) for place in range(12)])
    assert faults == [None] * 12
    assert found == [[place * place] for place in range(12)]
    victim = int((tmp_path / "killed").read_text())
    assert cluster.begun(tmp_path) == {place: 1 + (place == victim) for place in range(12)}


# ---- programs ------------------------------------------------------------------------------------------------------


def program(code, **environment):
    paths = os.pathsep.join(sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", f"import cluster; {code}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": paths} | environment,
    )


def processes_of(mark):
    """Those that inherited the mark, by number."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="sees processes by their environment in /proc")
def test_an_interrupt_leaves_nothing_behind(tmp_path):
    mark = uuid.uuid4().hex
    short = Path("/tmp") / f"a{mark[:6]}"
    short.mkdir()
    with program(f"cluster.interrupted({str(tmp_path)!r})", MARK=mark, TMPDIR=str(short)) as child:
        said = child.stdout.readline()
        assert said == "interrupted\n", said + child.stdout.read()
        assert cluster.begun(tmp_path)[0] == 1
        assert list(short.iterdir()) == []
        left, until = {*processes_of(mark)} - {child.pid}, time.monotonic() + 10
        while left and time.monotonic() < until:  # the reaper that Ray starts needs a moment
            time.sleep(0.2)
            left = {*processes_of(mark)} - {child.pid}
        names = [Path(f"/proc/{pid}/cmdline").read_bytes()[:80] for pid in left]
        child.send_signal(signal.SIGKILL)
    short.rmdir()
    assert names == []


def test_workers_take_no_modules_from_where_the_program_works(tmp_path):
    """Ray puts that folder first for its workers; a file in it must stand for no module that is installed."""
    ran, place = tmp_path / "ran", tmp_path / "work"
    place.mkdir()
    for name in ("askwell", "sklearn", "threadpoolctl", "cloudpickle", "scipy", "numpy", "pyarrow"):
        (place / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r} + '\\n')\n")
    code = """
from askwell.engines.ray import Ray

def job(job, tell):
    import os, scipy, sklearn, threadpoolctl
    tell([sklearn.__file__, scipy.__file__])
    assert os.path.exists("sklearn.py")  # paths are as seen from where the program works

heard = []
faults = Ray(workers=1).run(job, [1], told=lambda place, message: heard.append(message))
assert faults == [None], faults
print(heard)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not ran.exists(), ran.read_text()
    assert str(place) not in done.stdout
