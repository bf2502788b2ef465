"""The words of the command; what it does with a real Label Studio is in tests/bridge."""

import socket

import pytest
from click.testing import CliRunner

from askwell.cli import main
from askwell.project.init import init_project

TOKEN = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("bridging")
    rows = "".join(f"m{n},a short message about topic {n}\n" for n in range(30))
    (place / "mail.csv").write_text(f"key,text\n{rows}", "utf-8")
    init_project(place / "mail", pool=place / "mail.csv", classes=["ham", "spam"], id="key", show="text").close()
    return place / "mail"


@pytest.fixture
def nobody():
    """The address of a port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{free.getsockname()[1]}"


def called(*words, token=TOKEN):
    environment = {"LABEL_STUDIO_API_KEY": token}
    return CliRunner(env=environment).invoke(main, ["bridge", "label-studio", *map(str, words)])


def test_a_server_that_is_not_there(folder, nobody, monkeypatch):
    monkeypatch.setattr("askwell.bridge.client.FIRST_PAUSE", 0.0)
    done = called(folder, "--url", nobody, "--once")
    assert done.exit_code == 2
    assert f"Error: {nobody} does not answer" in done.output
    assert "Is Label Studio running there?" in done.output
    assert TOKEN not in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--every", "soon"], "--every must be a time such as 10s, 2m or 1h, but it is 'soon'"),
        (["--every", "0s"], "--every must be a time"),
        (["--listen", "everywhere"], "--listen must be an address such as 127.0.0.1:9090, but it is 'everywhere'"),
        (["--once", "--listen", "127.0.0.1:9090"], "--once synchronizes once: leave out --every and --listen"),
        (["--url", "label studio"], "url must be the address of Label Studio"),
        (["--size", "0"], "'--size'"),
    ],
)
def test_refusals(folder, words, said):
    done = called(folder, *words)
    assert done.exit_code == 2
    assert said in done.output
    assert TOKEN not in done.output


def test_a_token_is_needed(folder):
    done = called(folder, "--once", token="")
    assert done.exit_code == 2
    assert "--token is missing" in done.output
    assert "LABEL_STUDIO_API_KEY" in done.output


def test_a_folder_that_is_no_project(tmp_path):
    done = called(tmp_path / "nothing", "--once")
    assert done.exit_code == 2
    assert done.output.startswith("Error: ")


def test_a_port_that_is_taken(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = called(folder, "--listen", f"127.0.0.1:{port}")
    assert done.exit_code == 2
    assert f"port {port} is in use" in done.output
    assert "Try --listen 127.0.0.1:" in done.output
    assert "As an ML backend" not in done.output


def test_the_token_is_not_written_into_the_project(folder, nobody, monkeypatch):
    monkeypatch.setattr("askwell.bridge.client.FIRST_PAUSE", 0.0)
    called(folder, "--url", nobody, "--once")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_help_says_what_it_does():
    done = CliRunner().invoke(main, ["bridge", "label-studio", "--help"])
    assert done.exit_code == 0
    assert "nothing is asked or saved twice" in " ".join(done.output.split())
