"""Half-open connections and slow requests against a real server in a process with few files."""

import contextlib
import json
import logging
import resource
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from askwell.web import connections
from askwell.web.connections import _Seldom, limits

SERVER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
import uvicorn
from askwell.session import Session
from askwell.data import Items
from askwell.store import open_store
from askwell.web import connections, create_app, security
connections.STALLED = 2.0
security.LONGEST_BODY = float(sys.argv[3])
security.Guard.__init__.__kwdefaults__["longest"] = float(sys.argv[3])
mail = Items("mail", "text", ("a", "b"), ["Win a prize", "See you"])
app = create_app(Session(open_store(None), mail.ids), mail, title="Mail")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", proxy_headers=False,
            **connections.limits(head=float(sys.argv[2])))
"""


@contextlib.contextmanager
def running(place, head, body=2):
    """A server with 200 files that gives so many seconds for the parts of a request: (port, process, its log)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(place / "log", "wb") as log:
        words = [sys.executable, "-c", SERVER, str(port), str(head), str(body)]
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError):
                answered(port)
                break
            time.sleep(0.1)
        yield port, process, place / "log"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    with running(tmp_path_factory.mktemp("patient"), 3_600) as found:
        yield found


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    with running(tmp_path_factory.mktemp("endless"), 3_600, 3_600) as found:
        yield found


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    with running(tmp_path_factory.mktemp("strict"), 3) as found:
        yield found


def answered(port):
    """The status of the page for somebody who behaves."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/sign-in",
        json.dumps({"name": "ada"}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.status


def opened(port, sent=b""):
    found = socket.create_connection(("127.0.0.1", port), timeout=30)
    found.sendall(sent)
    return found


HALF = b"POST /api/sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/js"


BODY = HALF + b"on\r\nContent-Length: 100\r\n\r\n{"
PIECE = HALF + b"on\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"


@pytest.mark.parametrize(
    "sent", [b"", HALF, BODY, PIECE], ids=["nothing sent", "half a head", "half a body", "a piece of a body"]
)
def test_hundreds_of_half_open_connections_stop_nobody(endless, sent):
    """More than there are files, by far, and none of them is let go by its time."""
    port, process, log = endless
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held = []
    try:
        for _ in range(6):
            for number in range(80):
                with contextlib.suppress(OSError):
                    held.append(opened(port, sent))
                if number > 70:
                    time.sleep(0.05)  # so that the last ones are looked at before others come
            assert answered(port) == 200
        assert process.poll() is None
        assert log.stat().st_size < 20_000, log.read_text()[:2000]
    finally:
        for one in held:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def ended(connection):
    """Whether the other side ends the connection while we wait."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def test_who_sends_no_whole_request_is_let_go(strict):
    port, _, _ = strict
    for sent in (b"", HALF, HALF[:1]):
        with opened(port, sent) as connection:
            assert ended(connection), sent


def test_who_sends_half_a_request_after_a_whole_one_is_let_go(strict):
    port, _, _ = strict
    with opened(port, b"GET /static/mark.svg HTTP/1.1\r\nHost: localhost\r\n\r\n" + HALF) as connection:
        assert connection.recv(12) == b"HTTP/1.1 200"
        assert ended(connection)


def test_a_body_that_does_not_come_ends_with_408(patient):
    port, _, _ = patient
    with opened(port, BODY) as connection:
        assert connection.recv(12) == b"HTTP/1.1 408"
        assert ended(connection)


def test_a_body_that_trickles_ends_too(patient):
    port, _, _ = patient
    with opened(port, HALF + b"on\r\nContent-Length: 1000\r\n\r\n") as connection:
        connection.settimeout(0.2)
        status = b""
        for _ in range(900):
            with contextlib.suppress(TimeoutError):
                status = connection.recv(12)
                break
            connection.sendall(b" ")
        assert status == b"HTTP/1.1 408"


def test_there_is_room_for_the_rest_of_the_program(monkeypatch):
    for files, most in ((200, 72), (1024, 896), (1_000_000, connections.MOST), (64, 8)):
        monkeypatch.setattr(connections, "_files", lambda files=files: files)
        assert limits()["http"].args[0]._most == most


def test_the_log_is_not_filled():
    seldom = _Seldom()
    full = logging.LogRecord("asyncio", logging.ERROR, "", 0, "socket.accept() out of system resource", (), None)
    other = logging.LogRecord("asyncio", logging.ERROR, "", 0, "something else", (), None)
    assert [seldom.filter(full) for _ in range(3)] == [True, False, False]
    assert all(seldom.filter(other) for _ in range(3))
