"""Open Spark's own Parquet scan over chosen files by field id, prune its files when the query runs,
and join facts of files (partition values, sequence numbers, first row ids) to their rows."""

__all__ = [
    "field_id_check",
    "file_columns",
    "file_facts",
    "file_index",
    "file_keys",
    "misread",
    "parquet_scan",
    "paths",
    "quick_columns",
    "read_schema",
    "runtime_pruning",
]
