"""Data: what a path holds, and how it becomes the inputs of a model and what people see. One reading for all of it.

    CSV, JSON lines, Parquet ── Table ──┬── encoded: numbers for a model
                                        ├── Pool: inputs and their ids, in memory
                                        └── Items: texts, pictures or rows, as people see them
    many of them, too large to read ── Rows: the same numbers and ids, read a chunk at a time

A path means the same everywhere: the same ids, columns, types, missing values and error messages.
"""

from askwell.data.dataset import BadRows, Rows, open_rows
from askwell.data.display import Items, Kind, LeftOut, ShownImage, ShownItem, ShownRow, ShownText, open_items
from askwell.data.encoding import Encoded, encoded
from askwell.data.pool import Pool, as_pool
from askwell.data.reading import Labelled, labelled, read_table
from askwell.data.table import Table, label_column

__all__ = [
    "BadRows",
    "Encoded",
    "Items",
    "Kind",
    "Labelled",
    "LeftOut",
    "Pool",
    "Rows",
    "ShownImage",
    "ShownItem",
    "ShownRow",
    "ShownText",
    "Table",
    "as_pool",
    "encoded",
    "label_column",
    "labelled",
    "open_items",
    "open_rows",
    "read_table",
]
