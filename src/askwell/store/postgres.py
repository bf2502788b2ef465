"""Records in PostgreSQL, for a team. The same promises as a file, from any number of machines.

One advisory lock makes appends take turns, so that the order of `seq` is the order in which records become visible.
"""

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, final

from askwell.store.records import Content, Migrations, Record, StoreError, contents, fresh, kept, newer

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as missing:
    raise ImportError("a store in PostgreSQL needs psycopg: pip install 'askwell[postgres]'") from missing

__all__ = ["MIGRATIONS", "PostgresStore"]

Result = TypeVar("Result")

MIGRATIONS: Migrations = (
    (
        # Collation "C": an upgrade of the system's locales cannot disorder the indexes. The body is text, not jsonb,
        # which would change numbers and refuse some characters.
        """CREATE TABLE askwell_record (
            seq bigint PRIMARY KEY,
            key text COLLATE "C" NOT NULL UNIQUE,
            run text COLLATE "C" NOT NULL,
            kind text NOT NULL,
            item text,
            body text NOT NULL,
            who text NOT NULL,
            at double precision NOT NULL
        )""",
        "CREATE INDEX askwell_record_run ON askwell_record (run, seq)",
        """CREATE FUNCTION askwell_refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'records are never changed or deleted: append another one'; END $$""",
        """CREATE TRIGGER askwell_record_is_not_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON askwell_record
            FOR EACH STATEMENT EXECUTE FUNCTION askwell_refuse()""",
    ),
)
SPACE = 0x61736B77  # "askw": advisory locks are shared by all programs of a database
QUIET: dict[str, str | int] = {  # a machine that vanished is noticed in a minute, by either side
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "application_name": "askwell",
}
SETTINGS = {
    "lock_timeout": "60s",
    "idle_in_transaction_session_timeout": "10s",  # who stops in the middle does not stop the others
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "default_transaction_isolation": "read committed",  # what was waited for must be seen afterwards
    "client_encoding": "UTF8",
}
COLUMNS = "key, run, kind, item, body, who, seq, at"


@final
class PostgresStore:
    """A store in the PostgreSQL database at `url`; its two tables are made in the first schema of the search path."""

    def __init__(self, url: str, *, migrations: Migrations = MIGRATIONS) -> None:
        self._place, self._conninfo, self._secret = _address(url)
        self._migrations = migrations
        self._pid = os.getpid()
        self._mutex = threading.RLock()
        self._held = [self._connected()]  # the connection, where the finalizer finds the present one
        self._shut = weakref.finalize(self, _shut, self._held, self._pid)

    # ---- the contract ----------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], *, after: int | None = None) -> list[Record]:
        """See `Store.append`."""
        rows, times = contents(records), {record.key: record.at for record in records}

        def insert(connection: "psycopg.Connection[Any]") -> list[Record]:
            connection.execute("SELECT pg_advisory_xact_lock(%s, 'askwell_record'::regclass::oid::int)", [SPACE])
            keys = [row[0] for row in rows]
            stored = {row[0]: row for row in connection.execute(f"{SELECT} WHERE key = ANY(%s)", [keys])}
            (found, last, total, now) = connection.execute(LAST, [rows[0][1]]).fetchone() or (0, 0, 0, 0.0)
            if found != len(self._migrations):
                raise StoreError(newer(self._place, found, len(self._migrations)))
            new = fresh(rows, {key: row[:6] for key, row in stored.items()}, last=last, after=after)
            placed = [(*row, total + step, times[row[0]] or now) for step, row in enumerate(new, 1)]
            with connection.cursor() as cursor:
                cursor.executemany(f"INSERT INTO askwell_record ({COLUMNS}) VALUES ({', '.join(['%s'] * 8)})", placed)
            known = stored | {row[0]: row for row in placed}
            return [kept(row, *known[row[0]][6:]) for row in rows]

        return self._patiently(insert) if rows else self._patiently(lambda connection: [])

    def read(self, run: str, *, after: int = 0) -> list[Record]:
        """See `Store.read`."""
        found = self._rows(f"{SELECT} WHERE run = %s AND seq > %s ORDER BY seq", run, after)
        return [kept(_content(row), *row[6:]) for row in found]

    def runs(self) -> list[str]:
        """See `Store.runs`."""
        return [run for (run,) in self._rows("SELECT run FROM askwell_record GROUP BY run ORDER BY min(seq)")]

    def close(self) -> None:
        """See `Store.close`."""
        with self._mutex:
            self._shut()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._shut.alive:
            raise StoreError("the store is closed. Open it again with open_store.")
        if os.getpid() != self._pid:
            raise StoreError("the store was opened before this process was forked. Open it again in the new process.")

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._patiently(lambda connection: connection.execute(query, values).fetchall())

    def _patiently(self, work: "Callable[[psycopg.Connection[Any]], Result]") -> Result:
        """Do the work in a transaction; if the connection is lost, once more on a new one.

        Whether the first try was committed does not matter: reading changes nothing, and appending finds its own keys.
        """
        with self._mutex:
            self._check_open()
            for last in (False, True):
                if self._held[0].closed:
                    self._held[0] = self._connected()
                try:
                    with self._held[0].transaction():
                        return work(self._held[0])
                except psycopg.Error as error:
                    if last or not self._held[0].closed:
                        raise self._explained(error) from error
        raise AssertionError  # the loop returns or raises

    def _connected(self) -> "psycopg.Connection[Any]":
        """A connection that is set up, with its tables there."""
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True)
        except (psycopg.Error, UnicodeError) as error:
            raise self._explained(error) from None  # the error below holds the whole address
        try:
            changes = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in SETTINGS.items())
            connection.execute(f"SELECT {changes}")
            (encoding, commit) = connection.execute(
                "SELECT current_setting('server_encoding'), current_setting('synchronous_commit')"
            ).fetchone() or ("", "")
            if encoding != "UTF8":
                raise StoreError(
                    f"cannot use the store {self._place}: its encoding is {encoding}, which cannot hold every text. "
                    "Make a database for askwell: CREATE DATABASE askwell ENCODING 'UTF8' TEMPLATE template0"
                )
            if commit == "off":  # what is acknowledged must be on the disk
                connection.execute("SET synchronous_commit = on")
            _migrate(connection, self._migrations, self._place)
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise self._explained(error) from error
            raise
        return connection

    def _explained(self, error: Exception) -> StoreError:
        said = " ".join(str(error).split())
        if self._secret:
            said = said.replace(self._secret, "***")
        causes = [cause for word, cause in CAUSES if word in said]
        advice = causes[0] if causes else "look at the server's log, and try again"
        return StoreError(f"cannot use the store {self._place}: {advice}. (The server or its driver said: {said})")


