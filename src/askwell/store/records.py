"""What is kept: records that are added and never changed, and what askwell asks of a store.

The state of a run is the fold of its records. A store keeps them in order, durably, and knows nothing of what they
mean; `askwell.testing.StoreContract` proves that it does.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, final, runtime_checkable

__all__ = ["Conflict", "Content", "Migrations", "Record", "Store", "StoreError", "contents", "fresh", "kept", "newer"]

LONGEST = 2000  # bytes of a key or a run's name: what an index of PostgreSQL surely takes

Content: TypeAlias = tuple[str, str, str, str | None, str, str]  # key, run, kind, item, body as JSON, who
Migrations: TypeAlias = Sequence[Sequence[str]]  # the statements that lead from version i of a schema to i + 1


@final
@dataclass(frozen=True)
class Record:
    """One thing that happened in a run: a question, a label, a skip, a withdrawal.

    >>> Record(key="f3a1", run="spam", kind="label", item="17", body={"label": "ham"}, who="ada").seq
    0
    """

    key: str  # made by the caller, unique in the store: the same key twice is the same record
    run: str
    kind: str  # any short word; the store does not interpret it
    item: str | None  # the item's id as text
    body: Mapping[str, Any]  # a JSON object
    who: str = ""
    seq: int = 0  # the place in the store's order, given by the store
    at: float = 0.0  # unix seconds, given by the store unless it has one; for people: `seq` is the order


class Conflict(Exception):  # noqa: N818 - nothing is wrong: read what is new and decide again
    """Somebody else appended to the run in between, and nothing was stored."""


class StoreError(Exception):
    """The store cannot be opened, read or written; the message says why and what to try."""


@runtime_checkable
class Store(Protocol):
    """Where records live. Every method may be called from any thread."""

    def append(self, records: Sequence[Record], *, after: int | None = None) -> list[Record]:
        """Store all records or none, durably; the records as stored, in the given order.

        All belong to one run. A key that is stored already with the same content is not stored again, and comes back
        as it was: retries are safe. The same key with other content is a ValueError. With `after`, something new is
        stored only if the run has no record with a greater `seq`, or `Conflict` is raised. `seq` is the store's to
        give; `at` too, but a record that has one keeps it, as those of a backup do.
        """

    def read(self, run: str, *, after: int = 0) -> list[Record]:
        """The records of a run with `seq > after`, in order. No record appears later with a smaller `seq`."""

    def runs(self) -> list[str]:
        """The runs that have records, oldest first."""

    def close(self) -> None:
        """Close it. Closing twice is fine; any other use afterwards is a StoreError."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


# ---- from records to rows and back ---------------------------------------------------------------------------------


def contents(records: Sequence[Record]) -> list[Content]:
    """The records as texts that any database can keep, or a ValueError that says which one cannot be kept.

    >>> contents([Record("f3a1", "spam", "label", "17", {"sure": True, "label": "ham"})])
    [('f3a1', 'spam', 'label', '17', '{"label":"ham","sure":true}', '')]
    """
    rows = [_content(record) for record in records]
    runs = sorted({row[1] for row in rows})
    if len(runs) > 1:
        raise ValueError(f"records must belong to one run, but they belong to {runs}. Append run by run.")
    return rows


def kept(row: Content, seq: int, at: float) -> Record:
    """The record of a stored row."""
    key, run, kind, item, body, who = row
    return Record(key, run, kind, item, json.loads(body), who, seq, at)


def fresh(rows: Sequence[Content], stored: Mapping[str, Content], *, last: int, after: int | None) -> list[Content]:
    """The rows that have to be stored now: the rule of `Store.append`, as a pure function.

    `stored` are those known to the store, by key; `last` is the greatest `seq` of the run. A conflict goes before a
    clash of keys: who lost a race under a key that both derived should look again, not give up.
    """
    if all(stored.get(row[0]) == row for row in rows):
        return []
    if after is not None and last > after:
        raise Conflict(f"run {rows[0][1]!r} has records up to {last}, later than {after}: read them and decide again.")
    known, new = dict(stored), []
    for row in rows:
        if row[0] not in known:
            known[row[0]] = row
            new.append(row)
        elif known[row[0]] != row:
            raise ValueError(_clash(known[row[0]], row))
    return new


def _clash(old: Content, new: Content) -> str:
    names = ("key", "run", "kind", "item", "body", "who")
    differing = [name for name, a, b in zip(names, old, new, strict=True) if a != b]
    return (
        f"key {new[0]!r} is stored already with another {' and '.join(differing)}. A key stands for one record: "
        "make a new key for a new record; to correct a record, append another one."
    )


def _content(record: Record) -> Content:
    for name in ("key", "run", "kind", "item", "who"):
        value = getattr(record, name)
        if not (value is None and name == "item"):
            _check_text(name, value, empty=name in ("item", "who"), long=name in ("item", "who", "kind"))
    if isinstance(record.at, bool) or not isinstance(record.at, int | float) or not 0 <= record.at < math.inf:
        raise ValueError(f"at must be a number of seconds from 0, but it is {record.at!r}.")
    return (record.key, record.run, record.kind, record.item, _json(record.body), record.who)


def _check_text(name: str, value: object, *, empty: bool, long: bool) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, but it is {value!r} of type {type(value).__name__}.")
    if not value and not empty:
        raise ValueError(f"{name} must not be empty.")
    if "\0" in value:
        raise ValueError(f"{name} must not hold the character NUL, which databases do not keep, but it is {value!r}.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(
            f"{name} must be valid Unicode, but {value!r} holds half of a surrogate pair. Encode it, say as JSON."
        ) from None
    if size > LONGEST and not long:
        raise ValueError(
            f"{name} must have at most {LONGEST} bytes, but it has {size}. Put long texts into the body, or use a hash."
        )


def _json(body: Mapping[str, Any]) -> str:
    """One text for equal bodies: keys sorted, ASCII only."""
    if not isinstance(body, Mapping):
        raise ValueError(f"body must be a JSON object (a dict), but it is {body!r} of type {type(body).__name__}.")
    advice = "Use dicts with text keys, lists, texts, finite numbers, True, False and None."
    try:
        plain = _plain(body, "body")
        return json.dumps(plain, allow_nan=False, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise ValueError(f"body must be a JSON object, but it is nested too deeply. {advice}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"body must be a JSON object, but: {error}. {advice}") from None


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, Mapping):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"{where} has the key {strange[0]!r}, which is no text")
        return {key: _plain(inner, f"{where}[{key!r}]") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, f"{where}[{place}]") for place, inner in enumerate(value)]
    if isinstance(value, float) and value - value != 0:
        raise TypeError(f"{where} is {value!r}, which JSON does not know")
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{where} is {value!r} of type {type(value).__name__}")


def newer(place: str, version: int, known: int) -> str:
    """What to say of a schema from the future."""
    return (
        f"cannot use the store {place}: it has schema {version}, and this askwell knows up to {known}. A newer "
        "askwell has made or upgraded it: upgrade this one (pip install -U askwell). The store was left as it is."
    )
