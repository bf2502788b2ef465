"""Tables: what is in a file, and how its columns become the numbers that a model takes."""

from askwell.tables.encoding import Encoded, encoded
from askwell.tables.labelled import Labelled, labelled
from askwell.tables.reading import read_table
from askwell.tables.table import Table, label_column

__all__ = ["Encoded", "Labelled", "Table", "encoded", "label_column", "labelled", "read_table"]
