"""Convert rows to and from the frames of other libraries: pandas, polars, DuckDB, DataFusion."""

__all__ = ["frames", "lazy_frames", "plain_files"]