SELECT = f"SELECT {COLUMNS} FROM askwell_record"
LAST = """
    SELECT (SELECT version FROM askwell_schema),
           (SELECT coalesce(max(seq), 0) FROM askwell_record WHERE run = %s),
           (SELECT coalesce(max(seq), 0) FROM askwell_record),
           extract(epoch FROM clock_timestamp())::double precision"""
CAUSES = (
    ("password", "the user or the password is wrong. Look at the URL, or at PGPASSWORD and ~/.pgpass"),
    ("authentication failed", "the server does not let this user in. Look at the URL and the server's pg_hba.conf"),
    ("pg_hba.conf", "the server does not let this user in from here. Add a line to the server's pg_hba.conf"),
    ("role", "there is no such user. Make one with createuser, or correct the URL"),
    ("no schema has been selected", "its search path names no schema. Make one: CREATE SCHEMA askwell"),
    ("permission denied", "the user may not do this. Ask for the right to CREATE and USE in the schema"),
    ("Servname", "the port in the URL is no number. Write host:5432/database"),
    ("resolve host", "there is no host of that name. Look at the host in the URL and at the network"),
    # psycopg 3.2.1 gives what the system says, and no more.
    ("Name or service", "there is no host of that name. Look at the host in the URL and at the network"),
    ("translate host", "there is no host of that name. Look at the host in the URL and at the network"),
    ("refused", "no server answers there. Look whether PostgreSQL is running, and at host and port in the URL"),
    ("No such file", "no server answers there. Look whether PostgreSQL is running, and at host and port in the URL"),
    ("timeout", "the server, or another program that holds its lock, did not answer in time. Try again"),
    ("starting up", "the server is starting. Try again in a moment"),
    ("shutting down", "the server is shutting down. Try again when it is back"),
    ("closed the connection", "the server ended the connection. Try again when it is back"),
    ("terminating connection", "the server ended the connection. Try again when it is back"),
    ("too many", "the server has no connection left. Close some, or raise max_connections"),
    ("read-only", "the server is a read-only copy. Give the URL of the primary"),
    ("No space left", "the server's disk is full. Nothing was stored: free some space and try again"),
    ("does not exist", "there is no such database. Make it with createdb, or correct the URL"),
)


def _address(url: str) -> tuple[str, str, str]:
    """(the place in words that may be shown, what the driver takes, the password)."""
    try:
        parts = conninfo_to_dict(url)
        info = make_conninfo(url, **{name: value for name, value in QUIET.items() if name not in parts})
    except psycopg.Error:
        raise StoreError(
            "cannot read the URL of the store (it is not shown, since it may hold a password). It should look like "
            "postgresql://user:password@host:5432/database; in the password write %40 for @, %2F for /, %25 for %."
        ) from None  # the driver's error holds parts of the URL
    user, host, database = (str(parts.get(name) or "") for name in ("user", "host", "dbname"))
    return f"'postgresql://{user}@{host}/{database}'", info, str(parts.get("password") or "")


def _migrate(connection: "psycopg.Connection[Any]", migrations: Migrations, place: str) -> None:
    """Bring the tables up to date, one transaction for each version, one process at a time."""
    while (found := _version(connection)) < len(migrations):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", [SPACE])
            if _version(connection) != found:  # somebody else did it while we waited
                continue
            if not found:
                connection.execute("CREATE TABLE askwell_schema (version int NOT NULL)")
                connection.execute("INSERT INTO askwell_schema VALUES (0)")
            for statement in migrations[found]:
                connection.execute(statement)
            connection.execute("UPDATE askwell_schema SET version = %s", [found + 1])
    if found > len(migrations):
        raise StoreError(newer(place, found, len(migrations)))


def _version(connection: "psycopg.Connection[Any]") -> int:
    """How many migrations were made."""
    # Not to_regclass, which after waiting for a lock may still remember that there was no such table.
    there = connection.execute(
        "SELECT 1 FROM pg_class WHERE relname = 'askwell_schema' AND pg_table_is_visible(oid)"
    ).fetchone()
    row = connection.execute("SELECT version FROM askwell_schema").fetchone() if there else None
    return int(row[0]) if row else 0


def _content(row: tuple[Any, ...]) -> Content:
    key, run, kind, item, body, who = row[:6]
    return (key, run, kind, item, body, who)


def _shut(held: "list[psycopg.Connection[Any]]", pid: int) -> None:
    """Close a store that is closed, forgotten or left open at the end of the program."""
    if os.getpid() == pid:  # else a forked child, and the connection is its parent's
        held[0].close()
