"""Provide the forms of other libraries: frames of pandas, polars, DuckDB and DataFusion, and the
call chains of PyIceberg and Java.

`frames`, `lazy_frames`: convert rows. `expire_chain`: PyIceberg's chain of calls that expires
snapshots. `actions`: Java's chain of calls that compacts a table.
"""

__all__ = ["actions", "expire_chain", "frames", "lazy_frames"]
