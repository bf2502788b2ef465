"""A private Label Studio server for the tests of this folder."""

import os

import pytest
from studio import PLACE, PROGRAM, Server


@pytest.fixture(scope="session")
def label_studio_server(tmp_path_factory):
    """The server of all tests; each makes a project of its own."""
    if not PROGRAM.exists() or not (PLACE / "template").is_dir():
        reason = "Label Studio is not installed: run scripts/label_studio (about 1 GB, outside the repository)"
        if os.environ.get("ASKWELL_REQUIRE_LABEL_STUDIO"):
            pytest.fail(reason)
        pytest.skip(reason)
    server = Server(tmp_path_factory.mktemp("label-studio"))
    yield server
    for person in server.people.values():
        person.http.close()
    server.stop()


def pytest_configure(config):
    config.addinivalue_line("markers", "label_studio: needs the Label Studio server of scripts/label_studio")
