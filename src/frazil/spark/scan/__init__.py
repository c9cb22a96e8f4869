"""Open Spark's own Parquet scan over chosen files by field id: the file index that prunes when the scan runs, and facts of files beside
their rows."""
