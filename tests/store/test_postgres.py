"""The contract on a real PostgreSQL server, and what is true of servers only."""

import socket
import sys
import threading
from contextlib import closing, suppress
from functools import partial
from urllib.parse import quote

import psycopg
import pytest

from askwell.store import open_store
from askwell.store.contract import StoreContract, count_up, elsewhere, rest, write
from askwell.store.postgres import MIGRATIONS, PostgresStore
from askwell.store.records import Record, StoreError

SECOND = (*MIGRATIONS, ("ALTER TABLE askwell_record ADD COLUMN colour text", "SELECT pg_sleep(0.1)"))


class TestPostgres(StoreContract):
    @pytest.fixture
    def opener(self, postgres_url):
        return partial(open_store, postgres_url)


def label(key):
    return Record(key, "run", "label", "17", {"label": "cat"})


def keys(store):
    return [record.key for record in store.read("run")]


# ---- what is kept --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement", ["UPDATE askwell_record SET body = '{}'", "DELETE FROM askwell_record", "TRUNCATE askwell_record"]
)
def test_records_cannot_be_changed_even_by_hand(postgres_url, statement):
    with PostgresStore(postgres_url) as store:
        store.append([label("a")])
        with psycopg.connect(postgres_url) as hand, pytest.raises(psycopg.Error, match="never changed or deleted"):
            hand.execute(statement)
        assert keys(store) == ["a"]


def test_settings_of_the_server_do_not_weaken_it(postgres_server, postgres_schema):
    """Serializable readers would not see what they waited for; asynchronous commits would not last."""
    schema = f"{postgres_schema} -cdefault_transaction_isolation=serializable -csynchronous_commit=off"
    url = postgres_server.url(schema=schema)
    with PostgresStore(url) as store:
        assert store._held[0].execute("SHOW synchronous_commit").fetchone() == ("on",)
    workers = [elsewhere(count_up, partial(PostgresStore, url), name, 10) for name in ("one", "two")]
    for process, line in workers:
        assert line.recv() == "done"
        process.join()
    with PostgresStore(url) as store:
        assert [record.body["seen"] for record in store.read("run")] == list(range(20))


# ---- lost connections ----------------------------------------------------------------------------------------------


def end_connections(server):
    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'askwell'")


def test_a_lost_connection_is_made_again(postgres_server, postgres_url):
    with PostgresStore(postgres_url) as store, PostgresStore(postgres_url) as other:
        store.append([label("a")])
        for number, use in enumerate([store.runs, partial(store.append, [label("b")]), partial(store.read, "run")]):
            end_connections(postgres_server)
            assert use(), number
        assert keys(other) == ["a", "b"]


class Relay:
    """A socket that passes everything on, and breaks once: when a commit is sent, or when its answer comes back."""

    def __init__(self, server, folder, *, answered):
        self.target, self.answered = str(server.folder / ".s.PGSQL.5432"), answered
        self.armed = self.broken = self.silent = False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / ".s.PGSQL.5432"))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with suppress(OSError):
            while True:
                client, server = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
                server.connect(self.target)
                threading.Thread(target=self.relay, args=(client, server), daemon=True).start()

    def relay(self, client, server):
        with suppress(OSError), client, server:
            back = threading.Thread(target=self.pass_on, args=(server, client), daemon=True)
            back.start()
            while data := client.recv(1 << 16):
                if b"COMMIT" in data and self.armed and not self.broken:
                    self.broken = True
                    if self.answered:
                        self.silent = True
                        server.sendall(data)
                        back.join(5)  # until the answer came
                    client.shutdown(socket.SHUT_RDWR)
                    server.shutdown(socket.SHUT_RDWR)
                    return
                server.sendall(data)

    def pass_on(self, server, client):
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if self.silent:
                    self.silent = False
                    return
                client.sendall(data)


@pytest.mark.parametrize("answered", [False, True], ids=["before the commit", "after the commit"])
def test_an_append_of_unknown_fate_is_stored_once(postgres_server, postgres_schema, tmp_path_factory, answered):
    folder = tmp_path_factory.mktemp("s")
    relay = Relay(postgres_server, folder, answered=answered)
    through = postgres_server.url(schema=postgres_schema).replace(
        quote(str(postgres_server.folder), safe=""), quote(str(folder), safe="")
    )
    with closing(relay.listener), PostgresStore(through) as store:
        relay.armed = True
        stored = store.append([label("a"), label("b")], after=0)
        assert relay.broken
        assert store.read("run") == stored
        assert [record.seq for record in stored] == [1, 2]


