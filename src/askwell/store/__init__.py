"""A store that loses nothing: append-only records in one SQLite file, or in PostgreSQL for a team."""

from askwell.store.records import Conflict, Record, Store, StoreError

__all__ = ["Conflict", "Record", "Store", "StoreError", "open_store"]

_FORMS = (
    'None (memory), "sqlite:///labels.db" (a file in the working directory), "sqlite:////full/path/labels.db" '
    'or "postgresql://user@host/database"'
)


def open_store(url: str | None, *, writable: bool = True) -> Store:
    """The store at a URL, made if there is none yet.

    A file on a disk or in a folder that may not be written can still be read with `writable=False`.

    None is a private store in memory; `sqlite:///labels.db` a file in the working directory, `sqlite:////...` one by
    its full path; `postgresql://user@host/database` is shared by a team and needs `pip install 'askwell[postgres]'`.

    >>> with open_store(None) as store:
    ...     store.append([Record("f3a1", "spam", "label", "17", {"label": "ham"})])[0].seq
    1
    """
    if url is not None and not isinstance(url, str):
        raise ValueError(f"store must be one of {_FORMS}, but it is of type {type(url).__name__}.")
    scheme, separator, rest = (url or "").partition("://")
    if url is None:
        from askwell.store.sqlite import SqliteStore

        return SqliteStore(None)
    if separator and scheme == "sqlite":
        if not rest.startswith("/") or rest in ("/", "/:memory:"):
            raise ValueError(f"store must be one of {_FORMS}, but it is {url!r}, which names no file. {_hint(rest)}")
        from askwell.store.sqlite import SqliteStore

        return SqliteStore(rest[1:], writable=writable)
    if separator and scheme in ("postgresql", "postgres"):
        from askwell.store.postgres import PostgresStore

        return PostgresStore(url)
    # The rest of an unknown URL is not shown: it may hold a password.
    shown = f"starts with {scheme + '://'!r}" if separator else "is a path" if "@" not in url else "has no scheme"
    raise ValueError(f"store must be one of {_FORMS}, but it {shown}.")


def _hint(rest: str) -> str:
    if "memory" in rest or not rest.strip("/"):
        return "For a store in memory give None."
    return "A file needs three slashes, or four before a full path."
