"""The private PostgreSQL server of the store's tests, for the session's."""

from store.conftest import postgres_schema, postgres_server, postgres_url

__all__ = ["postgres_schema", "postgres_server", "postgres_url"]
