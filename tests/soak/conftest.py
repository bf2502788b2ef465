"""The private PostgreSQL server of the store's tests, for a server that is killed."""

from store.conftest import postgres_server

__all__ = ["postgres_server"]
