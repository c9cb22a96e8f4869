"""Copy a table's metadata with other paths in it, so that the table can be moved (Java's procedure rewrite_table_path)."""

__all__ = ["table_path"]
