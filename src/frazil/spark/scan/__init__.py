"""Open Spark's own Parquet scan over chosen files by field id: the file index that prunes when the scan runs, and facts of files beside
their rows."""

__all__ = ["canary", "file_index", "file_keys", "lookup", "narrowing", "parquet_scan", "paths", "presence", "quick_columns", "shape"]
