"""Data: what a path holds, and how it becomes the inputs of a model and what people see. One reading for all of it.

    CSV, JSON lines, Parquet ───── Table ────┬── encoded: numbers for a model
                                             ├── Pool: inputs and their ids
                                             └── Items: texts, pictures or rows, as people see them
    many files, too large to read ─ Dataset ─┬── Rows: the same numbers in the same Pool, read a chunk at a time
                                             └── Items: the same rows, each read when it is shown

A path means the same everywhere: the same ids, columns, types, missing values and error messages.
"""

from askwell.data.dataset import BadRows, Dataset, Rows, open_dataset, open_rows
from askwell.data.display import Items, Kind, LeftOut, ShownImage, ShownItem, ShownRow, ShownText, open_items
from askwell.data.encoding import Encoded, encoded
from askwell.data.pool import Pool, as_pool
from askwell.data.reading import LabelledTable, holds_numbers, labelled, read_table
from askwell.data.table import Table, label_column

__all__ = [
    "BadRows",
    "Dataset",
    "Encoded",
    "Items",
    "Kind",
    "LabelledTable",
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
    "holds_numbers",
    "label_column",
    "labelled",
    "open_dataset",
    "open_items",
    "open_rows",
    "read_table",
]
