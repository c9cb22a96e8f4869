"""Import existing Parquet files into tables: directories with Hive partition folders, and Spark's
own tables (Java's procedures add_files, snapshot and migrate). `move_tables` moves tables from one
catalog to another."""

__all__ = ["add_files", "move_tables", "new_tables", "register", "source"]
