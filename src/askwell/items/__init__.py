"""Items: what can be asked about, as people see it: a text, a picture or a row, each with an id that lasts."""

from askwell.items.opening import open_items
from askwell.items.records import Items, Kind, LeftOut, Shown, ShownImage, ShownRow, ShownText

__all__ = [
    "Items",
    "Kind",
    "LeftOut",
    "Shown",
    "ShownImage",
    "ShownRow",
    "ShownText",
    "open_items",
]
