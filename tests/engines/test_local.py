"""Jobs are done on every engine of one machine, errors come back, and engines go by name."""

import os

import pytest

from askwell.engines import Engine, Local, Serial, as_engine


def job_done(job, tell, hint):
    if job == 3:
        raise ValueError("three is too many")
    tell([job, hint, os.getpid()])


@pytest.mark.parametrize("engine", [Serial(), Local(2)])
def test_jobs_are_done_and_faults_are_kept(engine):
    found = []
    faults = engine.run(job_done, [1, 3, 5], told=lambda place, message: found.append((place, message)), hint=lambda: 7)
    assert sorted((place, job, hint) for place, (job, hint, _) in found) == [(0, 1, 7), (2, 5, 7)]
    assert [None if fault is None else fault.text for fault in faults] == [None, "three is too many", None]
    assert ({pid for _, (_, _, pid) in found} == {os.getpid()}) == isinstance(engine, Serial)


def dies_once(job, tell):
    if job and os.path.exists(job):
        os.remove(job)
        os._exit(1)
    tell(job)


def test_who_dies_is_replaced(tmp_path):
    (tmp_path / "mark").touch()
    found = []
    jobs = ["", str(tmp_path / "mark"), ""]
    assert Local(2).run(dies_once, jobs, told=lambda place, message: found.append(place)) == [None] * 3
    assert sorted(found) == [0, 1, 2]


# ---- test_protocol ----


def test_engines_by_name():
    assert as_engine("serial") == as_engine(None) == Serial()
    assert as_engine("local") == Local()
    assert as_engine("local:3") == Local(3)
    own = Local(2)
    assert as_engine(own) is own
    assert isinstance(own, Engine)


@pytest.mark.parametrize("engine", ["", "locale", "local:0", "local:x", 7])
def test_what_is_no_engine_is_refused(engine):
    with pytest.raises(ValueError, match=r"engine must be 'serial', 'local'"):
        as_engine(engine)
