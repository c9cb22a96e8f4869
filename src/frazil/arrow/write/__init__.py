"""Write Arrow rows as data files of a table: matched to its schema, split by partition, sorted,
rolled at the target size, with metrics.
"""

__all__ = [
    "add_files",
    "conform",
    "grouping",
    "metrics",
    "row_order",
    "store",
    "write_context",
    "write_options",
    "write_parquet",
    "write_rows",
]
