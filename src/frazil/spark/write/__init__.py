"""Write a Spark DataFrame as data files, by Spark's Parquet writer or by Arrow in tasks,
distributed and sorted as the table asks.

Start at `write_frame.write`, which chooses: `spark_writer` lets Spark's Parquet writer write into a
private folder and takes over its files; `arrow_write` writes in tasks through Arrow, for what
Spark's writer cannot do. `layout`: distribution and order of rows before either;
`catalyst_transforms`: partition values as columns. `conform_frame`: the columns of the table. The
write options are in `frazil.arrow.write.write_options`, for both writers.
"""

__all__ = ["arrow_write", "catalyst_transforms", "conform_frame", "layout", "write_frame"]
