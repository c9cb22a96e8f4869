"""Convert rows to the frames of other libraries: pandas, polars and DuckDB, and lazy frames of polars and DataFusion."""

__all__ = ["frames", "lazy_frames"]
