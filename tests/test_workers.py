"""Jobs in processes: the same answers as here, faults that stay with their job, and nobody left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from askwell.workers import ONE_THREAD, work

TIMES = 5


def heard(function, jobs, processes):
    """What was told, by job, and the faults."""
    messages = [[] for _ in jobs]
    faults = work(function, jobs, processes=processes, told=lambda place, message: messages[place].append(message))
    return messages, faults


def several(job, tell):
    for number in range(job):
        tell([job, number * TIMES])


def anything(job, tell):
    """Several messages and words of its own; or a fault; or the end of the process."""
    print("printed by a model")
    if job == "die":
        os._exit(7)
    tell([os.getpid(), {name: os.environ.get(name) for name in ONE_THREAD}])
    for number in range(job):
        tell(number * TIMES // (3 - job))


JOBS = [2, "die", 3, 0, 1]


@pytest.fixture(scope="module")
def elsewhere():
    return heard(anything, JOBS, 2)


def test_every_job_is_done_once_and_told_in_order(elsewhere):
    messages, faults = elsewhere
    assert [told[1:] for told in messages] == [[0, 5], [], [], [], [0]]
    assert [fault is None for fault in faults] == [True, False, False, True, True]


def test_one_process_is_this_one_and_does_the_same(elsewhere):
    messages, faults = heard(anything, [2, 3, 0, 1], 1)
    assert [told[1:] for told in messages] == [told[1:] for told in elsewhere[0][:1] + elsewhere[0][2:]]
    assert {told[0][0] for told in messages} == {os.getpid()}
    assert (faults[1].kind, faults[1].text) == (elsewhere[1][2].kind, elsewhere[1][2].text)


def test_a_fault_stays_with_its_job(elsewhere):
    _, faults = elsewhere
    assert (faults[2].kind, faults[2].text) == ("ZeroDivisionError", "integer division or modulo by zero")
    assert "number * TIMES // (3 - job)" in faults[2].trace


def test_a_process_that_dies_takes_its_job_only(elsewhere):
    assert "exit code 7" in elsewhere[1][1].text


def test_processes_are_others_and_have_one_thread_each(elsewhere):
    told = [messages[0] for job, messages in zip(JOBS, elsewhere[0], strict=True) if job != "die"]
    assert os.getpid() not in [pid for pid, _ in told]
    assert len({pid for pid, _ in told}) in (1, 2)
    assert all(settings | {"ASKWELL_WORKER": "1"} == ONE_THREAD for _, settings in told)
    assert {settings["ASKWELL_WORKER"] for _, settings in told} <= {"0", "1"}  # its number


def test_no_jobs():
    assert heard(anything, [], 2) == ([], [])


def test_where_all_processes_die_every_job_says_so():
    _, faults = heard(lambda job, tell: os._exit(3), [1, 2, 3], 2)
    assert [fault.kind for fault in faults] == ["RuntimeError"] * 3
    assert all("exit code 3" in fault.text for fault in faults)


def falters(job, tell, hint):
    """Dies once for each odd job: the second process finds the mark of the first."""
    mark = Path(job[0], f"{job[1]}")
    if job[1] % 2 and not mark.exists():
        mark.touch()
        os._exit(9)
    tell([job[1], hint])


@pytest.mark.parametrize("processes", [1, 2])
def test_hints_are_what_is_known_when_a_job_is_given_out(tmp_path, processes):
    found, jobs = [], [(str(tmp_path), number) for number in (0, 2, 4, 6, 8)]
    faults = work(
        falters, jobs, processes=processes, told=lambda _, message: found.append(message), hint=lambda: len(found)
    )
    assert faults == [None] * 5
    assert sorted(number for number, _ in found) == [0, 2, 4, 6, 8]
    # The n-th job is given out when all before it are done but those that others still work on, however slowly.
    assert all(number // 2 - processes <= hint <= place for place, (number, hint) in enumerate(found))


def test_a_job_whose_process_died_is_done_by_another(tmp_path):
    found, jobs = [], [(str(tmp_path), number) for number in range(5)]
    faults = work(
        falters, jobs, processes=2, told=lambda _, message: found.append(message[0]), hint=lambda: 0, retries=1
    )
    assert faults == [None] * 5
    assert sorted(found) == list(range(5))


def test_retries_come_to_an_end():
    die = lambda job, tell: os._exit(3)  # noqa: E731
    faults = work(die, [1, 2], processes=2, told=lambda place, message: None, retries=2)
    assert all("exit code 3" in fault.text for fault in faults)


def test_what_cannot_be_sent_is_refused():
    lock = __import__("threading").Lock()
    with pytest.raises(ValueError, match=r"survive being sent to another process.*Try processes=1"):
        heard(lambda job, tell: lock, [1, 2], 2)


def test_what_cannot_be_received_is_refused():
    class Stubborn:
        def __reduce__(self):
            return int, ("not a number",)

    stubborn = Stubborn()
    with pytest.raises(ValueError, match=r"survive being sent.*not a number.* \(ValueError\)"):
        heard(lambda job, tell: stubborn, [1, 2], 2)


SCRIPT = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background may have it ignored
from askwell.workers import work

def function(job, tell):
    tell(os.getpid())
    time.sleep(60)

work(function, [1, 2], processes=2, told=lambda place, message: print(message, flush=True))
"""


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes where Linux lists them")
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_their_parent_and_leave_nothing(sign, tmp_path):
    """The script has no guard of `__main__`, and needs none."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    left = tmp_path / "left"
    left.mkdir()
    env = os.environ | {"TMPDIR": str(left)}
    parent = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    )
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    assert all(alive(worker) for worker in workers)
    parent.send_signal(sign)
    parent.wait(timeout=120)
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while any(alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(worker) for worker in workers)
    assert not list(left.iterdir())
