"""Open Spark's own Parquet scan over chosen files by field id, prune its files when the query runs,
and join facts of files (partition values, sequence numbers, first row ids) to their rows."""

__all__ = ["canary", "file_index", "file_keys", "lookup", "misread", "narrowing", "parquet_scan", "paths", "presence", "quick_columns",
           "shape"]  # fmt: skip
