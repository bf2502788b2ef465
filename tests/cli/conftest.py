"""A project of 80 mails in a folder of its own."""

import pytest
from cli_calls import INIT, fine
from mails import write_mails


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_mails(tmp_path / "traffic.csv", 20, seed=1, truth=False)
    return tmp_path


@pytest.fixture
def truth(place):
    return write_mails(place / "pool.csv", 80)


@pytest.fixture
def project(place, truth):
    fine("init", *INIT, "--targets", "traffic.csv")
    return truth
