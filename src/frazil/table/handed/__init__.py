"""Convert rows to the frames of other libraries: pandas, polars and DuckDB, and lazy frames of polars and DataFusion.

`expire_chain`: PyIceberg's chain of calls that expires snapshots. `actions`: Java's chain of calls that compacts a table.
"""

__all__ = ["actions", "expire_chain", "frames", "lazy_frames"]
