"""Convert rows to the frames of other libraries: pandas, polars and DuckDB, and lazy frames of polars and DataFusion.

`expire_chain`: PyIceberg's chain of calls that expires snapshots.
"""

__all__ = ["expire_chain", "frames", "lazy_frames"]
