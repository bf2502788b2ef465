"""A session in a real SQLite file, the app over it, a browser, and servers in processes of their own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient
from labelling_server import free_port

from askwell.data import Items
from askwell.session import Session
from askwell.store import open_store
from askwell.web import create_app

HERE = "http://localhost:8765"
TEXTS = ["Win a prize now", "See you at noon", "Your invoice", "Lunch?", "Meeting moved", "Cheap watches"]


@pytest.fixture
def mail():
    return Items("mail", "text", tuple("abcdef"), TEXTS)


@pytest.fixture
def store(tmp_path):
    with open_store(f"sqlite:///{tmp_path}/labels.db") as store:
        yield store


@pytest.fixture
def session(store, mail):
    session = Session(store, mail.ids)
    session.set_rules("start", classes=["ham", "spam"], budget=50)
    return session


@pytest.fixture
def client_of():
    """Clients of an app; each has its own cookies, and all are closed."""
    clients = []

    def make(app, *, who=None, token="", base=HERE):
        client = TestClient(app, base_url=base)
        clients.append(client)
        if who is not None:
            assert client.post("/api/sign-in", json={"name": who, "token": token}).status_code == 200
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def app(session, mail):
    return create_app(session, mail, title="Mail", targets=mail)


@pytest.fixture
def ada(app, client_of):
    return client_of(app, who="ada")


# ---- a browser and a server ----------------------------------------------------------------------------------------


def chromium_path():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return os.environ.get("ASKWELL_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(
    scope="module"
)  # not longer: Playwright has an event loop running, and tests of other files start theirs
def chromium():
    path = chromium_path()
    if path is None:
        reason = "no Chromium is installed: run scripts/browser"
        if os.environ.get("CI") or os.environ.get("ASKWELL_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def window(chromium):
    """Windows that share nothing, like those of two people."""
    contexts = []

    def make(**options):
        contexts.append(chromium.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        return page

    yield make
    for context in contexts:
        context.close()


class Server:
    """A labelling server that can be killed and started again at the same place."""

    def __init__(self, url, *, title="Python's manual", token=None):
        self.arguments = [url, str(free_port()), title, token or ""]
        self.address = f"http://127.0.0.1:{self.arguments[1]}"
        self.process = None

    def start(self):
        script = str(Path(__file__).with_name("labelling_server.py"))
        self.process = subprocess.Popen([sys.executable, script, *self.arguments])
        for _ in range(600):
            try:
                if httpx2.get(self.address, timeout=1).status_code == 401:
                    return self
            except httpx2.TransportError:
                assert self.process.poll() is None, "the server ended"
            time.sleep(0.1)
        raise AssertionError("the server did not start")

    def change(self, *items, title=None):
        """From the next start on: another title, items left out of the pool or added to it."""
        self.arguments[2] = title or self.arguments[2]
        self.arguments[4:] = items

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server_of():
    """Servers, all killed in the end."""
    servers = []

    def make(url, **options):
        servers.append(Server(url, **options))
        return servers[-1].start()

    yield make
    for server in servers:
        server.kill()
