"""Copy a table's metadata with changed paths, so that the table can be moved (Java's procedure
rewrite_table_path).
"""

__all__ = ["table_path"]
