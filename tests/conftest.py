"""What several test files ask for: the compiled loop, or the text that serves other devices."""

import os

import pytest
from hypothesis import settings

os.environ.setdefault("ASKWELL_COMPILE", "wait")  # also in what tests start: the compiled loops are what is tested

settings.register_profile("house", deadline=None)  # machines are shared: how long an example takes says nothing
settings.load_profile("house")


@pytest.fixture
def generic(monkeypatch):
    """Neither the compiled loop nor NumPy's: the text that serves tensors on other devices."""
    monkeypatch.setattr("askwell.information.categorical.as_numpy", lambda array: None)
    monkeypatch.setattr("askwell.information.bounds.as_numpy", lambda array: None)


@pytest.fixture
def plain(monkeypatch):
    """NumPy, as it serves until the loops are compiled."""
    monkeypatch.setenv("ASKWELL_COMPILE", "never")


@pytest.fixture(params=["compiled", "plain", "generic"])
def either(request):
    """A test that asks for this runs three times: with the compiled loop, with NumPy, and as on other devices."""
    if request.param != "compiled":
        request.getfixturevalue(request.param)
    return request.param


@pytest.fixture
def enterable():
    """A function that lets other users into a temporary folder: those around it are pytest's own, for us alone."""

    def let_in(folder):
        for around in folder.parents:
            if around.name.startswith("pytest-of-"):
                around.chmod(0o755)
                break
            around.chmod(0o755)

    return let_in
