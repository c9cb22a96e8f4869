"""Take existing Parquet files over as tables: directories with Hive partition folders, and Spark's own tables (Java's procedures add_files,
snapshot and migrate)."""

__all__ = ["add_files", "new_tables", "source"]
