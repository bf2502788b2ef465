"""Pools that stay in their files: rows of Parquet, CSV or saved arrays, read a piece at a time and never whole."""

from askwell.rows.rows import BadRows, Rows, Shard, open_rows

__all__ = ["BadRows", "Rows", "Shard", "open_rows"]
