"""Bars appear late, vanish, and never swallow an item."""

import io
import sys
import types

import pytest

from askwell import progress


@pytest.mark.parametrize("shown", [True, False, None])
@pytest.mark.parametrize("patience", [0.0, 100.0])
def test_every_item_comes_once_and_in_order(monkeypatch, shown, patience):
    monkeypatch.setattr(progress, "PATIENCE", patience - 1e-9)
    assert list(progress.track(list(range(10)), label="counting", shown=shown)) == list(range(10))


def test_short_work_shows_nothing_and_long_work_its_label(monkeypatch):
    for patience, expected in ((100.0, False), (-1.0, True)):
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(progress, "PATIENCE", patience)
        list(progress.track(list(range(5)), label="counting", shown=True))
        assert ("counting" in stream.getvalue()) == expected


def test_what_is_counted_is_said_with_its_rate(monkeypatch):
    for patience, expected in ((100.0, False), (-1.0, True)):
        stream = io.StringIO()
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(progress, "PATIENCE", patience)
        with progress.counted(2000, label="scoring", unit="rows", shown=True) as done:
            done(500)
            done(700)
        said = stream.getvalue()
        assert ("scoring" in said and "1,200 of 2,000 rows" in said and "/s" in said) == expected
    with progress.counted(2000, label="scoring", unit="rows", shown=False) as done:
        done(2000)


def test_a_log_file_has_lines_with_the_time_left(monkeypatch, capsys):
    now = [0.0]
    told = progress.lines(label="simulating", unit="steps", clock=lambda: now[0])
    told(40, 1000)  # done before: not work of this time
    for second in range(1, 200):
        now[0] = float(second)
        told(40 + second, 1000)
    told(1000, 1000)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "simulating: 45 of 1,000 steps after 5 s, about 16 min left"
    assert [int(line.split()[1]) - 40 for line in said] == [5, 15, 35, 75, 135, 195]  # more and more seldom


def test_a_terminal_has_a_bar_instead_of_lines(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", Terminal())
    assert progress.lines(label="simulating", unit="steps") is None


class Kernel:
    kernel = object()


def notebook(monkeypatch):
    """Standard error as a notebook has it: no terminal, and IPython with a kernel."""
    stream, shell = io.StringIO(), types.ModuleType("IPython")
    shell.get_ipython = Kernel
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    return stream


def test_a_notebook_has_a_line_that_writes_over_itself(monkeypatch):
    stream = notebook(monkeypatch)
    assert list(progress.track(list(range(5)), label="counting")) == list(range(5))
    assert stream.getvalue().startswith("\rcounting: ")
    assert stream.getvalue().endswith("\n")
    assert "counting: 5 of 5, about 0 s left" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()  # no control sequence that a notebook would print
    assert progress.lines(label="counting", unit="steps") is None


def test_what_is_counted_in_a_notebook(monkeypatch):
    stream = notebook(monkeypatch)
    with progress.counted(2000, label="scoring", unit="rows") as done:
        done(500)
        done(1500)
    assert "\rscoring: 500 of 2,000 rows" in stream.getvalue()
    assert "2,000 of 2,000 rows" in stream.getvalue()


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch):
    stream = notebook(monkeypatch)
    sys.modules["IPython"].get_ipython = lambda: None
    assert list(progress.track(list(range(5)), label="counting")) == list(range(5))
    assert stream.getvalue() == ""
