"""`askwell serve` and the words of `askwell bridge`; what it does with a real Label Studio is in tests/bridge."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from cli_calls import fine, refused, run
from click.testing import CliRunner

from askwell.cli import main
from askwell.project.init import init_project


def test_other_machines_need_a_token(project):
    said = refused("serve", "p", "--host", "0.0.0.0")
    assert "--host 0.0.0.0 lets other machines in, so it needs a --token" in said
    assert "--token" in refused("serve", "p", "--name", "lab.example.org")


@pytest.mark.parametrize("taken", ["127.0.0.1", "0.0.0.0"])
def test_a_port_in_use_is_said_before_any_link(project, taken):
    """Newcomer: the link was printed first, and led to somebody else's page."""
    pytest.importorskip("uvicorn")
    with socket.create_server((taken, 0)) as other:
        port = other.getsockname()[1]
        result = run("serve", "p", "--port", port)
    assert result.exit_code == 2
    assert "Label at" not in result.output
    assert f"port {port} is in use" in result.stderr
    free = int(re.search(r"Try --port (\d+)", result.stderr)[1])
    with socket.create_server(("127.0.0.1", free)):
        assert free > port


def test_a_port_that_another_program_has_on_the_other_loopback(project):
    """Browsers take localhost for ::1 first."""
    pytest.importorskip("uvicorn")
    try:
        other = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with other:
        assert "is in use" in refused("serve", "p", "--port", other.getsockname()[1])


def test_an_address_of_another_machine(project):
    pytest.importorskip("uvicorn")
    said = refused("serve", "p", "--host", "192.0.2.7", "--token", "long enough a token")
    assert "cannot listen on 192.0.2.7:8000; it is not an address of this machine" in said


def test_serve_answers_and_ends_without_loss(project, place):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from askwell.cli.serve import serve; serve(['p', '--port', '{port}'])"
    with subprocess.Popen([sys.executable, "-c", code], cwd=place, stderr=subprocess.PIPE) as server:
        try:
            page = ""
            for _ in range(600):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                        page = answer.read().decode()
                    break
                except urllib.error.HTTPError as door:
                    page = door.read().decode()  # who are you?
                    break
                except (urllib.error.URLError, ConnectionError):
                    assert server.poll() is None, server.stderr.read().decode()
                    time.sleep(0.1)
            assert "<html" in page
        finally:
            os.kill(server.pid, signal.SIGINT)
        assert server.wait(30) in (0, 130)
        assert b"Traceback" not in server.stderr.read()
    assert "0 of 80 items labelled" in fine("status", "p")


MODULES = ("askwell", "numpy", "click", "json", "sklearn", "sitecustomize", "usercustomize", "threadpoolctl", "ray")


def askwell(*words, folder, wait=True):
    """The installed command, started in a folder."""
    command = "from askwell.cli import main; main()"
    started = subprocess.Popen(
        [sys.executable, "-P", "-c", command, *map(str, words)],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return started.communicate()[0] if wait else started


@pytest.fixture
def trapped(project, place):
    """A project whose folder holds files that are called like modules, and the file that they write when they run."""
    ran = place / "ran"
    for name in MODULES:
        (place / "p" / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r} + '\\n')\n")
    return ran


def test_files_of_a_project_are_no_modules(trapped, place):
    folder = place / "p"
    for words in (("status", "."), ("ask", "."), ("ask", ".", "--engine", "local:2"), ("export", ".", "out.csv")):
        said = askwell(*words, folder=folder)
        assert "Traceback" not in said, said
        assert not trapped.exists(), (words, trapped.read_text())
    rows = "\n".join(f"{n},{n % 7},{'ab'[n % 7 > 3]}" for n in range(60))
    (folder / "numbers.csv").write_text(f"x,y,label\n{rows}\n")
    simulate = ("simulate", "numbers.csv", "--label", "label", "--budget", "8", "--seeds", "2", "--processes", "2")
    score = ("score", "numbers.csv", "--labelled", "numbers.csv", "--label", "label", "--engine", "local:2")
    for words in (simulate, score):
        said = askwell(*words, folder=folder)
        assert "Traceback" not in said, said
        assert not trapped.exists(), (words, trapped.read_text())


def wrong_token(port, address):
    """The status of a wrong token that comes with an address of its own making."""
    body = json.dumps({"name": "eve", "token": "guess"}).encode()
    headers = {"Content-Type": "application/json", "X-Forwarded-For": address}
    try:
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/api/sign-in", body, headers))
    except urllib.error.HTTPError as refusal:
        return refusal.code


def test_a_server_started_in_a_project_runs_nothing_of_it_and_believes_no_forwarded_address(
    trapped, place, monkeypatch
):
    monkeypatch.setenv("ASKWELL_TOKEN", "correct horse battery")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = askwell("serve", ".", "--port", port, folder=place / "p", wait=False)
    try:
        rounds = []
        while not rounds and not trapped.exists() and server.poll() is None:
            time.sleep(0.5)
            rounds = json.loads(fine("status", place / "p", "--json"))["rounds"]
        assert rounds
        assert "failed" not in rounds[-1], rounds
        assert not trapped.exists(), trapped.read_text()
        assert [wrong_token(port, f"10.0.0.{n}") for n in range(14)] == [401] * 10 + [429] * 4
        kept = place / "p" / ".askwell" / "sessions.json"
        assert kept.stat().st_mode & 0o777 == 0o600
    finally:
        server.terminate()
        server.communicate()


def test_a_model_that_the_settings_name_is_found_in_the_folder_by_every_process(project, place):
    folder = place / "p"
    (folder / "mine.py").write_text("import beside\ndef make():\n    return beside.Forest(n_estimators=5)\n")
    (folder / "beside.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\nclass Forest(RandomForestClassifier):\n    pass\n"
    )
    settings = folder / "askwell.toml"
    settings.write_text(settings.read_text().replace('model = "linear"', 'model = "mine:make"'))
    for item, label in list(project.items())[:12]:
        fine("tell", folder, item, label)
    said = askwell("ask", folder, "--engine", "local:2", folder=place)
    assert "Traceback" not in said, said
    assert "Error" not in said, said


# ---- bridge ----


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
