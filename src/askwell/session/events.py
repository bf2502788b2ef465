"""The vocabulary of the log."""

import json
from typing import Any

__all__ = ["id_of", "text_of"]


def text_of(item: Any) -> str:
    """An item's id as the text it is kept as.

    >>> text_of(7), text_of("7"), id_of('["a", 1]')
    ('7', '"7"', ('a', 1))
    """
    try:
        return json.dumps(item, ensure_ascii=False)
    except TypeError:
        raise ValueError(
            f"ids must be numbers, text or tuples of them, but one is {item!r} ({type(item).__name__}). "
            "Try ids=[str(item) for item in ids]."
        ) from None


def id_of(text: str) -> Any:
    """The id that a text stands for."""
    value = json.loads(text)
    return tuple(value) if isinstance(value, list) else value
