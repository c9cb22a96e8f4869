"""Open Spark's own Parquet scan over chosen files by field id, prune its files when the query runs,
and join facts of files (partition values, sequence numbers, first row ids) to their rows."""

__all__ = [
    "file_columns",
    "file_keys",
    "parquet_scan",
    "paths",
    "planned_files",
    "pushed_filters",
    "read_schema",
    "runtime_pruning",
]
