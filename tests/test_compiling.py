"""Where compiled loops are kept, what happens where they cannot be, and who waits for the compiler."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import askwell
from askwell import compiling

SOURCE = Path(askwell.__file__).parents[1]
SCORE = "import numpy, askwell; print(askwell.bald(numpy.array([[[1, 0], [0, 1]], [[0, 1]] * 2], 'float32')).round(3))"
NOWHERE = {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"}


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A process that has just begun, with an empty cache; the list has what was started in the background."""
    started = []
    for name in ("compiled", "started", "spoken", "warned"):
        monkeypatch.setattr(compiling._State, name, False)
    for name in ("spent", "rankings"):
        monkeypatch.setattr(compiling._State, name, 0)
    monkeypatch.setattr(compiling, "_compile_elsewhere", lambda: started.append(threading.current_thread().name))
    monkeypatch.setenv("ASKWELL_COMPILE", "auto")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("ASKWELL_WORKER", raising=False)
    return started


def run(code, *, before=(), source=SOURCE, **environment):
    """Of a fresh process: standard output and standard error."""
    settings = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    settings |= {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([*before, sys.executable, "-c", code], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def read_only():
    """What to put before a command so that the package cannot be written, not even by root; None where that fails."""
    lock = f"mount --bind '{SOURCE}' '{SOURCE}' && mount -o remount,ro,bind '{SOURCE}' && exec \"$0\" \"$@\""
    before = ("unshare", "--mount", "--map-root-user", "sh", "-c", lock)
    if os.geteuid() == 0:
        before = ("unshare", "--mount", "sh", "-c", lock)
    tried = shutil.which("unshare") and subprocess.run([*before, "true"], capture_output=True).returncode == 0
    return before if tried else None


# ---- without a place to keep it --------------------------------------------------------------------------------------


def test_a_read_only_install_without_a_home_compiles_with_one_warning():
    before, code = read_only(), SCORE
    if before is None:  # no namespaces here: the same answer from numba, that there is no place to keep anything
        before, code = (), "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []; " + SCORE
    out, error = run(code, before=before, ASKWELL_COMPILE="wait", **NOWHERE)
    assert out == "[0.693 0.   ]\n"
    assert error.count("RuntimeWarning") == 1
    assert "NUMBA_CACHE_DIR" in error
    assert error.count("askwell: compiling") == 1


def test_a_small_problem_there_needs_neither_compiler_nor_warning():
    before = read_only()
    if before is None:
        pytest.skip("no mount namespaces here")
    code = (
        f"{SCORE}; import sys; from askwell import compiling; print('numba' in sys.modules, compiling.cache_folder())"
    )
    out, error = run(code, before=before, ASKWELL_COMPILE="auto", **NOWHERE)
    assert out.splitlines()[-1] == "False None"
    assert error == ""


# ---- who waits -------------------------------------------------------------------------------------------------------


def test_numpy_serves_until_the_loops_are_in_the_cache(fresh):
    assert not compiling.ready(1.0)
    assert not compiling.ready(1.0)
    assert fresh == ["askwell-compiling"]  # started once
    compiling.mark_compiled()
    assert compiling.ready(0.0)


def test_a_warm_cache_is_used_at_once(fresh):
    compiling.mark_compiled()
    assert compiling.ready(1e-9)
    assert fresh == []


def test_nothing_is_started_for_next_to_nothing(fresh):
    assert not compiling.ready(1e-6)
    assert fresh == []


def test_much_work_is_worth_the_wait(fresh):
    assert compiling.ready(compiling.PATIENCE * 2)
    assert fresh == []


def test_little_work_adds_up(fresh):
    answers = [compiling.ready(compiling.PATIENCE / 4) for _ in range(6)]
    assert answers == [False] * 4 + [True] * 2


def test_no_change_within_a_ranking(fresh):
    with compiling.steady(0.1):
        compiling.mark_compiled()
        assert not compiling.ready(compiling.PATIENCE * 2)
    assert compiling.ready(0.0)
    with compiling.steady(0.1):
        assert compiling.ready(0.0)


def test_a_ranking_is_judged_as_a_whole(fresh):
    with compiling.steady(compiling.PATIENCE * 2):
        assert compiling.ready(1e-9)


def test_without_a_folder_nothing_is_started(fresh, monkeypatch):
    monkeypatch.setattr(compiling, "cache_folder", lambda: None)
    assert not compiling.ready(1.0)
    assert fresh == []
    assert compiling.ready(compiling.PATIENCE)


@pytest.mark.parametrize(("mode", "answer"), [("wait", True), ("never", False)])
def test_the_user_can_decide(fresh, monkeypatch, mode, answer):
    monkeypatch.setenv("ASKWELL_COMPILE", mode)
    assert compiling.ready(0.0) is compiling.ready(1e9) is answer
    assert fresh == []


def test_workers_wait(fresh, monkeypatch):
    monkeypatch.delenv("ASKWELL_COMPILE")
    monkeypatch.setenv("ASKWELL_WORKER", "3")
    assert compiling.ready(0.0)


def test_other_words_are_refused(fresh, monkeypatch):
    monkeypatch.setenv("ASKWELL_COMPILE", "now")
    with pytest.raises(ValueError, match="ASKWELL_COMPILE must be one of auto, wait, never, but it is 'now'"):
        compiling.ready(0.0)


def test_another_numba_finds_nothing_that_fits(fresh, monkeypatch):
    compiling.mark_compiled()
    assert compiling.is_compiled()
    compiling._mark_name.cache_clear()
    try:
        monkeypatch.setattr(compiling, "version", lambda package: "99")
        assert not compiling.is_compiled()
    finally:
        compiling._mark_name.cache_clear()


def test_a_change_in_any_of_the_files_of_a_loop_is_seen(tmp_path):
    """numba would look at the file of the outermost function only, and go on with what it has of the others."""
    kept = {"ASKWELL_COMPILE": "wait", "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "source": tmp_path}
    shutil.copytree(SOURCE / "askwell", tmp_path / "askwell", ignore=shutil.ignore_patterns("__pycache__"))
    assert "compiling" in run(SCORE, **kept)[1]
    assert "compiling" not in run(SCORE, **kept)[1]
    inner = tmp_path / "askwell" / "information" / "_kernels" / "product.py"
    inner.write_text(inner.read_text("utf-8") + "\n# another version\n", "utf-8")
    assert "compiling" in run(SCORE, **kept)[1]


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_one_line_says_that_it_compiles_and_a_second_process_has_nothing_to_say(tmp_path):
    kept = {"ASKWELL_COMPILE": "wait", "NUMBA_CACHE_DIR": str(tmp_path)}
    out, error = run(SCORE, **kept)
    assert error.splitlines() == ["askwell: compiling, once, about 10 s ..."]
    assert run(SCORE, **kept) == (out, "")


def test_of_several_workers_one_says_it(fresh, monkeypatch, capsys):
    for worker in ("1", "0"):
        monkeypatch.setattr(compiling._State, "spoken", False)
        monkeypatch.setenv("ASKWELL_WORKER", worker)
        compiling._say_once()
        compiling._say_once()
    assert capsys.readouterr().err.count("askwell: compiling") == 1


def test_a_loop_that_makes_no_arrays_takes_slices_and_keeps_nobody_from_freeing():
    code = (
        "import sys, numpy as np; from askwell.compiling import kernel; "
        "total = kernel(allocates=False)(lambda x: x[1:].sum()); "
        "x = np.arange(5.0); before = sys.getrefcount(x); print(total(x), sys.getrefcount(x) - before)"
    )
    assert run(code)[0].split() == ["10.0", "0"]
