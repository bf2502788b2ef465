import os

import pytest

from askwell.engines import Local, Serial


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
