"""Write a Spark DataFrame as data files, by Spark's Parquet writer or by Arrow in tasks, distributed and sorted as the table asks."""

__all__ = ["arrow_write", "conform_frame", "layout", "native_write"]
