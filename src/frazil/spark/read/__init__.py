"""Read a scan plan or a changelog as a Spark DataFrame, by Spark's own Parquet scan where it
returns the right rows, else by Arrow in Python tasks; plan temporary views again after a commit
(`view_refresh`)."""

__all__ = ["changelog_frame", "native_read", "view_refresh"]