def test_a_crashed_server_has_what_it_acknowledged(postgres_server, postgres_url):
    process, line = elsewhere(write, partial(PostgresStore, postgres_url), "writer", 10**6)
    acknowledged = {line.recv() for _ in range(40)} - {"begin"}
    with PostgresStore(postgres_url) as store:
        store.runs()
        postgres_server.stop("immediate")
        process.kill()  # it may be in the middle of complaining
        process.join()
        acknowledged |= {key for key in rest(line) if key != "begin"}
        with pytest.raises(StoreError, match="cannot use the store"):
            store.read("run")
        postgres_server.start()
        found = keys(store)
        assert len(found) == len(set(found))
        assert acknowledged <= set(found)
        store.append([label("and on it goes")])


# ---- what goes wrong -----------------------------------------------------------------------------------------------


def test_a_wrong_password_is_said_and_not_shown(postgres_server):
    postgres_server.sql("DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'right'")
    with pytest.raises(StoreError, match="the user or the password is wrong") as caught:
        PostgresStore(postgres_server.url(user="locked", password="hunter2/@"))
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://ada:hunter2@localhost:notaport/x", "the port in the URL is no number"),
        ("postgresql://ada:hunter2@[half/x", "cannot read the URL"),
        ("postgresql://ada:hunter2@/x?host=%2Fno%2Fsuch%2Ffolder", "no server answers"),
        ("postgresql://ada:hunter2@127.0.0.1:1/x", "no server answers"),
        ("postgresql://ada:hunter2@no-such-host.invalid/x", "no host of that name"),
    ],
)
def test_a_wrong_address_is_said_and_the_password_is_not(url, message):
    with pytest.raises(StoreError, match=message) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_what_the_server_has_not_or_does_not_allow_is_said(postgres_server):
    postgres_server.sql(
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN",
        "CREATE DATABASE old ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
    )
    for options, message in [
        ({"database": "missing"}, "no such database"),
        ({"user": "stranger"}, "no such user"),
        ({"user": "guest"}, "the user may not do this"),
        ({"schema": "missing"}, "its search path names no schema"),
        ({"database": "old"}, "its encoding is LATIN1"),
    ]:
        with pytest.raises(StoreError, match=message):
            PostgresStore(postgres_server.url(**options))


def test_a_missing_driver_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "askwell.store.postgres")
    with pytest.raises(ImportError, match=r"askwell\[postgres\]"):
        open_store("postgresql://localhost/x")


# ---- migrations ----------------------------------------------------------------------------------------------------


def open_and_count(opener, line):
    with opener() as store:
        line.send(len(store.read("run")))


def test_an_upgrade_by_several_at_once_and_what_the_old_ones_see(postgres_url):
    with PostgresStore(postgres_url) as old:
        old.append([label("a")])
        workers = [elsewhere(open_and_count, partial(PostgresStore, postgres_url, migrations=SECOND)) for _ in range(3)]
        for process, line in workers:
            assert line.recv() == 1
            process.join()
        with pytest.raises(StoreError, match="upgrade this one"):
            old.append([label("b")])
        assert keys(old) == ["a"]
    with pytest.raises(StoreError, match="schema 2, and this askwell knows up to 1"):
        PostgresStore(postgres_url)
    with PostgresStore(postgres_url, migrations=SECOND) as new:
        new.append([label("b")])


def test_a_migration_that_fails_changes_nothing(postgres_url):
    with PostgresStore(postgres_url) as store:
        store.append([label("a")])
    with pytest.raises(StoreError, match="syntax error"):
        PostgresStore(postgres_url, migrations=(*MIGRATIONS, ("CREATE TABLE extra (x int)", "NO SUCH STATEMENT")))
    with PostgresStore(postgres_url) as store, psycopg.connect(postgres_url) as hand:
        assert keys(store) == ["a"]
        assert hand.execute("SELECT to_regclass('extra')").fetchone() == (None,)
