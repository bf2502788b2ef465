"""A private PostgreSQL server for the tests of this folder: started once, on a Unix socket, gone afterwards."""

import os
import shutil
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from urllib.parse import quote

import pytest

ACCESS = """
local all locked scram-sha-256
local all all trust
"""
SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",  # the machine does not lose power during a test; killed servers keep what they wrote
    "shared_buffers": "16MB",
    "max_connections": "40",
    "log_min_messages": "fatal",
}


def program(name):
    """A program of PostgreSQL; Debian keeps them out of the path."""
    return shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)


class Server:
    """A running server."""

    def __init__(self, folder):
        self.folder = folder
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            try:
                shutil.chown(folder, self.user)
            except LookupError:
                self.user = "nobody"
                shutil.chown(folder, self.user)
        self.run(
            "initdb",
            "--no-sync",
            "--auth=trust",
            "--username=askwell",
            "--encoding=UTF8",
            "--locale=C",
            "--pgdata=data",
        )
        with open(folder / "data" / "postgresql.conf", "a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in SETTINGS.items())
            file.write(f"unix_socket_directories = '{folder}'\n")
        (folder / "data" / "pg_hba.conf").write_text(ACCESS, "utf-8")
        self.start()

    def run(self, name, *options):
        identity = (
            {"user": self.user, "group": self.user if self.user == "postgres" else "nogroup"} if self.user else {}
        )
        identity |= {"extra_groups": []} if self.user else {}
        done = subprocess.run(
            [program(name), *options], cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **identity,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    def start(self):
        self.run("pg_ctl", "start", "--wait", "--silent", "--pgdata=data", "--log=log")

    def stop(self, mode="immediate"):
        self.run("pg_ctl", "stop", "--wait", "--silent", "--pgdata=data", f"--mode={mode}")

    def url(self, *, user="askwell", password="", database="postgres", schema="public"):
        credentials = f"{user}:{quote(password, safe='')}" if password else user
        options = quote(f"-csearch_path={schema}", safe="")
        return f"postgresql://{credentials}@/{database}?host={quote(str(self.folder), safe='')}&options={options}"

    def sql(self, *statements):
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)


@contextmanager
def serving():
    """A private PostgreSQL server, or None where none is installed."""
    if not program("initdb") or not program("pg_ctl"):
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # short: the path of a socket has at most 107 bytes
    try:
        server = Server(folder)
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server():
    with serving() as server:
        if server is None:
            reason = "no PostgreSQL server is installed: run scripts/postgres"
            if os.environ.get("CI") or os.environ.get("ASKWELL_REQUIRE_POSTGRES"):
                pytest.fail(reason)
            pytest.skip(reason)
        yield server


@pytest.fixture
def postgres_schema(postgres_server):
    """The name of a new, empty schema."""
    name = f"test_{uuid.uuid4().hex}"
    postgres_server.sql(f"CREATE SCHEMA {name}")
    return name


@pytest.fixture
def postgres_url(postgres_server, postgres_schema):
    """The URL of an empty store."""
    return postgres_server.url(schema=postgres_schema)
