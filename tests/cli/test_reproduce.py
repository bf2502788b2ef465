import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from askwell.cli import main

reproducing = import_module("askwell.cli.reproduce")  # the package has the command under this name

ROOT = Path(__file__).parents[2]


def called(*words):
    return CliRunner().invoke(main, ["reproduce", *map(str, words)])


def test_figures_are_listed():
    done = called()
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()][:4] == [
        "heatmaps",
        "bald_pool_size",
        "2d_data",
        "uci",
    ]


def test_a_figure_is_run_and_drawn_again(tmp_path):
    done = called("example_gp", "--quick", "--processes", 1, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "example_gp-quick.csv" in done.output
    assert (tmp_path / "example_gp-quick.png").exists()
    again = called("example_gp", "--quick", "--out", tmp_path, "--redraw")
    assert again.exit_code == 0
    assert again.output == done.output


def test_a_log_file_gets_lines_about_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(reproducing, "EVERY", 0)
    done = called("heatmaps", "--quick", "--processes", 1, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "steps, " in done.stderr
    lines = [line for line in done.stderr.splitlines() if "compiling" not in line]  # once per installation
    assert all(line.startswith("heatmaps: ") for line in lines)


def test_choices_are_listed():
    done = called("2d_data", "--choices")
    assert done.exit_code == 0
    assert any(line.startswith("link=probit|") for line in done.output.splitlines()), done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["figure7"], "figure must be one of heatmaps"),
        (["2d_data", "--option", "link"], "--option must be NAME=VALUE, but it is 'link'"),
        (["2d_data", "--option", "link=odd"], "one of probit"),
        (["2d_data", "--seeds", "0"], "'--seeds'"),
        (["2d_data", "--quick", "--full"], "--quick and --full exclude each other"),
        (["2d_data", "--redraw", "--out", "nowhere"], "nowhere"),
    ],
)
def test_what_is_wrong_is_said(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = called(*words)
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert "Traceback" not in done.output


def test_without_a_checkout_it_says_where_the_experiments_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproducing, "__file__", str(tmp_path / "a" / "b" / "c" / "reproducing.py"))
    done = called("2d_data")
    assert done.exit_code == 2
    assert "Clone the repository" in done.output


def test_the_folder_is_a_command_too():
    done = subprocess.run([sys.executable, "-m", "experiments"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "heatmaps" in done.stdout
