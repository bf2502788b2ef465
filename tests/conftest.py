"""What several test files ask for: the compiled loop, or the text that serves other devices."""

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None)  # machines are shared: how long an example takes says nothing
settings.load_profile("house")


@pytest.fixture
def generic(monkeypatch):
    """No compiled loop: the text that serves tensors on other devices."""
    monkeypatch.setattr("askwell.information.categorical.hot_loop", lambda: None)
    monkeypatch.setattr("askwell.information.bounds.hot_loop", lambda: None)


@pytest.fixture(params=["compiled", "generic"])
def either(request):
    """A test that asks for this runs twice, with the compiled loop and without."""
    if request.param == "generic":
        request.getfixturevalue("generic")
    return request.param
